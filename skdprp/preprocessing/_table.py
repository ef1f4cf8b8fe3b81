"""One line for all that comes before a model of a table: bins, categories, and rows of norm 1."""

import math
import re
import sys
from collections.abc import Hashable, Iterator, Mapping
from difflib import get_close_matches
from numbers import Real

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from .._lazy import is_lazy
from .._validation import check_collected, holds_numbers, is_frame, lists_numbers, validate_schema
from ..histograms._columns import holds_times
from ._binner import PublicBinner
from ._private_binner import DPBinner
from ._scaler import PublicScaler

# Of the longest row within bounds, where to clip rows of numbers: most are far shorter than that one, and shorter than
# noise is made for: measured by benchmarks/bench_norms.py.
SHARE_OF_LONGEST = 0.35
# Half the range of scaled columns beside private bins, whose noise leaves less to learn of them: bench_bounds.py.
_HALF_BESIDE_BINS = 2.0
_DENSITY_OF_SPARSE = 0.3  # up to which rows are sparse, as those of a ColumnTransformer by default
_CHOICES = (
    "Give bounds, edges or categories of a column, not looked up in the table; drop it; or have all others found in"
    " private bins, by an epsilon."
)


def make_table_preprocessor(
    bounds=None,
    *,
    edges=None,
    categories=None,
    drop=(),
    epsilon=None,
    numbers="bins",
    n_bins=20,
    fill="middle",
    sparse_output=True,
):
    """Make the preprocessor of a table, by what is known of its columns without looking at them.

    Each column is named once: under `bounds` or `edges`, under `categories`, or under `drop`. With an `epsilon`, bins
    and categories of all other columns are found privately. Without one, an error lists the columns that are not named.
    With an `epsilon`, bins between bounds are found privately, too. Bounds reduce the noise a little. If they are far
    wider than the range of the values, they make the bins coarser, because there are at most 4096 cells between them.
    The prepared rows suit the default ``max_norm=1.0`` of the linear models: you need not compute it.

    Parameters
    ----------
    bounds : dict or None, default=None
        Least and largest value of columns of numbers, pairs by the names of the columns. Take them from what is known
        of the quantity (ages are 0 to 120), **never from the rows**: nothing can detect that afterwards.
    edges : dict or None, default=None
        Increasing edges of bins of columns of numbers, as of :class:`~skdprp.PublicBinner`, where those of equal width
        would have most values in one bin: incomes, prices, counts.
    categories : dict or None, default=None
        What columns can hold, lists by the names of the columns: all text, or all numbers or truth values. Each becomes
        a column of 0 and 1; other and missing values are 0 in all of them.
    drop : list of names, default=()
        Columns to leave out: identifiers, names, what no model needs.
    epsilon : float or None, default=None
        Privacy of one row in :class:`~skdprp.DPBinner`, see its `epsilon`, which finds bins and frequent categories of
        all columns that are not named, and bins of those with `bounds`, unless they are scaled.
        :func:`~skdprp.set_budget` sets it, together with that of the model. None releases nothing: columns that are not
        named are an error, and bins between bounds have equal width.
    numbers : {"bins", "scaled"}, default="bins"
        Whether columns with `bounds` become bins, of which a linear model learns a curve, or are scaled, which is
        better for few rows (hundreds), and for :class:`~skdprp.DPRidge` as a rule. Beside categories they are scaled to
        -1 to 1, so that a number at its bound weighs as much as the 1 of a category. With an `epsilon`, they are scaled
        to -2 to 2.
    n_bins : int, default=20
        Number of bins of equal width between bounds, and the largest number of those that are found.
    fill : "middle", number or dict, default="middle"
        What stands for missing values of scaled columns: the middle of the bounds, or a number within them for all
        columns or by the names of some. Missing values of columns with bins have a bin of their own, see
        :class:`~skdprp.DPBinner` for bins that are found privately; those of listed categories are 0 in all columns.
    sparse_output : bool, default=True
        Whether rows may be sparse: models then take a tenth of the time and the memory where columns are bins. They are
        sparse with an `epsilon`; without one, if at most three in ten of their entries can be other than 0. They are
        always dense if there are scaled columns or listed categories, and no column has a list of two or more; and if
        scikit-learn is configured to output dataframes. False is for ``set_output(transform="pandas")``, and for other
        models that take dense rows only.

    Returns
    -------
    Pipeline
        Three steps. ``table`` refuses tables with other columns; ``columns`` is a ColumnTransformer; ``norm`` brings
        each row to norm 1. If all columns are scaled numbers, there is no ``norm``, and rows differ in norm. They are
        scaled so that the larger of these two norms is 1: 0.35 times the largest norm that is possible within the
        bounds, and the norm of a row with one column at its bound and all others in the middle of theirs. A model with
        ``max_norm=1`` clips rows of larger norm.

    Raises
    ------
    ValueError
        If a column is named twice, or nothing is given at all; in `fit`, if the columns of the table do not fit, in one
        message with all of them. It names columns and types, which are public, and no value.

    See Also
    --------
    PublicBinner, PublicScaler : What it puts together, with more choices.
    DPBinner : What finds bins and categories for `epsilon`.
    set_budget : One epsilon for what it finds and the model.

    Notes
    -----
    Why norm 1: the noise of a private linear model is made for a row of norm ``max_norm``, and a row of half that norm
    has the same noise at half its weight. Rows of bins and categories have equal norms, and :class:`Normalizer
    <sklearn.preprocessing.Normalizer>` treats all alike. Rows of scaled columns only differ in norm, by more the more
    columns there are; longer ones are clipped by the model that follows.

    All steps but ``DPBinner`` are data-independent. Rows that come out are not private.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdprp import AMPClassifier, make_table_preprocessor, privacy_report, set_budget
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.integers(18, 90, 50_000), "town": rng.choice(["York", "Hull"], 50_000)})
    >>> people["hours"], people["id"] = rng.normal(40, 10, 50_000).round(), np.arange(50_000)
    >>> works = np.where((people["age"] < 65) & (people["hours"] > 30), "yes", "no")
    >>> known = {"bounds": {"age": (0, 120)}, "categories": {"town": ["Hull", "York"]}, "drop": ["id"]}
    >>> columns = make_table_preprocessor(**known, epsilon=0.3)
    >>> model = make_pipeline(columns, AMPClassifier(epsilon=0.7, classes=["no", "yes"]))
    >>> model = set_budget(model, people, works, epsilon=1.0, delta=1e-6).fit(people, works)
    >>> bool(model.score(people, works) > 0.85)
    True
    >>> round(privacy_report(model).total.epsilon, 4)
    1.0
    >>> make_table_preprocessor(**known).fit(people)
    Traceback (most recent call last):
        ...
    ValueError: These columns do not fit:
      hours: nothing is given for this column of type float64
    Give bounds, edges or categories of a column, not looked up in the table; drop it; or have all others...
    """
    for name, given in {"bounds": bounds, "edges": edges, "categories": categories}.items():
        if not (given is None or isinstance(given, Mapping)):
            raise TypeError(f"{name} must be a dict, by the names of columns; got {type(given).__name__}.")
    if isinstance(drop, str):
        raise TypeError(f"drop must be a list of names of columns: write [{drop!r}].")
    bounds, edges, categories = (
        {name: list(one) if isinstance(one, Iterator) else one for name, one in (given or {}).items()}
        for given in (bounds, edges, categories)
    )
    drop = list(drop)
    _check_parameters(bounds, edges, categories, drop, epsilon, numbers, fill)
    categories = {name: list(listed) for name, listed in categories.items()}
    # Rows of numbers alone differ in length: longer ones are clipped by the model, see Notes.
    are_scaled = numbers == "scaled" and not edges and not categories and epsilon is None
    half = min(1 / (SHARE_OF_LONGEST * len(bounds) ** 0.5), 1.0) if are_scaled else 1.0  # as the 1 of a category
    half = half if epsilon is None else _HALF_BESIDE_BINS
    filled = {name: fill.get(name, "middle") for name in bounds} if isinstance(fill, Mapping) else fill
    is_sparse = bool(sparse_output) and get_config()["transform_output"] == "default"
    is_sparse = is_sparse and (
        epsilon is not None or _largest_density(bounds, edges, categories, numbers, n_bins) <= _DENSITY_OF_SPARSE
    )
    # A scaled value may be 0, and a single category that of all rows: what tells is another zero that each row has.
    may_vary = bool(categories) or (numbers == "scaled" and bool(bounds))
    is_sparse = is_sparse and (not may_vary or any(len(listed) > 1 for listed in categories.values()))
    scaler = PublicScaler(bounds, feature_range=(-half, half), fill=filled)
    of_bounds = scaler if numbers == "scaled" else PublicBinner(bounds, n_bins=n_bins, sparse_output=is_sparse)
    # Bins of equal width may have most values in one of them: where bins are found, they are found between bounds.
    are_found = bounds if numbers == "bins" and epsilon is not None else {}
    columns = transformer_of_columns(of_bounds, {} if are_found else bounds, categories, edges, is_sparse=is_sparse)
    if epsilon is not None:
        columns.remainder = DPBinner(n_bins, bounds=are_found or None, epsilon=epsilon, sparse_output=is_sparse)
    table = TableColumns([*bounds, *edges], categories, drop=drop, others="error" if epsilon is None else "take")
    steps = [("table", table), ("columns", columns), ("norm", Normalizer())]
    return Pipeline(steps[:2] if are_scaled else steps)


def _largest_density(bounds, edges, categories, numbers, n_bins):
    """Share of the entries of a row that can be other than 0."""
    outputs = [*map(len, categories.values()), *(len(some) - 1 for some in edges.values())]
    outputs += [1 if numbers == "scaled" else n_bins] * len(bounds)
    return len(outputs) / max(1, sum(outputs))


def transformer_of_columns(of_bounds, bounds, categories, edges=(), *, is_sparse=False):
    """Return a ColumnTransformer of what is known of columns, which learns nothing."""
    # What is not among the categories is 0 everywhere. Numbers have to be in order, and names may be in any.
    listed = [sorted(some) if not any(isinstance(one, str) for one in some) else some for some in categories.values()]
    encoder = OneHotEncoder(categories=listed, handle_unknown="ignore", sparse_output=is_sparse)
    steps = [
        ("numbers", of_bounds, list(bounds)),
        ("edges", PublicBinner(edges=edges, sparse_output=is_sparse), list(edges)),
        ("categories", encoder, list(categories)),
    ]
    used = [step for step in steps if step[2]]
    # At these thresholds the values do not decide: each row of those that may be sparse has a zero.
    return ColumnTransformer(used, sparse_threshold=float(is_sparse), verbose_feature_names_out=False)


def _check_parameters(bounds, edges, categories, drop, epsilon, numbers, fill):
    """Refuse columns that are named twice or not by text, options that do not go together, and nothing at all."""
    if numbers not in ("bins", "scaled"):
        raise ValueError(f'numbers must be "bins" or "scaled"; got {numbers!r}.')
    if numbers == "bins" and not (isinstance(fill, str) and fill == "middle"):
        raise ValueError('fill is for numbers="scaled": bins have one for missing values.')
    names = [*bounds, *edges, *categories, *drop]
    if not (bounds or edges or categories) and epsilon is None:
        raise ValueError("Nothing is given: bounds, edges or categories of columns, or an epsilon for private bins.")
    if not_text := [name for name in names if not isinstance(name, str)]:
        raise ValueError(f"Names of columns must be text; got {not_text}.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"These columns are named twice: {twice}.")
    if isinstance(fill, Mapping) and (unknown := [name for name in fill if name not in bounds]):
        raise ValueError(f"fill is given for {unknown}, which have no bounds.")
    for name, listed in categories.items():
        listed = [] if isinstance(listed, str) or not np.iterable(listed) else list(listed)
        is_text = {isinstance(one, str) for one in listed}
        is_missing = any(one is None or (isinstance(one, Real) and math.isnan(one)) for one in listed)
        is_odd = is_missing or not all(isinstance(one, Hashable) for one in listed)
        if len(is_text) != 1 or is_odd or len(set(listed)) < len(listed):
            raise ValueError(
                f"categories of column {name!r} must be different texts, or different numbers, none missing."
            )


class TableColumns(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Take columns of a dataframe by their names, and refuse one that has others, or other types.

    Names and types are public, what is in the columns is not, and nothing is learned but the names.
    """

    def __init__(self, numbers, categories, *, drop=(), others="error"):
        self.numbers = numbers
        self.categories = categories
        self.drop = drop
        self.others = others

    def fit(self, X, y=None):
        """Check all columns."""
        types = _types(X)
        faults = [self._fault(name, types[name]) for name in types if name not in self.drop]
        faults = [_absent(name, types) for name in self._named() if name not in types] + faults
        _raise(faults)
        validate_schema(self, X, reset=True)
        self.columns_ = [name for name in types if name not in self.drop]
        return self

    def transform(self, X):
        """Return the columns that the fit has taken, in its order."""
        check_is_fitted(self)
        types = _types(X)
        cure = "if its values are not known, give it as a column of missing values (None)"
        missing = [f"{_absent(name, types)}; {cure}" for name in self.columns_ if name not in types]
        _raise(missing or [self._fault(name, types[name]) for name in self.columns_])
        X = X[self.columns_]
        # Of whole numbers or truth values, as encoders take them, one that is missing would decide whether the others
        # are floats, and which of them are equal. In types of numpy none can be missing.
        listed = [(name, dtype) for name, dtype in zip(X.columns, X.dtypes, strict=True) if name in self.categories]
        if hasattr(X, "iloc"):
            others = [(name, dtype) for name, dtype in listed if not isinstance(dtype, np.dtype)]
            whole = [name for name, dtype in others if getattr(dtype, "kind", "") in set("iub") or lists_numbers(dtype)]
            return X.astype(dict.fromkeys(whole, "float64")) if whole else X
        whole = [name for name, dtype in listed if dtype.is_integer() or str(dtype) == "Boolean"]
        return X.with_columns(X[name].cast(sys.modules["polars"].Float64) for name in whole)

    def set_output(self, *, transform=None):
        """Return the same kind of dataframe in any case.

        scikit-learn makes pandas of polars, and polars of pandas, by the values: one missing cell would decide the
        types of all columns, and an odd one would stand in an error.
        """
        return self

    def get_feature_names_out(self, input_features=None):
        """Name the columns that were taken."""
        check_is_fitted(self)
        return np.array(self.columns_, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _named(self):
        return [*self.numbers, *self.categories, *self.drop]

    def _fault(self, name, dtype):
        """Say what is wrong with a column that is there, by its name and type; None if nothing is."""
        kind = re.match(r"\w*", str(dtype))[0]  # what follows may be a list of categories
        holds = "numbers" if holds_numbers(dtype) else "text" if kind.lower() in ("str", "string") else None
        if kind.startswith("complex"):
            return f"{name}: type {kind}, of which nothing learns; make it two columns of numbers, or drop it"
        if name in self.numbers and holds != "numbers" and kind != "object":  # in which anything may be, numbers too
            return f"{name}: type {kind} where numbers should be; convert it, list its categories, or drop it"
        if name in self.categories:
            listed = "text" if isinstance(self.categories[name][0], str) else "numbers"
            if {holds, listed} == {"text", "numbers"}:
                return f"{name}: type {kind} where {listed} should be, as its categories are"
        if name not in self._named() and self.others == "error":
            return f"{name}: nothing is given for this column of type {kind}"
        if name not in self._named() and holds_times(dtype):
            return f"{name}: type {kind}; make it days since a date that is not from the data, or drop it"
        return None

    def _matches_parameters(self):
        return not hasattr(self, "columns_") or not set(self.columns_) & set(self.drop)


def _types(X):
    """Types of the columns of a dataframe by their names, which are public."""
    check_collected(X)
    if not is_frame(X):
        raise TypeError("Expected a dataframe of pandas or polars: columns go by their names.")
    if is_lazy(X):
        raise TypeError("A ColumnTransformer does not take dask collections: see PublicBinner and DPBinner, which do.")
    names = list(X.columns)
    _raise(
        [f"{name}: there are several columns of this name" for name in dict.fromkeys(names) if names.count(name) > 1]
    )
    return dict(zip(names, X.dtypes, strict=True))


def _absent(name, types):
    near = {str(other).casefold(): other for other in types}
    close = get_close_matches(str(name).casefold(), near, n=1)
    return f"{name}: there is no such column" + "".join(f" (did you mean {near[one]}?)" for one in close)


def _raise(faults):
    if lines := [f"\n  {fault}" for fault in faults if fault]:
        choices = f"\n{_CHOICES}" * any("nothing is given" in line for line in lines)
        raise ValueError(f"These columns do not fit:{''.join(lines)}{choices}")
