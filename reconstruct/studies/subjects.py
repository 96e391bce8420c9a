"""What a study can be about: a network with data, the shipped digits or files of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reconstruct.demo import digits
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.formats.domain import load_labels
from reconstruct.networks import Network, Points
from reconstruct.numbers.arrays import Array

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

    @classmethod
    def named(cls, target: str, data: str) -> Subject:
        """The shipped digits, or the network and the .npz with x (and y) of these names."""
        if (target == DIGITS) != (data == DIGITS):
            raise InputError(
                f"target and data belong together: give both as files, or neither, but target is "
                f"{target!r} and data is {data!r}"
            )
        if target == DIGITS:
            shipped = digits()
            return cls._split(shipped.target, shipped.images, shipped.labels)
        network = load(target)
        points = load_domain(data, network.size_in)
        if not isinstance(points, Points) or len(points) < LEAST:
            raise InputError(
                f"{data}: an .npz with an array x of at least {LEAST} inputs is needed, but this "
                f"has {len(points) if isinstance(points, Points) else 'the ends of a box'}"
            )
        order = np.random.default_rng(SEED).permutation(len(points))
        labels = load_labels(Path(data))
        found = network(points.x).argmax(axis=1) if labels is None else labels
        return cls._split(network, points.x[order], found[order])

    @classmethod
    def _split(cls, target: Network, x: Array, y: NDArray[np.int64]) -> Subject:
        half = len(x) // 2
        return cls(target, x[:half], y[:half], x[half:], y[half:])
