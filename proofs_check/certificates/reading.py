"""The certificate as the checker reads it: what it claims, every number exact, nothing believed.

A document is JSON; floats are hexadecimal text exactly as Python writes it, so that none is
rounded while reading, rationals are "p/q" in hexadecimal. Whatever is not built so is rejected by
the name of the field. A reader makes something typed of a value; an object is read field by field
(`Fields`), and what nobody asked for is rejected, too: no claim stands in a certificate unread.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

import numpy as np

from proofs_check.certificates.rationals import Interval
from proofs_check.certificates.report import CheckFailed, Missing, NotCheckable, Unreadable
from proofs_check.reader import NotPlain, read_plain
from reconstruct.errors import InputError
from reconstruct.networks import Box, Cast, Network

SCHEMA = "reconstruct.certificate/2"
REACH = "reconstruct.reach/1"
OLD = "reconstruct.certificate/1"
SHARED = "read by the shared reader"  # in the metadata of a network
NODES = 2**18  # a tree of more nodes than this is refused
POWERS = 1000  # a power of two beyond this is refused
DIGITS = 2**16  # a rational of longer text than this is refused: its gcd takes a third of a second

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Item = TypeVar("Item")
Reader = Callable[[Json, str], Item]  # of a value, and of the name of its field


# --- values ---------------------------------------------------------------------------------------


def many(reader: Reader[Item]) -> Reader[tuple[Item, ...]]:
    return lambda value, field: tuple(reader(entry, field) for entry in as_list(value, field))


def row(what: str, *readers: Reader[Any]) -> Reader[tuple[Any, ...]]:
    """A list of so many values, each read in its own way."""

    def one(value: Json, field: str) -> tuple[Any, ...]:
        entries = as_list(value, field)
        if len(entries) != len(readers):
            raise CheckFailed(field, f"{what} are needed")
        return tuple(read(entry, field) for read, entry in zip(readers, entries, strict=True))

    return one


def by_name(reader: Reader[Item]) -> Reader[dict[str, Item]]:
    """An object of any names: what the reader makes of each value."""
    return lambda value, field: {
        name: reader(entry, f"{field}.{name}") for name, entry in as_object(value, field).items()
    }


def maybe(reader: Reader[Item]) -> Reader[Item | None]:
    """None where the certificate has null."""
    return lambda value, field: None if value is None else reader(value, field)


def word(*known: str) -> Reader[str]:
    def one(value: Json, field: str) -> str:
        if text(value, field) not in known:
            raise CheckFailed(field, f"one of {', '.join(known)} is needed")
        return text(value, field)

    return one


def of_kind(kind: type[Item], needed: str) -> Reader[Item]:
    """Values that JSON has itself; a flag is no whole number."""

    def one(value: Json, field: str) -> Item:
        if type(value) is not kind:
            raise _unlike(value, field, needed)
        return value

    return one


text = of_kind(str, "text is")
flag = of_kind(bool, "true or false is")
whole = of_kind(int, "a whole number is")
as_list: Reader[list[Json]] = of_kind(list, "a list is")
as_object: Reader[dict[str, Json]] = of_kind(dict, "an object is")


def number(value: Json, field: str) -> float:
    """A hex float exactly as Python writes it: nothing is rounded while reading."""
    digits = text(value, field)
    try:
        found = float.fromhex(digits)
        if not isfinite(found) or found.hex() != digits:
            raise ValueError
    except (ValueError, OverflowError):
        raise _unlike(value, field, "a finite hex float of 53 bits is") from None
    return found


def nonnegative(value: Json, field: str) -> float:
    found = number(value, field)
    if found < 0:
        raise CheckFailed(field, f"a number ≥ 0 is needed, not {found}")
    return found


def rational(value: Json, field: str) -> Fraction:
    """A rational "p/q", both in hexadecimal (decimal text is limited to 4,300 digits)."""
    digits = text(value, field)
    try:
        if len(digits) > DIGITS:
            raise ValueError
        above, below = digits.split("/")
        return Fraction(int(above, 16), int(below, 16))
    except (ValueError, ZeroDivisionError):
        raise _unlike(value, field, "a rational p/q is") from None


def _unlike(value: Json, field: str, needed: str) -> CheckFailed:
    return CheckFailed(field, f"{needed} needed, not {_shown(value)}")


def _shown(value: Json) -> str:
    """A value in a sentence: short, and of plain characters."""
    said = ascii(value)
    return said if len(said) <= 60 else said[:57] + "..."


# --- objects --------------------------------------------------------------------------------------


def built(kind: Callable[..., Item], notes: str = "") -> Reader[Item]:
    """A reader of objects with the fields of a class: each `Annotated` by its reader, and by what
    counts where it is absent. Nothing else may stand there but `notes`, which are for people."""

    def whole_object(value: Json, path: str) -> Item:
        found, made = as_object(value, path), dict[str, object]()
        at = f"{path}." if path else ""
        for name, hint in get_type_hints(kind, include_extras=True).items():
            _, reader, *default = get_args(hint)
            made[name] = reader(found.get(name, *default), at + name)
        for name in found.keys() - made.keys() - set(notes.split()):
            raise CheckFailed(at + name, "this field is not known to the checker; leave it out")
        return kind(**made)

    return whole_object


class _Ends(NamedTuple):
    """Lower and upper ends: of one box, or, of the kind "boxes" and "points", a row for each."""

    kind: Annotated[str, text, "box"]
    lo: Annotated[Json, lambda value, field: value]
    hi: Annotated[Json, lambda value, field: value]


def as_domain(value: Json, field: str = "domain") -> tuple[Box, ...]:
    """The boxes of a domain, all of one size."""
    ends = built(_Ends)(value, field)
    if ends.kind not in ("box", "boxes", "points"):
        raise NotCheckable(f"a domain of the kind {_shown(ends.kind)} is not known to this checker")
    one = ends.kind == "box"
    sides = (([ends.lo] if one else ends.lo), "lo"), (([ends.hi] if one else ends.hi), "hi")
    lows, highs = (many(many(number))(rows, f"{field}.{name}") for rows, name in sides)
    if not lows or len(lows) != len(highs):
        raise CheckFailed(field, f"{len(lows)} lower and {len(highs)} upper ends are no boxes")
    boxes = tuple(_box(lo, hi) for lo, hi in zip(lows, highs, strict=True))
    if len({box.size for box in boxes}) != 1:
        raise CheckFailed(field, "its boxes do not have the same number of inputs")
    if ends.kind == "points" and any((box.lo != box.hi).any() for box in boxes):
        raise CheckFailed(field, "points have no width")
    return boxes


def _box(lower: tuple[float, ...], upper: tuple[float, ...]) -> Box:
    if not lower or len(lower) != len(upper):
        ends = f"{len(lower)} and {len(upper)}"
        raise CheckFailed("domain", f"two ends per input are needed, not {ends}")
    try:
        return Box(np.array(lower), np.array(upper))
    except InputError as error:
        raise CheckFailed("domain", str(error)) from None


def _interval(value: Json, field: str) -> Interval:
    low, high = row("two rationals per output", rational, rational)(value, field)
    if low > high:
        raise CheckFailed(field, "the smaller rational has to be the first")
    return low, high


def _unit_pair(value: Json, field: str) -> PairClaim:
    what = "node, unit, node, unit and a hex float"
    return PairClaim(*row(what, text, whole, text, whole, number)(value, field))


def _power(value: Json, field: str) -> int:
    found = whole(value, field)
    if abs(found) > POWERS:
        raise CheckFailed(field, f"whole numbers from {-POWERS} to {POWERS} are needed")
    return found


def _tree(value: Json, field: str) -> bytes:
    """Bytes as two hexadecimal digits each, and nothing between them, one per node of the tree."""
    digits = text(value, field)
    if len(digits) > 2 * NODES:
        raise CheckFailed(field, f"at most {NODES} nodes are checked, but it has more")
    try:
        if digits and not (digits.isascii() and digits.isalnum()):
            raise ValueError
        return bytes.fromhex(digits)
    except ValueError:
        raise _unlike(value, field, "bytes in hexadecimal are") from None


# --- what is claimed ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """What is claimed, or was derived, of one affine piece."""

    target_node: Annotated[str, text]
    candidate_node: Annotated[str, text]
    residual_bound: Annotated[float, nonnegative]
    constant_bound: Annotated[float, nonnegative]
    error_in: Annotated[float, nonnegative]
    error_out: Annotated[float, nonnegative]


def _segments(value: Json, name: str) -> tuple[Segment, ...]:
    """Each by its number."""
    read_segment = built(Segment, "maps rows columns inner margin")
    rows = enumerate(as_list(value, name))
    return tuple(read_segment(row, f"{name}[{i}]") for i, row in rows)


@dataclass(frozen=True)
class Witness:
    """A point, the values that are claimed there, and their difference."""

    point: Annotated[tuple[float, ...], many(number)]
    target: Annotated[tuple[Interval, ...], many(_interval)]
    candidate: Annotated[tuple[Interval, ...], many(_interval)]
    difference: Annotated[Fraction, rational]
    strictly_inside: Annotated[bool, flag]


@dataclass(frozen=True)
class PairClaim:
    """Unit `unit` of an activation may be written through unit `index` of `partner`, an earlier
    one: their inputs are nearly multiples of each other by `factor`."""

    node: str
    unit: int
    partner: str
    index: int
    factor: float


class RationalNorm(NamedTuple):
    """Gammas and betas in place of those in the file."""

    gamma: Annotated[tuple[Fraction, ...], many(rational)]
    beta: Annotated[tuple[Fraction, ...], many(rational)]


@dataclass(frozen=True)
class FilePart:
    """How a document names a network: its file, the hashes that pin it, where it may lie."""

    file: Annotated[str, text]
    path: Annotated[str | None, maybe(text)]
    sha256: Annotated[str, text]
    data_sha256: Annotated[Mapping[str, str], by_name(text), {}]
    nnet_header: Annotated[bool, flag, False]
    casts: Annotated[Mapping[str, str], by_name(text), {}]


as_file = built(FilePart, "unchecked_reading")


@dataclass(frozen=True, eq=False)
class Claims:
    """A certificate, read and typed; nothing in it is believed yet."""

    verdict: Annotated[str, word("certified", "refuted", "undecided")]
    rigor: Annotated[str, word("exact", "rigorous", "numerical")]
    method: Annotated[str, word("layered", "pointwise", "general", "witness", "none")]
    target: Annotated[FilePart, as_file]
    candidate: Annotated[FilePart, as_file]
    domain: Annotated[tuple[Box, ...], as_domain]  # the boxes that it is made of
    tolerance: Annotated[float | None, maybe(nonnegative)]
    bound: Annotated[float | None, maybe(nonnegative)]
    float64_bound: Annotated[float | None, maybe(nonnegative)]
    float32_bound: Annotated[float | None, maybe(nonnegative)]
    alignment: Annotated[tuple[tuple[str, str], ...], many(row("pairs of names", text, text))]
    tree: Annotated[bytes | None, maybe(_tree)]
    pairs: Annotated[tuple[PairClaim, ...], many(_unit_pair), []]
    scales: Annotated[Mapping[str, tuple[int, ...]], by_name(many(_power))]
    segments: Annotated[tuple[Segment, ...], _segments]
    exact_identity: Annotated[bool, flag, False]
    exact_norms: Annotated[Mapping[str, RationalNorm] | None, maybe(by_name(built(RationalNorm)))]
    witness: Annotated[Witness | None, maybe(built(Witness))]

    def check_segment(self, index: int, derived: Segment) -> None:
        """The claims of one segment have to cover what was derived."""
        if index >= len(self.segments):
            raise CheckFailed("segments", f"there is no segment {index}")
        row, path = self.segments[index], f"segments[{index}]."
        names = derived.target_node, derived.candidate_node
        if (row.target_node, row.candidate_node) != names:
            raise CheckFailed(path + "target_node", f"the cut here is at {names}")
        for field in ("residual_bound", "constant_bound", "error_in", "error_out"):
            covers(path + field, getattr(row, field), getattr(derived, field))


def covers(field: str, claimed: float | None, derived: float) -> None:
    """The claimed upper bound has to be at least what was derived."""
    if claimed is None or not claimed >= derived:
        raise CheckFailed(field, f"{claimed} is claimed, but only {derived} follows")


# --- documents ------------------------------------------------------------------------------------


def parse(content: bytes) -> dict[str, Json]:
    """The JSON object of a certificate, each name once."""
    try:
        document: Json = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Unreadable("certificate", f"this is not JSON; give a run's OUT ({error})") from None
    if isinstance(document, dict) and document.get("schema") == OLD:
        raise Unreadable(
            "schema",
            f"this is {OLD!r}, which does not say all steps of its proof; run `reconstruct run` "
            f"again for {SCHEMA!r}",
        )
    if not isinstance(document, dict) or document.get("schema") not in (SCHEMA, REACH):
        raise Unreadable("schema", f"a certificate of schema {SCHEMA!r} is needed")
    return document


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An object whose names occur once: another reader might take the other value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice in one object")
    return found


def digest(document: Mapping[str, Json]) -> str:
    """SHA-256 of the document without its digest, as sorted compact JSON."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(document: Mapping[str, Json]) -> Claims:
    """Every field, by its name and type."""
    notes = "schema digest output_scale tried seconds lines places"
    claims = built(Claims, notes)(dict(document), "")
    if claims.tree is not None and len(claims.domain) != 1 and claims.method != "general":
        raise CheckFailed("tree", f"one box can be cut, but the domain has {len(claims.domain)}")
    return claims


# --- files ----------------------------------------------------------------------------------------
#
# A file that is not there is *missing*; one that is there with other bytes, or whose weights lie in
# data files with other bytes, is not the one that was certified.


def read_certificate(path: Path) -> tuple[bytes, Path]:
    """The bytes of a certificate, given as a file or as the folder that holds it."""
    try:
        place = path / "certificate.json" if path.is_dir() else path
        if place.exists() and not place.is_file():
            raise Unreadable("certificate", f"{place} is no file")
        return place.read_bytes(), place.parent
    except FileNotFoundError:
        below = sorted(place.parent.glob("*/*/certificate.json")) if path.is_dir() else []
        each = (
            f", but {len(below)} folders below do: check {below[0].parent} and so on"
            if below
            else ""
        )
        raise Missing("certificate", f"{path} holds no certificate.json{each}") from None
    except (OSError, ValueError) as error:
        raise Unreadable("certificate", f"{path} cannot be read ({error})") from None


def read_network(part: FilePart, field: str, given: Path | None, folder: Path) -> Network:
    """The network that the document names, its bytes being those that were certified."""
    places = [given] if given is not None else _places(part, folder)
    found = [place for place in places if _is_file(place)]
    if not found:
        raise Missing(f"{field}.file", f"{part.file} was not found; say where it is (--{field})")
    failure = CheckFailed(f"{field}.file", "")
    for place in found:
        try:
            _require_data(place.parent, part, field)
            network = _read(place, part)
        except Missing as missing:
            failure = missing
            continue
        except InputError as error:
            failure = CheckFailed(f"{field}.file", f"{place.name} cannot be read ({error})")
            continue
        differs = _differs(network, part)
        if differs is None:
            return network
        failure = CheckFailed(f"{field}.{differs[0]}", f"{place.name}: {differs[1]}")
    raise failure


def _read(place: Path, part: FilePart) -> Network:
    """By the checker's own reader; by the one that the certifier has where that one does not do."""
    try:
        return read_plain(place)
    except (NotPlain, OSError):
        from reconstruct.formats import load

    network = load(place, nnet_header=part.nnet_header)
    told = {**network.metadata, SHARED: True}
    return Network(network.size_in, network.nodes, network.output, network.source, told)


def _require_data(folder: Path, part: FilePart, field: str) -> None:
    """The data files that the document names lie beside the network."""
    for name in part.data_sha256:
        if not _is_file(folder / name):
            raise Missing(f"{field}.data_sha256", f"{name}, which holds weights, was not found")


def _places(part: FilePart, folder: Path) -> list[Path]:
    """Beside the certificate first, then where the document says."""
    names = [folder / Path(part.file).name]
    return names if part.path is None else [*names, folder / part.path]


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _differs(network: Network, part: FilePart) -> tuple[str, str] | None:
    """The hash that is not the certified one, if any: of the file, or of its data; or casts that
    are not named, which are the identity in real arithmetic alone."""
    told = network.metadata
    if told.get("sha256") != part.sha256:
        return "sha256", "this is not the file that was certified"
    data = told.get("data_sha256") or {}
    if not isinstance(data, Mapping) or dict(data) != dict(part.data_sha256):
        return "data_sha256", "its weights lie in data files that are not those certified"
    casts = {node.name: node.op.to for node in network.nodes if isinstance(node.op, Cast)}
    if casts != dict(part.casts):
        return "casts", "the casts of the network are not those that the certificate names"
    return None
