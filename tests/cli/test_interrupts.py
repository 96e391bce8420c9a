"""An interrupt that Python drops is raised where work goes on."""

from __future__ import annotations

import signal
import threading
import weakref

import pytest

from reconstruct.cli import commands
from reconstruct.cli.process import ProgressDisplay, check_interrupt, remembering_interrupts
from reconstruct.progress import Step

lost = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def interruptible():
    """A job in the background inherits an ignored SIGINT: these tests need Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Thing:
    """Something that a weak reference can be made to."""


def lose_an_interrupt() -> None:
    """Ctrl-C inside of the callback of a weak reference, as imports have them."""
    thing = Thing()
    kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    assert kept() is None


@lost
def test_what_was_dropped_is_raised_by_the_next_step_of_the_main_thread() -> None:
    failures: list[BaseException] = []

    def beside() -> None:
        try:
            check_interrupt()
        except BaseException as error:
            failures.append(error)

    with remembering_interrupts(), ProgressDisplay(quiet=True) as progress:
        progress(Step("before", 0))
        lose_an_interrupt()
        worker = threading.Thread(target=beside)
        worker.start()
        worker.join()
        assert not failures
        with pytest.raises(KeyboardInterrupt):
            progress(Step("after", 1))
    check_interrupt()  # and is forgotten with the command
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_is_raised_at_once() -> None:
    with remembering_interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_who_handles_interrupts_goes_on_to_do_so() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with remembering_interrupts():
            signal.raise_signal(signal.SIGINT)
            check_interrupt()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


@lost
def test_a_command_that_lost_one_ends_all_the_same(cli, monkeypatch, tmp_path) -> None:
    def work(options) -> int:
        lose_an_interrupt()
        with ProgressDisplay(quiet=True) as progress:
            progress(Step("working", 0))
        return 0

    monkeypatch.setattr(commands, "inspect", work)
    code, _, stderr = cli("inspect", tmp_path / "any.onnx")
    assert code == 130 and "interrupted" in stderr
