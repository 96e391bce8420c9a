"""report.html of a training: one file that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconstruct.formats.files import write_atomically
from reconstruct.reports.markup import Child, Markup, element, facts, figure, table
from reconstruct.reports.numbers import duration, number
from reconstruct.reports.page import POLICY, style
from reconstruct.training.figures import curves_figure, gamma_figure
from reconstruct.training.report import percent

WHAT = {
    "norms": "the γ and β of its norm layers",
    "output": "its output layer",
    "norms+output": "its norm and output layers",
    "all": "all of its parameters",
    "random": "as many random weights as its norm layers have parameters",
}


def write_page(path: Path, report: Mapping[str, Any]) -> None:
    """Write the page of a report."""
    write_atomically(path, render(report).encode())


def render(report: Mapping[str, Any]) -> str:
    """The page as HTML text."""
    body = element(
        "body",
        element(
            "main",
            _opening(report),
            _curves(report),
            _features(report),
            _again(report),
        ),
        element("footer", f"Made by reconstruct {report['environment']['reconstruct']}."),
    )
    return f"<!doctype html>\n{element('html', _head(report), body, lang='en')}\n"


def _title(report: Mapping[str, Any]) -> str:
    model = report["model"]
    return (
        f"{percent(report['summary']['accuracy'])}: {model['family']} of depth {model['depth']}, "
        f"width {model['width']} on {report['data']['name']}"
    )


def _head(report: Mapping[str, Any]) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", _title(report)),
        element("style", Markup(style())),
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
    return element("header", element("h1", _title(report)), element("p", sentence), facts(pairs))


def _curves(report: Mapping[str, Any]) -> Markup:
    drawing = curves_figure(report["runs"])
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
    return element(
        "section",
        element("h2", "Training"),
        figure(drawing, caption),
        table("Accuracy at the end", head, rows),
        id="training",
    )


def _features(report: Mapping[str, Any]) -> Markup:
    found = report["summary"]
    first = report["runs"][0]
    drawing = gamma_figure(first["gamma"]["layers"])
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
    return element(
        "section",
        element("h2", "Features"),
        element("p", text),
        figure(drawing, f"γ by layer, seed {first['seed']}; the line marks 0.")
        if drawing
        else None,
        table(f"Norm layers, seed {first['seed']}", head, rows),
        id="features",
    )


def _again(report: Mapping[str, Any]) -> Markup:
    schedule, environment = report["schedule"], report["environment"]
    pairs: list[tuple[str, Child]] = [
        ("command", element("code", _command(report))),
        *((name, str(value)) for name, value in schedule.items()),
        ("torch", environment["torch"]),
        ("processor", environment["cpu"]),
    ]
    return element("section", element("h2", "Do it again"), facts(pairs), id="again")


def _command(report: Mapping[str, Any]) -> str:
    model, schedule = report["model"], report["schedule"]
    data = report["options"].get("data", report["data"]["name"])
    seeds = ",".join(map(str, report["seeds"]))
    return (
        f"reconstruct train --model {model['family']} --depth {model['depth']} "
        f"--width {model['width']} --gamma {model['gamma']} --data {data} "
        f"--tune {report['tune']} --epochs {schedule['epochs']} --batch {schedule['batch']} "
        f"--rate {schedule['rate']} --momentum {schedule['momentum']} "
        f"--decay {schedule['decay']} --seeds {seeds} -o OUT"
    )
