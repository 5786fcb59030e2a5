"""Ending process.crashed: a segmentation fault, as a bug in a C extension causes it.

CAUTION: the second test kills the process that runs it.
"""

import os
import resource
import signal

from invoicing import Money


def test_before_the_death() -> None:
    """Pass, before anything happens."""
    assert Money.of("1.00") + Money.of("2.00") == Money.of("3.00")


def test_crashes_the_process() -> None:
    """Crash, and leave no core file behind."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def test_after_the_death() -> None:
    """Never run."""
    assert Money.of("3.00") - Money.of("2.00") == Money.of("1.00")
