"""Training nothing but γ and β: what gradient descent finds, beside what the theorem constructs.

    import reconstruct as rc

    data = rc.training.digits()
    model = rc.training.resnet(depth=14, width=16, data=data, seed=0)
    history = rc.training.train(model, data, rc.training.Tuning.NORMS, seed=0)

The networks, data and schedule are those of Frankle, Schwab and Morcos, "Training BatchNorm and
only BatchNorm" (ICLR 2021). Everything here needs torch (`pip install 'reconstruct[torch]'`); it
is imported when one of these names is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from reconstruct.errors import MissingDependencyError

_HOMES = {
    "data": ("Dataset", "digits", "images", "load_data"),
    "experiment": ("Experiment", "gammas", "small_share", "switched_off", "train_into"),
    "fine_tuning": ("fine_tuned",),
    "freezing": ("Tuning", "tunable"),
    "loop": ("History", "Schedule", "accuracy", "train"),
    "models": ("mlp", "resnet", "vgg"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reconstruct.training' has no attribute {name!r}")
    if importlib.util.find_spec("torch") is None:
        raise MissingDependencyError("torch", "torch", f"training.{name}")
    value = getattr(importlib.import_module(f"reconstruct.training.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME_OF)
