"""The guarantee as a value."""

import dataclasses
import pickle

import numpy as np
import pytest

from skdprp import PrivacyGuarantee


def test_repr_names_bound_and_definition():
    assert repr(PrivacyGuarantee(1.0, 1e-6)) == "(1.0, 1e-06)-DP"
    assert repr(PrivacyGuarantee(np.float64(0.5), 0.0)) == "0.5-DP"
    assert repr(PrivacyGuarantee(2, 1e-9, definition="individual DP")) == "(2, 1e-09)-individual DP"


def test_repr_rounds_no_digit_away():
    assert repr(PrivacyGuarantee(0.1 + 0.2, 0.0)) == "0.30000000000000004-DP"


def test_str_states_every_fact():
    facts = {"unit": "one user", "adjacency": "l2", "released": "rows", "mechanism": "Gaussian", "source": "Theorem 8"}
    text = str(PrivacyGuarantee(1.0, 1e-6, assumptions=("n is public", "W is public"), **facts))
    assert all(f"{name:<12}{fact}\n" in text + "\n" for name, fact in facts.items())
    assert "n is public; W is public" in text


def test_guarantee_is_a_frozen_value():
    guarantee = PrivacyGuarantee(1.0, 1e-6, assumptions=("n is public",))
    assert guarantee == pickle.loads(pickle.dumps(guarantee)) and hash(guarantee) == hash(
        dataclasses.replace(guarantee)
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1


def test_seeded_guarantee_says_that_it_is_void():
    assert repr(PrivacyGuarantee(1.0, 0.0).mark_seeded()) == "1.0-DP [seeded: not private]"
