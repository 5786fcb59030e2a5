"""The suite itself: however it is started, its tests find the same process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.fuzz import NAMES
from tests.attacks.targets import TARGETS
from tests.helpers.children import run_child

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


def test_every_target_can_be_fuzzed_by_hand() -> None:
    """The fuzzer's command knows the targets before it imports them."""
    assert tuple(TARGETS) == NAMES
