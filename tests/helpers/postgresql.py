"""A PostgreSQL server of the tests' own: started on a socket in a new folder, and stopped again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

NEEDED: Final = "FAILURE_TAXONOMY_TESTS_NEED_POSTGRESQL"
"""An environment variable: without a server the tests fail instead of being skipped."""
_SEARCHED: Final = "/usr/lib/postgresql/*/bin/initdb"
_USER: Final = "postgres"
_numbers = count()


class Cluster:
    """A running server."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder

    def new_database(self) -> str:
        """Make a database, and return its URL."""
        name = f"history_{os.getpid()}_{next(_numbers)}"
        self._run("createdb", "-h", str(self._folder), "-U", _USER, name)
        return f"postgresql://{_USER}@/{name}?host={quote(str(self._folder))}"

    def stop(self) -> None:
        """Stop the server as a crash of its machine would."""
        self._run(
            "pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop"
        )

    def start(self) -> None:
        """Start the server; it listens on a socket alone, and loses data with the machine."""
        options = f"-k {self._folder} -c listen_addresses='' -F -c max_connections=40"
        log = str(self._folder / "log")
        data = str(self._folder / "data")
        self._run("pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")

    def make(self) -> None:
        """Make the files of the server."""
        self._run(
            "initdb", "-D", str(self._folder / "data"), "-U", _USER, "-A", "trust", "-N"
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.geteuid() == 0:  # the server refuses to be root's
            command = ["runuser", "-u", _USER, "--", *command]
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"


@contextmanager
def started_cluster() -> Iterator[Cluster]:
    """Start a server; skip the test, or fail where that is asked, if there is no PostgreSQL."""
    programs = find_programs()
    if programs is None:
        why = "PostgreSQL's initdb is not installed (Debian: apt install postgresql)"
        if os.environ.get(NEEDED):
            pytest.fail(why)
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="ft-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _USER)
        cluster = Cluster(programs, folder)
        cluster.make()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_programs() -> Path | None:
    """Return the folder of the server's programs, the newest version's."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    all_versions = sorted(Path("/").glob(_SEARCHED.lstrip("/")), key=_version)
    return all_versions[-1].parent if all_versions else None


def _version(path: Path) -> float:
    try:
        return float(path.parents[1].name)
    except ValueError:
        return 0.0
