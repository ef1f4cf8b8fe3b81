"""Attacks on curves: what their axes are named after, and what their epsilons are given."""

import re
import sys
import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from attacks import (
    LAPLACE_SKETCH,
    THREE_CLASSES,
    X12,
    X24_HALF,
    X200,
    X200_UNIFORM,
    X400,
    Y12,
    Y24,
    Y200,
    Y200_UNIFORM,
    Y400,
    amp,
    binary_model,
    binner_of_3,
    binner_of_4,
    model_of_norm_2,
    model_with,
    private_model,
)
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyUtilityDisplay,
    PrivacyWarning,
    PublicBinner,
    PublicScaler,
    compose,
    iDPSignRP,
    privacy_report,
)
from skdprp.guarantee import Adjacency
from skdprp.inspection import PrivacyProfileDisplay
from skdprp.mechanisms import Published
from skdprp.testing import reproducible_noise

ONE_REPEAT = {"n_repeats": 1, "reference": None, "chance": False, "cv": KFold(2)}


@pytest.fixture(autouse=True)
def _figures():
    """Close what a test has drawn: matplotlib warns of more than 20 open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# What axes are named after


@pytest.mark.parametrize(
    ("other", "exact"),
    [
        (AMPClassifier(noise="product", calibration="published", delta=1e-4), private_model()),
        (make_pipeline(iDPSignRP(4), LogisticRegression()), make_pipeline(DPSignRP(4), LogisticRegression())),
    ],
    ids=["claimed", "individual"],
)
def test_no_curve_is_named_after_a_guarantee_that_its_estimator_has_not(other, exact):
    """A published calibration of no guarantee at all had the name and axis of an exact one: "one row replaced"."""
    options = {"epsilons": [1.0], "cv": 2, "n_repeats": 1, "reference": None, "chance": False, "label": "mine"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        displays = [PrivacyUtilityDisplay.from_estimator(one, X12, Y12, **options) for one in (other, exact)]
    assert displays[0].hides != displays[1].hides


def test_a_curve_of_one_against_the_rest_is_of_the_total_of_its_models_or_names_one():
    """The axis said "epsilon, one row replaced" at 1.0, where the four models of a fit are four releases: 3.5."""
    pytest.importorskip("matplotlib").use("Agg")
    y, model = np.arange(len(X400)) % 4, model_of_norm_2().set_params(noise="gaussian")
    options = {"epsilons": [1.0], "cv": 2, "n_repeats": 1, "reference": None, "chance": False}
    with PrivacyLedger() as ledger:
        display = PrivacyUtilityDisplay.from_estimator(OneVsRestClassifier(model), X400, y, **options)
    assert len(ledger.entries) == 8
    assert 0.99 < compose(*(one.guarantee for one in ledger.entries[:4])).epsilon <= 1.0
    hidden = "one row replaced, given the set of labels"
    assert display.plot().ax_.get_xlabel().startswith(f"total epsilon of all private steps, {hidden}\n")
    sketches = OneVsRestClassifier(make_pipeline(DPOPORP(4), LogisticRegression()))
    with pytest.raises(ValueError, match=r"total of several releases.*param_name"):
        PrivacyUtilityDisplay.from_estimator(sketches, X400, y, **options)
    for one, step in ((OneVsRestClassifier(model), "estimator"), (sketches, "estimator__dpoporp")):
        display = PrivacyUtilityDisplay.from_estimator(one, X400, y, param_name=f"{step}__epsilon", **options)
        assert display.plot().ax_.get_xlabel().startswith(f"parameter {step}__epsilon\n")


def test_no_curve_of_a_search_is_named_after_the_epsilon_of_one_step_of_several():
    """Of bins at epsilon 5 and models at 0.1 the axis said "epsilon, one row replaced" at 0.1; the total is 4.9."""
    pytest.importorskip("matplotlib").use("Agg")
    model = make_pipeline(binner_of_4(5.0), model_of_norm_2())
    search = GridSearchCV(model, {"ampclassifier__epsilon": [0.1, 1.0]}, cv=KFold(2, shuffle=True)).fit(X400, Y400)
    display = PrivacyUtilityDisplay.from_cv_results(search).plot()
    total = privacy_report(model.set_params(ampclassifier__epsilon=0.1), X400, Y400).total
    axis = display.ax_.get_xlabel().splitlines()[0]
    assert total.epsilon > display.epsilons[0] == 0.1
    assert axis == "parameter ampclassifier__epsilon"
    assert display.ax_.get_legend().get_texts()[0].get_text() == "AMPClassifier, guarantees not known"


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
    pytest.importorskip("matplotlib").use("Agg")
    return display.plot().ax_.get_xlabel().splitlines()[0]


def _spent_by(model, X, y, **options):
    """A curve of a total, and what each fit spent as a multiple of its epsilon, in folds of the first and last rows."""
    spent = []

    def _score(fitted, X, y):
        spent.append(privacy_report(fitted).private.epsilon)
        return 0.0

    pytest.importorskip("matplotlib").use("Agg")
    options = ONE_REPEAT | {"delta": 1e-5, "scoring": _score} | options
    display = PrivacyUtilityDisplay.from_estimator(model, X, y, **options)
    return display, np.array(spent) / np.repeat(display.epsilons, len(spent) // len(display.epsilons))


def test_a_curve_of_a_total_is_of_as_many_classes_of_each_output_as_each_fold_has():
    """Five classes of one output are in one fold, as of another in both: 5.57 was spent where the axis said 5.

    One problem for each class, which is composed faster than a softmax: three more still spend 1.5 percent more.
    """
    A, B = (np.random.default_rng(0).integers(0, n_classes, len(X200_UNIFORM)) for n_classes in (2, 5))
    A[-3:] = 2, 3, 4
    model = MultiOutputClassifier(AMPClassifier(noise="gaussian", multi_class="ovr"))
    display, spent = _spent_by(model, X200_UNIFORM, np.column_stack([A, B]), epsilons=[5.0])
    assert len(spent) == 2 and spent.max() <= 1 + 1e-9
    assert _axis(display) == "total epsilon of all private steps, one row replaced, given the set of labels"


def _without_zero_columns(X):
    return X[:, X.any(axis=0)]


def test_a_curve_of_a_total_says_by_how_much_fits_to_rows_of_another_width_exceed_it():
    """Rows of one half have 4 columns, those of the other 30, for which both budgets were: 6.3 and 5 were spent."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (200, 30)), np.arange(200) % 2
    X[:100, 4:] = 0.0
    vote = VotingClassifier([(name, AMPClassifier(noise="product", classes=[0, 1])) for name in ("a", "b")])
    model = make_pipeline(FunctionTransformer(_without_zero_columns), vote)
    display, spent = _spent_by(model, X, y, epsilons=[5.0])
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
    X = np.arange(len(X200_UNIFORM))[:, None] % 3
    model = make_pipeline(
        OneHotEncoder(), VotingClassifier([(name, model_with(classes=[0, 1], noise="gaussian")) for name in ("a", "b")])
    )
    display = PrivacyUtilityDisplay.from_estimator(model, X, Y200_UNIFORM, epsilons=[5.0], delta=1e-5, **ONE_REPEAT)
    assert (
        display.plot(public_data=True)
        .ax_.get_xlabel()
        .replace("\n", " ")
        .startswith("planned total epsilon of all private steps (the total of some fits is not known)")
    )


@pytest.mark.parametrize("is_searched", [False, True])
def test_no_curve_of_a_model_behind_a_frozen_private_step_is_of_the_epsilon_of_the_model_as_that_of_all(is_searched):
    """Frozen bins of epsilon 5 have no parameter: the axis said "epsilon, one row replaced" at 0.1, and not 4.5."""
    pytest.importorskip("matplotlib").use("Agg")
    frozen = FrozenEstimator(
        DPBinner(4, bounds=(-1, 1), epsilon=5.0, delta=1e-6, sparse_output=False).fit(X200_UNIFORM)
    )
    model = make_pipeline(frozen, model_with(classes=[0, 1], noise="gaussian"))  # whose total has a closed form
    options = {"n_repeats": 1, "reference": None, "chance": False, "cv": KFold(2)}
    try:
        if is_searched:
            grid = {"ampclassifier__epsilon": [0.1, 1.0]}
            display = PrivacyUtilityDisplay.from_cv_results(
                GridSearchCV(model, grid, cv=KFold(2)).fit(X200_UNIFORM, Y200_UNIFORM)
            )
        else:
            display = PrivacyUtilityDisplay.from_estimator(
                model, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1, 1.0], **options
            )
    except ValueError:
        return
    total = privacy_report(model.set_params(ampclassifier__epsilon=0.1).fit(X200_UNIFORM, Y200_UNIFORM)).total
    assert display.epsilons[0] >= total.epsilon or _axis(display) == "parameter ampclassifier__epsilon"


_NOT_ALL_OF_THE_PRICE = {
    "a scaler that learns": StandardScaler,
    "a function of fitted bins": lambda: FunctionTransformer(
        DPBinner(4, bounds=(-1, 1), epsilon=5.0, delta=1e-6, sparse_output=False).fit(X200_UNIFORM).transform
    ),
    "frozen bins of a large delta": lambda: FrozenEstimator(
        DPBinner(4, bounds=(-1, 1), epsilon=0.05, delta=0.1, sparse_output=False).fit(X200_UNIFORM)
    ),
}


@pytest.mark.parametrize("of_a_search", [False, True])
@pytest.mark.parametrize("kind", _NOT_ALL_OF_THE_PRICE)
def test_a_curve_of_a_model_behind_what_its_epsilon_does_not_cover_states_no_guarantee(kind, of_a_search):
    """A scaler that learns without noise left the axis at "epsilon, one row replaced", and the report without total."""
    pytest.importorskip("matplotlib").use("Agg")
    model = make_pipeline(_NOT_ALL_OF_THE_PRICE[kind](), model_with(classes=[0, 1], noise="gaussian"))
    if of_a_search:
        search = GridSearchCV(model, {"ampclassifier__epsilon": [0.1, 1.0]}, cv=KFold(2)).fit(
            X200_UNIFORM, Y200_UNIFORM
        )
        display = PrivacyUtilityDisplay.from_cv_results(search)
    else:
        display = PrivacyUtilityDisplay.from_estimator(
            model, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1, 1.0], **ONE_REPEAT
        )
    assert _axis(display) == "parameter ampclassifier__epsilon"
    assert display.line_.get_label() == "AMPClassifier, guarantees not known"


@pytest.mark.parametrize("kind", ["learns", "applies", "behind"])
def test_a_curve_of_a_pipeline_without_a_total_does_not_state_the_epsilon_of_one_step_as_that_of_all(kind):
    """A scaler learns means before, a function applies bins of epsilon 5, or a model without noise learns behind."""
    bins = DPBinner(4, bounds=(-1, 1), epsilon=5.0, delta=1e-6, sparse_output=False)
    model = {
        "learns": lambda: make_pipeline(StandardScaler(), binary_model()),
        "applies": lambda: make_pipeline(FunctionTransformer(bins.fit(X200_UNIFORM).transform), binary_model()),
        "behind": lambda: make_pipeline(bins, LogisticRegression()),
    }[kind]()
    assert privacy_report(model.fit(X200_UNIFORM, Y200_UNIFORM)).total is None
    display = PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1], **ONE_REPEAT)
    assert _axis(display) != "epsilon, one row replaced"


def test_no_curve_is_of_the_ratio_that_the_epsilon_of_a_model_within_a_private_search_is():
    """Each fit is one release of epsilon 1, whatever epsilon the model that is searched has: points were at 0.1."""
    pytest.importorskip("matplotlib").use("Agg")
    search = DPSearchCV(model_with(classes=[0, 1]), {"max_norm": [1.0, 2.0]}, n_trials=2, delta=1e-5)
    over = GridSearchCV(search, {"estimator__epsilon": [0.1, 1.0]}, cv=KFold(2)).fit(X200_UNIFORM, Y200_UNIFORM)
    released = over.best_estimator_.best_estimator_.guarantee_.epsilon
    try:
        display = PrivacyUtilityDisplay.from_cv_results(over)
    except ValueError:
        return
    assert display.epsilons[0] >= released or "epsilon of one release" not in _axis(display)


@pytest.mark.parametrize("grid", [{"epsilon": [1.0, 10.0]}, [{"delta": [1e-5]}, {"epsilon": [10.0]}]])
def test_no_curve_is_of_an_epsilon_that_a_search_within_sets(grid):
    """Folds released at 1 and at 10, and the refit at 10, where the axis said 0.1."""
    search = GridSearchCV(model_with(classes=[0, 1]), grid, cv=KFold(2))
    with pytest.raises(ValueError, match="a search sets"):
        PrivacyUtilityDisplay.from_estimator(search, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1], **ONE_REPEAT)
    over = GridSearchCV(search, {"estimator__epsilon": [0.1]}, cv=KFold(2)).fit(X200_UNIFORM, Y200_UNIFORM)
    with pytest.raises(ValueError, match="a search sets"):
        PrivacyUtilityDisplay.from_cv_results(over)


def test_a_curve_does_not_name_an_epsilon_that_the_search_within_sets_itself():
    """At 0.1, all fits have the epsilons of the grid."""
    search, spent = GridSearchCV(binary_model(), {"epsilon": [1.0, 10.0]}, cv=KFold(2)), []

    def _score(one, X, y):
        spent.append(one.best_estimator_.guarantee_.epsilon)
        return 0.0

    try:
        display = PrivacyUtilityDisplay.from_estimator(
            search, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1], scoring=_score, **ONE_REPEAT
        )
    except ValueError:
        return
    assert max(spent) <= display.epsilons[0]


def test_a_curve_of_a_search_promises_no_more_than_is_known():
    """Whatever it varied, and with a refit or without: the axis has the parameter's name."""
    pytest.importorskip("matplotlib").use("Agg")
    model = make_pipeline(PublicScaler((-1, 1)), model_with(classes=[0, 1]))
    epsilons = {"ampclassifier__epsilon": [1.0, 10.0]}

    def _name(grid, **options):
        search = GridSearchCV(model, grid, cv=KFold(2), **options).fit(X200_UNIFORM, Y200_UNIFORM)
        return _axis(PrivacyUtilityDisplay.from_cv_results(search))

    nothing = "parameter ampclassifier__epsilon"
    assert _name(epsilons) == _name(epsilons, refit=False) == nothing
    for name, values in (("classes", [None, [0, 1]]), ("max_norm", [1.0, 2.0]), ("delta", [1e-5, 1e-60])):
        assert _name(epsilons | {f"ampclassifier__{name}": values}) == nothing
    steps = [StandardScaler(), PublicScaler((-1, 1))]
    assert _name([epsilons | {"publicscaler": [step]} for step in steps]) == nothing
    results = GridSearchCV(model[-1], {"epsilon": [1.0]}, cv=KFold(2), refit=False).fit(X200_UNIFORM, Y200_UNIFORM)
    assert _axis(PrivacyUtilityDisplay.from_cv_results(results)) == "parameter epsilon"
    assert _axis(PrivacyUtilityDisplay.from_cv_results(results.cv_results_)) == "parameter epsilon"


BESIDE_WHAT_IS_FROZEN = {
    "a model": lambda: make_pipeline(
        FrozenEstimator(DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6).fit(X24_HALF)), amp(noise="gaussian")
    ),
    "a sketch": lambda: make_pipeline(
        FeatureUnion([("a", FrozenEstimator(DPOPORP(4, epsilon=5.0).fit(X24_HALF))), ("b", DPOPORP(4))]),
        RidgeClassifier(),
    ),
}


@pytest.mark.parametrize("kind", BESIDE_WHAT_IS_FROZEN)
def test_a_curve_says_that_its_epsilon_is_not_that_of_what_is_frozen_beside(kind):
    """At an epsilon of 0.1 on the axis, the report on the same pipeline has a total of 4.85."""
    pytest.importorskip("matplotlib").use("Agg")
    model = BESIDE_WHAT_IS_FROZEN[kind]()
    options = {"epsilons": [0.1, 1.0], "cv": KFold(2), "n_repeats": 1, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, X24_HALF, Y24, reference=None, **options).plot()
    varied = [name for name in model.get_params() if name.endswith("epsilon") and "frozen" not in name]
    total = privacy_report(model.set_params(**dict.fromkeys(varied, 0.1)).fit(X24_HALF, Y24)).total
    assert total.epsilon <= 0.1 or display.ax_.get_xlabel().startswith("parameter "), (total, display.ax_.get_xlabel())


class OfAnswers(ClassifierMixin, BaseEstimator):
    """Says of each label that it is the first one, and states that under a guarantee for answers."""

    def __init__(self, *, epsilon=1.0, adjacency="replace_one"):
        self.epsilon = epsilon
        self.adjacency = adjacency

    def fit(self, X, y):
        """State the guarantee."""
        self.classes_ = np.array([0, 1])
        self.guarantee_ = PrivacyGuarantee(self.epsilon, 0.0, unit="one answer", adjacency=Adjacency(self.adjacency))
        return self

    def predict(self, X):
        """Predict the first label."""
        return np.zeros(len(X), dtype=int)


def test_a_curve_does_not_say_that_a_row_is_replaced_where_a_guarantee_is_for_another_unit():
    """An estimator of one's own states a unit of its own."""
    assert repr(OfAnswers().fit(X200_UNIFORM, Y200_UNIFORM).guarantee_) == "1.0-DP, one answer replaced"
    display = PrivacyUtilityDisplay.from_estimator(
        OfAnswers(), X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1], **ONE_REPEAT
    )
    assert "row" not in _axis(display)


def test_no_page_and_no_curve_shows_a_guarantee_that_was_set_after_the_fit():
    """Reports and files refuse it; the diagram of the estimator and the curve of it showed it as if it were true."""
    model = private_model().fit(X200, Y200)
    model.guarantee_ = replace(model.guarantee_, epsilon=0.01)
    with suppress(ValueError):
        assert "(0.01, 1e-06)-DP" not in model._repr_html_()
    with suppress(ValueError):
        assert "(0.01, 1e-06)-DP" not in PrivacyProfileDisplay.from_estimator(model).label


# What is given


@pytest.mark.parametrize("classes", [None, [0, 1]])
@pytest.mark.parametrize(
    "model",
    [
        lambda classes: model_with(classes=classes),
        lambda classes: make_pipeline(
            PublicScaler((-1, 1)), binner_of_3(), model_with(classes=classes, noise="gaussian")
        ),
        lambda classes: DPSearchCV(model_with(classes=classes), {}, n_trials=1, delta=1e-4),
    ],
)
def test_a_curve_says_what_its_epsilons_are_given(model, classes):
    """Of models that read the set of labels off the rows, neighbours have it in common."""
    options = {"epsilons": [1.0], "cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model(classes), X200_UNIFORM, Y200_UNIFORM, **options)
    said = ", given the set of labels" if classes is None else ""
    assert display.hides == f"one row replaced{said}"
    assert display.plot().ax_.get_xlabel().startswith(("epsilon", "total epsilon"))
    assert display.hides in display.ax_.get_xlabel()


def test_a_curve_of_an_ensemble_says_what_it_is_given():
    """The ensemble keeps the labels that it finds, whatever its members list."""
    model = OneVsRestClassifier(model_with(classes=[0, 1], noise="gaussian"))
    options = {"epsilons": [3.0], "cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False, "delta": 1e-4}
    display = PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, THREE_CLASSES, **options)
    assert display.hides == "one row replaced, given the set of labels"


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
def test_a_curve_of_a_search_over_calibrations_does_not_say_that_all_hold():
    """The refit was exact, and the point at .3 of the published calibration, which guarantees nothing there."""
    model = model_with(classes=[0, 1], noise="product", max_norm=8.0)
    grid = {"epsilon": [0.3, 100.0], "calibration": ["published", "exact"]}
    search = GridSearchCV(model, grid, cv=KFold(3)).fit(X200_UNIFORM, Y200_UNIFORM)
    assert PrivacyUtilityDisplay.from_cv_results(search).hides == ""


def test_a_curve_of_a_search_over_calibrations_does_not_state_a_claim_as_what_holds():
    """The refit is exact, and the point at 0.3 is of a published calibration, under which there is no guarantee."""
    model = binary_model(max_norm=8.0, noise="product")

    def _score(one, X, y):
        return {("published", 0.3): 1.0, ("exact", 100.0): 2.0}.get((one.calibration, one.epsilon), 0.0)

    grid = {"epsilon": [0.3, 100.0], "calibration": ["exact", "published"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is published
        search = GridSearchCV(model, grid, cv=KFold(2), scoring=_score).fit(X200_UNIFORM, Y200_UNIFORM)
        assert (
            model.set_params(epsilon=0.3, calibration="published").fit(X200_UNIFORM, Y200_UNIFORM).guarantee_.epsilon
            == np.inf
        )
    display = PrivacyUtilityDisplay.from_cv_results(search)
    assert search.best_params_["calibration"] == "exact" and display.scores[0].mean() == 1.0
    assert display.hides == "" and _axis(display) == "parameter epsilon"


def test_no_curve_states_an_epsilon_at_which_fits_have_no_guarantee():
    """Without noise that can be sampled for an epsilon of 1000, `guarantee_` is infinite."""
    model, spent = binary_model(noise="product"), []

    def _score(one, X, y):
        spent.append(one.guarantee_.epsilon)
        return 0.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no guarantee
        display = PrivacyUtilityDisplay.from_estimator(
            model, X200_UNIFORM, Y200_UNIFORM, epsilons=[1000.0], scoring=_score, **ONE_REPEAT
        )
    assert max(spent) == np.inf
    assert display.hides.endswith(", not guaranteed at epsilon = 1000")
    assert "not guaranteed" in display.plot(label="mine").line_.get_label()


def test_a_curve_with_a_name_of_its_own_says_what_its_guarantee_is_given():
    """Without its label of default, a target of (1.0, 1e-6) stands there for rows whose labels may be any."""
    pytest.importorskip("matplotlib").use("Agg")
    model = AMPClassifier(delta=1e-6).fit(X24_HALF, Y24)
    other = AMPClassifier(delta=1e-6).fit(X24_HALF, np.where(np.arange(24) == 0, 2, Y24))  # one label replaced
    assert model.guarantee_.given and len(model.classes_) < len(other.classes_)
    ax = PrivacyProfileDisplay.from_estimator(model, label="patients").plot().ax_
    texts = [ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.get_legend().get_texts())]
    assert any(model.guarantee_.given in text for text in texts), texts


def test_curves_with_names_of_their_own_say_what_an_axis_says_that_they_say():
    """The axis has "epsilon, for what each curve says": of a claim as of what holds, there were names alone."""
    pytest.importorskip("matplotlib").use("Agg")
    ax = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is published
        for name, model in [("ours", binary_model(noise="product")), ("theirs", binary_model(noise="product", C=0.01))]:
            model.set_params(calibration="published" if name == "theirs" else "exact")
            display = PrivacyUtilityDisplay.from_estimator(
                model, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.5], **ONE_REPEAT
            )
            ax = display.plot(ax, label=name).ax_
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "for what each curve says" not in ax.get_xlabel() or "claimed" in names[-1]


@pytest.mark.parametrize(
    ("before", "least"),
    [
        (PublicBinner((-1, 1), n_bins=4, encode="onehot"), 1.9),
        (PublicScaler((-0.5, 0.5), feature_range=(-10, 10)), 17.9),
    ],
    ids=["bins", "scaled"],
)
def test_a_curve_of_a_sketch_says_behind_which_maps_it_hides_a_change(before, least):
    """Rows .9 apart are 2 apart behind bins, and 18 behind a scaler: so is their exact loss, and 1.0 was stated."""
    pytest.importorskip("matplotlib").use("Agg")
    rows = np.array([[-0.45, 0.0, 0.0], [0.45, 0.0, 0.0]])
    model = make_pipeline(before, LAPLACE_SKETCH, LogisticRegression())
    fitted = clone(model[:-1]).set_params(dpoporp__random_state=0).fit(rows)
    one, other = fitted[1].projection_.project(fitted[0].transform(rows))
    assert np.abs(one - other).sum() / fitted[1].scale_ > least
    hides = f"l1 change of 1.0 of rows as they leave {model.steps[0][0]}"
    options = {"cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, Y200_UNIFORM, epsilons=[1.0], **options)
    assert _axis(display) == f"epsilon, {hides}"
    search = GridSearchCV(model, {"dpoporp__epsilon": [1.0, 2.0]}, cv=KFold(2)).fit(X200_UNIFORM, Y200_UNIFORM)
    assert _axis(PrivacyUtilityDisplay.from_cv_results(search)) == "parameter dpoporp__epsilon"
    total = privacy_report(search.best_estimator_).total
    profile = PrivacyProfileDisplay.from_guarantee(total, label="mine")
    assert profile.plot().line_.get_label() == f"mine, {hides}"


def test_curves_have_the_marks_of_what_they_show():
    """Noise from a seed, and what an audit has refuted, were said to hide a row."""
    options = {"epsilons": [1.0], "cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    with reproducible_noise(0):
        display = PrivacyUtilityDisplay.from_estimator(
            model_with(classes=[0, 1]), X200_UNIFORM, Y200_UNIFORM, **options
        )
    assert display.hides == "one row replaced [seeded: not private]"


def test_all_that_shows_a_search_has_the_marks_of_its_winner():
    """Its page and its profile had none, beside a report that had."""
    search = DPSearchCV(make_pipeline(binner_of_3(), model_with()), {}, n_trials=1, epsilon=2.0, delta=1e-4).fit(
        X200_UNIFORM, Y200_UNIFORM
    )
    step = search.best_estimator_[-1]
    step.guarantee_ = replace(step.guarantee_, audited_epsilon=9.0)
    assert "VIOLATED" in search._repr_html_()
    assert "VIOLATED" in PrivacyProfileDisplay.from_estimator(search).void


@pytest.mark.parametrize("first", [lambda sketch: sketch, lambda sketch: FrozenEstimator(sketch.fit(X200_UNIFORM))])
def test_a_curve_of_a_model_behind_a_sketch_is_of_the_model_alone(first):
    """All that the fits released was for a change within a row."""
    sketch = DPOPORP(2, max_change=0.01, epsilon=1.0, random_state=0)
    model = make_pipeline(first(sketch), model_with(classes=[0, 1]))
    total = privacy_report(clone(model).fit(X200_UNIFORM, Y200_UNIFORM)).total
    assert total.adjacency.is_distance and total.adjacency.bound == 0.01
    options = {"param_name": "ampclassifier__epsilon", "cv": KFold(2), "n_repeats": 1, "reference": None}
    display = PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, Y200_UNIFORM, epsilons=[1.0, 3.0], **options)
    assert (display.parameter, display.hides) == ("ampclassifier__epsilon", "")
    search = GridSearchCV(model, {"ampclassifier__epsilon": [1.0, 3.0]}, cv=KFold(2)).fit(X200_UNIFORM, Y200_UNIFORM)
    assert _axis(PrivacyUtilityDisplay.from_cv_results(search)) == "parameter ampclassifier__epsilon"


def test_a_curve_of_one_noise_multiplier_says_how_large_delta_is():
    """At .1 it was .667 without a word."""
    model = DPSGDClassifier(calibration=Published(noise_multiplier=1.0), classes=[0, 1])
    options = {"cv": KFold(2), "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.1], **options)
    assert re.search(r"delta up to [01]\.\d+$", display.hides)


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
def test_no_curve_of_a_search_speaks_of_its_folds_by_a_refit():
    """By a refit of an earlier fit, one with noise where folds had seeds, or one of a delta that folds did not have."""
    model, grid = model_with(classes=[0, 1]), {"epsilon": [1.0, 2.0]}
    search = GridSearchCV(model, grid, cv=KFold(2)).fit(X200_UNIFORM, Y200_UNIFORM)
    claimed = model_with(classes=[0, 1], noise="product", calibration="published")
    search.set_params(estimator=claimed, refit=False).fit(X200_UNIFORM, Y200_UNIFORM)
    with reproducible_noise(0):
        seeded = GridSearchCV(model, grid, cv=KFold(2), refit=False).fit(X200_UNIFORM, Y200_UNIFORM)
    seeded.best_estimator_ = clone(model).fit(X200_UNIFORM, Y200_UNIFORM)
    few = GridSearchCV(AMPClassifier(classes=[0, 1]), grid, cv=KFold(2)).fit(X200_UNIFORM[:12], Y200_UNIFORM[:12])
    for one in (search, seeded, few):
        display = PrivacyUtilityDisplay.from_cv_results(one)
        assert _axis(display) == "parameter epsilon"
        assert display.line_.get_label() == "AMPClassifier, guarantees not known"


@pytest.mark.parametrize("place", ["selected", "voted"])
def test_no_curve_of_a_step_has_the_guarantee_of_another_step_of_its_class(place):
    """The epsilon of a model for rows that are blank or not was said to be for rows that are replaced."""
    pytest.importorskip("matplotlib").use("Agg")
    inner, final = AMPClassifier(adjacency="add_remove", delta=1e-6), model_with(classes=[0, 1], epsilon=0.5)
    if place == "selected":
        model = make_pipeline(SelectFromModel(inner, threshold=-np.inf), final)
        name = "selectfrommodel__estimator__epsilon"
    else:
        model = VotingClassifier([("a", BaggingClassifier(inner, n_estimators=2)), ("b", final)])
        name = "a__estimator__epsilon"
    display = PrivacyUtilityDisplay.from_estimator(
        model, X200_UNIFORM, Y200_UNIFORM, epsilons=[1.0, 3.0], param_name=name, **ONE_REPEAT
    )
    assert _axis(display) == f"parameter {name}" and "row" not in display.line_.get_label()


@pytest.mark.parametrize(
    "train", [np.random.default_rng(0).integers(0, 200, 200), np.r_[0:150, -150:0], [0, 1, 2, 3, -199]]
)
def test_no_curve_is_of_folds_that_list_a_row_several_times(train):
    """The noise of a fit is for one place of a row: a bootstrap has several, and the axis said "one row replaced"."""
    options = ONE_REPEAT | {"cv": [(train, np.arange(200))] * 2}
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="a row several times"):
        PrivacyUtilityDisplay.from_estimator(
            model_with(classes=[0, 1]), X200_UNIFORM, Y200_UNIFORM, epsilons=[1.0], **options
        )
    assert not ledger.entries


def test_a_curve_of_an_ensemble_whose_total_is_not_known_states_no_guarantee():
    """One row with a third label makes three models of one; lines of members did not say what the total is given."""
    scaler = DPScaler(bounds=(-1, 1), delta=1e-5).fit(X200_UNIFORM)
    model = OneVsRestClassifier(make_pipeline(FunctionTransformer(scaler.transform), private_model()))
    labels = [[*Y200_UNIFORM[:-1], label] for label in (Y200_UNIFORM[-1], 2)]
    assert [len(model.fit(X200_UNIFORM, y).estimators_) for y in labels] == [1, 3]
    assert privacy_report(model).private is None
    options = {"epsilons": [1.0], "param_name": "estimator__ampclassifier__epsilon", **ONE_REPEAT}
    display = PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, THREE_CLASSES, **options)
    assert display.hides == "" and _axis(display) == "parameter estimator__ampclassifier__epsilon"


def test_no_line_of_a_curve_in_the_making_states_a_total_that_is_not_known(capsys):
    """One member learns without noise: the axis says that totals are not known, the lines of `verbose` said "total"."""
    model = VotingClassifier([("a", private_model()), ("b", LogisticRegression())])
    PrivacyUtilityDisplay.from_estimator(model, X200_UNIFORM, Y200_UNIFORM, epsilons=[0.7], verbose=1, **ONE_REPEAT)
    printed = capsys.readouterr().out
    assert 0 < printed.count("total epsilon = 0.7") == printed.count("planned total epsilon = 0.7")


def test_curves_that_name_no_step_are_of_fits_whose_total_is_no_more():
    """Of models, ensembles and pipelines, by the total of all and by one parameter."""
    model, bins, n_plain = binary_model(noise="gaussian"), binner_of_4(), 0
    cases = [
        (private_model(), Y200_UNIFORM),
        (model_with(), Y200_UNIFORM),
        (OneVsRestClassifier(model), THREE_CLASSES),
        (make_pipeline(StandardScaler(), private_model()), Y200_UNIFORM),
        (make_pipeline(bins, model), Y200_UNIFORM),
        (make_pipeline(FrozenEstimator(clone(bins).set_params(epsilon=3.0).fit(X200_UNIFORM)), model), Y200_UNIFORM),
        (DPSearchCV(private_model(), {}, n_trials=1, epsilon=2.0, delta=1e-4), Y200_UNIFORM),
        (make_pipeline(DPPCA(2, delta=1e-5), LogisticRegression()), Y200_UNIFORM),
        (make_pipeline(DPSignOPORP(2, random_state=0), PolynomialFeatures(), LogisticRegression()), Y200_UNIFORM),
    ]
    for model, y in cases:
        reports = []

        def _score(one, X, y, reports=reports):
            reports.append(privacy_report(one))
            return 0.0

        display = PrivacyUtilityDisplay.from_estimator(
            model, X200_UNIFORM, y, epsilons=[0.7], scoring=_score, **ONE_REPEAT
        )
        if not (axis := _axis(display)).startswith(("parameter ", "planned ")):
            n_plain += 1
            assert len(reports) == 2
            assert all(one.total.epsilon <= 0.7 * (1 + 1e-9) and one.total.given in axis for one in reports)
    assert n_plain == 6


@pytest.mark.parametrize("y", [np.arange(20) % 2 + 8675309j, 8675309], ids=["complex", "one number"])
def test_no_error_of_a_curve_quotes_a_label(y):
    X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    with pytest.raises((TypeError, ValueError)) as caught:
        PrivacyUtilityDisplay.from_estimator(AMPClassifier(classes=[0, 1]), X, y, epsilons=[1.0], cv=2)
    assert "8675309" not in str(caught.value)
