"""The plugin inside an experiment's pytest: it runs the tests that it is asked to run.

The process collects as the recorded run did, and then, instead of pytest's own loop, runs lists of
tests in the order asked: one list itself, or any number of them in forks of itself. It answers in
lines of JSON, so that what is known of a run that dies or hangs stands there, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.hooks.inspection import attribute_of, entries_of
from pytest_failure_taxonomy.hooks.redirection import Redirection
from pytest_failure_taxonomy.hooks.session import SessionRecorder
from pytest_failure_taxonomy.options import EXPERIMENT_VARIABLE, TEMPORARY_VARIABLE
from pytest_failure_taxonomy.prove.experiment import WATCHING, Request
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.prove.state import (
    Snapshot,
    differences,
    modules_now,
    put_back,
    random_states,
)
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.survive.writer import Record
from pytest_failure_taxonomy.system.files import move_high
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.process import die_with_parent
from pytest_failure_taxonomy.taxonomy import evidence, packaged_table
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import FailureJudgement
from pytest_failure_taxonomy.taxonomy.order import digest_of
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import change_texts

json = isolate_module(json)
os = isolate_module(os)

# As they are before any test: one may patch them, as freezegun does.
_monotonic, _sleep, _lstat = time.monotonic, time.sleep, os.lstat

_TABLE: Final = packaged_table("experiments")
_REQUEST: Final = json.loads(os.environ.get(EXPERIMENT_VARIABLE) or "{}")
_WATCHES: Final[bool] = _REQUEST.get("watches", False)
"""Whether the run is a user's own, in which nothing but what is written is changed."""
_REDIRECTION: Final = Redirection(
    Path(os.environ.get(TEMPORARY_VARIABLE, os.devnull)), keeps_runs=_WATCHES
)
_FILE_TYPE: Final[Any] = getattr(argparse, "FileType", None)
"""A type of options, which opens files. Deprecated since Python 3.14, and used as long as it is."""
_call_file_type: Final = _FILE_TYPE and _FILE_TYPE.__call__
_RERUNNERS: Final = ("rerunfailures", "flaky.flaky_pytest_plugin", "flaky")
"""Plugins that run a failed test again, also where a mark of the test asks for it."""
_MOST_PUT_BACK: Final = 60
"""How many differences are put back one by one, the most likely first."""
_MOST_PUT_BACK_ALONE: Final = 20
"""The same where to put back all of them doesn't fix the victim."""
_PROCESSES: Final = ("subprocess.Popen", "os.system", "os.posix_spawn")
"""Audit events of other processes; what they run comes first."""
_MOST_EFFECTS: Final = 10
_READS: Final = ("open", "os.listdir", "os.scandir", "os.mkdir", "sqlite3.connect")
"""Audit events of files that may be there, whose path comes first."""
_LOCAL: Final = ("127.", "::1", "localhost", "0.0.0.0", "::")  # noqa: S104 - nothing is bound

_NO_EXIT: Final = evidence.ProcessExit(code=None, source="none")
_SEED: Final = pytest.StashKey[int | None]()
_RANDOM: Final = pytest.StashKey[dict[str, bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    """Take the request out of the environment, and register what answers it."""
    text = os.environ.pop(EXPERIMENT_VARIABLE, "")
    if not text:
        return  # a pytest that a test or a plain one has started
    request = Request(**json.loads(text))
    if request.watches:
        options = os.environ.get("PYTEST_ADDOPTS", "").removesuffix(WATCHING)
        os.environ["PYTEST_ADDOPTS"] = options
    experiment = _Experiment(config, request)
    config.pluginmanager.register(experiment, "failure_taxonomy_experiment")


def pytest_addoption() -> None:
    """Keep options from emptying a file while they are parsed."""
    if _FILE_TYPE is not None:
        _FILE_TYPE.__call__ = _open_elsewhere


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config,
) -> Generator[None, None, None]:
    """Switch off what would write into the user's folders, before plugins look at their options."""
    _REDIRECTION.redirect_options(early_config)
    _REDIRECTION.redirect_ini_values(early_config)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Switch off what repeats a test."""
    if _FILE_TYPE is not None:
        _FILE_TYPE.__call__ = _call_file_type
    _REDIRECTION.redirect_ini_values(config)  # a conftest may have declared more
    for name in () if _WATCHES else _RERUNNERS:
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
            config.addinivalue_line(
                "markers", "flaky: which the plugin would have declared"
            )
    return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed random numbers where that is asked for, and keep what state they begin with.

    A plugin that seeds them, too, is registered later and called before.
    """
    seed = item.stash.get(_SEED, None)
    if seed is not None:
        random.seed(seed)
        if "numpy.random" in modules_now():
            sys.modules["numpy.random"].seed(seed)
    item.stash[_RANDOM] = random_states()


pytest_runtest_call = (
    pytest_runtest_setup  # such a plugin seeds them for each phase, too
)


def _open_elsewhere(file_type: Any, path: str) -> Any:
    mode = file_type._mode  # noqa: SLF001 - it has no public one
    return _call_file_type(file_type, path if mode.startswith("r") else os.devnull)


class _Experiment:
    """Answers requests for runs of tests."""

    def __init__(self, config: pytest.Config, request: Request) -> None:
        if hasattr(signal, "SIGKILL"):
            die_with_parent(signal.SIGKILL)
        self._config = config
        self._request = request
        self._server = None
        if request.server is not None:
            self._server = socket.socket(fileno=move_high(request.server))
        self._answers = _open(request.answers)
        self._natural: list[pytest.Item] = []
        self._items: dict[str, pytest.Item] = {}
        self._recorder = SessionRecorder(
            config,
            Faults(config),
            Record(),
            started_ns=time.monotonic_ns(),
            markers={},
            secrets=Secrets(()),
        )
        config.pluginmanager.register(self._recorder, "failure_taxonomy_session")
        self._victim = ""
        self._outcomes: list[str] = []
        self._uses_random = False
        self._effects: list[str] = []
        self._fixtures = SimpleNamespace()
        """Their values, of those that tests share."""
        self._before: Snapshot | None = None
        """The state before the first test, until its fixtures are set up."""
        self._outside: list[str] = []
        self._inside = tuple(
            os.path.join(os.path.abspath(folder), "")
            for folder in (
                config.rootpath,
                Path(request.answers).parent,
                os.path.realpath(sys.prefix),
                os.path.realpath(sys.base_prefix),
                *("/dev", "/proc", "/sys"),
            )
        )
        """What begins with these is no file of others."""
        self._is_over = False
        """Whether all tests have run, and what follows are plugins at the end of their session."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Keep the order in which the tests were collected, before plugins change it."""
        self._natural = list(items)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Collect some files alone, with the conftests that the run has."""
        if self._request.files:
            rootdir = session.config.rootpath
            session.config.args = [str(rootdir / file) for file in self._request.files]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item
    ) -> Generator[None, object, object]:
        """Tell how the victim ends in a run that is only watched."""
        if not self._request.watches:
            return (yield)
        is_victim = item.nodeid == self._request.victim
        self._tell(started=item.nodeid)
        if is_victim:
            self._victim = item.nodeid
        result = yield
        if is_victim:
            self._tell_result(item)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run what is asked for instead of all tests."""
        items = session.items
        self._items = {item.nodeid: item for item in reversed(items)}
        if self._request.watches:
            return None
        if self._request.victim:
            self._tell_modules()
            self._answer()
            self._is_over = True
            self._tell_modules()
            return True
        nodeids = [item.nodeid for item in items]
        places = {id(item): place for place, item in enumerate(items)}
        natural = [places.get(id(item)) for item in self._natural]
        self._tell(
            collected={
                "digest": digest_of(nodeids),
                "errors": session.testsfailed,
                "nodeids": nodeids,
                # Plugins may have deselected some.
                "natural": [place for place in natural if place is not None],
                "threads": _other_threads(),
            }
        )
        if self._server is not None:
            self._serve(self._server)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        """Keep the value of a fixture that tests share."""
        fixture = yield
        if fixturedef.scope != "function":
            setattr(self._fixtures, fixturedef.argname, fixture)
        return fixture

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Forget it with its end, which may come more than once."""
        if fixturedef.scope != "function":
            vars(self._fixtures).pop(fixturedef.argname, None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Keep how fixtures begin that the first test shares with others."""
        if self._before is not None:
            self._before.add_new(self._take())
            self._before = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how the phases of the victim ended."""
        if report.nodeid != self._victim:
            return
        if report.when != "teardown":
            state = self._items[report.nodeid].stash[_RANDOM]
            self._uses_random |= random_states() != state
        outcome: str = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if outcome == "skipped" else "xpassed"
        self._outcomes.append(outcome)

    def pytest_internalerror(
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Tell why pytest is about to end with 3."""
        self._tell_error(excinfo.value)

    def _tell(self, **answer: Any) -> None:
        """Write a line, by one call."""
        os.write(self._answers, json.dumps(answer).encode("ascii") + b"\n")

    def _tell_error(self, error: BaseException) -> None:
        """Tell an error with its place, which shows where it is a fault of our own."""
        place = entries_of(error)[-1]
        file = Path(place.tb_frame.f_code.co_filename).name
        words = f"{type(error).__name__}: {error} ({file}:{place.tb_lineno})"
        self._tell(error=self._recorder.secrets.redact(words))

    def _tell_modules(self) -> None:
        """Tell which files were imported, and from where, where it matters whose they are."""
        if not self._request.tells_modules:
            return
        files = {}
        for name, module in modules_now().items():
            file = attribute_of(module, "__file__")
            if type(file) is str:
                files[name] = file
        path = [entry for entry in sys.path if type(entry) is str]
        self._tell(modules=files, path=path)

    def _serve(self, server: socket.socket) -> None:
        """Fork for each request, and answer with how the fork ended; an empty line ends it."""
        with server.makefile("r", encoding="ascii") as lines:
            for line in lines:
                if not line.strip():
                    return
                self._request = Request(**json.loads(line))
                ended = self._run_in_fork(self._answer)
                server.sendall(json.dumps(ended).encode() + b"\n")

    def _run_in_fork(self, work: Callable[[], object]) -> str:
        """Work in a fork; return how that ended: `0`, its status, `SIGSEGV` or `limit`."""
        process_id = os.fork()
        if process_id == 0:
            status = 1
            try:
                # Wherever there is a fork, there is this signal.
                die_with_parent(signal.SIGKILL)
                os.setsid()
                work()
                status = 0
            except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
                self._tell_error(error)
            finally:
                os._exit(status)  # noqa: SLF001 - nothing of the parent's is to be ended twice
        until = _monotonic() + self._request.limit_seconds
        pause, ended, status = 0.001, 0, 0
        while not ended and _monotonic() < until:
            _sleep(pause)
            pause = min(2 * pause, 0.02)
            ended, status = os.waitpid(process_id, os.WNOHANG)
        # What it has left behind, or all of it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process_id, signal.SIGKILL)
        if not ended:
            os.waitpid(process_id, 0)
            return "limit"
        code = os.waitstatus_to_exitcode(status)
        return signal.Signals(-code).name if code < 0 else str(code)

    def _answer(self) -> None:
        """Run the tests before the victim, then the victim, and tell how that ended.

        Where `every` so many tests are asked for, a fork looks after these whether the victim
        fails. The first that does is the last one: the test that completed the pollution ran since
        the one before.
        """
        request = self._request
        if self._server is not None:
            self._server.close()
        self._answers = _open(request.answers)
        sys.addaudithook(self._see)
        names = [*request.order, request.victim]
        if missing := [name for name in names if name not in self._items]:
            self._tell_missing(missing)
            return
        items = [self._items[name] for name in names]
        victim = items[-1]
        keys, every = request.put_back, request.every
        before = self._take() if keys or request.looks_at_state else None
        self._before = before
        for place, (item, following) in enumerate(pairwise(items)):
            if every and place % every == 0 and not self._passes(victim, place):
                return
            self._run_test(item, following)
        if every:
            self._passes(victim, len(items) - 1)
        elif request.repeats_for is not None:
            # Until who asks for it is gone, or has removed the file.
            asks = request.repeats_for
            while os.getppid() == asks and os.path.exists(request.answers):
                self._run_test(victim, None)
        elif before is not None and not keys:
            self._find_state(victim, before)
        else:
            if before is not None:
                put_back(before, keys)
            self._run_victim(victim)

    def _tell_missing(self, missing: list[str]) -> None:
        """Tell why a victim is not collected; of a file, whether it fails in the same way."""
        victim = self._request.victim
        file = victim.partition("::")[0]
        observed = self._recorder.evidence(_NO_EXIT)
        errors = [
            failure
            for failure in observed.collection_failures
            if failure.nodeid == file
        ]
        words = [failure.message for failure in errors]
        is_collected = any(name.startswith(f"{file}::") for name in self._items)
        self._tell(missing=missing, why=words, is_file_collected=is_collected)
        if victim == file:
            errors = change_texts(errors, self._name_as_reported)
            own = replace(observed, failures=(), collection_failures=tuple(errors))
            judged = judge(name_libraries(own)).collection_failures
            result = "passed" if is_collected else "other"
            if self._are_as_asked(judged):
                result = "failed"
            self._tell(result=result, words=words[:1])

    def _are_as_asked(self, judged: Sequence[FailureJudgement]) -> bool:
        """Tell whether a failure is one of those that the victim had."""
        fingerprints = {failure.fingerprint for failure in judged}
        return not fingerprints.isdisjoint(self._request.fingerprints)

    def _run_test(self, item: pytest.Item, following: pytest.Item | None) -> None:
        self._tell(started=item.nodeid)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)

    def _run_victim(self, victim: pytest.Item, **place: int) -> str:
        """Run the victim, tell how it ended, and return whether it passed or failed as asked.

        Args:
            victim: the test.
            place: `probe`, after how many tests that was; it becomes a part of the answer.
        """
        self._victim, self._outcomes, self._uses_random = victim.nodeid, [], False
        seed = self._request.seed
        if seed is not None and hasattr(self._config.option, "randomly_seed"):
            self._config.option.randomly_seed = seed  # the plugin seeds each test by it
        else:
            victim.stash[_SEED] = seed
        self._run_test(victim, None)
        return self._tell_result(victim, **place)

    def _tell_result(self, victim: pytest.Item, **place: int) -> str:
        """Tell how the victim has ended, and return it."""
        observed = self._recorder.evidence(_NO_EXIT)
        failures = tuple(
            failure for failure in observed.failures if failure.nodeid == victim.nodeid
        )
        # A fingerprint has names of files in it.
        failures = change_texts(failures, self._name_as_reported)
        own = name_libraries(replace(observed, failures=failures))
        judged = judge(own).failures
        result = "other"
        if self._are_as_asked(judged):
            result = "failed"
        elif "passed" in self._outcomes and {*self._outcomes} <= {"passed", "xfailed"}:
            result = "passed"
        words = [failure.message for failure in failures] or self._outcomes
        self._tell(
            result=result,
            words=words[:1],
            kinds=[failure.kind for failure in judged],
            uses_random=self._uses_random,
            **place,
        )
        return result

    def _name_as_reported(self, text: str) -> str:
        """Return a node id or a place with the name that its file has in the report."""
        file, colon, rest = text.partition(":")
        return f"{self._request.renames.get(file, file)}{colon}{rest}"

    def _passes(
        self,
        victim: pytest.Item,
        place: int = 0,
        prepare: Callable[[], object] = lambda: None,
    ) -> bool:
        """Tell whether the victim passes now, in a fork, after that many tests."""

        def look() -> None:
            prepare()
            # The fixtures of the tests before would be torn down before the victim, too.
            victim.session._setupstate.teardown_exact(victim)  # noqa: SLF001 - no other way
            if self._run_victim(victim, probe=place) != "passed":
                os._exit(3)  # noqa: SLF001 - as in `_run_in_fork`

        ended = self._run_in_fork(look)
        self._tell(probe=place, ended=ended)
        return ended == "0"

    def _take(self) -> Snapshot:
        # Of several `conftest.py` that are in no package, `sys.modules` has the last one.
        plugins = self._config.pluginmanager.get_plugins()
        conftests = (plugin for plugin in plugins if isinstance(plugin, ModuleType))
        return Snapshot(self._config.rootpath, conftests, self._fixtures)

    def _find_state(self, victim: pytest.Item, before: Snapshot) -> None:
        """Find what the tests before the victim have left behind that makes it fail."""
        changes = differences(before, self._take(), self._recorder.secrets.redact)
        texts = {change.key: change.text for change in changes}
        keys = [change.key for change in changes if change.can_be_put_back]

        def fixes(some: Sequence[str]) -> bool:
            return self._passes(victim, prepare=partial(put_back, before, some))

        is_fixed_by_all = bool(keys) and fixes(keys)
        # If all put back doesn't fix it, that may have undone what a fixture, which is still set
        # up, has done for the victim, too.
        most = _MOST_PUT_BACK if is_fixed_by_all else _MOST_PUT_BACK_ALONE
        fixed = next(([key] for key in keys[:most] if fixes([key])), [])
        if is_fixed_by_all and not fixed:
            fixed = [*fewest(keys, fixes)]
        self._tell(
            fixed=[(key, texts[key]) for key in fixed],
            differences=[change.text for change in changes[:_MOST_PUT_BACK]],
        )

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        """Tell at once what a test does to the network and by other processes."""
        if self._is_over:
            return
        if event in _READS and self._victim and self._request.left_between_ns:
            self._see_file(args[0], args[1:2])
        if len(self._effects) >= _MOST_EFFECTS:
            return
        effect = _effect_of(event, args)
        if effect and effect not in self._effects:
            self._effects.append(effect)
            self._tell(effects=self._effects)

    def _see_file(self, path: object, mode: tuple[object, ...]) -> None:
        """Tell which files outside of the project the victim reads that a run has left."""
        is_written = mode and type(mode[0]) is str and mode[0].startswith(("w", "x"))
        if is_written or not isinstance(path, str | bytes) or len(self._outside) > 2:
            return
        place = os.path.abspath(os.fsdecode(path))
        if place in self._outside or place.startswith(self._inside):
            return
        began, ended = self._request.left_between_ns
        with suppress(OSError, ValueError):
            if began <= _lstat(place).st_mtime_ns <= ended:
                self._outside.append(place)
                self._tell(outside=self._outside)


def _open(answers: str) -> int:
    return move_high(os.open(answers, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def _other_threads() -> list[str]:
    """Return what else runs in this process: a fork would lack it, and might hang."""
    names = [thread.name for thread in threading.enumerate()]
    with suppress(OSError):
        unnamed = len(os.listdir("/proc/self/task")) - len(names)
        names += ["a thread of a library in C"] * unnamed
    return names[1:]


def _decode(words: object) -> str:
    return os.fsdecode(words) if isinstance(words, str | bytes) else ""


def _effect_of(event: str, args: tuple[Any, ...]) -> str:
    """Return what an audit event does outside of the test; empty if it does nothing there."""
    if event in _PROCESSES:
        program = _decode(args[0]).partition(" ")[0]
        return f"subprocess ({Path(program).name})"
    if event == "socket.connect":
        address = args[1]
    elif event == "socket.getaddrinfo":
        address = args
    else:
        return ""
    # A socket of this machine, in a file, has a path for an address.
    if not isinstance(address, tuple):
        return ""
    host, port = _decode(address[0]), address[1]
    place = f"{host}:{port}" if port else host
    if host and not host.startswith(_LOCAL):
        return f"network ({place})"
    database = _TABLE["databases"].get(str(port))
    return f"database ({database} at {place})" if database else ""
