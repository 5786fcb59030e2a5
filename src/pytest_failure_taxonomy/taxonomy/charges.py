"""Say whom a harness's score charges a failure to, never whether a test passed.

`data/charges.json` has the rows, each with the reason for its choice. It is no TOML,
because every run that fails needs it, and such a run needs no parser of TOML else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy import judgement, read_packaged

_MODE_OF_CASE: Final = r"score [^:]*: (?:sut\.exception: (\w+)|(rubric\.\w+))"
"""What the error of a bench's case says of the first of its failure modes."""
_SIMULATED: Final = "simulated"
"""What stands for the name of an exception that only reads like the environment's."""
_OF_RUN: Final = "of_run"
"""The same of one that follows from what another test or worker of the run has done."""

_RELATIVE: Final = "attempted relative import with no known parent"


@cache
def charges() -> list[dict[str, Any]]:
    """Return the rows of the table in their order.

    A row has words for `kinds` (a name, or `family.*`), `reasons`, `stages`, `owners`,
    `raised` and `callers`; what it does not name may be anything. The last one names
    nothing.
    """
    rows: list[dict[str, Any]] = json.loads(read_packaged("charges.json"))
    return rows


def charge_of(
    kind: str,
    reason: judgement.FailureReason,
    stage: judgement.Stage,
    owner: judgement.CauseOwner | None,
    raised: str = "",
    caller: str = "",
) -> judgement.ChargedTo:
    """Return whom a failure is charged to: what the first row says that is about it.

    Args:
        kind: of the failure.
        reason: that the kind refines.
        stage: the step of an attempt in which it failed.
        owner: who has to fix it, or whose code raised it; `None` where that is not
            known.
        raised: the name of its exception's class; of a bench's case, of the one that
            its system raised, or else the code of its failure mode.
        caller: whose line called the library that refused to be imported or used in a
            collection.
    """
    is_about: dict[str, set[str | None]] = {
        "kinds": {kind, f"{kind.partition('.')[0]}.*"},
        "reasons": {str(reason)},
        "stages": {str(stage)},
        "owners": {owner},
        "raised": {raised},
        "callers": {caller},
    }
    return next(
        row["charge_to"]
        for row in charges()
        if not any(
            words.isdisjoint(row[name].split())
            for name, words in is_about.items()
            if name in row
        )
    )


def charge_of_findings(
    findings: Iterable[judgement.Finding],
    stage: judgement.Stage,
    owner: judgement.CauseOwner | None,
    *,
    is_simulated: bool = False,
    is_of_run: bool = False,
) -> judgement.ChargedTo | None:
    """Return whom a cause is charged to, by a rule of the user's, else by the table.

    Args:
        findings: of the cause.
        stage: the step of an attempt in which they failed.
        owner: who has to fix it.
        is_simulated: the environment was not at fault; its exception was raised on
            purpose.
        is_of_run: another test or worker of the same run has taken or changed what was
            needed.
    """
    cases = set()
    for finding in findings:
        exception = finding.failure and finding.failure.exception
        attributed = getattr(finding.failure, "attributed", None)
        raised = exception.type if exception else ""
        if is_simulated:
            raised = _SIMULATED
        elif is_of_run:
            raised = _OF_RUN
        elif exception and raised == "CaseFailedError":
            mode = re.match(_MODE_OF_CASE, exception.message)
            raised = (
                next(filter(None, reversed(mode.groups())), raised) if mode else raised
            )
        elif exception and exception.message.startswith(_RELATIVE):
            raised = "relative"
        facts = exception.facts if exception else ()
        callers = [fact.text for fact in facts if fact.name == "called_by"]
        charged = attributed and attributed.charge_to
        caller = "".join(callers)
        cases.add((charged, finding.kind, finding.reason, raised, caller))
    return one_charge(
        charged or charge_of(kind, reason, stage, owner, raised, caller)
        for charged, kind, reason, raised, caller in cases
    )


def one_charge(
    charges: Iterable[judgement.ChargedTo | None],
) -> judgement.ChargedTo | None:
    """Return one charge for several; `None` where none is known."""
    distinct = {charge for charge in charges if charge is not None}
    return distinct.pop() if len(distinct) == 1 else "ambiguous" if distinct else None
