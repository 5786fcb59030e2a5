"""Build a report from evidence and judgement, and fit its texts to their caps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.report import model
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.judgement import (
    PYTEST_EXIT_CODES,
    Cause,
    FailureJudgement,
    Group,
    HeldReason,
    Judgement,
    Proof,
    Stage,
)
from pytest_failure_taxonomy.taxonomy.values import replace
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

_T = TypeVar("_T")
_Place = TypeVar("_Place", ev.Location | None, ev.RaisingFrame | None)
_Named = TypeVar("_Named", HeldReason, Group, Cause, model.NotRun)

OWN_NAME: Final = "pytest_failure_taxonomy"
"""Our own key where other formats have room for extensions."""


def baseline_commit(report: FailureReport) -> str | None:
    """Return the commit at which an attempt's baseline was valid, so that its code did load.

    An attempt is a report that was merged from its stages.
    """
    for run in report.merged.runs if report.merged else ():
        is_valid = run.run.stage is Stage.BASELINE_RUN and run.verdict is None
        if is_valid and run.commit is not None:
            return run.commit
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
_WHOLE: Final = frozenset({"tests", "files", "fingerprints", "ambiguous"})
"""Names of fields that hold names, of which each is short."""
_NUMBERS: Final = frozenset({bool, float, int, NoneType})


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
        self._cut = dict.fromkeys(CODEC.keys_of(model.Limits), 0)
        self._cut["failures_omitted"] = unrecorded.failures
        self._cut["collection_errors_omitted"] = unrecorded.collection_failures
        self._cut["internal_errors_omitted"] = unrecorded.errors
        self._characters_left = MAX_TRACEBACKS

    @property
    def cut(self) -> model.Limits:
        """What was cut so far."""
        return model.Limits(**self._cut)

    def count_cut(self, name: str, entries: Sequence[object], listed: int) -> None:
        """Count the entries beyond those that are listed.

        Args:
            name: such as `failures`.
            entries: all of them.
            listed: how many of them there is room for.
        """
        self._cut[f"{name}_omitted"] += max(0, len(entries) - listed)

    def cap_value(self, content: _T, name: str = "") -> _T:
        """Return what a field of this name holds, each of its parts capped as it is named.

        Of a value it has what a report shows; the rest is as by default.
        """
        part: Any = content
        if isinstance(part, str):
            if name in _MESSAGES:
                part = self.message(part)
            elif name in _TRACEBACKS:
                part = self.traceback(part)
        elif isinstance(part, tuple):
            if name == "nodeids":
                part = self.nodeids(part)
            elif name not in _WHOLE:
                part = tuple([self.cap_value(entry, name) for entry in part])
        elif isinstance(part, float):
            part = _round_seconds(part)
        elif isinstance(part, ev.Location):
            part = _with_valid_line(part)
        elif hasattr(part, "__slots__"):
            names = CODEC.keys_of(type(part))
            fields = {key: self.cap_value(getattr(part, key), key) for key in names}
            part = type(part)(**fields)
        capped: _T = part
        return capped

    def listed(self, name: str, entries: tuple[_T, ...]) -> tuple[_T, ...]:
        """Return the entries that a list of the report has room for.

        Args:
            name: of the list, such as `failures`.
            entries: all of them.
        """
        self.count_cut(name, entries, MAX_FAILURES)
        return entries[:MAX_FAILURES]

    def exception(self, raised: ev.RaisedException | None) -> ev.RaisedException | None:
        """Return what a report shows of an exception."""
        if raised is None:
            return None
        return ev.RaisedException(
            type=raised.type, module=raised.module, message=self.message(raised.message)
        )

    def nodeids(self, nodeids: tuple[str, ...]) -> tuple[str, ...]:
        """Return the node ids that are listed."""
        self.count_cut("nodeids", nodeids, MAX_NODEIDS)
        return nodeids[:MAX_NODEIDS]

    def traceback(self, text: str | None, *, cut_before: bool = False) -> str | None:
        """Return a traceback, capped, while there is room for more of them."""
        if text is None:
            return None
        if self._characters_left <= 0:
            self._cut["tracebacks_omitted"] += 1
            return None
        shown = self.message(text, MAX_TRACEBACK, cut_before=cut_before)
        self._characters_left -= len(shown)
        return shown

    def fit(self, report: FailureReport) -> FailureReport:
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
        redaction, truncated = self._redaction, self._cut["texts_truncated"]
        fitted = report
        for _ in range(_MOST_PASSES):
            known = None if redaction is None else redaction.known
            self.redacted, self._cut["texts_truncated"] = {}, truncated
            if redaction is not None:
                for batch in batches:
                    if not redaction.holds_none(batch):
                        unfit.update(batch)
            if unfit:
                fitted = change_texts(
                    report, lambda text: self._fit_text(text, unfit), CLOSED_FIELDS
                )
            if redaction is None or redaction.known == known:
                break
        return fitted

    def _fit_text(self, text: str, unfit: set[str]) -> str:
        if text not in unfit:
            return text
        shown = text if self._redaction is None else self._redaction.redact(text)
        for sort in removed_from(shown):
            self.redacted[sort] = self.redacted.get(sort, 0) + 1
        return self.message(shown, MAX_TRACEBACK)

    def message(
        self, text: str, limit: int = MAX_MESSAGE, *, cut_before: bool = False
    ) -> str:
        """Return a text, capped."""
        if len(text) <= limit and not cut_before and text.isascii():
            return text  # as nearly all are
        text = encodable(text)
        self._cut["texts_truncated"] += cut_before or len(text) > limit
        return cap(text, limit)


def _with_valid_line(place: _Place) -> _Place:
    """Return a place, without the line if there is no such one.

    Code objects that were made by hand can claim any.
    """
    if place is None or place.line is None or place.line >= 1:
        return place
    return replace(place, line=None)


def _texts_of(report: FailureReport) -> dict[str, None]:
    """Return the texts in a report, each once; the keys of its objects are ours."""
    texts: list[str] = []
    holders: list[Any] = [report]
    for holder in holders:  # which grows
        is_list = type(holder) is tuple or type(holder) is list
        entries = holder if is_list else CODEC.fields_of(holder).values()
        for entry in entries:
            kind = type(entry)
            if kind is str:
                texts.append(entry)
            elif kind not in _NUMBERS:
                (texts if isinstance(entry, str) else holders).append(entry)
    return dict.fromkeys(texts)


def cut_nodeids(entry: _Named, most: int | None) -> _Named:
    """Return an entry of a report with the first so many of its node ids."""
    nodeids = entry.nodeids[:most]
    if not isinstance(entry, Cause):
        return replace(entry, nodeids=nodeids)
    tests = entry.tests[:most]
    return replace(
        entry,
        nodeids=nodeids,
        tests=tests,
        files=entry.files[:most],
        unnamed=entry.unnamed + len(entry.tests) - len(tests),
    )


MAX_BENCH_TEXT: Final = 2_000
"""Characters of a text in the report of a task class, such as the detail of a failure mode."""


def fit_benches(reports: Sequence[Mapping[str, object]]) -> model.Section:
    """Return the reports of task classes with texts that are not too long."""
    fitted = change_texts(
        reports, lambda text: cap_between_words(encodable(text), MAX_BENCH_TEXT)
    )
    return tuple(fitted)


GENERATOR: Final = model.Generator(name="pytest-failure-taxonomy", version=VERSION)
"""The program that writes reports."""
MAX_CHANGES: Final = 1_000
"""How many changes a report lists."""
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
) -> FailureReport:
    """Return the report of a run.

    Args:
        run: what was seen.
        judgement: what `judge` made of it.
        context: which run it was.
        completeness: `full` from pytest itself, `reconstructed` after its death, else `running`.
        faults: what went wrong in the recorder itself, in words.
        redaction: removes secrets from every text.
    """
    limits = Limits(redaction, run.unrecorded)
    is_ordinary = context.surroundings == ev.Surroundings()
    session_code = run.exit.session_code if run.exit.code == 0 else None
    # Room for tracebacks is given in this order.
    report = FailureReport(
        schema_id=model.SCHEMA_ID,
        schema_version=model.SCHEMA_VERSION,
        generator=GENERATOR,
        run=model.Run(
            id=context.id,
            started_at=context.started_at,
            duration_seconds=_round_seconds(context.duration_seconds),
            stage=run.stage,
            invocation=model.Invocation(args=context.args, rootdir=context.rootdir),
            shard=context.shard,
        ),
        completeness=completeness,
        exit=exit_of(run, judgement),
        verdict=limits.cap_value(judgement.verdict),
        reasons=limits.cap_value(judgement.reasons),
        summary=_count_tests(run, judgement),
        failures=_list_failures(run, judgement, limits),
        groups=limits.cap_value(limits.listed("groups", judgement.groups)),
        causes=list_causes(judgement, limits),
        collection_errors=_list_collection_errors(run, judgement, limits),
        internal_errors=_list_internal_errors(run, judgement, limits),
        in_flight=limits.cap_value(run.in_flight),
        stalls=tuple([_stalled_activity(stall, limits) for stall in run.stalls]),
        tests=_list_tests(run),
        not_run=model.NotRun(
            count=len(run.not_run), nodeids=limits.nodeids(run.not_run)
        ),
        workers=tuple(map(_worker, run.workers)),
        bench=(),
        environment=context.environment,
        limits=limits.cut,
        notes=judgement.notes,
        faults=(*faults, *judgement.faults),
        attributions=limits.cap_value(_count_attributions(run)),
        repository=context.repository,
        attempt=context.attempt,
        changes=limits.cap_value(run.changes[:MAX_CHANGES]),
        surroundings=None if is_ordinary else context.surroundings,
        session_exit_code=session_code or None,
        integrity=limits.cap_value(run.integrity),
        entered=run.entered,
        extensions={},
    )
    order = None
    if run.order is not None and (judgement.causes or run.failures):
        order = run.order
    fitted = limits.fit(report)
    return replace(
        fitted,
        # Whatever a pattern of the user's finds in it.
        generator=GENERATOR,
        # After the search for secrets, which may stand among the numbers by chance.
        order=order,
        limits=limits.cut,
        redacted=limits.redacted,
    )


def exit_of(run: ev.RunEvidence, judgement: Judgement) -> model.Exit:
    """Return how the process ended, and what its exit code alone says."""
    code = run.exit.code
    name = None
    if code is not None and (run.recorded or run.is_pytest):
        name = PYTEST_EXIT_CODES.get(code, (None,))[0]
    return model.Exit(
        code=code,
        name=name,
        signal=run.exit.signal,
        reason=judgement.exit_reason,
        observed=run.exit.observed,
        source=run.exit.source,
    )


def list_causes(judgement: Judgement, limits: Limits) -> tuple[Cause, ...]:
    """Return the causes that a report lists."""
    causes = limits.cap_value(limits.listed("causes", judgement.causes))
    return tuple([cut_nodeids(cause, MAX_NODEIDS) for cause in causes])


def _count_tests(run: ev.RunEvidence, judgement: Judgement) -> ev.Counts:
    lost_files = run.unrecorded.collection_failures
    return replace(
        run.counts,
        timed_out=sum(failure.timed_out for failure in judgement.failures),
        crashed=sum(failure.crashed for failure in run.failures),
        in_flight=len(run.in_flight),
        not_run=len(run.not_run),
        collection_errors=len(run.collection_failures) + lost_files,
    )


def _list_failures(
    run: ev.RunEvidence, judgement: Judgement, limits: Limits
) -> tuple[model.Failure, ...]:
    listed = []
    failures = limits.listed("failures", run.failures)
    for failure, judged in zip(failures, judgement.failures, strict=False):
        raised = failure.exception
        entry = model.Failure(
            nodeid=failure.nodeid,
            phase=failure.phase,
            reason=judged.reason,
            kind=judged.kind,
            failure_type=judged.failure_type,
            exception=limits.exception(raised),
            location=_with_valid_line(failure.location),
            origin=None if raised is None else _with_valid_line(raised.frame),
            traceback=limits.traceback(
                failure.traceback, cut_before=failure.traceback_truncated
            ),
            duration_seconds=_round_seconds(failure.duration_seconds),
            attempts=failure.attempts,
            worker=failure.worker,
            marker=None if failure.marker is None else failure.marker.name,
            fingerprint=judged.fingerprint,
            rule=judged.rule,
        )
        listed.append(entry)
    return tuple(listed)


def _list_collection_errors(
    run: ev.RunEvidence, judgement: Judgement, limits: Limits
) -> tuple[model.CollectionError, ...]:
    listed = []
    failures = limits.listed("collection_errors", run.collection_failures)
    judged: FailureJudgement
    for failure, judged in zip(failures, judgement.collection_failures, strict=False):
        raised = failure.exception
        entry = model.CollectionError(
            nodeid=failure.nodeid,
            exception=limits.exception(raised),
            message=limits.message(failure.message),
            location=_with_valid_line(failure.location),
            origin=None if raised is None else _with_valid_line(raised.frame),
            failure_type=judged.failure_type,
            traceback=limits.traceback(
                failure.traceback, cut_before=failure.traceback_truncated
            ),
        )
        listed.append(entry)
    return tuple(listed)


def _list_internal_errors(
    run: ev.RunEvidence, judgement: Judgement, limits: Limits
) -> tuple[model.InternalError, ...]:
    errors = limits.listed("internal_errors", run.errors)
    texts = []
    for error, judged in zip(errors, judgement.errors, strict=False):
        texts.append((judged.kind, error.message, error.traceback))
    if run.mismatch is not None:
        from pytest_failure_taxonomy.taxonomy import mismatch

        headline = mismatch.headline_of_mismatch(run.mismatch)
        text = mismatch.text_of_mismatch(run.mismatch)
        texts.append(("collection.mismatch", headline, text))
    listed = []
    for kind, message, traceback in texts:
        entry = model.InternalError(
            kind=kind,
            message=limits.message(message),
            traceback=limits.traceback(traceback),
        )
        listed.append(entry)
    return tuple(listed)


def _list_tests(run: ev.RunEvidence) -> tuple[ev.TestRun, ...] | None:
    if run.tests is None:
        return None
    listed = []
    for test in run.tests:
        rounded = replace(
            test,
            start_seconds=_round_seconds(test.start_seconds),
            duration_seconds=_round_seconds(test.duration_seconds),
        )
        listed.append(rounded)
    return tuple(listed)


def _worker(worker: ev.WorkerEnd) -> model.Worker:
    return model.Worker(
        id=worker.id,
        tests=worker.tests,
        exit=model.WorkerExit(code=worker.exit_code, signal=worker.signal),
        crashed_on=worker.crashed_on,
        peak_rss_bytes=worker.peak_rss_bytes,
    )


def _stalled_activity(stalled: ev.SeenStall, limits: Limits) -> model.StalledActivity:
    if stalled.what == "test":
        raise ValueError("a test that is stalled stands among those in flight")
    return model.StalledActivity(
        what=stalled.what,
        state=stalled.stall.state,
        seconds=_round_seconds(stalled.stall.seconds) or 0.0,
        where=words_of_stalled_activity(stalled) or None,
        stack=limits.traceback(stalled.stall.stack),
        worker=stalled.worker,
    )


def _count_attributions(run: ev.RunEvidence) -> tuple[ev.Attribution, ...]:
    """Return the attributions of failures, each once with its count."""
    counts = Counter(
        failure.attributed for failure in run.failures if failure.attributed is not None
    )
    attributions = [
        replace(attribution, count=count)
        for attribution, count in counts.most_common(MAX_ATTRIBUTIONS)
    ]
    return tuple(attributions)


def _round_seconds(seconds: float | None) -> float | None:
    """Round to microseconds; a patched clock can't make it negative, infinite or NaN."""
    if seconds is None or not isfinite(seconds):
        return None
    return round(max(0.0, seconds), 6)


NO_PROOF: Final[Mapping[str, object]] = {
    **dict.fromkeys(CODEC.keys_of(Proof)),
    "status": "undecided",
    "nodeids": [],
    "runs": 0,
    "failed": 0,
    "suspicions": [],
}
"""A proof of a cause, of which everything but the type is missing."""


def with_stalls_at_end(
    report: FailureReport, stalls: Sequence[ev.SeenStall]
) -> FailureReport:
    """Return a report with what was stalled after the session had ended; unchanged without any."""
    if not stalls:
        return report
    limits = Limits()
    before = [stall for stall in report.stalls if stall.what != "shutdown"]
    at_end = [_stalled_activity(stall, limits) for stall in stalls]
    return replace(report, stalls=(*before, *at_end))


def cause_of_group(group: Group) -> Cause:
    """Return a group of failures as a cause, where nothing else is known of causes."""
    return Cause(
        key=group.fingerprint,
        what=group.title,
        fix=None,
        reason=group.reason,
        kind=group.kind,
        owner=group.owner,
        retryable=None,
        count=group.count,
        nodeids=group.nodeids,
        fingerprints=(group.fingerprint,),
        history=group.history,
    )
