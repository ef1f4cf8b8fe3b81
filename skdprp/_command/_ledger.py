"""The ledger that a fit is recorded in, if the options name one."""

import os
from contextlib import contextmanager

from ..ledger import PrivacyLedger


def check_ledger(options):
    """Refuse a file that is no ledger, or can be none, before anything is read."""
    if options.ledger is None:
        if options.limit is not None:
            raise ValueError("--limit goes with --ledger FILE, which counts what is spent")
        return
    folder = options.ledger.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{options.ledger}: no such folder")
    if options.ledger.is_dir() or not os.access(options.ledger if options.ledger.exists() else folder, os.W_OK):
        raise ValueError(f"{options.ledger}: cannot be written")
    if options.ledger.exists():
        PrivacyLedger(options.ledger).total()


def is_ledger(path):
    """Whether a file records releases, which no output may take the place of."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16) == b'{"skdprp ledger"'


@contextmanager
def ledger_of(options):
    """Open the ledger with its limit, or None where there is none."""
    if options.ledger is None:
        yield None
        return
    with PrivacyLedger(options.ledger) as ledger:
        if options.limit is not None:
            ledger.limit(*options.limit)
        yield ledger
