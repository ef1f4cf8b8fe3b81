"""DPPCA: principal components under noise, and what they explain."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skdprp import DPOPORP, DPPCA, AMPClassifier, DPMoments, DPRidge, add_moments, compose, privacy_report
from skdprp.testing import reproducible_noise


def table(n_rows=3000):
    """Rows of norm at most 1 with a mean and variances that differ by column and direction."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    return 0.1 + rng.uniform(-0.5, 0.5, (n_rows, 5)) * [0.6, 0.4, 0.2, 0.1, 0.05] @ turn


def test_without_noise_it_is_pca(silenced_noise):
    X = table()
    model = DPPCA(epsilon=100.0).fit(X)
    other = PCA().fit(X)
    np.testing.assert_allclose(np.abs(np.sum(model.components_ * other.components_, axis=1)), 1, rtol=1e-9)
    np.testing.assert_allclose(model.mean_, other.mean_, rtol=1e-12)
    # The noise that is known to be there is taken off, though it is silenced.
    np.testing.assert_allclose(model.explained_variance_, other.explained_variance_, rtol=0.02, atol=3e-4)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-12)
    assert model.components_[np.arange(5), np.abs(model.components_).argmax(axis=1)].min() > 0


def test_rows_of_all_kinds_are_transformed_alike(seeded):
    X = table(50)
    model = DPPCA(2).fit(X)
    dense = model.transform(X)
    np.testing.assert_allclose(model.transform(sp.csr_array(X)), dense, rtol=1e-12)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(dense, (X - model.mean_) @ model.components_.T, atol=1e-12)
    far = 100 * X
    np.testing.assert_allclose(model.transform(far), model.transform(far / np.linalg.norm(far, axis=1)[:, None]))
    assert model.get_feature_names_out().tolist() == ["dppca0", "dppca1"]


@pytest.mark.parametrize("epsilon", [3.0, 10.0])
def test_the_explained_variance_is_what_released_components_explain(epsilon):
    """On average over 30 draws, of components that stand out of the noise: not what noise adds to eigenvalues."""
    X = load_digits().data / 16 - 0.5
    said, true, noisy = [], [], []
    with reproducible_noise(0):
        for _ in range(30):
            model = DPPCA(2, epsilon=epsilon, delta=1e-6, max_norm=4.0).fit(X)
            said.append(model.explained_variance_)
            true.append(np.var(model.transform(X), axis=0))
            covariance = model.moments_.gram / len(X) - np.outer(model.mean_, model.mean_)
            noisy.append(np.linalg.eigvalsh(covariance)[:-3:-1])
    error = np.abs(np.mean(said, axis=0) - np.mean(true, axis=0)).max()
    assert error < 0.12 * np.mean(true)
    assert error < np.abs(np.mean(noisy, axis=0) - np.mean(true, axis=0)).max()


def test_what_stands_out_of_the_noise_grows_with_epsilon(seeded):
    X = load_digits().data / 16 - 0.5
    fits = [DPPCA(epsilon=epsilon, max_norm=4.0).fit(X) for epsilon in (0.01, 1.0, 30.0)]
    counts = [np.count_nonzero(fit.explained_variance_) for fit in fits]
    assert counts[0] <= 2 < counts[1] < counts[2] < 64
    assert 0.8 < fits[2].explained_variance_ratio_.sum() <= 1


def test_components_follow_from_moments_that_were_released():
    X = table()
    halves = [DPMoments(epsilon=3.0, delta=1e-6).fit(half).moments_ for half in (X[:1500], X[1500:])]
    model = DPPCA(1).fit_moments(add_moments(*halves, disjoint=True))
    assert model.guarantee_.epsilon == 3.0
    assert model.transform(X).shape == (3000, 1)
    assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match="fit_intercept=True"):
        model.fit_moments(DPMoments(fit_intercept=False).fit(X).moments_)
    with pytest.raises(TypeError, match="Expected Moments"):
        model.fit_moments(DPMoments().fit(X))


def test_names_of_features_come_with_moments():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table(), columns=list("abcde"))
    model = DPPCA(1).fit_moments(DPMoments().fit(frame).moments_)
    assert model.feature_names_in_.tolist() == list("abcde")
    model.transform(frame)


@pytest.mark.parametrize(
    ("n_components", "message"), [(6, "more than the 5 features"), (0, "n_components"), ("auto", "n_components")]
)
def test_numbers_of_components_that_cannot_be_are_refused(n_components, message):
    model = DPPCA(n_components)
    with pytest.raises(ValueError, match=message):
        model.fit(table())
    assert not hasattr(model, "components_")


def test_chunks_are_one_table(silenced_noise):
    X = table()
    whole, parts = DPPCA(2).fit(X), DPPCA(2).fit_chunks(np.split(X, 10))
    np.testing.assert_allclose(parts.components_, whole.components_, atol=1e-9)


# Reports


def test_components_and_what_learns_on_them_add_up():
    """The components are released, and the model after them is private by itself."""
    X = table(500)
    pipe = make_pipeline(DPPCA(2, delta=1e-6), DPRidge(target_bounds=(-1, 1), delta=1e-6)).fit(X, X[:, 0])
    total = privacy_report(pipe).total
    assert total.epsilon == compose(*(step.guarantee_ for step in pipe)).epsilon
    assert 1.3 < total.epsilon < 2


def test_transformed_rows_are_not_private():
    X = table(500)
    report = privacy_report(make_pipeline(DPPCA(2), LinearRegression()).fit(X, X[:, 0]))
    assert report.total is None
    assert report.steps[-1].status == "not covered"


def test_a_sketch_of_components_has_other_neighbours_than_these():
    """A bounded change of a projected row is none of the rows that the components were computed from."""
    X = table(500)
    assert privacy_report(make_pipeline(DPPCA(2), DPOPORP(2), LinearRegression()).fit(X, X[:, 0])).total is None


def test_private_regression_composes_with_private_classification():
    X = table(500)
    ridge = DPRidge(target_bounds=(-1, 1), delta=1e-6).fit(X, X[:, 0])
    classifier = AMPClassifier(delta=1e-6, classes=[False, True]).fit(X, X[:, 0] > 0.1)
    assert 1.3 < compose(ridge.guarantee_, classifier.guarantee_).epsilon < 2


def test_rows_of_another_width_have_no_inverse(seeded):
    with pytest.raises(ValueError, match="X has 5 columns, and there are 2 components"):
        DPPCA(2).fit(table(50)).inverse_transform(table(3))
