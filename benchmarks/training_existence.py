"""What exists against what is found: γ, β constructed, trained, and both, in the same networks.

The shipped digits network is rebuilt in frozen networks of 1.5·m·k hidden units per map, and
fitted by least squares in ones of 0.35 and 0.5·m·k, where no exact construction exists; the same
frozen networks are trained from random γ, β, and trained on from what was computed. Three seeds.
`python -m benchmarks.training_existence [-o FILE] [--quick]` ends with the table that
docs/training.md shows. It needs torch, and runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks._common import Row, run
from benchmarks.training import spread

SEEDS = (0, 1, 2)
RATIOS = (0.35, 0.5, 1.5)


def measure(quick: bool) -> Iterator[Row]:
    """Three rows per ratio and seed: computed, trained from random, trained on."""
    import torch

    torch.set_num_threads(1)
    for seed in SEEDS[:1] if quick else SEEDS:
        for ratio in RATIOS[:1] if quick else RATIOS:
            yield from measure_case(ratio, seed, 5 if quick else 60)


def measure_case(ratio: float, seed: int, epochs: int) -> Iterator[Row]:
    """One frozen network and its three choices of γ and β."""
    from reconstruct.demo import digits as shipped
    from reconstruct.networks import Box
    from reconstruct.training.data.digits import digits
    from reconstruct.training.existence import compare
    from reconstruct.training.schedule import Schedule

    schedule = Schedule(epochs=epochs, batch=64)
    found = compare(
        shipped().target, digits(), ratio=ratio, seed=seed, schedule=schedule, domain=Box(0, 1)
    )
    lines = {"trained from random": found.line_to_trained, "fine-tuned": found.line_to_tuned}
    for choice in (found.start, found.trained, found.tuned):
        line = lines.get(choice.name)
        yield {
            "ratio": ratio,
            "seed": seed,
            "epochs": epochs,
            "choice": choice.name,
            "target_accuracy": found.target.test_accuracy,
            "accuracy": choice.test_accuracy,
            "train_accuracy": choice.train_accuracy,
            "loss": choice.loss,
            "gamma_norm": choice.gamma_norm,
            "gamma_max": choice.gamma_max,
            "beta_max": choice.beta_max,
            "line_from_computed": None if line is None else list(line),
            "line_max": None if line is None else max(line),
            "seconds": choice.seconds,
        }


def table(rows: Iterable[Row]) -> str:
    """Accuracy by ratio and choice as Markdown: mean (least … most) over the seeds."""
    groups: dict[tuple[float, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["ratio"], row["choice"]), []).append(row)
    head = (
        "| hidden units / m·k | γ, β | accuracy | loss | ‖γ‖ | largest \\|β\\| | largest loss on "
    )
    lines = [head + "the line from computed | seconds |", "|" + "---|" * 8]
    for (ratio, choice), group in groups.items():
        highest = [row["line_max"] for row in group if row["line_max"] is not None]
        cells = [
            f"{ratio:g}",
            choice,
            spread([row["accuracy"] for row in group]),
            _mean([row["loss"] for row in group], 2),
            _mean([row["gamma_norm"] for row in group], 3),
            _mean([row["beta_max"] for row in group], 2),
            _mean(highest, 2) if highest else "–",
            _mean([row["seconds"] for row in group], 2),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean(values: list[float], digits: int) -> str:
    return f"{sum(values) / len(values):.{digits}g}"


if __name__ == "__main__":
    print(table(run("training_existence", __doc__ or "", measure)))
