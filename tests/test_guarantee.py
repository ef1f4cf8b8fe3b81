"""The guarantee as a value."""

import dataclasses
import decimal
import inspect
import json
import pickle
import re
import sys
import warnings
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline

import skdprp
from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPRandomProjection,
    DPRidge,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyGuarantee,
    ProductNoiseOutputPerturbation,
    compose,
    composition,
    iDPSignRP,
    mechanisms,
    privacy_report,
)
from skdprp._noise import poisson_above_zero
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import _PROFILES, FIXED_BEFORE, PARAMETERS_ARE_PUBLIC, Adjacency
from skdprp.ledger import PrivacyLedger, entry
from skdprp.mechanisms import gaussian_profile, gaussian_scale
from skdprp.mechanisms.gaussian_laplace import laplace_profile
from skdprp.mechanisms.mutual_information import information_delta
from skdprp.mechanisms.randomised_response import randomised_response_profile

X = np.eye(6)
Y = np.array([0, 1, 0, 1, 0, 1])


def test_repr_names_bound_and_definition():
    assert repr(PrivacyGuarantee(1.0, 1e-6)) == "(1.0, 1e-06)-DP, neighbours not stated"
    assert repr(PrivacyGuarantee(np.float64(0.5), 0.0)) == "0.5-DP, neighbours not stated"
    assert repr(PrivacyGuarantee(2, 1e-9, definition="individual DP")).startswith("(2, 1e-09)-individual DP, ")


@pytest.mark.parametrize(
    ("facts", "printed"),
    [
        ({"adjacency": Adjacency("coordinate", 0.5)}, "one coordinate changed by 0.5"),
        ({"adjacency": Adjacency("l1", 1.0)}, "l1 change of 1.0"),
        ({"adjacency": Adjacency("l2", 2)}, "l2 change of 2"),
        ({"adjacency": Adjacency("entry", 1.0)}, "one entry of at most 1.0"),
        ({"adjacency": Adjacency("add_remove")}, "one row blank or not"),
        ({"adjacency": Adjacency("replace_one"), "per": "fit"}, "one row replaced"),
        (
            {"adjacency": Adjacency("replace_one"), "given": "the set of labels"},
            "one row replaced, given the set of labels",
        ),
    ],
)
def test_repr_says_whose_privacy(facts, printed):
    """A sketch of a pixel and a model of rows never look alike, in a table or in a legend."""
    assert repr(PrivacyGuarantee(1.0, 0.0, **facts)) == f"1.0-DP, {printed}"
    each_time = PrivacyGuarantee(1.0, 0.0, **{**facts, "per": "transform"})
    assert repr(each_time) == f"1.0-DP per transform, {printed}"


def test_totals_are_of_all_that_happened_and_given_what_any_part_is():
    sketch = dataclasses.replace(PURE, per="transform")
    model = dataclasses.replace(PURE, per="fit", given="the set of labels")
    total = compose(sketch, model, model)
    assert total.per is None and total.given == "the set of labels of each release"  # which may be of other labels
    assert compose(total, model).given == total.given and compose(sketch, model).given == model.given


@pytest.mark.parametrize("facts", [{"definition": "privacy"}, {"per": "day"}])
def test_facts_outside_their_lists_are_refused(facts):
    with pytest.raises(ValueError, match=r"valid Definition|per must be"):
        PrivacyGuarantee(1.0, 0.0, **facts)


def test_repr_prints_long_numbers_short_and_never_too_small():
    """What was asked for prints as asked; all digits of anything else are in the attributes and the dictionary."""
    assert repr(PrivacyGuarantee(0.1 + 0.2, 0.0)) == "0.300001-DP, neighbours not stated"
    guarantee = PrivacyGuarantee(0.12345, 9.9996e-7 + 1e-20)
    assert repr(guarantee).startswith("(0.12345, 1e-06)-DP, ") and "| (0.12345, 1e-06)-DP, " in guarantee.to_markdown()
    assert guarantee.delta == guarantee.to_dict()["delta"] == 9.9996e-7 + 1e-20


def test_str_states_every_fact():
    facts = {"unit": "one user", "released": "rows", "mechanism": "Gaussian", "source": "Theorem 8"}
    more = {
        "adjacency": Adjacency("l2", 0.5),
        "assumptions": ("n is public", "W is public"),
        "not_covered": ("labels",),
    }
    guarantee = PrivacyGuarantee(1.0, 1e-6, **facts, **more, audited_epsilon=0.25)
    facts |= {"neighbours": "rows at l2 distance at most 0.5", "assumed": "n is public", "": "W is public"}
    facts |= {"not covered": "labels", "guarantee": "(1.0, 1e-06)-DP"}
    for text in (str(guarantee), guarantee.to_markdown(), guarantee._repr_html_()):
        assert all(name in text and fact in text for name, fact in facts.items())
        assert "at least 0.25" in text and "73.2 of 100" in text


def test_guarantee_is_a_frozen_value():
    guarantee = PrivacyGuarantee(1.0, 1e-6, assumptions=("n is public",))
    assert guarantee == pickle.loads(pickle.dumps(guarantee)) and hash(guarantee) == hash(
        dataclasses.replace(guarantee)
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1


def test_seeded_guarantee_says_that_it_is_void():
    assert repr(PrivacyGuarantee(1.0, 0.0).mark_seeded()) == "1.0-DP, neighbours not stated [seeded: not private]"


def all_guarantees():
    """Guarantees of every estimator, with whatever loss it states."""
    sketches = [
        DPOPORP(4),
        DPOPORP(4, noise="laplace"),
        DPRandomProjection(4, adjacency="l2"),
        DPRandomProjection(4, projection="gaussian", calibration="kenthapadi_bound"),
        DPSignRP(4),
        DPSignOPORP(4, n_repeats=2),
        DPSignRP(4, projection="gaussian", method="rr", min_norm=0.5, delta=1e-6),
        iDPSignRP(4),
    ]
    models = [
        AMPClassifier(),
        AMPClassifier(noise="product"),
        AMPClassifier(adjacency="add_remove"),
        ProductNoiseOutputPerturbation(),
        ProductNoiseOutputPerturbation(radius="gaussian"),
        MIDPRegressor(),
    ]
    fitted = [sketch.fit(X) for sketch in sketches] + [model.fit(X, Y) for model in models]
    fitted.append(AMPClassifier().fit(X, [0, 1, 2, 0, 1, 2]))
    return [estimator.guarantee_ for estimator in fitted]


@pytest.mark.parametrize("guarantee", all_guarantees())
def test_guarantees_survive_json(guarantee):
    again = PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict())))
    assert again == guarantee and str(again) == str(guarantee)


@pytest.mark.parametrize("guarantee", [one for one in all_guarantees() if one.definition == "DP"])
def test_profile_meets_the_stated_point_and_decreases(guarantee):
    assert guarantee.profile(guarantee.epsilon) <= guarantee.delta
    profile = [guarantee.profile(epsilon) for epsilon in np.linspace(0, 2 * guarantee.epsilon, 21)]
    assert np.all(np.diff(profile) <= 0) and profile[0] > guarantee.delta
    assert Fraction(guarantee.guess_probability) >= (1 + Fraction(profile[0])) / 2
    assert guarantee.guess_probability == pytest.approx(0.5 + profile[0] / 2, rel=1e-15)


def test_words_of_enumerations_are_stored_as_plain_texts():
    facts = PrivacyGuarantee(1.0, 0.0, definition="MI-DP (bits)", adjacency=Adjacency("entry", 1.0)).to_dict()
    assert type(facts["definition"]) is type(facts["adjacency"]["relation"]) is str


def test_dictionary_with_an_unknown_profile_is_refused():
    facts = AMPClassifier().fit(X, Y).guarantee_.to_dict()
    facts["loss"]["profiles"][0]["function"] = "__import__"
    with pytest.raises(ValueError, match="no privacy profile called"):
        PrivacyGuarantee.from_dict(facts)


def test_gaussian_sketch_states_its_exact_profile():
    sketch = DPOPORP(4, epsilon=1.0, delta=1e-6).fit(X)
    for epsilon in (0.3, 1.0, 1.3):
        exact = gaussian_profile(epsilon, scale=sketch.scale_, sensitivity=sketch.sensitivity_)
        assert exact < sketch.guarantee_.profile(epsilon) < exact * 1.05


def test_sign_sketch_states_the_profile_of_all_its_bits():
    guarantee = DPSignRP(6, epsilon=1.2).fit(X).guarantee_
    exact = randomised_response_profile(0.4, epsilon0=0.2, n_bits=6)
    assert exact < guarantee.profile(0.4) < exact * (1 + 1e-9)


def test_best_guess_of_each_definition():
    assert PrivacyGuarantee(np.log(3), 0.0).guess_probability == pytest.approx(0.75)
    assert PrivacyGuarantee(0.0, 0.5).guess_probability == 0.75
    bits = PrivacyGuarantee(0.2, 0.0, definition="MI-DP (bits)")
    assert bits.guess_probability == 0.5 + information_delta(0.2) / 2
    assert PrivacyGuarantee(0.5, 0.0, definition="individual DP").guess_probability is None
    assert "not bounded" in str(PrivacyGuarantee(0.5, 0.0, definition="individual DP"))


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [
        *((0.0, "50.0"), (1.0, "73.2"), (6.0, "99.8"), (7.0, "99.91"), (10.0, "99.996")),
        *((20.0, "99.9999999"), (40.0, "100.0")),
    ],
)
def test_a_best_guess_that_may_fail_is_not_printed_as_certain(epsilon, printed):
    """Rounded up, to as many digits as it takes; what no float tells from 1 is certain."""
    guarantee = PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency("replace_one"))
    assert f"right in at most {printed} of 100 " in " ".join(f"{guarantee}".split())
    assert Fraction(printed) / 100 >= Fraction(guarantee.guess_probability)


def test_profile_belongs_to_differential_privacy_and_epsilon_of_at_least_zero():
    with pytest.raises(ValueError, match="Only differential privacy"):
        PrivacyGuarantee(0.2, 0.0, definition="MI-DP (bits)").profile(0.1)
    for epsilon in (-0.1, np.nan):
        with pytest.raises(ValueError, match="at least 0"):
            PrivacyGuarantee(0.2, 0.0).profile(epsilon)


def test_html_escapes_what_it_shows():
    assert "<script>" not in PrivacyGuarantee(1.0, 0.0, released="<script>")._repr_html_()


@pytest.mark.parametrize("estimator", [DPOPORP(2), AMPClassifier(), MIDPRegressor()])
def test_estimators_show_their_guarantee_once_fitted(estimator):
    assert "best guess" not in estimator._repr_html_()
    estimator.fit(X, Y)
    label = estimator.guarantee_._repr_html_()
    assert estimator._repr_html_().endswith(label) and estimator._repr_mimebundle_()["text/html"].endswith(label)


GAUSSIAN = PrivacyGuarantee(
    1.0, 1e-6, adjacency=Adjacency("l1", 1.0), loss=PrivacyLoss(mu=1 / gaussian_scale(1.0, 1e-6))
)
PURE = PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("coordinate", 0.5), released="signs")


def test_gaussian_releases_compose_exactly():
    """N releases are one with sqrt(n) times the sensitivity."""
    total = compose(*[GAUSSIAN] * 9)
    assert total.delta == pytest.approx(9e-6) and (total.method, total.n_releases) == ("closed form", 9)
    scale = gaussian_scale(1.0, 1e-6) / 3
    assert (
        gaussian_profile(total.epsilon, scale=scale)
        <= total.delta
        < gaussian_profile(total.epsilon * (1 - 1e-9), scale=scale)
    )


def test_composition_is_never_worse_than_basic_and_as_good_as_the_optimum():
    total = compose(GAUSSIAN, PURE, PURE)
    assert total.epsilon <= 2.0 and total.delta == 1e-6 and total.method == "privacy loss distribution"
    pure = compose(PURE, PURE)
    assert (pure.epsilon, pure.delta) == (1.0, 0.0) and pure.method == "basic composition"
    assert compose(*[PURE] * 40, delta=1e-6).epsilon < 20 * 0.95


def test_composition_states_what_all_releases_share():
    total = compose(GAUSSIAN, PURE)
    assert total.adjacency == Adjacency("coordinate", 0.5) and total.released == "signs" and not total.seeded
    assert compose(GAUSSIAN, PURE.mark_seeded()).seeded
    assert (
        compose(GAUSSIAN, dataclasses.replace(PURE, adjacency=Adjacency("replace_one"))).adjacency == GAUSSIAN.adjacency
    )


def test_composition_of_compositions_is_that_of_all():
    together = compose(GAUSSIAN, GAUSSIAN, PURE, delta=1e-5)
    nested = compose(compose(GAUSSIAN, PURE), GAUSSIAN, delta=1e-5)
    assert nested.epsilon == pytest.approx(together.epsilon, rel=1e-9)
    assert nested.n_releases == together.n_releases == 3 and nested.mechanism == together.mechanism


@pytest.mark.parametrize("guarantee", [one for one in all_guarantees() if one.definition == "DP" and one.delta > 0])
def test_what_is_not_pure_is_not_said_to_be(guarantee):
    """Deltas below the least float are not 0: none is stated, unless the loss of the noise is bounded."""
    pure = compose(guarantee, delta=0.0)
    assert pure.epsilon == float("inf") or "gamma radius" in pure.mechanism
    assert pure.epsilon < float("inf") or guarantee.profile(1e3) > 0


def test_many_pure_bits_are_pure_at_their_sum_only():
    """The probability that 2500 bits all come out as they are is no float, and still it is not 0."""
    guarantee = DPSignRP(2500).fit(np.zeros((1, 2500))).guarantee_
    assert compose(guarantee, delta=0.0).epsilon == 1.0 and 0 < guarantee.profile(0.999) < 1e-300


def test_composition_of_one_restates_it():
    assert compose(GAUSSIAN) is GAUSSIAN
    assert compose(GAUSSIAN, delta=1e-3).epsilon < 0.7


def test_a_total_below_the_sums_assumes_parameters_that_were_fixed_before():
    """And so does one whose epsilon is the sum, for its profile and its best guess are below what that implies.

    So does a sum of bits: they are a mean over what may be released. Disjoint parts hold whatever was fixed.
    """
    by_profile, by_sums = compose(GAUSSIAN, GAUSSIAN), compose(PURE, PURE)
    assert by_profile.epsilon < 2 * GAUSSIAN.epsilon and by_sums.epsilon == 2 * PURE.epsilon
    assert by_sums.guess_probability < PURE.guess_probability + 0.5 * (1 - PURE.guess_probability)
    bits = MIDPRegressor(epsilon=0.25).fit(X, Y).guarantee_
    for total in (by_profile, by_sums, compose(by_profile, by_sums), compose(bits, bits)):
        assert FIXED_BEFORE in total.assumptions
    for total in (compose(GAUSSIAN, GAUSSIAN, disjoint=True), compose(PURE, delta=1e-6)):
        assert FIXED_BEFORE not in total.assumptions
    with PrivacyLedger() as ledger, entry(by_profile):
        pass
    assert FIXED_BEFORE in " ".join(repr(ledger).split())


def test_disjoint_rows_cost_the_weakest_release():
    other = dataclasses.replace(GAUSSIAN, loss=PrivacyLoss(mu=0.01), epsilon=0.1)
    total = compose(GAUSSIAN, other, disjoint=True)
    assert total.epsilon == pytest.approx(1.0, rel=1e-9) and total.delta == 1e-6
    assert GAUSSIAN.profile(0.5) <= total.profile(0.5) < GAUSSIAN.profile(0.5) * (1 + 1e-9)
    assert "do not decide its part" in total.assumptions[-1]
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(total.to_dict()))) == total


def test_mutual_information_adds_up():
    bits = MIDPRegressor(epsilon=0.25).fit(X, Y).guarantee_
    assert compose(bits, bits).epsilon == 0.5 and compose(bits, bits, disjoint=True).epsilon == 0.25


@pytest.mark.parametrize(
    ("guarantees", "reason"),
    [
        ((PURE, dataclasses.replace(PURE, definition="MI-DP (bits)")), "different definitions"),
        ((PURE, dataclasses.replace(PURE, definition="individual DP")), "different definitions"),
        ((dataclasses.replace(PURE, definition="individual DP"),) * 2, "this definition"),
        ((dataclasses.replace(PURE, definition="DP as claimed, not as proved"),) * 2, "this definition"),
        ((PURE, dataclasses.replace(PURE, unit="one user")), "different units"),
        ((PURE, dataclasses.replace(PURE, adjacency=Adjacency("add_remove"))), "different neighbours"),
        (
            [dataclasses.replace(PURE, adjacency=Adjacency(name)) for name in ("replace_one", "add_remove")],
            'all with adjacency="add_remove"',
        ),
        ((PURE, dataclasses.replace(PURE, adjacency=None)), "names no neighbours"),
        ((), "at least one"),
        ((PURE, dataclasses.replace(PURE, adjacency=Adjacency("l1", 1.0, after="scaler"))), "as they leave scaler"),
    ],
)
def test_what_does_not_compose_is_refused(guarantees, reason):
    with pytest.raises(ValueError, match=reason):
        compose(*guarantees)


def test_disjoint_rows_without_the_accountant_say_what_they_miss(monkeypatch):
    """Of two releases a profile is known that is no closed form: the total is as weak as the weakest, or less weak."""
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    laplace = PrivacyLoss(profiles=(Profile.of(laplace_profile, scale=10.0),))
    several = dataclasses.replace(GAUSSIAN, loss=PrivacyLoss(mu=0.1) + laplace)
    total = compose(several, several, disjoint=True)
    assert (total.epsilon, total.delta) == (1.0, 1e-6) and total.loss is None
    assert total.method.startswith("disjoint parts (dp-accounting is not installed")
    assert compose(GAUSSIAN, GAUSSIAN, disjoint=True).method == "disjoint parts"


def test_every_profile_that_can_be_read_from_a_file_is_listed():
    """And nothing else can."""
    files = [import_module(f"skdprp.mechanisms.{file.name}") for file in iter_modules(mechanisms.__path__)]
    names = {name for file in (composition, *files) for name in vars(file) if name.endswith("_profile")}
    # Guarantees state these by the losses of trials, and by a Gaussian loss that may fail.
    in_parts = {"private_search_profile", "thresholded_counts_profile"}
    new = "add it to _PROFILES of skdprp/guarantee.py, or to in_parts here if no guarantee states it by itself"
    assert {name for name in names if not name.startswith("_")} - in_parts == set(_PROFILES), new


def test_without_the_accountant_composition_is_basic_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    other = dataclasses.replace(GAUSSIAN, loss=None, epsilon=0.123)
    total = compose(GAUSSIAN, other)
    assert (total.epsilon, total.delta) == (1.123, 2e-6) and "basic" in total.method
    assert (
        "pip install dp-accounting, epsilon may be smaller" in total.method
        and compose(PURE, PURE).method == "basic composition"
    )
    assert total.profile(1.123) == 2e-6 and "best guess" in str(total)
    with pytest.raises(ImportError, match=r"skdprp\[pld\]"):
        compose(GAUSSIAN, other, delta=1e-7)


def test_infinite_guarantees_stay_infinite():
    nothing = dataclasses.replace(PURE, epsilon=float("inf"))
    assert compose(PURE, nothing, delta=1e-3).epsilon == float("inf")


@pytest.mark.parametrize("numbers", [(-1.0, 0.0), (np.nan, 0.0), (1.0, -1e-6), (1.0, 1.5), (1.0, np.nan)])
def test_numbers_that_are_no_guarantee_are_refused(numbers):
    with pytest.raises(ValueError, match="No guarantee"):
        PrivacyGuarantee(*numbers)
    with pytest.raises(ValueError, match="No guarantee"):
        PrivacyGuarantee.from_dict({**PURE.to_dict(), "epsilon": numbers[0], "delta": numbers[1]})


@pytest.mark.parametrize("delta", [-1.0, np.nan, 2.0])
def test_totals_at_no_probability_are_refused(delta):
    with pytest.raises(ValueError, match="between 0 and 1"):
        compose(PURE, PURE, delta=delta)


def test_losses_and_neighbours_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least 0"):
        PrivacyLoss(mu=-1.0)
    for neighbours in ({"relation": "zz"}, {"relation": "l1", "bound": -1.0}, {"relation": "l1", "bound": True}):
        with pytest.raises(ValueError, match="no such neighbours"):
            Adjacency(**neighbours)


@pytest.mark.parametrize(
    "fact",
    [
        *({"epsilon": wrong} for wrong in (True, None, "1", np.array([1.0]))),
        *({name: True} for name in ("delta", "audited_epsilon", "hidden_changes")),
        *({"seeded": wrong} for wrong in (None, 1)),
        *({name: True} for name in ("unit", "given", "released", "mechanism", "method", "source", "violation", "loss")),
    ],
)
def test_facts_of_another_type_are_refused(fact):
    """A truth value was taken for epsilon, noise was drawn under it, and then nothing could be printed."""
    with pytest.raises(TypeError, match="must be"):
        PrivacyGuarantee(**{"epsilon": 1.0, "delta": 0.0} | fact)


def test_no_guarantee_is_printed_as_less_than_nothing_or_as_less_than_it_is():
    assert repr(PrivacyGuarantee(-0.0, 0.0)).startswith("0.0-DP")
    assert repr(Adjacency("l2", -0.0)) == repr(Adjacency("l2", 0.0))
    for number in (10**22 + 1, 2**53 + 1, 10**400):  # a file would have the float below
        with pytest.raises(ValueError, match="epsilon equals no float"):
            PrivacyGuarantee(number, 0.0)


@pytest.mark.parametrize(
    "change",
    [
        *({"loss": "x"}, {"adjacency": "l1"}, {"unknown": 1}, {"epsilon": "one"}),
        *({name: True} for name in ("epsilon", "delta", "audited_epsilon", "hidden_changes")),
        {"adjacency": {"relation": "l1", "bound": True, "after": ""}},
        {"adjacency": {"relation": "l1", "bound": 1.0, "after": 5}},
        {"loss": {"mu": True, "sampling": 0.0, "profiles": []}},
        {"epsilon": "1_0"},
        {"epsilon": 10**400},
    ],
)
def test_dictionaries_that_are_no_guarantee_are_refused(change):
    with pytest.raises(ValueError, match=r"guarantee|profile|could not convert"):
        PrivacyGuarantee.from_dict({**PURE.to_dict(), **change})
    with pytest.raises(ValueError, match="does not describe"):
        PrivacyGuarantee.from_dict({"epsilon": 1.0})


@pytest.mark.parametrize(
    "facts",
    [
        {"epsilon": float("inf")},
        {"audited_epsilon": float("inf")},
        {"loss": PrivacyLoss(mu=float("inf"))},
        {"loss": PrivacyLoss(profiles=(Profile.of(laplace_profile, scale=float("inf")),), sampling=float("inf"))},
    ],
)
def test_dictionaries_are_strict_json(facts):
    nothing = dataclasses.replace(PURE, **facts, adjacency=Adjacency("replace_one"))
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(nothing.to_dict(), allow_nan=False))) == nothing


@pytest.mark.parametrize("n", [3, 7, 10])
def test_sums_are_rounded_up(n):
    total = compose(*[dataclasses.replace(PURE, epsilon=0.1, delta=1e-6)] * n)
    assert Fraction(total.delta) >= n * Fraction(1e-6) and total.delta == pytest.approx(n * 1e-6, rel=1e-15)
    pure = compose(*[dataclasses.replace(PURE, epsilon=0.1)] * n)
    assert Fraction(pure.epsilon) >= n * Fraction(0.1) and pure.epsilon == pytest.approx(n * 0.1, rel=1e-15)


def test_huge_losses_compose_by_sums():
    huge = dataclasses.replace(PURE, epsilon=1000.0)
    assert compose(huge, GAUSSIAN).epsilon == 1001.0
    hardly = dataclasses.replace(GAUSSIAN, epsilon=1e8, loss=PrivacyLoss(mu=1e4))
    assert compose(hardly, PURE).epsilon == 1e8 + 0.5


def test_markdown_keeps_its_columns():
    assert r"a\|b c" in PrivacyGuarantee(1.0, 0.0, released="a|b\nc").to_markdown()


def test_short_floats_print_all_their_digits():
    """The float32 nearest to 0.1 is above it, and is no number to JSON."""
    guarantee = PrivacyGuarantee(np.float32(0.1), np.float16(0.0))
    assert guarantee.epsilon == np.float32(0.1)
    assert str(guarantee.epsilon) == "0.10000000149011612"
    assert json.loads(json.dumps(guarantee.to_dict()))["epsilon"] == guarantee.epsilon


@pytest.mark.parametrize("thing", [[PURE, PURE], AMPClassifier(), 1.0])
def test_only_guarantees_compose(thing):
    with pytest.raises(TypeError, match="one by one"):
        compose(thing)


@pytest.mark.parametrize("precision", [1, 2, 3])
def test_the_precision_of_the_callers_decimals_rounds_no_bound(precision):
    guarantees = [PrivacyGuarantee(epsilon, 0.0) for epsilon in (0.1, 5.0, 7.2, 9.55)]
    usual = [str(guarantee) for guarantee in guarantees]
    with decimal.localcontext(prec=precision) as context:
        context.traps[decimal.FloatOperation] = True
        assert [str(guarantee) for guarantee in guarantees] == usual
        assert poisson_above_zero(3.0) > 0
    assert "in at most 99.4 of 100" in usual[1]


def test_audited_bounds_are_printed_and_never_too_large():
    audited = dataclasses.replace(PURE, audited_epsilon=0.1999999)
    assert "at least 0.199 at this delta" in str(audited) and not audited.violation
    assert "nothing shown" in str(dataclasses.replace(PURE, audited_epsilon=0.0))


def test_an_audited_bound_above_the_claim_voids_it():
    violated = dataclasses.replace(PURE, audited_epsilon=0.8765432)
    assert repr(violated) == f"{PURE!r} [VIOLATED: epsilon is at least 0.876 at delta=0.0, where 0.5 is guaranteed]"
    assert violated.guess_probability == 1.0
    for text in (str(violated), violated.to_markdown(), violated._repr_html_()):
        assert "VIOLATED: attacks show that epsilon is at least 0.876" in text and "guarantee is violated" in text
    total = compose(GAUSSIAN, violated)
    assert total.violation == f"of one of these releases, {violated.violation}" == compose(total, total).violation
    audited = dataclasses.replace(total, audited_epsilon=3.0, violation="of the total")
    assert compose(audited, PURE).violation == "of one of these releases, of the total"
    assert total.audited_epsilon is None
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(total.to_dict()))) == total


@pytest.mark.parametrize(
    ("shown", "epsilon", "delta"),
    [(1.00000012, 1.0, 1e-6), (1.2399999, 1.2350001, 1e-6), (1.0000123, 1.0000001, 0.0123456789), (1 + 2**-52, 1.0, 0)],
)
def test_a_violation_prints_as_one(shown, epsilon, delta):
    """However close the two numbers are, each on its safe side."""
    violated = PrivacyGuarantee(epsilon, delta, audited_epsilon=shown).violation
    printed = re.fullmatch(r"epsilon is at least (\S+) at delta=(\S+), where (\S+) is guaranteed", violated)
    assert epsilon <= float(printed[3]) < float(printed[1]) <= shown and float(printed[2]) == delta


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"delta": 0.5, "definition": "MI-DP (bits)"}, "MI-DP has no delta"),
        ({"delta": 0.0, "audited_epsilon": float("nan")}, "No audit shows"),
        ({"delta": 0.0, "audited_epsilon": -1.0}, "No audit shows"),
    ],
)
def test_facts_that_no_guarantee_has_are_refused(facts, message):
    with pytest.raises(ValueError, match=message):
        PrivacyGuarantee(1.0, **facts)


def test_arrays_of_one_number_are_numbers():
    guarantee = PrivacyGuarantee(np.array(0.1, np.float32), np.array(0.0))
    assert type(guarantee.epsilon) is float and float(repr(guarantee).partition("-DP")[0]) >= guarantee.epsilon > 0.1


def test_sums_beyond_all_floats_are_infinite():
    huge = dataclasses.replace(PURE, epsilon=1e308)
    assert compose(huge, huge).epsilon == float("inf")


def test_dictionaries_of_earlier_guarantees_still_load():
    facts = PURE.to_dict()
    del facts["violation"]
    assert PrivacyGuarantee.from_dict(facts) == PURE


@pytest.mark.parametrize(
    ("facts", "protected", "neighbours"),
    [
        (
            {"adjacency": Adjacency("coordinate", 2)},
            "a bounded change within one row",
            "rows that differ in one coordinate, by at most 2, as they reach each release",
        ),
        (
            {"adjacency": Adjacency("l1", 0.5, after="a map")},
            "a bounded change within one row",
            "rows at l1 distance at most 0.5 (covers one coordinate changed by that much), as they leave a map",
        ),
        (
            {"adjacency": Adjacency("l2")},
            "a bounded change within one row",
            "rows at l2 distance at most inf, as they reach each release",
        ),
        (
            {"adjacency": Adjacency("replace_one")},
            "one row with its label or target",
            "data sets that differ in one row and its label or target, in the same position",
        ),
        (
            {"adjacency": Adjacency("add_remove")},
            "one row with its label or target",
            "data sets that differ in one position: a row and its label or target in the one, a blank in the other",
        ),
        (
            {"adjacency": Adjacency("replace_one"), "unit": "person"},
            "one person (all of its rows)",
            "data sets that differ in all rows of one person, however many in each, and their labels or targets",
        ),
        (
            {"adjacency": Adjacency("add_remove"), "unit": "person"},
            "one person (all of its rows)",
            "data sets that differ in one person: all of its rows and their labels or targets in the one, a blank in "
            "the other",
        ),
        (
            {"adjacency": Adjacency("replace_one"), "unit": "one household"},
            "one household",
            "data sets that differ in one household, which another one replaces",
        ),
        (
            {"adjacency": Adjacency("add_remove"), "unit": "one household"},
            "one household",
            "data sets that differ in one household, which is blank in the other",
        ),
        (
            {"adjacency": Adjacency("entry", 1.0), "unit": "one entry of X"},
            "one entry of X",
            "any value of one entry, of absolute value at most 1.0; all others and y are known, as they reach each "
            "release",
        ),
        ({}, "one row", "not stated"),
    ],
)
def test_a_dictionary_says_what_is_protected_in_words_that_files_have(facts, protected, neighbours):
    """The unit of a sketch of pixels is "one row", by which a reader of JSON took it for all of the row.

    Ledgers and release files have these words, and are refused if they are others than those of the guarantee: whoever
    changes the words has to go on reading these.
    """
    guarantee = PrivacyGuarantee(1.0, 1e-6, **facts)
    stated = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    assert (stated["protected"], stated["neighbours"]) == (protected, neighbours)
    assert PrivacyGuarantee.from_dict(stated) == guarantee
    assert str(PrivacyGuarantee.from_dict(stated)) == str(guarantee)
    for name in ("protected", "neighbours"):  # as those of earlier files, which have neither
        del stated[name]
        assert PrivacyGuarantee.from_dict(stated) == guarantee


@pytest.mark.parametrize(
    "forged",
    [
        {"protected": "one row with its label or target"},
        {"protected": ""},
        {"protected": None},
        {"neighbours": "data sets that differ in one row and its label or target, in the same position"},
        {"neighbours": ["rows that differ in one coordinate, by at most 1.0, as they reach each release"]},
        {"adjacency": {"relation": "coordinate", "bound": 2.0, "after": ""}},
        {"unit": "one person (all of its rows)", "adjacency": {"relation": "replace_one", "bound": "inf", "after": ""}},
    ],
)
def test_a_dictionary_that_says_two_things_of_what_is_protected_is_refused(forged):
    facts = PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("coordinate", 1.0)).to_dict()
    with pytest.raises(ValueError, match="does not describe a guarantee: it says"):
        PrivacyGuarantee.from_dict({**facts, **forged})


@pytest.mark.parametrize("kind", [np.float64, np.int64, int])
def test_numbers_of_numpy_become_numbers_of_python(kind):
    """Whatever parameters a search has tried: labels are JSON, and losses computed with all digits."""
    models = [AMPClassifier(max_norm=kind(2)), ProductNoiseOutputPerturbation(max_norm=kind(2), radius="gaussian")]
    fitted = [model.set_params(epsilon=kind(1)).fit(X, Y) for model in models]
    fitted += [sketch(4, epsilon=kind(1), max_change=kind(3)).fit(X) for sketch in (DPOPORP, DPSignRP)]
    for guarantee in [estimator.guarantee_ for estimator in fitted]:
        assert PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
        assert repr(guarantee).startswith(("(1", "1"))


def test_short_floats_of_neighbours_and_losses_keep_all_their_digits():
    assert json.dumps(Adjacency("l1", np.float32(0.1)).bound) == "0.10000000149011612"
    assert json.dumps(PrivacyLoss(mu=np.float32(0.1)).mu) == "0.10000000149011612"


def test_what_one_release_of_bits_implies_is_not_said_of_several():
    bits = MIDPRegressor(epsilon=0.2, mechanism="additive").fit(X, Y).guarantee_
    total = compose(bits, bits)
    assert bits.mechanism.count("implies") == total.mechanism.count("one release alone implies") == 1
    assert "implies" not in " ".join(total.assumptions)
    assert f"basic composition of 2 releases: {bits.mechanism}"[:80] in str(total)


@given(st.floats(0.0, allow_infinity=False, allow_nan=False), st.floats(0.0, 1.0))
def test_a_printed_guarantee_is_never_better_than_the_true_one(epsilon, delta):
    """Nor more than six digits of epsilon, or three of delta, worse; the largest floats are rounded up to infinity."""
    guarantee = PrivacyGuarantee(epsilon, delta)
    for text in (repr(guarantee), guarantee.to_markdown().splitlines()[2]):
        numbers = [float(number) for number in re.findall(r"inf|[\d.]+(?:e[+-]?\d+)?", text)]
        assert epsilon <= numbers[0] <= max(epsilon * (1 + 1e-5), epsilon + 5e-324)
        if delta:
            assert delta <= numbers[1] <= max(delta * 1.01, delta + 5e-324)


ROWS, LABELS = np.random.default_rng(0).normal(size=(40, 8)), np.arange(40) % 2
OPTIONS = {"adjacency", "calibration", "mechanism", "noise", "radius", "method", "batch_size"}


def variants(kind):
    """Estimators of a kind with all combinations of what decides on the mechanism, where they go together."""
    allowed = kind._parameter_constraints
    choices = {
        name: sorted(option for constraint in allowed[name] for option in getattr(constraint, "options", ()))
        for name in OPTIONS & allowed.keys()
    }
    needed = {"target_bounds": (0, 1), "estimator": skdprp.AMPClassifier(), "param_grid": {}}
    required = {name: value for name, value in needed.items() if name in inspect.signature(kind).parameters}
    for known in ParameterGrid({name: options for name, options in choices.items() if options}):
        yield kind(**known | required)


KINDS = [
    kind
    for kind in (getattr(skdprp, name) for name in skdprp.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and "epsilon" in kind._parameter_constraints
]


def guarantees_of(estimator):
    """Guarantees of all that an estimator releases; none where its parameters do not go together."""
    for name in ("fit", "sketch"):
        try:
            if hasattr(estimator, name):
                getattr(estimator, name)(ROWS, LABELS)
                yield estimator.guarantee_
        except ValueError:
            return


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_how_long_it_took_is_not_covered(kind):
    """Time is a release of its own, outside of every guarantee: steps of a solver, sizes of batches, zeros of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [guarantee for estimator in variants(kind) for guarantee in guarantees_of(estimator)]
    assert found
    for guarantee in found:
        assert guarantee.unit == "nothing" or "the running time" in guarantee.not_covered, guarantee


BOUNDED = [kind for kind in KINDS if {"max_norm", "max_change", "max_abs"} & kind._parameter_constraints.keys()]


@pytest.mark.parametrize("kind", BOUNDED, ids=lambda kind: kind.__name__)
def test_who_takes_a_bound_assumes_that_it_does_not_come_from_the_data(kind):
    """Only classifiers said so; of a bound that is the norm of the longest row, nothing that they state is true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [guarantee for estimator in variants(kind) for guarantee in guarantees_of(estimator)]
    assert found
    for guarantee in found:
        assert guarantee.unit == "nothing" or PARAMETERS_ARE_PUBLIC in guarantee.assumptions, guarantee


def test_a_total_says_once_that_bounds_do_not_come_from_the_data():
    steps = DPPCA(2, delta=1e-6), AMPClassifier(delta=1e-6)
    printed = " ".join(str(privacy_report(make_pipeline(*steps).fit(ROWS, LABELS))).split())
    assert printed.count(PARAMETERS_ARE_PUBLIC) == 1
    guarantees = [DPRidge(target_bounds=(0, 1), delta=1e-6).fit(ROWS, LABELS).guarantee_, steps[1].guarantee_]
    assert compose(*guarantees).assumptions.count(PARAMETERS_ARE_PUBLIC) == 1


def test_what_a_release_hides_stays_with_it_and_no_total_has_it():
    sketch = DPOPORP(2, epsilon=1.0).fit([[0.0, 1.0]])
    guarantee = sketch.guarantee_
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))).hides == guarantee.hides > 1
    assert compose(guarantee, guarantee).hides is None and compose(guarantee).hides == guarantee.hides
    for void in (guarantee.mark_seeded(), replace(guarantee, violation="an attack")):
        assert "hides " in str(guarantee) and "hides " not in str(void)
    facts = guarantee.to_dict()
    del facts["hidden_changes"]  # as files of before have it
    assert PrivacyGuarantee.from_dict(facts) == replace(guarantee, hidden_changes=None)
    for changes in (-1.0, np.nan):
        with pytest.raises(ValueError, match=r"hides .* changes"):
            replace(guarantee, hidden_changes=changes)
    # Of rows that a map halves, changes are as many and half as large; a replaced row is no distance.
    assert replace(guarantee, adjacency=Adjacency("l1", 0.5)).hides == guarantee.hides / 2
    assert replace(guarantee, adjacency=Adjacency("replace_one")).hides is None
    with pytest.warns(skdprp.PrivacyWarning, match="no guarantee"):
        assert DPOPORP(2, epsilon=600.0, noise="laplace").fit([[0.0, 1.0]]).guarantee_.hides is None


def test_each_assumption_has_a_line_of_its_own():
    """Also a text that looks like markup, or like several lines, is one line of a list."""
    guarantee = PrivacyGuarantee(1.0, 0.0, assumptions=("n is <public>", "a\nb " * 30), not_covered=("the time",))
    text = str(guarantee)
    assert "\nassumed     - n is <public>\n            - a b a b" in text and text.endswith("\nnot covered - the time")
    assert max(map(len, text.splitlines())) <= 100 and text.count("- ") == 3
    assert "<li>n is &lt;public&gt;</li><li>a" in guarantee._repr_html_()
    assert "| assumed | - n is <public><br>- a b" in guarantee.to_markdown()
    assert "\nassumed     nothing" in str(PrivacyGuarantee(1.0, 0.0))


def test_what_says_most_is_printed_first():
    text = str(PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("replace_one"), source="a proof"))
    names = [line[:12].rstrip() for line in text.splitlines()]
    assert names == ["guarantee", "best guess", "unit", "neighbours", "assumed", "source"]
    assert (
        "equally likely is right in at most 73.2 of 100\n" in text
        and "\nunit        one row with its label or target\n" in text
    )


@pytest.mark.parametrize("relation", ["coordinate", "l1", "l2", "entry"])
def test_distances_say_where_they_are_measured_and_replaced_rows_need_not(relation):
    """A scaler before a release moves rows apart, whoever states the distance; a row replaced before is one after."""
    adjacency = Adjacency(relation, 1.0)
    stated = dataclasses.replace(PURE, adjacency=adjacency, hidden_changes=0.5)
    assert str(adjacency).endswith(", as they reach each release")
    assert "rows as they reach each release: the best guess" in " ".join(str(stated).split())
    assert str(dataclasses.replace(adjacency, after="scaler")).endswith(", as they leave scaler")
    for place in ("replace_one", "add_remove"):
        assert "as they" not in str(Adjacency(place))


def test_a_unit_of_ones_own_is_printed_and_short_names_are_those_of_rows_and_persons():
    """The unit "one patient" was printed as a row."""
    replaced, blank = Adjacency("replace_one"), Adjacency("add_remove")
    assert repr(PrivacyGuarantee(1.0, 0.0, unit="one patient", adjacency=replaced)) == "1.0-DP, one patient replaced"
    assert repr(PrivacyGuarantee(1.0, 0.0, unit="one patient", adjacency=blank)) == "1.0-DP, one patient blank or not"
    assert "data sets that differ in one patient" in str(
        PrivacyGuarantee(1.0, 0.0, unit="one patient", adjacency=blank)
    )
    for unit in ("person", "one person"):
        assert PrivacyGuarantee(1.0, 0.0, unit=unit).unit == "one person (all of its rows)"
    assert PrivacyGuarantee(1.0, 0.0, unit="row") == PrivacyGuarantee(1.0, 0.0)


def test_what_is_assumed_of_several_steps_is_printed_once():
    assumed = ("a: no row is moved", "all is public", "b, a: no row is moved", "all is public")
    guarantee = PrivacyGuarantee(1.0, 0.0, assumptions=assumed)
    for printed in (str(guarantee), guarantee._repr_html_(), guarantee.to_markdown()):
        assert printed.count("a, b: no row is moved") == printed.count("no row") == printed.count("all is public") == 1


def test_texts_and_counts_are_checked():
    """A list of assumptions was another guarantee than its own copy, and a text one assumption for each letter."""
    adjacency = Adjacency("replace_one")
    listed = PrivacyGuarantee(1.0, 0.0, adjacency=adjacency, assumptions=["n is public"], not_covered=[])
    assert PrivacyGuarantee.from_dict(listed.to_dict()) == listed == replace(listed, assumptions=("n is public",))
    assert hash(listed) and compose(listed, listed).assumptions[0] == "n is public"
    assert type(PrivacyGuarantee(1.0, 0.0, n_releases=np.int64(2)).n_releases) is int
    for name in ("assumptions", "not_covered"):
        assert getattr(PrivacyGuarantee(1.0, 0.0, **{name: iter(["a"])}), name) == ("a",)
        for texts in ("n is public", [1], ["a", None], None, 7):
            with pytest.raises(TypeError, match=f"{name} must be a tuple of texts"):
                PrivacyGuarantee(1.0, 0.0, **{name: texts})
    for count in (0, -3, 1.5, "two", None, True):
        with pytest.raises(ValueError, match="n_releases must be a whole number"):
            PrivacyGuarantee(1.0, 0.0, n_releases=count)
