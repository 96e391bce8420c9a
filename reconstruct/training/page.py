"""report.html of a training: one file that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.progress import duration
from reconstruct.reports.markup import (
    Child,
    Markup,
    element,
    elided,
    facts,
    figure,
    html_page,
    section,
    table,
)
from reconstruct.reports.page import command, missing
from reconstruct.reports.plotting import (
    FIRST,
    SECOND,
    SERIES,
    WIDE,
    available,
    drawing,
    logarithmic,
    margins,
    whole_numbers,
)
from reconstruct.reports.words import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHAT = {
    "norms": "the γ and β of its norm layers",
    "output": "its output layer",
    "norms+output": "its norm and output layers",
    "all": "all of its parameters",
    "random": "as many random weights as its norm layers have parameters",
}


def render(report: Mapping[str, Any]) -> str:
    """The page as HTML text."""
    return html_page(
        _title(report),
        report["environment"]["reconstruct"],
        _opening(report),
        None if available() else missing(),
        _curves(report),
        _features(report),
        _again(report),
    )


def percent(spread: Mapping[str, float]) -> str:
    """`93.1 %`, with the range over the seeds where there is one."""
    mean, least, most = (100 * spread[key] for key in ("mean", "least", "most"))
    return f"{mean:.1f} %" if least == most else f"{mean:.1f} % ({least:.1f} … {most:.1f})"


def _title(report: Mapping[str, Any]) -> str:
    return (
        f"{percent(report['summary']['accuracy'])}: {report['model']} of depth {report['depth']}, "
        f"width {report['width']} on {report['data']['name']}"
    )


def _opening(report: Mapping[str, Any]) -> Markup:
    counts, data = report["parameters"], report["data"]
    share = 100 * counts["tuned"] / counts["all"]
    sentence = (
        f"Of a random network only {WHAT[report['tune']]} were trained: {counts['tuned']:,} of "
        f"{counts['all']:,} parameters ({share:.2g} %). It recognises "
        f"{percent(report['summary']['accuracy'])} of {data['test']:,} test examples."
    )
    pairs: list[tuple[str, Child]] = [
        ("data", f"{data['name']}: {data['train']:,} to train on, {data['classes']} classes"),
        ("seeds", ", ".join(map(str, report["seeds"]))),
        ("time", duration(report["cost"]["seconds"])),
    ]
    heading = element("h1", _title(report), class_="alone")
    return element("header", heading, element("p", sentence), facts(pairs))


def _curves(report: Mapping[str, Any]) -> Markup:
    caption = (
        "Left: loss of the batches of each epoch. Right: examples recognised after it, with "
        "frozen statistics; training examples dashed. One colour per seed."
    )
    rows = [
        (
            f"{run['seed']}",
            f"{100 * run['accuracy']:.2f} %",
            f"{100 * run['history']['train_accuracy'][-1]:.2f} %",
            number(run["history"]["loss"][-1]),
            duration(run["seconds"]),
        )
        for run in report["runs"]
    ]
    head = ("seed", "test", "training", "last loss", "time")
    return section(
        "training",
        "Training",
        figure(curves_figure(report["runs"]), caption),
        table("Accuracy at the end", head, rows),
    )


def _features(report: Mapping[str, Any]) -> Markup:
    found = report["summary"]
    first = report["runs"][0]
    text = (
        f"{percent(found['small_share'])} of all γ are near zero (|γ| < 0.01). With those "
        f"features switched off (γ = 0) accuracy is {percent(found['accuracy_without_small'])}, "
        f"with as many others, chosen at random, "
        f"{percent(found['accuracy_without_as_many_at_random'])}; with all of them "
        f"{percent(found['accuracy'])}."
    )
    rows = [
        (layer["name"], f"{layer['channels']}", f"{layer['small']}", number(layer["largest"]))
        for layer in first["gamma"]["layers"]
    ]
    head = ("norm layer", "channels", "|γ| < 0.01", "largest |γ|")
    return section(
        "features",
        "Features",
        element("p", text),
        figure(
            gamma_figure(first["gamma"]["layers"]),
            f"γ by layer, seed {first['seed']}; the line marks 0.",
        ),
        table(f"Norm layers, seed {first['seed']}", head, rows),
    )


def _again(report: Mapping[str, Any]) -> Markup:
    schedule, environment = report["schedule"], report["environment"]
    pairs: list[tuple[str, Child]] = [
        ("command", element("code", command(report, "train"))),
        *((name, str(value)) for name, value in schedule.items()),
        ("torch", environment["torch"]),
        ("processor", environment["cpu"]),
    ]
    return section("again", "Do it again", facts(pairs))


def curves_figure(runs: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Loss and accuracy by epoch; one line per seed, training dashed."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for i, run in enumerate(runs):
            history, colour = run["history"], SERIES[i % len(SERIES)]
            epochs = np.arange(1, len(history["loss"]) + 1)
            left.plot(epochs, history["loss"], color=colour, label=f"seed {run['seed']}")
            right.plot(epochs, 100 * np.array(history["test_accuracy"]), color=colour)
            training = 100 * np.array(history["train_accuracy"])
            right.plot(epochs, training, "--", color=colour, linewidth=1)
        for axes, title in ((left, "Loss while training"), (right, "Recognised, %")):
            axes.set(title=title, xlabel="epoch")
            whole_numbers(axes)
        logarithmic(left)
        left.legend()

    final = ", ".join(f"{100 * run['accuracy']:.1f} %" for run in runs)
    title = f"Loss and accuracy by epoch; accuracy at the end: {final}"
    return drawing("curves", title, draw, WIDE)


def gamma_figure(layers: Sequence[Mapping[str, Any]]) -> Markup | None:
    """A histogram of γ for each norm layer (evenly chosen ones where there are many)."""
    if not layers:
        return None
    places = np.linspace(0, len(layers) - 1, min(len(layers), 24)).round().astype(int)
    chosen = [layers[i] for i in places]
    rows = -(-len(chosen) // 4)

    def draw(figure: Figure) -> None:
        margins(figure, left=0.15, bottom=0.3)
        panels = figure.subplots(rows, 4, squeeze=False).ravel()
        figure.subplots_adjust(hspace=0.6, wspace=0.1)
        for axes, layer in zip(panels, chosen, strict=False):
            histogram = layer["histogram"]
            axes.stairs(histogram["counts"], histogram["edges"], fill=True, color=FIRST)
            axes.axvline(0.0, color=SECOND, linewidth=0.8)
            axes.set_title(elided(layer["name"], 26), fontsize="small")
            axes.set(yticks=())
            axes.grid(visible=False)
        for axes in panels[len(chosen) :]:
            axes.remove()

    total = sum(layer["channels"] for layer in layers)
    title = f"Histograms of γ in {len(chosen)} of {len(layers)} norm layers, {total} γ in all"
    return drawing("gamma", title, draw, (WIDE[0], 0.4 + 1.5 * rows))
