"""What the user's own code says is the reason of a failure.

A test says it by the fixture `failure_taxonomy`, a plugin or conftest file by the hook
`pytest_failure_taxonomy_classify`, and an agent by a failure marker that it prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.taxonomy import judgement
from pytest_failure_taxonomy.taxonomy.evidence import Attribution, SeenMarker

_SAID: Final = pytest.StashKey[Attribution]()

_HOOK: Final = "the hook pytest_failure_taxonomy_classify"


class FailureTaxonomy:
    """The value of the fixture `failure_taxonomy`."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def __repr__(self) -> str:
        """Return a short text: pytest shows it with each failure of the test."""
        return "<failure_taxonomy>"

    def record(
        self, reason: judgement.FailureReason | str, kind: str, detail: str = ""
    ) -> None:
        """Record why this test fails, if it does fail.

        The last call counts. It does not change a test that passes.

        Args:
            reason: one of the 15.
            kind: refines the reason: lower-case words joined by dots, such as
                `sandbox.browser`.
            detail: anything else to say about it.

        Raises:
            ValueError: if there is no such reason, if `kind` has another form, or if it
                refines another reason.
        """
        self._node.stash[_SAID] = attribution(
            reason, kind, source="test", detail=detail or None
        )


def attribution(
    reason: object, kind: object, *, source: str, detail: str | None = None
) -> Attribution:
    """Return a checked attribution.

    Raises:
        ValueError: if there is no such reason, if `kind` has another form, or if it
            refines another reason.
    """
    from pytest_failure_taxonomy.taxonomy.user_rules import reasons_of_kind

    try:
        failure_reason = judgement.FailureReason(str(reason))
    except ValueError:
        names = ", ".join(member.value for member in judgement.FailureReason)
        raise ValueError(
            f"{reason!r} is no failure reason; give one of {names}"
        ) from None
    if not isinstance(kind, str) or not re.fullmatch(judgement.KIND_PATTERN, kind):
        raise ValueError(
            f"{kind!r} is no kind; give lower-case words with dots between them, as in "
            "sandbox.browser"
        )
    right = reasons_of_kind(kind)
    if right and failure_reason not in right:
        names = " or ".join(right)
        raise ValueError(
            f"the kind {kind} refines {names}, not {failure_reason}; give that reason"
        )
    return Attribution(
        reason=failure_reason,
        kind=kind,
        source=source,
        detail=detail,
    )


def ask_user(
    hook: Any, faults: Faults, node: pytest.Item, error: BaseException, phase: str
) -> Attribution | None:
    """Return what the test itself recorded, or else what the hook returns.

    Args:
        hook: of the run; that of a test's folder is called only where there are
            implementations.
        faults: takes what they raise.
        node: the test, in the process that ran it.
        error: why it failed.
        phase: of the test.
    """
    recorded = None
    if _SAID in node.stash:  # `get()` is slow
        recorded = node.stash[_SAID]
    if recorded is not None or not hook.get_hookimpls():
        return recorded
    try:
        answer = node.ihook.pytest_failure_taxonomy_classify(
            exception=error,
            nodeid=node.nodeid,
            phase=phase,
        )
        if answer is None:
            return None
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(  # told as any other fault of the hook
                f"{answer!r} returned; a pair of reason and kind, or None, is right"
            )
        return attribution(*answer, source="hook")
    except BaseException as failure:  # noqa: BLE001 - foreign
        faults.add_foreign(_HOOK, failure)
        return None


def marker_in_output_of(
    report: pytest.TestReport, more: Mapping[str, judgement.FailureReason]
) -> SeenMarker | None:
    """Return the last marker in the captured output of a test.

    Args:
        report: has the output.
        more: the reasons of other markers than the built-in ones, by their names.
    """
    for _, text in reversed(report.sections):
        if judgement.MARKER_START in text:
            from pytest_failure_taxonomy.logs.log_lines import marker_in

            written = marker_in(text)
            if written is not None:
                name = judgement.validate_marker(written, more)
                return SeenMarker(
                    name=name, reason={**judgement.MARKER_REASONS, **more}[name]
                )
    return None
