"""Follow single tests: what each raised, whether it was entered, how it counts.

Which code runs is seen by `sys.monitoring` (Python 3.12): two events of the test's own
code object, its start and its return, that cost nothing elsewhere. A function that
started and never returned has raised, whoever caught that.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Generator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.hooks.replacements import is_projects_code, is_users_file
from pytest_failure_taxonomy.taxonomy.evidence import Entered

_MONITORING: Any = getattr(sys, "monitoring", None)
_TOOL_NAME: Final = "pytest-failure-taxonomy"
_FREE_TOOLS: Final = (3, 4, 0, 1, 5)
"""The ids that no tool has by convention come first."""

_AROUND_CALL: Final = (
    *("pytest_pyfunc_call", "pytest_runtest_call", "pytest_runtest_protocol"),
    *("pytest_runtest_setup", "pytest_pycollect_makeitem"),
    "pytest_collection_modifyitems",
)
_AROUND_REPORT: Final = ("pytest_runtest_makereport", "pytest_runtest_protocol")
_AFTER_REPORT: Final = ("pytest_runtest_logreport",)
"""Hooks that can have changed a result, by where it was changed."""
_NEUTRAL_MARKS: Final = frozenset({"parametrize", "usefixtures", "filterwarnings"})
"""Marks that ask for no skip and for no expected failure."""
_NO_FAILURES: Final = frozenset(
    {"Skipped", "SkipTest", "XFailed", "Exit", "KeyboardInterrupt"}
)
_OF_ENVIRONMENT: Final = (OSError, ImportError, MemoryError, NotImplementedError)
"""Exceptions of Python by which something is missing; the others are faults of code."""
_OF_ANY_CLASS: Final = frozenset(
    {
        *("__dict__", "__doc__", "__eq__", "__firstlineno__", "__hash__", "__init__"),
        *("__module__", "__ne__", "__qualname__", "__repr__", "__slots__", "__str__"),
        *("__static_attributes__", "__weakref__"),
    }
)
_SKIPS: Final = (pytest.skip.Exception, unittest.SkipTest)


class Watch:
    """What the two plugins of this module have in common."""

    def __init__(
        self,
        config: pytest.Config,
        faults: Faults,
        equal: Mapping[CodeType, tuple[str, int]],
    ) -> None:
        """Begin before the first test.

        Args:
            config: of the run.
            faults: takes what goes wrong here.
            equal: the `__eq__` of the project that are always true, with their places.
        """
        self.faults = faults
        self.changed: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        """Tests whose results were changed, by kind and the hooks that can do it."""
        self.placed: dict[tuple[str, tuple[str, int], str], list[str]] = {}
        """Tests whose result the project's own code made, by kind, place and words."""
        self._equal = equal
        self._root = config.rootpath
        option = config.option
        self._calls_tests = not (option.setuponly or option.setupplan)
        self._ran = self._entered = 0
        self._nodeid = ""
        self._is_counted = False
        self._code: CodeType | None = None
        """Of the function that the file of the test defines."""
        self._codes: dict[FunctionType, CodeType] = {}
        """The code of the functions that are followed, as it was at the first call."""
        self._starts = self._returns = self._forks = 0
        self._is_counted = False
        self._tool = _claim_tool()
        if self._tool is not None:
            events = _MONITORING.events
            self._events = events.PY_START | events.PY_RETURN
            register = _MONITORING.register_callback
            register(self._tool, events.PY_START, self._see_start)
            register(self._tool, events.PY_RETURN, self._see_return)
            for code in equal:
                _MONITORING.set_local_events(self._tool, code, events.PY_START)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_parent=self._see_fork)

    @property
    def entered(self) -> Entered | None:
        """How many test functions were entered; `None` where that can't be seen."""
        if self._tool is None:
            return None
        return Entered(entered=self._entered, ran=self._ran)

    def stop(self) -> None:
        """Give back the tool of `sys.monitoring`."""
        if self._tool is not None and _MONITORING.get_tool(self._tool) == _TOOL_NAME:
            _MONITORING.free_tool_id(self._tool)

    def is_disarmed(self, manager: pytest.PytestPluginManager) -> bool:
        """Tell whether somebody has switched this plugin off, or taken its tool."""
        if not manager.is_registered(self):
            return True
        return self._tool is not None and (
            _MONITORING.get_tool(self._tool) != _TOOL_NAME
        )

    def _begin(self, item: pytest.Item) -> None:
        self._is_counted = item.nodeid == self._nodeid  # it is run again
        self._nodeid = item.nodeid
        self._starts = self._returns = self._forks = 0
        function = find_defined_function(item)
        self._code = None
        if function is not None:
            self._code = self._codes.get(function)
            if self._code is None:
                self._code = self._codes[function] = function.__code__
                if self._tool is not None:
                    _MONITORING.set_local_events(self._tool, self._code, self._events)
                if _has_foreign_code(function):
                    self._add("test_replaced", _AROUND_CALL)

    def _count(self) -> bool:
        """Count a test that ran; tell whether it can be seen what its code did."""
        if self._tool is None or self._code is None or self._forks:
            return False
        if not self._is_counted:  # a failure that counts as a pass comes here twice
            self._is_counted = True
            self._ran += self._calls_tests
            self._entered += self._starts > 0
        return self._calls_tests

    def _see_end(self, nodeid: str, outcome: str) -> bool:
        """Compare an end with what the code did; tell whether other code passed."""
        if self._nodeid != nodeid or not (outcome == "passed" or self._starts):
            return False  # a unittest that is skipped starts nothing
        if not self._count() or outcome != "passed":
            return False
        if not self._starts:
            self._add("test_replaced", _AROUND_CALL)
        elif not self._returns:
            self._add("outcome_rewritten", _AROUND_CALL + _AROUND_REPORT)
        return not (self._starts and self._returns)

    def _see_raised(
        self, item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Count a test that raised, and see whether the tested code has skipped it."""
        self._count()
        if not issubclass(raised.type, _SKIPS):
            return
        entries = inspection.entries_of(raised.value)
        files = [entry.tb_frame.f_code.co_filename for entry in entries]
        if str(item.path) not in files:
            return  # a decorator or a hook skipped it
        own = [at for at, file in enumerate(files) if is_users_file(file)]
        path = files[own[-1]]
        if path != str(item.path) and is_projects_code(path, self._root):
            place = path, entries[own[-1]].tb_lineno
            self._add_placed("test_skipped", place, "skipped the test that called it")

    def _add(self, kind: str, hooks: tuple[str, ...], nodeid: str = "") -> None:
        self.changed.setdefault((kind, hooks), []).append(nodeid or self._nodeid)

    def _add_placed(self, kind: str, place: tuple[str, int], words: str) -> None:
        self.placed.setdefault((kind, place, words), []).append(self._nodeid)

    def _see_start(self, code: CodeType, _offset: int) -> None:
        if code is self._code:
            self._starts += 1
        elif code in self._equal:
            method = sys._getframe(1)  # noqa: SLF001 - there is no other way
            caller = method.f_back
            compared = type(method.f_locals.get(code.co_varnames[0]))
            is_in_test = caller is not None and caller.f_code is self._code
            if is_in_test and _has_a_use(compared):
                words = "is a result that equals everything"
                self._add_placed("assertion_replaced", self._equal[code], words)

    def _see_return(self, code: CodeType, _offset: int, _value: object) -> None:
        if code is self._code:
            self._returns += 1

    def _see_fork(self) -> None:
        self._forks += 1


class EntryWatch(Watch):
    """A plugin that sees whether the code of each test was entered.

    That is enough where no hook can change how a test counts.
    """

    # These three are called for every test, and contain what `guarded` does.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Begin to follow the function of a test."""
        try:
            self._begin(item)
        except Exception as error:  # noqa: BLE001 - the user's run goes on
            self.faults.add("pytest_runtest_call", error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> None:
        """See what a test raised."""
        if call.when != "call" or call.excinfo is None:
            return
        try:
            self._see_raised(item, call.excinfo)
        except Exception as error:  # noqa: BLE001 - the user's run goes on
            self.faults.add("pytest_runtest_makereport", error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See how a test ended; each of its subtests has a report, too."""
        if report.when != "call" or hasattr(report, "context"):
            return
        try:
            self._see_end(report.nodeid, report.outcome)
        except Exception as error:  # noqa: BLE001 - the user's run goes on
            self.faults.add("pytest_runtest_logreport", error)


class OutcomeWatch(Watch):
    """A plugin that compares how each test counts with what its code did.

    It is registered after all conftest files: of its wrappers those that come first are
    around the user's, and those that come last are within.
    """

    _is_controller = True
    """No test is run here: it is the controller of xdist."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._errors: dict[str, type[BaseException]] = {}
        self._made: dict[str, str] = {}
        self._counted: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Follow a test from its start to its end."""
        self._is_controller = False
        self._errors.clear()
        self._made.clear()
        self._counted.clear()
        self._begin(item)
        try:
            return (yield)
        finally:
            with self.faults.catch("the watch of outcomes"):
                self._finish(item)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self) -> Generator[None, Any, Any]:
        """See what a test raises before anybody can catch it."""
        self._errors.pop("call", None)  # a plugin may run it again
        try:
            return (yield)
        except BaseException as error:
            self._errors["call"] = type(error)
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, Any, Any]:
        """See what a phase raised, and what its report makes of that."""
        when = call.when
        if when == "setup":
            self._errors.clear()  # the test may be run again
        if call.excinfo is not None:
            # What the test raised itself counts, not what a hook has made of it.
            self._errors.setdefault(when, call.excinfo.type)
            if when == "call":
                self._see_raised(item, call.excinfo)
        report = yield
        if report is not None:
            self._made[when] = report.outcome
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, Any, Any]:
        """See how a phase counts in the end."""
        before = report.outcome
        result = yield
        outcome = report.outcome
        if hasattr(report, "context"):  # a subtest's
            return result
        if self._is_controller:
            if before == "failed" != outcome:
                self._add("outcome_rewritten", _AFTER_REPORT, report.nodeid)
        else:
            self._counted[str(report.when)] = outcome
        return result

    def _finish(self, item: pytest.Item) -> None:
        if self._see_end(item.nodeid, self._counted.get("call", "")):
            return
        for when, outcome in self._counted.items():
            error = self._errors.get(when)
            if error is None or not _is_rewritten(error, outcome, item):
                continue
            hooks: tuple[str, ...] = _AROUND_CALL
            if when in self._made:
                hooks = _AROUND_REPORT + _AROUND_CALL
            if self._made.get(when) == "failed":
                hooks = _AFTER_REPORT + _AROUND_REPORT
            self._add("outcome_rewritten", hooks)
            return


def _claim_tool() -> int | None:
    """Claim a free id of `sys.monitoring`; return `None` if there is none."""
    if _MONITORING is None:
        return None
    for tool in _FREE_TOOLS:
        if _MONITORING.get_tool(tool) is None:
            _MONITORING.use_tool_id(tool, _TOOL_NAME)
            return tool
    return None


def find_defined_function(item: pytest.Item) -> FunctionType | None:
    """Return the function that a file defines for a test, without hooks' wrappers.

    It is looked for by its name: a hook may have given the test another function.
    """
    name = str(vars(item).get("originalname"))
    parent: Any = None if item.parent is None else vars(item.parent).get("_obj")
    definition: Any = None
    if type(parent) is ModuleType:
        definition = vars(parent).get(name)
    elif issubclass(type(parent), type):
        for base in inspection.bases_of(parent):
            definition = definition or inspection.body_of(base).get(name)
    if type(definition) in (staticmethod, classmethod):
        definition = definition.__func__
    function = inspection.function_in(definition)
    while function is not None and "pytest_" in function.__code__.co_qualname:
        inner = inspection.function_in(vars(function).get("__wrapped__"))
        if inner is None or ".<locals>" not in function.__code__.co_qualname:
            break
        function = inner
    return function


def _has_foreign_code(function: FunctionType) -> bool:
    """Tell whether the code of a function is from another file than its names."""
    path = function.__code__.co_filename
    file = function.__globals__.get("__file__")
    return type(file) is str and not path.startswith("<") and path != file


def _has_a_use(kind: type) -> bool:
    """Tell whether a class is used for more than comparisons, as a result's is."""
    bodies = map(inspection.body_of, inspection.bases_of(kind)[:-1])
    return any(not _OF_ANY_CLASS.issuperset(body) for body in bodies)


def _is_rewritten(error: type[BaseException], outcome: str, item: pytest.Item) -> bool:
    """Tell whether an outcome hides an exception."""
    if outcome not in ("passed", "skipped"):
        return False
    names = {inspection.name_of(base) for base in inspection.bases_of(error)}
    if not names.isdisjoint(_NO_FAILURES):
        return False
    if outcome == "passed":
        return True
    # A plugin may skip what the environment lacks, and expect what a mark says.
    is_marked = any(mark.name not in _NEUTRAL_MARKS for mark in item.iter_markers())
    is_fault = inspection.module_of(error) in ("builtins", "_pytest.outcomes")
    return is_fault and not issubclass(error, _OF_ENVIRONMENT) and not is_marked
