"""Let a test, or a hook of the user's, say what the reason of a failure is."""

from __future__ import annotations

import re
from typing import Final

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.taxonomy.evidence import Attribution
from pytest_failure_taxonomy.taxonomy.kinds import KIND_PATTERN
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

_SAID: Final = pytest.StashKey[Attribution]()

_HOOK: Final = "the hook pytest_failure_taxonomy_classify"


class FailureTaxonomy:
    """What the fixture `failure_taxonomy` gives to a test."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def __repr__(self) -> str:
        """Return a short name, because pytest shows it with each failure of the test."""
        return "<failure_taxonomy>"

    def record(self, reason: FailureReason | str, kind: str, detail: str = "") -> None:
        """Say why this test fails, if it does: it may know better than its exception tells.

        The last word counts. A test that passes has not failed, whatever it said.

        Args:
            reason: one of the 15.
            kind: what refines it: lower-case words with dots between them, such as
                `sandbox.browser`.
            detail: what else there is to say, in words.

        Raises:
            ValueError: there is no such reason, the text is no kind, or the kind is another
                reason's.
        """
        self._node.stash[_SAID] = attribution(reason, kind, source="test", detail=detail or None)


def attribution(
    reason: object, kind: object, *, source: str, detail: str | None = None
) -> Attribution:
    """Return what somebody says of a failure.

    Raises:
        ValueError: there is no such reason, the text is no kind, or the kind is another reason's.
    """
    from pytest_failure_taxonomy.taxonomy.user_rules import reasons_of_kind

    try:
        known = FailureReason(str(reason))
    except ValueError:
        names = ", ".join(each.value for each in FailureReason)
        raise ValueError(f"{reason!r} is no failure reason; give one of {names}") from None
    if not isinstance(kind, str) or not re.fullmatch(KIND_PATTERN, kind):
        raise ValueError(
            f"{kind!r} is no kind; give lower-case words with dots between them, as in "
            "sandbox.browser"
        )
    right = reasons_of_kind(kind)
    if right and known not in right:
        names = " or ".join(right)
        raise ValueError(f"the kind {kind} refines {names}, not {known}; give that reason")
    return Attribution(reason=known, kind=kind, source=source, detail=detail)


class Attributor:
    """Ask who knows, in the process in which the test ran."""

    def __init__(self, config: pytest.Config, faults: Faults) -> None:
        self._hook = config.hook.pytest_failure_taxonomy_classify
        self._faults = faults

    def ask(self, node: pytest.Item, error: BaseException, phase: str) -> Attribution | None:
        """Return what the test itself has said, or else what the hook says; `None` for neither."""
        said = node.stash.get(_SAID, None)
        if said is not None or not self._hook.get_hookimpls():
            return said
        try:
            answer = node.ihook.pytest_failure_taxonomy_classify(
                exception=error, nodeid=node.nodeid, phase=phase
            )
            return None if answer is None else _from_answer(answer)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as failure:  # noqa: BLE001 - foreign
            self._faults.add_foreign(_HOOK, failure)
            return None


def _from_answer(answer: object) -> Attribution:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"{answer!r} returned; a pair of reason and kind, or None, is right")
    return attribution(*answer, source="hook")
