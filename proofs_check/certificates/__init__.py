"""The checker of certificates: a second program that proves again what a certificate claims.

Its arithmetic is its own. Of `reconstruct` it imports the readers of network files and the plain
types of a network, and nothing else.
"""

from proofs_check.certificates.checker import check
from proofs_check.certificates.report import CheckReport, CheckStatus

__all__ = ["CheckReport", "CheckStatus", "check"]
