"""``C="auto"``: penalties from public quantities."""

import numpy as np

_LEAST = 0.05  # beyond epsilon = 100 or so, where noise no longer matters


def balanced_penalty(problem, noise_scale):
    """Penalty that balances the noise of objective perturbation against shrinkage.

    Chosen on scikit-learn's digits and breast cancer data and on synthetic problems; checked on others.

    Parameters
    ----------
    problem : Problem
        Public facts.
    noise_scale : float
        Standard deviation of each coordinate of the linear term.

    Returns
    -------
    float
        In proportion to the noise and to sqrt(n_classes); more when the noise outweighs the rows themselves.

    Notes
    -----
    The noise moves weights that the data does not determine by noise_scale / penalty, so that scores of rows of norm R
    stay of order one if the penalty is of order R noise_scale.
    """
    K, R = problem.n_classes, problem.row_norm
    relative_noise = noise_scale * np.sqrt(problem.n_features) / (R * problem.n_samples)
    balanced = 0.63 * np.sqrt(K) * R * noise_scale * (1 + 36 * relative_noise**2 / (K - 1) ** 1.5)
    return max(balanced, _LEAST * R**2)


def output_penalty(problem, noise_scale):
    """Penalty that balances the noise of output perturbation against shrinkage.

    Parameters
    ----------
    problem : Problem
        Public facts.
    noise_scale : float
        Root mean square of each coordinate of the noise at penalty 1.

    Returns
    -------
    float
    """
    balanced = 2.5 * np.sqrt(problem.n_classes) * problem.row_norm * noise_scale
    return max(balanced, _LEAST * problem.row_norm**2)
