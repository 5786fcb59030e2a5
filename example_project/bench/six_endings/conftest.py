"""A system under test that does to each case what the case asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def system_under_test() -> Callable[[Any], Awaitable[object]]:
    """Return a system that is async, as one that waits for a model would be."""

    async def answer(case: Any) -> object:  # noqa: ANN401 - a BenchCase
        match case.fields.get("system"):
            case "raises":
                msg = "the model answered with status 529"
                raise RuntimeError(msg)
            case "runs into a time limit of its own":
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(10)
            case "takes too long":
                await asyncio.sleep(10)
            case "returns what JSON can't hold":
                return {case.input}
        return case.input

    return answer
