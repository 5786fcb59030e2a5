"""`run --retry`: run again what the environment owes, once that is back."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pytest_failure_taxonomy.cli.output import tell
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.retries import (
    SESSION,
    RetriedRun,
    find_retried,
    is_cut,
)
from pytest_failure_taxonomy.report.summary import NOT_RETRIED
from pytest_failure_taxonomy.survive.supervisor import (
    CommandEnd,
    StoppedError,
    stop_by_signals,
)
from pytest_failure_taxonomy.taxonomy.judgement import Cause
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import counted, seconds_words

WAIT_SECONDS: Final = 60.0
"""How long all retries together wait for services."""
MOST_RETRIES: Final = 10
_FINDS_NOTHING: Final = (4, 5)
"""Exit codes of pytest: a node id is unknown, or no test was collected."""
_NODEIDS: Final = "nodeids.json"
_CONNECT_SECONDS: Final = 2.0
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_ADDRESS: Final = re.compile(
    r"""(?<![\w.:/(@-]) (?: \[(?P<ipv6>[0-9a-fA-F:.]+)\] | (?P<host>[\w-][\w.-]*) )
    : (?P<port>[0-9]{1,5}) (?![\w.-])""",
    re.VERBOSE,
)
"""An address in the sentence of a cause; a place in a file stands in brackets."""
_NAME: Final = re.compile(r"the (?:name|host) (?P<host>[\w.-]+) can't be resolved")


class Service(NamedTuple):
    """What has to be back before a test can pass."""

    host: str
    port: int | None
    """`None` for a name that has to be resolved."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    def answers(self) -> bool:
        """Tell whether it is there; nothing is sent to it."""
        try:
            if self.port is None:
                return bool(socket.getaddrinfo(self.host, None))
            address = (self.host, self.port)
            socket.create_connection(address, _CONNECT_SECONDS).close()
        except (OSError, UnicodeError, OverflowError):
            return False
        return True


def read_retries(text: str | None) -> int:
    """Return how many retries are asked for.

    Raises:
        SettingsError: the text is none of that.
    """
    if text is None:
        return 0
    owner, _, count = text.partition("=")
    if owner in ("subject", "verifier", "ambiguous"):
        why = "a retry can't fix what is not the environment's"
        raise SettingsError(f"run --retry: {text!r}: {why}; give environment=N")
    is_count = count.isdecimal() and len(count) <= 2
    if owner != "environment" or not is_count or not 1 <= int(count) <= MOST_RETRIES:
        right = f"give environment=N with N from 1 to {MOST_RETRIES}"
        raise SettingsError(f"run --retry: {text!r} is wrong; {right}")
    return int(count)


def service_of(cause: Cause) -> Service | None:
    """Return the service that a cause names; `None` if it names none."""
    if named := _NAME.search(cause.what):
        return Service(named["host"], None)
    for address in _ADDRESS.finditer(cause.what):
        host = address["ipv6"] or address["host"]
        if not host.endswith(".py"):
            return Service(host, int(address["port"]))
    return None


class Retries:
    """The retries of one command, as they were asked for."""

    def __init__(
        self,
        count: int,
        wait_seconds: float,
        is_pytest: bool,  # noqa: FBT001 - of six
        until: float | None,
        start: Callable[[Path, float | None], tuple[CommandEnd, FailureReport | None]],
        save: Callable[[FailureReport], object],
    ) -> None:
        """Prepare.

        Args:
            count: how many there may be.
            wait_seconds: how long they may wait together.
            is_pytest: the command is one.
            until: when the time for all is over, on the monotonic clock.
            start: runs the command for a file of node ids, in so many seconds.
            save: keeps the report of the whole, after each retry.
        """
        self._count = count
        self._wait_left = wait_seconds
        self._is_pytest = is_pytest
        self._until = until
        self._start = start
        self._save = save
        self._notes: list[str] = []

    def run(
        self, end: CommandEnd, first: FailureReport
    ) -> tuple[CommandEnd, FailureReport]:
        """Retry what can be; return the end that counts, and the report of the whole.

        Args:
            end: of the first run.
            first: its report.
        """
        why_not = _explain_refusal(end, first)
        if why_not or not self._is_pytest:
            why_not = why_not if self._is_pytest else "the command is not pytest"
            tell(f"run --retry: nothing was retried: {why_not}")
            return end, first
        whole, report, last = RetriedRun(first), first, first
        status = end.returncode
        for number in range(1, self._count + 1):
            try:
                with stop_by_signals():
                    retried = self._wait_for(find_retried(last), number)
            except StoppedError as error:
                self._note(f"stopped by {error}")
                end = replace(end, returncode=-error.number)
                return end, self._add_notes(report)
            if not retried:
                break
            again, latest = self._run_again(retried)
            finds_none = latest is not None and latest.exit.code in _FINDS_NOTHING
            if latest is None or (finds_none and SESSION not in retried):
                self._note("pytest found none of the tests")
                break
            last, status = latest, again.returncode
            whole.add(retried, last, is_stopped=_is_stopped(again))
            report = whole.report()
            self._save(report)
            if _is_stopped(again):
                return again, self._add_notes(report)
        report = self._add_notes(report)
        is_rescued = report.verdict is None and status == 0
        return replace(end, returncode=0) if is_rescued else end, report

    def _note(self, words: str) -> None:
        """Say why something was not retried, here and in the report."""
        note = f"{NOT_RETRIED}{words}"
        tell(note)
        self._notes.append(note)

    def _add_notes(self, report: FailureReport) -> FailureReport:
        """Return a report that says what was not retried, and keep it."""
        if not self._notes:
            return report
        noted = replace(report, notes=(*report.notes, *self._notes))
        self._save(noted)
        return noted

    def _run_again(
        self, retried: Mapping[str, Cause]
    ) -> tuple[CommandEnd, FailureReport | None]:
        nodeids = [nodeid for nodeid in retried if nodeid != SESSION]
        with tempfile.TemporaryDirectory(prefix="failure-taxonomy-") as folder:
            path = Path(folder, _NODEIDS)
            path.write_text(json.dumps(nodeids), "utf-8")
            return self._start(path, self._time_left())

    def _time_left(self) -> float | None:
        return None if self._until is None else self._until - time.monotonic()

    def _wait_for(self, retried: Mapping[str, Cause], number: int) -> dict[str, Cause]:
        """Return what may pass now: its services are back, or it names none."""
        services = {cause.key: service_of(cause) for cause in retried.values()}
        named = [*dict.fromkeys(filter(None, services.values()))]
        began = time.monotonic()
        left = self._time_left()
        most = self._wait_left if left is None else min(self._wait_left, left)
        title = f"retry {number} of {self._count}"
        if retried and not named:
            time.sleep(min(2.0 ** (number - 1), max(most, 0.0)))
        missing = _wait_for_services(named, most, title)
        waited = time.monotonic() - began
        self._wait_left -= waited
        after = f"after {seconds_words(waited)}"
        for service in missing:
            self._note(f"{service} still does not answer {after}")
        ready = {
            nodeid: cause
            for nodeid, cause in retried.items()
            if services[cause.key] not in missing
        }
        if left is not None and waited >= left:
            self._note("the time limit is reached")
            return {}
        if ready:
            back = ", ".join([str(name) for name in named if name not in missing])
            words = f"{back} answered {after}" if back else after
            tell(f"{title}: {_count_words(ready)} ({words})")
        return ready


def _wait_for_services(
    services: Sequence[Service], most_seconds: float, title: str
) -> list[Service]:
    """Wait until services answer; return those that don't.

    Raises:
        StoppedError: a signal ends the waiting.
    """
    until = time.monotonic() + most_seconds
    pause = _SHORTEST_PAUSE
    missing = [*services]
    while missing := [service for service in missing if not service.answers()]:
        left = until - time.monotonic()
        if left <= 0:
            break
        if pause == _SHORTEST_PAUSE:
            names = ", ".join(map(str, missing))
            tell(f"{title}: waiting up to {seconds_words(left)} for {names}")
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
    return missing


def _count_words(retried: Collection[str]) -> str:
    """Return in words how much is run again."""
    if SESSION in retried:
        return "all tests"
    files = [nodeid for nodeid in retried if "::" not in nodeid]
    counts = {"test": len(retried) - len(files), "file": len(files)}
    return ", ".join([counted(counts[noun], noun) for noun in counts if counts[noun]])


def _explain_refusal(end: CommandEnd, report: FailureReport) -> str:
    """Return why a failed run is not retried; empty if it may be."""
    if report.environment.pytest == "unknown":
        return "no pytest was recorded"
    if report.bench:
        return "the cases of a bench are never run again"
    if _is_stopped(end):
        return "the run was stopped"
    if is_cut(report):
        return "the report has no room for all that failed or did not run"
    if not find_retried(report):
        return "no cause is the environment's, so a retry can't change it"
    return ""


def _is_stopped(end: CommandEnd) -> bool:
    """Tell whether a person, a signal or the time limit has ended a command."""
    has_signal = end.interrupted or end.sender is not None
    return has_signal or end.limit_reached or end.fault is not None
