"""Logs of commands of tests in which pytest never started."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import chunks_of_text
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import Stage, known_kinds

SAID: Final = (
    ("tool.command_missing", "ci/verify.sh: line 12: uv: command not found"),
    ("tool.command_missing", "verify.sh: 12: pytest: not found"),
    ("tool.command_missing", "ash: line 3: pytest: not found"),
    ("tool.command_missing", "zsh:1: command not found: pytest"),
    ("tool.command_missing", "bash: pytest: command not found"),
    (
        "tool.command_missing",
        "/usr/bin/env: \u2018python\u2019: No such file or directory",
    ),
    ("tool.command_missing", "env: python3: No such file or directory"),
    (
        "tool.command_missing",
        'OCI runtime exec failed: exec: "pytest": executable file not found in $PATH: unknown',
    ),
    ("tool.command_missing", "make: pytest: No such file or directory"),
    ("tool.command_missing", "make[2]: uv: Command not found"),
    (
        "tool.command_missing",
        "timeout: failed to run command \u2018pytest\u2019: No such file or directory",
    ),
    ("tool.command_missing", "sudo: pytest: command not found"),
    (
        "tool.command_missing",
        "'pytest' is not recognized as an internal or external command,",
    ),
    ("tool.command_missing", "bash: /grader/go.sh: No such file or directory"),
    ("tool.command_missing", "sh: 0: cannot open /grader/go.sh: No such file"),
    (
        "tool.command_missing",
        "bash: line 1: /opt/venv/bin/pytest: No such file or directory",
    ),
    (
        "tool.command_missing",
        "bash: ./go: /usr/bin/python9: bad interpreter: No such file or directory",
    ),
    (
        "tool.command_missing",
        "python3: can't open file '/grader/check.py': [Errno 2] No such file or directory",
    ),
    ("tool.command_missing", "/usr/bin/python3.12: No module named pytest"),
    ("tool.syntax", "go.sh: line 7: syntax error near unexpected token `fi'"),
    ("tool.syntax", "go.sh: line 9: unexpected EOF while looking for matching `\"'"),
    ("tool.syntax", 'go.sh: 7: Syntax error: "fi" unexpected'),
    ("tool.permission", "go.sh: line 7: ./check: Permission denied"),
    ("tool.permission", "bash: ./check: Permission denied"),
    (
        "tool.permission",
        'OCI runtime exec failed: exec: "/check": permission denied: unknown',
    ),
    (
        "process.timeout",
        "No output has been received in the last 10m0s, this potentially",
    ),
    (
        "process.timeout",
        "The job exceeded the maximum time limit for jobs, and has been terminated.",
    ),
    (
        "process.timeout",
        "##[error]The job running on runner A has exceeded the maximum execution time of 9 minutes",
    ),
    ("process.timeout", "##[error]The action 'test' has timed out after 9 minutes."),
    ("process.timeout", "ERROR: Job failed: execution took longer than 1h0m0s seconds"),
    (
        "process.timeout",
        "Too long with no output (exceeded 10m0s): context deadline exceeded",
    ),
    (
        "process.timeout",
        "Build timed out (after 9 minutes). Marking the build as aborted.",
    ),
    ("process.killed", "go.sh: line 7:    42 Killed                  python train.py"),
    ("sandbox.disk_full", "cp: error writing '/tmp/a': No space left on device"),
    ("sandbox.disk_full", "npm error code ENOSPC"),
    (
        "sandbox.service_down",
        'psql: error: connection to server at "db" (10.0.0.2) failed: Connection refused',
    ),
    (
        "sandbox.service_down",
        "Could not connect to Redis at 127.0.0.1:6379: Connection refused",
    ),
    (
        "sandbox.service_down",
        "ERROR 2002 (HY000): Can't connect to local MySQL server through socket '/run/m.sock' (2)",
    ),
    ("sandbox.service_down", "Error: connect ECONNREFUSED 127.0.0.1:5432"),
    (
        "sandbox.service_down",
        "curl: (7) Failed to connect to localhost port 8080 after 0 ms",
    ),
    (
        "tool.package_index",
        "E: Failed to fetch http://d/x.deb  Temporary failure resolving 'd'",
    ),
    ("tool.package_index", "E: Unable to locate package pytest-of-nobody"),
    (
        "tool.package_index",
        "ERROR: Could not find a version that satisfies the requirement y==9",
    ),
    ("tool.package_index", "npm ERR! code E404"),
    ("tool.package_index", "ERROR: unable to select packages:"),
    ("tool.install_failed", "ERROR: ResolutionImpossible: for help visit https://a"),
    ("tool.install_failed", "npm ERR! code ENOENT"),
    ("tool.git", "fatal: repository 'https://a/b' not found"),
    ("sandbox.docker", "Cannot connect to the Docker daemon at unix:///run/d.sock."),
    (
        "sandbox.docker",
        "ERROR: failed to solve: x: failed to resolve source metadata for docker.io/x: not found",
    ),
)
MISSING: Final = "go.sh: line 3: uv: command not found\n"


def answer_of(
    log: str, exit_code: int | None = None, stage: Stage = Stage.FINAL_TEST
) -> dict[str, Any]:
    """Return what `classify` answers."""
    answer = classify_log(
        chunks_of_text(log), name="log", stage=stage, exit_code=exit_code
    )
    content: dict[str, Any] = ANSWERS.encode(answer)
    return content


@pytest.mark.parametrize("exit_code", [None, 1, 127])
def test_what_decides(exit_code: int | None) -> None:
    """The line is quoted, and the kind says what is missing; nothing of it is certain."""
    for kind, line in SAID:
        found = answer_of(f"preparing\n{line}\ndone\n", exit_code)
        assert (found["kind"], found["confidence"]) == (kind, "likely"), line
        assert line in [each["text"] for each in found["lines"]], line


def test_what_is_said_in_words() -> None:
    """The message names the command, and a retry doesn't help."""
    found = answer_of(MISSING, 127)
    assert found["message"] == "uv: command not found"
    assert (found["reason"], found["recovery_action"]) == ("TOOL_ERROR", "escalate")


@pytest.mark.parametrize(
    ("log", "exit_code"),
    [
        pytest.param(
            MISSING + "installing\nuv 0.9.1 (x86_64)\n", 0, id="installed-later"
        ),
        pytest.param(
            MISSING + "Successfully installed uv-0.9.1\n", 1, id="installed-by-pip"
        ),
        pytest.param(MISSING + "fine\n" * 21, 1, id="long-ago"),
        pytest.param(
            "bash: uv: command not found\n" + "$ ls\n" * 4, 1, id="tried-at-a-prompt"
        ),
        pytest.param(MISSING + "Ran 3 tests in 0.1s\nOK\n", 1, id="unittest"),
        pytest.param("ok  \tshop/cart\t0.2s\n" + MISSING, 1, id="go"),
        pytest.param("  4 passing (2ms)\n" + MISSING, 0, id="mocha"),
        pytest.param(MISSING, 124, id="time-limit"),
        pytest.param(
            "go.sh: line 3: open: data.csv: No such file or directory\n", 1, id="data"
        ),
        pytest.param("go.sh: line 3: jq: command not found\n", 0, id="no-runner"),
        pytest.param("cp: No space left on device\n", 0, id="disk-but-success"),
        pytest.param("route: 12: users: not found\n", 1, id="another-program"),
        pytest.param(
            "Could not connect to Redis at c:6379: Connection refused\nPONG\nrun\nno cart\n",
            1,
            id="waited-for",
        ),
        pytest.param(
            "a.sh: line 3: jq: command not found\nTraceback (most recent call last):\nKeyError\n",
            1,
            id="went-on",
        ),
        pytest.param(
            "the uv command was not found; command not found, I say\n", 1, id="prose"
        ),
    ],
)
def test_what_decides_nothing(log: str, exit_code: int) -> None:
    """What was got over, or says something else, is not taken for the reason."""
    kind = answer_of(log, exit_code)["kind"]
    assert kind in (None, "command.failed", "stage.timeout")
    assert (kind is None) == (exit_code == 0)


def test_words_in_the_output_of_tests() -> None:
    """A test that prints such a line does not change what pytest says."""
    head, tail = "collected 1 item\n\ntest_a.py ", " [100%]\n\n"
    passed = f"{head}.{tail}{MISSING}======= 1 passed in 0.01s =======\n"
    assert answer_of(passed)["kind"] is None
    assert answer_of(f"{passed}{MISSING}", 0)["kind"] is None
    failed = f"{head}F{tail}{MISSING}FAILED test_a.py::test_a - assert 0\n== 1 failed in 0.01s ==\n"
    assert answer_of(failed)["kind"] == "test.failed"


def test_an_exit_code_of_0_is_no_success_where_nothing_ran() -> None:
    """A runner that the shell did not find, and a pytest that skipped everything."""
    assert answer_of(f"{MISSING}done\n", 0)["kind"] == "tool.command_missing"
    found = answer_of(
        "collected 2 items\n\ntest_a.py ss [100%]\n\n== 2 skipped in 0.01s ==\n"
    )
    assert (found["reason"], found["kind"]) == ("NO_TESTS_COLLECTED", "tests.none_run")
    assert [line["text"] for line in found["lines"]] == ["== 2 skipped in 0.01s =="]
    assert answer_of("== 1 passed, 4 skipped in 0.01s ==\n")["kind"] is None


def test_other_stages() -> None:
    """Setup is named by its stage, what the machine lacks in each; an agent tries many commands."""
    assert answer_of(MISSING, 127, Stage.SETUP)["message"] == (
        "the setup failed: uv: command not found"
    )
    full = "tar: x: Cannot write: No space left on device\n"
    assert answer_of(full, 2, Stage.SETUP)["kind"] == "sandbox.disk_full"
    assert answer_of(MISSING, 127, Stage.BASELINE_RUN)["kind"] == "tool.command_missing"
    assert answer_of(MISSING, 1, Stage.AGENT_RUN)["kind"] == "command.failed"
    assert answer_of(MISSING, 127, Stage.AGENT_RUN)["kind"] == "tool.command_missing"


@given(
    st.lists(
        st.sampled_from([line for _, line in SAID]) | st.text(max_size=40), max_size=12
    )
)
def test_any_mixture_has_a_known_kind(lines: list[str]) -> None:
    """Whatever stands beside each other, the answer is one that is published."""
    try:
        found = answer_of("\n".join(lines))
    except LogError:
        return
    assert found["kind"] is None or found["kind"] in known_kinds()


def test_each_cause_has_a_kind() -> None:
    """A cause without a published kind could not be said."""
    for cause, means in packaged_table("tools")["causes"].items():
        for tool in ("docker", "podman"):
            assert means["kind"].format(tool=tool) in known_kinds(), cause
