"""Attacks on plans: entries of fits to come, budgets of curves and of persons, what files of searches keep."""

import copy
import pickle
import re
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    compose,
    load_model,
    privacy_report,
    save_model,
    set_budget,
)
from skdprp.guarantee import PrivacyWarning
from skdprp.histograms._columns import columns_of, count
from skdprp.inspection import PrivacyProfileDisplay, PrivacyUtilityDisplay
from skdprp.ledger import LedgerError, entry
from skdprp.mechanisms import Published, add_laplace
from skdprp.testing import reproducible_noise

_X = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
_Y = (_X[:, 0] > 0).astype(int)
_THREE = np.digitize(_X[:, 0], [-0.3, 0.3])


def _model(**parameters):
    return AMPClassifier(delta=1e-5, **parameters)


def _binner():
    return DPBinner(3, bounds=(-1, 1), delta=1e-5)


def _plan():
    model = _model(classes=[0, 1], noise="gaussian")
    return model, privacy_report(model, _X, _Y)


# Plans


class _NoisyCount(TransformerMixin, BaseEstimator):
    """A step of one's own that counts with noise, and has forgotten to enter that."""

    def fit(self, X, y=None):
        """Keep a noisy number of rows above 0."""
        self.count_ = add_laplace([(X[:, 0] > 0).sum()], scale=1e-6)[0]
        return self

    def transform(self, X):
        """Let all rows pass."""
        return X


@pytest.mark.parametrize("age", [0.0, 0.3])
@pytest.mark.parametrize("is_step", [False, True])
def test_noise_that_is_no_release_of_a_plan_is_refused_in_its_block_however_old_the_ledger_is(age, is_step):
    """A tenth of a second after the ledger was opened a count of epsilon 1e6 was released, and not entered."""
    model = make_pipeline(_NoisyCount(), _model(classes=[0, 1])) if is_step else _model(classes=[0, 1])
    plan = privacy_report(_model(classes=[0, 1]), _X, _Y)
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-5)
        time.sleep(age)
        with entry(plan), pytest.raises(RuntimeError, match="no entry"):
            model.fit(_X, _Y) if is_step else add_laplace([42.0], scale=1e-6)


@pytest.mark.parametrize("what", ["labels", "chunks", "map"])
def test_what_a_plan_has_under_other_conditions_is_entered_by_itself(what):
    """Given the labels, in chunks that are read again, or behind another map: epsilon and delta alone are the same."""
    model = fitted = _model(classes=[0, 1])
    if what == "labels":
        fitted = _model()
    if what == "map":
        model, fitted = (
            make_pipeline(PublicScaler((-bound, bound)), DPOPORP(2, random_state=0), LogisticRegression())
            for bound in (1.0, 0.01)
        )
    plan = privacy_report(model, _X, _Y)
    with PrivacyLedger() as ledger, entry(plan):
        fitted.fit_chunks([(_X[:100], _Y[:100]), (_X[100:], _Y[100:])]) if what == "chunks" else fitted.fit(_X, _Y)
    released = privacy_report(fitted).private
    own = {text for text in released.assumptions if "chunks" in text}
    assert any(
        one.guarantee.given == released.given
        and own <= set(one.guarantee.assumptions)
        and one.guarantee.adjacency.after in ("", released.adjacency.after)
        for one in ledger.entries
    )


def test_the_report_of_a_search_that_was_fitted_is_no_plan_of_as_many_releases_of_each_row():
    """Eleven sketches of all rows, 11.0, were the one entry of a search in which each row is sketched 6 times."""
    sketch = DPSignOPORP(2, random_state=0)
    search = GridSearchCV(make_pipeline(sketch, LogisticRegression()), {"logisticregression__C": [1.0]}, cv=KFold(5))
    report = privacy_report(search.fit(_X, _Y))
    calls = max(step.calls for step in report.steps)
    with PrivacyLedger() as ledger:
        try:
            with entry(report):
                for _ in range(calls):
                    sketch.fit_transform(_X)
        except (TypeError, ValueError):
            return
    stated = compose(*(one.guarantee for one in ledger.entries)).epsilon
    assert stated >= compose(*calls * [sketch.guarantee_]).epsilon


def test_no_release_of_one_part_is_counted_for_another_part_by_a_plan():
    """Without a plan it is refused; two fits of part "b" had the total of one."""
    model, plan = _plan()

    def _fit_part(name):
        with ledger.part(name):
            model.fit(_X, _Y)

    with PrivacyLedger() as ledger:
        try:
            with ledger.part("a"), entry(plan):
                _fit_part("b")
        except LedgerError:
            return
        _fit_part("b")
    assert ledger.total()[0].guarantee.epsilon >= compose(model.guarantee_, model.guarantee_).epsilon


_COMPOSITES = {
    "amp": lambda: (_model(), _Y),
    "descent": lambda: (DPSGDClassifier(), _THREE),
    "output": lambda: (ProductNoiseOutputPerturbation(), _Y),
    "ridge": lambda: (DPRidge(target_bounds=(-1, 1)), _X[:, 0]),
    "pipeline": lambda: (make_pipeline(DPScaler(), DPPCA(2), _model()), _THREE),
    "rest": lambda: (OneVsRestClassifier(_model()), _THREE),
    "voting": lambda: (VotingClassifier([("a", _model()), ("b", _model())]), _Y),
    "outputs": lambda: (MultiOutputClassifier(_model()), np.column_stack([_Y, _THREE])),
    "targets": lambda: (MultiOutputRegressor(DPRidge(target_bounds=(-1, 1))), _X[:, :2]),
    "threshold": lambda: (FixedThresholdClassifier(_model(classes=[0, 1]), threshold=0.3), _Y),
    "union": lambda: (make_pipeline(FeatureUnion([("a", _binner()), ("b", DPScaler())]), _model()), _Y),
    "columns": lambda: (
        make_pipeline(
            ColumnTransformer([("a", _binner(), [0]), ("b", DPScaler(), [1, 2])], sparse_threshold=0), _model()
        ),
        _Y,
    ),
    "search": lambda: (make_pipeline(_binner(), DPSearchCV(_model(), {"max_norm": [1.0, 2.0]}, n_trials=2)), _Y),
    "sketch": lambda: (make_pipeline(PublicScaler((-1, 1)), DPOPORP(2, random_state=0), LogisticRegression()), _Y),
    "sketches": lambda: (
        VotingClassifier(
            [(name, make_pipeline(DPOPORP(2, random_state=0), LogisticRegression())) for name in ("a", "b")]
        ),
        _Y,
    ),
    "moments": lambda: (DPMoments(), None),
    "histograms": lambda: (DPHistograms(), None),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _COMPOSITES)
def test_the_entry_of_a_plan_is_what_its_fit_releases_and_a_second_fit_is_entered_step_by_step(name):
    """A ledger that is opened inside has each release by itself: as many, and no more in all at the same delta."""
    model, y = _COMPOSITES[name]()
    plan = privacy_report(model, _X, y)
    with PrivacyLedger() as ledger, entry(plan):
        with PrivacyLedger() as inner:
            model.fit(_X, y)
        assert len(ledger.entries) == 1
        model.fit(_X, y)
        planned, *others = (one.guarantee for one in ledger.entries)
    total = privacy_report(model).private
    here = total.adjacency and replace(total.adjacency, after="")  # a ledger knows of no map before a release
    assert repr(planned) == repr(replace(total, adjacency=here))
    found = [one.guarantee for one in inner.entries]
    assert len(found) == len(others) == sum(step.calls for step in plan.steps)
    if not planned.adjacency.after:
        assert compose(*found).delta <= planned.delta
        assert planned.epsilon >= compose(*found, delta=planned.delta).epsilon * (1 - 1e-9)


# Budgets


def test_a_curve_of_a_total_is_of_as_many_models_as_each_fold_fits():
    """One label of three is in one row: the first fold fits one model at the whole budget, the others three each."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (100, 2)), rng.integers(0, 2, 100)
    y[0] = 2
    spent = []

    def _score(model, X, y):
        spent.append(privacy_report(model).private)
        return model.score(X, y)

    options = {"n_repeats": 1, "delta": 1e-5, "scoring": _score, "reference": None, "chance": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class with one member
        display = PrivacyUtilityDisplay.from_estimator(
            OneVsRestClassifier(AMPClassifier(noise="gaussian", classes=[0, 1])), X, y, epsilons=[1.0], **options
        )
    assert display.is_total and display.epsilons.tolist() == [1.0]
    assert max(total.epsilon for total in spent) <= 1.0
    assert max(total.delta for total in spent) <= 1e-5


def _axis(display):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    name = display.plot().ax_.get_xlabel().splitlines()[0]
    pyplot.close(display.figure_)
    return name


@pytest.mark.parametrize("is_searched", [False, True])
def test_no_curve_of_a_model_behind_a_frozen_private_step_is_of_the_epsilon_of_the_model_as_that_of_all(is_searched):
    """Frozen bins of epsilon 5 have no parameter: the axis said "epsilon, one row replaced" at 0.1, and not 4.5."""
    pytest.importorskip("matplotlib").use("Agg")
    frozen = FrozenEstimator(DPBinner(4, epsilon=5.0, delta=1e-6, sparse_output=False).fit(_X))
    model = make_pipeline(frozen, _model(classes=[0, 1]))
    options = {"n_repeats": 1, "reference": None, "chance": False, "cv": KFold(2)}
    try:
        if is_searched:
            grid = {"ampclassifier__epsilon": [0.1, 1.0]}
            display = PrivacyUtilityDisplay.from_cv_results(GridSearchCV(model, grid, cv=KFold(2)).fit(_X, _Y))
        else:
            display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[0.1, 1.0], **options)
    except ValueError:
        return
    total = privacy_report(model.set_params(ampclassifier__epsilon=0.1).fit(_X, _Y)).total
    assert display.epsilons[0] >= total.epsilon or " alone" in _axis(display)


def test_no_curve_is_of_the_ratio_that_the_epsilon_of_a_model_within_a_private_search_is():
    """Each fit is one release of epsilon 1, whatever epsilon the model that is searched has: points were at 0.1."""
    pytest.importorskip("matplotlib").use("Agg")
    search = DPSearchCV(_model(classes=[0, 1]), {"max_norm": [1.0, 2.0]}, n_trials=2, delta=1e-5)
    over = GridSearchCV(search, {"estimator__epsilon": [0.1, 1.0]}, cv=KFold(2)).fit(_X, _Y)
    released = over.best_estimator_.best_estimator_.guarantee_.epsilon
    try:
        display = PrivacyUtilityDisplay.from_cv_results(over)
    except ValueError:
        return
    assert display.epsilons[0] >= released or "epsilon of one release" not in _axis(display)


_OPTIONS = {"n_repeats": 1, "reference": None, "chance": False, "cv": KFold(2)}
_NOT_ALL_OF_THE_PRICE = {
    "a scaler that learns": StandardScaler,
    "a function of fitted bins": lambda: FunctionTransformer(
        DPBinner(4, epsilon=5.0, delta=1e-6, sparse_output=False).fit(_X).transform
    ),
    "frozen bins of a large delta": lambda: FrozenEstimator(
        DPBinner(4, epsilon=1e-3, delta=0.1, sparse_output=False).fit(_X)
    ),
}


@pytest.mark.parametrize("of_a_search", [False, True])
@pytest.mark.parametrize("kind", _NOT_ALL_OF_THE_PRICE)
def test_a_curve_of_a_model_behind_what_its_epsilon_does_not_cover_is_of_the_model_alone(kind, of_a_search):
    """A scaler that learns without noise left the axis at "epsilon, one row replaced", and the report without total."""
    pytest.importorskip("matplotlib").use("Agg")
    model = make_pipeline(_NOT_ALL_OF_THE_PRICE[kind](), _model(classes=[0, 1]))
    if of_a_search:
        search = GridSearchCV(model, {"ampclassifier__epsilon": [0.1, 1.0]}, cv=KFold(2)).fit(_X, _Y)
        display = PrivacyUtilityDisplay.from_cv_results(search)
    else:
        display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[0.1, 1.0], **_OPTIONS)
    assert _axis(display) == "epsilon of one release of ampclassifier alone, one row replaced"
    assert display.line_.get_label() == "AMPClassifier, one release alone, one row replaced"


def _spent_by(model, X, y, **options):
    """A curve of a total, and what each fit spent as a multiple of its epsilon, in folds of the first and last rows."""
    spent = []

    def _score(fitted, X, y):
        spent.append(privacy_report(fitted).private.epsilon)
        return 0.0

    pytest.importorskip("matplotlib").use("Agg")
    options = _OPTIONS | {"delta": 1e-5, "scoring": _score} | options
    display = PrivacyUtilityDisplay.from_estimator(model, X, y, **options)
    return display, np.array(spent) / np.repeat(display.epsilons, len(spent) // len(display.epsilons))


def test_a_curve_of_a_total_is_of_as_many_classes_of_each_output_as_each_fold_has():
    """Five classes of one output are in one fold, as of another in both: 5.57 was spent where the axis said 5."""
    A, B = (np.random.default_rng(0).integers(0, n_classes, len(_X)) for n_classes in (2, 5))
    A[-3:] = 2, 3, 4
    model = MultiOutputClassifier(AMPClassifier())
    display, spent = _spent_by(model, _X, np.column_stack([A, B]), epsilons=[1.0, 5.0])
    assert len(spent) == 4 and spent.max() <= 1 + 1e-9
    assert _axis(display) == "total epsilon of all private steps, one row replaced, given the set of labels"


def _without_zero_columns(X):
    return X[:, X.any(axis=0)]


def test_a_curve_of_a_total_says_by_how_much_fits_to_rows_of_another_width_exceed_it():
    """Rows of one half have 4 columns, those of the other 100, for which both budgets were: 6.3 and 5 were spent."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (200, 100)), np.arange(200) % 2
    X[:100, 4:] = 0.0
    vote = VotingClassifier([(name, AMPClassifier(noise="product", classes=[0, 1])) for name in ("a", "b")])
    model = make_pipeline(FunctionTransformer(_without_zero_columns), vote)
    display, spent = _spent_by(model, X, y, epsilons=[1.0, 5.0])
    assert spent.max() > 1.2 and spent.max() == pytest.approx(display.spent)
    said = re.fullmatch(
        r"planned total epsilon of all private steps \(some fits spent up to (\S+) times as much\), one row replaced.*",
        display.plot(public_data=True).ax_.get_xlabel().replace("\n", " "),
    )
    assert spent.max() <= float(said[1]) <= 1.01 * spent.max()
    assert f"planned total, spent up to {said[1]} times as much" in display.line_.get_label()
    assert max(map(len, display.ax_.get_xlabel().splitlines())) <= 78


def test_a_curve_of_a_total_says_that_the_total_is_not_known():
    """Categories are learnt from the rows without noise."""
    X = np.arange(len(_X))[:, None] % 3
    model = make_pipeline(OneHotEncoder(), VotingClassifier([(name, _model(classes=[0, 1])) for name in ("a", "b")]))
    display = PrivacyUtilityDisplay.from_estimator(model, X, _Y, epsilons=[5.0], delta=1e-5, **_OPTIONS)
    assert (
        display.plot(public_data=True)
        .ax_.get_xlabel()
        .replace("\n", " ")
        .startswith(
            "planned total epsilon of all private steps (the total of some fits is not known), one row replaced"
        )
    )


@pytest.mark.parametrize("grid", [{"epsilon": [1.0, 10.0]}, [{"delta": [1e-5]}, {"epsilon": [10.0]}]])
def test_no_curve_is_of_an_epsilon_that_a_search_within_sets(grid):
    """Folds released at 1 and at 10, and the refit at 10, where the axis said 0.1."""
    search = GridSearchCV(_model(classes=[0, 1]), grid, cv=KFold(2))
    with pytest.raises(ValueError, match="a search sets"):
        PrivacyUtilityDisplay.from_estimator(search, _X, _Y, epsilons=[0.1], **_OPTIONS)
    over = GridSearchCV(search, {"estimator__epsilon": [0.1]}, cv=KFold(2)).fit(_X, _Y)
    with pytest.raises(ValueError, match="a search sets"):
        PrivacyUtilityDisplay.from_cv_results(over)


def test_a_curve_of_a_search_promises_no_more_than_is_known():
    """Without a refit nothing is, and where another parameter was varied; then the axis has the parameter's name."""
    pytest.importorskip("matplotlib").use("Agg")
    model = make_pipeline(PublicScaler((-1, 1)), _model(classes=[0, 1]))
    epsilons = {"ampclassifier__epsilon": [1.0, 10.0]}

    def _name(grid, **options):
        search = GridSearchCV(model, grid, cv=KFold(2), **options).fit(_X, _Y)
        return _axis(PrivacyUtilityDisplay.from_cv_results(search))

    assert _name(epsilons) == "epsilon, one row replaced"
    nothing = "parameter ampclassifier__epsilon"
    assert _name(epsilons, refit=False) == nothing
    for name, values in (("classes", [None, [0, 1]]), ("max_norm", [1.0, 2.0]), ("delta", [1e-5, 1e-60])):
        assert _name(epsilons | {f"ampclassifier__{name}": values}) == nothing
    steps = [StandardScaler(), PublicScaler((-1, 1))]
    assert _name([epsilons | {"publicscaler": [step]} for step in steps]) == nothing
    results = GridSearchCV(model[-1], {"epsilon": [1.0]}, cv=KFold(2), refit=False).fit(_X, _Y)
    assert _axis(PrivacyUtilityDisplay.from_cv_results(results)) == "parameter epsilon"
    assert _axis(PrivacyUtilityDisplay.from_cv_results(results.cv_results_)) == "parameter epsilon"


def test_a_curve_of_a_sketch_says_behind_which_maps_it_hides_a_change():
    """Behind bins an l1 change of .9 of a row is one of 2: the loss was 1.998 at 1.0."""
    pytest.importorskip("matplotlib").use("Agg")
    binner = PublicBinner((-1, 1), n_bins=4, encode="onehot")
    model = make_pipeline(binner, DPOPORP(2, noise="laplace", random_state=0), LogisticRegression())
    hides = "l1 change of 1.0 of rows as they leave publicbinner"
    options = {"cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[1.0], **options)
    assert _axis(display) == f"epsilon, {hides}"
    search = GridSearchCV(model, {"dpoporp__epsilon": [1.0, 2.0]}, cv=KFold(2)).fit(_X, _Y)
    assert _axis(PrivacyUtilityDisplay.from_cv_results(search)) == f"epsilon, {hides}"
    total = privacy_report(search.best_estimator_).total
    profile = PrivacyProfileDisplay.from_guarantee(total, label="mine")
    assert profile.plot().line_.get_label() == f"mine, {hides}"


def test_curves_have_the_marks_of_what_they_show():
    """Noise from a seed, and what an audit has refuted, were said to hide a row."""
    options = {"epsilons": [1.0], "cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    with reproducible_noise(0):
        display = PrivacyUtilityDisplay.from_estimator(_model(classes=[0, 1]), _X, _Y, **options)
    assert display.hides == "one row replaced [seeded: not private]"
    search = GridSearchCV(_model(classes=[0, 1]), {"epsilon": [1.0, 2.0]}, cv=KFold(2)).fit(_X, _Y)
    refuted = replace(search.best_estimator_.guarantee_, audited_epsilon=9.0)
    search.best_estimator_.guarantee_ = refuted
    assert refuted.violation in PrivacyUtilityDisplay.from_cv_results(search).hides


def test_all_that_shows_a_search_has_the_marks_of_its_winner():
    """Its page and its profile had none, beside a report that had."""
    search = DPSearchCV(make_pipeline(_binner(), _model()), {}, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)
    step = search.best_estimator_[-1]
    step.guarantee_ = replace(step.guarantee_, audited_epsilon=9.0)
    assert "VIOLATED" in search._repr_html_()
    assert "VIOLATED" in PrivacyProfileDisplay.from_estimator(search).void


def test_a_search_behind_a_step_that_takes_groups_is_priced_as_it_is_fitted():
    """Its fits are of rows, and the plan was of 20 persons: of 1.4035 it said 1.4002."""
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    y, persons = (X[:, 0] > 0).astype(int), np.arange(3000) // 150
    candidate = DPSGDClassifier(classes=[0, 1], n_epochs=1, batch_size=20)
    search = DPSearchCV(candidate, {"max_norm": [1.0]}, n_trials=1e-3, delta=1e-5, classes=[0, 1])
    model = make_pipeline(DPPCA(2, delta=1e-5), search)
    with_groups, without = privacy_report(model, X, y, groups=persons), privacy_report(model, X, y)
    assert with_groups.steps[-1].guarantee.loss == without.steps[-1].guarantee.loss
    assert with_groups.private.epsilon >= without.private.epsilon * (1 - 1e-9)


def test_totals_of_steps_for_persons_and_for_rows_keep_their_budget():
    """The total of both is for rows, and of persons alone for persons, as it is after the fit."""
    persons = np.arange(200) // 4
    for first, unit in ((_binner(), "one row"), (DPPCA(2), "one person (all of its rows)")):
        model = make_pipeline(first, DPRidge(target_bounds=(-1, 1)))
        said = pytest.warns(PrivacyWarning, match="take no groups: DPBinner") if unit == "one row" else nullcontext()
        with said:
            set_budget(model, _X, _X[:, 0], groups=persons, epsilon=1.0, delta=1e-5)
        plan = privacy_report(model, _X, _X[:, 0], groups=persons).private
        given = {f"{name}__groups": persons for name, _ in model.steps if name != "dpbinner"}
        total = privacy_report(model.fit(_X, _X[:, 0], **given)).private
        assert (plan.unit, plan.epsilon, plan.delta) == (total.unit, total.epsilon, total.delta)
        assert plan.unit == unit and plan.epsilon <= 1.0


# Files and pages


def test_a_file_of_a_search_has_nothing_that_its_estimator_had_learnt_before(tmp_path):
    """A pipeline that was tried before, of which the grid replaces the scaler: the mean of all rows is in the file."""
    tried = make_pipeline(StandardScaler(), _model(classes=[0, 1])).fit(_X, _Y)
    grid = {"standardscaler": [PublicScaler((-1, 1)), PublicBinner((-1, 1), n_bins=4)]}
    try:
        search = DPSearchCV(tried, grid, n_trials=2, epsilon=2.0, delta=1e-4).fit(_X, _Y)
        save_model(tmp_path / "model.npz", search)
    except ValueError:
        return
    saved = load_model(tmp_path / "model.npz").estimator
    learnt = getattr(saved.estimator[0], "mean_", None)
    assert privacy_report(saved).total is None or not np.array_equal(learnt, _X.mean(axis=0))


def test_a_file_states_what_was_fitted_since_a_search_also_where_the_grid_was_taken_out(tmp_path):
    """Parameters as they were at the fit are in the file as well: bins of epsilon 3 beside a search of 2."""
    bins = [DPBinner(4, epsilon=epsilon, delta=1e-6, sparse_output=False) for epsilon in (3.0, 2.5)]
    steps = make_pipeline(_binner(), _model(classes=[0, 1]))
    search = DPSearchCV(steps, {"dpbinner": bins}, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)
    released = [one.fit(_X).guarantee_ for one in bins]
    search.set_params(param_grid={})
    try:
        save_model(tmp_path / "model.npz", search)
    except ValueError:
        return
    saved = load_model(tmp_path / "model.npz")
    kept = [
        getattr(one, "guarantee_", None) for one in saved.estimator._calibrated_for["param_grid"].get("dpbinner", [])
    ]
    assert all(one in saved.guarantees.values() for one in released if one in kept)


def test_the_shape_of_the_noisy_confusion_matrix_of_the_page_does_not_depend_on_one_row():
    """A model that never predicts the rare class, and one held-out row that has it or not: (2, 2) against (1, 1)."""
    page = Path(__file__).parents[1] / "doc" / "publish.rst"
    if not page.exists():
        pytest.skip("the pages are not installed")
    [code] = re.findall(r">>> counts = (confusion_matrix\(.*\))", page.read_text())
    labels = np.array(["<=50K", ">50K"])

    class _Constant:
        classes_ = labels

        def predict(self, X):
            return np.full(len(X), labels[0])

    shapes = set()
    for last in labels:
        names = {"model": _Constant(), "X_test": np.zeros((50, 1)), "y_test": np.append(np.full(49, labels[0]), last)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shapes.add(eval(code, {"confusion_matrix": confusion_matrix, **names}).shape)
    assert len(shapes) == 1


# What held


@pytest.mark.parametrize("assume_finite", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_moments_of_rows_or_targets_that_are_not_finite_are_released(value, assume_finite):
    """Norms tell what is not finite, in rows of each form, wherever it is, and whatever scikit-learn is told."""
    models = [DPMoments(target_bounds=(-1, 1))]
    models += [DPRidge(target_bounds=(-1, 1), mechanism=one) for one in ("moments", "descent")]
    models += [DPRidge(target_bounds=(-1, 1), mechanism="projection", adjacency="add_remove")]
    for form in (np.array, np.asfortranarray, sp.csr_array, lambda X: X.astype("f4")):
        for in_rows in (True, False):
            X, y = _X.copy(), _X[:, 0].copy()
            (X[:, 1] if in_rows else y)[-1] = value
            for model in models:
                for groups in (None, np.arange(200) // 2):
                    with PrivacyLedger() as ledger, config_context(assume_finite=assume_finite):
                        with pytest.raises((ValueError, TypeError)):
                            model.fit(form(X), y, groups=groups)
                        assert not ledger.entries


def test_counts_of_blocks_are_those_of_all_rows_at_once():
    """Cells of every type at random, which are equal to Python, beside numbers of any size: each counts by its key."""
    pd = pytest.importorskip("pandas")
    rng, n = np.random.default_rng(0), 20_000
    cells = [*(1, 1.0, True, "1", "1.0", None, np.nan, "a", 0, 0.0, -0.0, False, "", b"1")]
    cells += [2**60, float(2**60), np.bool_(True)]
    numbers = rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n)
    numbers[:6] = [0.0, -0.0, 5e-324, -5e-324, 1.7e308, np.nan]
    names = np.array([cells[place] for place in rng.integers(len(cells), size=n)], dtype=object)
    table = pd.DataFrame({"x": numbers, "c": names, "l": names[::-1].copy()})
    for bounds in (None, {"x": (-1, 1)}, {"x": (-1e-5, 3e7)}):
        listed = {"l": ["a", 1, True, "1"]}
        columns = columns_of(table, 3, list(table), bounds=bounds, categories=listed, n_cells=64, counts_listed=True)
        _, whole = count(table, columns)
        parts = [count(table.iloc[start : start + 777], columns)[1] for start in range(0, n, 777)]
        for place, found in enumerate(whole):
            total = parts[0][place]
            for part in parts[1:]:
                total = total + part[place]
            assert np.array_equal(total, found) if isinstance(found, np.ndarray) else total == found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["disk", "tasks"])
def test_rows_that_a_scaler_has_read_by_itself_are_not_joined_with_targets_of_another_shuffle(method, tmp_path):
    """What `transform` returns is optimised, which renames tasks: shuffles are found in it all the same."""
    pd, dask = pytest.importorskip("pandas"), pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(_X, columns=list("aby")).assign(k=np.arange(200) % 7, g=np.arange(200) // 2)
    table.to_csv(tmp_path / "rows.csv", index=False)
    other = dd.from_pandas(table[["k"]].drop_duplicates().assign(z=1.0), npartitions=2)
    with dask.config.set({"dataframe.shuffle.method": method}):
        for source in (dd.from_pandas(table, npartitions=3), dd.read_csv(tmp_path / "rows.csv", blocksize=2000)):
            for moved in (source.shuffle("k"), source.merge(other, on="k"), source.sort_values("a")):
                rows = moved[["a", "b"]]
                scaled = PublicScaler((-1, 1)).fit(rows).transform(rows)
                for given in ({"y": moved["y"]}, {"groups": moved["g"]}):
                    bounds = (-1, 1) if "y" in given else None
                    with pytest.raises(ValueError, match="shuffle"):
                        DPMoments(max_norm=2.0, target_bounds=bounds).fit(scaled, **given)


def test_a_file_and_a_report_of_a_search_say_what_audits_have_shown_of_its_winner(tmp_path):
    """The winner is not covered, and the search that has released it was, with no mark in its file."""
    search = DPSearchCV(make_pipeline(_binner(), _model()), {}, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)
    for step in search.best_estimator_:
        step.guarantee_ = replace(step.guarantee_, audited_epsilon=9.0)
    assert privacy_report(search.best_estimator_).total is None
    assert privacy_report(search).total is None
    save_model(tmp_path / "model.npz", search)
    assert all(one.violation for one in load_model(tmp_path / "model.npz").guarantees.values())


@pytest.mark.parametrize("copy_of", [lambda search: pickle.loads(pickle.dumps(search)), copy.deepcopy])
def test_a_copy_of_a_search_holds_nothing_that_its_parameters_had_learnt(copy_of):
    """The exact mean of the rows stood in `estimator`, which a fit before the search had fitted."""
    tried = make_pipeline(StandardScaler(), _model(classes=[0, 1])).fit(_X, _Y)
    grid = {"standardscaler": [PublicScaler((-1, 1)), PublicBinner((-1, 1), n_bins=4)]}
    search = DPSearchCV(tried, grid, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)
    grid["standardscaler"][0].fit(_X)
    copied = copy_of(search)
    assert np.array_equal(copied.predict(_X), search.predict(_X))
    assert privacy_report(copied).total == privacy_report(search).total
    held = [copied.estimator, *(one for given in _grids(copied) for one in given["standardscaler"])]
    held.append(copied._calibrated_for["estimator"])
    assert not any(
        hasattr(step, "n_features_in_") for one in held for step in getattr(one, "named_steps", {"": one}).values()
    )
    assert hasattr(tried[0], "mean_")


def _grids(search):
    return search.param_grid, search._calibrated_for["param_grid"]


@pytest.mark.parametrize("classes", [None, [0, 1]])
@pytest.mark.parametrize(
    "model",
    [
        lambda classes: _model(classes=classes),
        lambda classes: make_pipeline(PublicScaler((-1, 1)), _binner(), _model(classes=classes)),
        lambda classes: DPSearchCV(_model(classes=classes), {}, n_trials=1, delta=1e-4),
    ],
)
def test_a_curve_says_what_its_epsilons_are_given(model, classes):
    """Of models that read the set of labels off the rows, neighbours have it in common."""
    options = {"epsilons": [1.0], "cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model(classes), _X, _Y, **options)
    said = ", given the set of labels" if classes is None else ""
    assert display.hides == f"one row replaced{said}"
    assert display.plot().ax_.get_xlabel().startswith(("epsilon", "total epsilon"))
    assert display.hides in display.ax_.get_xlabel()


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_a_curve_of_a_search_over_epsilon_says_what_it_is_given(classes):
    """The refit states it."""
    search = GridSearchCV(_model(classes=classes), {"epsilon": [1.0, 2.0]}, cv=KFold(2)).fit(_X, _Y)
    said = ", given the set of labels" if classes is None else ""
    assert PrivacyUtilityDisplay.from_cv_results(search).hides == f"one row replaced{said}"


def test_a_curve_of_an_ensemble_says_what_it_is_given():
    """The ensemble keeps the labels that it finds, whatever its members list."""
    model = OneVsRestClassifier(_model(classes=[0, 1]))
    options = {"epsilons": [3.0], "cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False, "delta": 1e-4}
    display = PrivacyUtilityDisplay.from_estimator(model, _X, _THREE, **options)
    assert display.hides == "one row replaced, given the set of labels"


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
def test_a_curve_of_a_search_over_calibrations_does_not_say_that_all_hold():
    """The refit was exact, and the point at .3 of the published calibration, which guarantees nothing there."""
    model = _model(classes=[0, 1], noise="product", max_norm=8.0)
    grid = {"epsilon": [0.3, 100.0], "calibration": ["published", "exact"]}
    search = GridSearchCV(model, grid, cv=KFold(3)).fit(_X, _Y)
    assert PrivacyUtilityDisplay.from_cv_results(search).hides == ""


# What was learnt before a fit, and left where it stood

_WORDS = np.array([["flu"], ["cold"]] * 50, dtype=object)
_WORDS[17] = "HIV"
_IS_FLU = (_WORDS[:, 0] == "flu").astype(int)


def _listed():
    return OneHotEncoder(handle_unknown="ignore", categories=[["flu", "cold"]])


def _encoded(**options):
    return make_pipeline(OneHotEncoder(handle_unknown="ignore", **options), _model(classes=[0, 1]))


@pytest.mark.parametrize(
    "composite",
    [
        OneVsRestClassifier,
        FixedThresholdClassifier,
        lambda base: ColumnTransformer([("bins", base[0], [0])], sparse_threshold=0),
        lambda base: ColumnTransformer([], remainder=base[0], sparse_threshold=0),
        lambda base: ColumnTransformer([("none", base[0], [])], remainder=_listed(), sparse_threshold=0),
    ],
)
def test_a_file_holds_nothing_that_parameters_had_learnt_of_which_a_fit_makes_clones(composite, tmp_path):
    """The category that one row had stood in `estimator`, where the report advises to list categories instead."""
    base = _encoded().fit(_WORDS, _IS_FLU)
    assert "HIV" in base[0].categories_[0]
    base.set_params(onehotencoder__categories=[["flu", "cold"]])
    model = composite(base)
    if not hasattr(model, "predict"):
        model = make_pipeline(model, _model(classes=[0, 1]))
    model.fit(_WORDS, _IS_FLU)
    report = privacy_report(model)
    assert report.total is not None
    assert any("neither pickles nor diagrams of it are published" in text for text in report.total.assumptions)
    save_model(tmp_path / "model.npz", model)
    assert b"HIV" not in (tmp_path / "model.npz").read_bytes()
    saved = load_model(tmp_path / "model.npz").estimator
    assert np.array_equal(saved.predict(_WORDS), model.predict(_WORDS))
    assert not any("pickles" in text for text in privacy_report(saved).total.assumptions)


@pytest.mark.parametrize("kind", [OneHotEncoder, OrdinalEncoder])
def test_an_encoder_that_is_fitted_again_keeps_what_it_has_counted_before_and_is_not_covered(kind):
    """Of how many rows had a category the second fit left an exact sign, and the report said that all is covered."""
    unknown = {"handle_unknown": "infrequent_if_exist"} if kind is OneHotEncoder else {}
    now = {"handle_unknown": "ignore"} if kind is OneHotEncoder else {}
    model = make_pipeline(kind(min_frequency=5, **unknown), _model(classes=[0, 1])).fit(_WORDS, _IS_FLU)
    encoder = model[0].set_params(categories=[["HIV", "cold", "flu"]], min_frequency=None, **now)
    model.fit(_WORDS, _IS_FLU)
    report = privacy_report(model)
    assert [list(one) for one in encoder.infrequent_categories_] == [["HIV"]]
    assert report.total is None
    assert "a new one" in report.steps[0].remark
    assert privacy_report(clone(model).fit(_WORDS, _IS_FLU)).total is not None


def test_no_diagram_of_a_search_shows_what_its_estimator_had_learnt_before():
    """The page had the exact means of all rows."""
    tried = make_pipeline(StandardScaler(), _model(classes=[0, 1])).fit(_X, _Y)
    grid = {"standardscaler": [PublicScaler((-1, 1)), PublicBinner((-1, 1), n_bins=4)]}
    search = DPSearchCV(tried, grid, n_trials=1, epsilon=2.0, delta=1e-4)
    for shown in (search, search.fit(_X, _Y), make_pipeline(search)):
        assert "mean_" not in shown._repr_html_()


@pytest.mark.parametrize(
    "step", [lambda scaler: FrozenEstimator(scaler), lambda scaler: FunctionTransformer(scaler.transform)]
)
def test_a_search_takes_nothing_fitted_of_which_no_clone_is_made(step):
    """Each candidate replaced it, and the file had the exact means of all rows."""
    steps = Pipeline([("scaler", step(StandardScaler().fit(_X))), ("model", _model(classes=[0, 1]))])
    search = DPSearchCV(steps, {"scaler": ["passthrough"]}, n_trials=1, epsilon=2.0, delta=1e-4)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="holds a fitted StandardScaler"):
        search.fit(_X, _Y)
    assert not ledger.entries


def test_copies_of_a_search_hold_nothing_that_an_array_of_estimators_has_learnt_since():
    """An array of objects was copied with all that is in it."""
    grid = {"standardscaler": np.array([DPScaler(bounds=(-1, 1)), PublicScaler((-1, 1))], dtype=object)}
    tried = make_pipeline(StandardScaler(), _model(classes=[0, 1]))
    search = DPSearchCV(tried, grid, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)
    grid["standardscaler"][0].set_params(epsilon=50.0).fit(_X)
    copied = pickle.loads(pickle.dumps(search))
    assert not any(hasattr(one, "guarantee_") for given in _grids(copied) for one in given["standardscaler"])


def test_a_curve_of_a_model_behind_a_sketch_is_of_the_model_alone():
    """All that the fits released was for a change within a row."""
    model = make_pipeline(DPOPORP(2, max_change=0.01, epsilon=1.0, random_state=0), _model(classes=[0, 1]))
    options = {"param_name": "ampclassifier__epsilon", "cv": KFold(2), "n_repeats": 1, "reference": None}
    display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[1.0, 3.0], **options)
    assert display.step == "ampclassifier"
    search = GridSearchCV(model, {"ampclassifier__epsilon": [1.0, 3.0]}, cv=KFold(2)).fit(_X, _Y)
    assert PrivacyUtilityDisplay.from_cv_results(search).step == "ampclassifier"


def test_a_curve_of_one_noise_multiplier_says_how_large_delta_is():
    """At .1 it was .667 without a word."""
    model = DPSGDClassifier(calibration=Published(noise_multiplier=1.0), classes=[0, 1])
    options = {"cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[0.1], **options)
    assert re.search(r"delta up to [01]\.\d+$", display.hides)
