"""`python -m reconstruct` is the command line."""

import sys

from reconstruct.cli import main

if __name__ == "__main__":
    sys.exit(main())
