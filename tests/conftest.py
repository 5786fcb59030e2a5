from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.helpers.portability import SYSTEMS, environment_of, pretended_system
from tests.helpers.reports import assert_valid_reports_in
from tests.helpers.runs import PytestRuns
from tests.helpers.warm_pytest import Switch

with suppress(ImportError):
    # `pytester` forgets the modules that a test imports, and NumPy warns when it is imported twice.
    import numpy as np  # noqa: F401 - see above

# An example that a busy machine ran slowly is no failure.
settings.register_profile("steady", settings(deadline=None))
settings.register_profile("few", settings(deadline=None, max_examples=20))
settings.load_profile("steady")

collect_ignore = ["benchmarks/accuracy/live"]
"""Projects that fail on purpose."""

_HERE: Final = Path(__file__).parent
_NIGHTLY: Final = "FAILURE_TAXONOMY_TESTS_NIGHTLY"
"""Set in the environment it does what `--nightly` does."""
_WHOLE_SUITE: Final = 3_000
"""How many tests are collected at least where the whole suite is run, also on the lowest versions."""
_SLOW_FOLDERS: Final = ("attacks", "e2e")
_BENCH_CASES: Final = "plugin/bench_cases"
"""Folders whose tests start one process after another."""
_TOGETHER: Final = (
    "contract/test_seed_scenarios.py",
    "e2e/test_bench_compare.py",
    "e2e/test_classify.py",
    "e2e/test_html_in_a_browser.py",
    "plugin/bench_cases/test_dask.py",
    "unit/history",
    "unit/report/test_ctrf.py",
)
"""Whose tests share what takes long to start, and so run on one worker."""

BREAKS_REPORTS: Final = "breaks_reports"
"""The pytest mark of a test that leaves a report which it has broken itself."""

_PYTHONS_OWN: Final = frozenset({"SIGPIPE", "SIGXFZ", "SIGXFSZ"})
"""What Python ignores for itself, and gives back to what it starts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare how much is run of what has very many cases, and from which seed."""
    group = parser.getgroup("attacks")
    group.addoption(
        "--attacks",
        choices=("some", "all"),
        default="some",
        help="run some of tests/attacks, as CI does, or all of it, which takes an hour; "
        "default: %(default)s",
    )
    group.addoption(
        "--attacks-seed",
        type=int,
        default=0,
        metavar="N",
        help="choose and make up the attacks from this seed; default: %(default)s",
    )
    parser.addoption(
        "--matrix",
        choices=("some", "all"),
        default="some",
        help="bring about each death of the fault matrix, and the rows of test_causes.py, in some "
        "configurations, as CI does, or in all of them; default: %(default)s",
    )
    parser.addoption(
        "--nightly",
        action="store_true",
        help="run all tests: those that are marked `nightly`, and of the slow folders not only half",
    )
    parser.addoption(
        "--fresh-pythons",
        action="store_true",
        help="start each run of pytest as a new process, not as a fork of one that has imported "
        "pytest; takes half as long again",
    )

    group = parser.getgroup("portability")
    group.addoption(
        "--as-on",
        choices=SYSTEMS,
        help="hide from the package and its tests what that system lacks",
    )
    group.addoption(
        "--without-posix",
        action="store_const",
        dest="as_on",
        const="windows",
        help="the same as --as-on=windows",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Start the same run anew where it is to be as on another system.

    What is hidden must be so before our plugin is imported, which was long ago in this process.
    """
    if config.getoption("numprocesses", default=None) and config.option.dist == "no":
        config.option.dist = "loadgroup"
    system = config.getoption("as_on")
    if system is None or pretended_system() is not None:
        return None
    params = config.invocation_params
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        return subprocess.call(
            [sys.executable, "-m", "pytest", *params.args],
            cwd=params.dir,
            env={**os.environ, **environment_of(system, Path(folder))},
        )
    return pytest.ExitCode.INTERRUPTED


_OF_A_CI_STEP: Final = (
    *("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_WORKSPACE"),
    "CI_PROJECT_DIR",
)
"""Where this suite is a step of a job on GitHub or GitLab, the runs inside of it are none: they
would annotate its page with the failures that they are made to have."""


def pytest_configure(config: pytest.Config) -> None:
    """Handle signals as in a shell's foreground, however the suite was started.

    `nohup`, cron, a script's background jobs and some CI runners ignore or block some of them, and
    what the tests start would inherit that. xdist starts its workers after this.
    """
    for name in _OF_A_CI_STEP:
        os.environ.pop(name, None)
    Switch.is_on &= not config.getoption("fresh_pythons")
    for number in signal.valid_signals():
        name = getattr(number, "name", "")
        if signal.getsignal(number) == signal.SIG_IGN and name not in _PYTHONS_OWN:
            is_interrupt = number == signal.SIGINT
            signal.signal(
                number, signal.default_int_handler if is_interrupt else signal.SIG_DFL
            )
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _nightly_of(items: Sequence[pytest.Item]) -> dict[pytest.Item, None]:
    """Return what is left to the night: what is marked so, and half of the slow folders' tests.

    The second only where the whole suite is run: who names a file wants all of it.
    """
    nightly = dict.fromkeys(
        item for item in items if item.get_closest_marker("nightly")
    )
    if len(items) < _WHOLE_SUITE:
        return nightly
    for path, of_file in groupby(items, key=lambda item: item.path):
        file = path.relative_to(_HERE)
        if file.is_relative_to(_BENCH_CASES) or file.parts[0] in _SLOW_FOLDERS:
            nightly |= dict.fromkeys([*of_file][1::2])
    return nightly


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark what takes long, skip what is about another system, and leave out what is nightly."""
    if not (config.getoption("nightly") or os.environ.get(_NIGHTLY)):
        nightly = _nightly_of(items)
        if nightly:
            config.hook.pytest_deselected(items=[*nightly])
            items[:] = [item for item in items if item not in nightly]
    absent = {"posix": sys.platform == "win32", "linux": sys.platform != "linux"}
    by_group = items[0].config.getoption("loadgroup", default=False) if items else False
    for path, of_file in groupby(items, key=lambda item: item.path):
        file = path.relative_to(_HERE)
        group = next((each for each in _TOGETHER if file.is_relative_to(each)), None)
        is_slow = file.is_relative_to(_BENCH_CASES) or file.parts[0] in _SLOW_FOLDERS
        depends = file.parts[0] == "plugin" and not file.is_relative_to(_BENCH_CASES)
        for item in of_file:
            if by_group and group is not None:
                item.add_marker(pytest.mark.xdist_group(group))
            # Each starts three Pythons.
            on_workers = "xdist" in f"{file.name} {item.name}" or (
                file.parts[0] == "plugin" and "workers" in item.name.partition("[")[0]
            )
            if is_slow or on_workers:
                item.add_marker("slow")
            if on_workers and depends:
                item.add_marker("versions")
            for mark in item.iter_markers():
                if absent.get(mark.name):
                    item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check every report that a test has left, so that none can be read unchecked."""
    result = yield
    if item.get_closest_marker(BREAKS_REPORTS) is None:
        for folder in _folders_of(item):
            assert_valid_reports_in(folder)
    return result


def _folders_of(item: pytest.Item) -> Iterator[Path]:
    fixtures = getattr(item, "funcargs", {})
    if "tmp_path" in fixtures:
        yield fixtures["tmp_path"]
    if "pytester" in fixtures:
        yield fixtures["pytester"].path


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Start runs of pytest, each in a process of its own, in an empty folder."""
    return PytestRuns(pytester, monkeypatch)


@pytest.fixture
def nothing_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each run of the test import our modules itself, at the moment when it needs them."""
    monkeypatch.setattr(Switch, "with_our_modules", False)
