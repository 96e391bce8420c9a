"""`reconstruct check`: the same as `python -m proofs_check certificate`."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from proofs_check.certificates.command import main as prove_again
from reconstruct.cli.progress import ProgressDisplay
from reconstruct.cli.verdict import say
from reconstruct.runs.files import NETWORK


def main(options: Namespace) -> int:
    words = ["--json"] if options.json else []
    for name in ("target", "candidate", "memory"):
        place = getattr(options, name)
        words += [] if place is None else [f"--{name}={place}"]
    with ProgressDisplay(options.quiet or options.json, task="proving the certificate again"):
        code = prove_again([*words, "--", options.path])
    if code and options.candidate is None and _compact(Path(options.path)):
        again = shlex.join(["reconstruct", "rebuild", options.path])
        say(f"{NETWORK} is not there, but can be made again: {again}", options)
    return code


def _compact(folder: Path) -> bool:
    """Whether this is the output of a run without its network."""
    return (folder / "norms.npz").exists() and not (folder / NETWORK).exists()
