"""The ledger that a fit is recorded in, if the options name one."""

import os
from contextlib import contextmanager
from pathlib import Path

from .._digits import as_given
from ..ledger import PrivacyLedger
from ._options import budget


def add_ledger(parser):
    """Add the options of the ledger."""
    parser.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="file such as people.jsonl that records what all fits to these rows have released: one for each data set;"
        " in Python, print(skdprp.PrivacyLedger('people.jsonl')) shows it",
    )
    parser.add_argument(
        "--limit",
        type=budget,
        metavar="EPSILON[:DELTA]",
        help="budget of all that the --ledger records, fixed before its first fit: a fit that would pass it is refused"
        f" (default of DELTA: {as_given(budget.delta)})",
    )


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
