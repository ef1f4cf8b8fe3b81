"""Progress of a descent: callbacks and printed lines see the step alone."""

import importlib.util
import io
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest

from skdprp import DPSGDClassifier


def test_verbose_tells_the_step_alone(binary):
    X, y = binary
    told = []
    for rows, labels in ((X, y), (10 * X, 1 - y)):
        with redirect_stdout(io.StringIO()) as out:
            DPSGDClassifier(n_epochs=10, verbose=2).fit(rows, labels)
        told.append(out.getvalue())
    assert told[0] == told[1] == "[DPSGDClassifier] step 5 of 10\n[DPSGDClassifier] step 10 of 10\n"


class Spy:
    """A callback that asks for everything."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        """Note the start."""
        self.seen.append("setup")

    def teardown(self, estimator, context):
        """Note the end."""
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        """Look around."""
        self._see(estimator, X, y, metadata, fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        """Look around."""
        self._see(estimator, X, y, metadata, fitted_estimator)

    def _see(self, estimator, *given):
        assert given == (None,) * 4
        arrays = [name for name, value in vars(estimator).items() if isinstance(value, np.ndarray | list)]
        self.seen.append(arrays)


def test_callbacks_count_steps_and_see_nothing(binary):
    """scikit-learn's callbacks, where it has them, run at every step and are handed no rows, labels or weights."""
    pytest.importorskip("sklearn.callback")
    spy = Spy()
    DPSGDClassifier(n_epochs=4).set_callbacks(spy).fit(*binary)
    assert spy.seen[0] == "setup"
    assert spy.seen[-1] == "teardown"
    between = spy.seen[1:-1]
    assert len(between) == 2 * (4 + 1)
    assert all(arrays == ["_skl_callbacks_to_teardown"] or "_skl_callbacks" in arrays for arrays in between)
    assert not any(name in ("coefs_", "X", "y") for arrays in between for name in arrays)


def test_without_callbacks_of_scikit_learn(monkeypatch, capsys):
    """Before scikit-learn 1.9 there are none: the step is told to the terminal alone."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.find_spec("skdprp.neural_network._progress")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.with_callbacks(len) is len
    estimator = module.CallbackSupportMixin()
    assert not hasattr(estimator, "set_callbacks")
    module.report_steps(estimator, n_steps=1, verbose=1)(1)
    assert capsys.readouterr().out == "[CallbackSupportMixin] step 1 of 1\n"
