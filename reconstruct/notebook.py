"""What a notebook shows: an object as a title over a table, and the progress of long work.

No styles of its own: notebooks have theirs, in light and dark.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterable, Sequence

from reconstruct.progress import Step


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], most: int = 40) -> str:
    """The rows as HTML; a table with more rows than a screen is cut."""
    shown = list(rows)
    left = len(shown) - most
    lines = [_line("th", head), *(_line("td", row) for row in shown[:most])]
    more = f"<p>… and {left} more</p>" if left > 0 else ""
    return f"<p><b>{html.escape(title)}</b></p><table>{''.join(lines)}</table>{more}"


def _line(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(str(cell))}</{kind}>' for cell in cells)}</tr>"


class ProgressLine:
    """A listener that keeps one line up to date: `rc.run(..., progress=rc.ProgressLine())`."""

    def __init__(self, seconds: float = 0.5) -> None:
        self.seconds, self.last = seconds, time.monotonic()

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if now - self.last < self.seconds and not step.finished:
            return
        self.last = now
        share = f" {100 * step.done / step.total:.0f} %" if step.total else ""
        residual = "" if step.residual is None else f", residual {step.residual:.1e}"
        sys.stdout.write(f"\r{f'{step.task}{share}{residual}':<70.70}")
        sys.stdout.flush()
