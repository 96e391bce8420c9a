"""Softmax and products of two values: what they are, how errors pass them, and a small vision
transformer from its file to an accepted certificate."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.bounds import reach
from reconstruct.bounds.at_points import enclosures
from reconstruct.cli import main
from reconstruct.equivalence.witness import Evaluator
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Affine, MatrixProduct, Network, Node, Placement, Softmax
from reconstruct.networks.graph import gradient
from reconstruct.numbers.double_double import Enclosure, exponential
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.precision import Precision

from ..formats.models import onnx_bytes, run

SOFTMAX = Softmax(5, 3)
PRODUCT = MatrixProduct(2, 3, 4, 2)


def plain(z: np.ndarray) -> np.ndarray:
    """The definition, in extended precision."""
    rows = z.astype(np.longdouble).reshape(*z.shape[:-1], 3, 5)
    e = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).reshape(z.shape)


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    left = a.astype(np.longdouble).reshape(*a.shape[:-1], 2, 3, 4)
    right = b.astype(np.longdouble).reshape(*b.shape[:-1], 2, 4, 2)
    return np.einsum("...sik,...skj->...sij", left, right).reshape(*a.shape[:-1], -1)


def attending() -> Network:
    """Two tokens of 3 features: queries, keys, values, and what attention makes of them."""
    rng = np.random.default_rng(4)
    turn = np.arange(6).reshape(2, 3).T.ravel()
    nodes = [Node(n, Affine(rng.normal(size=(6, 4)), rng.normal(size=6)), ("x",)) for n in "qkv"]
    nodes += [
        Node("kt", Placement(turn, 6), ("k",)),
        Node("scores", MatrixProduct(1, 2, 3, 2), ("q", "kt")),
        Node("weights", Softmax(2, 2), ("scores",)),
        Node("mixed", MatrixProduct(1, 2, 2, 3), ("weights", "v")),
        Node("y", Affine(rng.normal(size=(2, 6))), ("mixed",)),
    ]
    return Network(4, tuple(nodes), "y", "x")


def test_the_values_are_the_definitions() -> None:
    rng = np.random.default_rng(0)
    z, a, b = rng.normal(size=(20, 15)) * 9, rng.normal(size=(20, 24)), rng.normal(size=(20, 16))
    assert np.abs(SOFTMAX(z) - plain(z)).max() < 1e-15
    assert np.abs(SOFTMAX(z + 1e4) - plain(z + 1e4)).max() < 1e-15  # nothing overflows
    assert np.abs(PRODUCT(a, b) - products(a, b)).max() < 1e-14


@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-2, 1.0, 30.0])
def test_ranges_hold_what_is_inside(width: float) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(40, 15)) * 3
    a, b = rng.normal(size=(40, 24)), rng.normal(size=(40, 16))
    low, high = SOFTMAX.image(z - width, z + width)
    under, over = PRODUCT.image((a - width, a + width), (b - width, b + width))
    for _ in range(60):
        shifts = [width * rng.choice([-1, 0, 1, rng.uniform(-1, 1)], v.shape) for v in (z, a, b)]
        p, ab = plain(z + shifts[0]), products(a + shifts[1], b + shifts[2])
        assert np.all((p >= low) & (p <= high)) and np.all((ab >= under) & (ab <= over))
    if width == 0:
        assert (high - low).max() < 1e-12 and (over - under).max() < 1e-13
    assert SOFTMAX.image(np.full((1, 15), -np.inf), np.full((1, 15), np.inf))[1].max() == 1.0


@pytest.mark.parametrize("size", [1e-12, 1e-5, 1e-2, 0.5, 4.0])
def test_errors_pass_softmax(size: float) -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(30, 15))
    for _ in range(60):
        delta = size * rng.normal(size=z.shape)
        change = plain(z.astype(np.longdouble) + delta) - plain(z)
        assert np.all(np.abs(change) <= SOFTMAX.carried(np.abs(delta)) + 1e-18)


def test_exponentials_are_enclosed() -> None:
    z = np.concatenate([-np.geomspace(1e-9, 690, 400), [0.0, -694.5, -900.0]])
    found = exponential(Enclosure.exact(z))
    lo, hi = found.ends()
    exact = np.exp(z.astype(np.longdouble))
    assert np.all((lo <= exact) & (exact <= hi))
    assert np.all(found.radius <= 2.0**-85 * found.high + 1e-290)


def test_enclosures_at_inputs_are_narrow_and_right() -> None:
    network, x = attending(), np.random.default_rng(5).normal(size=(6, 4))
    evaluate = Evaluator(network)
    for row in x:
        lo, hi = enclosures(network, row)["y"].ends()
        for (least, most), low, high in zip(evaluate(row), lo, hi, strict=True):
            assert low <= least <= most <= high and high - low < 1e-14
            assert most - least < 1e-30


def test_exact_arithmetic_encloses_softmax() -> None:
    z = np.random.default_rng(6).normal(size=15)
    pairs = SOFTMAX.exact(Dyadic.exact(z), 128).fractions()
    for (low, high), value in zip(pairs, plain(z), strict=True):
        assert low <= high and high - low < 2.0**-100 and abs(float(low) - float(value)) < 1e-16
    assert all(sum(low for low, _ in pairs[i : i + 5]) <= 1 for i in (0, 5, 10))


def test_gradients_are_differences() -> None:
    network, rng = attending(), np.random.default_rng(7)
    x, seeds, step = rng.normal(size=(1, 4)), rng.normal(size=(1, 2)), 1e-6
    there = [((network(x + step * e) - network(x - step * e)) * seeds).sum() for e in np.eye(4)]
    found = gradient(network, network.values(x), "y", seeds)
    assert np.abs(found[0] - np.array(there) / (2 * step)).max() < 1e-8


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_covers_an_evaluation(dtype: Any) -> None:
    z = (np.random.default_rng(8).normal(size=(50, 15)) * 6).astype(dtype)
    allowed = SOFTMAX.rounding(np.abs(z.astype(float)), Precision(dtype))
    assert np.all(np.abs(SOFTMAX(z) - plain(z)) <= allowed)


@pytest.mark.parametrize("suffix", ["onnx", "npz"])
def test_files_keep_them(tmp_path: Path, suffix: str) -> None:
    network = attending()
    rc.save(network, tmp_path / f"a.{suffix}")
    read = rc.load(tmp_path / f"a.{suffix}")
    x = np.random.default_rng(13).normal(size=(5, 4))
    assert np.abs(read(x) - network(x)).max() < 1e-14
    for name in ("scores", "weights", "mixed"):
        assert read.node(name).op.same(network.node(name).op)


def test_torch_has_the_same_values() -> None:
    torch = pytest.importorskip("torch")
    network, x = attending(), np.random.default_rng(9).normal(size=(5, 4))
    given = rc.to_torch(network)(torch.from_numpy(x)).detach().numpy()
    assert np.abs(given - network(x)).max() < 1e-14


def test_a_torch_transformer_is_read() -> None:
    """Class token, positions, attention by torch's own operator and by steps, mean over tokens."""
    torch = pytest.importorskip("torch")
    from torch import nn
    from torch.nn import functional

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(2, 6, 3, 3)
            self.cls = nn.Parameter(torch.randn(1, 1, 6))
            self.place = nn.Parameter(torch.randn(1, 5, 6))
            self.q, self.k, self.v, self.o = (nn.Linear(6, 6) for _ in range(4))
            self.out = nn.Linear(6, 3)

        def forward(self, x):  # type: ignore[no-untyped-def]
            h = self.patch(x).flatten(2).transpose(1, 2)
            h = torch.cat([self.cls.expand(len(x), -1, -1), h], 1) + self.place
            q, k, v = (
                part(h).unflatten(2, (2, 3)).transpose(1, 2) for part in (self.q, self.k, self.v)
            )
            h = h + self.o(
                functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            )
            weights = torch.softmax(self.q(h) @ self.k(h).transpose(1, 2) / 2, dim=-1)
            h = h + torch.relu(torch.bmm(weights, self.v(h)))
            return self.out(h.mean(1) + h[:, 0])

    torch.manual_seed(0)
    module, x = Transformer().double().eval(), torch.randn(4, 2, 6, 6, dtype=torch.float64)
    network = rc.from_torch(module, x[:1])
    assert sum(n.op.kind == "MatrixProduct" for n in network.nodes) == 4
    assert np.abs(network(x.numpy()) - module(x).detach().numpy()).max() < 1e-13
    result = rc.reconstruct(network, rc.draw(network), domain=rc.Points(x.numpy()))
    certificate = rc.certify(network, result.network, domain=result.domain)
    assert certificate.verdict.value == "certified" and certificate.bound < 1e-12


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"of sizes \(24, 16\) was given \(24, 15\)"):
        PRODUCT.size(24, 15)
    with pytest.raises(InputError, match="3 rows with 15 inputs was given 16"):
        SOFTMAX.size(16)
    with pytest.raises(InputError, match="1 or more"):
        Softmax(0)


# --- a vision transformer -------------------------------------------------------------------------

TOKENS, WIDTH, HEADS = 5, 6, 2  # a class token and four patches


def transformer(batch: Any = 1) -> bytes:
    """Patches, class token, positions; one block of attention and one of maps; the tokens' mean."""
    rng = np.random.default_rng(10)
    each = WIDTH // HEADS
    numbers: dict[str, Any] = {
        "patch": rng.normal(size=(WIDTH, 2, 3, 3)) / 4,
        "patch.b": rng.normal(size=WIDTH),
        "cls": rng.normal(size=(1, 1, WIDTH)),
        "place": rng.normal(size=(TOKENS, WIDTH)),
        "rows": np.array([1, WIDTH, 4]),
        "heads": np.array([1, TOKENS, HEADS, each]),
        "joined": np.array([1, TOKENS, WIDTH]),
        "quarter": np.array(0.5),
        "W1": rng.normal(size=(WIDTH, 8)) / 2,
        "b1": rng.normal(size=8),
        "W2": rng.normal(size=(8, WIDTH)) / 2,
        "out": rng.normal(size=(3, WIDTH)),
        "out.b": rng.normal(size=3),
    }
    numbers |= {f"W{n}": rng.normal(size=(WIDTH, WIDTH)) / 2 for n in "qkvo"}
    numbers |= {f"b{n}": rng.normal(size=WIDTH) for n in "qkvo"}
    numbers |= {n: rng.uniform(0.5, 1.5, WIDTH) for n in ("g", "be", "mu", "var")}
    nodes: list[Any] = [
        ("Conv", ["x", "patch", "patch.b"], "p", {"strides": [3, 3]}),
        ("Reshape", ["p", "rows"], "p.r"),
        ("Transpose", ["p.r"], "p.t", {"perm": [0, 2, 1]}),
        ("Concat", ["cls", "p.t"], "c", {"axis": 1}),
        ("Add", ["c", "place"], "h"),
        ("Transpose", ["h"], "h.t", {"perm": [0, 2, 1]}),
        ("BatchNormalization", ["h.t", "g", "be", "mu", "var"], "n"),
        ("Transpose", ["n"], "n.t", {"perm": [0, 2, 1]}),
    ]
    for n, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            ("MatMul", ["n.t", f"W{n}"], f"{n}.m"),
            ("Add", [f"b{n}", f"{n}.m"], f"{n}.a"),
            ("Reshape", [f"{n}.a", "heads"], f"{n}.h"),
            ("Transpose", [f"{n}.h"], n, {"perm": perm}),
        ]
    nodes += [
        ("MatMul", ["q", "k"], "s.m"),
        ("Mul", ["s.m", "quarter"], "s"),
        ("Softmax", ["s"], "w", {"axis": 3}),
        ("MatMul", ["w", "v"], "m"),
        ("Transpose", ["m"], "m.t", {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["m.t", "joined"], "m.j"),
        ("MatMul", ["m.j", "Wo"], "o.m"),
        ("Add", ["bo", "o.m"], "o"),
        ("Add", ["o", "h"], "h2"),
        ("MatMul", ["h2", "W1"], "f.m"),
        ("Add", ["b1", "f.m"], "f"),
        ("Relu", ["f"], "r"),
        ("MatMul", ["r", "W2"], "f2"),
        ("Add", ["f2", "h2"], "h3"),
        ("ReduceMean", ["h3"], "mean", {"axes": [1], "keepdims": 0}),
        ("Gemm", ["mean", "out", "out.b"], "y", {"transB": 1}),
    ]
    return onnx_bytes(nodes, [batch, 2, 6, 6], numbers, opset=12, dtype=np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transformer rebuilt and certified at 6 inputs."""
    pytest.importorskip("onnxruntime")
    place = tmp_path_factory.mktemp("vit")
    (place / "vit.onnx").write_bytes(transformer())
    x = np.random.default_rng(11).normal(size=(6, 2, 6, 6))
    np.savez(place / "x.npz", x=x)
    words = [str(place / "vit.onnx"), "-o", str(place / "out"), "--domain", str(place / "x.npz")]
    assert main(["run", *words, "--quiet"]) == 0
    return place


def test_every_map_is_rebuilt_and_attention_stands(made: Path) -> None:
    target, candidate = rc.load(made / "vit.onnx"), rc.load(made / "out" / "network.onnx")
    kinds = [node.op.kind for node in target.nodes]
    assert kinds.count("Convolution") == 7 and kinds.count("MatrixProduct") == 2
    assert "Affine" not in kinds[:-1]  # no map of tokens was unrolled
    biases = [n.op.offsets for n in target.nodes if n.op.kind == "Convolution"]
    assert sum(bool(np.any(b)) for b in biases) == 6  # all that the file has, W2 has none
    fixed = [n.op for n in candidate.nodes if n.op.kind in ("MatrixProduct", "Softmax")]
    assert [op.kind for op in fixed] == ["MatrixProduct", "Softmax", "MatrixProduct"]
    assert len(json.loads((made / "out" / "report.json").read_text())["layers"]) == 8


def test_the_file_is_read_as_onnxruntime_runs_it(made: Path) -> None:
    x = np.random.default_rng(12).normal(size=(4, 2, 6, 6)).astype(np.float32)
    expected = np.concatenate([run(transformer(), row[None]) for row in x])
    for path in (made / "vit.onnx", made / "out" / "network.onnx"):
        assert np.abs(rc.load(path)(x) - expected).max() < 1e-5 * np.abs(expected).max()


def test_a_bias_behind_a_transpose_leaves_others_alone(tmp_path: Path) -> None:
    """The convolution's value has another use, which the bias must not reach."""
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(14)
    numbers = {"K": rng.normal(size=(3, 2, 1, 1)), "b": rng.normal(size=3)}
    numbers |= {"s": np.array([1, 3, 4]), "t": np.array([1, 12]), "W": rng.normal(size=(12, 2))}
    nodes: list[Any] = [
        ("Conv", ["x", "K"], "c"),
        ("Reshape", ["c", "s"], "r"),
        ("Transpose", ["r"], "c/tokens", {"perm": [0, 2, 1]}),
        ("Add", ["c/tokens", "b"], "a"),
        ("Reshape", ["a", "t"], "u"),
        ("Relu", ["c"], "v"),
        ("Reshape", ["v", "t"], "w"),
        ("Add", ["u", "w"], "h"),
        ("MatMul", ["h", "W"], "y"),
    ]
    content = onnx_bytes(nodes, [1, 2, 2, 2], numbers, dtype=np.float32)
    (tmp_path / "a.onnx").write_bytes(content)
    x = rng.normal(size=(1, 2, 2, 2)).astype(np.float32)
    assert np.abs(rc.load(tmp_path / "a.onnx")(x) - run(content, x)).max() < 1e-5


def test_it_is_certified_and_the_checker_accepts(made: Path, capsys: Any) -> None:
    report = json.loads((made / "out" / "report.json").read_text())
    assert report["verdict"] == "certified" and report["rigor"] == "rigorous"
    assert report["error"]["certified_bound"] < 1e-11
    assert main(["check", str(made / "out")]) == 0
    assert "ACCEPTED" in capsys.readouterr().out


def test_the_bound_holds_in_exact_arithmetic(made: Path) -> None:
    report = json.loads((made / "out" / "report.json").read_text())
    pair = [rc.load(made / name) for name in ("vit.onnx", "out/network.onnx")]
    evaluators = [Evaluator(network) for network in pair]
    row = np.load(made / "x.npz")["x"][0].ravel()
    ours, theirs = (evaluate(row) for evaluate in evaluators)
    apart = max(max(d - a, b - c) for (a, b), (c, d) in zip(ours, theirs, strict=True))
    assert apart <= report["error"]["certified_bound"]


def test_a_candidate_that_was_changed_is_rejected(made: Path, tmp_path: Path, capsys: Any) -> None:
    """A norm ahead of the attention is moved by 1e-3, and the certificate made to name the file."""
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    candidate = rc.load(out / "network.onnx")
    moved = next(n for n in candidate.nodes if n.op.kind == "Norm")
    op = moved.op.tuned(moved.op.gamma * (1 + 1e-3), moved.op.beta)
    rc.save(candidate.with_ops({moved.name: op}), out / "network.onnx")
    digest = hashlib.sha256((out / "network.onnx").read_bytes()).hexdigest()
    claims = json.loads((out / "certificate.json").read_text())
    claims["candidate"]["sha256"] = digest
    claims.pop("digest")
    (out / "certificate.json").write_text(json.dumps(claims))
    assert main(["check", str(out)]) == 1
    assert "bound" in capsys.readouterr().out


def test_two_transformers_that_differ_are_refuted(made: Path, tmp_path: Path, capsys: Any) -> None:
    """By a witness that the checker evaluates again, attention included."""
    target = rc.load(made / "vit.onnx")
    last = target.nodes[-1]
    other = target.with_ops({last.name: Affine(last.op.weight, last.op.bias + 1e-3)})
    rc.save(other, tmp_path / "other.onnx")
    words = [str(made / "vit.onnx"), str(tmp_path / "other.onnx"), "--domain", str(made / "x.npz")]
    assert main(["verify", *words, "-o", str(tmp_path / "v"), "--quiet"]) == 1
    assert main(["check", str(tmp_path / "v")]) == 0
    assert "ACCEPTED" in capsys.readouterr().out


def test_boxes_are_refused_in_one_sentence(made: Path, tmp_path: Path, capsys: Any) -> None:
    words = [str(made / "vit.onnx"), "-o", str(tmp_path / "out"), "--domain", "-1,1"]
    assert main(["run", *words, "--quiet"]) == 2
    assert "bounded at given inputs alone" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(UnsupportedError, match="without a radius"):
        reach(attending(), rc.Points(np.zeros((1, 4)), radius=0.1))
