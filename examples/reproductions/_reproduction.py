"""What the reproductions share: command line, data sets, colours, the sketches by their published names, and output."""

import argparse
import csv
import gzip
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import PolynomialFeatures

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP

# Distinguishable without colour vision: M. Okabe and K. Ito, "Color Universal Design", 2008.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
MARKERS = "osD^vPX*"


def parse_arguments(script, *, full, data=None):
    """Parse the command line of a reproduction, and set the colours of its figures.

    Parameters
    ----------
    script : str
        Name of the script without ``plot_`` and ``.py``: that of its picture and its table.
    full : str
        What ``--full`` does.
    data : str or None, default=None
        Which files ``--data DIR`` should hold; None if the script takes no data.

    Returns
    -------
    argparse.Namespace
        ``full``, ``output`` and, if there is any, ``data``.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--output", type=Path, help=f"folder for {script}*.png and {script}*.csv")
    if data:
        parser.add_argument("--data", type=Path, help=f"folder with {data}; default: data bundled with scikit-learn")
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=COLORS)
    plt.rcParams["legend.fontsize"] = "small"
    return parser.parse_args()


def save(options, name, figure, rows):
    """Write the picture and its numbers, if a folder was named; and show the numbers.

    Parameters
    ----------
    options : argparse.Namespace
        The command line.
    name : str
        Name of both files, without a suffix.
    figure : Figure
        The picture.
    rows : list of dict
        The numbers, a line each.
    """
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        figure.savefig(options.output / f"{name}.png", dpi=150)
        with open(options.output / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


def _read_idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def read_digits(folder):
    """Read handwritten digits with pixels from 0 to 1.

    Parameters
    ----------
    folder : Path or None
        Where MNIST is: the training set if it is there, with the test set or else alone the latter. None takes the
        small digits of scikit-learn.

    Returns
    -------
    X : ndarray of shape (n_rows, 784) or (n_rows, 64)
    y : ndarray of shape (n_rows,)
    name : str
    """
    if folder is None:
        X, y = load_digits(return_X_y=True)
        return X / 16, y, "small digits"
    parts = [part for part in ("train", "t10k") if (folder / f"{part}-images-idx3-ubyte.gz").exists()]
    images = [_read_idx(folder / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for part in parts]
    labels = [_read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8) for part in parts]
    return np.vstack(images) / 255, np.concatenate(labels), "MNIST"


def read_text(folder, n_features):
    """Read sparse rows of zeros and ones with two classes.

    Parameters
    ----------
    folder : Path or None
        Where SMSSpamCollection is: which character 3-grams a message has, hashed, and whether it is spam. None takes
        the small digits: which pairs of pixels are both inked, and whether the digit is above four.
    n_features : int
        Number of hashed features.

    Returns
    -------
    X : CSR sparse of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    name : str
    """
    if folder is None:
        X, y = load_digits(return_X_y=True)
        pairs = PolynomialFeatures(interaction_only=True, include_bias=False).fit_transform(X > 7)[:, 64:]
        import scipy.sparse as sp

        return sp.csr_array(pairs.astype(float)), (y > 4).astype(int), "pairs of inked pixels"
    lines = (folder / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    labels, messages = zip(*(line.split("\t", 1) for line in lines), strict=True)
    hashing = HashingVectorizer(
        analyzer="char", ngram_range=(3, 3), n_features=n_features, binary=True, norm=None, alternate_sign=False
    )
    return hashing.transform(messages), (np.array(labels) == "spam").astype(int), "3-grams of text messages"


def published_sketches(n_components, epsilon, **public):
    """Return the sketches of [LL] by their names there.

    Parameters
    ----------
    n_components : int
        Number k of components.
    epsilon : float
        The guarantee; delta is 1e-6 where there is one.
    **public
        Further parameters of all, like `random_state`.

    Returns
    -------
    dict of str to estimator
    """
    additive = {"epsilon": epsilon, "delta": 1e-6, **public}
    signs = {"epsilon": epsilon, **public}
    return {
        "Raw-data-G-OPT": DPRandomProjection(projection="identity", **additive),
        "DP-RP-L": DPRandomProjection(n_components, projection="gaussian", noise="laplace", **additive),
        "DP-RP-G": DPRandomProjection(n_components, projection="gaussian", calibration="kenthapadi", **additive),
        "DP-RP-G-OPT": DPRandomProjection(n_components, projection="gaussian", **additive),
        "DP-RP-G-OPT-B": DPRandomProjection(n_components, **additive),
        "DP-OPORP": DPOPORP(n_components, **additive),
        "DP-SignRP-RR": DPSignRP(n_components, method="rr", **signs),
        "DP-SignRP-RR-smooth": DPSignRP(n_components, **signs),
        "DP-SignOPORP-RR": DPSignOPORP(n_components, method="rr", **signs),
        "DP-SignOPORP-RR-smooth": DPSignOPORP(n_components, **signs),
    }
