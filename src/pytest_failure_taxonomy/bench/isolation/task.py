"""What a process is to run, and what comes back from it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pytest_failure_taxonomy.bench.isolation import wire
from pytest_failure_taxonomy.bench.isolation.environment import mark_of, rubric_environment
from pytest_failure_taxonomy.taxonomy.values import value


@value
class Reply:
    """What a server said: one of the words of `wire`, and what goes with it."""

    what: bytes
    status: int = 0
    body: bytes = b""


@value
class Task:
    """What a server is to run."""

    memory_mb: int = 0
    most_bytes: int = wire.MAX_VERDICT_BYTES
    loads_first: bool = True
    is_script: bool = False
    rubric: str = ""
    target: str = ""
    """A system under test in place of a rubric."""

    def hello(self, folder: str) -> dict[str, Any]:
        """Return what a server is told first."""
        return {
            "folder": "" if self.target else folder,
            "load": self.loads_first,
            "memory_mb": self.memory_mb,
            "most": self.most_bytes,
            "parent": os.getpid(),
            "path": sys.path if self.target else [],
            "rubric": self.rubric,
            "script": self.is_script,
            "target": self.target,
        }

    def environment(self, folder: str) -> Mapping[str, str]:
        """Return the environment of its processes: a system's is ours, it needs its keys."""
        if self.target:
            return {**os.environ, wire.MARK: mark_of(folder)}
        return rubric_environment(os.environ, folder)
