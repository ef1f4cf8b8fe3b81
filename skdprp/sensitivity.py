"""From (W, adjacency, max_change) to sensitivities: how far the projection of a row moves between neighbours.

Adjacency "l1" bounds the l1 distance of two rows by `max_change`, which covers a change of one coordinate; "l2" bounds
their l2 distance. All are computed on the realised W, which is public.
"""

import numpy as np


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
        Exact for "l1"; for "l2" the bound sqrt(k) times the l2 sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> from skdprp.sensitivity import l1_sensitivity
    >>> W = make_projection("rademacher", 100, 16, np.random.RandomState(0))
    >>> float(l1_sensitivity(W, "l1", max_change=1.0))
    4.0
    """
    if adjacency == "l1":
        return max_change * (projection.row_norm(1) / projection.divisor)
    return np.sqrt(projection.n_components) * l2_sensitivity(projection, adjacency, max_change)


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
    >>> float(l2_sensitivity(W, "l1", max_change=1.0))
    1.0
    """
    norm = projection.row_norm(2) if adjacency == "l1" else projection.spectral_norm()
    return max_change * (norm / projection.divisor)


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
