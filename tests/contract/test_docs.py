"""The documentation says what the code does: fields, kinds, options, tables, links, examples."""

from __future__ import annotations

import re
import runpy
import tomllib
from functools import cache
from pathlib import Path
from typing import Final, cast

import pytest

from pytest_failure_taxonomy import FailureReason, Stage
from pytest_failure_taxonomy.options import OPTIONS
from pytest_failure_taxonomy.plugin import HookSpecs, pytest_addoption
from pytest_failure_taxonomy.report import build, model
from pytest_failure_taxonomy.survive.machine import ci_providers
from pytest_failure_taxonomy.taxonomy.judgement import (
    MAX_EVIDENCE,
    PYTEST_EXIT_CODES,
    kind_of_stage,
    known_kinds,
)
from tests.helpers.children import run_pytest
from tests.helpers.report_schema import packaged_schema

ROOT: Final = Path(__file__).resolve().parents[2]

PAGES: Final = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "changelog.d").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
"""All that users and contributors are given to read, but for the example project's own page."""

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`([^`]+)`")

REASONS_PAGE: Final = "docs/reference/reasons-and-kinds.md"
REPORT_PAGE: Final = "docs/reference/report.md"
PYTHON_PAGE: Final = "docs/reference/python.md"
OPTIONS_PAGE: Final = "docs/reference/options.md"
EXIT_CODES_PAGE: Final = "docs/explanation/exit-codes.md"

IDS: Final = {"$schema", "schema_version"}
PART_MODELS: Final = {"verdict": "Verdict", "causes": "Cause"}
IN_WORDS: Final = {None: "null", True: "true", False: "false"}
LEFT_TO_THE_EXIT_CODE: Final = "by the exit code"

# Pages and what is on them.


@cache
def read_page(name: str) -> str:
    """Return the text of a page, given by its path from the root of the repository."""
    return (ROOT / name).read_text("utf-8")


def name_of(page: Path) -> str:
    """Return what `read_page` calls a page."""
    return page.relative_to(ROOT).as_posix()


def section(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next one of any level."""
    prose = _without_code_blocks(text)
    headings = list(_HEADING.finditer(prose))
    (at,) = [i for i, found in enumerate(headings) if found[2] == heading]
    end = headings[at + 1].start() if at + 1 < len(headings) else len(text)
    return text[headings[at].end() : end]


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a text, each as its rows, the head first."""
    found: list[list[list[str]]] = []
    in_table = False
    for line in _without_code_blocks(text).splitlines():
        if line.startswith("|"):
            if not in_table:
                found.append([])
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not all(re.fullmatch(":?-+:?", cell) for cell in cells):
                found[-1].append(cells)
        in_table = line.startswith("|")
    return found


def table(text: str) -> list[list[str]]:
    """Return the rows of a text's only table, without its head."""
    (only,) = tables(text)
    return only[1:]


def code_in(cell: str) -> list[str]:
    """Return the pieces of a text that are set as code."""
    return _CODE.findall(cell)


def code_blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a text that say they are of this language."""
    return [content for said, content in _FENCE.findall(text) if said == language]


def links(text: str) -> list[str]:
    """Return the targets of a text's links."""
    return _LINK.findall(_without_code_blocks(text))


def anchors(text: str) -> set[str]:
    """Return what a link can point to in a page: its headings, as forges spell them."""
    return {_slug(found[2]) for found in _HEADING.finditer(_without_code_blocks(text))}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _without_code_blocks(text: str) -> str:
    """Blank the code blocks out, so that every offset stays."""
    return _FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


# Recipes for CI.

_STARTS_PYTEST: Final = re.compile(r"(?<![\w/.-])pytest(?=['\"\s]|$)")


def test_every_recipe_for_ci_starts_pytest_under_run() -> None:
    """On the pages and in the example project: a bench whose system exits with 0 is a red job."""
    pages = [*PAGES, ROOT / "example_project" / "README.md"]
    recipes = [
        block
        for page in pages
        for language in ("yaml", "groovy")
        for block in code_blocks(page.read_text("utf-8"), language)
    ]
    recipes += [
        path.read_text("utf-8") for path in ROOT.glob("example_project/.github/*/*.yml")
    ]
    lines = [line.strip() for recipe in recipes for line in recipe.splitlines()]
    of_the_action = "command: "  # which runs it under `run`
    commands = [line for line in lines if not line.startswith(("#", of_the_action))]
    started = [line for line in commands if _STARTS_PYTEST.search(line)]
    assert len(started) > 10
    assert [line for line in started if "failure-taxonomy run " not in line] == []


def test_no_recipe_for_a_retry_repeats_the_last_failures() -> None:
    """`run --retry` knows what never ran. What `-x`, a collection error or a dead pytest kept from running is no last failure."""
    paths = [*PAGES, ROOT / "example_project" / "README.md", ROOT / "action.yml"]
    paths += ROOT.glob("example_project/.github/*/*.yml")
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    is_retry = re.compile("show --retryable.* && |run --retry")
    retries = [line for line in lines if is_retry.search(line)]
    assert len(retries) > 3
    picks = re.compile(r"pytest .*--(?:lf|last-failed)\b")
    of_a_retry = [
        line for line in lines if "failure-taxonomy " in line and picks.search(line)
    ]
    assert of_a_retry == []


# Links.

each_page = pytest.mark.parametrize(
    "page", [pytest.param(p, id=name_of(p)) for p in PAGES]
)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file of the repository, and to a heading in it."""
    broken = []
    for link in links(page.read_text("utf-8")):
        if re.match("[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = target.is_file() and target.is_relative_to(ROOT)
        if not is_there or (
            anchor and anchor not in anchors(target.read_text("utf-8"))
        ):
            broken.append(link)
    assert broken == []


def test_the_index_lists_every_page() -> None:
    """The start page links to all pages, but for decisions, which have an index of their own."""
    listed = {
        (index.parent / link.partition("#")[0]).resolve()
        for index in (ROOT / "docs").rglob("README.md")
        for link in links(index.read_text("utf-8"))
    }
    assert {*(ROOT / "docs").rglob("*.md")} - listed == {ROOT / "docs" / "README.md"}


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/decisions").glob("[0-9]*.md")), ids=name_of
)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    """A decision gives its number, its context, what was decided, what follows, what was not."""
    headings = re.findall("^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    assert headings[1:] == ["Context", "Decision", "Consequences", "Rejected"]
    assert headings[0].startswith(f"{int(page.name[:4])}. ")


# Options and hooks.


class _Options:
    """Stands in for pytest's parser, and remembers what is added to it."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.ini_values: list[str] = []

    def getgroup(self, name: str, description: str = "") -> _Options:
        return self

    def addoption(self, *names: str, **attributes: object) -> None:
        short = [
            each.short for each in OPTIONS.values() if each.short and each.flag in names
        ]
        self.options += [*short, *names]  # a short name is read, and not added

    def addini(self, name: str, *args: object, **attributes: object) -> None:
        self.ini_values.append(name)


@pytest.fixture(scope="module")
def added() -> _Options:
    """Return the options and ini values that the plugin adds."""
    options = _Options()
    pytest_addoption(cast("pytest.Parser", options), pytest.PytestPluginManager())
    assert options.options
    assert options.ini_values
    return options


def _in_plain_words(cell: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("`", "")


def test_the_options_are_those_of_the_table_in_the_code(added: _Options) -> None:
    """The reference has all options, with their short names, defaults and the words of the help."""
    expected, alone = [], []
    for option in OPTIONS.values():
        default = option.default or (
            "off" if option.type in ("flag", "database") else "none"
        )
        flag = f"{option.flag}={option.value}" if option.value else option.flag
        names = ", ".join([flag, option.short] if option.short else [flag])
        if option.is_ini_alone:
            alone.append([option.dest, default, option.help])
        else:
            expected.append([names, option.dest, default, option.help])
    page = read_page(OPTIONS_PAGE).replace(r"FILE\|history", "FILE/history")
    flags, ini_values = (
        [
            [
                _in_plain_words(cell).replace("FILE/history", "FILE|history")
                for cell in row
            ]
            for row in rows[1:]
        ]
        for rows in tables(page)[:2]
    )
    assert flags == expected
    assert ini_values == alone
    named = [name for option in OPTIONS.values() for name in option.names]
    assert [name for name in named if name in added.options] == added.options
    assert [option.dest for option in OPTIONS.values()] == added.ini_values


@each_page
def test_no_page_names_an_option_that_is_not_there(page: Path, added: _Options) -> None:
    """Every option, ini value, hook and command of ours that a page names exists."""
    text = page.read_text("utf-8")
    scripts = tomllib.loads(read_page("pyproject.toml"))["project"].get("scripts", {})
    named = {
        "option": set(re.findall(r"--(?:failure-taxonomy|why(?![a-z]))[a-z-]*", text))
        - set(added.options),
        "ini value": set(re.findall(r"(?<!\w)failure_taxonomy\w*", text))
        - set(added.ini_values),
        "hook": set(re.findall(r"(?<!\w)pytest_failure_taxonomy_\w+", text))
        - set(vars(HookSpecs)),
        "command": set(
            re.findall(r"(?:^|`)(failure-taxonomy) [a-z]", text, re.MULTILINE)
        )
        - set(scripts),
    }
    assert {sort: names for sort, names in named.items() if names} == {}


def test_every_hook_is_documented() -> None:
    """The reference shows each hook that the plugin declares."""
    hooks = [name for name in vars(HookSpecs) if name.startswith("pytest_")]
    assert hooks
    for name in hooks:
        assert f"`{name}(" in section(read_page(OPTIONS_PAGE), "Hooks")


def test_the_stages_are_documented() -> None:
    """The reference lists the six stages in their order."""
    rows = table(section(read_page(OPTIONS_PAGE), "Stages"))
    assert [code_in(row[0]) for row in rows] == [[str(stage)] for stage in Stage]


BROWSER: Final = (
    "class Browser:\n"
    "    has_display = False\n"
    "    def open(self, _): return type('Page', (), {'ok': False})\n"
    "@pytest.fixture\n"
    "def browser(): return Browser()\n"
)


@pytest.mark.slow
def test_the_examples_in_python_run(tmp_path: Path) -> None:
    """The hook adds what its example says, and the code of the other pages runs on its report."""
    fixture, *hooks = code_blocks(read_page(OPTIONS_PAGE), "python")
    (tmp_path / "conftest.py").write_text(
        "\n".join([*hooks, BROWSER]), encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        f"{fixture}\ndef test_payments(): raise ConnectionError('gone')\n",
        encoding="utf-8",
    )
    run = run_pytest(tmp_path, env={"BUILD_NUMBER": "12"})
    assert run.status == 1
    report = run.report()
    assert report["extensions"]["our_builds"] == {
        "number": "12",
        "ask": "the payments team",
    }
    assert [failure["kind"] for failure in report["failures"]] == [
        "sandbox.browser",
        "sandbox.payments",
    ]
    for number, example in enumerate(
        code_blocks(
            read_page(REPORT_PAGE) + read_page(REASONS_PAGE) + read_page(PYTHON_PAGE),
            "python",
        )
    ):
        script = tmp_path / f"example_{number}.py"
        script.write_text(example, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            runpy.run_path(str(script))


# Reasons and kinds.


def test_the_reasons_are_documented_in_order() -> None:
    """The table of reasons has all fifteen, each beside its precedence."""
    rows = table(section(read_page(REASONS_PAGE), "Reasons"))
    assert [(int(row[0]), *code_in(row[1])) for row in rows] == [
        (reason.precedence, str(reason)) for reason in FailureReason
    ]


def test_the_kinds_are_documented_with_reason_and_retryable() -> None:
    """The table of kinds has those that this version gives, and says of each what the code says."""
    by_stage = {kind_of_stage(reason): f"`{reason}`" for reason in FailureReason}
    expected = {
        kind.name: (
            f"`{kind.reason}`"
            if kind.reason
            else by_stage.get(kind.name, LEFT_TO_THE_EXIT_CODE),
            IN_WORDS[kind.retryable],
        )
        for kind in known_kinds().values()
    }
    rows = table(section(read_page(REASONS_PAGE), "Kinds"))
    assert {code_in(row[0])[0]: (row[1], row[3]) for row in rows} == expected
    assert len(rows) == len(known_kinds())


def test_the_exit_tables_are_documented() -> None:
    """The two tables of exit codes say what `FailureReason` says."""
    codes, stages = tables(
        section(read_page(REASONS_PAGE), "What an exit code alone says")
    )
    for code, reason in codes[1:]:
        number = 99 if code == "any other" else int(code)
        assert code_in(reason) == _listed(FailureReason.from_pytest_exit_code(number))
    for names, at_zero, otherwise in stages[1:]:
        for stage in code_in(names):
            assert code_in(at_zero) == _listed(FailureReason.from_stage(stage, 0))
            if otherwise != "the table above":
                assert code_in(otherwise) == _listed(FailureReason.from_stage(stage, 1))
    assert {name for row in stages[1:] for name in code_in(row[0])} == set(Stage)


def test_the_endings_agree_with_the_tables() -> None:
    """What the page on exit codes says of a code is the table's answer, and its kinds exist."""
    (seen,) = tables(read_page(EXIT_CODES_PAGE))
    for ending, code, alone, verdict in seen[1:]:
        reason = FailureReason.from_pytest_exit_code(int(code))
        assert code_in(alone) == _listed(reason), ending
        if verdict.startswith("success"):
            continue
        said, kind, *also = code_in(verdict)
        assert known_kinds()[kind].reason in (said, None), ending
        assert set(also) <= set(known_kinds()), ending


def _listed(reason: FailureReason | None) -> list[str]:
    return [] if reason is None else [str(reason)]


# The report.


def test_the_page_has_every_part_of_a_report() -> None:
    """The page has a row for each key of a report; the site's table of all fields is generated."""
    rows = table(section(read_page(REPORT_PAGE), "The whole"))
    listed = [name for row in rows for name in code_in(row[0])]
    assert sorted(listed) == sorted(set(packaged_schema()["properties"]) - IDS)


@pytest.mark.parametrize("of", ["verdict", "causes"])
def test_the_page_names_only_fields_that_exist(of: str) -> None:
    """The fields that have a paragraph of their own are fields of that part."""
    schema = packaged_schema()
    (target,) = (
        each for name, each in schema["$defs"].items() if name == PART_MODELS[of]
    )
    named = re.findall(
        r"^- (.+?):? ", section(read_page(REPORT_PAGE), of), re.MULTILINE
    )
    fields = {name for words in named for name in code_in(words)}
    assert fields
    assert fields <= set(target["properties"])


def test_every_variable_of_the_environment_is_published() -> None:
    """The table of CI systems names each variable that is ever read into a report."""
    (rows,) = [
        rows
        for head, *rows in tables(section(read_page(REPORT_PAGE), "environment"))
        if head[0] == "`provider`"
    ]
    assert [[code_in(cell)[0] for cell in row if cell] for row in rows] == [
        [provider, *(name for held, name in variables.items() if held != "branch")]
        for provider, variables in ci_providers().items()
    ]


def test_the_caps_are_documented() -> None:
    """The table of limits gives the caps that the report is built with."""
    caps = {
        code_in(row[0])[0]: row[2]
        for row in table(section(read_page(REPORT_PAGE), "limits"))
    }
    assert caps == {
        "limits.failures_omitted": f"{build.MAX_FAILURES:,} listed",
        "limits.collection_errors_omitted": f"{build.MAX_FAILURES:,} listed",
        "limits.internal_errors_omitted": f"{build.MAX_FAILURES:,} listed",
        "limits.tracebacks_omitted": f"{build.MAX_TRACEBACKS:,} characters of them together",
        "limits.nodeids_omitted": f"{build.MAX_NODEIDS:,} in any one list",
        "limits.groups_omitted": f"{build.MAX_FAILURES:,} listed",
        "limits.causes_omitted": f"{build.MAX_FAILURES:,} listed",
        "limits.texts_truncated": f"messages and evidence {build.MAX_MESSAGE:,} characters, "
        f"tracebacks and all others {build.MAX_TRACEBACK:,}",
    }
    assert f"{MAX_EVIDENCE} pieces at most" in section(
        read_page(REPORT_PAGE), "verdict"
    )


def test_the_names_and_ids_are_documented() -> None:
    """The page of the report gives the schema's id and version, and pytest's names of the codes."""
    text = read_page(REPORT_PAGE)
    assert f"`{model.SCHEMA_ID}`" in text
    assert f"schema version {model.SCHEMA_VERSION}." in text
    names = ", ".join(f"`{name}`" for name, _ in PYTEST_EXIT_CODES.values() if name)
    assert names in section(text, "exit")


# Threats.

THREATS_PAGE: Final = "docs/explanation/threats.md"


def test_each_test_that_shows_a_promise_exists() -> None:
    """Each attack on the page of threats has a promise, and names tests that are there."""
    rows = [row for found in tables(read_page(THREATS_PAGE)) for row in found[1:]]
    assert rows
    missing = []
    for attack, promise, shown_by in rows:
        named = _CODE.findall(shown_by)
        assert promise, attack
        assert named, attack
        for name in named:
            path, _, test = name.partition("::")
            file = ROOT / path
            text = file.read_text("utf-8") if file.is_file() else ""
            if not re.search(rf"^(async )?def {re.escape(test)}\(", text, re.MULTILINE):
                missing.append(name)
    assert missing == []


def test_the_security_page_points_to_the_threats() -> None:
    """Who looks for what is promised finds it from the page that a repository shows first."""
    assert THREATS_PAGE in links(read_page("SECURITY.md"))
