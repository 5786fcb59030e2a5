"""Decide once, for all faces of a report, what to say about its run.

From a report to plain values with roles. A face lays them out for its readers; what
failed, in which order, and whether a retry helps, it reads here.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from operator import eq
from typing import Final, Literal, NamedTuple, Protocol

from pytest_failure_taxonomy.report.build import baseline_commit, cause_of_group
from pytest_failure_taxonomy.report.frames import Code, code_of
from pytest_failure_taxonomy.report.model import (
    CollectionError,
    Failure,
    FailureReport,
    InternalError,
    JSONObject,
    MergedRun,
    RetriedTest,
    StalledActivity,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    InFlightTest,
    IntegrityFinding,
    Location,
    RaisedException,
    RaisingFrame,
    Stall,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    COMMAND_FAILED,
    PRINTED,
    Advice,
    BaseComparison,
    Cause,
    Counterfactual,
    FailureReason,
    FailureTraits,
    FailureType,
    Interval,
    Proof,
    Stage,
    Verdict,
    explain_recovery,
)
from pytest_failure_taxonomy.taxonomy.values import to_dict, value
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    counted,
    counts_in_words,
    one_line,
    seconds_words,
    words_at,
    words_of_integrity,
)
from pytest_failure_taxonomy.text import (
    AS_REPORTED,
    ShownPaths,
    bench_name,
    first_line,
    safe_text,
)

COUNTED: Final = (
    "passed",
    "failed",
    "errors",
    "skipped",
    "xfailed",
    "xpassed",
    "flaky",
)
"""The counts of a `summary` that people see, in their order."""
_MAX_KINDS: Final = 2
"""Kinds that a verdict could have, in one line."""
_MAX_NAMED: Final = 10
"""Node ids whose paths are looked for in the words of one cause."""
_TOLD_BY_EVIDENCE: Final = ("worker.crashed", "test.stalled")
"""Kinds of failures for which the evidence, not the exception, says how they ended."""
_STATES: Final = {
    "new": "new",
    "came_back": "came back",
    "known": "known",
    "flaky": "flaky",
}
_SINCE: Final = {"came_back": "came back, first seen", "flaky": "flaky, since"}
_COMMIT: Final = 7
HIDES: Final = "; a retry of only the failed tests would pass and hide the cause"
"""Added to the advice if a cause is proven to be `order.polluted`."""
_MAX_NAMED_BY_PROOF: Final = 2
"""Tests that one line about a proof names; its command has them all."""

Failing = Failure | CollectionError
"""An entry of a report about a test or a collector that failed."""


class _ListedCause(NamedTuple):
    """A cause with its entries in the report."""

    cause: Cause
    failures: tuple[Failing, ...]
    errors: tuple[InternalError, ...]


class SeenBefore(Protocol):
    """What earlier runs say about a failure, from a report or from the history itself."""

    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def runs(self) -> int: ...  # noqa: D102
    @property
    def first_seen(self) -> datetime | str | None: ...  # noqa: D102
    @property
    def first_commit(self) -> str | None: ...  # noqa: D102
    @property
    def flaky_failures(self) -> int: ...  # noqa: D102
    @property
    def flaky_runs(self) -> int: ...  # noqa: D102


_RETRIED: Final = {
    "rescued": "passed on retry {} after",
    "same_cause": "failed on retry {} by the same cause",
    "other_cause": "failed on retry {} for another reason than",
    "not_settled": "neither passed nor failed on retry {}, after",
    "in_flight": "was running when retry {} ended, after",
}
NOT_RETRIED: Final = "not retried: "
"""Begins a note of a report that says why a retry that was asked for did not come."""
NOT_BY_TESTS: Final = "not by the tests: "
"""Begins the words about what made a result other than the tests."""


@value
class CauseSummary:
    """One thing to fix, in words."""

    key: str
    """The same in every run."""
    count: int
    """Failures and endings that it has."""
    text: str
    """What is wrong and where, in one line."""
    fix: str | None
    """A command or an edit."""
    reason: str
    kind: str
    owner: str | None
    """Who has to fix it, else whose code raised it: the same on all faces."""
    package: str | None
    """The distribution of that owner, where one has raised it."""
    charge_to: str | None
    about: str
    """The owner and the link of a user's rule; empty without one."""
    history: str
    """What earlier runs say about it; empty if they were not asked."""
    state: str | None
    """The state from `groups[].history.state`."""
    last_passed_commit: str | None
    distributions_changed: tuple[str, ...]
    nodeids: tuple[str, ...]
    """As the report has them."""
    fingerprints: tuple[str, ...]
    proof: tuple[str, ...]
    """What an experiment says about it; empty without one."""
    proof_command: str
    """The command that repeats the experiment; empty without one, or if a shell could not run
    it."""
    base: str
    """Whether another revision has it, too; empty if that was not asked."""
    failures: tuple[Failing, ...]
    """Its entries in `failures` and `collection_errors`."""
    errors: tuple[InternalError, ...]
    """Its entries in `internal_errors`."""

    @property
    def entries(self) -> tuple[Failing | InternalError, ...]:
        """All its entries in the report."""
        return (*self.failures, *self.errors)

    @property
    def codes(self) -> str:
        """Reason and kind, for programs and for who looks them up."""
        return f"[{self.reason} {self.kind}]"

    @property
    def code(self) -> Code:
        """The first of its tracebacks; empty if there is none."""
        for failure in self.failures:
            if failure.traceback:
                return code_of(failure.traceback, failure.location)
        for error in self.errors:
            if error.traceback:
                return code_of(error.traceback)
        return code_of(None)

    @property
    def remarks(self) -> str:
        """Remarks about it, in brackets."""
        return "".join(f" [{words}]" for words in (self.about, self.history) if words)

    @property
    def title(self) -> str:
        """Its sentence with its remarks, after its count if that is not 1."""
        count = f"{self.count:,} x " if self.count > 1 else ""
        return f"{count}{self.text}{self.remarks}"

    @property
    def fix_line(self) -> str:
        """How to fix it, after `fix:`; empty if that is not known."""
        return f"fix: {self.fix}" if self.fix else ""

    @property
    def below(self) -> tuple[str, ...]:
        """The lines below it: how to fix it, what has changed, what is proven, and its command."""
        lines = (
            self.fix_line,
            self.changed,
            self.base,
            *self.proof,
            self.proof_command,
        )
        return tuple(filter(None, lines))

    @property
    def changed(self) -> str:
        """What is installed in other versions than when its tests passed; empty for nothing."""
        changed = ", ".join(self.distributions_changed)
        return f"since the last pass: {changed}" if changed else ""

    @property
    def last_passed(self) -> str:
        """When its tests passed last; empty where that is not known."""
        commit = self.last_passed_commit
        return f"last passed at {commit[:12]}" if commit else ""


@value
class BenchSummary:
    """What to say about a task class; the bench's section of the report has everything."""

    name: str
    """With the label of its system if it has several."""
    passed: int
    scheduled: int
    mean_score: float | None
    standard_error: float | None
    lower_bound_95: float | None
    cost_usd: float
    gate: str | None
    """What its gate says; `None` without one."""
    gate_reasons: tuple[str, ...]


@value
class RunSummary:
    """What to say about a run."""

    headline: str
    """What failed, in one line; for a success, what went well."""
    codes: str
    """Of the verdict, in brackets: `[TIMEOUT process.killed, likely]`; empty for a success."""
    causes: tuple[CauseSummary, ...]
    """In the order of the report; for a success, the known and accepted ones."""
    causes_count: int
    """The number of all causes, with those that the report omits."""
    see: str
    """Where to look, if there is only one cause and the headline doesn't say it."""
    advice: str
    """Whether a retry helps; empty if that is not known."""
    left: str
    """What was in flight or did not run; empty if there was nothing."""
    notes: tuple[str, ...]
    """Of the judge, and faults of the recorder."""
    benches: tuple[BenchSummary, ...]
    """Of each task class that ran."""

    @property
    def owner(self) -> str | None:
        """The owner of the biggest cause; if several are as big, of the first."""
        owned = [cause for cause in self.causes if cause.owner]
        biggest = max(owned, key=lambda cause: cause.count, default=None)
        return None if biggest is None else biggest.owner


def summarise(
    report: FailureReport,
    paths: ShownPaths = AS_REPORTED,
    most: int | None = None,
) -> RunSummary:
    """Return what to say about a run.

    Args:
        report: its report.
        paths: shows the paths in it.
        most: how many causes are told, the first ones; there may be a thousand.
    """
    verdict = report.verdict
    causes = report.causes
    if verdict is None:
        groups = report.groups if accepted_words(report) else ()
        causes = tuple(map(cause_of_group, groups))
    listed = [*_list_entries(report, causes)]
    summaries = tuple(_summarise_causes(report, listed[:most], paths))
    benches = tuple(map(_summarise_bench, report.bench))
    see = ""
    codes = ""
    if verdict is None:
        headline = _success_words(report, benches)
    else:
        codes = codes_of(verdict)
        nodeids = summaries[0].nodeids if summaries else ()
        headline = paths.words(verdict.message, _names_in(report, nodeids))
        headline += _history_words(report, verdict, summaries, headline)
        if len(causes) == 1:
            (cause,) = summaries
            headline += f" [{cause.about}]" if cause.about else ""
            see = _where_to_look(report, verdict, cause, headline, paths)
    return RunSummary(
        headline=headline,
        codes=codes,
        causes=summaries,
        causes_count=len(listed) + report.limits.causes_omitted,
        see=see,
        advice=_advice_words(report, listed),
        left=_unfinished_words(report, paths),
        notes=(*notes_of(report), *report.faults),
        benches=benches,
    )


def notes_of(report: FailureReport) -> tuple[str, ...]:
    """Return the notes of a report, and what made results other than its tests."""
    by_others = map(integrity_note, report.integrity)
    return (*report.notes, *retry_notes(report), *by_others)


def integrity_note(finding: IntegrityFinding) -> str:
    """Say what made a result; a test that ends its own process is one of the tests."""
    words = words_of_integrity(finding)
    place = finding.where
    is_by_test = place is not None and any(
        nodeid.startswith(f"{place.path}::") for nodeid in finding.nodeids
    )
    if finding.kind == "integrity.early_exit" and is_by_test:
        return words
    return f"{NOT_BY_TESTS}{words}"


def retry_notes(report: FailureReport) -> list[str]:
    """Say what became of the tests that were run again."""
    nodeids: dict[str, list[str]] = defaultdict(list)
    for test, words in retried_tests(report):
        nodeids[words].append(test.nodeid)
    notes = []
    for words, retried in nodeids.items():
        tests = counted(len(retried), "test")
        only = retried[0] or "pytest's session"
        notes.append(f"{only if len(retried) == 1 else tests} {words}")
    return notes


def retried_tests(report: FailureReport) -> Iterator[tuple[RetriedTest, str]]:
    """Yield each test that was run again, with what became of it in words."""
    running = {test.nodeid for test in report.in_flight}
    for run in merged_runs_of(report):
        if run.retry is None:
            continue
        ended = {nodeid for cause in run.causes for nodeid in cause.nodeids}
        for test in run.retry.tests:
            # A later retry may have been the one that ended in it.
            is_in_flight = test.nodeid in running & ended
            words = _RETRIED["in_flight" if is_in_flight else test.outcome]
            yield test, f"{words.format(run.retry.number)}: {test.cause}"


def rescued_nodeids(report: FailureReport) -> Iterator[str]:
    """Yield what failed or did not run, and passed in a retry."""
    for test, _ in retried_tests(report):
        if test.outcome == "rescued":
            yield test.nodeid


def owner_of(
    owner: str | None, failure: Failing | None
) -> tuple[str | None, str | None]:
    """Return who has to fix a failure, else whose code raised it, and the distribution.

    Args:
        owner: of its cause; `None` where that has none.
        failure: what was raised, if anything was.
    """
    origin = failure.origin if failure else None
    if origin is None:
        return owner, None
    owner = owner or origin.owner
    return owner, origin.package if owner == origin.owner else None


def causes_by_failure(report: FailureReport) -> dict[str | int, CauseSummary]:
    """Return the causes of a report by node id, and by the identity of each of its failures."""
    causes: dict[str | int, CauseSummary] = {}
    for cause in summarise(report).causes:
        causes |= dict.fromkeys(cause.nodeids, cause)
        causes |= dict.fromkeys(map(id, cause.entries), cause)
    return causes


class KnownTest(NamedTuple):
    """A test that a report names, in whichever of its lists."""

    nodeid: str
    outcome: str
    """As in `tests`, or `not_run`."""
    failures: Sequence[Failure]
    worker: str | None = None
    start_seconds: float | None = None
    duration_seconds: float | None = None


def tests_of(report: FailureReport) -> Iterator[KnownTest]:
    """Yield every test that is known.

    First are those that ran, in the order of their start, which a merged report may have twice;
    then those that only other lists name.
    """
    failures: dict[str, list[Failure]] = defaultdict(list)
    for failure in report.failures:
        failures[failure.nodeid].append(failure)
    seen = set()
    for test in report.tests or ():
        seen.add(test.nodeid)
        yield KnownTest(
            nodeid=test.nodeid,
            outcome=test.outcome,
            failures=failures.get(test.nodeid, ()),
            worker=test.worker,
            start_seconds=test.start_seconds,
            duration_seconds=test.duration_seconds,
        )
    running = {test.nodeid: test for test in report.in_flight}
    lists: dict[str, Iterable[str]] = {
        "failed": [*failures],
        "in_flight": running,
        "not_run": report.not_run.nodeids,
    }
    for outcome, nodeids in lists.items():
        for nodeid in nodeids:
            if nodeid in seen:
                continue
            seen.add(nodeid)
            known = KnownTest(nodeid, outcome, failures.get(nodeid, ()))
            if outcome == "in_flight":
                known = _describe_running(known, running[nodeid], report)
            yield known
    for nodeid in rescued_nodeids(report):
        if "::" in nodeid and nodeid not in seen:
            yield KnownTest(nodeid, "flaky", ())


def _describe_running(
    test: KnownTest, running: InFlightTest, report: FailureReport
) -> KnownTest:
    """Add the worker of a test that was running, and when it had started if that is known."""
    elapsed, lasted = running.elapsed_seconds, report.run.duration_seconds
    start = None
    if elapsed is not None and lasted is not None:
        start = max(0.0, lasted - elapsed)
    return test._replace(
        worker=running.worker, start_seconds=start, duration_seconds=elapsed
    )


def codes_of(verdict: Verdict) -> str:
    """Return the codes of a verdict: its reason, its kind, how sure it is.

    If it could be one other kind, that is named, too; there is no room for more.
    """
    kinds = [verdict.kind, *other_kinds(verdict)]
    if len(kinds) > _MAX_KINDS:
        kinds = kinds[:1]
    likely = "" if verdict.confidence == "certain" else ", likely"
    return f"[{verdict.reason} {' or '.join(kinds)}{likely}]"


def other_kinds(verdict: Verdict) -> list[str]:
    """Return the kinds that a verdict could also have; a report lists its own among them."""
    return [kind for kind in verdict.ambiguous if kind != verdict.kind]


def accepted_words(report: FailureReport) -> str:
    """Say that failures are known, if that made a run end with exit code 0."""
    known = report.known
    if known is None or not known.accepted:
        return ""
    failures = f"{known.failures} failures, which are all"
    if known.failures == 1:
        failures = "1 failure, which is"
    return f"{failures} known ({known.by}), so the exit status is 0"


def _success_words(report: FailureReport, benches: Iterable[BenchSummary]) -> str:
    """Say how well a run went."""
    summary = report.summary
    counts = counts_in_words(to_dict(summary), COUNTED)
    if report.run.stage == Stage.BASELINE_RUN:
        return _baseline_words(report, counts)
    # Where no plugin has looked and no counts were printed, none are known.
    is_known = counts or report.environment.pytest != "unknown"
    words = accepted_words(report) or "no failure"
    if not is_known and report.exit.source == "supervisor":
        words = "the command ended with status 0"
    if words == "no failure" and (summary.failed or summary.errors):
        words = "pytest ended with exit code 0, which a plugin or a conftest.py set"
    tests = f" ({counts or 'no test ran'})" if is_known else ""
    parts = [f"{words}{tests}"]
    passed = sum(bench.passed for bench in benches)
    cases = sum(bench.scheduled for bench in benches)
    if passed < cases:  # where only the gate decides, a case below passes as a test
        parts.append(f"bench: {passed:,} of {counted(cases, 'case')} passed")
    return "; ".join([*parts, *report.notes, *retry_notes(report)])


def _baseline_words(report: FailureReport, counts: str) -> str:
    """Say that a baseline is valid: its tests failed, as those of an unsolved task must."""
    passed, failed = report.summary.passed, report.summary.failed
    if report.notes:
        return f"valid {'; '.join(report.notes)}"
    if not failed:
        return f"valid baseline ({counts})"
    tests = f"{failed:,} tests failed, as they"
    if failed == 1:
        tests = "1 test failed, as it"
    others = f" ({passed:,} passed)" if passed else ""
    return f"valid baseline: {tests} should{others}"


def _summarise_bench(row: JSONObject) -> BenchSummary:
    gate = row["gate"] or {"verdict": None, "reasons": ()}
    return BenchSummary(
        name=bench_name(row),
        passed=row["counts"]["passed"],
        scheduled=row["counts"]["scheduled"],
        mean_score=row["mean_score"],
        standard_error=row.get("standard_error"),
        lower_bound_95=row["lower_bound_95"]["value"],
        cost_usd=row["total_cost_usd"],
        gate=gate["verdict"],
        gate_reasons=tuple(gate["reasons"]),
    )


def _summarise_causes(
    report: FailureReport, listed: Iterable[_ListedCause], paths: ShownPaths
) -> Iterator[CauseSummary]:
    attributions: dict[str | None, str] = {}
    for attribution in report.attributions:
        words = ", ".join(filter(None, (attribution.owner, attribution.link)))
        if words and attribution.rule is not None:
            attributions[attribution.rule] = words
    for cause, failures, errors in listed:
        names = _names_in(report, cause.nodeids, failures)
        raised = next((failure for failure in failures if failure.origin), None)
        owner, package = owner_of(cause.owner, raised)
        history = cause.history
        proof = cause.proof
        nodeid = cause.nodeids[0] if cause.nodeids else None
        yield CauseSummary(
            key=cause.key,
            count=cause.count,
            text=paths.words(first_line(cause.what), names),
            fix=cause.fix,
            reason=cause.reason,
            kind=cause.kind,
            owner=owner,
            package=package,
            charge_to=cause.charge_to,
            about=_rule_words(failures, attributions),
            history=state_words(history) if history else "",
            state=history.state if history else None,
            last_passed_commit=history.last_passed_commit if history else None,
            distributions_changed=(history and history.distributions_changed) or (),
            nodeids=cause.nodeids,
            fingerprints=cause.fingerprints,
            proof=proof_words(proof, nodeid, paths) if proof else (),
            proof_command=_safe_command(proof),
            base=base_words(cause.base) if cause.base else "",
            failures=failures,
            errors=errors,
        )


def _rule_words(
    failures: Iterable[Failing], attributions: Mapping[str | None, str]
) -> str:
    """Return the words of the first user rule that recognised one of the failures."""
    if attributions:
        for failure in failures:
            rule = failure.rule if isinstance(failure, Failure) else None
            if rule in attributions:
                return attributions[rule]
    return ""


def _safe_command(proof: Proof | None) -> str:
    """Return the command of a proof, if a shell can be given it."""
    command = (proof and proof.command) or ""
    is_safe = safe_text(command, len(command) + 1) == command
    return command if is_safe else ""


def _list_entries(
    report: FailureReport, causes: Sequence[Cause]
) -> Iterator[_ListedCause]:
    """Yield each cause with its entries in the report."""
    by_fingerprint: dict[str | None, list[Failure]] = defaultdict(list)
    for failure in report.failures:
        by_fingerprint[failure.fingerprint].append(failure)
    uncollected = {error.nodeid: error for error in report.collection_errors}
    by_kind: dict[str, list[InternalError]] = defaultdict(list)
    for error in report.internal_errors:
        by_kind[error.kind].append(error)
    sharing = Counter([name for cause in causes for name in set(cause.fingerprints)])
    for cause in causes:
        nodeids = cause.nodeids
        failures: list[Failing] = []
        for fingerprint in cause.fingerprints:
            members = by_fingerprint.get(fingerprint, [])
            if sharing[fingerprint] > 1:
                members = [member for member in members if member.nodeid in nodeids]
            failures += members
        failures += [uncollected[name] for name in nodeids if name in uncollected]
        errors = by_kind.get(cause.kind, [])
        named = [error for error in errors if first_line(error.message) in cause.what]
        yield _ListedCause(cause, tuple(failures), tuple(named or errors))


def _names_in(
    report: FailureReport, nodeids: Sequence[str], failures: Sequence[Failing] = ()
) -> Iterator[str]:
    """Yield the node ids and paths that words about them may name."""
    yield from nodeids[:_MAX_NAMED]
    for test in report.in_flight[:_MAX_NAMED]:
        yield test.nodeid
    for failure in failures[:_MAX_NAMED]:
        for place in (failure.location, failure.origin):
            if place is not None:
                yield place.path


def _history_words(
    report: FailureReport,
    verdict: Verdict,
    summaries: Sequence[CauseSummary],
    headline: str,
) -> str:
    """Return what the history says of all causes: ` (1 new, 7 known)` or `, all new`."""
    if verdict.history is not None:  # of a verdict without a failure
        return f" [{state_words(verdict.history)}]"
    causes = report.causes
    if len(causes) == 1:
        history = summaries[0].history
        return f" [{history}]" if history else ""
    states: Counter[str] = Counter()
    states.update(cause.history.state for cause in causes if cause.history)
    is_partial = any(cause.fingerprints and not cause.history for cause in causes)
    if not states or is_partial or report.limits.causes_omitted:
        return ""
    # The states are counted of causes, and the headline may count tests alone.
    among = "" if headline.endswith(" causes") else f", {len(causes)} causes"
    state, count = states.most_common(1)[0]
    if count == len(causes):
        return f"{among}, all {_STATES[state]}"
    return f"{among} ({states_words(states)})"


def states_words(counts: Mapping[str, int]) -> str:
    """Return how many of each state there are: `1 new, 7 known`."""
    words = []
    for state, name in _STATES.items():
        if count := counts.get(state, 0):
            words.append(f"{count:,} {name}")
    return ", ".join(words)


def state_words(history: SeenBefore) -> str:
    """Return the words, such as `new` or `known since 2026-11-03 (abc1234), 14 earlier runs`.

    Args:
        history: of a group, a cause or a verdict.
    """
    state = history.state
    if state == "new":
        return "new"
    if state == "flaky" and history.flaky_runs:
        return f"flaky: {history.flaky_failures} of {history.flaky_runs} runs"
    since = str(history.first_seen)[: len("2026-11-03")]
    commit = history.first_commit
    place = f" ({commit[:_COMMIT]})" if commit else ""
    name = _SINCE.get(state, "known since")
    return f"{name} {since}{place}, {counted(history.runs, 'earlier run')}"


def proof_words(
    proof: Proof, nodeid: str | None, paths: ShownPaths = AS_REPORTED
) -> tuple[str, ...]:
    """Return the lines that say what an experiment has shown of a cause, without its command.

    The first says what is proven and the counts that prove it, how to fix it where that is known,
    then what is only suspected; the second, where it is known, what the named tests leave behind.

    Args:
        proof: of the cause.
        nodeid: the test that fails; `None` if it is none.
        paths: shows the paths in it.
    """
    row = packaged_table("proofs")[proof.type]
    names, without = proof.nodeids, proof.without
    shown = " and ".join(map(paths.nodeid, names[:_MAX_NAMED_BY_PROOF]))
    words = {
        "names": shown + and_more(len(names) - _MAX_NAMED_BY_PROOF),
        "state": proof.state or row.get("state"),
        "other": (without and without.state) or row.get("other"),
        "test": nodeid.rpartition("::")[2] if nodeid else "it",
        "s": "s" if len(names) == 1 else "",
    }
    fix = ""
    if proof.type == "environment" and proof.status == "proven":
        releases = str(words["state"]).split(" with ")
        pins = map(_pin, releases, str(words["other"]).split(" and "))
        fix = f"fix: pin {' and '.join(pins)}"
    name = row["name"] if proof.runs else row.get("untried", row["name"])
    forms = [f"{name}, {proof.status}"]
    if proof.status == "undecided":
        forms = ["undecided"]
    experiments: dict[str, Proof | Counterfactual | None]
    experiments = {"fails": proof, "passes": without}
    counts = []
    for name, condition in row.items():  # as the table has them
        experiment = experiments.get(name)
        if experiment is not None and experiment.runs:
            forms.append(condition)
            place = condition.format(**words)
            interval = proof.interval if experiment is proof else None
            bound = ""
            if experiment is proof and without is None and proof.failed == proof.runs:
                bound = f": at least {_lower_bound(proof.runs):.0%}"
            counts.append(_runs_words(experiment, place, interval, bound))
    lines = []
    if proof.status == "proven" and proof.state and names and "line" in row:
        lines.append(row["line"])
    names_state = any("{state}" in form for form in (*forms, *lines))
    suspected = "; ".join(proof.suspicions)
    parts = (
        ", ".join(counts),
        "" if names_state else proof.state,
        fix,
        f"since commit {proof.commit}" if proof.commit else "",
        f"suspected: {suspected}" if suspected else "",
    )
    head = forms[0].format(**words)
    if proof.known_since:
        head += f" on {proof.known_since[:10]}"
    details = "; ".join(filter(None, parts))
    first = f"{head}: {details}" if details else head
    return tuple(map(first_line, (first, *(line.format(**words) for line in lines))))


def _lower_bound(runs: int) -> float:
    """Return the rate below which so many failures in a row are rarer than 5 %."""
    return math.floor(100 * math.pow(0.05, 1 / runs)) / 100


def _pin(release: str, before: str) -> str:
    """Return a requirement that excludes a release: `httpx<0.28`.

    Args:
        release: `httpx 0.28.1`, or `httpx removed`.
        before: the version before: `0.27.2`.
    """
    name, _, now = release.rpartition(" ")
    if _numbers(now) <= _numbers(before):
        return f"{name}=={before}"
    parts = now.split(".")
    former = before.split(".") + ["0"] * len(parts)  # 5 is 5.0
    shared = [*takewhile(bool, map(eq, parts, former))]
    return f"{name}<{'.'.join(parts[: len(shared) + 1])}"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]{1,9}", version)]


def base_words(base: BaseComparison) -> str:
    """Return in one line whether another revision has a cause, too."""
    there, runs, interval = base.revision, base.runs, base.interval
    if base.status == "undecided":
        words = f"not known whether {there} has it: {base.state}"
    elif base.lacks_test:
        words = f"new here: its test does not exist on {there}"
    elif base.status == "new" or interval is None:
        words = f"new here: passes on {there} ({runs:,} of {runs:,})"
    else:
        bounds = f"{interval.low:.1%} to {interval.high:.1%}"
        words = f"also on {there}: fails {base.failed:,} of {runs:,} ({bounds})"
    return first_line(words)


def _runs_words(
    experiment: Proof | Counterfactual,
    condition: str,
    interval: Interval | None,
    bound: str,
) -> str:
    runs, failed = experiment.runs, experiment.failed
    if failed in (0, runs):
        verb = "fails" if failed else "passes"
        return f"{verb} {condition} ({runs:,} of {runs:,}{bound})"
    share = f" ({interval.low:.1%} to {interval.high:.1%})" if interval else ""
    return f"fails {failed:,} of {runs:,} {condition}{share}"


def advice_of(report: FailureReport, verdict: Verdict) -> Advice:
    """Return the next step after a run that failed."""
    return explain_recovery(
        verdict.failure_type or FailureType.UNKNOWN,
        attempt_count=1,
        last_good_commit=baseline_commit(report),
        traits=traits_of(report, verdict),
    )


def traits_of(report: FailureReport, verdict: Verdict) -> FailureTraits:
    """Return the traits that decide the words of the next step after a failed run."""
    causes = report.causes
    deciding = [cause for cause in causes if cause.retryable is verdict.retryable]
    owners = {cause.owner == "environment" for cause in deciding}
    fixers: Literal["code", "environment", "both"] = "code"
    if True in owners:
        fixers = "both" if False in owners else "environment"
    return FailureTraits(
        reason=verdict.reason,
        kind=verdict.kind,
        retryable=verdict.retryable,
        fixers=fixers,
        fix=causes[0].fix if len(causes) == 1 else None,
    )


def _advice_words(report: FailureReport, listed: Sequence[_ListedCause]) -> str:
    """Say whether a retry helps; for an agent that gave up, say what it needs."""
    verdict = report.verdict
    if verdict is None:
        return ""
    if verdict.reason == FailureReason.AGENT_GAVE_UP:
        return advice_of(report, verdict).steps[0]
    if verdict.retryable is False:
        count = len(listed) + report.limits.causes_omitted
        return _why_no_retry_helps(listed, count)
    return "a retry may help" if verdict.retryable else ""


def _why_no_retry_helps(listed: Sequence[_ListedCause], causes_count: int) -> str:
    """Say which of all causes speak against a retry."""
    lasting = [entry for entry in listed if entry.cause.retryable is False]
    proofs = [entry.cause.proof for entry in lasting]
    assertions = [entry.cause.count for entry in lasting if _is_assertion(entry)]
    hides = HIDES if any(map(_is_pollution, proofs)) else ""
    if causes_count == 1 or len(lasting) == causes_count:
        return f"a retry won't help{hides}"
    if assertions:
        what = "an assertion" if sum(assertions) == 1 else "assertions"
        return f"a retry won't help: {what} failed{hides}"
    return f"a retry can't fix {len(lasting)} of the {causes_count} causes{hides}"


def _is_pollution(proof: Proof | None) -> bool:
    return (
        proof is not None
        and proof.status == "proven"
        and proof.type == "order.polluted"
    )


def _is_assertion(listed: _ListedCause) -> bool:
    raised = listed.failures[0].exception if listed.failures else None
    return raised is not None and raised.type == "AssertionError"


def _where_to_look(
    report: FailureReport,
    verdict: Verdict,
    cause: CauseSummary,
    headline: str,
    paths: ShownPaths,
) -> str:
    """Say where to look for the only cause, and what was seen there."""
    nodeid = verdict.nodeid or next(iter(cause.nodeids), None)
    detail = ""
    printed = [each for each in verdict.evidence if each.source == PRINTED]
    says_more = verdict.kind == COMMAND_FAILED and printed
    for evidence in (printed if says_more else verdict.evidence)[:1]:
        is_failure = cause.entries or evidence.source == "test report"
        if is_failure and cause.kind not in _TOLD_BY_EVIDENCE:
            break
        words = first_line(evidence.detail).removeprefix(f"{nodeid}: ")
        names = _names_in(report, [nodeid] if nodeid else [])
        words = paths.words(words, names)
        if words.removeprefix("worker ") not in headline:
            detail = words
    if nodeid is None:
        return f"because: {detail}" if detail else ""
    target = paths.nodeid(nodeid)
    package = _package_words(cause)
    path, _, names_in_file = target.partition("[")[0].partition("::")
    is_in_headline = path in headline and names_in_file.rpartition("::")[2] in headline
    if is_in_headline and not (detail or package):
        return ""
    label = "first" if cause.count > 1 else "see"
    words = f": {detail}" if detail else ""
    return f"{label}: {target}{words}{package}"


def _package_words(cause: CauseSummary) -> str:
    """Name the distribution that raised the first failure of a cause, and its owner."""
    origin = cause.failures[0].origin if cause.failures else None
    if origin is None or origin.package is None or origin.owner == "pytest":
        return ""
    owner = f" ({origin.owner})" if origin.owner == cause.owner else ""
    return f", raised in {origin.package}{owner}"


def _unfinished_words(report: FailureReport, paths: ShownPaths) -> str:
    """Say what was cut short: tests in flight and tests that never started."""
    words = []
    for test in report.in_flight[:1]:
        since = seconds_words(test.elapsed_seconds)
        about = ", ".join(filter(None, (test.phase, since)))
        others = and_more(len(report.in_flight) - 1)
        words.append(f"in flight: {paths.nodeid(test.nodeid)} ({about}){others}")
    counts = report.summary
    if report.not_run.count:
        noun = "collected test" if report.collection_errors else "test"
        if counts.deselected:
            noun = "selected test"
        all_tests = counted(counts.collected, noun)
        words.append(f"not run: {report.not_run.count:,} of {all_tests}")
    return "; ".join(words)


def worker_words(worker: str | None) -> str:
    """Return on which worker something was, ` on gw0`; nothing without xdist."""
    return f" on {worker}" if worker else ""


def running_words(test: InFlightTest) -> str:
    """Return in words what a test was doing when the run ended."""
    lasted = seconds_words(test.elapsed_seconds)
    since = f" for {lasted}" if lasted else ""
    words = f"was running ({test.phase}){since} when the run ended"
    return f"{words}; {stall_words(test.stall)}" if test.stall else words


def stall_words(stall: Stall | StalledActivity) -> str:
    """Return in words how something was stalled."""
    return f"{words_at(stall.state, stall.where)} for {seconds_words(stall.seconds)}"


def merged_runs_of(report: FailureReport) -> tuple[MergedRun, ...]:
    """Return the runs that a report was merged from; none for that of one run."""
    return report.merged.runs if report.merged else ()


def merged_runs(report: FailureReport) -> Iterator[str]:
    """Yield which runs a report was merged from, and how each ended."""
    for part in merged_runs_of(report):
        attempt = part.attempt or {}
        shard = part.run.shard
        names = [part.run.stage, part.name]
        if shard:
            names.append(f"shard {shard.index} of {shard.total}")
        if part.retry:
            names.append(f"retry {part.retry.number}")
        if "trial" in attempt:  # of which all have one stage
            names = [attempt.get("approach"), attempt["trial"]]
        words = "no failure"
        if verdict := part.verdict:
            codes = f"[{verdict.reason} {verdict.kind}]"
            words = f"{first_line(verdict.message)} {codes}"
        yield f"{', '.join(filter(None, names))}: {words}"


def raised_words(raised: RaisedException) -> str:
    """Return an exception in one line: its type, and the line of its message that tells most."""
    message = one_line(raised.message)
    return f"{raised.type}: {message}" if message else raised.type


def place_words(place: Location | RaisingFrame, path: str | None = None) -> str:
    """Return a place of a report as `path:line`; `path` is how its own is shown."""
    line = "" if place.line is None else f":{place.line}"
    return f"{place.path if path is None else path}{line}"
