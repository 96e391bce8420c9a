"""report.html: one file that needs nothing from outside, made from the run's files alone.

It opens with the verdict, says what it is about, and ends with how to do it again.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from reconstruct.formats.files import write_atomically
from reconstruct.progress import duration
from reconstruct.reports import markup as html
from reconstruct.reports import plotting, sections, words
from reconstruct.reports.markup import Child, Markup, element
from reconstruct.reports.reading import RunFiles, read_run

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
    "numerical": "Numerical: an observation at sampled inputs; other inputs may differ by more.",
}
WITNESS = {
    "exact": "Exact: the witness was replayed in rational arithmetic; anyone can do it again.",
    "rigorous": "Rigorous: the witness was replayed, both networks' values enclosed between "
    "rational numbers; anyone can do it again.",
}
JOINING = ("Relu", "LeakyRelu", "Elu", "Selu", "Clip", "Norm")  # drawn with what they follow
Node: TypeAlias = Mapping[str, Any]
Bar: TypeAlias = tuple[str, int, str, bool]  # name, size, what is said of it, hidden or not


def write_page(folder: Path) -> None:
    """Write report.html beside the report.json and norms.npz that it is made from."""
    write_atomically(folder / "report.html", render(read_run(folder)).encode())


def render(run: RunFiles) -> str:
    """The page as HTML text."""
    report = run.report
    parts = (  # id, name in the navigation, section; in the order in which they are read
        ("witness", "witness", witness_section(run)),
        ("errors", "errors", sections.errors_section(run)),
        ("inputs", "inputs", sections.inputs_section(run)),
        ("networks", "networks", networks_section(run)),
        ("layers", "layers", sections.layers_section(run)),
        ("norms", "γ and β", sections.norms_section(run)),
        ("reproduce", "do it again", again_section(run)),
    )
    links = [element("a", name, href=f"#{key}") for key, name, made in parts if made is not None]
    return whole_page(
        f"{report['verdict']}: {report['target']['file']} on {words.domain_text(report['domain'])}",
        report["environment"]["reconstruct"],
        html.together((opening(run), element("nav", *links, aria_label="parts of this page"))),
        *(made for *_, made in parts),
    )


def whole_page(title: str, version: str, opening: Markup, *parts: Child) -> str:
    """The page of a run, a study or a training; without matplotlib it says what is missing."""
    missing = element("p", plotting.MISSING, class_="note")
    return html.html_page(
        title, version, opening, None if plotting.available() else missing, *parts
    )


def opening(run: RunFiles) -> Markup:
    """The verdict as a newcomer reads it."""
    report = run.report
    verdict, known = str(report["verdict"]), words.wanted_verdict(report)
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
            typeset(one.sentence),
        )
        for one in words.arithmetics(report)
    ]
    return element(
        "header",
        element("p", element("span", MARKS[known.tone], aria_hidden="true"), class_="mark"),
        element("h1", title),
        element("p", f"{typeset(words.claim(report))}.", class_="sentence"),
        element("p", subjects(report)),
        element("ul", *lines, class_="standings"),
        element("p", identity) if exact else None,
        element("p", rigor[report["rigor"]], class_="rigor"),
        html.facts([(name, typeset(text)) for name, text in words.figures(report)]),
        class_=f"verdict {known.tone}",
    )


def card(report: Mapping[str, Any]) -> str:
    """The opening for a notebook."""
    return opening(RunFiles(report)).text


def typeset(text: str) -> str:
    """`3.1e-08` inside of a sentence as 3.1·10⁻⁸."""
    return re.sub(r"\b[\d.]+e[-+]?\d+", lambda found: words.pretty(found[0]), text)


def subjects(report: Mapping[str, Any]) -> str:
    """Which networks f and g are."""
    frozen, file = report.get("frozen"), report["target"]["file"] or "the target"
    f = str((report.get("candidate") or {}).get("file") or "the other network")
    if frozen:
        origin = "your frozen network" if frozen.get("file") else "a frozen random network"
        f = f"{origin}, of which only the norm parameters γ and β were computed"
    g, f = html.elided(str(file), 60), html.elided(f, 100)
    return f"Here g is {g} and f is {f}; |f − g| is the largest difference of their outputs."


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
    return html.section(
        "witness",
        "The witness",
        f"At this input, {place}, the networks differ ({how}; rounded for print):",
        element("pre", point + (f", and {left_out} more in report.json" if left_out > 0 else "")),
        html.table("Both networks at the witness", ("output", "target g", "f", "f − g"), rows),
    )


def _values(g: float | None, f: float | None) -> tuple[str, str, str]:
    """Both values and their difference; a value beyond the floats is said to be that."""
    first, second = ("beyond the floats" if v is None else f"{v:.12g}" for v in (g, f))
    if g is None or f is None:
        return first, second, "see certificate.json"
    gap = f - g
    return first, second, f"{gap:.3g}" if math.isfinite(gap) else "beyond the floats"


def networks_section(run: RunFiles) -> Markup:
    """The two networks side by side.

    Every value of the target, with the activation behind it, is a bar on the left whose length
    grows with the logarithm of its size. On the right stand the frozen layers that make it.
    """
    report = run.report
    frozen = report.get("frozen")
    lead, right = "Two networks were compared; neither was made by this run.", "candidate f"
    legend = "Bars grow with the logarithm of the size; of images it is channels × height × width."
    if frozen:
        how = f": {frozen['summary']}" if "summary" in frozen else ""
        lead = (
            f"Construction “{frozen['construction']}”{how}. The weights of f are frozen; only the "
            f"γ and β of its norm layers were computed."
        )
        legend += (
            " Blue: values that both networks have. Orange: the hidden layers that the frozen "
            "network needs to make them."
        )
        right = "frozen f with its norms"
    return html.section(
        "networks",
        "The two networks",
        lead,
        diagram(rows_of(report), right, legend),
        sizes(report),
    )


def rows_of(report: Node) -> list[tuple[list[Bar], list[Bar]]]:
    """Values of g, each beside the layers of f that make it; none when the graphs are too large."""
    measured = report.get("measurements") or {}
    graphs, sites = measured.get("graphs") or {}, measured.get("sites") or {}
    if not graphs.get("target") or not graphs.get("frozen"):
        return []
    left, right = (
        _bars(graphs[name], len(report["domain"]["lo"])) for name in ("target", "frozen")
    )
    if not sites:
        pairs = itertools.zip_longest(left, right)
        return [([a] if a else [], [b] if b else []) for a, b in pairs]
    sizes = {node["name"]: node["size"] for node in graphs["frozen"]}
    rows = []
    for bar in left:
        norms: list[str] = list(sites.get(bar[0]) or [])
        made: list[Bar] = [(norm, sizes[norm], f"{sizes[norm]:,}", True) for norm in norms]
        if made:  # the last layer of a site has the value of g itself
            made[-1] = (norms[-1], bar[1], bar[2], False)
        rows.append(([bar], made or [bar]))
    return rows


def _bars(nodes: Sequence[Node], size_in: int) -> list[Bar]:
    """The network's values in order; an activation joins the bar that it follows."""
    bars: list[Bar] = [("input", size_in, f"{size_in:,}", False)]
    last = "input"
    for node in nodes:
        kind, (name, size, said, _) = str(node["kind"]), bars[-1]
        if node["inputs"] == [last] and kind in JOINING:
            bars[-1] = (name, size, f"{said}, {kind}", False)
        else:
            told = ["×".join(f"{n:,}" for n in node.get("shape") or (node["size"],))]
            if node.get("kernel"):
                told.append(f"{'×'.join(map(str, node['kernel']))} kernel")
            if kind not in ("Affine", "Dense", "Sparse", "Convolution"):
                told.append("sum" if kind == "Add" else kind)
            bars.append((node["name"], node["size"], ", ".join(told), False))
        last = node["name"]
    return bars


def diagram(
    rows: Sequence[tuple[list[Bar], list[Bar]]], right: str, legend: str = ""
) -> Markup | None:
    """The drawing, or None when there is nothing to draw or too much."""
    if not rows or sum(max(1, len(f)) for _, f in rows) > 60:
        return None
    longest = math.log2(1 + max(bar[1] for row in rows for side in row for bar in side))

    def drawn(bar: Bar) -> Markup:
        name, size, said, hidden = bar
        width = f"width:{12 * math.log2(1 + size) / max(longest, 1.0):.2f}em"
        line = element("i", class_="hidden" if hidden else "value", style=width)
        return element("p", html.named(name), element("span", line, said))

    head = element("div", element("b", "target g"), element("b", right), class_="row head")
    sides = ([element("div", *map(drawn, side)) for side in row] for row in rows)
    lines = (element("div", *pair, class_="row") for pair in sides)
    caption = element("figcaption", legend)
    return element("figure", element("div", head, *lines, class_="diagram"), caption)


def sizes(report: Node) -> Markup:
    """Weights and parameters of both networks, as a table."""
    target, frozen = report["target"], report.get("frozen") or report.get("candidate") or {}
    weights, target_weights = words.weight_count(frozen), words.weight_count(target)
    known = frozen.get("parameters") is not None and frozen.get("tunable") is not None
    biases = frozen["parameters"] - frozen["tunable"] - weights if known else None
    rows = (
        ("affine maps", len(target["maps"]), len(frozen.get("maps") or ())),
        ("weights", target_weights, weights),
        ("non-zero weights", None, frozen.get("nonzeros")),
        ("biases (of g: with its norms)", target["parameters"] - target_weights, biases),
        ("norm parameters γ, β", None, frozen.get("tunable")),
        ("parameters in all", target["parameters"], frozen.get("parameters")),
    )
    shown = [(name, *(words.DASH if v is None else f"{v:,}" for v in pair)) for name, *pair in rows]
    return html.table("Sizes", ("", "target g", "f"), shown)


def again_section(run: RunFiles) -> Markup:
    report = run.report
    lo, hi = report["domain"]["lo"], report["domain"]["hi"]
    lines = "\n".join(f"{i:>4}  {a!r} … {b!r}" for i, (a, b) in enumerate(zip(lo, hi, strict=True)))
    output = str((report.get("options") or {}).get("output") or "OUT")
    target, frozen = report["target"], report.get("frozen") or {}
    machine, cost = report["environment"], report["cost"]
    known = {"target": target["file"], "target sha256": target["sha256"]}
    if frozen:
        drawn = f"{frozen.get('weights')}, seed {frozen.get('seed')}"
        known["frozen weights"] = frozen.get("file") or drawn
        known["frozen weights sha256"] = frozen.get("sha256")
    python = (machine[name] for name in ("python", "numpy", "scipy"))
    threads = (_shown(machine[name]) for name in ("cpu", "threads"))
    known |= {
        "seed of the samples": report["error"]["seed"],
        "reconstruct": machine["reconstruct"],
        "Python, numpy, scipy": ", ".join(map(str, python)),
        "BLAS": machine["blas"],
        "processor": f"{', '.join(threads)} threads",
        "time and memory": f"{duration(cost['seconds'])}, {words.size(cost['peak_bytes'])}",
    }
    return html.section(
        "reproduce",
        "Do it again",
        "The same numbers come out of this command, and the second one re-checks the "
        "certificate without trusting anything of the solver.",
        element("pre", f"{command(report)}\n{shlex.join(['reconstruct', 'check', output])}"),
        html.facts((name, _shown(value)) for name, value in known.items()),
        html.details(f"The domain, coordinate by coordinate ({len(lo)})", element("pre", lines)),
    )


def command(report: Mapping[str, Any], verb: str | None = None) -> str:
    """The command line that gives this report, every option spelled out."""
    options = dict(report.get("options") or {})
    named = {key: options.pop(key) for key in ("target", "candidate") if key in options}
    own = "verify" if "candidate" in named else "run" if named else "demo"
    given = [str(name) for name in named.values() if name is not None]
    line = ["reconstruct", verb or own, *given]
    for key, value in options.items():
        unsaid = key in ("command", "json", "quiet", "force", "resume", "time_limit")
        if unsaid or value is None or value is False:
            continue
        flag = f"--{key.replace('_', '-')}"
        if value is True:
            line.append(flag)
            continue
        for text in map(str, value if isinstance(value, list) else [value]):
            line += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return shlex.join([*line, "--force"])  # what is there is what it makes again


def _shown(value: object) -> str:
    return words.DASH if value is None else str(value)
