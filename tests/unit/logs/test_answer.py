"""The answer for a log: of pytest's output, of other programs', and of rubbish."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import (
    ANSWERS,
    MAX_FAILURES,
    classify_log,
    evidence_of_log,
)
from pytest_failure_taxonomy.logs.log_lines import chunks_of
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import Stage

PYTEST_LOG: Final = """\
============================= test session starts ==============================
platform linux -- Python 3.13.0, pytest-9.2.0, pluggy-1.7.0
collected 4 items

test_it.py .FE[gw0] node down: Not properly terminated
F                                                          [100%]

==================================== ERRORS ====================================
___________________________ ERROR at setup of test_b ___________________________
E       fixture 'nope' not found
>       available fixtures: capfd
/x/test_it.py:7
=================================== FAILURES ===================================
_________________________________ TestC.test_m _________________________________

>   raise ValueError('bad')
E   ValueError: bad
E   value

test_it.py:6: ValueError
----------------------------- Captured stdout call -----------------------------
============================= test session starts ==============================
E   KeyError: inner
[GZA_FAILURE:MAX_TURNS]
__________________________________ test_it.py __________________________________
worker 'gw0' crashed while running 'test_it.py::test_c'
=========================== short test summary info ============================
ERROR test_it.py::test_b
FAILED test_it.py::TestC::test_m - ValueError: bad
FAILED test_it.py::test_c - worker 'gw0' crashed while running 'test_it.py::t...
!!!!!!!!!!!!!!!!!!! Interrupted: 2 errors during collection !!!!!!!!!!!!!!!!!!!!
INTERNALERROR> Traceback (most recent call last):
INTERNALERROR> RuntimeError: hook is broken
++++++++++++++++++++++++++++++++++ Timeout +++++++++++++++++++++++++++++++++++++
Fatal Python error: Segmentation fault
ERROR: file or directory not found: x
==================== 2 failed, 1 passed, 1 error in 0.03s =====================
"""
FAILED_LOG: Final = PYTEST_LOG.partition("!!!")[0] + PYTEST_LOG.splitlines()[-1] + "\n"


def answer_of(log: str | bytes, **given: Any) -> dict[str, Any]:
    """Return the answer for a log that comes in one piece."""
    raw = log.encode() if isinstance(log, str) else log
    answer = classify_log([raw] if raw else [], name="log", **given)
    content: dict[str, Any] = ANSWERS.encode(answer)
    return content


def test_what_pytest_says_in_several_places() -> None:
    """Summary, sections and crash are put together to failures with type, place and phase."""
    answer = answer_of(FAILED_LOG, exit_code=1)
    assert (answer["reason"], answer["marker"]) == ("TESTS_FAILED", "MAX_TURNS")
    failures = {each["nodeid"]: each for each in answer["failures"]}
    assert list(failures) == [
        "test_it.py::TestC::test_m",
        "test_it.py::test_b",
        "test_it.py::test_c",
    ]
    assert failures["test_it.py::test_b"]["phase"] == "setup"
    method = failures["test_it.py::TestC::test_m"]
    assert method["message"] == "ValueError: bad\nvalue"
    assert method["exception"] == {"type": "ValueError", "module": "builtins"}
    assert method["location"] == {"path": "test_it.py", "line": 6}
    assert failures["test_it.py::test_c"]["kind"] == "worker.crashed"
    kinds = [each["kind"] for each in answer["reasons"]]
    assert sorted(kinds) == [
        "marker.max_turns",
        "test.failed",
        "test.setup_error",
        "worker.crashed",
    ]


def test_marker_never_overrides() -> None:
    """A marker is one more reason, though its own comes first by precedence."""
    log = "[GZA_FAILURE:MAX_TURNS]\n" + FAILED_LOG
    answer = answer_of(log, exit_code=1)
    assert answer["reason"] == "TESTS_FAILED"
    assert "marker.max_turns" in [each["kind"] for each in answer["reasons"]]


def test_marker_of_a_success() -> None:
    """What did not fail has no marker."""
    answer = answer_of("[GZA_FAILURE:MAX_TURNS]\n", exit_code=0)
    assert (answer["reason"], answer["marker"], answer["reasons"]) == (None, None, [])


def test_marker_alone() -> None:
    """Where nothing was observed the marker is all there is, and says so with its line."""
    answer = answer_of("one\n2026-01-01T00:00:00.000Z [GZA_FAILURE:MAX_TURNS]\nthree\n")
    assert (answer["reason"], answer["kind"]) == ("AGENT_GAVE_UP", "marker.max_turns")
    assert answer["lines"] == [{"number": 2, "text": "[GZA_FAILURE:MAX_TURNS]"}]


# stage, exit code, log, reason, failure type
COMMANDS: Final = (
    ("git_clone", 128, "fatal: repository 'x' not found\n", "GIT_CLONE_FAILED", None),
    ("setup", 1, "error: command 'gcc' failed\n", "SETUP_FAILED", None),
    ("setup", 124, "", "SETUP_TIMEOUT", None),
    ("baseline_run", 0, "ok\n", "BASELINE_NOT_FAILING", None),
    ("baseline_run", 1, "", None, None),
    ("agent_run", 1, "SyntaxError: invalid syntax\n", "TESTS_FAILED", "BROKEN_BUILD"),
    ("final_test", 0, "", None, None),
    ("final_test", 137, "", "TIMEOUT", None),
)


@pytest.mark.parametrize(("stage", "code", "log", "reason", "failure_type"), COMMANDS)
def test_other_commands(
    stage: str, code: int, log: str, reason: str | None, failure_type: str | None
) -> None:
    """Of a log that is not pytest's, stage and exit code decide, and the text gives the type."""
    answer = answer_of(log, stage=Stage(stage), exit_code=code)
    assert answer["reason"] == reason
    if failure_type is not None:
        assert answer["failure_type"] == failure_type


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("", "command.failed"),
        (
            "src/x.c:3:5: error: boom\nmake: *** [Makefile:3: all] Error 1\n",
            "command.failed",
        ),
        ("src/x.c:3:5: error: boom\n== 3 passed in 0.1s ==\n", "exit_status.changed"),
    ],
)
def test_exit_code_2_of_another_program(log: str, kind: str) -> None:
    """It is an interruption where the output says so; `make` ends with 2 for any failure."""
    answer = answer_of(log, exit_code=2)
    assert (answer["reason"], answer["kind"]) == ("UNKNOWN", kind)
    assert answer["exit"]["reason"] == "INTERRUPTED"
    assert answer["recovery_action"] != "retry" or kind != "command.failed"


def test_exit_code_2_of_a_pytest_that_was_interrupted() -> None:
    """Its output says so."""
    answer = answer_of(
        "!!!!! KeyboardInterrupt !!!!!\n=== no tests ran in 0.1s ===\n", exit_code=2
    )
    assert (answer["reason"], answer["kind"]) == ("INTERRUPTED", "interrupt.keyboard")


@pytest.mark.parametrize(
    ("is_pytest", "is_whole", "kind"),
    [
        (True, True, "exit_status.changed"),
        (True, False, "command.failed"),
        (False, True, "command.failed"),
    ],
)
def test_a_pytest_that_passed_in_a_command_that_failed(
    is_pytest: bool, is_whole: bool, kind: str
) -> None:
    """Where the exit code is another program's, or may be, that one has failed."""
    log = b"== 3 passed in 0.1s ==\nfoo.py:1: error: bad\n"
    run = evidence_of_log([log], exit_code=1, is_pytest=is_pytest, is_whole=is_whole)
    assert run is not None
    verdict = judge(run).verdict
    assert verdict is not None
    assert verdict.kind == kind


def test_other_command_without_exit_code() -> None:
    """Lines of an error alone fail a command for a reason that can't be known."""
    answer = answer_of("compiling\nmain.c:1:1: error: expected ';'\ndone\n")
    assert (answer["reason"], answer["kind"]) == ("UNKNOWN", "command.failed")
    assert answer["confidence"] == "likely"
    assert answer["lines"][0]["number"] == 2


@pytest.mark.parametrize(
    "log", [b"", b"all is well\n", b"\x00" * 10_000, b"\x7fELF\x01\x02"]
)
def test_log_that_says_nothing(log: bytes) -> None:
    """Where neither the log nor an exit code tells anything, one line says what would."""
    with pytest.raises(
        LogError, match=r"log: this log has no output of pytest, .*give --exit-code"
    ):
        answer_of(log)
    assert answer_of(log, exit_code=1)["reason"] == "TESTS_FAILED"


def test_exit_code_that_a_ci_system_tells() -> None:
    """The last line of a CI job gives the exit code, where none was given."""
    log = (
        PYTEST_LOG.partition("FE[gw0]")[0]
        + "\n##[error]Process completed with exit code 139.\n"
    )
    answer = answer_of(log)
    assert (answer["kind"], answer["exit"]["code"]) == ("process.crashed", 139)


def test_an_exit_code_of_0_is_not_that_of_a_pytest_whose_tests_failed() -> None:
    """It is that of `tee`, say; but a run whose failures are all known ends with 0 by itself."""
    log = (
        "=== short test summary info ===\nFAILED t.py::test_a - assert 0\n"
        "=== 1 failed, 2 passed in 0.01s ===\n"
    )
    found = answer_of(log, exit_code=0)
    assert (found["reason"], found["exit"]["code"]) == ("TESTS_FAILED", 1)
    known = "failure taxonomy: 1 failure, which is known (known.yaml), so the exit status is 0\n"
    assert answer_of(log + known, exit_code=0)["reason"] is None
    job = "Done. Your build exited with 0.\n"
    assert answer_of(log + job)["reason"] is None


@pytest.mark.parametrize("indent", ["   ", "       "])
def test_the_indentation_of_the_source_is_no_part_of_a_message(indent: str) -> None:
    """Pytest puts what was raised below the line that raised it."""
    log = (
        "=== FAILURES ===\n___ test_a ___\n\n>   raise\n"
        f"E{indent}ValueError: boom\nE{indent}  and more\n\nt.py:3: ValueError\n"
        "=== short test summary info ===\nFAILED t.py::test_a - ValueError: boom\n"
        "=== 1 failed in 0.01s ===\n"
    )
    [failure] = answer_of(log)["failures"]
    assert failure["message"] == "ValueError: boom\n  and more"
    assert failure["exception"]["type"] == "ValueError"


def test_last_of_two_sessions_counts() -> None:
    """What an earlier pytest of the same log said is past."""
    passed = (
        "=== test session starts ===\ncollected 1 item\n\nt.py .  [100%]\n\n"
        "=== 1 passed in 0.01s ===\n"
    )
    assert answer_of(FAILED_LOG + passed, exit_code=0)["reason"] is None
    assert answer_of(passed + FAILED_LOG, exit_code=1)["reason"] == "TESTS_FAILED"


def test_utf_16() -> None:
    """A log that PowerShell has written is read as any other."""
    expected = answer_of(FAILED_LOG, exit_code=1)
    chunks = chunks_of(io.BytesIO(FAILED_LOG.replace("\n", "\r\n").encode("utf-16")))
    answer = classify_log(chunks, name="log", exit_code=1)
    assert ANSWERS.encode(answer) == expected
    assert (
        answer_of(FAILED_LOG.encode("utf-16-le"), exit_code=1)["reason"]
        == "TESTS_FAILED"
    )


BANG: Final = "!" * 20
CTRL_C: Final = (
    f"{BANG} KeyboardInterrupt {BANG}\n/x/test_it.py:2: KeyboardInterrupt\n"
    "(to show a full traceback on KeyboardInterrupt use --full-trace)\n"
)
BYE: Final = f"{BANG} _pytest.outcomes.Exit: bye {BANG}\n"
LATE: Final = f"{BANG} session-timeout: 0.3 sec exceeded {BANG}\n"
STACKS: Final = (
    "++++++++++ Timeout ++++++++++\n~~~~~ Stack of MainThread (1) ~~~~~\n"
    '  File "/x/test_it.py", line 2, in test_b\n    time.sleep(9)\n++++++++++ Timeout ++++++++++\n'
)
FAULTHANDLER: Final = (
    'Timeout (0:00:00.300000)!\nThread 0x1:\n  File "/x/test_it.py", line 2\n'
)
WORKER_STOP: Final = "! xdist.dsession.Interrupted: <WorkerController gw1> received keyboard-interrupt !\n"
BLOCK_OF_WORKER: Final = (
    ".[gw1] node down: keyboard-interrupt\nF\n=== FAILURES ===\n___ test_it.py ___\n"
    f"worker 'gw1' crashed while running 'test_it.py::test_b'\n{WORKER_STOP}"
)
ON_WORKERS: Final = (
    ".[gw1] node down: keyboard-interrupt\nF\nreplacing crashed worker gw1\n\n"
    + WORKER_STOP
)
DIED: Final = ".[gw1] node down: Not properly terminated\nF    [100%]\n"
IN_WORDS: Final = (
    "F.[gw1] node down: keyboard-interrupt\n[gw1] [100%] FAILED test_it.py::test_b \n"
    "! xdist.dsession.Interrupted: <WorkerController gw1> received keyboard-interrupt !\n"
)

# log of `pytest -q` or `-qq`, exit code, reason, kind
QUIET: Final = (
    (f".\n{CTRL_C}1 passed in 0.26s\n", 2, "INTERRUPTED", "interrupt.keyboard"),
    (f"\n{CTRL_C}no tests ran in 0.30s\n", 2, "INTERRUPTED", "interrupt.keyboard"),
    (f"\n{CTRL_C}", 2, "INTERRUPTED", "interrupt.keyboard"),
    (f".\n{BYE}1 passed in 0.26s\n", 2, "INTERRUPTED", "interrupt.exit"),
    (f"\n{BYE}no tests ran in 0.26s\n", 2, "INTERRUPTED", "interrupt.exit"),
    (f".\n{BYE}", 2, "INTERRUPTED", "interrupt.exit"),
    (f".\n{LATE}1 passed in 0.52s\n", 1, "TIMEOUT", "session.timeout"),
    (f".\n{LATE}", 1, "TIMEOUT", "session.timeout"),
    (
        f".\n{BANG} Interrupted: enough {BANG}\n1 passed in 0.52s\n",
        2,
        "INTERRUPTED",
        "interrupt.stopped",
    ),
    (f"..{STACKS}", 1, "TIMEOUT", "test.timeout"),
    (STACKS, 1, "TIMEOUT", "test.timeout"),
    (f"..{FAULTHANDLER}", 1, "TIMEOUT", "test.timeout"),
    (
        f"{ON_WORKERS}1 failed, 1 passed in 1.13s\n",
        2,
        "INTERRUPTED",
        "interrupt.keyboard",
    ),
    (ON_WORKERS, 2, "INTERRUPTED", "interrupt.keyboard"),
    (f"F{ON_WORKERS}2 failed, 1 passed in 1.13s\n", 2, "TESTS_FAILED", "test.failed"),
    (
        f"{IN_WORDS}1 failed, 1 passed in 1.13s\n",
        2,
        "INTERRUPTED",
        "interrupt.keyboard",
    ),
    (
        BLOCK_OF_WORKER + "1 failed, 1 passed in 1.13s\n",
        2,
        "INTERRUPTED",
        "interrupt.keyboard",
    ),
    (f"{DIED}1 failed, 1 passed in 1.13s\n", 1, "TESTS_FAILED", "worker.crashed"),
    ("\n5 deselected in 0.02s\n", 5, "NO_TESTS_COLLECTED", "tests.all_deselected"),
    # What a test has printed (`-s`) is no word of pytest's, nor is an earlier session's.
    (f"{CTRL_C}.\n1 passed in 0.1s\n", 0, None, None),
    (f".\n{CTRL_C}1 passed in 0.1s\n.\n1 passed in 0.1s\n", 0, None, None),
    (
        f"{CTRL_C}F\n=== FAILURES ===\n{FAILED_LOG[-80:]}",
        1,
        "TESTS_FAILED",
        "test.failed",
    ),
)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "2026-01-01T00:00:00.0000000Z ",
        "2026-01-01T00:00:00.000000Z 00O ",
        "test\tRun\t2026-01-01T00:00:00.0Z ",
        "\x1b[0m",
    ],
    ids=["bare", "github", "gitlab", "gh", "colour"],
)
@pytest.mark.parametrize(("log", "code", "reason", "kind"), QUIET)
def test_quiet_log(
    log: str, code: int, reason: str | None, kind: str | None, before: str
) -> None:
    """A log without a header tells the same with an exit code and without, stamped or not."""
    stamped = "".join(f"{before}{line}\n" for line in log.splitlines())
    for exit_code in (code, None):
        answer = answer_of(stamped, exit_code=exit_code)
        assert (answer["reason"], answer["kind"]) == (reason, kind), exit_code


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ("=== 3 passed in 0.12 seconds ===", None),
        ("=== 3 passed, 1 pytest-warnings in 0.12 seconds ===", None),
        ("=== 3 passed, 1 warnings in 0.12 seconds ===", None),
        ("=== 2 passed, 1 xfailed, 1 xpassed in 0.12 seconds ===", None),
        ("=== 1 passed, 1 rerun in 10.12 seconds ===", None),
        ("=== 1 passed, 2 retried, 3 subtests passed in 0.12s ===", None),
        ("=== 3 passed, 1 warning in 61.02s (0:01:01) ===", None),
        ("=== 3 passed in 61.02s (1 day, 0:01:01) ===", None),
        ("3 passed, 1 pytest-warnings in 0.12 seconds", None),
        ("3 passed in 0.12s", None),
        ("=== 5 tests collected in 0.01s ===", None),
        ("3/5 tests collected (2 deselected) in 0.01s", None),
        ("=== 2 tests collected, 1 error in 0.12s ===", "TESTS_FAILED"),
        (
            "=== 1 failed, 2 passed, 1 pytest-warnings in 0.12 seconds ===",
            "TESTS_FAILED",
        ),
        ("=== 1 pytest-warnings, 1 error in 0.12 seconds ===", "TESTS_FAILED"),
        ("=== 2 error in 0.12 seconds ===", "TESTS_FAILED"),
        ("=== no tests ran in 0.01 seconds ===", "NO_TESTS_COLLECTED"),
        ("no tests ran in 0.01s", "NO_TESTS_COLLECTED"),
        ("=== no tests collected in 0.01s ===", "NO_TESTS_COLLECTED"),
        ("no tests collected (3 deselected) in 0.01s", "NO_TESTS_COLLECTED"),
        ("===  in 0.01 seconds ===", "NO_TESTS_COLLECTED"),
        ("=== 3 deselected in 0.01 seconds ===", "NO_TESTS_COLLECTED"),
    ],
)
def test_last_lines_of_every_pytest(last: str, reason: str | None) -> None:
    """A run with such a line came to its end, whatever pytest of the last ten years printed it."""
    answer = answer_of(f"=== test session starts ===\ncollected 4 items\n\n{last}\n")
    assert answer["reason"] == reason
    assert "process.vanished" not in [each["kind"] for each in answer["reasons"]]


ONE_OF_NINE: Final = """\
collected 0 items / 9 errors
=== short test summary info ===
ERROR a.py - ValueError: x
=== 9 errors in 0.1s ==="""


@pytest.mark.parametrize(
    ("log", "kind", "count", "words"),
    [
        ("=== 16 failed, 2 passed in 0.12s ===", "test.failed", 16, "16 tests failed"),
        ("=== 16 failed in 0.12 seconds ===", "test.failed", 16, "16 tests failed"),
        (
            "=== 2 passed, 16 errors in 0.1s ===",
            "test.setup_error",
            16,
            "16 tests failed: the setup of 16 tests",
        ),
        ("t.py .FFFF [100%]", "test.failed", 4, "4 tests failed"),
        (
            f"{FAILED_LOG}\n=== 16 failed in 0.1s ===",
            "test.failed",
            15,
            "17 tests failed, 4 causes",
        ),
        ("=== 5000 failed in 0.1s ===", "test.failed", 5000, "5,000 tests failed"),
        ("collected 0 items / 9 errors\n9 errors in 0.1s", "collection.error", 9, "9 "),
        (ONE_OF_NINE, "collection.error", 9, "9 "),
    ],
)
def test_what_has_no_node_id_is_counted(
    log: str, kind: str, count: int, words: str
) -> None:
    """As pytest has counted it, also beside what has one."""
    answer = answer_of(f"{log}\n")
    counts = {each["kind"]: each["count"] for each in answer["reasons"]}
    assert counts[kind] == count
    assert answer["message"].startswith(words)
    assert not answer["message"].endswith(": ")
    assert len(answer["failures"]) + answer["failures_omitted"] >= count


def test_other_banners() -> None:
    """Exclamation marks alone make no output of pytest."""
    for log in ("!!!! done !!!!\n", "!!!!\n", "! KeyboardInterrupt\n"):
        with pytest.raises(LogError):
            answer_of(log)


FRAMES: Final = "".join(
    f'  File "/x/_pytest/runner.py", line {n}, in call\n    yield\n' for n in range(50)
)
BY_PLUGIN: Final = (
    '  File "/x/pytest_timeout.py", line 502, in timeout_sigalrm\n'
    "    pytest.fail(PYTEST_FAILURE_MESSAGE % settings.timeout)\n"
)
BY_TEST: Final = (
    '  File "/x/test_it.py", line 2, in test_c\n    pytest.fail("Timeout...")\n'
)
NATIVE: Final = (
    # the last frames, what was raised, kind, message
    (BY_PLUGIN, "Failed: Timeout (>0.3s) from pytest-timeout.", "test.timeout"),
    (BY_TEST, "Failed: Timeout (>0.3s) from pytest-timeout.", "test.failed"),
    ("", "ValueError: one\n  two\nthree", "test.failed"),
)


@pytest.mark.parametrize("frames", ["", FRAMES], ids=["short", "long"])
@pytest.mark.parametrize(("last", "raised", "kind"), NATIVE)
def test_native_traceback(frames: str, last: str, raised: str, kind: str) -> None:
    """Of a traceback of any length that Python itself has written, the end says what it was."""
    log = (
        "F    [100%]\n=== FAILURES ===\n___ test_c ___\nTraceback (most recent call last):\n"
        f"{frames}KeyError: first\n\nDuring handling of the above exception, another exception "
        f"occurred:\n\nTraceback (most recent call last):\n{frames}{last}{raised}\n"
        "----- Captured stdout call -----\n+++++ Timeout +++++\n"
        "=== short test summary info ===\n"
        f"FAILED test_it.py::test_c - {raised.splitlines()[0]}\n1 failed, 2 passed in 0.41s\n"
    )
    answer = answer_of(log, exit_code=1)
    assert answer["kind"] == kind
    assert answer["failures"][0]["message"] == raised
    assert answer["failures"][0]["exception"]["type"] == raised.partition(":")[0]
    assert raised.splitlines()[0] in [line["text"] for line in answer["lines"]]


@pytest.mark.parametrize(
    "before",
    ["2026-01-01T00:00:00.0000000Z ", "test\tRun\t2026-01-01T00:00:00.0Z ", "\x1b[0m"],
    ids=["github", "gh", "colour"],
)
def test_what_stands_before_each_line(before: str) -> None:
    """The time that a CI system puts before each line changes nothing."""
    log = "".join(f"{before}{line}\n" for line in FAILED_LOG.splitlines())
    assert answer_of(log, exit_code=1) == answer_of(FAILED_LOG, exit_code=1)


def test_caps() -> None:
    """Of many failures some are listed, and the rest is counted."""
    results = "".join(f"FAILED t.py::test_{n} - assert 0\n" for n in range(2_000))
    log = f"=== short test summary info ===\n{results}=== 2000 failed in 1.00s ===\n"
    answer = answer_of(log, exit_code=1)
    assert len(answer["failures"]) == MAX_FAILURES
    assert answer["failures_omitted"] > 0
    assert len(answer["lines"]) <= 20


def test_every_text_passes_one_function() -> None:
    """What takes secrets out sees each text of the answer."""
    log = FAILED_LOG.replace("bad", "hunter2").replace("test_m", "test_hunter2")
    answer = answer_of(
        log, exit_code=1, shown=lambda text: text.replace("hunter2", "***")
    )
    assert "hunter2" not in json.dumps(answer)
    assert "***" in json.dumps(answer)


@pytest.mark.parametrize("exit_code", [None, 0, 1, 4, 139])
def test_every_prefix_of_a_log(exit_code: int | None) -> None:
    """A log may be cut anywhere; there is an answer, and no success before the last line."""
    for end in range(0, len(PYTEST_LOG), 41):
        try:
            answer = answer_of(PYTEST_LOG[:end], exit_code=exit_code)
        except LogError:
            assert exit_code is None
            continue
        is_session = end > 80
        assert answer["reason"] is not None or not is_session, PYTEST_LOG[:end][-100:]


_PARTS: Final = st.sampled_from(
    [*PYTEST_LOG.splitlines(keepends=True), "\n", "E   ", ">", "x::y"]
)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(st.one_of(_PARTS, st.text(max_size=20)), max_size=25),
    st.sampled_from([None, 0, 2]),
)
def test_any_mixture_of_lines(parts: list[str], exit_code: int | None) -> None:
    """No order of lines, known or not, is too much."""
    try:
        answer_of("".join(parts).encode("utf-8", "replace"), exit_code=exit_code)
    except LogError:
        assert exit_code is None


def test_an_option_of_a_plugin_names_the_plugin() -> None:
    """What pytest has refused is told from a log as from a run."""
    refused = "unrecognized arguments: --cov-append"
    log = f"ERROR: usage: pytest [options] [file_or_dir] [...]\npytest: error: {refused}\n"
    assert answer_of(log)["message"] == "pytest does not know --cov-append"
