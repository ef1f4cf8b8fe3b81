"""Sketches in files, with all that queries need to compare with them."""

import re
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, gen_batches

from .. import _noise, random_projection, sketch
from .._calibration import state_guarantee
from .._digits import to_python
from .._validation import FLOATS
from ..guarantee import PrivacyGuarantee
from ..sketch._base import RELEASED_SEEDED
from ._file import agree, check_description, read, write

_SKETCHES = {name: getattr(sketch, name) for name in sketch.__all__}
_PROJECTIONS = {
    kind.__name__: kind
    for kind in vars(random_projection).values()
    if isinstance(kind, type) and issubclass(kind, random_projection.Projection)
}
_BY_FEATURE = [  # one entry for each feature
    name
    for name, kind in _PROJECTIONS.items()
    if issubclass(kind, random_projection.OPORPProjection | random_projection.IdentityProjection)
]
_PROBED = 4096  # features whose projection is stored, to tell whether a projection came back as it was
_BITS = 64.0  # noise makes all numbers of a release even once in 2^64 releases


@dataclass(frozen=True, eq=False)
class Release:
    """Sketches that were published, and what a recipient needs to use them.

    Parameters
    ----------
    sketches : ndarray of shape (n_samples, n_features_out)
        The sketches.
    guarantee : PrivacyGuarantee
        The guarantee of their release.
    estimator : estimator
        A sketch with the same projection and parameters, ready to `transform` queries, with noise of their own. It
        has no `random_state`: fitted again, it would draw another projection.
    version : str
        The skdprp that wrote the file.
    description : str, default=""
        Description by the person who saved it; nothing checks that.
    """

    sketches: np.ndarray = field(repr=False)
    guarantee: PrivacyGuarantee
    estimator: BaseEstimator
    version: str
    description: str = ""


def save_release(path, sketches, estimator, *, description=""):
    """Write sketches, their guarantee and their public parameters to one file.

    The guarantee is that of `estimator`, so give the sketch that made them, not fitted again since. Nothing can tell
    whether it did: bits that were made at epsilon = 5 may as well come from a sketch at epsilon = 1.

    Parameters
    ----------
    path : str or Path
        The file, by custom with the suffix .npz; overwritten.
    sketches : array-like of shape (n_samples, n_features_out)
        What `estimator` released by `transform`.
    estimator : estimator
        The fitted sketch that did.
    description : str, default=""
        Public words for the recipient, up to 10,000 characters: what a row is, how it was scaled, whom to ask. No
        guarantee covers them: write nothing that was read off the rows.

    Raises
    ------
    TypeError
        If `estimator` is a Pipeline: its maps are not saved.
    ValueError
        If `estimator` is no sketch of this package, was changed after fit, or cannot have made `sketches`, or if
        `description` is no such string. Nothing is written then.

    Notes
    -----
    The file holds the sketches, the parameters but for `random_state`, the seed of the projection, the number and names
    of the features, the scale of the noise, the guarantee and the description: what the guarantee counts as public. The
    number of features and their names are the only things in it that come from the data; what audits have shown, by
    :meth:`skdprp.audit.AuditResult.attach_to`, comes from the rows that they were run on. Nothing is pickled.

    Queries must be prepared as the rows were before they reached the sketch: the file does not know how, and the
    description can say it. Names of features are those of the rows that reached the sketch. Behind a step that hands on
    an array there are none: call `set_output(transform="pandas")` of this step to keep them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSignOPORP, load_release, save_release
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = DPSignOPORP(64, epsilon=5.0, output="packed").fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     words = "digits, 8 x 8 pixels from -0.5 to 0.5"
    ...     save_release(Path(folder, "digits.npz"), sketch.transform(X[100:]), sketch, description=words)
    ...     release = load_release(Path(folder, "digits.npz"))
    >>> release.guarantee, release.description
    (5.0-DP per transform, one coordinate changed by 1.0, 'digits, 8 x 8 pixels from -0.5 to 0.5')
    >>> release.sketches.shape, release.estimator.transform(X[:100]).shape
    ((1697, 8), (100, 8))
    """
    if isinstance(estimator, Pipeline):
        raise TypeError("Pass the sketch alone, pipeline[-1], and say in description what rows pass before it.")
    if type(estimator) not in _SKETCHES.values():
        raise ValueError(f"{type(estimator).__name__} is no sketch of skdprp.")
    estimator._check_calibrated()  # or the file would state a guarantee for parameters that were not those of its noise
    if estimator._was_fitted_otherwise:
        raise ValueError(
            "The sketches may be of an earlier fit, under another guarantee: fit a clone for each purpose."
        )
    check_description(description)
    sketches = np.ascontiguousarray(sketches)
    _check_sketches(sketches, estimator)
    arrays = {"sketches": sketches, "probe": _probe(estimator.projection_)}
    write(path, _describe(estimator) | {"description": description}, arrays)


def load_release(path, *, max_projection_size=2**26):
    """Read a release back, and refuse it unless all its parts belong together.

    Parameters
    ----------
    path : str or Path
        A file written by :func:`save_release`.
    max_projection_size : int, default=2**26
        Most entries of a projection that are drawn to see that it comes back: a small file may ask for a large one,
        and for hours of work. The default takes a second or two; :class:`DPOPORP` and :class:`DPSignOPORP` count 8 a
        feature, whatever their number of components.

    Returns
    -------
    Release

    Raises
    ------
    ValueError
        If the file is no release, is of an unknown format, was damaged, or if the sketches, the parameters, the
        guarantee and the projection do not fit each other or this version of the package, or if the projection is
        larger than `max_projection_size`.

    Notes
    -----
    The checksum finds damage, not forgery: anybody who can write the file can write its checksum.

    A file is read if its format is that of this version, if this version computes the same guarantee and the same noise
    from its parameters, and if numpy draws the same projection from its seed. Otherwise it is refused, and the error
    says what differs. The version that wrote the file is not compared.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdprp import DPOPORP, load_release, save_release
    >>> sketch = DPOPORP(2).fit([[1.0, 2.0, 3.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_release(Path(folder, "row.npz"), sketch.transform([[1.0, 2.0, 3.0]]), sketch)
    ...     load_release(Path(folder, "row.npz")).guarantee
    (1.0, 1e-06)-DP per transform, l1 change of 1.0
    """
    rebuild = partial(_rebuild, largest=max_projection_size)
    return read(path, "load_release", ("sketches", "probe"), rebuild)


def _describe(estimator):
    """All but the arrays, as plain values."""
    parameters = estimator.get_params(deep=False) | {"random_state": None}
    names, stated = getattr(estimator, "feature_names_in_", None), estimator.guarantee_
    # The sketches may be of a copy, which does not mark this one, or those of the file that this one came from.
    was_seeded = estimator._fit_name in RELEASED_SEEDED or getattr(estimator, "_came_with_seeded_sketches", False)
    return {
        "sketch": type(estimator).__name__,
        "fit": getattr(estimator, "_name_in_file", estimator._fit_name),
        "parameters": parameters,
        "feature_names": None if names is None else list(names),
        "projection": _describe_projection(estimator.projection_),
        "fitted": _fitted_values(estimator),
        "guarantee": (stated.mark_seeded() if was_seeded else stated).to_dict(),
    }


def _fitted_values(estimator):
    """Numbers of the noise that have no underscore before their names: arrays follow from them."""
    known = estimator._noise_of_fit.items()
    return {name: float(value) for name, value in known if np.ndim(value) == 0 and not name.startswith("_")}


def _describe_projection(projection):
    """What a projection is rebuilt from."""
    if isinstance(projection, random_projection.StackedProjection):
        return {"parts": [_describe_projection(part) for part in projection.parts]}
    names = ("n_features", "n_components", "seed", "density")
    state = {name: to_python(getattr(projection, name)) for name in names if hasattr(projection, name)}
    return {"kind": type(projection).__name__, **state}


def _rebuild_projection(state):
    if "parts" in state:
        return random_projection.StackedProjection([_rebuild_projection(part) for part in state["parts"]])
    state = dict(state)
    return _PROJECTIONS[state.pop("kind")](**state)


def _check_size(kind, projection, parameters, largest):
    """Refuse a projection, as the file describes it, that would take longer to draw than the caller allows."""
    parts = projection.get("parts", [projection])
    agree("number of repetitions", parameters.get("n_repeats", 1), len(parts))
    shapes = [(part["n_features"], part["n_components"]) for part in parts]
    n_components = parameters.get("n_components", 1)
    if not all(type(number) is int and number > 0 for shape in [*shapes, (n_components,)] for number in shape):
        raise ValueError("its projection has no shape.")
    drawn = [p * (8 if part["kind"] in _BY_FEATURE else k) for part, (p, k) in zip(parts, shapes, strict=True)]
    size = sum(drawn) + 64 * (n_components + sum(k for _, k in shapes))
    if parameters.get("adjacency") == "l2":  # whose sensitivity is a spectral norm
        size += sum(k * k * (p + k) // 256 for p, k in shapes)
    if parameters.get("delta") and kind == "DPSignRP":  # whose flips follow from the loss of all bits together
        size += n_components**2 // 4
    if size > largest:
        raise ValueError(f"its projection has a size of {size:,}: raise max_projection_size if you trust the file.")


def _probe(projection):
    """Projection of one public row over features from the first to the last: a mark of W."""
    features = np.unique(np.linspace(0, projection.n_features - 1, _PROBED).astype(np.int64))
    values = 1.0 + np.arange(len(features)) % 1009
    row = sp.csr_array((values, features, [0, len(features)]), shape=(1, projection.n_features))
    return projection.project(row)[0]


def _rebuild(header, sketches, probe, *, largest):
    """Make the release of a header and its arrays, and check that each part agrees with the others."""
    _check_size(header["sketch"], header["projection"], header["parameters"], largest)
    # Only sketches and projections of this package are ever made: a file cannot name anything else.
    estimator = _SKETCHES[header["sketch"]](**header["parameters"])
    estimator._validate_params()
    projection = _rebuild_projection(header["projection"])
    # The projection is of the kind that the parameters ask for, and multiplies as it did when it was saved: another
    # version of numpy may draw another one from the same seed.
    drawn = estimator._draw_projection(projection.n_features, check_random_state(0))
    agree("projection", _without_seeds(projection), _without_seeds(drawn))
    rebuilt = _probe(projection)
    if probe.shape != rebuilt.shape or not np.allclose(probe, rebuilt, rtol=1e-9, atol=1e-9 * np.abs(rebuilt).max()):
        raise ValueError("the projection does not come back as it was, so that sketches of queries would not compare.")
    estimator.n_features_in_ = projection.n_features
    if header["feature_names"] is not None:
        agree("number of feature names", len(header["feature_names"]), projection.n_features)
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    # The guarantee is stated anew, from parameters and projection: that of the file is compared, and not believed.
    estimator._calibrate_to(projection)
    guarantee = PrivacyGuarantee.from_dict(header["guarantee"])
    _check_guarantee(guarantee, header["fitted"], estimator)
    known = {name: getattr(guarantee, name) for name in ("audited_epsilon", "violation")}
    state_guarantee(estimator, replace(estimator.guarantee_, **known))
    # A model that was fitted behind it knows this name. Its own says what it releases from now on.
    estimator._name_in_file = header.get("fit", estimator._fit_name)
    if type(estimator._name_in_file) is not str or not re.fullmatch("[0-9a-f]{32}", estimator._name_in_file):
        raise ValueError("its fit has another name than fits have.")
    guarantee = replace(estimator.guarantee_, seeded=guarantee.seeded)
    estimator._came_with_seeded_sketches = guarantee.seeded
    _check_sketches(sketches, estimator)
    return Release(sketches, guarantee, estimator, header["version"], header.get("description", ""))


def _without_seeds(projection):
    parts = getattr(projection, "parts", [projection])
    return [_describe_projection(part) | {"seed": None} for part in parts]


def _check_guarantee(guarantee, fitted, estimator):
    """The parameters lead to the guarantee and the noise that the sketches were released with."""
    for name in ("epsilon", "delta", "definition", "unit", "adjacency"):
        agree(name, getattr(guarantee, name), getattr(estimator.guarantee_, name))
    hidden, stated = guarantee.hidden_changes, estimator.guarantee_.hidden_changes or 0.0
    if hidden is not None and hidden > stated * (1 + 1e-9):  # files of before do not say
        raise ValueError(f"{hidden!r} changes are not hidden, but {stated!r}.")
    agree("noise", sorted(fitted), sorted(_fitted_values(estimator)))
    for name, value in _fitted_values(estimator).items():
        if not np.isclose(fitted[name], value, rtol=1e-9, atol=0):
            raise ValueError(f"{name} was {fitted[name]:.6g}, and this version of skdprp makes it {value:.6g}.")
    # Field by field, and not by what they come to: profiles with large parameters take long.
    losses = (stated.to_dict()["loss"] for stated in (guarantee, estimator.guarantee_))
    if not _are_alike(*losses):
        raise ValueError("the privacy loss is not that of the mechanism.")


def _are_alike(one, other):
    """Whether two plain values are the same up to what versions round in numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-6, atol=0))
    return one == other


def _check_sketches(sketches, estimator):
    """The sketches have the shape, the dtype and the values that the estimator releases."""
    if not len(sketches):
        raise ValueError("there are no sketches.")
    dtypes = {np.dtype(estimator._output_dtype(np.dtype(dtype))) for dtype in FLOATS}
    if sketches.dtype not in dtypes:
        raise ValueError(f"the dtype of the sketches is {sketches.dtype}, not {' or '.join(map(str, dtypes))}.")
    agree("shape of the sketches", sketches.shape, (*sketches.shape[:1], estimator._n_features_out))
    if not all(_can_be_released(sketches[rows], estimator) for rows in gen_batches(len(sketches), 4096)):
        raise ValueError("the sketches hold values that this estimator does not release.")


def _can_be_released(values, estimator):
    """Whether values are signs, packed bits with nothing beyond the last one, or multiples of the grid of the noise."""
    if values.dtype == np.int8:
        return (np.abs(values) == 1).all()
    if values.dtype == np.uint8:
        unused = -estimator.projection_.n_components % 8
        return not (values[:, -1] & ((1 << unused) - 1)).any()
    # Noise puts every release on a public grid: plain projections, which nobody should publish, are off it mostly.
    if estimator.scale_ == 0:  # no noise is needed where W is zero, and then so are all sketches
        return not values.any()
    grid = _noise._grid(estimator.scale_)
    exact = values.astype(np.float64)
    if not np.isfinite(values).all() or not _are_multiples(exact, grid):
        return False
    # Those of whole numbers lie on it, and take even steps only, as noise does in one of two numbers. Large numbers are
    # rounded to steps of their type; of those that are far below the scale of the noise a quarter, at least, are odd.
    steps = np.maximum(np.spacing(np.abs(values)).astype(np.float64), grid)
    is_fine = steps <= max(grid, estimator.scale_ / 16)
    bits = np.where(steps[is_fine] == grid, 1.0, 0.4).sum()  # log2 of how seldom noise makes all of them even
    return bits < _BITS or not _are_multiples(exact[is_fine], 2 * steps[is_fine])


def _are_multiples(values, steps):
    """Whether all values are multiples of powers of two; faster than remainders."""
    with np.errstate(over="ignore"):
        multiples = values / steps
        return bool(((multiples == np.rint(multiples)) & (multiples * steps == values)).all())
