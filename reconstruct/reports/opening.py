"""The opening of the page: the verdict in a sentence, what it means, the witness where there is
one; and the end, how to do it again."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from typing import Any

from reconstruct.reports.markup import Child, Markup, element, facts, table
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.words import (
    DASH,
    arithmetics,
    asked,
    at_least,
    at_most,
    duration,
    number,
    pretty,
    same_file,
    size,
)

MARKS = {"certified": "✓", "refuted": "✗", "undecided": "?"}
TITLES = {
    "certified": "Certified: the two networks agree",
    "refuted": "Refuted: the two networks differ",
    "undecided": "Undecided: no proof, and no counterexample",
}
IN_FLOAT32 = {
    "certified": "Proved within the tolerance in float32",
    "refuted": "Above the tolerance in float32",
    "undecided": "Not known in float32",
}
RIGOR = {
    "exact": "Exact: an identity of rational numbers, checked digit by digit.",
    "rigorous": "Rigorous: a proof in which every rounding error of the checking itself is "
    "accounted for.",
    "numerical": "Numerical: an observation at sampled inputs. It proves nothing about the others.",
}
WITNESS = {
    "exact": "Exact: the witness was replayed in rational arithmetic; anyone can do it again.",
    "rigorous": "Rigorous: the witness was replayed, both networks' values enclosed between "
    "rational numbers; anyone can do it again.",
}


def opening(run: RunFiles) -> Markup:
    """The verdict as a newcomer reads it."""
    report = run.report
    verdict, known = str(report["verdict"]), asked(report)
    rigor = RIGOR | WITNESS if verdict == "refuted" else RIGOR
    title = TITLES[verdict]
    if known.name == "float32":
        title = f"{IN_FLOAT32[known.tone]} ({verdict} in real arithmetic)"
    identity = (
        "With the rational norm parameters that the exact solver found, the two networks are "
        "identical on this domain; the bound above is for the file, where they are rounded."
    )
    exact = verdict == "certified" and report["certificate"].get("exact_identity")
    lines = [
        element(
            "li",
            element("strong", f"{one.name}: ", class_=f"standing {one.tone}"),
            re.sub(r"[\d.]+e[-+]?\d+", lambda found: pretty(found[0]), one.sentence),
        )
        for one in arithmetics(report)
    ]
    return element(
        "header",
        element("p", element("span", MARKS[known.tone], aria_hidden="true"), class_="mark"),
        element("h1", title),
        element("p", sentence(report), class_="sentence"),
        element("ul", *lines, class_="standings"),
        element("p", identity) if exact else None,
        element("p", rigor[report["rigor"]], class_="rigor"),
        class_=f"verdict {known.tone}",
    )


def sentence(report: Mapping[str, Any]) -> str:
    """What is claimed, of which networks, on which domain."""
    verdict, error, details = report["verdict"], report["error"], report["certificate"]
    where = domain_words(report["domain"], alone=verdict == "certified")
    who, file = _subject(report), report["target"]["file"] or "the target"
    if same_file(report):
        return f"Both networks are the same file, {file}: they give the same outputs."
    if verdict == "certified":
        return (
            f"For every input {where}, {who} gives the same outputs as {file} to within "
            f"{_up(error['certified_bound'])}, computed in real arithmetic."
        )
    tolerance = pretty(number(details["tolerance"]))
    if verdict == "refuted":
        gap = details["witness"]["difference"] if details["witness"] else error["float64_max"]
        return (
            f"There is an input {where} at which {who} and {file} differ by at least "
            f"{pretty(at_least(gap, 3))}, more than the tolerance {tolerance}. The input is below, "
            f"with what both networks give there."
        )
    bound = error["certified_bound"]
    proved = "" if bound is None else f" It is proved that none differs by more than {_up(bound)}."
    return (
        f"For inputs {where}, no proof was found that {who} and {file} agree to within the "
        f"tolerance {tolerance}, and no input was found at which they differ by more. The largest "
        f"difference seen is {pretty(number(error['float64_max']))} at {error['samples']:,} "
        f"samples and in searches; other inputs may differ by more.{proved}"
    )


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


def witness_section(run: RunFiles, most: int = 64) -> Markup | None:
    """The input at which the networks differ, and what each gives there."""
    witness = run.report["certificate"].get("witness")
    if not witness:
        return None
    point = ", ".join(repr(float(v)) for v in witness["point"][:most])
    left_out = len(witness["point"]) - most
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
    first, second = ("beyond the floats" if v is None else f"{v:.12g}" for v in (g, f))
    if g is None or f is None:
        return first, second, "see certificate.json"
    gap = f - g
    return first, second, f"{gap:.3g}" if math.isfinite(gap) else "beyond the floats"


def _subject(report: Mapping[str, Any]) -> str:
    frozen = report.get("frozen")
    if not frozen:
        candidate = (report.get("candidate") or {}).get("file")
        return str(candidate or "the other network")
    origin = "your frozen network" if frozen.get("file") else "a frozen random network"
    return f"{origin}, of which only the norm layers were chosen,"


def again_section(run: RunFiles) -> Markup:
    report = run.report
    return element(
        "section",
        element("h2", "Do it again"),
        element(
            "p",
            "The same numbers come out of this command, and the second one re-checks the "
            "certificate without trusting anything of the solver.",
        ),
        element("pre", f"{command(report)}\n{check_command(report)}"),
        facts(_known(report)),
        _domain(report),
        id="reproduce",
    )


def command(report: Mapping[str, Any]) -> str:
    """The command line that gives this report, every option spelled out."""
    options = dict(report.get("options") or {})
    given = [str(options.pop(key)) for key in ("target", "candidate") if key in options]
    words = ["reconstruct", ("demo", "run", "verify")[len(given)], *given]
    for key, value in options.items():
        unsaid = key in ("command", "json", "quiet", "force", "resume", "time_limit")
        if unsaid or value is None or value is False:
            continue
        flag, text = f"--{key.replace('_', '-')}", str(value)
        if value is True:
            words.append(flag)
        else:
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return shlex.join([*words, "--force"])  # what is there is what it makes again


def check_command(report: Mapping[str, Any]) -> str:
    options = report.get("options") or {}
    return shlex.join(["reconstruct", "check", str(options.get("output") or "OUT")])


def _known(report: Mapping[str, Any]) -> list[tuple[str, Child]]:
    def shown(value: object) -> str:
        return DASH if value is None else str(value)

    target, frozen = report["target"], report.get("frozen") or {}
    machine, cost = report["environment"], report["cost"]
    known: list[tuple[str, Child]] = [
        ("target", str(target["file"] or "not from a file")),
        ("target sha256", _code(target["sha256"])),
    ]
    if frozen:
        drawn = f"{frozen.get('weights')}, seed {frozen.get('seed')}"
        known += [
            ("frozen weights", str(frozen.get("file") or drawn)),
            ("frozen weights sha256", _code(frozen.get("sha256"))),
        ]
    return [
        *known,
        ("seed of the samples", shown(report["error"]["seed"])),
        ("reconstruct", str(machine["reconstruct"])),
        ("Python, numpy, scipy", f"{machine['python']}, {machine['numpy']}, {machine['scipy']}"),
        ("BLAS", shown(machine["blas"])),
        ("processor", f"{shown(machine['cpu'])}, {shown(machine['threads'])} threads"),
        ("time and memory", f"{duration(cost['seconds'])}, {size(cost['peak_bytes'])}"),
    ]


def _code(value: str | None) -> Child:
    return DASH if value is None else element("code", value)


def _domain(report: Mapping[str, Any]) -> Markup:
    lo, hi = report["domain"]["lo"], report["domain"]["hi"]
    lines = "\n".join(f"{i:>4}  {a!r} … {b!r}" for i, (a, b) in enumerate(zip(lo, hi, strict=True)))
    summary = element("summary", f"The domain, coordinate by coordinate ({len(lo)})")
    return element("details", summary, element("pre", lines))
