"""Activations that are linear on a piece of the line, one file each."""

from reconstruct.networks.activations.activation import (
    Activation,
    Band,
    Curve,
    Exponential,
    Line,
    Piece,
    Support,
    Unitwise,
)
from reconstruct.networks.activations.live_norm import LayerNorm, LiveNorm, RMSNorm
from reconstruct.networks.activations.max_pool import MaxPool
from reconstruct.networks.activations.piecewise import Clip, Elu, Kink, LeakyRelu, Relu, Selu
from reconstruct.networks.activations.smooth import (
    SMOOTH,
    Gelu,
    HardSwish,
    Sigmoid,
    Silu,
    Smooth,
    Softplus,
    Tanh,
)
from reconstruct.networks.activations.softmax import Softmax
from reconstruct.networks.operation import register

register(Relu, LeakyRelu, Clip, Elu, Selu, MaxPool, Softmax, LayerNorm, RMSNorm, *SMOOTH.values())
