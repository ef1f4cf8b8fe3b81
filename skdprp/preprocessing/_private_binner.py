"""Binning of columns by private quantiles, and of categories by private counts."""

from numbers import Integral

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import silent, warn_at_caller, without_values
from .._lazy import LazyTransformerMixin, as_it_is_now, is_lazy, map_rows, output_container, stand_in
from .._recording import in_plan
from .._validation import Interval, StrOptions, validate_schema
from ..histograms import PrivateHistograms
from ..histograms._cells import column_norm, noise_of_sums
from ..histograms._columns import Numbers, Unlisted, codes
from ..histograms._estimator import HISTOGRAMS_CONSTRAINTS, values_of
from ..histograms._release import NumberHistogram
from ._binner import one_hot, places_between

_LEAST_SHARE = 4.0  # standard deviations of the noise of a count, of which a bin at quantiles has at least half
_FEWEST = 5  # bins at quantiles between bounds, below which those of equal width are better: benchmarks/bench_bounds.py
_CURE_OF_NOISE = (
    "List categories and give bounds, and scale numbers: make_table_preprocessor(bounds, categories=..., "
    'numbers="scaled").'
)
_TINY = np.finfo(np.float64).tiny  # where the cell of 0 ends


class DPBinner(OneToOneFeatureMixin, LazyTransformerMixin, PrivateHistograms):
    """Bins of all columns of a table, at private quantiles and of frequent categories, with one for missing values.

    Replaces ``KBinsDiscretizer`` and ``OneHotEncoder`` where neither bounds nor categories are known. A linear model on
    one-hot rows learns a curve for each column of numbers, and a number for each category. `fit` releases histograms,
    from which edges and categories follow. What `transform` returns is **not private**: it is computed from each row
    without noise, for a private step that follows.

    Each one-hot row has norm ``n_features**0.5``, whatever its values: give that to the model that follows as its
    ``max_norm``.

    Parameters
    ----------
    n_bins : int, default=20
        Largest number of bins of a column of numbers, as equally filled as noise lets them be. Fewer are used where
        noise would decide where they begin, and where one value fills several. If noise would leave fewer than 5 bins
        in a column with bounds, the column gets `n_bins` bins of equal width instead.
    bounds : tuple (low, high), dict or None, default=None
        Least and largest value of all columns of numbers, or of some by their names: public, never read from the data.
        None takes numbers of any size, see :class:`~skdprp.DPHistograms`.
    categories : dict, list of names or None, default=None
        Categories by the names of their columns, as lists that do not come from the data, which costs nothing; or None
        in the place of a list, for those that are frequent. A list names columns of categories without listing any. In
        a dataframe, columns that hold no numbers are categories in any case.
    max_categories : int, default=20
        Largest number of categories that have a bin of their own in a column where they are not listed: the most
        frequent ones, by their released counts.
    encode : {"onehot", "ordinal"}, default="onehot"
        A column for each bin, with a single 1 for each value; or the number of the bin, from 0.
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row in the place of one row. With "add_remove", the row is blank
        in the neighbour: another guarantee, which needs less noise. The number of places for rows is public in both.
    n_cells : int, default=4096
        Largest number of cells between bounds, at which bins may begin.
    sparse_output : bool, default=True
        Whether one-hot rows are sparse. If scikit-learn is configured to output dataframes, which cannot be sparse,
        `fit` then raises an error and releases nothing: pass False.

    Attributes
    ----------
    bin_edges_ : list of ndarray or None
        Edges of the bins of each column of numbers, as of :class:`~skdprp.PublicBinner`, the outer ones infinite; None
        for categories.
    categories_ : list of tuple or None
        Categories with a bin of their own, of each column of categories; None for numbers.
    n_bins_ : ndarray of shape (n_features,)
        Number of bins of each column, with those of infrequent categories and of missing values, and those that are not
        used. It does not depend on the rows.
    missing_bins_ : ndarray of shape (n_features,)
        Bin of the missing values of each column: the last one; or, if their released number is below 4 standard
        deviations of its noise, the bin of the median, or of the most frequent category.
    max_norm_ : float
        Norm of each one-hot row, or the largest norm of a row of numbers of bins.
    histograms_ : Histograms
        What was released; all else follows from it.
    delta_ : float
        The value used.
    scale_ : float
        Standard deviation of the noise of each released value.
    threshold_ : float
        What the noisy count of a category has to exceed for it to have a bin; infinite where all are listed.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    n_features_in_ : int
        Number of columns seen in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, when X has string names.

    See Also
    --------
    PublicBinner : Edges that do not come from the data, which cost nothing.
    DPHistograms : The release by itself.

    Notes
    -----
    The number of used bins at quantiles is at most the number of values of the column, divided by 4 standard deviations
    of the noise of a cumulative count. A single value that is frequent enough to fill a bin gets a bin of its own, such
    as 0 in a column of capital gains, which few people have. Edges are the roundest numbers within a standard
    deviation, and bins that came out with less than half of their share are united with a neighbour. Categories that
    are not among the released ones have one bin together.

    If no row of the fit is in a bin, the weight that a model gives this bin is noise alone. So missing values have a
    bin of their own only where their released number is at least 4 standard deviations of its noise, or is not
    released, as where categories are listed.

    How many columns come out follows from the parameters, and not from the release: bins that are not used are columns
    of zeros. If this number depended on the noise, so would the noise of the next model, and exact composition is
    proved only if the noise of all steps is fixed before the first one.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdprp import DPBinner
    >>> table = pd.DataFrame({"age": np.tile(np.arange(20, 60), 5000), "town": ["York", "Hull"] * 100_000})
    >>> binner = DPBinner(4, delta=1e-6).fit(table)
    >>> binner.guarantee_
    (1.0, 1e-06)-DP, one row replaced
    >>> binner.get_feature_names_out()[[4, 5, 6, 7, -2, -1]].tolist()
    ['age_unused_nan', 'town_Hull', 'town_York', 'town_unused_2', 'town_infrequent', 'town_unused_nan']
    >>> binner.transform(table).shape, round(binner.max_norm_, 3)
    ((200000, 27), 1.414)
    """

    _released = "bin_edges_, categories_ and histograms_, from which they follow"
    _counts_listed = False

    _parameter_constraints: dict = {
        **HISTOGRAMS_CONSTRAINTS,
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "max_categories": [Interval(Integral, 1, None, closed="left")],
        "encode": [StrOptions({"onehot", "ordinal"})],
        "sparse_output": ["boolean"],
    }

    def __init__(
        self,
        n_bins=20,
        *,
        bounds=None,
        categories=None,
        max_categories=20,
        encode="onehot",
        epsilon=1.0,
        delta=None,
        adjacency="replace_one",
        n_cells=4096,
        sparse_output=True,
    ):
        self.n_bins = n_bins
        self.bounds = bounds
        self.categories = categories
        self.max_categories = max_categories
        self.encode = encode
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_cells = n_cells
        self.sparse_output = sparse_output

    def _fit(self, chunks):
        self._check_output()
        super()._fit(chunks)
        # Plans say so before anything is spent.
        hidden = self._hidden_by_noise(self.histograms_.n_samples, self.scale_, self.threshold_)
        if hidden and not in_plan():
            warn_at_caller(hidden, UserWarning)
        return self

    def _hidden_by_noise(self, n_samples, scale, threshold):
        """Say what few rows cannot show through the noise, and what to do: all that it follows from is public."""
        hidden = self._few_rows_show(n_samples, scale, threshold)
        return hidden and f"{hidden} {_CURE_OF_NOISE}"

    def _few_rows_show(self, n_samples, scale, threshold):
        """Say what few rows cannot show through the noise, whatever they are."""
        unbounded = [column for column in self._kinds if isinstance(column, Numbers) and column.cells.bounds is None]
        hidden = []
        if any(isinstance(column, Unlisted) for column in self._kinds) and threshold > n_samples / 2:
            hidden.append(f"categories are named from a noisy count of {threshold:.0f} on")
        if any(n_samples < 2 * _LEAST_SHARE * scale * noise_of_sums(len(column.cells)) for column in unbounded):
            hidden.append("numbers without bounds have a single bin")
        return f"The noise hides most of what {n_samples} rows show: {' and '.join(hidden)}." if hidden else ""

    def _check_output(self):
        """Refuse before anything is spent what scikit-learn would refuse after."""
        container = output_container(self)
        if self.encode == "onehot" and self.sparse_output and container != "default":
            raise ValueError(
                f"The transformer outputs a scipy sparse matrix. For {container} output pass sparse_output=False."
            )

    def _learn(self, histograms):
        """Find edges at quantiles, and categories that were released."""
        self.bin_edges_, self.categories_, n_bins, missing_bins = [], [], [], []
        for column in histograms.columns:
            # Missing values have a bin in each column, and infrequent categories in theirs; some may not be used.
            if isinstance(column, NumberHistogram):
                edges, kept, n_of_column = _edges_at_quantiles(column, self.n_bins), None, self.n_bins + 1
            elif column.is_listed:
                edges, kept, n_of_column = None, column.categories, len(column.categories) + 2
            else:
                # The most frequent have a bin of their own, in the order of their names.
                places = np.sort(np.argsort(column.counts)[-self.max_categories :])
                edges, kept = None, tuple(column.categories[place] for place in places)
                n_of_column = self.max_categories + 2
            self.bin_edges_.append(edges)
            self.categories_.append(kept)
            n_bins.append(n_of_column)
            missing_bins.append(_bin_of_missing(column, edges, kept, n_of_column, histograms.scale))
        self.n_bins_, self.missing_bins_ = np.array(n_bins), np.array(missing_bins)
        self._fitted_as = self.encode
        largest = self.n_bins_ - 1.0 if self.encode == "ordinal" else np.ones(len(n_bins))
        self.max_norm_ = float(np.linalg.norm(largest))

    @silent
    def transform(self, X):
        """Put each value into its bin. What is returned is **not private**: it is made of each row as it is.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe, dask dataframe or array} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR sparse, dask array} of shape (n_samples, n_features_out)
            Ones in the columns of the bins, or numbers of bins. Those of a dask collection are a lazy dask array in the
            same chunks of rows.
        """
        check_is_fitted(self)
        if is_lazy(X):
            validate_schema(self, stand_in(X), reset=False)
            nothing = self._of_places(np.empty((0, self.n_features_in_), np.intp))
            return map_rows(as_it_is_now(self).transform, X, nothing)
        validate_schema(self, X, reset=False)
        learned = zip(self.bin_edges_, self.categories_, values_of(X, self.histograms_), strict=True)
        places = [
            without_values(codes, values, categories) if edges is None else places_between(edges, values)
            for edges, categories, values in learned
        ]
        # Those for missing and infrequent ones come last, behind the bins that are not used.
        moved = []
        for numbers, of_missing, n_bins, (n_used, n_unused) in zip(
            places, self.missing_bins_, self.n_bins_, self._n_used(), strict=True
        ):
            numbers = np.where(numbers < n_used, numbers, numbers + n_unused)
            moved.append(np.where(numbers == n_bins - 1, of_missing, numbers))
        places = np.column_stack(moved)
        if in_plan():  # one bin after the other, so that no column is constant
            places = np.arange(len(places))[:, None] % [n_used for n_used, _ in self._n_used()]
        return self._of_places(places)

    def get_feature_names_out(self, input_features=None):
        """Name the columns that come out: of one-hot rows after what is in each bin.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns that come in, where X had none at the fit; None for x0, x1 and so on.

        Returns
        -------
        ndarray of str
            The names.
        """
        names = super().get_feature_names_out(input_features)
        if self._fitted_as == "ordinal":
            return names
        named = []
        for name, edges, categories, of_missing, n_bins, (n_used, n_unused) in zip(
            names, self.bin_edges_, self.categories_, self.missing_bins_, self.n_bins_, self._n_used(), strict=True
        ):
            if edges is None:
                bins = [*map(str, categories), "infrequent", "nan"]
                if len(set(bins)) < len(bins) or any(values.startswith("unused_") for values in bins):
                    bins = [*map(repr, categories), "infrequent", "nan"]  # in quotes they differ
            else:
                bins = _names_between(edges)
            if of_missing < n_bins - 1:
                bins[-1] = "unused_nan"
            bins[n_used:n_used] = [f"unused_{place}" for place in range(n_used, n_used + n_unused)]
            named += [f"{name}_{values}" for values in bins]
        return np.array(named, dtype=object)

    def _n_used(self):
        """Number of bins of each column that hold numbers, or categories of their own, and how many are not used."""
        for edges, categories, n_bins in zip(self.bin_edges_, self.categories_, self.n_bins_.tolist(), strict=True):
            n_used, n_behind = (len(categories), 2) if edges is None else (len(edges) - 1, 1)
            yield n_used, n_bins - n_used - n_behind

    def _of_places(self, places):
        if self._fitted_as == "ordinal":
            return places.astype(np.float64)
        return one_hot(places, self.n_bins_, sparse_output=self.sparse_output, dtype=np.float64)


def _edges_at_quantiles(histogram, n_bins):
    """Edges of bins that are as equally filled as noise lets them be, the outer ones infinite."""
    sums, deviation = histogram.cumulative(), histogram.deviation
    most = np.floor(sums[-1] / (_LEAST_SHARE * deviation))
    if most < _FEWEST and histogram.cells.bounds is not None:  # bins of equal width say more than so few
        return np.concatenate([[-np.inf], np.linspace(*histogram.cells.bounds, n_bins + 1)[1:-1], [np.inf]])
    share = sums[-1] / np.clip(most, 1, n_bins)
    levels = np.arange(share, sums[-1] - share / 2, share)
    places = np.searchsorted(sums[1:], levels)
    is_heavy = sums[places + 1] - sums[places] >= share
    cells = histogram.cells.edges
    found = set(cells[places[is_heavy]]) | set(np.append(cells, np.inf)[places[is_heavy] + 1])
    for level in levels[~is_heavy]:
        # Where any number would do, as far as noise tells, the roundest is taken.
        first, place, after = np.searchsorted(sums[:-1], level + deviation * np.array([-1, 0, 1]))
        found.add(_roundest(*cells[np.clip([first, place, max(after - 1, place)], 0, len(cells) - 1)]))
    kept, below = [], 0.0
    for edge in sorted(found):  # but for those that would leave too few values on either side
        sum_here = sums[np.searchsorted(cells, edge)]
        if sum_here - below >= share / 2 and sums[-1] - sum_here >= share / 2:
            kept.append(edge)
            below = sum_here
    while len(kept) >= n_bins:  # where single values that fill a bin each have two edges
        below = np.array([0.0, *sums[np.searchsorted(cells, kept)], sums[-1]])
        kept.pop(int(np.argmin(below[2:] - below[:-2])))
    return np.concatenate([[-np.inf], kept, [np.inf]])


def _bin_of_missing(column, edges, categories, n_bins, scale):
    """Bin of missing values: the last one, unless noise may have made up their number."""
    deviation = scale if edges is None else scale / column_norm(len(column.cells))
    if column.missing is None or column.missing >= _LEAST_SHARE * deviation:
        return n_bins - 1
    if edges is not None:
        (median,) = column.quantiles([0.5])
        return int(places_between(edges, median))
    if not categories:
        return n_bins - 1
    counts = dict(zip(column.categories, column.counts, strict=True))
    return int(np.argmax([counts[category] for category in categories]))


def _roundest(low, middle, high):
    """Number with the fewest digits from `low` to `high`, near the middle if it can be."""
    if low < 0 < high:
        return 0.0
    rounded = (float(f"{number:.{digits}e}") for digits in range(17) for number in (middle, high, low))
    return next(number for number in rounded if low <= number <= high)


def _names_between(edges):
    """Name bins by the values in them, with as many digits as tell the edges apart."""
    inner = edges[1:-1]
    texts = [f"{edge:.17g}" for edge in inner]
    for n_digits in range(6, 17):
        short = [f"{edge:.{n_digits}g}" for edge in inner]
        if len(set(short)) == len(short):
            texts = short
            break
    opening = ["(-inf", *("(0" if edge == _TINY else f"[{text}" for edge, text in zip(inner, texts, strict=True))]
    closing = ["0]" if edge == _TINY else f"{text})" for edge, text in zip(inner, texts, strict=True)]
    names = [f"{begin}, {end}" for begin, end in zip(opening, [*closing, "inf)"], strict=True)]
    return [*("0" if name == "[0, 0]" else name for name in names), "nan"]
