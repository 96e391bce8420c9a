"""Again from the files of a run: the network, from its compact form, the page, and an adapter.

A recipe says how a frozen network was made: seed, construction, distribution. Together with the
target and the norms it is the whole network, in kilobytes instead of gigabytes.
A frozen weight is a function of seed, layer and place, so a directory that keeps the norms keeps
the network. What comes out is compared with the certificate: another byte is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from reconstruct.constructions import CONSTRUCTIONS, Frozen, draw
from reconstruct.constructions.frozen import as_stored, weights_hash
from reconstruct.constructions.sites import find_sites
from reconstruct.errors import InputError, ReconstructError
from reconstruct.formats import Origin, load
from reconstruct.formats.files import as_path, write_atomically
from reconstruct.networks import Activation, Box, LiveNorm, Network, Norm
from reconstruct.networks.draw import Weights
from reconstruct.networks.operation import KINDS
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import Result
from reconstruct.reports.folder import PARTIAL, OutputFolder
from reconstruct.reports.page import write_page
from reconstruct.reports.reading import as_written, read_norms, read_report
from reconstruct.runs.files import NETWORK, NORMS, Forms, write_networks


def recipe_of(frozen: Frozen, forms: Forms) -> dict[str, Any]:
    """What `draw` was given, and in which forms and precision the network was written.

    The seed is None for a frozen network that the user brought: `file_sha256` pins its file. The
    numbers of an activation are text, for JSON knows no infinity.
    """
    origin, construction = frozen.origin, frozen.construction
    inner: Activation | None = origin.get("activation")
    told = {} if inner is None else {k: repr(v) for k, v in inner.settings().items()}
    return {
        "construction": construction.name,
        "settings": asdict(construction) if is_dataclass(construction) else {},
        "merge": frozen.merge,
        "dtype": forms.dtype.name,
        "guarded": forms.guarded,
        "blocks": forms.blocks,
        "density": origin.get("sparsity"),
        "statistics": bool(origin.get("statistics", False)),
        "activation": None if inner is None else {"kind": inner.kind, **told},
        **{key: origin.get(key) for key in ("seed", "weights", "file", "file_sha256")},
    }


@dataclass(frozen=True)
class Rebuilt:
    """The files that were written again, and the SHA-256 that the certificate names."""

    files: tuple[Path, ...]
    sha256: str


def rebuild(
    output: str | Path, *, target: str | Path | None = None, frozen: str | Path | None = None
) -> Rebuilt:
    """Write network.onnx of a run again (folded and guarded if they were); the same bits.

    `target` says where the target is if not in the directory; `frozen` is the file of a frozen
    network that the user brought, which no seed makes again.
    """
    place = as_path(output, "the directory of a run")
    report, document = read_report(place / "report.json"), _certificate(place)
    recipe = report.get("recipe")
    if recipe is None:
        raise InputError(
            f"{place}: report.json says nothing of how the frozen network was made, because it is "
            f"of a comparison or of an older version; run it again"
        )
    ours, stated = _target(place, document["target"], target), document["candidate"]
    with as_written(place):
        forms = Forms(np.dtype(recipe["dtype"]), recipe["guarded"], recipe.get("blocks", False))
        domain = Box(report["domain"]["lo"], report["domain"]["hi"])
        hashed, made_by = report["frozen"]["sha256"], dict(report["environment"])
        own = _frozen(recipe, ours, frozen)
    # The reconstruction without its solves: enough to write its networks.
    layout, stored = own.layout_of(ours), as_stored(own.network)
    sites = find_sites(layout.form.network, stored, layout.blueprints)
    tuned = stored.with_ops(_norms(place, stored))
    result = Result(layout, own, domain, sites, tuned, (), None, 0.0)
    if (place / PARTIAL).exists():
        raise InputError(
            f"{place}: an interrupted run lies there; resume it first, or remove {PARTIAL}"
        )
    elsewhere = "copy it to where you may write, and rebuild the copy"
    with OutputFolder(place, force=True, elsewhere=elsewhere) as folder:
        origin = Origin.of(write_networks(folder.staging, result, forms))
        differs = "sha256" if origin is None else origin.differs(stated)
        if differs:
            same = weights_hash(stored) == hashed
            told = (
                "the frozen weights are those of the report" if same else "so do the frozen weights"
            )
            raise ReconstructError(
                f"{place}: what is rebuilt is not, bit for bit, the {NETWORK} of the certificate "
                f"({differs} differs, {told}) (it was made by reconstruct "
                f"{made_by.get('reconstruct')} with numpy {made_by.get('numpy')}; files written by "
                f"other versions of the onnx package may differ in layout)"
            )
        made = [name for name in folder.made() if name != NORMS]
        folder.publish(made)
    return Rebuilt(tuple(place / name for name in made), str(stated["sha256"]))


def _certificate(place: Path) -> dict[str, Mapping[str, Any]]:
    """How the certificate names the two networks."""
    try:
        document = json.loads((place / "certificate.json").read_bytes())
        parts = {role: dict(document[role]) for role in ("target", "candidate")}
        return {role: {**part, "sha256": part["sha256"]} for role, part in parts.items()}
    except FileNotFoundError:
        raise InputError(f"{place}: there is no certificate.json to compare with") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{place}: certificate.json cannot be read ({error})") from None


def _target(place: Path, part: Mapping[str, Any], given: str | Path | None) -> Network:
    path = place / str(part.get("path") or part["file"])
    if given is not None:
        path = as_path(given, "the target")
    network = load(path, nnet_header=bool(part.get("nnet_header")))
    origin = Origin.of(network)
    if origin is None or origin.differs(part):
        raise InputError(f"{path}: this is not the target of the run: its SHA-256 is another one")
    return network


def _frozen(recipe: Mapping[str, Any], target: Network, given: str | Path | None) -> Frozen:
    """The same frozen network again, drawn or from the file that the user brought."""
    construction = CONSTRUCTIONS[recipe["construction"]](**recipe["settings"])
    if recipe["seed"] is not None:
        if given is not None:
            raise InputError("--frozen is for networks that were brought, but this was drawn")
        inner = recipe["activation"]
        return draw(
            target,
            construction,
            seed=recipe["seed"],
            weights=Weights(recipe["weights"]),
            density=recipe["density"],
            statistics=recipe["statistics"],
            activation=None if inner is None else _activation(inner),
            merge=recipe["merge"],
        )
    if given is None:
        raise InputError(
            f"the frozen network was brought in {recipe['file']}, not drawn from a seed; say where "
            f"that file is with --frozen"
        )
    network = load(given)
    if network.metadata.get("sha256") != recipe["file_sha256"]:
        raise InputError(f"{given}: this is not the frozen network of the run ({recipe['file']})")
    return Frozen(network, construction, recipe["merge"])


def _activation(told: Mapping[str, str]) -> Activation:
    settings = {name: float(text) for name, text in told.items() if name != "kind"}
    # One that needs an array besides is none that a recipe tells of: {}[name] is a KeyError.
    return cast(Activation, KINDS[told["kind"]](dict[str, Any]().__getitem__, settings))


def _norms(place: Path, stored: Network) -> dict[str, Norm | LiveNorm]:
    """Every norm of the frozen network with the gammas and betas of norms.npz."""
    path = place / NORMS
    if not path.exists():
        raise InputError(f"{path}: there is no such file, and the norms are half of the network")
    arrays = read_norms(path)
    try:
        return {
            node.name: node.op.tuned(arrays[f"{node.name}.weight"], arrays[f"{node.name}.bias"])
            for node in stored.nodes
            if isinstance(node.op, Norm | LiveNorm)
        }
    except (KeyError, InputError, ValueError) as error:
        raise InputError(f"{path}: these norms are not of this network ({error})") from None


def report(output: str | Path) -> Path:
    """`reconstruct report OUT`: make report.html again from the other files; its path."""
    folder = as_path(output, "the directory of a run")
    with as_written(folder):
        write_page(folder)
    return folder / "report.html"


# --- an adapter of PEFT (LN_TUNING), which loads the norms onto the frozen module ---------------


def write_adapter(run: str | Path, output: str | Path, *, force: bool = False) -> list[Path]:
    """Write what `run` left in norms.npz as an adapter into `output`; the files, as PEFT needs
    them.

    An adapter is two files: adapter_config.json says which modules it tunes, and
    adapter_model.safetensors has their γ and β under
    `base_model.model.<norm>.ln_tuning_layers.weight` and `.bias`. PEFT puts a copy of each norm in
    its place, so that statistics are taken along, too. norms.safetensors has the same numbers under
    the names of the state dict, as norms.npz has.
    """
    source = as_path(run, "the directory of a run") / NORMS
    if not source.exists():
        raise InputError(f"{source}: there is no such file; name the directory that `run` wrote")
    arrays = read_norms(source)
    norms = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
    state = {name: values for name, values in arrays.items() if not name.endswith(".eps")}
    tuned = {_adapted(name): values for name, values in state.items()}
    config = {"peft_type": "LN_TUNING", "target_modules": norms, "inference_mode": True}
    files = {
        "adapter_model.safetensors": safetensors(tuned),
        "norms.safetensors": safetensors(state),
        "adapter_config.json": json.dumps(config, indent=2).encode(),
    }
    with OutputFolder(output, force=force) as folder:
        for name, content in files.items():
            write_atomically(folder.staging / name, content)
        folder.publish()
    return [folder.path / name for name in files]


def _adapted(name: str) -> str:
    """`layer1.norm1.weight` as PEFT calls it."""
    norm, _, key = name.rpartition(".")
    return f"base_model.model.{norm}.ln_tuning_layers.{key}"


def safetensors(arrays: Mapping[str, Array]) -> bytes:
    """The arrays as a file of safetensors: the length of a JSON header, the header, the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, values in arrays.items():
        parts.append(np.ascontiguousarray(values, "<f8").tobytes())
        start, end = end, end + len(parts[-1])
        header[name] = {"dtype": "F64", "shape": list(values.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers start at a multiple of 8
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
