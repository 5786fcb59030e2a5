"""Report a command that no plugin has recorded, by its end and its output.

Most such commands are no pytest. If one is, its interpreter may lack the plugin. Then
the user is told. The report is made from the exit code and from the output, which is
read as `failure-taxonomy classify` reads a log, as far as it was kept.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.survive.facts import ProcessEnd
from pytest_failure_taxonomy.survive.machine import describe_environment
from pytest_failure_taxonomy.survive.supervisor import CommandEnd
from pytest_failure_taxonomy.taxonomy.evidence import (
    Interruption,
    Output,
    OutputLine,
    RunContext,
    RunError,
    RunEvidence,
    ToolMessage,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    MAX_EVIDENCE,
    PRINTED,
    Evidence,
    Judgement,
    Stage,
    Verdict,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value

UNKNOWN_PYTEST: Final = "unknown"
"""The version of pytest in the report of a command that no plugin has recorded."""

_PYTEST: Final = frozenset({"pytest", "pytest.exe", "py.test", "py.test.exe"})
_ASKS: Final = frozenset(
    {
        *("-h", "--help", "-V", "--version", "--markers", "--fixtures", "--funcargs"),
        *("--fixtures-per-test", "--cache-show"),
    }
)
_RUNNERS: Final = frozenset(
    {"env", "nice", "nohup", "sudo", "time", "timeout", "stdbuf", "xvfb-run"}
)
"""Programs that run the command in their arguments, as any `… run` does."""
_MAX_RUNNER_WORDS: Final = 4
_MAX_QUOTED: Final = 6
"""Lines of the output in the evidence of a verdict."""

_OF_CONTAINERS: Final = 125
"""The exit code of `docker run` and `podman run` if no container could be started."""
_CTRL_C: Final = Interruption(exception="KeyboardInterrupt", message="Ctrl+C")
_PROBE_SECONDS: Final = 10.0
_PROBE: Final = """\
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
state = "installed"
try:
    version("pytest-failure-taxonomy")
except PackageNotFoundError:
    state = "missing" if find_spec("pytest") else "no-pytest"
print(state, *sys.version_info[:2])
"""
_LOWEST_PYTHON: Final = (3, 11)

OFF_SWITCH: Final = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"


@value
class Absence:
    """Why a pytest has not recorded its run."""

    words: str
    """One line: what is wrong, and how to fix it."""
    has_pytest: bool = True
    """The interpreter has pytest."""
    lacks_us: bool = False
    """The interpreter has pytest, and not this plugin."""


class OutputFile:
    """The file that stdout goes to, if it is one, from its current position on."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._start: int | None = None
        with suppress(OSError):
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                # With `>>` the position is 0, and output goes to the end.
                position = os.lseek(descriptor, 0, os.SEEK_CUR)
                self._start = position or status.st_size

    def open(self) -> BinaryIO | None:
        """Open the command's output for reading; `None` if that is not possible."""
        if self._start is None:
            return None
        # Not Linux, or the user has no permission to read the file.
        with suppress(OSError):
            path = f"/proc/self/fd/{self._descriptor}"
            file = open(path, "rb")  # noqa: SIM115 - the caller's
            file.seek(self._start)
            return file
        return None

    def chunks(self) -> Iterator[bytes]:
        """Yield what the command has written, as far as it can be read."""
        from pytest_failure_taxonomy.logs.log_lines import chunks_of

        file = self.open()
        if file is not None:
            with file, suppress(OSError):
                yield from chunks_of(file)
                yield b"\n"


def output_files() -> tuple[OutputFile, ...]:
    """Return the files of stdout and stderr, one if both go to the same."""
    stdout = OutputFile()
    with suppress(OSError):
        if os.path.sameopenfile(1, 2):
            return (stdout,)
    return stdout, OutputFile(2)


def is_pytest(command: Sequence[str]) -> bool:
    """Tell whether a command runs pytest, judging by its words."""
    if "-m" in command:
        after = command.index("-m") + 1
        return after < len(command) and command[after] == "pytest"
    names = [Path(word).name for word in command[: _MAX_RUNNER_WORDS + 1]]
    for index, name in enumerate(names):
        if name in _PYTEST:
            is_run = index == 0 or names[index - 1] in ("run", "exec")
            return is_run or names[0] in _RUNNERS
    return False


def only_asks(command: Sequence[str]) -> bool:
    """Tell whether a pytest prints something and runs no test, judging by its words."""
    return not _ASKS.isdisjoint(command)


def is_pytest_itself(command: Sequence[str]) -> bool:
    """Tell whether a command is a pytest, with no other program in front of it."""
    name = Path(command[0]).name
    is_started = name in _PYTEST or name.startswith(("python", "pypy"))
    return is_started and is_pytest(command)


@value
class Command:
    """A command that may run pytest."""

    words: Sequence[str]
    stage: Stage
    folder: Path
    """Where it was started."""
    started_at: datetime
    outputs: Sequence[OutputFile]
    """Where its stdout and stderr go, each once."""
    is_certified: bool = False
    """It is to fail unless a pytest was recorded."""


def report_of_command(
    command: Command,
    end: CommandEnd,
    process: ProcessEnd,
    lost_run_id: str | None,
    absence: Absence | None,
    find_refusal: Callable[[Sequence[RunError]], RunError | None],
) -> FailureReport:
    """Return the report of a command that no plugin has recorded.

    If a plugin has begun a run and left nothing, its session did not end: it would have
    written a report.

    Args:
        command: the command.
        end: how it ended.
        process: the same of its process.
        lost_run_id: the run that a plugin has begun and that has left nothing.
        absence: why no plugin has recorded it, if known.
        find_refusal: called for a pytest, with the errors that its output shows;
            returns the error that it must have ended with before it loaded this plugin,
            if there is one to see.
    """
    duration = (datetime.now(UTC) - command.started_at).total_seconds()
    refusal = None
    was_pytest = is_pytest(command.words) and (absence is None or absence.has_pytest)
    evidence: RunEvidence | None = None
    if lost_run_id is None:
        evidence = _evidence_of_output(command, end, process, was_pytest=was_pytest)
        shown = evidence.errors if evidence is not None else ()
        with suppress(
            Exception
        ):  # it reads foreign files; the report does without them
            refusal = find_refusal(shown) if was_pytest else None
        if evidence is not None and refusal is not None and shown:
            evidence = replace(evidence, errors=(refusal,))
    if evidence is None or not evidence.recorded:
        was_left = refusal is not None and process.exit.code == 0
        evidence = replace(
            evidence
            or RunEvidence(stage=command.stage, recorded=False, exit=process.exit),
            is_pytest=was_pytest,
            early_refusal=refusal,
            finished=process.exit.signal is None
            and process.exit.enforced_limit_seconds is None
            and lost_run_id is None
            and not was_left,
            exit=process.exit,
        )
    if (
        end.interrupted
        and evidence.finished
        and process.exit.code
        and not evidence.interruptions
    ):
        # It has caught the Ctrl+C, as pip and npm do, and left with a code of its own.
        evidence = replace(evidence, interruptions=(_CTRL_C,))
    if evidence.tool_message is None and lost_run_id is None:
        evidence = replace(evidence, tool_message=_explain_exit_code(command, process))
    secrets = Secrets()
    context = RunContext(
        id=lost_run_id or os.urandom(16).hex(),
        started_at=timestamp(command.started_at),
        duration_seconds=duration,
        args=secrets.redact_arguments(list(command.words)),
        rootdir=str(command.folder),
        environment=describe_environment(UNKNOWN_PYTEST),
    )
    judgement = judge(evidence)
    lacks_us = absence is not None and absence.lacks_us
    is_unrecorded = was_pytest and process.exit.code == 0 and not lacks_us
    is_unrecorded = is_unrecorded and not only_asks(command.words)
    if is_unrecorded and judgement.verdict is None:
        from pytest_failure_taxonomy.survive.early_exits import find_unrecorded

        finding = find_unrecorded(command.folder)
        evidence = replace(
            evidence, integrity=(finding,), is_certified=command.is_certified
        )
        judgement = judge(evidence)
    report = build_report(
        evidence,
        replace(judgement, verdict=_quote_lines(judgement, evidence.output)),
        context,
        completeness="reconstructed",
        faults=() if absence is None else (absence.words,),
        redaction=secrets,
    )
    if is_unrecorded:
        from pytest_failure_taxonomy.survive.early_exits import add_early_exit

        report = add_early_exit(report)
    return report


def timestamp(at: datetime) -> str:
    """Return a time in the form that reports have."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _evidence_of_output(
    command: Command, end: CommandEnd, process: ProcessEnd, *, was_pytest: bool
) -> RunEvidence | None:
    """Return the evidence from the output of a command and the end of its process.

    A command that has succeeded is not asked what it said. Only the counts of a pytest
    that looks finished are taken then: a plugin may have changed what it prints.
    """
    if not process.exit.code and (not was_pytest or only_asks(command.words)):
        return None
    from pytest_failure_taxonomy.logs.log_answer import evidence_of_log

    files = chain.from_iterable(output.chunks() for output in command.outputs)
    evidence = evidence_of_log(
        chain(files, end.output),
        stage=command.stage,
        exit_code=process.exit.code,
        is_pytest=was_pytest,
        is_whole=True,
    )
    if evidence is None or not (
        process.exit.code or (evidence.recorded and evidence.finished)
    ):
        return None
    if not evidence.recorded:
        return evidence
    ended = replace(
        process.exit,
        limits=evidence.exit.limits,
        session_code=evidence.exit.session_code,
    )
    return replace(evidence, exit=ended)


def _explain_exit_code(command: Command, process: ProcessEnd) -> ToolMessage | None:
    """Explain an exit code that only Docker and Podman have, without any output."""
    names = [Path(word).name for word in command.words[: _MAX_RUNNER_WORDS + 1]]
    program = next((name for name in names if name not in _RUNNERS), "")
    if process.exit.code != _OF_CONTAINERS or program not in ("docker", "podman"):
        return None
    words = f"exit code {_OF_CONTAINERS}, which is that of {program} itself"
    return ToolMessage(tool=program, cause="daemon", line=OutputLine(0, words))


def _quote_lines(judgement: Judgement, output: Output | None) -> Verdict | None:
    """Add the deciding lines of the output to a verdict's evidence, in order."""
    verdict = judgement.verdict
    if verdict is None or output is None:
        return verdict
    lines = list(judgement.lines)
    lines.sort(key=lambda line: line != output.error)
    details = {piece.detail.strip() for piece in verdict.evidence}
    texts = dict.fromkeys(line.text.strip() for line in lines)
    quoted = [
        Evidence(source=PRINTED, detail=text) for text in texts if text not in details
    ][:_MAX_QUOTED]
    first = verdict.evidence[: MAX_EVIDENCE - len(quoted)]
    return replace(verdict, evidence=(*first, *quoted))


def explain_absence(command: Sequence[str]) -> Absence | None:
    """Return why a pytest has not loaded this plugin.

    Its interpreter is asked, in a new process with the same options, folder and
    environment as for pytest, whether the plugin is installed.

    Returns:
        `None` if the interpreter is not known from the command, or gives no answer.
    """
    import subprocess

    interpreter = _interpreter_of(command)
    if not interpreter or not is_pytest(command):
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own interpreter
            [*interpreter, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
            check=True,
        )
        state, major, minor = answer.stdout.decode().split()
        version = int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    name = shutil.which(interpreter[0]) or interpreter[0]
    script = None
    if "-m" not in command:
        script = shutil.which(command[0])
    if state == "no-pytest":
        words = f"pytest is not installed in {name}; give the Python of the project"
        return Absence(words=words, has_pytest=False)
    if state == "missing":
        right = f"install it there: {name} -m pip install pytest-failure-taxonomy"
        if version < _LOWEST_PYTHON:
            lowest = ".".join(map(str, _LOWEST_PYTHON))
            actual = f"{version[0]}.{version[1]}"
            right = f"it needs Python {lowest} or newer, and that is {actual}"
            script = None
        belongs = ""
        if script:
            belongs = f", to which {script} belongs"
        instead = ""
        if script:
            instead = f"run {sys.executable} -m pytest instead, or "
        return Absence(
            words=f"pytest-failure-taxonomy is not installed in {name}{belongs}: "
            "the report has nothing to go by but the exit code, "
            "and the output where that is a file; "
            f"{instead}{right}",
            lacks_us=True,
        )
    is_off = "--disable-plugin-autoload" in command or bool(os.environ.get(OFF_SWITCH))
    if (
        state == "installed"
        and is_off
        and not any("failure_taxonomy" in word for word in command)
    ):
        return Absence(
            words="pytest-failure-taxonomy was not loaded: "
            "the plugins of the environment are switched off; "
            "give pytest -p failure_taxonomy"
        )
    return None


def _interpreter_of(command: Sequence[str]) -> list[str]:
    """Return the command of pytest's interpreter; an empty one if it is unknown."""
    name = Path(command[0]).name
    if name.startswith(("python", "pypy")):
        if "-m" in command:
            return list(command[: command.index("-m")])
        return []
    script = None
    if name in _PYTEST:
        script = shutil.which(command[0])
    if script is None:
        return []
    try:
        with open(script, "rb") as file:
            first = file.readline(512)
    except OSError:
        return []
    return os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
