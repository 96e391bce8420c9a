"""Convolutions rebuilt by frozen convolutions: geometry, groups, data domains, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.bounds import Crown
from reconstruct.constructions.costs import cost
from reconstruct.constructions.scaling import LIMITS
from reconstruct.errors import InputError
from reconstruct.networks import Box, Convolution, Geometry, Network, Node, Points, Relu
from reconstruct.pipeline import width_for
from tests.networks.test_images import small_network

CONSTRUCTIONS = [rc.Wide(), rc.Factored(), rc.Deep(), rc.Stacked(), rc.Fitted()]
GEOMETRIES = {
    "padded": (Geometry(2, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1)), 1),
    "stride 2": (Geometry(2, 6, 5, (3, 3), (2, 2), (1, 1, 1, 1)), 1),
    "dilation 2": (Geometry(2, 6, 6, (2, 2), (1, 1), (0, 0, 0, 0), (2, 2)), 1),
    "pads on one side": (Geometry(2, 5, 5, (2, 3), (1, 1), (1, 0, 0, 2)), 1),
    "1×1": (Geometry(3, 4, 4, (1, 1)), 1),
    "two groups": (Geometry(4, 4, 4, (2, 2)), 2),
    "one position": (Geometry(2, 3, 3, (2, 2), (2, 2)), 1),
    "one position, two groups": (Geometry(4, 3, 3, (3, 3)), 2),
    "depthwise": (Geometry(4, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1)), 4),
}


def one_convolution(name: str) -> Network:
    geometry, groups = GEOMETRIES[name]
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(4, geometry.channels // groups, *geometry.kernel))
    op = Convolution(kernel, geometry, rng.normal(size=4), groups)
    return Network(geometry.size, (Node("c", op, ("x",)), Node("r", Relu(), ("c",))), "r", "x")


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_frozen_pair_of_convolutions_becomes_the_targets(name):
    target = one_convolution(name)
    result = rc.reconstruct(target, rc.draw(target, seed=3), domain=Box(-1, 1))
    assert result.status.value == "solved"
    assert len(result.layers) == GEOMETRIES[name][1]
    x = np.random.default_rng(1).uniform(-1, 1, (20, target.size_in))
    assert np.abs(result.network(x) - target(x)).max() <= 1e-11


def test_the_width_for_a_float32_error_passes_over_pools():
    """The sum over each window has no width of its own, whatever its positions."""
    target, box = small_network(), Box(-0.3, 0.4)
    ratio = width_for(target, box, Crown(), 1e-3)
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(ratio)), domain=box)
    x = box.of_size(72).sample(500, np.random.default_rng(0)).astype(np.float32)
    gap = np.abs(result.network(x, np.float32).astype(float) - target(x.astype(float)))
    assert ratio == LIMITS.ratios[0] and gap.max() <= 1e-3


def test_the_same_as_the_unrolled_network_through_the_dense_path():
    target = one_convolution("padded")
    conv = target.node("c").op
    assert isinstance(conv, Convolution)
    flat = Network.mlp([conv.tile(0, conv.shape[0])], [conv.bias], final_activation=True)
    by_image = rc.reconstruct(target, rc.draw(target, seed=0), domain=Box(-1, 1)).network
    by_matrix = rc.reconstruct(flat, rc.draw(flat, seed=0), domain=Box(-1, 1)).network
    x = np.random.default_rng(2).uniform(-1, 1, (5, target.size_in))
    assert np.abs(by_image(x) - by_matrix(x)).max() <= 1e-9
    assert by_image.tunable < by_matrix.tunable / 20


@pytest.mark.parametrize("domain", [Box(-0.3, 0.4), Points(np.full((3, 72), 0.2), 0.1)], ids=repr)
def test_pools_placements_and_norms_stand_where_they_stood(domain):
    target = small_network()
    result = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain)
    x = domain.of_size(72).sample(30, np.random.default_rng(0))
    assert np.abs(result.network(x) - target(x)).max() <= 1e-11
    kinds = [n.op.kind for n in result.network.nodes]
    assert kinds.count("MaxPool") == kinds.count("SumPool") == kinds.count("Placement") == 1


@pytest.mark.parametrize("name", ["padded", "stride 2", "one position"])
def test_a_deep_site_takes_patches_in_block_by_block(name):
    target = one_convolution(name)
    frozen = rc.draw(target, rc.Deep(block=5), seed=3)
    result = rc.reconstruct(target, frozen, domain=Box(-1, 1))
    cols = target.node("c").op.kernels[0].shape[1]
    assert result.status.value == "solved" and len(result.layers) == -(-cols // 5)
    x = np.random.default_rng(1).uniform(-1, 1, (20, target.size_in))
    assert np.abs(result.network(x) - target(x)).max() <= 1e-10


def test_a_rank_that_was_chosen_leaves_out_what_each_group_has_beyond_it():
    target = one_convolution("two groups")
    frozen = rc.draw(target, rc.Factored(rank=1), seed=3)
    result = rc.reconstruct(target, frozen, domain=Box(-1, 1))
    x = np.random.default_rng(1).uniform(-1, 1, (20, target.size_in))
    gap = np.abs(result.network(x) - target(x)).max()
    kernels = target.node("c").op.kernels
    parts = [np.linalg.svd(W) for W in kernels]
    nearest = [np.outer(u[:, 0] * s[0], vt[0]).reshape(2, 2, 2, 2) for u, s, vt in parts]
    op = target.node("c").op
    other = Convolution(np.concatenate(nearest), op.geometry, op.offsets, 2)
    assert gap > 0.1 and result.status.value == "solved"
    assert np.abs(result.network(x) - target.with_ops({"c": other})(x)).max() <= 1e-10


@pytest.mark.parametrize("construction", CONSTRUCTIONS, ids=lambda c: c.name)
def test_weights_of_groups_are_counted_as_they_are_drawn(construction):
    target = one_convolution("two groups")
    drawn = rc.draw(target, construction).network
    assert cost(target, construction).weights == sum(n.op.nonzeros for n in drawn.nodes)


@pytest.mark.parametrize("name", ["two groups", "depthwise"])
@pytest.mark.parametrize("construction", [rc.Deep(block=5), rc.Stacked()], ids=lambda c: c.name)
def test_each_group_is_a_chain_of_its_own(construction, name):
    target, groups = one_convolution(name), GEOMETRIES[name][1]
    result = rc.reconstruct(target, rc.draw(target, construction, seed=3), domain=Box(-1, 1))
    assert result.status.value == "solved"
    systems = groups * (2 if construction.name == "deep" else 1)
    assert len(result.layers) == len(result.prove_ranks()) == systems
    x = np.random.default_rng(1).uniform(-1, 1, (20, target.size_in))
    assert np.abs(result.network(x) - target(x)).max() <= 1e-10


def test_a_deep_site_whose_kernels_see_more_than_their_block_is_refused():
    target = one_convolution("one position")
    drawn = rc.draw(target, rc.Deep(block=5), seed=3)
    second = drawn.network.node("c.A2").op
    kernel = second.kernel.copy()
    kernel[0, 0, 0, 0] = 1.0  # of the first block
    other = drawn.network.with_ops({"c.A2": Convolution(kernel, second.geometry)})
    with pytest.raises(InputError, match=r"inputs 5 to 7 .* zero at the others"):
        rc.reconstruct(target, replace(drawn, network=other), domain=Box(-1, 1))


@pytest.mark.parametrize("construction", CONSTRUCTIONS, ids=lambda c: c.name)
def test_a_second_convolution_with_padding_is_refused_by_name(construction):
    target = one_convolution("padded")
    drawn = rc.draw(target, construction, seed=0)
    frozen = drawn.network
    second = frozen.node("c.M2").op
    assert isinstance(second, Convolution)
    wide = Geometry(second.geometry.channels, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1))
    kernel = np.zeros((len(second.kernel), wide.channels, 3, 3))
    kernel[:, :, 1:2, 1:2] = second.kernel
    broken = frozen.with_ops({"c.M2": Convolution(kernel, wide)})
    with pytest.raises(InputError, match="cut off the shift at the border"):
        rc.reconstruct(target, replace(drawn, network=broken), domain=Box(-1, 1))


def test_a_frozen_convolution_of_another_geometry_is_refused():
    target = one_convolution("padded")
    other = rc.draw(one_convolution("stride 2"), seed=0).network
    with pytest.raises(InputError, match="as many inputs as the target"):
        rc.reconstruct(target, other, domain=Box(-1, 1))


def test_a_frozen_convolution_that_moves_otherwise_is_refused_with_both_geometries():
    target = one_convolution("padded")
    frozen = rc.draw(target, seed=0).network
    first = frozen.node("c.M1").op
    assert isinstance(first, Convolution)
    tall = replace(first.geometry, kernel=(1, 3), pads=(0, 1, 0, 1))
    broken = frozen.with_ops({"c.M1": Convolution(first.kernel[:, :, 1:2], tall)})
    needle = (
        r"3×3 kernel on 2×5×5 with strides 1×1, pads \(1, 1, 1, 1\) and dilations 1×1 in 1 group, "
        r"but the frozen network has a 1×3 kernel .* pads \(0, 1, 0, 1\) .* in 1 group; give"
    )
    with pytest.raises(InputError, match=needle):
        rc.reconstruct(target, broken, domain=Box(-1, 1))
