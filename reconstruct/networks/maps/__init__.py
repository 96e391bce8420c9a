"""Linear maps, one file each."""

from reconstruct.networks.maps.cast import Cast
from reconstruct.networks.maps.convolution import Convolution, Geometry, SumPool
from reconstruct.networks.maps.dense import Affine, Dense, Sparse
from reconstruct.networks.maps.diagonal import Diagonal
from reconstruct.networks.maps.map import Map, RoundingError
from reconstruct.networks.maps.mixing import Mixing
from reconstruct.networks.maps.norm import UNIT_EPS, Norm
from reconstruct.networks.maps.placement import Picking, Placement, Select
from reconstruct.networks.maps.scaling import Scaling
