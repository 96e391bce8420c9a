"""The rows of `benchmarks.training` and `benchmarks.training_existence` as tables in Markdown.

Every cell is mean (least … most) over the seeds. A finding of the paper *agrees* where every seed
says so, *does not* where every seed says the opposite, and is *too small to tell* in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
CHANCE = 0.1  # ten digits
THIRD = 0.2  # a share of small γ above this would be like the paper's third, below half of it not
NOTHING = 0.005  # of accuracy: a loss that counts as none


def tables(rows: Iterable[Row]) -> str:
    """All tables of the trainings."""
    kept = list(rows)
    return "\n\n".join(f(kept) for f in TABLES)


def seeds(rows: list[Row]) -> str:
    """How many trainings stand behind each figure."""
    found = sorted({row["seed"] for row in rows})
    counts: dict[tuple[Any, ...], int] = {}
    for row in rows:
        case = tuple(row[key] for key in ("depth", "width", "tune", "gamma"))
        counts[case] = counts.get(case, 0) + 1
    each = f"{min(counts.values())} to {max(counts.values())}"
    count = each if min(counts.values()) < max(counts.values()) else f"{len(found)}"
    alone = " A figure without a range is one training." if min(counts.values()) == 1 else ""
    return f"{len(rows)} trainings, {count} seeds each; mean and range over the seeds.{alone}"


def tunings(rows: list[Row]) -> str:
    """What is tuned at depth 14, width 16."""
    return _table("tuned", rows, "tune", depth=14, width=16, gamma="uniform")


def depths(rows: list[Row]) -> str:
    """Norms only, by depth at width 16."""
    return _table("depth", rows, "depth", width=16, tune="norms", gamma="uniform")


def widths(rows: list[Row]) -> str:
    """Norms only, by width at depth 14."""
    return _table("width", rows, "width", depth=14, tune="norms", gamma="uniform")


def gammas(rows: list[Row]) -> str:
    """Norms only, by the first values of γ."""
    return _table("first γ", rows, "gamma", depth=14, width=16, tune="norms")


def chosen(rows: Iterable[Row], **fixed: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in fixed.items())]


def _table(name: str, rows: list[Row], key: str, **fixed: object) -> str:
    groups: dict[Any, list[Row]] = {}
    for row in chosen(rows, **fixed):
        groups.setdefault(row[key], []).append(row)
    columns: tuple[str, ...] = (
        "accuracy",
        "train_accuracy",
        "small_share",
        "accuracy_without_small",
    )
    columns += ("accuracy_without_as_many_at_random",)
    head = (name, "parameters tuned", "test accuracy", "training accuracy", "\\|γ\\| < 0.01")
    lines = [_line((*head, "accuracy without those", "without as many others"))]
    lines.append(_line("---" for _ in range(7)))
    for value in sorted(groups, key=lambda value: groups[value][0]["tuned"]):
        group = groups[value]
        cells = [percent([row[column] for row in group]) for column in columns]
        lines.append(_line((f"{value}", f"{group[0]['tuned']:,}", *cells)))
    return "\n".join(lines)


def cifar(rows: list[Row]) -> str:
    """CIFAR-10: what is tuned at depth 14, then norms by depth."""
    epochs, hours = rows[0]["epochs"], sum(row["seconds"] for row in rows) / 3600
    said = (
        f"{len(rows)} trainings of {epochs} epochs each (the paper: 160), {hours:.1f} hours in all "
        f"on one thread of a machine that did other work beside them."
    )
    return "\n\n".join([said, tunings(rows), depths(rows)])


def cifar_findings(rows: list[Row], digits: list[Row]) -> str:
    """The paper's findings on CIFAR-10 itself, beside the digits."""

    def accuracy(found: list[Row], **fixed: object) -> list[float]:
        fixed = {"depth": 14, "width": 16, "tune": "norms", "gamma": "uniform"} | fixed
        return [row["accuracy"] for row in chosen(found, **fixed)]

    def ends(found: list[Row]) -> tuple[int, int]:
        depths = [row["depth"] for row in chosen(found, tune="norms", width=16, gamma="uniform")]
        return min(depths), max(depths)

    pairs: list[tuple[str, dict[str, object], dict[str, object]]] = [
        ("norms are above as many weights at random", {}, {"tune": "random"}),
        ("norms are above the output layer", {}, {"tune": "output"}),
        ("training everything goes further", {"tune": "all"}, {}),
    ]
    lines = [_line(("the paper", "here, CIFAR-10", "", "here, digits")), _line(("---",) * 4)]
    for text, first, second in pairs:
        better, worse = accuracy(rows, **first), accuracy(rows, **second)
        beside = above(accuracy(digits, **first), accuracy(digits, **second))
        lines.append(
            _line(
                (text, f"{percent(better)} against {percent(worse)}", above(better, worse), beside)
            )
        )
    told = []
    for found in (rows, digits):
        shallow, deep = ends(found)
        told.append((accuracy(found, depth=deep), accuracy(found, depth=shallow), deep, shallow))
    better, worse, deep, shallow = told[0]
    figures = f"{percent(better)} against {percent(worse)} (depth {deep} and {shallow})"
    lines.append(_line(("deeper is better", figures, above(better, worse), above(*told[1][:2]))))
    lost, others = _lost(rows)
    figures = f"{percent(lost)} lost with them, {percent(others)} with as many others"
    verdicts = [
        above(b, a) if max(a) <= NOTHING else "does not" for a, b in map(_lost, (rows, digits))
    ]
    lines.append(_line(("nothing is lost without γ near 0", figures, *verdicts)))
    return "\n".join(lines)


def _lost(rows: list[Row]) -> tuple[list[float], list[float]]:
    """Accuracy that is lost without small γ, and without as many others, at depth 14."""
    norms = chosen(rows, depth=14, width=16, tune="norms", gamma="uniform")
    keys = ("accuracy_without_small", "accuracy_without_as_many_at_random")
    without, random = ([row["accuracy"] - row[key] for row in norms] for key in keys)
    return without, random


def findings(rows: list[Row]) -> str:
    """What the paper said of CIFAR-10 beside what was measured on digits."""

    def figure(name: str, **fixed: object) -> list[float]:
        fixed = {"depth": 14, "width": 16, "tune": "norms", "gamma": "uniform"} | fixed
        return [row[name] for row in chosen(rows, **fixed)]

    def accuracy(**fixed: object) -> list[float]:
        return figure("accuracy", **fixed)

    norms, shares = accuracy(), figure("small_share", depth=50)
    lost = [a - b for a, b in zip(norms, figure("accuracy_without_small"), strict=True)]
    others = figure("accuracy_without_as_many_at_random")
    lost_others = [a - b for a, b in zip(norms, others, strict=True)]
    deep, wide = accuracy(depth=26), accuracy(width=32)
    lines = [_line(("the paper, CIFAR-10", "here, digits", "")), _line(("---",) * 3)]
    table: Sequence[tuple[str, str, str]] = (
        (
            "norms alone make a random network a classifier: 82 % at depth 866",
            f"{percent(norms)} at depth 14, where chance is 10 %",
            above(norms, [CHANCE]),
        ),
        (
            "far above as many weights chosen at random elsewhere",
            f"{percent(norms)} against {percent(accuracy(tune='random'))}",
            above(norms, accuracy(tune="random")),
        ),
        (
            "training everything goes further",
            f"{percent(accuracy(tune='all'))} against {percent(norms)}",
            above(accuracy(tune="all"), norms),
        ),
        (
            "deeper is better",
            f"{percent(accuracy(depth=8))} at depth 8, {percent(accuracy(depth=50))} at 50",
            above(accuracy(depth=50), accuracy(depth=8)),
        ),
        (
            "wider is better",
            f"{percent(accuracy(width=4))} at width 4, {percent(wide)} at 32",
            above(wide, accuracy(width=4)),
        ),
        (
            "for as many γ and β, depth gains more than width",
            f"{percent(deep)} at depth 26 and width 16 (2,016 of them), {percent(wide)} at depth "
            f"14 and width 32 (2,240)",
            above(deep, wide),
        ),
        (
            "about a third of the features are switched off, \\|γ\\| < 0.01, in deep networks",
            f"{percent(shares)} of the γ at depth 50",
            above(shares, [THIRD]) if min(shares) > THIRD / 2 else "does not",
        ),
        (
            "nothing is lost without those features",
            f"{percent(lost)} of accuracy lost with them, {percent(lost_others)} with as many "
            f"others, at depth 14",
            above(lost_others, lost) if max(lost) <= NOTHING else "does not",
        ),
    )
    return "\n".join([*lines, *(_line(cells) for cells in table)])


TABLES = (seeds, tunings, depths, widths, gammas, findings)


def above(first: list[float], second: list[float]) -> str:
    """Whether the first are above the second, in every seed."""
    if min(first) > max(second):
        return "agrees"
    return "does not" if max(first) < min(second) else "too small to tell"


def existence(rows: Iterable[Row]) -> str:
    """Computed, trained and both, by ratio."""
    groups: dict[tuple[float, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["ratio"], row["choice"]), []).append(row)
    head = (
        "hidden units / m·k",
        "γ, β",
        "test accuracy",
        "training loss",
        "‖γ‖",
        "largest \\|β\\|",
    )
    lines = [_line((*head, "largest loss on the line", "seconds")), _line(("---",) * 8)]
    for (ratio, choice), group in sorted(groups.items(), key=lambda item: item[0][0]):
        highest = [row["line_max"] for row in group if row["line_max"] is not None]
        cells = [
            f"{ratio:g}",
            choice,
            percent([row["accuracy"] for row in group]),
            *(_mean(group, key) for key in ("loss", "gamma_norm", "beta_max")),
            f"{sum(highest) / len(highest):.2g}" if highest else "–",
            _mean(group, "seconds"),
        ]
        lines.append(_line(cells))
    return "\n".join(lines)


def percent(values: list[float]) -> str:
    """`93.1 % (92.0 … 94.2)`: mean and range."""
    mean, least, most = (100 * f for f in (sum(values) / len(values), min(values), max(values)))
    return f"{mean:.1f} %" + (f" ({least:.1f} … {most:.1f})" if len(values) > 1 else "")


def _mean(rows: list[Row], key: str) -> str:
    value = sum(row[key] for row in rows) / len(rows)
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
