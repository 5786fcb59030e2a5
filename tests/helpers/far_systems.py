"""Systems under test that the workers of a cluster import."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from pytest_failure_taxonomy.bench import Answer
from pytest_failure_taxonomy.bench.models import BenchCase
from tests.helpers.dask_clusters import WORKER_VARIABLE


class RateLimitError(Exception):
    """Like that of a provider's client."""

    __module__ = "openai"
    retry_after = 0.01


def note(case: BenchCase) -> None:
    """Append the case, the worker and the process to the file that a case names."""
    with open(case["note"], "a", encoding="utf-8") as file:
        file.write(f"{case.case_id} {os.environ[WORKER_VARIABLE]} {os.getpid()}\n")


def answer(case: BenchCase) -> Any:
    """Do what the case's fields say, then answer its input."""
    note(case)
    if "spend" in case.fields:
        case.spend(case["spend"], tokens=5)
    time.sleep(case.fields.get("sleep", 0))
    if "raises" in case.fields:
        raise ValueError(case["raises"])
    if "limited" in case.fields:
        raise RateLimitError("slow down")
    if "exit" in case.fields:
        os._exit(case["exit"])
    if case.fields.get("returns") == "object":
        return object()
    if case.fields.get("returns") == "answer":
        return Answer(
            output=case.input, cost_usd=0.5, usage={"tokens": 1}, transcript=["hello"]
        )
    return case.input


async def answer_later(case: BenchCase) -> Any:
    """Do likewise on an event loop."""
    note(case)
    case.spend(case.fields.get("spend", 0.0))
    await asyncio.sleep(case.fields.get("sleep", 0))
    return case.input
