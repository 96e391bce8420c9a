"""What exists against what is found: γ, β constructed, trained, and both, in the same networks.

The shipped digits network is rebuilt in frozen networks of 1.5·m·k hidden units per map, and
fitted by least squares in ones of 0.35 and 0.5·m·k, where no exact construction exists; the same
frozen networks are trained from random γ, β, and trained on from what was computed. Three seeds.
`python -m benchmarks.training_existence [-o FILE] [--quick]` ends with the table that
docs/training.md shows. It needs torch, and runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._common import Row, run
from benchmarks.training_tables import existence

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
    from reconstruct.training.data import digits
    from reconstruct.training.existence import compare
    from reconstruct.training.loop import Schedule

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


if __name__ == "__main__":
    print(existence(run("training_existence", __doc__ or "", measure)))
