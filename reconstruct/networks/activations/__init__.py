"""Activations that are linear on a piece of the line, one file each."""

from reconstruct.networks.activations.activation import (
    TIE,
    Activation,
    Band,
    Curve,
    Exponential,
    Line,
    Piece,
    Support,
    Unitwise,
)
from reconstruct.networks.activations.clip import Clip
from reconstruct.networks.activations.elu import Elu, Selu
from reconstruct.networks.activations.kink import Kink, LeakyRelu, Relu
from reconstruct.networks.activations.live_norm import LayerNorm, LiveNorm, RMSNorm
from reconstruct.networks.activations.max_pool import MaxPool
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
