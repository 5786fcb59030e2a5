"""A Dask cluster on this machine: a real scheduler and real workers, each a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.helpers.children import child_environment
from tests.helpers.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
WORKER_VARIABLE: Final = "TEST_WORKER"
"""Names the worker in its environment, which the processes of systems have from it."""


class DaskCluster:
    """The processes of a cluster; its workers can import the systems of `tests`."""

    def __init__(self, folder: Path, *, workers: int, threads: int = 2) -> None:
        """Start it, and wait until all workers are there."""
        self._folder = folder
        self._threads = threads
        self._env = child_environment({"PYTHONPATH": str(ROOT)})
        about = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={about}"
        )
        try:
            wait_until(
                lambda: about.exists() and about.read_text().endswith("}"),
                "a scheduler",
            )
            self.address: str = json.loads(about.read_text())["address"]
            self.add_workers(workers)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """What `--bench-backend` is given."""
        return self.address.replace("tcp://", "dask://")

    def add_workers(self, count: int) -> None:
        """Start more workers, and wait for them."""
        begun = len(self.workers)
        for number in range(begun, begun + count):
            about = self._folder / f"worker-{number}"
            worker = self._start(
                "worker",
                self.address,
                "--no-nanny",
                f"--nthreads={self._threads}",
                name=about.name,
            )
            self.workers.append(worker)
        for number in range(begun, begun + count):
            log = self._folder / f"worker-{number}.log"
            wait_until(partial(_is_registered, log), "a worker")

    def _start(
        self, program: str, *options: str, name: str = ""
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", program, *options, "--no-dashboard"]
        with (self._folder / f"{name or program}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env={**self._env, WORKER_VARIABLE: name},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """End all processes, and wait for their ends."""
        for each in (*self.workers, self.scheduler):
            each.kill()
            each.wait()


def _is_registered(log: Path) -> bool:
    return b"Registered to" in log.read_bytes()


@contextmanager
def dask_cluster(
    folder: Path, *, workers: int = 2, threads: int = 2
) -> Iterator[DaskCluster]:
    """Have a cluster that is gone afterwards."""
    os.makedirs(folder, exist_ok=True)
    cluster = DaskCluster(folder, workers=workers, threads=threads)
    try:
        yield cluster
    finally:
        cluster.stop()
