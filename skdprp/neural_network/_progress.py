"""Callbacks of scikit-learn, where it has them."""

from functools import wraps

from .._recording import current_entry, handed_on, outside_of_entries

try:
    from sklearn import callback
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9
    callback = None

    class CallbackSupportMixin:
        """An estimator without callbacks."""


__all__ = ["CallbackSupportMixin", "report_steps", "with_callbacks"]


def with_callbacks(method):
    """Call a method that draws noise so that callbacks end with it; what they release when they end is their own."""
    if callback is None:
        return method

    @wraps(method)
    def _method(estimator, *args):
        @callback.with_callbacks
        def within_entry(estimator):
            """Call the method within the entry of the ledger that callbacks were called outside of."""
            with handed_on(entry):
                return method(estimator, *args)

        entry = current_entry()
        with outside_of_entries():
            return within_entry(estimator)

    return _method


def report_steps(estimator, n_steps, verbose):
    """Return a function to call at the end of each step, which tells callbacks and the terminal that it is done.

    Nothing but the number of the step is told: not the rows, nor the weights, nor a score, each of which would be one
    more release. `verbose` is the number of lines to print.
    """
    supported = hasattr(estimator, "_init_callback_context")
    if supported:
        with outside_of_entries():  # what a callback releases is its own
            fit = estimator._init_callback_context(max_subtasks=n_steps)
            fit.call_on_fit_task_begin(estimator=estimator)

    def _tell(step):
        with outside_of_entries():
            if verbose and (step * verbose // n_steps) > ((step - 1) * verbose // n_steps):
                print(f"[{type(estimator).__name__}] step {step} of {n_steps}")
            if supported:
                task = fit.subcontext(task_name="step").call_on_fit_task_begin(estimator=estimator)
                task.call_on_fit_task_end(estimator=estimator)
                if step == n_steps:
                    fit.call_on_fit_task_end(estimator=estimator)

    return _tell
