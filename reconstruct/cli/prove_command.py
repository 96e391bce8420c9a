"""`reconstruct prove`: the same as `python -m proofs_check`."""

from __future__ import annotations

from argparse import Namespace

from proofs_check.cli import main as prove


def main(options: Namespace) -> int:
    words = [f"--{flag}" for flag in ("json", "thorough", "list") if getattr(options, flag)]
    if options.only is not None:
        words += ["--only", options.only]
    return prove(words)
