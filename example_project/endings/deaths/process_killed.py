"""Ending process.killed: another process sends SIGKILL, as `docker kill` does.

CAUTION: the second test has the process that runs it killed.
"""

import os
import subprocess
import sys
import time

from invoicing import Money

_KILL = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGKILL)"


def test_before_the_death() -> None:
    """Pass, before anything happens."""
    assert Money.of("1.00") + Money.of("2.00") == Money.of("3.00")


def test_is_killed_from_outside() -> None:
    """Let a second process send the signal, and wait for it."""
    subprocess.Popen([sys.executable, "-c", _KILL, str(os.getpid())])
    time.sleep(30)


def test_after_the_death() -> None:
    """Never run."""
    assert Money.of("3.00") - Money.of("2.00") == Money.of("1.00")
