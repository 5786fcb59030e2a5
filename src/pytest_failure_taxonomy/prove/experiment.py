"""Run the user's own pytest again, with some of its tests in a given order.

Forks of one process that has collected everything search; only fresh processes prove. Nothing is
written into the user's folders: caches and temporary files go to a folder of the experiments' own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, Self

from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.options import EXPERIMENT_VARIABLE, TEMPORARY_VARIABLE
from pytest_failure_taxonomy.prove.progress import Progress
from pytest_failure_taxonomy.system.process import descendants
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

PLUGIN: Final = "pytest_failure_taxonomy.prove.inside"
WATCHING: Final = f" -p {PLUGIN}"
"""What the options of a pytest that is only watched end with."""
OTHER_ORDER: Final = "the tests run in another order"
Result = Literal["passed", "failed", "other"]
_MOST_COPIED_BYTES: Final = 20 << 20
_HANGS_SECONDS: Final = 10.0
"""After which a test that is known to hang does so."""
_GRACE_SECONDS: Final = 10.0
"""How much later than a fork's own limit its answer may come."""
_SHOWN: Final = 3
"""Effects of tests, and threads, that are named."""
_EXAMPLES: Final = ".hypothesis"
_OUTPUT: Final = "output"
_PAUSE_SECONDS: Final = 0.01
_SHELLS_SIGNALS: Final = 128
_ONE_THREAD: Final = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""Else libraries of numbers start threads when they are imported, and none may run where
a process forks."""


class ExperimentError(FailureTaxonomyError):
    """The user's pytest can't be run as it was."""

    def __init__(self, what: str) -> None:
        super().__init__(f"prove: {what}")


class OutOfTime(Exception):  # noqa: N818 - it ends a search, and is no error
    """The budget is spent."""


@value
class Conditions:
    """What is different from the recorded run, besides the tests that run."""

    variables: tuple[tuple[str, str | None], ...] = ()
    """Of the environment, by name; `None` removes one."""
    args: tuple[str, ...] = ()
    """More arguments of pytest."""
    prefix: tuple[str, ...] = ()
    """Words before the command, such as `unshare --net`."""
    around: Callable[[], Any] | None = None
    """Returns what is to be entered while it runs, such as processes that keep the machine busy."""
    seed: int | None = None
    """Of `random` and of NumPy, which is set before the victim runs."""
    words: str = ""
    """What is different, for people: `PYTHONHASHSEED=3`."""
    in_shell: str | None = "{run}"
    """How a shell has the same around a command; `None` where it can't."""


AS_RECORDED: Final = Conditions()


@value
class Victim:
    """A failing test, and how to recognise that it fails in the same way."""

    nodeid: str
    fingerprints: frozenset[str]
    endings: frozenset[str]
    """How its process may end instead: signals by name, `limit`, and exit codes."""


@value
class Outcome:
    """What came of one experiment."""

    result: Result
    words: str
    """What happened where the result is `other`."""
    seconds: float
    answers: tuple[dict[str, Any], ...] = ()

    def answer(self, name: str) -> Any:
        """Return the last answer of a name; `None` without one."""
        for answer in reversed(self.answers):
            if name in answer:
                return answer[name]
        return None


@value
class Request:
    """What a process of ours is asked to do; it travels as JSON."""

    answers: str
    """The file that the answers go to."""
    server: int | None = None
    """The descriptor on which requests for forks come, if it serves any."""
    victim: str = ""
    """Node id; empty where the tests are collected and nothing runs."""
    order: Sequence[str] = ()
    """The tests before the victim."""
    fingerprints: Sequence[str] = ()
    """Of the failure that counts."""
    seed: int | None = None
    put_back: Sequence[str] = ()
    """Keys of the state that is restored before the victim runs."""
    tells_modules: bool = False
    """Answer with the files of all modules."""
    renames: Mapping[str, str] = {}
    """Files that have another name here than in the report, with that name."""
    every: int = 0
    """After how many tests it is looked whether the victim fails; 0 for never."""
    looks_at_state: bool = False
    """Find what the tests before the victim leave behind that makes it fail."""
    repeats_for: int | None = None
    """The process for which the victim runs again and again while that is there."""
    limit_seconds: float = 0.0
    """How long a fork may take."""
    files: Sequence[str] = ()
    """The only files to collect; empty for all files of the run."""
    watches: bool = False
    """Change nothing, and tell how the victim ends in the run that the command makes."""
    left_between_ns: Sequence[int] = ()
    """When the recorded run began and ended: a file outside of the project that was
    written then is one that it has left."""


@value
class Setup:
    """How to run the pytest of a report."""

    args: tuple[str, ...]
    folder: Path
    rootdir: Path
    variables: Mapping[str, str | None] = {}
    python: tuple[str, ...] = ()
    """Options of Python."""


class Experiments:
    """Runs experiments until a time; to be used in a `with` statement.

    Attributes:
        nodeids: the tests as pytest selects them, in its order.
        natural: the same in the order in which they were collected, before plugins changed it.
        left_between_ns: when the recorded run began and ended; empty if nobody asks.
        seconds_to_collect: how long that took.
        progress: shows what is being tried; `None` if nobody looks.
        why_no_forks: a sentence, where every experiment takes a fresh process.
        setup: how pytest is run.
        folder: of what the experiments write.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        until: float,
        limit_seconds: float,
        allows_effects: bool = False,
    ) -> None:
        """Prepare.

        Args:
            setup: how to run pytest.
            until: when the budget is spent, on the monotonic clock.
            limit_seconds: how long one experiment may take.
            allows_effects: go on where a test uses the network, a database or other processes.
        """
        self.left_between_ns: tuple[int, ...] = ()
        self.nodeids: tuple[str, ...] = ()
        self.natural: tuple[str, ...] = ()
        self.digest = ""
        self.collection_errors = 0
        self.seconds_to_collect = 0.0
        self.why_no_forks = ""
        self.until = until
        self.limit_seconds = limit_seconds
        self.forks = self.fresh_runs = 0
        self._allows_effects = allows_effects
        self.progress: Progress | None = None
        self.setup = setup
        self._count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._server: socket.socket | None = None
        self._replies: IO[bytes]

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="failure-taxonomy-prove-"))
        (self.folder / "temporary").mkdir()
        self._keep_examples()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def elsewhere(self, setup: Setup) -> Experiments:
        """Return experiments with the same tests in another folder, with the same limits."""
        other = Experiments(
            setup,
            until=self.until,
            limit_seconds=self.limit_seconds,
            allows_effects=self._allows_effects,
        )
        other.left_between_ns = self.left_between_ns
        other.progress = self.progress
        other.seconds_to_collect = self.seconds_to_collect
        return other

    def start(self) -> None:
        """Collect the tests, in the process whose forks will run them.

        Raises:
            ExperimentError: pytest does not collect them.
        """
        answers_path = self._new_path()
        began = time.monotonic()
        until = began + self._time_left(10 * self.limit_seconds)
        if hasattr(os, "fork"):
            self._server, theirs = socket.socketpair()
            self._replies = self._server.makefile("rb")
            with theirs:
                request = Request(answers=answers_path, server=theirs.fileno())
                self._process = self._popen(request, server=theirs)
        else:
            self.why_no_forks = "this system can't fork a process"
            self._process = self._popen(Request(answers=answers_path))
        is_over = False
        while not (answers := _read_answers(answers_path)) and not is_over:
            is_over = self._process.poll() is not None or time.monotonic() > until
            time.sleep(_PAUSE_SECONDS)
        if not answers:
            self.stop()
            raise ExperimentError(f"the tests can't be collected: {self._last_line()}")
        self.seconds_to_collect = max(1.0, time.monotonic() - began)
        collected = answers[0]["collected"]
        self.nodeids = tuple(collected["nodeids"])
        self.natural = tuple(map(self.nodeids.__getitem__, collected["natural"]))
        self.digest = collected["digest"]
        self.collection_errors = collected["errors"]
        if threads := collected["threads"]:
            names = ", ".join(threads[:_SHOWN])
            self.why_no_forks = f"collecting the tests starts threads ({names})"
        if self.why_no_forks:
            self.stop()

    def show(self, what: str, number: int = 0, most: int = 0) -> None:
        """Show what is being tried, and how many of how many."""
        if self.progress is not None:
            self.progress.show(what, number, most, self.until)

    def stop(self) -> None:
        """End the process whose forks run tests."""
        process, self._process = self._process, None
        if self._server is not None:
            # The descriptor is closed with the last of the two.
            self._replies.close()
            self._server.close()
            self._server = None
        if process is not None:
            _end_group(process)

    def run(
        self,
        victim: Victim,
        before: Sequence[str] = (),
        conditions: Conditions = AS_RECORDED,
        *,
        is_fresh: bool = False,
        **more: Any,
    ) -> Outcome:
        """Run a test after others.

        Args:
            victim: the test, and which failure counts.
            before: node ids of the others, in their order.
            conditions: what is different; other ones than a seed take a fresh process.
            is_fresh: take a fresh process in any case.
            more: what else is asked for, as `Request` has it: `files` takes a fresh
                process as well.

        Raises:
            OutOfTime: the budget is spent.
        """
        request = self._request_of(victim, before, seed=conditions.seed, **more)
        is_changed = conditions != AS_RECORDED and conditions.seed is None
        needs_process = is_changed or bool(request.files)
        is_fresh = is_fresh or needs_process or bool(self.why_no_forks)
        if not is_fresh and self._server is None:
            self.start()
        allowed = self.limit_seconds
        # Of one that hangs each run takes as long as it may.
        if "limit" in victim.endings:
            allowed = min(allowed, _HANGS_SECONDS)
        if is_fresh:
            allowed += 4 * self.seconds_to_collect
        limit = self._time_left(allowed)
        began = time.monotonic()
        if is_fresh:
            self.fresh_runs += 1
            ended = self._run_process(request, conditions, limit)
        else:
            self.forks += 1
            ended = self._run_fork(replace(request, limit_seconds=limit))
        if ended == "limit" and limit < allowed:
            raise OutOfTime  # it had not all of its own time
        answers = tuple(_read_answers(request.answers))
        seconds = time.monotonic() - began
        return self._outcome(victim, ended, seconds, answers)

    def run_command(
        self, victim: Victim, before: Sequence[str], command: str
    ) -> Outcome:
        """Run a command of a shell that makes a test fail, as a user would.

        Its pytest is a plain one: ours only tells how the test ended, and has what is
        written go elsewhere.

        Args:
            victim: the test.
            before: node ids of the tests that have to run before it.
            command: for `sh`, to be run in pytest's root directory.

        Raises:
            OutOfTime: the budget is spent.
        """
        request = self._request_of(victim, before, watches=True)
        allowed = self.limit_seconds + 4 * self.seconds_to_collect
        limit = self._time_left(allowed)
        self.fresh_runs += 1
        began = time.monotonic()
        process = self._start(
            ["sh", "-c", command], self.setup.rootdir, self._watching(request)
        )
        ended = _wait_for(process, limit)
        if ended == "limit" and limit < allowed:
            raise OutOfTime
        answers = tuple(_read_answers(request.answers))
        outcome = self._outcome(victim, ended, time.monotonic() - began, answers)
        results = {answer.get("result") for answer in answers}
        # Of several at once, one has to fail.
        if ended != "0" and "failed" in results:
            return replace(outcome, result="failed")
        if ended != "0" and outcome.result == "passed":
            return replace(outcome, result="other", words=f"it ended with {ended}")
        started = [answer["started"] for answer in answers if "started" in answer]
        expected = [*before, victim.nodeid]
        ran = [nodeid for nodeid in started if nodeid in expected]
        if ran != expected and sorted(ran) == sorted(expected):
            return replace(outcome, result="other", words=OTHER_ORDER)
        if before and ran != expected:
            return replace(outcome, result="other", words=f"it ended with {ended}")
        return outcome

    def walk(self, victim: Victim, before: Sequence[str], every: int) -> int | None:
        """Return after how many of the tests before it a test fails; `None` if it does not.

        Args:
            victim: the test.
            before: the others; it is looked at after every so many of them.
            every: how many.
        """
        for answer in self.run(victim, before, every=every).answers:
            has_failed = answer.get("result") == "failed"
            if "probe" in answer and (
                has_failed or answer.get("ended") in victim.endings
            ):
                return int(answer["probe"])
        return None

    def find_state(self, victim: Victim, before: Sequence[str]) -> Outcome:
        """Find what the tests before a victim leave behind that makes it fail."""
        return self.run(victim, before, looks_at_state=True)

    @contextmanager
    def beside(
        self, victim: Victim, processes: int, *, repeats: bool
    ) -> Generator[None, None, None]:
        """Run a test in other processes, which start now or have begun to repeat it."""
        repeats_for = os.getpid() if repeats else None
        requests = [
            self._request_of(victim, repeats_for=repeats_for) for _ in range(processes)
        ]
        paths = [Path(request.answers) for request in requests]
        until = time.monotonic() + self._time_left(self.limit_seconds)
        others: list[subprocess.Popen[bytes]] = []
        try:
            others += map(self._popen, requests)
            while repeats and time.monotonic() < until:
                has_ended = [process.poll() is not None for process in others]
                if all(map(_has_begun, paths)) or all(has_ended):
                    break
                time.sleep(_PAUSE_SECONDS)
            yield
        finally:
            # Without its file each ends after the test, which so cleans up behind itself.
            for path in paths:
                path.unlink(missing_ok=True)
            for process in others:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self.limit_seconds)
                _end_group(process)

    def _request_of(
        self,
        victim: Victim,
        before: Sequence[str] = (),
        **more: Any,
    ) -> Request:
        return Request(
            answers=self._new_path(),
            order=before,
            victim=victim.nodeid,
            fingerprints=sorted(victim.fingerprints),
            left_between_ns=self.left_between_ns,
            **more,
        )

    def _run_fork(self, request: Request) -> str:
        """Return how it ended: with a status, by a signal, or at the limit."""
        try:
            if self._server is not None:
                self._server.settimeout(request.limit_seconds + _GRACE_SECONDS)
                self._server.sendall(_encode(request).encode() + b"\n")
                return str(json.loads(self._replies.readline()))
        except (OSError, ValueError):
            self.stop()  # the next one begins anew
        return "1"

    def _run_process(
        self,
        request: Request,
        conditions: Conditions,
        limit_seconds: float,
    ) -> str:
        """Return how it ended, as a fork does."""
        with conditions.around() if conditions.around else nullcontext():
            return _wait_for(self._popen(request, conditions), limit_seconds)

    def _popen(
        self,
        request: Request,
        conditions: Conditions = AS_RECORDED,
        server: socket.socket | None = None,
    ) -> subprocess.Popen[bytes]:
        setup = self.setup
        variables: dict[str, str | None] = {
            **os.environ,
            **(self._elsewhere()),
            **(dict(_ONE_THREAD) if server else {}),
            **setup.variables,
            **dict(conditions.variables),
            EXPERIMENT_VARIABLE: _encode(request),
        }
        start = [*conditions.prefix, sys.executable, *setup.python, "-m", "pytest"]
        command = [*start, "-p", PLUGIN, *setup.args, *conditions.args]
        return self._start(command, setup.folder, variables, server)

    def _elsewhere(self) -> dict[str, str]:
        """Return settings that make Python, pytest and Hypothesis write into our own folder."""
        return {
            "PYTHONDONTWRITEBYTECODE": "1",
            TEMPORARY_VARIABLE: str(self.folder / "temporary"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / _EXAMPLES),
        }

    def _watching(self, request: Request) -> dict[str, str | None]:
        """Return the environment of a plain pytest that is only watched."""
        # Its environment may not be the one that is active.
        programs = [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
        return {
            **os.environ,
            **self._elsewhere(),
            "PATH": os.pathsep.join(filter(None, programs)),
            "PYTEST_ADDOPTS": os.environ.get("PYTEST_ADDOPTS", "") + WATCHING,
            EXPERIMENT_VARIABLE: _encode(request),
        }

    def _start(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str | None],
        server: socket.socket | None = None,
    ) -> subprocess.Popen[bytes]:
        with (self.folder / _OUTPUT).open("wb") as output:
            return subprocess.Popen(  # noqa: S603 - it is the user's own command
                command,
                cwd=folder,
                env={
                    name: text for name, text in variables.items() if text is not None
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[server.fileno()] if server else (),
                start_new_session=True,
            )

    def _outcome(
        self,
        victim: Victim,
        ended: str,
        seconds: float,
        answers: tuple[dict[str, Any], ...],
    ) -> Outcome:
        outcome = Outcome(
            result="other",
            words="",
            seconds=seconds,
            answers=answers,
        )
        effects = outcome.answer("effects")
        if effects and not self._allows_effects:
            raise ExperimentError(
                f"the tests use {', '.join(effects[:_SHOWN])}, and would do so in every run; "
                "to go on: failure-taxonomy prove --yes"
            )
        if (result := outcome.answer("result")) is not None:
            words = "".join(outcome.answer("words") or ())
            return replace(outcome, result=result, words=words)
        if missing := outcome.answer("missing"):
            words = ": ".join(
                [f"{missing[0]} is not collected", *outcome.answer("why")]
            )
            return replace(outcome, words=words)
        started = outcome.answer("started")
        # A crash or a hang counts where it is the victim's own.
        if started == victim.nodeid and ended in victim.endings:
            return replace(outcome, result="failed")
        subject = started or "pytest"
        if ended == "limit":
            return replace(outcome, words=f"{subject} took too long")
        words = f"{subject} ended with {ended}"
        # What ends before our plugin is there tells it to its output alone.
        why = outcome.answer("error") if answers else self._last_line()
        if why:
            words += f": {why}"
        return replace(outcome, words=words)

    def _time_left(self, most: float) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return min(left, most)

    def _new_path(self) -> str:
        self._count += 1
        return str(self.folder / f"answers.{self._count}")

    def _last_line(self) -> str:
        with suppress(OSError, StopIteration):
            lines = (self.folder / _OUTPUT).read_text("utf-8", "replace").split("\n")
            errors = [line for line in lines if line.startswith(("ERROR", "E  "))]
            return next(filter(None, [*errors, *reversed(lines)])).strip()
        return "pytest gave no answer in time"

    def _keep_examples(self) -> None:
        """Copy the failing examples that Hypothesis has kept, so that it finds them again."""
        source = self.setup.folder / _EXAMPLES
        with suppress(OSError):
            size = sum(path.stat().st_size for path in source.rglob("*"))
            if 0 < size < _MOST_COPIED_BYTES:
                shutil.copytree(source, self.folder / _EXAMPLES)


def _encode(request: Request) -> str:
    return json.dumps(to_dict(request))


def _has_begun(answers: Path) -> bool:
    return answers.exists() and b'"started"' in answers.read_bytes()


def _read_answers(path: str) -> list[dict[str, Any]]:
    """Return what an experiment has answered, and remove the file once there is something."""
    answers: list[dict[str, Any]] = []
    with suppress(OSError), open(path, encoding="ascii") as file:
        for line in file:
            with suppress(ValueError):  # it is being written
                answers.append(json.loads(line))
    if answers:
        with suppress(OSError):  # a test may have removed it
            os.unlink(path)
    return answers


def _wait_for(process: subprocess.Popen[bytes], limit_seconds: float) -> str:
    """Return how a process ended: with a status, by a signal, or at the limit."""
    try:
        code = process.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        return "limit"
    finally:
        _end_group(process)
    # A shell adds 128 to the number of the signal that has ended its command.
    number = -code if code < 0 else code - _SHELLS_SIGNALS
    with suppress(ValueError):
        return signal.Signals(number).name
    return str(code)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started, also in groups of forks."""
    if hasattr(os, "killpg"):
        groups = {process.pid}
        for descendant in descendants(process.pid) if process.poll() is None else ():
            with suppress(ProcessLookupError):
                groups.add(os.getpgid(descendant))
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
