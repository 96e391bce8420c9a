"""The figures of README.md and docs/*.md, made from the rows in benchmarks/results.

A page marks the place, `python -m benchmarks.tables` fills it, and a test compares:

    <!-- figures: refusal -->  …  <!-- end of figures -->
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import training_tables
from reconstruct.reports.words import at_least, at_most

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE_NAMES = (
    "certificates",
    "deep",
    "image-networks",
    "live-statistics",
    "performance",
    "scale",
    "training",
)
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in PAGE_NAMES),
)
MARKED = re.compile(
    r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", flags=re.MULTILINE | re.DOTALL
)
Row = dict[str, Any]


def filled(text: str) -> str:
    """The page with each marked place made anew."""
    return MARKED.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def rows(stem: str) -> list[Row]:
    """The rows of one file of results."""
    loaded: list[Row] = json.loads((RESULTS / f"{stem}.json").read_text(encoding="utf-8"))
    return loaded


class Words(string.Formatter):
    """Templates such as `{seconds:time}`: `time`, `memory`, `found` and `bound` beside Python's."""

    def format_field(self, value: Any, spec: str) -> str:
        if spec == "time":
            # A space that does not break: on a phone a unit would stand below its number.
            return f"{value:.2g}\u00a0s" if value < 99 else f"{value / 60:.0f}\u00a0min"
        if spec == "memory":
            size, unit = next(
                (s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if value >= s
            )
            return f"{value / size:.3g}\u00a0{unit}"
        if spec == "found":
            return f"{value:.2g}"
        return at_most(value) if spec == "bound" else format(value, spec)


def table(found: Iterable[Row], columns: Mapping[str, str]) -> str:
    """A table in Markdown: for each column its head and the template of its cells."""
    cells = ([Words().vformat(cell, (), row) for cell in columns.values()] for row in found)
    return "\n".join(
        f"| {' | '.join(row)} |" for row in ([*columns], ["---"] * len(columns), *cells)
    )


def span(values: Iterable[float], spec: str = "found") -> str:
    """The least and the largest of some values."""
    found = sorted(values)
    return Words().format(f"{{0:{spec}}} to {{1:{spec}}}", found[0], found[-1])


def total(found: Iterable[Row], key: str) -> int:
    """The sum of one column."""
    return sum(row[key] for row in found)


def on_digits(found: list[Row]) -> list[Row]:
    """Of the whole runs those of the network whose answers are right or wrong."""
    return [row for row in found if row.get("accuracy") is not None]


def digits() -> str:
    """The runs on the digits network, one line each."""
    columns = {
        "frozen network": "{construction}, ratio {ratio}",
        "frozen weights": "{weights:,}",
        "γ and β": "{tunable:,}",
        "largest difference found, float64": "{float64_max:.1e}",
        "certified bound": "{certified_bound:bound}",
        "largest difference found, float32": "{float32_max:.1e}",
        "digits read": "{accuracy:.1%}",
    }
    return table(on_digits(rows("runs")), columns)


def run_times() -> str:
    """Time, memory and error of whole runs."""
    found = rows("runs")
    columns = {
        "network": "{network}",
        "frozen network": "{construction}, ratio {ratio}",
        "time": "{whole_seconds:time}",
        "memory": "{peak_bytes:memory}",
        "largest difference found": "{float64_max:found}",
        "certified bound": "{certified_bound:bound}",
    }
    times, largest = (
        (row["whole_seconds"] for row in found),
        max(r["certified_bound"] for r in found),
    )
    return (
        f"A run takes {span(times, 'time')}, and no certified bound exceeds {at_most(largest)}.\n\n"
        f"{table(found, columns)}"
    )


def targets() -> str:
    """Networks of other projects, the largest figures of each family."""
    found = rows("targets")
    good = sum(row["verdict"] == "certified" and row["check_exit"] == 0 for row in found)
    families = []
    for family in dict.fromkeys(row["family"] for row in found):
        group = [row for row in found if row["family"] == family]
        keys = ("certified_bound", "float64_max", "float32_max", "seconds", "check_seconds")
        largest = {key: max(row[key] for row in group) for key in keys}
        families.append({"family": family, "networks": len(group)} | largest)
    columns = {
        "family": "{family}",
        "networks": "{networks}",
        "certified bound": "{certified_bound:bound}",
        "found, float64": "{float64_max:found}",
        "found, float32": "{float32_max:found}",
        "run": "{seconds:time}",
        "check": "{check_seconds:time}",
    }
    return (
        f"Yes: {good} of {len(found)} networks from other projects were certified, and then "
        f"accepted by `check`.\n\n{table(families, columns)}"
    )


def convolutions() -> str:
    """Convolutional networks of other projects."""
    found = {row["case"]: row for row in rows("convolutions")}
    runs = [row for row in found.values() if row.get("certified_bound")]
    columns = {
        "network and domain": "{case}",
        "time": "{seconds:time}",
        "memory": "{peak_bytes:memory}",
        "certified bound": "{certified_bound:bound}",
        "found, float64": "{float64_max:found}",
        "found, float32": "{float32_max:found}",
    }
    guard = (
        "The guard of ResNet-20 trusted {share_trusted:.0%} of {inputs} unseen\nimages; the "
        "largest difference on them was {largest_error_trusted:found}, and "
        "{largest_error_others:found} on the others."
    )
    speed = (
        "Evaluating {inputs} images in float64 takes {ratio:.2f} times the processor time of torch."
    )
    return (
        f"Yes, but a run takes {span((row['seconds'] for row in runs), 'time')}. "
        f"{Words().vformat(guard, (), found['guard on unseen images'])}\n\n{table(runs, columns)}"
        f"\n\n{Words().vformat(speed, (), found['evaluation in float64'])}"
    )


# Measures that `benchmarks.float32` still takes, in the words of the page.
FLOAT32 = {
    "crown": "an ordinary run",
    "crown, blocks, shifts taken out": "with sums in blocks, without their shifts",
    "adaptive, small slack, balance, feedback, blocks, shifts taken out, headroom": (
        "`--dtype float32`"
    ),
}


def float32() -> str:
    """The float32 error of f beside that of g, for the networks with a row for each measure."""
    found = {(r["family"], r["measures"]): r for r in rows("float32") if r["ratio"] == 1.5}
    names = sorted(n for n, m in found if m == "crown" and all((n, w) in found for w in FLOAT32))
    lines = [{n: found[n, m]["error"] for n in names} | {"m": w} for m, w in FLOAT32.items()]
    lines += [{n: found[n, "crown"]["target_error"] for n in names} | {"m": "the target itself"}]
    columns = {"largest difference found in float32": "{m}"} | {n: f"{{{n}:found}}" for n in names}
    gained = [lines[0][name] / lines[-2][name] for name in names]
    return (
        f"`--dtype float32` makes the largest difference found {span(gained)} times smaller.\n\n"
        f"{table(lines, columns)}"
    )


def tightness() -> str:
    """How far the certified bound is above what sampling finds, in all shipped runs."""
    kept = on_digits(rows("runs")), rows("targets")
    own, real = (sorted(r["certified_bound"] / r["float64_max"] for r in found) for found in kept)
    return (
        f"The certified bound over the largest difference found in float64: {own[0]:.2g} to "
        f"{own[-1]:.2g} on the\ndigits network (`python -m benchmarks.runs`), {real[0]:.2g} to "
        f"{real[-1]:,.0f} on {len(real)} networks from other projects\n"
        f"(`python -m benchmarks.targets FOLDER`)."
    )


def honesty() -> str:
    """How often a certificate claimed too much."""
    (row,) = rows("honesty")
    closest = max(row["closest"].values())
    return (
        f"`python -m benchmarks.honesty`: {row['cases']:,} cases (targets of 1 to 3 maps, weights "
        f"from 1e-12 to 1e8, dead\nunits, eight activations, boxes without width or one float "
        f"wide; wide, deep and factored\nconstructions, other statistics, one number changed), "
        f"{sum(row['comparisons'].values()):,} comparisons with exact rationals: "
        f"{row['violations']} differences exceeded their figure.\nThe closest came to "
        f"{100 * closest:.1f} % of it."
    )


def acceptance() -> str:
    """What the checker said of honest certificates, and how near its own figures are."""
    found = rows("acceptance")
    sums = {key: total(found, key) for key, value in found[0].items() if isinstance(value, int)}
    most = {key: max(row[key] for row in found) for key in ("float64_bound", "float32_bound")}
    names = ", ".join(f"{row['cases']} {row['family']}" for row in found)
    rejected = sum(len(row["not accepted"]) for row in found)
    text = (
        "`python -m benchmarks.acceptance` (rows in `acceptance.json`): {cases} random "
        "reconstructions\n({names}), run and\nchecked: {accepted} accepted, {rejected} rejected, "
        "{undecided} undecided and said not to be checkable.\nWhat the checker finds of float64 is "
        "at most {float64_bound:.2g} times what is claimed, of float32 {float32_bound:.2g} times; "
        "of {no figure} figures (activations\nwith other kinks) it says nothing."
    )
    return text.format(**sums, **most, names=names, rejected=rejected)


def refusal() -> str:
    """What became of spoiled results."""
    found = rows("refusal")
    sums = {key: total(found, key) for key in found[0] if isinstance(found[0][key], int)}
    text = (
        "`python -m benchmarks.refusal`: {cases} mutations of valid results. "
        "{certified_at_original_bound} of those that change the function\nwere certified at the "
        "original bound. {differ} were seen to differ by more than the tolerance, and\n"
        "{differ_and_refuted} of these were refuted with a replayed witness; {undecided} stayed "
        "undecided. {without_effect} changed nothing on the\nbox (dead units)."
    )
    return text.format(**sums)


ATTACKS = {
    "onnx-reader": "random ONNX graphs, read and compared with onnxruntime",
    "pairs": "random pairs, differences at kinks and corners against the bound, exactly",
    "honest": "random reconstructions: the bound holds exactly, the checker accepts",
    "forged": "certificates with fields changed and signed anew, twelve for each case",
    "float-bounds": "float figures against adversarial orders of summation and onnxruntime",
    "kill-and-resume": "runs killed while they work and resumed: the same norms, accepted",
    "border": "data files of all types, constants, old sets, texts, casts, links, pipes: as others "
    "read them, or refused within 20 s",
    "damaged": "files of every kind, damaged in their structure: read, or refused in a sentence",
    "two-readers": "damaged files: what the checker's reader accepts, the other reads alike",
    "commands": "odd arguments, guard, export, study, training: exit codes 0 to 3, in time",
}


def attack() -> str:
    """What random attacks found, class by class."""
    found = [row | {"tried": ATTACKS[row["class"]]} for row in rows("attack")]
    jobs = found[0]["jobs"]
    minutes = total(found, "seconds") / 60 / jobs
    columns = {"attack": "{class}", "what is tried": "{tried}", "cases": "{cases:,}"}
    return (
        f"`python -m benchmarks.attack --minutes {minutes:.0f} --jobs {jobs}`: "
        f"{total(found, 'cases'):,} cases, {total(found, 'violations')} violations.\n\n"
        f"{table(found, columns | {'violations': '{violations}'})}"
    )


def forged() -> str:
    """What a forger got past the checker, and whether evaluations exceed what it finds."""
    certificates, floats = found = rows("forged")
    times = [f"{row['seconds'] / 60:.0f}" for row in found]
    return (
        f"`python -m benchmarks.attack forged` and `… float-bounds`, {times[0]} and {times[1]} "
        f"minutes (rows in `forged.json`):\n{certificates['cases']:,} certificates with twelve "
        f"forgeries each, of any field, array or tree, and {floats['cases']:,} networks\nwhose "
        "evaluations in floats were held against the checker's own figures: "
        f"{total(found, 'violations')} violations."
    )


WRONG = {
    "honesty": ("violations", "random networks; every bound against exact rationals"),
    "refusal": ("certified_at_original_bound", "one number or block of a valid result changed"),
    "attack": ("violations", "random files, pairs, forged certificates, killed runs"),
}


def _loud(found: Any) -> int:
    """Violations that state nothing false: a crash, a true certificate that is rejected."""
    words = ("crashed", "honest, but rejected", "too long", "internal error")
    return sum(row.get("outcomes", {}).get(word, 0) for row in found for word in words)


def wrong() -> str:
    """False certificates in all three searches for them."""
    found = [
        {"name": stem, "text": text, "cases": total(rows(stem), "cases")}
        | {"false": total(rows(stem), key) - _loud(rows(stem))}
        for stem, (key, text) in WRONG.items()
    ]
    columns = {"benchmark": "{name}", "what is tried": "{text}", "cases": "{cases:,}"}
    return (
        f"{total(found, 'false') or 'No'} false certificates were found in "
        f"{total(found, 'cases'):,} cases.\n\n"
        f"{table(found, columns | {'false certificates': '{false}'})}"
    )


def float64() -> str:
    """What is proved of evaluations in float64, network by network."""
    found = rows("float64")
    columns = {
        "network": "{network}",
        "found in float64": "{float64_max:.1e}",
        "certified, real arithmetic": "{certified_bound:bound}",
        "`float64_bound`": "{float64_bound:bound}",
        "of the target itself": "{target_float64_bound:bound}",
        "boxes": "{boxes:,}",
    }
    text = re.sub(r"ACASXU_run2a_|_batch_2000\.onnx", "", table(found, columns))
    accepted = sum(row["check_exit"] == 0 for row in found)
    return (
        f"{text}\n\n(`run {found[0]['options']}`; {accepted} of {len(found)} accepted by `check`; "
        f"`python -m benchmarks.float64 FOLDER`.)"
    )


SOLVERS = {
    "cg to 4e-12, ratio 2.6": "conjugate gradients, ratio 2.6",
    "cg": "conjugate gradients, ratio 1.5",
    "LAPACK square": "LU by LAPACK, ratio 1",
    "LAPACK least squares": "least squares by LAPACK, ratio 1.5",
    "SciPy LSMR": "LSMR by SciPy, ratio 1.5",
    "torch L-BFGS": "L-BFGS by torch, ratio 1.5",
    "torch Adam": "Adam by torch, ratio 1.5",
}


def solvers() -> str:
    """One solve by this package and by others."""
    found = {row["solver"]: row for row in rows("solvers") if row["m"] == 64}
    shown = [found[name] | {"method": words} for name, words in SOLVERS.items()]
    columns = {"method": "{method}", "time": "{seconds:time}", "memory": "{solver_bytes:memory}"}
    ours, theirs = shown[0], shown[2]
    return (
        f"A 64 × 64 map is solved {theirs['seconds'] / ours['seconds']:.0f} times as fast as by "
        f"LU, in 1/{theirs['solver_bytes'] / ours['solver_bytes']:.0f} of the memory and to the "
        f"same residual.\n\n{table(shown, columns | {'relative residual': '{residual:.0e}'})}"
    )


def growth() -> str:
    """How solves grow."""
    *found, fitted = (row for row in rows("growth") if "block" not in row)
    columns = {
        "map, ratio 1.5": "{m} × {k}",
        "time": "{seconds:time}",
        "memory": "{added_bytes:memory}",
        "the dense matrix alone": "{dense_bytes:memory}",
    }
    text = (
        "From {fitted_from} × {fitted_from} to {fitted_to} × {fitted_to}, time grows as "
        "d^{seconds_exponent:.2f} and memory as d^{added_bytes_exponent:.2f}."
    )
    shown = [row for row in found if row["m"] in (64, 128, 256, 512)]
    return f"{text.format(**fitted)}\n\n{table(shown, columns)}"


def grouped() -> str:
    """Whole runs with grouped layers."""
    found = [row for row in rows("grouped") if row.get("kind") == "whole run"]
    for row in found:
        row["factor"] = "–" if row["float32_factor"] is None else f"{row['float32_factor']:.2g}"
        row["bound"] = at_most(row["certified_bound"])
        held = row["check_peak_bytes"]
        row["check_memory"] = "–" if held is None else Words().format("{:memory}", held)
    columns = {
        "network, domain": "{case}",
        "run": "{cpu_seconds:time}",
        "memory": "{peak_bytes:memory}",
        "verdict": "{verdict}",
        "bound": "{bound}",
        "check": "{check_cpu_seconds:time}",
        "memory of it": "{check_memory}",
        "float32 error / the target's own": "{factor}",
    }
    return table(found, columns)


def grouped_in_float32() -> str:
    """Float32 errors of dense and of grouped layers, with and without what is done for them."""
    found = [row for row in rows("grouped") if row.get("kind") == "in float32"]
    words = ("dense, with all", "grouped, without", "grouped, with all")
    lines = [
        {"family": family, **dict(zip(words, (row["factor"] for row in of), strict=True))}
        for family in dict.fromkeys(row["case"].split(",")[0] for row in found)
        if len(of := [row for row in found if row["case"].startswith(f"{family},")]) == len(words)
    ]
    columns = {"float32 error / the target's own": "{family}"}
    return table(
        [{**line, "shown": line} for line in lines],
        columns | {word: f"{{shown[{word}]:.2g}}" for word in words},
    )


def beside_training() -> str:
    """What Adam reaches on the same γ and β, in a sentence."""
    (row,) = (row for row in rows("grouped") if row.get("kind") == "beside training")
    text = (
        "In one frozen network for 32-64-64-10 the solve takes {seconds:time} and is off by "
        "{error:found}; after a hundred\ntimes as long the best of three rates of Adam is off by "
        "{adam_error:found}, with outputs up to {output_scale:found}."
    )
    return Words().vformat(text, (), row)


def ranks() -> str:
    """Threads and MPI ranks, and how much of the machine they use."""
    found = rows("ranks")
    times = {(row["engine"], row["count"]): row["seconds"] for row in found}
    gains = (times[engine, 1] / times[engine, 2] for engine in ("threads", "ranks"))
    speeds = (row["round_trip_fraction"] for row in rows("operator") if row["m"] == row["k"] == 256)
    columns = {"kind": "{engine}", "number": "{count}", "time, 96 × 96 map": "{seconds:time}"}
    return (
        f"Two processors are {span(gains)} times as fast as one, as threads or as MPI ranks. On a "
        f"256 × 256 map the\noperator reaches {span(speeds, '.0%')} of the speed of a matrix "
        f"product.\n\n{table(found, columns)}"
    )


def equivalence() -> str:
    """Pairs with known answers: ours, and Marabou's on the small ones."""
    found = rows("equivalence")
    asked = [row for row in found if "marabou" in row]
    shown = [
        {
            "kind": kind,
            "pairs": len(ours := [row for row in found if row["kind"] == kind]),
            "right": sum(row["result"] == row["answer"] for row in ours),
            "seconds": max(row["seconds"] for row in ours),
            "asked": len(theirs := [row for row in asked if row["kind"] == kind]),
            "theirs": sum(row["marabou"] == row["answer"] for row in theirs),
            "open": sum(row["marabou"] == "timeout" for row in theirs),
            "wrong": sum(row["marabou"].startswith("wrong") for row in theirs),
        }
        for kind in dict.fromkeys(row["kind"] for row in found)
    ]
    columns = {
        "kind": "{kind}",
        "pairs": "{pairs}",
        "`verify` is right": "{right}",
        "longest": "{seconds:time}",
        "asked of Marabou": "{asked}",
        "right": "{theirs}",
        "not decided in a minute": "{open}",
        "wrong": "{wrong}",
    }
    right = sum(row["result"] == row["answer"] for row in found)
    return (
        f"`verify` gives the right answer for {right} of {len(found)} pairs.\n\n"
        f"{table(shown, columns)}"
    )


def perturbed() -> str:
    """Copies of real networks, perturbed or pruned."""
    found = rows("perturbed")
    for row in found:
        row["network"] = row["network"].replace("ACASXU_run2a_", "").replace("_batch_2000", "")
        gap = row.get("witness_difference")
        known = at_most(row["bound"], 4) if gap is None else at_least(gap, 4)
        row["known"] = f"≤ {known}" if gap is None else f"≥ {known} at a witness"
    columns = {
        "network and copy": "{network}",
        "answer": "{result}",
        "largest difference": "{known}",
        "processor time": "{processor:time}",
        "wall time": "{seconds:time}",
        "`check`": "{check}",
        "its wall time": "{check_seconds:time}",
    }
    decided = sum(row["check"] == "accepted" for row in found)
    return (
        f"{decided} of {len(found)} pairs are decided and accepted by `check`.\n\n"
        f"{table(found, columns)}"
    )


def sparse() -> str:
    """Sparse storage beside dense storage of the same weights."""
    solved = [row for row in rows("sparse") if row["status"] == "solved"]
    halves = ([row for row in solved if row["storage"] == s] for s in ("sparse", "dense"))
    pairs = [{"s": thin, "d": full} for thin, full in zip(*halves, strict=True)]
    columns = {
        "map": "{s[d]} × {s[d]}, ratio {s[ratio]}",
        "entries kept": "{s[p]:.0%}",
        "time, sparse": "{s[seconds]:time}",
        "time, dense": "{d[seconds]:time}",
        "weights, sparse": "{s[weight_bytes]:memory}",
        "weights, dense": "{d[weight_bytes]:memory}",
    }
    gains = [pair["d"]["seconds"] / pair["s"]["seconds"] for pair in pairs]
    return (
        f"Usually: in {sum(gain > 1 for gain in gains)} of {len(gains)} cases sparse storage was "
        f"faster, by a factor of up to {max(gains):.0f}.\n\n{table(pairs, columns)}"
    )


def deep() -> str:
    """The largest error of the deep construction over the seeds, by block and ratio."""
    text = (RESULTS / "studies" / "depth" / "rows.jsonl").read_text(encoding="utf-8")
    lines: dict[int, Row] = {}
    for row in map(json.loads, text.splitlines()):
        if row["d"] == 16:
            line = lines.setdefault(row["block"], {"block": row["block"], "depth": row["depth"]})
            at = f"width {row['ratio']:g}·m·K"
            error = max(row["error"], float(line.get(at, "0").strip("()")))
            solved = row["solved"] and not line.get(at, "").startswith("(")
            line[at] = f"{error:.0e}" if solved else f"({error:.0e})"
    columns = {"block K": "{block}", "hidden layers": "{depth}"}
    widths = [key for key in lines[1] if key not in ("block", "depth")]
    columns |= {key: f"{{errors[{key}]}}" for key in widths}
    shown = [line | {"errors": line} for _, line in sorted(lines.items(), reverse=True)]
    return table(shown, columns)


def trained(shown: Callable[[list[Row]], str]) -> str:
    """One table of the trainings."""
    return shown(rows("training"))


def guard_on_images() -> str:
    """What the guard of a ResNet-20 says on real images, by slack."""
    found = [row for row in rows("real_images") if row["part"] == "guard"]
    for row in found:
        others = row["error_others"]
        row["others"] = "–" if others is None else f"{others:.2g}"
    columns = {
        "slack": "{slack:g}",
        "images": "{images:,}",
        "recognised by the target": "{accuracy_target:.1%}",
        "as drawn": "{accuracy_frozen:.1%}",
        "with its norms set": "{accuracy_reconstructed:.1%}",
        "same class": "{same_class:,}",
        "margin ≥ 0 (of those not used for the shifts)": "{trusted_unseen:.1%}",
        "largest difference on these": "{error_trusted:found}",
        "in float64": "{error_float64:found} (of {exact_images})",
        "on the others": "{others}",
    }
    return table(sorted(found, key=lambda row: row["slack"]), columns)


def real_images() -> str:
    """Certificates at real images."""
    found = [row for row in rows("real_images") if row["part"] == "certificate"]
    for row in found:
        row["accepted"] = "yes" if row["check_exit"] == 0 else "no"
        row["factor"] = row["float32_max"] / row["target_float32_max"]
    columns = {
        "network": "{network}",
        "frozen": "{construction}",
        "maps": "{maps}",
        "inputs": "{inputs}",
        "verdict": "{verdict}",
        "certified bound": "{certified_bound:bound}",
        "accepted by `check`": "{accepted}",
        "same class by onnxruntime": "{same_class_by_onnxruntime} of {images_by_onnxruntime}",
        "float32 error / the target's own": "{factor:.1f}",
        "run": "{seconds:time}",
        "check": "{check_seconds:time}",
    }
    return table(found, columns)


def live_exact() -> str:
    """LayerNorm targets in live norms; norms computed and trained in one frozen network."""
    found = {row["network"]: row for row in rows("live")}
    trained, random = (row for name, row in found.items() if name.startswith("digits with"))
    columns = {
        "target": "{network}",
        "largest layer of f": "{width:,}",
        "relative error, float64": "{relative_error:found}",
        "certified bound": "{bound:bound}",
        "float32, × the target's own": "{float32_factor:.0f}",
        "as `--dtype float32` writes it": "{float32_written:.0f}",
    }
    text = (
        "An MLP with LayerNorm that reads {accuracy:.1%} of the test digits (eps = 1e-5) is "
        "rebuilt with γ and β that are\ncomputed: {constructed_accuracy:.1%}, the same class for "
        "every test image. Trained from random in the same frozen\nnetwork, γ and β reach "
    )
    return (
        f"{Words().vformat(text, (), trained)}{random['accuracy']:.1%}.\n\n"
        f"{table((row for row in found.values() if row['way'] == 'A'), columns)}"
    )


def live_approximate() -> str:
    """ReLU targets in live norms, beside constant statistics."""
    columns = {
        "target": "{network}",
        "norm": "{norm}",
        "certified on": "{domain}",
        "relative error, float64": "{relative_error:found}",
        "certified bound": "{bound:bound}",
        "float32, × the target's own": "{float32_factor:.0f}",
        "as `--dtype float32` writes it": "{float32_written:.0f}",
    }
    return table((row for row in rows("live") if row["way"] == "B"), columns)


FIGURES: dict[str, Callable[[], str]] = {
    **{f.__name__: f for f in (digits, run_times, targets, convolutions, float32, tightness)},
    **{f.__name__: f for f in (acceptance, forged, honesty, refusal, attack, wrong, float64)},
    **{f.__name__: f for f in (solvers, growth, ranks, sparse, deep, equivalence, perturbed)},
    **{f.__name__: f for f in (grouped, grouped_in_float32, beside_training)},
    **{f.__name__: f for f in (live_exact, live_approximate)},
    **{f.__name__: partial(trained, f) for f in training_tables.TABLES},
    "cifar": lambda: training_tables.cifar(rows("cifar")),
    "cifar_findings": lambda: training_tables.cifar_findings(rows("cifar"), rows("training")),
    "guard_on_images": guard_on_images,
    "real_images": real_images,
    "existence": lambda: training_tables.existence(rows("training_existence")),
}


def main() -> None:
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
