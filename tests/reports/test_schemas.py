"""report.json follows its schema, and the schema follows the contract."""

from __future__ import annotations

from typing import Any

import pytest

from reconstruct.reports.schemas import NAMES, schema
from tests.reports.conftest import refuted, undecided

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks the schemas")


@pytest.mark.parametrize("name", NAMES)
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
