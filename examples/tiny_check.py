"""A second checker, for the plainest certificates, written from docs/certificate-format.md alone.

It needs numpy and onnx and nothing of this project. It confirms `bound`, the claim in real
arithmetic, of a wide reconstruction of a fully connected ReLU network on a box:

    python examples/tiny_check.py OUT        exit code 0 confirmed, 1 refused, 2 unreadable or
                                             missing, 3 out of scope

1. Files are those that were hashed; the certificate is as it was signed.
2. Both networks are cut at the target's ReLUs. Between two cuts they are affine: composed exactly,
   in Python's integers over a power of two, A h + c of the target and A'h' + c' of the candidate,
   with F h' + d in front of each hidden ReLU on the way.
3. On every box of the partition, cut after cut: F h' + d ≥ 0, so hidden ReLUs are the identity;
   the range of z = A h + c; and how far z' can be from z, errors carried with their signs.

Floats are rounded outward: what sums and products may lose is bounded by the sums of their absolute
values times the number of operations, and taken off.
"""

import hashlib
import json
import sys
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

FLOOR = 1e-200  # more than underflow takes while all numbers stay below LARGE
LARGE = 1e60


class Refused(Exception):
    """Why, and the exit code."""


def require(true: bool, why: str, code: int = 1) -> None:
    if not true:
        raise Refused(why, code)


# --- reading: a network is a list of steps, the names of what they add up, and of what they make --
# A step is ("map", W, b), ("scale", s, t), ("relu", name), ("rows", slice) or ("sum",).


def read_network(entry: dict, folder: Path) -> tuple[int, list]:
    path = folder / entry.get("path", entry["file"])
    content = path.read_bytes()
    require(hashlib.sha256(content).hexdigest() == entry["sha256"], f"{path.name}: another file")
    require(not entry.keys() & {"data_sha256", "nnet_header", "casts"}, "no plain file", 3)
    return read_nnet(content) if path.suffix == ".nnet" else read_onnx(content)


def read_nnet(content: bytes) -> tuple[int, list]:
    """Comments; counts; sizes; five lines of header; then rows of weights, biases one a line."""
    lines = [line for line in content.decode().splitlines() if not line.startswith("//")]
    rows = [[float(x) for x in line.split(",") if x.strip()] for line in lines if line.strip()]
    sizes, at, steps = [int(n) for n in rows[1]], 7, []
    for number, (k, m) in enumerate(pairwise(sizes), start=1):
        weight, bias = np.array(rows[at : at + m]), np.array(rows[at + m : at + 2 * m])
        require(weight.shape == (m, k) and bias.shape == (m, 1), "a layer is cut short", 2)
        steps += [("map", weight, bias[:, 0]), ("relu", f"act{number}")]
        at += 2 * m
    require(at == len(rows), "there is more than the sizes say", 2)
    return sizes[0], [(step, [str(i)], str(i + 1)) for i, step in enumerate(steps[:-1])]


def read_onnx(content: bytes) -> tuple[int, list]:
    graph = onnx.load_from_string(content).graph
    require(not any(t.data_location for t in graph.initializer), "data in other files", 3)
    known = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    (inside,) = (i for i in graph.input if i.name not in known)
    shape = [d.dim_value for d in inside.type.tensor_type.shape.dim]
    size, steps = int(np.prod(shape[1:])), []
    row = shape[-1] == size  # one row of numbers, on which constants act unit by unit
    for node in graph.node:
        extra = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Cast" and node.input[0] in known:
            require(extra["to"] == 11, "casts to other types than float64", 3)
            known[node.output[0]] = known[node.input[0]].astype(np.float64)
            continue
        taken = [name for name in node.input if name not in known]
        require(taken == node.input[: len(taken)] and len(node.output) == 1, "a constant first", 3)
        plain = len(taken) == 1 or node.op_type in ("Add", "Sum")
        require(plain and node.domain in ("", "ai.onnx"), f"{node.op_type} of several values", 3)
        rest, step = [known[name] for name in node.input[len(taken) :]], ("sum",)
        if node.op_type in ("Flatten", "Reshape"):
            last = rest[0].tolist()[1:] if rest else [extra.get("axis", 1) * -1]
            require(len(last) == 1 and last[0] in (-1, size), "another shape than one row", 3)
            row = True
        elif len(taken) == 1:
            require(row, "values that are no row of numbers", 3)
            step = one_onnx(node.op_type, rest, extra, node.name or node.output[0])
        steps.append((step, taken, node.output[0]))
    made = [inside.name, *(name for _, _, name in steps)]
    require(len(set(made)) == len(made) and steps[0][1] == made[:1], "a value made twice", 2)
    require([o.name for o in graph.output] == made[-1:], "the output is another value", 3)
    return size, steps


def one_onnx(kind: str, rest: list, extra: dict, name: str) -> tuple:
    """One node; attributes that are not named here are not known."""
    if kind == "BatchNormalization":
        epsilon, _ = extra.pop("epsilon", float(np.float32(1e-5))), extra.pop("momentum", None)
        gamma, beta, mean, var = rest
        ones = all(Fraction(v) + Fraction(epsilon) == 1 for v in set(var.tolist()))
        require(ones and not mean.any(), "norms with other statistics than v + eps = 1, mean 0", 3)
        step = ("scale", gamma, beta)
    elif kind in ("Gemm", "MatMul"):
        weight = rest[0] if extra.pop("transB", 0) else rest[0].T
        step = ("map", weight, vector(rest[1]) if len(rest) > 1 else np.zeros(len(weight)))
    elif kind == "Slice" and len(rest) == 3 and rest[2].tolist() == [1]:
        step = ("rows", slice(*(int(end.item()) for end in rest[:2])))
    elif kind in ("Add", "Sub"):
        shift = vector(rest[0]) * (1 if kind == "Add" else -1)
        step = ("scale", np.ones(len(shift)), shift)
    elif kind == "Relu":
        step = ("relu", name)
    else:
        raise Refused(f"{kind}: not read here", 3)
    require(not extra, f"{kind} with the attributes {sorted(extra)}", 3)
    return step


def vector(values: np.ndarray) -> np.ndarray:
    require(values.size == values.shape[-1], "a constant that is no row of numbers", 3)
    return values.ravel()


# --- exact composition: a matrix of integers over a power of two ----------------------------------


def exact(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Integers N and a whole number k with values = N/2^k."""
    values = np.asarray(values, dtype=np.float64)
    require(bool(np.isfinite(values).all()), "a number that is not finite", 2)
    fraction, exponent = np.frexp(values)
    whole, low = np.ldexp(fraction, 53).astype(np.int64), int(exponent.min(initial=0)) - 53
    return whole.astype(object) << (exponent - 53 - low).astype(object), -low


def added(one: tuple[np.ndarray, int], two: tuple[np.ndarray, int]) -> tuple[np.ndarray, int]:
    require(one[0].shape == two[0].shape, "sizes that do not fit", 2)
    top = max(one[1], two[1])
    return (one[0] << (top - one[1])) + (two[0] << (top - two[1])), top


def shifted(form: tuple[np.ndarray, int], constant: np.ndarray) -> tuple[np.ndarray, int]:
    """The form A h + c with a constant added to c, its last column."""
    whole = np.zeros_like(form[0])
    whole[:, -1], k = exact(constant)
    return added(form, (whole, k))


def compose(size: int, steps: list, cuts: list[str], powers: dict) -> list:
    """Between the cuts: the form in front of each, with those in front of the hidden ReLUs.

    Units of a cut times 2^powers are what the next form is taken of.
    """
    segments, hidden = [], []

    forms = {steps[0][1][0]: exact(np.eye(size, size + 1))}
    for (kind, *rest), taken, name in steps:
        require(set(taken) <= set(forms), "a value that is not there behind the last cut", 3)
        form = reduce(added, (forms[other] for other in taken))
        if kind in ("map", "scale"):
            (factor, k), (whole, other) = exact(rest[0]), form
            require(factor.shape[-1] == len(whole), "sizes that do not fit", 2)
            whole = factor @ whole if kind == "map" else factor[:, None] * whole
            form = shifted((whole, k + other), rest[1])
        elif kind == "rows":
            form = form[0][rest[0]], form[1]
        elif kind == "relu" and rest[0] in cuts:
            count = len(form[0])
            gain = 2.0 ** np.array(powers.get(rest[0], [0] * count))[:, None]
            (factor, k), (whole, other) = exact(gain), form
            segments.append(((whole * factor, k + other), hidden))
            forms, form, hidden = {}, exact(np.eye(count, count + 1) / gain), []
        elif kind == "relu":
            hidden.append(floats(form))
        forms[name] = form
    return [*segments, (form, hidden)]


def floats(form: tuple[np.ndarray, int]) -> np.ndarray:
    """The nearest floats: a quotient of Python's integers is correctly rounded."""
    return np.array((form[0] / (1 << form[1])).tolist(), dtype=np.float64)


# --- one box --------------------------------------------------------------------------------------


class OnBox:
    """Ranges and errors on one box, cut after cut."""

    def __init__(self, lo: np.ndarray, hi: np.ndarray, unit: float) -> None:
        self.unit = unit  # relative: more than one pass through a cut loses
        self.ends, self.cuts = [(lo, hi, np.maximum(np.abs(lo), np.abs(hi)))], []
        self.noises: list[tuple[np.ndarray, np.ndarray]] = []  # what became of them, and sizes
        self.error = self.total = np.zeros(len(lo))

    def lower(self, rows: np.ndarray, enough: np.ndarray | float = np.inf) -> np.ndarray:
        """Lower bounds of a·h + c for rows (a, c), h behind the last cut, carried back by both
        kinds of lines, the ranges behind each cut put in on the way; rows that reach `enough` are
        not followed any further."""
        best = np.full(len(rows), -np.inf)
        for kind in (0, 1):
            some, a, value = np.arange(len(rows)), rows[:, :-1], rows[:, -1]
            lost = np.abs(value) * self.unit
            for level in range(len(self.cuts), -1, -1):
                lo, hi, size = self.ends[level]
                found = value + np.maximum(a, 0) @ lo + np.minimum(a, 0) @ hi
                found -= 2 * (lost + np.abs(a) @ size * self.unit) + FLOOR
                best[some] = np.maximum(best[some], found)
                kept = ~(best >= enough)[some]
                if not level or not kept.any():
                    break
                some, a, value, lost = some[kept], a[kept], value[kept], lost[kept]
                matrix, reach, lines = self.cuts[level - 1]
                slope, upper, intercept = lines[kind]
                lost = lost + np.abs(a) @ (reach + size) * self.unit
                rising, falling = np.maximum(a, 0), np.minimum(a, 0)
                d = rising * slope + falling * upper
                value = value + falling @ intercept + d @ matrix[:, -1]
                a = d @ matrix[:, :-1]
                require(float(np.abs(a).max(initial=0)) < LARGE, "numbers are too large")
        return best

    def segment(self, ours: np.ndarray, gap: np.ndarray, hidden: list):
        """One more cut; the error in front of it."""
        for rows in hidden:
            need = up(np.abs(rows[:, :-1]) @ self.error)
            require(bool((self.lower(rows, need) >= need).all()), "a hidden unit may be inactive")
        lo, hi = self.lower(ours), -self.lower(-ours)
        far = np.maximum(-self.lower(gap), -self.lower(-gap))
        fresh = up(np.maximum(far, 0) + np.abs(gap[:, :-1]) @ self.error)
        matrix, most = ours[:, :-1], np.abs(ours[:, :-1])
        total = most @ self.total  # the same without signs, which roundings scale with
        signed = [(matrix @ became, noise) for became, noise in self.noises]
        arriving = sum((np.abs(became) @ noise for became, noise in signed), self.unit * total)
        before = up(np.minimum(arriving, most @ self.error) + fresh)
        reach = up(most @ self.ends[-1][2] + np.abs(ours[:, -1]))
        require(bool((np.maximum(reach, before + total) < LARGE).all()), "numbers are too large")
        bent = (lo < 0) & (hi > 0)
        flat = (lo >= 0).astype(float)
        upper = np.where(bent, hi / np.where(bent, hi - lo, 1), flat)
        steep = np.where(bent, hi >= -lo * (1 - 2.0**-30), flat).astype(float)
        top = np.where(bent, np.maximum(-upper * lo, (1 - upper) * hi) * (1 + 2.0**-50), 0)
        self.cuts.append((ours, reach, [(steep, upper, top), (flat, upper, top)]))
        self.ends.append((np.maximum(lo, 0), np.maximum(hi, 0), np.maximum(hi, 0)))
        # relu(z') − relu(z) = D (z' − z) + noise, D = 0, ½, 1; beyond the kink by p − |distance|
        chord = np.where(bent, 0.5, flat)
        beyond = np.where(bent, 0.5 * before, np.maximum(before - np.maximum(lo, -hi), 0))
        noise = up(chord * fresh + beyond)
        self.noises = [(chord[:, None] * became, n) for became, n in signed]
        self.noises.append((np.eye(len(lo)), noise))
        self.total, self.error = up(chord * total + noise), up(chord * before + beyond)
        return before


def up(values: np.ndarray) -> np.ndarray:
    """A sum of products of numbers ≥ 0, from above, with room for 2^20 roundings."""
    return values * (1 + 2.0**-32) + FLOOR


def boxes(lo: np.ndarray, hi: np.ndarray, code: str | None):
    """Preorder: 0 is a box, i + 1 halves coordinate i, the lower half first."""
    stack = [(lo, hi)]
    for byte in bytes.fromhex("00" if code is None else code):
        require(bool(stack) and byte <= len(lo), "tree: no partition")
        lo, hi = stack.pop()
        if byte == 0:
            yield lo, hi
            continue
        below, above = hi.copy(), lo.copy()
        below[byte - 1] = above[byte - 1] = 0.5 * lo[byte - 1] + 0.5 * hi[byte - 1]
        stack += [(above, hi), (lo, below)]
    require(not stack, "tree: no partition")


# --- the certificate ------------------------------------------------------------------------------


def check(folder: Path) -> tuple[float, float]:
    """The claimed bound, and the one that follows here; Refused where it is below."""
    path = folder / "certificate.json" if folder.is_dir() else folder
    document = json.loads(path.read_bytes(), object_pairs_hook=unique)
    require(document["schema"] == "reconstruct.certificate/2", "another schema", 2)
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    require(hashlib.sha256(text.encode()).hexdigest() == document["digest"], "digest: changed")
    kind = document["verdict"], document["method"], document["domain"].get("kind", "box")
    require(kind == ("certified", "layered", "box"), f"{kind}: not checked here", 3)
    bound, tolerance = (float.fromhex(document[key]) for key in ("bound", "tolerance"))
    require(0 <= bound <= tolerance, "verdict: the bound is above the tolerance")
    lo, hi = (np.array([float.fromhex(x) for x in document["domain"][e]]) for e in ("lo", "hi"))
    (size, target), (other, candidate) = (
        read_network(document[which], path.parent) for which in ("target", "candidate")
    )
    require(size == other == len(lo) == len(hi) and bool((lo <= hi).all()), "domain: its size")
    pairs = document["alignment"]
    names = [rest[0] for (kind, *rest), _, _ in target if kind == "relu"]
    require([ours for ours, _ in pairs] == names, "the target is cut at all of its ReLUs", 3)
    powers = document["scales"]
    whole = all(type(e) is int for row in powers.values() for e in row)
    require(whole and set(powers) <= set(names), "scales: a whole number for each unit of a cut")
    ours = compose(size, target, names, powers)
    theirs = compose(size, candidate, [name for _, name in pairs], {})
    require(len(theirs) == len(ours) == len(pairs) + 1, "alignment: other activations")
    steps = []
    for (one, _), (two, hidden) in zip(ours, theirs, strict=True):
        steps.append((floats(one), floats(added(two, (-one[0], one[1]))), hidden))
    width = max(size, *(len(rows) for rows, _, _ in steps))
    unit = 8 * (width + 4 * len(steps) + 16) * 2.0**-53 * len(steps)
    worst = 0.0
    for low, high in boxes(lo, hi, document["tree"]):
        box = OnBox(low, high, unit)
        *_, error = (box.segment(*step) for step in steps)
        worst = max(worst, float(error.max()))
    require(worst <= bound, f"bound: {bound:.6g} is claimed, but {worst:.6g} follows")
    return bound, worst


def unique(pairs: list) -> dict:
    require(len(dict(pairs)) == len(pairs), "a name twice in one object", 2)
    return dict(pairs)


def main() -> int:
    try:
        bound, found = check(Path(sys.argv[1]))
    except Refused as refused:
        print("NOT CONFIRMED:", refused.args[0])
        return refused.args[1]
    except (OSError, LookupError, ValueError, TypeError, AttributeError) as error:
        print(f"NOT CONFIRMED: {sys.argv[1:]} is no result that is read here ({error})")
        return 2
    print(f"CONFIRMED: |f - g| <= {bound:.6g} on the domain ({found:.6g} follows)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
