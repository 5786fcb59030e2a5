"""What is said of a run, from which every face reads: headline, causes, advice, commands, what is
left.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.faces.terminal import Line, verdict_lines
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import summarise
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit, Surroundings
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import ShownPaths
from tests.helpers.reports import (
    make_context,
    make_failure,
    make_report,
    make_report_value,
    make_run,
)

REFUSED: Final = "nothing listens on 127.0.0.1:5439: fixture db (test_mix.py:5)"
MISSING: Final = "cachetools is not installed: 12 test files can't be imported"
ASSERTION: Final = "assert 1 == 2: test_x (test_mix.py:10)"
KNOWN: Final = {
    "state": "known",
    "first_seen": "2026-11-03T00:00:00Z",
    "runs": 14,
    "last_passed_commit": None,
    "distributions_changed": None,
    "first_commit": None,
    "flaky_failures": 0,
    "flaky_runs": 0,
}
NEW: Final = {**KNOWN, "state": "new", "runs": 0}


def cause(what: str, **given: Any) -> dict[str, Any]:
    """Return a cause of a report, with the given fields replaced."""
    return {
        "key": "0123456789abcdef",
        "what": what,
        "fix": None,
        "reason": "TESTS_FAILED",
        "kind": "test.failed",
        "owner": "test",
        "retryable": False,
        "charge_to": None,
        "failure_type": "UNKNOWN",
        "count": 1,
        "nodeids": ["test_mix.py::test_x"],
        "tests": [],
        "files": [],
        "unnamed": 0,
        "fingerprints": [],
        "history": None,
        "proof": None,
        **given,
    }


def report_of(
    *causes: dict[str, Any], message: str, retryable: bool | None = None, **verdict: Any
) -> dict[str, Any]:
    """Return the report of a run that these causes made fail."""
    report = make_report(make_run(failures=(make_failure(),)))
    said = {
        "message": message,
        "retryable": retryable,
        "nodeid": None,
        "evidence": [],
        **verdict,
    }
    return {
        **report,
        "causes": list(causes),
        "failures": [],
        "groups": [],
        "verdict": {**report["verdict"], **said},
    }


def many(count: int, **given: Any) -> dict[str, Any]:
    """Return the report of a run with so many causes, all of them assertions."""
    causes = [cause(f"assert {n}: test_{n} (a.py:{n})") for n in range(1, count + 1)]
    message = f"{count} of 9 tests failed, {count} causes"
    return report_of(*causes, message=message, **{"retryable": False, **given})


def text_of(report: dict[str, Any], **given: Any) -> list[str]:
    """Return what the terminal shows, 80 columns wide."""
    lines = verdict_lines(decode_report(report), "r.json", **given)
    return [line.text + line.gap(80) + line.tail for line in lines]


def test_several_causes() -> None:
    """Three of them in the report's order, how many more there are, and whether a retry helps."""
    report = report_of(
        cause(REFUSED, count=3, retryable=True),
        cause(MISSING, count=12, fix="pip install cachetools"),
        *(cause(ASSERTION) for _ in range(4)),
        message="8 of 9 tests failed, 6 causes",
        reason="TIMEOUT",
        kind="test.timeout",
        retryable=False,
    )
    assert text_of(report) == [
        "why this run failed",
        "8 of 9 tests failed, 6 causes                             [TIMEOUT test.timeout]",
        f"  3 x {REFUSED}",
        f"  12 x {MISSING}; fix: pip install cachetools",
        f"  1 x {ASSERTION}",
        "and 3 more causes; a retry can't fix 5 of the 6 causes",
        "report: r.json",
    ]
    assert text_of(report, quiet=True) == [
        "8 of 9 tests failed, 6 causes                             [TIMEOUT test.timeout]",
        f"  3 x {REFUSED}",
        f"  12 x {MISSING}; fix: pip install cachetools",
        f"  1 x {ASSERTION}",
        "report: r.json",
    ]


@pytest.mark.parametrize(
    ("count", "given", "first", "last"),
    [
        (2, {}, "2 of 9 tests failed, 2 causes", "a retry won't help"),
        (3, {}, "3 of 9 tests failed, 3 causes", "a retry won't help"),
        (4, {}, "4 of 9 tests failed, 4 causes; a retry won't help", "assert 4"),
        (4, {"retryable": None}, "4 of 9 tests failed, 4 causes", "assert 4"),
        (
            5,
            {},
            "5 of 9 tests failed, 5 causes",
            "and 2 more causes; a retry won't help",
        ),
        (5, {"retryable": None}, "5 of 9 tests failed, 5 causes", "and 2 more causes"),
        (1_500, {}, "1500 of 9", "and 1,497 more causes; a retry won't help"),
    ],
)
def test_six_lines_and_the_path(count: int, given: Any, first: str, last: str) -> None:
    """However many causes there are, title, headline, four lines, and where the report is."""
    lines = text_of(many(count, **given))
    assert len(lines) <= 7
    assert lines[1].startswith(first)
    assert last in lines[-2]


def test_what_was_left() -> None:
    """What was running and what never ran has a line, which costs a fourth cause its own."""
    report = {**many(4), "not_run": {"count": 3, "nodeids": []}}
    report["summary"] = {**report["summary"], "collected": 9}
    report["in_flight"] = [
        {
            "nodeid": f"a.py::t{number}",
            "phase": "call",
            "worker": None,
            "stall": None,
            "elapsed_seconds": 61.4,
            "output": None,
            "stack": None,
            "location": None,
        }
        for number in range(3)
    ]
    assert text_of(report)[-2] == (
        "and 1 more cause; in flight: a.py::t0 (call, 1 min 1 s) and 2 more; "
        "not run: 3 of 9 tests; a retry won't help"
    )


def test_one_cause() -> None:
    """Its sentence is the headline; what fixes it is a line of its own."""
    report = report_of(
        cause(MISSING, count=12, fix="pip install cachetools", nodeids=["a/test_1.py"]),
        message=MISSING,
        retryable=False,
        reason="INTERNAL_ERROR",
        kind="collection.error",
    )
    assert text_of(report) == [
        "why this run failed",
        f"{MISSING}  [INTERNAL_ERROR collection.error]",
        "fix: pip install cachetools",
        "first: a/test_1.py",
        "a retry won't help",
        "report: r.json",
    ]
    assert len(text_of(report, quiet=True)) == 2


def test_what_is_not_certain() -> None:
    """What a run could have been is said with its codes."""
    report = report_of(
        cause("the process was killed"),
        message="the process was killed (SIGKILL): memory or a time limit",
        confidence="likely",
        reason="TIMEOUT",
        kind="process.killed",
        ambiguous=["process.oom", "process.killed"],
    )
    assert (
        summarise(decode_report(report)).codes
        == "[TIMEOUT process.killed or process.oom, likely]"
    )


def test_an_exit_code_alone() -> None:
    """It can mean many things, and a line has no room for more than two."""
    report = report_of(
        cause("tests failed, judging only by pytest's exit code"),
        message="tests failed, judging only by pytest's exit code",
        confidence="likely",
        ambiguous=["test.failed", "test.setup_error", "collection.error"],
    )
    assert (
        summarise(decode_report(report)).codes == "[TESTS_FAILED test.failed, likely]"
    )


@pytest.mark.parametrize(
    ("retryable", "of_causes", "advice"),
    [
        (True, [True, True], "a retry may help"),
        (None, [True, None], ""),
        (False, [False, False], "a retry won't help"),
        (False, [True, False], "a retry can't fix 1 of the 2 causes"),
        (False, [False], "a retry won't help"),
    ],
)
def test_whether_a_retry_helps(
    retryable: bool | None, of_causes: list[bool | None], advice: str
) -> None:
    """It is the verdict's own answer; what of several causes speaks against it is counted."""
    causes = [cause("x", retryable=each) for each in of_causes]
    assert (
        summarise(
            decode_report(report_of(*causes, message="m", retryable=retryable))
        ).advice
        == advice
    )


def test_assertions_speak_against_a_retry() -> None:
    """Among causes that a retry could fix, an assertion is named as what it could not."""
    report = make_report(make_run(failures=(make_failure(),)))
    found = {**report["causes"][0], "retryable": False}
    report["causes"] = [cause(REFUSED, retryable=True, nodeids=[]), found]
    report["verdict"]["retryable"] = False
    assert (
        summarise(decode_report(report)).advice
        == "a retry won't help: an assertion failed"
    )
    found["count"] = 2
    assert (
        summarise(decode_report(report)).advice
        == "a retry won't help: assertions failed"
    )
    decoded = decode_report(report)
    (failure,) = summarise(decoded).causes[1].failures
    assert failure is decoded.failures[0]


def test_the_history_of_several_causes() -> None:
    """The headline counts causes; each cause says what earlier runs know of it."""
    report = report_of(
        cause(ASSERTION, history=NEW),
        cause(REFUSED, history=KNOWN, count=7),
        message="8 of 9, 2",
    )
    assert [line.text for line in verdict_lines(decode_report(report), "")][1:4] == [
        "8 of 9, 2, 2 causes (1 new, 1 known)",
        f"  1 x {ASSERTION} [new]",
        f"  7 x {REFUSED} [known since 2026-11-03, 14 earlier runs]",
    ]


def test_a_command_stays_in_one_piece_on_a_narrow_terminal() -> None:
    """Only sentences are broken, between words, and the codes stand at the end."""
    fix = "pip install --only-binary :all: openpyxl"
    line = Line(text=f"  1 x openpyxl is missing; fix: {fix}", is_sentence=True)
    assert [part.text for part in line.wrapped(24)] == [
        "  1 x openpyxl is",
        "    missing;",
        f"    fix: {fix}",
    ]
    line = Line(text="5 of 7 tests failed", tail="[TIMEOUT]", is_sentence=True)
    assert [part.text + part.gap(24) + part.tail for part in line.wrapped(24)] == [
        "5 of 7 tests failed",
        "               [TIMEOUT]",
    ]
    for whole in (replace(line, is_sentence=False), replace(line, tail="")):
        assert [*whole.wrapped(24)] == [whole]


def test_the_counts_of_a_history_are_those_of_all_causes() -> None:
    """They add up to the number before them, or are left out."""
    known = cause(ASSERTION, history=KNOWN, count=7)
    report = report_of(known, known, message="14 tests failed, 2 causes")
    assert (
        summarise(decode_report(report)).headline
        == "14 tests failed, 2 causes, all known"
    )
    unasked = cause(REFUSED, fingerprints=["f"])
    report["causes"] = [known, unasked]
    assert summarise(decode_report(report)).headline == "14 tests failed, 2 causes"
    report["causes"] = [known, known]
    report["limits"]["causes_omitted"] = 3
    assert summarise(decode_report(report)).headline == "14 tests failed, 2 causes"


def test_the_history_of_one_cause() -> None:
    """It stands behind its sentence."""
    report = report_of(
        cause(ASSERTION, history=KNOWN), message=f"1 of 2 tests failed: {ASSERTION}"
    )
    flaky = {"state": "flaky", "flaky_runs": 10, "flaky_failures": 3}
    report["causes"][0]["history"] = {**KNOWN, **flaky}
    assert summarise(decode_report(report)).headline.endswith(
        "(test_mix.py:10) [flaky: 3 of 10 runs]"
    )


def test_paths_from_where_pytest_was_started() -> None:
    """The paths in a cause's own words are shown from there, too."""
    report = report_of(
        cause("assert 1: test_x (sub/test_a.py:3)", nodeids=["sub/test_a.py::test_x"]),
        message="1 of 2 tests failed: assert 1: test_x (sub/test_a.py:3)",
    )
    summary = summarise(decode_report(report), ShownPaths("/root/x", "/root/x/sub"))
    assert summary.causes[0].text == "assert 1: test_x (test_a.py:3)"
    assert summary.headline.endswith("test_x (test_a.py:3)")


ARGS: Final = [
    (["--failure-taxonomy"], ""),
    (["--env=staging", "--timeout", "2", "tests"], " --env=staging --timeout 2"),
    (["-p", "no:randomly", "-pmy_plugin", "-o", "xfail_strict=true"],
     " -p no:randomly -pmy_plugin -o xfail_strict=true"),
    (["-n", "4", "--dist=loadfile", "-n4"], ""),
    (["-xvs", "-k", "a and b", "-mslow", "-rA", "--tb=short"], " -s"),
    (["--junitxml=x.xml", "--html", "r.html", "--cov", "src", "--cov-report=xml"], ""),
    (["--failure-taxonomy-report=r.json", "--why-html", "x.html"], ""),
    (["--why", "--why-history", "--failure-taxonomy-end-stalled", "-p", "x"], " -p x"),
    (["--why-history", "h.db", "--why-junit", "j.xml", "--failure-taxonomy-summary=off"], ""),
    (["--failure-taxonomy-rules", "rules.yaml"], " --failure-taxonomy-rules rules.yaml"),
    (["--lf", "--deselect", "a.py::t", "--maxfail=1", "tests/test_cart.py"], ""),
    (["--device", "cuda:0", "--my-flag", "tests/test_cart.py"], " --device cuda:0 --my-flag"),
    (["--my-flag", "tests"], " --my-flag"),
    (["--stage-name", "two words", "a.py::t"], " --stage-name 'two words'"),
    (["--my-flag", "--other=x y"], " --my-flag '--other=x y'"),
    (["--token", "[REDACTED:field]"], ""),
    (["--runslow", "sub", "--", "-x"], " --runslow"),
    (["-W", "error::DeprecationWarning", "-c", "other.ini"],
     " -W error::DeprecationWarning -c other.ini"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "options"), ARGS)
def test_the_command_keeps_the_options_of_the_run(
    args: list[str], options: str
) -> None:
    """But for what selects tests, writes reports, or changes what is shown."""
    context = make_context(args=tuple(args))
    run = reproduction_of(
        make_report_value(make_run(failures=(make_failure(),)), context=context)
    )
    assert run.command("a.py::t") == f"pytest{options} a.py::t"


def test_a_process_that_left_is_run_by_the_command_that_sees_it() -> None:
    """Alone, pytest would end with status 0 again, as if nothing had failed."""
    left = make_run(exit=ProcessExit(code=0, source="watcher"), finished=False)
    report = make_report(left, context=make_context(args=("-x", "-p", "no:randomly")))
    assert {each["kind"] for each in report["reasons"]} == {"process.exited"}
    command = reproduction_of(decode_report(report)).command("a.py::t")
    assert command == "failure-taxonomy run -- pytest -p no:randomly a.py::t"


def test_what_a_command_can_not_have() -> None:
    """A secret and what stands in the environment are named."""
    context = make_context(
        args=("--token", "[REDACTED:field]"),
        surroundings=Surroundings(variables=("PYTEST_ADDOPTS",), cache=False),
    )
    run = reproduction_of(make_report_value(make_run(), context=context))
    assert run.missing == (
        "--token, whose value is not in the report",
        "the environment variable PYTEST_ADDOPTS, which the run had",
    )


@pytest.mark.parametrize(
    ("python", "path", "program"),
    [
        ("", None, "pytest"),
        ("", ".", "python -m pytest"),
        ("-X dev -Werror", ".", "python -X dev -Werror -m pytest"),
        ("-O", None, "python -O -P -m pytest"),
        ("", "scripts", "PYTHONPATH=scripts pytest"),
        ("-B", "../a b", "PYTHONPATH='../a b' python -B -P -m pytest"),
        # A report may be anybody's.
        ("-c evil", ".", "python -m pytest"),
        ("-B -W error::evil.Category", ".", "python -B -m pytest"),
        ("-X dev;evil", "\x1b[31m", "pytest"),
    ],
)
def test_the_command_starts_pytest_as_the_run(
    python: str, path: str | None, program: str
) -> None:
    """The same folder comes first on `sys.path`; options that run code are none of Python's."""
    context = make_context(args=(), surroundings=Surroundings(python=python, path=path))
    report = make_report(make_run(failures=(make_failure(),)), context=context)
    assert (
        reproduction_of(decode_report(report)).command("a.py::t")
        == f"{program} a.py::t"
    )


@pytest.mark.parametrize(
    ("nodeid", "command"),
    [
        ("tests/test_a.py::test_b", "pytest tests/test_a.py::test_b"),
        ("a.py::t[x y]", "pytest 'a.py::t[x y]'"),
        ("a.py::t['; rm -rf ~']", """pytest 'a.py::t['"'"'; rm -rf ~'"'"']'"""),
        ("a.py::t[$(id)`id`]", "pytest 'a.py::t[$(id)`id`]'"),
        ("-x.py::t", "pytest ./-x.py::t"),
        ("@x.py::t", "pytest ./@x.py::t"),
        ("a.py::t[\x1b[2J]", "pytest a.py::t"),
        ("a.py::t[\u202e]", "pytest a.py::t"),
        ("a.py::t[[REDACTED:token 0123456789]]", "pytest a.py::t"),
        (f"a.py::t[{'x' * 500}]", "pytest a.py::t"),
        (f"a.py::{'x' * 500}", "pytest a.py"),
        (f"{'x' * 500}.py::t", ""),
        ("\ud800.py", ""),
        ("", ""),
    ],
)
def test_commands_are_for_a_shell(nodeid: str, command: str) -> None:
    """They are quoted; where a node id can't be given to a shell, what is around it is run."""
    assert reproduction_of(make_report_value(make_run())).command(nodeid) == command
