"""Note which workers of xdist went down, and which tests took them along."""

from __future__ import annotations

from pytest_failure_taxonomy.logs import patterns as p
from pytest_failure_taxonomy.logs.noted import Noted, note
from pytest_failure_taxonomy.logs.reader import Line


class LostWorkers:
    """The workers that are lost, by what xdist prints of them in several places.

    The sections name worker and test. Where they are not printed, the result of the test comes
    right after the line that says that its worker is down.
    """

    def __init__(self) -> None:
        self.nodes_down: list[Noted] = []
        """The subject is the worker, the text why it is down."""
        self.crashes: list[Noted] = []
        """The subject is the worker, the text the test that it was running."""
        self.unnamed: list[Noted] = []
        """The subject is a worker whose test failed with it; only a letter tells of it."""
        self._last: Noted | None = None

    def feed_block(self, line: Line) -> None:
        """Take a line of a failure's block."""
        if found := p.CRASHED.match(line.text.rstrip()):
            note(self.crashes, line, found[2], subject=found[1])

    def feed_down(self, line: Line, worker: str, why: str) -> None:
        """Take a line that says that a worker is down."""
        note(self.nodes_down, line, why, subject=worker)
        self._last = Noted(line=line, subject=worker)

    def feed_failure(self, line: Line, *, worker: str | None = None, nodeid: str = "") -> None:
        """Take the failure of a test; the first one after a worker is lost may be its last test's.

        Args:
            line: where it stands.
            worker: who ran the test, where the line says so.
            nodeid: the test, where the line says so.
        """
        last, self._last = self._last, None
        if last is None:
            return
        if nodeid and worker == last.subject:
            note(self.crashes, line, nodeid, subject=last.subject)
        elif not nodeid:
            note(self.unnamed, line, subject=last.subject)

    def without_name(self) -> list[str]:
        """Return the workers that were lost with a test of which no place tells the name."""
        named = {noted.subject for noted in self.crashes}
        return [noted.subject for noted in self.unnamed if noted.subject not in named]
