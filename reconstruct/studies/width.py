"""Below m·k: how narrow may the hidden layers be where the data live?

Three ways to choose the scales of a network that is too narrow: least squares for W itself (every
input counts alike; its square is 1 − c in the mean, proofs_check: exact-loss), least squares on
data, layer after layer on the values that the frozen network itself has, and gradient descent from
there. The subject, the shipped digits or a network and data of the user's, is fitted on one half of
its data and scored on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions import Fitted
from reconstruct.constructions import draw as draw_frozen
from reconstruct.demo import digits, share_recognised
from reconstruct.errors import InputError, MissingDependencyError
from reconstruct.formats import load, load_domain
from reconstruct.formats.domain import load_labels
from reconstruct.networks import Network, Points
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import reconstruct
from reconstruct.reports.plotting import FAINT
from reconstruct.studies import study
from reconstruct.studies.study import Panel, Point, Row, Rows, mean, select, values_of

DIGITS = "digits"
LEAST = 4  # inputs: half of them are fitted on, half are scored
SEED = 7  # of the order in which a user's data are split


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, inputs to fit on, and others to score with their labels.

    Without labels the target's own answers are taken for them: what is scored is agreement.
    """

    target: Network
    fit_x: Array
    fit_y: NDArray[np.int64]
    test_x: Array
    test_y: NDArray[np.int64]


def subject_of(target: str, data: str) -> Subject:
    """The shipped digits, or the network and the .npz with x (and y) of these names."""
    if (target == DIGITS) != (data == DIGITS):
        raise InputError(
            f"target and data belong together: give both as files, or neither, but target is "
            f"{target!r} and data is {data!r}"
        )
    if target == DIGITS:
        shipped = digits()
        network, x, y = shipped.target, shipped.images, shipped.labels
    else:
        network = load(target)
        points = load_domain(data, network.size_in)
        if not isinstance(points, Points) or len(points) < LEAST:
            raise InputError(
                f"{data}: an .npz with an array x of at least {LEAST} inputs is needed, but this "
                f"has {len(points) if isinstance(points, Points) else 'the ends of a box'}"
            )
        order, labels = np.random.default_rng(SEED).permutation(len(points)), load_labels(data)
        found = network(points.x).argmax(axis=1) if labels is None else labels
        x, y = points.x[order], found[order]
    half = len(x) // 2
    return Subject(network, x[:half], y[:half], x[half:], y[half:])


FITS = {
    "weights": "fitted to the weights",
    "data": "fitted to the data",
    "tuned": "trained on from there",
}
EPOCHS, BATCH, RATE = 20, 32, 0.03  # of training on


def _fits() -> tuple[str, ...]:
    """Training on needs torch: without it the grid goes without, unless it is asked for."""
    return tuple(FITS) if find_spec("torch") else tuple(FITS)[:2]


def trial(point: Point, seed: int) -> Row:
    subject = subject_of(point["target"], point["data"])
    construction = Fitted(point["ratio"], plain=point["fit"] == "weights")
    frozen = draw_frozen(subject.target, construction, seed=seed)
    seen = Points(subject.fit_x)
    result = reconstruct(subject.target, frozen, domain=seen, data=seen.x)
    network = result.network
    if point["fit"] == "tuned":
        network = _tuned(network, frozen.network, subject, seed)
    made, wanted = (one(subject.test_x) for one in (network, subject.target))
    return {
        "accuracy": share_recognised(network, subject.test_x, subject.test_y),
        "target_accuracy": share_recognised(subject.target, subject.test_x, subject.test_y),
        "residual": float(np.mean([row.residual for row in result.layers])),
        "error": float(np.abs(made - wanted).max() / (np.abs(wanted).max() or 1.0)),
    }


def _tuned(network: Network, frozen: Network, subject: Subject, seed: int) -> Network:
    """Trained on from the fit, nothing but γ and β."""
    if find_spec("torch") is None:
        raise MissingDependencyError("torch", "torch", "fit=tuned, which trains on from the fit")
    from reconstruct.training.data import Dataset
    from reconstruct.training.fine_tuning import fine_tuned
    from reconstruct.training.loop import Schedule

    x = subject.fit_x.astype(np.float32), subject.test_x.astype(np.float32)
    classes = subject.target.size_out
    data = Dataset("subject", x[0], subject.fit_y, x[1], subject.test_y, classes)
    return fine_tuned(network, frozen, data, Schedule(epochs=EPOCHS, batch=BATCH, rate=RATE), seed)


def findings(rows: Rows) -> list[study.Finding]:
    ratios, fits = values_of(rows, "ratio"), [fit for fit in FITS if select(rows, fit=fit)]
    shares = {
        fit: " / ".join(
            f"{100 * mean(select(rows, ratio=r, fit=fit), 'accuracy'):.0f}" for r in ratios
        )
        for fit in fits
    }
    widths = " / ".join(f"{ratio:g}" for ratio in ratios)
    said = ", ".join(f"{shares[fit]} % {FITS[fit]}" for fit in fits)
    target = 100 * mean(rows, "target_accuracy")
    found = [
        study.Finding(
            f"Recognised among inputs that were not fitted on, with {widths} times m·k neurons: "
            f"{said} (the target: {target:.0f} %).",
            "a network with data on which the fit is no better than that of the weights",
        )
    ]
    if "weights" in fits:
        found.append(_residuals(rows, ratios))
    return found


def _residuals(rows: Rows, ratios: list[Any]) -> study.Finding:
    left = [
        f"{mean(select(rows, ratio=r, fit='weights'), 'residual'):.2f} at {r:g} "
        f"(√(1 − c) = {sqrt(max(0, 1 - r)):.2f})"
        for r in ratios
    ]
    return study.Finding(
        f"Without data, what is left of W is {', '.join(left)}. The mean of its square is exactly "
        f"1 − c for every W: a theorem (exact-loss).",
        "a mean over many draws that leaves √(1 − c)",
        study.Evidence.PROVED,
    )


def panels(rows: Rows) -> list[Panel]:
    """The share recognised against the width, one curve for each way to fit."""
    axes = {"xlabel": "hidden neurons / (m·k)", "ylabel": "share recognised", "ylim": (0, 1.01)}
    return [Panel("ratio", "accuracy", "fit", FITS.__getitem__, axes=axes, lines=_target)]


def _target(axes: Any, rows: Rows) -> None:
    axes.axhline(mean(rows, "target_accuracy"), color=FAINT, linestyle=":", label="target")


WIDTH = study.Study(
    name="width",
    question="How narrow may the hidden layers be?",
    parameters=(
        study.Parameter("ratio", "hidden neurons per equation", (0.25, 0.5, 0.75, 0.9), 0.001, 10),
        study.Parameter(
            "fit", "to the weights, to the data, or tuned (trained on: needs torch)", _fits()
        ),
        study.Parameter("target", "digits, or a network file", (DIGITS,), free=True),
        study.Parameter(
            "data", "digits, or an .npz with x and, where known, labels y", (DIGITS,), free=True
        ),
    ),
    trial=trial,
    findings=findings,
    panels=panels,
    about=(
        "A network in frozen layers that are too narrow for the theorem; fitted on one half of its "
        "data, scored on the other: an approximation, never a reconstruction. By default the "
        "shipped digits network and its images; yours by target=FILE and data=FILE.npz."
    ),
)
