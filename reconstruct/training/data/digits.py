"""scikit-learn's handwritten digits: 1,797 images of 8 × 8 pixels that come with the package."""

from __future__ import annotations

from reconstruct.demo import PIXEL_MAX
from reconstruct.errors import MissingDependencyError
from reconstruct.training.data.dataset import Dataset, split

CLASSES = 10
SIDE = 8


def digits() -> Dataset:
    """The digits as images of one channel with values in [0, 1], a quarter kept for testing.

    The split is that of the shipped digits network, whose test images are therefore unseen here
    too.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingDependencyError("scikit-learn", "torch", "loading the digits") from None
    images, labels = load_digits(return_X_y=True)
    return split("digits", images.reshape(-1, 1, SIDE, SIDE) / PIXEL_MAX, labels, CLASSES)
