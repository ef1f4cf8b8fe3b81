"""Attacks on plans, prices and fits of very many rows, and on partitions that are joined."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPSearchCV,
    PrivacyLedger,
    make_table_preprocessor,
    privacy_report,
    set_budget,
)
from skdprp.ledger import _filter
from skdprp.linear_model._erm import Problem, minimisers
from skdprp.linear_model._passes import Chunks, StreamedRows
from skdprp.mechanisms import gaussian_profile
from skdprp.testing import reproducible_noise


def calibration(n_rows, n_features, n_classes, **known):
    """What a fit to so many rows would fix."""
    model = AMPClassifier(classes=list(range(n_classes)), **known)
    return model._calibration_of((n_rows, n_features), np.dtype(float), n_classes)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_classes", "known"),
    [
        (10**6, 1, 3, {}),  # had 4e10 times the noise of few rows
        (2 * 10**6, 3, 3, {"delta": 1e-6, "epsilon": 5.0}),  # 290,000 times
        (10**7, 3, 10, {}),  # was refused
        (10**7, 1, 2, {"delta": 0.001, "epsilon": 0.03}),  # was refused
        (10**8, 30, 2, {}),
        (10**8, 30, 2, {"adjacency": "add_remove"}),
        (10**7, 5, 4, {"multi_class": "ovr"}),
    ],
)
def test_noise_of_more_rows_is_never_much_larger_than_that_of_few(n_rows, n_features, n_classes, known):
    """The shift of the release leaves what noise of the linear term needs, whatever profile it has."""
    known = {"delta": 1 / n_rows**2} | known
    many = calibration(n_rows, n_features, n_classes, **known)
    few = calibration(1000, n_features, n_classes, noise=many.fitted["noise_"], **known)
    assert many.fitted["scale_"] < 3 * few.fitted["scale_"]


@pytest.mark.parametrize(("n_rows", "n_classes", "epsilon"), [(10_000, 2, 8.0)])
def test_a_limit_of_squares_prices_a_model_no_higher_than_its_epsilon(n_rows, n_classes, epsilon):
    """The price was infinite where a profile is 1 near 0, and every limit refused it."""
    guarantee = calibration(n_rows, 1, n_classes, epsilon=epsilon, delta=1e-6).guarantee
    assert _filter.price(guarantee).square < 100.0


@pytest.mark.parametrize("n_rows", [10**7])
def test_a_price_dominates_the_profile_of_a_model_of_many_rows(n_rows):
    """A coin and Gaussian noise tell as much as a release with a large shift, at every epsilon."""
    guarantee = calibration(n_rows, 5, 2, delta=1e-6).guarantee
    cost = _filter.price(guarantee)
    for epsilon in [0.0, *np.geomspace(1e-3, 50, 15).tolist()]:
        dominating = cost.coins + (1 - cost.coins) * gaussian_profile(epsilon, scale=cost.square**-0.5)
        assert guarantee.loss.profiles[0](epsilon) <= dominating * (1 + 1e-9)


def test_gradients_of_many_joined_parts_are_as_small_as_a_guarantee_assumes():
    """Long double sums of all rows, where weights of a fit in a hundred parts are."""
    rng = np.random.default_rng(0)
    n_rows, norm = 5000, 1e-20
    problem = Problem(n_rows, 3, 2, "log_loss", False, norm, 0.3 * norm, 1e-10, largest_offset=5.0)
    X = rng.normal(size=(n_rows, 3))
    X *= norm * (1 - 1e-12) / np.linalg.norm(X, axis=1)[:, None] * rng.choice([1.0, 1e-9], size=(n_rows, 1))
    codes, b, penalty = rng.integers(0, 2, n_rows), rng.normal(size=(1, 4)) * norm, norm**2
    parts = [(X[i : i + 50], codes[i : i + 50]) for i in range(0, n_rows, 50)]
    rows = StreamedRows(Chunks(parts), lambda X, y: (X, y), n_rows, 3, np.bincount(codes), None, max_norm=norm)
    largest = 2 * float(np.linalg.norm(b))
    known = {"penalty": penalty, "perturbation": b, "largest_perturbation": largest, "n_jobs": 1, "offset": 5.0}
    weights = minimisers(problem, rows, None, **known)[0].astype(np.longdouble)
    long = np.column_stack([X, np.full(n_rows, 0.3 * norm)]).astype(np.longdouble)
    signs = np.where(codes == 1, 1, -1).astype(np.longdouble)
    slopes = -signs / (1 + np.exp(signs * (long @ weights + 5)))
    gradient = slopes @ long + np.longdouble(penalty) * weights + b[0].astype(np.longdouble)
    assert np.sqrt((gradient**2).sum()) <= problem.gradient_error(penalty, largest)


def columns(threshold, chosen, *, listed=("a", "b")):
    """A ColumnTransformer whose rows have as many zeros as the values say, but for those of listed categories."""
    steps = [
        ("two", OneHotEncoder(categories=[list(listed)], handle_unknown="ignore"), chosen),
        ("one", OneHotEncoder(categories=[["yes"]], handle_unknown="ignore"), ["c"]),
    ]
    return ColumnTransformer(steps, sparse_threshold=threshold)


@pytest.mark.parametrize(
    ("threshold", "chosen", "is_covered"),
    [
        (1.0, ["d"], True),
        (1.0, [], False),
        (1.0, make_column_selector(pattern="^none"), False),
        (0.999, ["d"], False),
    ],
)
def test_zeros_of_a_step_that_was_given_no_column_do_not_count(threshold, chosen, is_covered):
    """A row decides whether rows come out sparse where no encoder with two categories sees it."""
    y, kinds = np.arange(40) % 2, set()
    model = make_pipeline(columns(threshold, chosen), AMPClassifier(classes=[0, 1], delta=1e-3))
    for first in ("yes", "no"):
        X = pd.DataFrame({"c": [first] + ["yes"] * 39, "d": ["a"] * 40})
        assert (privacy_report(model.fit(X, y)).total is not None) == is_covered
        kinds.add(model[0].sparse_output_)
    assert len(kinds) == 1 or not is_covered


@pytest.mark.parametrize("candidate", [{"ct__two__categories": [[["a"]]]}, {"ct__two": ["drop"]}])
def test_no_candidate_of_a_search_has_rows_that_decide_whether_they_are_sparse(candidate):
    """What is searched is covered as it stands, but not as the candidate would be."""
    X, y = pd.DataFrame({"c": ["yes"] * 40, "d": ["a"] * 40}), np.arange(40) % 2
    steps = [("ct", columns(1.0, ["d"])), ("model", AMPClassifier(classes=[0, 1]))]
    with pytest.raises(ValueError, match="sparse_output_"):
        DPSearchCV(Pipeline(steps), candidate, n_trials=2, delta=1e-3).fit(X, y)


def test_a_plan_refuses_every_search_that_sees_rows_beside_a_sketch():
    """A search in a later step costs nothing only where all that reaches it was released."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    search = GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=2)
    with pytest.raises(ValueError, match="GridSearchCV is reported after its fit"):
        privacy_report(make_pipeline(make_union(DPOPORP(2), "passthrough"), search), X, y)
    halving = HalvingGridSearchCV(AMPClassifier(classes=[0, 1]), {"epsilon": [1.0, 2.0]}, cv=2)
    assert privacy_report(halving, X, y).total is None


@pytest.mark.parametrize("n_rows", [300_000])
def test_a_budget_is_met_where_the_kind_of_noise_changes_with_epsilon(n_rows):
    """Never above the target, and close to it."""
    X, y = pd.DataFrame({"a": np.arange(64) / 7}), np.arange(64) % 2
    model = make_pipeline(DPBinner(2, epsilon=0.2), AMPClassifier(classes=[0, 1], epsilon=0.8))
    set_budget(model, X, y, n_samples=n_rows, epsilon=1.0, delta=1e-6)
    total = privacy_report(model, X, y, n_samples=n_rows).total
    assert 0.98 <= total.epsilon <= 1.0 and total.delta <= 1e-6


def test_empty_partitions_and_persons_across_partitions_are_joined_as_rows_in_memory():
    """Sums, numbers of persons and guarantees are the same, also where most partitions have no row."""
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    X, persons = np.random.default_rng(0).normal(size=(30, 2)), np.repeat(np.arange(10), 3)
    edges = [0, 0, 1, 1, 7, 7, 7, 8, 20, 20, 30, 30]
    sizes = tuple(np.diff(edges).tolist())

    def lazy(values, name):
        tail = (0,) * (values.ndim - 1)
        graph = {(name, i, *tail): values[a:b] for i, (a, b) in enumerate(pairwise(edges))}
        return array.Array(graph, name, (sizes, *((n,) for n in values.shape[1:])), dtype=values.dtype)

    with dask.config.set(scheduler="synchronous"):
        found = []
        for rows, groups in ((X, persons), (lazy(X, "rows"), lazy(persons, "persons"))):
            with reproducible_noise(0):
                model = DPMoments(delta=1e-3).fit(rows, groups=groups)
            found.append((model.moments_.values, model.moments_.n_samples, repr(model.guarantee_)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    assert found[0][1:] == found[1][1:]


def test_a_pipeline_of_sparse_rows_is_one_entry_for_each_private_step():
    """Sparse rows of found bins are no further release."""
    X, y = pd.DataFrame({"a": np.arange(60) / 7, "c": ["u", "v"] * 30}), np.arange(60) % 2
    model = make_pipeline(make_table_preprocessor(epsilon=0.5), AMPClassifier(classes=[0, 1], delta=1e-3))
    with PrivacyLedger() as ledger:
        model.fit(X, y)
    assert len(ledger.entries) == 2 and model[0]["columns"].sparse_output_
