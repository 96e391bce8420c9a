"""`reconstruct check`: the same as `python -m proofs_check certificate`."""

from __future__ import annotations

from argparse import Namespace

from proofs_check.certificates.command import main as prove_again


def main(options: Namespace) -> int:
    words = ["--json"] if options.json else []
    for name in ("target", "candidate"):
        place = getattr(options, name)
        words += [] if place is None else [f"--{name}={place}"]
    return prove_again([*words, "--", options.path])
