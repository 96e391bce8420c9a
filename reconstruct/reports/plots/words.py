"""How wide words will be, before anybody knows the font that a browser takes.

The widths, in units of the font's size, are a little above those of DejaVu Sans, which is wider
than the other fonts of the page: what fits by this estimate fits on every screen.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from functools import lru_cache

from reconstruct.reports.markup import visible

LINE = 1.2  # from one line to the next, in units of the font's size
CUT = "…"
CLASSES = (
    ("iIjl.,:;'`!|/\\· ", 0.34),
    ('rft()[]-"', 0.43),
    ("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉⁻", 0.44),
    ("EFLJST", 0.66),
    ("−+=<>×±~≤≥≈#&OQGHNUD", 0.86),
    ("mwMW@%…—→←", 1.02),
)
WIDTHS = {character: share for characters, share in CLASSES for character in characters}
CAPITAL, WIDE, OTHER = 0.76, 1.05, 0.65


@lru_cache(4096)
def width(text: str, size: float) -> float:
    """The width of the longest line."""
    return _width(text, size)


def _width(text: str, size: float) -> float:
    return max(size * sum(map(_share, line)) for line in visible(text).split("\n"))


def _share(character: str) -> float:
    if character in WIDTHS:
        return WIDTHS[character]
    if ord(character) < 0x1100:
        return CAPITAL if character.isupper() else OTHER
    if unicodedata.combining(character):
        return 0.0
    return WIDE


def shortened(text: str, room: float, size: float) -> str:
    """As much of one line as there is room for, with a sign where it was cut."""
    text = " ".join(visible(text).split())
    if width(text, size) <= room:
        return text
    fitting = bisect_right(range(len(text)), room, key=lambda n: _width(text[:n] + CUT, size))
    return text[: max(fitting - 1, 0)].rstrip() + CUT


def lines(text: str, room: float, size: float, most: int = 2) -> list[str]:
    """The text broken at spaces into at most `most` lines, or where it says so itself."""
    if not text:
        return []
    given = visible(text).split("\n")
    if len(given) > 1:
        given = [*given[: most - 1], " ".join(given[most - 1 :])]
        return [shortened(line, room, size) for line in given]
    made = [""]
    for word in text.split():
        longer = f"{made[-1]} {word}".strip()
        if len(made) == most or not made[-1] or width(longer, size) <= room:
            made[-1] = longer
        else:
            made.append(word)
    return [shortened(line, room, size) for line in made]
