"""Float bounds against evaluation in floats: adversarial orders of summation, and onnxruntime.

Both programs are held to it: what is claimed, and what the checker finds in its own way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.attack.pair_networks import draw_box, draw_network
from benchmarks.attack.registry import Outcome, attack
from benchmarks.honesty import evaluate, orders
from proofs_check.certificates import check
from reconstruct.certificates import Certificate, certify, write_certificate
from reconstruct.equivalence.witness import Evaluator
from reconstruct.errors import ReconstructError
from reconstruct.formats import load, save
from reconstruct.networks import Network

Array = NDArray[Any]
KINDS = (np.float64, np.float32)


@attack("float-bounds")
def float_bounds(rng: np.random.Generator) -> Outcome:
    """One network against itself: what is lost is lost by evaluation alone."""
    network, word = draw_network(rng), "no bound"
    box = draw_box(rng, network.size_in)
    with np.errstate(all="ignore"):
        found = certify(network, network, domain=box, time_limit=5.0)
    exact, files, again = Evaluator(network), _kept(network), _checked(network, found)
    for kind in KINDS:
        field = f"{np.dtype(kind).name}_bound"
        bound = getattr(found, field)
        if bound is None:
            continue
        bound = min(bound, again.get(field, bound))
        word = "held"
        for point in np.concatenate([box.corners(4, rng), box.sample(4, rng)]):
            near = np.clip(point.astype(kind), box.lo, box.hi).astype(kind)
            if not box.contains(near.astype(np.float64)):
                continue
            truth = exact(near.astype(np.float64))
            for how, value in _evaluations(network, near, rng):
                gap = _gap(truth, value)
                if gap is None or gap > Fraction(bound):
                    told = f"{np.dtype(kind).name} by {how} at {near.tolist()}: {bound!r}, {gap}"
                    return Outcome("exceeded", told, files)
    return Outcome(word)


def _evaluations(network: Network, x: Array, rng: np.random.Generator) -> list[tuple[str, Array]]:
    """The value in several orders and forms, and as onnxruntime computes it."""
    with np.errstate(all="ignore"):
        found = [
            (f"order {i}, form {form}", evaluate(network, x, order, form))
            for i, order in enumerate(orders(rng))
            for form in (0, 1, 2)
        ]
    other = _runtime(network, x)
    return found if other is None else [*found, ("onnxruntime", other)]


def _runtime(network: Network, x: Array) -> Array | None:
    """What onnxruntime computes, for networks that can be written and run."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            save(network, path, dtype=x.dtype)
            load(path)
            session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except (ReconstructError, RuntimeError, NotImplementedError):
            return None
        except Exception as error:  # onnxruntime's own kinds of errors have no common name
            if type(error).__module__.startswith("onnxruntime"):
                return None
            raise
        (feed,) = session.get_inputs()
        shape = [n if isinstance(n, int) and n > 0 else 1 for n in feed.shape]
        return np.asarray(session.run(None, {feed.name: x.reshape(shape)})[0]).ravel()


def _gap(truth: Any, value: Array) -> Fraction | None:
    """The largest error that is certain; None for what is no number."""
    if not np.all(np.isfinite(value)):
        return None
    pairs = zip(truth, value.tolist(), strict=True)
    gaps = [max(lo - Fraction(v), Fraction(v) - hi) for (lo, hi), v in pairs]
    return Fraction(max(gaps))


def _checked(network: Network, certificate: Certificate) -> Mapping[str, float]:
    """The checker's own figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.npz"
        save(network, path, dtype=None)
        write_certificate(
            Path(folder) / "certificate.json", certificate, target=path, candidate=path
        )
        return check(folder).figures


def _kept(network: Network) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        save(network, Path(folder) / "network.npz", dtype=None)
        return {"network.npz": (Path(folder) / "network.npz").read_bytes()}
