"""The lines of the file that a run of a task class is kept in.

Each line is written when what it tells has happened.

Several processes append to one file; each line is one write. Each is a JSON object
whose first key, `record`, says what it is:

| record   | written                               | holds                                         |
|----------|---------------------------------------|-----------------------------------------------|
| run      | first, once                           | what is run: class, taxonomy, system, digests |
| cases    | second, and when the run is continued | the cases to run, with their digests          |
| resumed  | when another pytest continues the run | when, and at which commit                     |
| started  | before a case's system is called      | case, number of the call, worker, process     |
| spent    | when the system tells a cost          | case, amount                                  |
| attempt  | when a call of the system has ended   | case, times, costs; with the last, the score  |
| stopped  | when no more cases are started        | why                                           |
| baseline | when compared with an earlier run     | the comparison, or why there is none          |

A process that is killed may leave a line that is cut off: it is skipped, and said so.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they
# are.

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD
from pytest_failure_taxonomy.bench.scores import CaseAttempt
from pytest_failure_taxonomy.bench.sharding import case_digest, digests_of
from pytest_failure_taxonomy.documents.models import ClosedModel

SCHEMA_VERSION: Final = 1

_Name = Annotated[str, Field(min_length=1)]


class SystemGiven(ClosedModel):
    """The system under test of a run."""

    name: str
    """Its name: `package.module:callable`, or that of what a fixture returned."""
    version: str | None = None
    """Its version, as `sut_version` or its own attribute `version` gives it."""
    label: str = ""
    """Which of several systems of one pytest run it is; empty for a single one."""

    def __str__(self) -> str:
        """Return the name with the version."""
        return self.name if self.version is None else f"{self.name} {self.version}"


class ScheduledCase(ClosedModel):
    """A case that a run is to run."""

    case_id: _Name
    """Its id; for repetitions with `#2` and so on."""
    digest: str
    """Of the case's fields."""
    repetition: Annotated[int, Field(ge=1)] = 1
    """Which repetition it is, from 1."""
    tags: models.Listed[str] = ()
    """Its tags."""
    cluster: str | None = None
    """Its cluster, if its class names one."""


class RunHeader(ClosedModel):
    """The first line of a run's file."""

    record: Literal["run"] = "run"
    schema_version: Annotated[int, Field(ge=1)]
    """Which form the lines have."""
    run_id: str
    """Also the name of the file, without its suffix."""
    task_class: _Name
    """The name of the class."""
    folder: str
    """The class's folder, relative to pytest's root directory where it lies below
    it."""
    test: str = ""
    """The test that ran the cases; empty for the items of the class."""
    system: SystemGiven
    """What was called."""
    taxonomy: dict[str, models.Severity]
    """The class's failure codes with their severities."""
    breakdown_keys: models.Listed[str]
    """The class's breakdown keys, sorted."""
    cases_in_class: Annotated[int, Field(ge=0)]
    """How many cases the class has, of which a run may be to run some."""
    gate: models.GateSettings | None = None
    """What the run must reach."""
    settings: dict[str, object] = Field(default_factory=dict)
    """The class's settings, options applied."""
    digests: models.BenchDigests
    """What makes runs comparable."""
    commit: str | None = None
    """The commit that is checked out, if there is one."""
    started_at: str
    """When the run began, as RFC 3339 in UTC."""
    generator: str
    """This package and its version."""
    shard: models.RunShard | None = None
    """Which part of the class it is; null for all of it."""
    not_resumed: str | None = None
    """Why an earlier run could not be continued, if that was asked for."""
    regraded_from: str | None = None
    """The run whose outputs were graded again; its system was not called for this
    one."""


class _Line(ClosedModel, extra="ignore"):
    """A line of the file; a newer program may have written more into it."""


class CasesLine(_Line):
    """The cases to run."""

    record: Literal["cases"] = "cases"
    cases: models.Listed[ScheduledCase]


class ResumedLine(_Line):
    """Another pytest continues the run."""

    record: Literal["resumed"] = "resumed"
    session: str
    """The name of that pytest session."""
    at: str = ""
    """When, as RFC 3339 in UTC."""
    commit: str | None = None
    """The commit that is checked out."""
    cases_in_class: Annotated[int, Field(ge=0)] | None = None
    """How many cases the class has by now."""


class StartedLine(_Line):
    """The system is about to be called for a case."""

    record: Literal["started"] = "started"
    case_id: str
    """The case."""
    attempt: int = 1
    """The number of the call."""
    worker: str = ""
    """The process that makes it, by its name among those of the run."""
    pid: int = 0
    """The same by its number; 0: not known."""
    at: float = 0.0
    """When, in seconds since the epoch."""
    max_cost_usd: Annotated[float, Field(ge=0)] | None = None
    """The most that the case can cost, if that is known."""
    nodeid: str | None = None
    """The test that waits for it, if that is known."""


class SpentLine(_Line):
    """The system has just spent something."""

    record: Literal["spent"] = "spent"
    case_id: str
    """The case."""
    attempt: int
    """The number of the call."""
    cost_usd: Annotated[float, Field(ge=0)]
    """The amount."""


class StoppedLine(_Line):
    """No more cases are started."""

    record: Literal["stopped"] = "stopped"
    reason: str
    """Why."""
    cause: str = ""
    """The fingerprint of the cause that many cases failed with, if that is why."""
    at: float = 0.0
    """When, in seconds since the epoch."""


class BaselineLine(_Line):
    """The run was compared with an earlier one."""

    record: Literal["baseline"] = "baseline"
    found: models.BenchComparison | str
    """How it differs, or why that is not known."""


class KeptAttempt(CaseAttempt):
    """A call of the system for a case, as a run's file holds it."""

    record: Literal["attempt"] = "attempt"
    case_id: str
    """The case."""
    worker: str = ""
    """The process that made it."""
    rubric_cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    """What the rubric spent."""
    input_digest: str = ""
    """The digest of the case's fields."""
    score: models.BenchScore | None = None
    """The case's score; null for a call after which the system was called again."""
    output: Any = None
    """What the system returned."""
    transcript: Any = None
    """How the system came to it."""
    printed: str | None = None
    """What the rubric printed."""
    truncated: models.Listed[str] = ()
    """Which of these were too long to save."""
    is_redacted: bool = False
    """Whether secrets were removed from the output, so that it is not what the rubric
    saw."""

    @property
    def gave_output(self) -> bool:
        """Whether the system gave an output in this call, which led to a score."""
        if self.ended or self.score is None:
            return False
        codes = [mode.code for mode in self.score.failure_modes]
        is_bare = (
            self.output is None and not self.truncated and not self.score.breakdown
        )
        return not (is_bare and codes in ([models.SUT_EXCEPTION], [models.SUT_TIMEOUT]))

    @property
    def has_output(self) -> bool:
        """Whether the system gave an output, and it was not too long to be kept."""
        return self.gave_output and "output" not in self.truncated


Line = (
    CasesLine
    | ResumedLine
    | StartedLine
    | SpentLine
    | KeptAttempt
    | StoppedLine
    | BaselineLine
)
LINES: Final[Mapping[str, type[Line]]] = {
    "cases": CasesLine,
    "resumed": ResumedLine,
    "started": StartedLine,
    "spent": SpentLine,
    "attempt": KeptAttempt,
    "stopped": StoppedLine,
    "baseline": BaselineLine,
}
Record = dict[str, Any]
"""A JSON object that a line holds, with a text as `record`; anybody may have written
it."""


def schedule_case(case: models.BenchCase) -> ScheduledCase:
    """Return a case as a run's file lists it."""
    return ScheduledCase(
        case_id=case.case_id,
        digest=case_digest(case),
        repetition=case.repetition,
        tags=case.tags,
        cluster=case.cluster,
    )


def begin_header(
    task_class: models.TaskClass, *, run_id: str, **fields: Any
) -> RunHeader:
    """Return the first line of a run that begins now, of its class as it is.

    Args:
        task_class: The class.
        run_id: The id of the run.
        fields: Others that the class doesn't say, such as `folder` and `system`.
    """
    settings = task_class.settings
    return RunHeader(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        task_class=task_class.name,
        taxonomy=dict(task_class.failure_mode_taxonomy),
        breakdown_keys=tuple(sorted(task_class.breakdown_keys)),
        cases_in_class=len(task_class.cases),
        gate=settings.gate,
        settings=settings.model_dump(mode="json", exclude={"gate"}),
        digests=digests_of(task_class),
        started_at=now(),
        generator=f"pytest-failure-taxonomy {VERSION}",
        **fields,
    )


def now() -> str:
    """Return the time as RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
