"""The JSON Schemas of report.json and certificate.json."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

NAMES = ("report", "certificate")


def schema(name: str) -> dict[str, Any]:
    """The schema of `report` or `certificate`."""
    text = files(__package__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    loaded = json.loads(text)
    assert isinstance(loaded, dict)
    return loaded
