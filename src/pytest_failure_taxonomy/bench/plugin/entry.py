"""pytest's entry point of the bench layer: options, fixtures, and where cases are found.

Every pytest run of an environment imports this module, so it imports nothing but pytest. What a
run without a task class pays is one look for a file in each folder that pytest collects.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_failure_taxonomy.options import BENCH_OPTIONS, declare
from pytest_failure_taxonomy.system import imports_as_they_are

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_failure_taxonomy.bench.models import TaskClass
    from pytest_failure_taxonomy.bench.plugin.bench_session import BenchSession
    from pytest_failure_taxonomy.bench.plugin.fixtures import Bench, BenchRubric

MARKERS_OF_CLASSES = ("failure_modes.yaml", "rubric.py", "rubrics")
"""What makes a folder a task class; repeated from `load.folder`, which a test compares."""
FOLDERS_OF_ITEMS, CASES_MODULE = ("cases", "oracle"), "cases.py"
"""The folders of a task class that hold items, and the module; repeated from there, too."""
DATA_SUFFIXES, MAX_DEPTH = (".arrow", ".parquet"), 4
"""Files that may stand in folders of `cases/`, and how deep; repeated from there, too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup(
        "bench", "benches: cases with a rubric (pytest-failure-taxonomy)"
    )
    declare(parser, group, BENCH_OPTIONS)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and refuse bad values of options before anything is collected."""
    config.addinivalue_line(
        "markers",
        "bench(task_class, /): run the test for each case of a task class, as its argument `case`; "
        "the fixture `bench` grades what it does",
    )
    names = [each.dest for each in BENCH_OPTIONS.values() if each.is_of_class]
    names += ["bench_backend", "bench_shard"]
    if any(config.getoption(name) is not None or config.getini(name) for name in names):
        with imports_as_they_are(config):
            from pytest_failure_taxonomy.bench.plugin.task_classes import check_options

        check_options(config)
    is_worker = hasattr(config, "workerinput")
    given = {
        name: config.getoption(f"bench_{name}") or config.getini(f"bench_{name}")
        for name in ("storage", "json", "baseline")
    }
    if not is_worker and (given["storage"] or config.getoption("bench_resume")):
        with imports_as_they_are(config):
            from pytest_failure_taxonomy.bench.plugin.storage import bench_storage

        storage = bench_storage(config)  # which refuses what can't be used
        if storage.resumes:
            with imports_as_they_are(config):
                from pytest_failure_taxonomy.bench.plugin.run_files import check_resumed

            check_resumed(Path(storage.folder), config)
    if given["json"]:
        with imports_as_they_are(config):
            from pytest_failure_taxonomy.bench.plugin.storage import json_file_of
            from pytest_failure_taxonomy.option_files import refused_files

        path = json_file_of(config)
        if path is not None and path.is_dir():
            right = "name a file, such as bench.json"
            raise pytest.UsageError(f"--bench-json: {path} is a folder; {right}")
        refused = [] if is_worker else refused_files(config)
        if refused:
            raise pytest.UsageError("\n".join(refused))
    if not is_worker and (
        given["baseline"] or config.getoption("bench_baseline") is not None
    ):
        with imports_as_they_are(config):
            from pytest_failure_taxonomy.bench.plugin.baseline import BASELINE, Baseline

        config.stash[BASELINE] = Baseline.read(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let the id of a case that is repeated stand for all its repetitions."""
    config = session.config
    named = [each for each in config.args if "::" in each and _may_hold_cases([each])]
    if named:
        classes = _begin_session(config).classes
        config.args[:] = [
            nodeid
            for each in config.args
            for nodeid in (classes.repetitions(each) if each in named else [each])
        ]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the workspaces that runs have kept: they have tests of their own."""
    if not _IS_RUN(collection_path.name):
        return None
    from pytest_failure_taxonomy.option_files import RUN_SUFFIX

    return True if os.path.exists(f"{collection_path}{RUN_SUFFIX}") else None


def pytest_collect_directory(
    path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Collect a task class."""
    if not _may_be_task_class(path):
        return None
    with imports_as_they_are(parent.config):
        from pytest_failure_taxonomy.bench.load.folder import is_task_class

        if not is_task_class(path):
            return None
        _begin_session(parent.config)
        from pytest_failure_taxonomy.bench.plugin.items import collector_of_task_class

    return collector_of_task_class(path, parent)


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Collect the cases and the examples of a task class."""
    depth = MAX_DEPTH if file_path.suffix in DATA_SUFFIXES else 1
    above = [*file_path.parents][:depth]
    of_items = [folder for folder in above if folder.name in FOLDERS_OF_ITEMS]
    if of_items:
        folder_of_class = of_items[0].parent
    elif file_path.name == CASES_MODULE:
        folder_of_class = file_path.parent
    else:
        return None
    if not _may_be_task_class(folder_of_class):
        return None
    with imports_as_they_are(parent.config):
        from pytest_failure_taxonomy.bench.load.folder import task_class_folder

        folder = task_class_folder(file_path)
        if folder is None:
            return None
        _begin_session(parent.config)
        from pytest_failure_taxonomy.bench.plugin.items import BenchFile

    return BenchFile.from_parent(parent, path=file_path, folder=folder)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test with the mark `bench` each case of its task class."""
    if "case" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("bench")
        if mark is not None:
            _begin_session(metafunc.config)
            with imports_as_they_are(metafunc.config):
                from pytest_failure_taxonomy.bench.plugin.items import parametrize

            parametrize(metafunc, mark)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what `--bench-only` or `--bench-skip` leaves out."""
    if hasattr(config, "workerinput") and any(map(_uses_bench, items)):
        _begin_session(config).announce()
    left_out: dict[int, pytest.Item] = {}
    if config.getoption("bench_shard") or config.getini("bench_shard"):
        of_others = _begin_session(config).of_other_shards(items)
        left_out = {id(item): item for item in of_others}
    only, skip = config.getoption("bench_only"), config.getoption("bench_skip")
    for item in items if only or skip else ():
        is_bench = (
            hasattr(item, "task_class") or item.get_closest_marker("bench") is not None
        )
        if (only and not is_bench) or (is_bench and skip):
            left_out[id(item)] = item
    if left_out:
        config.hook.pytest_deselected(items=list(left_out.values()))
        items[:] = [item for item in items if id(item) not in left_out]


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """Run task classes, and grade what a test with the mark `bench` did with its case.

    `await bench.run("name", system_under_test)` runs a whole task class and returns its report;
    `bench.run_sync(...)` does so from a plain test. `bench.score(output, cost_usd=...)` grades the
    output of the test's own case; its cost and the rubric's are added.
    """
    session = _begin_session(request.config)
    with imports_as_they_are(request.config):
        from pytest_failure_taxonomy.bench.plugin.fixtures import Bench

    return Bench(request, session)


@pytest.fixture
def bench_task_class(request: pytest.FixtureRequest) -> TaskClass:
    """The task class that the test's mark `bench` names."""
    session = _begin_session(request.config)
    with imports_as_they_are(request.config):
        from pytest_failure_taxonomy.bench.plugin.fixtures import task_class_of

    return task_class_of(request, session.classes)


@pytest.fixture
def bench_rubric(request: pytest.FixtureRequest) -> BenchRubric:
    """The rubric of the test's task class, in this process, to test the rubric itself."""
    session = _begin_session(request.config)
    with imports_as_they_are(request.config):
        from pytest_failure_taxonomy.bench.plugin.fixtures import (
            BenchRubric,
            task_class_of,
        )

    return BenchRubric(task_class_of(request, session.classes))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker where to write what it knows."""
    with imports_as_they_are(node.config):
        from pytest_failure_taxonomy.bench.plugin.storage import share_with_worker

    share_with_worker(node.config, node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Learn on xdist's controller which cases are to run.

    The node id of a test does not say whether it runs cases, but its worker has begun a journal.
    """
    if _may_hold_cases(ids) or os.path.isdir(
        node.workerinput["failure_taxonomy_bench"]["journal"]
    ):
        _begin_session(node.config).schedule(ids)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Any
) -> Generator[None, Any, Any]:
    """Send the cases of a task class to workers in units, if the run has any."""
    default = yield
    if config.getoption("dist", "no") == "each":
        return default
    with imports_as_they_are(config):
        from pytest_failure_taxonomy.bench.plugin.distribution import ChosenScheduling

    def find_units(nodeids: Sequence[str], workers: int) -> Any:
        if not _may_hold_cases(nodeids):
            return {}
        return _begin_session(config).find_units(nodeids, workers)

    return ChosenScheduling(default, find_units, config, log)


def _begin_session(config: pytest.Config) -> BenchSession:
    """Return the bench of this process; create it and register its hooks at the first call."""
    with imports_as_they_are(config):
        from pytest_failure_taxonomy.bench.plugin.bench_session import bench_session

    return bench_session(config)


def _uses_bench(item: pytest.Item) -> bool:
    """Tell whether a test gets the fixture `bench` that is ours, and none of its own name."""
    if "bench" not in getattr(item, "fixturenames", ()):
        return False
    named: Any = getattr(
        item, "_fixtureinfo", None
    )  # not public; a doctest has it, too
    for definition in reversed(getattr(named, "name2fixturedefs", {}).get("bench", ())):
        if definition.func.__module__ == __name__:
            return True
        if "bench" not in definition.argnames:  # the one that is nearest to the test
            return False
    return False


def _may_be_task_class(path: Path) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in MARKERS_OF_CLASSES)


def _may_hold_cases(nodeids: Sequence[str]) -> bool:
    return any(each.startswith("cases/") or _CASES_IN_NODEIDS(each) for each in nodeids)


_IS_RUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}-").match
"""How the folder of a run's workspaces is called, beside its file."""
_CASES_IN_NODEIDS = re.compile(r"/cases/|(^|/)cases\.py::").search
