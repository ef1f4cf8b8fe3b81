"""Transformers that learn nothing from the rows: their bounds and edges do not come from the data."""

from ._binner import PublicBinner
from ._scaler import PublicScaler

__all__ = ["PublicBinner", "PublicScaler"]
