"""Flipped signs of projections: DPSignRP and DPSignOPORP."""

from abc import abstractmethod
from numbers import Real

import numpy as np
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.utils.extmath import row_norms

from .. import _noise
from .._adjacency import Relation
from .._calibration import Calibration
from .._digits import printed_down, printed_up
from .._errors import silent, warn_at_caller
from .._validation import POSITIVE, PRIVACY_CONSTRAINTS, SKETCH_CONSTRAINTS, Interval, StrOptions
from ..composition import PrivacyLoss, Profile, loss_of_laplace_noise
from ..mechanisms import laplace_scale, randomised_response_profile, sampled_target
from ..mechanisms.published import published_sign_changes
from ..mechanisms.randomised_response import (
    binomial_flip_epsilon,
    flip_thresholds,
    hidden_flip_epsilon,
    laplace_flip_thresholds,
    sign_change_probability,
)
from ..random_projection import make_projection
from ..sensitivity import component_sensitivity, l1_sensitivity
from ._base import DENSITY, DRAW, ROUNDING_MARGIN, BaseSketch, blocks_of, changes_hidden_by_noise, check_delta_of_a_draw

_LL_4 = "Li and Li, arXiv:2306.01751, Section 4; in floating point: proof in skdprp.mechanisms.flip_probability"
_SIGNS_OF_LAPLACE = "Dwork et al. 2006, of the signs of the noisy projection"
_MARGIN_OF_DISTANT_ROWS = ROUNDING_MARGIN / 64  # so little that it hardly adds to the probability that a sign changes
SIGN_CONSTRAINTS = {
    **SKETCH_CONSTRAINTS,
    "epsilon": [Interval(Real, 1e-300, 1e300, closed="both")],  # its share of one bit is a float
    "output": [StrOptions({"sign", "packed"})],
}


class SignSketch(BaseSketch):
    """The signs of a projection, some of them flipped."""

    @property
    def _n_features_out(self):
        return -(-self.projection_.n_components // 8) if self.output == "packed" else self.projection_.n_components

    def _output_dtype(self, dtype):
        return np.uint8 if self.output == "packed" else np.int8

    def _randomise(self, x):
        positive = self._release_signs(x)
        return np.packbits(positive, axis=1) if self.output == "packed" else 2 * positive.astype(np.int8) - 1

    @abstractmethod
    def _release_signs(self, x):
        """Turn unscaled projections into Booleans, true for a positive sign."""

    def _warn_of_uselessness(self):
        super()._warn_of_uselessness()
        k, p = self.projection_.n_components, self.n_features_in_
        n_nonzeros = p if self.max_nonzeros is None else min(self.max_nonzeros, p)
        reached = self.projection_.n_reached(n_nonzeros)
        if 2 * reached >= k or (self.max_nonzeros is None and k > p):  # that there are more bits than features was said
            return
        row = "any row" if self.max_nonzeros is None else f"a row with max_nonzeros={self.max_nonzeros}"
        warn_at_caller(
            f"At most {reached} of the {k} bits of {row} depend on the row: no nonzero reaches the others, which are "
            "random at any epsilon. To compare bits with bits, choose fewer n_components, or more bits for each "
            "nonzero: n_repeats, see skdprp.similarity.best_n_repeats, or a larger density. For plain queries, ignore "
            "this.",
            DataDimensionalityWarning,
        )

    def _component_change(self, projection):
        """Change c of each projection between neighbours, with a margin for the rounding of the projection itself.

        Computed projections of neighbours differ by at most ``c (1 + ROUNDING_MARGIN)``: `_check_domain` refuses the
        rows whose rounding could exceed it.
        """
        change = component_sensitivity(projection, self.max_change)
        # A component that no feature reaches has c = 0, and its projection is always 0: any positive number serves.
        return np.where(change > 0, change, 1.0) * (1 + ROUNDING_MARGIN)


class FlippedSignSketch(SignSketch):
    """Signs flipped at random: by levels, at a loss of `flip_epsilon_` for each unit change, or as by Laplace noise."""

    def _levels_of_flips(self, projection, flip_epsilon):
        """Fitted attributes of flips by levels, for a loss of each bit."""
        return {
            "component_change_": self._component_change(projection),
            "flip_epsilon_": flip_epsilon,
            "flip_thresholds_": flip_thresholds(flip_epsilon),
        }

    def _mean_squared_loss(self, n_nonzeros):
        """Of signs, all of which are random for a row of zeros.

        Laplace flips are the signs of noisy numbers, whose affinity they have at least. A bit that is flipped with
        probability ``1 / (1 + e^a)`` and a random one have ``cosh(a / 4) / sqrt(cosh(a / 2))``, which is at least
        ``exp(-a^2 / 32)``: with y = a / 4, ``log cosh(2 y) / 2 - log cosh(y)`` is at most ``y^2 / 2``, as its
        derivative ``tanh(2 y) - tanh(y) = tanh(y) / cosh(2 y)`` is at most y. So l = a / 2. Of the levels
        ``ceil(|x| / c)`` of "smooth" the squares are at most ``1 + 3 (x / c)^2``.
        """
        if "flip_scale_" in self._noise_of_fit:
            return self._mean_squared_move(n_nonzeros) / self.flip_scale_**2
        levels = self.projection_.n_reached(n_nonzeros)
        if self.method != "rr":
            change = component_sensitivity(self.projection_, self.max_change)
            levels += 3 * self._mean_squared_move(n_nonzeros) / change[change > 0].min(initial=np.inf) ** 2
        return levels * (self.flip_epsilon_ / 2) ** 2

    def _l1_sensitivity(self, projection):
        """How far a change moves all projections together, which are not divided."""
        relation = Relation.L2 if self.adjacency == Relation.L2 else Relation.L1  # a coordinate is a corner of l1
        return projection.divisor * l1_sensitivity(projection, relation, self.max_change)

    def _laplace_scale(self, projection):
        """Scale of Laplace flips: that of noise on the whole projection, not divided, whose signs these are."""
        sensitivity = self._l1_sensitivity(projection)
        epsilon, _ = sampled_target(self.epsilon, 0.0, n_changed=projection.n_components)
        # Where W is zero so are all projections, and their signs coins: any positive number serves.
        return laplace_scale(epsilon, sensitivity=sensitivity * (1 + ROUNDING_MARGIN)) or 1.0

    def _loss_of_laplace_flips(self, n_bits):
        return loss_of_laplace_noise(sampled_target(self.epsilon, 0.0, n_changed=n_bits)[0], n_bits)

    def _changes_hidden_by_laplace_flips(self, projection, scale):
        """How many times `max_change` two rows may be apart, as of the noise whose signs these are."""
        loss = self._l1_sensitivity(projection) / scale
        return changes_hidden_by_noise(loss, noise="laplace", n_values=projection.n_components)

    def _stated(self, flips, delta, mechanism, source, loss=None, assumptions=(), hidden=None):
        """Calibration of flips that are the fitted attributes."""
        guarantee = self._guarantee(
            delta,
            adjacency=self.adjacency,
            released="the signs of the projection, flipped at random",
            mechanism=mechanism,
            source=source,
            loss=loss,
            assumptions=assumptions,
            hidden_changes=hidden,
        )
        return Calibration(guarantee, flips)

    @silent
    def positive_probability(self, x):
        """Probability with which bits are released as +1, by their projections.

        It is public: estimators that compare queries with released bits weigh what a bit says by it.

        Parameters
        ----------
        x : array-like of float, of a shape that broadcasts with (n_components,)
            Projections as ``projection_.project`` returns them, which are not divided by the root of their number.

        Returns
        -------
        ndarray of float64
            The exact probability out of 2**64, rounded to a float.

        Raises
        ------
        ValueError
            If a projection is NaN, or a parameter was changed after fit.

        Examples
        --------
        >>> from skdprp import DPSignOPORP
        >>> sketch = DPSignOPORP(2, epsilon=1.0, max_change=0.5).fit([[0.0, 0.0, 0.0]])
        >>> sketch.positive_probability([[-2.1], [0.0], [0.3]]).round(3)
        array([[0.007, 0.007],
               [0.5  , 0.5  ],
               [0.731, 0.731]])
        """
        self._check_calibrated()
        x = np.asarray(x, dtype=np.float64)
        if np.isnan(x).any():
            raise ValueError("A projection is NaN.")
        shape = np.broadcast_shapes(x.shape, (self.projection_.n_components,))
        levels, thresholds = self._flips(np.broadcast_to(x, shape).copy())
        flipped = thresholds[levels] * 2.0**-64
        return np.where(x > 0, 1 - flipped, flipped)

    def _flips(self, x):
        """How signs of projections, which are overwritten, are flipped: places in thresholds, and the thresholds."""
        if "flip_scale_" in self._noise_of_fit:  # an attribute of this name may be of a fit of other parameters
            thresholds = laplace_flip_thresholds(np.divide(x, self.flip_scale_, out=x)).reshape(-1)
            return np.arange(x.size).reshape(x.shape), thresholds
        last = len(self.flip_thresholds_) - 1
        if self.method == "rr":
            # One level for all, but for zeros: their sign is no sign, and a fair coin.
            return np.minimum(x != 0, last).astype(np.uint8), self.flip_thresholds_
        # The level ceil(|x| / c): a neighbour moves x by c at most, and so the level by one at most.
        np.divide(np.abs(x, out=x), self.component_change_, out=x)
        return np.clip(np.ceil(x, out=x), 0, last, out=x).astype(np.uint16), self.flip_thresholds_  # minimum is slower

    def _release_signs(self, x):
        positive = x > 0
        return positive ^ _noise.flip(*self._flips(x))


def _changes_hidden_by_levels(method, n_bits, flip_epsilon):
    """How many times `max_change` two rows may be apart so that the best guess is right with probability 3/4 at most.

    A change of m times `max_change` moves levels by m at most, and so each bit loses m times as much; with one level
    for all, a bit never loses more.
    """
    changes = hidden_flip_epsilon(n_bits) // flip_epsilon
    return np.inf if method == "rr" and changes else changes


def _loss_of_bits(n_bits, flip_epsilon):
    """Loss of the bits that one change may reach: each has at most that of randomised response."""
    return PrivacyLoss(profiles=(Profile.of(randomised_response_profile, epsilon0=flip_epsilon, n_bits=n_bits),))


class DPSignRP(FlippedSignSketch):
    """Release randomly flipped signs of a random projection of each row.

    Signs say most when the features are centred: subtract public constants first.

    Parameters
    ----------
    n_components : int, default=256
        Number k of bits of a sketch.
    epsilon : float, default=1.0
        Privacy of a change of one row by at most `max_change`, in one release: with such a neighbour, an outcome is at
        most exp(epsilon) times as probable, plus `delta`.
    delta : float, default=0.0
        The probability that is added, see `epsilon`; with `min_norm`, at least 1e-9. Even a small one allows far fewer
        flips.
    max_change : float, default=1.0
        Size beta of the change that is covered; how well it is hidden, `epsilon` says. A public choice, never read from
        the data.
    adjacency : {"coordinate", "l1"}, default="l1"
        Which distance; "coordinate" is for one coordinate that changes by `max_change`. With a very sparse W and the
        method "smooth" or "rr", "coordinate" needs fewer flips, because a change of one coordinate reaches few bits.
    method : {"smooth", "rr", "laplace"}, default="smooth"
        "smooth" flips a sign less often the farther its projection x is from zero: by its level, ``|x| / c`` rounded up
        to a whole number, where c is the most that a covered change moves x. "rr" (randomised response) flips all
        alike. "laplace" flips a sign as often as Laplace noise would, by the distance from zero itself: about half as
        strong near zero, twice as strong far from it, and best where W is Gaussian or very sparse and changes may
        spread.
    min_norm : float or None, default=None
        Least l2 norm that every row is assumed to have, a public choice. Rows below it are refused. With method="rr",
        projection="gaussian" and delta > 0 it allows still fewer flips.
    projection : {"rademacher", "gaussian", "uniform", "very_sparse"}, default="rademacher"
        Distribution of the entries of W.
    density : "auto" or float, default="auto"
        Share 1 / s of nonzero entries of a very sparse projection; "auto" is 1 / sqrt(n_features).
    calibration : {"exact", "published"}, default="exact"
        How `min_norm` is used: by the exact distribution of the number of signs that differ, or by the published bound
        N_+.
    max_nonzeros : int or None, default=None
        Largest number of nonzeros in a row, such as the words of a message, as far as is known without the data. If, by
        this bound, most bits of every row are random, or the noise nearly hides whole rows, fit warns. Nothing else
        depends on it: rows with more nonzeros are released in the same way.
    output : {"sign", "packed"}, default="sign"
        Signs as int8 -1 and +1, or eight of them packed in a byte (uint8, +1 as a set bit).
    random_state : int, RandomState instance or None, default=None
        Draws the public projection; share it to share the projection. It never seeds the noise.
    n_jobs : int or None, default=None
        Threads of a large `transform`.

    Attributes
    ----------
    projection_ : Projection
        The public projection.
    component_change_ : ndarray of shape (n_components,)
        Methods "smooth" and "rr": c of each projection, the most that a covered change moves it. It then changes a
        level by one at most, see `method`.
    flip_epsilon_ : float
        Methods "smooth" and "rr": privacy loss of one bit.
    flip_thresholds_ : ndarray of uint64, shape (n_levels,)
        Methods "smooth" and "rr": probability, out of 2**64, that a sign of each level is flipped.
    flip_scale_ : float
        Method "laplace": the scale b; a sign is flipped with probability ``exp(-|x| / b) / 2``, x being its projection,
        not divided.
    guarantee_ : PrivacyGuarantee
        What one release guarantees.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPSignOPORP : Far fewer flips when a change stays in one coordinate.

    Notes
    -----
    In [1]_ it is DP-SignRP-RR-smooth, and with ``method="rr"`` DP-SignRP-RR: by Remark 4.1 there, and with `min_norm`
    by Algorithm 6, exactly or with ``calibration="published"``.

    A neighbour moves each projection j by ``c_j = max_change max_i |w_ij|`` at most: its bit loses epsilon' at most,
    whatever W is and whichever rows are compared. So m bits that are flipped independently lose no more than m-fold
    randomised response [2]_, m being all bits, or for one coordinate the largest number of nonzeros in a row of the
    drawn W. With delta = 0 that is epsilon' = epsilon / m. With delta > 0 and without `min_norm` it is the largest loss
    of a bit at which delta is exactly `delta`, for every W and not on average over draws of it. Laplace flips have the
    scale of the largest c_j over epsilon', or of the l1 sensitivity of the projection over epsilon: whichever is less.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.
    .. [2] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSignRP
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = DPSignRP(64, epsilon=20.0, random_state=0).fit(X)
    >>> sketch.transform(X[:2]).dtype
    dtype('int8')
    >>> sketch.guarantee_
    20.0-DP per transform, l1 change of 1.0
    """

    _parameter_constraints: dict = {
        **SIGN_CONSTRAINTS,
        "adjacency": [StrOptions({"coordinate", "l1"})],
        "method": [StrOptions({"smooth", "rr", "laplace"})],
        "delta": PRIVACY_CONSTRAINTS["delta"],
        "min_norm": [*POSITIVE, None],
        "projection": [StrOptions({"rademacher", "gaussian", "uniform", "very_sparse"})],
        "density": DENSITY,
        "calibration": [StrOptions({"exact", "published"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        delta=0.0,
        max_change=1.0,
        adjacency="l1",
        method="smooth",
        min_norm=None,
        projection="rademacher",
        density="auto",
        calibration="exact",
        max_nonzeros=None,
        output="sign",
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.max_change = max_change
        self.adjacency = adjacency
        self.method = method
        self.min_norm = min_norm
        self.projection = projection
        self.density = density
        self.calibration = calibration
        self.max_nonzeros = max_nonzeros
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw_projection(self, n_features, random_state):
        return make_projection(self.projection, n_features, self.n_components, random_state, density=self.density)

    def _calibrate(self, projection):
        if self.min_norm is not None:
            return self._calibrate_for_distant_rows(projection)
        # What is stated must hold of any draw of W, for reports on fits to come: how many bits a coordinate reaches, or
        # which of two scales is less, is of this one, so that the loss stated there is any with this epsilon and delta.
        # A coordinate reaches the nonzeros of its row of W, a change that is spread may reach all bits: they share.
        one_coordinate = self.adjacency == Relation.COORDINATE
        n_bits = max(1, projection.n_reached()) if one_coordinate else projection.n_components
        flip_epsilon, source = float(self.epsilon) / n_bits, _LL_4
        if self.delta > 0:
            flip_epsilon = binomial_flip_epsilon(self.epsilon, self.delta, n_components=n_bits, changed=1.0)
            source = "Kairouz, Oh and Viswanath, ICML 2015, Theorem 3.3"
        if self.method != "laplace":
            is_of_this_draw = one_coordinate and self.projection == "very_sparse"
            loss = None if is_of_this_draw else _loss_of_bits(n_bits, flip_epsilon)
            mechanism = f"randomised response, {self.method}, privacy loss {printed_up(flip_epsilon, 6)} per bit"
            hidden = _changes_hidden_by_levels(self.method, n_bits, flip_epsilon)
            flips = self._levels_of_flips(projection, flip_epsilon)
            return self._stated(flips, self.delta, mechanism, source, loss, hidden=hidden)
        scale = without_delta = self._laplace_scale(projection)
        if self.delta > 0:
            epsilon, _ = sampled_target(flip_epsilon, 0.0, n_changed=1)
            change = component_sensitivity(projection, self.max_change).max() * (1 + ROUNDING_MARGIN)
            scale = min(scale, laplace_scale(epsilon, sensitivity=change) or scale)
        source = _SIGNS_OF_LAPLACE if scale == without_delta else source
        mechanism = f"Laplace flips, scale {printed_down(scale, 6)}"
        hidden = self._changes_hidden_by_laplace_flips(projection, scale)
        loss = None if self.delta > 0 else self._loss_of_laplace_flips(projection.n_components)
        return self._stated({"flip_scale_": scale}, self.delta, mechanism, source, loss, hidden=hidden)

    def _calibrate_for_distant_rows(self, projection):
        """Calibrate for rows far from zero, which seldom change a sign.

        A sign may also differ by rounding, when the projection of either row is within margin / 4 * max_change times
        the largest entry of W of zero, on either side: its density there is at most 0.4 / min_norm.
        """
        if self.method != "rr" or self.projection != "gaussian" or self.delta == 0:
            raise ValueError(
                "min_norm needs method='rr', projection='gaussian' and delta > 0: of other projections, how many "
                "signs differ depends on the rows."
            )
        check_delta_of_a_draw(self.delta)
        relative_change, k = self.max_change / self.min_norm, projection.n_components
        rounding = 0.4 * _MARGIN_OF_DISTANT_ROWS * projection.max_entry * relative_change
        changed = min(1.0, sign_change_probability(relative_change) + rounding)
        flip_epsilon = binomial_flip_epsilon(self.epsilon, self.delta, n_components=k, changed=changed)
        if self.calibration != "exact":  # for the published N_+ is no bound on short rows
            published = published_sign_changes(
                self.delta, relative_change=relative_change, n_features=projection.n_features, n_components=k
            )
            flip_epsilon = min(flip_epsilon, self.epsilon / published)
        return self._stated(
            self._levels_of_flips(projection, flip_epsilon),
            self.delta,
            f"randomised response, rr, privacy loss {printed_up(flip_epsilon, 6)} per bit",
            "binomial mixture of randomised responses, exact for Gaussian projections",
            assumptions=(DRAW, f"every row has l2 norm at least {self.min_norm} (rows below are refused)"),
        )

    def _check_domain(self, X):
        if self.min_norm is None:
            return super()._check_domain(X)
        super()._check_domain(X, _MARGIN_OF_DISTANT_ROWS)
        if not all((row_norms(rows) >= self.min_norm).all() for rows in blocks_of(X)):
            raise ValueError(f"X has a row of l2 norm below min_norm={self.min_norm}, which the guarantee excludes.")


class DPSignOPORP(FlippedSignSketch):
    """Release randomly flipped signs of one permutation and one random projection of each row.

    A change of one coordinate moves one bin only, so that each bit may use the whole epsilon. With ``adjacency="l1"`` a
    change may spread over many bins. The flips are then drawn in another way: the privacy loss of a bit is at most how
    far its bin moves, divided by `flip_scale_`, and so the losses of all bits add up to at most epsilon. Signs say most
    when the features are centred: subtract public constants first.

    The bit of an empty bin, whose features are all zero in a row, is random. Where rows have zeros and epsilon is not
    small, repeat (`n_repeats`): t sketches of k / t bits have bins that hold t times as many features.

    Parameters
    ----------
    n_components : int, default=256
        Number k of bits of a sketch, a multiple of `n_repeats`.
    epsilon : float, default=1.0
        Privacy of a change of one row by at most `max_change`, in one release: with such a neighbour, an outcome is at
        most exp(epsilon) times as probable.
    max_change : float, default=1.0
        Size beta of the change that is covered; how well it is hidden, `epsilon` says. A public choice, never read from
        the data.
    adjacency : {"coordinate", "l1", "l2"}, default="coordinate"
        Which distance. With "coordinate" one coordinate may change by `max_change`; rows that differ in several
        coordinates by this much in all are **not** covered. "l1" and "l2" cover them; "l2" has sqrt(n_features) times
        the `flip_scale_` of "l1".
    method : {"auto", "smooth", "rr", "laplace"}, default="auto"
        "smooth" flips a sign less often the farther its projection x is from zero: by its level, ``|x| / c`` rounded up
        to a whole number, where c is the most that a covered change moves x. "rr" (randomised response) flips all
        alike. Both are for one coordinate. "laplace" flips a sign as often as Laplace noise would, by the distance from
        zero itself. "auto" is "smooth" for one coordinate, and "laplace" for others.
    n_repeats : int, default=1
        Number t of independent projections with k / t bits each, at epsilon / t each: repetitions against empty bins.
        :func:`skdprp.similarity.best_n_repeats` chooses it from public numbers; 1 is best for dense rows.
    max_nonzeros : int or None, default=None
        Largest number of nonzeros in a row, such as the words of a message, as far as is known without the data. If, by
        this bound, most bits of every row are random, or the noise nearly hides whole rows, fit warns. Nothing else
        depends on it: rows with more nonzeros are released in the same way.
    output : {"sign", "packed"}, default="sign"
        Signs as int8 -1 and +1, or eight of them packed in a byte (uint8, +1 as a set bit).
    random_state : int, RandomState instance or None, default=None
        Draws the public projection; share it to share the projection. It never seeds the noise.
    n_jobs : int or None, default=None
        Threads of a large `transform`.

    Attributes
    ----------
    projection_ : Projection
        The public projection.
    component_change_ : ndarray of shape (n_components,)
        Methods "smooth" and "rr": c of each projection, the most that a covered change moves it. It then changes a
        level by one at most, see `method`.
    flip_epsilon_ : float
        Methods "smooth" and "rr": privacy loss of one bit.
    flip_thresholds_ : ndarray of uint64, shape (n_levels,)
        Methods "smooth" and "rr": probability, out of 2**64, that a sign of each level is flipped.
    flip_scale_ : float
        Method "laplace": the scale b; a sign is flipped with probability ``exp(-|x| / b) / 2``, x being its projection.
    guarantee_ : PrivacyGuarantee
        What one release guarantees.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPSignRP : Signs of dense and very sparse projections.
    skdprp.similarity.best_n_repeats : Chooses `n_repeats`.

    Notes
    -----
    In [1]_ it is DP-SignOPORP-RR-smooth, and with ``method="rr"`` DP-SignOPORP-RR.

    With ``method="laplace"`` the bits are the signs of ``DPOPORP(noise="laplace")`` under the same `adjacency`: that
    noise is never drawn, only whether it turns a sign. The loss of a bit is how far its bin moves, over b, and so that
    of all bits is the l1 sensitivity over b, wherever a row lies.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSignOPORP
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = DPSignOPORP(64, epsilon=1.0, output="packed", random_state=0).fit(X)
    >>> sketch.transform(X).shape
    (1797, 8)
    >>> sketch.guarantee_
    1.0-DP per transform, one coordinate changed by 1.0
    """

    _parameter_constraints: dict = {
        **SIGN_CONSTRAINTS,
        "adjacency": [StrOptions({"coordinate", "l1", "l2"})],
        "method": [StrOptions({"auto", "smooth", "rr", "laplace"})],
        "n_repeats": SKETCH_CONSTRAINTS["n_components"],
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        max_change=1.0,
        adjacency="coordinate",
        method="auto",
        n_repeats=1,
        max_nonzeros=None,
        output="sign",
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.max_change = max_change
        self.adjacency = adjacency
        self.method = method
        self.n_repeats = n_repeats
        self.max_nonzeros = max_nonzeros
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw_projection(self, n_features, random_state):
        return make_projection("oporp", n_features, self.n_components, random_state, n_repeats=self.n_repeats)

    def _calibrate(self, projection):
        of_levels = self.adjacency == Relation.COORDINATE
        method = ("smooth" if of_levels else "laplace") if self.method == "auto" else self.method
        if method == "laplace":
            scale = self._laplace_scale(projection)
            flips, mechanism = {"flip_scale_": scale}, f"Laplace flips, scale {printed_down(scale, 6)}"
            source, hidden = _SIGNS_OF_LAPLACE, self._changes_hidden_by_laplace_flips(projection, scale)
            loss = self._loss_of_laplace_flips(projection.n_components)
        elif of_levels:
            # A coordinate goes to one bin of each repeat, and these bits share epsilon.
            flip_epsilon = float(self.epsilon) / self.n_repeats
            flips = self._levels_of_flips(projection, flip_epsilon)
            bits = f"{self.n_repeats} bit" + "s" * (self.n_repeats > 1)
            each = f"privacy loss {printed_up(flip_epsilon, 6)} per bit; one coordinate affects {bits}"
            mechanism, source = f"randomised response, {method}, {each}", _LL_4
            loss = _loss_of_bits(self.n_repeats, flip_epsilon)
            hidden = _changes_hidden_by_levels(method, self.n_repeats, flip_epsilon)
        else:
            raise ValueError(
                f"method={self.method!r} hides a change of one coordinate: a change in {self.adjacency} may reach all "
                'bits. Choose method="laplace".'
            )
        return self._stated(flips, 0.0, mechanism, source, loss, hidden=hidden)
