"""`reconstruct export`: the question of equality, for verifiers of other people."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict

from reconstruct.equivalence.export import FILES, export
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.networks import Box
from reconstruct.reports.folder import OutputFolder


def main(options: Namespace) -> int:
    target, candidate = load(options.target), load(options.candidate)
    domain = load_domain(options.domain, target.size_in)
    if not isinstance(domain, Box):
        raise InputError("a VNN-LIB property speaks of one box, but the domain is made of data")
    with OutputFolder(options.output, force=options.force) as folder:
        files = export(
            target,
            candidate,
            domain=domain,
            tolerance=options.tolerance,
            folder=folder.staging,
        )
        folder.publish(FILES)
    written = {role: folder.path / staged.name for role, staged in asdict(files).items()}
    if options.json:
        print(json.dumps({role: str(path) for role, path in written.items()}, indent=2))
    elif not options.quiet:
        for path in written.values():
            print(path)
    return 0
