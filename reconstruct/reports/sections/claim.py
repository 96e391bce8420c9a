"""The opening: the verdict in a sentence, what it means, and the witness where there is one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from reconstruct.certificates.verdicts import Standing
from reconstruct.reports.markup import Markup, element, table
from reconstruct.reports.numbers import at_least, at_most, number, pretty
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.wording import arithmetics, asked

MARKS = {"certified": "✓", "refuted": "✗", "undecided": "?"}
TITLES = {
    "certified": "Certified: the two networks agree",
    "refuted": "Refuted: the two networks differ",
    "undecided": "Undecided: no proof, and no counterexample",
}
RIGOR = {
    "exact": "Exact: an identity of rational numbers, checked digit by digit.",
    "rigorous": "Rigorous: a proof in which every rounding error of the checking itself is "
    "accounted for.",
    "numerical": "Numerical: an observation at sampled inputs. It proves nothing about the others.",
}
IN_FLOAT32 = {
    Standing.PROVED: "Proved within tolerance in float32",
    Standing.BEYOND: "Measured beyond the tolerance in float32",
    Standing.UNKNOWN: "Not known in float32",
}
WITNESS = {
    "exact": "Exact: the witness was replayed in rational arithmetic; anyone can do it again.",
    "rigorous": "Rigorous: the witness was replayed, both networks' values enclosed between "
    "rational numbers; anyone can do it again.",
}
TONES = {
    Standing.PROVED: "certified",
    Standing.BEYOND: "refuted",
    Standing.UNKNOWN: "undecided",
}
MOST_COORDINATES = 64
POWERS = re.compile(r"[\d.]+e[-+]?\d+")


def opening(run: RunFiles) -> Markup:
    """The verdict as a newcomer reads it."""
    report = run.report
    verdict, known = str(report["verdict"]), asked(report)
    tone = TONES[known.standing]
    rigor = RIGOR | WITNESS if verdict == "refuted" else RIGOR
    title = TITLES[verdict]
    if known.name == "float32":
        title = f"{IN_FLOAT32[known.standing]} ({verdict} in real arithmetic)"
    parts: list[Markup | None] = [
        element("p", element("span", MARKS[tone], aria_hidden="true"), class_="mark"),
        element("h1", title),
        _standings(report),
        element("p", sentence(report), class_="sentence"),
        _identity(report) if verdict == "certified" else None,
        element("p", rigor[report["rigor"]], class_="rigor"),
    ]
    return element("header", *parts, class_=f"verdict {tone}")


def _standings(report: Mapping[str, Any]) -> Markup:
    """One line for each arithmetic, in the colour of what is known."""
    tolerance = pretty(number(report["certificate"]["tolerance"]))
    lines = [
        element(
            "li",
            f"{known.name}: ",
            element("strong", str(known.standing), class_=f"standing {TONES[known.standing]}"),
            f" ({POWERS.sub(lambda m: pretty(m[0]), known.detail)}; tolerance {tolerance})",
        )
        for known in arithmetics(report)
    ]
    return element("ul", *lines, class_="standings")


def sentence(report: Mapping[str, Any]) -> str:
    """What is claimed, of which networks, on which domain."""
    verdict, error, details = report["verdict"], report["error"], report["certificate"]
    where = domain_words(report["domain"], alone=verdict == "certified")
    who, file = _subject(report), report["target"]["file"] or "the target"
    if verdict == "certified":
        bound = pretty(at_most(error["certified_bound"]))
        return (
            f"For every input {where}, {who} gives the same outputs as {file} to within {bound}, "
            f"computed in real arithmetic."
        )
    tolerance = pretty(number(details["tolerance"]))
    if verdict == "refuted":
        gap = details["witness"]["difference"] if details["witness"] else error["float64_max"]
        return (
            f"There is an input {where} at which {who} and {file} differ by at least "
            f"{pretty(at_least(gap, 3))}, more than the tolerance {tolerance}. The input is below, "
            f"with what both networks give there."
        )
    return (
        f"For inputs {where}, no proof was found that {who} and {file} agree to within the "
        f"tolerance {tolerance}, and no input was found at which they differ by more. The largest "
        f"difference seen is {pretty(number(error['float64_max']))} at {error['samples']:,} "
        f"samples; inputs that were not sampled may differ by more."
        f"{_proved(error['certified_bound'])}"
    )


def _proved(bound: float | None) -> str:
    """What is known all the same: a bound above the tolerance."""
    return "" if bound is None else f" It is proved that none differs by more than {_up(bound)}."


def _up(bound: float) -> str:
    return pretty(at_most(bound))


def domain_words(domain: Mapping[str, Any], alone: bool = True) -> str:
    """The domain in words, as far as words can carry it; `alone`: what is not in it is not meant.

    What is found at an input needs no such reservation, what is claimed of all of them does.
    """
    lo, hi = domain["lo"], domain["hi"]
    if domain.get("kind") == "points":
        return _given(domain["inputs"]) + ", and of no others" * alone
    if domain.get("kind") == "boxes":
        return (
            f"within {domain['radius']:g} {_near(domain['inputs'])}, coordinate by "
            f"coordinate" + ", and for no others" * alone
        )
    count = len(lo)
    if len(set(lo)) == 1 and len(set(hi)) == 1:
        each = f"with all {count} coordinates" if count > 1 else "with its one coordinate"
        return f"{each} between {lo[0]:g} and {hi[0]:g}"
    return f"in the box given below ({count} coordinates, from {min(lo):g} to {max(hi):g})"


def _given(count: int) -> str:
    return "of the one that was given" if count == 1 else f"of the {count:,} that were given"


def _near(count: int) -> str:
    return _given(count) if count == 1 else f"of one {_given(count)}"


def witness_section(run: RunFiles) -> Markup | None:
    """The input at which the networks differ, and what each gives there."""
    witness = run.report["certificate"].get("witness")
    if not witness:
        return None
    point = ", ".join(repr(float(v)) for v in witness["point"][:MOST_COORDINATES])
    left_out = len(witness["point"]) - MOST_COORDINATES
    how = "exact values" if witness["exact"] else "values enclosed in exact arithmetic"
    place = "strictly inside the domain" if witness["strictly_inside"] else "on the domain's edge"
    if run.report["domain"].get("kind") == "points":
        place = "one of those that were given"
    values = zip(witness["target"], witness["candidate"], strict=True)
    rows = [(str(i), *_values(g, f)) for i, (g, f) in enumerate(values)]
    return element(
        "section",
        element("h2", "The witness"),
        element("p", f"At this input, {place}, the networks differ ({how}; rounded for print):"),
        element("pre", point + (f", and {left_out} more in report.json" if left_out > 0 else "")),
        table("Both networks at the witness", ("output", "target g", "f", "f − g"), rows),
        id="witness",
    )


def _values(g: float | None, f: float | None) -> tuple[str, str, str]:
    """Both values and their difference; a value beyond the floats is said to be that."""
    if g is None or f is None:
        first, second = ("beyond the floats" if v is None else f"{v:.12g}" for v in (g, f))
        return first, second, "see certificate.json"
    return f"{g:.12g}", f"{f:.12g}", _gap(f - g)


def _gap(difference: float) -> str:
    return f"{difference:.3g}" if math.isfinite(difference) else "beyond the floats"


def _identity(report: Mapping[str, Any]) -> Markup | None:
    if not report["certificate"].get("exact_identity"):
        return None
    text = (
        "With the rational norm parameters that the exact solver found, the two networks are "
        "identical on this domain; the bound above is for the file, where they are rounded."
    )
    return element("p", text)


def _subject(report: Mapping[str, Any]) -> str:
    frozen = report.get("frozen")
    if not frozen:
        candidate = (report.get("candidate") or {}).get("file")
        return str(candidate or "the other network")
    origin = "your frozen network" if frozen.get("file") else "a frozen random network"
    return f"{origin}, of which only the norm layers were chosen,"
