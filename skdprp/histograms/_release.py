"""The record of a release of histograms, and what follows from it."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from ..guarantee import PrivacyGuarantee
from ._cells import Cells, column_norm, noise_of_sums, prefix_sums

_MARGIN = 2.0  # standard deviations of noise from either end, within which no quantile is told apart from the end


@dataclass(frozen=True, eq=False)
class NumberHistogram:
    """What was released of one column of numbers.

    `values` are noisy sums of counts, of which :meth:`cumulative` makes numbers of values below each edge; `scale` is
    the standard deviation of the noise of each, and `n_samples` the number of rows.
    """

    cells: Cells
    values: np.ndarray
    scale: float
    n_samples: int

    def __eq__(self, other):
        if not isinstance(other, NumberHistogram):
            return NotImplemented
        facts = (self.cells, self.scale, self.n_samples)
        alike = facts == (other.cells, other.scale, other.n_samples)
        return alike and np.array_equal(self.values, other.values)

    __hash__ = None

    @property
    def missing(self):
        """Noisy number of missing values."""
        return float(self.values[-1]) / column_norm(len(self.cells))

    @property
    def deviation(self):
        """Largest standard deviation of the noise of a cumulative count."""
        return self.scale * noise_of_sums(len(self.cells))

    def cumulative(self):
        """Number of values below each edge of a cell, and of all: from 0, never falling."""
        total = max(self.n_samples - self.missing, 1.0)  # less noisy than the last sum, as the number of rows is public
        sums = np.clip(isotonic_regression(prefix_sums(self.values[:-1])).x, 0.0, total)
        return np.concatenate([[0.0], sums[:-1], [total]])

    def quantiles(self, levels):
        """Where the cells begin that hold values of these levels, no nearer to either end than noise tells."""
        sums = self.cumulative()
        margin = min(_MARGIN * self.deviation / sums[-1], 0.5)
        ranks = np.clip(levels, margin, 1 - margin) * sums[-1]
        places = np.minimum(np.searchsorted(sums[1:], ranks), len(self.cells) - 1)
        edges = self.cells.edges[places]
        return edges if self.cells.bounds is None else np.clip(edges, *self.cells.bounds)


@dataclass(frozen=True)
class CategoryCounts:
    """What was released of one column of categories: noisy counts, of all listed ones or of the frequent ones.

    `others` counts values of no category that is named, and is None where they are not counted; `counts` are None where
    nothing of the column was.
    """

    categories: tuple
    counts: tuple[float, ...] | None
    missing: float | None
    others: float | None = None

    @property
    def is_listed(self):
        """Whether the categories come from a list, and not from the rows."""
        return self.counts is None or self.others is not None

    @property
    def values(self):
        """All that was released of listed categories, ndarray."""
        return np.array([] if self.counts is None else [*self.counts, self.others, self.missing])


@dataclass(frozen=True)
class Histograms:
    """Released histograms of the columns of a table, with what a reader needs to know of them.

    Columns go by their names, or by their numbers where X had no names.

    Parameters
    ----------
    columns : tuple
        What was released of each column.
    names : tuple of str or None
        Names of the columns, if they have some.
    n_samples : int
        Number of rows, which is public.
    scale : float
        Standard deviation of the noise of each value that was released.
    threshold : float
        What a noisy count of a category had to exceed to be named, where categories were not listed; else infinite.
    guarantee : PrivacyGuarantee
        The guarantee of the release.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdprp import DPHistograms
    >>> table = pd.DataFrame({"age": np.tile(np.arange(20, 60), 5000), "town": ["York", "Hull"] * 100_000})
    >>> histograms = DPHistograms(delta=1e-6).fit(table).histograms_
    >>> 38 <= histograms.quantile("age", 0.5) <= 41, 38 <= histograms.mean("age") <= 41
    (True, True)
    >>> sorted(histograms.counts("town"))
    ['Hull', 'York']
    >>> abs(histograms.missing("age")) < 2000
    True
    """

    columns: tuple
    names: tuple[str, ...] | None
    n_samples: int
    scale: float
    threshold: float
    guarantee: PrivacyGuarantee

    def __repr__(self):
        return f"Histograms of {len(self.columns)} columns over {self.n_samples:,} rows, {self.guarantee!r}"

    def column(self, name):
        """What was released of a column.

        Parameters
        ----------
        name : str or int
            Its name, or its number.

        Returns
        -------
        NumberHistogram or CategoryCounts

        Raises
        ------
        ValueError
            If there is no such column.
        """
        names = range(len(self.columns)) if self.names is None else self.names
        if name not in names:
            raise ValueError(f"There is no column {name!r}.")
        return self.columns[names.index(name)]

    def quantile(self, name, q):
        """Quantile of a column of numbers, without the missing ones.

        Parameters
        ----------
        name : str or int
            The column.
        q : float or array-like
            Levels between 0 and 1. A level so close to 0 or 1 that the noise hides the difference is replaced by the
            nearest level that can be distinguished from that end.

        Returns
        -------
        float or ndarray
            For each level, the lower edge of the cell that contains the quantile.

        Raises
        ------
        ValueError
            If the column holds categories, or a level is not between 0 and 1.
        """
        levels = np.asarray(q, dtype=np.float64)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"Levels of quantiles are between 0 and 1, got {q!r}.")
        values = self._numbers(name).quantiles(np.atleast_1d(levels))
        return values.reshape(levels.shape) if levels.ndim else float(values[0])

    def mean(self, name):
        """Mean of a column of numbers, without the missing ones; clipped to quantiles that noise does not hide.

        Parameters
        ----------
        name : str or int
            The column.

        Returns
        -------
        float
        """
        return float(np.mean(self._numbers(name).quantiles((np.arange(1000) + 0.5) / 1000)))

    def counts(self, name):
        """Noisy counts of the categories of a column, by their names.

        Parameters
        ----------
        name : str or int
            The column.

        Returns
        -------
        dict

        Raises
        ------
        ValueError
            If the column holds numbers, or nothing of it was counted.
        """
        column = self.column(name)
        if isinstance(column, NumberHistogram) or column.counts is None:
            raise ValueError(f"No categories were counted in the column {name!r}.")
        return dict(zip(column.categories, column.counts, strict=True))

    def missing(self, name):
        """Noisy number of missing values of a column, which may be below 0.

        Parameters
        ----------
        name : str or int
            The column.

        Returns
        -------
        float
        """
        return self.column(name).missing

    def _numbers(self, name):
        column = self.column(name)
        if not isinstance(column, NumberHistogram):
            raise ValueError(f"The column {name!r} holds categories: see counts.")
        return column
