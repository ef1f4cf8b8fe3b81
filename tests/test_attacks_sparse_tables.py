"""Attacks on sparse rows of tables, sums that are joined, prices and scores."""

import threading
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPRidge,
    DPSGDClassifier,
    DPSignOPORP,
    PrivacyLedger,
    load_model,
    make_table_preprocessor,
    metrics,
    privacy_report,
    save_model,
)
from skdprp._sums import CompensatedSum
from skdprp.ledger._filter import price
from skdprp.mechanisms import gaussian_profile, randomised_response_profile
from skdprp.testing import reproducible_noise

LABELS = np.arange(30) % 2


def _table(kind):
    """Rows of two columns of numbers and two of names: of any values, all missing, all alike, or of unknown names."""
    rng = np.random.default_rng(0)
    numbers = {"any": rng.uniform(-1, 11, 30), "none": np.full(30, np.nan), "alike": np.full(30, 5.0)}
    names = {"any": rng.choice(["u", "w", "?"], 30), "none": np.full(30, None), "alike": np.full(30, "u")}
    column, cells = numbers.get(kind, np.full(30, 1e300)), names.get(kind, np.full(30, "?")).astype(object)
    return pd.DataFrame({"a": column, "b": column, "t": cells, "o": cells})


@pytest.mark.parametrize("epsilon", [None, 0.5])
@pytest.mark.parametrize("numbers", ["bins", "scaled"])
def test_no_values_decide_whether_rows_of_a_table_are_sparse(epsilon, numbers):
    """Zeros, unknown names and missing cells change how many entries there are, and nothing that is kept."""
    for listed in (["u"], ["u", "w"]):
        bounds, categories, kept = {"a": (0, 10), "b": (0, 10)}, {"t": listed, "o": ["u", "w", "x", "y", "z"]}, set()
        if epsilon is not None:  # the others are found
            bounds, categories = {"a": (0, 10)}, {"t": listed}
        for kind in ("any", "none", "alike", "odd"):
            columns = make_table_preprocessor(bounds, categories=categories, epsilon=epsilon, numbers=numbers)
            rows = columns.fit(_table(kind)).transform(_table("any"))
            kept.add((columns["columns"].sparse_output_, type(rows), rows.dtype, rows.shape))
        assert len(kept) == 1


def test_sparse_rows_of_a_table_are_those_that_would_be_dense():
    """With the same noise, models have the same weights to the last bit."""
    X, known = _table("any"), {"categories": {"t": ["u", "w"], "o": ["u", "w", "x"]}}
    for model in (AMPClassifier(classes=[0, 1], delta=1e-6), DPSGDClassifier(classes=[0, 1], delta=1e-6)):
        weights = []
        for is_sparse in (True, False):
            columns = make_table_preprocessor({"a": (0, 10), "b": (0, 10)}, **known, sparse_output=is_sparse)
            with reproducible_noise(0):
                fitted = make_pipeline(columns, model).fit(X, LABELS)
            assert sp.issparse(fitted[:-1].transform(X)) == is_sparse
            weights.append(fitted[-1].coef_)
        assert np.array_equal(*weights)


def test_an_encoder_that_gets_no_column_has_no_zeros():
    """It would promise a zero in each row, and gives none: the one beside it decides by its values."""
    varying = OneHotEncoder(categories=[["u"]], handle_unknown="ignore")
    never = OneHotEncoder(categories=[["p", "q"]], handle_unknown="ignore")
    for cells in (["u"] * 30, ["u"] * 29 + ["?"]):
        X = pd.DataFrame({"t": cells})
        columns = ColumnTransformer([("a", varying, ["t"]), ("b", never, [])], sparse_threshold=1)
        model = make_pipeline(columns, AMPClassifier(classes=[0, 1], delta=1e-6)).fit(X, LABELS)
        assert privacy_report(model).total is None


def test_a_file_predicts_from_sparse_rows_as_the_model_does(tmp_path):
    """Rows of private bins, of which each has a one in each column."""
    X = _table("any")
    model = make_pipeline(make_table_preprocessor(epsilon=0.5), AMPClassifier(classes=[0, 1], delta=1e-6))
    save_model(tmp_path / "model.npz", model.fit(X, LABELS))
    saved = load_model(tmp_path / "model.npz").estimator
    for kind in ("any", "none", "odd"):
        assert np.array_equal(saved.predict_proba(_table(kind)), model.predict_proba(_table(kind)))


def test_a_frame_that_cannot_be_sparse_is_refused_before_bins_are_paid_for():
    """The bins were released, and then the frame was refused."""
    columns = make_table_preprocessor({"a": (0, 10)}, epsilon=0.5).set_output(transform="pandas")
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="sparse"):
        columns.fit_transform(_table("any"))
    assert len(ledger.entries) == 0


def _tree(terms, rng):
    """Sum terms as partitions are joined, a few at a time."""
    while len(terms) > 1:
        joined, places = [], np.arange(len(terms))
        for some in np.array_split(places, max(1, len(terms) // int(rng.integers(2, 9)))):
            total = CompensatedSum()
            for place in some:
                total.add(terms[place])
            joined.append(total)
        terms = joined
    return terms[0].value


def test_sums_that_are_joined_round_no_more_than_one_sum():
    """Terms of all sizes, which cancel mostly: the error is that of the result, but for terms of second order."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        terms = rng.normal(size=(100, 2)) * 10.0 ** rng.uniform(-18, 18, (100, 2))
        terms = np.concatenate([terms, -terms[rng.permutation(100)] * (1 + rng.choice([0, 2.0**-50], (100, 1)))])
        before, found = terms.copy(), _tree(list(terms), rng)
        assert np.array_equal(terms, before)
        for column in (0, 1):
            exact, size = sum(map(Fraction, terms[:, column].tolist())), np.abs(terms[:, column]).sum()
            bound = 2.0**-52 * abs(float(exact)) + (200 * 2.0**-52) ** 2 * size
            assert abs(float(Fraction(float(found[column])) - exact)) <= bound


def test_moments_of_many_partitions_are_those_of_the_table():
    """To the last bit of the release, in 70 partitions of which some have no rows."""
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(140, 3))
    chunks = ((0, 2, 2, 0, *(2,) * 68, 0), 3)
    parts = da.concatenate([da.from_array(part) for part in np.split(X, np.cumsum(chunks[0])[:-1]) if len(part)])
    moments = []
    for rows in (X, parts):
        with reproducible_noise(0):
            moments.append(DPMoments(delta=1e-6).fit(rows).moments_)
    assert np.array_equal(moments[0].values, moments[1].values)
    assert moments[0].n_samples == moments[1].n_samples == 140


def _exact_profile(epsilon, epsilon0, n_bits, changed):
    """Sum over how many bits differ, and how many of these are kept, with 50 digits."""
    with localcontext() as context:
        context.prec = 50
        epsilon, epsilon0, changed = map(Decimal, (epsilon, epsilon0, changed))
        kept, delta = 1 / (1 + (-epsilon0).exp()), Decimal(0)
        for n in range(n_bits + 1):
            weight = comb(n_bits, n) * changed**n * ((1 - changed) ** (n_bits - n) if n < n_bits else 1)
            for k in range(n + 1):
                if (loss := (2 * k - n) * epsilon0) > epsilon:
                    probability = weight * comb(n, k) * kept**k * ((1 - kept) ** (n - k) if k < n else 1)
                    delta += probability * (1 - (epsilon - loss).exp())
        return delta


def test_the_profile_of_randomised_response_is_exact():
    """Up to 12 bits, all or some of which differ, with losses from 1e-8 to 20 and epsilons near the largest loss."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        n_bits, epsilon0 = int(rng.integers(1, 13)), float(10 ** rng.uniform(-8, 1.3))
        changed = float(rng.choice([1.0, rng.uniform(), 10 ** rng.uniform(-8, 0)]))
        epsilon = float(n_bits * epsilon0 * rng.choice([0.0, rng.uniform(), 1 - 10 ** rng.uniform(-9, -1)]))
        computed = randomised_response_profile(epsilon, epsilon0=epsilon0, n_bits=n_bits, changed=changed)
        exact = float(_exact_profile(epsilon, epsilon0, n_bits, changed))
        assert computed == pytest.approx(exact, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(
    "model",
    [DPOPORP(4, noise="laplace"), DPSignOPORP(4), AMPClassifier(classes=[0, 1], delta=1e-6), DPBinner(delta=1e-3)],
    ids=lambda model: type(model).__name__,
)
def test_a_price_dominates_at_all_epsilons(model):
    """Between the cells, too, and beyond the last one; to the 2^-32 by which profiles are rounded up."""
    guarantee = model.fit(np.random.default_rng(0).normal(size=(30, 6)), LABELS).guarantee_
    square, coins, sampling = price(guarantee)
    for at in np.append(np.geomspace(1e-7, 100, 12), 0.0):
        shifted = max(at - 2 * sampling, 0.0)
        gaussian = gaussian_profile(shifted, scale=square**-0.5) + 2 * sampling  # whose slope is above -1
        assert guarantee.profile(at) <= np.exp(sampling) * (coins + gaussian) * (1 + 1e-9) + 1e-60


def test_private_scores_move_no_more_than_their_noise_is_for(monkeypatch):
    """Sums without noise of neighbours, in which a row or a person with any number of rows has others in its place."""
    monkeypatch.setattr(metrics, "add_laplace", lambda sums, scale: np.array(sums, dtype=np.float64))
    rng = np.random.default_rng(0)
    odd = np.array([0, 1, 0.5, 2.0**-21, 1 - 2.0**-21, 0.5 + 2.0**-20, 1e300, -1e300, np.nan])
    calls = [
        (metrics.dp_accuracy_score, {}, 1.0, 1.0),
        (metrics.dp_confusion_matrix, {"labels": [0.0, 1.0]}, 2.0, 2.0),
        (metrics.dp_r2_score, {"target_bounds": (0, 1)}, 2.0, 2.0 + 2.0**-18),
    ]
    for _ in range(60):
        rows, others = (rng.choice(odd, size=(2, 6)) for _ in range(2))
        replaced = np.concatenate([others[:, :1], rows[:, 1:]], axis=1)
        groups = np.array([0, 0, 1, 1, 2, 2])
        n_rows = int(rng.integers(1, 7))
        person, labels = np.concatenate([others[:, :n_rows], rows[:, 2:]], axis=1), [0] * n_rows + [1, 1, 2, 2]
        for score, known, of_row, of_person in calls:
            moved = score(*rows, **known).released - score(*replaced, **known).released
            assert np.abs(moved).sum() <= of_row
            moved = score(*rows, groups=groups, **known).released - score(*person, groups=labels, **known).released
            assert np.abs(moved).sum() <= of_person


@pytest.mark.parametrize("is_outside", [False, True])
def test_a_plan_counts_as_many_sketches_before_a_search_as_the_fit_makes(is_outside):
    """One for all classes, or one for each of three; what the search does with them costs nothing more."""
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (30, 4)), np.arange(30) % 3
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=KFold(2))
    sketch = DPOPORP(2, delta=1e-6, random_state=0)
    inner = OneVsRestClassifier(search) if not is_outside else search
    model = make_pipeline(sketch, inner)
    model = OneVsRestClassifier(model) if is_outside else model
    plan = privacy_report(model, X, y).total
    with PrivacyLedger() as ledger:
        fitted = privacy_report(model.fit(X, y)).total
    assert len(ledger.entries) == plan.n_releases == fitted.n_releases == (3 if is_outside else 1)
    assert (plan.epsilon, plan.delta) == (fitted.epsilon, fitted.delta)


def test_noise_of_sketches_in_threads_is_never_shared():
    """Four threads release the same rows, each in threads of its own: no two numbers have the same noise mostly."""
    X = np.random.default_rng(0).uniform(-1, 1, (1100, 64))
    sketch = DPOPORP(64, delta=1e-6, n_jobs=2, random_state=0).fit(X)
    found = [None] * 4

    def _release(place):
        found[place] = sketch.transform(X)

    threads = [threading.Thread(target=_release, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plain = sketch.project_queries(X)
    for place, one in enumerate(found):
        for other in found[:place]:
            assert abs(np.corrcoef((one - plain).ravel(), (other - plain).ravel())[0, 1]) < 0.03  # 8 deviations
            assert (one == other).mean() < 0.01


def test_a_ridge_of_sparse_rows_of_a_table_is_that_of_dense_ones():
    """Its moments are summed in another order for each, and rounded to the same grid of the noise."""
    X, y = _table("any"), np.linspace(0, 1, 30)
    weights = []
    for is_sparse in (True, False):
        known = {"categories": {"t": ["u", "w"], "o": ["u", "w"]}, "sparse_output": is_sparse}
        columns = make_table_preprocessor({"a": (0, 10), "b": (0, 10)}, **known)
        with reproducible_noise(0):
            weights.append(make_pipeline(columns, DPRidge(target_bounds=(0, 1), delta=1e-6)).fit(X, y)[-1].coef_)
    assert np.allclose(*weights, rtol=1e-9)


WORDS = {"good": 0, "bad": 1, "dear": 2}


def bag_of_words(column):
    """Counts of words of which each occurrence is an entry of its own, as in an example of scipy."""
    indices, indptr = [], [0]
    for text in column.iloc[:, 0]:
        indices += [WORDS[word] for word in text.split() if word in WORDS]
        indptr.append(len(indices))
    return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(indptr) - 1, len(WORDS)))


# Once entries of a row that are stored in parts decided whether the rows counted as sparse, and if there was a total.
def test_no_total_is_stated_where_entries_in_parts_decide_whether_rows_are_sparse():
    table = pd.DataFrame({"text": ["good"] * 500, "town": ["York", "Hull"] * 250})
    other = table.copy()
    other.loc[0, "text"] = "good " * 2000  # one row replaced
    y, plans = np.tile([0, 0, 1, 1], 125), []
    for rows in (table, other):
        towns = OneHotEncoder(categories=[["Hull", "York"]], handle_unknown="ignore")
        parts = [("town", towns, ["town"]), ("text", FunctionTransformer(bag_of_words), ["text"])]
        columns = ColumnTransformer(parts, sparse_threshold=1.0)
        model = make_pipeline(columns, AMPClassifier(delta=1e-6, classes=[0, 1]))
        plans.append(privacy_report(model, rows, y).total)
        assert privacy_report(model.fit(rows, y)).total is None
    assert plans == [None, None]
