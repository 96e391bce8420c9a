"""`reconstruct train`: tune only the norms of a random network (or something else, to compare)."""

from __future__ import annotations

import importlib.util
import json
from argparse import Namespace

from reconstruct.cli.progress import ProgressDisplay
from reconstruct.cli.verdict import say
from reconstruct.errors import InputError, MissingDependencyError


def main(options: Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        raise MissingDependencyError("torch", "torch", "training")
    from reconstruct.training.experiment import Experiment, Family
    from reconstruct.training.freezing import Tuning
    from reconstruct.training.models.drawing import Gamma
    from reconstruct.training.report import summary
    from reconstruct.training.schedule import Schedule
    from reconstruct.training.session import train_into

    experiment = Experiment(
        Family(options.model),
        options.depth,
        options.width,
        Gamma(options.gamma),
        Tuning(options.tune),
        Schedule(options.epochs, options.batch, options.rate, options.momentum, options.decay),
        _seeds(options.seeds),
    )
    plain = {k: v for k, v in vars(options).items() if k not in ("module", "command")}
    with ProgressDisplay(options.quiet or options.json) as progress:
        report = train_into(
            options.output,
            experiment,
            options.data,
            options=plain,
            force=options.force,
            resume=options.resume,
            progress=progress,
        )
    for note in report["notes"]:
        say(note, options)
    if options.json:
        print(json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        print(summary(report))
        print(f"{'written to':<22} {options.output}")
    return 0


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise InputError(
            f"--seeds takes whole numbers with commas between them, such as 0,1,2, but is {text!r}"
        ) from None
