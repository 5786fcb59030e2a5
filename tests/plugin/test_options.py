"""Which options, ini values and hooks there are, and what each of them does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy import Stage
from pytest_failure_taxonomy.options import BENCH_OPTIONS, OPTIONS, STAGES
from tests.helpers.children import (
    REPORT,
    SWITCH,
    child_environment,
    pytest_command,
    run_child,
    run_inside,
    run_plain_pytest,
    run_pytest,
)
from tests.helpers.reports import extensions_of
from tests.helpers.warm_pytest import Switch

TO: Final = "--failure-taxonomy-report"
PASSING: Final = "def test_passes():\n    pass\n"
FAILING: Final = "def test_fails():\n    assert 0\n"

EVER_LOADED: Final = [
    "pytest_failure_taxonomy",
    "pytest_failure_taxonomy.options",
    "pytest_failure_taxonomy.plugin",
    "pytest_failure_taxonomy.system",
]
"""Modules that a run loads because of us without the option, too."""

SLOW_TO_IMPORT: Final = {
    "jsonschema",
    "numpy",
    "pydantic",
    "scipy",
    "sqlalchemy",
    "yaml",
}

NOTES_MODULES: Final = """
import atexit, json, os, pathlib, sys

def note():
    names = json.dumps(sorted(sys.modules))
    pathlib.Path(__file__).with_name(f"modules.{os.getpid()}").write_text(names)

atexit.register(note)
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """Return a folder with a configuration and one passing test."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "test_it.py": PASSING})
    return pytester.path


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files below a folder, given by path and content."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def take_notes(folder: Path) -> list[set[str]]:
    """Return the modules that each process has loaded, and remove the files that say so."""
    loaded = []
    for notes in sorted(folder.glob("modules.*")):
        loaded.append(set(json.loads(notes.read_text("utf-8"))))
        notes.unlink()
    return loaded


def files_in(folder: Path) -> set[str]:
    """Return the paths of all files below a folder, but for compiled ones."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


# Off.


@pytest.mark.parametrize(
    ("args", "test"),
    [
        pytest.param((), PASSING, id="passing"),
        pytest.param((), FAILING, id="failing"),
        pytest.param(("--collect-only",), PASSING, id="collect-only"),
        pytest.param(("-n", "2"), FAILING, id="xdist"),
        pytest.param(("--no-such-option",), PASSING, id="bad-option"),
        pytest.param(("--help",), PASSING, id="help"),
    ],
)
def test_without_the_option_nothing_is_loaded_printed_or_written(
    folder: Path, args: tuple[str, ...], test: str
) -> None:
    """With the option absent only the entry module is imported, and nothing is left behind."""
    write(folder, {"test_it.py": test, "conftest.py": NOTES_MODULES})
    before = files_in(folder)
    plugins = (
        "xdist",
    )  # pytest reads the metadata of whatever plugin it loads, not of ours alone
    plain = run_plain_pytest(folder, *args, plugins=plugins)
    loaded_anyway = set().union(*take_notes(folder))
    run = run_pytest(folder, *args, switch=(), plugins=plugins)
    assert run.status == plain.status
    assert run.outcome == plain.outcome
    assert "taxonomy: " not in run.stdout + run.stderr
    assert "why this run failed\n" not in run.stdout + run.stderr
    noted = take_notes(folder)
    assert files_in(folder) == before
    if "--no-such-option" not in args:
        assert noted
    for loaded in noted:
        assert sorted(loaded - loaded_anyway) == EVER_LOADED


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("bench", [(), ("failure_taxonomy_bench",)], ids=["", "bench"])
@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize(
    ("test", "status"), [(PASSING, 0), (FAILING, 1)], ids=["passing", "failing"]
)
def test_with_the_option_nothing_slow_is_loaded(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    bench: tuple[str, ...],
    test: str,
    status: int,
) -> None:
    """A run that reports imports neither the report's model nor anything that reads YAML."""
    # A process that waits for runs of benches has imported them.
    monkeypatch.setattr(Switch, "is_on", Switch.is_on and not bench)
    write(folder, {"test_it.py": test, "conftest.py": NOTES_MODULES})
    run = run_pytest(folder, *args, plugins=("xdist", *bench))
    assert run.status == status
    assert (run.report()["verdict"] is None) is (status == 0)
    noted = take_notes(folder)
    assert len(noted) == (3 if args else 1)
    assert any("pytest_failure_taxonomy.report.build" in loaded for loaded in noted)
    for loaded in noted:
        assert loaded & SLOW_TO_IMPORT == set()


@pytest.mark.parametrize(
    ("args", "ini"),
    [
        pytest.param((), "", id="nothing"),
        pytest.param((), "failure_taxonomy = false", id="ini"),
        pytest.param(
            (),
            "failure_taxonomy = false\nfailure_taxonomy_report = r.json",
            id="ini-with-path",
        ),
        pytest.param(
            ("-o", "failure_taxonomy=false"),
            "failure_taxonomy = true",
            id="override-of-ini",
        ),
        pytest.param(("--failure-taxonomy-stage=setup",), "", id="stage-alone"),
        pytest.param((), "failure_taxonomy_stage = setup", id="ini-stage-alone"),
        pytest.param(
            ("--failure-taxonomy-strict-baseline",), "", id="strict-baseline-alone"
        ),
        pytest.param(
            ("--failure-taxonomy-rules=x.yaml", "--failure-taxonomy-end-stalled"),
            "",
            id="others",
        ),
        pytest.param(("-q", "--failure-taxonomy-stall-seconds=3"), "", id="quiet"),
        pytest.param(
            ("--why-html=x.html", "--failure-taxonomy-junit=x.xml"), "", id="short"
        ),
    ],
)
def test_ways_to_stay_off(
    pytester: pytest.Pytester, folder: Path, args: tuple[str, ...], ini: str
) -> None:
    """What does not ask for a report gets none; the header names options without an effect."""
    write(folder, {"pytest.ini": f"[pytest]\n{ini}\n"})
    before = files_in(folder)
    run = run_inside(pytester, *args, switch=())
    given = [
        arg.partition("=")[0]
        for arg in args
        if arg.startswith(("--failure-taxonomy-", "--why-"))
    ]
    given = sorted(given, key=lambda name: name.endswith("html"))  # as in the table
    have = "have" if given[1:] else "has"
    header = f"failure taxonomy: {', '.join(given)} {have} no effect without --failure-taxonomy\n"
    assert (header in run.stdout) is bool(given and "-q" not in args)
    assert run.status == 0
    assert run.tail == []
    assert files_in(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "ini", "addopts", "path"),
    [
        pytest.param((SWITCH,), "", "", REPORT, id="flag"),
        pytest.param((f"{TO}=r.json",), "", "", "r.json", id="path"),
        pytest.param((TO, "r.json"), "", "", "r.json", id="path-apart"),
        pytest.param((), "failure_taxonomy = true", "", REPORT, id="ini"),
        pytest.param(
            (), "failure_taxonomy_report = r.json", "", "r.json", id="ini-path"
        ),
        pytest.param((), f"addopts = {TO}='r.json'", "", "r.json", id="addopts"),
        pytest.param((), "", SWITCH, REPORT, id="PYTEST_ADDOPTS"),
        pytest.param(("--why",), "", "", REPORT, id="short"),
        pytest.param(
            (), "addopts = --why-report='r.json'", "", "r.json", id="short-path"
        ),
        pytest.param((), "", "", "", id="off"),
        pytest.param((SWITCH, "--help"), "", "", "", id="help"),
    ],
)
def test_a_start_that_fails_before_options_are_parsed(
    folder: Path, args: tuple[str, ...], ini: str, addopts: str, path: str
) -> None:
    """Another plugin that can't be imported is reported, however the report was asked for."""
    write(folder, {"pytest.ini": f"[pytest]\n{ini}\n", "broken.py": "1 / 0\n"})
    before = files_in(folder)
    environment = {
        "PYTEST_PLUGINS": "broken",
        "PYTEST_ADDOPTS": addopts,
        "PYTHONPATH": str(folder),
    }
    plain = run_plain_pytest(folder, env={**environment, "PYTEST_ADDOPTS": None})
    run = run_pytest(folder, *args, switch=(), env=environment)
    assert run.status == plain.status
    assert files_in(folder) == before | ({path} if path else set())
    if path:
        assert run.report(path)["verdict"]["kind"] == "plugin.error"


@pytest.mark.slow
@pytest.mark.lowest
def test_the_plugin_can_be_blocked(folder: Path) -> None:
    """`-p no:failure_taxonomy` keeps the installed plugin out, its options included."""
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}
    command = pytest_command("-p", "no:failure_taxonomy", plugins=())
    write(folder, {"pytest.ini": "[pytest]\nfailure_taxonomy = true\n"})
    run = run_child(folder, command, env=environment)
    assert (run.status, run.tail) == (0, [])
    assert not (folder / REPORT).exists()
    refused = run_child(folder, [*command, SWITCH], env=environment)
    assert refused.status == 4
    assert f"unrecognized arguments: {SWITCH}" in refused.stderr
    assert not (folder / REPORT).exists()


@pytest.mark.slow
@pytest.mark.lowest
def test_the_plugin_is_found_where_it_is_installed(folder: Path) -> None:
    """Beside the other installed plugins, it is loaded by its entry point without being named."""
    command = pytest_command(SWITCH, plugins=())
    run = run_child(folder, command, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None})
    assert run.status == 0
    assert run.tail == [f"failure taxonomy: no failure (1 passed); report: {REPORT}"]
    plugins = run.report()["environment"]["plugins"]
    assert any(plugin.startswith("pytest-failure-taxonomy-") for plugin in plugins)


# On.


@pytest.mark.parametrize(
    ("args", "ini", "addopts", "path"),
    [
        pytest.param((SWITCH,), "", "", REPORT, id="flag"),
        pytest.param(("test_it.py", SWITCH), "", "", REPORT, id="flag-after-path"),
        pytest.param(("--why", "test_it.py"), "", "", REPORT, id="short-flag"),
        pytest.param(("--why-report=r.json",), "", "", "r.json", id="short-path"),
        pytest.param(("--why-report", "a.json", f"{TO}=b.json"), "", "", "b.json", id="short-long"),
        pytest.param((), "addopts = --why", "", REPORT, id="short-addopts"),
        pytest.param((), "", "--why-report=r.json", "r.json", id="short-PYTEST_ADDOPTS"),
        pytest.param((f"{TO}=r.json",), "", "", "r.json", id="path"),
        pytest.param((TO, "r.json"), "", "", "r.json", id="path-apart"),
        pytest.param((SWITCH, f"{TO}=r.json"), "", "", "r.json", id="flag-and-path"),
        pytest.param((f"{TO}=a.json", f"{TO}=b.json"), "", "", "b.json", id="path-last-wins"),
        pytest.param((), "failure_taxonomy = true", "", REPORT, id="ini"),
        pytest.param((), "failure_taxonomy_report = r.json", "", "r.json", id="ini-path"),
        pytest.param(
            (), "failure_taxonomy = true\nfailure_taxonomy_report = r.json", "", "r.json",
            id="ini-both",
        ),
        pytest.param((SWITCH,), "failure_taxonomy = false", "", REPORT, id="flag-over-ini"),
        pytest.param(
            (f"{TO}=a.json",), "failure_taxonomy_report = b.json", "", "a.json",
            id="path-over-ini",
        ),
        pytest.param(
            (f"{TO}=r.json",), "failure_taxonomy = false", "", "r.json", id="path-over-ini-off"
        ),
        pytest.param(
            (SWITCH,), "failure_taxonomy = false\nfailure_taxonomy_report = r.json", "", "r.json",
            id="flag-with-ini-path",
        ),
        pytest.param(("-o", "failure_taxonomy=true"), "", "", REPORT, id="override"),
        pytest.param(
            ("-o", "failure_taxonomy_report=r.json"), "", "", "r.json", id="override-path"
        ),
        pytest.param((), f"addopts = {SWITCH}", "", REPORT, id="addopts"),
        pytest.param((), f"addopts = {TO}=r.json", "", "r.json", id="addopts-path"),
        pytest.param((), "", SWITCH, REPORT, id="PYTEST_ADDOPTS"),
        pytest.param(
            (), "", "-o failure_taxonomy_report=r.json", "r.json", id="PYTEST_ADDOPTS-override"
        ),
    ],
)  # fmt: skip
def test_ways_to_switch_on(
    pytester: pytest.Pytester,
    folder: Path,
    args: tuple[str, ...],
    ini: str,
    addopts: str,
    path: str,
) -> None:
    """Flag, path, ini values and addopts each switch the report on; what is nearer wins."""
    write(folder, {"pytest.ini": f"[pytest]\n{ini}\n"})
    before = files_in(folder)
    run = run_inside(pytester, *args, switch=(), env={"PYTEST_ADDOPTS": addopts})
    assert run.status == 0
    assert run.tail == [f"failure taxonomy: no failure (1 passed); report: {path}"]
    assert files_in(folder) == before | {path}
    assert run.report(path)["verdict"] is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(
            "pyproject.toml",
            "[tool.pytest.ini_options]\n{}",
            id="pyproject-ini_options",
        ),
        pytest.param("tox.ini", "[pytest]\n{}", id="tox"),
        pytest.param("setup.cfg", "[tool:pytest]\n{}", id="setup.cfg"),
        pytest.param(
            "pyproject.toml",
            "[tool.pytest]\n{}",
            id="pyproject-native",
            marks=pytest.mark.skipif(
                pytest.version_tuple < (9, 0), reason="new in pytest 9"
            ),
        ),
    ],
)
def test_every_sort_of_configuration_file(
    pytester: pytest.Pytester, folder: Path, name: str, content: str
) -> None:
    """The ini values work in each file that pytest reads, as text and as TOML's own types."""
    (folder / "pytest.ini").unlink()
    quote = '"' if name.endswith(".toml") else ""
    values = f"failure_taxonomy = true\nfailure_taxonomy_stage = {quote}setup{quote}\n"
    write(folder, {name: content.format(values)})
    run = run_inside(pytester, switch=())
    assert run.status == 0
    assert run.report()["run"]["stage"] == "setup"


NATIVE: Final = {
    "flag": ("true",),
    "text": ('"1/2"',),
    "path": ('"a/file.x"',),
    "number": ("30", "2.5", "1e3", '"30"'),
    "count": ("3", '"3"'),
    "amounts": ('"calls=100"', "{calls = 100, tokens = 1e6}"),
    "choice": (),
    "list": ('["A = UNKNOWN"]',),
    "database": ("false", "true", '"h.db"'),
}
"""By the type of an option: what TOML can say of its ini value."""


@pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="TOML's own types are new in pytest 9"
)
def test_every_ini_value_takes_types_of_toml(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """Each option of the tables takes what TOML has for it, and the text that it took before."""
    (folder / "pytest.ini").unlink()
    options = {**OPTIONS, **BENCH_OPTIONS}
    del options["base"]  # its commit would have to be there
    for option in (each for each in options.values() if not each.is_flag_alone):
        for value in NATIVE[option.type] or [f'"{each}"' for each in option.choices]:
            write(folder, {"pytest.toml": f"[pytest]\n{option.dest} = {value}\n"})
            config = pytester.parseconfig(
                "-p", "failure_taxonomy", "-p", "failure_taxonomy_bench"
            )
            read = config.getini(option.dest)
            assert type(read) in (str, bool, list), (option.dest, value)
            assert read or value == "false"
            assert "{" not in value or read == "calls=100,tokens=1000000.0"


@pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="TOML's own types are new in pytest 9"
)
@pytest.mark.parametrize("name", ["pytest.toml", "pyproject.toml"])
def test_types_of_toml_mean_what_texts_mean(folder: Path, name: str) -> None:
    """A number, a truth value and a list, in both files of their own types."""
    (folder / "pytest.ini").unlink()
    values = (
        "failure_taxonomy = true\nfailure_taxonomy_stall_seconds = 30\n"
        'failure_taxonomy_history = true\nfailure_taxonomy_redact = ["p.ss"]\n'
    )
    section = "[pytest]" if name == "pytest.toml" else "[tool.pytest]"
    write(
        folder,
        {
            name: f"{section}\n{values}",
            "test_it.py": "def test_it(): assert 'pass'*0\n",
        },
    )
    run = run_pytest(folder, switch=())
    assert run.status == 1
    assert "[REDACTED" in json.dumps(run.report())
    assert ".failure-taxonomy/history.db" in files_in(folder)
    write(folder, {name: f"{section}\nfailure_taxonomy_stall_seconds = -1\n"})
    run = run_pytest(folder)
    assert run.status == 4
    assert "ini value failure_taxonomy_stall_seconds: '-1' is no number" in run.stderr


def test_the_flag_takes_no_value(pytester: pytest.Pytester, folder: Path) -> None:
    """A path that follows the flag is a path to tests."""
    write(folder, {"tests/test_other.py": PASSING.replace("passes", "other")})
    run = run_inside(pytester, SWITCH, "tests/", "-v", switch=())
    assert run.outcome == "1 passed"
    assert "tests/test_other.py::test_other PASSED" in run.stdout
    assert run.report()["summary"]["collected"] == 1


SHORT: Final = ("", "-report", "-html", "-junit", "-history", "-known", "-prove")
"""The ends of the options that have a short form."""


def test_short_forms_are_in_the_help(pytester: pytest.Pytester, folder: Path) -> None:
    """Those of the options that people type; nothing is short for another one."""
    run = run_inside(pytester, "--help", switch=(), env={"COLUMNS": "200"})
    shown = [
        line.split() for line in run.stdout.splitlines() if line.startswith("  --why")
    ]
    assert sorted(shown) == sorted(
        [f"--why{end}", "Short", "for", f"--failure-taxonomy{end}"] for end in SHORT
    )
    assert run_inside(pytester, "--why-rules=x.yaml", switch=()).status == 4


OTHER: Final = """
import pytest

def pytest_addoption(parser):
    parser.getgroup("other").addoption("--why", action="store_true", default=False)

def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"theirs: {config.getoption('--why')}")
"""
OTHERS: Final = [
    pytest.param(("-p", "other"), {}, id="before-us"),
    pytest.param((), {"PYTEST_PLUGINS": "other"}, id="after-us"),
    pytest.param((), {}, id="conftest"),
]


@pytest.mark.lowest
@pytest.mark.parametrize(("args", "env"), OTHERS)
def test_a_short_name_of_another_plugin_is_that_plugins(
    folder: Path, args: tuple[str, ...], env: dict[str, str]
) -> None:
    """Whoever comes first, pytest starts; the long name and the other short ones stay ours."""
    is_conftest = not args and not env
    write(folder, {"conftest.py" if is_conftest else "other.py": OTHER})
    command = [*pytest_command(plugins=()), *args, "-p", "failure_taxonomy"]

    def run(*more: str) -> tuple[str, bool]:
        (folder / REPORT).unlink(missing_ok=True)
        child = run_child(folder, [*command, *more], env=env)
        assert child.status == 0, child.stderr
        theirs = "theirs: True" in child.stdout
        assert theirs or "theirs: False" in child.stdout or "--help" in more
        return child.stdout, theirs

    assert run()[1] is False
    _, theirs = run("--why")
    # The report has begun before a conftest is loaded, and goes on.
    assert (theirs, (folder / REPORT).exists()) == (True, is_conftest)
    _, theirs = run("--why-report", REPORT, "test_it.py")
    assert (theirs, (folder / REPORT).exists()) == (False, True)
    shown, _ = run("--help")
    assert "--why-report" in shown
    assert "Short for --failure-taxonomy\n" not in shown


def test_a_short_name_in_a_conftest_that_is_loaded_late(folder: Path) -> None:
    """It is found while tests are collected, and no error even where the name is in use."""
    write(folder, {"tests/deep/conftest.py": OTHER, "tests/deep/test_deep.py": PASSING})
    run = run_pytest(folder, "--why", switch=())
    assert (run.status, run.outcome) == (0, "2 passed")
    assert (folder / REPORT).exists()


@pytest.mark.parametrize(
    ("args", "ini", "env"),
    [
        pytest.param(("@words.txt",), "", {}, id="file"),
        pytest.param((), "addopts = --why-report r.json", {}, id="addopts"),
        pytest.param((), "", {"PYTEST_ADDOPTS": "--why-report=r.json"}, id="variable"),
        pytest.param(("--why-report", "r.json"), "", {}, id="apart"),
    ],
)
def test_where_a_short_name_may_stand(
    folder: Path, args: tuple[str, ...], ini: str, env: dict[str, str]
) -> None:
    """Everywhere that pytest reads words from; its value is no path to tests."""
    conftest = "def pytest_addoption(parser): parser.addoption('--mine')\n"
    ini = f"[pytest]\ntestpaths = sub\n{ini}\n"
    files = {"words.txt": "--why-report\nr.json\n", "pytest.ini": ini}
    write(folder, {**files, "sub/conftest.py": conftest, "sub/test_sub.py": PASSING})
    run = run_pytest(folder, *args, "--mine=1", switch=(), env=env)
    assert (run.status, run.outcome) == (0, "1 passed")
    assert (folder / "r.json").exists()


def test_words_that_another_plugin_adds_stay(folder: Path) -> None:
    """A hook that changes the command line, as pytest's documentation has it, still does."""
    adds = (
        "def pytest_load_initial_conftests(args): args[:] = ['-k', 'nothing', *args]\n"
    )
    write(folder, {"adds.py": adds})
    run = run_pytest(folder, "-p", "adds", "--why", switch=())
    assert (run.status, run.outcome) == (5, "1 deselected")
    assert (folder / REPORT).exists()


def test_a_short_name_in_a_start_that_fails_early(folder: Path) -> None:
    """What ends pytest before its first hook is reported, too; not if the name is another's."""
    write(
        folder,
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-nope\n", "other.py": OTHER},
    )
    assert (
        run_pytest(folder, "--why", switch=()).report()["verdict"]["kind"]
        == "plugin.error"
    )
    (folder / REPORT).unlink()
    assert run_pytest(folder, "-p", "other", "--why", switch=()).status == 4
    assert not (folder / REPORT).exists()


@pytest.mark.slow
@pytest.mark.lowest
def test_short_forms_mean_the_same(folder: Path) -> None:
    """With workers, too, which get the command line of their controller."""
    write(folder, {"test_it.py": FAILING, "known.yaml": "- nodeid: '*'\n"})
    shorts = (
        "--why",
        "--why-junit=j.xml",
        "--why-history=h.db",
        "--why-known",
        "known.yaml",
    )
    run = run_pytest(folder, *shorts, "-n", "2", switch=(), plugins=("xdist",))
    assert run.status == 0
    assert {REPORT, "j.xml", "h.db"} < files_in(folder)


# Where the report goes.


@pytest.mark.parametrize(
    ("given", "place"),
    [
        pytest.param("out/a/b/r.json", "out/a/b/r.json", id="missing-parents"),
        pytest.param("two words.json", "two words.json", id="space"),
        pytest.param("größe/報告 ✓.json", "größe/報告 ✓.json", id="unicode"),
        pytest.param("é" * 120 + ".json", "é" * 120 + ".json", id="long-unicode"),
        pytest.param("no_suffix", "no_suffix", id="no-suffix"),
        pytest.param(".hidden.json", ".hidden.json", id="hidden"),
        pytest.param("sub/../r.json", "r.json", id="dots"),
        pytest.param("~/r.json", "home/r.json", id="home"),
        pytest.param("$PLACE/r.json", "elsewhere/r.json", id="variable"),
        pytest.param(
            "${PLACE}-1/r.json", "elsewhere-1/r.json", id="variable-in-braces"
        ),
        pytest.param("$UNKNOWN/r.json", "$UNKNOWN/r.json", id="unknown-variable"),
    ],
)
@pytest.mark.parametrize("how", ["option", "ini"])
def test_paths(
    pytester: pytest.Pytester, folder: Path, given: str, place: str, how: str
) -> None:
    """Missing folders are made; `~`, variables, blanks and any script of the world are fine."""
    environment = {"HOME": str(folder / "home"), "PLACE": str(folder / "elsewhere")}
    if how == "ini":
        write(folder, {"pytest.ini": f"[pytest]\nfailure_taxonomy_report = {given}\n"})
    option = (f"{TO}={given}",) if how == "option" else ()
    run = run_inside(pytester, *option, switch=(), env=environment)
    assert run.status == 0
    assert run.stdout.endswith(f"; report: {place}\n")
    assert run.report(place)["verdict"] is None


def test_an_absolute_path_is_shown_as_it_is(folder: Path, tmp_path: Path) -> None:
    """A report outside of the folder that pytest was started in is shown by its full path."""
    elsewhere = tmp_path / "elsewhere" / "r.json"
    run = run_pytest(folder, f"{TO}={elsewhere}", switch=())
    assert run.stdout.endswith(f"; report: {elsewhere}\n")
    assert run.report(elsewhere)["verdict"] is None


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.skipif("sys.platform == 'win32'", reason="paths are text there")
def test_a_path_that_is_no_text(folder: Path) -> None:
    """A path in another encoding than the system's works, and is escaped where it is shown."""
    command = [*pytest_command(), b"--failure-taxonomy-report=caf\xe9.json"]
    run = run_child(folder, command, env={"LC_ALL": "C.UTF-8"})  # type: ignore[arg-type]  # bytes, too
    assert run.status == 0
    assert run.tail == [
        "failure taxonomy: no failure (1 passed); report: caf\\udce9.json"
    ]
    assert run.report("caf\udce9.json")["verdict"] is None


def test_a_relative_option_starts_where_pytest_was_started(folder: Path) -> None:
    """A relative path on the command line is relative to the current folder, not to the root."""
    write(folder, {"sub/test_sub.py": PASSING})
    run = run_pytest(folder / "sub", f"{TO}=r.json", switch=())
    assert run.report("r.json")["run"]["invocation"]["rootdir"] == str(folder)
    assert files_in(folder) == {
        "pytest.ini",
        "test_it.py",
        "sub/test_sub.py",
        "sub/r.json",
    }


def test_the_default_report_stands_where_pytest_was_started(folder: Path) -> None:
    """Without a path, the report is in the current folder, whatever the root is."""
    write(folder, {"sub/test_sub.py": PASSING})
    assert run_pytest(folder / "sub").report()["run"]["invocation"]["rootdir"] == str(
        folder
    )


def test_a_relative_ini_path_starts_at_the_ini_file(folder: Path) -> None:
    """A relative path in a configuration file is relative to that file."""
    write(
        folder,
        {
            "sub/test_sub.py": PASSING,
            "conf/my.ini": "[pytest]\nfailure_taxonomy_report = out/r.json\n",
        },
    )
    run = run_pytest(folder / "sub", "-c", "../conf/my.ini", "--rootdir=..", switch=())
    assert run.report("../conf/out/r.json")["summary"]["passed"] == 1


# Runs that are none.


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("--help",), id="help"),
        pytest.param(("-h",), id="h"),
        pytest.param(("--version",), id="version"),
        pytest.param(("-VV",), id="long-version"),
        pytest.param(("--markers",), id="markers"),
        pytest.param(("--fixtures",), id="fixtures"),
        pytest.param(("--funcargs",), id="funcargs"),
        pytest.param(("--fixtures-per-test",), id="fixtures-per-test"),
        pytest.param(("-p", "cacheprovider", "--cache-show"), id="cache-show"),
    ],
)
def test_questions_leave_no_report(
    pytester: pytest.Pytester, folder: Path, args: tuple[str, ...]
) -> None:
    """Options that only make pytest print something neither write a report nor a verdict."""
    before = files_in(folder)
    run = run_inside(pytester, *args)
    assert run.status == 0, run.stderr
    assert "taxonomy: no failure" not in run.stdout
    assert files_in(folder) == before


def test_help_tells_of_us(pytester: pytest.Pytester, folder: Path) -> None:
    """`--help` has a group of our options, the six stages, and a line for each ini value."""
    run = run_inside(pytester, "--help", switch=(), env={"COLUMNS": "200"})
    lines = [line.strip() for line in run.stdout.splitlines()]
    assert "why this run failed (pytest-failure-taxonomy):" in lines
    for start in (
        "--failure-taxonomy ",
        "--failure-taxonomy-report=PATH",
        "--why ",
        "--why-report ",
        "--failure-taxonomy-stage={git_clone,git_checkout,setup,baseline_run,agent_run,final_test}",
        "--failure-taxonomy-strict-baseline",
        "failure_taxonomy (bool):",
        "failure_taxonomy_report (string):",
        "failure_taxonomy_stage (string):",
        "failure_taxonomy_strict_baseline (bool):",
    ):
        assert any(line.startswith(start) for line in lines), start


def test_collecting_only_leaves_a_report_that_is_final(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """`--collect-only` is a run in which no test was to run."""
    run = run_inside(pytester, "--collect-only")
    assert run.status == 0
    assert run.tail == [
        "failure taxonomy: no failure (no test ran); report: failure-report.json",
    ]
    assert run.report()["summary"]["collected"] == 1


def test_collecting_only_never_says_running(folder: Path) -> None:
    """A `--collect-only` that dies leaves no report: nothing was promised to run."""
    write(folder, {"test_it.py": "import os\nos._exit(3)\n"})
    assert run_pytest(folder, "--collect-only").status == 3
    assert not (folder / REPORT).exists()


def test_collecting_only_reports_what_could_not_be_collected(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """`--collect-only` fails for a broken module, and says why."""
    write(folder, {"test_it.py": "import no_such_module\n"})
    run = run_inside(pytester, "--collect-only")
    assert run.report()["verdict"]["kind"] == "collection.error"


# More than one pytest.


@pytest.mark.slow
@pytest.mark.lowest
def test_two_runs_in_one_process(folder: Path) -> None:
    """`pytest.main()` called twice gives two reports that know nothing of each other."""
    write(folder, {"test_two.py": FAILING})
    main = "pytest.main(['-p', 'failure_taxonomy', {!r}, {!r}])"
    script = (
        "import pytest, sys\n"
        f"first = {main.format('test_it.py', f'{TO}=a.json')}\n"
        f"second = {main.format('test_two.py', f'{TO}=b.json')}\n"
        "sys.exit(10 * first + second)"
    )
    run = run_child(folder, [sys.executable, "-c", script])
    assert run.status == 1
    first, second = run.report("a.json"), run.report("b.json")
    assert first["verdict"] is None
    assert second["verdict"]["kind"] == "test.failed"
    assert first["run"]["id"] != second["run"]["id"]
    assert second["summary"]["collected"] == 1


def test_a_plugin_object_and_no_configuration(folder: Path) -> None:
    """Handed to `pytest.main()` as an object, we are there before pytest has read anything."""
    script = (
        "import pytest, sys\n"
        "from pytest_failure_taxonomy import plugin\n"
        f"sys.exit(pytest.main(['-c', 'no_such.ini', {SWITCH!r}], plugins=[plugin]))"
    )
    run = run_child(folder, [sys.executable, "-c", script])
    assert run.status != 0
    assert "no_such.ini" in run.stderr.strip().splitlines()[-1]
    assert "pytest_failure_taxonomy" not in run.stderr


NESTED: Final = """
import json, pathlib, pytest

pytest_plugins = "pytester"

def test_nested(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_inner="def test_inner(): assert 0")
    path = pathlib.Path({path!r})
    result = pytester.{how}("-p", "failure_taxonomy", "--failure-taxonomy-report", str(path))
    assert result.ret == 1
    if not path.exists() or "running" in path.read_text("utf-8"):
        (path,) = path.parent.glob(path.stem + ".*" + path.suffix)
    report = json.loads(path.read_text("utf-8"))
    assert report["completeness"] == "full"
    assert report["verdict"]["nodeid"] == "test_inner.py::test_inner"
    assert result.outlines[-1].startswith("report: ")
"""


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("how", ["runpytest_inprocess", "runpytest_subprocess"])
@pytest.mark.parametrize("args", [(), ("-n", "1")], ids=["alone", "in-a-worker"])
def test_a_run_inside_a_run_has_its_own_report(
    folder: Path, tmp_path: Path, how: str, args: tuple[str, ...]
) -> None:
    """A pytest that a test starts reports for itself, even where a worker's environment says no."""
    path = str(tmp_path / "inner.json")
    write(folder, {"test_it.py": NESTED.format(path=path, how=how)})
    run = run_pytest(folder, *args, plugins=("xdist",))
    assert run.outcome == "1 passed", run.stdout
    assert run.report()["verdict"] is None


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("how", ["runpytest_inprocess", "runpytest_subprocess"])
def test_a_run_inside_a_run_with_the_same_path(folder: Path, how: str) -> None:
    """Where both have one path, it is the outer run's, and the inner one says where its own is."""
    write(folder, {"test_it.py": NESTED.format(path=str(folder / REPORT), how=how)})
    run = run_pytest(folder)
    assert run.outcome == "1 passed", run.stdout
    report = run.report()
    assert report["verdict"] is None
    assert report["run"]["invocation"]["rootdir"] == str(folder)
    assert {name for name, count in report["summary"].items() if count} == {
        "collected",
        "passed",
    }


@pytest.mark.slow
@pytest.mark.lowest
def test_only_the_controller_writes(folder: Path) -> None:
    """Under xdist one process writes one report, and the workers none."""
    write(
        folder,
        {
            "test_it.py": "import pytest\n\n"
            "@pytest.mark.parametrize('number', range(8))\n"
            "def test_it(number, pytestconfig):\n"
            "    assert not pytestconfig.pluginmanager.has_plugin('failure_taxonomy_run')\n",
            "conftest.py": "import os, pathlib\n\n"
            "def pytest_failure_taxonomy_report(report):\n"
            "    with pathlib.Path('pids').open('a') as file:\n"
            "        file.write(f'{os.getpid()}\\n')\n",
        },
    )
    before = files_in(folder)
    run = run_pytest(folder, "-n", "2", plugins=("xdist",))
    assert run.outcome == "8 passed", run.stdout
    assert files_in(folder) == before | {REPORT, "pids"}
    assert len((folder / "pids").read_text().splitlines()) == 1
    assert [worker["id"] for worker in run.report()["workers"]] == ["gw0", "gw1"]


# Stages.


def test_stages_are_the_taxonomys() -> None:
    """The names that the entry module repeats are those of `Stage`, in its order."""
    assert tuple(Stage) == STAGES


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("how", ["option", "ini"])
def test_every_stage_can_be_given(
    pytester: pytest.Pytester, folder: Path, stage: Stage, how: str
) -> None:
    """Each of the six can be given as an option and as an ini value."""
    option = (f"--failure-taxonomy-stage={stage}",) if how == "option" else ()
    write(
        folder,
        {
            "pytest.ini": f"[pytest]\n{'' if option else f'failure_taxonomy_stage = {stage}'}\n"
        },
    )
    run = run_inside(pytester, *option)
    assert run.status == 0
    assert run.report()["run"]["stage"] == stage


def test_the_default_stage_is_the_final_test(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """A run that names no stage is a final test."""
    assert run_inside(pytester).report()["run"]["stage"] == "final_test"


def test_a_stage_option_wins_over_ini(pytester: pytest.Pytester, folder: Path) -> None:
    """The option replaces the ini value."""
    write(folder, {"pytest.ini": "[pytest]\nfailure_taxonomy_stage = setup\n"})
    run = run_inside(pytester, "--failure-taxonomy-stage=agent_run")
    assert run.report()["run"]["stage"] == "agent_run"


STRICT: Final = "--failure-taxonomy-strict-baseline"
BASELINE: Final = "--failure-taxonomy-stage=baseline_run"


@pytest.mark.parametrize(
    ("args", "ini", "test", "kind", "notes"),
    [
        pytest.param((), "", FAILING, None, 0, id="failing"),
        pytest.param((), "", PASSING, "stage.baseline_not_failing", 0, id="passing"),
        pytest.param((), "", "", None, 1, id="no-tests"),
        pytest.param((STRICT,), "", FAILING, None, 0, id="strict-failing"),
        pytest.param(
            (STRICT,), "", "", "tests.none_collected", 0, id="strict-no-tests"
        ),
        pytest.param(
            (), "true", "", "tests.none_collected", 0, id="ini-strict-no-tests"
        ),
        pytest.param((), "false", "", None, 1, id="ini-not-strict"),
    ],
)
def test_baselines(
    pytester: pytest.Pytester,
    folder: Path,
    args: tuple[str, ...],
    ini: str,
    test: str,
    kind: str | None,
    notes: int,
) -> None:
    """A baseline has to fail; a strict one with exit code 1; one without a test gets a note."""
    value = f"failure_taxonomy_strict_baseline = {ini}" if ini else ""
    write(folder, {"pytest.ini": f"[pytest]\n{value}\n", "test_it.py": test})
    report = run_inside(pytester, BASELINE, *args).report()
    verdict: dict[str, Any] = report["verdict"] or {"kind": None}
    assert verdict["kind"] == kind
    assert len(report["notes"]) == notes


def test_a_strict_baseline_in_the_ini_file_leaves_other_stages_alone(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """One configuration serves all stages; the strictness is for its own."""
    write(folder, {"pytest.ini": "[pytest]\nfailure_taxonomy_strict_baseline = true\n"})
    assert run_inside(pytester).report()["verdict"] is None


# The hook.

ADDS: Final = "def pytest_failure_taxonomy_report(report):\n    "


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_conftest_adds_to_the_extensions(folder: Path, args: tuple[str, ...]) -> None:
    """What the hook returns stands in the report, made from the whole report."""
    body = (
        "return {'shop': {'failed': report['summary']['failed'], 'word': '\\u00e9'}}\n"
    )
    write(folder, {"conftest.py": ADDS + body, "test_it.py": FAILING})
    run = run_pytest(folder, *args, plugins=("xdist",))
    assert run.status == 1
    assert extensions_of(run.report()) == {"shop": {"failed": 1, "word": "é"}}


def test_several_hooks_are_merged(pytester: pytest.Pytester, folder: Path) -> None:
    """Each implementation's namespace is kept; one that returns nothing adds nothing."""
    write(
        folder,
        {
            "conftest.py": ADDS + "return {'conftest': 1}\n",
            "one.py": ADDS + "return {'one': [None, True, 1.5]}\n",
            "two.py": ADDS + "return None\n",
        },
    )
    pytester.syspathinsert()
    run = run_inside(pytester, "-p", "one", "-p", "two")
    assert extensions_of(run.report()) == {"conftest": 1, "one": [None, True, 1.5]}


def test_the_hook_may_stand_there_with_the_option_off(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """A conftest with the hook is no error for those who run without the option."""
    write(folder, {"conftest.py": ADDS + "raise SystemExit(9)\n"})
    run = run_inside(pytester, switch=())
    assert (run.status, run.outcome) == (0, "1 passed")


def test_the_hook_can_not_change_the_report(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """It is given a copy."""
    write(
        folder,
        {"conftest.py": ADDS + "report['summary'].clear(); report['verdict'] = 1\n"},
    )
    report = run_inside(pytester).report()
    assert report["verdict"] is None
    assert report["summary"]["passed"] == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return {'x': {1, 2}}", id="no-JSON"),
        pytest.param("return {'x': float('nan')}", id="not-a-number"),
        pytest.param("return 3", id="number"),
        pytest.param("return 'word'", id="text"),
        pytest.param("return [['x', 1]]", id="list-of-pairs"),
        pytest.param("x = {}; x['x'] = x; return x", id="circular"),
        pytest.param("return {(1, 2): 3}", id="key-that-is-no-text"),
        pytest.param("return {'pytest_failure_taxonomy': {}}", id="our-name"),
        pytest.param("raise ValueError('a\\nb\\x1b[31m')", id="error"),
        pytest.param("import pytest; pytest.fail('no')", id="pytest.fail"),
        pytest.param("import pytest; pytest.skip('no')", id="pytest.skip"),
        pytest.param("import pytest; pytest.exit('no', 7)", id="pytest.exit"),
        pytest.param("return pytest_failure_taxonomy_report(report)", id="recursion"),
    ],
)
def test_a_hook_that_fails_or_returns_rubbish(
    pytester: pytest.Pytester, folder: Path, body: str
) -> None:
    """It is left out with one line on stderr and a note in the report; the run is as it was."""
    write(folder, {"conftest.py": f"{ADDS}{body}\n", "test_it.py": FAILING})
    run = run_inside(pytester)
    assert (run.status, run.outcome) == (1, "1 failed")
    assert run.tail[-1] == f"report: {REPORT}"
    (line,) = run.stderr.splitlines()
    assert "pytest_failure_taxonomy_report" in line
    assert "\x1b" not in line
    assert run.report()["extensions"] == {}
    (fault,) = run.report()["faults"]
    assert "pytest_failure_taxonomy_report" in fault


def test_rubbish_does_not_spoil_what_others_return(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """One bad answer is left out; the good one beside it stays."""
    write(
        folder,
        {"conftest.py": ADDS + "return 3\n", "one.py": ADDS + "return {'one': 1}\n"},
    )
    pytester.syspathinsert()
    run = run_inside(pytester, "-p", "one")
    assert run.report()["extensions"]["one"] == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("'\\ud800'", "\\ud800", id="lone-surrogate"),
        pytest.param("'\\0\\x1b'", "\0\x1b", id="controls"),
        pytest.param("{1: {None: 2}}", {"1": {"null": 2}}, id="keys"),
        pytest.param("(1, 2)", [1, 2], id="tuple"),
    ],
)
def test_odd_values_of_a_hook_leave_the_report_readable(
    pytester: pytest.Pytester, folder: Path, value: str, shown: object
) -> None:
    """What JSON can hold is kept, in a form that every reader of JSON accepts."""
    write(folder, {"conftest.py": f"{ADDS}return {{'x': {value}}}\n"})
    assert extensions_of(run_inside(pytester).report()) == {"x": shown}


def test_the_environment_of_the_suite_does_not_leak() -> None:
    """The runs of these tests start from an environment without pytest's own variables."""
    names = child_environment({"COLUMNS": None})
    assert not [name for name in names if name.startswith("PYTEST_XDIST")]
    assert "COLUMNS" not in names


@pytest.mark.parametrize("given", ["-1", "nan", "inf", "soon", "", "1e400"])
def test_a_time_that_is_none_is_refused(pytester: pytest.Pytester, given: str) -> None:
    """After how long something hangs is a number of seconds from 0 on."""
    (pytester.path / "test_it.py").write_text(PASSING, "utf-8")
    run = run_inside(pytester, f"--failure-taxonomy-stall-seconds={given}")
    assert run.status == 4
    assert (
        f"--failure-taxonomy-stall-seconds: {given!r} is no number of seconds from 0 on; "
        "give a number of seconds such as 60, or 0 for off" in run.stderr
    )


def test_a_time_in_the_ini_file_that_is_none_is_refused(
    pytester: pytest.Pytester,
) -> None:
    """The ini value is checked like the option."""
    (pytester.path / "pytest.ini").write_text(
        "[pytest]\nfailure_taxonomy_stall_seconds = a while\n", "utf-8"
    )
    (pytester.path / "test_it.py").write_text(PASSING, "utf-8")
    run = run_inside(pytester)
    assert run.status == 4
    assert (
        "ini value failure_taxonomy_stall_seconds: 'a while' is no number" in run.stderr
    )
