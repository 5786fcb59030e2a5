"""Odd surroundings: wherever pytest runs, it does so with us as without us."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import REPORT, ChildRun, run_plain_pytest, run_pytest
from tests.helpers.reports import read_report
from tests.helpers.runs import comparable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX"),
]

SUITE: Final = """\
import os, sys
def test_passes(): print("out"); print("err", file=sys.stderr)
def test_fails(): assert {"Zoë": 1} == {}
"""
NOBODY: Final = 65534

PREPARE: Final = """\
import os, resource, sys
def limit(name, number): resource.setrlimit(getattr(resource, name), (number, number))
{body}
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A program that does something to its own process, and becomes the one that it is given."""

AS_NOBODY: Final = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=+dac_read_search",
    "--",
)
"""Become another user who may read everything: Python itself can lie where no other user gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is odd about the process that pytest runs in."""

    env: Mapping[str, str | None] = field(default_factory=dict)
    prepare: str = ""
    """Done by the process before it becomes pytest."""
    folder: str = "checkout"
    args: Sequence[str] = ()
    as_nobody: bool = False
    """Started by root, it becomes another user's process."""
    owner: int = NOBODY
    """Of the folder, where it is another user's process."""


ODD: Final[dict[str, Surroundings]] = {
    "locale-c": Surroundings(env={"LC_ALL": "C", "LANG": "C"}),
    "locale-c-ascii": Surroundings(
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ),
    "locale-unknown": Surroundings(env={"LC_ALL": "xx_YY.nothing", "LANG": "xx"}),
    "utf8-mode": Surroundings(env={"PYTHONUTF8": "1"}),
    "io-encoding-ascii": Surroundings(env={"PYTHONIOENCODING": "ascii"}),
    "no-home": Surroundings(env={"HOME": None, "USER": None, "LOGNAME": None}),
    "home-not-there": Surroundings(env={"HOME": "/there/is/none"}),
    "no-tmpdir": Surroundings(env={"TMPDIR": None}),
    "tmpdir-not-there": Surroundings(env={"TMPDIR": "/there/is/none"}),
    "tmpdir-is-a-file": Surroundings(env={"TMPDIR": "/etc/hostname"}),
    "tmpdir-read-only": Surroundings(env={"TMPDIR": "/proc"}),
    "no-path": Surroundings(env={"PATH": None}),
    "empty-path": Surroundings(env={"PATH": ""}),
    "nothing-at-all": Surroundings(
        prepare="os.environ.clear()", args=("-p", "no:cacheprovider")
    ),
    "no-bytecode": Surroundings(env={"PYTHONDONTWRITEBYTECODE": "1"}),
    "bytecode": Surroundings(env={"PYTHONDONTWRITEBYTECODE": None}),
    "bytecode-elsewhere": Surroundings(env={"PYTHONPYCACHEPREFIX": "/there/is/none"}),
    "hash-seed": Surroundings(env={"PYTHONHASHSEED": "0"}),
    "optimized": Surroundings(env={"PYTHONOPTIMIZE": "2"}),
    "dev-mode": Surroundings(env={"PYTHONDEVMODE": "1"}),
    "unbuffered": Surroundings(env={"PYTHONUNBUFFERED": "1"}),
    "no-user-site": Surroundings(env={"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": None}),
    "tracemalloc": Surroundings(
        env={"PYTHONTRACEMALLOC": "5", "PYTHONMALLOC": "debug"}
    ),
    "faulthandler": Surroundings(env={"PYTHONFAULTHANDLER": "1"}),
    "warnings-are-errors": Surroundings(env={"PYTHONWARNINGS": "error"}),
    "one-column": Surroundings(env={"COLUMNS": "1"}),
    "no-columns": Surroundings(env={"COLUMNS": "0"}),
    "columns-rubbish": Surroundings(env={"COLUMNS": "wide"}),
    "many-columns": Surroundings(env={"COLUMNS": "10000"}),
    "no-color": Surroundings(env={"NO_COLOR": "1"}),
    "forced-color": Surroundings(env={"FORCE_COLOR": "1"}),
    "py-colors": Surroundings(env={"PY_COLORS": "1", "TERM": "dumb"}),
    "dumb-terminal": Surroundings(env={"TERM": "dumb"}),
    "no-terminal": Surroundings(env={"TERM": None}),
    "time-zone": Surroundings(env={"TZ": "Pacific/Kiritimati"}),
    "time-zone-rubbish": Surroundings(env={"TZ": ":/etc/hostname"}),
    "ci": Surroundings(
        env={"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "1"}
    ),
    "ci-rubbish": Surroundings(
        env={"GITHUB_ACTIONS": "true", "GITHUB_SHA": "\u202e" * 9_000}
    ),
    "not-utf-8": Surroundings(
        prepare="os.environb[b'GITHUB_JOB'] = b'\\xff\\xfe'; os.environ['GITHUB_ACTIONS'] = 'true'"
    ),
    "supervisor-rubbish": Surroundings(
        prepare="os.environ['FAILURE_TAXONOMY_SUPERVISOR'] = '%d:/there/is/none' % os.getppid()"
    ),
    "supervisor-not-a-number": Surroundings(
        env={"FAILURE_TAXONOMY_SUPERVISOR": "x:\udcff"}
    ),
    "stdin-closed": Surroundings(prepare="os.close(0)"),
    "stderr-closed": Surroundings(prepare="os.close(2)"),
    "stderr-full": Surroundings(
        prepare="os.dup2(os.open('/dev/full', os.O_WRONLY), 2)"
    ),
    "descriptors-inherited": Surroundings(
        prepare="for n in range(50): os.set_inheritable(os.open('/dev/null', 0), True)"
    ),
    "folder-with-spaces": Surroundings(folder="a check out"),
    "folder-not-ascii": Surroundings(folder="Zoë's 漢字 🐍"),
    "folder-with-a-newline": Surroundings(folder="one\ntwo"),
    "folder-with-an-escape": Surroundings(folder="red\x1b[31m"),
    "folder-not-utf-8": Surroundings(folder="lone\udcff"),
    "folder-with-a-percent": Surroundings(folder="%s {0} $HOME ::error::"),
    "folder-like-an-option": Surroundings(folder="--failure-taxonomy"),
    "folder-deep": Surroundings(folder="/".join(["d" * 200] * 12)),
    "umask-all": Surroundings(
        prepare="os.umask(0o777)", args=("-p", "no:cacheprovider")
    ),
    "umask-none": Surroundings(prepare="os.umask(0)"),
    "few-descriptors": Surroundings(prepare="limit('RLIMIT_NOFILE', 32)"),
    "very-few-descriptors": Surroundings(prepare="limit('RLIMIT_NOFILE', 16)"),
    "many-descriptors": Surroundings(
        prepare="hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; limit('RLIMIT_NOFILE', hard)"
    ),
    "small-stack": Surroundings(prepare="limit('RLIMIT_STACK', 256 * 1024)"),
    "no-core": Surroundings(prepare="limit('RLIMIT_CORE', 0)"),
    "no-processes": Surroundings(as_nobody=True, prepare="limit('RLIMIT_NPROC', 1)"),
    "little-memory": Surroundings(prepare="limit('RLIMIT_AS', 400 * 1024**2)"),
    "no-signals": Surroundings(
        prepare="import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    ),
    "ignored-signals": Surroundings(
        prepare="import signal\n"
        "for n in (1, 2, 3, 10, 12, 13, 15, 17): signal.signal(n, signal.SIG_IGN)"
    ),
    "own-session": Surroundings(prepare="os.setsid()"),
    "another-user": Surroundings(as_nobody=True),
    "read-only-for-another-user": Surroundings(as_nobody=True, owner=0),
    "no-home-no-tmpdir-read-only": Surroundings(
        as_nobody=True, owner=0, env={"HOME": None, "TMPDIR": "/there/is/none"}
    ),
}


def run_both(folder: Path, odd: Surroundings, *args: str) -> tuple[ChildRun, ChildRun]:
    """Run pytest without us and with us in the same surroundings."""
    place = folder / odd.folder
    place.mkdir(parents=True)
    (place / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (place / "test_it.py").write_text(SUITE, "utf-8")
    launcher = [sys.executable, "-I", "-S", "-c", PREPARE.format(body=odd.prepare)]
    if odd.as_nobody:
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            pytest.skip("needs root and setpriv")
        launcher = [*AS_NOBODY, *launcher]
        os.chown(place, odd.owner, odd.owner)
    given: dict[str, Any] = {
        "env": {"LANG": "C.UTF-8", **odd.env},
        "launcher": launcher,
    }
    plain = run_plain_pytest(place, *args, **given)
    return plain, run_pytest(place, *args, **given)


def find_report(run: ChildRun) -> Path:
    """Return where the report is: in its place, or where the last line says."""
    if (run.folder / REPORT).exists():
        return run.folder / REPORT
    said = re.findall(r"report: (/.*?\.json)", run.stdout)
    assert said, run.stdout + run.stderr
    return Path(said[-1])


@pytest.mark.attack("odd", ODD, some=6)
def test_pytest_in_odd_surroundings(tmp_path: Path, odd: Surroundings) -> None:
    """Exit status and output are those of a run without us, but for our lines at the end; and the
    report is where it should be, or where these lines say.
    """
    plain, run = run_both(tmp_path, odd)
    assert run.status == plain.status, run.stdout + run.stderr
    for ours, theirs in ((run.stdout, plain.stdout), (run.stderr, plain.stderr)):
        expected = list(comparable(theirs.splitlines()))
        assert list(comparable(ours.splitlines()))[: len(expected)] == expected
    assert "inside pytest-failure-taxonomy" not in run.stdout + run.stderr
    path = find_report(run)
    report = read_report(path)
    assert (report["completeness"], report["exit"]["code"]) == ("full", plain.status)
    if path.parent != run.folder:
        path.unlink()
    assert [each.name for each in run.folder.glob(f".{REPORT}*")] == []


@pytest.mark.attack("odd", ODD, some=1)
def test_workers_in_odd_surroundings(tmp_path: Path, odd: Surroundings) -> None:
    """The same with xdist, whose output is in no order."""
    plain, run = run_both(tmp_path, odd, "-p", "xdist", "-n", "2")
    assert (run.status, run.outcome) == (plain.status, plain.outcome), (
        run.stdout + run.stderr
    )
    assert "inside pytest-failure-taxonomy" not in run.stdout + run.stderr
    path = find_report(run)
    assert read_report(path)["exit"]["code"] == plain.status
    if path.parent != run.folder:
        path.unlink()
