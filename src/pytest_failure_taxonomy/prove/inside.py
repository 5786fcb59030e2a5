"""The plugin inside of the pytest of an experiment: it runs the tests that it is told to run.

The process collects as the recorded run did, and then, instead of pytest's own loop, runs lists of
tests in the order asked: one list itself, or any number of them in forks of itself. It answers in
lines of JSON, so that what is known of a run that dies or hangs stands there, too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.options import EXPERIMENT_VARIABLE
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.prove.state import Snapshot, differences, put_back, take
from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.recorder.session import SessionRecorder
from pytest_failure_taxonomy.system.files import move_high
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.process import die_with_parent
from pytest_failure_taxonomy.taxonomy import evidence, packaged_table
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.order import digest_of
from pytest_failure_taxonomy.taxonomy.values import replace

json = isolate_module(json)
os = isolate_module(os)

# As they are before any test: one may patch them, as freezegun does.
_monotonic, _sleep = time.monotonic, time.sleep

_NEUTRAL: Final[Mapping[str, Any]] = {"none": None, "off": False, "on": True, "zero": 0, "no": "no"}
_RERUNNERS: Final = ("rerunfailures", "flaky.flaky_pytest_plugin", "flaky")
"""Plugins that run a failed test again, also where a mark of the test asks for it."""
_MOST_PUT_BACK: Final = 60
"""How many differences are put back one by one, the most likely first."""
_MOST_PUT_BACK_ALONE: Final = 20
"""The same where to put back all of them doesn't mend the victim."""
_EFFECTS: Final = {
    "socket.connect": "network",
    "socket.getaddrinfo": "network",
    "subprocess.Popen": "subprocess",
    "os.system": "subprocess",
    "os.posix_spawn": "subprocess",
}
"""Audit events of what a test does to others than itself, and what it is called."""
_LOCAL: Final = ("127.", "::1", "localhost", "0.0.0.0", "::")  # noqa: S104 - nothing is bound

_SEED: Final = pytest.StashKey[int | None]()
_RANDOM: Final = pytest.StashKey[list[Any]]()


def pytest_configure(config: pytest.Config) -> None:
    """Take the request out of the environment, and register what answers it."""
    request = json.loads(os.environ.pop(EXPERIMENT_VARIABLE))
    config.pluginmanager.register(_Experiment(config, request), "failure_taxonomy_experiment")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Switch off what would write into the user's folders, before plugins look at their options."""
    _set_neutral(early_config.known_args_namespace)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Switch off what spreads, reorders, repeats and cuts a run."""
    _set_neutral(config.option)
    for name in _RERUNNERS:
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
            config.addinivalue_line("markers", "flaky: which the plugin would have declared")
    return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed random numbers where that is asked for, and keep what state they begin with.

    A plugin that seeds them, too, is registered later and called before.
    """
    seed = item.stash.get(_SEED, None)
    if seed is not None:
        random.seed(seed)
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed(seed)
    item.stash[_RANDOM] = _random_states()


def pytest_runtest_call(item: pytest.Item) -> None:
    """Keep the state again, which such a plugin has set once more."""
    item.stash[_RANDOM] = _random_states()


def _random_states() -> list[Any]:
    """Return the states of the generators that all tests share: Python's and NumPy's."""
    states: list[Any] = [random.getstate()]
    if "numpy.random" in sys.modules:
        _, words, *place = sys.modules["numpy.random"].get_state()
        states += [words.tobytes(), place]
    return states


def _set_neutral(options: Any) -> None:
    for neutral, names in packaged_table("experiments")["neutral"].items():
        for name in names:
            if hasattr(options, name):
                setattr(options, name, _NEUTRAL[neutral])


class _Experiment:
    """Answers requests for runs of tests."""

    def __init__(self, config: pytest.Config, request: dict[str, Any]) -> None:
        if hasattr(signal, "SIGKILL"):
            die_with_parent(signal.SIGKILL)
        self._config = config
        self._request = request
        self._answers = _Answers(request["answers"])
        self._server = None
        if "server" in request:
            self._server = socket.socket(fileno=move_high(request["server"]))
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

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep the order in which the tests were collected, before plugins change it."""
        self._natural = list(items)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what is asked for instead of all tests."""
        nodeids = [item.nodeid for item in session.items]
        places = {id(item): at for at, item in enumerate(session.items)}
        self._items = {item.nodeid: item for item in reversed(session.items)}
        collected: dict[str, Any] = {"digest": digest_of(nodeids), "errors": session.testsfailed}
        if "victim" in self._request:
            self._answers.add(collected=collected)
            self._tell_modules()
            with self._seeing_effects():
                self._run(self._request)
            self._tell_modules()
            return True
        collected |= {
            "nodeids": nodeids,
            "natural": [places[key] for item in self._natural if (key := id(item)) in places],
            "threads": _other_threads(),
        }
        self._answers.add(collected=collected)
        if self._server is not None:
            self._serve(self._server)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how the phases of the victim ended."""
        if report.nodeid == self._victim:
            if report.when != "teardown":
                self._uses_random |= _random_states() != self._items[report.nodeid].stash[_RANDOM]
            xfail = "xfailed" if report.outcome == "skipped" else "xpassed"
            self._outcomes.append(xfail if hasattr(report, "wasxfail") else report.outcome)

    def _tell_modules(self) -> None:
        """Tell which files were imported, where it matters whose they are."""
        if self._request.get("tells_modules"):
            files = {
                name: module.__dict__.get("__file__")
                for name, module in [*sys.modules.items()]
                if isinstance(module, ModuleType)
            }
            told = {name: file for name, file in files.items() if isinstance(file, str)}
            self._answers.add(modules=told)

    def _serve(self, server: socket.socket) -> None:
        """Fork for each request, and answer with how the fork ended; an empty line ends it."""
        with server.makefile("r", encoding="ascii") as requests:
            for line in requests:
                if not line.strip():
                    return
                request = json.loads(line)
                ended = self._in_fork(request["limit_seconds"], self._answer, request)
                server.sendall(json.dumps(ended).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> None:
        if self._server is not None:
            self._server.close()
        self._answers = _Answers(request["answers"])
        with self._seeing_effects():
            if request.get("looks_at_state"):
                self._find_state(request)
            elif request.get("every"):
                self._walk(request)
            else:
                self._run(request)

    @contextmanager
    def _seeing_effects(self) -> Generator[None, None, None]:
        effects: set[tuple[str, str]] = set()
        sys.addaudithook(lambda event, args: _see(effects, event, args))
        try:
            yield
        finally:
            self._answers.add(effects=sorted(effects))

    def _in_fork(self, limit_seconds: float, does: Any, *given: Any) -> str:
        """Do something in a fork; return how that ended: `0`, its status, `SIGSEGV` or `limit`."""
        process_id = os.fork()
        if process_id == 0:
            status = 1
            try:
                die_with_parent(signal.SIGKILL)  # wherever there is a fork, there is this signal
                os.setsid()
                does(*given)
                status = 0
            except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
                self._answers.add(error=f"{type(error).__name__}: {error}")
            finally:
                os._exit(status)  # noqa: SLF001 - nothing of the parent's is to be ended twice
        until = _monotonic() + limit_seconds
        pause, ended = 0.001, 0
        while not ended:
            ended, status = os.waitpid(process_id, os.WNOHANG)
            if not ended and _monotonic() > until:
                with suppress(ProcessLookupError):
                    os.killpg(process_id, signal.SIGKILL)
                    os.waitpid(process_id, 0)
                return "limit"
            if not ended:
                _sleep(pause)
                pause = min(2 * pause, 0.02)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process_id, signal.SIGKILL)  # what it has left behind
        code = os.waitstatus_to_exitcode(status)
        return signal.Signals(-code).name if code < 0 else str(code)

    def _run(self, request: Mapping[str, Any]) -> None:
        """Run the tests before the victim, then the victim, and answer how that ended."""
        before = None if not request.get("put_back") else self._take()
        victim = self._items.get(request["victim"])
        items = [self._items[nodeid] for nodeid in request["order"] if nodeid in self._items]
        if victim is None or len(items) < len(request["order"]):
            known = {*self._items}
            missing = [each for each in (*request["order"], request["victim"]) if each not in known]
            self._answers.add(missing=missing)
            return
        self._run_before(items, victim)
        if before is not None:
            self._answers.add(not_put_back=put_back(before, request["put_back"]))
        if "repeats_for" in request:
            # Until who asks for it is gone, or has removed the file.
            while os.getppid() == request["repeats_for"] and os.path.exists(request["answers"]):
                self._run_test(victim, None)
            return
        self._run_victim(victim, request)

    def _run_before(self, items: Sequence[pytest.Item], victim: pytest.Item) -> None:
        for item, following in zip(items, [*items[1:], victim], strict=False):
            self._run_test(item, following)

    def _run_test(self, item: pytest.Item, following: pytest.Item | None) -> None:
        self._answers.add(started=item.nodeid)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)

    def _run_victim(self, victim: pytest.Item, request: Mapping[str, Any], **told: Any) -> str:
        self._victim, self._outcomes, self._uses_random = victim.nodeid, [], False
        seed = request.get("seed")
        if seed is not None and hasattr(self._config.option, "randomly_seed"):
            self._config.option.randomly_seed = seed  # the plugin seeds each test by it
        else:
            victim.stash[_SEED] = seed
        self._run_test(victim, None)
        seen = self._recorder.evidence(
            stage=Stage.FINAL_TEST,
            strict_baseline=False,
            exit_seen=evidence.ProcessExit(code=None, source="none"),
            workers=(),
        )
        failures = tuple(each for each in seen.failures if each.nodeid == victim.nodeid)
        judged = judge(name_libraries(replace(seen, failures=failures))).failures
        fingerprints = [each.fingerprint for each in judged]
        result = "other"
        if set(fingerprints) & set(request["fingerprints"]):
            result = "failed"
        elif set(self._outcomes) <= {"passed", "xfailed"} and "passed" in self._outcomes:
            result = "passed"
        words = [each.message for each in failures] or self._outcomes
        self._answers.add(
            result=result,
            words=words[:1],
            kinds=[e.kind for e in judged],
            uses_random=self._uses_random,
            **told,
        )
        return result

    def _walk(self, request: Mapping[str, Any]) -> None:
        """Run the tests in order; after every so many look in a fork whether the victim fails.

        It ends at the first that does: the test that completed the pollution ran since the last.
        """
        victim = self._items[request["victim"]]
        items = [self._items[nodeid] for nodeid in request["order"]]
        for at, item in enumerate([*items, None]):
            if at % request["every"] == 0 or item is None:
                probe = self._in_fork(request["limit_seconds"], self._probe, victim, request, at)
                if probe != "0":
                    self._answers.add(probe=at, ended=probe)
                    return
            if item is not None:
                following = items[at + 1] if at + 1 < len(items) else victim
                self._run_test(item, following)

    def _probe(self, victim: pytest.Item, request: Mapping[str, Any], at: int = 0) -> None:
        # The fixtures of the tests before would be torn down before the victim, too.
        victim.session._setupstate.teardown_exact(victim)  # noqa: SLF001 - there is no other way
        if self._run_victim(victim, request, probe=at) != "passed":
            os._exit(3)  # noqa: SLF001 - as above

    def _take(self) -> Snapshot:
        # Of several `conftest.py` that are in no package, `sys.modules` has the last one.
        plugins = self._config.pluginmanager.get_plugins()
        conftests = (plugin for plugin in plugins if isinstance(plugin, ModuleType))
        return take(self._config.rootpath, conftests)

    def _find_state(self, request: Mapping[str, Any]) -> None:
        """Find what the tests before the victim leave behind that makes it fail."""
        victim = self._items[request["victim"]]
        before = self._take()
        self._run_before([self._items[nodeid] for nodeid in request["order"]], victim)
        redact = self._recorder.secrets.redact
        found = differences(before, self._take(), redact)
        limit = request["limit_seconds"]

        def mends(keys: Sequence[str]) -> bool:
            ended = self._in_fork(limit, self._probe_mended, victim, request, before, keys)
            return ended == "0"

        keys = tuple(each.key for each in found if each.can_be_put_back)
        texts = {each.key: each.text for each in found}
        is_mended_by_all = bool(keys) and mends(keys)
        # If all put back doesn't mend it, that may have undone what a fixture, which is still set
        # up, has done for the victim, too.
        most = _MOST_PUT_BACK if is_mended_by_all else _MOST_PUT_BACK_ALONE
        mended: tuple[str, ...] = next(((key,) for key in keys[:most] if mends((key,))), ())
        if is_mended_by_all and not mended:
            mended = fewest(keys, mends)
        self._answers.add(
            mended=[(key, texts[key]) for key in mended],
            differences=[each.text for each in found[:_MOST_PUT_BACK]],
        )

    def _probe_mended(
        self,
        victim: pytest.Item,
        request: Mapping[str, Any],
        before: Snapshot,
        keys: Sequence[str],
    ) -> None:
        put_back(before, keys)
        self._probe(victim, request)


class _Answers:
    """Lines of JSON at the end of a file, each written by one call."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = move_high(os.open(path, flags, 0o600))

    def add(self, **answer: Any) -> None:
        os.write(self._descriptor, json.dumps(answer).encode("ascii") + b"\n")


def _other_threads() -> list[str]:
    """Return what else runs in this process: a fork would be without it, and might hang."""
    named = [thread.name for thread in threading.enumerate()]
    with suppress(OSError):
        unnamed = len(os.listdir("/proc/self/task")) - len(named)
        named += ["a thread of a library in C"] * unnamed
    return named[1:]


def _see(effects: set[tuple[str, str]], event: str, args: tuple[Any, ...]) -> None:
    """Keep what a test does to the network and by other processes."""
    sort = _EFFECTS.get(event)
    if sort is None or len(effects) >= 10:
        return
    if sort == "subprocess":
        named = args[0] if event != "os.system" else str(args[0]).partition(" ")[0]
        effects.add((sort, Path(os.fsdecode(named)).name if isinstance(named, str | bytes) else ""))
        return
    host, port, *_ = args
    if event == "socket.connect":
        if not isinstance(port, tuple):
            return  # a socket of this machine, in a file
        host, port = port[:2]
    host = os.fsdecode(host) if isinstance(host, str | bytes) else ""
    if host and not host.startswith(_LOCAL):
        effects.add((sort, f"{host}:{port}" if port else host))
    elif name := packaged_table("experiments")["databases"].get(str(port)):
        effects.add(("database", f"{name} at {host}:{port}"))
