"""What an experiment needs is in the report of each run that failed, however it ended.

That is the order in which its tests started, its seeds, its commit, and what was installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.survive.machine import list_distributions
from pytest_failure_taxonomy.taxonomy.order import digest_of, read_ranges
from tests.helpers.runs import REPORT, PytestRuns

POSIX: Final = pytest.mark.skipif(
    sys.platform == "win32", reason="needs deaths by signal"
)
TESTS: Final = """\
import os, signal, time
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(12))
def test_it(number):
    Path("started").open("a").write(f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')} {number}\\n")
    if number == 7:
        BODY
"""
NODEIDS: Final = [f"test_it.py::test_it[{number}]" for number in range(12)]
SHUFFLED: Final = """\
def pytest_addoption(parser):
    parser.addoption("--seed", dest="randomly_seed", default="default")

def pytest_configure(config):
    if config.option.randomly_seed == "default":
        config.option.randomly_seed = 41

def pytest_collection_modifyitems(items):
    items.reverse()
    del items[0]
"""
"""A plugin that names its seed as pytest-randomly does, reorders, and deselects."""


def write(runs: PytestRuns, body: str, **files: str) -> None:
    """Write tests of which the eighth does this."""
    named = {f"{name}.py": content for name, content in files.items()}
    runs.write({"test_it.py": TESTS.replace("BODY", body), **named})


def order_in(
    runs: PytestRuns, report: dict[str, Any], nodeids: list[str]
) -> dict[str, Any]:
    """Return the order in a report, once it agrees with what the tests themselves have written."""
    order: dict[str, Any] = report["order"]
    assert (order["tests"], order["digest"]) == (len(nodeids), digest_of(nodeids))
    assert not order["truncated"]
    lines = (runs.path / "started").read_text("utf-8").splitlines()
    started: dict[str, list[str]] = {}
    for worker, _, number in (line.partition(" ") for line in lines):
        started.setdefault(worker, []).append(f"test_it.py::test_it[{number}]")
    told = {
        worker: [nodeids[number] for number in read_ranges(text)]
        for worker, text in order["workers"].items()
    }
    assert told == started
    return order


def test_a_failing_run(runs: PytestRuns) -> None:
    """Without xdist the only process is called `main`."""
    write(runs, "assert 0")
    order = order_in(runs, runs.run().report, NODEIDS)
    assert order["workers"] == {"main": "0-11"}
    assert (order["seeds"], order["distribution"]) == ({}, None)


def test_a_passing_run_has_none(runs: PytestRuns) -> None:
    """Nobody has to repeat it."""
    write(runs, "pass")
    assert runs.run().report["order"] is None


def test_a_run_that_was_shuffled(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are places after all plugins have reordered and deselected; seeds are kept."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    write(runs, "assert 0", conftest=SHUFFLED)
    order = order_in(runs, runs.run().report, NODEIDS[10::-1])
    assert order["workers"] == {"main": "0-10"}
    assert order["seeds"] == {"hash": 7, "randomly": 41}


@pytest.mark.parametrize("seed", ["random", ""])
def test_a_hash_seed_that_is_no_number(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    """A random one can't be known."""
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    write(runs, "assert 0")
    assert runs.run().report["order"]["seeds"] == {}


def test_reruns_do_not_count(runs: PytestRuns) -> None:
    """A test that is run again keeps its first place."""
    write(runs, "assert 0")
    report = runs.run("--reruns=2", plugins=["rerunfailures"]).report
    assert report["order"]["workers"] == {"main": "0-11"}


@pytest.mark.parametrize("mode", ["load", "worksteal", "loadfile"])
def test_workers(runs: PytestRuns, mode: str) -> None:
    """Each worker has its own order, in numbers of the one list."""
    write(runs, "assert 0", conftest=SHUFFLED)
    report = runs.run("-n", "2", "--dist", mode, plugins=["xdist"]).report
    order = order_in(runs, report, NODEIDS[10::-1])
    assert (order["distribution"], order["seeds"]) == (mode, {"randomly": 41})


def test_each_worker_runs_all(runs: PytestRuns) -> None:
    """With `--dist each` the numbers of all workers are in the list of one."""
    write(runs, "assert 0")
    report = runs.run("-n", "2", "--dist", "each", plugins=["xdist"]).report
    order = order_in(runs, report, NODEIDS)
    assert order["workers"] == {"gw0": "0-11", "gw1": "0-11"}


@POSIX
def test_a_run_that_was_killed(runs: PytestRuns) -> None:
    """Order is in the record as it happens, with the seeds."""
    write(runs, "os.kill(os.getpid(), signal.SIGKILL)", conftest=SHUFFLED)
    runs.run_unchecked()
    order = order_in(runs, runs.wait_for_completion(), NODEIDS[10::-1])
    assert (order["workers"], order["seeds"]) == ({"main": "0-3"}, {"randomly": 41})


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["load", "each"])
def test_a_controller_that_was_killed(runs: PytestRuns, mode: str) -> None:
    """What it had not heard of is in the records of its workers."""
    write(runs, "os.kill(os.getppid(), signal.SIGKILL); time.sleep(1)")
    runs.run_unchecked("-n", "2", "--dist", mode, plugins=["xdist"])
    report = runs.wait_for_completion()
    order = report["order"]
    assert (order["tests"], order["distribution"]) == (12, mode)
    assert order["digest"] == digest_of(NODEIDS)
    told = {worker: read_ranges(text) for worker, text in order["workers"].items()}
    started = [
        line.split() for line in (runs.path / "started").read_text("utf-8").splitlines()
    ]
    for (
        worker,
        numbers,
    ) in told.items():  # it may have ended before the test did anything, or later
        written = [int(number) for name, number in started if name == worker]
        both = min(len(written), len(numbers))
        assert written[:both] == numbers[:both]
    assert any(numbers[-1] == 7 for numbers in told.values())


@POSIX
def test_a_worker_that_dies(runs: PytestRuns) -> None:
    """The test that it died on is its last one; another worker takes the rest."""
    write(runs, "os.kill(os.getpid(), signal.SIGKILL)")
    report = runs.run("-n", "2", plugins=["xdist"]).report
    order = order_in(runs, report, NODEIDS)
    (dead,) = [each["id"] for each in report["workers"] if each["crashed_on"]]
    assert read_ranges(order["workers"][dead])[-1] == 7


def test_a_secret_in_a_node_id(runs: PytestRuns) -> None:
    """The digest is of the real node ids, which the report has not."""
    secret = "ghp_" + "a1B2" * 9
    runs.write({"test_it.py": f"import pytest\n@pytest.mark.parametrize('x', ['{secret}'])\n"
                              "def test_it(x): assert 0\n"})  # fmt: skip
    report = runs.run().report
    assert secret not in str(report)
    assert report["order"]["digest"] == digest_of([f"test_it.py::test_it[{secret}]"])
    assert report["order"]["workers"] == {"main": "0"}


def with_repository(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository of the tests; return a file to which each call of git adds a line."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    made = (
        "git init -q -b topic . && git config user.email a@example.org && git config user.name a"
        " && git add test_it.py && git commit -q -m a"
    )
    assert os.system(f"cd {runs.path} && {made}") == 0  # noqa: S605 - words of ours
    program, calls = runs.path / "bin" / "git", runs.path / "calls"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho >> {calls}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return calls


def assert_looked_at(environment: dict[str, Any]) -> None:
    """Check that an environment has its commit and what is installed."""
    git, installed = environment["git"], environment["distributions"]
    assert (len(git["commit"]), git["branch"], git["dirty"]) == (40, "topic", False)
    assert f"pytest-{pytest.__version__}" in installed
    assert installed == sorted(installed)
    assert {*environment["plugins"]} - {*installed} <= {"pytest-failure-taxonomy-0.1.0"}


@POSIX
def test_commit_and_distributions(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked at where something failed; a run that passed starts no git."""
    write(runs, "assert 0")
    calls = with_repository(runs, monkeypatch)
    environment = runs.run("-k", "not 7").report["environment"]
    assert (environment["git"], environment["distributions"]) == (None, None)
    assert not calls.exists()
    assert_looked_at(runs.run().report["environment"])
    assert calls.exists()


@POSIX
def test_commit_of_a_run_that_was_killed(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has seen its death looks at them; who comes later does not, for they may have changed."""
    write(runs, "os.kill(os.getpid(), signal.SIGKILL)")
    with_repository(runs, monkeypatch)
    runs.run_unchecked()
    assert_looked_at(runs.wait_for_completion()["environment"])
    runs.run_unchecked("-o", "failure_taxonomy_watcher=false")
    assert main(["finalize", str(runs.path / REPORT)]) == 1
    environment = runs.read_report()["environment"]
    assert (environment["git"], environment["distributions"]) == (None, None)


def test_distributions_are_told_by_the_names_of_folders(tmp_path: Path) -> None:
    """Nothing in them is read, and of two with one name the first on the path counts."""
    for name in (
        *(
            "a/numpy-2.3.1.dist-info",
            "a/jaraco.text-4.0.dist-info",
            "a/zope_event-5.0.dist-info",
        ),
        *(
            "b/NumPy-1.0.dist-info",
            "b/old_one-1.0-py3.11.egg-info",
            "b/linked.egg-info",
        ),
        *("b/no-version.txt", "b/torch-2.6.0+cu124.dist-info"),
    ):
        (tmp_path / name).mkdir(parents=True)
    folders = [str(tmp_path / name) for name in ("a", "none", "b")]
    assert list_distributions(folders) == (
        *(
            "jaraco.text-4.0",
            "numpy-2.3.1",
            "old-one-1.0",
            "torch-2.6.0+cu124",
            "zope-event-5.0",
        ),
    )


def test_where_pytest_was_started(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is told where it is not the root directory."""
    write(runs, "assert 0")
    around = runs.run().report["surroundings"]
    assert (around["folder"], around["path"]) == (None, ".")
    (runs.path / "inner").mkdir()
    monkeypatch.chdir(runs.path / "inner")
    runs.run_unchecked(
        "--failure-taxonomy-report=../failure-report.json", "../test_it.py"
    )
    assert runs.read_report()["surroundings"]["folder"] == str(runs.path / "inner")
