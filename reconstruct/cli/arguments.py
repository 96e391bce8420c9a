"""Words of the command line that are more than a number or a name."""

from __future__ import annotations

import argparse


def ratio(text: str) -> float | str:
    """A number, or the word auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or auto, but is {text!r}") from None


def folder(text: str) -> str:
    """The name of a directory; an empty one would be the current directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "must name a directory, but is empty; write . for the current one"
        )
    return text


def add_output(parser: argparse.ArgumentParser) -> None:
    """`-o OUT`, which a command cannot do without."""
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=folder, required=True, help="directory to write"
    )
