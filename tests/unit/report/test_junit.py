"""JUnit XML of reports: by Jenkins' rules, and as junitparser reads it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import xmlschema
from defusedxml import ElementTree
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.faces.junit import XUNIT1, XUNIT2, address, render
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.write import encode
from pytest_failure_taxonomy.taxonomy.evidence import (
    Counts,
    InFlightTest,
    ProcessExit,
    RaisedException,
)
from tests.helpers.past_runs import report_as_json
from tests.helpers.reports import make_failure, make_report_value, make_run

RULES = Path(__file__).parents[2] / "helpers" / "junit_rules.xsd"


@cache
def rules() -> xmlschema.XMLSchema:
    """Return Jenkins' rules."""
    return xmlschema.XMLSchema(str(RULES))


def suite_of(text: str) -> Any:
    """Return the one suite, as junitparser reads it, after checking the whole by Jenkins' rules."""
    rules().validate(text)
    (suite,) = JUnitXml.fromstring(text.encode())
    return suite


def cases_of(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the cases of a text, each with the elements in it."""
    found: dict[tuple[str, str], list[str]] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        place = (case.get("classname", ""), case.get("name", ""))
        found.setdefault(place, []).extend(each.tag for each in case)
    return found


def test_everything_that_a_report_has_a_place_for() -> None:
    """Each failure is a case, those of the session, too, and the counts are of the cases."""
    text = render(make_report_value())
    suite = suite_of(text)
    assert cases_of(text) == {
        ("tests.test_cart", "test_total"): [
            "failure",
            "rerunFailure",
            "failure",
            "error",
        ],
        ("tests.test_slow", "test_it"): ["error"],
        ("", "tests.test_broken"): ["error"],
        ("", "tests.test_gone"): ["error"],
        ("failure_taxonomy", "internal.error"): ["error"],
        ("failure_taxonomy", "plugin.error"): ["error"],
        ("failure_taxonomy", "interrupt.keyboard"): ["error"],
    }
    assert suite.tests == len(list(suite))
    assert (suite.failures, suite.errors, suite.skipped) == (1, 7, 0)


@pytest.mark.parametrize(
    ("outcome", "element", "kind"),
    [
        ("passed", [], None),
        ("skipped", ["skipped"], "pytest.skip"),
        ("xfailed", ["skipped"], "pytest.xfail"),
        ("xpassed", [], None),
        ("flaky", ["flakyFailure"], "test.failed"),
    ],
)
def test_every_outcome(outcome: str, element: list[str], kind: str | None) -> None:
    """In pytest's and Surefire's words."""
    text = render(decode_report(report_as_json(1, test_a=outcome)))
    assert cases_of(text)["tests.test_x", "test_a"] == element
    suite_of(text)
    if kind is not None:
        assert f'type="{kind}"' in text


def test_a_failure_says_what_sort_it_is() -> None:
    """Its type is the kind; its cause, owner, fingerprint and codes stand above the traceback."""
    report = report_as_json(1, test_a="failed", test_b="passed")
    suite = suite_of(render(decode_report(report)))
    (case,) = [each for each in suite if each.name == "test_a"]
    (result,) = case.result
    assert (result.type, result.message) == (
        "test.failed",
        "AssertionError: assert 3 == 4",
    )
    lines = result.text.splitlines()
    assert lines[0] == report["causes"][0]["what"]
    assert "[TESTS_FAILED test.failed]" in lines
    assert f"fingerprint: {report['failures'][0]['fingerprint']}" in lines
    given = {each.name: each.value for each in suite.properties()}
    assert given["failure_taxonomy.reason"] == "TESTS_FAILED"
    assert given["failure_taxonomy.retryable"] == "false"


def test_files_and_properties_in_the_older_dialect() -> None:
    """GitLab shows the file, and other readers the properties, that Jenkins' schema refuses."""
    text = render(decode_report(report_as_json(1, test_a="failed")), family=XUNIT1)
    (case,) = ElementTree.fromstring(text).iter("testcase")
    assert case.get("file") == "tests/test_x.py"
    given = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert given["failure_taxonomy.reason"] == "TESTS_FAILED"
    assert given["failure_taxonomy.kind"] == "test.failed"
    assert not rules().is_valid(text)


def test_earlier_attempts_are_reruns() -> None:
    """A test that failed each time has its earlier attempts in Surefire's words."""
    text = render(make_report_value(make_run(failures=(make_failure(attempts=3),))))
    assert cases_of(text)["tests.test_cart", "test_total"] == [
        "rerunFailure",
        "rerunFailure",
        "failure",
    ]
    suite_of(text)


def test_a_death_has_a_case_of_its_own() -> None:
    """And the test that was running then says so."""
    run = make_run(
        exit=ProcessExit(code=139, signal="SIGSEGV", observed=True, source="watcher"),
        finished=False,
        counts=Counts(collected=3, passed=1),
        in_flight=(
            InFlightTest(nodeid="t.py::test_b", phase="call", elapsed_seconds=2.0),
        ),
    )
    text = render(make_report_value(run, completeness="reconstructed"))
    suite = suite_of(text)
    assert cases_of(text) == {
        ("t", "test_b"): ["error"],
        ("failure_taxonomy", "process.crashed"): ["error"],
    }
    assert "it was running when the run ended, for 2.0 s" in text
    assert suite.errors == 2


def test_a_report_that_is_still_running_is_no_success() -> None:
    """A reader that sees no failure would be green."""
    text = render(
        decode_report({**report_as_json(1, test_a="passed"), "completeness": "running"})
    )
    assert cases_of(text)["failure_taxonomy", "running"] == ["error"]
    assert suite_of(text).errors == 1


@pytest.mark.parametrize(
    ("nodeid", "place"),
    [
        ("tests/test_a.py::test_b", ("tests.test_a", "test_b")),
        ("a/b.py::C::test[x::y/z.py]", ("a.b.C", "test[x::y/z.py]")),
        ("doc.md", ("", "doc.md")),
    ],
)
def test_names_are_those_of_pytest(nodeid: str, place: tuple[str, str]) -> None:
    """So that the files of both can be compared."""
    assert address(nodeid) == place


@given(text=st.text(max_size=60), family=st.sampled_from((XUNIT2, XUNIT1)))
def test_any_text_stays_a_text(text: str, family: str) -> None:
    """Nothing that a test says makes another element, or a file that can't be read."""
    failure = make_failure(
        nodeid=f"t.py::test[{text}]",
        message=text,
        traceback=text,
        exception=RaisedException(type="E", module="m", message=text),
    )
    made = render(make_report_value(make_run(failures=(failure,))), family=family)
    root = ElementTree.fromstring(made.encode())
    assert len(list(root.iter("testcase"))) == 1
    assert len(list(root.iter("failure"))) == 1
    if family != XUNIT1:
        rules().validate(made)


def test_a_converted_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the command line, to stdout and to a file."""
    (tmp_path / "r.json").write_bytes(
        encode(decode_report(report_as_json(1, test_a="failed")))
    )
    assert main(["convert", str(tmp_path / "r.json"), "--to", "junit"]) == 0
    suite_of(capsys.readouterr().out)
    out = str(tmp_path / "made" / "o.xml")
    assert main(["convert", str(tmp_path / "r.json"), "--to", "junit", "-o", out]) == 0
    assert isinstance(JUnitXml.fromfile(out), JUnitXml)


PYTESTS = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="0" failures="1" skipped="0" tests="2" time="0.1">
<testcase classname="tests.test_x" name="test_a" time="0.1">
<failure message="assert 3 == 4">text</failure></testcase>
<testcase classname="tests.test_x" name="test_b" time="0.0" /></testsuite></testsuites>
"""


def augmented(
    tmp_path: Path, xml: str | None, report: dict[str, Any], *more: str
) -> int:
    """Add what a report knows to a file; return the exit code."""
    (tmp_path / "r.json").write_bytes(encode(decode_report(report)))
    if xml is not None:
        (tmp_path / "p.xml").write_text(xml)
    words = ["--to", "junit", "--augment", str(tmp_path / "p.xml"), *more]
    return main(["convert", str(tmp_path / "r.json"), *words])


def test_what_pytest_wrote_is_augmented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cases and texts stay, and say what sort of failure they are."""
    assert augmented(tmp_path, PYTESTS, report_as_json(1, test_a="failed")) == 0
    made = capsys.readouterr().out
    suite = suite_of(made)
    assert (suite.tests, suite.failures, suite.errors) == (2, 1, 0)
    (failure,) = ElementTree.fromstring(made).iter("failure")
    assert (failure.get("type"), failure.get("message")) == (
        "test.failed",
        "assert 3 == 4",
    )
    told = failure.text or ""
    assert told.startswith("assert 3 == 4: test_a (tests/test_cart.py:7)\n")
    assert "\n[TESTS_FAILED test.failed]\n" in told
    assert told.endswith("\ntext")


@pytest.mark.parametrize("xml", [None, ""], ids=["missing", "empty"])
def test_where_pytest_wrote_none_all_of_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], xml: str | None
) -> None:
    """As when pytest died."""
    report = report_as_json(1, test_a="failed", test_b="passed")
    report["completeness"] = "reconstructed"
    assert augmented(tmp_path, xml, report) == 0
    assert suite_of(capsys.readouterr().out).tests == 2


def test_a_file_that_pytest_must_have_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is missed if pytest finished: its name is wrong."""
    assert augmented(tmp_path, None, report_as_json(1, test_a="failed")) == 2
    message = capsys.readouterr().err
    assert "p.xml: there is no such file, although pytest finished; give" in message
    assert message.count("\n") == 1


BOMB = '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><testsuites>&b;</testsuites>'


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        (BOMB, "it defines entities"),
        ("<html/>", "it is no JUnit file, but begins with <html>"),
        (PYTESTS[:200], "it is no XML"),
        (PYTESTS.replace("test_a", "test_c"), "it is of another run than the report"),
    ],
    ids=["bomb", "foreign", "truncated", "other run"],
)
def test_files_that_can_not_be_augmented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], xml: str, words: str
) -> None:
    """One line, exit code 2, and nothing is written."""
    out = tmp_path / "o.xml"
    assert (
        augmented(tmp_path, xml, report_as_json(1, test_a="failed"), "-o", str(out))
        == 2
    )
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--to", "html", "--augment", "x.xml"], "--augment adds to JUnit XML"),
        (["--to", "html", "--family", "xunit1"], "--family is for JUnit XML"),
        (["--to", "junit", "-o", "."], "is a directory; give the name of a file"),
    ],
)
def test_options_that_do_not_fit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    """They are told in one line."""
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_bytes(
        encode(decode_report(report_as_json(1, test_a="failed")))
    )
    assert main(["convert", "r.json", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_nested_too_deep_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two hundred thousand suites in each other are refused in words."""
    xml = (
        "<testsuites>"
        + "<testsuite>" * 200_000
        + "</testsuite>" * 200_000
        + "</testsuites>"
    )
    assert augmented(tmp_path, xml, report_as_json(1, test_a="failed")) == 2
    assert "p.xml: its suites are nested too deep; give what" in capsys.readouterr().err
