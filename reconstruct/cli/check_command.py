"""`reconstruct check`: the same as `python -m proofs_check certificate`."""

from __future__ import annotations

from argparse import Namespace

from proofs_check.certificates.command import main as prove_again


def main(options: Namespace) -> int:
    return prove_again([*(["--json"] if options.json else []), "--", options.path])
