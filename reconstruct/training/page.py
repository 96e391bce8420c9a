"""report.html of a training, and what the terminal says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reconstruct.progress import duration
from reconstruct.reports import markup as html
from reconstruct.reports import plotting as plot
from reconstruct.reports.markup import Child, Markup, element
from reconstruct.reports.page import command, whole_page
from reconstruct.reports.words import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = Mapping[str, Any]
WHAT = {
    "norms": "the γ and β of its norm layers",
    "output": "its output layer",
    "norms+output": "its norm and output layers",
    "all": "all of its parameters",
    "random": "as many random weights as its norm layers have parameters",
}


def percent(spread: Mapping[str, float]) -> str:
    """`93.1 %`, with the range over the seeds where there is one."""
    mean, least, most = (100 * spread[key] for key in ("mean", "least", "most"))
    return f"{mean:.1f} %" if least == most else f"{mean:.1f} % ({least:.1f} … {most:.1f})"


def figures(report: Row) -> list[tuple[str, str]]:
    """Names and numbers of a training, for terminal and page."""
    found, data = report["summary"], report["data"]
    tuned, total = report["parameters"]["tuned"], report["parameters"]["all"]
    return [
        ("model", f"{report['model']} of depth {report['depth']} and width {report['width']}"),
        ("tuned", f"{report['tune']}: {tuned:,} of {total:,} parameters"),
        ("accuracy", f"{percent(found['accuracy'])} of {data['test']} test examples"),
        ("γ near zero", f"{percent(found['small_share'])} (|γ| < 0.01)"),
        ("without those", percent(found["accuracy_without_small"])),
        ("without as many others", percent(found["accuracy_without_as_many_at_random"])),
    ]


def render(report: Row) -> str:
    """The page as HTML text."""
    found, data, first = report["summary"], report["data"], report["runs"][0]
    counts, machine = report["parameters"], report["environment"]
    title = (
        f"{percent(found['accuracy'])}: {report['model']} of depth {report['depth']}, "
        f"width {report['width']} on {data['name']}"
    )
    sentence = (
        f"Of a random network only {WHAT[report['tune']]} were trained: {counts['tuned']:,} of "
        f"{counts['all']:,} parameters ({100 * counts['tuned'] / counts['all']:.2g} %). It "
        f"recognises {percent(found['accuracy'])} of {data['test']:,} test examples."
    )
    told = [
        ("data", f"{data['name']}: {data['train']:,} to train on, {data['classes']} classes"),
        ("seeds", ", ".join(map(str, report["seeds"]))),
        ("time", duration(report["cost"]["seconds"])),
    ]
    trained: dict[str, Callable[[Row], Child]] = {
        "seed": lambda run: f"{run['seed']}",
        "test": lambda run: f"{100 * run['accuracy']:.2f} %",
        "training": lambda run: f"{100 * run['history']['train_accuracy'][-1]:.2f} %",
        "last loss": lambda run: number(run["history"]["loss"][-1]),
        "time": lambda run: duration(run["seconds"]),
    }
    layers: dict[str, Callable[[Row], Child]] = {
        "norm layer": lambda layer: layer["name"],
        "channels": lambda layer: f"{layer['channels']}",
        "|γ| < 0.01": lambda layer: f"{layer['small']}",
        "largest |γ|": lambda layer: number(layer["largest"]),
    }
    again = [
        ("command", element("code", command(report, "train"))),
        *((name, str(value)) for name, value in report["schedule"].items()),
        ("torch", machine["torch"]),
        ("processor", machine["cpu"]),
    ]
    heading = element("h1", title, class_="alone")
    return whole_page(
        title,
        machine["reconstruct"],
        element("header", heading, element("p", sentence), html.facts(told)),
        html.section(
            "training",
            "Training",
            curves_figure(report["runs"]),
            html.table_of("Accuracy at the end", report["runs"], trained),
        ),
        html.section(
            "features",
            "Features",
            f"{percent(found['small_share'])} of all γ are near zero (|γ| < 0.01). With those "
            f"features switched off (γ = 0) accuracy is "
            f"{percent(found['accuracy_without_small'])}, with as many others, chosen at random, "
            f"{percent(found['accuracy_without_as_many_at_random'])}; with all of them "
            f"{percent(found['accuracy'])}.",
            gamma_figure(first["gamma"]["layers"], first["seed"]),
            html.table_of(f"Norm layers, seed {first['seed']}", first["gamma"]["layers"], layers),
        ),
        html.section("again", "Do it again", html.facts(again)),
    )


def curves_figure(runs: Sequence[Row]) -> Markup | None:
    """Loss and accuracy by epoch; one line per seed, training dashed."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for i, run in enumerate(runs):
            history, colour = run["history"], plot.SERIES[i % len(plot.SERIES)]
            epochs = np.arange(1, len(history["loss"]) + 1)
            left.plot(epochs, history["loss"], color=colour, label=f"seed {run['seed']}")
            for part, style, width in (("test", "-", 1.6), ("train", "--", 1.0)):
                values = 100 * np.array(history[f"{part}_accuracy"])
                right.plot(epochs, values, style, color=colour, linewidth=width)
        for axes, title in ((left, "Loss while training"), (right, "Recognised, %")):
            axes.set(title=title, xlabel="epoch")
            plot.whole_numbers(axes)
        plot.logarithmic(left)
        left.legend()

    caption = (
        "Left: loss of the batches of each epoch. Right: examples recognised after it, with "
        "frozen statistics; training examples dashed. One colour per seed."
    )
    final = ", ".join(f"{100 * run['accuracy']:.1f} %" for run in runs)
    title = f"Loss and accuracy by epoch; accuracy at the end: {final}"
    return plot.figure("curves", title, caption, draw, plot.WIDE)


def gamma_figure(layers: Sequence[Row], seed: int) -> Markup | None:
    """A histogram of γ for each norm layer (evenly chosen ones where there are many)."""
    if not layers:
        return None
    places = np.linspace(0, len(layers) - 1, min(len(layers), 24)).round().astype(int)
    chosen = [layers[i] for i in places]
    rows = -(-len(chosen) // 4)

    def draw(figure: Figure) -> None:
        plot.margins(figure, left=0.15, bottom=0.3)
        panels = figure.subplots(rows, 4, squeeze=False).ravel()
        figure.subplots_adjust(hspace=0.6, wspace=0.1)
        for axes, layer in zip(panels, chosen, strict=False):
            histogram = layer["histogram"]
            axes.stairs(histogram["counts"], histogram["edges"], fill=True, color=plot.FIRST)
            axes.axvline(0.0, color=plot.SECOND, linewidth=0.8)
            axes.set_title(html.elided(layer["name"], 26), fontsize="small")
            axes.set(yticks=())
            axes.grid(visible=False)
        for axes in panels[len(chosen) :]:
            axes.remove()

    total = sum(layer["channels"] for layer in layers)
    title = f"Histograms of γ in {len(chosen)} of {len(layers)} norm layers, {total} γ in all"
    caption = f"γ by layer, seed {seed}; the line marks 0."
    return plot.figure("gamma", title, caption, draw, (plot.WIDE[0], 0.4 + 1.5 * rows))
