"""Read our own closing section in a log: the live run knows more than any log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import OutputLine
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureReason,
    FailureType,
    Judgement,
    recovery_of_failure,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value

_HEADLINE: Final = re.compile(
    r"(?P<words>\S.*?) +\[(?P<reason>[A-Z_]{3,40}) (?P<kind>[a-z_]+(?:\.[a-z_]+)+)"
    r"(?P<likely>, likely)?\]$"
)
_CAUSE: Final = re.compile(r" +(?P<count>[\d,]+) x (?P<what>\S.*)$")
_FIX: Final = "fix: "
_REPORT: Final = re.compile(r"report: \S.*\.json(?: .*)?$")
_HELPS: Final = "a retry may help"
_HELPS_NOT: Final = re.compile(r"a retry (?:won't help|can't fix)")
_MAX_LINES: Final = 12
"""Lines of the section, from its headline to the path of the report."""
_REASONS: Final = frozenset(reason.value for reason in FailureReason)


@value
class ClosingSection:
    """The live run's own summary, at its end."""

    line: OutputLine
    """The headline's."""
    headline: str
    reason: FailureReason
    kind: str
    is_likely: bool
    retryable: bool | None
    fix: str | None
    """Of the only cause; `None` where there are several."""
    causes: tuple[str, ...]
    """The sentences of the first causes, if there are several."""


class ClosingReader:
    """Find the last closing section of a log."""

    def __init__(self) -> None:
        self.wants_all = False
        self.section: ClosingSection | None = None
        self._head: tuple[OutputLine, re.Match[str]] | None = None
        self._lines: list[str] = []

    def feed(self, line: OutputLine) -> None:
        """Read the next line."""
        text = line.text.rstrip()
        head = _HEADLINE.match(text) if text.endswith("]") else None
        if head is not None and head["reason"] in _REASONS:
            self._head = line, head
            self._lines = []
        elif self._head is not None and _REPORT.match(text):
            self.section = _read_section(*self._head, self._lines)
            self._head = None
        elif self._head is not None:
            # A headline that no report follows is of something else.
            self._lines.append(text)
            if len(self._lines) > _MAX_LINES:
                self._head = None
        self.wants_all = self._head is not None


def _read_section(
    line: OutputLine, head: re.Match[str], lines: Sequence[str]
) -> ClosingSection:
    causes = []
    fix = None
    retryable = None
    for text in lines:
        if cause := _CAUSE.match(text):
            causes.append(cause["what"])
        elif text.startswith(_FIX):
            fix = text.removeprefix(_FIX)
        elif _HELPS_NOT.search(text):
            retryable = False
        elif _HELPS in text:
            retryable = True
    return ClosingSection(
        line=line,
        headline=head["words"],
        reason=FailureReason(head["reason"]),
        kind=head["kind"],
        is_likely=head["likely"] is not None,
        retryable=retryable,
        fix=None if causes else fix,
        causes=tuple(causes),
    )


def apply_section(judgement: Judgement, section: ClosingSection) -> Judgement:
    """Return the judgement of a log, corrected by what the live run itself said."""
    verdict = judgement.verdict
    if verdict is None:
        return judgement
    is_same_kind = verdict.kind == section.kind
    failure_type = verdict.failure_type if is_same_kind else FailureType.UNKNOWN
    causes = judgement.causes
    if len(causes) == 1 and not section.causes:
        cause = replace(
            causes[0],
            what=section.headline.partition(" failed: ")[2] or section.headline,
            fix=section.fix or causes[0].fix,
            reason=section.reason,
            kind=section.kind,
            retryable=section.retryable,
        )
        causes = (cause,)
    elif len(causes) == len(section.causes):
        pairs = zip(causes, section.causes, strict=True)
        causes = tuple(replace(cause, what=what) for cause, what in pairs)
    verdict = replace(
        verdict,
        reason=section.reason,
        kind=section.kind,
        confidence="likely" if section.is_likely else "certain",
        failure_type=failure_type,
        retryable=section.retryable,
        recovery_action=recovery_of_failure(
            failure_type or FailureType.UNKNOWN, section.retryable, kind=section.kind
        ),
        message=section.headline,
    )
    lines = (section.line, *judgement.lines)
    return replace(judgement, verdict=verdict, causes=causes, lines=lines)
