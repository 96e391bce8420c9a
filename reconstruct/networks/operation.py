"""What every node of a network does: three cases, maps, sums and activations.

An operation says here what it computes and how a file keeps it; what it means to an analysis is
said by its own class, beside it. Values of a batch have shape (samples, size).

Where branches meet: sums, and the products of two values that an attention has beside its Softmax.
Neither factor of such a product is a constant, so it is no map: it stands in f as in g. With the
errors δ and ε of the factors, (A + δ)(B + ε) − AB = δB + Aε + δε.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from reconstruct.errors import InputError
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.rounding import down, gamma, midpoint, up

Part: TypeAlias = Callable[[str], Array]  # the array that a file keeps under a key
Restore: TypeAlias = Callable[[Part, Mapping[str, Any]], "Operation"]
Number = TypeVar("Number", Enclosure, Dyadic)

ANY_POSITIONS = 0  # the positions of a value whose units can be read in any shape

KINDS: dict[str, Restore] = {}  # by the word that files use: how to rebuild the operation


@dataclass(frozen=True)
class WorkLimits:
    """How much is worked on at once; only time and memory depend on it.

    A batch is evaluated in chunks of rows whose widest layer has `chunk` values: 4 MiB stay in the
    caches, and larger blocks are mapped and cleared anew by the system for every operation
    (ResNet-20 takes ten times as long with 8). Each chunk reads all weights, so that large
    networks take larger ones: an eighth of their weights, up to `wide` values. (With one row at a
    time BLAS adds products up one after the other: in float32 mnist-net_256x4 then errs by 2.6
    times as much.)
    """

    chunk: int = 2**19
    wide: int = 2**24
    tile: int = 2**22  # entries of a weight that are cast to another precision: 32 MiB
    patches: int = 2**20  # numbers of patches: 8 MiB
    image: int = 2**30  # pixels with pads, or entries of all patches: more fits nowhere


LIMITS = WorkLimits()


class Operation(ABC):
    """One node's function; `kind` is the word by which files know it."""

    kind: ClassVar[str]
    windowed: ClassVar[bool] = False  # whether its units look at places of an image
    keys: ClassVar[Mapping[str, str]] = {}  # what files call those of its fields that are arrays

    @abstractmethod
    def size(self, *inputs: int) -> int:
        """The size of the value on inputs of these sizes; raises InputError if they misfit."""

    @abstractmethod
    def __call__(self, *values: Array) -> Array:
        """The value on a batch, in the precision of the batch."""

    def arrays(self) -> dict[str, Array]:
        """The numbers that files keep as arrays, by their key; all of them must be finite."""
        return {key: getattr(self, name) for name, key in self.keys.items()}

    def settings(self) -> dict[str, Any]:
        """The few plain numbers that files keep beside the arrays: the other fields."""
        plain = [part.name for part in fields(self) if part.name not in self.keys]  # type: ignore[arg-type]
        found = {name: getattr(self, name) for name in plain}
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in found.items()}

    @classmethod
    def restored(cls, part: Part, settings: Mapping[str, Any]) -> Operation:
        """The operation again, of what a file keeps."""
        made: Any = cls
        return made(**{name: part(key) for name, key in cls.keys.items()}, **settings)  # type: ignore[no-any-return]

    def same(self, other: Operation) -> bool:
        """Whether the other operation is the same function, by what files would keep of it."""
        if self is other:
            return True
        ours, theirs = self.arrays(), other.arrays()
        return (
            self.kind == other.kind
            and self.settings() == other.settings()
            and ours.keys() == theirs.keys()
            and all(np.array_equal(ours[key], theirs[key]) for key in ours)
        )

    def positions_for(self, *counts: int) -> int | None:
        """At how many positions its channels stand if those of its inputs stand at `counts`.

        None where it is not the same map at every position of what it takes.
        """
        return counts[0] or 1

    def on_blocks(self, width: int) -> tuple[tuple[int, int, Operation], ...]:
        """Operations on the blocks `start:stop` of the input that add up to this one.

        Empty where it is not such a sum, or where cutting it would gain nothing.
        """
        return ()

    @property
    def weights(self) -> int:
        """Entries of its weight, zeros included."""
        return 0

    @property
    def nonzeros(self) -> int:
        """Entries of its weight that are not zero."""
        return 0

    @property
    def tunable(self) -> int:
        """Gammas and betas."""
        return 0

    @property
    def parameters(self) -> int:
        """Weights, biases, gammas and betas."""
        return self.weights + self.tunable


def register(*kinds: type[Operation]) -> None:
    """Let files hold operations of these kinds."""
    KINDS.update({op.kind: op.restored for op in kinds})


def check_finite(op: Operation) -> None:
    """Refuse arrays with entries that are not numbers."""
    for what, values in op.arrays().items():
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            raise InputError(
                f"its {what} must be finite numbers, but {bad} of {np.size(values)} entries are "
                "NaN or infinite"
            )


def one(inputs: tuple[int, ...], what: str, needed: int | None = None) -> int:
    """The single input size of an operation that takes one value, of so many numbers."""
    if len(inputs) != 1:
        raise InputError(f"{what} needs one input, but got {len(inputs)}")
    if needed not in (None, inputs[0]):
        raise InputError(f"{what} with {needed} inputs was given {inputs[0]} values")
    return inputs[0]


def set_once(op: Any, **values: Any) -> None:
    """The fields of an object that is frozen from then on."""
    for name, value in values.items():
        object.__setattr__(op, name, value)


def counted(value: Any, what: str) -> int:
    """A whole number of 1 or more; refused in a sentence that begins with `what`."""
    if isinstance(value, bool) or value != int(value) or value < 1:
        raise InputError(f"{what} of 1 or more, but got {value!r}")
    return int(value)


# --- sums -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Add(Operation):
    """The sum of two or more values of one size: a skip connection, or two branches that meet."""

    kind = "Add"

    def size(self, *inputs: int) -> int:
        if len(inputs) < 2 or len(set(inputs)) != 1:
            raise InputError(f"Add needs two or more values of one size, but got sizes {inputs}")
        return inputs[0]

    def __call__(self, *values: Array) -> Array:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def positions_for(self, *counts: int) -> int | None:
        known = {count for count in counts if count != ANY_POSITIONS}
        return max(known, default=1) if len(known) <= 1 else None

    def image(self, *inputs: Range) -> Range:
        """Sums of lower and of upper bounds; a sum of two floats never underflows."""
        lo, hi = inputs[0]
        for other_lo, other_hi in inputs[1:]:
            with np.errstate(all="ignore"):
                lo = np.where((lo == 0) | (other_lo == 0), lo + other_lo, down(lo + other_lo))
                hi = np.where((hi == 0) | (other_hi == 0), hi + other_hi, up(hi + other_hi))
            lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
        return lo, hi


# --- products -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixProduct(Operation):
    """`A B` for each of `stack` pairs of matrices, rows × inner and inner × columns."""

    kind = "MatrixProduct"

    stack: int
    rows: int
    inner: int
    columns: int

    def __post_init__(self) -> None:
        counts = tuple(asdict(self).values())
        if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in counts):
            raise InputError(f"a product of matrices needs sizes of 1 or more, but got {counts}")

    @property
    def _shapes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return (self.stack, self.rows, self.inner), (self.stack, self.inner, self.columns)

    def size(self, *inputs: int) -> int:
        needed = tuple(int(np.prod(shape)) for shape in self._shapes)
        if inputs != needed:
            raise InputError(f"a product of values of sizes {needed} was given {inputs}")
        return self.stack * self.rows * self.columns

    def positions_for(self, *counts: int) -> int | None:
        return 1 if all(count in (ANY_POSITIONS, 1) for count in counts) else None

    def __call__(self, *values: Array) -> Array:
        left, right = self._split(*values)
        return np.asarray((left @ right).reshape(*values[0].shape[:-1], -1))

    def _split(self, a: Array, b: Array) -> tuple[Array, Array]:
        first, second = self._shapes
        return a.reshape(*a.shape[:-1], *first), b.reshape(*b.shape[:-1], *second)

    def pull(self, rows: Array, a: Array, b: Array) -> list[Array]:
        """The transposed derivative by each factor, times rows."""
        left, right = self._split(a, b)
        given = rows.reshape(*rows.shape[:-1], self.stack, self.rows, self.columns)
        made = given @ right.swapaxes(-1, -2), left.swapaxes(-1, -2) @ given
        return [part.reshape(value.shape) for part, value in zip(made, (a, b), strict=True)]

    def image(self, first: Range, second: Range) -> Range:
        """Bounds of the products of what lies in both ranges."""
        with np.errstate(all="ignore"):
            (a, r), (b, s) = midpoint(*first), midpoint(*second)
            size, centre = self(np.abs(a) + r, np.abs(b) + s), self(a, b)
            radius = self(r, np.abs(b)) + self(np.abs(a) + r, s) + gamma(self.inner + 4) * size
            lo, hi = down(centre - upward(radius)), up(centre + upward(radius))
        return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)

    def summed(self, a: Number, b: Number) -> Number:
        """The same of numbers in any arithmetic, one summand after the other."""
        parts = iter(self._places())
        left, right = next(parts)
        total = a[left] * b[right]
        for left, right in parts:
            total = total + a[left] * b[right]
        return total

    def _places(self) -> Iterator[tuple[Array, Array]]:
        """Where the factors of each summand stand, for all entries of the product at once."""
        left, right = (np.arange(int(np.prod(shape))).reshape(shape) for shape in self._shapes)
        goal = (self.stack, self.rows, self.columns)
        for k in range(self.inner):
            yield (
                np.broadcast_to(left[:, :, k, None], goal).ravel(),
                np.broadcast_to(right[:, k, None, :], goal).ravel(),
            )


register(Add, MatrixProduct)
