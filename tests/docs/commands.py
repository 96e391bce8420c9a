"""The code blocks of a Markdown file, ready to be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(sh|python)\n(.*?)^\1```$", flags=re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"\n\n((?: {4}(?:reconstruct|python -m) .*\n)+)")
EXIT = re.compile(r"#\s*exit code (\d)")


@dataclass(frozen=True)
class Block:
    """Language and text of a fenced block."""

    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One line of a shell block, and the exit code that it announces (0 unless it does)."""

    line: str
    code: int


def blocks(path: Path) -> list[Block]:
    """The sh and python blocks of the file, in order; then commands in indented blocks."""
    text = path.read_text(encoding="utf-8")
    fenced = [Block(kind, _dedented(indent, inner)) for indent, kind, inner in BLOCK.findall(text)]
    plain = BLOCK.sub("", text)
    return fenced + [Block("sh", _dedented("    ", inner)) for inner in INDENTED.findall(plain)]


def commands(block: Block) -> list[Command]:
    """The lines of a shell block; a backslash joins lines, `# exit code 1` announces one."""
    lines = block.text.replace("\\\n", " ").splitlines()
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [_command(line) for line in kept]


def _command(line: str) -> Command:
    announced = EXIT.search(line)
    return Command(line, int(announced[1]) if announced else 0)


def _dedented(indent: str, text: str) -> str:
    return "\n".join(line.removeprefix(indent) for line in text.splitlines()) + "\n"
