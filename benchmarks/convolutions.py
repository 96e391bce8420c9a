"""Real convolutional networks: certified, equal under onnxruntime, checked; and is the guard right?

ResNet-20 on structured synthetic images (`benchmarks.images`), and a small CNN over a box around an
image and over its whole input range, each by the command line in a process of its own. Then files
alone: onnxruntime runs the network in float64 and in float32 on the given images, and the guarded
network on images that the run has not seen.

    python -m benchmarks.convolutions FOLDER [-o FILE.json] [--only resnet20] [--work DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import reconstruct as rc
from benchmarks._common import Row, in_fresh_process, tell
from benchmarks.images import images, normalised, write
from reconstruct.formats import load, save

QUESTION = "Does a random frozen CNN become a trained ResNet, and can it be checked?"
SEED, UNSEEN_SEED = 0, 1
RESNET, SMALL = "resnet_bn/resnet20.npz", "oval21/cifar_base_kw.onnx"
RADIUS = 2 / 255
KEPT = (
    *("certified_bound", "float64_bound", "float32_bound"),
    *("float64_max", "float32_max", "target_float32_max"),
)


def command(*words: str) -> Row:
    """`python -m reconstruct …`: its exit code, seconds, seconds of processors, peak memory."""
    start = time.perf_counter()
    words = (sys.executable, "-m", "reconstruct", *words)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
    }


def run_and_check(case: str, network: Path, out: Path, *options: str, check: bool = True) -> Row:
    """One run and one check; a directory that is there already is taken as it is."""
    row: Row = {"case": case, "seed": SEED}
    if not (out / "report.json").is_file():
        row |= command("run", str(network), "-o", str(out), "--quiet", *options)
    report = json.loads((out / "report.json").read_text())
    row |= {"verdict": report["verdict"], **{key: report["error"][key] for key in KEPT}}
    row |= {"seconds": report["cost"]["seconds"], "peak_bytes": report["cost"]["peak_bytes"]} | row
    checked = command("check", str(out)) if check else {}
    return {**row, **_accuracies(report), **{f"check_{k}": v for k, v in checked.items()}}


def _accuracies(report: Row) -> Row:
    """Shares recognised by the target, by the frozen network as drawn, and with its norms."""
    known = (report.get("inputs") or {}).get("accuracy") or {}
    return {f"accuracy_{name}": known[name] for name in ("target", "frozen", "network") if known}


def under_onnxruntime(network: Path, out: Path, data: Path, kind: str) -> Row:
    """network.onnx in that precision against the target in float64, on the given images."""
    x, expected = _given(network, data)
    path = out / "network.onnx"
    if kind == "float32":
        path = data.parent / "single.onnx"
        save(load(out / "network.onnx"), path, dtype=np.float32)
    found = _run(path, x.astype(kind))[0]
    return {
        "case": f"onnxruntime, {kind} file",
        "seed": SEED,
        "inputs": len(x),
        "largest_difference": float(np.abs(found - expected).max()),
        "same_classes": int((found.argmax(1) == expected.argmax(1)).sum()),
        "output_scale": float(np.abs(expected).max()),
    }


def guard_on_unseen(network: Path, out: Path, count: int) -> Row:
    """The guarded network on other images: who is trusted, and who is wrong."""
    target = load(network)
    shape: Any = tuple(int(n) for n in target.metadata["input_shape"][1:])
    x = normalised(images(count, shape, UNSEEN_SEED))
    expected = target(x.reshape(count, -1))
    found, margin = _run(out / "network_guarded.onnx", x)
    error = np.abs(found - expected).max(axis=1)
    trusted = margin.ravel() >= 0
    return {
        "case": "guard on unseen images",
        "seed": UNSEEN_SEED,
        "inputs": count,
        "share_trusted": float(trusted.mean()),
        "largest_error_trusted": float(error[trusted].max(initial=0.0)),
        "largest_error_others": float(error[~trusted].max(initial=0.0)),
        "same_classes": int((found.argmax(1) == expected.argmax(1)).sum()),
        "least_margin": float(margin.min()),
    }


def evaluation(network: Path, count: int) -> Row:
    """Processor time for as many images in float64, by this package and by torch: best of three."""
    import torch

    target = load(network)
    module = rc.to_torch(target).double().eval()
    shape: Any = tuple(int(n) for n in target.metadata["input_shape"][1:])
    x = normalised(images(count, shape, UNSEEN_SEED)).astype(np.float64)
    flat, tensor = x.reshape(count, -1), torch.from_numpy(x)
    with torch.no_grad():
        seconds, other = (_processor(f) for f in (lambda: target(flat), lambda: module(tensor)))
    return {
        "case": "evaluation in float64",
        "seed": UNSEEN_SEED,
        "inputs": count,
        "cpu_seconds": seconds,
        "torch_cpu_seconds": other,
        "ratio": seconds / other,
    }


def _processor(work: Callable[[], object]) -> float:
    """Seconds of all threads together, the least of three times; once before to warm up."""
    work()
    spent = []
    for _ in range(3):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def _given(network: Path, data: Path) -> tuple[Any, Any]:
    x = np.load(data)["x"].astype(np.float64)
    return x, load(network)(x.reshape(len(x), -1))


def _run(path: Path, x: Any) -> list[Any]:
    """The outputs of an ONNX file, image by image: hidden layers are wide."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: image[None]}) for image in x]
    return [np.concatenate(part) for part in zip(*rows, strict=True)]


def compared(folder: Path, work: Path, quick: bool, check: bool) -> Iterator[Row]:
    yield in_fresh_process(evaluation, folder / RESNET, 16 if quick else 64)


def resnet(folder: Path, work: Path, quick: bool, check: bool) -> Iterator[Row]:
    network, data, out = folder / RESNET, work / "images.npz", work / "resnet20"
    if not data.exists():
        write(data, load(network), 4 if quick else 16, SEED)
    count = len(np.load(data)["x"])
    case = f"ResNet-20 on {count} images"
    yield run_and_check(case, network, out, "--domain", str(data), check=check)
    for kind in ("float64", "float32"):
        yield in_fresh_process(under_onnxruntime, network, out, data, kind)
    yield in_fresh_process(guard_on_unseen, network, out, 16 if quick else 64)


def small(folder: Path, work: Path, quick: bool, check: bool) -> Iterator[Row]:
    """Around one image, and over all of them: pixels in [0, 1]."""
    network = folder / SMALL
    image = images(1, (3, 32, 32), SEED)
    centre = work / "image.npz"
    np.savez(centre, lo=np.clip(image - RADIUS, 0, 1)[0], hi=np.clip(image + RADIUS, 0, 1)[0])
    cases = [("cifar_base, ±2/255 around an image", str(centre)), ("cifar_base, [0, 1]", "0,1")]
    for case, domain in cases[: 1 if quick else 2]:
        out = work / f"small-{domain == '0,1'}"
        yield run_and_check(case, network, out, "--domain", domain, check=check)


def measure(folder: Path, only: str | None, work: Path, quick: bool, check: bool) -> Iterator[Row]:
    cases = {"evaluation": compared, "resnet20": resnet, "cifar_base": small}
    for name, rows in cases.items():
        if only in (None, name):
            yield from rows(folder, work, quick, check)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=QUESTION)
    parser.add_argument("folder", type=Path, help="where resnet_bn/ and oval21/ are")
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--only", choices=["evaluation", "resnet20", "cifar_base"])
    parser.add_argument("--work", type=Path, help="keep what is made here, and go on from there")
    parser.add_argument("--unchecked", action="store_true", help="leave out the checks")
    parser.add_argument("--quick", action="store_true", help="fewer images")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as made:
        work = options.work or Path(made)
        work.mkdir(parents=True, exist_ok=True)
        asked = (options.only, work, options.quick, not options.unchecked)
        rows = measure(options.folder, *asked)
        tell("convolutions", rows, options.output)


if __name__ == "__main__":
    main()
