"""Small modules with drawn statistics, in float64 unless said otherwise."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


def drawn(module, seed=0):
    """The module in evaluation mode with every norm's numbers drawn."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            size = layer.num_features
            with torch.no_grad():
                if layer.affine:
                    layer.weight.copy_(torch.randn(size, generator=generator))
                    layer.bias.copy_(torch.randn(size, generator=generator))
                layer.running_mean.copy_(torch.randn(size, generator=generator))
                layer.running_var.copy_(torch.rand(size, generator=generator) + 1e-4)
    return module.double().eval()


class Residual(nn.Module):
    """Blocks, sums, in-place activations, a shape taken from the input, a product with a matrix."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(5, 7)
        self.norm1 = nn.BatchNorm1d(7)
        self.inner = nn.Sequential(nn.Linear(7, 7, bias=False), nn.BatchNorm1d(7), nn.ReLU(True))
        self.matrix = nn.Parameter(torch.randn(3, 7))

    def forward(self, x):
        h = functional.relu_(self.norm1(self.enter(x)))
        h = h + self.inner(h)
        h += 0.25
        return (h.view(h.size(0), -1) - 1.5) @ self.matrix.t() / 3


ACTIVATIONS = {
    "relu": nn.ReLU(),
    "relu in place": nn.ReLU(True),
    "relu6": nn.ReLU6(),
    "hardtanh": nn.Hardtanh(-0.3, 0.7),
    "leaky": nn.LeakyReLU(0.1),
    "prelu": nn.PReLU(),
    "elu": nn.ELU(0.7),
    "selu": nn.SELU(),
    "dropout": nn.Dropout(0.5),
}


def with_activation(activation):
    torch.manual_seed(0)
    return drawn(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), activation, nn.Linear(6, 2)))
