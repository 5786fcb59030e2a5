"""The bench of one pytest process: a plugin that is registered with the first task class."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench import comparing
from pytest_failure_taxonomy.bench.kept.lines import SystemGiven
from pytest_failure_taxonomy.bench.load.folder import task_class_folder
from pytest_failure_taxonomy.bench.models import BenchRunReport, RunPlan, TaskClass
from pytest_failure_taxonomy.bench.oracle import with_agreement
from pytest_failure_taxonomy.bench.plugin import (
    items,
    results,
    scheduler,
    storage,
    task_classes,
)
from pytest_failure_taxonomy.bench.plugin.baseline import BASELINE
from pytest_failure_taxonomy.bench.plugin.items import (
    BENCH,
    CaseFailedError,
    CaseItem,
    MarkedCase,
)
from pytest_failure_taxonomy.bench.plugin.live_line import LiveLine
from pytest_failure_taxonomy.bench.plugin.node_names import case_and_system
from pytest_failure_taxonomy.bench.plugin.results import SourcedReport, reported_by
from pytest_failure_taxonomy.bench.plugin.storage import Source
from pytest_failure_taxonomy.bench.plugin.view import SummaryView
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.fan_out import NotStartedError
from pytest_failure_taxonomy.bench.run.runner import CaseLostError, Runner
from pytest_failure_taxonomy.bench.scores import CaseOutcome, SystemUnderTest
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.options import SUPERVISOR_VARIABLE
from pytest_failure_taxonomy.system.files import replace_file
from pytest_failure_taxonomy.taxonomy.amendments import ReportSection, SectionPlace
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import failed_gates

_RUN_NOTHING = (
    "collectonly",
    "setuponly",
    "setupplan",
    "showfixtures",
    "show_fixtures_per_test",
)
"""Options with which pytest collects cases and runs none."""

_BELOW_KEY: Final = "failure_taxonomy_bench_below"
"""Under it the report of a test has the lines that show its case, where only the gate decides."""
_FAILED = pytest.StashKey[BaseException]()
"""Why the item of a case fails."""
_IS_TO_BE_RERUN = pytest.StashKey[bool]()
"""In the stash of the item of a case while it runs: whether a plugin would run it again."""
_RUNS_OF_TEST = pytest.StashKey[int]()
"""How many whole task classes a test has run."""
_RERUN_MARK: Final = "flaky"
"""The mark of pytest-rerunfailures, pytest-retry and flaky."""
_RERUN_OPTIONS: Final = ("reruns", "force_reruns", "retries", "force_flaky")
"""Their options and ini values that have all failed tests run again."""
_NOT_RERUN: Final = (
    "bench: cases that failed were not rerun, or each score would be the best of several tries; "
    "see `retry:` and `repeat:` of bench.yaml"
)


def bench_session(config: pytest.Config) -> BenchSession:
    """Return the bench of a run; create and register it at the first call."""
    if BENCH not in config.stash:
        session = BenchSession(config)
        config.stash[BENCH] = session
        config.pluginmanager.register(session, "failure_taxonomy_bench_session")
        # There is such a hook where a report is asked for.
        begun = getattr(config.hook, "pytest_failure_taxonomy_section_begun", None)
        if begun is not None and session.place is not None:
            begun(place=session.place)
    return config.stash[BENCH]


_UNWATCHED: Final = (
    "bench: a system that runs in pytest's own process can end it with status 0 before the gate is "
    "decided; in CI, start pytest by `failure-taxonomy run -- pytest`"
)


class BenchSession:
    """The task classes of one process, the cases that run, and their results."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", {})
        self._is_worker = bool(given)
        self._config = config
        self.storage = storage.bench_storage(config)
        """Where this pytest run keeps the runs of its task classes."""
        self._results = results.Results(
            config, self.storage, str(given.get("workerid", ""))
        )
        self._baseline = config.stash.get(BASELINE, None)
        self._reports: list[SourcedReport] | None = None
        self._json_problem = ""
        self.why_gate_failed = ""
        """Why the benches are not good enough, whatever tests say; known when the session ends."""
        self._is_checked = False
        self._live_line: LiveLine | None = None
        self.classes = task_classes.TaskClasses(config)
        workers = int(given.get("workercount", 0))
        self.runs = scheduler.CaseScheduler(self.classes, self._results, workers)

    def run(self, item: CaseItem) -> CaseOutcome:
        """Return the outcome of an item's case, and add the score to the item's report."""
        source = item.source
        waiting: AbstractContextManager[None] = nullcontext()
        if self._live_line is not None:
            waiting = self._live_line.while_waiting()
        try:
            with waiting:
                outcome = self.runs.outcome_of(item)
        except NotStartedError as error:
            reported_by(item).append(("stop", *source, str(error)))
            pytest.skip(f"not started: {error}")
        except CaseLostError as lost:
            what, kind = f"no score: {lost.shown.words}", items.CaseWithoutScoreError
            if lost.fatal is None:
                what, kind = f"{what} (environment)", items.CaseLostToEnvironmentError
            lines = [what]
            if lost.workspace is not None:
                lines.append(f"  workspace: {lost.workspace}")
            lines += lost.shown.traceback.text().splitlines()
            raise kind(what, lines) from None
        score = outcome.score.model_dump(mode="json")
        reported_by(item).append(("case", *source, item.case.case_id, score))
        return outcome

    def open_run(
        self, item: pytest.Item, plan: RunPlan, system: SystemUnderTest
    ) -> tuple[Runner, str]:
        """Return what runs a whole task class for a test, and the id under which it is kept.

        The id is empty if nothing is kept.
        """
        number = item.stash.setdefault(_RUNS_OF_TEST, 0) + 1
        item.stash[_RUNS_OF_TEST] = number
        test = item.nodeid if number == 1 else f"{item.nodeid} ({number})"
        folder = plan.task_class.folder
        given = scheduler.facts_of_system(system)
        source = Source("" if folder is None else str(folder), test)
        file = self._results.files.open(source, plan.task_class, given, plan.cases)
        runner = Runner(
            workspaces=self._results.files.workspaces(plan.task_class, file),
            results=results.SourceResults(file),
            admission=Admission(plan, file),
            is_logging=False,
        )
        return runner, "" if file is None else file.path.stem

    def note_score(
        self,
        item: pytest.Item,
        found: MarkedCase,
        outcome: CaseOutcome,
        cost_usd: float,
    ) -> None:
        """Add a score to the report of a test with the mark `bench`, which fails unless passed.

        Args:
            item: The test.
            found: Its case.
            outcome: What the case came to.
            cost_usd: What the test says its output cost.
        """
        score = outcome.score
        given_score = score.model_dump(mode="json")
        reported_by(item).append(
            ("case", *found.source, found.case.case_id, given_score)
        )
        plan = self.classes.plan(found.task_class, [found.case])
        known = self._results.sources[found.source]
        given = SystemGiven(name=found.source.test, label=found.source.system)
        if known.file is None:
            cases = self._results.scheduled_cases(found.source, plan.task_class)
            known.file = self._results.files.open(
                found.source, plan.task_class, given, cases, plan.shard
            )
        if known.file is not None:
            call = outcome.attempts[-1].model_copy(update={"cost_usd": cost_usd})
            known.file.note_start(outcome.case_id, call.attempt)
            known.file.note_outcome(replace(outcome, attempts=(call,)))
        if not score.passed:
            error = items.case_failed(found, outcome)
            if self.gate_decides(found.task_class):
                item.stash[items.BELOW] = error
            else:
                item.stash[_FAILED] = error

    def gate_decides(self, task_class: TaskClass) -> bool:
        """Return whether the gate of a task class alone makes the run red."""
        gate = self.classes.settings(task_class).gate
        return gate is not None and gate.decides

    def _case_of(self, item: pytest.Item) -> CaseItem | MarkedCase | None:
        """Return the case that an item of a task class or a test with the mark `bench` runs."""
        return (
            item
            if isinstance(item, CaseItem)
            else items.marked_case(item, self.classes)
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> object:
        """Run the item of a case as pytest does, once, before a plugin that would rerun it."""
        if self._case_of(item) is None:
            return None
        values: list[object] = []
        for name in _RERUN_OPTIONS:
            if hasattr(item.config.option, name):
                values.append(item.config.getoption(name))
                with suppress(ValueError):  # there is no such ini value
                    values.append(item.config.getini(name))
        is_asked = any(
            str(value) not in ("None", "False", "", "0", "[]") for value in values
        )
        is_marked = bool(values) and item.get_closest_marker(_RERUN_MARK) is not None
        item.stash[_IS_TO_BE_RERUN] = is_asked or is_marked
        if item.stash[_IS_TO_BE_RERUN]:
            item.own_markers[:] = [
                mark for mark in item.own_markers if mark.name != _RERUN_MARK
            ]
        runner: Any = item.config.pluginmanager.get_plugin("runner")
        is_done: object = runner.pytest_runtest_protocol(item, nextitem)
        if _FAILED in item.stash:
            del item.stash[_FAILED]  # and all that its traceback holds
        return is_done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test whose case did not pass, whatever the test asserts.

        If some other plugin calls it again, it fails as before: its score would be the best of
        several.
        """
        if _FAILED in item.stash:
            reported_by(item).append(("note", _NOT_RERUN))
            raise item.stash[_FAILED]
        try:
            yield
        except BaseException as error:
            if _IS_TO_BE_RERUN in item.stash:
                item.stash[_FAILED] = error
            raise
        if _FAILED in item.stash:
            raise item.stash[_FAILED]

    def announce(self, cases: Iterable[tuple[Source, str]] = ()) -> None:
        """Tell xdist's controller that tests of this worker will report results.

        Args:
            cases: Those of tests, which their node ids don't tell.
        """
        if self.storage.journal:
            storage.CasesOfTests(Path(self.storage.journal)).note(cases)

    # On xdist's controller.

    def schedule(self, nodeids: Sequence[str]) -> None:
        """Learn from a worker's collection which cases are to run."""
        folders = {}
        for folder, system, nodeid in self._cases_of(nodeids):
            folders[folder] = self.classes.load(folder)
            source = Source(str(folder), system=system)
            self._results.sources[source].scheduled[case_and_system(nodeid)[0]] = None
        if folders and self._live_line is None:
            self._live_line = LiveLine.begin(self._config, self._results.progress)
        self._check(folders.values())

    def find_units(self, nodeids: Sequence[str], workers: int) -> Mapping[str, str]:
        """Return the name of the unit of each case among xdist's node ids."""
        units: dict[str, str] = {}
        for folder, system, members in self.classes.units(
            self._cases_of(nodeids), workers
        ):
            # Named by their first: a system may have several groups.
            units.update(dict.fromkeys(members, f"{folder}#{system}#{members[0]}"))
        return units

    def _cases_of(self, nodeids: Sequence[str]) -> Iterator[tuple[Path, str, str]]:
        """Yield the cases among node ids: the class's folder, the system's label, the id."""
        folders: dict[str, Path | None] = {}
        for nodeid in nodeids:
            name = nodeid.partition("::")[0]
            if name not in folders:
                path = self._config.rootpath / name
                folders[name] = (
                    None if path.parent.name == "oracle" else task_class_folder(path)
                )
            folder = folders[name]
            if folder is not None:
                yield folder, case_and_system(nodeid)[1], nodeid

    def of_other_shards(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Return the items that run a case of another shard than the chosen one."""
        found = []
        for item in items:
            each = self._case_of(item)
            if each is None:
                continue
            own = self.classes.ids_of_shard(each.task_class)
            if own is not None and each.case.case_id not in own:
                found.append(item)
        return found

    # Hooks.

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what workspaces are made of: it has tests of its own."""
        return True if collection_path in self.classes.templates else None

    @pytest.hookimpl(
        tryfirst=True
    )  # an xdist worker reports its collection in this hook
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Split the selected cases into units, and count them."""
        cases = [each for each in session.items if isinstance(each, CaseItem)]
        self.runs.arrange(cases)
        of_tests = []
        for item in session.items:
            found = self._case_of(item)
            is_of_test = found is not None and found.source.test != ""
            if found is None or (
                is_of_test and "bench" not in getattr(item, "fixturenames", ())
            ):
                continue
            self._results.sources[found.source].scheduled[found.case.case_id] = None
            if is_of_test:
                of_tests.append((found.source, found.case.case_id))
        if of_tests:
            self.announce(of_tests)
        if not self._is_worker:  # xdist's controller has checked it
            by_class = {each.source.folder: each.task_class for each in cases}
            self._check(by_class.values())

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Begin the live line; say in CI that a system could end this process unnoticed."""
        if not self._is_worker and any(
            isinstance(each, CaseItem) for each in session.items
        ):
            self._live_line = LiveLine.begin(self._config, self._results.progress)
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        is_shown = self._runs_something and not self._is_worker and terminal is not None
        if not is_shown or not os.environ.get("CI") or _is_supervised():
            return
        for case in map(self._case_of, session.items):
            if case is not None and self._may_end_pytest(case):
                terminal.write_line(_UNWATCHED, yellow=True)
                return

    def _may_end_pytest(self, case: CaseItem | MarkedCase) -> bool:
        settings = self.classes.settings(case.task_class)
        is_elsewhere = settings.is_system_isolated or self.classes.backend is not None
        return bool(case.source.test) or not is_elsewhere

    def _check(self, task_classes: Iterable[TaskClass]) -> None:
        """Refuse a run that can't go on, and a cluster that can't call the systems, once."""
        if self._is_checked or not self._runs_something:
            return
        self._is_checked = True
        self._results.files.check(self._results.sources, self.classes.shard)
        problems = []
        for task_class in task_classes:
            try:
                self.runs.check_cluster(task_class)
            except BenchError as error:
                problems += str(error).splitlines()
        if problems:
            raise pytest.UsageError(
                "\n".join(f"--bench-backend: {each}" for each in problems)
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add scores to the report of a test, and show a case that did not pass as such."""
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, CaseFailedError):
            report.longrepr = items.represent(
                *item.reportinfo()[:2], call.excinfo.value
            )
        if report.failed and call.excinfo is not None:
            self._note_failure(item, call.when, call.excinfo.value)
        below = item.stash.get(items.BELOW, None)
        if below is not None and call.when == "call" and report.passed:
            setattr(report, _BELOW_KEY, [str(below), *below.lines])
        if call.when != "setup" and results.REPORTED in item.stash:
            reported = item.stash[results.REPORTED]
            del item.stash[results.REPORTED]
            setattr(report, storage.WIRE_KEY, reported)
            properties = results.user_properties(reported)
            report.user_properties.extend(properties)
            if call.when == "call":  # `--junitxml` takes those of the teardown's report
                item.user_properties.extend(properties)
        return report

    def _note_failure(self, item: pytest.Item, when: str, error: BaseException) -> None:
        if item.stash.get(_IS_TO_BE_RERUN, False):
            reported_by(item).append(("note", _NOT_RERUN))
        case = self._case_of(item)
        names = [name for name, *_ in item.stash.get(results.REPORTED, ())]
        # A case whose test failed for another reason than its score, which then is void.
        if case and not ("case" in names and isinstance(error, CaseFailedError)):
            is_called = when != "setup"
            broken = ("broken", *case.source, case.case.case_id, is_called)
            reported_by(item).append(broken)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Name the cases that did not pass where only the gate decides: to pytest, they passed."""
        if not hasattr(report, _BELOW_KEY):
            return None
        return "below", "b", ("BELOW", {"yellow": True})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Make room for what pytest writes."""
        if self._live_line is not None:
            self._live_line.erase()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, None, None]:
        """Collect the scores that a report carries.

        They are dropped when all plugins have seen the report: pytest keeps it until the end.
        """
        is_of_worker = hasattr(report, "node")
        live_line = self._live_line if is_of_worker else None
        if live_line is not None:
            live_line.erase()
        reported = getattr(report, storage.WIRE_KEY, None)
        if reported is not None:
            self._results.take(reported)
        yield
        if reported is not None:
            delattr(report, storage.WIRE_KEY)
        if live_line is not None:
            live_line.draw()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(
        self, session: pytest.Session
    ) -> Generator[None, None, None]:
        """Stop the cases before fixtures are torn down; fail the run if a bench did.

        A bench fails a run that would succeed by its gate, by cases that were selected and have no
        score (the cost cap was reached, or they were stopped or lost), and by a file that was asked
        for and can't be written. At this point xdist's workers have ended and the terminal summary
        is still to come.
        """
        if self._live_line is not None:
            self._live_line.close()
        self.runs.fan_out.close()
        yield
        if self._is_worker:
            self._results.files.close()
            return
        self._results.collect()
        if session.shouldfail:
            self._results.note_end("pytest stopped after a failure")
        elif session.shouldstop or session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self._results.note_end("pytest was interrupted")
        path = storage.json_file_of(self._config)
        if path is not None and self._runs_something:
            problem = write_json(path, self.reports())
            self._json_problem = f"{path}: {problem}" if problem else ""
        self.why_gate_failed = next(self._why_gate_failed(), "")
        not_written = f"--bench-json {self._json_problem}" if self._json_problem else ""
        why_failed = self.why_gate_failed or not_written
        if why_failed and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            session.shouldfail = why_failed

    def _why_gate_failed(self) -> Iterator[str]:
        failed = {
            each.name: each.gate.reasons[0]
            for each in self.reports()
            if each.gate is not None and each.gate.verdict == "FAIL"
        }
        if failed:
            yield failed_gates(failed)
        for report, test, _, is_judged in self._sourced():
            counts = report.counts
            if is_judged and counts.graded < counts.scheduled:
                missing = counts.scheduled - counts.graded
                where = f" in {test}" if test else ""
                yield (
                    f"bench {report.name}{where} is incomplete: {missing} of "
                    f"{counts.scheduled} cases {'has' if missing == 1 else 'have'} no score"
                )
        if self._baseline is not None:
            yield from self._baseline.problems

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Print the results of each task class."""
        if self._is_worker:  # the terminal of an xdist worker is not shown
            return
        terminal, reports = terminalreporter, self._sourced()
        are_saved = not self.storage.is_temporary
        view = SummaryView(
            terminal, self.classes, self._results.kept_runs(), are_saved=are_saved
        )
        below = [
            (report.nodeid, getattr(report, _BELOW_KEY))
            for report in terminal.stats.get("below", ())
        ]
        view.print_below(below, has_lines=self._config.option.tbstyle != "no")
        if terminal.verbosity >= -1 and reports:
            view.print_runs(reports)
        problems = self._results.files.problems()
        notes = [*self._results.notes]
        notes += [f"bench: the run is not kept: {problem}" for problem in problems]
        if self._baseline is not None:
            notes += self._baseline.notes
        notes += dict.fromkeys(view.likely_clusters(reports))
        for note in notes:
            terminal.write_line(note, yellow=True)
        if self._json_problem:
            terminal.write_line(f"--bench-json: {self._json_problem}", red=True)

    @property
    def place(self) -> SectionPlace | None:
        """Where the runs are kept, for whoever completes the report of a pytest that died."""
        if not self.storage.folder or self.storage.is_temporary:
            return None
        return SectionPlace(
            name="bench", folder=self.storage.folder, session=self.storage.name
        )

    @pytest.hookimpl(optionalhook=True)  # there is no such hook without a report
    def pytest_failure_taxonomy_section(self) -> ReportSection:
        """Return the reports of the task classes, and whether a gate fails the run."""
        return ReportSection(
            name="bench",
            rows=[report.model_dump(mode="json") for report in self.reports()],
            why_failed=self.why_gate_failed,
            place=self.place,
        )

    def reports(self) -> list[BenchRunReport]:
        """Return the report of each task class; call it when all cases are over."""
        return [each.report for each in self._sourced()]

    @property
    def _runs_something(self) -> bool:
        options = self._config.option
        return not any(getattr(options, name, False) for name in _RUN_NOTHING)

    def _sourced(self) -> list[SourcedReport]:
        if not self._runs_something:
            return []
        if self._reports is None:
            reports = self._results.reports(self.classes)
            if self._baseline is not None:
                reports = self._baseline.judge(
                    reports, self.classes, self._results.note_baseline
                )
            # A whole run of a test stands by itself, and a shard is compared when it is merged.
            classes = [
                (sourced.test, sourced.folder)
                if sourced.folder and not sourced.report.shard
                else None
                for sourced in reports
            ]
            folder, _ = storage.storage_of(self._config)
            compared = comparing.compare_systems(
                [sourced.report for sourced in reports], classes
            )
            self._reports = [
                sourced._replace(report=with_agreement(report, folder))
                for sourced, report in zip(reports, compared, strict=True)
            ]
        return self._reports


def _is_supervised() -> bool:
    """Return whether `failure-taxonomy run` has started this process."""
    supervisor = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")[0]
    if sys.platform == "win32":
        return bool(supervisor)
    return supervisor == str(os.getppid())


def write_json(path: Path, reports: Sequence[BenchRunReport]) -> str:
    """Write reports as a JSON list, atomically; return a message if that failed, or ''."""
    text = json.dumps([report.model_dump(mode="json") for report in reports], indent=2)
    content = f"{text}\n".encode("utf-8", "backslashreplace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        return f"can't be written ({error.strerror or error})"
    return ""
