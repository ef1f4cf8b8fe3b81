"""Files that the command writes: whole, or not at all."""

import os
from contextlib import contextmanager

from ._ledger import is_ledger


def check_output(path, kind, types):
    """Refuse a file that cannot be written, or by its name is something else, such as the table."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{path}: no such folder")
    if path.is_dir() or not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ValueError(f"{path}: cannot be written")
    if path.suffix[1:] not in types:
        like = "png" if "png" in types else types[0]
        raise ValueError(f"{path}: not the name of a {kind}, like {path.stem or kind}.{like}")


def check_new(options, kind, suffix, *read):
    """Refuse an output that cannot be written, is there already unless --force is given, or is a file to read."""
    check_output(options.output, kind, (suffix,))
    ledger = getattr(options, "ledger", None)
    if is_ledger(options.output) or (ledger is not None and options.output.resolve() == ledger.resolve()):
        raise ValueError(f"{options.output}: is a ledger, and would be overwritten")
    if options.output.exists() and any(map(options.output.samefile, read)):
        raise ValueError(f"{options.output}: is a file to read, and would be overwritten")
    if options.output.exists() and not options.force:
        raise ValueError(f"{options.output}: exists already; --force overwrites it")


@contextmanager
def writing(path):
    """Say in one line why a file could not be written."""
    try:
        yield
    except OSError as error:  # such as a full disk
        raise ValueError(f"{path}: {error.strerror or 'cannot be written'}; nothing was written") from None
