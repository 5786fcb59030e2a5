"""The task classes of one pytest process, with the settings of its options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import pytest
from pydantic import ValidationError

from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric, open_rubrics
from pytest_failure_taxonomy.bench.load.folder import (
    MARKER_FILE,
    is_task_class,
    task_class_folder,
)
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchSettings,
    RunPlan,
    RunShard,
    TaskClass,
)
from pytest_failure_taxonomy.bench.plugin.node_names import case_and_system, node_name
from pytest_failure_taxonomy.bench.plugin.storage import storage_of
from pytest_failure_taxonomy.bench.scores import CombinedRubrics, check_variables
from pytest_failure_taxonomy.bench.sharding import (
    ids_of_shard,
    parse_shard,
    shard_of_run,
)
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.options import BENCH_OPTIONS, Option
from pytest_failure_taxonomy.redaction.names import declare_secret_variables
from pytest_failure_taxonomy.taxonomy import packaged_table

_UNITS_PER_WORKER: Final = 4
"""Enough that a worker with fast cases can take over some from a worker with slow
ones."""
_ROUNDS_PER_UNIT: Final = 2
"""A unit has at least this many times the cases that run at once: its end leaves slots
idle."""

_CEILINGS: Final = "GIT_CEILING_DIRECTORIES"
"""Folders in which git looks for no repository when it is called below them."""
_OF_CLASS: Final = [option for option in BENCH_OPTIONS.values() if option.is_of_class]
_T = TypeVar("_T")


class TaskClasses:
    """Task classes by their folder; each is read once."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._loaded: dict[Path, TaskClass | BenchError] = {}
        self._settings: dict[str, BenchSettings] = {}
        self._by_file: dict[Path, dict[Path | None, list[BenchCase]]] = {}
        self._shards: dict[str, tuple[RunShard, frozenset[str]]] = {}
        self.templates: set[Path] = set()
        """What workspaces are made of: nothing in these folders is a test of the run."""
        self.backend = backend_address(config)
        """The address of the cluster on which systems are called; `None`: they are
        called here."""
        self.shard = chosen_shard(config)
        """Which part of each class to run, from 1, and of how many; `None`: all of
        it."""

    def load(self, folder: Path) -> TaskClass:
        """Return the task class in a folder.

        Raises:
            BenchError: The task class can't be used; the message has a line for each
                problem.
        """
        if folder not in self._loaded:
            try:
                task_class = self._loaded[folder] = load_task_class(folder)
                self._note_workspaces(task_class)
            except BenchError as error:
                text = str(error).replace(
                    f"{folder}{os.sep}", f"{self.shown(folder)}{os.sep}"
                )
                self._loaded[folder] = BenchError(text)
        found = self._loaded[folder]
        if isinstance(found, BenchError):
            raise found
        declare_secret_variables(found.settings.rubric_env)
        return found

    def _note_workspaces(self, task_class: TaskClass) -> None:
        """Note what workspaces are made of; keep git in them from the repository around."""
        workspace, folder = task_class.settings.workspace, task_class.folder
        if workspace is None or folder is None:
            return
        places = {workspace.source_of(case)[0] for case in task_class.cases}
        self.templates.update(Path(os.path.normpath(folder / each)) for each in places)
        storage, _ = storage_of(self._config)
        ceilings = os.environ.get(_CEILINGS, "").split(os.pathsep)
        if str(storage) not in ceilings:
            os.environ[_CEILINGS] = os.pathsep.join(
                [str(storage), *filter(None, ceilings)]
            )

    def cases_in(self, file: Path, folder: Path) -> Sequence[BenchCase]:
        """Return the cases of one file of the task class in a folder.

        They are sorted by file once: there may be thousands of files.
        """
        if folder not in self._by_file:
            by_file = self._by_file[folder] = {}
            for case in self.load(folder).cases:
                by_file.setdefault(case.path, []).append(case)
        return self._by_file[folder].get(file, ())

    def find(self, name: str) -> TaskClass:
        """Return the task class that a mark or a test names.

        Args:
            name: The name of a folder in `bench_root`, or a path relative to the root
                directory.

        Raises:
            BenchError: There is no such task class, or it can't be used.
        """
        root = self._config.rootpath
        places = [root / str(self._config.getini("bench_root")) / name, root / name]
        for place in places:
            if is_task_class(place):
                return self.load(place)
        looked_at = " or ".join(self.shown(place) for place in dict.fromkeys(places))
        raise BenchError(
            f"{name}: there is no task class in {looked_at}; name a folder with a"
            f" {MARKER_FILE} (ini: bench_root)"
        )

    def settings(self, task_class: TaskClass) -> BenchSettings:
        """Return the settings of a task class with options and ini values applied."""
        key = str(task_class.folder or task_class.name)
        if key not in self._settings:
            own, config = task_class.settings, self._config
            values = {name: getattr(own, name) for name in BenchSettings.model_fields}
            for (
                option
            ) in _OF_CLASS:  # an option wins, then the `bench.yaml`, then the ini value
                given: str | None = config.getoption(option.dest)
                if given is None and option.name not in own.model_fields_set:
                    given = config.getini(option.dest) or None
                if given is not None:
                    values[option.name] = _convert_option(option.dest, option, given)
            settings = BenchSettings(**values)
            if self.shard is not None:
                cap = settings.max_cost_usd
                cap_of_shard = cap and cap / self.shard[1]
                settings = settings.model_copy(update={"max_cost_usd": cap_of_shard})
            self._settings[key] = settings
        return self._settings[key]

    def ids_of_shard(self, task_class: TaskClass) -> frozenset[str] | None:
        """Return the ids of the cases of the chosen shard; `None`: all are."""
        found = self._shard_of(task_class)
        return None if found is None else found[1]

    def _shard_of(
        self, task_class: TaskClass
    ) -> tuple[RunShard, frozenset[str]] | None:
        if self.shard is None:
            return None
        folder = task_class.folder or Path(task_class.name)
        source = Path(os.path.relpath(folder, self._config.rootpath)).as_posix()
        if source not in self._shards:
            shard = shard_of_run(task_class, source, *self.shard)
            self._shards[source] = shard, ids_of_shard(task_class, *self.shard)
        return self._shards[source]

    def plan(
        self,
        task_class: TaskClass,
        cases: Sequence[BenchCase] | None = None,
        *,
        workers: int = 0,
    ) -> RunPlan:
        """Return the plan for cases of a task class, for one of `workers` workers."""
        settings = self.settings(task_class)
        chosen = None if cases is None else tuple(cases)
        plan = RunPlan.of(task_class.model_copy(update={"settings": settings}), chosen)
        concurrency = share_of(plan.concurrency, workers)
        plan = plan.model_copy(update={"concurrency": concurrency})
        of_shard = self._shard_of(task_class)
        if of_shard is None or cases is None:
            return plan
        shard, ids = of_shard
        is_selection = len(plan.cases) < len(ids)
        return plan.model_copy(update={"shard": shard, "is_selection": is_selection})

    def units(
        self, cases: Iterable[tuple[Path, str, str]], workers: int
    ) -> Iterator[tuple[Path, str, list[str]]]:
        """Split the cases of each class and system into units, each for one worker.

        The controller and the workers of xdist compute this independently and must
        agree.

        Args:
            cases: Each with the folder of its class, the label of its system and its
                node id.
            workers: The number of workers; 0 without xdist.
        """
        for folder, system, nodeids in by_system(cases):
            concurrency = self.settings(self.load(folder)).concurrency
            for unit in split_cases(nodeids, workers=workers, concurrency=concurrency):
                yield folder, system, unit

    def open_rubric(self, task_class: TaskClass) -> IsolatedRubric | CombinedRubrics:
        """Return the isolated rubrics of a class as one; the caller closes it.

        Raises:
            BenchError: The task class has no rubric of its own, or lacks a variable
                that it needs.
        """
        self.check_variables(task_class)
        return open_rubrics(task_class, self.settings(task_class))

    def check_variables(self, task_class: TaskClass) -> None:
        """Refuse a task class whose rubrics need variables that are not set.

        Raises:
            BenchError: One is not set, or empty, as a secret that a CI job doesn't
                have.
        """
        folder = task_class.folder
        check_variables(
            task_class,
            task_class.name if folder is None else self.shown(folder / "bench.yaml"),
        )

    def repetitions(self, argument: str) -> list[str]:
        """Return the node ids that an argument of the command line stands for.

        With `repeat: 3`, `cases/a.yaml::empty` is no item: it stands for `empty#1` to
        `empty#3`, and `empty[small]` for `empty#1[small]` to `empty#3[small]`. Ids may
        be written as they are in the file, too.
        """
        file, _, name = argument.partition("::")
        path = Path(os.path.abspath(self._config.invocation_params.dir / file))
        folder = task_class_folder(path)
        if folder is None:
            return [argument]
        try:
            cases = self.cases_in(path, folder)
        except BenchError:  # the collection reports it
            return [argument]
        _, bracket, label = name.partition("[")
        named = {name: "", unquote(name): ""}  # as it is in the file, and in node ids
        if bracket:
            named |= {case_and_system(argument)[0]: bracket + label}
        found = [
            f"{file}::{node_name(case)}{named[case.id_in_file]}"
            for case in cases
            if case.id_in_file in named
        ]
        return found or [argument]

    def shown(self, path: Path) -> str:
        """Return a path as a user would type it."""
        started_in = self._config.invocation_params.dir
        return (
            os.path.relpath(path, started_in)
            if path.is_relative_to(started_in)
            else str(path)
        )

    def register_tags(self, cases: Iterable[BenchCase]) -> None:
        """Register the tags of cases as marks, for `--strict-markers`."""
        for tag in dict.fromkeys(tag for case in cases for tag in case.tags):
            known = self._config.getini("markers")
            if not any(
                line.split(":")[0].split("(")[0].strip() == tag for line in known
            ):
                self._config.addinivalue_line("markers", f"{tag}: a tag of bench cases")


def by_system(
    cases: Iterable[tuple[Path, str, _T]],
) -> list[tuple[Path, str, list[_T]]]:
    """Group cases by class and system, in their order.

    Where another system comes in between, a new group begins: pytest then ends the
    fixture of the first system, and creates it anew for the cases after that.

    Args:
        cases: Each with the folder of its class and the label of its system, which is
            empty for a single one.
    """
    groups: list[tuple[Path, str, list[_T]]] = []
    current: dict[tuple[Path, str], list[_T]] = {}
    last = ""
    for folder, system, case in cases:
        if system and system != last:
            current = {key: group for key, group in current.items() if not key[1]}
            last = system
        if (folder, system) not in current:
            current[folder, system] = []
            groups.append((folder, system, current[folder, system]))
        current[folder, system].append(case)
    return groups


def share_of(concurrency: int, workers: int) -> int:
    """Return how many cases one of several workers may run at a time."""
    return max(1, concurrency // max(1, workers))


def split_cases(
    nodeids: Sequence[str], *, workers: int, concurrency: int
) -> list[list[str]]:
    """Split the cases of one task class into units of consecutive cases.

    There are no more units than `concurrency` if that is less than the number of
    workers, so that no more cases than that run at a time.

    Args:
        nodeids: The selected cases in pytest's order.
        workers: The number of workers; 0 without xdist.
        concurrency: The limit of the task class, over all workers.
    """
    if not nodeids:
        return []
    if workers == 0:
        return [list(nodeids)]
    if concurrency < workers:
        count = concurrency
    else:
        fitting = len(nodeids) // (_ROUNDS_PER_UNIT * share_of(concurrency, workers))
        count = min(max(fitting, workers), _UNITS_PER_WORKER * workers)
    count = min(count, len(nodeids))
    size, bigger = divmod(len(nodeids), count)
    ends = [0]
    for number in range(count):
        ends.append(ends[-1] + size + (number < bigger))
    return [list(nodeids[start:end]) for start, end in pairwise(ends)]


def check_options(config: pytest.Config) -> None:
    """Refuse values that no task class could have, before anything is collected.

    Raises:
        pytest.UsageError: A value can't be used; the message has a line for each
            problem.
    """
    problems = []
    for option in _OF_CLASS:
        for where, given in (
            (option.flag, config.getoption(option.dest)),
            (option.dest, config.getini(option.dest) or None),
        ):
            try:
                if given is not None:
                    _convert_option(where, option, given)
            except pytest.UsageError as error:
                problems.append(str(error))
    for check in (backend_address, chosen_shard):
        try:
            check(config)
        except BenchError as error:
            problems.append(str(error))
    if problems:
        raise pytest.UsageError("\n".join(problems))


def backend_address(config: pytest.Config) -> str | None:
    """Return the address of the cluster on which systems are called, if there is one.

    Raises:
        BenchError: The option or the ini value can't be used.
    """
    option, ini = config.getoption("bench_backend"), config.getini("bench_backend")
    if not option and not ini:
        return None
    url = option or ini
    where = "--bench-backend" if option else "bench_backend"
    match = re.fullmatch(r"dask://([^/?#@]+:\d+)/?", url)
    if match is None:
        why = f"{where}: {url!r} names no cluster; give dask://HOST:PORT, its scheduler"
        raise BenchError(why)
    if find_spec("distributed") is None:
        right = 'pip install "pytest-failure-taxonomy[dask]"'
        raise BenchError(f"{where}: distributed is not installed; {right}")
    return f"tcp://{match[1]}"


def chosen_shard(config: pytest.Config) -> tuple[int, int] | None:
    """Return which part of each class to run, from 1, and of how many; `None`: all.

    Raises:
        BenchError: The option or the ini value can't be used.
    """
    option, ini = config.getoption("bench_shard"), config.getini("bench_shard")
    if option is not None:
        return parse_shard(option, "--bench-shard")
    return parse_shard(ini, "bench_shard") if ini else None


def _convert_option(where: str, option: Option, given: str) -> Any:
    try:
        return getattr(
            BenchSettings.model_validate_strings({option.name: given}), option.name
        )
    except ValidationError as error:
        problem = error.errors()[0]
    words = packaged_table("wrong_values")
    if problem["type"] in ("float_parsing", "int_parsing"):
        what = f"is no number; give {words['right_in_options'][option.type]}"
        raise pytest.UsageError(f"{where}: {given!r} {what}")
    form = words["in_options"].get(problem["type"], "{msg}")
    if problem["type"] == "finite_number" and option.name == "max_cost_usd":
        form = "it is no finite number; give an amount in US dollars above 0"
    message = problem["msg"].removeprefix("Value error, ")
    what = form.format(msg=message, **problem.get("ctx", {}))
    raise pytest.UsageError(f"{where}: {given!r} can't be used: {what}")
