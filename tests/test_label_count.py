"""Counts of labels: exact, priced, and taken where they pay."""

import numpy as np
import pytest

from skdprp.mechanisms import gaussian_profile
from skdprp.mechanisms.label_count import LabelCount, gaussian_label_count, laplace_label_count


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_a_count_takes_its_share(epsilon):
    """A hundredth of the squared shift that meets the target, or a fiftieth of epsilon."""
    count = gaussian_label_count(epsilon, 1e-6, n_samples=1000)
    assert gaussian_profile(epsilon, scale=count.scale / 10) == pytest.approx(1e-6, rel=1e-6)
    assert count.profile_argument == {"count_shift": 1 / count.scale}
    assert count.deviation == count.scale
    count = laplace_label_count(epsilon, n_samples=1000)
    assert count.profile_argument == {"count_epsilon": pytest.approx(epsilon / 50)}
    assert count.deviation == pytest.approx(50 * np.sqrt(2) / epsilon)


@pytest.mark.parametrize("is_gaussian", [True, False])
def test_a_count_pays_from_forty_deviations_on(is_gaussian):
    scale = 10.0 if is_gaussian else 10 / np.sqrt(2)
    assert LabelCount(401, scale, is_gaussian).pays
    assert not LabelCount(399, scale, is_gaussian).pays


def test_the_share_is_exact_but_for_the_noise_and_the_edges(silenced_noise):
    """No nearer to none, or to all, than two deviations, and to half a row."""
    for is_gaussian in (True, False):
        assert LabelCount(100, 2.0, is_gaussian).release(30) == 0.3
        edge = 0.1 if is_gaussian else 0.1 * np.sqrt(2)
        for number, share in ((0, edge), (100, 1 - edge)):
            assert LabelCount(100, 5.0, is_gaussian).release(number) == pytest.approx(share, rel=1e-12)
        assert LabelCount(100, 1e-6, is_gaussian).release(0) == 0.005
        assert LabelCount(100, 1e6, is_gaussian).release(30) == 0.5


@pytest.mark.parametrize("is_gaussian", [True, False])
def test_the_noise_is_that_of_its_name(is_gaussian, seeded):
    """Means of the absolute value tell them apart: sqrt(2 / pi) scales, and one."""
    count = LabelCount(10**6, 100.0, is_gaussian)
    noise = [count.release(500_000) * 10**6 - 500_000 for _ in range(4000)]
    expected = 100 * (np.sqrt(2 / np.pi) if is_gaussian else 1.0)
    assert np.abs(noise).mean() == pytest.approx(expected, rel=0.08)
    assert np.std(noise) == pytest.approx(count.deviation, rel=0.1)
