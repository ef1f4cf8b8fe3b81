"""Attacks on sketches: fitted attributes set by hand, odd arguments, threads, histories, files, searches and texts."""

import copy
import json
import pickle
import random
import re
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline

from skdprp import (
    DPOPORP,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    compose,
    load_release,
    privacy_report,
    save_release,
    set_budget,
    transform_chunks,
)
from skdprp.composition import PrivacyLoss
from skdprp.guarantee import PrivacyGuarantee
from skdprp.mechanisms import classic_gaussian_scale, gaussian_profile, gaussian_scale, spherical_scale
from skdprp.testing import reproducible_noise

GUIDE = Path(__file__).parents[1] / "doc" / "guide"
X = np.random.default_rng(0).normal(size=(6, 5))


def _words(page):
    return re.sub(r"\s+", " ", (GUIDE / page).read_text())


# What does not hold


@pytest.mark.parametrize(
    ("sketch", "name", "value"),
    [
        (DPOPORP(4), "scale_", 1e-9),
        (DPRandomProjection(4, noise="laplace"), "scale_", 1e-9),
        (DPSignOPORP(4), "flip_thresholds_", np.array([2**63, 1], np.uint64)),
        (DPSignOPORP(4), "component_change_", np.full(4, 1e-9)),
        (DPSignOPORP(4, adjacency="l1"), "flip_scale_", 1e-9),
    ],
)
def test_noise_that_was_set_after_the_fit_is_refused(sketch, name, value):
    """As another `projection_` is: or rows are released nearly without noise, under the guarantee of the fit."""
    sketch = clone(sketch).fit(X)
    setattr(sketch, name, value)
    with pytest.raises((ValueError, AttributeError)):
        sketch.transform(X)


def test_a_loss_has_no_epsilon_at_a_delta_that_is_no_number():
    """Comparisons with nan are false, and so a search for the least epsilon ended at 1, whatever the loss was."""
    with suppress(ValueError):
        assert PrivacyLoss(mu=100.0).epsilon(float("nan")) == float("inf")


def test_pages_do_not_say_that_gamma_noise_is_never_more_than_gaussian_noise():
    """It is up to three times as much, in mean squares, where delta is of the size of epsilon."""
    for n_dims in (1, 2, 14, 100):
        scale = spherical_scale(0.01, 0.01, n_dims=n_dims, shape=n_dims, power=1)
        assert scale**2 * (n_dims + 1) > gaussian_scale(0.01, 0.01) ** 2
    assert "spherical noise is never larger than Gaussian noise" not in _words("mechanisms.rst")
    assert "which never adds more noise than a Gaussian" not in _words("pitfalls.rst")
    assert "never more than Gaussian noise" not in ProductNoiseOutputPerturbation.__doc__


def test_the_guide_does_not_say_that_flips_leave_more_signs_right_than_noise():
    """From one change away from zero on, signs of Laplace noise are right more often than flips by levels."""
    laplace = DPOPORP(4, noise="laplace").fit(X)
    gaussian = DPOPORP(4).fit(X)
    for x, beats_smooth in ((1.0, True), (2.0, True), (3.0, True)):
        right = {
            method: DPSignOPORP(4, method=method).fit(X).positive_probability([[x] * 4])[0, 0]
            for method in ("rr", "smooth")
        }
        assert (1 - np.exp(-x / laplace.scale_) / 2 > right["smooth"]) == beats_smooth
    with reproducible_noise(0):
        released = gaussian.transform(np.tile([40.0, 0, 0, 0, 0], (20_000, 1)))
    reached = np.abs(released).sum(axis=0).argmax()
    right = (np.sign(released[:, reached]) == np.sign(released[:, reached].mean())).mean()
    assert right > 0.9 > DPSignOPORP(4, method="rr").fit(X).positive_probability([[40.0] * 4])[0, 0]
    assert "Randomised response on the signs leaves more of them right" not in _words("sketches.rst")


def test_the_guide_says_how_many_digits_of_what_was_asked_for_are_printed():
    """Those beyond the sixth of epsilon, or the third of a long delta, are rounded up."""
    printed = repr(DPOPORP(4, epsilon=1.2345678, delta=1.2345678e-6).fit(X).guarantee_)
    is_as_written = "1.2345678," in printed and "1.2345678e-06" in printed
    says_so = "An epsilon or delta that you asked for is printed as you wrote it." in _words("composition.rst")
    assert is_as_written or not says_so


def test_the_guide_does_not_say_that_the_classic_calibration_fails_from_one_on():
    """Its proof ends there; the noise that it gives is enough for a while."""
    scale = classic_gaussian_scale(0.5, 1e-6) * 0.5  # of the formula at epsilon = 1
    assert gaussian_profile(1.0, scale=scale) < 1e-6 and gaussian_profile(5.0, scale=scale / 5) < 1e-6
    assert "does not hold from epsilon = 1 on" not in _words("mechanisms.rst")


def test_the_sum_of_the_page_on_own_mechanisms_moves_by_no_more_than_it_says():
    """Numbers of float32 were added up in float32, where one row of many moves the sum by 12 instead of 10."""
    page = (GUIDE.parent / "own_mechanism.rst").read_text()
    code = "\n".join(re.findall(r"^(?:>>> |\.\.\. )(.*)$", page[page.index(">>> def private_sum") :], re.M)[:3])
    names = {"np": np, "add_gaussian": lambda values, scale: np.asarray(values, np.float64), "scale": 1.0}
    exec(code, names)  # of this library, without its noise
    rows, moved = np.full(2**23, 5.0, np.float32), []
    for rows[1] in range(4):
        sums = [names["private_sum"](np.concatenate([np.array([value], np.float32), rows])) for value in (0.0, 10.0)]
        moved.append(abs(sums[1] - sums[0]))
    assert max(moved) <= 10 * (1 + 2**-20)


@pytest.mark.parametrize("classes", [(0, 0, 1), (0, False, 1)])
def test_the_example_of_an_own_mechanism_refuses_repeated_classes(classes):
    """Rows of a class that is listed twice are in two sums: one row moves them by 2.8 max_norm, and not by 2."""
    code = (GUIDE.parents[1] / "examples" / "plot_own_mechanism.py").read_text()
    names = {}
    exec(code[: code.index("# %%\n# It is an estimator like any other")], names)
    with pytest.raises(ValueError, match=r"once|repeat|twice|distinct"):
        names["DPNearestCentroid"](classes=classes).fit(X, [0, 0, 1, 1, 0, 1])


def test_set_budget_does_not_say_that_no_noise_is_enough():
    """Three sketches of a third of epsilon each are within it; and any noise guarantees a delta of 1."""
    model = OneVsRestClassifier(make_pipeline(DPOPORP(4), LogisticRegression()))
    rows, y = np.tile(X, (5, 1)), np.arange(30) % 3
    try:
        set_budget(model, rows, y, epsilon=1.0)
    except ValueError as error:
        assert "No noise of these steps guarantees (1.0, 1.0)" not in str(error)
    else:
        assert privacy_report(model, rows, y).private.epsilon <= 1.0


def test_a_projection_is_copied_while_another_thread_computes_with_it():
    """What it computes on first use changed the dictionary that its state was made from: pickles of sketches failed."""
    projection = DPOPORP(4, random_state=0).fit(X).projection_
    errors, end = [], time.monotonic() + 2

    def _copy():
        while time.monotonic() < end and not errors:
            try:
                copy.copy(projection)
            except RuntimeError as error:
                errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        (thread := threading.Thread(target=_copy)).start()
        while time.monotonic() < end and not errors:
            projection = DPOPORP(4, random_state=0).fit(X).projection_
            projection = copy.copy(projection)  # of which nothing is computed yet
            projection.project(X)
    except RuntimeError as error:
        errors.append(error)
    finally:
        thread.join()
        sys.setswitchinterval(before)
    assert not errors


# What holds


def test_threads_never_release_under_the_guarantee_of_another_fit():
    """Fits with two epsilons, while others copy, pickle and release: the noise is always that of the guarantee."""
    rows, wrong, released = np.zeros((300, 16)), [], Counter()
    scales = {epsilon: DPOPORP(8, epsilon=epsilon).fit(rows).scale_ for epsilon in (0.1, 8.0)}
    shared, end = DPOPORP(8, epsilon=0.1, random_state=0).fit(rows), time.monotonic() + 2

    def _fit():
        while time.monotonic() < end:
            shared.set_params(epsilon=next(epsilons)).fit(rows)

    def _use(copied):
        while time.monotonic() < end:
            try:
                own = copied(shared)
                noise = own.transform(rows).std()
            except (ValueError, RuntimeError):  # the last fit has not ended, or a parameter was set since
                continue
            released[copied.__name__] += 1
            if not 0.7 < noise / scales[own.guarantee_.epsilon] < 1.4:  # beyond some 20 standard deviations
                wrong.append((copied.__name__, noise, own.guarantee_))

    epsilons = iter(10**6 * [0.1, 8.0])
    copies = copy.copy, copy.deepcopy, lambda sketch: pickle.loads(pickle.dumps(sketch))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=_fit), *(threading.Thread(target=_use, args=(one,)) for one in copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong and sum(released.values()) > 0


def _sketches(rng):
    epsilon, max_change, delta = 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(-10, 10), 10 ** rng.uniform(-12, -0.1)
    options = {"epsilon": epsilon, "max_change": max_change}
    kinds = ["rademacher", "gaussian", "uniform", "very_sparse"]
    return rng.choice(
        [
            DPOPORP(4, **options, delta=delta, noise=rng.choice(["gaussian", "laplace"])),
            DPRandomProjection(3, **options, delta=delta, projection=rng.choice([*kinds, "identity", "count_sketch"])),
            DPSignOPORP(8, **options, adjacency=rng.choice(["coordinate", "l1", "l2"]), n_repeats=rng.choice([1, 8])),
            DPSignRP(8, **options, delta=rng.choice([0.0, delta]), projection=rng.choice(kinds)),
        ]
    )


@pytest.mark.filterwarnings("ignore")
def test_guarantees_and_totals_come_back_from_json_and_files_as_they_were(tmp_path):
    """With the same profile at each epsilon, the same scale, the same projection, and as void as they were."""
    rng, guarantees = random.Random(0), []
    for _ in range(60):
        sketch = _sketches(rng)
        released = sketch.fit_transform(X * sketch.max_change)
        guarantee = sketch.guarantee_
        save_release(tmp_path / "rows.npz", released, sketch)
        loaded = load_release(tmp_path / "rows.npz")
        back = PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict(), allow_nan=False)))
        assert back == guarantee and hash(back) == hash(guarantee)
        for epsilon in (0.0, 1.0, 30.0):
            assert loaded.guarantee.profile(epsilon) == back.profile(epsilon) == guarantee.profile(epsilon) <= 1
        assert (loaded.guarantee.epsilon, loaded.guarantee.delta) == (guarantee.epsilon, guarantee.delta)
        for name in ("scale_", "flip_scale_", "flip_thresholds_"):
            assert np.array_equal(getattr(loaded.estimator, name, 0), getattr(sketch, name, 0))
        if sketch.adjacency == "l1" and guarantee.epsilon < 5:
            guarantees.append(guarantee)
    total = compose(*guarantees[:4])
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(total.to_dict(), allow_nan=False))) == total


def test_a_report_is_true_of_all_that_one_sketch_and_its_copies_released():
    """Whatever they went through: other parameters, fits that fail, seeds, copies, pickles and chunks."""
    rng, n_totals = random.Random(0), 0
    for _ in range(300):
        sketch, released = rng.choice([DPOPORP(3), DPSignOPORP(3), DPRandomProjection(3, noise="laplace")]), []
        sketch = clone(sketch)
        with PrivacyLedger() as ledger:
            for step in rng.choices(range(9), k=rng.randrange(2, 9)):
                with suppress(ValueError):
                    if step < 2:
                        sketch.fit(X)
                    elif step == 2:
                        sketch.set_params(**rng.choice([{"epsilon": 5.0}, {"epsilon": 1.0}, {"max_change": 2.0}]))
                    elif step == 3:
                        sketch.fit(np.full((2, 5), np.nan))
                    elif step == 4:
                        sketch = rng.choice([copy.copy, copy.deepcopy])(sketch)
                    elif step == 5:
                        sketch = pickle.loads(pickle.dumps(sketch))
                    elif step == 6:
                        with reproducible_noise(0):
                            sketch.transform(X)
                    elif step == 7:
                        transform_chunks(sketch, [X[:3], X[3:]])
                    else:
                        sketch.transform(X)
            released = [entry.guarantee for entry in ledger.entries]
        if not hasattr(sketch, "guarantee_") or (total := privacy_report(sketch).total) is None:
            continue
        n_totals += 1
        for guarantee in released:
            assert guarantee.epsilon <= total.epsilon and guarantee.delta <= total.delta
            assert guarantee.adjacency.bound >= total.adjacency.bound and guarantee.seeded <= total.seeded
    assert n_totals > 30


@pytest.mark.filterwarnings("ignore")
def test_rows_are_in_no_more_releases_than_the_report_on_a_search_counts():
    """Counted by an entry of the ledger for each call: of one row, no more than the report says of all rows."""
    rng = random.Random(0)
    rows, y = np.random.default_rng(0).normal(size=(24, 6)), np.arange(24) % 2
    for _ in range(8):
        sketch = rng.choice([DPOPORP(4, epsilon=30.0), FeatureUnion([("a", DPOPORP(3)), ("b", DPSignOPORP(3))])])
        search = GridSearchCV(
            make_pipeline(sketch, LogisticRegression()),
            {},
            cv=rng.choice([KFold(3), ShuffleSplit(2), RepeatedKFold(n_splits=2, n_repeats=2)]),
            scoring=rng.choice([None, "accuracy", ["accuracy", "roc_auc"]]),
            refit="accuracy",
            return_train_score=rng.random() < 0.5,
        )
        with PrivacyLedger() as ledger:
            search.fit(rows, y)
        report, entries = privacy_report(search), Counter(entry.estimator for entry in ledger.entries)
        for step in report.steps:
            assert step.calls >= entries[step.estimator] * (step.releases > 0)
        assert report.total is None and report.private is not None
