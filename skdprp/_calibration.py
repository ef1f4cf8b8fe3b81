"""What an estimator fixes before it draws any noise: the noise, and what is true of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum

import numpy as np

from ._digits import to_python
from ._errors import warn_at_caller
from ._fits_around import fits_before, name_of_fit, note_fit
from ._recording import in_plan
from .guarantee import ROWS_ARE_READ_ALONE, TYPES_ARE_PUBLIC, Definition, PrivacyGuarantee, PrivacyWarning
from .ledger._ledger import Release
from .mechanisms.published import Published

_OUT_OF_REACH = "at so large an epsilon, or so small a delta, tails of the noise count that are not sampled exactly"
_LOG_OF_MOST_NUMBERS = 32 * math.log(2)  # of one release


@dataclass(frozen=True)
class Calibration:
    """Noise and guarantee of one fit, computed from public facts alone.

    `fitted` has the public fitted attributes by their names, such as ``scale_``; `noise` what the release needs
    besides, and `problem` the public facts that it was found for; `claimed` what was published, where that differs from
    the guarantee. `in_memory` says why all rows have to be there at once, where they have to.
    """

    guarantee: PrivacyGuarantee
    fitted: dict = field(default_factory=dict)
    noise: object = None
    claimed: PrivacyGuarantee | None = None
    problem: object = None
    in_memory: str = ""
    is_void: bool = False  # kept by `replace`: an infinite epsilon alone does not tell why it is

    def __post_init__(self):
        assumptions = dict.fromkeys([*self.guarantee.assumptions, TYPES_ARE_PUBLIC, ROWS_ARE_READ_ALONE])
        guarantee = replace(self.guarantee, assumptions=tuple(assumptions))
        # Noise with a scale has tails that are not sampled exactly; what has none, such as flips, is exact.
        if "scale_" in self.fitted and (reached := void_if_out_of_reach(guarantee)) is not guarantee:
            guarantee = reached
            object.__setattr__(self, "is_void", True)
        object.__setattr__(self, "guarantee", guarantee)

    def recorded(self, estimator, *, in_plans=False):
        """Enter a release into the open ledgers before its noise is drawn, in a `with` block.

        An entry has the guarantee, the name of the class, an id and the time; nothing is written at the end of the
        block. While a ledger is open, noise outside of such a block is refused (`_recording.check_recorded`).

        Plans enter nothing, and refuse what does not say by `in_plans` that it reads public numbers alone there.
        """
        return Release(self.guarantee, type(estimator).__name__, in_plans=in_plans)

    def publish(self, estimator, *, seeded):
        """Set on an estimator what holds of it from now on; warn where less holds than was published."""
        for name, value in self.fitted.items():
            setattr(estimator, name, value)
        state_guarantee(estimator, self.guarantee.mark_seeded() if seeded else self.guarantee)
        if self.is_void:
            warn_at_caller(
                f"This release has no guarantee: {_OUT_OF_REACH}. Use a smaller epsilon or a larger delta.",
                PrivacyWarning,
            )
        if self.claimed is not None:
            estimator.claimed_ = self.claimed
            warn_at_caller(
                f"The published calibration claims {self.claimed!r}; what is true is {estimator.guarantee_!r}, see "
                "guarantee_.",
                PrivacyWarning,
            )


SET_LATER = "guarantee_ was set after the fit, and is not what was stated of it: fit again"


def state_guarantee(estimator, guarantee, *, of_a_fit=True):
    """State what holds of an estimator, and keep it: `guarantee_` is set by audits as well, and by anybody."""
    estimator.guarantee_ = estimator._stated_guarantee = guarantee
    note_fit(estimator, is_seeded=guarantee.seeded, of_a_fit=of_a_fit)


def is_as_stated(estimator):
    """Whether `guarantee_` is what was stated, but for what audits and seeds add; others keep nothing to compare."""
    stated = getattr(estimator, "_stated_guarantee", None)
    if stated is None:
        return True
    found = getattr(estimator, "guarantee_", None)
    if not isinstance(found, PrivacyGuarantee):
        return False
    marks = [
        (bool(one.seeded), bool(one.violation), -1.0 if one.audited_epsilon is None else one.audited_epsilon)
        for one in (stated, found)
    ]
    is_kept = all(before <= now for before, now in zip(*marks, strict=True))
    return is_kept and stated == replace(
        found, seeded=stated.seeded, violation=stated.violation, audited_epsilon=stated.audited_epsilon
    )


class MarkedReleaseMixin:
    """Write what audits show of an estimator into what it released as well: the release may go on without it.

    Children name in `_release_attribute` where the release is, which has a `guarantee` of its own.
    """

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        released = vars(self).get(self._release_attribute)
        if name == "guarantee_" and isinstance(value, PrivacyGuarantee) and released is not None:
            setattr(self, self._release_attribute, replace(released, guarantee=marked(released.guarantee, value)))


def marked(guarantee, by):
    """Return a guarantee with the marks of another besides its own; if it has them, itself, by which it counts once."""
    marks = {
        "seeded": guarantee.seeded or by.seeded,
        "violation": guarantee.violation or by.violation,
        "audited_epsilon": max((guarantee.audited_epsilon, by.audited_epsilon), key=lambda shown: shown or 0.0),
    }
    is_marked = all(getattr(guarantee, name) == mark for name, mark in marks.items())
    return guarantee if is_marked else replace(guarantee, **marks)


class GuaranteeDisplayMixin:
    """Show the guarantee below scikit-learn's diagram of a fitted estimator, in notebooks and pages."""

    @property
    def _repr_html_(self):
        diagram = super()._repr_html_
        return lambda: diagram() + self._guarantee_html()

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._guarantee_html()
        return bundle

    def _guarantee_html(self):
        if not hasattr(self, "guarantee_"):
            return ""
        return self._shown_guarantee()._repr_html_() if is_as_stated(self) else f"<p>{SET_LATER}</p>"

    def _shown_guarantee(self):
        """Guarantee with all that audits have shown of it; a search overrides it."""
        return self.guarantee_


def void_if_out_of_reach(guarantee):
    """Return a guarantee of sampled noise as it is, or none where tails that are not sampled exactly would count.

    What lies there, one of two neighbours may release and the other not. The tails of each number have a probability
    below 2^-288 (see `_noise`), those of m numbers ``m (1 + e^epsilon) 2^-288`` at most in both orders of the
    neighbours: no more than 2^-33 of delta, or 2^-96 where delta is 0, is taken as nothing. Calibrations round a delta
    up by 2^-32 of it, see `_numerics.rounded_up`.
    """
    if guarantee.definition not in (Definition.DP, Definition.INDIVIDUAL_DP) or guarantee.epsilon == math.inf:
        return guarantee
    allowed = math.log(guarantee.delta) - 33 * math.log(2) if guarantee.delta else -96 * math.log(2)
    if np.logaddexp(0.0, guarantee.epsilon) <= allowed + 288 * math.log(2) - _LOG_OF_MOST_NUMBERS:
        return guarantee
    return replace(
        guarantee, epsilon=math.inf, delta=0.0, loss=None, hidden_changes=None, source=f"none: {_OUT_OF_REACH}"
    )


def reached_delta(epsilon, delta):
    """Return a delta, or the least one that sampled noise reaches at this epsilon, see `void_if_out_of_reach`."""
    least = float(np.logaddexp(0.0, epsilon)) + 33 * math.log(2) - 288 * math.log(2) + _LOG_OF_MOST_NUMBERS + 2.0**-20
    return max(delta, math.exp(min(least, 0.0)))


def snapshot(estimator):
    """Copy the parameters of an estimator at one moment, check the copy, and return it to be fitted.

    If somebody set some during a fit, or wrote into a list, the noise could come from one epsilon or from one shape of
    a network, and the guarantee from another.
    """
    twin = object.__new__(type(estimator))
    vars(twin).update({name: value for name, value in vars(estimator).copy().items() if not _is_of_a_fit(name)})
    vars(twin).update({name: _plain(value) for name, value in estimator._parameters_held().items()})
    if not in_plan():  # where steps are fitted one by one
        twin._fitted_behind = fits_before()  # now, as another thread may fit a step before it meanwhile
    twin._validate_params()  # what was checked as `fit` was called may have been set since
    return twin


def _plain(value):
    """Copy a parameter that may change, or say of itself now this and now that, into what only we can write to."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return to_python(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in dict.items(value)}
    if isinstance(value, list):
        return list(map(_plain, list.__iter__(value)))
    if isinstance(value, tuple):
        return tuple(map(_plain, tuple.__iter__(value)))
    if isinstance(value, Published):
        return Published(**{one.name: _plain(object.__getattribute__(value, one.name)) for one in fields(Published)})
    if isinstance(value, np.ndarray):
        if np.ma.is_masked(value):
            raise ValueError("A parameter has masked entries, under which numpy keeps some number: give all of them.")
        return np.array(value)
    if hasattr(value, "get_params") or isinstance(value, bytes | range | Mapping | np.generic | Enum):
        return value
    if _defines(value, "__array__"):
        return np.array(value)
    is_sequence = _defines(value, "__len__") and _defines(value, "__getitem__")
    return list(map(_plain, value)) if is_sequence else value


def _defines(value, name):
    """Whether the type of a value has a method; its metaclass, as that of an Enum, may have others."""
    return any(name in vars(kind) for kind in type(value).__mro__)


def take_over(estimator, fitted):
    """Set on an estimator, all at once, what the fit of its snapshot has set; drop what only other fits have set.

    Wherever it is interrupted, no weights of one fit stand beside the guarantee of another.
    """
    if not hasattr(fitted, "_fit_name"):
        fitted._fit_name = name_of_fit(fitted)
    _drop_others(estimator, fitted)  # before, as an interruption may come once the new guarantee stands
    parameters = estimator._param_names_of_constructors()  # which another thread may have set since
    vars(estimator).update({name: value for name, value in vars(fitted).items() if name not in parameters})
    _drop_others(estimator, fitted)  # and after, as another thread may have set its weights in between


def _drop_others(estimator, fitted):
    for name in vars(estimator).copy():
        if _is_of_a_fit(name) and not name.startswith("__") and name not in vars(fitted):
            vars(estimator).pop(name, None)


def _is_of_a_fit(name):
    return name.endswith("_") or name in ("_fit_name", "_name_in_file")
