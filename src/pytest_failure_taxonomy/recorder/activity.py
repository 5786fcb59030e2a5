"""What pytest is at when it runs no test: the file that it collects, the hook that it calls.

It stands in the record, so that a death or a stall there can be told with its place. None of these
hooks is called for a test.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.record.layout import (
    COLLECTING,
    IN_HOOK,
    IN_LAST_HOOK,
    NOT_STARTED,
)
from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.recorder.guard import Faults, guarded
from pytest_failure_taxonomy.recorder.inspection import attribute_of, function_in, module_of

_CONFTEST: Final = "conftest.py"
_REWRITER: Final = "_pytest.assertion.rewrite"
"""The module of pytest's import hook; without it (`--assert=plain`) no conftest is named."""
_OWN: Final = ("_pytest", "pluggy", "pytest_failure_taxonomy")
"""Packages whose implementations of a hook are not named: they are in every run."""
MAX_NAMED: Final = 3
"""Plugins that are named for one hook."""


class ActivityRecorder:
    """A plugin that records what is collected, and which hook starts or ends the session."""

    def __init__(self, config: pytest.Config, record: Record, faults: Faults) -> None:
        self.faults = faults
        self._config = config
        self._record = record
        self._clock = time.monotonic_ns
        self._hooks: dict[str, str] = {}
        self._calls: list[str] = []
        self._importer: Any = None

    def begin(self) -> None:
        """Record the conftest files that pytest imports before its first hook."""
        self._tell(COLLECTING, "")
        # pytest's own import hook is asked first for every module. One of ours would be seen.
        named = (each for each in sys.meta_path if module_of(type(each)) == _REWRITER)
        self._importer = next(named, None)
        if self._importer is not None:
            self._importer.find_spec = self._find_spec
            self._config.add_cleanup(self._leave_importer)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_configure(self) -> None:
        """Record that plugins are being configured."""
        self._leave_importer()
        self._tell(IN_HOOK, self._words_of("pytest_configure"))

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_sessionstart(self) -> None:
        """Record that the session starts."""
        self._tell(IN_HOOK, self._words_of("pytest_sessionstart"))

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Record the file, class or folder that is collected; a folder's conftest comes first."""
        name = collector.nodeid
        if isinstance(collector, pytest.Directory):
            conftest = collector.path / _CONFTEST
            is_new = not self._config.pluginmanager.has_plugin(str(conftest))
            if is_new and conftest.is_file():
                name = self._relative(str(conftest))
            elif name == ".":
                name = ""
        self._tell(COLLECTING, name)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_collection_modifyitems(self) -> None:
        """Record that plugins change what was collected."""
        self._tell(IN_HOOK, self._words_of("pytest_collection_modifyitems"))

    @pytest.hookimpl(trylast=True)
    @guarded
    def pytest_collection_finish(self) -> None:
        """Record that the collection is over."""
        self._tell(NOT_STARTED, "")

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_runtestloop(self) -> None:
        """Record that the session has started: a controller of xdist collects nothing itself."""
        self._tell(NOT_STARTED, "")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        """Record each hook that is called from now on, until the process ends."""
        try:
            self._enter("pytest_sessionfinish")
            # Never undone: another plugin's monitoring may have come on top of it.
            self._config.pluginmanager.add_hookcall_monitoring(self._before, self._after)
        except BaseException as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_sessionfinish", error)
        try:
            return (yield)
        finally:
            self._leave()

    def _before(self, name: str, implementations: Sequence[Any], arguments: Any) -> None:
        del implementations, arguments
        with suppress(Exception):
            self._enter(name)

    def _after(self, outcome: Any, name: str, implementations: Any, arguments: Any) -> None:
        del outcome, name, implementations, arguments
        with suppress(Exception):
            self._leave()

    def _enter(self, name: str) -> None:
        self._calls.append("")  # left again, whatever fails here
        words = self._words_of(name)
        # One that pytest alone has, and may call for every failure, is left out within another.
        if words != name or len(self._calls) == 1:
            self._calls[-1] = words
            self._tell(IN_LAST_HOOK, words)

    def _leave(self) -> None:
        if self._calls.pop():
            self._tell(IN_LAST_HOOK, next(filter(None, reversed(self._calls)), ""))

    def _tell(self, state: int, name: str) -> None:
        self._record.set_activity(self._clock(), state, name)

    def _find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Record a conftest file that is going to be imported, and ask pytest's import hook."""
        if name.rpartition(".")[2] == "conftest":
            with suppress(Exception):
                # It is the first one on the path, as for any module.
                for folder in sys.path if path is None else path:
                    found = os.path.join(folder, _CONFTEST)
                    if os.path.isfile(found):
                        self._tell(COLLECTING, self._relative(os.path.abspath(found)))
                        break
        return type(self._importer).find_spec(self._importer, name, path, target)

    def _leave_importer(self) -> None:
        if self._importer is not None:
            vars(self._importer).pop("find_spec", None)

    def _words_of(self, name: str) -> str:
        """Return the name of a hook, with the plugins that implement it."""
        if name not in self._hooks:
            caller = getattr(self._config.pluginmanager.hook, name)
            owners = dict.fromkeys(filter(None, map(self._owner_of, caller.get_hookimpls())))
            # The user's own code first: it is the least likely to have been tested.
            named = sorted(owners, key=lambda owner: not owner.endswith(_CONFTEST))
            self._hooks[name] = f"{name} ({_either(named)})" if named else name
        return self._hooks[name]

    def _owner_of(self, implementation: Any) -> str | None:
        """Return who implements a hook: a conftest file, a distribution or a module."""
        function = function_in(implementation.function)
        module = "" if function is None else str(function.__module__)
        package = module.partition(".")[0]
        if package == "__channelexec__":  # where execnet runs the code of an xdist worker
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


def _either(names: list[str]) -> str:
    shown = names[:MAX_NAMED]
    if len(names) > MAX_NAMED:
        return f"{', '.join(shown)} or another"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
