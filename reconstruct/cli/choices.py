"""Strings of the command line become objects here, and nowhere else."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from typing import Any

from reconstruct.bounds import Adaptive, Crown, Interval, Method
from reconstruct.constructions import CONSTRUCTIONS, Construction
from reconstruct.errors import InputError
from reconstruct.formats.limits import memory_size
from reconstruct.khatri_rao import SOLVERS, Solver
from reconstruct.networks import Activation
from reconstruct.runs.given import ACTIVATIONS

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
    if getattr(options, "frozen", None) is not None and options.ratio is not None:
        raise InputError(
            "--ratio says how to draw a frozen network, but --frozen brings one; give one of them"
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


def bounds(options: Namespace) -> Method | None:
    """The method that `--bounds` and `--bounds-seconds` ask for; None where neither does."""
    name, seconds = options.bounds, options.bounds_seconds
    if name == "adaptive" or (name is None and seconds is not None):
        return Adaptive(seconds)
    if seconds is not None:
        raise InputError(f"--bounds-seconds goes with --bounds adaptive, but the bounds are {name}")
    table: dict[str | None, Method] = {"interval": Interval(), "crown": Crown()}
    return table.get(name)


def time_limit(options: Namespace) -> float | None:
    limit: float | None = options.time_limit
    if limit is not None and not limit > 0:
        raise InputError(f"--time-limit must be a number of seconds > 0, not {limit}")
    return limit


def memory(options: Namespace) -> int | None:
    """The bytes that `--memory` names."""
    return None if options.memory is None else memory_size(options.memory)


def activation(name: str | None) -> Activation | None:
    return None if name is None else ACTIVATIONS[name]
