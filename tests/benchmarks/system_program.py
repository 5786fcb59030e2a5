"""Start the processes of a system, and print what they take: the sample of `bench-waits`.

``python -P system_program.py CASES``: as many cases wait at a time. It prints the seconds until the
system is imported, and private memory, in KiB, of the process that has imported it and of one case.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any


def answer(_: Any) -> int:
    """Return the id of the process that runs the case."""
    time.sleep(0.2)
    return os.getpid()


def private_kib(process_id: int) -> int:
    """Return the memory that a process shares with no other one."""
    lines = (
        Path(f"/proc/{process_id}/smaps_rollup")
        .read_text(encoding="ascii")
        .splitlines()
    )
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def parent_of(process_id: int) -> int:
    """Return the id of the process that has started a process."""
    return int(Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").split()[3])


async def measure(cases: int) -> None:
    """Run the cases, and look at their processes while these wait for more."""
    from pytest_failure_taxonomy.bench.isolate.client import IsolatedSystem
    from pytest_failure_taxonomy.bench.models import BenchCase

    began = time.perf_counter()
    system = IsolatedSystem("system_program:answer")
    await system.connect()
    seconds = time.perf_counter() - began
    answers = await asyncio.gather(
        *(system(BenchCase(case_id=str(number))) for number in range(cases))
    )
    used = [answer.output for answer in answers]
    sys.stdout.write(
        f"{seconds} {private_kib(parent_of(used[0]))} {median(map(private_kib, used))}\n"
    )
    await system.aclose()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    asyncio.run(measure(int(sys.argv[1])))
