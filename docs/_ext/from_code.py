"""Fill the pages of the site with what the code itself says.

A page asks for it by a comment that GitHub doesn't show, such as `<!-- from the code: kinds -->`.
The comment is replaced by Markdown before Sphinx reads the page.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from io import StringIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.bench.kept.lines import (
    KeptAttempt,
    RunHeader,
    ScheduledCase,
)
from pytest_failure_taxonomy.cli.main import main as command_line
from pytest_failure_taxonomy.report.model import SCHEMA_VERSION
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.charges import charges
from pytest_failure_taxonomy.taxonomy.judgement import known_kinds

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ASKED: Final = re.compile(r"^<!-- from the code: ([a-z ]+) -->$", re.MULTILINE)
_MEMBERS: Final = (
    "\n   :members:\n   :undoc-members:\n   :exclude-members: model_config"
)
_CODE: Final = re.compile(r"(?<!`)`([^`]+)`(?!`)")
CONDITIONS: Final = ("reasons", "stages", "owners", "raised", "callers")
"""What else a row of the table of charges may ask for."""
HELPS: Final[Mapping[bool | None, str]] = {True: "yes", False: "no", None: "not known"}
_LISTED: Final = re.compile(r"^- \[(.+?)\]\(([^)#]+)\.md\)", re.MULTILINE)


def contents(page: str) -> str:
    """Return a hidden table of contents for each section of the index, made from its links."""
    trees = []
    for section in page.split("\n## ")[1:]:
        caption, _, text = section.partition("\n")
        entries = "\n".join(path for _, path in _LISTED.findall(text))
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```")
    return "\n\n".join(trees)


class _Parser:
    """Stands in for pytest's parser and collects what a plugin registers."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str]] = []
        self.ini_values: list[tuple[str, str]] = []

    def getgroup(self, name: str, description: str = "") -> _Parser:
        """Collect the options of every group."""
        return self

    def addoption(self, name: str, **attributes: Any) -> None:
        """Collect an option as `--help` shows it."""
        metavar = attributes.get("metavar")
        shown = f"{name}={metavar}" if metavar else name
        self.options.append((shown, attributes["help"].replace("%%", "%")))

    def addini(self, name: str, description: str, *_: Any, **__: Any) -> None:
        """Collect an ini value."""
        self.ini_values.append((name, description))


def bench_options(page: str) -> str:
    """Return the options and ini values that the bench's plugin registers."""
    (entry,) = entry_points(group="pytest11", name="failure_taxonomy_bench")
    parser, plugins = _Parser(), pytest.PytestPluginManager()
    plugins.register(entry.load())
    arguments = {"parser": parser, "pluginmanager": plugins}
    plugins.hook.pytest_addoption.call_historic(kwargs=arguments)
    return "\n\n".join(
        (
            _table(("option", "`pytest --help`"), parser.options),
            _table(("ini value", "`pytest --help`"), parser.ini_values),
        )
    )


def causes(page: str) -> str:
    """Return what recognised causes say, whether a retry can help, and what is offered to do."""
    lines = ["| it says | a retry helps | what is offered |", "|---|---|---|"]
    for what, row in recognised().items():
        helps = HELPS[row.get("retryable")]
        offered = "; ".join(f"`{each}`" for each in row.get("fix", ()))
        lines.append(f"| {_in_cell(what)} | {helps} | {_in_cell(offered)} |")
    return "\n".join(lines)


def recognised() -> dict[str, dict[str, Any]]:
    """Return the rows of the table of causes by what they say, the first of as many."""
    table = files("pytest_failure_taxonomy.taxonomy") / "data" / "diagnoses.toml"
    rows = tomllib.loads(table.read_text("utf-8"))
    by_words: dict[str, dict[str, Any]] = {}
    for row in (*rows["run"], *rows["environment"], *rows["code"]):
        by_words.setdefault(row["what"], row)
    return by_words


def kinds(page: str) -> str:
    """Return the words in which the terminal puts each kind."""
    rows = [
        (kind.name, kind.one if kind.one == kind.many else f"{kind.one}; {kind.many}")
        for kind in known_kinds().values()
    ]
    return _table(("kind", "in words"), rows)


def charged(page: str) -> str:
    """Return whom a failure is charged to, the rows in their order, of which the first decides."""
    lines = ["| | kinds | only for | charged to | because |", "|---|---|---|---|---|"]
    for number, row in enumerate(charges(), 1):
        only = [f"{name} {_codes(row[name])}" for name in CONDITIONS if name in row]
        kinds = _codes(row.get("kinds", "")) or "any"
        cells = (
            str(number),
            kinds,
            "; ".join(only),
            row["charge_to"],
            _in_cell(row["why"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def harnesses(page: str) -> str:
    """Return what harnesses call the ending of a trial, and what we make of it."""
    lines = ["| | says | kind | in |", "|---|---|---|---|"]
    for harness, rows in packaged_table("harnesses").items():
        for label, (kind, stage, *_) in rows.items():
            lines.append(f"| {harness} | `{label}` | `{kind}` | `{stage}` |")
    return "\n".join(lines)


def _codes(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split())


def fields(page: str) -> str:
    """Return every field of the report with its type and the description in its schema."""
    name = f"failure-report-{SCHEMA_VERSION}.schema.json"
    schema = json.loads(
        (files("pytest_failure_taxonomy.report") / name).read_text("utf-8")
    )
    lines = ["| field | type | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {kind} | {_in_cell(words)} |"
        for name, kind, words in _fields(schema)
    ]
    return "\n".join(lines)


def _fields(
    schema: dict[str, Any], node: dict[str, Any] | None = None, path: str = ""
) -> Iterator[tuple[str, str, str]]:
    for name, field in (node or schema).get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        target, in_list = _resolved(schema, field)
        yield (
            here,
            _type_of(schema, field),
            field.get("description") or target["description"],
        )
        if "properties" in target:
            yield from _fields(schema, target, f"{here}[]" if in_list else here)


def _type_of(schema: dict[str, Any], node: dict[str, Any]) -> str:
    if "$ref" in node:
        return _type_of(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node:
        some, *_ = (each for each in node["anyOf"] if each.get("type") != "null")
        return f"{_type_of(schema, some)} or null"
    if "prefixItems" in node:
        return "pair"
    if node.get("type") == "array":
        of_one = _type_of(schema, node["items"])
        return "list" if of_one == "object" else f"list of {of_one}s"
    return str(node.get("type", "string"))


def _resolved(
    schema: dict[str, Any], node: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Return what a node stands for, and whether it stands for a list of it."""
    if "$ref" in node:
        return _resolved(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node:
        some, *_ = (each for each in node["anyOf"] if each.get("type") != "null")
        return _resolved(schema, some)
    if "prefixItems" in node:
        return _resolved(schema, node["prefixItems"][-1])[0], False
    if node.get("type") == "array":
        return _resolved(schema, node["items"])[0], True
    return node, False


def run_fields(page: str) -> str:
    """Return every field of the records that a bench run's file has."""
    rows = [
        (f"{model.model_fields['record'].default}.{name}", field.description)
        if "record" in model.model_fields
        else (f"cases.cases[].{name}", field.description)
        for model in (RunHeader, ScheduledCase, KeptAttempt)
        for name, field in model.model_fields.items()
        if field.description
    ]
    return _table(("field", "meaning"), rows)


def command_help(page: str) -> str:
    """Return what `failure-taxonomy --help` says, and the same of each of its commands."""
    return "\n\n".join(f"```text\n{each}```" for each in _helps_of(()))


def _helps_of(command: tuple[str, ...]) -> Iterator[str]:
    with redirect_stdout(StringIO()) as shown, suppress(SystemExit):
        command_line([*command, "--help"])
    yield shown.getvalue()
    if "COMMAND" in shown.getvalue().partition("\n\n")[0]:
        for name in re.findall(r"^    ([a-z]+)(?= |$)", shown.getvalue(), re.MULTILINE):
            yield from _helps_of((*command, name))


def python(page: str) -> str:
    """Return the docstrings of the package's public names."""
    return _documented("pytest_failure_taxonomy")


def bench_python(page: str) -> str:
    """Return the docstrings of the bench's public names."""
    return _documented("pytest_failure_taxonomy.bench")


def _documented(module: str) -> str:
    public = import_module(module)
    directives = []
    for name in public.__all__:
        is_class = isinstance(getattr(public, name), type)
        directive = "autoclass" if is_class else "autofunction"
        members = _MEMBERS if is_class else ""
        directives.append(f".. {directive}:: {module}.{name}{members}")
    return "```{eval-rst}\n" + "\n\n".join(directives) + "\n```"


def _table(head: tuple[str, str], rows: Any) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [f"| `{name}` | {_in_cell(words)} |" for name, words in rows]
    return "\n".join(lines)


def _in_cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")


class Part(NamedTuple):
    """A piece of a page that the code provides."""

    heading: str
    """What stands above it; empty where it shows nothing."""
    make: Callable[[str], str]
    """Makes its Markdown from the page that it is for."""


PARTS: Final[Mapping[str, Part]] = MappingProxyType(
    {
        "contents": Part("", contents),
        "bench options": Part("What `pytest --help` says", bench_options),
        "causes": Part("All recognised causes", causes),
        "kinds": Part("Kinds on the terminal", kinds),
        "charges": Part("The table", charged),
        "harnesses": Part("What harnesses say", harnesses),
        "report fields": Part("All fields", fields),
        "run fields": Part("All fields", run_fields),
        "command help": Part("What `--help` says", command_help),
        "python names": Part("All names", python),
        "bench python names": Part("All names", bench_python),
    }
)


def fill(page: str) -> str:
    """Replace each comment of a page that asks for a part.

    Raises:
        KeyError: there is no part of that name.
    """

    def made(asked: re.Match[str]) -> str:
        part = PARTS[asked[1]]
        return (
            f"## {part.heading}\n\n{part.make(page)}"
            if part.heading
            else part.make(page)
        )

    return _ASKED.sub(made, page)


def _on_read(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = fill(source[0])


def _before_napoleon(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Turn code in the manner of Markdown into that of reStructuredText."""
    lines[:] = [_CODE.sub(r"``\1``", line) for line in lines]
    if what == "attribute":
        _attributes[name] = list(lines)


def _after_napoleon(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Undo what napoleon does to an attribute: it takes words before a colon for a type."""
    if what == "attribute":
        lines[:] = _attributes.pop(name)


def _on_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    args: str,
    returns: str,
) -> tuple[str, str] | None:
    """Leave out how a class is called: these are enums and models, whose fields follow."""
    return ("", "") if what == "class" else None


_attributes: Final[dict[str, list[str]]] = {}
"""Docstrings of attributes between the two handlers."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("source-read", _on_read)
    app.connect("autodoc-process-docstring", _before_napoleon, priority=100)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=900)
    app.connect("autodoc-process-signature", _on_signature)
    return {"parallel_read_safe": True}
