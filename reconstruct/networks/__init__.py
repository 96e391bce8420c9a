"""Networks as small directed graphs: what they are made of, how they are evaluated and drawn."""

from reconstruct.networks.activations import (
    Activation,
    Clip,
    Elu,
    Kink,
    LeakyRelu,
    Piece,
    Relu,
    Selu,
)
from reconstruct.networks.box import Box
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import (
    Affine,
    Dense,
    Diagonal,
    Map,
    Mixing,
    Norm,
    Scaling,
    Select,
    Sparse,
)
from reconstruct.networks.operation import Operation
from reconstruct.networks.sums import Add
from reconstruct.numbers.arrays import Matrix, dense, nonzeros

__all__ = [
    "Activation",
    "Add",
    "Affine",
    "Box",
    "Clip",
    "Dense",
    "Diagonal",
    "Elu",
    "Kink",
    "LeakyRelu",
    "Map",
    "Matrix",
    "Mixing",
    "Network",
    "Node",
    "Norm",
    "Operation",
    "Piece",
    "Relu",
    "Scaling",
    "Select",
    "Selu",
    "Sparse",
    "dense",
    "nonzeros",
]
