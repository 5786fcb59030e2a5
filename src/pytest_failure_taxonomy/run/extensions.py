"""Add the `extensions` of other plugins to a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.report.limits import OWN_NAME, removed_from
from pytest_failure_taxonomy.report.text import change_free_texts, change_texts, encodable
from pytest_failure_taxonomy.system.interpreter import isolate_module

json = isolate_module(json)

_HOOK: Final = "the hook pytest_failure_taxonomy_report"


def add_extensions(
    config: pytest.Config, report: dict[str, Any], faults: Faults, redact: Callable[[Any], Any]
) -> None:
    """Add what the implementations of the hook return to the report, without secrets.

    An invalid answer becomes a fault. If two answers have the same key, the first one counts.
    """
    hook = config.hook.pytest_failure_taxonomy_report
    if not hook.get_hookimpls():
        return
    extensions = report["extensions"]
    before = Counter(removed_from(json.dumps(extensions)))
    try:
        answers = hook(report=json.loads(json.dumps(report)))
    except BaseException as error:  # noqa: BLE001 - foreign
        faults.add(_HOOK, error)
        answers = []
    for answer in answers:
        try:
            extensions |= redact(_as_json_object(answer)) | extensions
        except (TypeError, ValueError, RecursionError) as error:
            faults.add(_HOOK, error)
    removed = Counter(removed_from(json.dumps(extensions)))
    removed.subtract(before)
    if +removed:
        own = extensions.setdefault(OWN_NAME, {})
        own["redacted"] = dict(Counter(own.get("redacted", {})) + removed)
    if faults.messages:
        extensions.setdefault(OWN_NAME, {})["faults"] = list(faults.messages)


def search_again(report: dict[str, Any], redact: Callable[[str], str]) -> None:
    """Remove secrets that extensions and benches have made known, and count all again."""
    foreign = change_texts(report["extensions"], redact)
    report |= {**change_free_texts(report, redact), "extensions": foreign}
    own = report["extensions"].setdefault(OWN_NAME, {})
    own.pop("redacted", None)
    own["redacted"] = dict(Counter(removed_from(json.dumps(report))))


def _as_json_object(answer: object) -> dict[str, Any]:
    """Return an answer in its JSON form.

    Raises:
        TypeError, ValueError, RecursionError: if it has no JSON form or is not an object.
    """
    if not isinstance(answer, dict):
        raise TypeError(
            f"{type(answer).__name__} returned; a dict with one key of your own is right"
        )
    added: dict[str, Any] = change_texts(json.loads(json.dumps(answer, allow_nan=False)), encodable)
    if OWN_NAME in added:
        raise ValueError(f"the name {OWN_NAME} is taken; use one of your own")
    return added
