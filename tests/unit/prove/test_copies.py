"""What a run has left, and copies without it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from pytest_failure_taxonomy.prove import copies, recorded
from pytest_failure_taxonomy.prove.copies import Copies, Leftovers, leftovers_of
from pytest_failure_taxonomy.prove.experiment import Experiments, Outcome, Setup, Victim
from pytest_failure_taxonomy.prove.recorded import Repeat
from pytest_failure_taxonomy.prove.state import take_files
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_failure, make_report_value, make_run

VICTIM = Victim(
    nodeid="test_it.py::test_it", fingerprints=frozenset(), endings=frozenset()
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a test and what doesn't belong to it."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "test_it.py").write_text("def test_it(): pass\n")
    (folder / "data").mkdir()
    (folder / "data" / "left.txt").write_text("1")
    (folder / "link").symlink_to("/etc/hostname")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").touch()
    (folder / "__pycache__").mkdir()
    return folder


def setup_in(folder: Path) -> Setup:
    """Return how pytest runs in a folder."""
    return Setup(args=(), folder=folder, rootdir=folder)


class Looking(Experiments):
    """Runs nothing, and remembers what it was in the copy."""

    names: tuple[str, ...] = ()

    def elsewhere(self, setup: Setup) -> Experiments:
        """Return itself, in the copy."""
        self.setup = setup
        return self

    def run(self, *_: object, **__: object) -> Outcome:
        """Remember the files."""
        folder = self.setup.folder
        files = (path for path in folder.rglob("*") if not path.is_dir())
        self.names = tuple(
            sorted(path.relative_to(folder).as_posix() for path in files)
        )
        return Outcome(result="passed", words="", seconds=0.0)


def test_copies_have_no_more_than_the_project(project: Path) -> None:
    """Links stay links, environments and caches stay out, and the user's folder stays."""
    experiments = Looking(
        setup_in(project), until=time.monotonic() + 60, limit_seconds=9
    )
    leftovers = Leftovers(names=("data/left.txt",))
    before = take_files(project)
    repeat = Repeat(victim=VICTIM)
    with Copies(experiments, leftovers) as made:
        assert made.why_not == ""
        made.run(repeat, "copy")
        assert "data/left.txt" in experiments.names
        made.run(repeat, "clean copy")
        assert {*experiments.names} == {"link", "test_it.py"}
        assert not made.has("data/left.txt")
        made.run(repeat, "clean copy", ["data/left.txt"])
        assert made.has("data/left.txt")
        place = experiments.setup.folder
        assert place.name == project.name
    assert not place.exists()
    assert take_files(project) == before


@pytest.mark.posix("sockets in a folder")
def test_a_project_that_is_too_big_is_not_copied(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what is no file."""
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(project)
        server.bind("socket")
        monkeypatch.setattr(copies, "_MOST_BYTES", 3)
        experiments = Looking(setup_in(project), until=0.0, limit_seconds=9)
        with Copies(experiments, Leftovers()) as made:
            assert made.why_not == f"{project} is too big to be copied"
        monkeypatch.undo()
        experiments = Looking(setup_in(project), until=0.0, limit_seconds=9)
        with Copies(experiments, Leftovers()) as made:
            assert made.why_not == ""


def test_what_a_run_has_left(project: Path) -> None:
    """It was written while the run lasted, or since then if it is no source."""
    report = make_report_value(make_run(failures=(make_failure(),)))
    report = replace(report, run=replace(report.run, duration_seconds=10.0))
    at = recorded.time_of(report).timestamp()
    for name, seconds in (("test_it.py", 90), ("data/left.txt", 5), ("link", 90)):
        os.utime(project / name, (at + seconds,) * 2, follow_symlinks=False)
    leftovers = leftovers_of(report, take_files(project), project)
    assert leftovers.names == ("data/left.txt", "link")
    assert (leftovers.tracked, leftovers.may_be_edited) == ((), False)
