"""Sketches of data larger than memory, chunk by chunk on one machine."""

import pickle
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import closing
from itertools import count, repeat
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed

from ._lazy import is_lazy
from ._rows import has_rows
from .ledger._ledger import Rows, current_rows
from .ledger._totals import CHUNKS


def transform_chunks(sketch, chunks, *, out=None, n_jobs=None, verbose=False):
    """Release a sketch of each row of each chunk, with few chunks in memory at a time.

    Parameters
    ----------
    sketch : estimator
        A fitted sketch, or another transformer of rows. In a ledger, each chunk counts as rows of its own if all steps
        are of classes of this library and of scikit-learn; with a class of yours, each counts for all rows.
    chunks : iterable of {array-like, sparse matrix} of shape (n_rows, n_features)
        Chunks of rows, in order and each taken when there is room for it: slices of a :class:`numpy.memmap`, parts of
        a file read by a generator. One array may be filled again for each: it is copied where others are in work.
    out : ndarray of shape (n_samples, n_features_out) or None, default=None
        Where the sketches go, with their dtype: for instance a writable memmap. None makes a new array.
    n_jobs : int or None, default=None
        How many chunks are sketched at a time, in threads unless :func:`joblib.parallel_config` names a backend. A
        pipeline, or a transformer of your own, is always called in threads, as copies of it in processes might draw
        the same noise.
    verbose : bool, default=False
        Whether to show progress in a line on standard error.

    Returns
    -------
    ndarray of shape (n_samples, n_features_out)
        The sketches: `out`, if it was given.

    Raises
    ------
    ValueError
        If the sketch refuses a chunk, there are no chunks, `chunks` is one table, or `out` has another shape or dtype
        than the sketches. If `out` was given, the rows before are then in it, and a note on the error tells their
        number: go on after them, for a second sketch of a row is a second release of it. A chunk that `out` has no
        place for has been released as well, and with several jobs a few after it, and a ledger has them. Without
        `out`, all sketches are lost.
    TypeError
        If `out` is no array that can be written to. Nothing has been released then.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.utils import gen_batches
    >>> from skdprp import DPSignOPORP, transform_chunks
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = DPSignOPORP(64, output="packed", random_state=0).fit(X[:1])
    >>> transform_chunks(sketch, (X[rows] for rows in gen_batches(len(X), 500))).shape
    (1797, 8)
    """
    if len(getattr(chunks, "shape", ())) == 2:
        raise ValueError(
            "These are rows, and not chunks of them: sketch.transform(X) takes all at once, and "
            "transform_chunks(sketch, (X[rows] for rows in sklearn.utils.gen_batches(len(X), 10_000))) some at a time."
        )
    if out is not None and not (isinstance(out, np.ndarray) and out.flags.writeable):
        raise TypeError("out has to be an array that can be written to, such as np.empty(shape, dtype).")
    width = getattr(sketch, "_n_features_out", None) if _is_sketch(sketch) else None
    if out is not None and width is not None and out.shape[1:] != (width,):
        raise ValueError(f"out has rows of shape {out.shape[1:]}, and the sketches {width} columns.")
    chunks = filter(has_rows, chunks)  # those before an error are released
    # Others, and steps of a pipeline, may draw noise from a generator of theirs, of which each process had a copy.
    where = {"prefer": "threads"} if _is_sketch(sketch) else {"require": "sharedmem"}
    release = Parallel(n_jobs=n_jobs, return_as="generator", **where)
    if release.n_jobs != 1:
        # One array may be filled again for each chunk: where others wait for their turn, each needs a copy of its own.
        # A deep copy of a frame of polars, or of pandas over Arrow, is another view of the same memory.
        chunks = (pickle.loads(pickle.dumps(chunk)) for chunk in chunks)
    failed = []  # what cuts off the chunks; it goes to no worker
    run, rows = f"{CHUNKS}{uuid4().hex}", current_rows()
    # Classes of the user may release other rows than those of the chunk: that counts for all.
    chunk_of = ((("", run, str(place)),) for place in count()) if _has_known_steps(sketch) else repeat(())
    tasks = (
        delayed(_transform)(sketch, chunk, rows, own)
        for chunk, own in zip(_until_error(chunks, failed), chunk_of, strict=False)
    )
    sketches = _one_by_one(tasks) if release.n_jobs == 1 else release(tasks)
    with closing(_in_turn(sketches, failed)) as sketches:
        if verbose:
            sketches = _show_progress(sketches, n_rows=None if out is None else len(out))
        if out is not None:
            return _fill(out, sketches)
        parts = list(sketches)
    if not parts:
        raise ValueError("There are no chunks.")
    return np.concatenate(parts)


def _is_sketch(transformer):
    return type(transformer).__module__.startswith("skdprp.sketch.")


def _one_by_one(tasks):
    """Do tasks here: a backend of joblib, as that of dask, may take several at a time whatever `n_jobs` is."""
    for function, args, known in tasks:
        yield function(*args, **known)


def _fill(out, sketches):
    done = 0
    try:
        for part in sketches:
            rest = out[done:]
            if rest.shape[1:] != part.shape[1:] or rest.dtype != part.dtype:  # nothing is rounded without a word
                raise ValueError(
                    f"out has rows of {rest.dtype} and shape {rest.shape[1:]}, the sketches of {part.dtype} and shape "
                    f"{part.shape[1:]}."
                )
            if len(rest) < len(part):
                raise ValueError("The chunks have more rows than out.")
            out[done : done + len(part)] = part
            done += len(part)
        if done < len(out):
            raise ValueError(f"out has {len(out)} rows, and the chunks {done} only.")
    except BaseException as error:  # also who stops it by hand has to know where to go on
        error.add_note(f"The sketches of the first {done} rows are in out.")
        raise
    return out


def _show_progress(sketches, n_rows):
    """Pass sketches on, and say on standard error how far it went and how long it may take."""
    start, done = time.monotonic(), 0
    for part in sketches:
        done += len(part)
        seconds = time.monotonic() - start
        rest = f" of {n_rows:,}, {seconds * (n_rows / max(done, 1) - 1):.0f} s to go" if n_rows else ""
        print(f"\r{done:,} rows sketched in {seconds:.0f} s{rest}   ", end="", file=sys.stderr, flush=True)
        yield part
    print(file=sys.stderr)


def _until_error(chunks, failed):
    """Yield chunks, and keep the error that cuts them off: a thread of joblib, which reads them, might lose it."""
    chunks = iter(chunks)
    while True:
        try:
            chunk = next(chunks)
        except StopIteration:
            return
        except BaseException as error:
            failed.append(error)
            return
        yield chunk


def _has_known_steps(sketch):
    """Whether an estimator, and all estimators that it holds, are of this library and of scikit-learn."""
    left, seen = [sketch], set()
    while left:
        held = left.pop()
        if type(held) in (str, int, float):  # of which lists may have many
            continue
        package = type(held).__module__.partition(".")[0]
        if id(held) in seen or package in ("pandas", "polars"):  # of which frames have a method of that name
            continue
        seen.add(id(held))
        if isinstance(held, Mapping):
            left += held.values()
        elif isinstance(held, list | tuple):
            left += held
        elif isinstance(held, np.ndarray):
            left += held.ravel().tolist() if held.dtype == object else []
        elif hasattr(held, "fit") or hasattr(held, "transform"):
            if package not in ("sklearn", "skdprp") or {"transform", "fit_transform"} & vars(held).keys():
                return False
            left += [value for name, value in vars(held).items() if not name.startswith("_")]
    return True


def _transform(sketch, chunk, rows, own):
    """Release a chunk, whose rows are in no other, as a ledger counts; return what refuses it, to be raised in turn."""
    try:
        own = () if is_lazy(chunk) and not _is_sketch(sketch) else own  # what computes it may release others
        with Rows((*rows, *own), are_all=True):
            output = sketch.transform(chunk)
        # Of others it may be a view of an array that is filled again.
        return output if _is_sketch(sketch) else np.array(output.toarray() if sp.issparse(output) else output)
    except Exception as error:  # raised here, it would overtake chunks before it that have been released
        return error


def _in_turn(results, failed):
    """Yield sketches, and raise an error once those before it are taken."""
    try:
        for result in results:
            if isinstance(result, BaseException):
                raise result
            yield np.asarray(result)
    finally:  # of chunks after it that others have begun, of which joblib would warn
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()
    if failed:
        raise failed[0]
