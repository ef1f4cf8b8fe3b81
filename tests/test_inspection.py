"""Displays: what they compute against loops and hand counts, and what they draw."""

import re
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.cbook import pts_to_poststep
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyGuarantee,
    iDPSignRP,
    make_table_preprocessor,
    privacy_report,
)
from skdprp.inspection import PrivacyProfileDisplay, PrivacyUtilityDisplay, _utility
from skdprp.mechanisms import Published, gaussian_profile
from skdprp.testing import reproducible_noise


@pytest.fixture(autouse=True)
def _figures():
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture
def two_digits(digits):
    X, y = digits
    rows = np.flatnonzero(y < 2)
    return X[rows] - 0.5, y[rows]


@pytest.fixture
def display():
    scores = np.arange(24.0).reshape(2, 3, 4) / 24
    options = {"label": "mine", "score_name": "accuracy", "reference_score": 0.99, "chance_score": 0.1}
    return PrivacyUtilityDisplay(epsilons=np.array([0.1, 10.0]), scores=scores, **options)


def guarantee_of(sketch, **changes):
    return replace(sketch.fit(np.eye(2)).guarantee_, **changes)


def test_scores_are_those_of_cross_validation(two_digits):
    """At each epsilon: every fold, `n_repeats` times, in the order (epsilon, draw, fold)."""
    X, y = two_digits
    model = AMPClassifier(max_norm=4.0)
    with reproducible_noise(0):
        display = PrivacyUtilityDisplay.from_estimator(model, X, y, epsilons=[5.0, 0.5], cv=3, n_repeats=2)
    with reproducible_noise(0):
        expected = [
            cross_val_score(AMPClassifier(max_norm=4.0, epsilon=epsilon), X, y, cv=3)
            for epsilon in (0.5, 5.0)
            for _ in range(2)
        ]
    np.testing.assert_array_equal(display.scores, np.reshape(expected, (2, 2, 3)))
    np.testing.assert_array_equal(display.epsilons, [0.5, 5.0])
    assert (display.label, display.score_name) == ("AMPClassifier", "accuracy")
    assert not hasattr(model, "coef_") and model.epsilon == 1.0
    plain = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000))
    assert display.reference_score == pytest.approx(cross_val_score(plain, X, y, cv=3).mean())
    assert display.chance_score == pytest.approx(max(np.mean(y), 1 - np.mean(y)), abs=0.01)


def test_draws_of_noise_differ(two_digits):
    X, y = two_digits
    pipeline = make_pipeline(DPSignOPORP(64, random_state=0), LogisticRegression())
    options = {"cv": 2, "n_repeats": 4, "scoring": "neg_log_loss", "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(pipeline, X, y, epsilons=[0.5], **options)
    assert len(np.unique(display.scores)) == 8  # a score without a grid: no two agree by chance
    assert display.reference_score is None and display.chance_score is None


@pytest.mark.parametrize("container", [sp.csr_matrix, pd.DataFrame])
def test_sparse_and_pandas(two_digits, container):
    X, y = two_digits
    pipeline = make_pipeline(DPOPORP(16, random_state=0), LogisticRegression())
    display = PrivacyUtilityDisplay.from_estimator(
        pipeline, container(X), pd.Series(y), epsilons=[100.0], cv=2, n_repeats=1, n_jobs=2
    )
    assert display.scores.shape == (1, 1, 2) and display.scores.mean() > 0.9
    assert display.reference_score == pytest.approx(cross_val_score(LogisticRegression(), X, y, cv=2).mean())


class FitsAClone(TransformerMixin, BaseEstimator):
    """A step that holds another one, which cannot be a word."""

    def __init__(self, step=None):
        self.step = step

    def fit(self, X, y=None):
        """Fit a clone of the step."""
        self.step_ = clone(self.step).fit(X, y)
        return self

    def transform(self, X):
        """Transform by it."""
        return self.step_.transform(X)


def test_the_reference_leaves_out_a_sketch_within_a_step_of_the_user(two_digits):
    model = make_pipeline(FitsAClone(DPOPORP(16)), LogisticRegression())
    display = PrivacyUtilityDisplay.from_estimator(model, *two_digits, epsilons=[100.0], cv=2, n_repeats=1)
    assert display.reference_score == pytest.approx(cross_val_score(LogisticRegression(), *two_digits, cv=2).mean())


def test_regression_and_scoring():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 3))
    y = X @ [1.0, 2.0, 3.0]
    display = PrivacyUtilityDisplay.from_estimator(
        MIDPRegressor(mechanism="additive"), X, y, epsilons=[4.0], cv=2, n_repeats=1, scoring="neg_mean_squared_error"
    )
    expected = cross_val_score(LinearRegression(), X, y, cv=2, scoring="neg_mean_squared_error").mean()
    assert display.score_name == "neg mean squared error"
    assert display.reference_score == pytest.approx(expected, abs=1e-12)
    assert display.chance_score == pytest.approx(-np.var(y), rel=0.01)


class HomeMade(TransformerMixin, BaseEstimator):
    """A mechanism that is no part of the library."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        """Do nothing."""
        return self

    def transform(self, X):
        """Do nothing."""
        return X


def test_finds_the_private_step(two_digits):
    """scikit-learn's own epsilons are no privacy; two steps without a known total are a question to the user."""
    X, y = two_digits
    options = {"epsilons": [1.0], "cv": 2, "n_repeats": 1}
    found = PrivacyUtilityDisplay.from_estimator(make_pipeline(HomeMade(), SGDClassifier()), X, y, **options)
    assert found.label == "HomeMade"
    both = make_pipeline(HomeMade(), AMPClassifier())
    with pytest.raises(ValueError, match=r"several releases \(.*homemade__epsilon.*param_name"):
        PrivacyUtilityDisplay.from_estimator(both, X, y, **options)
    named = PrivacyUtilityDisplay.from_estimator(both, X, y, param_name="ampclassifier__epsilon", **options)
    assert named.label == "AMPClassifier"
    with pytest.raises(ValueError, match="no step"):
        PrivacyUtilityDisplay.from_estimator(HuberRegressor(), X, y, **options)
    with pytest.raises(ValueError, match="delta is of no use: HomeMade has none"):
        PrivacyUtilityDisplay.from_estimator(both, X, y, param_name="homemade__epsilon", delta=1e-6, **options)


def test_delta_of_the_only_private_step_is_set(two_digits, monkeypatch):
    """Of several steps it was that of their total, and of one it was refused."""
    deltas, score = set(), _utility._fold_scores

    def _spy(model, *arguments, **options):
        deltas.add(getattr(model, "delta", None))
        return score(model, *arguments, **options)

    monkeypatch.setattr(_utility, "_fold_scores", _spy)
    given = AMPClassifier(delta=1e-4)
    options = {"epsilons": [1.0], "cv": 2, "n_repeats": 1, "reference": None, "chance": False}
    PrivacyUtilityDisplay.from_estimator(given, *two_digits, delta=1e-7, **options)
    assert deltas == {1e-7} and given.delta == 1e-4


def test_of_several_private_steps_the_total_is_varied(monkeypatch, capsys):
    """A table with texts, whose bins and model share each epsilon, at the rows of each fold; the axis says so."""
    rng, totals = np.random.default_rng(0), []
    X = pd.DataFrame({"age": rng.uniform(0, 90, 3001), "town": rng.choice(["york", "hull", "leeds"], 3001)})
    y = pd.Series(np.where(X["town"] == "york", "yes", "no"))
    columns = make_table_preprocessor({"age": (0, 100)}, epsilon=0.2)
    model = make_pipeline(columns, AMPClassifier(epsilon=0.8, classes=["no", "yes"], noise="gaussian"))

    def _spy(model, splits, n_repeats=1, *, X, y, scoring, n_jobs):
        if isinstance(model[-1] if hasattr(model, "steps") else None, AMPClassifier):
            sizes = {len(train) for train, _ in splits}
            totals.extend(privacy_report(model, X, y, n_samples=size).total for size in sizes)
        return scores_of_folds(model, splits, n_repeats, X=X, y=y, scoring=scoring, n_jobs=n_jobs)

    scores_of_folds = _utility._fold_scores
    monkeypatch.setattr(_utility, "_fold_scores", _spy)
    display = PrivacyUtilityDisplay.from_estimator(
        model, X, y, epsilons=[0.5, 5.0], cv=KFold(2), n_repeats=2, delta=1e-6, verbose=1
    )
    np.testing.assert_allclose([total.epsilon for total in totals], [0.5, 0.5, 5.0, 5.0], rtol=1e-5)
    assert max(total.epsilon / epsilon for total, epsilon in zip(totals, [0.5, 0.5, 5.0, 5.0], strict=True)) <= 1
    np.testing.assert_allclose([total.delta for total in totals], 1e-6, rtol=1e-9)
    assert "DPBinner, AMPClassifier, 1 of 2: planned total epsilon = 0.5, mean" in capsys.readouterr().out
    assert display.scores.shape == (2, 2, 2) and display.scores[1].mean() > 0.9 and display.reference_score > 0.99
    label = display.plot().ax_.get_xlabel()
    assert label.startswith("total epsilon of all private steps, one row replaced\n")
    one = PrivacyUtilityDisplay(epsilons=display.epsilons, scores=display.scores, hides="one row replaced")
    assert one.plot(display.ax_).ax_.get_xlabel().startswith("epsilon, one row replaced\n")


def test_a_total_without_words_on_what_it_hides_is_named():
    display = PrivacyUtilityDisplay(epsilons=np.array([1.0, 2.0]), scores=np.ones((2, 1, 2)), is_total=True)
    assert display.plot().ax_.get_xlabel().startswith("total epsilon of all private steps\n")


@pytest.mark.parametrize("bad", [{"epsilons": []}, {"epsilons": [0.0, 1.0]}, {"epsilons": [np.nan]}, {"n_repeats": 0}])
def test_bad_arguments(two_digits, bad):
    with pytest.raises(ValueError, match=r"epsilons must be positive|n_repeats must be at least 1"):
        PrivacyUtilityDisplay.from_estimator(AMPClassifier(), *two_digits, **bad)


def test_failures_of_fits_are_raised(two_digits):
    with pytest.raises(ValueError, match="C"):
        PrivacyUtilityDisplay.from_estimator(AMPClassifier(C=1e9), *two_digits, epsilons=[0.01], cv=2)


def test_progress(two_digits, capsys):
    options = {"epsilons": [1.0, 2.0], "cv": 2, "n_repeats": 1}
    PrivacyUtilityDisplay.from_estimator(AMPClassifier(), *two_digits, **options)
    assert capsys.readouterr().out == ""
    PrivacyUtilityDisplay.from_estimator(AMPClassifier(), *two_digits, verbose=1, **options)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"AMPClassifier, 1 of 2: epsilon = 1, mean score [01](\.\d+)?", first)
    assert re.fullmatch(r"AMPClassifier, 2 of 2: epsilon = 2, mean score [01](\.\d+)?", second)


def test_from_cv_results_takes_the_best_candidate_of_each_epsilon(two_digits):
    X, y = two_digits
    pipeline = make_pipeline(DPSignOPORP(64, random_state=0), LogisticRegression())
    grid = {"dpsignoporp__epsilon": [10.0, 1.0], "logisticregression__C": [1e-6, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=3, refit=False).fit(X, y)
    display = PrivacyUtilityDisplay.from_cv_results(search, reference_score=1.0)
    table = pd.DataFrame(search.cv_results_)
    best = table.loc[table.groupby("param_dpsignoporp__epsilon")["mean_test_score"].idxmax()]
    np.testing.assert_array_equal(display.epsilons, [1.0, 10.0])
    np.testing.assert_array_equal(display.scores[:, 0], best[[f"split{i}_test_score" for i in range(3)]])
    assert (display.label, display.reference_score, display.chance_score) == ("DPSignOPORP", 1.0, None)
    of_dict = PrivacyUtilityDisplay.from_cv_results(search.cv_results_)
    np.testing.assert_array_equal(of_dict.scores, display.scores)
    assert of_dict.label == "dpsignoporp"
    with pytest.raises(ValueError, match="no scores of folds named 'recall'"):
        PrivacyUtilityDisplay.from_cv_results(search, scoring="recall")


@pytest.mark.parametrize("refit", [True, False])
def test_from_cv_results_names_the_parameter_and_no_guarantee(refit, two_digits):
    """A search records neither what its fits guaranteed nor what else they released."""
    X, y = two_digits[0][:, 26:30], two_digits[1]
    model, of_model = (
        make_pipeline(Normalizer(), AMPClassifier(delta=1e-6, noise="gaussian")),
        {"ampclassifier__epsilon": [1.0, 10.0]},
    )
    sketched = make_pipeline(DPOPORP(4, adjacency="l2", max_change=2.0), LogisticRegression())
    placed = {"normalizer": [Normalizer(), DPBinner(3, bounds=(0, 1), sparse_output=False)], **of_model}
    for estimator, grid, parameter in (
        (model, of_model, "ampclassifier__epsilon"),
        (model, placed, "ampclassifier__epsilon"),
        (sketched, {"dpoporp__epsilon": [1.0, 2.0]}, "dpoporp__epsilon"),
        (
            FixedThresholdClassifier(model),
            {"estimator__ampclassifier__epsilon": [1.0]},
            "estimator__ampclassifier__epsilon",
        ),
        (BaggingClassifier(AMPClassifier(), n_estimators=2), {"estimator__epsilon": [1.0]}, "estimator__epsilon"),
        (DPSearchCV(model, {}, n_trials=1), {"epsilon": [1.0]}, "epsilon"),
    ):
        search = GridSearchCV(estimator, grid, cv=2, refit=refit).fit(X, y)
        display = PrivacyUtilityDisplay.from_cv_results(search)
        assert (display.parameter, display.hides) == (parameter, "")
        assert display.plot().ax_.get_xlabel().splitlines()[0] == f"parameter {parameter}"
        assert display.line_.get_label() == f"{display.label}, guarantees not known"


def test_from_cv_results_needs_an_epsilon():
    with pytest.raises(ValueError, match="varied no step"):
        PrivacyUtilityDisplay.from_cv_results({"param_C": [1.0], "split0_test_score": np.ones(1)})


def test_a_failed_candidate_is_never_the_best():
    results = {"param_epsilon": [1.0, 1.0], "split0_test_score": np.array([np.nan, 0.2])}
    assert PrivacyUtilityDisplay.from_cv_results(results).scores == 0.2


def test_candidates_without_an_epsilon_are_left_out(two_digits):
    """A search in several grids masks what a candidate lacks; behind the mask is memory nobody has written to."""
    X, y = two_digits
    pipeline = make_pipeline(DPSignOPORP(16, random_state=0), LogisticRegression())
    grids = [{"dpsignoporp__epsilon": [1.0, 10.0]}, {"dpsignoporp": ["passthrough"]}]
    search = GridSearchCV(pipeline, grids, cv=2).fit(X, y)
    display = PrivacyUtilityDisplay.from_cv_results(search)
    assert display.epsilons.tolist() == [1.0, 10.0]
    assert display.scores[:, 0].mean(axis=1) == pytest.approx(search.cv_results_["mean_test_score"][:2])


def test_spreads_add_up(display):
    """Law of total variance: over all = over noise within folds + over folds."""
    both, noise, folds = (display._spread(spread) for spread in ("both", "noise", "folds"))
    np.testing.assert_allclose(both**2, noise**2 + folds**2)
    np.testing.assert_allclose(noise, np.std([0, 4, 8]) / 24)
    np.testing.assert_allclose(folds, np.std([0, 1, 2, 3]) / 24)


def test_frame_is_tidy(display):
    frame = display.frame()
    assert list(frame.columns) == ["estimator", "epsilon", "draw", "fold", "score"]
    row = frame.query("epsilon == 10 and draw == 2 and fold == 1").iloc[0]
    assert (len(frame), row["estimator"], row["score"]) == (24, "mine", display.scores[1, 2, 1])


def test_plot_draws_what_is_stored(display):
    assert display.plot() is display
    np.testing.assert_allclose(display.line_.get_ydata(), display.scores.mean(axis=(1, 2)))
    low, high = display.band_.get_paths()[0].vertices[:, 1].min(), display.band_.get_paths()[0].vertices[:, 1].max()
    mean, std = display.scores.mean(axis=(1, 2)), display.scores.std(axis=(1, 2))
    np.testing.assert_allclose([low, high], [(mean - std).min(), (mean + std).max()])
    assert display.ax_.get_xscale() == "log" and display.figure_ is display.ax_.figure
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["mine", "not private", "chance"]
    assert "4 folds × 3 draws of noise" in display.ax_.get_ylabel()
    assert "this curve is not private" in display.ax_.get_xlabel()
    assert "private" not in display.plot(public_data=True).ax_.get_xlabel()


def test_what_an_axis_says_of_a_curve_that_is_not_private_stays(display):
    ax = display.plot().ax_
    display.plot(ax=ax, public_data=True)
    PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2))).plot(ax=ax)
    assert ax.get_xlabel().count("this curve is not private") == 1


def test_several_displays_share_an_axis(display):
    """Each has its own colour and marker; equal reference lines are drawn once, different ones named once."""
    ax = display.plot().ax_
    lines = [display.line_] + [display.plot(ax=ax, label=f"copy {i}").line_ for i in range(6)]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 7
    assert len(ax.lines) == 7 + 2
    display.reference_score = 0.9
    assert len(display.plot(ax=ax).ax_.lines) == 8 + 3
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["mine", *(f"copy {i}" for i in range(6)), "mine", "not private", "chance"]


def test_the_axis_of_epsilon_says_whose_privacy_it_is(display):
    """One unit for all curves is on the axis; several are left to the names of the curves."""
    assert display.plot(public_data=True).ax_.get_xlabel() == "epsilon of one release"
    display.hides = "one row replaced"
    ax = display.plot(public_data=True).ax_
    assert ax.get_xlabel() == display.plot(ax=ax, public_data=True).ax_.get_xlabel() == "epsilon, one row replaced"
    display.hides = "one coordinate changed by 1.0"
    assert display.plot(ax=ax, public_data=True).ax_.get_xlabel() == "epsilon, for what each curve says"
    display.hides = "one row replaced"
    unknown = PrivacyUtilityDisplay(epsilons=display.epsilons, scores=display.scores, parameter="b__epsilon")
    ax = unknown.plot(public_data=True).ax_
    assert ax.get_xlabel() == "parameter b__epsilon"
    assert display.plot(ax=ax, public_data=True).ax_.get_xlabel() == "epsilon, for what each curve says"
    profile = PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2)), label="Gaussian").plot()
    assert profile.ax_.get_xlabel() == "epsilon, l1 change of 1.0"


def test_nothing_is_cut_off_an_axis_of_the_user(display):
    """A plain figure has no room for a legend above the axis and a label of three lines: it is given a layout."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    for ax in axes:
        display.plot(ax=ax)
    figure.draw_without_rendering()
    for ax in axes:
        box = ax.get_tightbbox().transformed(figure.transFigure.inverted())
        assert box.x0 >= -1e-9 and box.y0 >= -1e-9 and box.x1 <= 1 + 1e-9 and box.y1 <= 1 + 1e-9
    tight, ax = plt.subplots(layout="tight")
    engine = tight.get_layout_engine()
    assert display.plot(ax=ax).figure_.get_layout_engine() is engine


def test_spread_is_named_and_checked(display):
    assert "over 3 draws of noise" in display.plot(spread="noise").ax_.get_ylabel()
    assert "over 4 folds" in display.plot(spread="folds").ax_.get_ylabel()
    with pytest.raises(ValueError, match="spread must be one of"):
        display.plot(spread="all")
    display.scores = display.scores[:, :1]
    assert "4 folds, new noise in each" in display.plot().ax_.get_ylabel()
    with pytest.raises(ValueError, match="one draw of noise"):
        display.plot(spread="noise")


def test_profile_meets_the_target():
    sketch = DPOPORP(2)
    display = PrivacyProfileDisplay.from_guarantee(guarantee_of(sketch))
    at_target = display.deltas[display.epsilons == 1.0]
    assert at_target <= 1e-6 and at_target == pytest.approx(1e-6, rel=1e-3)
    below = display.epsilons < 1
    exact = [gaussian_profile(epsilon, scale=sketch.scale_) for epsilon in display.epsilons[below]]
    np.testing.assert_allclose(display.deltas[below], exact, rtol=0.05)  # the slack for rounding is paid for
    assert np.all(np.diff(display.deltas) < 0)
    frame = display.frame()
    assert list(frame.columns) == ["guarantee", "epsilon", "delta"] and len(frame) == 241


@pytest.mark.parametrize("epsilons", [None, [0.5, 1.0, 2.0], [0.5, 2.0]])
def test_a_drawn_profile_is_nowhere_below_the_profile(epsilons):
    guarantee = guarantee_of(DPOPORP(2))
    line = PrivacyProfileDisplay.from_guarantee(guarantee, epsilons=epsilons).plot().line_
    assert line.get_drawstyle() == "steps-post"
    at, deltas = pts_to_poststep(*line.get_data())
    between = np.geomspace(at[0], at[-1], 1000)[:-1]
    drawn = deltas[np.searchsorted(at, between, side="right") - 1]
    assert np.all(drawn >= [guarantee.profile(float(epsilon)) for epsilon in between])


def test_profile_display_of_an_estimator():
    display = PrivacyProfileDisplay.from_estimator(DPOPORP(2).fit(np.eye(2)), epsilons=[2.0, 1.0])
    np.testing.assert_array_equal(display.epsilons, [1.0, 2.0])
    assert display.label == "DPOPORP, (1.0, 1e-06)-DP per transform, l1 change of 1.0"


@pytest.mark.parametrize(
    ("facts", "mark"),
    [({"seeded": True}, "seeded: not private"), ({"violation": "it leaks"}, "VIOLATED: it leaks"), ({}, "")],
)
def test_no_name_of_a_profile_hides_that_its_guarantee_does_not_hold(facts, mark):
    sketch = DPOPORP(2).fit(np.eye(2))
    sketch.guarantee_ = replace(sketch.guarantee_, **facts)
    for name, renamed in ((None, None), ("mine", None), (None, "yours"), ("mine", "yours")):
        for display in (
            PrivacyProfileDisplay.from_estimator(sketch, label=name),
            PrivacyProfileDisplay.from_guarantee(sketch.guarantee_, label=name),
        ):
            shown = display.plot(label=renamed).line_.get_label()
            assert mark in shown and shown.count("[") == bool(mark) and (renamed or name or "-DP") in shown


def test_profile_plot_shows_target_and_audit():
    display = PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2), audited_epsilon=0.6), label="Gaussian")
    assert display.plot() is display
    curve, target, audited = display.ax_.lines
    np.testing.assert_array_equal(curve.get_ydata(), display.deltas)
    assert (target.get_xdata()[0], target.get_ydata()[0]) == (1.0, 1e-6)
    assert (audited.get_xdata()[0], audited.get_ydata()[0]) == (0.6, 1e-6)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["Gaussian, l1 change of 1.0", "audited: epsilon at least 0.6"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stated", [{"audited_epsilon": 0.0}, {"epsilon": 0.0, "delta": 0.1, "loss": None}])
def test_an_epsilon_of_0_that_is_shown_or_stated_stretches_no_figure(stated):
    """It has no place on the axis: an audit that showed nothing made a picture of 250,000 pixels."""
    display = PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2), **stated), epsilons=[0.5, 1.0]).plot()
    display.figure_.canvas.draw()
    assert display.figure_.get_tightbbox().width < 10.0  # inches
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert ("audited: nothing shown" in labels) == ("audited_epsilon" in stated)


def test_ticks_round_no_epsilon_down():
    """1.2345649 was 1.23456 on the axis, and 1.23457 in the legend."""
    epsilons = [0.5, 1.2345649, 3.0]
    curves = (
        PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2)), epsilons=epsilons).plot(),
        PrivacyUtilityDisplay(epsilons=epsilons, scores=np.ones((3, 1, 2)), hides="a row").plot(public_data=True),
    )
    for display in curves:
        display.figure_.canvas.draw()
        assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["0.5", "1.23457", "3"]


def test_profile_plot_of_pure_and_of_tiny_delta():
    """A delta of 0 stands at the lower end of the axis, which reaches down to the least target."""
    ax = PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2, noise="laplace"))).plot().ax_
    assert ax.get_ylim()[0] == ax.lines[1].get_ydata()[0] == 1e-12
    PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2, delta=1e-20))).plot(ax=ax)
    assert ax.get_ylim()[0] == 1e-20


@pytest.mark.parametrize("guarantee", [PrivacyGuarantee(np.inf, 0.0), PrivacyGuarantee(0.0, 0.1)])
def test_profile_of_an_epsilon_that_is_no_scale_needs_epsilons(guarantee):
    with pytest.raises(ValueError, match="Say at which epsilons to draw"):
        PrivacyProfileDisplay.from_guarantee(guarantee)


def test_other_definitions_have_no_profile():
    with pytest.raises(ValueError, match="Only differential privacy has a privacy profile"):
        PrivacyProfileDisplay.from_guarantee(guarantee_of(iDPSignRP(2)))


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
@pytest.mark.parametrize(
    ("model", "hidden"),
    [
        (AMPClassifier(), "one row replaced, given the set of labels"),
        (AMPClassifier(adjacency="add_remove"), "one row blank or not, given the set of labels"),
        (AMPClassifier(classes=[0, 1]), "one row replaced"),
        (DPSignOPORP(2, max_change=0.5), "one coordinate changed by 0.5{}"),
        (DPSignRP(2, max_change=0.5), "l1 change of 0.5{}"),
        (DPOPORP(2, adjacency="l2"), "l2 change of 1.0{}"),
        (iDPSignRP(2, method="rr", projection="oporp"), "one coordinate changed by 1.0{}, individual DP"),
        (iDPSignRP(2), "l1 change of 1.0{}, individual DP"),
        (AMPClassifier(calibration="published"), "one row replaced, given the set of labels, as claimed"),
        (AMPClassifier(calibration=Published(analytic=True)), "one row replaced, given the set of labels, as claimed"),
        (
            DPSGDClassifier(calibration=Published(noise_multiplier=2.0)),
            "one row replaced, given the set of labels, delta up to 1.0",
        ),
        (MIDPRegressor(), "one entry of at most 1.0{}, in bits"),
    ],
)
def test_legend_says_what_is_hidden(model, hidden, two_digits):
    """Epsilons of a replaced row, of a row blank or not, and of a changed row are different things.

    Behind what learns without noise, no epsilon is that of all that a fit released.
    """
    known = {"epsilons": [1.0], "cv": 2, "n_repeats": 1, "reference": None, "chance": False}
    last = [LinearRegression()] if hasattr(model, "transform") else []
    behind = hidden.format(" of rows as they leave normalizer")
    for before, told in ((Normalizer(), behind), (MaxAbsScaler(), "guarantees not known")):
        pipeline = make_pipeline(before, model, *last)
        display = PrivacyUtilityDisplay.from_estimator(pipeline, *two_digits, **known)
        lines = display.plot().line_.get_label().splitlines()
        assert " ".join(lines) == f"{type(model).__name__}, {told}" and max(map(len, lines)) <= 78
        named = display.plot(label="mine").line_.get_label()
        assert " ".join(named.splitlines()) == f"mine, {told}"


def test_legends_of_five_long_names_stay_in_the_figure(display):
    """Two columns where they fit, one where they do not: nothing is cut at the edges."""
    names = [f"ProductNoiseOutputPerturbation, a row replaced, {i}" for i in range(5)]
    display.plot(label=names[0])
    for name in names[1:]:
        display.plot(ax=display.ax_, label=name)
    display.figure_.canvas.draw()
    legend, page = display.ax_.get_legend().get_window_extent(), display.figure_.bbox
    assert page.x0 <= legend.x0 < legend.x1 <= page.x1 and legend.y1 <= page.y1
    assert display.ax_.get_window_extent().height > page.height / 3, "and the curves keep their room"


@pytest.mark.parametrize("sketch", [DPSignOPORP(4), DPSignRP(4), DPOPORP(4, adjacency="l2"), iDPSignRP(4)])
def test_legend_names_the_neighbours_of_the_guarantee(sketch, two_digits):
    guarantee = sketch.fit(np.zeros((1, 4))).guarantee_
    options = {"epsilons": [1.0], "cv": 2, "n_repeats": 1, "reference": None, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(make_pipeline(sketch, LinearRegression()), *two_digits, **options)
    assert repr(guarantee).endswith(f", {display.hides.removesuffix(', individual DP')}")


def test_ticks_are_at_the_points(display):
    """Where there are few; a profile has many, and ticks of the decades."""
    display.plot().figure_.canvas.draw()
    assert display.ax_.get_xticks().tolist() == display.epsilons.tolist()
    profile = PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2))).plot()
    assert len(profile.ax_.get_xticks()) < 12


def test_markers_of_equal_profiles_are_apart():
    """The curves coincide, and each still shows markers of its own."""
    profile = PrivacyProfileDisplay.from_guarantee(guarantee_of(DPOPORP(2)))
    lines = [profile.plot().line_, profile.plot(ax=profile.ax_).line_, profile.plot(ax=profile.ax_).line_]
    assert len({line.get_markevery() for line in lines}) == 3


def test_what_has_no_guarantee_of_its_own_is_refused_with_what_to_do():
    from_estimator = PrivacyProfileDisplay.from_estimator
    with pytest.raises(TypeError, match=r"privacy_report\(pipeline\)\.total"):
        from_estimator(make_pipeline(MaxAbsScaler(), DPOPORP(2)).fit(np.eye(3)))
    with pytest.raises(NotFittedError, match="DPOPORP has no guarantee_: it is not fitted"):
        from_estimator(DPOPORP(2))
    with pytest.raises(NotFittedError, match="or not private"):
        from_estimator(LinearRegression().fit(np.eye(3), np.ones(3)))
    with pytest.raises(TypeError, match="class"):
        from_estimator(DPOPORP)


def test_several_estimators_are_several_calls(two_digits):
    with pytest.raises(TypeError, match=r"One estimator at a call: draw the next by plot\(ax="):
        PrivacyUtilityDisplay.from_estimator([AMPClassifier(), DPOPORP()], *two_digits)


def test_an_axis_says_all_that_is_hidden_whatever_characters_that_has(display):
    """A mark of an audit has a colon, at which identifiers of curves are taken apart."""
    display.hides = "one row replaced [VIOLATED: epsilon is at least 9.0]"
    assert display.plot(public_data=True).ax_.get_xlabel() == f"epsilon, {display.hides}"


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(display):
    display.hides = "one row replaced"
    texts = display.plot(label="_mine").ax_.get_legend().get_texts()
    assert texts[0].get_text() == "mine, one row replaced"
    guarantee = guarantee_of(DPOPORP(2))
    texts = PrivacyProfileDisplay.from_guarantee(guarantee).plot(label="_mine").ax_.get_legend().get_texts()
    assert texts[0].get_text() == "mine, l1 change of 1.0"
