"""Merge reports: of shards of one run, of reruns, and of the stages of one attempt.

A merged report is a function of the set of its runs, each told by its id. It keeps a summary of
each run under `merged`, and its lists are those of the runs one
after another, cut at the same length as those of any report. So a merged report can be taken apart
again, and it does not matter in which order, in how many steps or how often reports are merged.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from pytest_failure_taxonomy.errors import BenchError, ReportError
from pytest_failure_taxonomy.report import amend, build, model
from pytest_failure_taxonomy.report.build import (
    MAX_FAILURES,
    MAX_NODEIDS,
    MAX_NODEIDS_OF_PART,
    cut_nodeids,
)
from pytest_failure_taxonomy.report.codec import DecodeError
from pytest_failure_taxonomy.report.load import as_json, decode_report, list_problems
from pytest_failure_taxonomy.report.model import (
    FailureReport,
    MergedRun,
    Section,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    MAX_TESTS,
    Attempt,
    Counts,
    Environment,
    ProcessExit,
    Repository,
    RunEvidence,
    Shard,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    Finding,
    Group,
    Stage,
    make_finding,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value
from pytest_failure_taxonomy.taxonomy.words import failed_gates
from pytest_failure_taxonomy.text import safe_text

MAX_GROUPS: Final = 200
"""Groups and causes of one run that its summary keeps, the first ones of each."""
MAX_NODEIDS_OF_RUN: Final = 100
"""Node ids of one reason that it keeps."""
MAX_NOTES: Final = 20
_LISTS: Final = (
    "failures",
    "collection_errors",
    "internal_errors",
    "in_flight",
    "stalls",
    "changes",
    "integrity",
)
"""Lists that a rerun replaces."""
_OTHER_LISTS: Final = ("workers", "bench")
_COUNTED: Final = ("failures", "collection_errors", "internal_errors")
"""Lists of which `limits` counts what is left out."""
_COMPLETENESS: Final = ("running", "reconstructed", "full")
_NAMING: Final = ("verdict", "reasons", "groups", "causes", "notes", "surroundings")
"""What a run's summary has that names tests and files; its lists do, too."""
_PATHS: Final = frozenset(
    {"nodeid", "nodeids", "tests", "files", "not_run", "path", "crashed_on"}
)
"""Fields that hold a path or a node id alone."""
_STAYS: Final = re.compile(r"$|<|[/\\]|[A-Za-z]:")
"""How paths begin that are not below the root directory; a session's is empty."""
_FILE: Final = re.compile(r"(?<![\w./\\-])\w[\w./-]*\.py(?=::|:\d|[\s)]|$)")
"""A module in a text of ours or of pytest's; users' messages have them mostly in quotes."""
_RERUN_OPTIONS: Final = frozenset(
    {
        "--lf",
        "--last-failed",
        "--ff",
        "--failed-first",
        "--nf",
        "--new-first",
        "--sw",
        "--stepwise",
    }
)
_LAST_FAILED: Final = frozenset({"--lf", "--last-failed"})
_RERUN_VALUES: Final = (
    "--lfnf=",
    "--last-failed-no-failures=",
    "--failure-taxonomy-report=",
    "--why-report=",
)


@value
class _Part:
    """One run with what a report lists of it."""

    about: MergedRun
    lists: Mapping[str, tuple[Any, ...]]
    environment: Environment | None

    @property
    def run(self) -> model.Run:
        return self.about.run

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def root(self) -> str | None:
        """The path of its root directory in the repository; None where that is not known."""
        around = self.about.surroundings
        return None if around is None else around.root

    @property
    def rootdir(self) -> str:
        return self.run.invocation.rootdir

    @property
    def has_tests(self) -> bool:
        return bool(self.about.summary.collected or self.lists["collection_errors"])

    @property
    def slot(self) -> tuple[Stage, int | None, str | None]:
        """Its stage, shard and root, which its tries share."""
        index = None
        if self.run.shard is not None:
            index = self.run.shard.index
        return self.run.stage, index, self.root

    @property
    def order(self) -> tuple[int, int, datetime, str]:
        """Where it stands among the runs: by stage, shard and time."""
        stage, shard, _ = self.slot
        started_at = _start_of(self.run)
        return _STAGES.index(stage), shard or 0, started_at, self.id

    @property
    def unsettled(self) -> int:
        """How many of its tests did not pass: they failed, or the run ended before them."""
        counts = self.about.summary
        settled = counts.passed + counts.skipped + counts.xfailed + counts.xpassed
        return counts.collected - settled

    @property
    def rank(self) -> tuple[Any, ...]:
        """Which of two reports of one run is the better one."""
        return (
            _COMPLETENESS.index(self.about.completeness),
            sum(self.about.counts.values()),
            sum(map(len, self.lists.values())),
            repr(self.about),
        )


_STAGES: Final = [*Stage]


def _start_of(run: model.Run) -> datetime:
    return datetime.fromisoformat(run.started_at)


JoinShards = Callable[[Section], Iterable[Mapping[str, object]]]
"""Joins the reports of a bench's shards into one; raises `BenchError`."""


def merge_reports(
    reports: Iterable[Mapping[str, object]],
    *,
    expect: int | None = None,
    reruns: bool = False,
    join_shards: JoinShards | None = None,
) -> dict[str, Any]:
    """Merge several reports into one, which is judged as if it were one run.

    Args:
        reports: JSON objects of reports of any schema version, merged ones too; each run
            counts once.
        expect: how many shards there must be; a missing one makes the merged run a failed one.
        reruns: of several runs of one stage and shard, only the last one counts. Without this,
            only a run with options such as `--last-failed` replaces an earlier one.
        join_shards: joins the reports of a bench's shards; without it they stay as they are.

    Raises:
        ReportError: there is no report, one can't be used or is still running, or they don't
            belong together.
    """
    merger = Merger(expect=expect, reruns=reruns, join_shards=join_shards)
    for number, content in enumerate(reports, 1):
        try:
            report = decode_report(dict(content))
        except DecodeError as error:
            if all(problem.path[0] == "merged" for problem in error.problems):
                raise ReportError(
                    f"report {number}: its list of runs is damaged: "
                    f"{safe_text(str(error))}; merge the reports of its runs again"
                ) from None
            words = list_problems(error.problems, f"report {number}")
            raise ReportError(words) from None
        merger.add(report)
    return as_json(merger.result())


@dataclass(kw_only=True)
class Merger:
    """Merge reports one by one; it never holds more than a merged report does.

    Its fields are what `merge_reports` takes.
    """

    expect: int | None = None
    reruns: bool = False
    join_shards: JoinShards | None = None
    _parts: dict[str, _Part] = field(default_factory=dict, init=False)

    def add(
        self,
        report: FailureReport,
        file: str | None = None,
        retry: model.Retry | None = None,
    ) -> None:
        """Add a report.

        Args:
            report: that of one run, or a merged one.
            file: its name, by which a run is shown that has no better one.
            retry: what the run has run again of another one.

        Raises:
            ReportError: it is still running.
        """
        merged = report.merged
        if merged is None:
            new = [_part_of(report, file, retry)]
        else:
            self.reruns = self.reruns or merged.reruns
            if merged.expect is not None:
                self.expect = max(self.expect or 0, merged.expect)
            new = _take_apart(report, merged)
        for part in new:
            known = self._parts.get(part.id)
            if known is None or part.rank > known.rank:
                self._parts[part.id] = part
        parts = sorted(self._parts.values(), key=lambda part: part.order)
        self._parts = {part.id: part for part in _cut(parts)}

    def result(self) -> FailureReport:
        """Return the merged report.

        Raises:
            ReportError: there was none, or they don't belong together.
        """
        parts = list(self._parts.values())
        if not parts:
            raise ReportError("merge: there is no report; give one or more")
        _refuse_strangers(parts)
        parts = _tell_roots_apart(parts)
        replaced = _replaced(parts, always=self.reruns)
        aside = replaced | _valid_baselines(parts)
        shards, joined = self._join_shards(parts, replaced)
        runs = [part.about for part in parts]
        tests = sum(run.counts["tests"] for run in runs)
        has_tests = tests <= MAX_TESTS and all(run.has_tests for run in runs)
        left = []
        for part in parts:
            lists = dict(part.lists)
            if not has_tests:
                lists["tests"] = ()
            if part.id in aside:
                lists |= dict.fromkeys((*_LISTS, "not_run"), ())
            if self.join_shards is not None:
                lists["bench"] = tuple(
                    [row for row in lists["bench"] if not row.get("shard")]
                )
            left.append(replace(part, lists=lists))
        parts = _cut(left)
        active = [part for part in parts if part.id not in replaced]
        failing = [part for part in active if part.id not in aside]
        summary = _summary(parts, replaced, aside)
        limits = build.Limits()
        new = RunEvidence(
            recorded=False,
            exit=ProcessExit(code=None, source="none"),
            counts=amend.counts_of(summary),
            settled=(*_missing(active, self.expect), *_failed(joined)),
        )
        judged = amend.judge_again([part.about for part in active], new, limits)
        verdict = judged.verdict
        exits = [
            part.about.exit
            for part in active
            if part.about.verdict is verdict
            or amend.are_of_one_kind(part.about.verdict, verdict)
        ]
        lists = {}
        for name in parts[0].lists:
            entries = [part.lists[name] for part in parts]
            lists[name] = tuple([entry for of_part in entries for entry in of_part])
        runs = []
        for part in parts:
            kept = {name: len(entries) for name, entries in part.lists.items()}
            own_shards = shards.get(part.id, ())
            runs.append(replace(part.about, kept=kept, bench_shards=own_shards))
        groups = limits.listed("groups", tuple(_groups(failing)))
        environments = (part.environment for part in parts)
        merged = FailureReport(
            schema_id=model.SCHEMA_ID,
            schema_version=model.SCHEMA_VERSION,
            generator=build.GENERATOR,
            run=_run(parts),
            completeness=min(
                [part.about.completeness for part in parts], key=_COMPLETENESS.index
            ),
            exit=exits[0] if exits else judged.exit,
            verdict=verdict,
            reasons=judged.reasons,
            summary=summary,
            failures=lists["failures"],
            groups=groups,
            causes=judged.causes,
            collection_errors=lists["collection_errors"],
            internal_errors=lists["internal_errors"],
            in_flight=lists["in_flight"],
            stalls=lists["stalls"],
            tests=lists["tests"] if has_tests else None,
            not_run=model.NotRun(
                count=sum(part.about.not_run for part in failing),
                nodeids=lists["not_run"],
            ),
            workers=lists["workers"],
            bench=(*lists["bench"], *joined),
            environment=next(filter(None, environments)),
            limits=_limits(failing, limits),
            notes=_notes(runs),
            repository=_repository(runs),
            attempt=_attempt(runs),
            changes=lists["changes"],
            integrity=lists["integrity"],
            merged=model.Merged(
                runs=tuple(runs), reruns=self.reruns, expect=self.expect
            ),
            surroundings=_surroundings(runs),
            extensions={},
        )
        is_attempt = build.baseline_commit(merged) is not None
        return amend.recommend_again(merged) if is_attempt else merged

    def _join_shards(
        self, parts: Sequence[_Part], replaced: set[str]
    ) -> tuple[dict[str, Section], Section]:
        """Return the shards of benches, by the ids of their runs, and the joined benches."""
        shards: dict[str, Section] = {}
        if self.join_shards is None:
            return shards, ()
        counted: Section = ()
        for part in parts:
            rows = [row for row in part.lists["bench"] if row.get("shard")]
            shards[part.id] = tuple(rows)
            if part.id not in replaced:
                counted += shards[part.id]
        try:
            return shards, tuple(self.join_shards(counted))
        except BenchError as error:
            raise ReportError(str(error)) from None


def _valid_baselines(parts: Sequence[_Part]) -> set[str]:
    """Return the ids of valid baselines among other stages: their tests failed as they should."""
    baselines = [part for part in parts if part.run.stage is Stage.BASELINE_RUN]
    if len(baselines) == len(parts):
        return set()
    return {part.id for part in baselines if part.about.verdict is None}


def _notes(runs: Sequence[MergedRun]) -> tuple[str, ...]:
    notes = dict.fromkeys([note for run in runs for note in run.notes])
    return tuple(notes)[:MAX_NOTES]


def _repository(runs: Sequence[MergedRun]) -> Repository | None:
    for run in runs:
        if run.repository:
            return Repository(name=run.repository, merge_base=run.merge_base)
    return None


def _attempt(runs: Sequence[MergedRun]) -> Attempt | None:
    """Return the attempt that all runs were, if it is one."""
    attempts = [run.attempt for run in runs if run.attempt]
    if not attempts or any(attempt != attempts[0] for attempt in attempts):
        return None
    first = attempts[0]
    return Attempt(subtask=first["subtask"], approach=first["approach"])


def _surroundings(runs: Sequence[MergedRun]) -> Any:
    """Return how pytest was started, where all runs that failed were started so."""
    failed = [run.surroundings for run in runs if run.verdict]
    first = failed[0] if failed else None
    return first if failed.count(first) == len(failed) else None


def tasks_of(report: FailureReport) -> set[str]:
    """Return the tasks at which a report's run, or those that it was merged from, were attempts."""
    if report.merged is None:
        tasks = [report.attempt.subtask] if report.attempt else []
    else:
        attempts = [run.attempt or {} for run in report.merged.runs]
        tasks = [attempt.get("subtask", "") for attempt in attempts]
    return {task for task in tasks if task}


def _part_of(
    report: FailureReport, file: str | None, retry: model.Retry | None
) -> _Part:
    """Return the part of one run's report that the merged report keeps."""
    if report.completeness == "running":
        raise ReportError(
            f"run {report.run.id}: it is still running, or was never completed; "
            "complete its report by: failure-taxonomy finalize REPORT"
        )
    environment = report.environment
    lists = _lists_of(report)
    attempt: dict[str, str] | None = None
    if report.attempt is not None:
        attempt = to_dict(report.attempt)
        if report.trial is not None:
            attempt["trial"] = report.trial.name
    repository = report.repository
    commit = None
    if environment.git is not None:
        commit = environment.git.commit
    if not commit and environment.ci is not None:
        commit = environment.ci.commit
    limits = to_dict(report.limits)
    for name in ("groups", "causes"):
        omitted = len(getattr(report, name)[MAX_GROUPS:])
        limits[f"{name}_omitted"] += omitted
    about = MergedRun(
        run=report.run,
        completeness=report.completeness,
        commit=commit,
        repository=None if repository is None else repository.name,
        merge_base=None if repository is None else repository.merge_base,
        exit=report.exit,
        verdict=report.verdict,
        reasons=_cut_all(report.reasons, MAX_NODEIDS_OF_RUN),
        summary=report.summary,
        groups=_cut_all(report.groups[:MAX_GROUPS], MAX_NODEIDS_OF_PART),
        causes=_cut_all(report.causes[:MAX_GROUPS], MAX_NODEIDS_OF_PART),
        limits=model.Limits(**limits),
        not_run=report.not_run.count,
        notes=(*report.notes[:MAX_NOTES], *report.faults[:MAX_NOTES]),
        attempt=attempt,
        counts={name: len(entries) for name, entries in lists.items()},
        kept={},
        has_tests=report.tests is not None,
        name=None if report.run.shard else file,
        surroundings=report.surroundings,
        retry=retry,
    )
    return _Part(about=about, lists=lists, environment=environment)


def _cut_all(entries: Iterable[Any], most: int) -> tuple[Any, ...]:
    return tuple([cut_nodeids(entry, most) for entry in entries])


def _lists_of(report: FailureReport) -> dict[str, tuple[Any, ...]]:
    lists = {name: getattr(report, name) for name in (*_LISTS, *_OTHER_LISTS)}
    return {**lists, "tests": report.tests or (), "not_run": report.not_run.nodeids}


def _take_apart(report: FailureReport, merged: model.Merged) -> list[_Part]:
    """Return the runs of a merged report, each with its part of every list."""
    lists = {name: iter(entries) for name, entries in _lists_of(report).items()}
    environment: Environment | None = report.environment
    parts = []
    for about in merged.runs:
        own = {}
        for name, entries in lists.items():
            own[name] = tuple(islice(entries, about.kept.get(name, 0)))
        own["bench"] += about.bench_shards
        whole = replace(about, kept={}, bench_shards=())
        parts.append(_Part(about=whole, lists=own, environment=environment))
        environment = None  # of the first run; the merged report has no other's
    return parts


def _cut(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts, in their order, with lists that a report has room for together."""
    left = dict.fromkeys((*_LISTS, "workers"), MAX_FAILURES)
    left |= {"not_run": MAX_NODEIDS, "tests": MAX_TESTS}
    cut = []
    for part in parts:
        lists = dict(part.lists)
        for name, room in left.items():
            lists[name] = lists[name][:room]
            left[name] = room - len(lists[name])
        cut.append(replace(part, lists=lists))
    return cut


def _refuse_strangers(parts: Sequence[_Part]) -> None:
    """Raise ReportError if the runs are not of one project, or their shards not of one run."""
    problems = []
    runs = [part.about for part in parts]
    names = {run.repository for run in runs if run.repository is not None}
    if len(names) > 1:
        problems.append(f"they are of several repositories: {', '.join(sorted(names))}")
    tasks = {run.attempt["subtask"] for run in runs if run.attempt}
    if len(tasks) > 1:
        problems.append(
            f"they are attempts at {len(tasks)} tasks; --by task separates them"
        )
    for stage in _STAGES:
        totals = set()
        commits = set()
        for run in runs:
            if run.run.stage is stage and run.run.shard is not None:
                totals.add(run.run.shard.total)
                commits.add(run.commit or "")
        commits.discard("")
        if len(totals) > 1:
            words = " and ".join(map(str, sorted(totals)))
            problems.append(f"they are shards of {words}")
        if len(commits) > 1:
            words = ", ".join(sorted([commit[:10] for commit in commits]))
            problems.append(f"their shards are of several commits: {words}")
    if problems:
        words = "; ".join(map(safe_text, problems))
        raise ReportError(
            f"the runs don't belong together: {words}; merge those of one run"
        )


def _tell_roots_apart(parts: list[_Part]) -> list[_Part]:
    """Return the parts with paths from the top of their repository, where their roots differ.

    The shards of a run have one root, wherever a machine has it: at the same path within their
    repositories. Where there was none, root directories of one name are taken for one.

    Raises:
        ReportError: nothing tells where one of several roots lies.
    """
    # A stage that only runs a command may do so anywhere.
    with_tests = [part for part in parts if part.has_tests]
    folders = {part.rootdir for part in with_tests}
    is_known = all(part.root for part in with_tests)
    roots = {part.root or re.split(r"[/\\]", part.rootdir)[-1] for part in with_tests}
    if len(folders) == 1 or len(roots) == 1:
        return parts
    if is_known:
        return [_with_paths_from_top(part) for part in parts]
    if all(part.run.shard for part in with_tests):
        return parts
    raise ReportError(
        "the runs don't belong together: they have different root directories "
        f"({', '.join(map(safe_text, sorted(folders)))}) and no common Git repository; "
        "merge only runs with the same root directory"
    )


def _with_paths_from_top(part: _Part) -> _Part:
    """Return a part whose node ids and places begin at the top of its repository."""
    root, about = part.root, part.about
    if root in (None, ".") or about.is_from_top:
        return part
    top = part.rootdir[: -len(root)].rstrip("/\\")
    invocation = replace(about.run.invocation, rootdir=top)
    naming = {name: _below(root, getattr(about, name), name) for name in _NAMING}
    about = replace(
        about,
        **naming,
        run=replace(about.run, invocation=invocation),
        name=root,
        is_from_top=True,
    )
    lists = {name: _below(root, part.lists[name], name) for name in part.lists}
    lists["bench"] = part.lists["bench"]
    return replace(part, about=about, lists=lists)


def _below(root: str, content: Any, name: str) -> Any:
    """Return a part of a report with its paths below a folder; `name` is the field that it is."""
    if isinstance(content, tuple):
        return tuple([_below(root, entry, name) for entry in content])
    if isinstance(content, Mapping):
        return {key: _below(root, entry, key) for key, entry in content.items()}
    if hasattr(content, "__slots__"):
        fields = to_dict(content)
        changed = {field: _below(root, fields[field], field) for field in fields}
        return type(content)(**changed)
    if not isinstance(content, str) or isinstance(content, Enum):
        return content
    if name not in _PATHS:
        return _FILE.sub(lambda file: f"{root}/{file[0]}", content)
    path, colons, names = content.partition("::")
    below = f"{posixpath.normpath(f'{root}/{path}')}{colons}{names}"
    return content if _STAYS.match(content) else below


def _failed(joined: Section) -> Iterator[Finding]:
    """Yield a finding if a bench fails whose shards do not say so, each by itself."""
    failed = {}
    for row in joined:
        gate = row["gate"]
        if gate is not None and gate["verdict"] == "FAIL":
            failed[row["task_class"]] = gate["reasons"][0]
    if failed:
        words = failed_gates(failed)
        yield make_finding("bench.gate", "merge", words, headline=words)


def _replaced(parts: Sequence[_Part], *, always: bool) -> set[str]:
    """Return the ids of runs that a rerun has replaced.

    That is a later run of the same stage, shard and arguments that came to its end and was told to
    run what failed before; with `always`, any later run of the same stage and shard. What a run did
    not come to is not known to pass, so the later one must have selected as many tests as did not
    pass, and `--last-failed` knows nothing of a run that did not come to its end.
    """
    replaced: set[str] = set()
    earlier: dict[Any, list[tuple[_Part, bool]]] = {}
    for part in parts:
        about = part.about
        args = about.run.invocation.args
        key: tuple[Any, ...] = part.slot
        if not always:
            same = [word for word in args if word not in _RERUN_OPTIONS]
            same = [word for word in same if not word.startswith(_RERUN_VALUES)]
            key = (*key, part.rootdir, *same)
        tries = earlier.setdefault(key, [])
        is_whole = about.completeness == "full" and about.exit.code in (0, 1)
        is_of_failed = not _LAST_FAILED.isdisjoint(args)
        # A retry settles some tests, which the report of the run before is without.
        is_rerun = always or not _RERUN_OPTIONS.isdisjoint(args)
        if is_whole and is_rerun and about.retry is None:
            for before, knows_failed in tries:
                has_all = before.unsettled <= about.summary.collected
                if has_all and (knows_failed or not is_of_failed):
                    replaced.add(before.id)
        tries.append((part, is_whole or (is_of_failed and bool(tries))))
    return replaced


def _missing(parts: Sequence[_Part], expect: int | None) -> Iterator[Finding]:
    """Yield a finding for each shard that is not there."""
    by_stage: dict[str, list[Shard | None]] = {}
    for part in parts:
        run = part.run
        if part.about.retry is None:
            by_stage.setdefault(run.stage, []).append(run.shard)
    problems: list[str] = []
    for stage, of_stage in by_stage.items():
        shards = [shard for shard in of_stage if shard is not None]
        where = "" if len(by_stage) == 1 else f" of {stage}"
        total = max([expect or 0, *[shard.total for shard in shards]])
        if shards:
            there = {shard.index for shard in shards}
            problems += [
                f"shard {index} of {total}{where} is missing"
                for index in range(1, total + 1)
                if index not in there
            ]
        else:
            count = len(of_stage)
            words = f"{expect} reports{where} were expected, {count} are there"
            problems += [words] * (total - count)
    for words in problems:
        yield make_finding("shard.missing", "merge", words, headline=words)


def _groups(parts: Iterable[_Part]) -> list[Group]:
    """Return the groups of all runs by fingerprint, the biggest first."""
    merged: dict[str, Group] = {}
    for part in parts:
        for group in part.about.groups:
            known = merged.get(group.fingerprint)
            joined = group
            if known is not None:
                nodeids = dict.fromkeys((*known.nodeids, *group.nodeids))
                joined = replace(
                    known,
                    count=known.count + group.count,
                    nodeids=tuple(nodeids),
                    history=known.history or group.history,
                )
            merged[group.fingerprint] = cut_nodeids(joined, MAX_NODEIDS)
    return sorted(merged.values(), key=lambda group: -group.count)


def _summary(parts: Sequence[_Part], replaced: set[str], aside: set[str]) -> Counts:
    """Sum the runs' counts. Of reruns, count the last, plus tests that only earlier ones ran."""
    total: Counter[str] = Counter()
    for part in parts:
        if part.id not in aside:
            total.update(to_dict(part.about.summary))
    open_tries: dict[Any, list[_Part]] = {}
    for part in parts:
        open_tries.setdefault(part.slot, []).append(part)
        if part.id in replaced:
            continue
        tries = open_tries.pop(part.slot)  # of which the last has replaced the others
        *before, last = [run.about for run in tries]
        failed_before = {nodeid for run in before for nodeid in _failed_nodeids(run)}
        recovered = failed_before - _failed_nodeids(last)
        total["flaky"] += len(recovered)
        total["rerun"] += sum(bool(run.reasons) for run in before)
        fullest = max((*before, last), key=lambda run: run.summary.collected)
        if fullest is not last:
            now, whole = last.summary, fullest.summary
            more = whole.collected - now.collected
            total["collected"] += more
            total["passed"] += max(0, more - whole.skipped - whole.xfailed)
            for name in ("skipped", "xfailed", "xpassed"):
                lacking = getattr(whole, name) - getattr(now, name)
                total[name] += max(0, lacking)
    return Counts(**total)


def _failed_nodeids(run: MergedRun) -> set[str]:
    return {nodeid for held in run.reasons for nodeid in held.nodeids}


def _run(parts: Sequence[_Part]) -> model.Run:
    """Return the run as one: from the first start to the last end."""
    runs = [part.run for part in parts]
    first = min(runs, key=lambda run: (_start_of(run), run.id))
    ends = []
    for run in runs:
        if run.duration_seconds is not None:
            since = _start_of(run) - _start_of(first)
            ends.append(since.total_seconds() + run.duration_seconds)
    is_known = len(ends) == len(runs)
    args = {run.invocation.args for run in runs}
    shards = {run.shard for run in runs}
    failed = [part for part in parts if part.about.verdict]
    ids = "".join(sorted([run.id for run in runs]))
    return model.Run(
        id=blake2b(ids.encode(), digest_size=16).hexdigest(),
        started_at=first.started_at,
        duration_seconds=round(max(ends), 6) if is_known else None,
        stage=runs[-1].stage,
        invocation=model.Invocation(
            args=args.pop() if len(args) == 1 else (),
            rootdir=(failed or parts)[-1].rootdir,
        ),
        shard=shards.pop() if len(shards) == 1 else None,
    )


def _limits(parts: Sequence[_Part], limits: build.Limits) -> model.Limits:
    total = Counter(to_dict(limits.cut))
    for part in parts:
        about = part.about
        total.update(to_dict(about.limits))
        for name in _COUNTED:
            omitted = about.counts[name] - len(part.lists[name])
            total[f"{name}_omitted"] += omitted
        total["nodeids_omitted"] += about.counts["not_run"] - len(part.lists["not_run"])
    return model.Limits(**total)
