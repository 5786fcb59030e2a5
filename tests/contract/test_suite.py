"""The suite itself: however it is started, its tests find the same process."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.fuzz import NAMES
from tests.attacks.targets import TARGETS
from tests.helpers.children import run_child, run_plain_pytest
from tests.helpers.warm_pytest import Switch

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHONS_OWN: Final = frozenset({"SIGPIPE", "SIGXFZ", "SIGXFSZ"})

STARTED_ODDLY: Final = """\
import os, signal, sys
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_signals_are_what_a_shell_gives() -> None:
    """No signal is ignored or blocked here, nor in what is started from here."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ignored = {
        signal.Signals(number).name
        for number in signal.valid_signals()
        if signal.getsignal(number) == signal.SIG_IGN
    }
    assert ignored <= PYTHONS_OWN
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    probe = (
        "import signal; print([int(n) for n in signal.valid_signals() "
        "if signal.getsignal(n) == signal.SIG_IGN and n.name not in "
        f"{sorted(PYTHONS_OWN)}], signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    )
    child = run_child(ROOT, [sys.executable, "-S", "-c", probe])
    assert child.stdout.strip() == "[] set()", child.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.skipif("SUITE_STARTED_ODDLY" in os.environ, reason="this is the inner run")
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_signals_that_the_suite_is_started_without(workers: tuple[str, ...]) -> None:
    """`nohup`, cron and some CI runners ignore signals: the suite runs as in a shell all the same,
    and so do xdist's workers.
    """
    test = f"{Path(__file__).relative_to(ROOT)}::{test_signals_are_what_a_shell_gives.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = run_child(
        ROOT,
        [sys.executable, "-S", "-c", STARTED_ODDLY, *command, *workers, test],
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None, "SUITE_STARTED_ODDLY": "1"},
    )
    assert run.status == 0, run.stdout + run.stderr
    assert run.outcome == "1 passed"


ON_CONTROLLER: Final = """\
import os, signal
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["CONTROLLER"] = str(os.getpid())
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda *_: None)
"""
ON_WORKERS: Final = """\
import json, os, signal, sys
from pathlib import Path

SIGNALS = signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2

def test_facts():
    name = os.environ["PYTEST_XDIST_WORKER"]
    facts = {
        "forked": "-c" not in sys.orig_argv,
        "a child": os.environ["CONTROLLER"] == str(os.getppid()) != str(os.getpid()),
        "folder": os.getcwd(),
        "path": sys.path,
        "argv": sys.argv,
        "main": sys.modules["__main__"].__name__,
        "signals": [str(signal.getsignal(n)) for n in SIGNALS],
        "descriptors": sorted(os.listdir("/dev/fd")),
        "stdin": os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev,
        "writes bytecode": sys.dont_write_bytecode,
        "stderr": (sys.__stderr__.fileno(), sys.__stderr__.errors),
        "modules": sorted(m for m in sys.modules if m.partition(".")[0] in ("xdist", "test_it")),
    }
    Path(f"{name}.json").write_text(json.dumps(facts))

def test_dies():
    if os.environ["PYTEST_XDIST_WORKER"] == "gw0":
        os.kill(os.getpid(), signal.SIGKILL)

def test_facts_again():
    test_facts()
"""


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.skipif(not Switch.is_on, reason="no run is a fork")
def test_a_forked_worker_is_like_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers that the suite forks find what those find that xdist starts."""
    (tmp_path / "conftest.py").write_text(ON_CONTROLLER, "utf-8")
    (tmp_path / "test_it.py").write_text(ON_WORKERS, "utf-8")
    found = []
    for is_on in (True, False):
        monkeypatch.setattr(Switch, "is_on", is_on)
        run = run_plain_pytest(tmp_path, "-n", "1", plugins=["xdist"])
        assert run.outcome == "1 failed, 2 passed", run.stdout + run.stderr
        assert "worker 'gw0' crashed" in run.stdout
        found.append(
            [json.loads((tmp_path / f"gw{n}.json").read_bytes()) for n in range(2)]
        )
    forked, new = found
    assert all(facts["a child"] for facts in forked)
    assert [facts.pop("forked") for facts in (*forked, *new)] == [
        True,
        True,
        False,
        False,
    ]
    assert forked == new


def test_every_target_can_be_fuzzed_by_hand() -> None:
    """The fuzzer's command knows the targets before it imports them."""
    assert tuple(TARGETS) == NAMES


def test_runs_inside_the_suite_do_not_annotate_its_page() -> None:
    """On GitHub, what the tests start and call takes itself for no step of a job."""
    assert "GITHUB_ACTIONS" not in os.environ
    assert "GITHUB_STEP_SUMMARY" not in os.environ


@pytest.mark.slow
@pytest.mark.skipif("SUITE_ON_GITHUB" in os.environ, reason="this is the inner run")
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_the_suite_on_github(workers: tuple[str, ...], tmp_path: Path) -> None:
    """The variables of the step are gone before any test runs."""
    name = test_runs_inside_the_suite_do_not_annotate_its_page.__name__
    test = f"{Path(__file__).relative_to(ROOT)}::{name}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *workers,
        test,
    ]
    run = run_child(
        ROOT,
        command,
        env={
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": None,
            "SUITE_ON_GITHUB": "1",
            "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        },
    )
    assert run.outcome == "1 passed", run.stdout + run.stderr
