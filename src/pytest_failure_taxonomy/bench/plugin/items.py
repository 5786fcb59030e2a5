"""The collectors and items of a task class, and tests that run its cases by a mark."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from _pytest._code.code import (
    ReprEntryNative,
    ReprExceptionInfo,
    ReprFileLocation,
    ReprTraceback,
)

from pytest_failure_taxonomy.bench.models import BenchCase, OracleExample, TaskClass
from pytest_failure_taxonomy.bench.oracle import why_wrong
from pytest_failure_taxonomy.bench.plugin.node_names import escape, node_name
from pytest_failure_taxonomy.bench.plugin.storage import Source
from pytest_failure_taxonomy.bench.scores import failure_lines, one_line
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from pytest_failure_taxonomy.bench.plugin.bench_session import BenchSession
    from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
    from pytest_failure_taxonomy.bench.scores import CaseOutcome


BENCH: pytest.StashKey[BenchSession] = pytest.StashKey()
"""In the stash of the configuration: the bench of this process."""

BELOW: pytest.StashKey[CaseFailedError] = pytest.StashKey()
"""In the stash of an item: how its case did not pass, where only the gate decides."""

SYSTEM_FIXTURE: Final = "system_under_test"
CASE_ARGUMENT: Final = "case"
"""The argument by which a test with the mark `bench` receives its case."""


class CaseFailedError(AssertionError):
    """A case did not pass; the message has its score and failure modes in one line."""

    def __init__(self, message: str, lines: Sequence[str] = ()) -> None:
        """Create it; without further lines, the message is all that there is to show."""
        super().__init__(message)
        self.lines = lines or [message]


class CaseWithoutScoreError(CaseFailedError):
    """A case was started and left no score; `libraries.toml` has its kind."""


class CaseLostToEnvironmentError(CaseWithoutScoreError):
    """The same, and that is charged to the environment: see `charges.json`."""


def load_for_collection(
    node: pytest.Collector, folder: Path | None = None
) -> TaskClass:
    """Return the task class of a node's folder.

    Raises:
        pytest.Collector.CollectError: The task class can't be used; a line for each problem.
    """
    try:
        classes = node.config.stash[BENCH].classes
        task_class = classes.load(folder or node.path)
        classes.check_variables(task_class)
        return task_class
    except BenchError as error:
        raise node.CollectError(str(error)) from None


class TaskClassDir(pytest.Directory):
    """The folder of a task class; nothing in it is collected if the class can't be used."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Report all problems of the task class, or collect as a `pytest.Dir` does."""
        load_for_collection(self)
        return pytest.Dir.collect(self)  # type: ignore[arg-type]  # it asks for any Directory


class TaskClassPackage(pytest.Package):
    """The folder of a task class that is also a Python package."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Report all problems of the task class, or collect the package."""
        load_for_collection(self)
        return super().collect()


def collector_of_task_class(path: Path, parent: pytest.Collector) -> pytest.Collector:
    """Return the collector of a task class's folder."""
    if (path / "__init__.py").is_file():
        return TaskClassPackage.from_parent(parent, path=path)
    return TaskClassDir.from_parent(parent, path=path)


class BenchFile(pytest.Module):
    """A file of cases, or of examples for the rubric's self-test.

    It is a `pytest.Module` because module-scoped fixtures need one; the module holds nothing but
    the function that stands in for a case.
    """

    def __init__(self, *, folder: Path, **rest: Any) -> None:
        super().__init__(**rest)
        self.folder = folder

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.stem)
        for stand_in in (_with_fixture, _without_fixture):
            setattr(module, stand_in.__name__, stand_in)
        return module

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield the file's items."""
        task_class = load_for_collection(self, self.folder)
        examples = (
            example
            for example in task_class.oracle
            if example.path == self.path and example.expect
        )
        make = partial(OracleItem.from_parent, self, task_class=task_class)
        oracle = [
            make(name=escape(example.example_id), example=example)
            for example in examples
        ]
        return [*self._cases(task_class), *oracle]

    def _cases(self, task_class: TaskClass) -> Iterator[CaseItem]:
        classes = self.config.stash[BENCH].classes
        chosen = classes.cases_in(self.path, self.folder)
        if not chosen:
            return
        stand_in = (
            _with_fixture if self._needs_fixture(task_class) else _without_fixture
        )
        # What pytest makes of it is the same for all cases: the fixtures, and their parameters.
        functions = list(self._genfunctions(stand_in.__name__, stand_in))
        if stand_in is _with_fixture and not all(map(system_definition, functions)):
            raise self.CollectError(
                f"{classes.shown(self.folder)}: there is no system under test; give"
                f" `sut: package.module:callable` in {classes.shown(self.folder / 'bench.yaml')} or"
                f" a fixture `{SYSTEM_FIXTURE}` in a conftest.py"
            )
        classes.register_tags(chosen)
        specs = [getattr(function, "callspec", None) for function in functions]
        labels = ["" if spec is None else str(spec.id) for spec in specs]
        folder = str(task_class.folder)
        sources = [Source(folder, system=label) for label in labels]
        for case in chosen:
            name = node_name(case)
            for function, callspec, source in zip(
                functions, specs, sources, strict=True
            ):
                yield CaseItem.from_parent(
                    self,
                    name=f"{name}{function.name.removeprefix(function.originalname)}",
                    originalname=name,
                    callobj=function.obj,
                    callspec=callspec,
                    keywords=None if callspec is None else {callspec.id: True},
                    fixtureinfo=function._fixtureinfo,  # noqa: SLF001 - pytest's alone
                    case=case,
                    task_class=task_class,
                    source=source,
                )

    def _needs_fixture(self, task_class: TaskClass) -> bool:
        """Return whether the system is a fixture; if it is named, check that it can be imported."""
        classes = self.config.stash[BENCH].classes
        settings = classes.settings(task_class)
        if settings.sut is None:
            cant = ""
            if classes.backend is not None:
                cant = "be sent to a cluster (--bench-backend)"
            elif settings.sut_isolation == "process":
                cant = "be run in a process of its own"
            if cant:
                raise self.CollectError(
                    f"{classes.shown(self.folder)}: a fixture can't {cant}; name the system as"
                    " `sut: package.module:callable`"
                )
            return True
        if classes.backend is not None and settings.workspace is not None:
            raise self.CollectError(
                f"{classes.shown(self.folder / 'bench.yaml')}: workspace: is a folder of this"
                " machine, and --bench-backend calls the system on others; leave one of the two out"
            )
        if classes.backend is not None:
            return False  # the cluster's workers import it
        is_option = self.config.getoption("bench_sut") is not None
        where = (
            "--bench-sut"
            if is_option
            else f"{classes.shown(self.folder / 'bench.yaml')}: sut"
        )
        try:
            self.config.stash[BENCH].runs.named_system(settings.sut, settings)
        except BenchError as error:
            raise self.CollectError(f"{where}: {error}") from error.__cause__
        return False


def _with_fixture(system_under_test: object) -> None:
    """Stand in for a case whose system under test is a fixture."""


def _without_fixture() -> None:
    """Stand in for a case whose task class names the system under test."""


class CaseItem(pytest.Function):
    """One case; a `pytest.Function`, so that fixtures and marks work as for any test."""

    def __init__(
        self, *, case: BenchCase, task_class: TaskClass, source: Source, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self.case = case
        self.task_class = task_class
        self.source = source
        if self.originalname != case.case_id:  # `-k` takes the id as it is, too
            self.extra_keyword_matches.add(case.case_id)
        for tag in case.tags:
            self.add_marker(tag)

    def runtest(self) -> None:
        """Wait for the case's outcome, and fail if it did not pass."""
        # The item also waits for other cases, so its time is not that of its case, and each case
        # has its own limits. Its setup was timed.
        cancel = getattr(self.ihook, "pytest_timeout_cancel_timer", None)
        if cancel is not None:  # pytest-timeout is installed
            cancel(item=self)
        bench = self.config.stash[BENCH]
        outcome = bench.run(self)
        if not outcome.score.passed:
            error = case_failed(self, outcome)
            if not bench.gate_decides(self.task_class):
                raise error
            self.stash[BELOW] = error

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the place of the case in its file."""
        return self.path, (self.case.line or 1) - 1, self.name


def system_definition(function: pytest.Function) -> pytest.FixtureDef[Any] | None:
    """Return the fixture that is the system under test, or `None` if there is none."""
    info = function._fixtureinfo  # noqa: SLF001 - only pytest resolves fixtures
    definitions = info.name2fixturedefs.get(SYSTEM_FIXTURE)
    return definitions[-1] if definitions else None


class OracleItem(pytest.Item):
    """One example of a rubric's self-test."""

    def __init__(
        self, *, example: OracleExample, task_class: TaskClass, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self.example = example
        self.task_class = task_class

    def runtest(self) -> None:
        """Grade the example's output, and fail if the rubric does not judge it as expected."""
        answered = (
            self.example.case_id
        )  # the example stands for all repetitions of the case
        case = next(
            each for each in self.task_class.cases if each.id_in_file == answered
        )
        outcome = self.config.stash[BENCH].runs.grade(
            self.task_class, case, self.example.output
        )
        what = why_wrong(self.example, outcome.score)
        if not what:
            return
        lines = failure_lines(
            self.task_class.name, case, outcome, self.task_class.descriptions
        )
        lines[0] = (
            f"the rubric on the example {self.name} ({what}): {one_line(outcome.score)}"
        )
        raise CaseFailedError(f"{what}: {one_line(outcome.score)}", lines)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the place of the example in its file."""
        return self.path, (self.example.line or 1) - 1, self.name


def represent(
    path: os.PathLike[str] | str, line: int | None, error: CaseFailedError
) -> TerminalRepr:
    """Return a failed case in the form of a traceback in pytest's reports, without our frames."""
    entry = ReprEntryNative([f"{text}\n" for text in error.lines])
    return ReprExceptionInfo(
        reprtraceback=ReprTraceback([entry], None, style="native"),
        reprcrash=ReprFileLocation(os.fspath(path), (line or 0) + 1, str(error)),
    )


class MarkedCase(NamedTuple):
    """The case that a test with the mark `bench` runs."""

    task_class: TaskClass
    case: BenchCase
    source: Source


def case_failed(found: CaseItem | MarkedCase, outcome: CaseOutcome) -> CaseFailedError:
    """Return the error of a case that did not pass."""
    task_class = found.task_class
    lines = failure_lines(task_class.name, found.case, outcome, task_class.descriptions)
    return CaseFailedError(one_line(outcome.score), lines)


def named_by(mark: pytest.Mark) -> str:
    """Return the name of the task class that a mark `bench` gives.

    Raises:
        BenchError: The mark's arguments are not the name of one task class.
    """
    if len(mark.args) == 1 and not mark.kwargs and isinstance(mark.args[0], str):
        return mark.args[0]
    raise BenchError(
        'the mark bench takes the name of one task class; write @pytest.mark.bench("name")'
    )


def marked_case(item: pytest.Item, classes: TaskClasses) -> MarkedCase | None:
    """Return the case that a test runs because of its mark; `None` for any other test."""
    mark, callspec = item.get_closest_marker("bench"), getattr(item, "callspec", None)
    if mark is None or callspec is None:
        return None
    case = callspec.params.get(CASE_ARGUMENT)
    if not isinstance(case, BenchCase):
        return None
    task_class = classes.find(named_by(mark))
    if task_class.settings.repeat > 1:
        case = case.as_repetition(case.repetition)
    test = item.nodeid.partition("[")[0]
    # With further parameters a test runs each case several times: these are several runs.
    name = node_name(case)
    if not name.isascii() and name not in callspec.id:
        name = name.encode("unicode_escape").decode("ascii")  # as pytest does
    before, _, after = f"-{callspec.id}-".partition(f"-{name}-")
    label = "-".join(filter(None, (before.strip("-"), after.strip("-"))))
    return MarkedCase(task_class, case, Source(str(task_class.folder), test, label))


def parametrize(metafunc: pytest.Metafunc, mark: pytest.Mark) -> None:
    """Parametrize a test with the cases of its task class, unless the test does so itself.

    Raises:
        pytest.Collector.CollectError: The task class can't be used.
    """
    for given in metafunc.definition.iter_markers("parametrize"):
        names = given.args[0] if given.args else given.kwargs.get("argnames", ())
        split = names.replace(",", " ").split() if isinstance(names, str) else names
        if CASE_ARGUMENT in split:
            return
    classes = metafunc.config.stash[BENCH].classes
    try:
        task_class = classes.find(named_by(mark))
        classes.check_variables(task_class)
        found = task_class.cases
    except BenchError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    classes.register_tags(found)
    cases = []
    for case in found:
        marks = [getattr(pytest.mark, tag) for tag in case.tags]
        cases.append(pytest.param(case.as_in_file(), id=node_name(case), marks=marks))
    metafunc.parametrize(CASE_ARGUMENT, cases)
