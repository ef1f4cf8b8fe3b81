"""Ways to tell the outputs of two data sets apart.

A distinguisher looks at outputs of a and of b, two arrays of shape (n, rows, columns), and returns a score: a function
from such arrays to one number for each output, larger for what looks more like b. Whether the score is any good is
found out on other outputs.
"""

import numpy as np
from sklearn.covariance import ledoit_wolf
from sklearn.ensemble import HistGradientBoostingClassifier

_LARGEST_COVARIANCE = 2000  # 32 MB, and seconds to factorise
_CLASSIFIER_ENTRIES = 500_000  # to train on, for a second or two


def _flat(outputs):
    return outputs.reshape(len(outputs), -1)


def _mean_difference(a, b, *, thresholded):
    """Difference of the means; if thresholded, without the entries that chance explains, unless that is all of them."""
    difference = b.mean(axis=0) - a.mean(axis=0)
    # Largest of so many normal variables, up to its own spread: entries below it say more of chance than of b.
    chance = np.sqrt((a.var(axis=0) + b.var(axis=0)) / len(a) * 2 * np.log(max(difference.size, 2)))
    beyond_chance = np.where(np.abs(difference) > chance, difference, 0.0)
    return beyond_chance if thresholded and beyond_chance.any() else difference


def nearer_centre(a, b):
    """Score by which of two centres, the means of the outputs, is nearer."""
    a, b = _flat(a), _flat(b)
    middle, half = (a.mean(axis=0) + b.mean(axis=0)) / 2, _mean_difference(a, b, thresholded=True) / 2

    def _score(outputs):
        outputs = _flat(outputs) - middle
        return np.linalg.norm(outputs + half, axis=1) - np.linalg.norm(outputs - half, axis=1)

    return _score


def distance_to_a(a, b):
    """Score by the distance to the mean of the outputs of a."""
    centre = a.mean(axis=0)
    return lambda outputs: np.linalg.norm(_flat(outputs - centre), axis=1)


def distance_to_b(a, b):
    """Score by the distance to the mean of the outputs of b, negated."""
    distance = distance_to_a(b, a)
    return lambda outputs: -distance(outputs)


def linear(a, b):
    """Score by the projection on the difference of the means."""
    direction = _mean_difference(_flat(a), _flat(b), thresholded=False)
    return lambda outputs: _flat(outputs) @ direction


def discriminant(a, b):
    """Score by Fisher's linear discriminant, which finds combinations in which correlated or shared noise cancels."""
    a, b = _flat(a), _flat(b)
    both = np.concatenate([a, b])
    # Of numbers that are always the same, or nearly, no more is left than the rounding of their means.
    scale = np.maximum(both.std(axis=0), np.finfo(float).eps * np.abs(both).max(axis=0) + np.finfo(float).tiny)
    residuals = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)]) / scale
    n, dim = residuals.shape
    # Of few outputs a covariance has directions without any spread, which shrinkage keeps from standing out.
    covariance = residuals.T @ residuals / n if n > 4 * dim else ledoit_wolf(residuals, assume_centered=True)[0]
    difference = (b.mean(axis=0) - a.mean(axis=0)) / scale
    direction = np.linalg.solve(covariance + 1e-9 * np.eye(dim), difference) / scale
    return lambda outputs: _flat(outputs) @ direction


def classifier(a, b):
    """Score by a small boosted forest of scikit-learn."""
    size = max(10, _CLASSIFIER_ENTRIES // a[0].size)
    a, b = _flat(a)[:size], _flat(b)[:size]
    forest = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, early_stopping=False, random_state=0)
    forest.fit(np.concatenate([a, b]), np.repeat([0, 1], [len(a), len(b)]))
    return lambda outputs: forest.decision_function(_flat(outputs))


def _exact_values(features):
    """Make a distinguisher that recognises values of some features which come back exactly."""

    def _distinguisher(a, b):
        tables = []  # of each column: values, and the logarithm of the odds of b when they are seen
        for of_a, of_b in zip(features(a).T, features(b).T, strict=True):
            values, index = np.unique(np.concatenate([of_a, of_b]), return_inverse=True)
            sides = index[: len(of_a)], index[len(of_a) :]
            seen_a, seen_b = (np.bincount(side, minlength=len(values)) for side in sides)
            repeated = seen_a + seen_b > 1  # a value seen once says nothing of the next output
            tables.append((values[repeated], np.log((seen_b[repeated] + 0.5) / (seen_a[repeated] + 0.5))))

        def _score(outputs):
            score = np.zeros(len(outputs))
            for column, (values, odds) in zip(features(outputs).T, tables, strict=True):
                if len(values):
                    place = np.searchsorted(values, column).clip(max=len(values) - 1)
                    score += np.where(values[place] == column, odds[place], 0.0)
            return score

        return _score

    return _distinguisher


@_exact_values
def lowest_bits(outputs):
    """Exponent of the lowest bit that is set in each float: finer where floating-point addition has left it finer."""
    fraction, exponent = np.frexp(_flat(outputs))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    return np.where(mantissa == 0, 9999, exponent + np.frexp((mantissa & -mantissa).astype(float))[1])


@_exact_values
def differences(outputs):
    """Differences of adjacent rows, which are all that is left of the data where rows share their noise."""
    return _flat(np.diff(outputs, axis=1).astype(np.float32))  # less exact than any rounding of the sums


values = _exact_values(_flat)

BATTERY = {
    "nearer centre": nearer_centre,
    "distance to a": distance_to_a,
    "distance to b": distance_to_b,
    "linear": linear,
    "discriminant": discriminant,
    "classifier": classifier,
    "values": values,
    "lowest bits": lowest_bits,
    "differences": differences,
}


def battery(shape):
    """Distinguishers for outputs of a shape (rows, columns): all of them, unless a covariance would not fit."""
    return {
        name: distinguisher
        for name, distinguisher in BATTERY.items()
        if name != "discriminant" or np.prod(shape) <= _LARGEST_COVARIANCE
    }
