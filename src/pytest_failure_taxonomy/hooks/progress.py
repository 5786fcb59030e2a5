"""Record a run's progress: its tests and results, and what pytest does between tests.

The numbers of the tests are in the arrays of the run's record, so that they are on disk
as soon as they change. A test that passes takes no memory: each selected test has nine
bytes from the start. The file that pytest collects, and the hook that it calls, stand
there, too, so that a death or a stall there can be told with its place. So does what
pytest leaves when it crashes.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.guard import Faults, guarded_hook
from pytest_failure_taxonomy.hooks.inspection import (
    attribute_of,
    function_in,
    module_of,
)
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.facts import StartedTest
from pytest_failure_taxonomy.survive.layout import (
    DONE,
    ENDED,
    IN_SETUP,
    NOT_STARTED,
)
from pytest_failure_taxonomy.survive.writer import Numbers, Record
from pytest_failure_taxonomy.system.files import Identity, identity_of
from pytest_failure_taxonomy.taxonomy.evidence import Phase
from pytest_failure_taxonomy.taxonomy.order import (
    INDEX_BITS,
    LAST_WORKER,
    MAIN,
    Plan,
    digest_of,
)
from pytest_failure_taxonomy.taxonomy.values import replace

_INDEX: Final = {name: index for index, name in enumerate(layout.COUNTERS)}
_PASSED: Final = _INDEX["passed"]
_ENDED_BY: Final = {name: ENDED + 1 + index for name, index in _INDEX.items()}
"""The states of tests that have ended, by their results."""
_HAS_PASSED: Final = _ENDED_BY["passed"]
_HAS_FAILED: Final = _ENDED_BY["failed"]

_STATES: Final = {phase: state for state, phase in layout.PHASES.items()}

_UNKNOWN: Final = -1
"""The index of tests that were not selected: each array has an extra element for
them."""

_CONFTEST: Final = "conftest.py"
_REWRITER: Final = "_pytest.assertion.rewrite"
"""The module of pytest's import hook; without it (`--assert=plain`) no conftest is
named."""
_OWN: Final = ("_pytest", "pluggy", "pytest_failure_taxonomy")
"""Packages whose implementations of a hook are not named: they are in every run."""
_MAX_NAMED: Final = 3
"""Plugins that are named for one hook."""

_NEXT_TEST_NS: Final = 200_000
"""So soon after a test its successor starts where nothing else runs between them."""

HandOver = Callable[[Mapping[str, int]], bool]
"""Gives descriptors to the process that outlives this one; tells whether there is such
a one."""

_NO_FILE: Final = -1


class Progress:
    """Follow the selected tests from their start to their end."""

    def __init__(
        self,
        record: Record,
        started_ns: int,
        shown: Callable[[Sequence[str]], Sequence[str]] = lambda nodeids: nodeids,
    ) -> None:
        """Begin without any test.

        Args:
            record: has the arrays.
            started_ns: when the run began, on the monotonic clock.
            shown: removes the secrets from node ids.
        """
        # Kept because freezegun, for one, replaces the function in its module.
        self.clock = time.monotonic_ns
        self.started_ns = started_ns
        self.nodeids: Sequence[str] = ()
        self._record = record
        self._shown = shown
        self._use(record.numbers)
        self._ordered = 0
        """How many places of the order are taken."""
        self._numbers = {MAIN: 0}
        """The numbers of workers in the order."""
        self.plan = Plan()
        self.is_distributed = False
        """Whether workers run the tests, so that a start alone does not say whose it
        is."""
        self._cursor = 0
        self._finished_ns = 0
        """When the last test ended, on the monotonic clock."""
        self._indices: dict[str, int] | None = None
        self._running: dict[str, int] = {}
        self._workers: dict[str, str] = {}
        self._results: dict[str, int] = {}
        """The states that running tests end in, as far as they have a result."""
        self._passed = ""
        """The test that passed last: without workers no other result comes before its
        end, and this costs less than a dictionary."""
        self._passes = 0
        """The counter of passes: reading it from the array would cost more."""
        self.reruns: Counter[str] = Counter()
        """How often each test was run again."""
        self.recovered: set[str] = set()
        """Tests that passed when they were run again."""

    def select(self, nodeids: Sequence[str], *, is_more: bool = False) -> None:
        """Set the tests that are going to run, in their order.

        Args:
            nodeids: all of them.
            is_more: they begin with those of before, to which another worker adds the
                same ones.
        """
        if not (is_more and self.nodeids):
            digest = digest_of(nodeids)
            self.plan = replace(self.plan, tests=len(nodeids), digest=digest)
            self._record.write("plan", plan=self.plan)
        self.nodeids = nodeids
        self._record.select(self._shown(nodeids), is_more=is_more)
        self._use(self._record.numbers)
        if not is_more:
            self._ordered = 0
        self._cursor = 0
        self._indices = None

    def _use(self, numbers: Numbers) -> None:
        self._states = numbers.states
        self._starts = numbers.starts
        self._order = numbers.order
        self._counters = numbers.counters

    def start(self, nodeid: str) -> None:
        """Record that a test has started."""
        nodeids = self.nodeids
        index = self._cursor
        # Tests start in the order of selection, or nearly so under xdist.
        if index < len(nodeids) and nodeids[index] == nodeid:
            self._cursor = index + 1
        else:
            index = self._find(nodeid)
        self._running[nodeid] = index
        now_ns = self.clock()
        self._starts[index] = (now_ns - self.started_ns) // 1_000_000
        place = -1  # which stays as it is
        if not self._states[index] and not self.is_distributed:
            place = self._ordered
            self._order[place] = index + 1
            self._ordered = place + 1
        self._states[index] = IN_SETUP
        is_checked = now_ns - self._finished_ns < _NEXT_TEST_NS
        self._record.keep(index, place, is_checked=is_checked)

    def position(self) -> object:
        """Return what changes whenever a test makes progress; for another thread."""
        running = [*self._running.items()]
        states = [(nodeid, self._states[index]) for nodeid, index in running]
        return list(self._counters), states

    def start_unheard(
        self, nodeid: str, phase: Phase, start_ns: int, worker: str
    ) -> None:
        """Record a test of a worker's own record, if the worker reported less of it."""
        if nodeid not in self._running:
            index = self._find(nodeid)
            if index == _UNKNOWN or self._states[index] != NOT_STARTED:
                return
            self._running[nodeid] = index
            self._starts[index] = max(0, start_ns - self.started_ns) // 1_000_000
        state = self._states[self._running[nodeid]]
        self.advance(nodeid, max(state, _STATES[phase]))
        self.assign_worker(nodeid, worker)

    def advance(self, nodeid: str, state: int) -> None:
        """Record the state of a running test."""
        index = self._running.get(nodeid)
        if index is not None:
            self._states[index] = state
            self._record.keep(index)

    def finish(self, nodeid: str) -> None:
        """Record that a test has ended."""
        index = self._running.pop(nodeid, None)
        if index is not None:
            state = _HAS_PASSED if nodeid == self._passed else DONE
            if self._results:
                state = self._results.pop(nodeid, state)
            self._states[index] = state
            self._record.keep(index)
            self._finished_ns = self.clock()

    def set_result(self, nodeid: str, name: str) -> None:
        """Set what a running test ends with; a failed call stays whatever follows."""
        is_running = nodeid in self._running
        if is_running and self._results.get(nodeid) != _HAS_FAILED:
            self._results[nodeid] = _ENDED_BY[name]

    def count(self, name: str, by: int = 1) -> None:
        """Count a result under a name of `layout.COUNTERS`, or take some back."""
        index = _INDEX[name]
        self._counters[index] = max(0, self._counters[index] + by)
        self._record.keep()

    def count_pass(self, nodeid: str) -> None:
        """Count a test that passed; the number is kept when its state is."""
        if self.reruns and nodeid in self.reruns:
            self.recovered.add(nodeid)
            self._record.write("recovered", nodeid=self._shown((nodeid,))[0])
        if self.is_distributed:
            self._results[nodeid] = _HAS_PASSED
        else:
            self._passed = nodeid
        self._passes += 1
        self._counters[_PASSED] = self._passes

    def count_rerun(self, nodeid: str, attempt: int | None) -> None:
        """Count a test that failed and is run again.

        Args:
            nodeid: the test.
            attempt: the number of the attempt from 0 on, if known. One attempt may be
                reported twice, for its call and its teardown.
        """
        self.count("rerun")
        self._results.pop(nodeid, None)
        self._passed = ""
        attempts = self.reruns[nodeid]
        if attempt is None:
            attempt = attempts
        self.reruns[nodeid] = max(attempts, attempt + 1)

    def set_deselected(self, count: int) -> None:
        """Set how many tests options have deselected."""
        self._counters[_INDEX["deselected"]] = count
        self._record.keep()

    def add_worker(self, worker: str) -> None:
        """Give a worker its number; the record has workers in the same order."""
        self._numbers.setdefault(worker, len(self._numbers))

    def assign_worker(self, nodeid: str, worker: str) -> None:
        """Record which worker runs a test, and that it is the next one it starts."""
        if self._workers.get(nodeid) == worker:
            return  # it is run again
        self._workers[nodeid] = worker
        index = self._running.get(nodeid)
        if index is None:  # with `--dist each` another worker has run it meanwhile
            index = self._find(nodeid)
        if index != _UNKNOWN and self._ordered < len(self._order):
            number = min(self._numbers[worker], LAST_WORKER)
            self._order[self._ordered] = number << INDEX_BITS | index + 1
            self._record.keep(index, self._ordered)
            self._ordered += 1

    def phase_of(self, nodeid: str) -> Phase | None:
        """Return the phase that a running test is in."""
        index = self._running.get(nodeid)
        if index is None:
            return None
        return layout.PHASES.get(self._states[index], "call")

    @property
    def counters(self) -> dict[str, int]:
        """The counters of results, by their names."""
        names = layout.COUNTERS[: layout.STARTED]
        return dict(zip(names, self._counters, strict=False))

    @property
    def starts(self) -> Sequence[int]:
        """The order of the tests, as it is recorded."""
        return self._order

    @property
    def processes(self) -> tuple[str, ...]:
        """The processes that run tests, by their numbers in the order."""
        return tuple(self._numbers)

    def in_flight(self) -> tuple[StartedTest, ...]:
        """Return the tests that have started and not ended."""
        tests = []
        for nodeid, index in self._running.items():
            test = StartedTest(
                nodeid=nodeid,
                phase=layout.PHASES.get(self._states[index], "call"),
                start_ns=self.started_ns + 1_000_000 * self._starts[index],
                worker=self._workers.get(nodeid),
            )
            tests.append(test)
        return tuple(tests)

    def not_started(self) -> tuple[str, ...]:
        """Return the selected tests that never started, in the order of selection."""
        pairs = zip(self.nodeids, self._states, strict=False)  # which have one more
        return tuple([nodeid for nodeid, state in pairs if state == NOT_STARTED])

    def _find(self, nodeid: str) -> int:
        """Return the index of a test that starts out of the order of selection."""
        if self._indices is None:
            self._indices = {}
            for index, selected in enumerate(self.nodeids):
                self._indices.setdefault(selected, index)
        index = self._indices.get(nodeid, _UNKNOWN)
        if index == _UNKNOWN or self._states[index] == NOT_STARTED:
            return index
        # It has started before: it is run again, or selected more than once (`--dist
        # each`).
        for later in range(index + 1, len(self.nodeids)):
            if self._states[later] == NOT_STARTED and self.nodeids[later] == nodeid:
                return later
        return index


class ActivityRecorder:
    """A plugin that records pytest's activity besides tests, and timers of a test."""

    def __init__(self, config: pytest.Config, record: Record, faults: Faults) -> None:
        self.faults = faults
        self._config = config
        self._record = record
        self._hooks: dict[str, str] = {}
        self._calls: list[str] = []
        self._importer: Any = None

    def begin(self) -> None:
        """Record the conftest files that pytest imports before its first hook."""
        self._record.set_activity(layout.COLLECTING, "")
        # pytest's own import hook is asked first for every module. One of ours would be
        # seen.
        for importer in sys.meta_path:
            if module_of(type(importer)) == _REWRITER:
                self._importer = importer
                self._importer.find_spec = self._find_spec
                self._config.add_cleanup(self._leave_importer)
                break

    @guarded_hook(tryfirst=True)
    def pytest_configure(self) -> None:
        """Record that plugins are being configured."""
        self._leave_importer()
        self._set_hook("pytest_configure")

    @guarded_hook(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Record that the session starts."""
        self._set_hook("pytest_sessionstart")

    @guarded_hook(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Record the file, class or folder being collected, after its conftest."""
        name = collector.nodeid
        if isinstance(collector, pytest.Directory):
            conftest = collector.path / _CONFTEST
            is_new = not self._config.pluginmanager.has_plugin(str(conftest))
            if is_new and conftest.is_file():
                name = self._relative(str(conftest))
            elif name == ".":
                name = ""
        self._record.set_activity(layout.COLLECTING, name)

    @guarded_hook(tryfirst=True)
    def pytest_collection_modifyitems(self) -> None:
        """Record that plugins change what was collected."""
        self._set_hook("pytest_collection_modifyitems")

    @guarded_hook(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Record that the collection is over."""
        self._record.set_activity(NOT_STARTED, "")

    @guarded_hook(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Record the start of the session; an xdist controller collects nothing."""
        self._record.set_activity(NOT_STARTED, "")

    @guarded_hook(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Record the test's limit: the thread of pytest-timeout leaves no trace."""
        if settings.method in layout.TIMER_METHODS:
            self._record.arm_timer(float(settings.timeout), settings.method)

    @guarded_hook(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self) -> None:
        """Record that no timer is armed."""
        self._record.arm_timer(0.0, "")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        """Record each hook that is called from now on, until the process ends."""
        try:
            self._enter_hook("pytest_sessionfinish")
            # Never undone: another plugin's monitoring may have come on top of it.
            self._config.pluginmanager.add_hookcall_monitoring(
                self._enter_hook, self._leave_hook
            )
        except BaseException as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_sessionfinish", error)
        try:
            return (yield)
        finally:
            self._leave_hook()

    def _set_hook(self, name: str) -> None:
        self._record.set_activity(layout.IN_HOOK, self._describe_hook(name))

    def _enter_hook(self, name: str, *_: Any) -> None:
        self._calls.append("")  # left again, whatever fails here
        with suppress(Exception):
            words = self._describe_hook(name)
            # One that pytest alone has, and may call for every failure, is left out
            # within another.
            if words != name or len(self._calls) == 1:
                self._calls[-1] = words
                self._record.set_activity(layout.IN_LAST_HOOK, words)

    def _leave_hook(self, *_: Any) -> None:
        with suppress(Exception):
            if self._calls.pop():
                around = next(filter(None, reversed(self._calls)), "")
                self._record.set_activity(layout.IN_LAST_HOOK, around)

    def _find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Record a conftest file before its import, and ask pytest's import hook."""
        if name.rpartition(".")[2] == "conftest":
            with suppress(Exception):
                # It is the first one on the path, as for any module.
                for folder in sys.path if path is None else path:
                    file = os.path.join(folder, _CONFTEST)
                    if os.path.isfile(file):
                        shown = self._relative(os.path.abspath(file))
                        self._record.set_activity(layout.COLLECTING, shown)
                        break
        return type(self._importer).find_spec(self._importer, name, path, target)

    def _leave_importer(self) -> None:
        if self._importer is not None:
            vars(self._importer).pop("find_spec", None)

    def _describe_hook(self, name: str) -> str:
        """Return the name of a hook, with the plugins that implement it."""
        if name not in self._hooks:
            caller = getattr(self._config.pluginmanager.hook, name)
            owners: list[str] = []
            for implementation in caller.get_hookimpls():
                owner = self._owner_of(implementation)
                if owner and owner not in owners:
                    owners.append(owner)
            # The user's own code first: it is the least likely to have been tested.
            owners.sort(key=lambda owner: not owner.endswith(_CONFTEST))
            if len(owners) > _MAX_NAMED:
                owners[_MAX_NAMED:] = ["another plugin"]
            if len(owners) > 1:
                last = owners.pop()
                owners = [f"{', '.join(owners)} or {last}"]
            self._hooks[name] = f"{name} ({owners[0]})" if owners else name
        return self._hooks[name]

    def _owner_of(self, implementation: Any) -> str | None:
        """Return who implements a hook: a conftest file, a distribution or a module."""
        function = function_in(implementation.function)
        module = ""
        if function is not None:
            module = str(function.__module__)
        package = module.partition(".")[0]
        # There execnet runs the code of an xdist worker.
        if package == "__channelexec__":
            return "pytest-xdist"
        if package in _OWN:
            return None
        if str(implementation.plugin_name).endswith(_CONFTEST):
            return self._relative(implementation.plugin_name)
        for plugin, distribution in self._config.pluginmanager.list_plugin_distinfo():
            name = attribute_of(plugin, "__name__")
            if type(name) is str and name.partition(".")[0] == package:
                return str(distribution.project_name)
        return module

    def _relative(self, path: str) -> str:
        with suppress(ValueError):
            return Path(path).relative_to(self._config.rootpath).as_posix()
        return path


class CrashDump:
    """A plugin that moves faulthandler's output while a session goes on.

    pytest's own plugin has faulthandler write to a copy of stderr, where no other
    process could read it. It is moved to a file only where another process reads that
    file when this one has died, and writes what it reads to stderr.
    """

    def __init__(
        self, config: pytest.Config, record: Record, faults: Faults, hand_over: HandOver
    ) -> None:
        self.faults = faults
        self._config = config
        self._record = record
        self._hand_over = hand_over
        self._file = _NO_FILE
        self._identity: Identity = (0, 0)

    # Last: pytest's own plugin enables faulthandler in this hook.
    @guarded_hook(trylast=True)
    def pytest_configure(self) -> None:
        """Give the descriptors away; if taken, move faulthandler's output."""
        if self._record.folder is None:
            return
        descriptors = self._captured_streams()
        terminal = self._terminal()
        file = _NO_FILE
        if terminal is not None:
            size = layout.CRASH_BYTES
            with suppress(OSError):
                file = self._record.open_file(layout.CRASH, os.O_RDWR, size)
                descriptors[layout.CRASH_FILE] = file
                descriptors[layout.TERMINAL] = terminal
        are_shown = self._hand_over(descriptors)
        if file == _NO_FILE:
            return
        if are_shown:
            faulthandler.enable(file=file)
            self._file = file
            self._identity = identity_of(os.fstat(file))
        else:
            os.close(file)

    def _captured_streams(self) -> dict[str, int]:
        """Return where pytest captures output; not for `-s` and `--capture=sys`.

        None of what is read here is public.
        """
        descriptors: dict[str, int] = {}
        manager: Any = self._config.pluginmanager.get_plugin("capturemanager")
        capturing = getattr(manager, "_global_capturing", None)
        for name, stream in ((layout.STDOUT, "out"), (layout.STDERR, "err")):
            with suppress(AttributeError, OSError, ValueError):
                descriptor = getattr(capturing, stream).tmpfile.fileno()
                os.fstat(descriptor)
                descriptors[name] = descriptor
        return descriptors

    def _terminal(self) -> int | None:
        """Return the stderr that faulthandler is to write to, if it is enabled."""
        if not faulthandler.is_enabled():
            return None
        return stderr_of_faulthandler(self._config)

    # Last: pytest's own plugin disables faulthandler in this hook, or puts it back.
    @guarded_hook(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Close the file, to which nothing is written any more."""
        file = self._file
        self._file = _NO_FILE
        if file != _NO_FILE:
            with suppress(OSError):
                # A test may have closed it.
                if identity_of(os.fstat(file)) == self._identity:
                    os.close(file)

    def leave_to_parent(self) -> None:
        """Let a forked child write to stderr: its crash isn't this process's."""
        terminal = self._terminal()
        if self._file != _NO_FILE and terminal is not None:
            with suppress(OSError, ValueError):
                faulthandler.enable(file=terminal)


def stderr_of_faulthandler(config: pytest.Config) -> int | None:
    """Return the stderr descriptor of pytest's faulthandler plugin, if loaded."""
    with suppress(ImportError, AttributeError):
        from _pytest.faulthandler import fault_handler_stderr_fd_key

        return config.stash.get(fault_handler_stderr_fd_key, None)
    return None


def faulthandler_exit_seconds(config: pytest.Config) -> float | None:
    """Return after how many seconds in a test faulthandler exits, if it does."""
    with suppress(KeyError, ValueError, TypeError):
        if config.getini("faulthandler_exit_on_timeout"):
            return float(config.getini("faulthandler_timeout") or 0) or None
    return None
