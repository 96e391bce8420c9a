"""Every statement that `reconstruct` rests on, checked, and refuted when a hypothesis goes.

    python -m proofs_check                    the table
    python -m proofs_check --list             the statements
    python -m proofs_check certificate OUT    a certificate, proved again

An independent oracle: nothing here imports `reconstruct`, but for the checker of certificates,
which imports its readers of files and its plain types of networks.
"""

from proofs_check.core import (
    Check,
    Counterexample,
    Effort,
    Evidence,
    Finding,
    Formal,
    Level,
    Method,
    Negative,
    Outcome,
    Statement,
    Verdict,
)
from proofs_check.judge import judge

__all__ = [
    "Check",
    "Counterexample",
    "Effort",
    "Evidence",
    "Finding",
    "Formal",
    "Level",
    "Method",
    "Negative",
    "Outcome",
    "Statement",
    "Verdict",
    "judge",
]
