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

from reconstruct.version import __version__ as __version__

if TYPE_CHECKING:  # each name `as` itself: that is how type checkers see it offered
    from proofs_check.certificates import check as check
    from reconstruct import khatri_rao as khatri_rao
    from reconstruct import studies as studies
    from reconstruct import training as training
    from reconstruct.bounds import Adaptive as Adaptive
    from reconstruct.bounds import Crown as Crown
    from reconstruct.bounds import Interval as Interval
    from reconstruct.bridge.from_torch import from_torch as from_torch
    from reconstruct.bridge.to_torch import to_torch as to_torch
    from reconstruct.certificates import certify as certify
    from reconstruct.constructions import Deep as Deep
    from reconstruct.constructions import Factored as Factored
    from reconstruct.constructions import Fitted as Fitted
    from reconstruct.constructions import Frozen as Frozen
    from reconstruct.constructions import Grouped as Grouped
    from reconstruct.constructions import Stacked as Stacked
    from reconstruct.constructions import Wide as Wide
    from reconstruct.constructions import draw as draw
    from reconstruct.errors import InputError as InputError
    from reconstruct.errors import ReconstructError as ReconstructError
    from reconstruct.formats import load as load
    from reconstruct.formats import load_domain as load_domain
    from reconstruct.formats import save as save
    from reconstruct.formats.labelled import Images as Images
    from reconstruct.khatri_rao import Auto as Auto
    from reconstruct.khatri_rao import ConjugateGradient as ConjugateGradient
    from reconstruct.khatri_rao import Direct as Direct
    from reconstruct.khatri_rao import Exact as Exact
    from reconstruct.networks import Box as Box
    from reconstruct.networks import Clip as Clip
    from reconstruct.networks import Elu as Elu
    from reconstruct.networks import LeakyRelu as LeakyRelu
    from reconstruct.networks import Network as Network
    from reconstruct.networks import Points as Points
    from reconstruct.networks import Relu as Relu
    from reconstruct.networks import Selu as Selu
    from reconstruct.networks.draw import Weights as Weights
    from reconstruct.pipeline import Result as Result
    from reconstruct.pipeline import one_layer as one_layer
    from reconstruct.pipeline import reconstruct as reconstruct
    from reconstruct.progress import ProgressLine as ProgressLine
    from reconstruct.runs.pairs import pairs as pairs
    from reconstruct.runs.reach import reach as reach
    from reconstruct.runs.rebuild import rebuild as rebuild
    from reconstruct.runs.rebuild import report as report
    from reconstruct.runs.run import run as run
    from reconstruct.runs.verify import verify as verify

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

_PACKAGES = ("khatri_rao", "studies", "training")
__all__ = sorted({*_HOME_OF, *_PACKAGES, "__version__"})

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
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
