"""Colours for the values of a picture: from dark violet over green to light yellow.

Lightness rises evenly, so a picture reads in grey too. The path runs through the space OKLab of
Björn Ottosson, in which equal steps look equal; the matrices are his.
"""

from __future__ import annotations

import numpy as np

from reconstruct.numbers.arrays import Array

TO_CONES = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
TO_LIGHT = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
DARK, LIGHT = 0.29, 0.92  # lightness at both ends
VIOLET, YELLOW = 5.3, 1.85  # hues at both ends, radians
DULL, BRIGHT = 0.115, 0.165  # chroma at the dark and at the light end


def colours(share: Array) -> Array:
    """Red, green and blue of 0 … 255 along the last axis, for shares from 0 to 1."""
    t = np.clip(share, 0.0, 1.0)[..., None]
    chroma = DULL + (BRIGHT - DULL) * t
    hue = VIOLET + (YELLOW - VIOLET) * t
    lab = np.concatenate(
        [DARK + (LIGHT - DARK) * t, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1
    )
    light = np.clip((lab @ TO_CONES.T) ** 3 @ TO_LIGHT.T, 0.0, 1.0)
    shown = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.asarray(np.round(255 * shown), dtype=np.uint8)


def greys(share: Array) -> Array:
    """White for 0, black for 1."""
    level = np.round(255 * (1.0 - np.clip(share, 0.0, 1.0))).astype(np.uint8)
    return np.repeat(level[..., None], 3, axis=-1)
