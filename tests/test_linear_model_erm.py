"""What a solver leaves of a gradient, against exact arithmetic: the bound that guarantees count on."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from skdprp import AMPClassifier, ProductNoiseOutputPerturbation
from skdprp._rows import clip_rows
from skdprp.linear_model import _erm
from skdprp.linear_model._erm import PerturbedRisk, Problem, SolverError, minimise, minimisers
from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss, SoftmaxLoss

BINARY = [("log_loss", False), ("capped_log_loss", False), ("huber_hinge", False)]
EVERY = [*BINARY, ("log_loss", True)]


def exact_slopes(problem, scores, y):
    """Derivative of the loss of one row by its exact scores, given as fractions."""
    margin = mpmath.mpf(scores[0].numerator) / scores[0].denominator * (2 * int(y) - 1)
    if problem.multinomial:
        terms = [mpmath.exp(mpmath.mpf(score.numerator) / score.denominator) for score in scores]
        return [term / sum(terms) - (k == y) for k, term in enumerate(terms)]
    if problem.loss == "log_loss":
        return [(1 - 2 * int(y)) / (1 + mpmath.exp(margin))]
    if problem.loss == "capped_log_loss":
        return [(1 - 2 * int(y)) / (1 + mpmath.exp(max(margin, 0)))]
    h = mpmath.mpf(0.1)
    return [(1 - 2 * int(y)) * min(max((1 + h - margin) / (2 * h), 0), 1)]


def exact_gradient_norm(problem, X, codes, weights, penalty, perturbation, offset=0.0):
    """Norm of the gradient at given weights: scores as fractions, the rest to forty digits."""
    columns = weights.T if problem.multinomial else weights
    rows = np.column_stack([X, np.full(len(X), problem.constant)]) if problem.constant else X
    with mpmath.workdps(40):
        gradient = [[mpmath.mpf(float(penalty)) * w for w in column] for column in columns]
        for row, y in zip(rows.tolist(), codes, strict=True):
            exact = [Fraction(x) for x in row]
            scores = [sum(x * Fraction(w) for x, w in zip(exact, column, strict=True)) for column in columns.tolist()]
            scores = [score + Fraction(offset) for score in scores]
            for part, slope in zip(gradient, exact_slopes(problem, scores, y), strict=True):
                part[:] = [g + slope * x for g, x in zip(part, row, strict=True)]
        b = perturbation.T if problem.multinomial else perturbation
        return mpmath.mnorm(mpmath.matrix(gradient) + mpmath.matrix(b.tolist()), "f")


def solve(loss, multinomial, X, codes, penalty, *, tol, intercept=0.0, perturbation=0.0, seed=0, offset=0.0):
    """Weights that the solver finds, the problem, and a linear term of the given norm."""
    problem = Problem(*X.shape, 3 if multinomial else 2, loss, multinomial, 1.0, intercept, tol, abs(offset))
    b = np.random.default_rng(seed).normal(size=problem.weights_shape)
    b *= perturbation * (1 - 2.0**-40) / np.linalg.norm(b)
    known = {"penalty": penalty, "perturbation": b, "largest_perturbation": perturbation, "n_jobs": None}
    return problem, minimisers(problem, X, codes, offset=offset, **known), b


def rows_that_nearly_cancel(rng, n, d, spread):
    """Rows of a norm just below 1 that large weights give moderate scores, after most digits cancel."""
    X = rng.normal(size=(n, 1)) + spread * rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * (1 - 2.0**-40)


@pytest.mark.parametrize(("loss", "multinomial"), EVERY)
@pytest.mark.parametrize("spread", [1e-8, 1e-5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_true_gradients_are_within_the_stated_accuracy(loss, multinomial, spread, seed):
    """Large weights, whose scores are rounded by more than the solver leaves, included."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 40)), int(rng.integers(2, 30))
    X, codes = rows_that_nearly_cancel(rng, n, d, spread), rng.integers(2 + multinomial, size=n)
    tiny = -4 if loss == "huber_hinge" else -16  # whose second derivative may be the penalty alone
    penalty, perturbation = (
        (10.0 ** rng.uniform(tiny, tiny / 2), 0.0) if seed % 2 else (10.0 ** rng.uniform(-2, 1), 3.0)
    )
    known = {"tol": 1e-9, "intercept": 0.3 * (seed == 2), "perturbation": perturbation}
    problem, weights, b = solve(loss, multinomial, X, codes, penalty, **known)
    found = exact_gradient_norm(problem, X, codes, weights, penalty, b)
    assert found <= problem.gradient_error(penalty, perturbation)
    assert np.linalg.norm(weights) <= problem.largest_weights(penalty, perturbation)


@pytest.mark.parametrize("loss", ["log_loss", "capped_log_loss"])
@pytest.mark.parametrize("offset", [-3.0, 12.5, -1e7])
def test_true_gradients_are_within_the_stated_accuracy_from_any_offset(loss, offset):
    """Scores that start far away, and what adding the offset rounds off, included."""
    rng = np.random.default_rng(0)
    X, codes = rows_that_nearly_cancel(rng, 20, 5, 1.0), rng.integers(2, size=20)
    problem, weights, b = solve(loss, False, X, codes, 0.5, tol=1e-12, perturbation=2.0, offset=offset)
    found = exact_gradient_norm(problem, X, codes, weights, 0.5, b, offset)
    assert found <= problem.gradient_error(0.5, 2.0)
    assert np.linalg.norm(weights) <= problem.largest_weights(0.5, 2.0)


def test_rounding_of_scores_counts():
    """At weights of norm 1e8 true gradients are several times what the solver was asked for, and what sums may lose.

    Of which rows depends on the order in which the processor adds up.
    """
    largest = 0.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, codes = rows_that_nearly_cancel(rng, 8, 300, 1e-8), rng.integers(2, size=8)
        problem, weights, b = solve("log_loss", False, X, codes, 1e-17, tol=1e-10)
        found = exact_gradient_norm(problem, X, codes, weights, 1e-17, b)
        assert found <= problem.gradient_error(1e-17)
        assert np.linalg.norm(weights) > 1e8
        largest = max(largest, found / (problem.target_gradient + 8 * (8 + 300) * 2.0**-52))
    assert largest > 3


@pytest.mark.parametrize("n_samples", [100, 10**6])
@pytest.mark.parametrize("n_features", [10, 1000])
def test_rounding_costs_little_where_weights_are_as_usual(n_samples, n_features):
    """At the penalties of C="auto", for an epsilon of 1: it is less than sums over rows and `tol` take in any case."""
    problem = Problem(n_samples, n_features, 2, "log_loss", False, 1.0, 0.3, 1e-10)
    perturbation = 8.0 * (np.sqrt(n_features) + 10)
    sums = 2 * (n_samples + n_features + 40) * n_samples * 1.1 * 2.0**-52
    assert problem.gradient_error(5.0, perturbation) <= 1.5 * (problem.target_gradient + sums)


@pytest.mark.parametrize(("loss", "multinomial"), EVERY)
@pytest.mark.parametrize("perturbation", [0.0, 30.0])
def test_largest_weights_are_nearly_reached(loss, multinomial, perturbation):
    """By a linear term alone, where the rows are zero; and by separable rows at a large penalty, all slopes extreme."""
    codes = np.zeros(50, dtype=int)
    problem, weights, _ = solve(loss, multinomial, np.zeros((50, 2)), codes, 1e4, tol=1e-10, perturbation=perturbation)
    limit = problem.largest_weights(1e4, perturbation)
    assert limit <= (50 * problem.row_loss.lipschitz + perturbation) / 1e4 * (1 + 1e-6)
    assert np.linalg.norm(weights) == pytest.approx(perturbation / 1e4, abs=1e-12)
    X = np.tile([1.0, 0.0], (50, 1))
    problem, weights, _ = solve(loss, multinomial, X, codes, 1e4, tol=1e-10)
    assert np.linalg.norm(weights) <= problem.largest_weights(1e4) <= 2.5 * np.linalg.norm(weights)


@pytest.mark.parametrize("estimator", [AMPClassifier, ProductNoiseOutputPerturbation])
def test_weights_beyond_what_the_accuracy_counts_on_are_not_released(estimator, monkeypatch):
    """Whatever the solver returns: the bound is enforced, also on the linear term."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), [0, 1] * 20
    monkeypatch.setattr(_erm, "minimise", lambda risk, tol: np.full(4, 1e12))
    model = estimator()
    with pytest.raises(SolverError, match="larger than the accuracy"):
        model.fit(X, y)
    assert not hasattr(model, "coef_") and not hasattr(model, "guarantee_")


def test_a_linear_term_beyond_its_bound_is_refused():
    problem = Problem(4, 2, 2, "log_loss", False, 1.0, 0.0, 1e-9)
    known = {"penalty": 1.0, "n_jobs": None, "perturbation": np.array([[3.0, 4.0]])}
    rows = np.eye(2)[[0, 1, 0, 1]], np.array([0, 1, 1, 0])
    assert minimisers(problem, *rows, largest_perturbation=5.0, **known).shape == (1, 2)
    with pytest.raises(SolverError, match="larger than the accuracy"):
        minimisers(problem, *rows, largest_perturbation=4.999, **known)


def test_sparse_rows_are_as_accurate():
    rng = np.random.default_rng(0)
    X, codes = rows_that_nearly_cancel(rng, 20, 30, 1e-6), rng.integers(2, size=20)
    problem, weights, b = solve("log_loss", False, sp.csr_array(X), codes, 1e-12, tol=1e-10)
    assert exact_gradient_norm(problem, X, codes, weights, 1e-12, b) <= problem.gradient_error(1e-12)


@pytest.mark.parametrize("max_norm", [1e-50, 1e-16, 1.0, 1e50])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_of_all_finite_lengths_end_just_below_the_norm(make, max_norm):
    """Exactly: rows near the end of the floats, whose norm itself may overflow, and near the squares that do."""
    rng = np.random.default_rng(0)
    directions = rng.uniform(0.5, 1, size=(200, 5)) * rng.choice([-1.0, 1.0], size=(200, 5))
    lengths = np.r_[2.0 ** rng.uniform(505, 520, 60), 2.0 ** rng.uniform(170, 1023, 80), [np.finfo(float).max] * 60]
    clipped = clip_rows(make(directions * lengths[:, None]), max_norm)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    squares = [sum(Fraction(value) ** 2 for value in row) for row in clipped.tolist()]
    assert max(squares) <= Fraction(max_norm) ** 2
    assert min(squares) >= (Fraction(max_norm) * (1 - Fraction(1, 2**47))) ** 2
    assert np.linalg.norm(clipped, axis=1).max() <= max_norm


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss()])
def test_the_solver_reaches_its_tolerance(loss):
    """On problems of all sizes, penalties and perturbations; kinks of slopes make no cycles."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n, d = rng.integers(10, 100), rng.integers(1, 10)
        X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1)
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if seed % 2 else np.where(X[:, 0] > 0, 1.0, -1.0)
        norm = np.linalg.norm(X, axis=1).max()
        perturbation = rng.normal(size=d + 1) * rng.choice([0, 1, 10]) * norm
        penalty = 10 ** rng.uniform(-2, 2) * norm**2
        risk = PerturbedRisk(X, y, loss, penalty=penalty, constant=0.3 * norm, perturbation=perturbation)
        weights = minimise(risk, 1e-10 * n * norm)
        assert np.linalg.norm(risk.gradient(weights, risk.scores(weights))) <= 1e-10 * n * norm


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_huge_rows_keep_their_direction(form):
    """Rows whose squares overflow are clipped like any other."""
    X = np.array([[3e200, 4e200], [3.0, 4.0], [0.1, 0.2]])
    clipped = clip_rows(form(X), 1.0)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    assert np.allclose(clipped, [[0.6, 0.8], [0.6, 0.8], [0.1, 0.2]])


def test_rounding_grows_with_the_rows_and_not_with_their_square():
    """From blocks of 2^17 rows on, but for the weights; the offset of scores counts once for each row."""

    def hidden(n_samples):
        problem = Problem(n_samples, 20, 2, "capped_log_loss", False, 1.0, 0.3, 1e-15, 18.0)
        return problem.gradient_error(25.0, 50.0)

    assert hidden(10**8) < 10**1.5 * hidden(10**7) < 10**3 * hidden(10**6)
    assert hidden(10**7) < 2.0**-51 * 10**7 * 2**17
    assert hidden(10**5) > 50 * hidden(10**4)  # one block, whose rows are added up one by one


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("outputs", [(), (3,)])
def test_sums_over_many_blocks_are_those_over_one(make, outputs, monkeypatch):
    """Also where the last block has fewer rows."""
    rng = np.random.default_rng(0)
    X, change = make(rng.normal(size=(50, 4)) * (rng.random((50, 4)) < 0.5)), rng.normal(size=(50, *outputs))
    known = {"penalty": 1.0, "constant": 0.3, "perturbation": np.zeros((5, *outputs))}
    whole = PerturbedRisk(X, None, None, **known)._pull_back(change)
    monkeypatch.setattr(_erm, "LARGEST_BLOCK", 7)
    np.testing.assert_allclose(PerturbedRisk(X, None, None, **known)._pull_back(change), whole, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", [0.0, 0.3])
@pytest.mark.parametrize("multinomial", [True, False])
def test_the_hessian_as_a_matrix_multiplies_as_the_hessian_does(make, intercept, multinomial, monkeypatch):
    rng = np.random.default_rng(0)
    X, n_weights = make(rng.normal(size=(50, 4))), 4 + (intercept > 0)
    y, loss = (rng.integers(3, size=50), SoftmaxLoss(3)) if multinomial else (rng.choice([-1, 1], 50), LogisticLoss())
    weights = rng.normal(size=(n_weights, 3) if multinomial else n_weights)
    risk = PerturbedRisk(X, y, loss, penalty=0.0, constant=intercept, perturbation=np.zeros_like(weights))
    scores, step = risk.scores(weights), rng.normal(size=weights.shape)
    monkeypatch.setattr(_erm, "_SMALL_COPY", 30)  # of seven rows, and of one in the end
    product = risk.hessian_matrix(scores) @ step.ravel()
    np.testing.assert_allclose(product.reshape(step.shape), risk.hessian(scores)(step), rtol=1e-12, atol=1e-13)
