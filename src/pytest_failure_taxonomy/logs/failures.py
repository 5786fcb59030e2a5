"""Put together what pytest's output says of one failure in several places.

The short summary has node ids and the first line of a message, the sections have the rest, `-v`
and the letters of the progress are all that is left where pytest died or was told to print neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from pytest_failure_taxonomy.logs.noted import MAX_NOTED, Noted
from pytest_failure_taxonomy.logs.patterns import CRASHED
from pytest_failure_taxonomy.logs.pytest_output import PytestOutput
from pytest_failure_taxonomy.logs.sections import Block, exception_of
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Counts,
    Phase,
    TestFailure,
)

_COLLECT: Final = "collect"


class _Blocks:
    """The blocks of the sections, to be taken by phase and name in their order."""

    def __init__(self, blocks: list[Block]) -> None:
        self._by_name: dict[tuple[str, str], list[Block]] = {}
        for block in reversed(blocks):
            key = block.crash[1] if block.crash else block.name
            self._by_name.setdefault((block.phase, key), []).append(block)

    def take(self, phase: str, name: str) -> Block | None:
        found = self._by_name.get((phase, name))
        return found.pop() if found else None

    def left(self) -> Iterator[Block]:
        """Yield those that nobody has taken."""
        for blocks in self._by_name.values():
            yield from reversed(blocks)


def test_failures(out: PytestOutput, counts: Counts) -> tuple[TestFailure, ...]:
    """Return the failed tests: as named, and as many without a name as are counted beside."""
    blocks = _Blocks(out.blocks)
    failures = [
        failure for noted in out.results if (failure := _of_result(noted, blocks, out)) is not None
    ]
    if not out.has_summary:
        failures += [_of_block(block) for block in blocks.left() if block.phase != _COLLECT]
    if not failures:
        failures += [_of_verbose(noted, out) for noted in out.verbose]
    if not out.has_summary and not out.blocks:
        failures += [_of_crash(worker, "") for worker in out.lost.without_name()]
    counted = counts.failed or (0 if failures or counts.errors else _letters(out, "F"))
    failures += _unnamed("call", counted - sum(each.phase == "call" for each in failures))
    failures += _unnamed("setup", _errors_counted(out, counts) - _errors_named(out, failures))
    return tuple(_in_order(failures, out))


def _in_order(failures: list[TestFailure], out: PytestOutput) -> list[TestFailure]:
    """Put failures and errors in the order of their letters in the progress, where it has all."""
    letters = [each for noted in out.letters for each in noted.text if each in "FE"]
    letters = letters or [noted.status[0] for noted in out.verbose]
    failed = [each for each in failures if each.phase == "call"]
    errors = [each for each in failures if each.phase != "call"]
    if (letters.count("F"), letters.count("E")) != (len(failed), len(errors)):
        return failures
    queues = {"F": iter(failed), "E": iter(errors)}
    return [next(queues[letter]) for letter in letters]


def collection_failures(out: PytestOutput) -> tuple[CollectionFailure, ...]:
    """Return the nodes that could not be collected, each once however many workers say so."""
    found: dict[str, CollectionFailure] = {}
    for block in out.blocks:
        if block.phase == _COLLECT:
            raised = block.exception()
            found.setdefault(
                block.name,
                CollectionFailure(
                    nodeid=block.name,
                    message=f"{raised.type}: {raised.message}" if raised else block.message,
                    exception=raised,
                    location=block.location,
                ),
            )
    for noted in out.results:
        if noted.status == "ERROR" and "::" not in noted.subject:
            raised = exception_of(noted.text)
            found.setdefault(
                noted.subject,
                CollectionFailure(nodeid=noted.subject, message=noted.text, exception=raised),
            )
    for _ in range(min(MAX_NOTED, out.collection_error_count) if not found else 0):
        found.setdefault(str(len(found)), CollectionFailure(nodeid="", message=""))
    return tuple(found.values())


def _of_result(noted: Noted, blocks: _Blocks, out: PytestOutput) -> TestFailure | None:
    """Return the failure that a line of the short summary and its block tell of."""
    nodeid, name = noted.subject, _name_in_title(noted)
    if noted.status == "ERROR":
        if blocks.take(_COLLECT, nodeid) is not None or "::" not in nodeid:
            return None
        for phase in ("setup", "teardown"):
            block = blocks.take(phase, name)
            if block is not None:
                return _made(nodeid, phase, noted.text, block)
        return _made(nodeid, "setup", noted.text, None)
    worker = next((crash.subject for crash in out.lost.crashes if crash.text == nodeid), None)
    if (found := CRASHED.match(noted.text)) is not None:
        worker = worker or found[1]
    block = blocks.take("call", nodeid if worker else name)
    if worker is None:
        return _made(nodeid, "call", noted.text, block)
    return _of_crash(worker, nodeid)


def _of_crash(worker: str, nodeid: str) -> TestFailure:
    """Return the failure of a test whose worker was lost; the test may have no name."""
    return TestFailure(
        nodeid=nodeid,
        phase="call",
        message=f"worker '{worker}' crashed while running "
        + (f"'{nodeid}'" if nodeid else "a test"),
        crashed=True,
        worker=worker,
    )


def _name_in_title(noted: Noted) -> str:
    """Return how the title of a block spells a node id: without the file, with dots."""
    inside = noted.subject.partition("::")[2] or noted.subject
    name = inside.replace("::", ".")
    context = noted.status.removeprefix("SUBFAILED")
    return f"{name} {context}" if noted.status.startswith("SUBFAIL") and context else name


def _made(nodeid: str, phase: Phase, message: str, block: Block | None) -> TestFailure:
    raised = block.exception() if block is not None else exception_of(message)
    if message.startswith("[XPASS(strict)]"):
        raised = None
    return TestFailure(
        nodeid=nodeid,
        phase=phase,
        message=(block.message if block is not None else "") or message,
        exception=raised,
        location=block.location if block is not None else None,
    )


def _of_block(block: Block) -> TestFailure:
    """Return the failure of a block without a line in a summary; its node id is put together."""
    if block.crash is not None:
        return _of_crash(*block.crash)
    path = block.location.path if block.location is not None else ""
    nodeid = f"{path}::{block.name.replace('.', '::')}" if path else ""
    return _made(nodeid, cast("Phase", block.phase), block.message, block)


def _of_verbose(noted: Noted, out: PytestOutput) -> TestFailure:
    lost = next((crash for crash in out.lost.crashes if crash.line == noted.line), None)
    if lost is not None:
        return _of_crash(lost.subject, lost.text)
    phase: Phase = "call" if noted.status == "FAILED" else "setup"
    return TestFailure(nodeid=noted.subject, phase=phase, message=noted.status)


def _unnamed(phase: Phase, count: int) -> list[TestFailure]:
    """Return failures of which nothing but their number is known."""
    return [TestFailure(nodeid="", phase=phase, message="failed")] * max(0, min(count, MAX_NOTED))


def _letters(out: PytestOutput, letter: str) -> int:
    return sum(noted.text.count(letter) for noted in out.letters)


def _errors_counted(out: PytestOutput, counts: Counts) -> int:
    if counts.errors:
        return counts.errors - out.collection_error_count
    return 0 if out.last_line is not None or out.has_summary else _letters(out, "E")


def _errors_named(out: PytestOutput, failures: list[TestFailure]) -> int:
    """Count the errors that are told of by name, those of files on xdist's workers included."""
    of_tests = sum(each.phase != "call" for each in failures)
    if out.collection_error_count:
        return of_tests
    of_files = sum(each.status == "ERROR" and "::" not in each.subject for each in out.results)
    in_blocks = sum(block.phase == _COLLECT for block in out.blocks)
    return of_tests + max(of_files, in_blocks)
