"""What a notebook shows of an object: a title over a table.

No styles of its own: notebooks have theirs, in light and dark.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], most: int = 40) -> str:
    """The rows as HTML; a table with more rows than a screen is cut."""
    shown = list(rows)
    left = len(shown) - most
    lines = [_line("th", head), *(_line("td", row) for row in shown[:most])]
    more = f"<p>… and {left} more</p>" if left > 0 else ""
    return f"<p><b>{html.escape(title)}</b></p><table>{''.join(lines)}</table>{more}"


def _line(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(str(cell))}</{kind}>' for cell in cells)}</tr>"
