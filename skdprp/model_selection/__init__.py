"""One budget for all private steps of a pipeline, and a private search for the best of several pipelines."""

from ._budget import set_budget
from ._search import DPSearchCV

__all__ = ["DPSearchCV", "set_budget"]
