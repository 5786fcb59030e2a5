"""Systems under test that do one thing each, for tests of the runner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pytest_failure_taxonomy.bench.models import BenchCase

System = Callable[[BenchCase], Any]


class RaisingSUT:
    """Raises."""

    def __init__(self, *, error: BaseException) -> None:
        self._error = error

    async def __call__(self, case: BenchCase) -> object:
        """Raise."""
        raise self._error


class SleepingSUT:
    """Takes its time, as a good neighbour."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, case: BenchCase) -> object:
        """Sleep."""
        await asyncio.sleep(self._seconds)
        return {"case": case.case_id}


class DeterministicSUT:
    """Returns the same for every case."""

    def __init__(self, *, output: object) -> None:
        self._output = output

    @classmethod
    def passing(cls) -> DeterministicSUT:
        """Return one that any stub rubric lets pass."""
        return cls(output={"answer": "right"})

    async def __call__(self, case: BenchCase) -> object:
        """Return the output."""
        return self._output


def multi_sut(sut_for: Callable[[str], System]) -> System:
    """Return a system that lets another one answer each case, chosen by its id."""

    async def answer(case: BenchCase) -> Any:
        return await sut_for(case.case_id)(case)

    return answer
