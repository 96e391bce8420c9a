"""Inputs: those that a reader knows with both networks' answers, the guard, and where f and g
differ most among those that were sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.figures import (
    all_zero,
    float32_figure,
    histogram_figure,
    plane_figure,
    slice_figure,
)
from reconstruct.reports.markup import Child, Markup, element, facts, figure, table
from reconstruct.reports.numbers import number, pretty
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.wording import members, unseen_error

MOST_POINTS = 10
MOST_COORDINATES = 8
PREFIX = "data:image/png;base64,"


def inputs_section(run: RunFiles) -> Markup | None:
    known, guard = run.report.get("inputs") or {}, run.report.get("guard")
    if not known and not guard:
        return None
    return element(
        "section",
        element("h2", "Inputs, answers and the guard" if guard else "Inputs and answers"),
        _accuracy(known) if known.get("accuracy") else None,
        _gallery(known["shown"]) if known.get("shown") else None,
        *(_guard(guard, members(run.report["domain"], guard["inputs"])) if guard else ()),
        id="inputs",
    )


def _accuracy(known: Mapping[str, Any]) -> Markup:
    shares = known["accuracy"]
    rows = [
        ("target g", _share(shares["target"])),
        ("frozen f as it was drawn", _share(shares["frozen"])),
        ("frozen f with its norms", _share(shares["network"])),
        ("f and g give the same class", _share(shares["same"])),
    ]
    caption = f"Accuracy on {known['count']:,} inputs with labels (numerical)"
    return table(caption, ("", "share"), rows)


def _gallery(shown: Sequence[Mapping[str, Any]]) -> Markup:
    items = [_item(row) for row in shown]
    return element("div", *items, class_="gallery")


def _item(row: Mapping[str, Any]) -> Markup:
    """One input: the picture where it is one, and what both networks say."""
    lines: list[Child] = []
    if row["label"] is not None:
        lines.append(element("span", f"label {row['label']}"))
    if row["target"] is not None:
        same = row["target"] == row["network"]
        answer = f"g: {row['target']}, f: {row['network']}"
        lines.append(element("span", answer, class_=None if same else "standing refuted"))
    lines.append(element("span", f"|f − g| {pretty(number(row['difference']))}"))
    image = str(row["image"] or "")
    picture = (
        element("img", src=image, alt=f"input, label {row['label']}", class_="pixels")
        if image.startswith(PREFIX)
        else None
    )
    return element("figure", picture, element("figcaption", *lines))


def _guard(guard: Mapping[str, Any], tried: str) -> tuple[Markup, Markup]:
    told: list[tuple[str, Child]] = [
        ("file", element("code", str(guard["file"]))),
        (f"of {tried}, with margin ≥ 0", _share(guard["share"])),
        ("least margin of these", pretty(number(guard["least_margin"]))),
        *_unseen(guard.get("unseen")),
    ]
    if guard.get("slack") is not None:
        told.insert(1, ("slack", f"ranges seen on the data, widened by {1 + guard['slack']:g}"))
    text = (
        "The guard is a second output of the network, the least margin of its hidden units. Where "
        "it is 0 or more, every hidden ReLU passes its value on, so that f computes g's own maps "
        "there, whether or not the input belongs to the domain of the claim. Where it is "
        "negative, nothing is known of the answer. The shifts were made for the domain, so that "
        "the share there says nothing of other inputs: x_unseen beside the data measures it."
    )
    return element("p", text), facts(told)


def _unseen(unseen: Mapping[str, Any] | None) -> list[tuple[str, Child]]:
    """Inputs that the claim is not about: how many are covered, and what that is worth."""
    if not unseen:
        return []
    count = f"{unseen['inputs']:,}"
    if unseen["of"] > unseen["inputs"]:
        count += f" of {unseen['of']:,}"
    return [
        (
            f"of {count} unseen inputs, with margin ≥ 0",
            _share(unseen["covered"] / unseen["inputs"]),
        ),
        ("largest |f − g| on these (numerical)", pretty(unseen_error(unseen, "covered"))),
        ("largest |f − g| on the others (numerical)", pretty(unseen_error(unseen, "others"))),
    ]


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"


def differences_section(run: RunFiles) -> Markup:
    found = run.report.get("difference") or {}
    error = run.report["error"]
    line = run.measurements.get("slice")
    worst = found.get("worst") or ()
    pair = [
        figure(
            histogram_figure(found.get("histogram")),
            f"{error['samples']:,} inputs drawn from the domain.",
        ),
        figure(
            float32_figure(run.measurements.get("histogram")),
            "The same in float32, beside what rounding does to g by itself.",
        ),
    ]
    return element(
        "section",
        element("h2", "The difference over the domain"),
        element(
            "p",
            "All of this is numerical: it shows where the networks differ most among the inputs "
            "that were looked at.",
        ),
        _same(found.get("histogram"), error["samples"]),
        element("div", *pair, class_="pair") if any(pair) else None,
        figure(
            slice_figure(line),
            f"Output {(line or {}).get('output')} along the line from edge to edge through the "
            f"middle of the domain and the worst point found.",
        ),
        figure(
            plane_figure(run.measurements.get("plane")),
            "The two inputs across the box, one output: g, and where f differs from it.",
        ),
        _worst(worst) if worst else None,
        id="difference",
    )


def _same(histogram: Mapping[str, Any] | None, samples: int) -> Markup | None:
    """In place of a histogram of zeros; what is no number was not counted."""
    if not histogram or not all_zero(histogram):
        return None
    count = sum(histogram["counts"])
    inputs = "the one sampled input" if count == 1 else f"each of the {count:,} sampled inputs"
    if count < samples:
        inputs = f"{count:,} of {samples:,} sampled inputs"
    return element("p", f"At {inputs}, f − g is 0 in float64.")


def _worst(points: Sequence[Mapping[str, Any]]) -> Markup:
    rows: list[tuple[Child, ...]] = [
        (str(i), pretty(number(row["difference"])), element("code", _point(row["point"])))
        for i, row in enumerate(points[:MOST_POINTS], start=1)
    ]
    return table("Inputs with the largest difference found", ("", "|f − g|", "input"), rows)


def _point(values: Sequence[float]) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:MOST_COORDINATES])
    more = len(values) - MOST_COORDINATES
    return f"({shown}{f', … {more} more' if more > 0 else ''})"
