"""What is to be said of a run, decided once for all faces of its report.

From a report's JSON object to plain values with roles. A face lays them out for its readers; what
failed, in which order, and whether a retry helps, it reads here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.build import JSONObject
from pytest_failure_taxonomy.report.frames import Code, code_of
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import (
    Advice,
    FailureReason,
    FailureTraits,
    FailureType,
    Stage,
    explain_recovery,
)
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    counted,
    counts_in_words,
    one_line,
    seconds_words,
    words_at,
)
from pytest_failure_taxonomy.text import (
    AS_REPORTED,
    ShownPaths,
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
"""The counts of a `summary` that people are told, in their order."""
_MAX_KINDS: Final = 2
"""Kinds that a verdict could have, in one line."""
_MAX_NAMED: Final = 10
"""Node ids whose paths are looked for in the words of one cause."""
_TOLD_BY_EVIDENCE: Final = ("worker.crashed", "test.stalled")
"""Kinds of a failure for which the evidence says how it ended, and the exception does not."""
_AS_THEY_STAND: Final = (
    "key",
    "count",
    "fix",
    "reason",
    "kind",
    "charge_to",
)
"""Fields of a cause that are told as the report has them."""
_STATES: Final = {
    "new": "new",
    "came_back": "came back",
    "known": "known",
    "flaky": "flaky",
}
_SINCE: Final = {"came_back": "came back, first seen", "flaky": "flaky, since"}
_COMMIT: Final = 7
HIDES: Final = "; of the failed tests alone it passes, and hides the cause"
"""What else is said of a retry where a cause is proven to be `order.polluted`."""
_MAX_NAMED_BY_PROOF: Final = 2
"""Tests that one line about a proof names; its command has them all."""

_Told = Sequence[tuple[JSONObject, Sequence[JSONObject]]]
"""Causes of a report, each with what is listed of it."""


@value
class CauseSummary:
    """One thing that is to be mended, in words."""

    key: str
    """The same in every run."""
    count: int
    """Failures and endings that it has."""
    text: str
    """What is wrong and where, in one line."""
    fix: str | None
    """A command or an edit."""
    codes: str
    """Reason and kind, for programs and for who looks them up."""
    reason: str
    kind: str
    owner: str | None
    """Who has to fix it, else whose code raised it: the same on all faces."""
    package: str | None
    """The distribution of that owner, where one has raised it."""
    charge_to: str | None
    about: str
    """Owner and link that a rule of the user's gives; empty without one."""
    history: str
    """What earlier runs say of it; empty if they were not asked."""
    state: str | None
    """The same as one word of `groups[].history.state`."""
    last_passed_commit: str | None
    distributions_changed: tuple[str, ...]
    nodeids: tuple[str, ...]
    """As the report has them."""
    fingerprints: tuple[str, ...]
    proof: tuple[str, ...]
    """What an experiment says of it; empty without any."""
    proof_command: str
    """What repeats the experiment; empty where nothing does, or no shell could be given it."""
    failures: tuple[JSONObject, ...]
    """Its entries in `failures`, `collection_errors` and `internal_errors`."""

    @property
    def code(self) -> Code:
        """The first traceback there is of it; empty where there is none."""
        for failure in self.failures:
            if failure["traceback"]:
                return code_of(failure["traceback"], failure.get("location"))
        return code_of(None)

    @property
    def remarks(self) -> str:
        """What is said of it besides, in brackets."""
        return "".join(f" [{words}]" for words in (self.about, self.history) if words)

    @property
    def title(self) -> str:
        """How often it was seen, where that is not once, and all that is said of it."""
        count = f"{self.count:,} x " if self.count > 1 else ""
        return f"{count}{self.text}{self.remarks}"

    @property
    def mend(self) -> str:
        """How to mend it, with what that is; empty where that is not known."""
        return f"fix: {self.fix}" if self.fix else ""

    @property
    def below(self) -> tuple[str, ...]:
        """What stands below it: how to mend it, what has changed, what is proven, the command."""
        return tuple(
            filter(None, (self.mend, self.changed, *self.proof, self.proof_command))
        )

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
class RunSummary:
    """What is to be said of a run."""

    headline: str
    """What failed, in one line; for a success, what went well."""
    codes: str
    """Of the verdict, in brackets: `[TIMEOUT process.killed, likely]`; empty for a success."""
    causes: tuple[CauseSummary, ...]
    """In the order of the report; of a success, those that are known and accepted."""
    causes_count: int
    """Of all, with those for which the report had no room."""
    see: str
    """Where to look, if there is one cause and the headline doesn't say it."""
    advice: str
    """Whether a retry helps; empty where nobody knows."""
    left: str
    """What was in flight or not run; empty if nothing was."""
    notes: tuple[str, ...]
    """Of the judge, and faults of the recorder."""

    @property
    def owner(self) -> str | None:
        """The owner of the biggest cause; of equals, of the first."""
        owned = [cause for cause in self.causes if cause.owner]
        biggest = max(owned, key=lambda cause: cause.count, default=None)
        return None if biggest is None else biggest.owner


def summarise(
    report: JSONObject, paths: ShownPaths = AS_REPORTED, most: int | None = None
) -> RunSummary:
    """Return what is to be said of a run.

    Args:
        report: its report's JSON object.
        paths: shows the paths in it.
        most: how many causes are told, the first ones; there may be a thousand.
    """
    verdict = report["verdict"]
    listed = report["causes"]
    if verdict is None:
        groups = report["groups"] if accepted_words(report) else ()
        listed = list(map(build.cause_of_group, groups))
    told = list(zip(listed, _failures_of(report, listed), strict=True))
    causes = tuple(_causes(report, paths, told[:most]))
    see = ""
    if verdict is None:
        headline = _success(report)
    else:
        named = [
            nodeid for cause in causes[:1] for nodeid in cause.nodeids[:_MAX_NAMED]
        ]
        headline = paths.words(verdict["message"], _named(report, named))
        headline += _history(report, causes, headline)
        if len(listed) == 1:
            headline += f" [{causes[0].about}]" if causes[0].about else ""
            see = _see(report, causes[0], headline, paths)
    return RunSummary(
        headline=headline,
        codes="" if verdict is None else codes_of(verdict),
        causes=causes,
        causes_count=len(listed) + report["limits"]["causes_omitted"],
        see=see,
        advice=_advice(report, told),
        left=_left(report, paths),
        notes=(*report["notes"], *report["faults"]),
    )


def owner_of(
    owner: str | None, failure: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return who has to fix a failure, else whose code raised it, and the distribution.

    Args:
        owner: of its cause; `None` where that has none.
        failure: an entry of `failures` or `collection_errors`.
    """
    origin = failure.get("origin") or {}
    raised_by = origin.get("owner")
    owner = owner or raised_by
    return owner, origin.get("package") if owner == raised_by else None


def causes_by_failure(report: JSONObject) -> dict[str | int, CauseSummary]:
    """Return the causes of a report by node id, and by the identity of each of its failures."""
    found: dict[str | int, CauseSummary] = {}
    for cause in summarise(report).causes:
        found |= dict.fromkeys((*cause.nodeids, *map(id, cause.failures)), cause)
    return found


_UNLISTED: Final = dict.fromkeys(("start_seconds", "duration_seconds"))
"""What is known of a test that is not in the list of all tests."""


def tests_of(report: JSONObject) -> Iterator[tuple[JSONObject, list[JSONObject]]]:
    """Yield every test that is known, as `tests` has it, with its failures.

    First are those that ran, in the order of their start, which a merged report may have twice;
    then those that only other lists name.
    """
    failures: dict[str, list[JSONObject]] = defaultdict(list)
    for failure in report["failures"]:
        failures[failure["nodeid"]].append(failure)
    running = {test["nodeid"]: test["worker"] for test in report["in_flight"]}
    seen: set[str] = set()
    for test in report["tests"] or ():
        seen.add(test["nodeid"])
        yield test, failures.get(test["nodeid"], [])
    for outcome, nodeids in (
        ("failed", failures),
        ("in_flight", running),
        ("not_run", report["not_run"]["nodeids"]),
    ):
        for nodeid in nodeids:
            if nodeid not in seen:
                seen.add(nodeid)
                worker = running.get(nodeid) if outcome == "in_flight" else None
                fields = {"nodeid": nodeid, "outcome": outcome, "worker": worker}
                yield {**_UNLISTED, **fields}, failures.get(nodeid, [])


def codes_of(verdict: Mapping[str, Any]) -> str:
    """Return the codes of a verdict: its reason, its kind, how sure it is.

    The other kind that it could be is named, too; of more than one there is no room for.
    """
    kinds = [verdict["kind"], *other_kinds(verdict)]
    kinds = kinds if len(kinds) <= _MAX_KINDS else kinds[:1]
    likely = "" if verdict["confidence"] == "certain" else ", likely"
    return f"[{verdict['reason']} {' or '.join(kinds)}{likely}]"


def other_kinds(verdict: Mapping[str, Any]) -> list[str]:
    """Return the kinds that a verdict could also have; a report lists its own among them."""
    return [kind for kind in verdict["ambiguous"] if kind != verdict["kind"]]


def accepted_words(report: JSONObject) -> str:
    """Say that failures are known, where that has made a run end with exit code 0."""
    known = report["known"]
    if known is None or not known["accepted"]:
        return ""
    count = known["failures"]
    failures = (
        "1 failure, which is" if count == 1 else f"{count} failures, which are all"
    )
    return f"{failures} known ({known['by']}), so the exit status is 0"


def _success(report: JSONObject) -> str:
    summary, notes = report["summary"], report["notes"]
    counts, failed = counts_in_words(summary, COUNTED), summary["failed"]
    if report["run"]["stage"] == Stage.BASELINE_RUN:
        # Its tests failed, as those of an unsolved task must.
        if notes:
            return f"valid {'; '.join(notes)}"
        if not failed:
            return f"valid baseline ({counts})"
        passed = f" ({summary['passed']:,} passed)" if summary["passed"] else ""
        tests = (
            "1 test failed, as it"
            if failed == 1
            else f"{failed:,} tests failed, as they"
        )
        return f"valid baseline: {tests} should{passed}"
    # Where no plugin has looked and no counts were printed, none are known.
    is_known = counts or report["environment"]["pytest"] != "unknown"
    tests = f" ({counts or 'no test ran'})" if is_known else ""
    what = accepted_words(report) or "no failure"
    if not is_known and report["exit"]["source"] == "supervisor":
        what = "the command ended with status 0"
    if what == "no failure" and (failed or summary["errors"]):
        what = "pytest ended with exit code 0, which a plugin or a conftest.py has set"
    of_benches = [bench["counts"] for bench in report["bench"]]
    passed, cases = (
        sum(each[name] for each in of_benches) for name in ("passed", "scheduled")
    )
    # Where only the gate decides, a case below passes as a test.
    below = (
        [f"bench: {passed:,} of {counted(cases, 'case')} passed"]
        if passed < cases
        else []
    )
    return "; ".join([f"{what}{tests}", *below, *notes])


def _causes(
    report: JSONObject, paths: ShownPaths, told: _Told
) -> Iterator[CauseSummary]:
    """Yield causes in words."""
    attributions: dict[object, str] = {}
    for said in report["attributions"]:
        words = [said[name] for name in ("owner", "link") if said[name] is not None]
        if words and said["rule"] is not None:
            attributions[said["rule"]] = ", ".join(words)
    for cause, failures in told:
        history, proof = cause["history"], cause["proof"]
        command = (proof or {}).get("command") or ""
        rules = (
            [attributions.get(each.get("rule")) for each in failures]
            if attributions
            else ()
        )
        named = _named(report, cause["nodeids"], failures)
        raised = next((each for each in failures if each.get("origin")), {})
        owner, package = owner_of(cause["owner"], raised)
        yield CauseSummary(
            owner=owner,
            package=package,
            **{name: cause[name] for name in _AS_THEY_STAND},
            text=paths.words(first_line(cause["what"]), named),
            codes=f"[{cause['reason']} {cause['kind']}]",
            about=next(filter(None, rules), ""),
            history=state_words(history) if history else "",
            state=history["state"] if history else None,
            last_passed_commit=history["last_passed_commit"] if history else None,
            distributions_changed=tuple(
                (history or {}).get("distributions_changed") or ()
            ),
            nodeids=tuple(cause["nodeids"]),
            fingerprints=tuple(cause["fingerprints"]),
            proof=proof_words(proof, next(iter(cause["nodeids"]), None), paths)
            if proof
            else (),
            proof_command=command
            if safe_text(command, len(command) + 1) == command
            else "",
            failures=tuple(failures),
        )


def _failures_of(
    report: JSONObject, causes: Sequence[JSONObject]
) -> Iterator[Sequence[JSONObject]]:
    """Yield what the report lists of each cause."""
    of_tests: dict[str | None, list[JSONObject]] = {}
    for failure in report["failures"]:
        of_tests.setdefault(failure["fingerprint"], []).append(failure)
    uncollected = {failed["nodeid"]: failed for failed in report["collection_errors"]}
    of_run: dict[str, list[JSONObject]] = {}
    for error in report["internal_errors"]:
        of_run.setdefault(error["kind"], []).append(error)
    causes_of = Counter([name for each in causes for name in set(each["fingerprints"])])
    for cause in causes:
        nodeids = cause["nodeids"]
        found = []
        for fingerprint in cause["fingerprints"]:
            failures = of_tests.get(fingerprint, [])
            if causes_of[fingerprint] > 1:
                failures = [each for each in failures if each["nodeid"] in nodeids]
            found += failures
        if uncollected:
            found += [
                uncollected[nodeid] for nodeid in nodeids if nodeid in uncollected
            ]
        if errors := of_run.get(cause["kind"]):
            found += [
                e for e in errors if first_line(e["message"]) in cause["what"]
            ] or errors
        yield found


def _named(
    report: JSONObject, nodeids: Sequence[str], failures: Sequence[JSONObject] = ()
) -> Iterator[str]:
    """Yield the node ids and paths that words about them may name."""
    yield from nodeids[:_MAX_NAMED]
    yield from (test["nodeid"] for test in report["in_flight"][:_MAX_NAMED])
    for failure in failures[:_MAX_NAMED]:
        yield from (
            failure[name]["path"]
            for name in ("location", "origin")
            if failure.get(name)
        )


def _history(report: JSONObject, causes: Sequence[CauseSummary], headline: str) -> str:
    """Return what the history says of all causes: `: 1 new, 7 known`."""
    of_verdict = report["verdict"]["history"]
    if of_verdict is not None:  # of a verdict without a failure
        return f" [{state_words(of_verdict)}]"
    if len(report["causes"]) == 1:
        return f" [{causes[0].history}]" if causes[0].history else ""
    is_partial = report["limits"]["causes_omitted"] > 0
    states: Counter[str] = Counter()
    for cause in report["causes"]:
        if cause["history"]:
            states[cause["history"]["state"]] += 1
        elif cause["fingerprints"]:
            is_partial = True
    if not states or is_partial:
        return ""
    # The states are counted of causes, and the headline may count tests alone.
    among = "" if headline.endswith(" causes") else f", {len(report['causes'])} causes"
    return f"{among}: {states_words(states)}"


def states_words(counts: Mapping[str, int]) -> str:
    """Return how many of each state there are: `1 new, 7 known`."""
    found = ((counts.get(state, 0), words) for state, words in _STATES.items())
    return ", ".join(f"{count:,} {words}" for count, words in found if count)


def state_words(history: Mapping[str, Any]) -> str:
    """Return the words: `new`, `came back`, `known since 2026-11-03 (abc1234), 14 runs` or `flaky`.

    Args:
        history: `groups[].history` of a report, with what of `GroupState` is known besides.
    """
    state, runs = history["state"], history["runs"]
    if state == "new":
        return "new"
    if state == "flaky" and history.get("flaky_runs") and "flaky_failures" in history:
        return f"flaky: {history['flaky_failures']} of {history['flaky_runs']} runs"
    first, commit = history["first_seen"], history.get("first_commit")
    since = (
        first.strftime("%Y-%m-%d") if isinstance(first, datetime) else str(first)[:10]
    )
    place = f" ({commit[:_COMMIT]})" if isinstance(commit, str) and commit else ""
    return f"{_SINCE.get(state, 'known since')} {since}{place}, {counted(runs, 'run')}"


def proof_words(
    proof: JSONObject, nodeid: str | None, paths: ShownPaths = AS_REPORTED
) -> tuple[str, ...]:
    """Return the lines that say what an experiment has shown of a cause, without its command.

    The first says what is proven and the counts that prove it, then what is only suspected; the
    second, where it is known, what the named tests leave behind.

    Args:
        proof: `causes[].proof` of a report.
        nodeid: the test that fails; `None` if it is none.
        paths: shows the paths in it.
    """
    row, status = packaged_table("proofs")[proof["type"]], proof["status"]
    names, state, without = proof["nodeids"], proof["state"], proof["without"] or {}
    shown = " and ".join(map(paths.nodeid, names[:_MAX_NAMED_BY_PROOF]))
    words = {
        "names": shown + and_more(len(names) - _MAX_NAMED_BY_PROOF),
        "state": state or row.get("state"),
        "other": without.get("state") or row.get("other"),
        "test": nodeid.rpartition("::")[2] if nodeid else "it",
        "s": "s" if len(names) == 1 else "",
    }
    used, seen = (
        ["undecided" if status == "undecided" else f"{row['name']}, {status}"],
        [],
    )
    for name, condition in row.items():  # as the table has them
        counts = {"fails": proof, "passes": without}.get(name, {})
        if counts.get("runs"):
            used.append(condition)
            interval = proof["interval"] if counts is proof else None
            seen.append(_runs_words(counts, condition.format(**words), interval))
    lines = (
        [row["line"]]
        if status == "proven" and state and names and "line" in row
        else []
    )
    is_told = any("{state}" in each for each in (*used, *lines))
    suspected, known_since = "; ".join(proof["suspicions"]), proof["known_since"]
    parts = (
        ", ".join(seen),
        "" if is_told else state,
        f"since commit {proof['commit']}" if proof.get("commit") else "",
        f"suspected: {suspected}" if suspected else "",
    )
    head = used[0].format(**words) + (f" on {known_since[:10]}" if known_since else "")
    first = ": ".join(filter(None, (head, "; ".join(filter(None, parts)))))
    return tuple(
        first_line(line) for line in (first, *(line.format(**words) for line in lines))
    )


def _runs_words(
    counts: JSONObject, condition: str, interval: Mapping[str, float] | None
) -> str:
    runs, failed = counts["runs"], counts["failed"]
    if failed in (0, runs):
        return f"{'fails' if failed else 'passes'} {condition} ({runs:,} of {runs:,})"
    share = f" ({interval['low']:.1%} to {interval['high']:.1%})" if interval else ""
    return f"fails {failed:,} of {runs:,} {condition}{share}"


def advice_of(report: JSONObject) -> Advice:
    """Return the next step after a run that failed."""
    return explain_recovery(
        report["verdict"]["failure_type"] or FailureType.UNKNOWN,
        attempt_count=1,
        last_good_commit=build.baseline_commit(report),
        traits=traits_of(report),
    )


def traits_of(report: Mapping[str, Any]) -> FailureTraits:
    """Return what decides on the words of the next step after a run that failed."""
    verdict, causes = report["verdict"], report["causes"]
    owners = {
        cause["owner"] == "environment"
        for cause in causes
        if cause["retryable"] is verdict["retryable"]
    }
    fixers: Literal["code", "environment", "both"] = "code"
    if True in owners:
        fixers = "both" if False in owners else "environment"
    return FailureTraits(
        reason=verdict["reason"],
        retryable=verdict["retryable"],
        fixers=fixers,
        fix=causes[0]["fix"] if len(causes) == 1 else None,
    )


def _advice(report: JSONObject, told: _Told) -> str:
    """Say whether a retry helps; of an agent that gave up, what it needs."""
    verdict = report["verdict"]
    if verdict is None:
        return ""
    if verdict["reason"] == FailureReason.AGENT_GAVE_UP:
        return advice_of(report).steps[0]
    if verdict["retryable"] is False:
        count = len(told) + report["limits"]["causes_omitted"]
        return _why_no_retry_helps(told, count)
    return "a retry may help" if verdict["retryable"] else ""


def _why_no_retry_helps(told: _Told, causes_count: int) -> str:
    """Say what of all causes speaks against a retry."""
    lasting = [
        (cause, failures) for cause, failures in told if cause["retryable"] is False
    ]
    proofs = [cause["proof"] for cause, _ in lasting if cause["proof"]]
    is_polluted = any(
        proof["status"] == "proven" and proof["type"] == "order.polluted"
        for proof in proofs
    )
    hides = HIDES if is_polluted else ""
    failed = sum(
        cause["count"] for cause, failures in lasting if _is_assertion(failures)
    )
    if causes_count == 1 or len(lasting) == causes_count:
        return f"a retry won't help{hides}"
    if failed:
        what = "an assertion" if failed == 1 else "assertions"
        return f"a retry won't help, {what} failed{hides}"
    return f"a retry won't help {len(lasting)} of the {causes_count} causes{hides}"


def _is_assertion(failures: Sequence[JSONObject]) -> bool:
    raised = failures[0].get("exception") if failures else None
    return raised is not None and raised["type"] == "AssertionError"


def _see(
    report: JSONObject, cause: CauseSummary, headline: str, paths: ShownPaths
) -> str:
    """Say where to look for the only cause, and what was seen there."""
    verdict = report["verdict"]
    nodeid = verdict["nodeid"] or next(iter(cause.nodeids), None)
    detail = ""
    told = next(iter(verdict["evidence"]), None)
    is_failure = told and (cause.failures or told["source"] == "test report")
    if told and (not is_failure or cause.kind in _TOLD_BY_EVIDENCE):
        said = first_line(told["detail"]).removeprefix(f"{nodeid}: ")
        said = paths.words(said, _named(report, [nodeid] if nodeid else []))
        detail = "" if said.removeprefix("worker ") in headline else said
    if nodeid is None:
        return f"because: {detail}" if detail else ""
    target, package = paths.nodeid(nodeid), ""
    origin = cause.failures[0].get("origin") if cause.failures else None
    if origin and origin["package"] is not None and origin["owner"] != "pytest":
        # The distribution that has raised the first one.
        owner = f" ({origin['owner']})" if origin["owner"] == cause.owner else ""
        package = f" in {origin['package']}{owner}"
    path, _, names = target.partition("[")[0].partition("::")
    if (
        path in headline
        and names.rpartition("::")[2] in headline
        and not (detail or package)
    ):
        return ""
    label = "first" if cause.count > 1 else "see"
    return f"{label}: {target}" + (f": {detail}" if detail else "") + package


def _left(report: JSONObject, paths: ShownPaths) -> str:
    """Say what was cut short: tests in flight and tests that never started."""
    words, running, not_run = [], report["in_flight"], report["not_run"]["count"]
    if running:
        first = running[0]
        since = ", ".join(
            filter(None, [first["phase"], seconds_words(first["elapsed_seconds"])])
        )
        others = and_more(len(running) - 1)
        words.append(f"in flight: {paths.nodeid(first['nodeid'])} ({since}){others}")
    if not_run:
        noun = "collected test" if report["collection_errors"] else "test"
        noun = "selected test" if report["summary"]["deselected"] else noun
        words.append(
            f"not run: {not_run:,} of {counted(report['summary']['collected'], noun)}"
        )
    return "; ".join(words)


def worker_words(of: Mapping[str, Any]) -> str:
    """Return on which worker something was, ` on gw0`; nothing without xdist."""
    return f" on {of['worker']}" if of["worker"] else ""


def running_words(test: Mapping[str, Any]) -> str:
    """Return in words what a test was doing when the run ended."""
    lasted = seconds_words(test["elapsed_seconds"])
    since = f" for {lasted}" if lasted else ""
    words = f"was running ({test['phase']}){since} when the run ended"
    return words if test["stall"] is None else f"{words}; {stall_words(test['stall'])}"


def stall_words(stall: Mapping[str, Any]) -> str:
    """Return in words how something was stalled."""
    return f"{words_at(stall['state'], stall['where'])} for {seconds_words(stall['seconds'])}"


def merged_runs(report: JSONObject) -> Iterator[str]:
    """Yield which runs a report was merged from, and how each ended."""
    merged = report["merged"] or {"runs": []}
    for part in merged["runs"]:
        run, verdict, attempt = part["run"], part["verdict"], part["attempt"] or {}
        names = [run["stage"], part["name"]]
        if run["shard"]:
            names.append(f"shard {run['shard']['index']} of {run['shard']['total']}")
        if "trial" in attempt:  # of which all have one stage
            names = [attempt.get("approach"), attempt["trial"]]
        words = "no failure"
        if verdict is not None:
            codes = f"[{verdict['reason']} {verdict['kind']}]"
            words = f"{first_line(verdict['message'])} {codes}"
        yield f"{', '.join(filter(None, names))}: {words}"


def raised_words(raised: Mapping[str, Any]) -> str:
    """Return an exception in one line: its type, and the line of its message that tells most."""
    message = one_line(raised["message"])
    return f"{raised['type']}: {message}" if message else str(raised["type"])


def place_words(place: Mapping[str, Any], path: str | None = None) -> str:
    """Return a place of a report as `path:line`; `path` is how its own is shown."""
    line = "" if place["line"] is None else f":{place['line']}"
    return f"{place['path'] if path is None else path}{line}"
