"""The records that deaths of the fault matrix leave, kept to be judged without a process.

`python -m tests.helpers.recorded_deaths` brings each death about and writes its record to
`tests/data/recorded_deaths`, without what is of one machine; names as arguments choose some.
Run it again when the layout of the record changes.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.survive.complete import end_of_process
from pytest_failure_taxonomy.survive.crash_output import read_traces
from pytest_failure_taxonomy.survive.facts import ProcessEnd, WorkerState, facts_of
from pytest_failure_taxonomy.survive.folder import worker_of
from pytest_failure_taxonomy.survive.layout import (
    CRASH,
    EVENTS,
    OBSERVED,
    STACKS,
    STATE,
    file_size,
)
from pytest_failure_taxonomy.survive.observed import parse_observed
from pytest_failure_taxonomy.survive.reader import (
    RecordedRun,
    parse_record,
    parse_worker,
)
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.evidence import Left, RunEvidence
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.values import replace as replace_fields
from tests.helpers import warm_pytest
from tests.helpers.fault_runs import Cell
from tests.helpers.faults import (
    CONFIGURATIONS,
    FAULTS,
    SECOND,
    Configuration,
    End,
    Fault,
)

FOLDER: Final = Path(__file__).parents[1] / "data/recorded_deaths"
RUN_ID: Final = "0123456789abcdef" * 2
ROOTDIR: Final = "/project"
_DEATH: Final = "death.json"
_BUDGET: Final = 9
"""Seconds of a limit around the run."""
_TESTS: Final = 3
_NOT_HERE: Final = frozenset({"mount"})
_COPIED: Final = (STATE, EVENTS, CRASH, STACKS, OBSERVED)
_NO_WATCHER: Final = ("-o", "failure_taxonomy_watcher=false")
_WITH_A_RECORD: Final = ("alone", "n2")
_RECORD: Final = ".report.json.*/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A run that died, by what is left of it."""

    name: str
    expected: End
    """What the fault matrix says of it."""
    returncode: int
    ended_ns: int
    message: str
    """What the verdict says, as it was when the death was recorded."""

    @property
    def folder(self) -> Path:
        """The folder of its record."""
        return FOLDER / self.name

    @property
    def end(self) -> ProcessEnd:
        """Its end, as a watcher has seen it."""
        end = end_of_process(self.returncode, "watcher", self.ended_ns)
        stacks = self.read(STACKS).decode() or None
        observed = self.read(OBSERVED)
        return replace_fields(
            end,
            exit=replace_fields(end.exit, stacks=stacks),
            observed=parse_observed(observed) if observed else None,
            left=Left(dump=self.read(CRASH)),
        )

    @property
    def run(self) -> RecordedRun:
        """What its record says."""
        return parse_record(self.read(STATE), self.read(EVENTS), RUN_ID, self.name)

    @property
    def workers(self) -> Mapping[str, WorkerState]:
        """What its workers have recorded."""
        states = {path.parent.name: path for path in self.folder.glob(f"gw*/{STATE}")}
        return {
            worker_of(name) or name: parse_worker(path.read_bytes())
            for name, path in sorted(states.items())
        }

    def read(self, name: str) -> bytes:
        """Return the content of a file of its record; nothing if there is none."""
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def evidence(self) -> RunEvidence:
        """Return what was seen of the run."""
        end = self.end
        traces = read_traces(end.left, end.exit, Path(ROOTDIR), str)
        seen = facts_of(self.run.snapshot(), end, workers=self.workers, traces=traces)
        return name_libraries(seen)


def recorded_deaths() -> list[Death]:
    """Return all deaths that are recorded, in the order of the fault matrix."""
    deaths = []
    for fault in FAULTS:
        for name in _WITH_A_RECORD:
            path = FOLDER / f"{fault.name}-{name}" / _DEATH
            if path.exists():
                fields = json.loads(path.read_text("utf-8"))
                deaths.append(
                    Death(
                        name=path.parent.name,
                        expected=fault.end_in(name),
                        **fields,
                    )
                )
    return deaths


def leaves_a_record(fault: Fault, name: str) -> bool:
    """Tell whether a death leaves a record that its watcher has to read."""
    end = fault.end_in(name)
    return (
        end.source == SECOND
        and end.completeness is None
        and fault.needs not in _NOT_HERE
        and name not in fault.leaves_out
        and "rmtree" not in fault.body
    )


def recorded_names(fault: Fault) -> list[str]:
    """Return the configurations in which a death leaves a record."""
    return [name for name in _WITH_A_RECORD if leaves_a_record(fault, name)]


class _RecordedCell(Cell):
    """A run whose record is copied, and whose report nobody completes."""

    def __init__(self, folder: Path, fault: Fault, name: str) -> None:
        args = CONFIGURATIONS[name].args
        # What is stalled only a watcher sees.
        if not fault.sends_after_stall:
            args = (*args, *_NO_WATCHER)
        configuration: Configuration = replace(CONFIGURATIONS[name], args=args)
        super().__init__(folder, fault, configuration, _BUDGET)
        self.has_workers = configuration.on_workers
        self.copy = folder / "record"
        self.ended_ns = 0

    def _look(self) -> None:
        super()._look()
        if self._fault.sends_after_stall and self._has_told_of_stall():
            self._copy_record()

    def _has_ended(self) -> bool:
        has_ended = super()._has_ended()
        if has_ended and not self.ended_ns:
            self.ended_ns = time.monotonic_ns()
            self._copy_record()
        return has_ended

    def _finalize(self) -> None:
        pass

    def _copy_record(self) -> None:
        if self.copy.exists():
            return
        records = [path for path in self._report.parent.glob(_RECORD) if path.is_dir()]
        for record in records:
            shutil.copytree(record, self.copy)


def record_death(fault: Fault, name: str) -> None:
    """Bring a death about, and keep what its record has."""
    folder = Path(tempfile.mkdtemp())
    try:
        cell = _RecordedCell(folder, fault, name)
        outcome = cell.run()
        assert outcome.status is not None, outcome.stderr
        death = Death(
            name=f"{fault.name}-{name}",
            expected=fault.end_in(name),
            returncode=_returncode(outcome.status, fault.end_in(name)),
            ended_ns=cell.ended_ns,
            message="",
        )
        shutil.rmtree(death.folder, ignore_errors=True)
        # Where no watcher reads it, faulthandler writes to stderr as without this plugin.
        _, fatal, dump = outcome.stderr.partition("Fatal Python error")
        if not cell.has_workers:
            (cell.copy / CRASH).write_text(fatal + dump, "utf-8")
        _keep_record(cell.copy, death.folder, outcome.folder)
        verdict = judge(death.evidence()).verdict
        fields = {
            "returncode": death.returncode,
            "ended_ns": death.ended_ns,
            "message": "" if verdict is None else verdict.message,
        }
        content = json.dumps(fields, indent=2) + "\n"
        (death.folder / _DEATH).write_text(content, "utf-8")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _returncode(status: int, expected: End) -> int:
    """Return pytest's own return code, where the caller sees that of a `timeout`."""
    code = expected.code
    if code is None or code < 0:
        code = status
    return 128 - code if code > 128 else code


def _keep_record(record: Path, folder: Path, project: Path) -> None:
    """Copy the files that have something in them, without what is of one machine."""
    for path in sorted(record.rglob("*")):
        if path.name not in _COPIED:
            continue
        content = path.read_bytes()
        if path.name == STATE:
            content = content[: file_size(_TESTS)]
        else:
            content = _without_machine(content.rstrip(b"\0"), project)
        if path == record / EVENTS:
            content = _with_plain_header(content)
        if content:
            target = folder / path.relative_to(record)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _without_machine(content: bytes, project: Path) -> bytes:
    """Replace the folders of this machine, and the id of the run."""
    places = {
        str(project): ROOTDIR,
        str(Path(__file__).parents[2]): "/sources",
        sys.prefix: "/environment",
        sys.base_prefix: "/python",
    }
    text = content.decode("utf-8", "surrogateescape")
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text.encode("utf-8", "surrogateescape")


def _with_plain_header(events: bytes) -> bytes:
    """Replace the run's id, and what the first event says of the machine."""
    first, _, rest = events.partition(b"\n")
    name, header = json.loads(first)
    run_id: str = header["run_id"]
    header["path"] = []
    header["process"]["boot_id"] = None
    header["memory"] = {"events_file": None, "oom_kills": None}
    environment: dict[str, Any] = header["context"]["environment"]
    plain = {"python": "3.12.0", "platform": "Linux", "pytest": "9.0.0"}
    environment.clear()
    environment.update(plain)
    content = json.dumps([name, header]).encode() + b"\n" + rest
    content = re.sub(rb'"watcher", \{.*', b'"watcher", {"active": true}]', content)
    return content.replace(run_id.encode(), RUN_ID.encode())


def main() -> None:
    """Record all deaths, or those that are named."""
    warm_pytest.Switch.is_on = False
    names = frozenset(sys.argv[1:])
    for fault in FAULTS:
        for name in recorded_names(fault):
            if not names or fault.name in names:
                record_death(fault, name)
                print(fault.name, name)  # noqa: T201 - this is a program


if __name__ == "__main__":
    main()
