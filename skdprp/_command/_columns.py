"""Rows of a file as the options say, and the data-independent transformer that brings their columns to one scale."""

import math
from collections.abc import Mapping

import scipy.sparse as sp

from ..preprocessing import PublicScaler
from ..preprocessing._table import TableColumns, transformer_of_columns
from ..report._structure import all_steps
from ._tables import check_features, check_file, check_sparse, read_file


def check_options(options, *paths, are_bounded=False):
    """Refuse what can be known to fail before any file is read; `are_bounded` tells whether features must be."""
    for path in filter(None, paths):
        check_file(path)
    if options.default_bounds is not None:
        low, high = options.default_bounds
        if not -math.inf < low < high < math.inf:
            raise ValueError("--default-bounds: LOW must be below HIGH, and both finite")
    if options.n_features is None:
        if options.zero_based:
            raise ValueError("--zero-based is for LIBSVM files, with --n-features")
        return
    for option in ("bounds", "categories", "fill", "drop", "numbers"):
        if getattr(options, option, None):
            raise ValueError(f"--{option} goes with a CSV: features of a LIBSVM file are scaled, by --default-bounds")
    if are_bounded and options.default_bounds is None:
        raise ValueError(
            f"{options.file}: no bounds of the features of a LIBSVM file: give --default-bounds LOW HIGH, such as -1 1"
        )
    if options.default_bounds is not None and low + high != 0:
        raise ValueError("--default-bounds of a LIBSVM file: LOW must be -HIGH, or what is zero would not stay zero")


def read_rows(path, options, *, unnamed, classes=None, listed_by="--classes", like=None):
    """Return the features and labels of a file; features have the columns of `like`, by name and in its order.

    Columns of which the options say nothing are, as `unnamed` says, refused, found or kept as numbers.
    """
    X, y = read_file(
        path,
        target=options.target,
        n_features=options.n_features,
        zero_based=options.zero_based,
        as_text=options.categories,
        classes=classes,
        listed_by=listed_by,
    )
    columns = columns_of(X)
    if like is None:
        faults = _faults_of_options(options, columns)
        kept = [name for name in columns if name not in options.drop]
    else:
        faults = [f"no column {name!r}, which {options.file} has" for name in columns_of(like) if name not in columns]
        kept = [name for name in columns_of(like) if name in columns]
    if sp.issparse(X):
        return check_sparse(path, X, faults), y
    is_bounded = options.bounds if unnamed != "keep" and options.default_bounds is None else kept
    return check_features(path, X[kept], options.categories, is_bounded, unnamed=unnamed, faults=faults), y


def columns_of(X):
    """Names of the columns of a table, of which sparse rows have none."""
    return list(getattr(X, "columns", ()))


def _faults_of_options(options, columns):
    """Say which options are of columns that are not there, or of such that have another option."""
    faults = []
    for option in ("bounds", "categories", "fill", "drop"):
        for name in getattr(options, option):
            if name not in columns:
                faults.append(f"--{option}: no column {name!r}")
            elif option != "drop" and name in options.drop:
                faults.append(f"--{option}: column {name!r} is left out by --drop")
            elif option in ("bounds", "fill") and name in options.categories:
                faults.append(f"--{option}: column {name!r} has categories already")
    return faults


def are_described(options):
    """Whether the options say what columns can hold."""
    return bool(options.bounds or options.categories or options.fill) or options.default_bounds is not None


def bounds_of(options, X):
    """Return bounds of the columns that have some, by name, or by place in sparse rows."""
    columns = [name for name in getattr(X, "columns", range(X.shape[1])) if name not in options.categories]
    given = {name: options.bounds.get(name, options.default_bounds) for name in columns}
    return {name: pair for name, pair in given.items() if pair is not None}


def preparation(options, X):
    """Return a transformer of rows with the columns of X, from the options alone and from no value."""
    bounds = bounds_of(options, X)
    if sp.issparse(X):
        return PublicScaler(list(bounds.values()))
    scaler = PublicScaler(bounds, fill=filled(options, bounds))
    return transformer_of_columns(scaler, bounds, options.categories)


def known_columns(model):
    """Return bounds and listed categories of columns, by their names, as a model was given them."""
    bounds, categories = {}, {}
    for _, step in all_steps(model):
        given = getattr(step, "bounds", None)
        bounds |= given if isinstance(given, Mapping) else {}
        categories |= step.categories if isinstance(step, TableColumns) else {}
    return bounds, categories


def filled(options, bounds):
    """Return what stands for missing values of columns with bounds: the middle, if nothing is said."""
    return {name: options.fill.get(name, "middle") for name in bounds}
