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
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from pytest_failure_taxonomy.errors import BenchError, ReportError
from pytest_failure_taxonomy.report import amend, build
from pytest_failure_taxonomy.report.build import MAX_FAILURES, MAX_NODEIDS, JSONObject
from pytest_failure_taxonomy.report.codec import DecodeError
from pytest_failure_taxonomy.report.model import (
    CODEC,
    FailureReport,
    Merged,
    MergedRun,
)
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit, RunEvidence
from pytest_failure_taxonomy.taxonomy.judgement import (
    Finding,
    Stage,
    finding,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import failed_gates
from pytest_failure_taxonomy.text import safe_text

MAX_GROUPS: Final = 200
"""Groups and causes of one run that its summary keeps, the first ones of each."""
MAX_NODEIDS_OF_RUN: Final = 100
"""Node ids of one reason that it keeps."""
MAX_TESTS: Final = 200_000
"""How many tests a merged report lists; of more, none: a list with holes would pass for whole."""
MAX_NOTES: Final = 20
_LISTS: Final = (
    "failures",
    "collection_errors",
    "internal_errors",
    "in_flight",
    "stalls",
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
"""How paths begin that are none of the root directory's, the empty one of a session as well."""
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

    about: JSONObject
    """A `MergedRun` as JSON."""
    lists: Mapping[str, list[Any]]
    environment: JSONObject | None

    @property
    def id(self) -> str:
        return str(self.about["run"]["id"])

    @property
    def root(self) -> str | None:
        """The path of its root directory in the repository; None where that is not known."""
        around = self.about["surroundings"] or {}
        return around.get("root")

    @property
    def rootdir(self) -> str:
        return str(self.about["run"]["invocation"]["rootdir"])

    @property
    def has_tests(self) -> bool:
        return bool(
            self.about["summary"]["collected"] or self.lists["collection_errors"]
        )

    @property
    def slot(self) -> tuple[str, int | None, str | None]:
        """Its stage, shard and root, which its tries share."""
        run = self.about["run"]
        return run["stage"], run["shard"]["index"] if run["shard"] else None, self.root

    @property
    def order(self) -> tuple[int, int, datetime, str]:
        """Where it stands among the runs: by stage, shard and time."""
        stage, shard, _ = self.slot
        return _STAGES.index(stage), shard or 0, _start_of(self.about["run"]), self.id

    @property
    def unsettled(self) -> int:
        """How many of its tests did not pass: they failed, or the run ended before them."""
        found = self.about["summary"]
        settled = ("passed", "skipped", "xfailed", "xpassed")
        return int(found["collected"] - sum(found[name] for name in settled))

    @property
    def rank(self) -> tuple[Any, ...]:
        """Which of two reports of one run is the better one."""
        return (
            _COMPLETENESS.index(self.about["completeness"]),
            sum(self.about["counts"].values()),
            sum(map(len, self.lists.values())),
            repr(self.about),
        )


_STAGES: Final = [stage.value for stage in Stage]


def _start_of(run: JSONObject) -> datetime:
    return datetime.fromisoformat(run["started_at"])


JoinShards = Callable[[Sequence[JSONObject]], list[JSONObject]]
"""Returns one report of a bench for the reports of its shards; raises `BenchError`."""


def merge_reports(
    reports: Iterable[Mapping[str, Any]],
    *,
    expect: int | None = None,
    reruns: bool = False,
    join_shards: JoinShards | None = None,
) -> JSONObject:
    """Return one report of several, judged as that of one run.

    Args:
        reports: JSON objects of reports of the present schema version, merged ones too; each run
            counts once.
        expect: how many shards there must be; a missing one makes the merged run a failed one.
        reruns: runs of one stage and shard are tries, of which the last one counts. Without it
            only a run with options such as `--last-failed` replaces an earlier one.
        join_shards: joins the reports of a bench's shards; without it they stay as they are.

    Raises:
        ReportError: there is none, one is still running, or they don't belong together.
    """
    merger = Merger(expect=expect, reruns=reruns, join_shards=join_shards)
    for report in reports:
        merger.add(report)
    return merger.result()


@dataclass(kw_only=True)
class Merger:
    """Merge reports one by one; it never holds more than a merged report does.

    Its fields are what `merge_reports` takes.
    """

    expect: int | None = None
    reruns: bool = False
    join_shards: JoinShards | None = None
    _parts: dict[str, _Part] = field(default_factory=dict, init=False)

    def add(self, report: Mapping[str, Any], file: str | None = None) -> None:
        """Add a report.

        Args:
            report: its JSON object.
            file: its name, by which a run is shown that has no better one.

        Raises:
            ReportError: it is still running, or what it says of its runs is damaged.
        """
        merged = _merged_of(report)
        if merged is None:
            new = [_part_of(report, file)]
        else:
            self.reruns = self.reruns or merged["reruns"]
            if merged["expect"] is not None:
                self.expect = max(self.expect or 0, merged["expect"])
            new = _taken_apart(report, merged)
        for part in new:
            known = self._parts.get(part.id)
            if known is None or part.rank > known.rank:
                self._parts[part.id] = part
        kept = _cut(sorted(self._parts.values(), key=lambda part: part.order))
        self._parts = {part.id: part for part in kept}

    def result(self) -> JSONObject:
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
        shards: dict[
            str, list[JSONObject]
        ] = {}  # which stand aside, because they are joined
        joined: list[JSONObject] = []
        if self.join_shards is not None:
            shards = {
                part.id: [each for each in part.lists["bench"] if each.get("shard")]
                for part in parts
            }
            try:
                joined = self.join_shards(
                    [
                        each
                        for run_id in shards
                        if run_id not in replaced
                        for each in shards[run_id]
                    ]
                )
            except BenchError as error:
                raise ReportError(str(error)) from None
        # Valid baselines among other stages stand aside: their tests failed as they should.
        is_baseline = {
            each.id: each.about["run"]["stage"] == Stage.BASELINE_RUN for each in parts
        }
        aside = replaced | {
            each.id
            for each in parts
            if is_baseline[each.id] and each.about["verdict"] is None
            if not all(is_baseline.values())
        }
        listed = sum(part.about["counts"]["tests"] for part in parts)
        has_tests = (
            all(part.about["has_tests"] for part in parts) and listed <= MAX_TESTS
        )
        left = []
        for part in parts:
            lists = {**part.lists, "tests": part.lists["tests"] if has_tests else []}
            if part.id in aside:
                lists |= {name: [] for name in (*_LISTS, "not_run")}
            if part.id in shards:
                lists["bench"] = [
                    each for each in lists["bench"] if not each.get("shard")
                ]
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
        verdict = judged["verdict"]
        exits = [
            part.about["exit"]
            for part in active
            if verdict is None or amend.are_of_one_kind(part.about["verdict"], verdict)
        ]
        lists = {
            name: [entry for part in parts for entry in part.lists[name]]
            for name in parts[0].lists
        }
        runs = []
        for part in parts:
            kept = {name: len(entries) for name, entries in part.lists.items()}
            runs.append(
                {**part.about, "kept": kept, "bench_shards": shards.get(part.id, [])}
            )
        fields = {
            **lists,
            **judged,
            **build.HEAD,
            "run": _run(parts),
            "completeness": min(
                (part.about["completeness"] for part in parts), key=_COMPLETENESS.index
            ),
            "exit": exits[0] if exits else judged["exit"],
            "summary": summary,
            "groups": list(limits.listed("groups", tuple(_groups(failing)))),
            "tests": lists["tests"] if has_tests else None,
            "not_run": {
                "count": sum(part.about["not_run"] for part in failing),
                "nodeids": lists["not_run"],
            },
            "order": None,
            "bench": [*lists["bench"], *joined],
            "environment": next(filter(None, (each.environment for each in parts))),
            "limits": _limits(failing, limits),
            **self._other_fields(runs),
            "extensions": {},
        }
        merged = {name: fields[name] for name in CODEC.keys_of(FailureReport)}
        if verdict is not None and build.baseline_commit(merged) is not None:
            amend.recommend_again(merged)
        return merged

    def _other_fields(self, runs: Sequence[JSONObject]) -> JSONObject:
        notes = dict.fromkeys(note for run in runs for note in run["notes"])
        repository = next((run for run in runs if run["repository"]), None)
        failed = [run["surroundings"] for run in runs if run["verdict"]]
        attempts = [run["attempt"] for run in runs if run["attempt"]]
        is_one = bool(attempts) and all(each == attempts[0] for each in attempts)
        attempt = None  # of several attempts
        if is_one:
            attempt = {name: attempts[0][name] for name in ("subtask", "approach")}
        # A command that repeats a failure starts pytest as all runs did that have one.
        is_alike = bool(failed) and failed.count(failed[0]) == len(failed)
        merge_base = repository and repository["merge_base"]
        return {
            "notes": list(notes)[:MAX_NOTES],
            "faults": [],
            "attributions": [],
            "repository": repository
            and {"name": repository["repository"], "merge_base": merge_base},
            "attempt": attempt,
            "known": None,
            "trial": None,
            "merged": {"runs": runs, "reruns": self.reruns, "expect": self.expect},
            "surroundings": failed[0] if is_alike else None,
            "session_exit_code": None,
            "redacted": {},
            "is_unannotated": False,
        }


def _merged_of(report: Mapping[str, Any]) -> JSONObject | None:
    merged: JSONObject | None = report["merged"]
    if merged is None:
        return None
    try:
        CODEC.decode(Merged, merged)
    except DecodeError as error:
        raise ReportError(
            f"run {report['run']['id']}: what it says of its runs is damaged: "
            f"{safe_text(str(error))}; merge the reports of its runs again"
        ) from None
    return merged


def tasks_of(report: Mapping[str, Any]) -> set[str]:
    """Return the tasks at which a report's run, or those that it was merged from, were attempts."""
    runs = report["merged"]["runs"] if report["merged"] else [report]
    attempts = [run["attempt"] for run in runs if run["attempt"] is not None]
    return {attempt["subtask"] for attempt in attempts if attempt.get("subtask")}


def _part_of(report: Mapping[str, Any], file: str | None) -> _Part:
    """Return what is kept of the report of one run."""
    if report["completeness"] == "running":
        raise ReportError(
            f"run {report['run']['id']}: it is still running, or was never completed; "
            "complete its report by: failure-taxonomy finalize REPORT"
        )
    environment, lists = report["environment"], _lists_of(report)
    attempt = report["attempt"]
    if attempt is not None and report["trial"] is not None:
        attempt = {**attempt, "trial": report["trial"]["name"]}
    repository = report["repository"] or {}
    git, ci = environment["git"] or {}, environment["ci"] or {}
    limits = dict(report["limits"])
    groupings = {}
    for name in ("groups", "causes"):
        groupings[name] = build.with_nodeids(
            report[name][:MAX_GROUPS], build.MAX_NODEIDS_OF_PART
        )
        limits[f"{name}_omitted"] += len(report[name][MAX_GROUPS:])
    about = {
        **report,
        **groupings,
        "commit": git.get("commit") or ci.get("commit"),
        "repository": repository.get("name"),
        "merge_base": repository.get("merge_base"),
        "reasons": build.with_nodeids(report["reasons"], MAX_NODEIDS_OF_RUN),
        "limits": limits,
        "not_run": report["not_run"]["count"],
        "notes": [*report["notes"][:MAX_NOTES], *report["faults"][:MAX_NOTES]],
        "attempt": attempt,
        "name": None if report["run"]["shard"] else file,
        "surroundings": report["surroundings"],
        "is_from_top": False,
        "counts": {name: len(entries) for name, entries in lists.items()},
        "kept": {},
        "has_tests": report["tests"] is not None,
        "bench_shards": [],
    }
    about = {name: about[name] for name in CODEC.keys_of(MergedRun)}
    return _Part(about=about, lists=lists, environment=environment)


def _lists_of(report: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {
        **{name: list(report[name]) for name in (*_LISTS, *_OTHER_LISTS)},
        "tests": list(report["tests"] or ()),
        "not_run": list(report["not_run"]["nodeids"]),
    }


def _taken_apart(report: Mapping[str, Any], merged: JSONObject) -> list[_Part]:
    """Return the runs of a merged report, each with its part of every list."""
    lists = {name: iter(entries) for name, entries in _lists_of(report).items()}
    environment = report["environment"]
    parts = []
    for about in merged["runs"]:
        own = {
            name: list(islice(entries, about["kept"].get(name, 0)))
            for name, entries in lists.items()
        }
        own["bench"] += about["bench_shards"]
        whole = {**about, "kept": {}, "bench_shards": []}
        parts.append(_Part(about=whole, lists=own, environment=environment))
        environment = None  # of the first run; the merged report has no other's
    return parts


def _cut(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts, in their order, with lists that a report has room for together."""
    left = dict.fromkeys((*_LISTS, "workers"), MAX_FAILURES)
    left |= {"not_run": MAX_NODEIDS, "tests": MAX_TESTS}
    kept = []
    for part in parts:
        lists = dict(part.lists)
        for name, room in left.items():
            lists[name] = lists[name][:room]
            left[name] = room - len(lists[name])
        kept.append(replace(part, lists=lists))
    return kept


def _refuse_strangers(parts: Sequence[_Part]) -> None:
    """Raise ReportError if the runs are not of one project, or their shards not of one run."""
    problems = []
    names = {part.about["repository"] for part in parts} - {None}
    if len(names) > 1:
        problems.append(f"they are of several repositories: {', '.join(sorted(names))}")
    tasks = {
        part.about["attempt"]["subtask"] for part in parts if part.about["attempt"]
    }
    if len(tasks) > 1:
        problems.append(
            f"they are attempts at {len(tasks)} tasks, which --by task keeps apart"
        )
    for stage in _STAGES:
        of_stage = [each.about for each in parts if each.about["run"]["stage"] == stage]
        shards = [each for each in of_stage if each["run"]["shard"]]
        totals = {each["run"]["shard"]["total"] for each in shards}
        commits = {each["commit"] for each in shards} - {None}
        if len(totals) > 1:
            problems.append(
                f"they are shards of {' and '.join(map(str, sorted(totals)))}"
            )
        if len(commits) > 1:
            shown = ", ".join(sorted(each[:10] for each in commits))
            problems.append(f"their shards are of several commits: {shown}")
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
    if all(part.about["run"]["shard"] for part in with_tests):
        return parts
    raise ReportError(
        f"the runs don't belong together: no Git repository tells how their root directories lie "
        f"to each other: {', '.join(map(safe_text, sorted(folders)))}; merge those of one"
    )


def _with_paths_from_top(part: _Part) -> _Part:
    """Return a part whose node ids and places begin at the top of its repository."""
    root, run = part.root, part.about["run"]
    if root in (None, ".") or part.about["is_from_top"]:
        return part
    top = part.rootdir[: -len(root)].rstrip("/\\")
    naming = {name: part.about[name] for name in _NAMING}
    about = {
        **part.about,
        **_below(root, naming),
        "run": {**run, "invocation": {**run["invocation"], "rootdir": top}},
        "name": root,
        "is_from_top": True,
    }
    benches = {"bench": part.lists["bench"]}
    return replace(part, about=about, lists={**_below(root, part.lists), **benches})


def _below(root: str, value: Any, name: str = "") -> Any:
    """Return a part of a report with its paths below a folder; `name` is the field that it is."""
    if isinstance(value, Mapping):
        return {key: _below(root, entry, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [_below(root, entry, name) for entry in value]
    if not isinstance(value, str):
        return value
    if name not in _PATHS:
        return _FILE.sub(lambda file: f"{root}/{file[0]}", value)
    if _STAYS.match(value):
        return value
    path, colons, names = value.partition("::")
    return f"{posixpath.normpath(f'{root}/{path}')}{colons}{names}"


def _failed(joined: Sequence[JSONObject]) -> Iterator[Finding]:
    """Yield a finding if a bench fails whose shards do not say so, each by itself."""
    failed = {
        bench["task_class"]: bench["gate"]["reasons"][0]
        for bench in joined
        if bench["gate"] is not None and bench["gate"]["verdict"] == "FAIL"
    }
    if failed:
        words = failed_gates(failed)
        yield finding("bench.gate", "merge", words, headline=words)


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
        invocation = part.about["run"]["invocation"]
        args = invocation["args"]
        key: tuple[Any, ...] = part.slot
        if not always:
            same = [each for each in args if each not in _RERUN_OPTIONS]
            same = [each for each in same if not each.startswith(_RERUN_VALUES)]
            key = (*key, invocation["rootdir"], *same)
        before = earlier.setdefault(key, [])
        is_whole = part.about["completeness"] == "full" and part.about["exit"][
            "code"
        ] in (0, 1)
        is_of_failed = not _LAST_FAILED.isdisjoint(args)
        if is_whole and (always or not _RERUN_OPTIONS.isdisjoint(args)):
            selected = part.about["summary"]["collected"]
            replaced.update(
                each.id
                for each, knows_failed in before
                if each.unsettled <= selected and (knows_failed or not is_of_failed)
            )
        before.append((part, is_whole or (is_of_failed and bool(before))))
    return replaced


def _missing(parts: Sequence[_Part], expect: int | None) -> Iterator[Finding]:
    """Yield a finding for each shard that is not there."""
    by_stage: dict[str, list[JSONObject | None]] = {}
    for part in parts:
        run = part.about["run"]
        by_stage.setdefault(run["stage"], []).append(run["shard"])
    words: list[str] = []
    for stage, of_stage in by_stage.items():
        shards = [shard for shard in of_stage if shard]
        where = "" if len(by_stage) == 1 else f" of {stage}"
        total, there = (
            max([expect or 0, *(each["total"] for each in shards)]),
            len(of_stage),
        )
        if shards:
            lacking = sorted(
                set(range(1, total + 1)) - {each["index"] for each in shards}
            )
            words += [
                f"shard {index} of {total}{where} is missing" for index in lacking
            ]
        else:
            said = f"{expect} reports{where} were expected, {there} are there"
            words += [said] * (total - there)
    yield from (
        finding("shard.missing", "merge", each, headline=each) for each in words
    )


def _groups(parts: Iterable[_Part]) -> list[JSONObject]:
    """Return the groups of all runs by fingerprint, the biggest first."""
    merged: dict[str, JSONObject] = {}
    for part in parts:
        for group in part.about["groups"]:
            known = merged.setdefault(
                group["fingerprint"], {**group, "count": 0, "nodeids": []}
            )
            nodeids = dict.fromkeys((*known["nodeids"], *group["nodeids"]))
            known["count"] += group["count"]
            known["nodeids"] = list(nodeids)[:MAX_NODEIDS]
            known["history"] = known["history"] or group["history"]
    return sorted(merged.values(), key=lambda group: -int(group["count"]))


def _summary(parts: Sequence[_Part], replaced: set[str], aside: set[str]) -> JSONObject:
    """Add the counts of all runs up; of tries, those of the last, with what others ran besides."""
    total = Counter(dict.fromkeys(parts[0].about["summary"], 0))
    for part in parts:
        if part.id not in aside:
            total.update(part.about["summary"])
    open_tries: dict[Any, list[_Part]] = {}
    for part in parts:
        open_tries.setdefault(part.slot, []).append(part)
        if part.id in replaced:
            continue
        tries = open_tries.pop(part.slot)  # of which the last has replaced the others
        last, fullest = (
            tries[-1],
            max(tries, key=lambda each: each.about["summary"]["collected"]),
        )
        now, whole = last.about["summary"], fullest.about["summary"]
        failed_before = {
            nodeid
            for each in tries[:-1]
            for held in each.about["reasons"]
            for nodeid in held["nodeids"]
        }
        fails_now = {
            nodeid for held in last.about["reasons"] for nodeid in held["nodeids"]
        }
        total["flaky"] += len(failed_before - fails_now)
        total["rerun"] += sum(len(each.about["reasons"]) > 0 for each in tries[:-1])
        if fullest is not last:
            more = whole["collected"] - now["collected"]
            total["collected"] += more
            total["passed"] += max(0, more - whole["skipped"] - whole["xfailed"])
            for name in ("skipped", "xfailed", "xpassed"):
                total[name] += max(0, whole[name] - now[name])
    return dict(total)


def _run(parts: Sequence[_Part]) -> JSONObject:
    """Return the field `run`: from the first start to the last end."""
    runs = [part.about["run"] for part in parts]
    first = min(runs, key=lambda run: (_start_of(run), run["id"]))
    ends = [
        (_start_of(run) - _start_of(first)).total_seconds() + run["duration_seconds"]
        for run in runs
        if run["duration_seconds"] is not None
    ]
    is_known = len(ends) == len(runs)
    args = {tuple(run["invocation"]["args"]) for run in runs}
    shards = [run["shard"] for run in runs]
    failed = [part for part in parts if part.about["verdict"]]
    ids = "".join(sorted(run["id"] for run in runs))
    return {
        "id": blake2b(ids.encode(), digest_size=16).hexdigest(),
        "started_at": first["started_at"],
        "duration_seconds": round(max(ends), 6) if is_known else None,
        "stage": runs[-1]["stage"],
        "invocation": {
            "args": list(next(iter(args))) if len(args) == 1 else [],
            "rootdir": (failed or parts)[-1].rootdir,
        },
        "shard": shards[0] if all(each == shards[0] for each in shards) else None,
    }


def _limits(parts: Sequence[_Part], limits: build.Limits) -> JSONObject:
    total: dict[str, int] = limits.cut
    for part in parts:
        for name, count in part.about["limits"].items():
            total[name] += count
        for name in _COUNTED:
            total[f"{name}_omitted"] += part.about["counts"][name] - len(
                part.lists[name]
            )
        total["nodeids_omitted"] += part.about["counts"]["not_run"] - len(
            part.lists["not_run"]
        )
    return total
