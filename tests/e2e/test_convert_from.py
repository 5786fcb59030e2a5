"""`failure-taxonomy convert --from`: reports of what other programs have written.

The files in `tests/data/other_formats` were written by the plugins themselves, in runs of `SUITE`,
of a suite whose test leaves by `os._exit`, and of one whose xdist worker does. Where a plugin is
installed it also writes a file anew.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.faces.ctrf import render as as_ctrf
from pytest_failure_taxonomy.logs.foreign import exception_of, report_from
from pytest_failure_taxonomy.logs.reportlog import NOTE
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.taxonomy.evidence import Environment
from tests.helpers.children import run_child
from tests.helpers.reports import (
    assert_valid_report,
    make_full_run,
    make_report,
)

SAMPLES: Final = Path(__file__).parents[1] / "data" / "other_formats"
ENVIRONMENT: Final = Environment(python="3.13.1", platform="Linux", pytest="unknown")
READERS: Final = ("reportlog", "ctrf")
SUITE: Final = """
import pytest
STATE = []
def test_ok(): pass
def test_bad(): assert 3 == 4, "it is broken"
@pytest.fixture
def broken(): raise RuntimeError("no database")
def test_setup(broken): pass
@pytest.mark.xfail
def test_xfail(): assert 0
@pytest.mark.skip
def test_skipped(): pass
"""
"""What all of the suite of the samples has that each pytest can run."""


class Said(NamedTuple):
    """What a command has answered."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Return what calls the command in this process."""

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = main(words)
        return Said(code, *capsys.readouterr())

    return call


def read(source: str, path: Path) -> dict[str, Any]:
    """Return the report that is made of a file, checked."""
    report = report_from(
        source, path, rootdir=Path("/home/user/shop"), environment=ENVIRONMENT
    )
    content: dict[str, Any] = json.loads(json.dumps(as_json(report)))
    assert_valid_report(content)
    return content


def refusal(source: str, path: Path) -> str:
    """Return the words of the error."""
    with pytest.raises(ReportError) as error:
        report_from(source, path, rootdir=path.parent, environment=ENVIRONMENT)
    words = str(error.value)
    assert "\n" not in words
    assert words.startswith(str(path))
    return words


def counted(report: dict[str, Any]) -> dict[str, int]:
    """Return the counts of a report that are not 0."""
    return {name: count for name, count in report["summary"].items() if count}


def notes_of(report: dict[str, Any]) -> str:
    """Return the notes of a report, as one text."""
    return " ".join(report["notes"])


PYTESTS_LAST_LINE: Final = {
    "collected": 15,
    "passed": 5,
    "failed": 7,
    "errors": 3,
    "skipped": 1,
    "xfailed": 1,
    "xpassed": 1,
    "rerun": 1,
    "flaky": 1,
    "collection_errors": 1,
}
"""`7 failed, 5 passed, 1 skipped, 1 xfailed, 1 xpassed, 3 errors, 1 rerun` is what pytest said."""


@pytest.mark.parametrize(
    ("source", "name", "differs"),
    [
        ("reportlog", "reportlog.jsonl", {}),
        # It has no reports of subtests, nor what could not be collected; xpassed tests are
        # passed ones.
        (
            "ctrf",
            "ctrf.json",
            {
                "failed": 6,
                "errors": 2,
                "xpassed": 0,
                "passed": 6,
                "collection_errors": 0,
            },
        ),
    ],
)
def test_counts_are_pytests_own(
    source: str, name: str, differs: dict[str, int]
) -> None:
    """They are those of pytest's last line, but for what a format has no place for."""
    expected = {**PYTESTS_LAST_LINE, **differs}
    assert counted(read(source, SAMPLES / name)) == {
        k: n for k, n in expected.items() if n
    }


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("reportlog", "reportlog.jsonl"),
        ("ctrf", "ctrf.json"),
    ],
)
def test_what_failed_is_judged(source: str, name: str) -> None:
    """Reason, kinds, exceptions and places are those of the run; the notes say what is missing."""
    report = read(source, SAMPLES / name)
    assert report["completeness"] == "reconstructed"
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("TESTS_FAILED", "test.failed")
    kinds = {held["kind"] for held in report["reasons"]}
    assert {"test.setup_error", "test.teardown_error", "test.xpass_strict"} <= kinds
    assert ("collection.error" in kinds) == (source != "ctrf")
    failures = {each["nodeid"].partition("::")[2]: each for each in report["failures"]}
    bad = failures["test_bad"]
    assert bad["exception"]["type"] == "AssertionError"
    assert bad["location"] == {"path": "test_shop.py", "line": 10}
    assert "assert 3 == 4" in bad["traceback"]
    assert failures["test_setup"]["phase"] == "setup"
    assert failures["test_teardown"]["phase"] == "teardown"
    assert failures["test_strict"]["kind"] == "test.xpass_strict"
    assert failures["TestC::test_m"]["failure_type"] == "BROKEN_BUILD"
    outcomes = {
        test["nodeid"].partition("::")[2]: test["outcome"] for test in report["tests"]
    }
    assert outcomes["test_flaky"] == "flaky"
    assert outcomes["test_skipped"] == "skipped"
    assert outcomes["test_xfail"] == "xfailed"
    assert outcomes["test_param[<b>]"] == "passed"
    assert "not in it" in notes_of(report)


def test_a_subtest_is_one_of_its_tests() -> None:
    """A failed subtest and its test have one cause, which is counted once."""
    report = read("reportlog", SAMPLES / "reportlog.jsonl")
    (group,) = [
        each for each in report["groups"] if "test_shop.py::test_sub" in each["nodeids"]
    ]
    assert group["count"] == 1
    (cause,) = [
        each for each in report["causes"] if "test_shop.py::test_sub" in each["nodeids"]
    ]
    assert cause["count"] == 1


def test_a_log_without_an_end_tells_of_a_death() -> None:
    """The test that had begun its call was running; how pytest ended is not known."""
    report = read("reportlog", SAMPLES / "reportlog-death.jsonl")
    assert report["verdict"]["kind"] == "process.vanished"
    assert report["verdict"]["confidence"] == "likely"
    assert report["exit"]["code"] is None
    (running,) = report["in_flight"]
    assert (running["nodeid"], running["phase"]) == ("test_crash.py::test_dies", "call")
    assert "in its setup, can't be known" in notes_of(report)
    assert [test["outcome"] for test in report["tests"]] == ["passed", "in_flight"]


def test_an_xdist_worker_that_died() -> None:
    """Its test has crashed, and is counted once."""
    report = read("reportlog", SAMPLES / "reportlog-xdist-crash.jsonl")
    assert report["verdict"]["kind"] == "worker.crashed"
    assert counted(report) == {"collected": 3, "passed": 2, "failed": 1, "crashed": 1}
    (failure,) = report["failures"]
    assert (failure["nodeid"], failure["worker"]) == ("test_crash.py::test_dies", "gw0")
    assert report["run"]["started_at"].startswith("2026-")


def test_ctrf_of_our_own_is_read_as_any_other(tmp_path: Path) -> None:
    """Its tests come back, and nothing that only our `extra` knows of the session."""
    before = make_report(make_full_run())
    (tmp_path / "c.json").write_text(as_ctrf(decode_report(before)), "utf-8")
    after = read("ctrf", tmp_path / "c.json")
    assert after["verdict"]["reason"] == "TESTS_FAILED"
    assert after["exit"]["code"] == 1
    assert "not in it" in notes_of(after)
    for name in ("collection_errors", "internal_errors", "in_flight"):
        assert after[name] == []
    assert after["not_run"]["count"] == 0
    failed = {each["nodeid"] for each in after["failures"]}
    assert failed >= {each["nodeid"] for each in before["failures"]}


def test_lines_of_unknown_types_are_skipped(tmp_path: Path) -> None:
    """A log with lines that a newer pytest-reportlog may write is read without a note."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(LOG + PHASE + b'{"$report_type": "Newer"}\n' + END)
    assert notes_of(read("reportlog", log)) == NOTE


def test_other_tools_names(tmp_path: Path) -> None:
    """CTRF of a tool that knows no node ids: file, suites and title make one."""
    tests = [
        {"name": "adds up", "status": "failed", "duration": 5, "filePath": "src/cart.test.ts",
         "suite": ["src/cart.test.ts", "Cart"], "message": "TypeError: x is undefined"},
        {"name": "adds up", "status": "passed", "duration": 5, "filePath": "src/tax.test.ts"},
        {"name": "adds up", "status": "other", "duration": 5, "suite": "old > style"},
    ]  # fmt: skip
    document = {"results": {"tool": {"name": "vitest"}, "summary": {}, "tests": tests}}
    (tmp_path / "c.json").write_text(json.dumps(document), "utf-8")
    report = read("ctrf", tmp_path / "c.json")
    assert [test["nodeid"] for test in report["tests"]] == [
        "src/cart.test.ts::Cart::adds up",
        "src/tax.test.ts::adds up",
        "old > style::adds up",
    ]
    assert report["environment"]["pytest"] == "unknown"
    assert report["failures"][0]["exception"]["type"] == "TypeError"


LOG: Final = b'{"pytest_version": "9.0.0", "$report_type": "SessionStart"}\n'
PHASE: Final = b'{"nodeid": "a.py::t", "when": "setup", "outcome": "passed", "$report_type": "TestReport"}\n'
END: Final = b'{"exitstatus": 0, "$report_type": "SessionFinish"}\n'
DEEP: Final = b"[" * 100_000


def ctrf_of(*tests: dict[str, Any], **more: Any) -> bytes:
    """Return CTRF of these tests."""
    results = {"tool": {"name": "pytest"}, "summary": {}, "tests": list(tests)}
    return json.dumps({"reportFormat": "CTRF", "results": results, **more}).encode()


TEST: Final = {"name": "a.py::t", "status": "passed", "duration": 1}


@pytest.mark.parametrize(
    ("source", "content", "words"),
    [
        ("reportlog", b"", "it is empty"),
        ("reportlog", LOG + PHASE + b'{"nodeid": "a.p', "line 3: it is cut off: pytest is writing"),
        ("reportlog", LOG + b"{\n" + END, "line 2: not JSON"),
        ("reportlog", PHASE, "line 1: it begins with TestReport"),
        ("reportlog", LOG + PHASE + LOG, "line 3: a second run begins here; give a file for each"),
        ("reportlog", LOG + PHASE + PHASE, "line 3: the setup of a.py::t stands twice"),
        ("reportlog", LOG + PHASE.replace(b"setup", b"boot"), "line 2: there is no phase 'boot'"),
        ("reportlog", LOG + END.replace(b"0", b"null"), "line 2: its `exitstatus` is no integer"),
        ("reportlog", LOG + b'{"a": NaN}\n', "line 2: 'NaN' is no number"),
        ("reportlog", LOG + DEEP + b"\n", "line 2: nested too deep"),
        ("reportlog", b"\x1f\x8b\x08", "it is compressed; unpack it first"),
        ("reportlog", b"<testsuites/>", "it looks like XML; for JUnit give --from junit"),
        ("reportlog", ctrf_of(TEST), "it looks like CTRF; give --from ctrf"),
        ("ctrf", b"[]", "it is no JSON object; give a CTRF file"),
        ("ctrf", b'{"results": {}, "too', "not JSON"),
        ("ctrf", LOG, "it looks like a file of pytest-reportlog; give --from reportlog"),
        ("ctrf", b'{"results": 1e999}', "the number '1e999' is too big"),
        ("ctrf", b'{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ("ctrf", DEEP, "nested too deep"),
        ("ctrf", ctrf_of(TEST, specVersion="2.0.0"), "CTRF 2.0.0 is newer than this program reads"),
        ("ctrf", ctrf_of(TEST, TEST), "it has the test a.py::t twice, as two runs would; give the"),
        ("ctrf", ctrf_of({**TEST, "status": "gone"}), "results.tests[0] has no `status`"),
        ("ctrf", json.dumps(make_report()).encode(), "a report of this program; give --to FORMAT"),
    ],
)  # fmt: skip
def test_what_is_refused(
    source: str, content: bytes, words: str, tmp_path: Path, call: Callable[..., Said]
) -> None:
    """One line says where, what is wrong and what would be right; nothing is written."""
    path = tmp_path / "file"
    path.write_bytes(content)
    assert words in refusal(source, path)
    said = call(
        "convert", "--from", source, str(path), "-o", str(tmp_path / "out.json")
    )
    assert said.code == 2
    assert len(said.err.splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


XUNIT1: Final = """<testsuites><testsuite name="shop">
<testcase classname="shop.test_cart.TestTotal" name="test_sum" file="shop/test_cart.py" line="3">
<failure message="assert 3 == 4">E  assert 3 == 4</failure></testcase>
<testcase classname="cart" name="test_on_windows" file="shop\\test_win.py"/>
<testcase classname="shop.test_cart" name="test_net" file="shop/test_cart.py">
<flakyFailure message="refused" type="ConnectionError"/></testcase>
</testsuite></testsuites>
"""


def test_junit_with_files_and_reruns(tmp_path: Path) -> None:
    """`junit_family=xunit1` names files; Surefire's words tell what passed on a rerun."""
    (tmp_path / "j.xml").write_text(XUNIT1, "utf-8")
    report = read("junit", tmp_path / "j.xml")
    assert {test["nodeid"]: test["outcome"] for test in report["tests"]} == {
        "shop/test_cart.py::TestTotal::test_sum": "failed",
        "shop/test_win.py::test_on_windows": "passed",
        "shop/test_cart.py::test_net": "flaky",
    }
    (failure,) = report["failures"]
    assert failure["nodeid"] == "shop/test_cart.py::TestTotal::test_sum"
    assert failure["phase"] == "call"
    assert "assert 3 == 4" in failure["traceback"]


@pytest.mark.parametrize("source", [*READERS, "junit"])
def test_a_huge_file_is_not_read(
    source: str, tmp_path: Path, call: Callable[..., Said]
) -> None:
    """500 MB are refused by their size, before a byte is read."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(500 * 1024**2)
    said = call(
        "convert", "--from", source, str(path), "-o", str(tmp_path / "out.json")
    )
    assert said.code == 2
    limit = 256 if source == "reportlog" else 64
    assert f"bigger than {limit} MiB" in said.err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.posix("Windows has no named pipes in folders")
@pytest.mark.parametrize("source", [*READERS, "junit"])
def test_what_is_no_file(
    source: str, tmp_path: Path, call: Callable[..., Said]
) -> None:
    """A pipe is not waited for; a folder and a missing file are told."""
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("pipe", "and not a file"),
        ("", "and not a file"),
        ("x", "no such file"),
    ):
        said = call("convert", "--from", source, str(tmp_path / name))
        assert said.code == 2
        assert words in said.err


def test_junit_names_its_extra(
    tmp_path: Path, call: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without defusedxml one line says what brings it."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "defusedxml":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    (tmp_path / "j.xml").write_text("<testsuites/>", "utf-8")
    said = call("convert", "--from", "junit", str(tmp_path / "j.xml"))
    assert said.code == 2
    assert 'pip install "pytest-failure-taxonomy[junit]"' in said.err


def test_a_report_on_stdout(call: Callable[..., Said]) -> None:
    """The report is the answer, and the verdict stands on stderr."""
    said = call("convert", "--from", "reportlog", str(SAMPLES / "reportlog.jsonl"))
    assert said.code == 0
    assert_valid_report(json.loads(said.out))
    headline = "8 of 15 tests failed, 1 file can't be collected, 9 causes"
    assert headline in said.err


def test_secrets_are_removed(tmp_path: Path, call: Callable[..., Said]) -> None:
    """A token in a message of another program's file is not in the report."""
    token = "ghp_" + "a1B2" * 9
    failed = {
        **TEST,
        "status": "failed",
        "message": f"ValueError: {token}",
        "trace": token,
    }
    (tmp_path / "c.json").write_bytes(ctrf_of(failed))
    said = call("convert", "--from", "ctrf", str(tmp_path / "c.json"))
    assert said.code == 0
    assert token not in said.out + said.err
    assert "[REDACTED" in said.out


JSON_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def spoilt(value: Any, draw: Callable[[Any], Any]) -> Any:
    """Return a JSON value with some of its parts replaced by others of any type."""
    if draw(st.integers(0, 30)) == 0:
        return draw(JSON_VALUES)
    if isinstance(value, dict):
        return {name: spoilt(each, draw) for name, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each, draw) for each in value[:4]]
    return value


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
                           HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip
@given(data=st.data(), source=st.sampled_from([*READERS]))
def test_any_types_make_a_report_or_one_line(
    data: st.DataObject, source: str, tmp_path: Path
) -> None:
    """Fields of other types than they should be give a valid report or a refusal, never a bug."""
    path = tmp_path / "file"
    if source == "reportlog":
        lines = [
            json.loads(line)
            for line in (SAMPLES / "reportlog.jsonl").read_bytes().splitlines()
        ]
        chosen = data.draw(st.lists(st.sampled_from(lines[1:]), max_size=3))
        entries = [lines[0], *(spoilt(line, data.draw) for line in chosen)]
        path.write_text("".join(f"{json.dumps(each)}\n" for each in entries), "utf-8")
    else:
        document = json.loads((SAMPLES / "ctrf.json").read_text("utf-8"))
        path.write_text(json.dumps(spoilt(document, data.draw)), "utf-8")
    try:
        read(source, path)
    except ReportError as error:
        assert "\n" not in str(error)  # noqa: PT017 - not raised is right as well


@pytest.mark.parametrize(
    ("message", "text", "expected"),
    [
        ("ValueError: no", "", ("ValueError", "builtins", "no")),
        ("assert 1 == 2", "", ("AssertionError", "builtins", "assert 1 == 2")),
        (
            "requests.exceptions.Timeout: slow",
            "",
            ("Timeout", "requests.exceptions", "slow"),
        ),
        ("it said: no", "a.py:1: KeyError", ("KeyError", "builtins", "it said: no")),
        ("all is lost", "", None),
        ("[XPASS(strict)] why", "", None),
    ],
)
def test_exceptions_in_words(
    message: str, text: str, expected: tuple[str, str, str] | None
) -> None:
    """The exception that a message names, or the end of its traceback."""
    found = exception_of(message, text)
    assert (found and (found.type, found.module, found.message)) == expected


@pytest.mark.parametrize(
    ("plugin", "options", "source"),
    [
        ("pytest_reportlog.plugin", ["--report-log=out"], "reportlog"),
        ("ctrf.main", ["--ctrf=out"], "ctrf"),
    ],
)
def test_what_the_plugin_writes_now(
    plugin: str, options: list[str], source: str, tmp_path: Path
) -> None:
    """A file of the installed version of the plugin, not the sample of an older one."""
    if importlib.util.find_spec(plugin.partition(".")[0]) is None:
        pytest.skip(
            f"{plugin.partition('.')[0]} is not installed; its stored file was read"
        )
    (tmp_path / "test_shop.py").write_text(SUITE, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, *options]
    child = run_child(tmp_path, command)
    assert (tmp_path / "out").is_file(), child
    report = read(source, tmp_path / "out")
    outcomes = {
        test["nodeid"].partition("::")[2]: test["outcome"] for test in report["tests"]
    }
    assert outcomes == {
        "test_ok": "passed",
        "test_bad": "failed",
        "test_setup": "error",
        "test_xfail": "xfailed",
        "test_skipped": "skipped",
    }
    assert report["verdict"]["kind"] == "test.failed"
