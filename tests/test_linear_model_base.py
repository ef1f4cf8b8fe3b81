"""What the private linear classifiers share, as scikit-learn users meet them."""

import pickle
import tracemalloc
import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.validation import has_fit_parameter

from skdprp import AMPClassifier, DPSGDClassifier, PrivacyLedger, ProductNoiseOutputPerturbation
from skdprp._rows import clip_rows
from skdprp.guarantee import LABELS_ARE_PUBLIC, Adjacency
from skdprp.linear_model import SolverError, _erm
from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss
from skdprp.mechanisms.objective_perturbation import hessian_log_det
from skdprp.testing import reproducible_noise

BOTH = [AMPClassifier, ProductNoiseOutputPerturbation]
R = np.hypot(1.0, 0.3)  # norm of a row of norm 1 with its constant feature


@pytest.fixture(scope="module")
def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("estimator", BOTH)
def test_without_noise_it_is_logistic_regression(estimator, binary, three_classes, silenced_noise):
    """Same objective as LogisticRegression, to the tolerance."""
    for X, y in (binary, three_classes):
        model = estimator(loss="log_loss", C=0.02, fit_intercept=False).fit(X, y)
        peer = LogisticRegression(C=0.02, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
        np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-6)
        np.testing.assert_array_equal(model.predict(X), peer.predict(X))


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
@pytest.mark.parametrize("estimator", BOTH)
def test_the_loss_is_capped_unless_there_is_a_softmax_or_a_paper(estimator, binary, three_classes):
    """Noise and weights are those of the loss that is named, and its probabilities, whatever becomes of `loss`."""
    published = {"calibration": "published", "epsilon": 0.9} | ({"radius": "gaussian"} if estimator is BOTH[1] else {})
    cases = [
        (binary, {}, "capped_log_loss"),
        (three_classes, {}, "log_loss"),
        (three_classes, {"multi_class": "ovr"}, "capped_log_loss"),
        (binary, published, "log_loss"),
    ]
    for (X, y), known, loss in cases:
        with reproducible_noise(0):
            auto = estimator(**known).fit(X, y)
        with reproducible_noise(0):
            named = estimator(loss=loss, **known).fit(X, y)
        assert auto.loss_ == named.loss_ == loss
        np.testing.assert_array_equal(auto.coef_, named.coef_)
        np.testing.assert_array_equal(auto.set_params(loss="log_loss").predict_proba(X), named.predict_proba(X))


@pytest.mark.parametrize("estimator", BOTH)
def test_the_intercept_is_a_penalised_constant_feature(estimator, binary, silenced_noise):
    """It equals the weight of an extra column of 0.3, times 0.3."""
    X, y = binary
    model = estimator(loss="log_loss", C=0.1).fit(X, y)
    peer = LogisticRegression(C=0.1, fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(np.column_stack([X, np.full(len(X), 0.3)]), y)
    np.testing.assert_allclose(model.coef_, peer.coef_[:, :-1], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, 0.3 * peer.coef_[:, -1], atol=1e-6)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("loss", ["log_loss", "capped_log_loss", "huber_hinge"])
def test_one_vs_rest_solves_each_class(estimator, loss, three_classes, silenced_noise):
    """Each row of coef_ is the binary problem of that class; the jobs make no difference."""
    X, y = three_classes
    known = {"C": 0.005, "loss": loss, "multi_class": "ovr", "epsilon": 20.0}
    model, parallel = (estimator(n_jobs=jobs, **known).fit(X, y) for jobs in (None, 2))
    alone = {"count_labels": False} if estimator is AMPClassifier else {}  # of two classes, as of more
    for k in range(3):
        one = estimator(**known, **alone).fit(X, y == k)
        np.testing.assert_allclose(model.coef_[k], one.coef_[0], atol=1e-10)
    np.testing.assert_array_equal(model.coef_, parallel.coef_)
    if loss != "huber_hinge":
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("estimator", BOTH)
def test_probabilities_need_a_logistic_loss(estimator, binary):
    model = estimator(loss="huber_hinge").fit(*binary)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)
        assert hasattr(estimator(), name) and hasattr(estimator(loss="capped_log_loss"), name)


def far_scores(model, scores):
    """Give a model of one feature weights under which the row [1] has these scores."""
    if isinstance(model, DPSGDClassifier):
        model.coefs_, model.intercepts_ = [np.array([scores])], [np.zeros(len(scores))]
    else:
        model.coef_, model.intercept_ = np.array(scores)[:, None], np.zeros(len(scores))
    return model.predict_log_proba(np.ones((1, 1)))[0]


def precise_log_probability(loss, score):
    """Logarithm of the share of the label at which the expected loss is least, in 60 digits."""
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(score)))
    if loss == "log_loss":
        return mpmath.log(p)
    return mpmath.log(2 * p / (1 + 2 * p)) if score < 0 else mpmath.log(1 / (3 - 2 * p))


def precise_log_shares(scores):
    """Logarithms of the shares of many classes, up to a constant, at which capped pulls on the scores cancel."""
    total = sum(map(mpmath.exp, scores))
    p = [mpmath.exp(score) / total for score in scores]
    norms = [mpmath.sqrt(sum((p_k - (k == y)) ** 2 for k, p_k in enumerate(p))) for y in range(len(p))]
    cap = mpmath.sqrt(1 - mpmath.mpf(1) / len(p))
    return [mpmath.log(p_y * max(1, norm / cap)) for p_y, norm in zip(p, norms, strict=True)]


SCORES = [0.0, 1.0, -30.0, 37.5, 745.2, -745.2, 1e5, -1e300]


@pytest.mark.parametrize(
    "model",
    [
        AMPClassifier(loss="log_loss"),
        AMPClassifier(),
        ProductNoiseOutputPerturbation(),
        DPSGDClassifier(n_epochs=2, max_norm=1.0),
        DPSGDClassifier(n_epochs=2, max_norm=None),
    ],
    ids=repr,
)
@pytest.mark.parametrize("score", SCORES)
def test_logarithms_of_probabilities_lose_no_digits(model, score):
    """Of two classes, however far the score: no -inf where the logarithm is a float."""
    model = clone(model).fit(np.ones((6, 1)), [0, 1] * 3)
    loss = "capped_log_loss" if getattr(model, "max_norm", None) and isinstance(model, DPSGDClassifier) else "log_loss"
    loss = getattr(model, "loss_", loss)
    with mpmath.workdps(60):
        expected = [float(precise_log_probability(loss, side * score)) for side in (-1, 1)]
    np.testing.assert_allclose(far_scores(model, [score]), expected, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize(
    "model",
    [
        AMPClassifier(),
        AMPClassifier(multi_class="ovr"),
        AMPClassifier(multi_class="ovr", loss="log_loss"),
        ProductNoiseOutputPerturbation(),
        DPSGDClassifier(n_epochs=2, max_norm=1.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("scores", [(0.3, -0.2, 1.0), (-800.0, -2000.0, -5000.0), (900.0, 0.0, -1e6)], ids=str)
def test_logarithms_of_probabilities_of_many_classes(model, scores):
    """They are normalised, and those of the likeliest classes right however small the others are."""
    model = clone(model).fit(np.ones((6, 1)), [0, 1, 2] * 2)
    is_softmax = model.multi_class == "auto" if hasattr(model, "multi_class") else True
    with mpmath.workdps(60):
        logs = [mpmath.mpf(s) if is_softmax else precise_log_probability(model.loss_, s) for s in scores]
        if isinstance(model, DPSGDClassifier):  # whose derivatives are capped
            logs = precise_log_shares(logs)
        total = mpmath.log(sum(map(mpmath.exp, logs)))
        expected = [float(log - total) for log in logs]
    np.testing.assert_allclose(far_scores(model, scores), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 1)))[0], np.exp(expected), rtol=1e-12)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("loss", ["log_loss", "capped_log_loss"])
def test_probabilities_are_the_truth_where_scores_can_reach_it(estimator, loss, silenced_noise):
    """Shares of a label in three groups of rows are predicted, whatever the loss."""
    rows, shares = np.eye(3), np.array([0.1, 0.35, 0.8])
    X, y = np.repeat(rows, 20_000, axis=0), np.concatenate([np.arange(20_000) < 20_000 * share for share in shares])
    model = estimator(loss=loss, fit_intercept=False, C=10.0, epsilon=8.0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], shares, atol=1e-3)


@pytest.mark.parametrize("loss", ["log_loss", "capped_log_loss"])
def test_probabilities_of_one_vs_rest_stay_numbers(loss, three_classes):
    """Where all scores are far below zero, which no float holds the probabilities of, ratios are still known."""
    model = AMPClassifier(loss=loss, multi_class="ovr").fit(*three_classes)
    model.coef_, model.intercept_ = np.zeros((3, 8)), np.array([-1000.0, -1001.0, -5000.0])
    expected = np.array([1.0, np.exp(-1.0), 0.0]) / (1 + np.exp(-1.0))
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 8)))[0], expected, rtol=1e-12)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_capped_loss_needs_half_the_noise(adjacency, binary, three_classes):
    """At the same C: of objective perturbation, and of output perturbation; and it has no softmax."""
    for estimator in BOTH:
        known = {"C": 0.05, "epsilon": 2.0, "adjacency": adjacency, "multi_class": "ovr"}
        for X, y in (binary, three_classes):
            plain, capped = (estimator(loss=loss, **known).fit(X, y) for loss in ("log_loss", "capped_log_loss"))
            assert capped.scale_ == pytest.approx(plain.scale_ / 2, rel=1e-6)
            auto = estimator(loss="capped_log_loss").fit(X, y)
            assert auto.coef_.shape == capped.coef_.shape == (1 if len(set(y)) == 2 else 3, 8)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
def test_sparse_and_float32_give_the_same_model(estimator, multi_class, three_classes, silenced_noise):
    """CSR rows, repeated entries of them, and float32 only differ by rounding."""
    X, y = three_classes
    X = np.where(np.abs(X) > 0.2, X, 0)
    known = {"C": 0.02, "multi_class": multi_class}
    dense = estimator(**known).fit(X, y)
    csr = sp.csr_matrix(X)
    halves = sp.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    for other in (csr, sp.csr_array(X), halves, X.astype(np.float32), csr.astype(np.float32)):
        model = estimator(**known).fit(other, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-6)
        np.testing.assert_allclose(model.decision_function(other), dense.decision_function(X), atol=1e-6)
    assert halves.nnz == 2 * csr.nnz  # the caller's matrix is left alone


def test_sparse_rows_are_never_densified(monkeypatch, three_classes):
    X, y = three_classes

    def refuse(self, *args, **kwargs):
        raise AssertionError("densified")

    csr = sp.csr_matrix(X)
    for kind in (sp.csr_matrix, sp.csr_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    AMPClassifier().fit(csr, y).predict(csr)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_rows_are_clipped(make):
    """Norms end below max_norm, repeated entries counted as their sum; shorter rows stay as they are."""
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e200, 1e200]])
    clipped = clip_rows(make(rows), 1.0)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    assert np.all(np.linalg.norm(clipped, axis=1) <= 1.0)
    np.testing.assert_allclose(clipped[:3], [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], rtol=1e-11)
    repeated = sp.csr_matrix((np.ones(4), [0, 0, 0, 0], [0, 4]), shape=(1, 2))
    assert np.linalg.norm(clip_rows(repeated, 1.0).toarray()) <= 1.0


def test_rows_within_bounds_are_not_copied():
    """Ten million of them would take as much memory again; those that are clipped are clipped in a copy."""
    rows = np.array([[0.3, 0.4], [0.0, 0.0]])
    assert clip_rows(rows, 1.0, copy=False) is rows and clip_rows(rows, 1.0) is not rows
    for other in (np.asfortranarray(rows), rows.astype(np.float32), rows * 4, rows * 1e200):
        before = other.copy()
        clipped = clip_rows(other, 1.0, copy=False)
        assert not np.shares_memory(clipped, other) and np.array_equal(other, before)
        np.testing.assert_array_equal(clipped, clip_rows(other, 1.0))
        out = np.full((3, 2), 7.0)
        assert np.shares_memory(clip_rows(other, 1.0, copy=False, out=out), out)
        assert np.array_equal(out, [*clipped.tolist(), [7.0, 7.0]]) and np.array_equal(other, before)


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.parametrize("label", [None, 1, b"a"])
def test_a_label_of_another_type_is_refused_at_any_place(estimator, place, label):
    """The first label decided for all which error came, and whether one did."""
    y = np.array(["a", "b"] * 3, dtype=object)
    y[place] = label
    with pytest.raises(ValueError, match="Unknown label type: labels are numbers"):
        estimator(delta=1e-6).fit(np.eye(6), y)


@pytest.mark.parametrize("to_type", [np.asarray, list, pd.Series, lambda y: np.array(list(y), dtype=object)])
@pytest.mark.parametrize("kind", ["M8[s]", "m8[s]"])
def test_dates_and_spans_are_no_labels(kind, to_type):
    """The unit of one of them would decide the type of all; in a list, spans are integers to numpy."""
    with pytest.raises(ValueError, match="Unknown label type: labels are numbers"):
        AMPClassifier(delta=1e-6).fit(np.eye(6), to_type(np.array([1, 2] * 3).astype(kind)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
def test_whole_labels_beyond_integers_raise_no_warning(estimator):
    assert estimator(delta=1e-6).fit(np.eye(6), [2.0**70, 1] * 3).classes_.tolist() == [1, 2.0**70]


@pytest.mark.parametrize("estimator", BOTH)
def test_data_of_any_scale_need_no_normalizer(estimator, silenced_noise, binary):
    """Rows ten times too long give the model of normalised rows, in prediction too."""
    X, y = binary
    model, other = estimator(C=0.1).fit(X, y), estimator(C=0.1).fit(10 * X, y)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-8)
    np.testing.assert_allclose(other.decision_function(10 * X), model.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("estimator", BOTH)
def test_max_norm_only_sets_the_unit(estimator):
    """Scales, and C, depend on max_norm as the units say."""
    X, y = np.eye(4), [0, 0, 1, 1]
    one, ten = (estimator(max_norm=m).fit(m * X, y) for m in (1.0, 10.0))
    assert pytest.approx(one.C_ / 100, rel=1e-6) == ten.C_
    # The linear term has the unit of a gradient, the noise on the output that of weights.
    unit = 10.0 if estimator is AMPClassifier else 0.1
    assert ten.scale_ == pytest.approx(unit * one.scale_, rel=1e-6)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    "labels", [["spam", "ham"], [True, False], [7, -3], [1.0, 2.0], np.array(["a", "b"], dtype=object)]
)
def test_any_labels(estimator, labels, breast_cancer, silenced_noise):
    X, codes = breast_cancer
    y = np.asarray(labels)[codes]
    model = estimator(C=1.0, epsilon=100.0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert model.score(X, y) > 0.9
    np.testing.assert_array_equal(estimator(C=1.0, epsilon=100.0, classes=labels).fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize("estimator", BOTH)
def test_public_classes_may_be_absent_from_the_data(estimator, binary):
    """A class without rows still has weights, and the guarantee says that the labels were given."""
    X, y = binary
    model = estimator(classes=[0, 1, 2]).fit(X, y)
    assert model.coef_.shape == (3, 8)
    assert model.predict_proba(X).shape == (300, 3)


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
def test_labels_that_are_read_off_the_rows_condition_the_guarantee(estimator, binary):
    """A class of one row shows that it is there, unless `classes` lists it: a neighbour without it has others."""
    X, y = binary
    alone = np.where(np.arange(300) == 7, 2, y)
    found = [estimator(max_norm=1.0).fit(X, labels) for labels in (y, alone)]
    listed = [estimator(max_norm=1.0, classes=range(3)).fit(X, labels) for labels in (y, alone)]
    assert [len(model.classes_) for model in found + listed] == [2, 3, 3, 3]
    for model in found:
        assert model.guarantee_.given == "the set of labels"
        assert repr(model.guarantee_).endswith("one row replaced, given the set of labels")
        assert not any("labels" in fact for fact in model.guarantee_.assumptions)
    for model in listed:
        assert model.guarantee_.given == ""
        assert repr(model.guarantee_).endswith("one row replaced")
        assert LABELS_ARE_PUBLIC in model.guarantee_.assumptions


def test_labels_that_look_like_numbers_to_predict_are_warned_of_by_their_set_alone():
    rng = np.random.default_rng(0)
    X, prices = rng.uniform(size=(300, 2)), rng.permutation(np.arange(300) % 120)
    model = AMPClassifier(delta=1e-6)
    for labels in (prices, np.append(np.arange(120), np.zeros(180, dtype=int))):
        with pytest.warns(UserWarning, match="^y has 120 different labels.*to predict a number use DPRidge"):
            model.fit(X, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(classes=np.arange(120)).fit(X, prices)
        model.set_params(classes=None).fit(X, prices % 100)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("rows", [np.zeros((300, 8)), sp.csr_matrix((300, 8))], ids=["dense", "sparse"])
def test_rows_of_zeros_are_rows_like_any_other(estimator, rows, binary):
    """Whether all others are zero would be told of a single row by an error."""
    assert np.isfinite(estimator().fit(rows, binary[1]).coef_).all()


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(300)}, "one class"),
        ({"classes": [0]}, "one class"),
        ({"classes": [0, 2]}, "not among `classes`"),
        ({"X": np.full((300, 8), np.nan)}, "NaN"),
        ({"X": np.full((300, 8), np.inf)}, "infinity"),
        ({"loss": "huber_hinge", "multi_class": "multinomial"}, "log_loss"),
        ({"loss": "capped_log_loss", "multi_class": "multinomial"}, "use 'auto' or 'ovr' for 'capped_log_loss'"),
        ({"y": np.linspace(0, 1, 300)}, "Unknown label type"),
        ({"calibration": "published", "adjacency": "add_remove"}, "replace_one"),
    ],
)
def test_errors(estimator, change, message, binary):
    data = {"X": binary[0], "y": binary[1]} | {name: change[name] for name in ("X", "y") if name in change}
    with pytest.raises(ValueError, match=message):
        estimator(**{name: change[name] for name in change.keys() - data.keys()}).fit(**data)


@pytest.mark.parametrize(
    ("estimator", "change", "message"),
    [
        (AMPClassifier, {"calibration": "published", "C": 1.0}, "C of at most"),
        (AMPClassifier, {"calibration": "published", "multi_class": "multinomial"}, "ovr"),
        (ProductNoiseOutputPerturbation, {"calibration": "published"}, "chi1"),
        (ProductNoiseOutputPerturbation, {"delta": 0, "radius": "chi1"}, "delta=0"),
        (ProductNoiseOutputPerturbation, {"delta": 0, "radius": "gaussian"}, "delta=0"),
        (ProductNoiseOutputPerturbation, {"radius": "gaussian", "calibration": "published"}, "epsilon < 1"),
    ],
)
def test_errors_of_calibrations(estimator, change, message, three_classes):
    with pytest.raises(ValueError, match=message):
        estimator(**change).fit(*three_classes)


@pytest.mark.parametrize("estimator", BOTH)
def test_sample_weight_is_refused(estimator, binary):
    with pytest.raises(TypeError):
        estimator().fit(*binary, sample_weight=np.ones(300))


@pytest.mark.parametrize("estimator", BOTH)
def test_a_solver_that_falls_short_releases_nothing(estimator, binary, monkeypatch):
    """The error has no number from the data, and there are no weights."""
    monkeypatch.setattr(_erm, "_MOST_STEPS", 1)
    model = estimator()
    with pytest.raises(SolverError, match="The solver did not reach tol within 1 steps: raise tol or lower C"):
        model.fit(*binary)
    assert not hasattr(model, "coef_")


MANY = np.random.default_rng(0).normal(size=(2000, 3)) / 3, np.arange(2000) % 300


@pytest.mark.parametrize("estimator", [AMPClassifier, ProductNoiseOutputPerturbation, DPSGDClassifier])
def test_many_classes_take_the_memory_that_is_asked_for(estimator):
    """Which is less than all scores of all rows, where rows come in blocks."""
    X, y = MANY
    model = estimator(classes=range(300), **({"n_epochs": 2} if estimator is DPSGDClassifier else {"tol": 1e-6}))
    asked_for = 8 * model._problem(X.shape, X.dtype, 300).n_numbers
    tracemalloc.start()
    model.fit(X, y)
    _, taken = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert asked_for / 4 < taken < asked_for + 2**21
    assert (taken < 3 * 8 * X.shape[0] * 300) == (estimator is DPSGDClassifier)


@pytest.mark.parametrize("estimator", [AMPClassifier, ProductNoiseOutputPerturbation, DPSGDClassifier])
@pytest.mark.parametrize("n_numbers", [2**45, 2**62])
def test_more_classes_than_memory_are_refused_before_anything_is_spent(estimator, n_numbers, monkeypatch):
    problem = type(estimator()._problem((2000, 3), np.float64, 300))
    monkeypatch.setattr(problem, "n_numbers", n_numbers)
    with PrivacyLedger() as ledger, pytest.raises(MemoryError, match=r"300 classes takes [\d,]+\.0 GiB\. Nothing"):
        estimator(classes=range(300)).fit(*MANY)
    assert ledger.entries == ()


@pytest.mark.parametrize("estimator", BOTH)
def test_extreme_rows_are_solved(estimator):
    """Huge, tiny and constant features, separable labels, one row of a class: the tolerance is reached all the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * np.array([1e12, 1e-12, 1.0, 0.0, 1e-3])
    y = np.arange(200) == 7
    for loss in ("log_loss", "huber_hinge"):
        for max_norm in (1e-50, 1e-3, 1e3, 1e50):
            model = estimator(loss=loss, max_norm=max_norm, epsilon=100.0).fit(X, y)
            assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("estimator", BOTH)
def test_the_guarantee_is_stated_in_full(estimator, binary):
    blank = estimator(epsilon=0.5, adjacency="add_remove").fit(*binary).guarantee_
    listed = estimator(classes=[0, 1]).fit(*binary).guarantee_
    assert (blank.adjacency, blank.given) == (Adjacency("add_remove"), "the set of labels")
    assert (listed.adjacency, listed.given) == (Adjacency("replace_one"), "")
    for guarantee, rows in ((blank, "the number of rows, blank ones included,"), (listed, "the number of rows")):
        assert "coef_, intercept_" in guarantee.released and "perturbation" in guarantee.mechanism
        assert f"{rows} is public; delta_, the noise and other settings may follow from it" in guarantee.assumptions
    assert LABELS_ARE_PUBLIC in listed.assumptions
    with reproducible_noise(0):
        seeded = estimator().fit(*binary)
    assert seeded.guarantee_.seeded
    assert not estimator().fit(*binary).guarantee_.seeded


@pytest.mark.parametrize("estimator", BOTH)
def test_everything_fitted_but_the_weights_depends_on_public_facts_only(estimator, three_classes):
    """Other rows and labels of the same shape change coef_ and intercept_, and the name that follows from them."""
    X, y = three_classes
    rng = np.random.default_rng(1)
    one, other = estimator().fit(X, y), estimator().fit(rng.normal(size=X.shape), rng.permutation(y))
    released = {"coef_", "intercept_", "_fit_name"}
    for name in vars(one).keys() - released - {"classes_"}:
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.classes_, other.classes_)
    assert released < vars(one).keys() == vars(other).keys()


@pytest.mark.parametrize(
    ("name", "loss"),
    [("log_loss", LogisticLoss()), ("capped_log_loss", CappedLogisticLoss()), ("huber_hinge", HuberHingeLoss())],
)
def test_auto_c_leaves_most_of_epsilon_to_the_noise(name, loss, binary):
    """The log-determinant takes at most an eighth, at any epsilon."""
    for epsilon in (0.01, 0.1, 1.0, 10.0, 100.0):
        model = AMPClassifier(epsilon=epsilon, loss=name).fit(*binary)
        assert hessian_log_det(loss, max_norm=R, penalty=1 / model.C_) <= 0.12501 * epsilon


# Weights of classes


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
def test_weights_of_classes_are_those_of_logistic_regression(
    estimator, multi_class, binary, three_classes, silenced_noise
):
    known = {"loss": "log_loss", "C": 0.02, "fit_intercept": False, "multi_class": multi_class, "epsilon": 5.0}
    for (X, y), weights in ((binary, {0: 0.2}), (three_classes, {0: 0.2, 2: 0.7})):
        model = estimator(class_weight=weights, **known).fit(X, y)
        full = {k: weights.get(k, 1.0) for k in range(3)}
        options = {"C": 0.02, "fit_intercept": False, "tol": 1e-10, "max_iter": 1000}
        if multi_class == "auto":
            peer = LogisticRegression(class_weight=weights, **options).fit(X, y)
            np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
        for k in range(3 if multi_class == "ovr" and len(set(y)) > 2 else 0):
            row_weights = np.vectorize(full.get)(y)
            peer = LogisticRegression(**options).fit(X, y == k, sample_weight=row_weights)
            np.testing.assert_allclose(model.coef_[k], peer.coef_[0], atol=1e-6)


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
@pytest.mark.parametrize("known", [{}, {"class_weight": {2: 0.5, 0: np.float32(0.25)}}], ids=str)
def test_weights_of_classes_change_no_noise(estimator, known, three_classes):
    """They are public, and at most 1: noise and guarantee are those of rows of weight 1."""
    X, y = three_classes
    weighted, plain = estimator(**known).fit(X, y), estimator().fit(X, y)
    assert weighted.scale_ == plain.scale_
    assert weighted.guarantee_ == plain.guarantee_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("known", [{}, {"max_norm": 1.0}, {"hidden_layer_sizes": 4}], ids=str)
def test_descent_multiplies_gradients_by_the_weights_of_classes(known, dtype, three_classes, silenced_noise):
    """Half the weight of all is half the rate; of weight 0 a class is as if its rows were blank."""
    X, y = three_classes[0].astype(dtype), three_classes[1]
    options = {"n_epochs": 4, "batch_size": None, **known}
    with reproducible_noise(0):  # networks start at random
        half = DPSGDClassifier(class_weight=dict.fromkeys(range(3), 0.5), learning_rate=1.0, **options).fit(X, y)
    with reproducible_noise(0):
        slow = DPSGDClassifier(learning_rate=0.5, **options).fit(X, y)
    for one, other in zip(half.coefs_, slow.coefs_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    if "hidden_layer_sizes" not in known:
        without = DPSGDClassifier(class_weight={2: 0}, learning_rate=1.0, **options).fit(X, y)
        peer = DPSGDClassifier(learning_rate=len(y[y < 2]) / len(y), classes=range(3), **options).fit(
            X[y < 2], y[y < 2]
        )
        np.testing.assert_allclose(without.coefs_[0], peer.coefs_[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("balanced", "would be computed from the labels: give weights"),
        ({0: 1.5}, "weights from 0 to 1"),
        ({0: -0.1}, "weights from 0 to 1"),
        ({0: np.nan}, "weights from 0 to 1"),
        ({0: "0.5"}, "weights from 0 to 1"),
        ({0: True}, "weights from 0 to 1"),
        ({0: None}, "weights from 0 to 1"),
        ({2: 0.5}, "not among the classes"),
        ({"0": 0.5}, "not among the classes"),
        ({0: 0, 1: 0.0}, "0 for all classes"),
        ("uniform", "class_weight"),
        ([0.5, 0.5], "class_weight"),
    ],
    ids=str,
)
def test_weights_of_classes_that_cannot_be_are_refused(estimator, weights, message, binary):
    model = estimator(class_weight=weights)
    with pytest.raises(ValueError, match=message):
        model.fit(*binary)
    assert not hasattr(model, "guarantee_")


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
def test_labels_of_weights_are_those_of_the_classes(estimator, silenced_noise, binary):
    """Of any type that a label has, also where only `classes` lists it."""
    X, codes = binary
    expected = estimator(class_weight={1: 0.25}).fit(X, codes).decision_function(X)
    for labels, weights in (
        (np.array(["ham", "spam"]), {"spam": 0.25}),
        (np.array(["ham", "spam"], dtype=object), {np.str_("spam"): 0.25}),
        (np.array([False, True]), {True: 0.25}),
        (np.array([3.0, 7.0]), {7: 0.25}),
    ):
        model = estimator(class_weight=weights).fit(X, labels[codes])
        np.testing.assert_array_equal(model.decision_function(X), expected)
    estimator(class_weight={2: 0.5}, classes=[0, 1, 2]).fit(X, codes)


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
def test_weights_of_rows_are_refused_with_the_reason(estimator, binary):
    X, y = binary
    with pytest.raises(TypeError, match=r"fit takes no sample_weight\. With weights of rows.* use class_weight"):
        estimator().fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="use class_weight"):
        make_pipeline(estimator()).fit(X, y, **{f"{estimator.__name__.lower()}__sample_weight": np.ones(len(y))})
    assert not has_fit_parameter(estimator(), "sample_weight")  # of which others would pass some


# With the rest of scikit-learn


@pytest.mark.parametrize("estimator", BOTH)
def test_model_selection(estimator, breast_cancer, seeded):
    X, y = breast_cancer
    pipe = make_pipeline(Normalizer(), estimator(epsilon=20.0))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.7
    name = f"{estimator.__name__.lower()}__"
    search = GridSearchCV(pipe, {f"{name}epsilon": [0.5, 20.0], f"{name}C": [0.05, "auto"]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].guarantee_.epsilon == search.best_params_[f"{name}epsilon"]
    calibrated = CalibratedClassifierCV(estimator(epsilon=20.0), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(X), 2)


@pytest.mark.parametrize("estimator", BOTH)
def test_clone_and_pickle(estimator, binary):
    """A pickled model predicts alike; a clone has parameters and no weights."""
    model = estimator(epsilon=2.0).fit(*binary)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(binary[0]), model.decision_function(binary[0]))
    assert copy.guarantee_ == model.guarantee_
    assert not hasattr(clone(model), "coef_")


@pytest.mark.parametrize("estimator", BOTH)
def test_feature_names(estimator, binary):
    X = pd.DataFrame(binary[0], columns=[f"f{i}" for i in range(8)])
    model = estimator().fit(X, pd.Series(binary[1]))
    assert list(model.feature_names_in_) == list(X.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
