"""The command line: parse, run one command, turn every outcome into an exit code.

0 certified or all proved; 1 refuted, or the match failed; 2 bad usage or bad input; 3 undecided;
4 internal error. Verdicts and `--json` go to stdout, progress and messages to stderr. Commands
import what they need when they run, so that `--help` is instant.
"""

from __future__ import annotations

import errno
import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from reconstruct.cli import interrupts
from reconstruct.cli.job import launched, run_as_job
from reconstruct.cli.parser import build_parser
from reconstruct.cli.speech import speaking
from reconstruct.errors import ReconstructError

BAD_INPUT = 2
INTERNAL = 4
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    with speaking() as stdout:
        code = _main(argv)
        if stdout is not None:
            stdout.flush()
            if stdout.failure is not None:
                _say(f"stdout cannot be written ({stdout.failure}), so what it said is lost")
                return code or BAD_INPUT
        return code


def _main(argv: Sequence[str] | None) -> int:
    if not launched():
        return _command(argv)
    try:
        return run_as_job(argv, lambda: _command(argv))
    except ReconstructError as error:  # there is no MPI to run a job with
        _say(str(error))
        return BAD_INPUT


def _command(argv: Sequence[str] | None) -> int:
    words = _joined(sys.argv[1:] if argv is None else argv)
    if any(not _is_text(word) for word in words):
        _say("an argument is not UTF-8; rename the file, or write it otherwise")
        return BAD_INPUT
    options = build_parser().parse_args(words)
    if vars(options).pop("unchecked_reading", False):
        os.environ["RECONSTRUCT_UNCHECKED_READING"] = "1"
    try:
        with interrupts.listening():
            commands = _loaded("reconstruct.cli.commands")
            interrupts.check()
            with _notes(getattr(options, "quiet", False)):
                return int(getattr(commands, options.command)(options))
    except KeyboardInterrupt:
        kept = "; what was solved so far is kept, use --resume to go on"
        _say(f"interrupted{kept if hasattr(options, 'resume') else ''}")
        return INTERRUPTED
    except ReconstructError as error:
        _say(str(error))
        return BAD_INPUT
    except MemoryError:
        _say(
            "out of memory: the systems are too large for this machine; use "
            "--construction grouped, which needs a small part of it, or lower --ratio"
        )
        return BAD_INPUT
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _say(f"the name {str(error.filename)[:60]}… is too long; use a shorter one")
            return BAD_INPUT
        if os.environ.get("RECONSTRUCT_DEBUG"):
            raise
        _say(
            f"internal error: {type(error).__name__}: {error}; this is a bug, please report it "
            f"(RECONSTRUCT_DEBUG=1 shows where it happened)"
        )
        return INTERNAL


def _is_text(word: str) -> bool:
    """Whether UTF-8 can write the word, as reports and certificates have to."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Notes(logging.Handler):
    """What the library notes beside its result, as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage())


@contextmanager
def _notes(quiet: bool) -> Iterator[None]:
    logger, handler = logging.getLogger("reconstruct"), _Notes()
    if not quiet:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _loaded(name: str) -> ModuleType:
    """The module of a command.

    Among what it imports the first time there is no garbage: looking for it, now and whenever the
    command makes some of its own, would take a tenth of a run of two seconds.
    """
    if name in sys.modules:
        return sys.modules[name]
    collecting = gc.isenabled()
    gc.disable()
    try:
        module = importlib.import_module(name)
        gc.freeze()
        return module
    finally:
        if collecting:
            gc.enable()


def _joined(argv: Sequence[str]) -> list[str]:
    """`--domain -0.5,0.5` as one word: argparse would take a list that starts with − for a flag."""
    words = list(argv)
    for i in range(len(words) - 2, -1, -1):
        if words[i] == "--domain":
            words[i : i + 2] = [f"--domain={words[i + 1]}"]
    return words


def _say(message: str) -> None:
    sys.stderr.write(f"reconstruct: {' '.join(message.split())}\n")
