"""Private models of other libraries, as their documentation sets them up; one that cannot be imported is a text.

What a model states of itself stands beside it. Bounds and categories are public; where a library leaves a setting to
its users, it is said.
"""

from functools import partial

import numpy as np

EPOCHS, BATCHES, RATE = 10, 20, 2.0  # of Opacus, which leaves them to its users: the best of 0.5, 2 and 8 on digits


def peer(load):
    """Return what `load` imports, or the error that stops it, as text."""
    try:
        return load()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def load_diffprivlib():
    """Logistic and linear regression, and the Gaussian mechanism, of diffprivlib."""
    from diffprivlib import mechanisms, models

    return models.LogisticRegression, models.LinearRegression, mechanisms.GaussianAnalytic


def load_boosting():
    """DP-EBM of interpret-core: a classifier of two classes, and a regressor."""
    from interpret import privacy

    return privacy.DPExplainableBoostingClassifier, privacy.DPExplainableBoostingRegressor


def load_opacus():
    """Opacus and PyTorch, on one thread as all others."""
    import opacus
    import torch

    torch.set_num_threads(1)
    return opacus.PrivacyEngine, torch


def load_theil_sen():
    """Linear regression of OpenDP, of one feature."""
    import opendp.prelude as dp
    from opendp.extras.sklearn.linear_model import LinearRegression

    dp.enable_features("contrib", "floating-point", "honest-but-curious", "idealized-numerics")
    return partial(LinearRegression, dp.max_divergence())


class OpacusClassifier:
    """A linear classifier by DP-SGD of Opacus."""

    def __init__(self, found, *, epsilon, delta):
        self.engine, self.torch = found
        self.epsilon, self.delta = epsilon, delta

    def fit(self, X, y):
        """Train with the noise that Opacus finds for its epsilon."""
        torch, self.classes_ = self.torch, np.unique(y)
        pairs = torch.utils.data.TensorDataset(torch.tensor(X).float(), torch.tensor(np.searchsorted(self.classes_, y)))
        module, loss = torch.nn.Linear(X.shape[1], len(self.classes_)), torch.nn.CrossEntropyLoss()
        self.model_, optimizer, loader = self.engine(accountant="prv").make_private_with_epsilon(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=RATE),
            data_loader=torch.utils.data.DataLoader(pairs, batch_size=len(X) // BATCHES),
            target_epsilon=self.epsilon,
            target_delta=self.delta,
            epochs=EPOCHS,
            max_grad_norm=1.0,
        )
        for _ in range(EPOCHS):
            for rows, labels in loader:
                optimizer.zero_grad()
                loss(self.model_(rows), labels).backward()
                optimizer.step()
        return self

    def predict_proba(self, X):
        """Probability of each class."""
        with self.torch.no_grad():
            return self.model_(self.torch.tensor(X).float()).softmax(dim=1).numpy()

    def score(self, X, y):
        """Accuracy."""
        return np.mean(self.classes_[self.predict_proba(X).argmax(axis=1)] == y)


class TheilSenRegressor:
    """A line through one column of a table, of OpenDP, at the scale whose privacy map gives epsilon."""

    def __init__(self, load, column, bounds, target_bounds, *, epsilon):
        self.load, self.column, self.bounds = load, column, bounds
        self.target_bounds, self.epsilon = target_bounds, epsilon

    def fit(self, X, y):
        """Fit a line to one column."""
        build = partial(self.load, [self.bounds[self.column]], self.target_bounds)
        low, high = 1e-3, 1e6
        while high / low > 1.001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if build(scale=middle).measurement.map(1) > self.epsilon else (low, middle)
        self.model_ = build(scale=high).fit(X[[self.column]].to_numpy(float), np.asarray(y, float))
        return self

    def predict(self, X):
        """Predict by the line."""
        return self.model_.predict(X[[self.column]].to_numpy(float))
