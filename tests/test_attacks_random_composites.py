"""Attacks by random composites: on their files, their budgets against ledgers, their curves, and prices of tables."""

import pickle
import warnings
from random import Random

import numpy as np
import pandas as pd
import pytest
from attacks import RIDGE, X200_UNIFORM, Y200_UNIFORM, binary_model, model_with
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPScaler,
    DPSGDClassifier,
    PrivacyLedger,
    PrivacyUtilityDisplay,
    PublicScaler,
    compose,
    load_model,
    make_table_preprocessor,
    privacy_report,
    save_model,
    set_budget,
)

X, Y = X200_UNIFORM, Y200_UNIFORM
ONE_FIT = {"n_repeats": 1, "reference": None, "chance": False}


def _prepared(random, depth=0):
    """A step that learns nothing, or privately, or is given what it would learn but was fitted before."""
    kind = random.choice(
        ["public", "private", "components", "categories", "places", "union", "columns"][: 7 - 2 * depth]
    )
    if kind == "public":
        return PublicScaler((-1, 1))
    if kind == "private":
        return DPScaler(bounds=(-1, 1), epsilon=random.choice([0.3, 1.0]), delta=1e-6)
    if kind == "components":
        return DPPCA(2, epsilon=random.choice([0.3, 1.0]), delta=1e-6)
    if kind in ("categories", "places"):
        encoder = (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            if kind == "categories"
            else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        )
        return encoder.fit(np.full((9, 3), _SECRET)).set_params(categories=[[0.0, 1.0]] * 3)
    if kind == "union":
        return FeatureUnion([("a", _prepared(random, depth + 1)), ("b", PublicScaler((-1, 1)))])
    branches = [("a", _prepared(random, 2), [0, 1, 2]), ("b", StandardScaler().fit(np.full((9, 3), _SECRET)), [])]
    return ColumnTransformer(branches, sparse_threshold=0)


_SECRET = 31415.90625


def _model(random, depth=0):
    model = random.choice([binary_model, lambda: DPSGDClassifier(n_epochs=2, delta=1e-6, classes=[0, 1])])()
    if random.random() < 0.8:
        model = make_pipeline(*([_prepared(random)] if depth < 2 else []), model)
    if depth == 2 or random.random() < 0.4:
        return model
    inner = _model(random, depth + 1)
    return random.choice(
        [OneVsRestClassifier, lambda one: FixedThresholdClassifier(one, response_method="predict_proba")]
    )(inner)


@pytest.mark.parametrize("seed", range(23))
def test_no_file_has_what_a_part_had_learnt_that_the_report_does_not_name(seed, tmp_path):
    """Encoders, scalers without columns and parameters of ensembles were fitted to other rows before."""
    random = Random(seed)
    model = _model(random)
    for part in model.get_params().values():
        if isinstance(part, Pipeline) and random.random() < 0.5:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                part.fit(X[:40], Y[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    report = privacy_report(model)
    if report.total is None:
        return
    save_model(tmp_path / "model.npz", model)
    saved = load_model(tmp_path / "model.npz").estimator
    assert np.float64(_SECRET).tobytes() not in pickle.dumps(saved)
    assert privacy_report(saved).total.epsilon == report.total.epsilon


@pytest.mark.parametrize("seed", [1, 2, 3, 6, 7, 8])
def test_no_budget_plan_or_report_of_a_random_composite_is_less_than_what_a_ledger_counts(seed):
    """Random pipelines and ensembles: the fit meets the budget, the plan says it, and entries add up to no more."""
    random = Random(seed)
    model = random.choice([_model(random), VotingClassifier([("a", _model(random, 1)), ("b", _model(random, 2))])])
    model = clone(model)
    target, delta = random.choice([0.3, 2.0]), random.choice([1e-5, 1e-3])
    set_budget(model, X, Y, epsilon=target, delta=delta)
    plan = privacy_report(model, X, Y)
    with PrivacyLedger() as ledger:
        report = privacy_report(model.fit(X, Y))
    counted = compose(*(entry.guarantee for entry in ledger.entries))
    assert counted.epsilon <= report.private.epsilon * (1 + 1e-9) <= plan.private.epsilon * (1 + 2e-9)
    assert counted.delta <= report.private.delta * (1 + 1e-9) and plan.private.epsilon <= target
    assert report.private.delta <= delta and plan.private.given == report.private.given


def _curve_of(random):
    model, spent = model_with(classes=[0, 1], noise="gaussian"), []
    if random.random() < 0.5:
        model = make_pipeline(random.choice([StandardScaler(), PublicScaler((-1, 1)), _prepared(random, 2)]), model)
    if random.random() < 0.3:
        model = random.choice([BaggingClassifier(model, n_estimators=2), OneVsRestClassifier(model)])
    elif random.random() < 0.3:
        model = VotingClassifier(
            [("a", model), ("b", random.choice([LogisticRegression(), model_with(classes=[0, 1])]))]
        )
    return model, spent


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
@pytest.mark.parametrize("seed", range(10))
def test_no_curve_that_states_a_total_is_of_fits_that_release_more_than_its_epsilons(seed):
    """Entries of a ledger, fit by fit, add up to no more than the point, where the axis states the epsilon of all."""
    (model, spent), before = _curve_of(Random(seed)), 0
    with PrivacyLedger() as ledger:

        def score(one, X, y):
            nonlocal before
            entries = ledger.entries
            spent.append((compose(*(entry.guarantee for entry in entries[before:])), privacy_report(one)))
            before = len(entries)
            return 0.0

        options = {"epsilons": [0.5, 2.0], "cv": KFold(2), "scoring": score} | ONE_FIT
        display = PrivacyUtilityDisplay.from_estimator(model, X, Y, **options)
    is_reserved = display.parameter or display.spent > 1 + 1e-9
    for (counted, report), epsilon in zip(spent, np.repeat(display.epsilons, 2), strict=True):
        assert is_reserved or (report.total is not None and counted.epsilon <= epsilon * (1 + 1e-9))


@pytest.mark.parametrize("kind", ["auto", "bins", "scaled"])
def test_no_value_of_a_row_decides_what_a_plan_says_or_a_budget_gives_each_step(kind):
    """Tables of ordinary, equal, missing and huge values, and of texts of any length, have one price."""
    n_rows, told = 90, set()
    numbers = [np.linspace(-1, 1, n_rows), np.zeros(n_rows), np.full(n_rows, np.nan), np.tile([1e300, -1e300], 45)]
    texts = [["a", "b"] * 45, ["b"] * 90, [None, "a"] * 45, ["x" * 60, "y"] * 45]
    for number, text in zip(numbers, texts, strict=True):
        table = pd.DataFrame({"a": number, "b": number[::-1], "s": pd.Series(text, dtype=object)})
        if kind == "auto":
            columns = ColumnTransformer(
                [("a", DPBinner(3, delta=1e-6), ["a", "b"]), ("s", DPBinner(3, delta=1e-6, max_categories=4), ["s"])]
            )
        else:
            columns = make_table_preprocessor({"a": (-1, 1)}, categories={"s": ["a", "b"]}, epsilon=0.5, numbers=kind)
        # Losses of a ridge on moments add up with those of bins in closed form.
        last = AMPClassifier(noise="gaussian", classes=[0, 1]) if kind == "auto" else RIDGE
        model = make_pipeline(columns, clone(last))
        y = np.arange(n_rows) % 2
        plan = privacy_report(set_budget(model, table, y, epsilon=1.0, delta=1e-4), table, y)
        shares = [(name, value) for name, value in model.get_params().items() if name.endswith(("epsilon", "delta"))]
        told.add((repr(plan), repr(shares)))
    assert len(told) == 1
