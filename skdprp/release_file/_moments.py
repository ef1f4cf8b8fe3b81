"""Moments in files."""

import re
from dataclasses import asdict

import numpy as np

from ..guarantee import PrivacyGuarantee
from ..moments import Columns, GaussianNoise, Moments
from ._file import agree, check_description, read, write


def save_moments(path, moments, *, description=""):
    """Write released moments and their guarantee to one file.

    Parameters
    ----------
    path : str or Path
        The file, by custom with the suffix .npz; overwritten.
    moments : Moments
        A release, such as ``DPMoments(...).fit(X, y).moments_``; of a secret projection there is no file.
    description : str, default=""
        Public words for the recipient, up to 10,000 characters: what a row is, how it was scaled. No guarantee covers
        them: write nothing that was read off the rows.

    Raises
    ------
    TypeError
        If these are no moments with Gaussian noise.
    ValueError
        If `description` is no such string. Nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skdprp import DPMoments, DPPCA, load_moments, save_moments
    >>> release = DPMoments(epsilon=2.0, delta=1e-6).fit(np.eye(3)).moments_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_moments(Path(folder, "table.npz"), release, description="three units")
    ...     loaded = load_moments(Path(folder, "table.npz"))
    >>> DPPCA().fit_moments(loaded).guarantee_
    (2.0, 1e-06)-DP, one row replaced
    """
    if not isinstance(moments, Moments) or type(moments.noise) is not GaussianNoise:
        raise TypeError("Expected Moments with Gaussian noise, such as DPMoments(...).fit(X).moments_.")
    check_description(description)
    facts = {
        "noise_scale": moments.noise.scale,
        "n_samples": moments.n_samples,
        "columns": asdict(moments.columns),
        "guarantee": moments.guarantee.to_dict(),
        "releases": list(moments.releases),
        "description": description,
    }
    write(path, facts, {"values": moments.values})


def load_moments(path):
    """Read moments back, and refuse them unless all parts of the file belong together.

    Parameters
    ----------
    path : str or Path
        A file written by :func:`save_moments`.

    Returns
    -------
    Moments

    Raises
    ------
    ValueError
        If the file holds no moments, is of an unknown format, was damaged, or its parts do not fit each other.

    Notes
    -----
    The checksum finds damage, not forgery: anybody who can write the file can write its checksum. Nothing is unpickled.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdprp import DPMoments, load_moments, save_moments
    >>> release = DPMoments().fit([[0.5, 0.5], [0.5, -0.5]]).moments_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_moments(Path(folder, "table.npz"), release)
    ...     load_moments(Path(folder, "table.npz")) == release
    True
    """
    return read(path, "load_moments", ("values",), _rebuild)


def _rebuild(facts, values):
    columns = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts["columns"].items()}
    columns = Columns(**columns)
    if type(columns.intercept) is not bool or not 0 < columns.max_norm < np.inf:
        raise ValueError("there is an intercept or none, and a norm.")
    lists = (columns.low, columns.high, columns.names)
    if {*map(type, lists)} != {tuple} or len(columns.high) != columns.n_targets or {*map(type, columns.names)} - {str}:
        raise ValueError("each target has two bounds, and names are texts.")
    size = columns.n_features + columns.intercept + columns.n_targets  # as numbers: lists so long would take memory
    agree("shape of the moments", values.shape, (size, size))
    agree("number of weights", len(columns.weights), size)
    guarantee = PrivacyGuarantee.from_dict(facts["guarantee"])
    if not (values.dtype == np.float64 and np.isfinite(values).all() and np.array_equal(values, values.T)):
        raise ValueError("the moments are no symmetric matrix of finite numbers.")
    if not (0 < facts["noise_scale"] < np.inf and type(facts["n_samples"]) is int and facts["n_samples"] > 0):
        raise ValueError("no moments have such noise, or such a number of rows.")
    releases = facts.get("releases", [])  # which files of before sums had them do not have
    is_sum_of = type(releases) is list and len(set(releases)) == len(releases)
    if not is_sum_of or not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in releases):
        raise ValueError("the releases of a sum have one digest each.")
    noise = GaussianNoise(facts["noise_scale"])
    return Moments(values, noise, facts["n_samples"], columns, guarantee, tuple(releases))
