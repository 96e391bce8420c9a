"""Networks as small directed graphs: what they are made of, how they are evaluated and drawn."""

from reconstruct.networks.activations import (
    ACTIVATIONS,
    Activation,
    Clip,
    Elu,
    LeakyRelu,
    Piece,
    Relu,
    Selu,
)
from reconstruct.networks.box import Box
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.ops import Add, Affine, Matrix, Norm, Op, Select, dense, nonzeros

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Add",
    "Affine",
    "Box",
    "Clip",
    "Elu",
    "LeakyRelu",
    "Matrix",
    "Network",
    "Node",
    "Norm",
    "Op",
    "Piece",
    "Relu",
    "Select",
    "Selu",
    "dense",
    "nonzeros",
]
