"""From verdicts to exit codes, and how the command line speaks."""

from __future__ import annotations

import sys
from argparse import Namespace

from reconstruct.certificates.verdicts import Verdict

EXIT = {Verdict.CERTIFIED: 0, Verdict.REFUTED: 1, Verdict.UNDECIDED: 3}


def exit_code(verdict: Verdict) -> int:
    return EXIT[verdict]


def say(message: str, options: Namespace) -> None:
    """One line on stderr, unless it was asked to be quiet."""
    if not options.quiet:
        sys.stderr.write(f"reconstruct: {message}\n")
