"""Which cases xdist's workers have started and what came of them, in files that all can read.

A worker that dies takes its knowledge with it. Without xdist, and where the workers are on other
machines, there is no journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.models import BenchScore
from pytest_failure_taxonomy.bench.plugin.results import Source
from pytest_failure_taxonomy.system.own_files import make_folder, open_folder

_SUFFIX: Final = ".journal"
"""How the names of our files end; others in the folder are neither read nor removed."""
_FIELDS: Final = {"started": 2, "scheduled": 4, "graded": 5}
"""How many fields a line of each sort has."""
_MAX_BYTES: Final = 256 * 1024 * 1024
"""Of one worker's file; a case takes some hundred."""


class Journal:
    """A folder with a file for each worker; a line for each case started and each case done."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._name = f"{worker}{_SUFFIX}"
        self._descriptor: int | None = None

    def begin(self) -> None:
        """Make the folder, which tells the controller that there will be results."""
        self._append("")

    def note_start(self, nodeid: str) -> None:
        """Note that a case's system is about to be called."""
        self._append(f"started\t{nodeid}\n")

    def note_schedule(self, source: Source, case_id: str) -> None:
        """Note that a test will run a case; the controller can't tell that by its node id."""
        self._append(f"scheduled\t{source.folder}\t{source.test}\t{case_id}\n")

    def note_score(self, source: Source, case_id: str, score: BenchScore) -> None:
        """Note what a case came to, at once: its test may never report it."""
        fields = ("graded", source.folder, source.test, case_id, score.model_dump_json())
        self._append("\t".join(fields) + "\n")

    def started_elsewhere(self) -> frozenset[str]:
        """Return the node ids that other workers have started."""
        return frozenset(fields[1] for name, fields in self._lines("started") if name != self._name)

    def started(self) -> frozenset[str]:
        """Return the node ids that any worker has started."""
        return frozenset(fields[1] for _, fields in self._lines("started"))

    def scheduled(self) -> list[tuple[Source, str]]:
        """Return the cases that tests are to run, each once, in order of occurrence."""
        lines = (fields for _, fields in self._lines("scheduled"))
        return list(dict.fromkeys((Source(each[1], each[2]), each[3]) for each in lines))

    def scores(self) -> list[tuple[Source, str, BenchScore]]:
        """Return what cases came to, in the order of each worker."""
        found = []
        for _, each in self._lines("graded"):
            with suppress(ValueError):  # a line of another hand
                score = BenchScore.model_validate_json(each[4])
                found.append((Source(each[1], each[2]), each[3], score))
        return found

    def spent_usd(self, source: Source) -> float:
        """Return what the cases of a source have cost so far, over all workers."""
        return sum(score.cost_usd for each, _, score in self.scores() if each == source)

    def remove(self) -> None:
        """Remove our files, and the folder if there are no others."""
        with suppress(OSError), open_folder(self._folder) as folder:
            for name in folder.names():
                if name.endswith(_SUFFIX):
                    folder.unlink(name)
            folder.rmdir()

    def _append(self, line: str) -> None:
        # A full disk costs the journal and not the run.
        with suppress(OSError):
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with make_folder(self._folder) as folder:
                    self._descriptor = folder.open_file(self._name, flags)
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))

    def _lines(self, sort: str) -> Iterator[tuple[str, list[str]]]:
        with suppress(OSError), open_folder(self._folder) as folder:
            for name in folder.names():
                if not name.endswith(_SUFFIX):
                    continue
                try:
                    text = folder.read(name, _MAX_BYTES).decode("utf-8", "replace")
                except OSError:  # a link, a pipe
                    continue
                for line in text.split("\n")[:-1]:  # a line that was cut off says nothing
                    fields = line.split("\t")
                    if fields[0] == sort and len(fields) == _FIELDS[sort]:
                        yield name, fields
