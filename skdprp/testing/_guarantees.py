"""Checks of the guarantee that is stated, and of what reports make of it."""

import json
import math
import pickle
import warnings
from collections import Counter
from contextlib import suppress
from numbers import Integral, Real

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline, make_union

from .._noise import last_seeded_draw
from ..guarantee import Definition, PrivacyGuarantee, PrivacyWarning, compose
from ..ledger import PrivacyLedger
from ..report import privacy_report
from ._case import dense, error_of
from ._heard import use
from ._tape import same_tape, tape_of, taped


def _guarantee_states_its_facts(case):
    if hasattr(case.new(), "guarantee_"):
        return "has a guarantee_ before it is fitted: state it after the noise is added."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = case.fit()
    guarantee = fitted.guarantee_
    if guarantee.per is None:
        return 'does not say when it releases: state per="fit" or per="transform" in its guarantee.'
    if guarantee.adjacency is None:
        return "does not say who its neighbours are: state the adjacency of its guarantee, or nothing can be added up."
    expected = ("unit", "released", "mechanism") if math.isfinite(guarantee.epsilon) else ("unit",)
    if missing := [fact for fact in expected if not getattr(guarantee, fact)]:
        return f"does not say {' and '.join(missing)} in its guarantee."
    if not any(issubclass(warning.category, PrivacyWarning) for warning in caught):
        for name in ("epsilon", "delta"):
            stated, wanted = getattr(guarantee, name), case.estimator.get_params(deep=False).get(name)
            if isinstance(wanted, Real) and stated > wanted:
                return f"guarantees {name}={stated} where {wanted} was asked for: calibrate, or warn (PrivacyWarning)."
    if guarantee.definition is not Definition.DP or not math.isfinite(guarantee.epsilon):
        return ""
    deltas = [guarantee.profile(share * guarantee.epsilon) for share in (0.0, 0.5, 1.0, 2.0)]
    if deltas != sorted(deltas, reverse=True) or not 0 <= deltas[-1] <= deltas[0] <= 1:
        return f"has a privacy profile that does not decrease: {deltas}. Correct the loss of its guarantee."
    return "" if deltas[2] <= guarantee.delta else "has a loss that does not prove its delta: calibrate on its profile."


def _guarantee_survives_json_and_pickle(case):
    guarantee = case.fitted.guarantee_
    if error := error_of(lambda: _by_json(guarantee)):
        return f"has a guarantee that JSON does not hold ({error}): make its loss of profiles of skdprp.mechanisms."
    copies = {"JSON": _by_json(guarantee), "pickle": pickle.loads(pickle.dumps(guarantee))}
    for name, other in copies.items():
        if other != guarantee or repr(other) != repr(guarantee) or str(other) != str(guarantee):
            return f"has another guarantee after {name}: {other!r}. State it by plain numbers and texts."
    return ""


def _by_json(guarantee):
    return PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict(), allow_nan=False)))


_TYPES = (np.float64, np.float32, np.float16, np.int64, np.int8)


def _types_of_parameters_are_irrelevant(case):
    for name, value in case.estimator.get_params(deep=False).items():
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            continue
        is_whole = isinstance(value, Integral)
        if is_whole and not -(2**63) <= value < 2**63:
            continue
        with np.errstate(over="ignore"):
            kinds = [kind for kind in _TYPES if is_whole == issubclass(kind, Integral)]
            near = [np.asarray(value).astype(kind)[()] for kind in kinds]
        near += [] if is_whole else [np.uint8(255)]  # of which twice as much is less
        facts = {}  # of numbers of Python, which several types may stand for
        for typed in near:
            plain = typed.item()
            if plain not in facts:
                facts[plain] = None
                with suppress(Exception):
                    facts[plain] = _facts(case, **{name: plain})
            if facts[plain] is None:
                continue  # rounded out of its range
            error = error_of(lambda name=name, typed=typed: case.fit(**{name: typed}))
            stated, tape = (None, None) if error else _facts(case, **{name: typed})
            if error or not (facts[plain][0] == stated and same_tape(facts[plain][1], tape, share=0)):
                said = f"raises {error!r}" if error else "states another guarantee or draws other noise"
                return f"{said} for {name}={typed!r} of numpy than for {plain!r}: convert parameters by float(), int()."
    return ""


def _facts(case, **parameters):
    """What is stated, and what reaches the noise, with some parameters."""
    with taped() as tape:
        fitted = case.fit(**parameters)
        if case.at_transform:
            fitted.transform(case.X)
    return json.dumps(fitted.guarantee_.to_dict()), tape


def _reports_charge_what_was_released(case):
    guarantee = case.fitted.guarantee_
    report = privacy_report(case.fitted)
    if report.total is None:
        return f"is not covered in a report: {'; '.join(report.not_covered)}."
    if (report.total.epsilon, report.total.delta, report.steps[-1].releases) != (guarantee.epsilon, guarantee.delta, 1):
        return f"is charged {report.total!r} by a report, where its fit guarantees {guarantee!r}."
    if case.at_transform:  # of which a pipeline calls fit_transform
        by_fit = tape_of(lambda: case.new(**case.public_seed).fit_transform(*case.data)) or ()
        if not same_tape(by_fit, case.tape(case.fit()) or ()):
            return (
                "releases otherwise by fit_transform than by fit and transform, as no report knows: leave it as it is."
            )
    if not (hasattr(case.estimator, "transform") or is_classifier(case.estimator) or is_regressor(case.estimator)):
        return ""  # nothing of scikit-learn takes it in
    twice = privacy_report(_twice(case).fit(*case.data)).private
    both = compose(guarantee, guarantee) if guarantee.definition.composes and guarantee.adjacency else None
    if (twice and (twice.epsilon, twice.delta)) != (both and (both.epsilon, both.delta)):
        return f"is charged {twice!r} for two releases side by side, which cost {both!r}."
    counting, counts = _counting(case)
    model = make_pipeline(counting, DummyClassifier()) if hasattr(case.estimator, "transform") else counting
    search = GridSearchCV(model, {}, cv=KFold(3, shuffle=True, random_state=0), error_score="raise")
    for composite, name in ((make_pipeline(model), "a pipeline"), (search, "a search")):
        counts.clear()
        composite.fit(case.X, np.arange(len(case.X)) % 2 if case.y is None else case.y)
        most = max(counts.values(), default=0)
        report = privacy_report(composite)
        if report.private is not None and sum(step.releases for step in report.steps) < most:
            return (
                f"releases a row {most} times in a fit of {name}, more than a report charges: release where `per` says."
            )
    return ""


def _twice(case):
    """Two of it in a composite of scikit-learn, which fits both on the same rows."""
    if hasattr(case.estimator, "transform"):
        return make_union(case.new(), case.new())
    if is_regressor(case.estimator):
        return VotingRegressor([("a", case.new()), ("b", case.new())])
    classes = getattr(case.estimator, "classes", None)  # voting encodes labels before it passes them on
    encoded = {} if classes is None else {"classes": list(range(len(classes)))}
    return VotingClassifier([("a", case.new(**encoded)), ("b", case.new(**encoded))])


def _counting(case):
    """The estimator in a class of its own, which counts how often each row was released; and these counts."""
    counts, name = Counter(), "transform" if case.at_transform else "fit"
    kind = type(case.estimator)

    def _counted(self, X, *rest, **options):
        counts.update(row.tobytes() for row in dense(X))
        return getattr(kind, name)(self, X, *rest, **options)

    # Set on the class when it is made, and not with it, the method is not wrapped for `set_output` once more.
    counted = type(kind.__name__, (kind,), {"__module__": kind.__module__})
    setattr(counted, name, _counted)
    return counted(**case.new().get_params(deep=False)), counts


def _ledgers_have_every_release(case):
    with PrivacyLedger() as ledger:
        fitted = case.new()
        error = error_of(lambda: fitted.fit(*case.data))
        of_fit = len(ledger.entries)
        if case.at_transform:
            error = error or error_of(lambda: fitted.transform(case.X))
    if not error and not case.at_transform:
        with taped() as tape:  # which notes noise of this library, or where that would be added
            before = last_seeded_draw()
            use(fitted, case.data)
            draws_noise = bool(tape) or last_seeded_draw() != before
        if draws_noise:
            return "draws noise when it predicts or scores, which no report charges: release at the fit, once."
        asked = {"score": case.data}
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score"):
            with suppress(Exception):  # of what it refuses others ask
                first, second = (dense(getattr(fitted, name)(*asked.get(name, (case.X,)))) for _ in range(2))
                if not np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
                    cure = "draw noise at the fit, once."
                    return f"answers otherwise when it is asked again, which no report charges: {cure}"
    entered, cure = (
        [entry.guarantee for entry in ledger.entries],
        "draw noise in `with skdprp.ledger.entry(guarantee):`.",
    )
    if error is not None:
        return f"cannot release while a ledger is open ({error}): {cure}"
    if of_fit == case.at_transform or entered != [fitted.guarantee_]:
        return f"enters {of_fit} releases into an open ledger at its fit, and {entered!r} in all: {cure}"
    return ""


CHECKS = (
    _guarantee_states_its_facts,
    _guarantee_survives_json_and_pickle,
    _types_of_parameters_are_irrelevant,
    _reports_charge_what_was_released,
    _ledgers_have_every_release,
)
