"""Attacks on models and all around them: files, weights along fixed paths, streams, plans and searches of persons."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPRidge,
    DPSGDClassifier,
    PrivacyLedger,
    _noise,
    make_table_preprocessor,
    privacy_report,
    set_budget,
)
from skdprp._command._tables import check_features, read_file

_LONG = str(2**60)  # as of nanoseconds; a bound of bins, and of the cells of numbers of any size


def _read(path, cells, *, categories=None):
    """Numbers of a column of a file, as the command has them."""
    Path(path).write_text(
        "stamp,target\n" + "".join(f"{cell},{'yes' if i % 2 else 'no'}\n" for i, cell in enumerate(cells))
    )
    listed = {} if categories is None else {"stamp": categories}
    X, _ = read_file(path, target="target", as_text=listed)
    return check_features(path, X, listed, ["stamp"])["stamp"].to_numpy(dtype=np.float64)


@pytest.mark.parametrize("categories", [None, [5.0, 2.0**60]])
@pytest.mark.parametrize("cell", ["0.5", "", "99999999999999999999999", "-9223372036854775809"])
def test_no_cell_decides_how_numbers_of_other_rows_are_rounded(tmp_path, cell, categories):
    """A table of whole numbers is read exactly: with another row that is not, all others have to be as they were.

    pandas before version 3 rounds numbers of 17 digits or more in one way in a column of whole numbers, and in another
    in one that has a fraction, or a number beyond 64 bits.
    """
    others = [_LONG] * 20 + ["5"]
    without = _read(tmp_path / "a.csv", [*others, "5"], categories=categories)
    beside = _read(tmp_path / "b.csv", [*others, cell], categories=categories)
    assert (without[:20] == 2.0**60).all()
    np.testing.assert_array_equal(beside[:-1], without[:-1])


@pytest.fixture
def moves(monkeypatch):
    """Collect all sums before their noise, in units of its scale; what is released instead is the same each time."""
    sums = []

    def _release(values, scale):
        sums.append(np.array(values, dtype=np.float64).ravel() / scale)
        values[...] = np.random.default_rng(len(sums)).normal(size=values.shape) * _release.size

    _release.size = 1.0
    monkeypatch.setattr(_noise, "add_gaussian", _release)

    def _moves(fit):
        sums.clear()
        return fit().guarantee_, np.concatenate(sums)

    _moves.release = _release
    return _moves


@pytest.mark.parametrize("size", [1e-3, 1e4, 1e200])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, np.float32, sp.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(delta=1e-6, classes=[0, 1, 2], n_epochs=9, preconditioner=True),
        DPSGDClassifier(delta=1e-6, classes=[0, 1, 2], n_epochs=9, max_norm=None),
        DPSGDClassifier(delta=1e-6, classes=[0, 1, 2], n_epochs=9, class_weight={0: 0.2}, optimizer="adam"),
        DPRidge(delta=1e-6, target_bounds=(-1, 2), mechanism="descent"),
        DPMoments(delta=1e-6, target_bounds=(-1, 2)),
    ],
)
def test_all_steps_on_any_path_move_no_further_than_is_printed(moves, model, form, size):
    """Of two neighbours at the same weights, whatever these are, all sums together lie within mu of the loss."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    moves.release.size = size
    for row, label, other, other_label in [
        ([1e30, 0, 0], 0, [-1e30, 0, 0], 1),
        ([0, 1e3, 0], 1, [0, 1e3, 0], 2),
        ([5e-40, 0, 0], 2, [1, 1, 1], 2),
        ([1, -1, 0], -9, [1, 1, 0], 9),
    ]:
        (a, b), (c, d) = (X.copy(), y.copy()), (X.copy(), y.copy())
        a[7], c[7] = row, other
        is_model = isinstance(model, DPSGDClassifier)
        b[7], d[7] = (np.clip([label, other_label], 0, 2)) if is_model else (label, other_label)
        guarantee, one = moves(lambda a=a, b=b: model.fit(form(a), b))
        _, two = moves(lambda c=c, d=d: model.fit(form(c), d))
        assert np.linalg.norm(one - two) <= guarantee.loss.mu * (1 + 1e-12)


@pytest.mark.parametrize("model", [DPMoments(delta=1e-6), DPPCA(delta=1e-6), DPBinner(delta=1e-6)])
def test_streams_in_other_chunks_move_no_further(moves, model):
    """One row replaced, in chunks of other sizes, sparse or not: rounding and order are within what is printed."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(1, 4)), 900, axis=0)
    other = X.copy()
    X[3], other[3] = [1e3, 0, 0, 0], [0, -1e3, 0, 0]
    guarantee, one = moves(lambda: model.fit(X))
    for cuts, form in [([100], np.asarray), ([1, 2, 899], sp.csr_array), ([450, 450, 800], np.asfortranarray)]:
        parts = [form(part) for part in np.split(other, cuts) if len(part)]
        _, two = moves(lambda parts=parts: model.fit_chunks(parts))
        assert 0 < np.linalg.norm(one - two) <= guarantee.loss.mu * (1 + 1e-12)


def test_a_search_over_persons_counts_each_fit_that_trains_on_one():
    """Each person is in two of three folds of each candidate, and in the refit, at the largest delta of a fold."""
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(90, 3)), rng.uniform(-1, 1, 90), np.arange(90) % 25
    with config_context(enable_metadata_routing=True):
        model = DPRidge(target_bounds=(-1, 1)).set_fit_request(groups=True)
        search = GridSearchCV(model, {"epsilon": [0.1, 0.5]}, cv=GroupKFold(3, shuffle=True))
        with PrivacyLedger() as ledger:
            search.fit(X, y, groups=groups)
    report = privacy_report(search)
    assert report.steps[1].releases == 5
    assert report.steps[1].calls == len(ledger.entries) == 7
    assert report.private.unit.startswith("one person")
    assert report.private.epsilon >= 0.5 + 2 * (0.1 + 0.5)
    assert report.private.delta >= 5 * max(entry.guarantee.delta for entry in ledger.entries)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_a_budget_over_private_bins_is_what_the_fit_releases(epsilon):
    """The plan sees public numbers in the place of bins: the total after the fit, and that of a ledger, are no more."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(0, 99, 500), "town": rng.choice(list("xyz"), 500)})
    y = np.where(table["age"] > 50, "yes", "no")
    model = make_pipeline(
        make_table_preprocessor({"age": (0, 120)}, epsilon=0.2), AMPClassifier(epsilon=0.8, classes=["no", "yes"])
    )
    set_budget(model, table, y, epsilon=epsilon, delta=1e-6)
    plan = privacy_report(model, table.iloc[:9], n_samples=500).private
    with PrivacyLedger() as ledger:
        model.fit(table, y)
    total = privacy_report(model).total
    assert len(ledger.entries) == 2
    assert max(total.epsilon, ledger.total()[0].guarantee.epsilon) <= min(plan.epsilon, epsilon) * (1 + 1e-9)
