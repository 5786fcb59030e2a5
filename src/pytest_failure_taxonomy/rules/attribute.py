"""Let the rules say what the failures of a run are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.taxonomy.evidence import Attribution, RunEvidence
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.user_rules import Rule


def attribute(run: RunEvidence, rules: Sequence[Rule]) -> tuple[RunEvidence, tuple[str, ...]]:
    """Return the run with what is known of its failures, and what went wrong with the rules.

    What a test or a hook has said stands; then the user's rules are asked, then the table of
    well-known libraries.
    """
    if not run.failures:
        return run, ()
    failures = list(run.failures)
    open_ones = [index for index, each in enumerate(failures) if each.attributed is None]
    problems: tuple[str, ...] = ()
    if rules:
        from pytest_failure_taxonomy.rules.matcher import RuleMatcher

        matcher = RuleMatcher(rules)
        matched = matcher.match([failures[index] for index in open_ones])
        problems = tuple(matcher.problems)
        for index, rule in zip(open_ones, matched, strict=True):
            if rule is not None:
                said = Attribution(
                    reason=rule.reason,
                    kind=rule.kind,
                    source="rule",
                    rule=rule.name,
                    severity=rule.severity,
                    retryable=rule.retryable,
                    owner=rule.owner,
                    link=rule.link,
                )
                failures[index] = replace(failures[index], attributed=said)
    for index in open_ones:
        failure = failures[index]
        if failure.attributed is None and failure.exception is not None:
            from pytest_failure_taxonomy.taxonomy.classification import (
                classify_exception,
            )

            known = classify_exception(failure.exception, failure.traceback)
            if known is not None:
                reason, kind = known
                name = f"library:{kind}"
                said = Attribution(reason=reason, kind=kind, source="library", rule=name)
                failures[index] = replace(failure, attributed=said)
    return replace(run, failures=tuple(failures)), problems
