"""Make the JSON Schema of a report from its model.

    python -m tests.helpers.report_schema

prints it anew; the file that ships is the same. What pydantic makes of the same model differs from
version to version, so what is equal in meaning is brought to one form, and the file stays the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from pytest_failure_taxonomy.report.build import SCHEMA_ID
from pytest_failure_taxonomy.report.model import FailureReport

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FILE_NAME: Final = "failure-report-1.2.schema.json"
TITLE: Final = "Failure report"

JSONSchema = dict[str, Any]

_KEYWORDS: Final = (
    *(
        "$schema",
        "$id",
        "$ref",
        "title",
        "description",
        "type",
        "const",
        "enum",
        "pattern",
    ),
    *(
        "format",
        "minLength",
        "minimum",
        "maximum",
        "anyOf",
        "prefixItems",
        "items",
        "minItems",
    ),
    *("maxItems", "properties", "required", "additionalProperties", "$defs"),
)
"""In the order in which they are written. A keyword that is not here has yet to be thought of, in
`_normalise_value` too, and makes a ValueError."""


def report_json_schema() -> JSONSchema:
    """Make the JSON Schema of a report from its model.

    Returns:
        a schema of draft 2020-12, which describes what is written: every key is required.
    """
    made = FailureReport.model_json_schema(by_alias=True, mode="serialization")
    named = {**_normalise(made), "$schema": DIALECT, "$id": SCHEMA_ID, "title": TITLE}
    return _in_order(named)


def packaged_schema() -> JSONSchema:
    """Read the JSON Schema that ships with this package."""
    text = (
        files("pytest_failure_taxonomy.report").joinpath(FILE_NAME).read_text("utf-8")
    )
    schema: JSONSchema = json.loads(text)
    return schema


def render_schema(schema: Mapping[str, Any]) -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema, indent=2) + "\n"


def _normalise(schema: JSONSchema) -> JSONSchema:
    """Bring a schema, and all schemas in it, to the one form."""
    one = {
        key: value for key, value in schema.items() if key not in ("title", "default")
    }
    if (
        len(one.get("allOf", [])) == 1
    ):  # pydantic before 2.9: a reference with a description
        one.update(one.pop("allOf")[0])
    if "const" in one:  # before 2.10: an enum of one beside it
        one.pop("enum", None)
    if one.get("type") == "object":  # before 2.11: left out, being the default
        one.setdefault("additionalProperties", True)
    for bound in {"minimum", "maximum"} & one.keys():  # before 2.11: 0.0 for a number
        one[bound] = int(one[bound])
    if "properties" in one:  # what a constructor may leave out is written all the same
        one["required"] = list(one["properties"])
    if "description" in one:
        one["description"] = " ".join(one["description"].split())
    return _in_order({key: _normalise_value(key, value) for key, value in one.items()})


def _normalise_value(keyword: str, value: Any) -> Any:
    if keyword in ("properties", "$defs"):
        return {name: _normalise(each) for name, each in value.items()}
    if keyword in ("anyOf", "prefixItems"):
        return [_normalise(each) for each in value]
    if keyword in ("items", "additionalProperties") and isinstance(value, dict):
        return _normalise(value)
    return value


def _in_order(schema: JSONSchema) -> JSONSchema:
    return dict(sorted(schema.items(), key=lambda pair: _KEYWORDS.index(pair[0])))


if __name__ == "__main__":
    sys.stdout.write(render_schema(report_json_schema()))
