"""Names of layers: files may give them any length, and a table or a drawing has room for little."""

from __future__ import annotations

from reconstruct.reports.markup import Child, element, visible

CUT = "…"
LONGEST = 40  # characters in a table


def elided(name: str, most: int = LONGEST) -> str:
    """The name, or its start and its end around a sign where the middle was left out."""
    name = visible(name)
    if len(name) <= most:
        return name
    end = most // 2
    return name[: most - end - 1] + CUT + name[-end:]


def named(name: str) -> Child:
    """The name for a table; of a long one, the whole is shown by pointing at it."""
    short = elided(name)
    return name if short == visible(name) else element("span", short, title=name)
