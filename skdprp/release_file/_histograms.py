"""Histograms of a table in files."""

from dataclasses import asdict

import numpy as np

from ..guarantee import PrivacyGuarantee
from ..histograms import CategoryCounts, Histograms, NumberHistogram
from ..histograms._cells import Cells
from ..histograms._columns import key_of
from ._file import agree, check_description, read, write

_CATEGORIES = {"str": str, "bytes": bytes.fromhex, "int": int, "float": float, "bool": bool}


def save_histograms(path, histograms, *, description=""):
    """Write released histograms of a table and their guarantee to one file.

    Parameters
    ----------
    path : str or Path
        The file, by custom with the suffix .npz; overwritten.
    histograms : Histograms
        A release, such as ``DPHistograms(...).fit(X).histograms_``.
    description : str, default=""
        Public words for the recipient, up to 10,000 characters: what a row is, when it was counted. No guarantee covers
        them: write nothing that was read off the rows.

    Raises
    ------
    TypeError
        If these are no histograms.
    ValueError
        If `description` is no such string. Nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skdprp import DPBinner, DPHistograms, load_histograms, save_histograms
    >>> release = DPHistograms(epsilon=2.0, delta=1e-6).fit(np.eye(3)).histograms_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_histograms(Path(folder, "table.npz"), release, description="three units")
    ...     loaded = load_histograms(Path(folder, "table.npz"))
    >>> DPBinner().fit_histograms(loaded).guarantee_
    (2.0, 1e-06)-DP, one row replaced
    """
    if not isinstance(histograms, Histograms):
        raise TypeError("Expected Histograms, such as DPHistograms(...).fit(X).histograms_.")
    check_description(description)
    described = [_describe_column(column) for column in histograms.columns]
    facts = {
        "noise_scale": histograms.scale,
        "threshold": None if np.isinf(histograms.threshold) else histograms.threshold,
        "n_samples": histograms.n_samples,
        "names": histograms.names,
        "columns": [facts for facts, _ in described],
        "guarantee": histograms.guarantee.to_dict(),
        "description": description,
    }
    write(path, facts, {"values": np.concatenate([values for _, values in described])})


def load_histograms(path):
    """Read histograms back, and refuse them unless all parts of the file belong together.

    Parameters
    ----------
    path : str or Path
        A file written by :func:`save_histograms`.

    Returns
    -------
    Histograms

    Raises
    ------
    ValueError
        If the file holds no histograms, is of an unknown format, was damaged, or its parts do not fit each other.

    Notes
    -----
    The checksum finds damage, not forgery: anybody who can write the file can write its checksum. Nothing is unpickled.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdprp import DPHistograms, load_histograms, save_histograms
    >>> release = DPHistograms().fit([[0.5, 0.5], [0.5, -0.5]]).histograms_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_histograms(Path(folder, "table.npz"), release)
    ...     load_histograms(Path(folder, "table.npz")) == release
    True
    """
    return read(path, "load_histograms", ("values",), _rebuild)


def _describe_column(column):
    """What is public of a column before its release, and the values that were released."""
    if isinstance(column, NumberHistogram):
        return asdict(column.cells), column.values
    facts = [column.missing, column.others]
    values = [*(column.counts or ()), *(fact for fact in facts if fact is not None)]
    return {
        # With their types: to JSON, bytes are nothing, and to Python True is 1.
        "categories": [
            (kind, name.hex() if kind == "bytes" else name) for kind, name in map(key_of, column.categories)
        ],
        "has": [column.counts is not None, *(fact is not None for fact in facts)],
    }, np.array(values)


def _rebuild(facts, values):
    scale, n_samples, names = facts["noise_scale"], facts["n_samples"], facts["names"]
    is_public = 0 < scale < np.inf and type(n_samples) is int and n_samples > 0
    if not (values.dtype == np.float64 and np.isfinite(values).all() and is_public):
        raise ValueError("no histograms have such values, such noise, or such a number of rows.")
    columns = []
    for column in facts["columns"]:
        if "categories" not in column:
            bounds = column["bounds"] and tuple(column["bounds"])
            cells = Cells(bounds, column["n_cells"])
            taken, values = np.split(values, [len(cells) + 1])
            agree("number of cells", len(taken), len(cells) + 1)
            columns.append(NumberHistogram(cells, taken, scale, n_samples))
            continue
        categories = tuple(_CATEGORIES[kind](name) for kind, name in column["categories"])
        sizes = np.array([len(categories), 1, 1]) * column["has"]
        counts, missing, others, values = np.split(values, np.cumsum(sizes))
        agree("number of counts", [len(counts), len(missing), len(others)], sizes.tolist())
        has_counts, has_missing, has_others = column["has"]
        columns.append(
            CategoryCounts(
                categories,
                tuple(counts.tolist()) if has_counts else None,
                missing.item() if has_missing else None,
                others.item() if has_others else None,
            )
        )
    agree("number of values that are left", len(values), 0)
    if names is not None:
        agree("number of names", len(names), len(columns))
        names = tuple(names)
    threshold = np.inf if facts["threshold"] is None else facts["threshold"]
    if not threshold >= 0:
        raise ValueError("no counts have such a threshold.")
    guarantee = PrivacyGuarantee.from_dict(facts["guarantee"])
    return Histograms(tuple(columns), names, n_samples, scale, threshold, guarantee)
