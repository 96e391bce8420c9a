"""Images that a script makes: seeded, structured, labelled by the network that they are for."""

from __future__ import annotations

import numpy as np

from benchmarks.images import images, normalised, write
from reconstruct.formats import load_domain
from reconstruct.networks import Points
from tests.networks.test_images import small_network


def test_images_are_seeded_and_the_first_stay_when_more_are_made():
    few, more = images(2, (3, 16, 16), 5), images(4, (3, 16, 16), 5)
    assert np.array_equal(few, more[:2]) and not np.array_equal(more[2], more[3])
    assert not np.array_equal(few, images(2, (3, 16, 16), 6))
    assert few.min() >= 0 and few.max() <= 1 and few.std() > 0.05


def test_images_have_structure_and_not_only_noise():
    """Neighbouring pixels are alike, and edges are there: noise has neither."""
    steps = np.abs(np.diff(images(8, (3, 32, 32), 0), axis=-1))
    assert np.median(steps) < 0.06 and (steps > 0.2).mean() > 0.002


def test_normalised_images_are_float32_numbers():
    x = normalised(images(1, (3, 8, 8), 0))
    assert np.array_equal(x, x.astype(np.float32))


def test_the_file_is_a_domain_with_the_networks_own_classes(tmp_path):
    network = small_network()
    shaped = type(network)(
        network.size_in,
        network.nodes,
        network.output,
        network.source,
        {"input_shape": [1, 2, 6, 6]},
    )
    path = write(tmp_path / "x.npz", shaped, 5, 0)
    domain = load_domain(path, 72)
    assert isinstance(domain, Points) and len(domain) == 5 and domain.shape == (2, 6, 6)
    with np.load(path) as data:
        assert np.array_equal(data["y"], network(domain.x).argmax(axis=1))
