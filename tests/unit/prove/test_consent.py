"""What of a report's command needs somebody's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.prove.consent import doubts_about
from pytest_failure_taxonomy.prove.recorded import setup_of
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.survive.machine import describe_environment
from pytest_failure_taxonomy.taxonomy.evidence import Surroundings
from tests.helpers.reports import make_context, make_failure, make_report, make_run

HARMLESS: Final = (
    "",
    "tests tests/test_it.py::test_it[a..b] test_it.py::test_it[/etc/x]",
    "-x -q -vv -s --maxfail=1 --maxfail 2 -n 2 -n4 --dist=loadfile --tb=short -ra",
    "-k name -kname -xvk name -m slow --deselect test_it.py::test_b --ignore=old --lf",
    "-p no:randomly -pno:cacheprovider -p failure_taxonomy -p xdist --randomly-seed=3",
    "-W error -Wignore::DeprecationWarning --timeout 5 --cov=shop --log-level DEBUG",
    # What is written is left out, wherever it would go.
    "--junitxml=/tmp/junit.xml --html ../page.html --log-file=run.log --cov-report xml:/tmp/c.xml",
    "--why --why-report=/tmp/report.json --why-history /tmp/h.db -- tests",
)
DOUBTFUL: Final = (
    ("-p evil", "-p"),
    ("-pevil", "-pevil"),
    ("-p xdistevil", "-p"),
    ("-p pytester.evil", "-p"),
    ("-xp evil", "-xp"),
    ("-qcother.ini", "-qcother.ini"),
    ("-c other.ini", "-c"),
    ("-o log_file=run.log", "-o"),
    ("-olog_file=run.log", "-olog_file=run.log"),
    ("--override-ini=pythonpath=evil", "--override-ini=pythonpath=evil"),
    ("--rootdir=sub", "--rootdir=sub"),
    ("--confcutdir sub", "--confcutdir"),
    ("--import-mode=importlib", "--import-mode=importlib"),
    ("--basetemp=tests", "--basetemp=tests"),
    ("--debug=run.log", "--debug=run.log"),
    ("--pdbcls=evil:Pdb", "--pdbcls=evil:Pdb"),
    ("--cov-config=evil.ini", "--cov-config=evil.ini"),
    ("--pyargs evil", "--pyargs"),
    ("--nobody-knows=1", "--nobody-knows=1"),
    ("-W error::evil.Warning", "-W"),
    ("-Werror::evil.Warning", "-Werror::evil.Warning"),
    ("-Z", "-Z"),
    ("/other", "/other"),
    ("/other/test_it.py::test_it", "/other/test_it.py::test_it"),
    ("../other", "../other"),
    ("tests/../../other", "tests/../../other"),
    ("tests/..", "tests/.."),
    ("..", ".."),
    ("C:/other", "C:/other"),
    ("@words.txt", "@words.txt"),
    ("--ignore=/etc", "--ignore=/etc"),
    ("--ignore=../other", "--ignore=../other"),
    ("-k/etc", "-k/etc"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doubts(
    args: list[str], rootdir: Path, folder: Path | None = None, **more: Any
) -> list[str]:
    """Return the doubts about a report of this machine with these arguments."""
    context = make_context(
        args=tuple(args),
        rootdir=str(rootdir),
        surroundings=Surroundings(folder=None if folder is None else str(folder)),
        **{"environment": describe_environment("9.0.0"), **more},
    )
    made = make_report(make_run(failures=(make_failure(),)), context=context)
    report = decode_report(made)
    return doubts_about(report, setup_of(report))


def test_what_goes_without_saying(folder: Path) -> None:
    """Tests of the folder, and options that neither load code nor name files elsewhere."""
    assert {args: doubts(args.split(), folder) for args in HARMLESS} == {
        args: [] for args in HARMLESS
    }


def test_what_does_not(folder: Path) -> None:
    """It is named, and nothing else of the command is."""
    for args, word in DOUBTFUL:
        assert doubts(["-q", *args.split(), "tests"], folder) == [word], args
    assert doubts(["-W", "error\n::evil.Warning"], folder) == ["-W"]
    assert doubts(["tests\n/etc", "-o\n"], folder) == ["-o\n"]


def test_a_folder_in_front_of_the_path(folder: Path) -> None:
    """A report may name a folder of which modules would be imported before all others."""
    (folder / "tools").mkdir()
    context = make_context(
        rootdir=str(folder),
        surroundings=Surroundings(path="tools"),
        environment=describe_environment("9.0.0"),
    )
    made = make_report(make_run(failures=(make_failure(),)), context=context)
    report = decode_report(made)
    (doubt,) = doubts_about(report, setup_of(report))
    assert doubt == f"it puts {folder / 'tools'} in front of sys.path"


def test_what_was_run_elsewhere(folder: Path) -> None:
    """In a folder that is not the current one or below it, or is gone; or on another machine."""
    (folder / "shop").mkdir()
    assert doubts([], folder / "shop") == doubts([], folder, folder / "shop") == []
    gone = Path("/no/such/folder/shop")
    for rootdir, started_in in (
        (folder.parent, None),
        (folder, folder.parent),
        (Path("/"), None),
        (gone, None),
        (gone, folder),
    ):
        (doubt,) = doubts([], rootdir, started_in)
        assert doubt == f"its root directory is {rootdir}"
    (doubt,) = doubts([], folder, environment=make_context().environment)
    assert doubt == "its machine is Linux-6.18-x86_64"
