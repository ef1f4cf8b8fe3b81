"""Files of releases: a header of plain values, arrays, and a checksum of both; nothing is pickled."""

import hashlib
import json
import zipfile

import numpy as np

from .._version import __version__

_FORMAT = 1
_DESCRIPTION_LENGTH = 10_000


def write(path, facts, arrays):
    """Write public facts and arrays to one file."""
    header = json.dumps({"format": _FORMAT, "version": __version__} | facts)
    with open(path, "wb") as file:
        np.savez(file, header=header, checksum=checksum_of(header, arrays), **arrays)


def read(path, names, rebuild):
    """Return what `rebuild` makes of the facts and arrays of a file, once its checksum holds."""
    try:
        # Without pickles a file of somebody else cannot run code.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            header, checksum = file["header"].item(), file["checksum"].item()
            arrays = {name: file[name] for name in names}
    except (ValueError, TypeError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a release, or a damaged one.") from error
    if checksum != checksum_of(header, arrays):
        raise ValueError(f"{path}: the parts of this release do not match: its checksum is another.")
    try:
        facts = json.loads(header)
        agree("format", facts["format"], _FORMAT)
        return rebuild(facts, **arrays)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{path}: the parts of this release do not match: {error}") from error


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
