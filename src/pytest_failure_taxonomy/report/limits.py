"""The caps of the report: how much of anything it holds, and what of it a full disk leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from pytest_failure_taxonomy.report.text import (
    cap,
    cap_between_words,
    change_texts,
    encodable,
    is_closed,
)
from pytest_failure_taxonomy.taxonomy.evidence import MAX_LISTED, Unrecorded

JSONObject = dict[str, Any]
_T = TypeVar("_T")

OWN_NAME: Final = "pytest_failure_taxonomy"
"""Our own key among the `extensions`."""


def own_extension(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what our own extension holds; in a report of anybody's it may be of any type."""
    return object_at(report["extensions"], OWN_NAME)


def object_at(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of an object of anybody's; an empty one where there is none."""
    found = holder.get(name)
    return found if isinstance(found, dict) else {}


def objects_at(holder: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a list of an object of anybody's."""
    found = holder.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def texts_at(holder: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts in a list of an object of anybody's."""
    found = holder.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


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
MAX_FAILURES: Final = MAX_LISTED
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


class Redaction(Protocol):
    """Removes secrets from texts."""

    @property
    def known(self) -> int:
        """How many values it knows; texts are searched again when it has learnt more."""

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether it is sure that none of the texts holds a secret."""


def removed_from(text: str) -> list[str]:
    """Return the sorts of secrets that were removed from a text, as its marks name them."""
    return _MARK.findall(text) if REDACTED in text else []


class Limits:
    """Apply the caps of the report and count what they cut."""

    def __init__(
        self, redaction: Redaction | None = None, unrecorded: Unrecorded | None = None
    ) -> None:
        unrecorded = unrecorded or Unrecorded()
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

    def message(self, text: str) -> str:
        """Return a message, capped."""
        return self._capped(text, MAX_MESSAGE)

    def traceback(self, text: str | None, *, cut_before: bool = False) -> str | None:
        """Return a traceback, capped, while there is room for more of them."""
        if text is None:
            return None
        if self._characters_left <= 0:
            self.cut["tracebacks_omitted"] += 1
            return None
        shown = self._capped(text, MAX_TRACEBACK, cut_before=cut_before)
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
        if redaction is None:
            return self._fitted(report, unfit) if unfit else report
        fitted = report
        for _ in range(_MOST_PASSES):
            known = redaction.known
            self.redacted, self.cut["texts_truncated"] = {}, truncated
            suspects = (batch for batch in batches if not redaction.holds_none(batch))
            if looked_at := unfit.union(*suspects):
                fitted = self._fitted(report, looked_at)
            if redaction.known == known:
                break
        return fitted

    def _fitted(self, value: Any, unfit: set[str]) -> Any:
        kind = type(value)
        if kind is str:
            if value not in unfit:
                return value
            shown = value if self._redaction is None else self._redaction.redact(value)
            for found in removed_from(shown):
                self.redacted[found] = self.redacted.get(found, 0) + 1
            if len(shown) > MAX_TRACEBACK or not shown.isascii():
                shown = self._capped(shown, MAX_TRACEBACK)
            return shown
        if kind is dict:
            return {
                name: each if is_closed(name, each) else self._fitted(each, unfit)
                for name, each in value.items()
            }
        if kind is list:
            return [self._fitted(each, unfit) for each in value]
        return value

    def _capped(self, text: str, limit: int, *, cut_before: bool = False) -> str:
        if len(text) <= limit and not cut_before and text.isascii():
            return text  # as nearly all are
        text = encodable(text)
        self.cut["texts_truncated"] += cut_before or len(text) > limit
        return cap(text, limit)


def _texts_of(report: JSONObject) -> dict[str, None]:
    """Return the texts in a report, each once; the keys of its objects are ours."""
    texts: dict[str, None] = {}
    holders: list[Any] = [report]
    for holder in holders:  # which grows
        for each in holder.values() if type(holder) is dict else holder:
            kind = type(each)
            if kind is str:
                texts[each] = None
            elif kind is dict or kind is list:
                holders.append(each)
    return texts


CUT: Final = "there was no room on the disk for the whole report"
"""Start of the fault that says what is missing and why."""

_KEPT: Final = (500, 200, 100, 50, 20, 10, 5, 2, 1, 0)
"""How many entries of each list are kept, tried one after the other."""

_LISTS: Final = ("failures", "collection_errors", "internal_errors", "groups", "causes")
"""Lists of a report of which `limits` counts what they lack, as in `failures_omitted`."""


def cut_to_fit(
    report: JSONObject, size: int, size_of: Callable[[JSONObject], int]
) -> JSONObject | None:
    """Return as much of a report as fits into a number of bytes; `None` where none does.

    What other plugins have added goes first, then the later tracebacks, then the later entries of
    all lists.

    Args:
        report: a whole one; it is left as it is.
        size: bytes.
        size_of: how many bytes a report takes.
    """
    # Left out first is what has no cap: other plugins' extensions and the cases of a bench.
    extensions = report["extensions"]
    own = own_extension(report)
    left_out = [*sorted(extensions.keys() - {OWN_NAME}), *(["bench"] if report["bench"] else [])]
    fault = f"{CUT}; it lacks {', '.join(left_out)}" if left_out else CUT
    own = {**own, "faults": [*own.get("faults", ()), fault]}
    report = {**report, "bench": [], "extensions": {OWN_NAME: own}}
    for tracebacks, entries in (
        *((kept, None) for kept in (None, *_KEPT)),
        *((0, kept) for kept in _KEPT),
    ):
        part = _with_fewer(report, tracebacks, entries)
        if size_of(part) <= size:
            return part
    return None


def is_cut(report: JSONObject) -> bool:
    """Tell whether a report is one that was cut to fit."""
    return any(fault.startswith(CUT) for fault in own_extension(report).get("faults", ()))


def _with_fewer(report: JSONObject, tracebacks: int | None, entries: int | None) -> JSONObject:
    """Return a report with so many tracebacks and entries in each list; `None` for all."""
    limits = dict(report["limits"])
    part = dict(report)
    for name in _LISTS:
        kept = report[name][:entries]
        limits[f"{name}_omitted"] += len(report[name]) - len(kept)
        if tracebacks is not None:
            later = kept[tracebacks:]
            limits["tracebacks_omitted"] += sum(each.get("traceback") is not None for each in later)
            kept = kept[:tracebacks] + [
                {**each, "traceback": None} if "traceback" in each else each for each in later
            ]
        part[name] = kept
    if entries is not None:
        nodeids = [report["not_run"], *report["reasons"], *part["groups"], *part["causes"]]
        limits["nodeids_omitted"] += sum(len(each["nodeids"][entries:]) for each in nodeids)
        part["not_run"] = _with_fewer_nodeids(report["not_run"], entries)
        for name in ("reasons", "groups", "causes"):
            part[name] = [_with_fewer_nodeids(each, entries) for each in part[name]]
    return {**part, "limits": limits}


def _with_fewer_nodeids(entry: JSONObject, kept: int) -> JSONObject:
    return {**entry, "nodeids": entry["nodeids"][:kept]}


MAX_BENCH_TEXT: Final = 2_000
"""Characters of a text in the report of a task class, such as the detail of a failure mode."""


def fit_benches(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the reports of task classes with texts that are not too long."""
    fitted: list[dict[str, Any]] = change_texts(
        reports, lambda text: cap_between_words(encodable(text), MAX_BENCH_TEXT)
    )
    return fitted
