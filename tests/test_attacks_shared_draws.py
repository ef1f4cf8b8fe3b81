"""Attacks on shared projections, radii of many dimensions, exact tails, plans in threads, encoders and chunks."""

import math
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import stats
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline, make_union

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPSignRP,
    PrivacyLedger,
    _noise,
    compose,
    make_table_preprocessor,
    privacy_report,
    transform_chunks,
)
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.mechanisms import (
    gaussian_profile,
    randomised_response_profile,
    secret_projection_profile,
    spherical_profile,
)
from skdprp.testing import reproducible_noise


@pytest.mark.parametrize("calibration", ["exact", "published"])
@pytest.mark.parametrize("n_releases", [2, 5])
def test_bits_of_distant_rows_that_share_a_projection_lose_no_more_together_than_is_composed(calibration, n_releases):
    """Of one drawn W the same signs differ in each release: all of them are as many bits, or none."""
    for k, min_norm, epsilon, delta in [(4, 0.7, 2.0, 1e-2), (16, 3.0, 1.0, 1e-6), (20, 20.0, 0.5, 1e-8)]:
        known = {"method": "rr", "projection": "gaussian", "min_norm": min_norm, "calibration": calibration}
        sketch = DPSignRP(k, epsilon=epsilon, delta=delta, random_state=0, **known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sketch.fit(np.eye(2))
        together = compose(*[sketch.guarantee_] * n_releases)
        differ = stats.binom.pmf(np.arange(k + 1), k, 2 / np.pi * np.arcsin(min(1 / min_norm, 2.0) / 2))
        for share in (0.0, 0.3, 1.0):
            at = share * together.epsilon
            exact = sum(
                p * randomised_response_profile(at, epsilon0=sketch.flip_epsilon_, n_bits=n_releases * n)
                for n, p in enumerate(differ)
                if n
            )
            assert exact <= together.loss.profile(at) * (1 + 1e-9)


def distant(delta, min_norm):
    """Guarantees of bits of one sketch at two epsilons, whose delta is the chance that one drawn W tells rows apart."""
    known = {"delta": delta, "method": "rr", "projection": "gaussian", "min_norm": min_norm, "random_state": 0}
    return [DPSignRP(1, epsilon=epsilon, **known).fit(np.ones((1, 2)) * 9 * min_norm) for epsilon in (0.01, 0.02)]


# Once as by independent draws, 1 - (1 - .3)^2 = .51: rows u and its columns exchanged, of whose two signs one differs.
@pytest.mark.parametrize(("delta", "min_norm"), [(0.3, 1.102), (0.05, 6.4), (1e-2, 31.9)])
@pytest.mark.parametrize("n_halves", [2, 3])
def test_deltas_over_one_draw_add_up_after_a_total_of_disjoint_parts(delta, min_norm, n_halves):
    """Each half has one release of the row and one of others; the failures of one W may exclude each other."""
    one, more = (sketch.guarantee_ for sketch in distant(delta, min_norm))
    half = compose(one, more, disjoint=True)
    assert half.profile(1.0) == max(one.profile(1.0), more.profile(1.0))
    total = compose(*[half] * n_halves)
    assert n_halves * delta * (1 - 1e-9) <= total.profile(1.0) <= n_halves * delta * (1 + 1e-9)
    assert total.profile(1.0) == compose(*[one] * n_halves).profile(1.0)


def test_deltas_over_one_draw_add_up_in_a_ledger_of_two_divisions():
    one, more = distant(0.3, 1.102)
    row = np.array([[np.sqrt(1.102**2 - 0.25) * (1 + 1e-9), 0.5]])
    with PrivacyLedger() as ledger:
        for division, rows in (("region", row), ("age", np.ascontiguousarray(row[:, ::-1]))):
            with ledger.part("first", division=division):
                one.transform(rows)
            with ledger.part("second", division=division):
                more.transform(2 * row)
    assert ledger.total()[0].guarantee.profile(1.0) >= 0.6 * (1 - 1e-9)


@pytest.mark.parametrize("calibration", ["analytic_bound", "kenthapadi_bound"])
def test_sketches_of_a_scale_set_before_the_draw_lose_no_more_together_than_is_composed(calibration):
    """Of one drawn W the sensitivity is the same in each release: delta is that of all, averaged over the draw."""
    levels = (np.arange(400) + 0.5) / 400
    for k, n_features, epsilon, delta in [(1, 1, 1.0, 1e-2), (8, 12, 3.0, 1e-6), (46, 5, 0.4, 0.1)]:
        sketch = DPRandomProjection(
            k, projection="gaussian", calibration=calibration, epsilon=epsilon, delta=delta, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sketch.fit(np.eye(n_features))
        norms = np.sqrt(stats.chi2.ppf(levels ** (1 / n_features), k) / k)  # the largest of all rows of W
        for n_releases in (2, 6):
            together = compose(*[sketch.guarantee_] * n_releases)
            mus = norms * math.sqrt(n_releases) / sketch.scale_
            for at in (0.5 * together.epsilon, together.epsilon):
                exact = np.mean([gaussian_profile(at, scale=1.0, sensitivity=mu) for mu in mus])
                assert exact <= together.loss.profile(at)


def test_spherical_noise_of_gaussian_radius_is_gaussian_noise_in_millions_of_dimensions():
    """A quadrature over radii and a Beta distribution of so many dimensions stay above the closed form."""
    rng = np.random.default_rng(0)
    for n_dims in (2, 13, 64, 4095, 4096, 200_000, 30_000_000):
        for _ in range(4):
            epsilon, mu = 10 ** rng.uniform(-6, 1.3), 10 ** rng.uniform(-4, 1)
            exact = gaussian_profile(epsilon, scale=1 / mu)
            found = spherical_profile(epsilon, scale=math.sqrt(2) / mu, n_dims=n_dims, shape=n_dims, power=2)
            assert exact < 1e-30 or found * (1 + 2.0**-32) >= exact


@pytest.mark.parametrize("shape", [2.0**14, 2.0**14 + 0.5, 400_001.0])
def test_radii_that_are_sums_have_the_mean_and_the_variance_of_one_gamma_variate(shape):
    """Parts of a radius are as many as divide its shape exactly, and are drawn independently."""
    draws = np.array([_noise._standard_gamma(shape) for _ in range(1000)])
    assert abs(draws.mean() - shape) < 7 * math.sqrt(shape / draws.size)
    assert abs(draws.var() / shape - 1) < 8 * math.sqrt(2 / draws.size)
    assert len(np.unique(draws)) == draws.size
    with reproducible_noise(1):
        first = _noise._standard_gamma(shape), _noise._standard_gamma(shape)
    with reproducible_noise(1):
        assert first[0] == _noise._standard_gamma(shape) != first[1]


def tail_of_gamma(shape, x):
    """Probability that a Gamma variate of a whole shape is above x, a sum of Poisson terms."""
    term, total = Decimal(1), Decimal(0)
    for i in range(shape):
        total += term
        term *= x / (i + 1)
    return total * (-x).exp()


@pytest.mark.parametrize(("n_components", "scale"), [(2, 0.5), (40, 3.0), (200, 12.0)])
def test_deltas_of_a_secret_projection_are_not_below_sums_of_poisson_terms(n_components, scale):
    """Tails of chi-square of an even number of degrees are finite sums, here with 60 digits."""
    for epsilon in (0.01, 0.7, 3.0):
        stated = secret_projection_profile(
            epsilon, scale=scale, n_components=n_components, min_eigenvalue=1.0, adjacency="add_remove"
        )
        with localcontext() as context:
            context.prec = 60
            shape, gain = n_components // 2, 1 / (Decimal(scale) ** 2 + 1)
            t = (shape * (1 + gain).ln() + Decimal(epsilon)) / gain
            exact = tail_of_gamma(shape, t) - Decimal(epsilon).exp() * tail_of_gamma(shape, (1 + gain) * t)
            assert abs(exact / Decimal(stated) - 1) < Decimal(2) ** -32


def test_a_plan_that_tries_branches_in_threads_releases_nothing(monkeypatch):
    """A thread knows nothing of the plan that began it: sketches there would be real ones, of rows that are tried."""
    drawn, random_bytes = [], _noise.random_bytes
    monkeypatch.setattr(_noise, "random_bytes", lambda size: drawn.append(size) or random_bytes(size))
    X = np.random.default_rng(0).uniform(-1, 1, (100, 4))
    union = make_union(DPOPORP(2), DPOPORP(3), n_jobs=2)  # of which the total has a closed form
    model = make_pipeline(union, AMPClassifier(classes=[0, 1]))
    with parallel_config(backend="threading"), PrivacyLedger() as ledger:
        report = privacy_report(model, X, (X[:, 0] > 0).astype(int))
        assert not drawn
        assert not ledger.entries
    assert report.total is not None


def test_a_character_moves_no_more_trigrams_than_the_guide_counts_whatever_it_is_or_becomes():
    """Where it is or becomes a space, or another blank, words are joined or cut: six trigrams change at most."""
    rng, letters = np.random.default_rng(0), list("ab \t.\u00a0\u00e9\u2003-")
    texts, others = [], []
    for _ in range(3000):
        text = rng.choice(letters, rng.integers(1, 12))
        texts.append("".join(text))
        text[rng.integers(len(text))] = rng.choice(letters)
        others.append("".join(text))
    trigrams = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), norm=None, lowercase=False)
    moved = abs(trigrams.transform(texts) - trigrams.transform(others))
    assert moved.sum(axis=1).max() <= 6
    assert np.diff(moved.tocsr().indptr).max() <= 6


def test_an_answer_moves_prepared_rows_no_further_than_the_guide_says():
    """An answer that is missing or not listed leaves fewer ones, which are larger: the least number of ones counts."""
    rng = np.random.default_rng(0)
    bounds, categories = {"a": (0.0, 10.0), "b": (-1.0, 1.0)}, {name: ["x", "y", "z"] for name in "cdef"}
    one = pd.DataFrame({name: rng.uniform(low, high, 300) for name, (low, high) in bounds.items()})
    for name in categories:
        one[name] = rng.choice(["x", "y", "z", "other", None], 300)
    other = one.copy()
    for row, name in enumerate(rng.choice(list(one), 300)):
        values = [0.0, 5.0, 1e9, np.nan] if name in bounds else ["x", "y", "z", "new", None]
        other.loc[row, name] = values[rng.integers(len(values))]
    rows, others = (
        make_table_preprocessor(bounds, categories=categories, sparse_output=False).fit_transform(table)
        for table in (one, other)
    )
    least = np.minimum((rows != 0).sum(axis=1), (others != 0).sum(axis=1))
    moved = abs(rows - others)
    assert (moved.sum(axis=1) <= 2 / np.sqrt(least) * (1 + 1e-12)).all()
    assert (np.linalg.norm(moved, axis=1) <= np.sqrt(2 / least) * (1 + 1e-12)).all()


def refused():
    yield from (np.full((10, 4), np.nan if place == 5 else 0.0) for place in range(10))


def cut_off():
    yield from (np.zeros((10, 4)) for _ in range(5))
    raise ValueError("NaN")  # as a reader of a file may say


def ended():
    yield from (np.zeros((10, 4)) for _ in range(5))
    raise SystemExit("NaN")  # in a thread, that of joblib ended, and the main one waited for ever


def closed():
    yield from (np.zeros((10, 4)) for _ in range(5))
    raise GeneratorExit("NaN")  # which looked as if nobody wanted more


class OddError(Exception):
    """An error that a pickle does not make again: of workers, it cut off the pool of processes."""

    def __init__(self, of, what):
        super().__init__(f"{of} {what}")


def odd():
    yield from (np.zeros((10, 4)) for _ in range(5))
    raise OddError("NaN", "in a file")


@pytest.mark.parametrize("chunks", [refused, cut_off, ended, closed, odd])
@pytest.mark.parametrize(("n_jobs", "backend"), [(1, "threading"), (2, "threading"), (2, "loky")])
def test_rows_before_a_chunk_that_fails_are_in_the_output(n_jobs, backend, chunks):
    """They were released, and whoever goes on after those that are there would release them again."""
    sketch, out = DPOPORP(2).fit(np.zeros((1, 4))), np.full((100, 2), np.nan)
    errors = ValueError, SystemExit, GeneratorExit, OddError
    with pytest.raises(errors, match="NaN") as caught, parallel_config(backend=backend):
        transform_chunks(sketch, chunks(), out=out, n_jobs=n_jobs)
    assert np.isfinite(out).all(axis=1).sum() == 50
    assert "50 rows" in caught.value.__notes__[0]


def test_a_total_of_disjoint_parts_proves_what_each_of_them_proves():
    """By itself exactly that, whichever part fails more often; composed, no less than what fails in both."""
    moments = DPMoments(epsilon=1.0, delta=1e-6).fit(np.eye(4) / 2).guarantee_
    bare = PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one"))
    names = pd.DataFrame({"a": ["x"] * 500 + ["y"] * 500})
    counts = [DPHistograms(epsilon=epsilon, delta=0.1).fit(names).guarantee_ for epsilon in (1.0, 0.5)]
    for parts in ((moments, bare), counts, [compose(*counts, disjoint=True), moments]):
        total = compose(*parts, disjoint=True)
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            largest = max(part.profile(epsilon) for part in parts)
            assert largest <= total.profile(epsilon) <= largest * (1 + 1e-9)
        failures = [part.loss.failure_probability for part in parts if part.loss is not None]
        assert compose(total, total).profile(1.0) >= 2 * max(failures)
