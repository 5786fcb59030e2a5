"""Send values to another process, or to a later one, and take them back."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pytest_failure_taxonomy.report.text import encodable
from pytest_failure_taxonomy.taxonomy.evidence import Attribution, OriginPlace, RaisedException
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.values import to_dict


def sent_of(one: Any) -> Any:
    """Return a value as xdist and JSON can carry it: objects by their fields, tuples as lists."""
    if isinstance(one, str):
        return encodable(one.value if isinstance(one, Enum) else one)
    if isinstance(one, tuple):
        return [sent_of(each) for each in one]
    if hasattr(one, "__slots__"):
        return {name: sent_of(each) for name, each in to_dict(one).items()}
    return one


def raised_from(sent: dict[str, Any] | None) -> RaisedException | None:
    """Return the exception that was sent."""
    if sent is None:
        return None
    origin = sent["origin"] and OriginPlace(**sent["origin"])
    return RaisedException(**{**sent, "bases": tuple(sent["bases"]), "origin": origin})


def attribution_from(sent: dict[str, Any] | None) -> Attribution | None:
    """Return what was said of a failure and sent."""
    if sent is None:
        return None
    return Attribution(**{**sent, "reason": FailureReason(sent["reason"])})
