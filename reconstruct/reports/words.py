"""Numbers and words for people, for page and terminal, and what a terminal of 80 columns shows.

Few digits, and a bound is never printed smaller than it is.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

from reconstruct.progress import duration

DASH = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 2) -> str:
    """The value rounded to `digits`, or a dash for what is not known or no finite number."""
    return _shown(value, digits, ROUND_HALF_EVEN)


def at_most(value: float | None, digits: int = 2) -> str:
    """An upper bound: rounded up, so that what is printed is a bound too."""
    return _shown(value, digits, ROUND_CEILING)


def at_least(value: float | None, digits: int = 2) -> str:
    """A lower bound: rounded down."""
    return _shown(value, digits, ROUND_FLOOR)


def pretty(text: str) -> str:
    """`3.1e-08` as 3.1·10⁻⁸, for a page."""
    mantissa, sign, exponent = text.partition("e")
    if not sign:
        return text
    power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
    return power if mantissa == "1" else f"{mantissa}·{power}"


def percent(share: float) -> str:
    """A share of 1 as `100 %`, what is a little less not so, and the least ones as that."""
    part = 100 * share
    if 0 < part < 0.01:
        return "< 0.01 %"
    if 99 < part < 100:
        return f"{min(part, 99.99):.2f} %"
    return f"{number(part)} %"


def size(count: int | None) -> str:
    """Bytes with a decimal prefix."""
    if count is None:
        return DASH
    return f"{count} bytes" if count < 1000 else f"{prefixed(count)}B"


def prefixed(count: int) -> str:
    """A count with a decimal prefix, `338 k`."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return str(count)


def _shown(value: float | None, digits: int, rounding: str) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    exact = Decimal(value)
    kept = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding).normalize()
    if -4 <= kept.adjusted() < max(digits, 5):  # 610, not 6.1e+02
        return f"{kept:f}"
    mantissa, _, exponent = f"{kept:e}".partition("e")  # may lie beyond the floats
    return f"{mantissa}e{int(exponent):+03d}"


@dataclass(frozen=True)
class ArithmeticVerdict:
    """What is known of |f − g| with the network evaluated in one arithmetic, in a sentence.

    `tone` is a verdict: certified within the tolerance, refuted by what was found, or undecided. A
    proof in real arithmetic says nothing of float32.
    """

    name: str
    tone: str
    sentence: str


def arithmetics(report: Mapping[str, Any]) -> tuple[ArithmeticVerdict, ...]:
    """Real arithmetic, float64 and float32, in this order."""
    return _real(report), _floating(report, "float64"), _floating(report, "float32")


def wanted_verdict(report: Mapping[str, Any]) -> ArithmeticVerdict:
    """The one that the run was for: float32 with `--dtype float32`, else real arithmetic."""
    dtype = (report.get("options") or {}).get("dtype")
    return _floating(report, "float32") if dtype == "float32" else _real(report)


def _real(report: Mapping[str, Any]) -> ArithmeticVerdict:
    verdict, bound = str(report["verdict"]), report["error"]["certified_bound"]
    witness, tolerance = (report["certificate"][key] for key in ("witness", "tolerance"))
    if same_file(report):
        text = "0: both networks are the same file"
    elif verdict == "certified":
        text = f"proved: at most {at_most(bound)}, within the tolerance {number(tolerance)}"
    elif verdict == "refuted" and witness:
        gap = at_least(witness["difference"])
        text = f"{gap} or more at the witness, above the tolerance {number(tolerance)}"
    else:
        text = f"not proved within the tolerance {number(tolerance)}: {_bounded(bound)}"
    return ArithmeticVerdict("real arithmetic", verdict, text)


def _floating(report: Mapping[str, Any], name: str) -> ArithmeticVerdict:
    """A proof comes first: what is measured holds the target's own rounding as well."""
    bound, seen = report["error"][f"{name}_bound"], report["error"][f"{name}_max"]
    limit = report["certificate"]["tolerance"]
    tolerance, found = number(limit), f"largest difference found {number(seen)}"
    if bound is not None and bound <= limit:
        text = f"proved: at most {at_most(bound)}, within the tolerance {tolerance}; {found}"
        return ArithmeticVerdict(name, "certified", text)
    if seen is not None and seen > limit:
        text = f"{found}, above the tolerance {tolerance}; {_bounded(bound)}"
        return ArithmeticVerdict(name, "refuted", text)
    text = f"not proved within the tolerance {tolerance}: {_bounded(bound)}, {found}"
    return ArithmeticVerdict(name, "undecided", text)


def _bounded(bound: float | None) -> str:
    return "no bound is proved" if bound is None else f"at most {at_most(bound)} is proved"


def same_file(report: Mapping[str, Any]) -> bool:
    """Whether a file was compared with itself: then there is nothing to round."""
    ours, theirs = report["target"].get("sha256"), (report.get("candidate") or {}).get("sha256")
    return ours is not None and ours == theirs and report["verdict"] == "certified"


def claim(report: Mapping[str, Any]) -> str:
    """What is claimed of |f − g|, and where: the same sentence for terminal and page."""
    verdict, error, known = report["verdict"], report["error"], report["certificate"]
    domain = domain_text(report["domain"])
    if same_file(report):
        place = everywhere(report["domain"])
        return f"|f − g| = 0 {place}: both networks are the same file"
    if verdict == "certified":
        return f"|f − g| ≤ {at_most(error['certified_bound'])} {everywhere(report['domain'])}"
    if verdict == "refuted":
        gap = known["witness"]["difference"] if known["witness"] else None
        return f"|f − g| ≥ {at_least(gap)} at {witness_place(report['domain'])}"
    return (
        f"largest |f − g| found is {number(error['float64_max'])} on {domain}; "
        f"no proof of less than the tolerance {number(known['tolerance'])}"
    )


def figures(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and numbers of a run, the kind of knowledge beside each, for terminal and page."""
    error, frozen = report["error"], report.get("frozen")
    count = error["samples"]
    looked = f"{count:,} sample{'' if count == 1 else 's'}"
    if report["verdict"] == "certified" and report["certificate"]["method"] == "layered":
        looked += ", no search: the proof is about every input"
    found, own = (number(error[key]) for key in ("float64_max", "target_float32_max"))
    rows = [
        ("largest |f − g| found", f"{found} in float64 (numerical, {looked})"),
        ("g itself in float32", f"{own} found (numerical)"),
        ("target", f"{report['target']['parameters']:,} parameters"),
    ]
    if frozen:
        weights, kept = weight_count(frozen), frozen["nonzeros"]
        rows.append(("frozen", f"{weights:,} weights, {kept:,} non-zero"))
        rows.append(("tunable", f"{frozen['tunable']:,} norm parameters"))
    rows.append(("time", duration(report["cost"]["seconds"])))
    return [*rows, *_accuracies(report), *_margins(report)]


def _accuracies(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How many inputs each network recognises, where labels are known."""
    known = report.get("inputs") or {}
    shares = known.get("accuracy")
    if not shares:
        return []
    names = {"target": "target", "frozen": "frozen as drawn", "network": "frozen, norms set"}
    lines = [f"{names[key]} {100 * shares[key]:.2f} %" for key in names]
    part = f" (the first of {known['of']:,})" if known["count"] < known["of"] else ""
    text = f"{', '.join(lines)} of {known['count']:,} inputs with labels{part} (numerical)"
    return [("accuracy", text)]


def _margins(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the guard says of the domain's inputs, and of others where a user brought them."""
    guard = report.get("guard")
    if not guard:
        return []
    tried = members(report["domain"], guard["inputs"])
    lines = [f"{100 * guard['share']:.2f} % of {tried} (numerical)"]
    unseen = guard.get("unseen")
    if unseen:
        share = 100 * unseen["covered"] / unseen["inputs"]
        part = f" (of {unseen['of']:,})" if unseen["of"] > unseen["inputs"] else ""
        lines.append(
            f"{share:.2f} % of {unseen['inputs']:,} unseen inputs{part}; largest |f − g| on these "
            f"{unseen_error(unseen, 'covered')}, on the others {unseen_error(unseen, 'others')} "
            f"(numerical)"
        )
    return [("margin ≥ 0", line) for line in lines]


def in_words(step: str) -> str:
    """A line about a proof; a bound that is not finite is none."""
    return re.sub(r"\bbound (inf|nan)\b", "no bound", step)


def domain_text(domain: Mapping[str, Any]) -> str:
    """`[lo, hi]^d` for a cube, else the hull; of data, what it is made of."""
    lo, hi = domain["lo"], domain["hi"]
    if domain.get("kind") == "points":
        return _these(domain["inputs"])
    if domain.get("kind") == "boxes":
        count, radius = domain["inputs"], f"{domain['radius']:g}"
        boxes = "the box" if count == 1 else "the boxes"
        return f"{boxes} of radius {radius} around {_these(count)}"
    if len(set(lo)) == 1 and len(set(hi)) == 1:
        return f"[{lo[0]:g}, {hi[0]:g}]^{len(lo)}"
    return f"a box in [{min(lo):g}, {max(hi):g}]^{len(lo)}"


def everywhere(domain: Mapping[str, Any]) -> str:
    """`for every x in [0, 1]^3`, `at each of these 60 inputs`."""
    text = domain_text(domain)
    if domain.get("kind") != "points":
        return f"for every x in {text}"
    return f"at {text}" if domain["inputs"] == 1 else f"at each of {text}"


def _these(count: int) -> str:
    return "this input" if count == 1 else f"these {count:,} inputs"


def witness_place(domain: Mapping[str, Any]) -> str:
    """Where a witness lies, for a sentence: of data it is one of them."""
    text = domain_text(domain)
    if domain.get("kind") != "points":
        return f"an input inside {text}"
    return text if domain["inputs"] == 1 else f"one of {text}"


def members(domain: Mapping[str, Any], count: int) -> str:
    """So many inputs of the domain in words; of data, whether they are all of them."""
    inputs = "input" if count == 1 else "inputs"
    if domain.get("kind") != "points":
        return f"{count:,} {inputs} of the domain"
    part = f"{count:,} of the " if count < domain["inputs"] else ""
    return f"{part}{domain['inputs']:,} given {'inputs' if part else inputs}"


def unseen_error(unseen: Mapping[str, Any], which: str) -> str:
    """The largest difference at unseen inputs that the guard covers, or at the `others`."""
    covered = unseen["covered"]
    count = covered if which == "covered" else unseen["inputs"] - covered
    found = unseen[f"{which}_error"]
    return "not a number" if found is None and count else number(found)


def weight_count(part: Mapping[str, Any]) -> int:
    """The weights of a network in a report; a kernel that moves over an image counts once.

    Reports of older versions have no images in them: there it is the entries of the maps.
    """
    known = part.get("weight_count")
    return int(sum(m * k for m, k in part.get("maps") or ()) if known is None else known)


# --- on a terminal ---------------------------------------------------------------------------


def summary(report: Mapping[str, Any]) -> str:
    """Verdict first, for each arithmetic, then the layers, then the figures; what was tried where
    two networks are compared, and where nothing was decided."""
    lines = [headline(report), *(named(a.name, a.sentence) for a in arithmetics(report)), ""]
    if report.get("layers"):
        lines += [*layer_table(report["layers"]), ""]
    lines += [named(*row) for row in figures(report)]
    compared = not report.get("layers") and not same_file(report)
    explained = report["verdict"] == "undecided" or compared
    return "\n".join([*lines, *(tried(report) if explained else [])])


def headline(report: Mapping[str, Any]) -> str:
    """The verdict line in the columns of a terminal."""
    return wrapped(verdict_line(report))


def verdict_line(report: Mapping[str, Any]) -> str:
    """The verdict in a sentence that says what is claimed, where, and how it is known."""
    known = wanted_verdict(report)
    other = f" in real arithmetic; in float32: {known.sentence}" if known.name == "float32" else ""
    parts = [report.get(role) or {} for role in ("target", "candidate")]
    names = [str(part["file"]) for part in parts if part.get("unchecked_reading")]
    unread = f"; the reading of {' and '.join(names)} was NOT compared" if names else ""
    kinds = sorted({kind for part in parts for kind in part.get("casts", {}).values()})
    exact = f"; casts to {' and '.join(kinds)} are the identity in real arithmetic" if kinds else ""
    head = f"{report['verdict'].upper()} ({report['rigor']})"
    return f"{head}: {claim(report)}{other}{unread}{exact}"


def named(name: str, text: str) -> str:
    """A name in 23 columns and what is said of it beside it."""
    return wrapped(f"{name:<23}{text}", " " * 23)


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most 80 columns; what follows the first line is indented."""
    return "\n".join(textwrap.wrap(text, 80, subsequent_indent=indent, break_on_hyphens=False))


def layer_table(layers: Sequence[Mapping[str, Any]], most: int = 40) -> list[str]:
    """One line for each system; a solve that failed says so in place of its method.

    A table with more rows than a screen is cut: report.json has them all.
    """
    head = ("map", "size", "width", "solver", "iter", "residual", "cond", "shift", "sec")
    rows: list[tuple[str, ...]] = [head]
    for layer in layers[:most]:
        solved = layer["status"] == "solved"
        rows.append(
            (
                str(layer["index"]),
                f"{layer['rows']}×{layer['cols']}",
                str(layer["width"]),
                str(layer["solver"] if solved else layer["status"].replace("_", " ")),
                str(layer["iterations"]),
                *(number(layer[key]) for key in ("residual", "condition", "shift_max")),
                f"{layer['seconds']:.1f}",
            )
        )
    left = len(layers) - most
    return [*columns(rows), *([f"… and {left} more in report.json"] if left > 0 else [])]


def tried(report: Mapping[str, Any]) -> list[str]:
    """What was tried on the way to a verdict, a line each."""
    lines = report["certificate"]["tried"]
    return [wrapped(f"tried: {in_words(line)}", indent="       ") for line in lines]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one length as aligned columns, two spaces apart, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
