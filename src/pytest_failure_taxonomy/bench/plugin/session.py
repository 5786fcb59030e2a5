"""The bench of one pytest process: a plugin from when the first task class is seen."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_failure_taxonomy.bench.case_text import failure_lines, one_line
from pytest_failure_taxonomy.bench.fan_out import NotStartedError, RunEndedError
from pytest_failure_taxonomy.bench.loading.places import task_class_folder
from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.bench.plugin.classes import TaskClasses
from pytest_failure_taxonomy.bench.plugin.entry import CASES, JOURNAL, SENT
from pytest_failure_taxonomy.bench.plugin.items import CaseFailedError, CaseItem, represent
from pytest_failure_taxonomy.bench.plugin.journal import Journal
from pytest_failure_taxonomy.bench.plugin.marked import marked_case
from pytest_failure_taxonomy.bench.plugin.results import Results, Sent, Source, SourcedReport
from pytest_failure_taxonomy.bench.plugin.running import CaseRuns, group_by_class, source_of
from pytest_failure_taxonomy.bench.plugin.units import split_cases
from pytest_failure_taxonomy.system.own_files import write_file, write_new
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchScore, RunPlan
    from pytest_failure_taxonomy.bench.outcomes import CaseOutcome
    from pytest_failure_taxonomy.bench.plugin.marked import MarkedCase

_RUN_NOTHING = ("collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test")
"""Options under which pytest collects cases and runs none."""

_BENCH = pytest.StashKey["BenchSession"]()
_SENT = pytest.StashKey[Sent]()
_NOT_PASSED = pytest.StashKey[CaseFailedError]()


def bench_session(config: pytest.Config) -> BenchSession:
    """Return the bench of a run; begin it when it is first asked for."""
    if _BENCH not in config.stash:
        bench = config.stash[_BENCH] = BenchSession(config)
        config.pluginmanager.register(bench, "failure_taxonomy_bench_session")
    return config.stash[_BENCH]


def sent_by(item: pytest.Item) -> Sent:
    """Return what the report of a test will carry."""
    return item.stash.setdefault(_SENT, Sent())


class BenchSession:
    """What one process knows of task classes, their cases and what came of them."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", {})
        self._is_worker = bool(given)
        self._journal: Journal | None = None
        if SENT in given:
            self._journal = Journal(Path(given[SENT]), str(given["workerid"]))
        self._config = config
        self._results = Results()
        self._reports: list[SourcedReport] | None = None
        self.classes = TaskClasses(config)
        workers = int(given.get("workercount", 0))
        self.runs = CaseRuns(self.classes, self._results, workers, self._journal)

    def run(self, item: CaseItem) -> CaseOutcome:
        """Return the outcome of an item's case, and have its report carry the score."""
        source = source_of(item.task_class)
        try:
            outcome = self.runs.outcome_of(item)
        except NotStartedError:
            sent_by(item).add_cost_cap(source)
            cap = self.classes.settings(item.task_class).max_cost_usd
            pytest.skip(f"not started: the cases before it cost more than {cap:g} USD")
        except RunEndedError as error:
            raise CaseFailedError.of_line(f"no score: {error}") from None
        sent_by(item).add_case(source, item.case.case_id, outcome.score)
        return outcome

    def note_score(
        self, item: pytest.Item, found: MarkedCase, outcome: CaseOutcome, score: BenchScore
    ) -> None:
        """Have the report of a test with the mark `bench` carry its score, and fail by it."""
        sent_by(item).add_case(found.source, found.case.case_id, score)
        if not score.passed:
            lines = failure_lines(
                found.task_class.name,
                found.case,
                replace(outcome, score=score),
                found.task_class.descriptions,
            )
            item.stash[_NOT_PASSED] = CaseFailedError(one_line(score), lines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test whose case did not pass, whatever it asserts."""
        if _NOT_PASSED in item.stash:  # of an earlier attempt
            del item.stash[_NOT_PASSED]
        yield
        if _NOT_PASSED in item.stash:
            raise item.stash[_NOT_PASSED]

    def announce(self) -> None:
        """Tell xdist's controller that tests here will send results."""
        if self._journal is not None:
            self._journal.begin()

    # xdist's controller

    def schedule(self, nodeids: Sequence[str]) -> None:
        """Learn from a worker's collection which cases are to run."""
        for folder, ids in self._cases_of(nodeids).items():
            self._results.of(Source(str(folder))).scheduled = [_case_id(each) for each in ids]

    def find_units(self, nodeids: Sequence[str], workers: int) -> Mapping[str, str]:
        """Return the unit of each case among xdist's node ids, as the workers compute them."""
        units: dict[str, str] = {}
        for folder, ids in self._cases_of(nodeids).items():
            concurrency = self.classes.settings(self.classes.load(folder)).concurrency
            split = split_cases(ids, workers=workers, concurrency=concurrency)
            for number, members in enumerate(split):
                units.update(dict.fromkeys(members, f"{folder}#{number}"))
        return units

    def _cases_of(self, nodeids: Sequence[str]) -> dict[Path, list[str]]:
        found: dict[Path, list[str]] = {}
        folders: dict[str, Path | None] = {}
        for nodeid in nodeids:
            name = nodeid.partition("::")[0]
            if name not in folders:
                path = self._config.rootpath / name
                folders[name] = task_class_folder(path) if path.parent.name == CASES else None
            folder = folders[name]
            if folder is not None:
                found.setdefault(folder, []).append(nodeid)
        return found

    # Hooks

    @pytest.hookimpl(tryfirst=True)  # an xdist worker tells of its collection in this hook
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Put the selected cases into units, and count them."""
        by_class = group_by_class(session.items)
        self.runs.arrange(by_class)
        for folder, items in by_class.items():
            results = self._results.of(Source(str(folder)))
            results.scheduled = [item.case.case_id for item in items]
        for item in session.items:
            found = marked_case(item, self.classes)
            if found is not None:
                self._results.of(found.source).schedule(found.case.case_id)
                if self._journal is not None:
                    self._journal.note_schedule(found.source, found.case.case_id)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Have the report of a test carry scores, and show a case that did not pass as such."""
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, CaseFailedError):
            report.longrepr = represent(*item.reportinfo()[:2], call.excinfo.value)
        self._note_broken(item, call, report)
        if call.when != "setup" and _SENT in item.stash:
            sent = item.stash[_SENT]
            del item.stash[_SENT]
            setattr(report, SENT, sent.as_json())
            report.user_properties.extend(sent.as_properties())
        return report

    def _note_broken(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> None:
        """Note a case whose test failed by something else than its score: it has none then."""
        if not report.failed or call.excinfo is None:
            return
        is_scored = _SENT in item.stash and item.stash[_SENT].has_case
        if is_scored and isinstance(call.excinfo.value, CaseFailedError):
            return
        if isinstance(item, CaseItem):
            sent_by(item).add_broken(source_of(item.task_class), item.case.case_id)
        else:
            found = marked_case(item, self.classes)
            if found is not None:
                sent_by(item).add_broken(found.source, found.case.case_id)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the scores that a report carries."""
        if hasattr(report, SENT):
            self._results.take(getattr(report, SENT))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """End what runs, before fixtures are; let a gate that fails turn success into failure.

        That is known when xdist's workers have ended, and before the terminal's summary.
        """
        self.runs.close()
        yield
        if self._is_worker:
            return
        self._read_journal()
        failed = [each.task_class for each in self.reports() if is_gate_failed(each)]
        if failed and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            session.shouldfail = f"the gate of bench {', '.join(failed)} failed"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what each task class came to, and write it down where that is asked for."""
        if self._is_worker:  # pytest-xdist's workers have a terminal that nobody sees
            return
        self._print(terminalreporter)
        path = self._json_path()
        if path is not None and self._runs_something:
            problem = write_json(path, self.reports())
            if problem:
                terminalreporter.write_line(f"--bench-json: {path}: {problem}", red=True)

    def reports(self) -> list[BenchRunReport]:
        """Return the report of each task class; asked for when all cases are over."""
        return [each.report for each in self._sourced()]

    @property
    def _runs_something(self) -> bool:
        options = self._config.option
        return not any(getattr(options, name, False) for name in _RUN_NOTHING)

    def _sourced(self) -> list[SourcedReport]:
        if not self._runs_something:
            return []
        if self._reports is None:
            self._reports = self._results.reports(self._make_plan)
        return self._reports

    def _make_plan(self, folder: Path, case_ids: Sequence[str]) -> RunPlan:
        task_class = self.classes.load(folder)
        wanted = frozenset(case_ids)
        chosen = [case for case in task_class.cases if case.case_id in wanted]
        return self.classes.plan(task_class, chosen)

    def _read_journal(self) -> None:
        """Learn on xdist's controller what workers knew, those that died, too."""
        folder = self._config.stash.get(JOURNAL, None)
        if folder is None:
            return
        journal = Journal(Path(folder), "controller")
        for path, ids in self._cases_of(sorted(journal.started())).items():
            self._results.of(Source(str(path))).started.update(map(_case_id, ids))
        for source, case_id in journal.scheduled():
            self._results.of(source).schedule(case_id)
        for source, case_id, score in journal.scores():
            self._results.of(source).unreported[case_id] = score
        journal.remove()

    def _print(self, terminal: pytest.TerminalReporter) -> None:
        from pytest_failure_taxonomy.bench.summary import summary_lines

        reports = self._sourced()
        if terminal.verbosity < -1 or not reports:
            return
        if terminal.verbosity >= 0:
            terminal.write_sep("=", "bench")
        else:
            terminal.line("")
        for report, test in reports:
            failed = is_gate_failed(report)
            for line in summary_lines(report, test=test, detail=terminal.verbosity > 0):
                terminal.write_line(line, red=failed and line.lstrip().startswith("gate:"))

    def _json_path(self) -> Path | None:
        given, ini = self._config.getoption("bench_json"), self._config.getini("bench_json")
        if given:
            return self._config.invocation_params.dir / str(given)
        if not ini:
            return None
        inipath = self._config.inipath
        return (self._config.rootpath if inipath is None else inipath.parent) / str(ini)


def is_gate_failed(report: BenchRunReport) -> bool:
    """Tell whether a task class has a gate and its run did not get through it."""
    return report.gate is not None and report.gate.verdict == "FAIL"


def write_json(path: Path, reports: Sequence[BenchRunReport]) -> str:
    """Write reports as a JSON list, whole or not at all; say in words what went wrong."""
    text = json.dumps([report.model_dump(mode="json") for report in reports], indent=2)
    content = f"{text}\n".encode("utf-8", "backslashreplace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, lambda folder, name: write_new(name, content, dir_fd=folder))
    except OSError as error:
        return f"can't be written ({error.strerror or error})"
    return ""


def _case_id(nodeid: str) -> str:
    return nodeid.partition("::")[2]
