"""`rc.pairs`: pairs with known answers, laid out as the verifiers' competition has it."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.certificates.certify import certify
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.certificates.verdicts import Verdict
from reconstruct.equivalence.branch_and_bound import difference_network
from reconstruct.equivalence.export import difference_property, pair_property
from reconstruct.equivalence.planted import KINDS, Planted, plant
from reconstruct.equivalence.search import search
from reconstruct.errors import ReconstructError
from reconstruct.formats import load, save
from reconstruct.networks import Box
from reconstruct.numbers.given import at_least, whole
from reconstruct.progress import Progress, Step, silent
from reconstruct.reports.folder import OutputFolder
from reconstruct.runs.given import PathLike

LADDER = ((2, 3, 1), (2, 4, 2), (3, 6, 6, 2), (4, 8, 8, 3), (5, 16, 16, 5))
SECONDS = 5.0  # for the proof of a pair
TIMEOUT = 100  # of an instance, as the competition has it
SAMPLES = 64  # inputs among which the largest float32 difference is told
SCRIPT = '''"""Writes these pairs again with another seed: python generate_properties.py SEED"""

import sys

from reconstruct import pairs

SIZES = {sizes}
pairs(f"seed-{{sys.argv[1]}}", sizes=SIZES, count={count}, seed=int(sys.argv[1]))
'''


@dataclass(frozen=True)
class PairAnswer:
    """A line of answers.csv: what is known of a pair. `difference` is sup |f − g|, a rational
    number, reached at `witness` alone; `float32_difference` was found at `float32_input`, where
    both networks are evaluated in float32. `certificate` is empty where the answer is known by
    construction and was not proved besides."""

    pair: str
    kind: str
    sizes: str
    tolerance: str
    answer: str
    difference: str
    witness: str
    float32_difference: str
    float32_input: str
    certificate: str


def pairs(
    output: PathLike,
    *,
    sizes: tuple[tuple[int, ...], ...] = LADDER,
    count: int = 30,
    seed: int = 0,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[PairAnswer, ...]:
    """`reconstruct pairs`: `count` pairs of all kinds and sizes in turn, with their answers."""
    at_least(whole(count, "the number of pairs"), "the number of pairs", 1)
    at_least(whole(seed, "the seed"), "the seed", 0)
    rng, answers = np.random.default_rng(seed), []
    with OutputFolder(output, force=force) as folder:
        for number in range(count):
            kind = list(KINDS)[number % len(KINDS)]
            size = sizes[number // len(KINDS) % len(sizes)]
            progress(Step("pairs", number, count))
            pair, name = plant(kind, size, rng), f"pair_{number:03d}"
            answers.append(_write(folder.staging, name, "-".join(map(str, size)), pair))
        pairs_of, differences = [], []
        for name in (answer.pair for answer in answers):
            both = [(role, f"onnx/{name}_{role}.onnx") for role in ("target", "candidate")]
            pairs_of.append((str(both), f"vnnlib/{name}.vnnlib", TIMEOUT))
            parts = f"onnx/{name}_difference.onnx", f"vnnlib/{name}_difference.vnnlib"
            differences.append((*parts, TIMEOUT))
        told = [asdict(answer) for answer in answers]
        rows: dict[str, list[tuple[Any, ...]]] = {
            "instances.csv": pairs_of,
            "instances_difference.csv": differences,
            "answers.csv": [tuple(told[0]), *(tuple(row.values()) for row in told)],
        }
        for name, lines in rows.items():
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(lines)
            (folder.staging / name).write_text(text.getvalue(), encoding="utf-8")
        script = SCRIPT.format(sizes=sizes, count=count)
        (folder.staging / "generate_properties.py").write_text(script, encoding="utf-8")
        folder.publish()
    return tuple(answers)


def _write(place: Path, name: str, sizes: str, pair: Planted) -> PairAnswer:
    """The networks, both forms of the question, and a certificate where there is one."""
    for part in ("onnx", "vnnlib", f"certificates/{name}"):
        (place / part).mkdir(parents=True, exist_ok=True)
    networks = {"target": pair.target, "candidate": pair.candidate}
    files = [place / "onnx" / f"{name}_{role}.onnx" for role in (*networks, "difference")]
    whole = (*networks.values(), difference_network(*networks.values()))
    for path, network in zip(files, whole, strict=True):
        save(network, path, dtype=np.float32)
    question = (pair.box, pair.target.size_out, pair.tolerance)
    for make, suffix in ((pair_property, ""), (difference_property, "_difference")):
        path = place / "vnnlib" / f"{name}{suffix}.vnnlib"
        path.write_text(make(*question), encoding="utf-8")
    points = pair.box.sample(SAMPLES, np.random.default_rng(0)).astype(np.float32).astype(float)
    ours, theirs = (one(points, dtype=np.float32).astype(np.float64) for one in networks.values())
    gaps = np.abs(ours - theirs).max(axis=1)
    worst = int(gaps.argmax())
    home = place / "certificates" / name
    return PairAnswer(
        pair=name,
        kind=pair.kind,
        sizes=sizes,
        tolerance=repr(pair.tolerance),
        answer=pair.answer,
        difference=str(pair.difference),
        witness=_numbers(pair.corner or ()),
        float32_difference=repr(float(gaps[worst])),
        float32_input=_numbers(points[worst].tolist()),
        certificate=f"certificates/{name}" if _proved(pair, files[:2], home) else "",
    )


def _numbers(values: tuple[float, ...] | list[float]) -> str:
    return " ".join(map(repr, values))


def _proved(pair: Planted, files: list[Path], home: Path) -> bool:
    """Whether the answer was proved besides, from the files: then with a certificate."""
    target, candidate = map(load, files)
    look = None
    if pair.answer == "sat" and pair.corner is not None:  # where it is, it is looked for first
        corner = Box(pair.corner, pair.corner)
        look = partial(search, target, candidate, corner, samples=1, restarts=0)
    box, size = pair.box, pair.tolerance
    found = certify(target, candidate, domain=box, tolerance=size, search=look, time_limit=SECONDS)
    if found.verdict is Verdict.UNDECIDED:
        return False
    if (found.verdict is Verdict.REFUTED) != (pair.answer == "sat"):
        raise ReconstructError(
            f"a pair was made to be {pair.answer}, but the proof says {found.verdict.value}; "
            f"please report this"
        )
    sources = [Source(net, path) for net, path in zip((target, candidate), files, strict=True)]
    write_certificate(
        home / "certificate.json", found, target=sources[0], candidate=sources[1], home=home
    )
    return True
