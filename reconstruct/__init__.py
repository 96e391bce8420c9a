"""Rebuild a small ReLU network inside a random frozen one by its norm parameters alone.

    import reconstruct as rc

    target = rc.load("target.onnx")
    frozen = rc.draw(target, construction=rc.Wide(ratio=1.5), seed=0)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-0.5, 0.5))
    certificate = rc.certify(target, result.network, domain=result.domain)

The public names are the ones listed here; they are loaded when first used, so that the command
line answers `--help` at once.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from typing import TYPE_CHECKING, Any

from reconstruct.version import __version__

if TYPE_CHECKING:
    from proofs_check.certificates import check
    from reconstruct import khatri_rao, studies, training
    from reconstruct.bounds import Adaptive, Crown, Interval
    from reconstruct.bridge.from_torch import from_torch
    from reconstruct.bridge.to_torch import to_torch
    from reconstruct.certificates import certify
    from reconstruct.constructions import (
        Deep,
        Factored,
        Fitted,
        Frozen,
        Grouped,
        Stacked,
        Wide,
        draw,
    )
    from reconstruct.errors import InputError, ReconstructError
    from reconstruct.formats import load, load_domain, save
    from reconstruct.formats.labelled import Images
    from reconstruct.khatri_rao import Auto, ConjugateGradient, Direct, Exact
    from reconstruct.networks import Box, Clip, Elu, LeakyRelu, Network, Points, Relu, Selu
    from reconstruct.networks.draw import Weights
    from reconstruct.pipeline import Result, one_layer, reconstruct
    from reconstruct.progress import ProgressLine
    from reconstruct.runs.pairs import pairs
    from reconstruct.runs.reach import reach
    from reconstruct.runs.rebuild import rebuild, report
    from reconstruct.runs.run import run
    from reconstruct.runs.verify import verify

_HOMES = {
    "reconstruct.bridge.from_torch": "from_torch",
    "reconstruct.bridge.to_torch": "to_torch",
    "reconstruct.bounds": "Adaptive Crown Interval",
    "reconstruct.certificates": "certify",
    "proofs_check.certificates": "check",
    "reconstruct.constructions": "Deep Factored Fitted Grouped Frozen Stacked Wide draw",
    "reconstruct.errors": "InputError ReconstructError",
    "reconstruct.formats": "load load_domain save",
    "reconstruct.formats.labelled": "Images",
    "reconstruct.khatri_rao": "Auto ConjugateGradient Direct Exact",
    "reconstruct.networks": "Box Clip Elu LeakyRelu Network Points Relu Selu",
    "reconstruct.networks.draw": "Weights",
    "reconstruct.pipeline": "Result one_layer reconstruct",
    "reconstruct.progress": "ProgressLine",
    "reconstruct.runs.pairs": "pairs",
    "reconstruct.runs.reach": "reach",
    "reconstruct.runs.rebuild": "rebuild report",
    "reconstruct.runs.run": "run",
    "reconstruct.runs.verify": "verify",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Adaptive",
    "Auto",
    "Box",
    "Clip",
    "ConjugateGradient",
    "Crown",
    "Deep",
    "Direct",
    "Elu",
    "Exact",
    "Factored",
    "Fitted",
    "Frozen",
    "Grouped",
    "Images",
    "InputError",
    "Interval",
    "LeakyRelu",
    "Network",
    "Points",
    "ProgressLine",
    "ReconstructError",
    "Relu",
    "Result",
    "Selu",
    "Stacked",
    "Weights",
    "Wide",
    "__version__",
    "certify",
    "check",
    "draw",
    "from_torch",
    "khatri_rao",
    "load",
    "load_domain",
    "one_layer",
    "pairs",
    "reach",
    "rebuild",
    "reconstruct",
    "report",
    "run",
    "save",
    "studies",
    "to_torch",
    "training",
    "verify",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in ("khatri_rao", "studies", "training"):
        return importlib.import_module(f"reconstruct.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        near = difflib.get_close_matches(name, __all__, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'reconstruct' has no attribute {name!r}{meant}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
