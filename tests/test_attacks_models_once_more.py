"""Attacks on models and all around them: types that one cell decides, nonsense, exact densities, limits of ledgers."""

from contextlib import suppress

import numpy as np
import pytest
from scipy.stats import laplace, norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, OneHotEncoder, OrdinalEncoder

from skdprp import (
    AMPClassifier,
    DPHistograms,
    DPRidge,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    compose,
    make_table_preprocessor,
    mechanisms,
    privacy_report,
)
from skdprp.histograms._columns import columns_of, count
from skdprp.ledger import LedgerError, entry
from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss

_LISTED, _OTHER = 2**60, 2**60 + 3  # whole numbers of which floats know the first alone: the second becomes it
_MODEL = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1]}


def _assert_others_are_as_they_were(steps, tables):
    """Where a total is stated without a word of lists, other rows leave the steps as they did beside another first."""
    y = [0] + [1] * 20 + [0] * (len(tables[0]) - 21)
    others, totals = [], []
    for table in tables:
        model = make_pipeline(steps, AMPClassifier(**_MODEL))
        with suppress(TypeError, ValueError):  # what is refused releases nothing
            totals.append(privacy_report(model, table, y).total)
            others.append(np.asarray(model[:-1].fit_transform(table))[1:])
    if isinstance(tables[0], list):  # whose numbers have no type of their own
        assert all(total is None or "if rows are a list" in " ".join(total.assumptions) for total in totals)
    elif len(others) == len(tables) and any(total is not None for total in totals):
        np.testing.assert_array_equal(others[0], others[1])


@pytest.mark.parametrize("kind", ["Int64", "UInt64"])
def test_no_missing_cell_decides_how_categories_of_other_rows_are_read(kind):
    """Whole numbers of polars are integers where none is missing, and floats where one is: ids beyond 2^53 change."""
    pl = pytest.importorskip("polars")
    tables = [
        pl.DataFrame({"id": pl.Series([first] + [_OTHER] * 20 + [7] * 9, dtype=getattr(pl, kind)), "age": [0.5] * 30})
        for first in (7, None)
    ]
    steps = make_table_preprocessor({"age": (0, 1)}, categories={"id": [7, _LISTED]})
    _assert_others_are_as_they_were(steps, tables)


@pytest.mark.parametrize(
    ("step", "cell", "firsts"),
    [
        (OneHotEncoder(categories=[[7, _LISTED]], handle_unknown="ignore", sparse_output=False), _OTHER, (7, 0.5)),
        (
            OrdinalEncoder(categories=[[7, _LISTED]], handle_unknown="use_encoded_value", unknown_value=-1),
            _OTHER,
            (7, 0.5),
        ),
        (Binarizer(threshold=0.1), np.float32(0.1), (np.float32(0.5), 0.5)),
    ],
)
def test_no_number_of_a_list_decides_how_those_of_other_rows_are_read(step, cell, firsts):
    """Numbers of a list have no type of their own: numpy takes one for all that follows from each of them."""
    tables = [[[first]] + [[cell]] * 20 + [[firsts[0]]] * 9 for first in firsts]
    _assert_others_are_as_they_were(step, tables)


@pytest.mark.parametrize(
    ("name", "arguments", "known"),
    [
        ("information_scale", (1.0,), {"n_components": 20, "n_samples": 100, "min_residual": -2.0}),
        ("private_search_trial", (1.0, 1e-6), {"n_trials": -1, "trial_distance": 0.04}),
        ("private_search_trial", (1.0, 1e-6), {"n_trials": 3, "trial_distance": -1.0}),
        ("product_perturbation_profile", (1.0,), {"scale": 1.9, "n_dims": 5, "count_epsilon": -1.0}),
        (
            "thresholded_counts_profile",
            (1.0,),
            {"scale": 5.0, "threshold": 20.0, "sensitivity": 1.0, "n_columns": -1},
        ),
        ("sampled_target", (float("nan"), 1e-5), {"n_changed": 3}),
    ],
)
def test_what_is_no_bound_is_refused(name, arguments, known):
    """A negative bound holds of any data, and its square would count as noise; a formula returns a number for it."""
    with pytest.raises(ValueError, match=r"must be between 0 and|is too small"):
        getattr(mechanisms, name)(*arguments, **known)


_KINDS = ("Int8", "Int16", "Int64", "UInt64", "Float32", "boolean", "int64[pyarrow]", "float[pyarrow]")


@pytest.mark.parametrize("kind", _KINDS)
def test_no_missing_cell_moves_numbers_of_other_rows(kind):
    """Columns of pandas that have a value for what is missing keep their type, and come out in one."""
    pd = pytest.importorskip("pandas")
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    cells = {"boolean": [True, False, True], "Float32": [0.1, 0.3, 1.5], "float[pyarrow]": [0.1, 0.3, 1.5]}.get(
        kind, [1, 2, 100] if kind in ("Int8", "Int16") else [2**60 + 1, 2**53 + 1, 3]
    )
    scaler = PublicScaler((0, 2.0**61), fill="middle")
    binner = PublicBinner(edges=[0, 0.3, 2.0**53 + 2, 2.0**60, 2.0**61], sparse_output=False)
    for step in (scaler, binner):
        one, other = (
            step.fit_transform(pd.DataFrame({"a": pd.array([first, *cells], dtype=kind), "b": [1.0] * 4}))
            for first in (cells[0], None)
        )
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one[1:], other[1:])


def test_one_cell_moves_one_count_of_categories():
    """Categories that are numbers beyond 2^53 are told apart beside a missing one, in every kind of column."""
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    others = [2**53 + 1, 2**53, 2**60 + 1, 3]
    kinds = {
        "Int64": lambda cells: pd.array(cells, dtype="Int64"),
        "objects": lambda cells: pd.Series(cells, dtype=object),
        "categories": lambda cells: pd.Categorical(cells, categories=[*others, 99]),
        "dictionary": lambda cells: pd.arrays.ArrowExtensionArray(pa.array(cells, pa.int64()).dictionary_encode()),
    }
    for make in kinds.values():
        for first in (99, None):
            table = pd.DataFrame({"a": make([first, *others])})
            known = {"bounds": None, "categories": {"a": None}, "n_cells": 64, "counts_listed": True}
            columns = columns_of(table, 1, ["a"], **known)
            (whole,), (rest,) = (count(part, columns)[1] for part in (table, table.iloc[1:]))
            assert sum(abs(whole[key] - rest[key]) for key in {*whole, *rest}) == 1
            assert len(rest) == 4


def _probabilities(cells, rows, loss, penalty, noise):
    """Probabilities of intervals of a released weight: the gradient grows with it, and is minus the noise there."""
    gradient = penalty * cells
    for x, y in rows:
        gradient = gradient + loss.gradient(np.full_like(cells, y), x * cells) * x
    return np.diff(np.concatenate([[0.0], noise.cdf(gradient), [1.0]]))


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss()])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("noise", [norm, laplace])
def test_no_perturbed_minimiser_tells_more_than_its_profile(loss, adjacency, noise):
    """One weight, some rows beside that which neighbours differ in: exact probabilities of small intervals."""
    rng, largest = np.random.default_rng(7), 0.0
    for _ in range(12):
        penalty, mu = 10 ** rng.uniform(-1, 1.5), 10 ** rng.uniform(-0.7, 0.6)
        scale = loss.lipschitz / mu
        rest = list(zip(rng.uniform(-1, 1, 3), rng.choice([-1.0, 1.0], 3), strict=True))[: rng.integers(4)]
        row, replacement = (1.0, 1.0), (float(rng.choice([-1, 1])), float(rng.choice([-1, 1])))
        reach = (12 * scale + 5 * loss.lipschitz) / penalty
        cells = np.linspace(-reach, reach, 20_001)
        neighbours = [*rest, row], [*rest, *[replacement] * (adjacency == "replace_one")]
        p, q = (_probabilities(cells, rows, loss, penalty, noise(scale=scale)) for rows in neighbours)
        log_det = float(np.log1p(loss.smoothness / penalty))
        known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            shown = max(np.maximum(one - np.exp(epsilon) * other, 0).sum() for one, other in ((p, q), (q, p)))
            if noise is norm:
                bound = mechanisms.objective_perturbation_profile(epsilon, **known)
            else:  # of one dimension, the radius times a sign
                bound = mechanisms.product_perturbation_profile(epsilon, n_dims=1, **known)
            assert shown <= bound + 1e-9
            largest = max(largest, shown / max(bound, 1e-3))
    assert largest > 0.3  # or the cases would say little


@pytest.fixture(scope="module")
def guarantees():
    """Guarantees of releases of several kinds of noise, at several targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y, found = (X[:, 0] > 0).astype(int), []
    for epsilon, delta in ((0.1, 1e-8), (0.5, 1e-6), (2.0, 1e-7)):
        known = {"epsilon": epsilon, "delta": delta}
        found += [
            AMPClassifier(classes=[0, 1], noise="product", **known).fit(X, y),
            AMPClassifier(classes=[0, 1], noise="gaussian", count_labels=True, **known).fit(X, y),
            ProductNoiseOutputPerturbation(classes=[0, 1], **known).fit(X, y),
            DPHistograms(**known).fit(X),
            DPRidge(target_bounds=(0, 1), mechanism="projection", n_components=40, **known).fit(X, y),
        ]
    return [model.guarantee_ for model in found]


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (6.0, 1e-4)])
def test_what_a_limit_lets_pass_is_within_it(guarantees, composition, epsilon, delta):
    """Whatever kinds of noise come in whatever order, exact composition of all that was entered is within the limit."""
    pytest.importorskip("dp_accounting")
    rng, n_refused, entered = np.random.default_rng(3), 0, []
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon=epsilon, delta=delta, composition=composition)
        while n_refused < 8 and len(entered) < 30:
            guarantee = guarantees[rng.integers(len(guarantees))]
            try:
                with entry(guarantee, "some release"):
                    pass
            except LedgerError:
                n_refused += 1
            else:
                entered.append(guarantee)
    assert len(ledger.entries) == len(entered) > 0
    assert compose(*entered, delta=delta).epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_step_on_a_secret_sample_is_what_an_integral_says(adjacency):
    """One step, by the integral of the densities of both neighbours, from both sides."""
    pytest.importorskip("dp_accounting")
    for scale, rate, epsilon in ((0.7, 0.05, 0.5), (2.0, 0.5, 1.0), (5.0, 0.9, 0.1)):
        x = np.linspace(-12 * scale - 2, 12 * scale + 2, 200_001)
        blank, one, other = (norm.pdf(x, center, scale) for center in (0.0, 1.0, -1.0))
        p = (1 - rate) * blank + rate * one
        q = (1 - rate) * blank + rate * other if adjacency == "replace_one" else blank
        exact = max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))) * (x[1] - x[0])
        profile = mechanisms.subsampled_gaussian_profile(epsilon, scale=scale, rate=rate, adjacency=adjacency)
        assert exact * (1 - 1e-6) <= profile <= exact * 1.01 + 1e-11
