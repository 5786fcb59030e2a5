"""Runs code that never ends, with a time limit above its own, and that forks."""

# ruff: noqa: D103 - a rubric as people write them

from pytest_failure_taxonomy.bench import run_code

SOURCE = """
import os
os.fork()
while True:
    pass
"""


def grade(case: object, output: object) -> object:
    passed = output == "ok" or run_code(SOURCE, seconds=60).passed
    return {"passed": passed, "score": float(passed), "breakdown": {}}
