"""Real networks: is each reconstructed, certified and accepted by the checker, and how close is it?

Runs the command line on every network of a folder laid out by family (acasxu/, hcas/, …) and then
compares files alone, with onnxruntime: `network.onnx` against the target's own ONNX, its weights
cast to float64, at 10,000 samples and at corners of the domain (large networks: 200 of each).

    python -m benchmarks.targets FOLDER [-o FILE.json] [--only acasxu] [--options "--ratio 1.5"]

Large networks run only by name; `--add` keeps the rows of FILE.json that are not measured anew,
`--work DIR` keeps what is made there, and goes on from it:

    python -m benchmarks.targets FOLDER --only tll mnist_fc --add -o benchmarks/results/targets.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import Row, tell
from benchmarks.convolutions import command as timed
from reconstruct.formats import load, load_domain, save
from reconstruct.networks import Box, Points

DOMAINS = {
    "acasxu": "-0.5,0.5",
    "hcas": "-0.5,0.5",
    "safenlp": "-1,1",
    "acc": "-1,1",
    "sat_relu": "0,1",
    "tll": "-2,2",
    "cersyve": "-1,1",
    "mnist_fc": "0,1",
    "relusplitter": "0,1",
}
LARGE = ("tll", "mnist_fc", "relusplitter")  # minutes each: only by name
SAMPLES = 10_000
FEW = 200  # of large networks
CORNERS = 4_096
OPTIONS = "--ratio 1.5 --seed 0"


def networks(folder: Path, only: list[str]) -> Iterator[tuple[str, Path]]:
    """The networks of the families that have a domain, smallest file first."""
    found = [
        (family, path)
        for family in only or DOMAINS.keys() - set(LARGE)
        for path in (folder / family).glob("*")
        if path.suffix in (".onnx", ".nnet")
    ]
    yield from sorted(found, key=lambda pair: (pair[1].stat().st_size, pair[1].name))


def measure_one(family: str, path: Path, options: str, work: Path | None = None) -> Row:
    """One run and one check by the command line, one comparison by onnxruntime.

    A run that `work` holds already is taken as it is, its time from its own report.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = (work or Path(folder)) / path.stem
        words = [str(path), "-o", str(out), "--domain", DOMAINS[family], *shlex.split(options)]
        made = (out / "report.json").is_file()
        run: Row = {"exit": 0} if made else timed("run", *words, "--quiet")
        row: Row = {"family": family, "network": path.name, "options": options} | run
        if not (out / "report.json").is_file():
            return row
        report = json.loads((out / "report.json").read_text())
        row = report["cost"] | row
        check = timed("check", str(out))
        count = FEW if family in LARGE else SAMPLES
        x = points(load_domain(DOMAINS[family], load(path).size_in), count)
        difference, scale = compare(path, out / "network.onnx", Path(folder), x)
        return {
            **row,
            "verdict": report["verdict"],
            **{f"check_{key}": value for key, value in check.items()},
            "difference": difference,
            "output_scale": scale,
            "certified_bound": report["error"]["certified_bound"],
            "float64_max": report["error"]["float64_max"],
            "float32_max": report["error"]["float32_max"],
            "target_float32_max": report["error"]["target_float32_max"],
        }


def command(*words: str) -> tuple[int, float]:
    """The exit code of a command, and its seconds."""
    found = timed(*words)
    return found["exit"], found["seconds"]


def compare(target: Path, network: Path, folder: Path, x: Any) -> tuple[float, float]:
    """The largest difference of two files by onnxruntime, and the largest |target|."""
    reference = folder / "target64.onnx"
    if target.suffix == ".nnet":
        save(load(target), reference)
    else:
        _cast_to_double(target, reference)
    rows = max(1, 2**25 // max(load(network).sizes.values()))
    worst = scale = 0.0
    ours, theirs = _session(network), _session(reference)
    for i in range(0, len(x), rows):
        expected = _evaluate(theirs, x[i : i + rows])
        worst = max(worst, float(np.abs(_evaluate(ours, x[i : i + rows]) - expected).max()))
        scale = max(scale, float(np.abs(expected).max()))
    return worst, scale


def points(box: Box | Points, count: int) -> Any:
    assert isinstance(box, Box)
    rng = np.random.default_rng(0)
    return np.concatenate([box.sample(count, rng), box.corners(min(CORNERS, count), rng)])


def _cast_to_double(source: Path, goal: Path) -> None:
    """The same model with every float32 tensor, input and output as float64."""
    import onnx
    from onnx import TensorProto, numpy_helper

    model = onnx.load(source)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
                array = numpy_helper.to_array(attribute.t).astype(np.float64)
                attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    onnx.save(model, goal)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _evaluate(session: Any, batch: Any) -> Any:
    """Row by row where the model fixes its batch to one, all at once otherwise."""
    initial = {i.name for i in session.get_overridable_initializers()}
    source = next(i for i in session.get_inputs() if i.name not in initial)
    shape = [d if isinstance(d, int) else -1 for d in source.shape]
    if shape and shape[0] == 1:
        rows = [session.run(None, {source.name: row.reshape(shape)})[0].ravel() for row in batch]
        return np.array(rows)
    return session.run(None, {source.name: batch.reshape(len(batch), *shape[1:])})[0]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(DOMAINS), default=[])
    parser.add_argument("--add", action="store_true", help="keep other rows of the file")
    parser.add_argument("--work", type=Path, help="keep what is made here, and go on from there")
    parser.add_argument("--options", default=OPTIONS, help="options of `reconstruct run`")
    options = parser.parse_args(argv)
    chosen = networks(options.folder, options.only)
    rows = (measure_one(family, path, options.options, options.work) for family, path in chosen)
    tell("targets", rows, options.output, earlier(options.output) if options.add else [])


def earlier(output: Path | None) -> list[Row]:
    """The rows that a file holds already."""
    found: list[Row] = json.loads(output.read_text()) if output and output.is_file() else []
    return found


if __name__ == "__main__":
    main()
