"""Linear maps, one file each."""

from reconstruct.networks.maps.convolution import Convolution, Geometry, SumPool
from reconstruct.networks.maps.diagonal import Cast, Diagonal, Scaling
from reconstruct.networks.maps.map import Map, RoundingError
from reconstruct.networks.maps.mixing import Affine, Dense, Mixing, Sparse
from reconstruct.networks.maps.norm import UNIT_EPS, Norm
from reconstruct.networks.maps.placement import Picking, Placement, Select
