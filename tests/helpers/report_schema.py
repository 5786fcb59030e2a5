"""Make the JSON Schema of a report from its values.

    python -m tests.helpers.report_schema

prints it anew; the file that ships is the same. Annotations give the types and bounds, and
docstrings the descriptions. A bench has models of its own, of pydantic: what pydantic makes
of them differs from version to version, so what is equal in meaning is brought to one form.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.report.model import (
    KEYS,
    PUBLISHED,
    SCHEMA_ID,
    SCHEMA_VERSION,
    FailureReport,
)
from pytest_failure_taxonomy.taxonomy.values import DATE_TIME, Bounds, Pattern

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FILE_NAME: Final = f"failure-report-{SCHEMA_VERSION}.schema.json"
TITLE: Final = "Failure report"

JSONSchema = dict[str, Any]

_BENCH: Final = "BenchRunReport"
_OF_BENCH: Final = ("bench", "bench_shards")
_PLAIN: Final[Mapping[Any, JSONSchema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    Any: {},
}
_KEYWORDS: Final = (
    *("$schema", "$id", "$ref", "title", "description", "type", "const", "enum"),
    *("pattern", "format", "minLength", "minimum", "maximum", "anyOf", "prefixItems"),
    *("items", "minItems", "maxItems", "properties", "required"),
    *("additionalProperties", "$defs"),
)
"""In the order in which they are written. A keyword that is not here has yet to be thought
of, in `_normalise_value` too, and makes a ValueError."""


def report_json_schema() -> JSONSchema:
    """Make the JSON Schema of a report from its values.

    Returns:
        a schema of draft 2020-12, which describes what is written: every key is required.
    """
    bench = BenchRunReport.model_json_schema(
        mode="serialization", ref_template="#/$defs/Bench.{model}"
    )
    definitions = {
        f"Bench.{name}": _normalise(definition)
        for name, definition in bench.pop("$defs").items()
    }
    definitions[_BENCH] = _normalise(bench)
    report = _object(FailureReport, definitions)
    named = {**report, "$schema": DIALECT, "$id": SCHEMA_ID, "title": TITLE}
    return _in_order({**named, "$defs": dict(sorted(definitions.items()))})


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


def _object(cls: type, definitions: JSONSchema) -> JSONSchema:
    """Return the schema of the objects that are values of a class."""
    hints = get_type_hints(cls, include_extras=True)
    docs, properties = field_docs(cls), {}
    for name in PUBLISHED.get(cls) or hints:
        if name in _OF_BENCH:
            reference = {"$ref": f"#/$defs/{_BENCH}"}
            field: JSONSchema = {"type": "array", "items": reference}
        else:
            field = _schema_of(hints[name], definitions)
        described = {**field, "description": _plain_text(docs[name])}
        properties[KEYS.get(name, name)] = _in_order(described)
    return _in_order(
        {
            "description": _plain_text(inspect.getdoc(cls) or ""),
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )


def _schema_of(hint: Any, definitions: JSONSchema) -> JSONSchema:
    """Return the schema of what an annotation allows; objects become definitions."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        schema = _schema_of(arguments[0], definitions)
        for mark in arguments[1:]:
            schema |= _keywords_of(mark, is_list="items" in schema)
    elif origin in (Union, UnionType):
        schema = {"anyOf": [_schema_of(kind, definitions) for kind in arguments]}
    elif origin is Literal:
        words = {"const": arguments[0]} if len(arguments) == 1 else {"enum": arguments}
        schema = {"type": "string", **words}
    elif origin is tuple:
        schema = {"type": "array", "items": _schema_of(arguments[0], definitions)}
    elif origin is Mapping:
        values = _schema_of(arguments[1], definitions)
        schema = {"type": "object", "additionalProperties": values or True}
    elif hint in _PLAIN:
        schema = dict(_PLAIN[hint])
    else:
        if hint.__name__ not in definitions:
            is_enum = issubclass(hint, Enum)
            made = _enum(hint) if is_enum else _object(hint, definitions)
            definitions[hint.__name__] = made
        schema = {"$ref": f"#/$defs/{hint.__name__}"}
    return schema


def _enum(cls: type[Enum]) -> JSONSchema:
    words = _plain_text(inspect.getdoc(cls) or "")
    members = [str(member.value) for member in cls]
    return {"description": words, "type": "string", "enum": members}


def _keywords_of(mark: Any, *, is_list: bool) -> JSONSchema:
    """Return the keywords that a mark of an annotation stands for."""
    if isinstance(mark, Bounds) and is_list:
        return {"minItems": mark.low}
    if isinstance(mark, Bounds):
        high = {} if mark.high is None else {"maximum": mark.high}
        return {"minimum": mark.low, **high}
    if isinstance(mark, Pattern):
        return {"pattern": str(mark)}
    return {"format": DATE_TIME} if mark == DATE_TIME else {}


def field_docs(cls: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, by field; empty where it has none."""
    module = inspect.getmodule(cls)
    assert module is not None
    (body,) = [
        node.body for node in _classes_of(module.__name__) if node.name == cls.__name__
    ]
    docs: dict[str, str] = {}
    name = ""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            docs[name] = ""
        elif (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name
        ):
            docs[name] = str(node.value.value)
            name = ""
    return docs


@cache
def _classes_of(module: str) -> tuple[ast.ClassDef, ...]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return tuple(node for node in tree.body if isinstance(node, ast.ClassDef))


def _plain_text(docstring: str) -> str:
    """Return a docstring in one line, in the words of JSON."""
    return " ".join(docstring.split()).replace("`None`", "null")


# What pydantic makes.


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
