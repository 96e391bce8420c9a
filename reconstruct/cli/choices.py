"""Strings of the command line become objects here, and nowhere else."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields, replace
from typing import Any

import numpy as np

from reconstruct.bounds import Crown, Interval, Method, Split
from reconstruct.constructions import CONSTRUCTIONS, Construction
from reconstruct.errors import InputError
from reconstruct.khatri_rao import SOLVERS, Solver
from reconstruct.networks import Activation, Clip, Elu, LeakyRelu, Network, Relu, Selu
from reconstruct.runs.defaults import adaptive, comparing_bounds, default_bounds

SETTINGS = ("rank", "block", "layers")  # options that are settings of some constructions only


def construction(options: Namespace) -> Construction:
    """The construction that `--construction` and the options of its settings ask for."""
    kind = CONSTRUCTIONS[options.construction]
    for name in SETTINGS:
        if getattr(options, name, None) is not None and name not in _settings(kind):
            homes = [word for word, other in CONSTRUCTIONS.items() if name in _settings(other)]
            raise InputError(
                f"--{name} goes with --construction {' or '.join(homes)}, but the construction is "
                f"{options.construction}"
            )
    return _made(kind, options)


def constructions(options: Namespace) -> list[Construction]:
    """All of them, with the settings that the options give."""
    return [_made(kind, options) for kind in CONSTRUCTIONS.values()]


def _made(kind: type[Any], options: Namespace) -> Construction:
    """A construction knows its own defaults: only what was given is passed on."""
    given = {name: getattr(options, name, None) for name in _settings(kind)}
    made: Construction = kind(**{name: value for name, value in given.items() if value is not None})
    return made


def _settings(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind)]


def solver(name: str) -> Solver:
    if name not in SOLVERS:
        raise InputError(f"--solver must be one of {', '.join(SOLVERS)}, but is {name}")
    return SOLVERS[name]()


def bounds(options: Namespace, network: Network) -> Method:
    """The method that `--bounds` and `--bounds-seconds` ask for; `network` is the wide one."""
    name, seconds = options.bounds, options.bounds_seconds
    made = hasattr(options, "dtype")  # by this command; else it is compared
    chosen = default_bounds(network, options.dtype) if made else comparing_bounds(network)
    if name == "adaptive":
        return adaptive(network, seconds)
    if name is None:
        return chosen if seconds is None else replace(chosen, seconds=seconds)
    if seconds is not None:
        raise InputError(f"--bounds-seconds goes with --bounds adaptive, but the bounds are {name}")
    table: dict[str, Method] = {"interval": Interval(), "crown": Crown(), "split": Split()}
    return table[name]


def time_limit(options: Namespace) -> float | None:
    limit: float | None = options.time_limit
    if limit is not None and not limit > 0:
        raise InputError(f"--time-limit must be a number of seconds > 0, not {limit}")
    return limit


def activation(name: str | None) -> Activation:
    table: dict[str, Activation] = {
        "relu": Relu(),
        "leakyrelu": LeakyRelu(float(np.float32(0.01))),
        "elu": Elu(),
        "selu": Selu(),
        "relu6": Clip(0.0, 6.0),
        "hardtanh": Clip(-1.0, 1.0),
    }
    return table[name or "relu"]
