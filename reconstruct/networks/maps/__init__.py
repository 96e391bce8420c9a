"""Linear maps, one file each."""

from reconstruct.networks.maps.convolution import Convolution, Geometry
from reconstruct.networks.maps.dense import Dense
from reconstruct.networks.maps.diagonal import Diagonal
from reconstruct.networks.maps.map import Loss, Map
from reconstruct.networks.maps.mixing import Mixing
from reconstruct.networks.maps.norm import UNIT_EPS, Norm
from reconstruct.networks.maps.placement import Placement
from reconstruct.networks.maps.pooling import SumPool
from reconstruct.networks.maps.scaling import Scaling
from reconstruct.networks.maps.selection import Select
from reconstruct.networks.maps.sparse import Affine, Sparse

__all__ = [
    "UNIT_EPS",
    "Affine",
    "Convolution",
    "Dense",
    "Diagonal",
    "Geometry",
    "Loss",
    "Map",
    "Mixing",
    "Norm",
    "Placement",
    "Scaling",
    "Select",
    "Sparse",
    "SumPool",
]
