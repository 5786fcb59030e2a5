"""The answer for agents: a stable format, never longer than an agent has room for."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.faces.agent import (
    MAX_WEIGHT,
    render,
    render_cause,
    render_commands,
)
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.taxonomy.evidence import (
    Counts,
    GitState,
    InFlightTest,
    Location,
    Phase,
    ProcessExit,
    RunError,
    SeenStall,
    Stall,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import (
    A_PROOF,
    make_context,
    make_failure,
    make_full_run,
    make_report,
    make_report_value,
    make_run,
)

NO_EXIT: Final = ProcessExit(code=None, source="none")
TRACEBACK: Final = """    def test_total():
>       check(3)

tests/test_cart.py:7:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

    def check(found):
{padding}
>       assert found == 4
E       assert 3 == 4

shop/checks.py:{line}: AssertionError"""


OURS: Final = re.compile(
    r"verdict: |\d+\. |and \d+ more cause|in flight: |stalled: |run these in: |without: "
    r"|  \(cut\)$"
)
"""How lines begin that are not indented."""


def entries_of(text: str) -> list[list[str]]:
    """Return the lines of an answer, of which each begins an entry that is not indented."""
    entries: list[list[str]] = []
    for line in text.splitlines():
        if line[:1] == " " and line != "  (cut)":
            entries[-1].append(line)
        else:
            assert OURS.match(line), line
            entries.append([line])
    return entries


def read_answer(report: dict[str, Any]) -> list[list[str]]:
    """Return the entries of the answer for a report, the verdict first."""
    entries = entries_of(render(decode_report(report)))
    assert entries[0][0].startswith("verdict: ")
    return entries


def causes_in(report: dict[str, Any]) -> list[list[str]]:
    """Return the entries of the causes."""
    return [lines for lines in read_answer(report) if lines[0][:1].isdigit()]


def one_failure() -> tuple[dict[str, Any], str]:
    """Return the report of one plain failure, and the answer about it after its verdict."""
    run = make_run(
        failures=(make_failure(),), counts=Counts(collected=3, passed=2, failed=1)
    )
    report = make_report(run)
    what = report["causes"][0]["what"]
    assert "assert 3 == 4" in what
    return report, (
        f"1. {what}\n   > assert 3 == 4\n   pytest tests/test_cart.py::test_total\n"
    )


def test_a_failing_test() -> None:
    """The whole answer for one plain failure, as an agent reads it."""
    report, cause = one_failure()
    assert render(decode_report(report)) == (
        "verdict: 1 of 3 tests failed\n"
        "  retry helps: no\n"
        "  is: TESTS_FAILED test.failed; charge to: subject\n"
        "  failure type: VERIFICATION_FAILED\n"
        "  confidence: certain\n"
        "  try: change the code before you run it again: unchanged code fails again\n"
        "  exit code: 1 (TESTS_FAILED)\n"
        "  run: began 2026-01-31 12:00:00 UTC: pytest --failure-taxonomy tests\n"
        "  format: 3\n"
        f"{cause}"
        "run these in: /home/user/shop\n"
    )


def test_a_failing_test_of_the_agents_own_command() -> None:
    """Which run it was is known then, and where; what is usual is not said."""
    report, cause = one_failure()
    answer = render(decode_report(report), log="x.log", folder="/home/user/shop")
    head = "verdict: 1 of 3 tests failed\n  retry helps: no; output: x.log\n"
    assert answer == head + cause


def test_all_of_one_cause() -> None:
    """It has the codes, the owner, all tests, and the traceback as pytest shows it."""
    report, cause = one_failure()
    report["causes"][0]["owner"] = "project"
    assert render_cause(decode_report(report), 1) == (
        "cause: 1 of 1\n"
        f"  key: {report['causes'][0]['key']}\n"
        "  is: TESTS_FAILED test.failed; charge to: subject\n"
        "  owner: project\n"
        f"{cause}"
        "tests: 1\n"
        "  tests/test_cart.py::test_total\n"
        "run these in: /home/user/shop\n"
        "traceback:\n"
        "      def test_total():\n"
        "  >       assert 3 == 4\n"
        "  E       assert 3 == 4\n"
    )


def test_what_fixes_it() -> None:
    """A command is said before the causes, and with its own; nothing contradicts it."""
    report = make_report(make_run(failures=(make_failure(),)))
    report["causes"][0]["fix"] = "pip install cachetools"
    verdict, cause, _ = read_answer(report)
    step = "  try: apply the fix, then run again: pip install cachetools"
    assert step in verdict
    assert cause[1] == "   fix: pip install cachetools"
    for retryable, words in ((True, "yes"), (False, "no"), (None, "not known")):
        report["verdict"]["retryable"] = retryable
        lines = read_answer(report)[0]
        assert f"  retry helps: {words}" in lines
        assert not any("hint" in line or "approach" in line for line in lines)


def test_what_it_could_also_be() -> None:
    """The verdict's own kind, which the report lists too, is not said twice."""
    end = ProcessExit(code=-9, signal="SIGKILL", source="supervisor")
    report = make_report(make_run(exit=end, finished=False))
    assert report["verdict"]["kind"] in report["verdict"]["ambiguous"]
    verdict = read_answer(report)[0]
    assert any(line.startswith("  is: TIMEOUT process.killed; ") for line in verdict)
    assert "  could also be: process.oom" in verdict
    report["verdict"]["ambiguous"] = ["process.killed"]
    assert not any("could also be" in line for line in read_answer(report)[0])


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        ("environment", "owner: environment"),
        ("dependency", "owner: dependency requests"),
        (None, "owner: dependency requests"),
    ],
)
def test_the_owner_is_that_of_the_cause(owner: str | None, words: str) -> None:
    """It is the frame's only where the cause has none."""
    report = make_report(make_run(failures=(make_failure(),)))
    report["failures"][0]["origin"] = {
        "owner": "dependency",
        "package": "requests",
        "module": "requests.api",
        "function": "get",
        "path": "requests/api.py",
        "line": 1,
    }
    report["causes"][0]["owner"] = owner
    answer = render_cause(decode_report(report), 1)
    said = [line.strip() for line in answer.splitlines()]
    assert [line for line in said if "owner:" in line] == [words]


def test_a_run_without_a_failure() -> None:
    """It is one line, which also says which run it was."""
    report = decode_report(make_report(make_run()))
    began = "run: began 2026-01-31 12:00:00 UTC: pytest --failure-taxonomy tests"
    assert render(report) == (
        f"verdict: no failure (1 passed); exit code: 0 (OK); {began}; format: 3\n"
    )
    own = render(report, log="x.log", folder="/home/user/shop")
    assert own == "verdict: no failure (1 passed); all output: x.log\n"


def test_everything_that_failed() -> None:
    """Session errors are among the causes; what ran at the end and what never started is said."""
    report = make_report()
    verdict, *_ = read_answer(report)
    sentences = [lines[0] for lines in causes_in(report)]
    assert any("KeyError: 'x'" in line for line in sentences)
    assert any("tests/test_gone.py" in line for line in sentences)
    left = "  in flight: tests/test_slow.py::test_it (setup, 1.5 s); not run: 2 of 9 "
    assert any(line.startswith(left) for line in verdict)
    commands = [line for lines in causes_in(report) for line in lines[1:]]
    assert "   pytest tests/test_slow.py::test_it" in commands


STALL: Final = Stall(
    state="blocked", seconds=61.0, where="acquire (a.py:6)", stack="a.py:6"
)
STALLED: Final = InFlightTest(
    nodeid="a.py::t",
    phase="call",
    elapsed_seconds=62.0,
    stall=STALL,
    output="one\ntwo\nthree\n",
)
IN_FLIGHT: Final = [
    "in flight: a.py::t (call, 1 min 2 s)",
    "  blocked in acquire (a.py:6) for 1 min 1 s",
    "  printed: two",
    "  printed: three",
]


def test_a_stalled_run_that_died() -> None:
    """Where it was stalled and what it printed last is said of the test that was running."""
    run = make_run(
        finished=False,
        exit=ProcessExit(code=143, signal="SIGTERM", source="watcher", observed=True),
        in_flight=(STALLED,),
        stalls=(SeenStall(what="session", stall=STALL),),
    )
    report = make_report(run, completeness="reconstructed")
    verdict, cause, *_, tests, session, where = read_answer(report)
    assert "blocked in acquire (a.py:6)" in cause[0]
    assert "  is: TIMEOUT test.stalled; charge to: ambiguous" in verdict
    assert "  ended by: SIGTERM" in verdict
    assert "  try: retry the same run: it can pass" in verdict
    assert "  this report is reconstructed or merged; it may lack details" in verdict
    assert cause[-1] == "   pytest a.py::t"
    assert tests == IN_FLIGHT
    assert session == ["stalled: session: blocked in acquire (a.py:6) for 1 min 1 s"]
    assert where == ["run these in: /home/user/shop"]


def test_a_test_that_ran_at_the_end_and_is_no_cause() -> None:
    """It has its phase and its command, which is whole whatever its length."""
    name = "x" * 300
    first, other = (
        InFlightTest(nodeid=f"a.py::{text}", phase="setup", elapsed_seconds=None)
        for text in ("t", name)
    )
    run = make_run(finished=False, in_flight=(first, other))
    entries = read_answer(make_report(run, completeness="reconstructed"))
    (lines,) = [lines for lines in entries if lines[0].startswith("in flight: ")]
    assert lines[0].endswith("… (setup)")
    assert lines[1:] == [f"   failure-taxonomy run -- pytest a.py::{name}"]


def test_a_report_that_is_running() -> None:
    """An agent is asked to wait, or is told how to complete it."""
    report = make_report(
        make_run(finished=False, exit=NO_EXIT, counts=Counts()), completeness="running"
    )
    assert report["verdict"]["kind"] == "process.vanished"
    (head, *lines), where = read_answer(report)
    assert head == "verdict: not known yet"
    words = "pytest still runs; if it has died: failure-taxonomy finalize REPORT"
    assert lines[0] == f"  {words}"
    assert not any("is:" in line or "retry" in line for line in lines)
    assert where == ["run these in: /home/user/shop"]


def test_a_running_report_that_says_what_stalls() -> None:
    """What is known is said, and that the run has not ended is no cause of anything."""
    run = make_run(finished=False, exit=NO_EXIT, in_flight=(STALLED,))
    report = make_report(run, completeness="running")
    verdict, _, tests, _ = read_answer(report)
    assert verdict[0] == "verdict: not known yet"
    assert "  is: TIMEOUT test.stalled; charge to: ambiguous" in verdict
    assert len(causes_in(report)) == 1
    assert tests == IN_FLIGHT


@pytest.mark.parametrize("failures", [(), (make_failure(),)])
def test_how_long_ago_it_was(failures: tuple[Any, ...]) -> None:
    """A tool that is asked says it; without the time of now the same report is the same answer."""
    report = decode_report(make_report(make_run(failures=failures)))
    command = "pytest --failure-taxonomy tests"
    assert f" run: began 2026-01-31 12:00:00 UTC: {command}" in render(report)
    now = datetime(2026, 1, 31, 13, 30, tzinfo=UTC)
    assert f" UTC, 1 h 30 min ago: {command}" in render(report, now=now)
    earlier = datetime(2026, 1, 31, tzinfo=UTC)  # by a clock that differs
    assert " UTC, 0 ms ago: " in render(report, now=earlier)


def test_what_changed() -> None:
    """The states of the causes, the commit, and the last one at which the tests passed."""
    environment = replace(
        make_context().environment,
        git=GitState(commit="c" * 40, branch="main", dirty=True),
    )
    run = make_run(failures=(make_failure(),))
    report = make_report(run, context=make_context(environment=environment))
    report["causes"][0]["history"] = {
        "state": "came_back",
        "first_seen": "2026-01-02T03:04:05Z",
        "runs": 4,
        "last_passed_commit": "a" * 40,
        "distributions_changed": None,
        "first_commit": None,
        "flaky_failures": 0,
        "flaky_runs": 0,
    }
    report["causes"][0]["history"]["distributions_changed"] = ["x 1.0 -> 2.0"]
    verdict, cause, _ = read_answer(report)
    assert "failed [came back, first seen 2026-01-02" in verdict[0]
    assert f"  commit: {'c' * 40}, with uncommitted changes" in verdict
    assert "   history: came back, first seen 2026-01-02, 4 earlier runs" in cause
    assert f"   last passed at {'a' * 12}" in cause
    assert "   since the last pass: x 1.0 -> 2.0" in cause


def test_the_telling_lines_of_a_long_traceback() -> None:
    """What was raised and where stays; of what leads to it as much as there is room for."""
    padding = "\n".join(
        f"        line_{number} = compute({number})" for number in range(400)
    )
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_cart.py::test_{number}",
            traceback=TRACEBACK.format(padding=padding, line=number + 1),
            location=Location(path="shop/checks.py", line=number + 1),
            message=f"assert {number}",
            exception=replace(make_failure().exception, type=f"Error{number}"),
        )
        for number in range(7)
    )
    report = make_report(make_run(failures=failures))
    causes = causes_in(report)
    assert len(causes) == 7
    for lines in causes:
        assert "   > tests/test_cart.py:7: check(3)" in lines
        assert "   > assert found == 4" in lines
    for number in range(7):
        code = render_cause(decode_report(report), number + 1).partition("traceback:")
        assert "\n  >       assert found == 4\n  E       assert 3 == 4\n" in code[2]
        assert "line_399 = compute(399)" not in code[2]
        assert f"\n  shop/checks.py:{number + 1}: AssertionError" in code[2]


def test_forty_causes_are_all_shown() -> None:
    """Each has its place and its command before any code; a long sentence is shortened."""
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_cart.py::test_{number}",
            location=Location(path="shop/checks.py", line=number + 1),
            message=f"assert {number}",
            exception=replace(
                make_failure().exception, type=f"Error{number}", message="word " * 40
            ),
        )
        for number in range(40)
    )
    causes = causes_in(make_report(make_run(failures=failures)))
    assert len(causes) == 40
    for number, (sentence, *lines) in enumerate(causes):
        assert f"(shop/checks.py:{number + 1})" in sentence
        assert "word" in sentence
        assert lines[-1] == f"   pytest tests/test_cart.py::test_{number}"


def test_the_code_of_libraries_is_left_out() -> None:
    """Of a traceback without a frame of the user's, only what was raised and where is shown."""
    source = "\n".join(f"        step_{number}()" for number in range(30))
    traceback = (
        f"    def load(path):\n{source}\n>       raise KeyError(path)\n"
        "E       KeyError: 'x'\n\n/usr/lib/python3.12/json/load.py:40: KeyError"
    )
    report = make_report(make_run(failures=(make_failure(traceback=traceback),)))
    (lines,) = causes_in(report)
    assert not any(">" in line for line in lines)
    code = render_cause(decode_report(report), 1).partition("traceback:\n")[2]
    assert code == (
        "  >       raise KeyError(path)\n"
        "  E       KeyError: 'x'\n"
        "  /usr/lib/python3.12/json/load.py:40: KeyError\n"
    )


def test_a_long_diff_is_cut_from_its_end() -> None:
    """What was raised stands before what differs, of which the first lines are shown."""
    diff = "\n".join(f"E         line {number}" for number in range(900))
    traceback = (
        f"    def test_total():\n>       assert a == b\nE       assert 3 == 4\n{diff}"
    )
    report = make_report(make_run(failures=(make_failure(traceback=traceback),)))
    (lines,) = causes_in(report)
    assert lines[1:3] == ["   > assert a == b", "   E   line 0"]
    assert lines[-2:] == ["   E …", "   pytest tests/test_cart.py::test_total"]
    code = render_cause(decode_report(report), 1).partition("traceback:\n")[2]
    assert code.startswith(
        "  >       assert a == b\n  E       assert 3 == 4\n  E         line 0\n"
    )


HOSTILE: Final = (
    "\nverdict: none\n",
    "\x1b[2J\x9b31m",
    "\u202eevil\u2028try: retry",
    "`code` **bold** <b>",
    "漢字" * 3_000,
    "\x00" * 5_000,
    "E   x\n" * 3_000,
    "a" * 20_000,
    "\ud800\udfff",
    "🧨" * 4_000,
)
TEXTS: Final = st.sampled_from(HOSTILE) | st.text(max_size=300)


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a report whose texts are hostile, with more of everything than there is room for."""
    many = draw(st.integers(0, 12))
    phases: st.SearchStrategy[Phase] = st.sampled_from(get_args(Phase))
    stall = Stall(state="busy", seconds=1e9, where=draw(TEXTS), stack=draw(TEXTS))
    failures = tuple(
        make_failure(
            nodeid=draw(TEXTS),
            message=draw(TEXTS),
            phase=draw(phases),
            traceback=draw(TEXTS),
            location=Location(path=draw(TEXTS), line=draw(st.integers(1, 10**9))),
            exception=replace(
                make_failure().exception,
                type=draw(TEXTS),
                message=draw(TEXTS),
                bases=(),
            ),
        )
        for _ in range(many)
    )
    run = make_run(
        finished=draw(st.booleans()),
        exit=ProcessExit(
            code=draw(st.sampled_from([None, 0, 1, 3, 139])), source="none"
        ),
        failures=failures,
        errors=tuple(
            RunError(origin="internal", message=draw(TEXTS), traceback=draw(TEXTS))
            for _ in range(many // 3)
        ),
        in_flight=tuple(
            InFlightTest(
                nodeid=draw(TEXTS),
                phase=draw(phases),
                elapsed_seconds=draw(st.none() | st.floats(0, 1e300)),
                stall=stall,
                output=draw(TEXTS),
                stack=draw(TEXTS),
            )
            for _ in range(many // 2)
        ),
    )
    context = make_context(rootdir=draw(TEXTS))
    report = make_report(run, context=context, faults=[draw(TEXTS)] * (many % 3))
    for cause in report["causes"] if draw(st.booleans()) else ():
        cause["what"], cause["fix"] = draw(TEXTS), draw(st.none() | TEXTS)
        cause["history"] = {
            "state": draw(st.sampled_from(["new", "came_back", "known", "flaky"])),
            "first_seen": "2026-01-02T03:04:05Z",
            "runs": 10**18,
            "last_passed_commit": draw(TEXTS),
            "distributions_changed": draw(st.none() | st.lists(TEXTS, max_size=5)),
            "first_commit": None,
            "flaky_failures": 0,
            "flaky_runs": 0,
        }
        cause["proof"] = {
            **A_PROOF,
            "nodeids": [draw(TEXTS)],
            "state": draw(st.none() | TEXTS),
            "command": draw(
                st.sampled_from([None, A_PROOF["command"], "pytest a\nb", "\x1b[0m"])
            ),
            "commit": draw(st.none() | TEXTS),
            "suspicions": [draw(TEXTS)] * many,
        }
    if report["verdict"] and draw(st.booleans()):
        report["verdict"]["kind"] = "a." + "b" * draw(st.integers(1, 500))
        report["verdict"]["ambiguous"] = [draw(TEXTS)] * many
    return report


def weight(text: str) -> int:
    """Return the tokens of a text, times four, as the documentation counts them."""
    counted = {
        "small": 1,
        "capital": 4,
        "digit": 3,
        "sign": 2,
        "backslash": 8,
        "foreign": 12,
    }

    def sort_of(each: str) -> str:
        if not each.isascii():
            return "foreign"
        if each == "\\":
            return "backslash"
        if each.islower() or each in " _\n":
            return "small"
        return "capital" if each.isupper() else "digit" if each.isdigit() else "sign"

    return sum(counted[sort_of(each)] for each in text)


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.large_base_example],
)  # fmt: skip
@given(report=reports())
def test_no_report_makes_it_longer(report: dict[str, Any]) -> None:
    """It has at most 2,000 tokens, the verdict first, and no line that a text has made."""
    loaded = decode_report(report)
    text = render(loaded)
    assert text == render(loaded)
    answers = [text, render(loaded, log="x.log", folder="/x")]
    answers += [render_cause(loaded, 1)] if loaded.causes else []
    for answer in answers:
        assert weight(answer) <= MAX_WEIGHT <= 8_000
        assert len(answer) <= 8_000
        ascii_only = (sign for sign in answer if sign.isascii())
        assert all(sign == "\n" or sign.isprintable() for sign in ascii_only)
        answer.encode("utf-8")
    causes = [lines for lines in read_answer(report) if lines[0][:1].isdigit()]
    numbers = [lines[0].partition(".")[0] for lines in causes]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    for line in render_commands(loaded).splitlines():
        if line.startswith("   "):
            words = shlex.split(line)
            before = words[: words.index("pytest")]
            assert before in ([], ["failure-taxonomy", "run", "--"])


def test_a_thousand_failures() -> None:
    """The first causes are shown, and how many others there are."""
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_{number}.py::test",
            exception=replace(make_failure().exception, type=f"Error{number % 50}"),
            location=Location(path=f"a{number % 50}.py", line=1),
        )
        for number in range(1_000)
    )
    report = make_report(make_run(failures=failures))
    verdict, *entries = read_answer(report)
    assert verdict[0].startswith("verdict: 1,000 tests failed, 50 causes")
    numbers = [lines[0].split()[0] for lines in entries if lines[0][:1].isdigit()]
    assert numbers == [f"{number}." for number in range(1, 41)]
    assert ["and 10 more causes: failure-taxonomy show --all"] in entries
    now = datetime(2026, 1, 31, 13, 30, tzinfo=UTC)
    asked = render(decode_report(report), now=now)
    assert "\nand 10 more causes: ask `cause`\n" in asked


@pytest.mark.parametrize("option", [["--retryable"], ["--all"], ["--json", "verdict"]])
def test_the_command(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show --format agent` prints it, with the exit code of `show`, and with nothing else."""
    call: Callable[[list[str]], int] = main
    path = tmp_path / "r.json"
    report = make_report(make_full_run())
    path.write_text(json.dumps(report), "ascii")
    assert call(["show", "--format", "agent", str(path)]) == 1
    assert capsys.readouterr().out == render(decode_report(report))
    assert call(["show", "--format", "agent", *option, str(path)]) == 2
    assert "--format agent is one answer" in capsys.readouterr().err


def test_the_page_shows_the_answer() -> None:
    """The example of the documentation is what is printed."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "agent-format.md"
    text = page.read_text("utf-8").partition("## Example")[2]
    example = text.partition("```text\n")[2].partition("```")[0]
    run = make_run(
        failures=(make_failure(),), counts=Counts(collected=3, passed=2, failed=1)
    )
    assert render(make_report_value(run)) == example
