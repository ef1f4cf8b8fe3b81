"""Rows of a file as the options say, and the data-independent transformer that brings their columns to one scale."""

import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from ..preprocessing import PublicScaler
from ._tables import check_features, read_file


def read_rows(path, options, *, classes=None, listed_by="--classes", like=None):
    """Return the features and labels of a file; features have the columns of `like`, by name and in its order."""
    X, y = read_file(
        path,
        target=options.target,
        n_features=options.n_features,
        zero_based=options.zero_based,
        as_text=options.categories,
        classes=classes,
        listed_by=listed_by,
    )
    if like is not None and not sp.issparse(like):
        if missing := [name for name in like if name not in X]:
            raise ValueError(f"{path}: no column {missing[0]!r}, which {options.file} has")
        X = X[list(like)]
    _check_names(options, list(getattr(X, "columns", ())))
    return check_features(path, X, options.categories, options.fill), y


def _check_names(options, columns):
    """Refuse options of columns that are not there, or that have categories and numbers too."""
    for option in ("bounds", "categories", "fill"):
        for name in getattr(options, option):
            if name not in columns:
                raise ValueError(f"--{option}: no column {name!r}")
            if option != "categories" and name in options.categories:
                raise ValueError(f"--{option}: column {name!r} has categories already")


def are_described(options):
    """Whether the options say what columns can hold."""
    return bool(options.bounds or options.categories or options.fill) or options.default_bounds is not None


def preparation(options, X):
    """Return a transformer of rows with the columns of X, from the options alone and from no value."""
    bounds, fill, listed = _bounds(options, X), options.fill, options.categories
    if not fill and not listed:
        return PublicScaler(list(bounds.values()))
    plain = [name for name in bounds if name not in fill]
    steps = [(PublicScaler([bounds[name] for name in plain]), plain)]
    for name, value in fill.items():
        # Columns that happen to be empty stay: which ones are is a secret of the rows.
        imputer = SimpleImputer(strategy="constant", fill_value=value, keep_empty_features=True)
        steps.append((make_pipeline(imputer, PublicScaler([bounds[name]])), [name]))
    # Categories are given, so that the encoder learns none; a value that is not among them is 0 everywhere.
    encoder = OneHotEncoder(categories=list(listed.values()), handle_unknown="ignore", sparse_output=False)
    steps.append((encoder, list(listed)))
    return make_column_transformer(*(step for step in steps if step[1]), sparse_threshold=0)


def _bounds(options, X):
    """Return bounds of each column without categories, in order; each needs some."""
    columns = [name for name in getattr(X, "columns", range(X.shape[1])) if name not in options.categories]
    without = [name for name in columns if name not in options.bounds]
    if without and options.default_bounds is None:
        named = ", ".join(map(repr, without[:10])) + " ..." * (len(without) > 10)
        raise ValueError(f"no bounds for {named}: name them by --bounds, or give all others --default-bounds LOW HIGH")
    return {name: options.bounds.get(name, options.default_bounds) for name in columns}
