"""What was spent: releases recorded when they are made, with totals and limits."""

from .._open_ledgers import UnrecordedNoiseError
from ._journal import LedgerError
from ._ledger import PrivacyLedger, entry
from ._limit import Left
from ._totals import Entry, Total

for _public in (Entry, Left, LedgerError, PrivacyLedger, Total, UnrecordedNoiseError):
    _public.__module__ = __name__

__all__ = ["Entry", "LedgerError", "Left", "PrivacyLedger", "Total", "UnrecordedNoiseError", "entry"]
