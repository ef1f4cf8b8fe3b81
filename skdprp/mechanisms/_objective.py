"""Scales of the linear term of objective perturbation."""

from dataclasses import dataclass

import numpy as np

from .._digits import with_python_numbers
from ..accounting import (
    objective_perturbation_profile,
    product_perturbation_profile,
    softmax_perturbation_profile,
)
from ._calibration import calibrated, remembered, require_positive_delta


def _require_room(epsilon, needed):
    if needed >= epsilon:
        raise ValueError(f"The log-determinant takes {needed:.6g} of epsilon={epsilon}: raise the penalty or epsilon.")


@remembered
def objective_perturbation_scale(
    epsilon, delta, *, lipschitz=1.0, log_det=0.0, adjacency="replace_one", n_outputs=1, release_shift=0.0
):
    """Calibrate Gaussian objective perturbation of binary linear models, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: :func:`~skdprp.accounting.objective_perturbation_profile` at `epsilon` is at most `delta`.
    lipschitz : float, default=1.0
        Largest norm of the gradient of one row's loss.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative of one problem.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.
    n_outputs : int, default=1
        Number of problems released together.
    release_shift : float, default=0.0
        Shift of the inexact minimiser, in units of the noise added to the release.

    Returns
    -------
    float
        Standard deviation of each coordinate of the perturbation.

    Raises
    ------
    ValueError
        If `delta` is not positive, or the log-determinants leave nothing of `epsilon`.

    Examples
    --------
    >>> from skdprp.mechanisms import objective_perturbation_scale
    >>> round(objective_perturbation_scale(1.0, 1e-5), 4)
    7.4613
    """
    require_positive_delta(delta)
    halves = 2 if n_outputs > 1 and adjacency == "replace_one" else 1
    _require_room(epsilon, halves * n_outputs * log_det)
    known = {"lipschitz": lipschitz, "log_det": log_det, "adjacency": adjacency, "n_outputs": n_outputs}
    return calibrated(
        lambda scale: objective_perturbation_profile(epsilon, scale=scale, release_shift=release_shift, **known),
        delta,
        start=lipschitz,
    )


@remembered
def softmax_perturbation_scale(
    epsilon, delta, *, n_classes, max_norm=1.0, log_det=0.0, adjacency="replace_one", release_shift=0.0
):
    """Calibrate Gaussian objective perturbation of multinomial logistic regression, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: :func:`~skdprp.accounting.softmax_perturbation_profile` at `epsilon` is at most `delta`.
    n_classes : int
        Number of classes.
    max_norm : float, default=1.0
        Largest norm of a row.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.
    release_shift : float, default=0.0
        Shift of the inexact minimiser, in units of the noise added to the release.

    Returns
    -------
    float
        Standard deviation of each coordinate of the perturbation, an array of all weights of all classes.

    Raises
    ------
    ValueError
        If `delta` is not positive, or the log-determinant leaves nothing of `epsilon`.

    Examples
    --------
    >>> from skdprp.mechanisms import softmax_perturbation_scale
    >>> round(softmax_perturbation_scale(1.0, 1e-5, n_classes=10), 2)
    11.87
    """
    require_positive_delta(delta)
    _require_room(epsilon, log_det)
    known = {"n_classes": n_classes, "max_norm": max_norm, "log_det": log_det, "adjacency": adjacency}
    return calibrated(
        lambda scale: softmax_perturbation_profile(epsilon, scale=scale, release_shift=release_shift, **known),
        delta,
        start=max_norm,
    )


@remembered
def product_perturbation_scale(
    epsilon, delta, *, n_dims, lipschitz=1.0, n_vertices=1, log_det=0.0, adjacency="replace_one"
):
    """Calibrate objective perturbation by multivariate Laplace noise, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: :func:`~skdprp.accounting.product_perturbation_profile` at `epsilon` is at most `delta`.
    n_dims : int
        Number of weights.
    lipschitz : float, default=1.0
        Largest norm of the gradient of one row's loss.
    n_vertices : int, default=1
        Number of extreme gradients of one row, 0 not counted.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.

    Returns
    -------
    float
        Scale s of the radius, which is s times a Gamma variate of shape `n_dims`.

    Raises
    ------
    ValueError
        If the log-determinant leaves nothing of `epsilon`.

    Examples
    --------
    >>> from skdprp.mechanisms import product_perturbation_scale
    >>> round(product_perturbation_scale(1.0, 1e-5, n_dims=14), 3)
    1.604
    """
    _require_room(epsilon, log_det)
    known = {"n_dims": n_dims, "lipschitz": lipschitz, "n_vertices": n_vertices}
    return calibrated(
        lambda scale: product_perturbation_profile(epsilon, scale=scale, log_det=log_det, adjacency=adjacency, **known),
        delta,
        start=lipschitz,
    )


@dataclass(frozen=True)
class PublishedPerturbation:
    """The parts of a privacy budget as approximate minima perturbation splits it, with their scales.

    Parameters
    ----------
    scale_factor, release_factor, penalty_factor : float
        Standard deviations of the perturbation and of the noise of the release, and the least penalty, for gradients
        and second derivatives of at most 1 and a minimiser known to within distance 1.
    epsilon_noise, delta_noise : float
        The part of the budget that calibrates the perturbation.
    """

    scale_factor: float
    release_factor: float
    penalty_factor: float
    epsilon_noise: float
    delta_noise: float


@with_python_numbers
def published_objective_perturbation(epsilon, delta):
    """Split the budget and calibrate approximate minima perturbation as published, without hyperparameters (H-F AMP).

    Parameters
    ----------
    epsilon, delta : float
        Claimed guarantee, for one row replaced.

    Returns
    -------
    PublishedPerturbation

    Raises
    ------
    ValueError
        If `delta` is not positive.

    References
    ----------
    .. [1] R. Iyengar, J. P. Near, D. Song, O. Thakkar, A. Thakurta and L. Wang, "Towards Practical Differentially
       Private Convex Optimization", IEEE S&P 2019.

    Examples
    --------
    >>> from skdprp.mechanisms import published_objective_perturbation
    >>> round(published_objective_perturbation(1.0, 1e-5).scale_factor, 3)
    12.934
    """
    require_positive_delta(delta)
    # The noise of the release is calibrated for half of what it has to hide: the claim does not follow.
    epsilon_release, delta_release = 0.01 * epsilon, 0.01 * delta
    epsilon_objective, delta_noise = epsilon - epsilon_release, delta - delta_release
    share = max(min(0.887 + 0.019 / epsilon**0.373, 0.99), 1 - 1 / epsilon + 0.001)
    epsilon_noise = share * epsilon_objective
    scale_factor = 2 * _published_gaussian_factor(epsilon_noise, delta_noise)
    release_factor = _published_gaussian_factor(epsilon_release, delta_release)
    penalty_factor = 2 / (epsilon_objective - epsilon_noise)
    return PublishedPerturbation(scale_factor, release_factor, penalty_factor, epsilon_noise, delta_noise)


def _published_gaussian_factor(epsilon, delta):
    return float((1 + np.sqrt(2 * np.log(1 / delta))) / epsilon)
