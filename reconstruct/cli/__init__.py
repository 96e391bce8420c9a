"""The command line: parse, run one command, turn every outcome into an exit code.

0 certified or all proved; 1 refuted, or the match failed; 2 bad usage or bad input; 3 undecided;
4 internal error. Verdicts and `--json` go to stdout, progress and messages to stderr. Commands
import what they need when they run, so that `--help` is instant.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from reconstruct.cli import process
from reconstruct.cli.parser import build_parser
from reconstruct.errors import ReconstructError
from reconstruct.progress import OutOfTime


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words, process.started = list(sys.argv[1:] if argv is None else argv), time.perf_counter()
    with process.lasting_streams() as stdout:
        try:
            alone = not process.launched()
            code = _command(words) if alone else process.run_as_job(words, lambda: _command(words))
        except ReconstructError as error:  # there is no MPI to run a job with
            code = _message(str(error), 2)
        if stdout is not None:
            stdout.flush()
            if stdout.failure is not None:
                return _message(
                    f"stdout cannot be written ({stdout.failure}), so what it said is lost",
                    code or 2,
                )
        return code


def _command(words: list[str]) -> int:
    for i in range(len(words) - 2, -1, -1):
        if words[i] == "--domain":  # as one word: argparse takes -0.5,0.5 for a flag
            words[i : i + 2] = [f"--domain={words[i + 1]}"]
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return _message("an argument is not UTF-8; rename the file, or write it otherwise", 2)
    options = build_parser().parse_args(words)
    if vars(options).pop("unchecked_reading", False):
        os.environ["RECONSTRUCT_UNCHECKED_READING"] = "1"
    try:
        with process.remembering_interrupts():
            commands = importlib.import_module("reconstruct.cli.commands")
            process.check_interrupt()
            with _notes(getattr(options, "quiet", False)):
                return int(getattr(commands, options.command)(options))
    except (Exception, KeyboardInterrupt) as error:
        code, sentence = _outcome(error, options)
        if code == 4 and os.environ.get("RECONSTRUCT_DEBUG"):
            raise
        return _message("; ".join([sentence, *getattr(error, "__notes__", [])]), code)


def _outcome(error: BaseException, options: Namespace) -> tuple[int, str]:
    """The exit code and the sentence of an error; its notes say what is left of the work."""
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted"
    if isinstance(error, OutOfTime):
        over = f"the time limit of {options.time_limit:g} s is over before all maps are solved"
        longer = "; nothing was solved yet, so nothing is kept: give a longer --time-limit"
        return 3, over if hasattr(error, "__notes__") else over + longer
    if isinstance(error, ReconstructError):
        return 2, str(error)
    if isinstance(error, MemoryError):
        less = {None: "use one with more, or a smaller network", "grouped": "lower --ratio"}.get(
            getattr(options, "construction", None),
            "use --construction grouped, which needs a small part of it, or lower --ratio",
        )
        return 2, f"out of memory: this machine has too little for it; {less}"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return 2, f"the name {str(error.filename)[:60]}… is too long; use a shorter one"
    return 4, (
        f"internal error: {type(error).__name__}: {error}; this is a bug, please report it "
        f"(RECONSTRUCT_DEBUG=1 shows where it happened)"
    )


class _Notes(logging.Handler):
    """What the library notes beside its result, as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        _message(record.getMessage(), 0)


@contextmanager
def _notes(quiet: bool) -> Iterator[None]:
    logger, handler = logging.getLogger("reconstruct"), _Notes()
    if not quiet:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _message(message: str, code: int) -> int:
    """The message on stderr as one line; the exit code that goes with it."""
    sys.stderr.write(f"reconstruct: {' '.join(message.split())}\n")
    return code
