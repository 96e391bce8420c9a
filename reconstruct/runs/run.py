"""`rc.run`: one whole run, target in, directory out. The command line and the demo call it.

The target is copied into the directory, every map is solved (and kept, so that an interrupted run
can go on), the network is written and read back, and what is certified is the network as it was
read back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reconstruct.bounds import Method
from reconstruct.certificates.certify import conclude
from reconstruct.certificates.document import Source
from reconstruct.certificates.verdicts import Certificate
from reconstruct.checkpoint import SiteStore, run_key
from reconstruct.constructions import Construction, Frozen, Wide, draw
from reconstruct.constructions.costs import cost
from reconstruct.constructions.frozen import as_construction, lay_out
from reconstruct.errors import InputError
from reconstruct.formats.onnx.write import require_writable
from reconstruct.khatri_rao import Solver, ranks
from reconstruct.khatri_rao.solve import as_solver
from reconstruct.networks import Activation, Box, LiveNorm, Network, Points
from reconstruct.networks.blocks import long_sums
from reconstruct.networks.draw import Weights
from reconstruct.numbers.given import at_least, number, precision
from reconstruct.numbers.parallel import one_blas_thread, physical_memory
from reconstruct.pipeline import Result, reconstruct, width_for
from reconstruct.progress import Progress, Step, listener, silent, until
from reconstruct.reports.document import build_report
from reconstruct.reports.folder import OutputFolder, as_output
from reconstruct.reports.measurements import ShownInputs, guard_part
from reconstruct.reports.page import card
from reconstruct.reports.words import size, verdict_line
from reconstruct.runs import files, given
from reconstruct.runs.given import Given, PathLike, Where
from reconstruct.runs.rebuild import recipe_of

logger = logging.getLogger(__name__)

Frozenlike: TypeAlias = "Frozen | Given"
DOMAIN = (-1.0, 1.0)
SETTINGS = ("ratio", "rank", "block", "layers", "norm")  # of constructions that are options, too
NO_DOMAIN = "no domain given: every claim is made on [-1, 1] for each input"
LIVE_ON_A_BOX = (
    "the target normalises values by their own mean and variance, and of that nothing is proved "
    "over a box: the verdict can only be undecided or refuted; give inputs as the domain (an .npz "
    "with x) to have it certified at these"
)


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What a run leaves behind: the result, its certificate, and the report as written."""

    result: Result
    network: Network
    certificate: Certificate
    report: Mapping[str, Any]
    output: Path

    def __repr__(self) -> str:
        return f"RunOutcome({verdict_line(self.report)}; written to {self.output})"

    def _repr_html_(self) -> str:
        return card(self.report)


def run(
    target: Given,
    output: PathLike,
    *,
    domain: Where | None = None,
    radius: float | None = None,
    slack: float | None = None,
    guard: bool = False,
    frozen: Frozenlike | None = None,
    construction: Construction | None = None,
    float32_error: float | None = None,
    seed: int | None = None,
    weights: Weights | str | None = None,
    density: float | None = None,
    activation: Activation | None = None,
    solver: Solver | None = None,
    bounds: Method | None = None,
    dtype: Any = "float64",
    samples: int | None = None,
    tolerance: float | None = None,
    memory: int | None = None,
    time_limit: float | None = None,
    nnet_header: bool = False,
    unseen: Any = None,
    examples: ShownInputs | None = None,
    force: bool = False,
    resume: bool | None = False,
    page: bool = True,
    progress: Progress = silent,
) -> RunOutcome:
    """`reconstruct run TARGET -o OUT`: reconstruct, certify, write everything into a directory.

    Networks are objects or files; the domain is a box, a pair (lo, hi), points, a file, or the
    words of the command line; methods are objects (`rc.Wide(ratio=2.0)`, `rc.Crown()`). `frozen`
    brings a frozen network; without it one is drawn as `construction`, `seed`, `weights`,
    `density` and `activation` say; with `float32_error` it is wide, and as wide as that error is
    predicted to need. `memory` is in bytes, `time_limit` in seconds: what is not solved by then is
    kept for `resume` (None: what calls this cannot go on), a certificate stays undecided; `unseen`
    are inputs besides the domain at which the guard is tried, `examples` those that the page shows
    (by default the data). Without `page` report.html is left to `rc.report`. Nothing is printed:
    `progress` hears each step.
    """
    start, home, notify = time.perf_counter(), as_output(output), listener(progress)

    # What is given becomes networks, domains and numbers; what cannot be meant is refused.
    ours = given.network(target, "the target", nnet_header, near=given.nearby(domain, radius))
    where = DOMAIN if domain is None else domain
    place = given.domain(where, ours, radius)
    given.check_numbers(samples, tolerance, time_limit, memory)
    if slack is not None and isinstance(place, Box):
        raise InputError(
            "the slack widens the ranges seen on data, but the domain is a box; leave it out"
        )
    at_least(slack, "the slack", 0)
    widened = 1.0 if slack is None else float(slack)
    kind = precision(dtype, "norms are written").name
    deadline = None if time_limit is None else start + time_limit
    limited = notify if deadline is None else until(deadline, notify)
    solving = as_solver(solver)
    forms = files.Forms(np.dtype(kind), guard or isinstance(place, Points), kind == "float32")
    others = given.unseen(unseen, where, ours)
    if others is not None and not forms.guarded:
        raise InputError(
            "x_unseen holds inputs at which the guard is tried, but this run writes none; add "
            "--guard (guard=True), or leave x_unseen out"
        )
    shown = examples or given.examples(where, place, ours)

    # The frozen network: brought, or drawn when it is known that it fits.
    drawing = {"seed": seed, "weights": weights, "density": density, "activation": activation}
    if float32_error is not None:  # as wide as the error needs
        if construction is not None or frozen is not None:
            raise InputError(
                "float32_error chooses the width of a wide construction that is drawn, but another "
                "one is given; leave `construction` and `frozen` out"
            )
        if not 0 < number(float32_error, "the float32 error") < inf:
            raise InputError(f"the float32 error must be a number above 0, but is {float32_error}")
        method = given.method(bounds, ours, kind)
        construction = Wide(width_for(ours, place, method, float32_error))
    drawn = {name: value for name, value in drawing.items() if value is not None}
    own = _frozen(ours, frozen, construction, drawn, memory, notify, limited)
    forms = replace(forms, blocks=forms.blocks or long_sums(own.network))
    method = given.method(bounds, own.network, kind)
    require_writable(own.network, kind)

    def solved(target: Network, folder: Path | None) -> Result:
        """All maps solved; each is kept as soon as it is, by rank 0."""
        return reconstruct(
            target,
            own,
            domain=place,
            slack=widened,
            solver=solving,
            bounds=method,
            dtype=forms.dtype,
            progress=limited,
            checkpoint=SiteStore(folder),
        )

    # In small networks BLAS threads wait for each other more than they work.
    one = one_blas_thread() if own.network.weights <= 2**24 else nullcontext()
    if not ranks.is_first():  # takes its part in the sums; rank 0 writes what comes of them
        with one:
            solved(ours, None)
        raise SystemExit(0)
    with one, OutputFolder(home, force=force, resume=resume, solved="site-*.npz") as folder:
        decides = {
            "target": ours.metadata.get("sha256"),
            "frozen": own.identity,
            "construction": repr(own.construction),
            "merge": own.merge,
            "domain": [part.tolist() for part in place.boxes],
            "slack": widened,
            "solver": repr(solving),
            "bounds": repr(method),
            "dtype": kind,
        }
        others_run = "run with another target, frozen network or options"
        folder.claim(run_key(decides).encode(), others_run)
        source = files.take_along(ours, given.path(target), folder, files.TARGET)
        # Nothing is left that could be refused beforehand.
        if domain is None:
            logger.warning(NO_DOMAIN)
        if place.kind != "points" and any(isinstance(node.op, LiveNorm) for node in ours.nodes):
            logger.warning(LIVE_ON_A_BOX)
        result = solved(source.network, folder.staging)
        result = files.with_headroom(result, forms, progress=notify)
        notify(Step("writing the network", 0))
        network = files.write_networks(folder.staging, result, forms)
        found = conclude(
            source.network,
            network,
            domain=result.domain,
            bounds=method,
            tolerance=tolerance,
            samples=samples,
            exact_norms=result.exact,
            bound_anyway=True,
            time_limit=None if deadline is None else max(0.0, deadline - time.perf_counter()),
            progress=notify,
            known=result.known,
        )
        notify(Step("writing the report", 0))
        guarded = widened if isinstance(place, Points) else None
        report = build_report(
            result,
            found.certificate,
            found.search,
            options={
                **given.words(target=target, output=output, domain=where),
                **given.words(radius=radius, slack=slack, guard=guard, **_drawn_words(own)),
                **given.words(solver=solving, bounds=bounds, dtype=kind, samples=samples),
                **given.words(tolerance=tolerance, memory=memory, time_limit=time_limit),
                "nnet_header": bool(ours.metadata.get("nnet_header_folded")),
            },
            seconds=time.perf_counter() - start,
            guard=guard_part(result, files.GUARDED, guarded, others) if forms.guarded else None,
            target_path=source.path_from(home),
            recipe=recipe_of(own, forms),
            examples=shown,
            blocks=forms.blocks,
        )
        pair = source, Source(network)
        files.write_documents(folder, found.certificate, pair, report, result.exact, page)
        folder.publish(earlier=files.left_behind(home))
    return RunOutcome(result, network, found.certificate, report, home)


def _frozen(
    target: Network,
    brought: Frozenlike | None,
    construction: Construction | None,
    drawn: Mapping[str, Any],
    memory: int | None,
    notify: Progress,
    limited: Progress,
) -> Frozen:
    """The frozen network: as given, of a file, or drawn.

    What is expected to take more memory than the run may take (by default all that there is) is
    refused before anything is drawn; what takes less is said.
    """
    own = brought if isinstance(brought, Frozen) else None
    chosen = as_construction(construction) if own is None else own.construction
    layout = lay_out(target, chosen) if own is None else own.layout_of(target)
    density = drawn.get("density") if own is None else own.origin.get("sparsity")
    made = layout.form.network, chosen, density, layout.plans
    limit = memory or physical_memory()
    told = given.advice(*made, limit)
    if limit is not None and (needed := cost(*made).memory_bytes) > limit:
        whose = "--memory" if memory else "all that this machine has"
        raise InputError(
            f"the run may take {size(limit)} of memory ({whose}), but is expected to take "
            f"{size(needed)}; {'' if told is None else f'{told}; '}lower --ratio, or allow more "
            f"by --memory"
        )
    if told is not None:
        notify(Step(told, 0))
    if brought is None:
        return draw(target, chosen, progress=limited, layout=layout, **drawn)
    if drawn:
        raise InputError(
            f"{next(iter(drawn))} says how to draw a frozen network, but `frozen` brings one; give "
            f"one of them"
        )
    if isinstance(brought, Frozen):
        return brought
    network = given.network(brought, "the frozen network")
    origin = {"file": network.metadata.get("file"), "file_sha256": network.metadata.get("sha256")}
    return Frozen(network, chosen, True, origin, layout)


def _drawn_words(frozen: Frozen) -> dict[str, Any]:
    """How the frozen network was made, as options; what has no words is a name in capitals."""
    origin = frozen.origin
    construction: Any = frozen.construction
    parts = fields(construction) if is_dataclass(construction) else ()
    known = {part.name: getattr(construction, part.name) for part in parts}
    settings = {name: value for name, value in known.items() if name in SETTINGS}
    usual = all(known[part.name] == part.default for part in parts if part.name not in SETTINGS)
    expressible = frozen.merge and usual and not origin.get("statistics")
    file = origin.get("file") if expressible else "FROZEN"
    if file:
        return {"frozen": file, "construction": construction.name}
    return {
        "construction": construction.name,
        **settings,
        "seed": origin.get("seed"),
        "weights": origin.get("weights"),
        "density": origin.get("sparsity"),
        "activation": origin.get("activation"),
    }
