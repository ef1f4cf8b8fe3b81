"""Attacks: lower bounds on epsilon that anyone can measure, and membership inference.

An audit cannot prove privacy; it can prove the lack of it. :func:`audit_epsilon` runs a release many times on two
neighbouring data sets, learns to tell the outputs apart, and turns how often that works on fresh outputs into a lower
bound on epsilon that holds with a stated confidence. A bound above the guarantee refutes the guarantee.
"""

from ._epsilon import audit_epsilon
from ._membership import membership_inference_auc
from ._neighbours import worst_neighbours
from ._result import AuditResult

__all__ = ["AuditResult", "audit_epsilon", "membership_inference_auc", "worst_neighbours"]
