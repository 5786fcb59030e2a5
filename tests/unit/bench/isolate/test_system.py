from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.answers import Spending
from pytest_failure_taxonomy.bench.isolate.client import IsolatedSystem
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.user_code import ToldError

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="there is no server without it"
)

SYSTEMS: Final = "tests.unit.bench.isolate.systems"


def result_of(system: str, **fields: Any) -> Any:
    """Return what a system returns, or its error."""

    async def run() -> Any:
        isolated = IsolatedSystem(
            f"{SYSTEMS}:{system}" if ":" not in system else system
        )
        try:
            return (await isolated(BenchCase(case_id="c", **fields))).output
        except ToldError as error:
            return error
        finally:
            await isolated.aclose()
            await isolated.aclose()

    return asyncio.run(run())


def test_a_system_sees_what_we_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys, its folder and its modules are ours; its process is not."""
    monkeypatch.setenv("SOME_KEY", "secret")
    found = result_of("answers", level=3)
    assert found.pop("process") != os.getpid()
    assert found == {
        "id": "c",
        "level": 3,
        "key": "secret",
        "folder": os.getcwd(),
        "path": sys.path,
    }


def test_a_version_that_can_not_be_had_costs_no_call() -> None:
    """It is read in the system's process, where it may end nothing."""
    assert result_of("without_version", input=[1]) == [1]


def test_a_system_may_be_async() -> None:
    """An async callable is run to its end."""
    assert result_of("answers_later", input=[1]) == [1]


NO_MODULE: Final = (
    "there is no module 'no_such_module_x' (for 'no_such_module_x:y'); install it, or add its"
    " folder to pytest's `pythonpath`"
)


@pytest.mark.parametrize(
    ("system", "name", "message"),
    [
        ("raises", "OddError", "it is odd"),
        ("leaves", "SystemExit", "bye"),
        (
            "returns_object",
            "TypeError",
            "the output is of type object, which JSON can't hold",
        ),
        ("exits", "ProcessDied", "the system's process exited with code 3"),
        ("dies", "ProcessDied", "the system's process was killed by SIGSEGV"),
        (
            "kills_parent",
            "ProcessDied",
            "the process that starts the system's processes was killed",
        ),
        (
            "not_there",
            "BenchError",
            f"{SYSTEMS} has no 'not_there'; name one of its callables",
        ),
        (
            "no_such_module_x:y",
            "BenchError",
            NO_MODULE,
        ),
        (
            "NOT_CALLABLE",
            "BenchError",
            f"'{SYSTEMS}:NOT_CALLABLE' is int and can't be called",
        ),
    ],
)
def test_an_error_has_the_name_and_words_of_the_original(
    system: str, name: str, message: str
) -> None:
    """Whatever ends the system's process is an exception of its case."""
    found = result_of(system)
    assert (type(found).__name__, str(found)) == (name, message)
    assert isinstance(found, ToldError)


def test_an_error_brings_its_traceback_and_what_was_printed() -> None:
    """Both are of the system's process."""
    found = result_of("raises")
    assert found.printed == "before\n"
    shown = found.traceback.text()
    first, *_, last = shown.splitlines()
    assert (first, last) == (
        "Traceback (most recent call last):",
        f"{SYSTEMS}.OddError: it is odd",
    )
    assert shown.count('File "') == 1


@pytest.mark.parametrize(
    ("system", "leaves", "is_kept"),
    [
        ("leaves_behind", "nothing", True),
        ("leaves_behind", "a thread", False),
        ("leaves_behind", "a process", False),
        ("leaves_behind", "an orphan", False),
        ("leaves_behind", "a folder", False),
        ("leaves_behind", "a variable", False),
        ("leaves_behind", "a timer", False),
        ("leaves_behind", "a handler", False),
        ("leaves_behind", "a limit", False),
        ("leaves_behind", "a stream", False),
        ("leaves_behind_later", "nothing", True),
        ("leaves_behind_later", "the loop's threads", True),
        ("leaves_behind_later", "a task", False),
        ("leaves_behind_later", "a callback", False),
    ],
)
def test_a_process_runs_another_case_unless_one_left_something(
    system: str, leaves: str, *, is_kept: bool
) -> None:
    """So what a system makes once, such as a client, is there for its next case."""

    async def run() -> list[object]:
        isolated = IsolatedSystem(f"{SYSTEMS}:{system}")
        cases = [BenchCase(case_id=str(number), input=leaves) for number in range(3)]
        try:
            return [(await isolated(case)).output for case in cases]
        finally:
            await isolated.aclose()

    assert len(set(asyncio.run(run()))) == (1 if is_kept else 3)


def results_of(system: str, cases: Sequence[BenchCase]) -> list[Any]:
    """Return what a system returns for cases at a time, or their errors."""

    async def run() -> list[Any]:
        isolated = IsolatedSystem(f"{SYSTEMS}:{system}")
        try:
            return await asyncio.gather(*map(isolated, cases), return_exceptions=True)
        finally:
            await isolated.aclose()

    return asyncio.run(run())


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_what_was_in_flight_when_its_server_was_killed_is_lost(number: str) -> None:
    """Nobody knows which of the cases did it, so none of them failed."""
    doing = ["wait", "wait", number]
    results = results_of(
        "signals_parent", [BenchCase(case_id=end, input=end) for end in doing]
    )
    assert [(type(error).__name__, error.is_lost) for error in results] == [
        ("ProcessDied", True)
    ] * 3
    assert "it is not known which of them did it" in str(results[0])


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_suspect_has_a_server_of_its_own(number: str) -> None:
    """What killed it once is found out, and costs the others nothing."""
    cases = [
        BenchCase(case_id=end, input=end).for_system((), Spending(), is_suspect=True)
        for end in ("sleep", number, "sleep", number)
    ]
    *results, last = results_of("signals_parent", cases)
    assert [results[0].output, results[2].output] == ["sleep", "sleep"]
    for error in (results[1], last):
        assert str(error) == "the process that starts the system's processes was killed"
        assert not error.is_lost


def test_its_time_is_that_of_its_process() -> None:
    """Neither the start of the server nor that of its process is the system's time."""
    spending = Spending()
    began = time.perf_counter()
    (result,) = results_of(
        "answers_later", [BenchCase(case_id="c").spending_to(spending)]
    )
    assert result.output is None
    assert spending.seconds is not None
    assert 0.009 <= spending.seconds < time.perf_counter() - began - 0.02
    spending = Spending()
    results_of("raises", [BenchCase(case_id="c").spending_to(spending)])
    assert spending.seconds is not None
    spending = Spending()
    results_of("dies", [BenchCase(case_id="c").spending_to(spending)])
    assert spending.seconds is None, "it could not tell"


def test_a_cancelled_system_is_killed_with_its_children(tmp_path: Path) -> None:
    """The process group is gone; a call after it finds a server that works."""
    note = tmp_path / "processes"

    async def run() -> None:
        hanging, other = (
            IsolatedSystem(f"{SYSTEMS}:hangs"),
            IsolatedSystem(f"{SYSTEMS}:answers"),
        )
        try:
            task = asyncio.create_task(hanging(BenchCase(case_id="c", input=str(note))))
            while lines_of(note) < 2:  # noqa: ASYNC110 - no event of this process
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for line in note.read_text().split():
                await until_gone(int(line))
            assert await other(BenchCase(case_id="c", fields={"level": 1}))
        finally:
            await asyncio.gather(hanging.aclose(), other.aclose())

    asyncio.run(run())


def lines_of(note: Path) -> int:
    """Return how many lines a file has; none if it is not there."""
    return note.read_text().count("\n") if note.exists() else 0


async def until_gone(process_id: int) -> None:
    """Wait for a process to end; the test would not end without that."""
    while True:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.01)
