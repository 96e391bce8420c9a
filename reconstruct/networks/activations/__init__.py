"""Activations that are linear on a piece of the line, one file each."""

from reconstruct.networks.activations.activation import (
    TIE,
    Activation,
    Band,
    Exponential,
    Line,
    Piece,
    Support,
    Unitwise,
)
from reconstruct.networks.activations.clip import Clip
from reconstruct.networks.activations.elu import Elu, Selu
from reconstruct.networks.activations.kink import Kink, LeakyRelu, Relu
from reconstruct.networks.activations.max_pool import MaxPool

__all__ = [
    "TIE",
    "Activation",
    "Band",
    "Clip",
    "Elu",
    "Exponential",
    "Kink",
    "LeakyRelu",
    "Line",
    "MaxPool",
    "Piece",
    "Relu",
    "Selu",
    "Support",
    "Unitwise",
]
