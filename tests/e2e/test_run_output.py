"""What `failure-taxonomy run` reads of a command's output, and that nobody notices that it does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import child_environment
from tests.helpers.reports import read_report

if not sys.platform.startswith("linux"):
    pytest.skip("reads files by /proc, and pipes where signals are handed out", True)

DEADLINE_SECONDS: Final = 60.0
RUN: Final = (sys.executable, "-m", "pytest_failure_taxonomy", "run")
NO_NETWORK: Final = "fatal: unable to access 'https://x/': Could not resolve host: x"
NO_VERSION: Final = "ERROR: Could not find a version that satisfies the requirement x (from versions: 1)"


def start(
    folder: Path, script: str, *options: str, **streams: Any
) -> subprocess.Popen[bytes]:
    """Start a shell script under `run`."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*RUN, *options, "--", "sh", "-c", script],
        cwd=folder,
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        **{**pipes, **streams},
    )


def verdict_in(folder: Path) -> dict[str, Any]:
    """Return the verdict of the report in a folder."""
    verdict: dict[str, Any] = read_report(folder / "failure-report.json")["verdict"]
    return verdict


def test_the_output_passes_unchanged(tmp_path: Path) -> None:
    """All bytes of both streams arrive, and before the verdict."""
    (tmp_path / "write.py").write_text(
        "import os, sys\n"
        "sys.stdout.buffer.write(bytes(range(256)) * 4000)\n"
        "os.write(2, b'\\0wor' * 50000)\n"
    )
    script = f"{sys.executable} write.py; exit 3"
    run = start(tmp_path, script)
    out, err = run.communicate(timeout=DEADLINE_SECONDS)
    assert run.returncode == 3
    assert out == bytes(range(256)) * 4000
    assert err.startswith(b"\0wor" * 50000 + b"\n=")


def test_what_is_written_after_the_end(tmp_path: Path) -> None:
    """A process that outlives the command writes on, and `run` does not wait for it."""
    script = "(until [ -e go ]; do sleep 0.02; done; echo late) & echo now"
    run = start(tmp_path, script, stderr=subprocess.STDOUT)
    assert run.wait(DEADLINE_SECONDS) == 0
    (tmp_path / "go").touch()
    out, _ = run.communicate(timeout=DEADLINE_SECONDS)
    assert out.startswith(b"now\n")
    assert out.endswith(b"late\n")


def test_nobody_reads(tmp_path: Path) -> None:
    """The limit still ends the command, and what was written can be read later."""
    run = start(tmp_path, "yes", "--timeout=0.5", stderr=subprocess.DEVNULL)
    assert run.wait(DEADLINE_SECONDS) == 124
    out, _ = run.communicate(timeout=DEADLINE_SECONDS)
    assert set(out.splitlines()) <= {b"y", b""}
    assert verdict_in(tmp_path)["kind"] == "stage.timeout"


def test_the_reader_goes_away(tmp_path: Path) -> None:
    """The command dies of SIGPIPE, as it does without `run`."""
    run = start(tmp_path, "exec yes", stderr=subprocess.DEVNULL)
    assert run.stdout is not None
    assert run.stdout.read(2) == b"y\n"
    run.stdout.close()
    assert run.wait(DEADLINE_SECONDS) == -13


@pytest.mark.parametrize("goes_to", ["pipe", "file", "one file"])
@pytest.mark.parametrize(
    ("stage", "script", "retryable", "message"),
    [
        ("git_clone", f'echo "{NO_NETWORK}" >&2; exit 128', True, "git: no connection"),
        ("setup", f'echo "{NO_VERSION}"; exit 1', False, "pip: no such thing"),
        ("setup", "echo 'npm error code E503'; exit 1", True, "npm: the server failed"),
        (
            "final_test",
            "echo 'Cannot connect to the Docker daemon'; exit 1",
            None,
            "Docker: ",
        ),
        (
            "final_test",
            "no-such-pytest tests",
            False,
            "no-such-pytest: command not found",
        ),
    ],
)
def test_what_tools_say(
    tmp_path: Path,
    goes_to: str,
    stage: str,
    script: str,
    retryable: bool | None,
    message: str,
) -> None:
    """Whether a retry can help is read from the output, to a pipe or a file."""
    streams: dict[str, Any] = {}
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        if goes_to != "pipe":
            streams = {"stdout": out, "stderr": err if goes_to == "file" else out}
        start(tmp_path, script, f"--stage={stage}", **streams).communicate(
            timeout=DEADLINE_SECONDS
        )
    verdict = verdict_in(tmp_path)
    assert verdict["retryable"] is retryable
    assert message in verdict["message"]
    assert verdict["evidence"][0]["source"] == "output"


@pytest.mark.parametrize(
    ("printed", "code", "message"),
    [
        (
            "test cart::adds ... FAILED\ntest result: FAILED. 3 passed; 1 failed;\n",
            101,
            "adds failed",
        ),
        ("  3 passing\n  2 failing\n", 2, "2 tests failed"),
    ],
)
def test_the_tests_of_another_runner(
    tmp_path: Path, printed: str, code: int, message: str
) -> None:
    """What it counts says more than its exit code, which only of pytest's is Ctrl+C, say."""
    (tmp_path / "printed").write_text(printed)
    start(tmp_path, f"cat printed; exit {code}").communicate(timeout=DEADLINE_SECONDS)
    verdict = verdict_in(tmp_path)
    assert (verdict["reason"], verdict["kind"]) == ("TESTS_FAILED", "test.failed")
    assert (verdict["message"], verdict["confidence"]) == (message, "likely")
    shown = subprocess.run(
        [*RUN[:-1], "show", "--format=agent", "failure-report.json"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert shown.startswith("verdict: failed\n")  # how many ran is not known
    *_, command, where = shown.splitlines()
    assert command == f"   sh -c 'cat printed; exit {code}'"
    assert where == f"run these in: {tmp_path}"


@pytest.mark.parametrize("goes_to", ["pipe", "file"])
@pytest.mark.parametrize(
    ("stage", "marker", "reason", "kind"),
    [
        ("agent_run", "MAX_TURNS", "AGENT_GAVE_UP", "marker.max_turns"),
        ("agent_run", "TEST_FAILURE", "TESTS_FAILED", "command.failed"),
        ("agent_run", "NOBODY_KNOWS_IT", "TESTS_FAILED", "command.failed"),
        ("final_test", "MAX_TURNS", "TESTS_FAILED", "command.failed"),
    ],
)
def test_an_agent_says_that_it_gives_up(
    tmp_path: Path, goes_to: str, stage: str, marker: str, reason: str, kind: str
) -> None:
    """In the agent's own run its marker says more than its exit code, also after a merge."""
    script = f"echo '[GZA_FAILURE:{marker}]'; echo bye >&2; exit 1"
    with (tmp_path / "out").open("wb") as out:
        streams: dict[str, Any] = {} if goes_to == "pipe" else {"stdout": out}
        start(tmp_path, script, f"--stage={stage}", **streams).communicate(
            timeout=DEADLINE_SECONDS
        )
    report = read_report(tmp_path / "failure-report.json")
    assert (report["verdict"]["reason"], report["verdict"]["kind"]) == (reason, kind)
    assert len(report["reasons"]) == 2
    merged = tmp_path / "merged.json"
    words = ["merge", "failure-report.json", "-o", str(merged)]
    subprocess.run(
        [*RUN[:-1], *words], cwd=tmp_path, env=child_environment(), check=False
    )
    assert read_report(merged)["verdict"]["kind"] == kind


def test_a_missing_runner_in_a_script_that_ends_with_0(tmp_path: Path) -> None:
    """`run` reports what its command ended with; only `classify` asks whether anything ran."""
    start(tmp_path, "echo 'go.sh: line 3: uv: command not found'").communicate(
        timeout=DEADLINE_SECONDS
    )
    assert read_report(tmp_path / "failure-report.json")["verdict"] is None


@pytest.mark.parametrize(
    ("program", "code", "stage", "kind"),
    [
        ("docker", 125, "final_test", "sandbox.docker"),
        ("podman", 125, "baseline_run", "sandbox.podman"),
        ("docker", 126, "setup", "stage.setup_failed"),
        ("other", 125, "setup", "stage.setup_failed"),
    ],
)
def test_the_exit_code_of_docker_itself(
    tmp_path: Path, program: str, code: int, stage: str, kind: str
) -> None:
    """It says as much without any output."""
    stub = tmp_path / program
    stub.write_text(f"#!/bin/sh\nexit {code}\n", "utf-8")
    stub.chmod(0o755)
    command: Sequence[str] = (
        *RUN,
        "--stage",
        stage,
        "--",
        "env",
        str(stub),
        "run",
        "x",
    )
    run = subprocess.run(command, cwd=tmp_path, env=child_environment(), check=False)
    assert run.returncode == code
    assert verdict_in(tmp_path)["kind"] == kind
    assert json.dumps(verdict_in(tmp_path)["evidence"]).count(str(code))


# As `classify` reads it.

FIELDS: Final = (
    *("reason", "kind", "confidence", "ambiguous", "failure_type", "recovery_action"),
    *("charge_to", "message"),
)
"""What a verdict and the answer of `classify` both have."""
PRINTED: Final = {
    "pytest": "======= test session starts =======\ncollected 2 items\n\n"
    "test_a.py .F   [100%]\n\n======= FAILURES =======\n_____ test_two _____\n\n"
    "    def test_two():\n>       assert 1 == 2\nE       assert 1 == 2\n\n"
    "test_a.py:2: AssertionError\n======= short test summary info =======\n"
    "FAILED test_a.py::test_two - assert 1 == 2\n===== 1 failed, 1 passed in 0.01s =====\n",
    "compiler": "building\nsrc/x.c:3:5: error: boom\nmake: *** [Makefile:3: all] Error 1\n",
    "cargo": "test cart::adds ... FAILED\ntest result: FAILED. 3 passed; 1 failed;\n",
    "tool": "go.sh: line 3: uv: command not found\n",
    "nothing": "",
}


def behind(folder: Path, wrapper: str, command: Sequence[str]) -> list[str]:
    """Return the command of a program that passes a command to another machine, say."""
    script = folder / wrapper
    script.write_text('#!/bin/sh\nshift\n"$@"\nexit $?\n')
    script.chmod(0o755)
    return [str(script), "host", *command]


@pytest.mark.parametrize(
    ("wrapper", "goes_to"), [("sh", "pipe"), ("docker", "file"), ("ssh", "socket")]
)
@pytest.mark.parametrize("name", PRINTED)
def test_what_classify_would_say(
    tmp_path: Path, name: str, wrapper: str, goes_to: str
) -> None:
    """The same text has the same verdict, and its deciding lines are in the report."""
    (tmp_path / "printed").write_text(PRINTED[name])
    shell = ["sh", "-c", "cat printed; exit 2"]
    command = shell if wrapper == "sh" else behind(tmp_path, wrapper, shell)
    ours, theirs = socket.socketpair()
    with (tmp_path / "out").open("wb") as out, ours, theirs:
        streams: dict[str, Any] = {
            "pipe": subprocess.PIPE,
            "file": out,
            "socket": theirs,
        }
        run = subprocess.run(
            [*RUN, "--", *command],
            cwd=tmp_path,
            env=child_environment(),
            stdout=streams[goes_to],
            stderr=subprocess.DEVNULL,
            check=False,
        )
    assert run.returncode == 2
    words = ["classify", "--exit-code=2", "printed"]
    answer = json.loads(
        subprocess.run(
            [*RUN[:-1], *words],
            cwd=tmp_path,
            env=child_environment(),
            capture_output=True,
            check=False,
        ).stdout
    )
    verdict = verdict_in(tmp_path)
    assert {each: verdict[each] for each in FIELDS} == {
        each: answer[each] for each in FIELDS
    }
    details = [piece["detail"] for piece in verdict["evidence"]]
    decisive = [line["text"].strip() for line in answer["lines"]]
    assert set(decisive) <= set(details)
    shown = agents_answer(tmp_path)
    if verdict["kind"] == "command.failed":
        assert "run it once more" not in shown
    if name == "compiler":
        assert "  printed: src/x.c:3:5: error: boom\n" in shown
        assert "  try: read the quoted lines" in shown


def agents_answer(folder: Path) -> str:
    """Return what `show --format agent` says of the report in a folder."""
    return subprocess.run(
        [*RUN[:-1], "show", "--format=agent", "failure-report.json"],
        cwd=folder,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_a_pytest_without_the_plugin_behind_a_wrapper(tmp_path: Path) -> None:
    """What it printed says which tests failed, whatever the command ended with."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(): assert 1 == 2\n")
    script = f"{sys.executable} -m pytest -p no:cacheprovider; exit 2"
    start(tmp_path, script).communicate(timeout=DEADLINE_SECONDS)
    report = read_report(tmp_path / "failure-report.json")
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("TESTS_FAILED", "test.failed")
    assert report["exit"]["reason"] == "INTERRUPTED"
    assert report["summary"]["failed"] == 1
    assert report["causes"][0]["nodeids"] == ["test_it.py::test_it"]


def test_the_command_fails_after_its_pytest_has_passed(tmp_path: Path) -> None:
    """It is not that pytest whose exit status changed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    line = f"{sys.executable} -m pytest -p no:cacheprovider"
    start(tmp_path, f"{line}; echo 'foo.py:1: error: bad'; exit 1").communicate(
        timeout=DEADLINE_SECONDS
    )
    verdict = verdict_in(tmp_path)
    assert verdict["kind"] == "command.failed"
    printed = {"source": "printed", "detail": "foo.py:1: error: bad"}
    assert printed in verdict["evidence"]


def test_much_output_is_kept_in_bounds(tmp_path: Path) -> None:
    """The beginning and the end are read, and the supervisor stays small."""
    (tmp_path / "program.py").write_text(
        "import os, resource, sys\n"
        "print('src/x.c:3:5: error: boom')\n"
        "for _ in range(64): sys.stdout.write('all is well, line by line\\n' * 40_000)\n"
        "print(open(f'/proc/{os.getppid()}/status').read().partition('VmHWM:')[2].split()[0],"
        " file=open('peak', 'w'))\n"
        "sys.exit(1)\n"
    )
    command = [*RUN, "--", "env", sys.executable, "program.py"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as run:
        assert run.stdout is not None
        count = sum(len(line) for line in run.stdout)
    assert count == 64 * 40_000 * 26 + 25
    printed = [piece["detail"] for piece in verdict_in(tmp_path)["evidence"]]
    assert "src/x.c:3:5: error: boom" in printed
    assert int((tmp_path / "peak").read_text()) < 60_000
