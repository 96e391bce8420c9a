"""`reconstruct rebuild`: the networks of a run again, from its seed, construction and norms."""

from __future__ import annotations

import json
from argparse import Namespace

from reconstruct.runs.rebuild import rebuild


def main(options: Namespace) -> int:
    made = rebuild(options.path, target=options.target, frozen=options.frozen)
    if options.json:
        plain = {"files": [str(path) for path in made.files], "sha256": made.sha256}
        print(json.dumps(plain, indent=2, ensure_ascii=False))
    elif options.quiet:
        print(f"REBUILT: the bytes are those of the certificate (sha256 {made.sha256})")
    else:
        for path in made.files:
            print(path)
        print(f"the same bits as certified: sha256 {made.sha256}")
    return 0
