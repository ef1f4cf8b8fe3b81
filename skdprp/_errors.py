"""Errors and warnings that quote no data: words of other libraries about rows are withheld, unless they are known."""

import re
import sys
import traceback
import warnings
from contextlib import nullcontext
from contextvars import ContextVar
from decimal import localcontext
from functools import wraps

import numpy as np
from scipy import special

from ._open_ledgers import RecordingError

# Modules between a caller and a warning: what runs a fit, perhaps in a thread.
_MACHINERY = {"skdprp", "sklearn", "joblib", "contextlib", "functools", "threading", "concurrent", "multiprocessing"}
# Whose words about data are known: those that validate and convert them.
_CONVERTERS = {"skdprp", "sklearn", "numpy", "scipy", "narwhals", "pandas", "polars", "pyarrow"}
_MISSING = (
    "X contains NaN. Before the private step put SimpleImputer(strategy='constant', fill_value=0, "
    "keep_empty_features=True) or, for tables, make_table_preprocessor; values filled in must not come from the data."
)
CURE_OF_LABELS = (
    "drop the rows without a label beforehand, and look only at the label of each row to do so; the number of rows "
    "that have one is then assumed to be public. Or, for classes, make 'missing' a class of its own. (Private steps "
    "before a model may already be paid: privacy_report(model, X, y) looks for such labels before a fit.)"
)
TIMES = "{} has dates or spans of time where numbers should be: make them days since a date that is not from the data."
_NO_MEMORY = "There is not enough memory for the data; how much was wanted is withheld, for it may tell of the rows."
TEXT = "{} has text where numbers should be: encode it by categories that do not come from the data."
_WITHHELD = "{} cannot be read ({}; what it says is withheld, for it may quote the data)."
_QUOTES = ("Complex data not supported", "Expected 2D array")  # the rest of these is the array itself
_RESHAPE = ": one row or one column? Reshape your data by .reshape(1, -1) or .reshape(-1, 1)."
_SHAPE = re.compile(r"\(\d[\d, ]*\)")  # whose number of rows, of persons, is not public
_LENGTHS = ": X, y and what else has an entry for each row need the same number of rows."
_SAFE = re.compile(  # messages of scikit-learn and numpy that name shapes, types and columns, and no values
    r"Input (X |y )?contains infinity|Found (array|input variables) with|X has \d+ features|Feature names |"
    r"The feature names should match|Sparse data was passed|Only sparse matrices with|This \w+ estimator requires y|"
    r"Expected (2D input|a 2-dimensional container|sequence or array-like, got <class|unique column names)|"
    r"y should be a 1d array, got an|(float|int)\(\) argument must be|setting an array element with a sequence|"
    r"Unknown label type|Classification metrics can't handle|X has categories that are neither|X is damaged: |"
    r"np\.matrix is not supported"
)
TELLS_NOBODY = ContextVar("tells_nobody", default=False)  # filters of warnings are those of all threads


class Refusal(ValueError):
    """Words about data that quote none of it."""


def silent(function):
    """Let no floating-point error or warning of numpy or scipy leave a function of rows: it would tell of a row.

    Nor do flags of decimals, which a comparison of cells may raise.

    The caller may have asked for them, by :func:`numpy.seterr` or :func:`scipy.special.seterr`; a thread begins with
    warnings of overflows. Nor does an error say how much memory was wanted: as much as there are rows, or nonzeros.
    """

    @wraps(function)
    def _silent(*args, **known):
        # To tell scipy.special is slow: only where it was told to do more than raise for want of memory, its default.
        told = {kind for kind, action in special.geterr().items() if action != "ignore"} - {"memory"}
        untold = special.errstate(**dict.fromkeys(told, "ignore")) if told else nullcontext()
        try:
            with np.errstate(all="ignore"), untold, localcontext():
                return function(*args, **known)
        except MemoryError as error:
            if type(error) is MemoryError:  # which has no words, or those of this library
                raise
        raise MemoryError(_NO_MEMORY)  # here and not in the handler, or the first error were its context

    return _silent


def without_values(function, *data, name="X", **options):
    """Call a function of data, such as a validator, and let no error quote the data, which go by `name`.

    Its error is not the context of the one that is raised, or a traceback would print it.
    """
    try:
        return silent(function)(*data, **options)
    except (MemoryError, RecordingError):  # which have no words of the data
        raise
    except Exception as error:
        kind, message = TypeError if isinstance(error, TypeError) else ValueError, _public(error, name)
    raise kind(message)  # here and not in the handler, or the first error were its context


def _public(error, name):
    """What an error says, if it is known to quote no data."""
    if isinstance(error, Refusal):
        return str(error)
    withheld = _WITHHELD.format(name, type(error).__name__)
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    # A cell, or a container of rows, may raise what begins as an error of a library that validates or converts it.
    if str(frame.f_globals.get("__name__")).partition(".")[0] not in _CONVERTERS:
        return withheld
    message = str(error)
    if missing := re.match(r"Input (\w+ )?contains NaN", message):  # what follows advises to learn from the rows
        return _MISSING if missing[1] == "X " else f"y contains NaN: {CURE_OF_LABELS}"
    if "NA is ambiguous" in message:
        return f"Missing cells are NA: make them nan in X; if they are in y, {CURE_OF_LABELS}"
    if message.startswith("Input should have at least 1 dimension"):  # and quotes it
        return "One number is given where there should be one for each row."
    if "convert string" in message or "bytes/strings" in message:
        return TEXT.format(name)
    if message.startswith(_QUOTES):
        first = re.split("[:\\n]", message)[0]
        return first + _RESHAPE * first.startswith("Expected")
    if message.startswith("Found input variables with"):  # and with how many rows each
        return message.partition(":")[0] + _LENGTHS
    # Without columns, as the common checks of scikit-learn can read it.
    message = _SHAPE.sub(lambda shape: "(, 0)" if shape[0].endswith(", 0)") else "(n_samples, ...)", message)
    return message if _SAFE.match(message) or message == TIMES.format(name) else withheld


def warn_at_caller(message, category):
    """Warn at the line that called into this library, through scikit-learn or not; in a thread, at its start."""
    if TELLS_NOBODY.get():
        return
    frame = sys._getframe(1)
    # A pipeline or a search lies between, and a count of frames to go up would differ with it.
    while str(frame.f_globals.get("__name__")).partition(".")[0] in _MACHINERY and frame.f_back:
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
