"""Inputs that a reader knows: pictures, both networks' answers, accuracies, and the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.markup import Child, Markup, element, facts, table
from reconstruct.reports.numbers import members, number, pretty, unseen_error
from reconstruct.reports.run_files import RunFiles

PREFIX = "data:image/png;base64,"


def section(run: RunFiles) -> Markup | None:
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
