"""Transformers for what comes before a model: by public bounds and edges, or by private histograms of the columns."""

from ._binner import PublicBinner
from ._private_binner import DPBinner
from ._private_scaler import DPScaler
from ._scaler import PublicScaler
from ._table import make_table_preprocessor

__all__ = ["DPBinner", "DPScaler", "PublicBinner", "PublicScaler", "make_table_preprocessor"]
