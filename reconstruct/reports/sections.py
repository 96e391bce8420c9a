"""The sections of a run's page: the error, measured, predicted and certified, and where it was
largest; inputs and answers; the systems that were solved and the norms that came out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reconstruct.numbers.arrays import Vector
from reconstruct.progress import duration
from reconstruct.reports import markup as html
from reconstruct.reports import plotting as plot
from reconstruct.reports import words
from reconstruct.reports.markup import Child, Markup, element
from reconstruct.reports.reading import RunFiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = Mapping[str, Any]

GUARD = (
    "The guard is a second output of the network, the least margin of its hidden units. Where it "
    "is 0 or more, every hidden ReLU passes its value on, so that f computes g's own maps there, "
    "whether or not the input belongs to the domain of the claim. Where it is negative, nothing "
    "is known of the answer. The shifts were made for the domain, so that the share there says "
    "nothing of other inputs: x_unseen beside the data measures it."
)


def _number(value: float | None) -> str:
    return words.pretty(words.number(value))


def _bound(value: float | None) -> str:
    """Rounded up, so that what is printed is a bound, too."""
    return words.pretty(words.at_most(value))


def _relative(value: float | None, scale: float | None) -> float | None:
    """None where it is not known, or beyond the floats."""
    share = value / scale if value is not None and scale else math.inf
    return share if math.isfinite(share) else None


# --- the error ----------------------------------------------------------------------------------

KINDS = (
    ("measured", "measured", "o", plot.FIRST),
    ("predicted", "predicted", "x", plot.SECOND),
    ("bound", "certified: at most this", "<", plot.FOURTH),
)
AT_CUTS = (
    ("certified", "certified", "v", plot.FOURTH),
    ("float32", "f in float32", "s", plot.SECOND),
    ("target_float32", "g in float32", "x", plot.FAINT),
    ("float64", "f in float64", "o", plot.FIRST),
)


def errors_section(run: RunFiles) -> Markup:
    known, rows = run.report["certificate"], error_rows(run.report)
    worst = (run.report.get("difference") or {}).get("worst")
    tried = [element("li", words.in_words(step)) for step in known.get("tried") or ()]
    scale = known.get("output_scale")
    columns: dict[str, Callable[[Row], Child]] = {
        "arithmetic": lambda row: str(row["label"]),
        "measured": lambda row: _number(row["measured"]),
        "relative": lambda row: _number(_relative(row["measured"], scale)),
        "predicted": lambda row: _number(row["predicted"]),
        "certified: at most": lambda row: _bound(row["bound"]),
    }
    return html.section(
        "errors",
        "Measured, predicted, certified",
        error_figure(rows, known.get("tolerance")),
        html.table_of("|f − g|, the largest over outputs and inputs", rows, columns),
        "Measured is numerical: the largest difference at the inputs that were tried. "
        "Predicted is numerical too: what rounding errors of random sign would add up to. "
        "Certified is rigorous: no input of the domain exceeds it, in whichever order sums "
        "are taken. “Target in float32” is what rounding does to the target by itself; "
        "“relative” is the measured error over the largest output of g seen.",
        *_by_layer(run.measurements.get("layers") or ()),
        _worst(worst) if worst else None,
        html.facts(
            [
                ("proved by", str(known["method"])),
                ("tolerance", _number(known.get("tolerance"))),
                ("largest output of g seen", _number(scale)),
                ("time to certify", duration(known.get("seconds"))),
            ]
        ),
        html.details("What was tried", element("ul", *tried)) if tried else None,
    )


def error_rows(report: Row) -> list[dict[str, Any]]:
    """Real arithmetic, float64, float32 and, for comparison, the target itself in float32: what is
    known of the largest |f − g| in each; None is not known."""
    error = report["error"]
    predicted = (report.get("measurements") or {}).get("predicted") or {}
    names = ("label", "measured", "predicted", "bound")
    rows = [
        ("real arithmetic", None, None, error["certified_bound"]),
        *(
            (k, error[f"{k}_max"], predicted.get(k), error[f"{k}_bound"])
            for k in ("float64", "float32")
        ),
        ("target in float32", error["target_float32_max"], None, None),
    ]
    return [dict(zip(names, row, strict=True)) for row in rows]


def error_figure(rows: Sequence[Row], tolerance: float | None) -> Markup | None:
    """A dot for what was measured, a cross for the prediction, an arrow for the bound."""
    known = [v for row in rows for kind, *_ in KINDS if (v := row[kind]) is not None and v > 0]
    if not known:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for kind, label, marker, colour in KINDS:
            values = plot.positive(row[kind] for row in rows)
            axes.plot(values, -np.arange(len(rows)), marker, color=colour, label=label)
        if tolerance is not None and plot.NEAR < tolerance < plot.FAR:
            axes.axvline(tolerance, color=plot.FAINT, ls="--", linewidth=1, label="tolerance")
        axes.set_xlabel("largest |f − g|")
        plot.logarithmic(axes, "x")
        plot.named_rows(axes, [row["label"] for row in rows])
        plot.legend_above(figure, axes)

    title = f"Errors between {min(known):.2g} and {max(known):.2g}; the table below has them all"
    caption = "What is known of |f − g|, on one scale."
    return plot.figure("errors", title, caption, draw, (plot.WIDE[0], 2.6))


def _by_layer(rows: Sequence[Row]) -> tuple[Markup | None, ...]:
    """Where on the way the error grows: certified, measured, and the shifts that cause it."""
    if not rows:
        return ()
    caption = (
        "The error behind each layer, and the largest shift in it. Certified is rigorous and in "
        "real arithmetic; the others were measured at a few inputs (numerical) and hold the "
        "rounding of the evaluation too, so that they may lie above it."
    )
    columns: dict[str, Callable[[Row], Child]] = {
        "behind": lambda row: html.together((f"{rows.index(row) + 1}: ", html.named(row["name"]))),
        "largest |g|": lambda row: _number(row["scale"]),
        "shift": lambda row: _number(row["shift"]),
        "certified": lambda row: _bound(row["certified"]),
        "float64": lambda row: _number(row["float64"]),
        "float32": lambda row: _number(row["float32"]),
        "relative": lambda row: _number(_relative(row["float32"], row["scale"])),
        "g in float32": lambda row: _number(row["target_float32"]),
    }
    return (
        element("h3", "Behind each layer"),
        layer_figure(rows, caption) or element("p", caption),
        html.table_of("The error behind each layer", rows, columns),
    )


def layer_figure(rows: Sequence[Row], caption: str = "") -> Markup | None:
    """Errors above, largest shifts below, both on logarithmic scales, one place per layer."""
    if len(rows) < 2 or not any((row[key] or 0) > 0 for row in rows for key, *_ in AT_CUTS):
        return None
    places = np.arange(1, len(rows) + 1)

    def draw(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2.4, 1.0))
        for key, label, marker, colour in AT_CUTS:
            values = plot.positive(row[key] for row in rows)
            if np.isfinite(values).any():
                top.plot(places, values, color=colour, label=label, marker=marker)
        shifts = plot.positive(row["shift"] for row in rows)
        bottom.bar(places, np.nan_to_num(shifts), color=plot.THIRD, width=0.6)
        if np.isfinite(shifts).any():
            plot.logarithmic(bottom)
            bottom.set_ylim(bottom=np.nanmin(shifts) / 10)
        bottom.set(xlabel="layer", ylabel="largest shift", xlim=(0.4, len(rows) + 0.6))
        top.set_ylabel("largest |f − g|")
        plot.logarithmic(top)
        plot.whole_numbers(bottom)
        plot.legend_above(figure, top)

    title = f"Errors and largest shifts behind {len(rows)} layers; the table below has them all"
    return plot.figure("layer-errors", title, caption, draw, (plot.WIDE[0], 4.0))


def _worst(points: Sequence[Row]) -> Markup:
    rows = [
        (str(i), _number(row["difference"]), element("code", _point(row["point"])))
        for i, row in enumerate(points[:10], start=1)
    ]
    return html.table("Inputs with the largest difference found", ("", "|f − g|", "input"), rows)


def _point(values: Sequence[float], most: int = 8) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:most])
    more = len(values) - most
    return f"({shown}{f', … {more} more' if more > 0 else ''})"


# --- inputs and answers -------------------------------------------------------------------------


def inputs_section(run: RunFiles) -> Markup | None:
    shown, guard = (run.report.get("inputs") or {}).get("shown"), run.report.get("guard")
    if not shown and not guard:
        return None
    told: list[tuple[str, Child]] = []
    if guard:
        told.append(("file", element("code", str(guard["file"]))))
        if guard.get("slack") is not None:
            told.append(("slack", f"ranges seen on the data, widened by {1 + guard['slack']:g}"))
        told.append(("least margin on the domain", _number(guard["least_margin"])))
    return html.section(
        "inputs",
        "Inputs, answers and the guard" if guard else "Inputs and answers",
        element("div", *map(_item, shown), class_="gallery") if shown else None,
        GUARD if guard else None,
        html.facts(told) if guard else None,
    )


def _item(row: Row) -> Markup:
    """One input: the picture where it is one, and what both networks say."""
    lines: list[Child] = []
    if row["label"] is not None:
        lines.append(element("span", f"label {row['label']}"))
    if row["target"] is not None:
        same = row["target"] == row["network"]
        answer = f"g: {row['target']}, f: {row['network']}"
        lines.append(element("span", answer, class_=None if same else "standing refuted"))
    lines.append(element("span", f"|f − g| {_number(row['difference'])}"))
    image, alt = str(row["image"] or ""), f"input, label {row['label']}"
    picture = None
    if image.startswith("data:image/png;base64,"):
        picture = element("img", src=image, alt=alt, class_="pixels")
    return element("figure", picture, element("figcaption", *lines))


# --- the systems that were solved ---------------------------------------------------------------


def _solver(row: Row) -> str:
    return str(row["solver"] if row["status"] == "solved" else f"{row['solver']}: {row['status']}")


def _steps(row: Row) -> str:
    """As counted, and as Marchenko and Pastur's law predicts of conjugate gradients."""
    expected = row.get("expected_iterations")
    return f"{row['iterations']}{'' if expected is None else f' (law: {expected:.0f})'}"


def _positions(row: Row) -> str:
    """Where a kernel is used: height × width behind it, its own size and its steps."""
    geometry = row.get("geometry")
    if not geometry:
        return "1"
    kernel, strides = "×".join(map(str, geometry["kernel"])), geometry["strides"]
    steps = "" if set(strides) == {1} else f", stride {'×'.join(map(str, strides))}"
    return f"{row['positions']:,} (kernel {kernel}{steps})"


SYSTEMS: dict[str, Callable[[Row], Child]] = {
    "map": lambda row: str(row["index"]),
    "name": lambda row: html.named(str(row["name"])),
    "m×k": lambda row: f"{row['rows']}×{row['cols']}",
    "positions": _positions,
    "width n": lambda row: f"{row['width']:,}",
    "solver": _solver,
    "steps": _steps,
    "residual": lambda row: _number(row["residual"]),
    "entry bound": lambda row: _bound(row["residual_bound"]),
    "condition": lambda row: _number(row["condition"]),
    "largest |γ|": lambda row: _number(row["gamma_max"]),
    "shift": lambda row: _number(row["shift_max"]),
    "s": lambda row: f"{row['seconds']:.2f}",
}


def layers_section(run: RunFiles) -> Markup | None:
    layers = run.report.get("layers")
    if not layers:
        return None
    failed = (
        f"Map {row['index']} ({html.elided(str(row['name']))}) was not solved. {row['message']}"
        for row in layers
        if row["status"] != "solved"
    )
    return html.section(
        "layers",
        "Layer by layer",
        "Each m×k map W needs a γ that solves M2 diag(γ) M1 = W: m·k equations, n unknowns. "
        "“Residual” is what the solve left over, relative to W (numerical). “Entry bound” "
        "bounds every entry of the difference (rigorous). “Shift” is what keeps the hidden "
        "ReLUs active; a large one costs digits. The kernel of a convolution is used at many "
        "positions of an image; its system is solved once. Beside the steps of conjugate "
        "gradients stands what the Marchenko-Pastur law predicts (numerical).",
        *(element("p", sentence, class_="failure") for sentence in failed),
        element("div", html.table_of("Systems solved", layers, SYSTEMS), class_="names"),
        residual_figure(layers),
        _factors((run.report.get("frozen") or {}).get("factors")),
    )


def residual_figure(layers: Sequence[Row]) -> Markup | None:
    """The relative residual after each iteration, one curve per system."""
    histories = {row["index"]: plot.positive(row.get("history") or ()) for row in layers}
    shown = {index: h for index, h in histories.items() if np.isfinite(h).sum() > 1}
    if not shown:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for i, (index, history) in enumerate(list(shown.items())[:12]):
            turn, colour = divmod(i, len(plot.SERIES))  # colours come again with other dashes
            style, steps = ("-", "--", ":")[turn % 3], range(1, len(history) + 1)
            axes.plot(steps, history, style, color=plot.SERIES[colour], label=f"map {index}")
        axes.set(xlabel="iteration", ylabel="relative residual")
        plot.whole_numbers(axes)
        plot.logarithmic(axes)
        axes.legend(ncols=2, loc="upper right")

    most = max(map(len, shown.values()))
    title = f"Relative residual against iteration for {len(shown)} systems, at most {most} steps"
    return plot.figure("residuals", title, "Relative residual after each iteration.", draw)


def _factors(factors: Sequence[Row] | None) -> Markup | None:
    """What the construction found out about each map, one column for each number it names."""
    if not factors:
        return None
    names = {"name": "map", "rank": "rank used", "dropped": "left out"}
    head: list[str] = []
    for key, value in factors[0].items():
        word = names.get(key, key.replace("_", " "))
        head += [f"{word} from", "to"] if isinstance(value, list) else [word]
    caption = "Found out about each map (numerical)"
    if "singular_values" in factors[0]:
        caption = "Ranks: singular values at or below the cut count as zero (numerical)"
    return html.table(caption, head, [tuple(_cells(found)) for found in factors])


def _cells(found: Row) -> Iterator[Child]:
    for value in found.values():
        ends = (value or [words.DASH]) if isinstance(value, list) else None
        for part in (value,) if ends is None else (ends[0], ends[-1]):
            known = part is None or isinstance(part, float)
            yield _number(part) if known else html.named(str(part))


# --- the norms that came out --------------------------------------------------------------------


def norms_section(run: RunFiles, most: int = 60) -> Markup | None:
    if not run.gammas:
        return None
    total = sum(map(len, run.gammas.values()))
    share = sum(near_zero(g) * len(g) for g in run.gammas.values()) / max(1, total)
    names, none = list(run.gammas), np.empty(0)
    left = len(names) - most
    columns: dict[str, Callable[[str], Child]] = {
        "norm layer": html.named,
        "channels": lambda name: f"{len(run.gammas[name]):,}",
        "least |γ|": lambda name: _number(np.min(np.abs(run.gammas[name]), initial=math.inf)),
        "largest |γ|": lambda name: _number(np.max(np.abs(run.gammas[name]), initial=0.0)),
        "near-zero γ": lambda name: words.percent(near_zero(run.gammas[name])),
        "largest |β|": lambda name: _number(np.max(np.abs(run.betas.get(name, none)), initial=0.0)),
    }
    return html.section(
        "norms",
        "The norm parameters",
        f"{total:,} γ and as many β were computed. {words.percent(share)} of the γ are near "
        f"zero: below a thousandth of their layer's root mean square.",
        html.table_of("Norm layers", names[:most], columns),
        f"{left} more are in norms.npz." if left > 0 else None,
    )


def near_zero(gamma: Vector, share: float = 1e-3) -> float:
    """The share of the gammas below `share` times their root mean square, zeros included."""
    sizes = np.abs(gamma)
    largest = np.max(sizes, initial=0.0)
    if not largest:
        return float(len(gamma) > 0)
    sizes = sizes / largest  # squares must neither overflow nor vanish
    return float(np.mean(sizes <= share * np.sqrt(np.mean(sizes**2))))
