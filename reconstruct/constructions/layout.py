"""What a target becomes in a construction, map by map: made once and carried along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from reconstruct.constructions.blueprint import Blueprint
from reconstruct.constructions.construction import Construction, SitePlan
from reconstruct.constructions.nodes import mixing_at
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Add, Map, Network
from reconstruct.networks.normal_form import NormalForm, normal_form, rebuilt_nodes
from reconstruct.numbers.arrays import Array


@dataclass(frozen=True, eq=False)
class Layout:
    """The target in normal form, and the plan of each of its maps by name.

    Sums and activations stand in the frozen network where they stand in the target. `scaled` is the
    target with units scaled as in the form: bounds are of it, because a certificate speaks of the
    target's own maps, and bounds of merged ones need not be within them. `lifts` are powers of two
    by map: its rows are solved for times these, and the site's last norm takes them back.
    """

    target: Network
    scaled: Network
    form: NormalForm
    plans: Mapping[str, SitePlan]
    lifts: Mapping[str, Array] = field(default_factory=dict)

    @property
    def blueprints(self) -> dict[str, Blueprint]:
        return {name: plan.blueprint for name, plan in self.plans.items()}


def lay_out(target: Network, construction: Construction, *, merge: bool = True) -> Layout:
    """Refuse a target that cannot be rebuilt, and plan each of its maps."""
    form = normal_form(target, merge=merge)
    check_target(form.network)
    return Layout(target, target, form, plans_of(form.network, construction))


def plans_of(form: Network, construction: Construction) -> dict[str, SitePlan]:
    """The plan of each map of a network in normal form."""
    return {
        node.name: construction.plan(mixing_at(form, node.name)) for node in rebuilt_nodes(form)
    }


def check_target(network: Network) -> None:
    """Refuse what no error bound passes: activations that are not Lipschitz, unknown operations."""
    for node in network.nodes:
        if isinstance(node.op, Activation) and not isfinite(node.op.lipschitz):
            raise UnsupportedError(
                f"node {node.name!r} of the target is a {type(node.op).__name__}, whose slope has "
                f"no bound; an activation that stands in the frozen network as in the target needs "
                f"one, so that errors before it stay bounded behind it"
            )
        if not isinstance(node.op, Map | Activation | Add):
            raise UnsupportedError(
                f"node {node.name!r} of the target is a {type(node.op).__name__}, but only maps, "
                f"sums and activations can be rebuilt"
            )
