"""Attacks on what curves leave unsaid, and on what steps, ensembles and their files keep of earlier fits."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    PublicBinner,
    PublicScaler,
    load_model,
    privacy_report,
    save_model,
)
from skdprp.guarantee import Adjacency
from skdprp.inspection import PrivacyUtilityDisplay

_X = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
_Y = (_X[:, 0] > 0).astype(int)
_ONCE = {"n_repeats": 1, "reference": None, "chance": False, "cv": KFold(2)}


def _model(**parameters):
    return AMPClassifier(**{"delta": 1e-5, "classes": [0, 1]} | parameters)


def _axis(display):
    pytest.importorskip("matplotlib").use("Agg")
    return display.plot().ax_.get_xlabel().splitlines()[0]


def test_a_curve_of_a_search_over_calibrations_does_not_state_a_claim_as_what_holds():
    """The refit is exact, and the point at 0.3 is of a published calibration, under which there is no guarantee."""
    model = _model(max_norm=8.0, noise="product")

    def _score(one, X, y):
        return {("published", 0.3): 1.0, ("exact", 100.0): 2.0}.get((one.calibration, one.epsilon), 0.0)

    grid = {"epsilon": [0.3, 100.0], "calibration": ["exact", "published"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is published
        search = GridSearchCV(model, grid, cv=KFold(2), scoring=_score).fit(_X, _Y)
        assert model.set_params(epsilon=0.3, calibration="published").fit(_X, _Y).guarantee_.epsilon == np.inf
    display = PrivacyUtilityDisplay.from_cv_results(search)
    assert search.best_params_["calibration"] == "exact" and display.scores[0].mean() == 1.0
    assert "claimed" in display.hides or display.hides == ""


@pytest.mark.parametrize("kind", ["learns", "applies", "behind"])
def test_a_curve_of_a_pipeline_without_a_total_does_not_state_the_epsilon_of_one_step_as_that_of_all(kind):
    """A scaler learns means before, a function applies bins of epsilon 5, or a model without noise learns behind."""
    bins = DPBinner(4, epsilon=5.0, delta=1e-6, sparse_output=False)
    model = {
        "learns": lambda: make_pipeline(StandardScaler(), _model()),
        "applies": lambda: make_pipeline(FunctionTransformer(bins.fit(_X).transform), _model()),
        "behind": lambda: make_pipeline(bins, LogisticRegression()),
    }[kind]()
    assert privacy_report(model.fit(_X, _Y)).total is None
    display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[0.1], **_ONCE)
    assert _axis(display) != "epsilon, one row replaced"


def test_a_curve_does_not_name_an_epsilon_that_the_search_within_sets_itself():
    """At 0.1, all fits have the epsilons of the grid."""
    search, spent = GridSearchCV(_model(), {"epsilon": [1.0, 10.0]}, cv=KFold(2)), []

    def _score(one, X, y):
        spent.append(one.best_estimator_.guarantee_.epsilon)
        return 0.0

    try:
        display = PrivacyUtilityDisplay.from_estimator(search, _X, _Y, epsilons=[0.1], scoring=_score, **_ONCE)
    except ValueError:
        return
    assert max(spent) <= display.epsilons[0]


def test_no_curve_states_an_epsilon_at_which_fits_have_no_guarantee():
    """Without noise that can be sampled for an epsilon of 1000, `guarantee_` is infinite."""
    model, spent = _model(noise="product"), []

    def _score(one, X, y):
        spent.append(one.guarantee_.epsilon)
        return 0.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no guarantee
        display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[1000.0], scoring=_score, **_ONCE)
    assert max(spent) == np.inf
    assert display.hides.endswith(", not guaranteed at epsilon = 1000")
    assert "not guaranteed" in display.plot(label="mine").line_.get_label()


def test_curves_with_names_of_their_own_say_what_an_axis_says_that_they_say():
    """The axis has "epsilon, for what each curve says": of a claim as of what holds, there were names alone."""
    pytest.importorskip("matplotlib").use("Agg")
    ax = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is published
        for name, model in [("ours", _model(noise="product")), ("theirs", _model(noise="product", C=0.01))]:
            model.set_params(calibration="published" if name == "theirs" else "exact")
            display = PrivacyUtilityDisplay.from_estimator(model, _X, _Y, epsilons=[0.5], **_ONCE)
            ax = display.plot(ax, label=name).ax_
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "for what each curve says" not in ax.get_xlabel() or "claimed" in names[-1]


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
    assert repr(OfAnswers().fit(_X, _Y).guarantee_) == "1.0-DP, one answer replaced"
    display = PrivacyUtilityDisplay.from_estimator(OfAnswers(), _X, _Y, epsilons=[0.1], **_ONCE)
    assert "row" not in _axis(display)


def test_a_curve_of_a_total_counts_the_classes_of_each_output_in_each_fold():
    """Labels that one output has in one fold only change the losses of its model: 5.1 was spent at "5.0"."""
    rng, spent = np.random.default_rng(0), []
    first, second = rng.integers(0, 2, 400), rng.integers(0, 5, 400)
    first[:3] = [2, 3, 4]

    def _score(model, X, y):
        spent.append(privacy_report(model).private)
        return 0.0

    model, y = MultiOutputClassifier(AMPClassifier(noise="gaussian")), np.column_stack([first, second])
    options = {"epsilons": [5.0], "delta": 1e-5, "scoring": _score, **_ONCE}
    display = PrivacyUtilityDisplay.from_estimator(model, rng.uniform(-0.5, 0.5, (400, 3)), y, **options)
    assert display.is_total and len(spent) == 2
    assert max(total.epsilon for total in spent) <= 5.0


def _illnesses(n_rare):
    """Names of illnesses, of which one is rare."""
    X = np.random.default_rng(0).choice(["flu", "cold"], (200, 1)).astype(object)
    X[:n_rare] = "HIV"
    return X, (X[:, 0] == "flu").astype(int)


def _texts_in(thing, seen):
    """Texts that an object refers to at any depth."""
    if id(thing) in seen:
        return set()
    seen[id(thing)] = thing
    if isinstance(thing, str):
        return {thing}
    if isinstance(thing, np.ndarray):
        thing = thing.ravel().tolist() if thing.dtype.kind in "OUS" else []
    if isinstance(thing, dict):
        thing = [*thing.values()]
    if hasattr(thing, "get_params") and hasattr(thing, "__dict__"):
        thing = [*vars(thing).values()]
    return {text for one in thing for text in _texts_in(one, seen)} if isinstance(thing, list | tuple) else set()


@pytest.mark.parametrize("kind", ["one-vs-rest", "threshold", "outputs", "columns"])
def test_a_file_of_an_ensemble_has_nothing_that_its_parameter_had_learnt_before(kind, tmp_path):
    """As the report advised, categories are listed after a first fit; the file told which others there are."""
    X, y = _illnesses(1)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    base = make_pipeline(encoder, _model()).fit(X, y)
    assert "list its categories" in privacy_report(base).steps[0].remark
    encoder.set_params(categories=[["flu", "cold"]])
    model = {
        "one-vs-rest": lambda: OneVsRestClassifier(base).fit(X, y),
        "threshold": lambda: FixedThresholdClassifier(base).fit(X, y),
        "outputs": lambda: MultiOutputClassifier(base).fit(X, np.column_stack([y, 1 - y])),
        "columns": lambda: make_pipeline(ColumnTransformer([("ill", encoder, [0])]), _model()).fit(X, y),
    }[kind]()
    is_covered = privacy_report(model).total is not None
    save_model(tmp_path / "model.npz", model)
    saved = load_model(tmp_path / "model.npz").estimator
    assert not is_covered or "HIV" not in _texts_in(saved, {})


@pytest.mark.parametrize("kind", [OneHotEncoder, OrdinalEncoder])
@pytest.mark.parametrize("is_in_a_union", [False, True])
def test_a_step_that_is_fitted_again_in_its_place_keeps_nothing_of_the_fit_before(kind, is_in_a_union, tmp_path):
    """Whether four rows have an illness or five was left in `infrequent_categories_`, under a total of 1.0."""
    found = []
    for n_rare in (4, 5):
        X, y = _illnesses(n_rare)
        known = {"handle_unknown": "use_encoded_value", "unknown_value": -1} if kind is OrdinalEncoder else {}
        encoder = kind(min_frequency=5, **known)
        step = FeatureUnion([("ill", encoder)]) if is_in_a_union else encoder
        model = make_pipeline(step, _model()).fit(X, y)
        if kind is OneHotEncoder:
            encoder.set_params(handle_unknown="ignore")
        encoder.set_params(categories=[["HIV", "cold", "flu"]], min_frequency=None)
        report = privacy_report(model.fit(X, y))
        save_model(tmp_path / "model.npz", model)
        saved = load_model(tmp_path / "model.npz").estimator[0]
        saved = saved.transformer_list[0][1] if is_in_a_union else saved
        kept = [getattr(one, "infrequent_categories_", [None])[0] for one in (encoder, saved)]
        found.append((report.total is None, [None if one is None else list(one) for one in kept]))
    (is_not_covered, four), (_, five) = found
    assert is_not_covered or four == five


def _written_out(thing):
    """Spell out attributes, arrays and splines at any depth."""
    if hasattr(thing, "get_params") and hasattr(thing, "__dict__"):
        thing = vars(thing)
    if isinstance(thing, dict):
        return {name: _written_out(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_written_out(value) for value in thing]
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, _written_out(thing.tolist())
    return (_written_out(thing.t), thing.k) if hasattr(thing, "t") and hasattr(thing, "k") else repr(thing)


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, np.float32])
def test_steps_that_learn_nothing_have_the_same_attributes_whatever_one_row_is(form):
    """One row is missing, huge, negative, of zeros, or of a category that is listed."""
    known, knots = [[0.0, 0.5, 1.0]] * 3, np.tile(np.linspace(0, 1, 5)[:, None], 3)
    steps = [
        SimpleImputer(strategy="constant", keep_empty_features=True),
        SimpleImputer(strategy="constant", missing_values=0, fill_value=1.0, keep_empty_features=True),
        SplineTransformer(knots=knots),
        RBFSampler(gamma=1.0, random_state=0),
        PolynomialFeatures(),
        PublicScaler((0, 1), fill="middle"),
        PublicBinner((0, 1)),
        OneHotEncoder(categories=known, handle_unknown="ignore"),
        OrdinalEncoder(categories=known, handle_unknown="use_encoded_value", unknown_value=-1),
        FeatureUnion([("a", PolynomialFeatures()), ("b", PublicScaler((0, 1)))]),
    ]
    n_compared = 0
    for step in steps:
        for rows in (np.abs(_X), np.where(_X > 0, 1.0, 0.0), np.full_like(_X, np.nan)):
            for value in (np.nan, 1e30, -1.0, 0.0, 0.5):
                other = rows.copy()
                other[0] = value
                try:
                    fits = [_written_out(clone(step).fit(form(one))) for one in (rows, other)]
                except ValueError:  # which no guarantee covers
                    continue
                n_compared += 1
                assert repr(fits[0]) == repr(fits[1])
    assert n_compared > 80


def _parts(*arrays):
    return [tuple(array[start : start + 100] for array in arrays) for start in (0, 100)]


def _fits():
    """Ways to fit estimators, each after each other one."""
    X, groups, once = _X, np.repeat(np.arange(100), 2), {"epsilon": 5.0, "delta": 1e-5}
    moments = DPMoments(target_bounds=(-1, 1), **once).fit(X, X[:, 0]).moments_
    histograms = DPHistograms(**once).fit(X).histograms_
    ridge = DPRidge(target_bounds=(-1, 1), delta=1e-5)
    yield (
        ridge,
        {
            "descent": lambda model: model.set_params(mechanism="descent").fit(X, X[:, 0]),
            "sums": lambda model: model.set_params(mechanism="moments").fit(X, X[:, :2], groups=groups),
            "secret": lambda model: model.set_params(mechanism="projection").fit(X, X[:, 0]),
            "chunks": lambda model: model.set_params(mechanism="auto").fit_chunks(_parts(X, X[:, 0])),
            "released": lambda model: model.set_params(mechanism="auto").fit_moments(moments),
        },
    )
    for bins in (DPBinner(4, delta=1e-5), DPScaler(delta=1e-5)):
        yield bins, {"rows": lambda model: model.fit(X), "released": lambda model: model.fit_histograms(histograms)}
    yield (
        AMPClassifier(delta=1e-5),
        {
            "two": lambda model: model.set_params(threshold="prior").fit(X, _Y),
            "more": lambda model: model.set_params(threshold=0.5).fit(X, _Y + (X[:, 1] > 0.5)),
            "chunks": lambda model: model.set_params(threshold=0.5).fit_chunks(_parts(X, _Y)),
        },
    )
    yield (
        DPSGDClassifier(delta=1e-5),
        {
            "rows": lambda model: model.fit(X, _Y),
            "persons": lambda model: model.fit(X, _Y, groups=groups),
            "chunks": lambda model: model.fit_chunks(_parts(X, _Y)),
        },
    )


def test_no_fit_leaves_anything_of_another_release_beside_its_guarantee():
    """Types of columns alone stay where bins are made of what was released before."""
    for model, fits in _fits():
        for first, last in [(one, other) for one in fits for other in fits if one != other]:
            twice = fits[last](fits[first](clone(model)))
            once = fits[last](clone(twice))
            assert set(vars(twice)) - set(vars(once)) <= {"_kinds"}
            assert twice.guarantee_ == once.guarantee_


@pytest.mark.parametrize(
    ("model", "takes_labels"),
    [
        (DPSGDClassifier(classes=[0, 1]), True),
        (DPSGDClassifier(classes=[0, 1], preconditioner=True, n_epochs=20), True),
        (DPRidge(target_bounds=(0, 1)), True),
        (DPRidge(target_bounds=(0, 1), mechanism="moments"), True),
        (DPPCA(2), False),
        (DPMoments(), False),
    ],
)
def test_no_public_attribute_of_a_model_for_persons_tells_how_many_rows_they_have(model, takes_labels):
    """Scales, steps and deltas follow from the number of persons."""
    found = []
    for n_rows in (1, 300):
        groups = np.concatenate([np.zeros(n_rows, dtype=int), np.repeat(np.arange(1, 30), 3)])
        X = np.random.default_rng(0).uniform(-0.5, 0.5, (len(groups), 3))
        labels = [(X[:, 0] > 0).astype(int)] * takes_labels
        model.fit(X, *labels, groups=groups)
        released = [name for name, value in vars(model).items() if isinstance(value, np.ndarray | list)]
        public = {name: repr(value) for name, value in vars(model).items() if name not in (*released, "moments_")}
        numbers = [name for name in ("alpha_", "residual_std_", "intercept_", "intercept_std_") if name in public]
        found.append({name: value for name, value in public.items() if name not in numbers})
    assert found[0] == found[1]


def test_reports_count_what_ensembles_release_of_classifiers_and_of_regressors_in_their_place():
    """One against the rest takes a regressor as well."""
    ridge, labels = DPRidge(target_bounds=(0, 1), delta=1e-5), np.digitize(_X[:, 0], [-0.3, 0.3])
    for model, y in [
        (OneVsRestClassifier(ridge), labels),
        (OneVsRestClassifier(ridge), _Y),
        (OneVsRestClassifier(_model()), labels),
        (VotingClassifier([("a", _model()), ("b", make_pipeline(DPScaler(delta=1e-5), _model()))]), _Y),
        (FixedThresholdClassifier(_model()), _Y),
    ]:
        plan = privacy_report(model, _X, y)
        with PrivacyLedger() as ledger:
            model.fit(_X, y)
        report = privacy_report(model, ledger=ledger)
        assert sum(step.calls for step in report.steps) == len(ledger.entries)
        assert report.total is not None and report.total.epsilon == plan.total.epsilon
        assert ledger.total()[0].guarantee.epsilon <= report.total.epsilon * (1 + 1e-9)
