"""The models of a task class, a case, a score, a run and its figures, and the runner's codes.

They are pydantic models because files and rubrics fill them. They are immutable.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, Spending
from pytest_failure_taxonomy.documents.models import ClosedModel, Line
from pytest_failure_taxonomy.documents.problems import (
    WrongError,
    nearest,
    quoted,
    shown,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import known_kinds

_T = TypeVar("_T")
# Strict validation rejects a list for a tuple; here lists are accepted because JSON has no tuples.
Listed = Annotated[tuple[_T, ...], Field(strict=False)]
_NotNegative = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Difference = Annotated[float, Field(ge=-1, le=1)]

Finding = Literal["worse", "better", "undecided"]
Flip = Literal["now_fails", "now_passes"]
Checked = Literal["taxonomy", "rubric", "cases"]


class LowerBound(ClosedModel):
    """The one-sided 95 % lower confidence bound of the mean score."""

    value: float | None
    """The bound; null where there is none."""
    method: str
    """How it was computed, or why there is none."""
    n: _Count
    """Distinct cases that it was computed from."""
    clusters: _Count | None = None
    """Clusters of cases that were its units; null where each case was one."""

    @property
    def why_none(self) -> str:
        """Why there is no bound, where there is none."""
        return self.method.removeprefix("none: ")


class DifferenceInterval(ClosedModel):
    """The two-sided 95 % confidence interval of a mean of paired differences."""

    low: _Difference | None
    """Its lower end; null where there is none."""
    high: _Difference | None
    """Its upper end; null where there is none."""
    method: str
    """How it was computed, or why there is none."""
    n: _Count
    """Pairs that it was computed from."""
    clusters: _Count | None = None
    """Clusters of pairs that were its units; null where each pair was one."""
    p_value: _Share | None = None
    """Two-sided p value of equality; below 0.05 where 0 is outside of the interval."""

    @property
    def why_none(self) -> str:
        """Why there is no interval, where there is none."""
        return self.method.removeprefix("none: ")


class ReducedScore(ClosedModel):
    """What one reducer makes of the repetitions of all cases."""

    name: str
    """The reducer, as `bench.yaml` names it."""
    value: float | None
    """The mean over the distinct cases; null where a case has fewer runs than it needs."""
    standard_error: float | None = None
    """The standard error of that mean; null where the cases are no sample, or only one unit."""
    lower_bound_95: LowerBound
    """The lower bound of that mean; each distinct case counts once."""


class TagScores(ClosedModel):
    """The scores of the cases that have a tag."""

    tag: str
    """The tag."""
    n: _Count
    """Cases with this tag that were started."""
    passed: _Count
    """Cases among them that passed."""
    mean_score: float
    """Their mean score, where a failed or lost case counts as 0."""
    standard_error: float | None = None
    """The standard error of that mean; null where the cases are no sample, or only one unit."""
    lower_bound_95: LowerBound
    """The lower bound of that mean; each distinct case counts once."""


class KeyScores(ClosedModel):
    """The scores on one key of the breakdown."""

    key: str
    """The key."""
    n: _Count
    """Cases whose breakdown has the key, and those that failed without any breakdown."""
    mean: float
    """The mean of their scores on it, 0 for those without a breakdown."""
    standard_error: float | None = None
    """The standard error of that mean; null where the cases are no sample, or only one unit."""
    least: float
    """The least of them."""


class ProviderLoss(ClosedModel):
    """Cases that never got through to what the system needs, for one kind of its failures."""

    kind: str
    """The kind, such as `llm.rate_limited`."""
    cases: Annotated[int, Field(ge=1)]
    """How many cases were lost to it."""


class BenchDigests(ClosedModel):
    """What the cases of a run were judged by, as SHA-256 in hex."""

    taxonomy: str | None
    """The digest of the failure modes, their severities, and the breakdown keys; null if
    unknown."""
    rubric: str | None
    """The digest of `rubric.py` and the Python files beside it; null if unknown."""
    system: str | None = None
    """The digest of the system under test, or of its version as given; null if unknown."""
    cases: str | None = None
    """A digest of 128 bits of all distinct cases that should run; null if unknown."""


class CaseChange(ClosedModel):
    """A case that came to another result than before."""

    case_id: str
    """The case; its repetitions are averaged."""
    old_score: _Share
    """Its score before, 0 where it did not pass."""
    new_score: _Share
    """Its score now, 0 where it does not pass."""
    old_passed: _Share
    """The share of its runs that passed before."""
    new_passed: _Share
    """The share of its runs that pass now."""
    flip: Flip | None
    """Whether the case, by most of its runs, fails or passes otherwise than before."""


class BenchComparison(ClosedModel):
    """How two runs of a task class differ, paired by case."""

    task_class: str
    """The class's name."""
    old_system_label: str = ""
    """Which of several systems of one pytest run the older run was of; empty for a single one."""
    new_system_label: str = ""
    """Which of several systems of one pytest run the newer run was of; empty for a single one."""
    old: str
    """Where the older run was read from."""
    old_run_id: str
    """The id of the older run."""
    new_run_id: str
    """The id of the newer run."""
    n: _Count
    """Cases that both runs have."""
    only_old: Listed[str]
    """Cases that only the older run has, sorted; they count in no figure here."""
    only_new: Listed[str]
    """Cases that only the newer run has, sorted; they count in no figure here."""
    not_checked: Listed[Checked]
    """What could not be checked to be equal, because one of the runs doesn't say."""
    old_mean: _Share
    """The mean score of the older run over these cases."""
    new_mean: _Share
    """The mean score of the newer run over these cases."""
    difference: _Difference
    """The newer mean less the older one."""
    interval_95: DifferenceInterval
    """What the pairs prove of the true difference."""
    comparisons: _Count = 1
    """How many comparisons were made together; each one more makes a chance finding likelier."""
    adjusted_p: _Share | None = None
    """The interval's p value, adjusted by Holm's method for all of these; null for no interval."""
    finding: Finding
    """`worse` or `better` where the interval lies wholly on one side of 0 and `adjusted_p` is below
    0.05."""
    mcnemar_p: _Share
    """Two-sided p value of McNemar's exact test of the flips; a cluster counts as one flip, in the
    direction of most of its own."""
    changes: Listed[CaseChange]
    """The cases whose score or passing changed, the greatest loss first."""
    old_cost_usd: _NotNegative
    """What these cases cost in the older run, each repetition counted."""
    new_cost_usd: _NotNegative
    """What these cases cost in the newer run, each repetition counted."""
    old_mean_ms: _NotNegative
    """How long a case took in the older run on average, in milliseconds."""
    new_mean_ms: _NotNegative
    """How long a case took in the newer run on average, in milliseconds."""
    old_system_ms: _NotNegative | None = None
    """How long the system alone took for a case in the older run on average, in milliseconds; null
    where that was not measured for all cases."""
    new_system_ms: _NotNegative | None = None
    """The same for the newer run."""


COST_CAP: Final = "the cost cap was reached"
"""Why a run was stopped, as its report says it."""

Severity = Literal["block", "warn", "info"]

SUT_EXCEPTION: Final = "sut.exception"
SUT_TIMEOUT: Final = "sut.timeout"
RUBRIC_MALFORMED_OUTPUT: Final = "rubric.malformed_output"
RUBRIC_TIMEOUT: Final = "rubric.timeout"
RUBRIC_UNKNOWN_BREAKDOWN_KEY: Final = "rubric.unknown_breakdown_key"
RUBRIC_UNKNOWN_FAILURE_MODE: Final = "rubric.unknown_failure_mode"

RUNNER_CODES: Final[Mapping[str, str]] = packaged_table("bench")["runner_codes"]
"""The runner's own codes, with descriptions; their severity is `block`, and no file has to list
them."""

_BANNED: Final = re.compile("confidence|llm|self_reported|model_says", re.IGNORECASE)
"""A breakdown key with one of these would be a model's opinion of itself, not a score."""


def _as_frozenset(given: object) -> object:  # pydantic 2.8 has no lax set
    return frozenset(given) if isinstance(given, set | list | tuple) else given


Seconds = Annotated[float, Field(gt=0)]
_Weight = Annotated[float, Field(ge=0, le=1e9)]
_Part = Annotated[float, Field(ge=-1e9, le=1e9)]
_AtLeastOne = Annotated[int, Field(ge=1)]


def _check_cap(cap: float) -> float:
    if cap <= 0:
        raise WrongError(
            f"a cap of {cap:g} lets no case run; give more than 0, or leave it out"
        )
    return cap


_Cap = Annotated[float, AfterValidator(_check_cap)]

DEFAULT_TIMEOUT_SECONDS = 300.0
DEFAULT_RUBRIC_SECONDS = 60.0
DEFAULT_CONCURRENCY = 8
DEFAULT_RUBRIC_MEMORY_MB = 2_048


class FailureMode(ClosedModel):
    """One thing that went wrong in a case, by a code that its task class declares."""

    code: Annotated[str, Field(min_length=1)]
    """The code, as `failure_modes.yaml` lists it, or one of the runner's own six."""
    severity: Severity
    """`block`, `warn` or `info`."""
    detail: str | None = None
    """What happened in this case, in words."""


class BenchScore(ClosedModel):
    """The result of one case."""

    passed: bool
    """Whether the case counts as passed."""
    score: _Share
    """From 0 to 1."""
    breakdown: dict[str, _Part] = Field(default_factory=dict)
    """Partial scores by the task class's own keys."""
    failure_modes: Listed[FailureMode] = ()
    """What went wrong, in the rubric's order."""
    cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    """What the case cost, in US dollars."""
    wall_clock_ms: _NotNegative = 0.0
    """How long system and rubric took together, in milliseconds, as the runner measured it."""
    system_ms: _NotNegative | None = None
    """How long the system's last call took, in milliseconds, without what it waited for before, and
    without the rubric; null where that was not measured."""

    @property
    def counted_score(self) -> float:
        """The score that averages use: 0 for a case that did not pass."""
        return self.score if self.passed else 0.0

    @property
    def is_blocked(self) -> bool:
        """Whether a failure mode is of severity `block`."""
        return any(mode.severity == "block" for mode in self.failure_modes)


class BenchCase(ClosedModel):
    """One case; `case["name"]` returns a field of its file, or raises `KeyError`."""

    case_id: Annotated[str, Field(min_length=1)]
    """The `id` of the file, unique in its task class. If the class repeats its cases, a plan adds
    the number of the repetition, as in `empty#2`; no system sees it."""
    input: Any = None
    """The input of the system under test."""
    tags: Listed[str] = ()
    """Names of pytest marks that the case carries."""
    timeout_per_case_seconds: Seconds | None = None
    """The case's own limit for the system under test; `None`: the limit of the plan."""
    rubric_wall_clock_seconds: Seconds | None = None
    """The case's own limit for the rubric; `None`: the limit of the plan."""
    max_cost_usd: _NotNegative | None = None
    """The most that the case can cost, if that is known: a run with a cost cap reserves it."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """The file's entry as a plain dict, which a rubric gets as its `case`. Where `fields` of
    `bench.yaml` names other fields, it has them by our names, too."""
    path: Path | None = None
    """The file of the case."""
    line: int | None = None
    """The line of that file where it begins, from 1."""
    repetition: _AtLeastOne = 1
    """Which of the class's `repeat` runs of this case it is, from 1."""
    cluster: str | None = None
    """The cluster of similar cases: the value of the field that `cluster:` of `bench.yaml` names.
    `None`: no other case is similar."""

    _spending: Spending | None = PrivateAttr(default=None)
    _hidden: frozenset[str] = PrivateAttr(default=frozenset())
    """Fields that the system does not see."""
    _is_suspect: bool = PrivateAttr(default=False)
    _id_in_file: str | None = PrivateAttr(default=None)
    """The id without the number of the repetition; `None`: the case is not repeated."""
    _workspace: Path | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _take_more_fields(cls, given: Any) -> Any:
        """Accept keyword arguments of any name, and fill `fields`."""
        if not isinstance(given, dict) or "fields" in given:
            return given
        known = {
            name: value for name, value in given.items() if name in cls.model_fields
        }
        fields = {
            name: value for name, value in given.items() if name not in _NOT_IN_FILES
        }
        return {**known, "fields": {"id": given.get("case_id"), **fields}}

    @classmethod
    def of_checked(cls, **values: Any) -> Self:
        """Return a case of values of the right types, without checking them again.

        There may be a hundred thousand: attributes that are set one by one share a table
        of their names, and the rest is shared until a case is copied.
        """
        case = cls.__new__(cls)
        for name, field in cls.model_fields.items():
            object.__setattr__(case, name, values.get(name, field.default))
        for name, state in _STATE_OF_CHECKED.items():
            object.__setattr__(case, name, state)
        return case

    @property
    def id_in_file(self) -> str:
        """The id of the file, which is the same for all repetitions of the case."""
        return self._id_in_file or self.case_id

    def __getitem__(self, name: str) -> Any:
        """Return a field of the case's file."""
        if name in self._hidden:
            raise KeyError(
                f"{name} is hidden from the system; see `hidden:` of bench.yaml"
            )
        return self.fields[name]

    def as_repetition(self, number: int) -> Self:
        """Return one of several runs of the case, with its own id."""
        case_id = f"{self.id_in_file}#{number}"
        case = self.model_copy(update={"case_id": case_id, "repetition": number})
        case._id_in_file = self.id_in_file  # noqa: SLF001 - of the same class
        return case

    def as_in_file(self) -> Self:
        """Return the case with the id of its file, as systems and rubrics get it."""
        if self.case_id == self.id_in_file:
            return self
        return self.model_copy(update={"case_id": self.id_in_file})

    def for_system(
        self,
        hidden: Collection[str],
        spending: Spending,
        *,
        is_suspect: bool = False,
        workspace: Path | None = None,
    ) -> Self:
        """Return what the system gets: a copy to work on, so that a rubric sees no changes.

        Args:
            hidden: The fields that only rubrics get. If there are any, it gets no path, either.
            spending: Where `spend` adds what was spent.
            is_suspect: Whether an earlier call for it may have killed what other cases needed.
            workspace: Its workspace, if it has one.
        """
        fields = {
            name: given for name, given in self.fields.items() if name not in hidden
        }
        # One copy for both, so that what is one object stays one.
        own_fields, own_input = deepcopy((fields, self.input))
        update = {"fields": own_fields, "input": own_input}
        if hidden:
            own = BenchCase.model_fields
            update |= {
                name: own[name].default
                for name in ("path", "line", *hidden)
                if name in own
            }
        case = self.as_in_file().model_copy(update=update).spending_to(spending)
        case._hidden = frozenset(hidden)  # noqa: SLF001 - of the same class
        case._is_suspect = is_suspect  # noqa: SLF001 - likewise
        return case.in_workspace(workspace)

    def in_workspace(self, workspace: Path | None) -> Self:
        """Return the case with a workspace, whose path rubrics get as `case["workspace"]`."""
        if workspace is None:
            return self
        fields = {**self.fields, "workspace": str(workspace)}
        case = self.model_copy(update={"fields": fields})
        case._workspace = workspace  # noqa: SLF001 - of the same class
        return case

    @property
    def workspace(self) -> Path | None:
        """The folder in which the system works, if `workspace:` of `bench.yaml` asks for one."""
        return self._workspace

    def stage(self, report: str | os.PathLike[str]) -> list[dict[str, str]]:
        """Return the failure modes of a stage, from the report of `failure-taxonomy run`.

        The code is the reason of the stage's verdict, such as `AGENT_GAVE_UP`; the detail says
        whom the failure is charged to. A rubric can return them as they are.

        Args:
            report: The path of the report, from the workspace if there is one.

        Returns:
            None for a stage that did not fail.

        Raises:
            StageFailedError: The failure is charged to the environment. With
                `lost_if: environment`, the case then has no score.
            ReportError: There is no such report, or it can't be read.
        """
        from pytest_failure_taxonomy.bench.user_code import StageFailedError
        from pytest_failure_taxonomy.errors import ReportError
        from pytest_failure_taxonomy.report.load import load_report

        path = Path(self._workspace or "", report)
        if not path.exists():
            what = f"`failure-taxonomy run` wrote no report {path}"
            raise ReportError(f"{what}: could the agent be started?")
        found = load_report(path)
        verdict = found.verdict
        if verdict is None:
            return []
        charge = verdict.charge_to or "ambiguous"
        words = f"{found.run.stage}: {verdict.message}"
        if charge == "environment":
            raise StageFailedError(f"{verdict.reason}: {words}", verdict.kind)
        detail = f"{words} (charged to: {charge})"
        return [{"code": str(verdict.reason), "detail": detail}]

    def spend(self, usd: float = 0.0, /, **usage: float) -> None:
        """Add what the system under test has just spent on this case.

        A system calls this while it works, so that the cost counts however the case ends: by a
        timeout, an exception or a failing rubric. The amounts of several calls add up, together
        with those of an `Answer`. Any thread may call it.

        Args:
            usd: The amount in US dollars.
            usage: Other amounts by name, such as `input_tokens=812`.

        Raises:
            ValueError: An amount is negative or no finite number.
            TypeError: An amount is no number.
        """
        if self._spending is None:  # the case is in no run
            private = {**(self.__pydantic_private__ or {}), "_spending": Spending()}
            object.__setattr__(self, "__pydantic_private__", private)
        cast("Spending", self._spending).add(usd, usage)

    @property
    def is_suspect(self) -> bool:
        """Whether it must run alone: an earlier call for it may have killed other cases."""
        return self._is_suspect

    def note_seconds(self, seconds: float) -> None:
        """Note how long the system took in the process that called it."""
        if self._spending is not None:
            self._spending.seconds = seconds

    def spending_to(self, spending: Spending) -> Self:
        """Return the case with another target for `spend`."""
        case = self.model_copy()
        case._spending = spending  # noqa: SLF001 - of the same class
        return case


_NOT_IN_FILES = frozenset({"case_id", "fields", "path", "line", "repetition"})
_STATE_OF_CHECKED: Final = {
    "__pydantic_fields_set__": set(BenchCase.model_fields),
    "__pydantic_extra__": None,
    "__pydantic_private__": BenchCase(case_id="any").__pydantic_private__,
}


class OracleExample(ClosedModel):
    """An output that a rubric must judge as expected: a self-test of the rubric."""

    example_id: Annotated[str, Field(min_length=1)]
    """The `id` of the file."""
    case_id: str
    """The case that the output answers."""
    output: Any = None
    """What a system under test would have returned."""
    expect: Literal["gold", "null"] | None = None
    """`gold`: it must pass; `null`: it must not pass; `None`: it only measures the rubric."""
    label: Literal["pass", "fail"] | None = None
    """What people say about it."""
    path: Path | None = None
    """The file of the example."""
    line: int | None = None
    """The line of that file in which it begins, from 1."""


class GateSettings(ClosedModel):
    """What a run must reach; failure modes of severity `block` always fail a gate."""

    lower_bound_95: _Share | None = None
    """The lower bound that the mean score must reach."""
    min_passed_cases: _AtLeastOne | None = None
    """How many distinct cases must pass."""
    decides: bool = False
    """Only the gate decides whether the run fails: a case that was graded and did not pass fails no
    test."""


def _check_kinds(pattern: str) -> str:
    """Return a pattern if it matches one of our kinds.

    Raises:
        WrongError: No kind matches it.
    """
    if any(fnmatchcase(kind, pattern) for kind in known_kinds()):
        return pattern
    near = nearest(pattern, known_kinds())
    right = (
        f"near it are {', '.join(near)}"
        if near
        else "write kinds such as llm.rate_limited"
    )
    raise WrongError(f"{quoted(pattern)} is no kind of failure; {right}")


def _refuse_none(patterns: tuple[str, ...]) -> tuple[str, ...]:
    # `min_length` would be reported beside each pattern that can't be used.
    if not patterns:
        raise WrongError("is an empty list; name kinds such as llm.rate_limited")
    return patterns


class RetrySettings(ClosedModel):
    """When the system is called again for a case whose call failed."""

    on: Annotated[
        Listed[Annotated[str, AfterValidator(_check_kinds)]],
        AfterValidator(_refuse_none),
    ]
    """Kinds of exceptions after which to try again; `*` stands for any text, as in `sandbox.*`."""
    attempts: _AtLeastOne = 3
    """The total number of calls of the system for one case."""
    backoff_seconds: _NotNegative = 2.0
    """How long to wait before the second call; each further wait is longer."""


ROW_NUMBER: Final = "#"
"""Stands for the number of an entry in its file, where no field has an id."""


class CaseFields(ClosedModel):
    """Which fields of the files hold what the runner needs of a case.

    `None` stands for the field of that name.
    """

    id: Line | None = None
    """The id; `#` makes one of the file's name and the number of the entry."""
    input: Line | None = None
    """The input of the system."""
    tags: Line | None = None
    """The tags: a list, or a text that is split as a cell of CSV is."""
    timeout_per_case_seconds: Line | None = None
    """The case's own limit for the system."""
    rubric_wall_clock_seconds: Line | None = None
    """The case's own limit for the rubric."""
    max_cost_usd: Line | None = None
    """The most that the case can cost."""

    @property
    def renamed(self) -> dict[str, str]:
        """The names of the files for ours, without those that are the same."""
        return {ours: name for ours, name in self if name not in (None, ours)}


class WorkspaceSettings(ClosedModel):
    """What the workspace of each case is made of, and whose workspaces are kept."""

    template: str | None = None
    """A folder in the class's folder, which is copied, unless a case names its own."""
    git: str | None = None
    """The repository to check out: a path or URL, which has a `/`, or the field that has it."""
    commit: str | None = None
    """The field that names the commit."""
    keep: Literal["failed", "all", "none"] = "failed"
    """Whose workspaces are kept when the case is done."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if [self.template is None, self.git is None, self.commit is None] not in (
            [False, True, True],
            [True, False, False],
        ):
            raise WrongError(
                "has no single source; write a folder, or {git: ../repository, commit: FIELD}"
            )
        return self

    @property
    def git_field(self) -> str | None:
        """The field of the cases that names the repository, if one does."""
        return None if self.git is None or set(self.git) & set("/\\:") else self.git

    def source_of(self, case: BenchCase) -> tuple[str, str]:
        """Return the folder or repository of a case's workspace, and the commit if there is one.

        Raises:
            WrongError: The case names none that can be used.
        """
        if self.git is None or self.commit is None:
            template = case.fields.get("workspace", self.template)
            if not isinstance(template, str):
                raise WrongError("'workspace' is not a string; name a folder")
            if template.startswith("/") or ".." in Path(template).parts:
                raise WrongError(
                    f"{quoted(template)} leaves the class's folder; name a folder in it"
                )
            return template, ""
        place = self.git if self.git_field is None else case.fields.get(self.git)
        commit = case.fields.get(self.commit)
        for name, text, right in (
            (self.git, place, "a path or URL, such as ../shop"),
            (self.commit, commit, 'a commit as text, such as "4f2a9c1" or "main"'),
        ):
            if not isinstance(text, str) or not text or text.startswith("-"):
                raise WrongError(
                    f"{quoted(name)} is {shown(repr(text))}; write {right}"
                )
        return str(place), str(commit)


def as_workspace(given: object) -> object:
    """Return the mapping that the name of a folder stands for."""
    return {"template": given} if isinstance(given, str) else given


class BenchSettings(ClosedModel):
    """The settings of a `bench.yaml`; every value has a default."""

    sut: str | None = None
    """The system under test as `package.module:callable`."""
    sut_version: str | None = None
    """The version of the system, as its author gives it."""
    sut_isolation: Literal["process", "thread"] | None = None
    """Where a system that `sut` names runs; `None`: see `is_system_isolated`."""
    rubric_isolation: Literal["warm", "fresh"] = "warm"
    """A fork of a warm server, or a new interpreter, for each case."""
    timeout_per_case_seconds: Seconds = DEFAULT_TIMEOUT_SECONDS
    """Limit of the system under test."""
    rubric_wall_clock_seconds: Seconds = DEFAULT_RUBRIC_SECONDS
    """Limit of the rubric."""
    rubrics: Mapping[str, _Weight] | None = None
    """The weight of each rubric by its name; `None`: all weigh the same."""
    rubric_env: Listed[str] = ()
    """Names of environment variables that the rubrics see, such as the key of a judge's model."""
    rubric_version: str | None = None
    """What else the rubrics' grades depend on, such as a model; `$NAME` is an environment
    variable."""
    rubric_memory_mb: _AtLeastOne = DEFAULT_RUBRIC_MEMORY_MB
    """Address space of a rubric's process, in MiB (Linux)."""
    concurrency: _AtLeastOne = DEFAULT_CONCURRENCY
    """How many cases run at the same time, over all xdist workers together."""
    max_cost_usd: _Cap | None = None
    """No case starts once more than this was spent."""
    repeat: _AtLeastOne = 1
    """How often each case is run."""
    retry: RetrySettings | None = None
    """When to call the system again for a case whose call failed."""
    stop_after_same_failure: _Count = 10
    """Stop once this many cases in a row failed with one cause; 0: never."""
    reducers: Listed[str] = ()
    """Further figures of repeated cases: `mean`, `majority`, `pass@K`, `pass^K`, `best@K`."""
    cluster: str | None = None
    """The field whose equal values make clusters of cases; the clusters are then the units."""
    gate: GateSettings | None = None
    """What a run must reach."""
    hidden: Listed[str] = ()
    """Fields of the cases that rubrics get and the system does not."""
    fields: CaseFields = CaseFields()
    """Which fields of the files hold a case's id, input, tags and limits."""
    workspace: Annotated[WorkspaceSettings | None, BeforeValidator(as_workspace)] = None
    """The folder in which the system works on a case; `None`: cases have none."""
    lost_if: Literal["environment"] | None = None
    """What keeps a case from being judged: a failed call that is charged to it has no score."""

    @property
    def is_system_isolated(self) -> bool:
        """Whether the system runs in its own processes: by default, where they can be forked."""
        if self.sut is None or self.sut_isolation is None:
            return self.sut is not None and hasattr(os, "fork")
        return self.sut_isolation == "process"


class TaskClass(ClosedModel):
    """A set of cases with one rubric, one list of failure codes and one of breakdown keys."""

    name: Annotated[str, Field(min_length=1)]
    """The folder's name."""
    breakdown_keys: Annotated[frozenset[str], BeforeValidator(_as_frozenset)] = (
        frozenset()
    )
    """The keys that a breakdown may have."""
    breakdown_ranges: Mapping[
        str, Annotated[tuple[float, float], Field(strict=False)]
    ] = Field(default_factory=dict)
    """The lowest and highest value of keys that are not from 0 to 1."""
    failure_mode_taxonomy: Mapping[str, Severity] = Field(default_factory=dict)
    """The severity of each code that the rubric may give."""
    descriptions: Mapping[str, str] = Field(default_factory=dict)
    """What each code means."""
    cases: Listed[BenchCase] = ()
    """All cases, by file and in the order of each file."""
    oracle: Listed[OracleExample] = ()
    """The rubric's self-test."""
    settings: BenchSettings = Field(default_factory=BenchSettings)
    """The settings of its `bench.yaml`."""
    folder: Path | None = None
    """Where it was loaded from; `None` for one made in code."""
    rubric: Path | None = None
    """Its `rubric.py`, if it has one."""
    rubrics: Mapping[str, Path] = Field(default_factory=dict)
    """All its rubrics by name: `rubric.py` as `rubric`, and the files of `rubrics/`."""


class RunShard(ClosedModel):
    """The part of a task class that a run runs; other runs run the other parts."""

    index: _AtLeastOne
    """Which shard it is, from 1."""
    total: _AtLeastOne
    """How many shards there are."""
    source: str
    """Where the cases come from: the folder of the task class, and the test that ran them, if it is
    one."""
    cases_digest: str
    """Digest of all cases of the class, the same for all shards."""
    rubric_digest: str
    """Digest of its rubric, likewise."""
    taxonomy_digest: str
    """Digest of its failure modes and breakdown keys, likewise."""


class RunPlan(ClosedModel):
    """Which cases to run, and within what limits."""

    task_class: TaskClass
    """The class that the cases belong to."""
    cases: Listed[BenchCase]
    """The cases to run, started in this order; their ids differ."""
    timeout_per_case_seconds: Seconds = DEFAULT_TIMEOUT_SECONDS
    """Time limit of the system under test, for cases that don't set their own."""
    rubric_wall_clock_seconds: Seconds = DEFAULT_RUBRIC_SECONDS
    """Time limit of the rubric, for cases that don't set their own."""
    cancellation_grace_seconds: _NotNegative = 1.0
    """How long a system that was cancelled may take to end before it is abandoned."""
    concurrency: _AtLeastOne = DEFAULT_CONCURRENCY
    """How many cases run at the same time."""
    max_cost_usd: _Cap | None = None
    """No case starts once more than this was spent."""
    retry: RetrySettings | None = None
    """When to call the system again for a case whose call failed."""
    stop_after_same_failure: _Count = 0
    """No case is started once this many in a row failed with one cause; 0: never."""
    gate: GateSettings | None = None
    """What the run must reach."""
    is_selection: bool = False
    """The user chose some of the class's cases: a gate can't be decided on these alone."""
    shard: RunShard | None = None
    """Which part of the class these cases are; `None`: all of it."""

    @model_validator(mode="after")
    def _refuse_equal_ids(self) -> Self:
        seen: set[str] = set()
        for case in self.cases:
            if case.case_id in seen:
                raise ValueError(
                    f"two cases have the id {case.case_id!r}; each needs its own"
                )
            seen.add(case.case_id)
        return self

    @classmethod
    def of(
        cls, task_class: TaskClass, cases: tuple[BenchCase, ...] | None = None
    ) -> "RunPlan":
        """Return the plan that a task class's own settings ask for.

        Args:
            task_class: whose settings to take.
            cases: the chosen ones; all of the class where not given.
        """
        settings = task_class.settings
        chosen = task_class.cases if cases is None else cases
        of_settings = cls.model_fields.keys() & BenchSettings.model_fields.keys()
        return cls(
            task_class=task_class,
            cases=chosen,
            is_selection=len(chosen) < len(task_class.cases),
            **{name: getattr(settings, name) for name in of_settings},
        )


class Counts(ClosedModel):
    """The counts of the cases of a run."""

    scheduled: _Count
    """Cases that the run was to run."""
    started: _Count
    """Cases whose system under test was called."""
    graded: _Count
    """Cases that have a score of whatever kind."""
    lost: _Count = 0
    """Cases that were started and have no score."""
    passed: _Count
    """Cases that passed."""
    not_run: _Count
    """Cases that were never started."""


class GateResult(ClosedModel):
    """What a gate says of a run."""

    verdict: Literal["PASS", "FAIL", "INCOMPLETE"]
    """`INCOMPLETE` if cases are missing and the others do not fail the gate."""
    reasons: Listed[str]
    """Why, in words; empty for `PASS`."""


class ShardCase(ClosedModel):
    """A case that a shard was to run."""

    case_id: str
    """Its id."""
    repetition: _AtLeastOne
    """Which of the class's `repeat` runs of the case it is, from 1."""
    tags: Listed[str]
    """Its tags."""


class BenchShard(RunShard):
    """What the report of a shard says besides, so that it can be joined with the others."""

    scheduled: Listed[ShardCase]
    """The cases that the shard was to run."""
    unscored: Listed[str]
    """The ids of the cases that were started and have no score, sorted."""
    lost_cost_usd: _NotNegative
    """What these cost, in US dollars."""
    is_selection: bool
    """The user chose some of the shard's cases."""
    reducers: Listed[str] = ()
    """What to make of repetitions of a case once all shards are there."""
    gate: GateSettings | None
    """What all shards together must reach."""


class MeasuredRate(ClosedModel):
    """A share of labelled outputs, with its exact two-sided 95 % interval."""

    value: _Share
    """The share."""
    low: _Share
    """The lower end of the interval."""
    high: _Share
    """The upper end."""
    n: Annotated[int, Field(ge=1)]
    """Outputs that it is a share of."""


class RubricAgreement(ClosedModel):
    """How far a rubric agrees with people's labels of outputs, as `bench judge` measured it."""

    task_class: str
    """The class's name."""
    rubric: str | None
    """The digest of the rubric that was measured, its version included."""
    measured_at: str
    """When, as RFC 3339 in UTC."""
    base_rate: _Share
    """The share of the outputs that people pass."""
    agreement: MeasuredRate
    """The share of the outputs on which the rubric agrees with people."""
    kappa: float | None
    """Cohen's kappa: 1 for full agreement, 0 for that by chance; null where both say one thing."""
    true_positive_rate: MeasuredRate | None
    """The share of what people pass that the rubric passes; null where they pass nothing."""
    true_negative_rate: MeasuredRate | None
    """The share of what people fail that the rubric fails; null where they fail nothing."""
    wrongly_passed: Listed[str]
    """The ids of the outputs that the rubric passes and people fail."""
    wrongly_failed: Listed[str]
    """The ids of the outputs that the rubric fails and people pass."""
    is_stale: bool = False
    """Whether the run was graded by another rubric, or another version of it."""


class BenchRunReport(ClosedModel):
    """The result of a run of a task class."""

    run_id: str
    """New for each run; begins with `partial:` where the cost cap ended it."""
    task_class: str
    """The class's name."""
    per_case: Listed[Annotated[tuple[str, BenchScore], Field(strict=False)]]
    """The score of each graded case, sorted by case id."""
    complete: bool
    """Every scheduled case has a score."""
    counts: Counts
    """The counts of the cases."""
    mean_score: float | None
    """The mean over all started cases, where a failed or lost case counts as 0; null for none."""
    standard_error: float | None = None
    """The standard error of that mean; repetitions of a case, and cases of a cluster, are not
    independent draws. Null where the cases are no sample: the run is not complete, or somebody
    picked them by hand."""
    score_stddev: float | None
    """The sample standard deviation of the same scores; null for fewer than two."""
    lower_bound_95: LowerBound
    """The lower bound of the mean."""
    passed_count: _Count
    """Cases that passed."""
    total_cost_usd: _NotNegative
    """What all graded cases cost together."""
    usage: Mapping[str, _NotNegative] = Field(default_factory=dict)
    """What the system told besides the cost, by name; 0 for what has a cap and was never told."""
    system: str | None = None
    """The system under test, with its version if one is given; null where that is not known."""
    system_label: str = ""
    """Which of several systems of one pytest run it is; empty for a single one."""
    stopped: str | None = None
    """Why cases were not started: the cost cap, or one cause that failed many; null if all were."""
    lost_to_provider: Listed[ProviderLoss] = ()
    """Cases that never got through to the provider of the system, sorted by the kind of its
    failure; they failed with `sut.exception`."""
    lost_to_environment: Listed[ProviderLoss] = ()
    """Cases without a score whose failures are charged to the environment, sorted by the kind of
    failure; see `lost_if`."""
    block_severity_failure_modes: Listed[str]
    """The codes of severity `block` that occurred, sorted, each once."""
    gate: GateResult | None
    """What the gate decides; null where the class has none."""
    reduced: Listed[ReducedScore] = ()
    """What the class's `reducers` make of the repetitions of its cases, in their order."""
    by_tag: Listed[TagScores] = ()
    """The scores of the cases of each tag, sorted by tag."""
    by_breakdown_key: Listed[KeyScores] = ()
    """The scores on each key of the breakdown, sorted by key."""
    clusters: Mapping[str, str] = Field(default_factory=dict)
    """The cluster of each started distinct case that has one, by its id."""
    digests: BenchDigests | None = None
    """What cases were judged by; null where that is not known."""
    rubric_agreement: RubricAgreement | None = None
    """How far the rubric agrees with people; null where `bench judge` has not measured it."""
    baseline: BenchComparison | None = None
    """How the run differs from that of `--bench-baseline`; null without one to compare with."""
    other_systems: Listed[BenchComparison] = ()
    """How the run differs from those of the class's other systems in the same pytest run: from
    those that stand before it in the report, so that each pair is there once."""
    shard: BenchShard | None = None
    """Which part of the task class the run was; null for all of it, also where shards were joined
    to that."""

    @property
    def name(self) -> str:
        """The name of the class, with the label of the system if there are several."""
        return name_with_system(self.task_class, self.system_label)


def name_with_system(task_class: str, label: str) -> str:
    """Return the name of a class, with the label of a system if there is one."""
    return f"{task_class}[{label}]" if label else task_class


def problems_of_report(row: Any) -> list[tuple[tuple[int | str, ...], str, Any]]:
    """Return what is wrong with a task class's report in JSON: path, words, what stands there."""
    try:
        BenchRunReport.model_validate_json(json.dumps(row))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        return [
            (
                problem["loc"],
                _WORDS.get(problem["type"], problem["msg"]),
                problem["input"],
            )
            for problem in problems
        ]
    return []


_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is no key of this object",
}
"""Our words for pydantic's sorts of errors, where its own don't fit a file."""

PARTIAL: Final = "partial:"
"""How the id of a run begins in its report if the run was stopped."""


def id_of_run(kept_id: str, stopped: object) -> str:
    """Return the id of a run as its report has it."""
    return f"{PARTIAL}{kept_id}" if stopped else kept_id


def marked_key(key: str) -> str:
    """Return a key with its banned word in brackets: `fulfi[llm]ent`."""
    return _BANNED.sub(r"[\g<0>]", key, count=1)


def banned_part(key: str) -> str | None:
    """Return the banned word in a breakdown key in lower case, or `None`."""
    found = _BANNED.search(key)
    return None if found is None else found[0].lower()


def offending_keys(given: Iterable[str], allowed: frozenset[str]) -> list[str]:
    """Return the keys of a breakdown that are banned or not listed by its class, sorted."""
    return sorted(key for key in given if key not in allowed or banned_part(key))
