"""Build the report's JSON object from evidence and judgement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.report.model import (
    PUBLISHED,
    SCHEMA_ID,
    SCHEMA_VERSION,
)
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.judgement import (
    PYTEST_EXIT_CODES,
    Judgement,
    Stage,
    Verdict,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict
from pytest_failure_taxonomy.taxonomy.words import words_of_stalled_activity
from pytest_failure_taxonomy.text import (
    CLOSED_FIELDS,
    cap,
    cap_between_words,
    change_texts,
    encodable,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction import Redaction

JSONObject = dict[str, Any]
_T = TypeVar("_T")

OWN_NAME: Final = "pytest_failure_taxonomy"
"""Our own key where other formats have room for extensions."""


def object_at(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of an object of anybody's; an empty one where there is none."""
    found = holder.get(name)
    return found if isinstance(found, dict) else {}


def objects_at(holder: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a list of an object of anybody's."""
    found = holder.get(name)
    return (
        [each for each in found if isinstance(each, dict)]
        if isinstance(found, list)
        else []
    )


def texts_at(holder: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts in a list of an object of anybody's."""
    found = holder.get(name)
    return (
        [each for each in found if isinstance(each, str)]
        if isinstance(found, list)
        else []
    )


def baseline_commit(report: Mapping[str, Any]) -> str | None:
    """Return the commit at which an attempt's baseline was valid, so that its code did load.

    An attempt is a report that was merged from its stages.
    """
    merged = report["merged"] or {"runs": []}
    for run in merged["runs"]:
        is_baseline = run["run"]["stage"] == Stage.BASELINE_RUN
        if is_baseline and run["verdict"] is None and run["commit"] is not None:
            return str(run["commit"])
    return None


_SEARCHED_AT_ONCE: Final = 10_000
"""Characters of texts that are searched for secrets together, which takes a fraction of the time.
Where that finds something each of them is searched by itself."""

_MOST_PASSES: Final = 4
"""How often the texts are searched at most. A secret that is learnt from one text may also stand
in a text that was searched before."""

REDACTED: Final = "[REDACTED:"
"""How the marks begin that stand for secrets."""
_MARK: Final = re.compile(r"\[REDACTED:([^\]]+?)(?: [0-9a-f]{10})?\]")
"""A mark in a node id has a digest of the whole id beside it, so that two ids stay different."""

MAX_REPORT_BYTES: Final = 64 * 1024 * 1024
"""The other caps keep a report far below this; a bigger file is not a report."""
MAX_FAILURES: Final = ev.MAX_LISTED
"""Failures, collection errors, internal errors and groups listed, each; `limits` says how many
more."""
MAX_NODEIDS: Final = 1_000
"""Node ids in any one list."""
MAX_NODEIDS_OF_PART: Final = 20
"""Node ids of one group or cause that a merged report keeps of each run."""
MAX_MESSAGE: Final = 2_000
MAX_TRACEBACK: Final = 10_000
"""Also the most that any text without a narrower cap may have: a parameter can make a node id of
a megabyte."""
MAX_TRACEBACKS: Final = 4_000_000
"""Characters of all tracebacks together; later failures go without."""


_MESSAGES: Final = frozenset({"message", "detail", "title", "what", "children"})
_TRACEBACKS: Final = frozenset({"traceback", "stack"})
"""Names of fields whose texts are capped, in whichever object they stand."""


def removed_from(text: str) -> list[str]:
    """Return the sorts of secrets that were removed from a text, as its marks name them."""
    return _MARK.findall(text) if REDACTED in text else []


class Limits:
    """Apply the caps of the report and count what they cut."""

    def __init__(
        self,
        redaction: Redaction | None = None,
        unrecorded: ev.Unrecorded | None = None,
    ) -> None:
        unrecorded = unrecorded or ev.Unrecorded()
        self._redaction = redaction
        self.redacted: dict[str, int] = {}
        """How many secrets were removed from the report, by their sort."""
        self.cut = {
            "failures_omitted": unrecorded.failures,
            "collection_errors_omitted": unrecorded.collection_failures,
            "internal_errors_omitted": unrecorded.errors,
            "tracebacks_omitted": 0,
            "nodeids_omitted": 0,
            "groups_omitted": 0,
            "causes_omitted": 0,
            "texts_truncated": 0,
        }
        """The field `limits`."""
        self._characters_left = MAX_TRACEBACKS

    def fields(self, found: Any, *chosen: str) -> JSONObject:
        """Return fields of a value by their names as JSON, each capped as its name says.

        Args:
            found: the value.
            chosen: names of the fields, in the order of the report; without any, those
                that it shows.
        """
        names = chosen or PUBLISHED.get(type(found)) or found.__slots__
        return {name: self.as_json(getattr(found, name), name) for name in names}

    def as_json(self, found: Any, name: str = "") -> Any:
        """Return what a field of this name holds as JSON."""
        if isinstance(found, str):
            if name in _MESSAGES:
                return self.message(found)
            return self.traceback(found) if name in _TRACEBACKS else str(found)
        if isinstance(found, tuple):
            kept = self.nodeids(found) if name == "nodeids" else found
            return [self.as_json(each, name) for each in kept]
        if isinstance(found, float):
            return _seconds(found)
        if name == "line":  # code objects made by hand can claim any
            return found if found is not None and found >= 1 else None
        return self.fields(found) if hasattr(found, "__slots__") else found

    def listed(self, field: str, entries: tuple[_T, ...]) -> tuple[_T, ...]:
        """Return the entries that a list of the report has room for.

        Args:
            field: name of the list, such as `failures`.
            entries: all of them.
        """
        self.cut[f"{field}_omitted"] += max(0, len(entries) - MAX_FAILURES)
        return entries[:MAX_FAILURES]

    def nodeids(self, nodeids: tuple[str, ...]) -> list[str]:
        """Return the node ids that are listed."""
        self.cut["nodeids_omitted"] += max(0, len(nodeids) - MAX_NODEIDS)
        return list(nodeids[:MAX_NODEIDS])

    def traceback(self, text: str | None, *, cut_before: bool = False) -> str | None:
        """Return a traceback, capped, while there is room for more of them."""
        if text is None:
            return None
        if self._characters_left <= 0:
            self.cut["tracebacks_omitted"] += 1
            return None
        shown = self.message(text, MAX_TRACEBACK, cut_before=cut_before)
        self._characters_left -= len(shown)
        return shown

    def fit(self, report: JSONObject) -> JSONObject:
        """Return the report with every text in it fit for UTF-8 and no longer than allowed.

        This is also the last search for secrets, in node ids and arguments as well.
        """
        unfit: set[str] = set()  # these are looked at one by one, where they stand
        batches: list[list[str]] = [[]]
        length = 0
        for text in _texts_of(report):
            if len(text) > MAX_TRACEBACK or not text.isascii() or REDACTED in text:
                unfit.add(text)
                continue
            if length > _SEARCHED_AT_ONCE:
                batches.append([])
                length = 0
            batches[-1].append(text)
            length += len(text)
        redaction, truncated = self._redaction, self.cut["texts_truncated"]
        fitted = report
        for _ in range(_MOST_PASSES):
            known = None if redaction is None else redaction.known
            self.redacted, self.cut["texts_truncated"] = {}, truncated
            if redaction is not None:
                unfit.update(
                    *(batch for batch in batches if not redaction.holds_none(batch))
                )
            if unfit:
                fitted = change_texts(
                    report, lambda text: self._fitted(text, unfit), CLOSED_FIELDS
                )
            if redaction is None or redaction.known == known:
                break
        return fitted

    def _fitted(self, text: str, unfit: set[str]) -> str:
        if text not in unfit:
            return text
        shown = text if self._redaction is None else self._redaction.redact(text)
        for found in removed_from(shown):
            self.redacted[found] = self.redacted.get(found, 0) + 1
        return self.message(shown, MAX_TRACEBACK)

    def message(
        self, text: str, limit: int = MAX_MESSAGE, *, cut_before: bool = False
    ) -> str:
        """Return a text, capped."""
        if len(text) <= limit and not cut_before and text.isascii():
            return text  # as nearly all are
        text = encodable(text)
        self.cut["texts_truncated"] += cut_before or len(text) > limit
        return cap(text, limit)


def _texts_of(report: JSONObject) -> dict[str, None]:
    """Return the texts in a report, each once; the keys of its objects are ours."""
    texts: list[str] = []
    holders: list[Any] = [report]
    for holder in holders:  # which grows
        for each in holder.values() if type(holder) is dict else holder:
            kind = type(each)
            if kind is str:
                texts.append(each)
            elif kind is dict or kind is list:
                holders.append(each)
    return dict.fromkeys(texts)


def with_nodeids(entries: Iterable[JSONObject], most: int) -> list[JSONObject]:
    """Return entries of a report with the first so many of their node ids."""
    cut = []
    for entry in entries:
        shown = {**entry, "nodeids": entry["nodeids"][:most]}
        if "unnamed" in entry:  # a cause
            shown["tests"], shown["files"] = (
                entry["tests"][:most],
                entry["files"][:most],
            )
            shown["unnamed"] = entry["unnamed"] + len(entry["tests"][most:])
        cut.append(shown)
    return cut


MAX_BENCH_TEXT: Final = 2_000
"""Characters of a text in the report of a task class, such as the detail of a failure mode."""


def fit_benches(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the reports of task classes with texts that are not too long."""
    fitted: list[dict[str, Any]] = change_texts(
        reports, lambda text: cap_between_words(encodable(text), MAX_BENCH_TEXT)
    )
    return fitted


HEAD: Final[Mapping[str, Any]] = {
    "$schema": SCHEMA_ID,
    "schema_version": SCHEMA_VERSION,
    "generator": {"name": "pytest-failure-taxonomy", "version": VERSION},
}
"""The first fields of every report that this version writes."""
MAX_ATTRIBUTIONS: Final = 100
"""How many attributions a report lists."""


def build_report(
    run: ev.RunEvidence,
    judgement: Judgement,
    context: ev.RunContext,
    *,
    completeness: ev.Completeness = "full",
    faults: Sequence[str] = (),
    redaction: Redaction | None = None,
) -> JSONObject:
    """Return the report as a JSON object, its keys in the published order.

    Args:
        run: what was seen.
        judgement: what `judge` made of it.
        context: which run it was.
        completeness: `full` from pytest itself, `reconstructed` after its death, else `running`.
        faults: what went wrong in the recorder itself, in words.
        redaction: removes secrets from every text.
    """
    limits = Limits(redaction, run.unrecorded)
    lost_files = run.unrecorded.collection_failures
    summary = replace(
        run.counts,
        timed_out=sum(failure.timed_out for failure in judgement.failures),
        crashed=sum(failure.crashed for failure in run.failures),
        in_flight=len(run.in_flight),
        not_run=len(run.not_run),
        collection_errors=len(run.collection_failures) + lost_files,
    )
    report: JSONObject = {
        "run": {
            **limits.fields(context, "id", "started_at", "duration_seconds"),
            "stage": str(run.stage),
            "invocation": limits.fields(context, "args", "rootdir"),
            "shard": limits.as_json(context.shard),
        },
        "completeness": completeness,
        "exit": exit_as_json(run, judgement),
        "verdict": verdict_as_json(judgement.verdict, limits),
        "reasons": reasons_as_json(judgement, limits),
        "summary": to_dict(summary),
        "failures": [
            {
                **limits.fields(failure, "nodeid", "phase"),
                **limits.fields(judged, "reason", "kind", "failure_type"),
                **_raised(failure, limits),
                **limits.fields(failure, "duration_seconds", "attempts", "worker"),
                "marker": failure.marker and failure.marker.name,
                **limits.fields(judged, "fingerprint", "rule"),
            }
            for failure, judged in zip(
                limits.listed("failures", run.failures),
                judgement.failures,
                strict=False,
            )
        ],
        "groups": [
            limits.fields(group) for group in limits.listed("groups", judgement.groups)
        ],
        "causes": causes_as_json(judgement, limits),
        "collection_errors": [
            {
                **dict.fromkeys(
                    ("nodeid", "exception", "message", "location", "origin")
                ),
                "failure_type": str(judged.failure_type),
                **_raised(failure, limits),
                **limits.fields(failure, "nodeid", "message"),
            }
            for failure, judged in zip(
                limits.listed("collection_errors", run.collection_failures),
                judgement.collection_failures,
                strict=False,
            )
        ],
        "internal_errors": [
            {"kind": judged.kind, **limits.fields(error, "message", "traceback")}
            for error, judged in zip(
                limits.listed("internal_errors", run.errors),
                judgement.errors,
                strict=False,
            )
        ],
        "in_flight": limits.as_json(run.in_flight),
        "stalls": [_stalled_activity(each, limits) for each in run.stalls],
        "tests": None
        if run.tests is None
        else [
            {
                **to_dict(test),
                "start_seconds": _seconds(test.start_seconds),
                "duration_seconds": _seconds(test.duration_seconds),
            }
            for test in run.tests
        ],
        "not_run": {"count": len(run.not_run), "nodeids": limits.nodeids(run.not_run)},
        "order": None,
        "workers": [
            {
                **limits.fields(worker, "id", "tests"),
                "exit": {"code": worker.exit_code, "signal": worker.signal},
                **limits.fields(worker, "crashed_on", "peak_rss_bytes"),
            }
            for worker in run.workers
        ],
        "bench": [],
        "environment": limits.as_json(context.environment),
        "limits": None,
        **_other_fields(run, judgement, context, faults, limits),
        "extensions": {},
    }
    if run.mismatch is not None:
        from pytest_failure_taxonomy.taxonomy import mismatch

        error = {
            "kind": "collection.mismatch",
            "message": limits.message(mismatch.headline_of_mismatch(run.mismatch)),
            "traceback": limits.traceback(mismatch.text_of_mismatch(run.mismatch)),
        }
        report["internal_errors"].append(error)
    report = limits.fit(report)
    report["redacted"] = limits.redacted
    if run.order is not None and (judgement.causes or run.failures):
        # After the search for secrets, which may stand among the numbers by chance.
        report["order"] = to_dict(run.order)
    return {**HEAD, **report, "limits": limits.cut}


def exit_as_json(run: ev.RunEvidence, judgement: Judgement) -> JSONObject:
    """Return the field `exit`."""
    code = run.exit.code
    return {
        "code": code,
        "name": None if code is None else PYTEST_EXIT_CODES.get(code, (None,))[0],
        "signal": run.exit.signal,
        "reason": None if judgement.exit_reason is None else str(judgement.exit_reason),
        "observed": run.exit.observed,
        "source": run.exit.source,
    }


def verdict_as_json(verdict: Verdict | None, limits: Limits) -> JSONObject | None:
    """Return the field `verdict`."""
    if verdict is None:
        return None
    return limits.fields(verdict)


def reasons_as_json(judgement: Judgement, limits: Limits) -> list[JSONObject]:
    """Return the field `reasons`."""
    names = ("reason", "kind", "count", "nodeids")
    return [limits.fields(held, *names) for held in judgement.reasons]


def causes_as_json(
    judgement: Judgement, limits: Limits, before: Iterable[JSONObject] = ()
) -> list[JSONObject]:
    """Return the field `causes`; what a history and experiments say of them is added later.

    Args:
        judgement: has the causes.
        limits: cut them.
        before: causes of which a history and experiments have said something already.
    """
    known: dict[str, JSONObject] = {}
    for told in before:
        kept = known.setdefault(told["key"], dict(told))
        kept |= {name: kept[name] or told[name] for name in ("history", "proof")}
    causes = []
    for cause in limits.listed("causes", judgement.causes):
        fields = {**known.get(cause.key, NO_CAUSE), **limits.fields(cause, *_OF_CAUSE)}
        causes += with_nodeids([fields], MAX_NODEIDS)
    if known:  # else they are in order
        sort_causes(causes)
    return causes


def cause_of_group(group: JSONObject) -> JSONObject:
    """Return a group of failures as a cause, where nothing else is known of causes."""
    fingerprint = group["fingerprint"]
    named = {"key": fingerprint, "what": group["title"], "fingerprints": [fingerprint]}
    return {
        **NO_CAUSE,
        **{name: group[name] for name in NO_CAUSE if name in group},
        **named,
    }


_OF_CAUSE: Final = (
    *("key", "what", "fix", "reason", "kind", "owner", "retryable", "charge_to"),
    *("failure_type", "count", "nodeids", "tests", "files", "unnamed", "fingerprints"),
)
NO_CAUSE: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*_OF_CAUSE, "history", "proof")),
    "failure_type": "UNKNOWN",
    "tests": [],
    "files": [],
    "unnamed": 0,
}
"""A cause of which nothing is known."""

NO_PROOF: Final[JSONObject] = {
    "type": None,
    "status": "undecided",
    "nodeids": [],
    "state": None,
    "runs": 0,
    "failed": 0,
    "without": None,
    "interval": None,
    "command": None,
    "suspicions": [],
    "commit": None,
    "known_since": None,
}
"""A proof of a cause, of which everything but the type is missing."""


def sort_causes(causes: list[JSONObject]) -> None:
    """Put causes in the order of the report, by what the history says of them, too."""
    if not causes:
        return
    from pytest_failure_taxonomy.taxonomy.causes import place_of_cause

    causes.sort(
        key=lambda cause: place_of_cause(
            cause["kind"], (cause["history"] or {}).get("state"), cause["count"]
        )
    )


def _stalled_activity(stalled: ev.SeenStall, limits: Limits) -> JSONObject:
    where = words_of_stalled_activity(stalled) or None
    stall = limits.fields(stalled.stall, "state", "seconds", "where", "stack")
    return {"what": stalled.what, **stall, "where": where, "worker": stalled.worker}


def _raised(
    failure: ev.TestFailure | ev.CollectionFailure, limits: Limits
) -> JSONObject:
    """Return what was raised, where, and by whose code."""
    raised = failure.exception
    return {
        "exception": limits.as_json(raised),
        "location": limits.as_json(failure.location),
        "origin": raised and limits.as_json(raised.frame),
        "traceback": limits.traceback(
            failure.traceback, cut_before=failure.traceback_truncated
        ),
    }


def _other_fields(
    run: ev.RunEvidence,
    judgement: Judgement,
    context: ev.RunContext,
    faults: Sequence[str],
    limits: Limits,
) -> JSONObject:
    """Return the fields that say nothing of an ordinary run."""
    said = (failure.attributed for failure in run.failures)
    counts = Counter(attributed for attributed in said if attributed is not None)
    attributions = [
        replace(attributed, count=count)
        for attributed, count in counts.most_common(MAX_ATTRIBUTIONS)
    ]
    session_code = run.exit.session_code if run.exit.code == 0 else None
    is_ordinary = context.surroundings == ev.Surroundings()
    own = {
        "notes": judgement.notes,
        "faults": (*faults, *judgement.faults),
        "attributions": tuple(attributions),
        "repository": context.repository,
        "attempt": context.attempt,
        "known": None,
        "trial": None,
        "merged": None,
        "surroundings": None if is_ordinary else context.surroundings,
        "session_exit_code": session_code or None,
    }
    fields = {name: limits.as_json(content) for name, content in own.items()}
    return {**fields, "redacted": {}, "is_unannotated": False}


def _seconds(value: float | None) -> float | None:
    """Round to microseconds; a patched clock can't make it negative, infinite or NaN."""
    if value is None or not isfinite(value):
        return None
    return round(max(0.0, value), 6)


def with_stalls_at_end(
    report: dict[str, Any], stalls: tuple[ev.SeenStall, ...]
) -> dict[str, Any]:
    """Return a report with what was stalled after the session had ended; unchanged without any."""
    rows = [_stalled_activity(each, Limits()) for each in stalls]
    before = [row for row in report.get("stalls", ()) if row["what"] != "shutdown"]
    return {**report, "stalls": [*before, *rows]} if rows else report
