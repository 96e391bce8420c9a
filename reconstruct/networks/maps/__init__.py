"""Linear maps, one file for each structure."""

from reconstruct.networks.maps.convolution import Convolution, Geometry, SumPool
from reconstruct.networks.maps.diagonal import Cast, Diagonal, Norm, Scaling
from reconstruct.networks.maps.map import Map
from reconstruct.networks.maps.mixing import Affine, Dense, Mixing, Sparse
from reconstruct.networks.maps.placement import Picking, Placement, Select
from reconstruct.networks.operation import register

register(Dense, Norm, Scaling, Cast, Convolution, SumPool, Placement, Select)
