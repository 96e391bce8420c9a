"""Networks as small directed graphs: what they are made of, how they are evaluated and drawn."""

from reconstruct.networks.activations import (
    Activation,
    Clip,
    Elu,
    LayerNorm,
    LeakyRelu,
    LiveNorm,
    MaxPool,
    Piece,
    Relu,
    RMSNorm,
    Selu,
    Softmax,
    Unitwise,
)
from reconstruct.networks.blocks import in_blocks
from reconstruct.networks.domain import Box, Domain, DomainLike, Points, as_domain
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import (
    Affine,
    Cast,
    Convolution,
    Dense,
    Diagonal,
    Geometry,
    Map,
    Mixing,
    Norm,
    Placement,
    Scaling,
    Select,
    Sparse,
    SumPool,
)
from reconstruct.networks.operation import Add, MatrixProduct, Operation
from reconstruct.numbers.arrays import Matrix, dense, nonzeros
