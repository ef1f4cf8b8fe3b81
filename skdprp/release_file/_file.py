"""Files of releases: a header of plain values, arrays, and a checksum of both; nothing is pickled.

A file is written beside its place and takes it when it is whole and on the disk, so that an older one stands until
then. What is read may come from anybody: reading takes a few times the memory that the file has bytes, and runs nothing
that it names. Only projections are drawn from a few bytes; `load_release` bounds their size.
"""

import hashlib
import json
import os
import shutil
import struct
import zipfile
from functools import partial
from pathlib import Path
from tokenize import TokenError
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy

from .._version import __version__
from ..ledger._journal import keep_name

_FORMAT = 1
_DESCRIPTION_LENGTH = 10_000
_KINDS = "biufUS"  # of arrays: numbers and texts
_HEADER_LENGTH = 2**25  # characters
_MOST_CONTAINERS = 10**6  # lists and dictionaries in a header, each of which takes more memory than it has characters
_READERS = {  # by a fact that the files of each have, and those of the next ones do not
    "model": "load_model",
    "sketch": "load_release",
    "threshold": "load_histograms",
    "noise_scale": "load_moments",
}
_DAMAGED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    OSError,  # of seeks to where a damaged directory says
    RuntimeError,  # also of what is nested too deep, or encrypted
    SyntaxError,
    TokenError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
)


def replace_file(path, dump):
    """Let `dump` write a file that takes the place of `path` when it is complete and on the disk."""
    target = Path(path).resolve()  # what a link points to is replaced, and not the link
    if target.exists() and not target.is_file():  # a device or a pipe, of which there is no other version
        return dump(target)
    part = target.with_name(f".{uuid4().hex}{target.suffix}")  # beside it, with the ending that says the format
    try:
        dump(part)
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None  # not of a part that nobody asked for
    finally:
        part.unlink(missing_ok=True)
    keep_name(target)


def write(path, facts, arrays):
    """Write public facts and arrays to one file."""
    header = json.dumps({"format": _FORMAT, "version": __version__} | facts)
    replace_file(path, partial(_write_arrays, header=header, checksum=checksum_of(header, arrays), **arrays))


def _write_arrays(path, **arrays):
    with open(path, "wb") as file:  # to a path, numpy would add a suffix
        np.savez(file, **arrays)


def read(path, reader, names, rebuild):
    """Return what `rebuild` makes of the facts and arrays of a file, of these names or any, once its checksum holds.

    `reader` is the public function that was called: a file of another kind is refused by the name of its own.
    """
    with open(path, "rb") as stream:
        try:
            arrays = _read_arrays(stream)
            header, checksum = arrays.pop("header").item(), arrays.pop("checksum").item()
            found = checksum_of(header, arrays)
        except _DAMAGED as error:
            raise ValueError(f"{path}: not a file that skdprp.{reader} reads, or a damaged one.") from error
    if checksum != found:
        raise ValueError(f"{path}: the parts of this release do not match: its checksum is another.")
    try:
        if len(header) > _HEADER_LENGTH or header.count("[") + header.count("{") > _MOST_CONTAINERS:
            raise ValueError("its header is longer than any.")
        facts = json.loads(header)
        agree("format", facts["format"], _FORMAT)
        check_description(facts.get("description", ""))  # files of before there was one have none
        if not isinstance(facts["version"], str):
            raise TypeError("its version is no text.")
        reader_of_its_kind = next((name for fact, name in _READERS.items() if fact in facts), reader)
        if reader == reader_of_its_kind:
            if names is not None:
                agree("set of arrays", sorted(arrays), sorted(names))
            return rebuild(facts, **arrays)
    except _DAMAGED as error:
        raise ValueError(f"{path}: the parts of this release do not match: {error}") from error
    raise ValueError(f"{path}: {reader} does not read this kind of file; use skdprp.{reader_of_its_kind}.")


def _read_arrays(stream):
    """Arrays by their names, which take as much memory as the file has bytes."""
    size = os.fstat(stream.fileno()).st_size
    with zipfile.ZipFile(stream) as file:
        members = file.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("some of it is compressed.")
        if sum(member.file_size for member in members) > size:
            raise ValueError("its parts are longer than the file.")
        arrays = {}
        for member in members:
            with file.open(member) as bytes_of:
                arrays[member.filename.removesuffix(".npy")] = _read_array(bytes_of, member.file_size)
    if len(arrays) < len(members):
        raise ValueError("two parts have the same name.")
    return arrays


def _read_array(stream, size):
    """An array that has just as many bytes as are left of so many."""
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(stream)]
    shape, in_columns, dtype = read_header(stream)
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise ValueError("an array is of no plain type.")
    n_values = 1
    for length in shape:  # in integers of any size
        n_values *= length
    if min(shape, default=1) < 0 or n_values * dtype.itemsize != size - stream.tell() or max(shape, default=0) > size:
        raise ValueError("an array is of another size than it says.")
    array = np.empty(shape, dtype, order="F" if in_columns else "C")
    values = memoryview(array.reshape(-1, order="A").view(np.uint8))
    n_read = 0
    while step := stream.readinto(values[n_read:]):
        n_read += step
    if n_read != len(values):
        raise EOFError("an array ends too soon.")
    return array


def checksum_of(header, arrays):
    """Checksum of a header and arrays."""
    # Of bytes alone, which are the same under every version of Python and numpy: pickles, and hashes of them, are not.
    digest = hashlib.sha256(header.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def check_description(description):
    """Raise ValueError unless the words for a recipient are a string that is not too long."""
    if not isinstance(description, str) or len(description) > _DESCRIPTION_LENGTH:
        raise ValueError(f"the description should be a string of at most {_DESCRIPTION_LENGTH:,} characters.")


def agree(what, found, expected):
    """Raise ValueError unless what was found is what other parts of the file say."""
    if found != expected:
        raise ValueError(f"the {what} is {found!r}, and should be {expected!r}.")
