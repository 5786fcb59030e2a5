"""Which cases xdist's workers have started and what came of them, in files that all can read.

A worker that dies takes its knowledge with it. Without xdist, and where the workers are on other
machines, there is no journal.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_failure_taxonomy.bench.models import BenchScore
from pytest_failure_taxonomy.bench.plugin.results import Source


class Journal:
    """A folder with a file for each worker; a line for each case started and each case done."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._path = folder / worker
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
        return frozenset(fields[1] for path, fields in self._lines("started") if path != self._path)

    def started(self) -> frozenset[str]:
        """Return the node ids that any worker has started."""
        return frozenset(fields[1] for _, fields in self._lines("started"))

    def scheduled(self) -> list[tuple[Source, str]]:
        """Return the cases that tests are to run, each once, in order of occurrence."""
        lines = (fields for _, fields in self._lines("scheduled"))
        return list(dict.fromkeys((Source(each[1], each[2]), each[3]) for each in lines))

    def scores(self) -> list[tuple[Source, str, BenchScore]]:
        """Return what cases came to, in the order of each worker."""
        lines = (fields for _, fields in self._lines("graded"))
        return [
            (Source(each[1], each[2]), each[3], BenchScore.model_validate_json(each[4]))
            for each in lines
        ]

    def spent_usd(self, source: Source) -> float:
        """Return what the cases of a source have cost so far, over all workers."""
        return sum(score.cost_usd for each, _, score in self.scores() if each == source)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _append(self, line: str) -> None:
        # A full disk costs the journal and not the run.
        with suppress(OSError):
            if self._descriptor is None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = os.open(self._path, flags, 0o600)
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))

    def _lines(self, sort: str) -> Iterator[tuple[Path, list[str]]]:
        with suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                text = path.read_text("utf-8", "replace")
                for line in text.split("\n")[:-1]:  # a line that was cut off says nothing
                    fields = line.split("\t")
                    if fields[0] == sort:
                        yield path, fields
