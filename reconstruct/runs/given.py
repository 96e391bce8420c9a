"""What callers give (networks, files, words) becomes networks, domains and numbers; what is meant
where nothing is said; and the call again in the words of the command line."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reconstruct.bounds import Adaptive, Method
from reconstruct.bounds.methods import as_method
from reconstruct.constructions import Construction, Grouped, SitePlan, costs
from reconstruct.constructions.sites import norm_at
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import domain as domains
from reconstruct.formats import load
from reconstruct.formats.labelled import Images
from reconstruct.khatri_rao import SOLVERS
from reconstruct.networks import Activation, Box, DomainLike, Network, Points, as_domain
from reconstruct.networks import activations as kinds
from reconstruct.networks.graph import as_network, fitting, input_shape
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import at_least, whole
from reconstruct.progress import duration
from reconstruct.reports.measurements import ShownInputs
from reconstruct.reports.words import size

logger = logging.getLogger(__name__)

PathLike: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "Network | PathLike"
Where: TypeAlias = "DomainLike | PathLike | Images"

# Inner activations that have a word on the command line.
ACTIVATIONS: dict[str, Activation] = {
    "relu": kinds.Relu(),
    "leakyrelu": kinds.LeakyRelu(float(np.float32(0.01))),
    "elu": kinds.Elu(),
    "selu": kinds.Selu(),
    "relu6": kinds.Clip(0.0, 6.0),
    "hardtanh": kinds.Clip(-1.0, 1.0),
    "gelu": kinds.Gelu(),
    "silu": kinds.Silu(),
    "softplus": kinds.Softplus(),
    "tanh": kinds.Tanh(),
}


def network(
    value: Given | None, role: str, nnet_header: bool = False, near: Box | Points | None = None
) -> Network:
    """The network itself, or the one in that file, whose reading is compared in `near`."""
    if isinstance(value, str | os.PathLike):
        return load(value, nnet_header=nnet_header, near=near)
    if nnet_header:
        raise InputError("nnet_header belongs to a .nnet file, but a network is given")
    return as_network(value, role)


def path(value: Given | None) -> Path | None:
    """The file of a network; None for one that is an object."""
    return Path(value) if isinstance(value, str | os.PathLike) else None


def domain(value: Where, target: Network, radius: float | None) -> Box | Points:
    """A box, or points with a radius, that fits the target's inputs."""
    if isinstance(value, str | os.PathLike | Images):
        return domains.load_domain(value, target.size_in, radius, input_shape(target))
    return domains.with_radius(fitting(value, target), radius)


def nearby(value: Where | None, radius: float | None) -> Box | Points | None:
    """The domain before the network's size is known: where its file's reading is compared."""
    if isinstance(value, str | os.PathLike | Images):
        return domains.load_domain(value, radius=radius)
    return value if isinstance(value, Box | Points) else None


def examples(value: Where, place: Box | Points, target: Network) -> ShownInputs | None:
    """Data are inputs that a reader knows; a file may hold their labels, too."""
    if not isinstance(place, Points):
        return None
    labels = None
    if isinstance(value, str | os.PathLike | Images):
        try:
            labels = domains.load_labels(value, target.size_out)
        except InputError as error:  # values, and no labels: no mistake, but nothing to count
            logger.warning("accuracies are left out: %s", error)
    return ShownInputs(place.x, labels)


def unseen(x: Any, value: Where, target: Network) -> Array | None:
    """Inputs besides the domain at which the guard is tried: given, or those of the file."""
    if x is not None:
        return domains.as_unseen(x, target.size_in, input_shape(target))
    if isinstance(value, str | os.PathLike):
        return domains.load_unseen(value, target.size_in, input_shape(target))
    return None


def check_numbers(
    samples: int | None, tolerance: float | None, time_limit: float | None, memory: Any = None
) -> None:
    """Refuses numbers of `run` and `verify` that mean nothing."""
    if samples is not None and whole(samples, "samples") < 1:
        raise InputError(f"samples must be at least 1, but is {samples}")
    at_least(tolerance, "the tolerance", 0)
    at_least(time_limit, "the time limit", 0)
    at_least(memory, "the memory", 1)


# --- what is meant where nothing is said ---------------------------------------------------------


def method(given: Method | None, network: Network, dtype: str | None = None) -> Method:
    """The bounds for a frozen network that is written in `dtype` (without it: as its norms are).

    By default a branch and bound where there are few inputs, elsewhere CROWN. A search that was
    given no number of boxes gets as many as take about as long as the rest of the work on so many
    weights: the same number in `run` and `verify`, so that both find the same tree. A network that
    is written in float32 rounds by what its ranges are too wide: it gets more boxes, for some ten
    seconds.
    """
    if given is None and network.size_in > costs.RATES.few_inputs:
        return Adaptive(boxes=1)
    chosen = Adaptive() if given is None else as_method(given)
    if not isinstance(chosen, Adaptive) or chosen.boxes != Adaptive.boxes:
        return chosen
    single = given is None and (dtype or norm_precision(network)) == "float32"
    many = costs.boxes(sum(node.op.weights for node in network.nodes))
    return Adaptive(chosen.seconds, boxes=many * (16 if single else 1))


def norm_precision(network: Network) -> str:
    """The precision in which a network with norm layers is written: float32 if these have no digit
    beyond it. Without norms it is float64, whatever it is."""
    norms = [norm_at(network, node.name) for node in network.norm_nodes()]
    numbers = [part for norm in norms for part in (norm.gamma, norm.beta)]
    single = all(np.array_equal(part, part.astype(np.float32)) for part in numbers)
    return "float32" if norms and single else "float64"


def advice(
    target: Network,
    construction: Construction,
    density: float | None,
    plans: Mapping[str, SitePlan] | None = None,
    memory: int | None = None,
) -> str | None:
    """What grouped layers would take, where this construction takes over two minutes or more than
    `memory`; `target` is in normal form."""
    if construction.name == Grouped().name:
        return None
    own = costs.cost(target, construction, density, plans)
    if own.seconds <= 120 and own.memory_bytes <= (memory or inf):
        return None
    try:
        other = costs.cost(target, Grouped(), density)
    except UnsupportedError:
        return None
    if other.seconds > own.seconds and other.memory_bytes > own.memory_bytes:
        return None
    return (
        f"{construction.name} takes about {duration(own.seconds)} and {size(own.memory_bytes)} "
        f"here; --construction grouped about {duration(other.seconds)} and "
        f"{size(other.memory_bytes)}"
    )


# --- the call in the words of the command line ---------------------------------------------------


def words(**call: Any) -> dict[str, Any]:
    """Arguments as options; what has no words is told by a name in capitals, or left out."""
    told: dict[str, Any] = {}
    for name, value in call.items():
        if isinstance(value, Images):
            told |= {name: os.fspath(value.folder), **value.words()}
        elif isinstance(value, str | os.PathLike):
            told[name] = os.fspath(value)
        elif isinstance(value, Network):
            told[name] = name.upper()
        elif name == "domain" and value is not None:
            box = as_domain(value)
            cube = isinstance(box, Box) and box.lo.ndim == 0
            told[name] = f"{float(box.lo)!r},{float(box.hi)!r}" if cube else "DOMAIN.npz"
        elif name == "bounds" and value is not None:
            seconds = getattr(value, "seconds", None)
            told |= {name: type(value).__name__.lower(), "bounds_seconds": seconds}
        elif name == "solver":  # one with its default settings has a word
            told[name] = next((word for word, kind in SOLVERS.items() if value == kind()), None)
        elif name == "activation" and value is not None:
            told[name] = next((word for word, a in ACTIVATIONS.items() if a.same(value)), None)
        else:
            told[name] = value
    return told
