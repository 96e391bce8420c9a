"""What a network does otherwise than its target in front of each cut: maps, not only their sizes.

With h the target's values at the cuts and h' = h + δ the candidate's, A and A' their maps from cut
to cut, c and c' their constants,

    z' − z = A' δ + (A' − A) h + (c' − c).

Both matrices are known to about 2^-100; the recursion through absolute values, `carrying` and
`difference` make different use of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.arithmetic import Rigorous
from reconstruct.certificates.error_recursion import Layered
from reconstruct.certificates.views import Form, merge
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Network
from reconstruct.numbers.double_double import Enclosure


@dataclass(frozen=True, eq=False)
class Gap:
    """In front of the target's cut `name` ("" at the output), whose activation `op` (None: a sum)
    takes the value `inside`: A' as `theirs`, (A' − A) as `apart`, both by source, and c' − c."""

    name: str
    inside: str
    op: Activation | None
    theirs: tuple[tuple[str, Enclosure], ...]
    apart: tuple[tuple[str, Enclosure], ...]
    constant: Enclosure

    @property
    def units(self) -> int:
        return self.constant.shape[0]


def gaps(
    target: Network, candidate: Network, alignment: Alignment, layered: Layered
) -> tuple[Gap, ...]:
    """The gaps in the order of the target, the output's last.

    Refuses what is not matrices between whole values, or bends otherwise than unit by unit.
    """
    order = {node.name: place for place, node in enumerate(target.nodes)}
    found = []
    for ours, theirs in sorted(alignment.pairs, key=lambda pair: order[pair[0]]):
        op = layered.arrivals[ours].op
        if op is None:
            pair = layered.own.own(ours), layered.composites.own(theirs)
            found.append(_gap(ours, ours, None, *pair))
            continue
        inside, other = target.node(ours).inputs[0], candidate.node(theirs).inputs[0]
        pair = layered.own.form(inside), layered.composites.form(other)
        found.append(_gap(ours, inside, op, *pair))
    end = layered.own.form(target.output), layered.composites.form(candidate.output)
    steps = (*found, _gap("", target.output, None, *end))
    _check_order(target, steps)
    return steps


def _check_order(target: Network, steps: tuple[Gap, ...]) -> None:
    """Every source has to come before what is made of it, in the order of the target."""
    seen = {target.source}
    for step in steps:
        late = {source for source, _ in (*step.apart, *step.theirs)} - seen
        if late:
            raise UnsupportedError(f"the cuts are in another order: {min(late)!r} comes too late")
        seen.add(step.name)


def _gap(
    name: str,
    inside: str,
    op: Activation | None,
    ours: Form[Enclosure],
    theirs: Form[Enclosure],
) -> Gap:
    whole = all(view.index is None for form in (ours, theirs) for view in form.layout)
    alone = ours.positions == theirs.positions == 1
    if not (whole and alone and (op is None or op.unitwise)):
        raise UnsupportedError(
            f"differences with their signs need matrices in front of {name or 'the output'!r} and "
            f"an activation that acts unit by unit"
        )
    first, second = merge(Rigorous(), ours, theirs)
    apart = Form(first.layout, second.matrix - first.matrix)
    return Gap(
        name,
        inside,
        op,
        tuple((view.source, matrix) for view, matrix in second.parts()),
        tuple((view.source, matrix) for view, matrix in apart.parts()),
        apart.constant,
    )
