"""`python -m benchmarks.attack`: see `campaign`."""

from __future__ import annotations

from benchmarks.attack.campaign import main

if __name__ == "__main__":
    raise SystemExit(main())
