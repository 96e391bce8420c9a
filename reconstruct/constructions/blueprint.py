"""What a frozen sub-graph looks like: the shape that a construction asks for.

Each affine map of the target becomes a *site* of the frozen network: a few layers

    h_i = act(N_i(M_i h_{i-1} + A_i x[block_i])),      out = N_out(M_out h_last)

where `x` is the site's input. `M_i` carries the previous layer on; `A_i` lets a block of the
input in (through a skip connection when it is not the first). The wide construction is the case
of one entering layer and one carrying layer. Drawing and recognising frozen networks both follow
the blueprint, so a network from a file is treated exactly as a drawn one.

Rests on proofs_check: width-is-necessary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconstruct.errors import InputError
from reconstruct.networks import Matrix, Mixing, Placement
from reconstruct.numbers.given import number


@dataclass(frozen=True)
class LayerPlan:
    """One frozen layer: its width, the input block that enters, and whether it carries on.

    A layer whose units do not see all that is before them says how many entries a row has, `cols`,
    and what is `made` of its kernel.
    """

    width: int
    block: tuple[int, int] | None
    carry: bool
    cols: int | None = None
    made: Callable[[Matrix], Mixing] | None = None


@dataclass(frozen=True)
class Blueprint:
    """The layers that one affine map (m × k) becomes; rows and widths are those of all groups.

    `moved` repeats or reorders what the site takes in, ahead of its layers.
    """

    rows: int
    cols: int
    layers: tuple[LayerPlan, ...]
    groups: int = 1
    moved: Placement | None = None

    @property
    def weights(self) -> int:
        """Frozen weights of the site, those that are zero by design left out."""
        total, before = 0, 0
        for layer in self.layers:
            entering = layer.block[1] - layer.block[0] if layer.block else 0
            carried = before // self.groups if layer.carry else 0
            total += layer.width * (layer.cols or entering + carried)
            before = layer.width
        return total

    @property
    def tunable(self) -> int:
        """Gammas and betas of the site."""
        return sum(2 * layer.width for layer in self.layers)


def hidden_width(ratio: float, equations: int) -> int:
    """`⌈ratio · equations⌉`, the hidden width that `--ratio` asks for."""
    check_ratio(ratio)
    return share(ratio, equations)


def share(ratio: float, equations: int) -> int:
    """`⌈ratio · equations⌉`, at least 1, for any ratio."""
    return max(1, _ceil(ratio * equations))


def check_ratio(ratio: float) -> None:
    """A ratio below 1 leaves fewer unknowns than equations: refuse it before any work."""
    if not 1.0 <= number(ratio, "the ratio") < 1e6:
        raise InputError(
            f"the ratio must be at least 1, so that every map has as many hidden neurons as "
            f"equations, but is {ratio:g}; 1.5 is a good choice"
        )


def _ceil(value: float) -> int:
    nearest = round(value)  # 1.1 · 50 is 55.000000000000007: that asks for 55 neurons, not 56
    return nearest if abs(value - nearest) < 1e-9 * max(1.0, value) else int(-(-value // 1))
