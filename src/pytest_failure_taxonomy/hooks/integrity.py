"""Look for what makes a result other than what the code of the tests did.

A hook can turn a failure into a pass, a conftest can replace what pytest is made of,
and tests can be lost between the collection and the end. Nothing here runs code of the
user's: hooks are listed, functions are compared with those of the start, and sources
are read.

The process is looked at after the collection and at the end. Single tests are followed,
by `outcome_watch`, only where somebody can change their results, or where the run is to
be certified.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.hooks.guard import Faults, guarded, guarded_hook
from pytest_failure_taxonomy.hooks.replacements import (
    GuardedNames,
    Replacement,
    equal_to_all,
    file_of_module,
    is_users_file,
    is_users_function,
    place_of,
    shadowed_packages,
)
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.survive.statements import (
    find_statement,
    functions_in,
    last_line_of,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Entered,
    IntegrityFinding,
    Location,
    RunEvidence,
)
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.outcome_watch import Watch

Place = tuple[str, int]
"""A file and a line in it."""

_CHANGES_COLLECTION: Final = (
    *("pytest_pycollect_makeitem", "pytest_pycollect_makemodule"),
    *("pytest_collectstart", "pytest_itemcollected", "pytest_make_collect_report"),
)
_CHANGES_RESULTS: Final = (
    *("pytest_runtest_makereport", "pytest_runtest_call", "pytest_pyfunc_call"),
    *("pytest_runtest_logreport", "pytest_runtest_protocol", "pytest_runtest_setup"),
    *("pytest_pycollect_makeitem", "pytest_collection_modifyitems"),
    "pytest_itemcollected",
)
_CHANGES_STATUS: Final = (
    *("pytest_sessionfinish", "pytest_cmdline_main", "pytest_runtestloop"),
    *("pytest_runtest_logreport", "pytest_runtest_protocol", "pytest_unconfigure"),
    *("pytest_report_teststatus", "pytest_terminal_summary"),
)
_REMOVES_TESTS: Final = (
    *("pytest_collection_modifyitems", "pytest_collection_finish"),
    *("pytest_runtestloop", "pytest_sessionstart"),
)
"""Hooks by what they can change."""

# Patterns of statements, the most telling first.
_HIDES: Final = (
    r"\boutcome\b|excinfo|wasxfail|force_|longrepr|skip\(",
    r"suppress|^except|result\b",
    r"^return ",
)
_CHANGES: Final = (
    r"\.(outcome|excinfo|wasxfail|obj|runtest|__code__)\b[^=]*(?<![=!<>])=(?!=)",
    r"force_(result|exception)|outcome='|skip\(|suppress|^except|^return True",
    r"setattr\((?!item\b)",
)
"""Any of these can change a result."""
_REPLACES_TEST: Final = (r"__code__ *=|\.obj *=|runtest *=|setattr\(", r"^return \S")
_REMOVES: Final = (r"items\b.*(=|remove|pop|clear|del )|del .*items", r"return True")
_HIDES_TEST: Final = (r"__test__", r"del |pop\(|setattr|return (\[\]|None)")
_SETS_STATUS: Final = (
    r"exitstatus *=|testsfailed",
    r"ExitCode|return 0|force_result|exit\(",
)
_DISARMS: Final = (r"unregister|free_tool_id|set_blocked", r"failure.taxonomy")
_LEAVES: Final = (r"_exit\(|\bexec[lv]", r"pytest\.exit|sys\.exit|SystemExit|\bexit\(")
_WRITES: Final = (r"write_text|write_bytes|\.write\(|open\(|replace\(",)
_TELL_WHAT_THEY_DESELECT: Final = frozenset({"_pytest", "pytest_failure_taxonomy"})
"""Packages of plugins that remove no test in silence."""


class Suspect(NamedTuple):
    """A function that pytest calls for a hook."""

    hook: str
    path: str
    lines: tuple[int, int]


class IntegrityCheck:
    """A plugin that finds out who can change results, and what was changed."""

    def __init__(
        self,
        config: pytest.Config,
        faults: Faults,
        *,
        is_certified: bool,
        base: str | None = None,
    ) -> None:
        """Keep what decides results as it is now.

        Args:
            config: of the run.
            faults: takes what goes wrong here.
            is_certified: findings fail the run, so that each test is followed.
            base: the commit whose files are compared; `None` for none.
        """
        self.faults = faults
        self.is_certified = is_certified
        self._base = base
        self._config = config
        self._started_at = time.time()
        self._names = GuardedNames()
        self._collected: list[str] = []
        self._deselected: set[str] = set()
        self._modules: list[pytest.Module] = []
        self._broken: set[str] = set()
        """Collectors that failed, before any other plugin could change that."""
        self._findings: dict[tuple[object, ...], IntegrityFinding] = {}
        self._watch: Watch | None = None
        self._entered: Entered | None = None

    def add_of_worker(self, sent: Mapping[str, Any]) -> None:
        """Add what a worker of xdist has found and sent."""
        for fields in sent.get("findings", ()):
            where = fields["where"] and Location(**fields["where"])
            nodeids = tuple(fields["nodeids"])
            self._merge(
                IntegrityFinding(**{**fields, "where": where, "nodeids": nodeids})
            )
        if sent.get("entered"):
            self._add_entered(Entered(**sent["entered"]))

    # First or last, so that the user's hooks come in between.

    @guarded_hook(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Keep the modules that are collected."""
        if isinstance(collector, pytest.Module):
            self._modules.append(collector)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, Any, Any]:
        """See whether a collector fails before other plugins change its report."""
        report = yield
        if report.outcome == "failed":
            self._broken.add(collector.nodeid)
        return report

    @guarded_hook(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Compare the report of a collector with how it ended."""
        if report.nodeid in self._broken and report.outcome != "failed":
            self._add_of_hooks(
                "outcome_rewritten",
                [report.nodeid],
                ("pytest_make_collect_report", "pytest_collectreport"),
                _HIDES,
                "hid what could not be collected",
            )

    @guarded_hook(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep which tests were collected, before any is removed."""
        self._collected = [item.nodeid for item in items]

    @guarded
    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Keep which tests were deselected."""
        self._deselected.update([item.nodeid for item in items])

    @guarded_hook(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Look at what was collected."""
        self._look_at_replacements()
        for module in self._modules:
            self._look_at_module(module)

    @guarded_hook(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin to follow tests where that is needed, on a controller of xdist, too."""
        suspects = [*self._suspects(_CHANGES_RESULTS)]
        if not self.is_certified:  # then only those whose source looks as if they did
            suspects = [suspect for suspect in suspects if _looks_suspicious(suspect)]
        is_suspected = bool(suspects or self._findings)
        if is_suspected or self.is_certified:
            from pytest_failure_taxonomy.hooks import outcome_watch

            kind: type[Watch] = outcome_watch.EntryWatch
            if is_suspected:
                kind = outcome_watch.OutcomeWatch
            equal = equal_to_all(self._config.rootpath) if self.is_certified else {}
            self._watch = kind(self._config, self.faults, equal)
            self._config.pluginmanager.register(
                self._watch, "failure_taxonomy_outcome_watch"
            )

    @guarded_hook(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Look at replacements while the session has them."""
        self._look_at_replacements()

    def conclude(
        self, run: RunEvidence | None = None
    ) -> tuple[tuple[IntegrityFinding, ...], Entered | None]:
        """Return all findings, and how many test functions were entered.

        Args:
            run: all that was seen of it; `None` on a worker, which ends no run.
        """
        self._look_at_removed()
        manager = self._config.pluginmanager
        is_off = not manager.is_registered(self)
        if self._watch is not None:
            watch = self._watch
            is_off = is_off or watch.is_disarmed(manager)
            if watch.entered is not None:  # 0 of 0 on a controller of xdist
                self._add_entered(watch.entered)
            for (kind, hooks), nodeids in watch.changed.items():
                patterns: Sequence[str] = _HIDES
                words = "hid what failed"
                if kind == "test_replaced":
                    patterns = _REPLACES_TEST
                    words = "ran in place of the test"
                self._add_of_hooks(kind, nodeids, hooks, patterns, words)
            for (kind, place, words), nodeids in watch.placed.items():
                self._add(kind, nodeids, None, place, words)
            watch.stop()
        if is_off:
            words = "switched off a part of pytest-failure-taxonomy"
            self._add_of_plugins("record_changed", (), _DISARMS, words)
        if run is not None and run.exit.code == 0:
            self._look_at_success(run)
        if self._base is not None:
            self._look_at_files(self._base)
        return tuple(self._findings.values()), self._entered

    # Who can change results.

    def _suspects(
        self, hooks: Iterable[str], *, of_user: bool = True
    ) -> Iterator[Suspect]:
        """Yield the user's implementations of hooks, or those of all others."""
        for hook in hooks:
            caller = getattr(self._config.pluginmanager.hook, hook, None)
            for implementation in [] if caller is None else caller.get_hookimpls():
                function = inspection.function_in(implementation.function)
                if function is None:
                    continue
                if is_users_function(function) is of_user:
                    path, line = place_of(function)
                    last = last_line_of(str(path), line)
                    yield Suspect(hook, str(path), (line, last))

    def _plugin_files(self) -> list[str]:
        """Return the files of the user's plugins, those near the root first."""
        modules = [
            plugin
            if type(plugin) is ModuleType
            else sys.modules.get(inspection.module_of(type(plugin)))
            for plugin in self._config.pluginmanager.get_plugins()
        ]
        modules += map(sys.modules.get, ("sitecustomize", "usercustomize"))
        files = {file for file in map(file_of_module, modules) if file is not None}
        own = filter(is_users_file, files)
        return sorted(own, key=lambda path: (path.count(os.sep), path))

    def _statement_of_plugins(self, patterns: Sequence[str]) -> Place | None:
        files = self._plugin_files()
        for pattern in patterns:
            for path in files:
                line = find_statement(path, [pattern])
                if line is not None:
                    return path, line
        return None

    # Findings.

    def _add(
        self,
        kind: str,
        nodeids: Iterable[str],
        hook: str | None,
        place: Place | None,
        detail: str,
    ) -> None:
        where = None
        if place is not None:
            where = own_files.location(*place, self._config.rootpath)
        finding = IntegrityFinding(
            kind=f"integrity.{kind}",
            nodeids=tuple(dict.fromkeys(nodeids)),
            where=where,
            hook=hook,
            detail=detail,
        )
        self._merge(finding)

    def _merge(self, finding: IntegrityFinding) -> None:
        """Add a finding; to an earlier one of the same statement, its tests alone."""
        key = finding.kind, finding.where, finding.hook
        before = self._findings.get(key)
        if before is not None:
            nodeids = dict.fromkeys((*before.nodeids, *finding.nodeids))
            finding = replace(before, nodeids=tuple(nodeids))
        self._findings[key] = finding

    def _add_entered(self, more: Entered) -> None:
        before = self._entered or Entered(entered=0, ran=0)
        self._entered = Entered(
            entered=before.entered + more.entered, ran=before.ran + more.ran
        )

    def _add_of_plugins(
        self,
        kind: str,
        nodeids: Iterable[str],
        patterns: Sequence[str],
        detail: str,
        place: Place | None = None,
    ) -> None:
        """Add what a plugin of the user's did, by a statement that matches."""
        place = place or self._statement_of_plugins(patterns)
        self._add(kind, nodeids, None, place, detail)

    def _add_of_hooks(
        self,
        kind: str,
        nodeids: Iterable[str],
        hooks: Sequence[str],
        patterns: Sequence[str],
        detail: str,
    ) -> None:
        """Add what one of several hooks has done; which one, the sources tell."""
        suspects = [*self._suspects(hooks)]
        if any(not is_users_file(suspect.path) for suspect in suspects):
            # A hook without a file was made by somebody who has one.
            place = self._statement_of_plugins([r"\bexec\(", r"\.register\("])
            if place is not None:
                self._add(kind, nodeids, suspects[0].hook, place, detail)
                return
        for pattern in patterns:
            for suspect in suspects:
                line = find_statement(suspect.path, [pattern], suspect.lines)
                if line is not None:
                    place = suspect.path, line
                    self._add(kind, nodeids, suspect.hook, place, detail)
                    return
        place = self._statement_of_plugins(patterns)
        hook = None
        if place is None and suspects:
            hook, place = suspects[0].hook, (suspects[0].path, suspects[0].lines[0])
        for finding in self._findings.values():  # of what was replaced, perhaps
            if place is None and finding.where is not None:
                hook, place = (
                    finding.hook,
                    (finding.where.path, finding.where.line or 1),
                )
        self._add(kind, nodeids, hook, place, detail)

    # What was replaced.

    def _look_at_replacements(self) -> None:
        for replacement in self._names.replacements():
            place = self._place_of_replacement(replacement)
            if place is not None:
                words = f"replaced {replacement.name}"
                self._add(replacement.kind, (), replacement.name, place, words)
        for name, path in shadowed_packages():
            words = f"stands for the module {name}"
            line = find_statement(path, [r"^\w+(\.\w+)+ *="]) or 1
            self._add("pytest_replaced", (), name, (path, line), words)
        root = self._config.rootpath
        for name, module in [*sys.modules.items()]:
            if type(module) is ModuleType or "." in name or file_of_module(module):
                continue
            # It has no file, and the project has one of its name.
            if any((root / part / f"{name}.py").is_file() for part in (".", "src")):
                patterns = [rf"modules\[['\"]{name}['\"]\]"]
                place = self._statement_of_plugins(patterns)
                if place is not None:  # else a test has done that
                    words = f"replaced the module {name}"
                    self._add("code_replaced", (), "sys.modules", place, words)

    def _place_of_replacement(self, replacement: Replacement) -> Place | None:
        """Return the statement that replaced it; `None` if a test may have."""
        name = replacement.attribute
        assigns = (
            rf"\.{name}\b[^=]*(?<![=!<>])=(?!=)|setattr\w*\(.*['\"]{name}['\"]",
            rf"['\"]{name}['\"]\] *=|\b{name} *=",
        )
        if replacement.path is None:
            return self._statement_of_plugins(assigns)
        line = find_statement(replacement.path, assigns)
        return replacement.path, line or replacement.line

    # What was collected.

    def _look_at_module(self, module: pytest.Module) -> None:
        """Look whether assertions of a test file count, and its functions are tests."""
        if inspection.module_of(type(module)) == "_pytest.doctest":
            return
        names = inspection.own_names_of(inspection.attribute_of(module, "_obj"))
        if not names:  # it could not be imported
            return
        path = str(module.path)
        loader = type(inspection.attribute_of(names.get("__spec__"), "loader"))
        file, line = place_of(loader)
        if file is not None and is_users_file(file):
            line = find_statement(file, [r"meta_path"]) or line
            words = f"compiled {module.nodeid} in place of pytest"
            place = file, line
            self._add("assertion_replaced", (), "sys.meta_path", place, words)
        if sys.flags.optimize:
            self._look_at_asserts(path, names.get("__doc__"))
        # A time to come is that of another machine's clock.
        if self._started_at < os.stat(path).st_mtime <= time.time():
            words = "changed a test file while pytest was running"
            self._add_of_plugins("files_changed", [module.nodeid], _WRITES, words)
        is_hidden = any(
            _body_of(value).get("__test__") is False for value in names.values()
        )
        if is_hidden or next(self._suspects(_CHANGES_COLLECTION), None) is not None:
            self._look_for_uncollected(module, names)

    def _look_at_asserts(self, path: str, doc: object) -> None:
        """Look whether nobody makes assertions work that Python leaves out (`-O`)."""
        place: Place | None = (path, 1)
        if self._config.getoption("assertmode", "") == "plain":
            place = self._statement_of_plugins([r"-O"])
            ini = self._config.inipath
            if place is None and ini is not None:
                lines = ini.read_text("utf-8", "replace").splitlines()
                about = [at for at, text in enumerate(lines, 1) if "assert" in text]
                place = (str(ini), about[0]) if about else None
        elif not (type(doc) is str and "PYTEST_DONT_REWRITE" in doc):
            return
        words = "switched assertions off"
        self._add("assertion_replaced", (), "PYTHONOPTIMIZE", place, words)

    def _look_for_uncollected(
        self, module: pytest.Module, names: Mapping[str, Any]
    ) -> None:
        """Look for functions that would be tests if nobody had hidden them."""
        path = str(module.path)
        is_chosen = any(
            arg.startswith(f"{module.nodeid}::") for arg in self._config.args
        )
        if is_chosen or find_statement(path, ["__test__"]) is not None:
            return
        collected = {nodeid.partition("[")[0] for nodeid in self._collected}
        for parts in functions_in(path):
            nodeid = "::".join([module.nodeid, *parts])
            if nodeid not in collected and _would_be_test(module, names, parts):
                self._add_of_hooks(
                    "tests_removed",
                    [nodeid],
                    _CHANGES_COLLECTION,
                    _HIDES_TEST,
                    "kept out of the collection",
                )

    # What was lost or changed at the end.

    def _look_at_removed(self) -> None:
        """Look for tests that were collected, and neither selected nor deselected."""
        session = self._config.pluginmanager.get_plugin("session")
        items = inspection.attribute_of(session, "items")
        if items is not None:
            selected = {item.nodeid for item in items} | self._deselected
            lost = [nodeid for nodeid in self._collected if nodeid not in selected]
            if lost and not self._is_sharded():
                self._add_lost(lost)

    def _is_sharded(self) -> bool:
        """Tell whether only an installed plugin removes tests, as pytest-shard does."""
        if self._statement_of_plugins(_REMOVES[:1]) is not None:
            return False
        hooks = ("pytest_collection_modifyitems",)
        return any(
            find_statement(plugin.path, _REMOVES[:1], plugin.lines) is not None
            for plugin in self._suspects(hooks, of_user=False)
            if _TELL_WHAT_THEY_DESELECT.isdisjoint(plugin.path.split(os.sep))
        )

    def _add_lost(self, nodeids: Sequence[str]) -> None:
        if nodeids:
            words = "removed what was collected"
            self._add_of_hooks(
                "tests_removed", nodeids, _REMOVES_TESTS, _REMOVES, words
            )

    def _look_at_files(self, base: str) -> None:
        from pytest_failure_taxonomy.hooks.base_files import changed_files, nodeid_of

        root = self._config.rootpath
        patterns = self._config.getini("python_files")
        for file in changed_files(root, base, patterns, self._plugin_files()):
            nodeids = [nodeid_of(file.path, root, test) for test in file.tests]
            place = file.path, file.line
            self._add(
                "files_changed", nodeids, None, place, f"{file.words} since {base}"
            )

    def _look_at_success(self, run: RunEvidence) -> None:
        """Compare an exit status of 0 with what was counted."""
        if self._config.option.collectonly:
            return
        counts = run.counts
        failed = counts.failed + counts.errors
        nodeids = [failure.nodeid for failure in run.failures]
        in_flight = [test.nodeid for test in run.in_flight if test.phase != "teardown"]
        if run.exit.source == "exception":
            frames = [error.exception.frame for error in run.errors if error.exception]
            frame = next(filter(None, frames), None)
            place = None if frame is None else (frame.path, frame.line or 1)
            words = "ended Python with status 0"
            self._add_of_plugins("early_exit", run.not_run, _LEAVES, words, place)
            return
        exits = [stop for stop in run.interruptions if stop.exception == "Exit"]
        if exits and (failed or in_flight or not counts.passed):
            where = exits[0].location
            place = None if where is None else (where.path, where.line or 1)
            nodeids += [*in_flight, *run.not_run]
            words = "ended the run with status 0"
            self._add_of_plugins("early_exit", nodeids, _LEAVES, words, place)
        elif failed:
            words = "set the exit status to 0, although tests failed"
            self._add_of_hooks(
                "exit_status", nodeids, _CHANGES_STATUS, _SETS_STATUS, words
            )
        elif not run.interruptions and counts.skipped + counts.ran < counts.collected:
            self._add_lost(run.not_run)


def _looks_suspicious(suspect: Suspect) -> bool:
    """Tell whether the source of a hook has a statement that can change a result."""
    if not is_users_file(suspect.path):
        return True
    return find_statement(suspect.path, _CHANGES, suspect.lines) is not None


def _would_be_test(
    module: pytest.Module, names: Mapping[str, Any], parts: tuple[str, ...]
) -> bool:
    """Tell whether pytest would make a test of a function, by its names."""
    if not pytest.Module.funcnamefilter(module, parts[-1]):
        return False
    holder: Any = names.get(parts[0])
    if len(parts) == 1:
        return holder is None or type(holder) is FunctionType
    if not issubclass(type(holder), type):
        return False
    body = _body_of(holder)
    bases = map(inspection.dotted_name_of, inspection.bases_of(holder))
    is_unittest = "unittest.case.TestCase" in bases
    is_named = (
        pytest.Module.classnamefilter(module, parts[0]) and "__init__" not in body
    )
    return (is_unittest or is_named) and type(body.get(parts[1])) is FunctionType


def _body_of(value: Any) -> Mapping[str, object]:
    """Return the attributes of a function or of a class; none of anything else."""
    if type(value) is FunctionType:
        return vars(value)
    if issubclass(type(value), type):
        return inspection.body_of(value)
    return {}
