"""Attacks on what was mended last: frozen steps in files, the ledger of the command, lazy tables, scalers, solvers."""

import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdprp import (
    AMPClassifier,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    _noise,
    load_model,
    make_table_preprocessor,
    privacy_report,
    save_model,
    set_budget,
)
from skdprp._command import main
from skdprp.inspection import PrivacyProfileDisplay
from skdprp.linear_model import SolverError, _erm
from skdprp.testing import reproducible_noise

_X = np.random.default_rng(0).normal(size=(200, 3))
_Y = (_X[:, 0] > 0).astype(int)


def _scaler():
    return DPScaler(epsilon=5.0, bounds=(-3, 3), delta=1e-6)


def _model():
    return AMPClassifier(epsilon=1.0, delta=1e-6, classes=[0, 1])


def _search():
    return DPSearchCV(_model(), {}, n_trials=1, epsilon=1.0, delta=1e-4)


def _known_of(path):
    return list(load_model(path).guarantees.values())


@pytest.mark.parametrize(
    "frozen",
    [
        FrozenEstimator,
        lambda scaler: FrozenEstimator(make_pipeline(scaler)),
        lambda scaler: ColumnTransformer([("scaled", FrozenEstimator(scaler), [0, 1, 2])], sparse_threshold=0),
    ],
)
@pytest.mark.parametrize("last", [_model, _search])
def test_a_file_states_what_its_frozen_steps_have_released(tmp_path, frozen, last):
    """A search asks for frozen steps before it, and a file of both had the epsilon of the search alone: 1.0 of 4.2."""
    scaler = _scaler().fit(_X)
    model = make_pipeline(frozen(scaler), last()).fit(_X, _Y)
    assert privacy_report(model).total.epsilon > 2.0
    save_model(tmp_path / "model.npz", model)
    assert scaler.guarantee_ in _known_of(tmp_path / "model.npz")


def test_a_file_of_a_frozen_step_of_noise_from_a_seed_says_so(tmp_path):
    """The seed was in the report of a pipeline, and in no guarantee of its file."""
    with reproducible_noise(0):
        scaler = _scaler().fit(_X)
    model = make_pipeline(FrozenEstimator(scaler), _model()).fit(_X, _Y)
    assert privacy_report(model).total.seeded
    save_model(tmp_path / "model.npz", model)
    assert any(one.seeded for one in _known_of(tmp_path / "model.npz"))


def test_no_file_has_a_guarantee_that_was_set_on_a_step_that_is_frozen(tmp_path):
    """One that is not frozen is refused; a report has no total for either."""
    scaler = _scaler().fit(_X)
    scaler.guarantee_ = replace(scaler.guarantee_, epsilon=0.01)
    for step in (scaler, FrozenEstimator(scaler)):
        model = make_pipeline(step, _model())
        model.steps[1] = (model.steps[1][0], _model().fit(_X, _Y))
        assert privacy_report(model).total is None
        with pytest.raises(ValueError, match="set after the fit"):
            save_model(tmp_path / "model.npz", model)


@pytest.mark.parametrize("around", ["search", "one against the rest"])
def test_a_file_states_what_an_earlier_fit_has_released_that_is_in_it(tmp_path, around):
    """What is cloned and fitted may have been fitted before, to see whether it works: those weights are in the file."""
    before = AMPClassifier(epsilon=5.0, delta=1e-6, classes=[0, 1]).fit(_X, _Y)
    model = DPSearchCV(before, {}, n_trials=1, epsilon=1.0, delta=1e-4)
    model = model if around == "search" else OneVsRestClassifier(before)
    save_model(tmp_path / "model.npz", model.fit(_X, _Y))
    saved = load_model(tmp_path / "model.npz")
    n_weights = hasattr(saved.estimator.estimator, "coef_") + 1
    assert len(saved.guarantees) == n_weights


def test_a_pipeline_of_which_all_is_frozen_can_be_saved(tmp_path):
    """It is private, as its report says, and was refused as if it were not."""
    model = make_pipeline(FrozenEstimator(_scaler().fit(_X)), FrozenEstimator(_model().fit(_X, _Y)))
    assert privacy_report(model).total.epsilon > 5.0
    save_model(tmp_path / "model.npz", model)
    assert len(_known_of(tmp_path / "model.npz")) == 2


def test_no_page_and_no_curve_shows_a_guarantee_that_was_set_after_the_fit():
    """Reports and files refuse it; the diagram of the estimator and the curve of it showed it as if it were true."""
    model = _model().fit(_X, _Y)
    model.guarantee_ = replace(model.guarantee_, epsilon=0.01)
    with suppress(ValueError):
        assert "(0.01, 1e-06)-DP" not in model._repr_html_()
    with suppress(ValueError):
        assert "(0.01, 1e-06)-DP" not in PrivacyProfileDisplay.from_estimator(model).label


def _table(path):
    rng = np.random.default_rng(0)
    numbers, labels = rng.normal(size=300), rng.integers(0, 2, 300)
    lines = [f"{number:.2f},{label}" for number, label in zip(numbers, labels, strict=True)]
    path.write_text("\n".join(["a,y", *lines]))


def _command(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments)])
        raise SystemExit(0)
    return stopped.value.code


@pytest.mark.parametrize("is_first", [True, False])
def test_no_fit_by_the_command_writes_over_the_ledger_that_records_it(tmp_path, capsys, is_first):
    """Its record was lost, and with --force that of all fits before, and what was released was said not to be.

    A fit to one name for both is refused before anything is spent, or recorded in what is a ledger afterwards.
    """
    rows, ledger = tmp_path / "rows.csv", tmp_path / "people.npz"
    _table(rows)
    known = ["fit", rows, "--target", "y", "--bounds", "a=-3:3", "--classes", "0,1", "--ledger", ledger]
    if not is_first:
        assert _command(*known, "--output", tmp_path / "first.npz") == 0
    capsys.readouterr()
    _command(*known, "--output", ledger, *["--force"] * (not is_first))
    printed = capsys.readouterr()
    entries = PrivacyLedger(ledger).entries if ledger.exists() else ()
    assert len(entries) == (not is_first) + ("guarantee   (1.0" in printed.out)
    assert "nothing is released" not in printed.err


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("kind", ["numbers", "names"])
def test_what_a_plan_over_private_bins_says_is_what_their_fit_has_spent(n_classes, kind):
    """The command enters the plan: however few bins there are, columns and so kinds of noise are those of the plan."""
    import pandas as pd

    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (2000, 3))
    table = pd.DataFrame(values if kind == "numbers" else values.astype(str).astype(object), columns=["a", "b", "c"])
    y = rng.integers(0, max(n_classes, 2), 2000)
    model = DPRidge(target_bounds=(0, 1), epsilon=0.8)
    if n_classes:
        model = (AMPClassifier if n_classes == 2 else DPSGDClassifier)(classes=range(n_classes), epsilon=0.8)
    model = set_budget(make_pipeline(make_table_preprocessor(epsilon=0.2), model), table, y, epsilon=3.0)
    planned = privacy_report(model, table, y).total
    spent = privacy_report(model.fit(table, y)).total
    assert (spent.epsilon, spent.delta, spent.loss) == (planned.epsilon, planned.delta, planned.loss)


class _Applies:
    """Apply what was fitted before."""

    def __init__(self, scaler):
        self.scaler = scaler

    def __call__(self, X):
        return self.scaler.transform(X)


def test_a_search_takes_no_function_that_applies_what_was_fitted_before():
    """Frozen steps are refused; functions, and frozen functions, that hold the same are so as well."""
    scaler = _scaler().fit(_X)
    functions = [FunctionTransformer(function) for function in (scaler.transform, _Applies(scaler))]
    functions.append(FunctionTransformer(lambda X: X - scaler.bounds_[:, 0]))
    for step in (*functions, FrozenEstimator(functions[1].fit(_X))):
        with PrivacyLedger() as ledger, pytest.raises(ValueError, match="fitted before"):
            DPSearchCV(make_pipeline(step, _model()), {}, n_trials=1, epsilon=1.0, delta=1e-4).fit(_X, _Y)
        assert not ledger.entries


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_public_scaler_makes_the_same_bits_of_a_row_wherever_it_is(dtype):
    """In blocks of any size, in any order and alone, with zeros of both signs and missing values."""
    rng = np.random.default_rng(0)
    for n_rows, n_columns in ((3, 1), (700, 5), (50, 33), (2000, 17)):
        low = rng.choice([0.0, -1.0, -0.3, -100.0, -0.0], n_columns)
        bounds = np.column_stack([low, low + rng.choice([1, 0.1, 3, 1e6], n_columns)])
        X = rng.normal(size=(n_rows, n_columns)) * rng.choice([1, 100, 1e-3])
        for value in (0.0, -0.0, np.nan):
            X[rng.uniform(size=X.shape) < 0.1] = value
        X, order = X.astype(dtype), rng.permutation(n_rows)
        for feature_range in ((-0.5, 0.5), (0, 1), (-0.0, 0.1)):
            scaler = PublicScaler(bounds, feature_range=feature_range, fill="middle").fit(X)
            whole = scaler.transform(np.asfortranarray(X))[order]
            alone = np.concatenate([scaler.transform(X[[place]]) for place in order[:50]])
            assert whole.tobytes() == scaler.transform(X[order]).tobytes()
            assert whole[:50].tobytes() == alone.tobytes()


def test_rows_that_come_in_another_order_each_time_keep_their_targets(monkeypatch):
    """Of a lazy table that is read once for rows and targets, in whatever forms both are."""
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    import pandas as pd

    def _read(part):
        a = np.random.default_rng().permutation(np.arange(1, 51) + 50 * part) / 100
        return pd.DataFrame({"a": a, "b": -a, "y": a})

    def _table():
        return dd.from_delayed([dask.delayed(_read)(part) for part in range(2)], meta=_read(0).iloc[:0])

    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: None)
    scaler = PublicScaler((-10, 10), feature_range=(-10, 10))
    forms = [
        lambda table: (table[["a", "b"]], table["y"]),
        lambda table: (scaler.fit(table[["a", "b"]]).transform(table[["a", "b"]]), table["y"]),
        lambda table: (table[["a", "b"]].values, table["y"]),
        lambda table: (table[["a", "b"]].to_dask_array(lengths=True).rechunk((25, 2)), table["y"].to_dask_array()),
        lambda table: (table[["a", "b"]].optimize(), table["y"]),
        lambda table: (table[table.a > 0.3][["a", "b"]], table[table.a > 0.3]["y"]),
        lambda table: (table[["a", "b"]].repartition(npartitions=1), table["y"].repartition(npartitions=1)),
    ]
    for form in forms:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y = form(_table())
            try:
                moments = DPMoments(delta=1e-5, max_norm=10, target_bounds=(0, 2), fit_intercept=False).fit(X, y)
            except ValueError as error:  # or the pair is refused
                assert "same rows" in str(error) or "same partitions" in str(error)
                continue
        moments = moments.moments_
        assert moments.cross[0, 0] == pytest.approx(moments.gram[0, 0], rel=1e-9)


def test_where_no_solver_gets_to_tol_a_fit_says_so_and_releases_nothing(monkeypatch):
    """Weights of 10^6 round the score of a row by more than tol, at a C that nobody takes: an error, as is in print.

    The same rows turned, along the axes, are fitted: which of them a solver fails for is what a fit that fails tells.
    """
    monkeypatch.setattr(_erm, "_MOST_STEPS", 300)
    model = ProductNoiseOutputPerturbation(delta=1e-6, loss="huber_hinge", C=1e12, classes=[0, 1], fit_intercept=False)
    rows = np.array([[1.0, 1e-6], [1.0, -1e-6]])
    assert "whether a fit raised an error" in model.fit(rows, [1, 0]).guarantee_.not_covered
    turned = rows @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    model = clone(model)
    with PrivacyLedger() as ledger, pytest.raises(SolverError):
        model.fit(turned, [1, 0])
    assert len(ledger.entries) == 1 and not hasattr(model, "coef_")


def _gradients(weights, rows):
    """Gradient and second derivative of the losses of rows of one feature by the weights of all classes, many times."""
    gradient, curvature = np.zeros_like(weights), np.zeros((*weights.shape, weights.shape[1]))
    for x, label in rows:
        p = softmax(x * weights, axis=1)
        gradient += x * (p - np.eye(weights.shape[1])[label])
        curvature += x**2 * (p[:, :, None] * np.eye(weights.shape[1]) - p[:, :, None] * p[:, None, :])
    return gradient, curvature


def _value(weights, rows, penalty, b):
    losses = (logsumexp(x * weights, axis=1) - x * weights[:, label] for x, label in rows)
    return sum(losses, start=penalty / 2 * (weights**2).sum(axis=1) + (b * weights).sum(axis=1))


def _minimisers(rows, penalty, b):
    """Newton's method with halved steps, of many linear terms at once."""
    weights, unit = np.zeros_like(b), penalty * np.eye(b.shape[1])
    for _ in range(200):
        gradient, curvature = _gradients(weights, rows)
        gradient += penalty * weights + b
        if np.abs(gradient).max() < 1e-8:
            return weights
        step, length = np.linalg.solve(curvature + unit, gradient[:, :, None])[:, :, 0], np.ones((len(b), 1))
        before, slope = _value(weights, rows, penalty, b), (gradient * step).sum(axis=1)
        for _ in range(40):
            after = _value(weights - length * step, rows, penalty, b)
            is_higher = after > before - 1e-4 * length[:, 0] * slope + 1e-12 * np.abs(before)
            length[is_higher] /= 2
        weights = weights - length * step
    raise AssertionError("no minimum was found")


@pytest.mark.parametrize("noise", ["gaussian", "product"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_softmax_next_to_the_largest_penalty_parameter_tells_no_more_than_its_profile(noise, adjacency):
    """Losses are exact for each draw of the linear term; their mean passes six standard errors once in 10^9 tests."""
    rng, n_draws = np.random.default_rng(0), 2000
    known = {"loss": "log_loss", "noise": noise, "adjacency": adjacency, "fit_intercept": False, "classes": range(3)}
    for epsilon, delta, largest in ((4.0, 1e-2, 13.8), (10.0, 0.1, 228.0)):
        model = AMPClassifier(epsilon=epsilon, delta=delta, C=largest, **known).fit([[1.0]], [0])
        penalty, scale = 1 / model.C_, model.scale_
        b = rng.normal(size=(n_draws, 3))
        if noise == "gaussian":
            b *= scale
        else:
            b *= rng.gamma(3, scale, size=(n_draws, 1)) / np.linalg.norm(b, axis=1, keepdims=True)
        pairs = [([(1.0, 0)], []), ([(1.0, 0), (-1.0, 1)], [(-1.0, 1)]), ([(0.5, 0)], [])]
        if adjacency == "replace_one":
            pairs = [([(1.0, 0)], [(1.0, 1)]), ([(1.0, 0)], [(-1.0, 0)]), ([(1.0, 0), (-1.0, 1)], [(-1.0, 1)] * 2)]
        for rows in pairs:
            weights, logs = _minimisers(rows[0], penalty, b), []
            for some in rows:
                gradient, curvature = _gradients(weights, some)
                size = np.linalg.norm(gradient + penalty * weights, axis=1) / scale
                density = -(size**2) / 2 if noise == "gaussian" else -size
                logs.append(density + np.linalg.slogdet(curvature + penalty * np.eye(3))[1])
            for at in (0.0, epsilon / 2, epsilon):
                excess = np.maximum(-np.expm1(at - (logs[0] - logs[1])), 0.0)
                bound = model.guarantee_.loss.profile(at) if model.guarantee_.loss else delta
                assert excess.mean() - 6 * excess.std() / np.sqrt(n_draws) <= bound
