"""How far a release moves between neighbours: projections of one row, minimisers of a risk and sums over all rows.

For projections, adjacency "l1" bounds the l1 distance of two rows by `max_change`, which covers a change of one
coordinate; "l2" bounds their l2 distance. All are computed on the realised W, which is public.
"""

import numpy as np

from ._adjacency import Relation
from ._digits import with_python_numbers
from .mechanisms._numerics import rows_that_differ
from .mechanisms.gaussian_laplace import gaussian_l1_sensitivity_bound, gaussian_l2_sensitivity_bound

__all__ = [
    "component_sensitivity",
    "gaussian_l1_sensitivity_bound",
    "gaussian_l2_sensitivity_bound",
    "histograms_sensitivity",
    "l1_sensitivity",
    "l2_sensitivity",
    "minimiser_sensitivity",
    "moments_sensitivity",
]


@with_python_numbers
def l1_sensitivity(projection, adjacency, max_change):
    """Largest l1 distance between the projections of two neighbours.

    Parameters
    ----------
    projection : Projection
        The realised projection ``x = W' u / divisor``.
    adjacency : {"l1", "l2"}
        Norm that bounds the change of a row.
    max_change : float
        The bound beta.

    Returns
    -------
    float
        Exact for "l1", and for "l2" where each feature goes to one bin: ``max_change sqrt(n_features)``. For other
        projections the bound sqrt(k) times the l2 sensitivity for "l2".

    Notes
    -----
    The bins w_j of one permutation and one random projection, or of a count-sketch, share no feature. So of a change v
    each moves by ``|<w_j, v_j>| <= |w_j|_2 |v_j|_2``, v_j being the part of v in it, and all of them together by
    ``sqrt(sum_j |w_j|_2^2) |v|_2`` at most, by Cauchy and Schwarz, attained by the signs of W in equal parts. That is
    the root of the sum of the numbers of features in the bins, ``sqrt(n_features)``, whatever their sizes are.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> from skdprp.sensitivity import l1_sensitivity
    >>> W = make_projection("rademacher", 100, 16, np.random.RandomState(0))
    >>> l1_sensitivity(W, "l1", max_change=1.0)
    4.0
    """
    if adjacency == Relation.L1:
        return max_change * float(projection.row_norm(1) / projection.divisor)
    if adjacency == Relation.L2:
        return max_change * float(projection.norm_from_l2_to_l1() / projection.divisor)
    raise ValueError(f"adjacency must be 'l1' or 'l2', got {adjacency!r}.")


@with_python_numbers
def l2_sensitivity(projection, adjacency, max_change):
    """Largest l2 distance between the projections of two neighbours.

    Parameters
    ----------
    projection : Projection
        The realised projection ``x = W' u / divisor``.
    adjacency : {"l1", "l2"}
        Norm that bounds the change of a row.
    max_change : float
        The bound beta.

    Returns
    -------
    float
        ``beta max_i |W_i|_2 / divisor`` for "l1", ``beta |W|_2 / divisor`` for "l2", exact up to rounding up.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> from skdprp.sensitivity import l2_sensitivity
    >>> W = make_projection("rademacher", 100, 16, np.random.RandomState(0))
    >>> l2_sensitivity(W, "l1", max_change=1.0)
    1.0
    """
    if adjacency not in (Relation.L1, Relation.L2):  # others move a projection further
        raise ValueError(f"adjacency must be 'l1' or 'l2', got {adjacency!r}.")
    # The ball of l1 changes has one coordinate at each corner, where a convex norm is largest: a row of W.
    norm = projection.row_norm(2) if adjacency == Relation.L1 else projection.spectral_norm()
    return max_change * float(norm / projection.divisor)


@with_python_numbers
def component_sensitivity(projection, max_change):
    """Largest change of each unscaled projection ``w_j' u`` between l1 neighbours.

    Parameters
    ----------
    projection : Projection
        The realised projection.
    max_change : float
        The bound beta on the l1 distance of two rows.

    Returns
    -------
    ndarray of float64, shape (n_components,)
        ``beta max_i |w_ij|``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> from skdprp.sensitivity import component_sensitivity
    >>> component_sensitivity(make_projection("oporp", 6, 2, np.random.RandomState(0)), max_change=0.5)
    array([0.5, 0.5])
    """
    return max_change * projection.column_max()


@with_python_numbers
def minimiser_sensitivity(loss, *, max_norm, penalty, adjacency, n_outputs=1, accuracy=0.0):
    """Largest l2 distance between the minimisers of the regularised risks of two neighbours.

    Parameters
    ----------
    loss : object
        A loss of :mod:`skdprp.losses`.
    max_norm : float
        Largest norm of a row.
    penalty : float
        Weight of half the squared norm of the weights, the intercept included.
    adjacency : {"replace_one", "add_remove"}
        What one row may do.
    n_outputs : int, default=1
        Number of problems on the same rows, released together.
    accuracy : float, default=0.0
        Largest norm of the gradient, of all problems together, at the points that stand for the minimisers.

    Returns
    -------
    float
        ``(k sqrt(n_outputs) lipschitz max_norm + 2 accuracy) / penalty``, with k = 1 for a row blank or not and 2 for
        one replaced.

    Notes
    -----
    Let J(w) be the sum of the losses of all rows plus ``Lam |w|^2 / 2``, Lam being `penalty`, and J' that of a
    neighbour. ``J(w) - Lam |w|^2 / 2`` is convex, which means that
    ``(grad J(w) - grad J(w'))'(w - w') >= Lam |w - w'|^2`` for any w and w'. So, by Cauchy and Schwarz,

        ``|w - w'| <= |grad J(w) - grad J(w')| / Lam``.

    Let w and w' stand for the minimisers of J and J': ``|grad J(w)| <= a`` and ``|grad J'(w')| <= a``, a being
    `accuracy`, 0 for the minimisers. As ``grad J(w') = grad J'(w') + grad (J - J')(w')``,

        ``|w - w'| <= (2 a + |grad (J - J')(w')|) / Lam``.

    The penalty cancels in ``J - J'``, and so do all rows but those that differ: it is the loss of one row, or that of
    one less that of another. The loss of a row x with the scores ``W x`` has the gradient ``g x'``, g being that by the
    scores, of norm ``|g| |x| <= lipschitz max_norm``. So it is with one score, and with the K scores of a softmax, for
    which `lipschitz` bounds the norm of all K derivatives by sqrt(2). Of `n_outputs` problems w has the weights of all,
    and J is the sum of their objectives: a row's gradient has a block of that norm in each, and a norm of
    ``sqrt(n_outputs) lipschitz max_norm``. Two rows have twice that. With L for the bound on one row's gradient, the
    exact minimisers of rows that are replaced move by ``2 L / Lam``, as in [1]_, Corollary 8.

    References
    ----------
    .. [1] K. Chaudhuri, C. Monteleoni and A. Sarwate, "Differentially Private Empirical Risk Minimization", JMLR 12,
       2011.

    Examples
    --------
    >>> from skdprp.losses import LogisticLoss
    >>> from skdprp.sensitivity import minimiser_sensitivity
    >>> minimiser_sensitivity(LogisticLoss(), max_norm=1.0, penalty=10.0, adjacency="replace_one")
    0.2
    """
    rows = rows_that_differ(adjacency)
    return float((rows * np.sqrt(n_outputs) * loss.lipschitz * max_norm + 2 * accuracy) / penalty)


@with_python_numbers
def moments_sensitivity(*, max_norm=1.0, adjacency="replace_one", accuracy=0.0):
    """Largest Frobenius distance between the sums of products ``sum z z'`` of two neighbours.

    Parameters
    ----------
    max_norm : float, default=1.0
        Largest norm of a row z.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.
    accuracy : float, default=0.0
        Largest Frobenius norm of what rounding does to a sum.

    Returns
    -------
    float
        ``sqrt(k) max_norm^2 + 2 accuracy``, with k = 1 for a row blank or not and 2 for one replaced.

    Notes
    -----
    ``z z'`` has the Frobenius norm ``|z|^2``. Of a row that is replaced,
    ``|z z' - w w'|^2 = |z|^4 + |w|^4 - 2 (z'w)^2``, which is largest for the longest rows at a right angle. That
    distance is the l2 distance of svec(z z'), the entries on and above the diagonal with a factor of sqrt(2) beside it:
    independent noise of one scale on these hides it as the Gaussian mechanism says.

    **One person with several rows** moves a sum no further than one row, if its m rows have weights of 1 / m: whatever
    is summed, and in whatever norm. With S all contributions of one row, and 0, that of a blank one, its own is a mean
    of some, and so lies in the convex hull of S, as it does where rounding leaves weights that add up to less than 1.
    The difference of two persons lies in ``conv(S) - conv(S) = conv(S - S)``, on which a norm, being convex, is largest
    at a point of ``S - S``: at the difference of two rows, or of a row and 0, which none of the bounds here are below.
    How many rows either person has does not enter. Contributions may be vectors of many things, as of products of
    columns and of gradients; and gradients may be taken at weights that earlier noisy sums decide, as this holds for
    each course of these. It holds for sums: where the minimiser of a perturbed risk is released, Hessians count as
    well, and that of a person is not of rank one.

    Examples
    --------
    >>> from skdprp.sensitivity import moments_sensitivity
    >>> round(moments_sensitivity(max_norm=2.0, adjacency="add_remove"), 9)
    4.0
    """
    return float(np.sqrt(rows_that_differ(adjacency)) * max_norm**2 * (1 + 2.0**-50) + 2 * accuracy)


@with_python_numbers
def histograms_sensitivity(norms_squared, *, adjacency="replace_one"):
    """Largest l2 distance between sums of rows of codes, one code for each column of a table.

    Parameters
    ----------
    norms_squared : float
        Sum over the columns of the largest squared norm of a code; codes have no negative entries.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.

    Returns
    -------
    float
        ``sqrt(k norms_squared)``, with k = 1 for a row blank or not and 2 for one replaced.

    Notes
    -----
    A value of column j adds its code v_j to the sum of that column: a unit vector, where values are counted, or a
    column of C, where sums are released that make prefix sums. A row more moves the sums by
    ``sqrt(sum_j |v_j|^2)``. Of a row that is replaced, ``|v_j - w_j|^2 = |v_j|^2 + |w_j|^2 - 2 v_j'w_j`` is at most
    ``|v_j|^2 + |w_j|^2``, as entries are not negative: attained where two codes have no entry in common, as those of
    a missing value and of one in the first cell.

    Examples
    --------
    >>> from skdprp.sensitivity import histograms_sensitivity
    >>> round(histograms_sensitivity(8.0), 9), round(histograms_sensitivity(9.0, adjacency="add_remove"), 9)
    (4.0, 3.0)
    """
    return float(np.sqrt(rows_that_differ(adjacency) * norms_squared) * (1 + 2.0**-50))
