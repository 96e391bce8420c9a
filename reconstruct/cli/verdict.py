"""From verdicts to exit codes, and how the command line speaks."""

from __future__ import annotations

import sys
from argparse import Namespace

from reconstruct.certificates.verdicts import Verdict
from reconstruct.errors import InputError

EXIT = {Verdict.CERTIFIED: 0, Verdict.REFUTED: 1, Verdict.UNDECIDED: 3}


def exit_code(verdict: Verdict) -> int:
    return EXIT[verdict]


def say(message: str, options: Namespace) -> None:
    """One line on stderr, unless it was asked to be quiet."""
    if not options.quiet:
        sys.stderr.write(f"reconstruct: {message}\n")


def settle_density(options: Namespace) -> None:
    """Give `--sparsity`, as `--density` was called, the name of what it is, and say so."""
    old = vars(options).pop("sparsity")
    if old is None:
        return
    if options.density is not None:
        raise InputError(
            f"--sparsity is the old name of --density, but they are {old} and {options.density}; "
            f"give --density alone"
        )
    say(f"--sparsity {old} is a density, the share of weights kept: write --density", options)
    options.density = old
