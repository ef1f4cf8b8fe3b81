"""What an audit has found: counts on fresh outputs, and the bounds that follow from them."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainccinv, betaincinv

from .._digits import printed_down, printed_up
from .._printing import as_html, violation_line
from ..guarantee import Definition, PrivacyGuarantee
from ..mechanisms.mutual_information import information_delta

_N_POINTS = 17


def clopper_pearson(successes, n, mistake):
    """Bound a probability from both sides, each bound failing with probability at most `mistake` [1]_.

    .. [1] C. Clopper and E. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
       Binomial", Biometrika 26, 1934.
    """
    failures = n - successes
    low = np.where(successes > 0, betaincinv(np.maximum(successes, 1), failures + 1, mistake), 0.0)
    high = np.where(failures > 0, betainccinv(successes + 1, np.maximum(failures, 1), mistake), 1.0)
    return low, high


def epsilon_bound(power, false_alarm, delta):
    """Least epsilon at which an event can be so likely under one data set and so unlikely under the other.

    Largest of ``log((power - delta) / false_alarm)``, the same for the complement of the event with the roles
    exchanged, and 0; `power` bounds the first probability from below, `false_alarm` the second from above.
    """
    tiny = np.finfo(float).tiny
    event = np.maximum(power - delta, tiny) / false_alarm
    complement = np.maximum(1 - false_alarm - delta, tiny) / np.maximum(1 - power, tiny)
    return np.maximum(np.log(np.maximum(event, complement)), 0.0)


def _percentage(confidence):
    """Print a confidence so that it does not round to one."""
    return printed_down(confidence) if confidence <= 0.999 else f"1 - {printed_up(1 - confidence, digits=2)}"


def _require_guarantee(guarantee):
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"An audit is compared with a guarantee, estimator.guarantee_, got {type(guarantee).__name__}.")


def _require_differential_privacy(guarantee):
    if guarantee.definition not in (Definition.DP, Definition.CLAIMED_DP):
        raise ValueError(f"An audit bounds differential privacy; it says nothing about {guarantee.definition}.")


@dataclass(frozen=True, repr=False)
class AuditResult:
    """A lower bound on epsilon, with the counts that prove it.

    Parameters
    ----------
    epsilon : float
        Lower bound on the epsilon of the release, at `delta`.
    delta : float
        Delta at which epsilon is bounded.
    confidence : float
        Probability that the bound holds, whatever the release, if its calls do not depend on each other.
    n_trials : int
        Number of outputs drawn from each data set.
    n_tested : int
        Number of them, from each, that `hits` and `false_alarms` count; the others chose the attack.
    distinguisher : str
        Attack that was chosen.
    accused : {"a", "b"}
        Data set that the attack accuses.
    hits : int
        How often it accused when the output came from that data set.
    false_alarms : int
        How often it accused when the output came from the other one.

    Examples
    --------
    >>> from skdprp.audit import AuditResult
    >>> counts = {"n_tested": 1000, "hits": 930, "false_alarms": 120}
    >>> AuditResult(2.2097, 0.0, 0.99, n_trials=2000, distinguisher="linear", accused="b", **counts)
    epsilon >= 2.2097 at delta=0.0 with confidence 0.99 (linear: 930 hits, 120 false alarms in 1000 tests each)
    """

    epsilon: float
    delta: float
    confidence: float
    n_trials: int
    n_tested: int
    distinguisher: str
    accused: str
    hits: int
    false_alarms: int

    def __repr__(self):
        at = f"at delta={printed_down(self.delta)} with confidence {_percentage(self.confidence)}"
        if not self.epsilon > 0:  # hits that are as many as false alarms only frighten
            return f"nothing shown {at} ({self.distinguisher}: {self.n_tested} tests each)"
        counts = f"{self.hits} hits, {self.false_alarms} false alarms in {self.n_tested} tests each"
        return f"epsilon >= {printed_down(self.epsilon)} {at} ({self.distinguisher}: {counts})"

    def _repr_html_(self):
        counts = {
            f"accuses {self.accused}, rightly": f"{self.hits} of {self.n_tested}",
            f"accuses {self.accused}, wrongly": f"{self.false_alarms} of {self.n_tested}",
        }
        facts = {
            "epsilon is at least": printed_down(self.epsilon) if self.epsilon > 0 else "0: nothing shown",
            "at delta": printed_down(self.delta),
            "with confidence": _percentage(self.confidence),
            "attack": self.distinguisher,
            **(counts if self.epsilon > 0 else {}),
            "outputs drawn from each data set": f"{self.n_trials}",
        }
        return as_html("Audit of a release", facts)

    @property
    def power_bound(self):
        """Lower confidence bound on the probability of a hit."""
        return float(clopper_pearson(self.hits, self.n_tested, (1 - self.confidence) / 2)[0])

    @property
    def false_alarm_bound(self):
        """Upper confidence bound on the probability of a false alarm."""
        return float(clopper_pearson(self.false_alarms, self.n_tested, (1 - self.confidence) / 2)[1])

    def epsilon_at(self, delta):
        """Lower bound on epsilon at another delta, from the same counts and with the same confidence.

        Parameters
        ----------
        delta : float
            Delta of (epsilon, delta)-DP.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `delta` is no probability.
        """
        if not 0 <= delta <= 1:
            raise ValueError(f"delta must be between 0 and 1, got {delta}.")
        return float(epsilon_bound(self.power_bound, self.false_alarm_bound, delta))

    def exceeds(self, guarantee):
        """Whether the audit refutes a guarantee.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            A guarantee of differential privacy, proved or only claimed, or of MI-DP, whose bound in bits limits how far
            apart the two distributions of the outputs can be. Where there is a privacy profile, all of it is compared:
            with a small delta, much of what attacks can show is at small epsilons.

        Returns
        -------
        bool

        Raises
        ------
        TypeError
            If it is no guarantee.
        ValueError
            If the guarantee has another definition: outputs of two data sets say nothing about individual DP, which
            has the noise of one of them held fixed.
        """
        _require_guarantee(guarantee)
        if guarantee.definition in (Definition.MI_DP, Definition.CLAIMED_MI_DP):
            return bool(self.power_bound - self.false_alarm_bound > information_delta(guarantee.epsilon))
        _require_differential_privacy(guarantee)
        return bool(self._violation(guarantee))

    def _violation(self, guarantee):
        """Say what was shown that a guarantee excludes, if anything."""
        points = [(guarantee.epsilon, guarantee.delta)]
        if guarantee.definition is Definition.DP and guarantee.loss is not None and np.isfinite(guarantee.epsilon):
            # The whole profile is guaranteed, and attacks show most at small epsilons, where delta is large.
            epsilons = np.linspace(0, guarantee.epsilon, _N_POINTS)
            points += [(epsilon, guarantee.profile(epsilon)) for epsilon in epsilons]
        for epsilon, delta in points:
            if (shown := self.epsilon_at(delta)) > epsilon:
                return violation_line(shown, epsilon, delta)
        return ""

    def attach_to(self, guarantee):
        """Return a guarantee with this bound, at its own delta, written into it; marked as violated if it is.

        What another audit has shown stays where it is more. The guarantee is printed and saved with the bound, which is
        a number computed from the rows of the audit: they are public or made up, or it is no number to publish.

        A bound holds with the confidence of its audit alone. Of a hundred audits at .99 one shows too much, on average,
        and a guarantee that is true may be marked as violated: if you attach several, raise the confidence of each.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What was audited.

        Returns
        -------
        PrivacyGuarantee
            With the fields `audited_epsilon` and, if the audit refutes the guarantee, `violation`.

        Raises
        ------
        TypeError
            If it is no guarantee.
        ValueError
            If the guarantee has another definition than differential privacy.

        Examples
        --------
        >>> from skdprp import DPOPORP, audit_epsilon, worst_neighbours
        >>> sketch = DPOPORP(2, noise="laplace", random_state=0).fit([[0.0, 0.0]])
        >>> result = audit_epsilon(sketch, *worst_neighbours(sketch, [[0.0, 0.0]]))
        >>> result.attach_to(sketch.guarantee_).audited_epsilon == result.epsilon
        True
        """
        _require_guarantee(guarantee)
        _require_differential_privacy(guarantee)
        shown = max(self.epsilon_at(guarantee.delta), guarantee.audited_epsilon or 0.0)
        return replace(guarantee, audited_epsilon=shown, violation=self._violation(guarantee) or guarantee.violation)
