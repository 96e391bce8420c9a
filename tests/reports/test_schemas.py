"""report.json follows its schema, and the schema follows the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.networks import (
    Affine,
    Mixing,
    Network,
)
from reconstruct.reports.document import SCHEMAS, schema
from tests.reports.conftest import refuted, small_target, undecided

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks the schemas")


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("change", [lambda r: r, refuted, undecided])
def test_reports_follow_the_schema(report: dict[str, Any], change: Any) -> None:
    jsonschema.validate(change(report), schema("report"))


@pytest.mark.parametrize("key", ["verdict", "error", "layers", "domain", "environment"])
def test_a_report_without_a_part_is_refused(report: dict[str, Any], key: str) -> None:
    del report[key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema("report"))


def test_every_field_of_a_report_is_described(report: dict[str, Any]) -> None:
    described = schema("report")["properties"]
    assert set(report) <= set(described)
    assert set(report["layers"][0]) <= set(described["layers"]["items"]["properties"])
    assert set(report["error"]) == set(described["error"]["properties"])


def changed(network: Network, amount: float) -> Network:
    """The network with one bias of its last map raised."""
    last = network.mixing_nodes()[-1]
    assert isinstance(last.op, Mixing)
    bias = last.op.bias + np.eye(network.size_out)[0] * amount
    return network.with_ops({last.name: Affine(last.op.weight, bias)})


@pytest.mark.parametrize(
    "verdict, tolerance, code",
    [("certified", "0.1", 0), ("refuted", "0.001", 1), ("undecided", "0.0625", 3)],
)
def test_files_of_every_verdict(tmp_path: Path, verdict: str, tolerance: str, code: int) -> None:
    target = small_target()
    rc.save(target, tmp_path / "g.npz")
    rc.save(changed(target, 0.0625), tmp_path / "f.npz")
    out = tmp_path / "out"
    files = [str(tmp_path / "g.npz"), str(tmp_path / "f.npz")]
    words = ["verify", *files, "--domain", "-1,1", "-o", str(out), "--tolerance", tolerance]
    assert main([*words, "--time-limit", "2", "--samples", "500", "--quiet", "--json"]) == code
    for name in SCHEMAS:
        document = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        assert document["verdict"] == verdict
        jsonschema.validate(document, schema(name))
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f'class="verdict {verdict}"' in page
    assert ('id="witness"' in page) == (verdict == "refuted")


def test_certificate_of_an_exact_run(tmp_path: Path) -> None:
    target = rc.Network.mlp([np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[1.0, 0.25]])])
    rc.save(target, tmp_path / "g.npz")
    out = tmp_path / "out"
    words = ["run", str(tmp_path / "g.npz"), "-o", str(out), "--domain", "-1,1"]
    assert main([*words, "--solver", "exact", "--samples", "100", "--quiet"]) == 0
    for name in SCHEMAS:
        document = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        jsonschema.validate(document, schema(name))
    assert document["exact_identity"] is True and document["exact_norms"]
    assert "identical on this domain" in (out / "report.html").read_text(encoding="utf-8")
