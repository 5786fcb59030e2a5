"""Which options name one file, or one of ours, however their paths are spelled."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.option_files import refused_files

OURS: Final = ("html", "junit", "rules", "known", "history")


def refused(
    folder: Path,
    ini: dict[str, str] | None = None,
    report: str | None = "r.json",
    args: Sequence[str] = (),
    **given: Any,
) -> list[str]:
    """Return the problems of options in a project, without the folder's own path."""
    options: dict[str, Any] = dict.fromkeys(
        (*(f"failure_taxonomy_{name}" for name in OURS),)
    )
    options |= {"bench_json": None, "bench_baseline": None, "bench_storage": None}
    options |= {
        f"failure_taxonomy_{name}" if name in OURS else name: each
        for name, each in given.items()
    }
    config = SimpleNamespace(
        known_args_namespace=Namespace(**options),
        getini={"addopts": [], **(ini or {})}.__getitem__,
        invocation_params=SimpleNamespace(dir=folder, args=args),
        rootpath=folder,
        inipath=folder / "pytest.ini",
    )
    found = refused_files(config, None if report is None else folder / report)
    return [
        each.replace(f"{folder}{os.sep}", "").replace("--failure-taxonomy", "-")
        for each in found
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with a few files and links."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "FAILURE_TAXONOMY_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("there.html", "pytest.ini", "h.db"):
        (tmp_path / name).touch()
    (tmp_path / "old.db").write_bytes(b"SQLite format 3\0 and more")
    (tmp_path / "sub").mkdir()
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "to-there").symlink_to("there.html")
    (tmp_path / "to-nothing").symlink_to("sub/new.html")
    (tmp_path / "hard").hardlink_to(tmp_path / "there.html")
    return tmp_path


@pytest.mark.parametrize(
    ("html", "junit"),
    [
        ("x", "x"),
        ("x", "./sub/../x"),
        ("x", "{folder}/x"),
        ("x", "~/x"),
        ("x", "here/x"),
        ("new/x", "here/here/new/x"),
        ("there.html", "to-there"),
        ("to-nothing", "sub/new.html"),
        ("hard", "there.html"),
    ],
)
def test_spellings_of_one_file(folder: Path, html: str, junit: str) -> None:
    """Relative or absolute, by way of a link, and whether it is there or not."""
    (line,) = refused(folder, html=html, junit=junit.format(folder=folder))
    assert line.startswith("--junit and --html both name ")
    assert line.endswith("; give each its own file")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"html": "r.json"}, ["--report and --html both name r.json"]),
        ({"html": "h.db", "history": "h.db"}, ["--history and --html both name h.db"]),
        ({"html": "h.db", "history": "sqlite:///h.db?timeout=1"}, ["--history and --html"]),
        ({"html": "h.db", "history": "sqlite+pysqlite:////{folder}/h.db"}, ["--history and "]),
        ({"html": "h.db", "history": "sqlite:///file:h%2edb?uri=true"}, ["--history and --html"]),
        ({"html": "h.db", "history": "sqlite:////{folder}/%68.db"}, ["--history and --html both"]),
        ({"html": "old.db"}, ["--html: old.db is a database; give another file"]),
        ({"bench_json": "old.db"}, ["--bench-json: old.db is a database"]),
        ({"history": "old.db"}, []),
        ({"html": "x", "cov_report": {"xml": "x", "term": None}}, ["--html and --cov-report"]),
        ({"history": "h.db", "cov_report": {"xml": "sub/../h.db"}}, ["--history and --cov-report"]),
        ({"html": "h.db-wal", "history": "h.db"}, ["--history and --html both name h.db-wal"]),
        ({"html": "h.db", "history": "postgresql://x/h.db"}, []),
        ({"html": "x", "xmlpath": "x"}, ["--html and --junitxml both name x"]),
        ({"junit": "x", "htmlpath": "x"}, ["--junit and --html both name x"]),
        ({"xmlpath": "r.json"}, ["--report and --junitxml both name r.json"]),
        ({"report_log": "r.json"}, ["--report and --report-log"]),
        ({"json_report_file": "r.json"}, ["--report and --json-report-file"]),
        ({"log_file": "r.json"}, ["--report and --log-file"]),
        ({"rules": "x", "known": "x"}, ["--rules and --known"]),
        ({"html": "x", "rules": "x", "junit": "y", "known": "y"}, ["--rules and", "--known and"]),
        ({"bench_json": "x", "html": "x"}, ["--html and --bench-json"]),
        ({"bench_json": "x", "bench_baseline": "x"}, ["--bench-json and --bench-baseline"]),
        ({"html": ".bench"}, ["--html and --bench-storage both name .bench"]),
        ({"html": "kept/x.jsonl", "bench_storage": "kept"}, ["--html: kept/x.jsonl is in "]),
        ({"bench_baseline": ".bench/x.jsonl"}, []),
        ({"html": "pytest.ini"}, ["--html and the configuration file both name pytest.ini"]),
        ({"html": ".failure-taxonomy/x"}, ["--html: .failure-taxonomy/x is in the folder of the "]),
        ({"history": ".failure-taxonomy/x"}, []),
        ({"html": ".r.json.lock"}, ["--html: .r.json.lock is a name of the run's own record"]),
        ({"xmlpath": "sub/.r.json.0/events", "html": "sub/.r.json.lock"}, []),
        ({"html": "/dev/null", "junit": "/dev/null", "xmlpath": "/dev/null"}, []),
        ({"xmlpath": "x", "log_file": "x"}, []),
        ({"html": "x", "junit": "X"}, []),
        ({"known": "history", "html": "history"}, []),
        ({"html": " ", "junit": " "}, []),
        ({"html": "a\0", "junit": "a\0"}, []),
    ],
)  # fmt: skip
def test_pairs_of_options(
    folder: Path, options: dict[str, Any], expected: list[str]
) -> None:
    """All problems are told at once; what is no file, and what is none of ours, is none."""
    given: dict[str, Any] = {
        name: each.format(folder=folder) if isinstance(each, str) else each
        for name, each in options.items()
    }
    found = refused(folder, **given)
    assert len(found) == len(expected), found
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


def test_what_the_environment_and_ini_values_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count like options, relative to their own place."""
    monkeypatch.setenv("FAILURE_TAXONOMY_HISTORY", str(folder / "h.db"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(folder / "sub" / "output"))
    ini = {"failure_taxonomy_html": "h.db", "failure_taxonomy_junit": "sub/output"}
    assert refused(folder, ini) == [
        "--history and ini value failure_taxonomy_html both name h.db; give each its own file",
        (
            "GITHUB_OUTPUT and ini value failure_taxonomy_junit both name sub/output; give each "
            "its own file"
        ),
    ]
    assert refused(folder, ini, report=None) == []  # the report is off
    assert refused(folder, report=None, bench_json="x", xmlpath="x") == [
        "--bench-json and --junitxml both name x; give each its own file"
    ]


def test_options_are_named_as_they_were_typed(folder: Path) -> None:
    """By the short name or the long one; a default by the long one."""
    typed = ["--why-html=x", "--why-junit", "x", "--failure-taxonomy-history=h.db"]
    assert refused(folder, args=typed, html="x", junit="x", history="h.db") == [
        "--why-junit and --why-html both name x; give each its own file"
    ]
    assert refused(folder, args=["--why", "--why-html=r.json"], html="r.json") == [
        "--report and --why-html both name r.json; give each its own file"
    ]


def test_a_file_system_that_ignores_case(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names that differ in case alone are of one file, even before it is there."""
    exists, samefile = os.path.exists, os.path.samefile
    spelled = {str(folder).swapcase(): str(folder)}
    monkeypatch.setattr(
        os.path, "exists", lambda path: exists(spelled.get(str(path), str(path)))
    )
    monkeypatch.setattr(
        os.path,
        "samefile",
        lambda one, other: samefile(spelled.get(str(one), str(one)), other),
    )
    (line,) = refused(folder, html="New.html", junit="new.HTML")
    assert line.startswith("--junit and --html both name ")
