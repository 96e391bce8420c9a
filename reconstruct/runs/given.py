"""What callers give (networks, files, words) becomes networks, domains and numbers."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reconstruct.bounds import Method
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.formats.domain import as_unseen, load_labels, load_unseen
from reconstruct.formats.files import as_path
from reconstruct.khatri_rao import SOLVERS, Solver
from reconstruct.networks import (
    Activation,
    Box,
    Clip,
    DomainLike,
    Elu,
    LeakyRelu,
    Network,
    Points,
    Relu,
    Selu,
    as_domain,
)
from reconstruct.networks.graph import as_network
from reconstruct.networks.inputs import fitting, input_shape
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import whole
from reconstruct.reports.inputs import ShownInputs

logger = logging.getLogger(__name__)

PathLike: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "Network | PathLike"
Where: TypeAlias = "DomainLike | PathLike"

# Inner activations that have a word on the command line.
ACTIVATIONS: dict[str, Activation] = {
    "relu": Relu(),
    "leakyrelu": LeakyRelu(float(np.float32(0.01))),
    "elu": Elu(),
    "selu": Selu(),
    "relu6": Clip(0.0, 6.0),
    "hardtanh": Clip(-1.0, 1.0),
}


def network(
    value: Given,
    role: str,
    nnet_header: bool = False,
    near: Box | Points | None = None,
) -> Network:
    """The network itself, or the one in that file, whose reading is compared in `near`."""
    if isinstance(value, str | os.PathLike):
        return load(value, nnet_header=nnet_header, near=near)
    if nnet_header:
        raise InputError("nnet_header belongs to a .nnet file, but a network is given")
    return as_network(value, role)


def path(value: Given) -> Path | None:
    """The file of a network; None for one that is an object."""
    return Path(value) if isinstance(value, str | os.PathLike) else None


def folder(output: PathLike) -> Path:
    """The directory to write; an empty name would be the current one."""
    if isinstance(output, str) and not output.strip():
        raise InputError("the output must name a directory, but is empty; write . for the current")
    return as_path(output, "the output")


def domain(value: Where, target: Network, radius: float | None) -> Box | Points:
    """A box, or points with a radius, that fits the target's inputs."""
    if isinstance(value, str | os.PathLike):
        return load_domain(value, target.size_in, radius, input_shape(target))
    found = fitting(value, target)
    if radius is None:
        return found
    if not isinstance(found, Points):
        raise InputError("a radius belongs to a domain made of data, but this one is a box")
    return Points(found.x, radius)


def nearby(value: Where | None, radius: float | None) -> Box | Points | None:
    """The domain before the network's size is known: where its file's reading is compared."""
    if isinstance(value, str | os.PathLike):
        return load_domain(value, radius=radius)
    return value if isinstance(value, Box | Points) else None


def examples(value: Where, place: Box | Points, target: Network) -> ShownInputs | None:
    """Data are inputs that a reader knows; a file may hold their labels, too."""
    if not isinstance(place, Points):
        return None
    labels = None
    if isinstance(value, str | os.PathLike):
        try:
            labels = load_labels(value, target.size_out)
        except InputError as error:  # values, and no labels: no mistake, but nothing to count
            logger.warning("accuracies are left out: %s", error)
    return ShownInputs(place.x, labels)


def unseen(x: Any, value: Where, target: Network) -> Array | None:
    """Inputs besides the domain at which the guard is tried: given, or those of the file."""
    if x is not None:
        return as_unseen(x, target.size_in, input_shape(target))
    if isinstance(value, str | os.PathLike):
        return load_unseen(value, target.size_in, input_shape(target))
    return None


def count(samples: int | None) -> int | None:
    if samples is not None and whole(samples, "samples") < 1:
        raise InputError(f"samples must be at least 1, but is {samples}")
    return samples


def word(value: Given, otherwise: str) -> str:
    """A file's name; `otherwise` for an object, which has none."""
    return os.fspath(value) if isinstance(value, str | os.PathLike) else otherwise


def domain_word(value: Where) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    found = as_domain(value)
    if isinstance(found, Box) and found.lo.ndim == 0:
        return f"{float(found.lo)!r},{float(found.hi)!r}"
    return "DOMAIN.npz"


def solver_word(solver: Solver) -> str | None:
    """The word for a solver with its default settings; others have none."""
    return next((name for name, kind in SOLVERS.items() if solver == kind()), None)


def activation_word(activation: Activation) -> str | None:
    return next((name for name, known in ACTIVATIONS.items() if known.same(activation)), None)


def bounds_words(method: Method | None) -> dict[str, Any]:
    if method is None:
        return {}
    seconds = getattr(method, "seconds", None)
    return {"bounds": type(method).__name__.lower(), "bounds_seconds": seconds}
