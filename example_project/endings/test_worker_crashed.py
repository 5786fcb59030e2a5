"""Ending worker.crashed: a test takes the xdist worker that runs it down.

CAUTION: the second test kills its own process by SIGSEGV, and only ever in a worker.
"""

import os
import signal

import pytest

from invoicing import Money


def test_before_the_crash() -> None:
    """Pass, whichever worker runs it."""
    assert Money.of("1.00") + Money.of("2.00") == Money.of("3.00")


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="runs in a worker: add -n 2")
def test_crashes_its_worker() -> None:
    """Die as a bug in a C extension dies; the controller starts a new worker and goes on."""
    import resource  # not on every system, and needed nowhere else

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("euros", range(4))
def test_after_the_crash(euros: int) -> None:
    """Pass, in the worker that is left or in the new one."""
    assert Money.of(f"{euros}").minor_units == euros * 100
