"""Drawings read back: a PNG without the code that wrote it, the words of an SVG in their places."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.reports.plots.words import width

SVG = "{http://www.w3.org/2000/svg}"
ASCENT, DESCENT = 0.75, 0.22  # of a line of text, in units of its size


def decoded(content: bytes) -> Array:
    """Height × width × channels of a PNG whose lines are not filtered, every checksum checked."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        name, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + size]
        (told,) = struct.unpack(">I", content[place + 8 + size : place + 12 + size])
        assert zlib.crc32(name + body) == told
        chunks[name], place = body, place + 12 + size
    across, down, depth, kind, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert depth == 8 and rest == [0, 0, 0] and chunks[b"IEND"] == b""
    channels = {0: 1, 2: 3}[kind]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8)
    lines = lines.reshape(down, 1 + across * channels)
    assert not lines[:, 0].any()  # filter 0: the levels themselves
    return lines[:, 1:].reshape(down, across, channels)


@dataclass(frozen=True)
class Words:
    """A piece of text, and the box that it fills by the estimate of its width."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def touches(self, other: Words) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def view_box(root: ET.Element) -> list[float]:
    return [float(number) for number in root.attrib["viewBox"].split()]


def words(root: ET.Element) -> list[Words]:
    """All text of the drawing but its title."""
    return list(_words(root, 10.0, "start"))


def _words(node: ET.Element, size: float, anchor: str) -> Iterator[Words]:
    size = float(node.attrib.get("font-size", size))
    anchor = node.attrib.get("text-anchor", anchor)
    if node.tag == f"{SVG}text":
        yield _box(node, size, anchor)
    for child in node:
        yield from _words(child, size, anchor)


def _box(node: ET.Element, size: float, anchor: str) -> Words:
    text = node.text or ""
    long = width(text, size)
    start = {"start": 0.0, "middle": -long / 2, "end": -long}[anchor]
    turned = re.fullmatch(
        r"translate\((\S+) (\S+)\)rotate\(-90\)", node.attrib.get("transform", "")
    )
    if turned:
        x, y = float(turned[1]), float(turned[2])
        return Words(text, x - ASCENT * size, y - start - long, x + DESCENT * size, y - start)
    x, y = float(node.attrib["x"]), float(node.attrib["y"])
    return Words(text, x + start, y - ASCENT * size, x + start + long, y + DESCENT * size)


def paths(root: ET.Element, colour: str) -> list[str]:
    """The path data of everything in a colour, filled or stroked."""
    return [
        node.attrib["d"]
        for node in root.iter(f"{SVG}path")
        if colour in (node.attrib.get("fill"), node.attrib.get("stroke"))
    ]


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]
