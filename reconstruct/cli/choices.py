"""Strings of the command line become objects here, and nowhere else."""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from reconstruct.bounds import Crown, Interval, Method, Split
from reconstruct.constructions import Construction, Deep, Factored, Wide
from reconstruct.errors import InputError
from reconstruct.khatri_rao import SOLVERS, Solver
from reconstruct.networks import Activation, Clip, Elu, LeakyRelu, Relu, Selu

DEFAULT_RATIO = 1.5
DEFAULT_BLOCK = 8


def construction(options: Namespace) -> Construction:
    """The construction that `--construction`, `--ratio`, `--rank` and `--block` ask for."""
    ratio = DEFAULT_RATIO if options.ratio is None else options.ratio
    kind = options.construction
    if options.rank is not None and kind != "factored":
        raise InputError(
            f"--rank goes with --construction factored, but the construction is {kind}"
        )
    if options.block is not None and kind != "deep":
        raise InputError(f"--block goes with --construction deep, but the construction is {kind}")
    if kind == "factored":
        return Factored(ratio, options.rank)
    if kind == "deep":
        return Deep(block=DEFAULT_BLOCK if options.block is None else options.block, ratio=ratio)
    return Wide(ratio)


def solver(name: str) -> Solver:
    if name not in SOLVERS:
        raise InputError(f"--solver must be one of {', '.join(SOLVERS)}, but is {name}")
    return SOLVERS[name]()


def bounds(name: str) -> Method:
    table: dict[str, Method] = {"interval": Interval(), "crown": Crown(), "split": Split()}
    return table[name]


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
