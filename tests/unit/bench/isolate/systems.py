"""Systems under test of every kind, to be run in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from pytest_failure_taxonomy.bench.answers import Answer
from pytest_failure_taxonomy.bench.models import BenchCase


class OddError(Exception):
    """An exception of the system's own."""


def answers(case: BenchCase) -> object:
    """Return what it can see."""
    print("not seen")  # noqa: T201 - that is what is tested
    return {
        "id": case.case_id,
        "level": case["level"],
        "key": os.environ.get("SOME_KEY"),
        "folder": os.getcwd(),
        "path": sys.path,
        "process": os.getpid(),
    }


async def answers_later(case: BenchCase) -> object:
    """Return after a while."""
    await asyncio.sleep(0.01)
    return case.input


def raises(case: BenchCase) -> object:
    """Raise."""
    print("before")  # noqa: T201 - that is what is tested
    raise OddError("it is odd")


def exits(case: BenchCase) -> object:
    """End its process."""
    os._exit(3)


def leaves(case: BenchCase) -> object:
    """Leave by `sys.exit`."""
    sys.exit("bye")


def dies(case: BenchCase) -> object:
    """Die of a signal."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return None


def kills_parent(case: BenchCase) -> object:
    """Kill the process that has started it."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
    return None


def signals_parent(case: BenchCase) -> object:
    """Wait for ever or for a moment, or send a signal to the process that has started it."""
    if case.input not in ("wait", "sleep"):
        time.sleep(0.2)  # until the others have begun
        os.kill(os.getppid(), getattr(signal, case.input))
    time.sleep(0.5 if case.input == "sleep" else 60)
    return case.input


def returns_object(case: BenchCase) -> object:
    """Return what JSON can't hold."""
    return object()


def hangs(case: BenchCase) -> object:
    """Note who it and its child are, and hang."""
    if os.fork() == 0:
        time.sleep(0.01)
    with Path(case.input).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(600)
    return None


def answers_at_a_price(case: BenchCase) -> Answer:
    """Return an answer with all that one can have, after spending something already."""
    case.spend(0.5, calls=1)
    return Answer(
        output={"got": case.input},
        cost_usd=0.25,
        usage={"calls": 2},
        transcript=["hello"],
    )


async def spends_later(case: BenchCase) -> object:
    """Spend from a thread and from a coroutine."""
    await asyncio.gather(
        *(asyncio.to_thread(case.spend, 0.01, tokens=3) for _ in range(50))
    )
    case.spend(0.5)
    return case.input


def spends_and(case: BenchCase) -> object:
    """Spend something, then end as the case's input says."""
    case.spend(0.125, tokens=7)
    case.spend(0.125, tokens=7)
    end = case.input
    if end == "exit":
        os._exit(3)
    if end == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if end == "kill the server":
        time.sleep(0.2)
        os.kill(os.getppid(), signal.SIGKILL)
    if end == "raise":
        raise OddError("it is odd")
    if end == "return no JSON":
        return Answer(output=object(), cost_usd=0.5, usage={"tokens": 1})
    time.sleep(600)
    return None


class RateLimitError(Exception):
    """Like that of a provider's client."""

    __module__ = "openai"
    retry_after = "1.5"


def is_rate_limited(case: BenchCase) -> object:
    """Raise what a provider's client raises, as it is or wrapped."""
    try:
        raise RateLimitError("slow down")
    except RateLimitError as error:
        if case.input == "as it is":
            raise
        raise OddError("no luck") from error


LEFT: list[object] = []
"""What cases leave behind on purpose."""


def leaves_behind(case: BenchCase) -> object:
    """Do what the case's input says, and answer with the id of the process."""
    match case.input:
        case "a thread":
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        case "a process":
            LEFT.append(subprocess.Popen(["sleep", "60"]))
        case "an orphan":
            subprocess.run(["sh", "-c", "sleep 60 &"], check=True)
        case "a folder":
            os.chdir("/")
        case "a variable":
            os.environ["SOME"] = "thing"
        case "a timer":
            signal.setitimer(signal.ITIMER_REAL, 60)
        case "a handler":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "a limit":
            sys.setrecursionlimit(500)
        case "a stream":
            os.close(0)
    return os.getpid()


async def leaves_behind_later(case: BenchCase) -> object:
    """Do so on an event loop."""
    match case.input:
        case "a task":
            LEFT.append(asyncio.ensure_future(asyncio.sleep(60)))
        case "a callback":
            asyncio.get_running_loop().call_later(60, print)
        case "a closed loop":
            asyncio.get_running_loop().stop()
        case "the loop's threads":
            await asyncio.to_thread(time.sleep, 0.01)
            await asyncio.wait_for(asyncio.sleep(0), 30)
    return os.getpid()


class Odd:
    """A system whose version can't be had."""

    @property
    def version(self) -> str:
        """Raise."""
        raise SystemExit(3)

    def __call__(self, case: BenchCase) -> object:
        """Answer."""
        return case.input


without_version = Odd()
NOT_CALLABLE = 5
