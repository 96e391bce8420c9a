"""Exact proofs that the systems of a reconstruction are non-singular, for whoever asks."""

from __future__ import annotations

from reconstruct.constructions.frozen import Frozen
from reconstruct.constructions.sites import find_sites
from reconstruct.constructions.wide import pair_of
from reconstruct.khatri_rao import RankProof, prove_full_rank
from reconstruct.networks.normal_form import NormalForm


def prove_ranks(form: NormalForm, frozen: Frozen) -> tuple[RankProof | None, ...]:
    """One proof for each linear system, in the order in which the construction solves them.

    Only systems made of frozen weights alone have one: in the deep construction the systems
    hold products of solved gammas, and their proofs are None.
    """
    proofs: list[RankProof | None] = []
    for site in find_sites(form.network, frozen.network, frozen.construction):
        entries = [layer for layer in site.layers if layer.entry is not None]
        if frozen.construction.name == "deep":
            proofs += [None] * len(entries)
            continue
        for first, second in zip(site.layers[::2], site.layers[1::2], strict=True):
            pair = pair_of(frozen.network, first, second)
            proofs.append(prove_full_rank(pair.first.matrix, pair.second.matrix))
    return tuple(proofs)
