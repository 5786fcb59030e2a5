"""Which releases are put back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.questions import states_of
from pytest_failure_taxonomy.history.recording import amendment_of
from pytest_failure_taxonomy.history.versions import Change
from pytest_failure_taxonomy.prove.environment import (
    OldReleases,
    Source,
    find_in_history,
    why_not_put_back,
)
from pytest_failure_taxonomy.prove.experiment import Experiments, OutOfTime, Setup
from pytest_failure_taxonomy.prove.recorded import Task
from pytest_failure_taxonomy.report.amend import amend
from tests.helpers.past_runs import a_report


@pytest.mark.parametrize(
    ("name", "new", "old", "why"),
    [
        ("no-such-thing", "2.0", "1.0", ""),
        ("no-such-thing", None, "1.0.post1", ""),
        ("no-such-thing", "2.0", "1!2.0rc1+cu118", ""),
        ("no-such-thing", "2.0", None, "it was added since, and can't be hidden"),
        ("python", "3.13.0", "3.12.1", "it needs another environment"),
        ("--index-url", "2.0", "1.0", "it is no release"),
        ("a", "2.0", "1.0 --index-url=http://x", "it is no release"),
        ("a", "2.0", "1.0;b", "it is no release"),
        ("a", "2.0", "1.0\n", "it is no release"),
        ("a @ http://x/", "2.0", "1.0", "it is no release"),
        ("../a", "2.0", "1.0", "it is no release"),
        ("a[b]", "2.0", "1.0", "it is no release"),
        ("a", "2.0", "../1.0", "it is no release"),
        ("a", "2.0", "*", "it is no release"),
        ("", "2.0", "1.0", "it is no release"),
        (
            "pytest-failure-taxonomy",
            "2.0",
            "1.0",
            "the experiments need the installed one",
        ),
    ],
)
def test_what_is_put_back(
    name: str, new: str | None, old: str | None, why: str
) -> None:
    """Anybody may have written a report: it names a release of a distribution, or nothing."""
    assert why_not_put_back(Change(name=name, new=new, old=old)) == why


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, ""),
        ('{"url": "file:///paper.whl", "archive_info": {}}', ""),
        (
            '{"url": "file:///paper", "dir_info": {"editable": true}}',
            "it is not installed from an index",
        ),
        (
            '{"url": "https://example.org/paper", "vcs_info": {"vcs": "git"}}',
            "it is not installed from an index",
        ),
    ],
)
def test_where_it_was_installed_from(
    source: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index has another `paper`, or none, where a folder's own was installed."""
    metadata = tmp_path / "paper-2.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: paper\nVersion: 2.0\n")
    if source is not None:
        (metadata / "direct_url.json").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert why_not_put_back(Change(name="paper", new="2.0", old="1.0")) == why


def test_what_was_installed_is_that_of_the_last_pass(tmp_path: Path) -> None:
    """Another run may have differed from now in the same first distributions."""
    names = ("a", "b", "c", "d", "e", "f")
    then = tuple(f"{name}-1.0" for name in names)
    report = a_report(3, test_a="failed", installed=tuple(f"{n}-2.0" for n in names))
    url = str(tmp_path / "history.db")
    with open_history(url) as history:
        history.add(a_report(1, test_a="passed", installed=then))
        history.add(a_report(2, test_b="failed", installed=(*then[:-1], "f-1.5")))
        states = states_of(history, report)
    report = amend(report, amendment_of(report, states, {}))
    source = Source(good=None, history=url, find_links=(), offline=True)
    installed = find_in_history(report, source)(report.causes[0])
    assert installed is not None
    assert [*installed][:-1] == [*then]


def test_an_installer_that_is_ended_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next cause would take it for whole: pip leaves alone what is there."""
    setup = Setup(args=(), folder=tmp_path, rootdir=tmp_path)
    experiments = Experiments(setup, until=0.0, limit_seconds=0.0)
    experiments.folder = tmp_path
    task = Task(
        report=a_report(1, test_a="failed"),
        tell=print,
        save=print,
        budget_seconds=0.0,
    )
    source = Source(good=None, history=None, find_links=(), offline=True)
    releases = OldReleases(experiments, source, task)
    folder = tmp_path / "site-paper==1.0"

    def end_early(*_: object, **__: object) -> None:
        (folder / "paper").mkdir(parents=True)
        raise subprocess.TimeoutExpired("pip", 0.0)

    monkeypatch.setattr(subprocess, "run", end_early)
    with pytest.raises(OutOfTime):
        releases.install(Change(name="paper", old="1.0", new="2.0"))
    assert not folder.exists()
