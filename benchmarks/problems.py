"""The classification problems of the benchmarks: a9a and MNIST from a folder, or sets bundled with scikit-learn."""

import argparse
import gzip
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize

FILES = ("a9a", "a9a.t", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def add_data(parser):
    """Add the option that names the folder."""
    parser.add_argument("--data", type=_folder, help="folder with a9a and MNIST; default: bundled data")


def _folder(text):
    folder = Path(text)
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise argparse.ArgumentTypeError(f"{folder} has no {', '.join(missing)}")
    return folder


def read_adult(folder):
    """Adult income, 123 binary features, sparse; without a folder, two kinds of tumours."""
    if folder is None:
        X, y = load_breast_cancer(return_X_y=True)
        return train_test_split(StandardScaler().fit_transform(X), y, test_size=0.3, random_state=0)
    X, y = load_svmlight_file(str(folder / "a9a"), n_features=123)
    X_test, y_test = load_svmlight_file(str(folder / "a9a.t"), n_features=123)
    return X, X_test, y, y_test


def read_idx(path, offset):
    """Bytes of a gzipped idx file after its header."""
    with gzip.open(path) as file:
        return np.frombuffer(file.read()[offset:], np.uint8)


def read_digits(folder):
    """Eight thousand digits of MNIST to learn from, two thousand to test; without a folder, the small ones."""
    if folder is None:
        return train_test_split(*load_digits(return_X_y=True), test_size=0.3, random_state=0)
    X = read_idx(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255.0
    y = read_idx(folder / "t10k-labels-idx1-ubyte.gz", 8)
    return X[:8000], X[8000:], y[:8000], y[8000:]


def unit_rows(split):
    """Bring the rows of a problem to unit norm."""
    X, X_test, *labels = split
    return normalize(X), normalize(X_test), *labels


def read_data(folder):
    """All data sets, rows of unit norm."""
    names = ("breast_cancer", "digits") if folder is None else ("a9a", "mnist")
    return {name: unit_rows(read(folder)) for name, read in zip(names, (read_adult, read_digits), strict=True)}


def mean_score(model, split, draws):
    """Mean accuracy over fresh fits, and its standard error."""
    X, X_test, y, y_test = split
    scores = [clone(model).fit(X, y).score(X_test, y_test) for _ in range(draws)]
    return np.mean(scores), np.std(scores) / np.sqrt(draws)
