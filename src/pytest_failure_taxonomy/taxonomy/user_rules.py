"""What users' files say of failures: rules that attribute them, and lists of known ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

from pytest_failure_taxonomy.taxonomy import judgement
from pytest_failure_taxonomy.taxonomy.evidence import (
    Phase,
    RaisedException,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.values import value

Severity = Literal["block", "warn", "info"]

MAX_SEARCHED: Final = 2_000
"""Characters of a message that a rule's pattern is searched in."""


@value
class Rule:
    """One rule; a condition that is `None` matches everything, and one of the six is given."""

    name: str
    reason: judgement.FailureReason
    kind: judgement.KindName
    exception: str | None = None
    """The name of a class: its last part, or dotted."""
    message: str | None = None
    """A regular expression that is searched in the message."""
    nodeid: str | None = None
    """A glob: `*` stands for any text, `?` for any character, brackets for themselves."""
    phase: Phase | None = None
    code_owner: judgement.CodeOwner | None = None
    """Whose code has raised the exception."""
    package: str | None = None
    """A glob for the name of the distribution that has raised it, or for name and version."""
    severity: Severity = "block"
    retryable: bool | None = None
    """Whether a retry can help; `None` where the rule doesn't say."""
    owner: str | None = None
    link: str | None = None
    charge_to: judgement.ChargedTo | None = None
    """Whom a score charges it to; `None` where the rule doesn't say."""


def default_kind(reason: judgement.FailureReason) -> str:
    """Return the kind of a rule that names none, such as `rule.sandbox_error`."""
    return f"rule.{reason.lower()}"


def reasons_of_kind(kind: str) -> tuple[judgement.FailureReason, ...]:
    """Return the reasons that a kind may refine; none where any one will do."""
    known = judgement.known_kinds().get(kind)
    if known is not None and known.reason is not None:
        return (known.reason,)
    return judgement.KIND_FAMILIES.get(kind.partition(".")[0], ())


def match_rule(
    rules: Iterable[Rule],
    failure: TestFailure,
    is_found: Callable[[str, str], bool] | None = None,
) -> Rule | None:
    """Return the first rule that matches a failure.

    Args:
        rules: in the order in which they are asked.
        failure: a rule's pattern is searched in the message of its exception and, where it isn't
            found there, in its own, as pytest words it.
        is_found: searches a pattern in a text. Python's own search can take for ever with a bad
            pattern, and is what is used where none is given.
    """
    raised = (
        () if failure.exception is None else (failure.exception.message[:MAX_SEARCHED],)
    )
    texts = tuple(dict.fromkeys((*raised, failure.message[:MAX_SEARCHED])))
    search = is_found or (lambda pattern, text: re.search(pattern, text) is not None)
    for rule in rules:
        if _could_match(rule, failure):
            pattern = rule.message
            if pattern is None or any(search(pattern, text) for text in texts):
                return rule
    return None


def _could_match(rule: Rule, failure: TestFailure) -> bool:
    """Tell whether a rule matches a failure in everything but the message."""
    exception = failure.exception
    if rule.phase not in (None, failure.phase):
        return False
    if rule.code_owner is not None or rule.package is not None:
        frame = None if exception is None else exception.frame
        if frame is None or rule.code_owner not in (None, frame.owner):
            return False
        package = frame.package or ""
        if rule.package is not None and " " not in rule.package:
            package = package.partition(" ")[0]
        if rule.package is not None and not (
            package
            and fnmatchcase(_in_normal_form(package), _in_normal_form(rule.package))
        ):
            return False
    if rule.nodeid is not None and not fnmatchcase(
        failure.nodeid, rule.nodeid.replace("[", "[[]")
    ):
        return False
    return rule.exception is None or (
        exception is not None and is_exception(exception, rule.exception)
    )


def is_exception(raised: RaisedException, name: str) -> bool:
    """Tell whether an exception is of a class, or of one derived from it.

    A dotted name needs the first package and the class; the modules in between may be left out,
    because libraries offer their classes in other modules than those that define them.
    """
    wanted = name.split(".")
    for dotted in raised.names:
        if f".{dotted}".endswith(f".{name}"):
            return True
        parts = dotted.split(".")
        if len(wanted) > 1 and (parts[0], parts[-1]) == (wanted[0], wanted[-1]):
            left = iter(parts)
            if all(
                part in left for part in wanted
            ):  # in this order: each takes from what is left
                return True
    return False


def _in_normal_form(name: str) -> str:
    return re.sub(r"[-_]+", "-", name).lower()


MAX_TOLD: Final = 5
"""How many entries of one sort are told."""


@value
class KnownFailure:
    """One entry: failures that are known, by their node ids or their cause."""

    line: int
    nodeid: str | None = None
    """A pattern: `*` stands for any text, `?` for one character, brackets for themselves."""
    fingerprint: str | None = None
    """The first characters of a group's fingerprint, six or more."""
    owner: str | None = None
    link: str | None = None
    expires: str | None = None
    """The last day on which it counts, such as `2026-12-31`."""

    @property
    def words(self) -> str:
        """What it lists and whose it is, for messages."""
        name = (
            self.nodeid
            if self.fingerprint is None
            else f"fingerprint {self.fingerprint}"
        )
        of = ", ".join(filter(None, (self.owner, self.link)))
        return f"{name} ({of})" if of else str(name)

    def lists(self, nodeid: str, fingerprint: str | None) -> bool:
        """Tell whether it lists a failure."""
        if self.fingerprint is not None:
            return fingerprint is not None and fingerprint.startswith(self.fingerprint)
        return self.is_of(nodeid)

    def is_of(self, nodeid: str) -> bool:
        """Tell whether a test's node id matches its pattern."""
        if self.nodeid is None:
            return False
        pattern = re.escape(self.nodeid).replace(r"\*", ".*").replace(r"\?", ".")
        return re.fullmatch(pattern, nodeid, re.DOTALL) is not None


def compare_with_known(
    known: Sequence[KnownFailure],
    run: RunEvidence,
    judged: judgement.Judgement,
    today: str,
    name: str,
) -> tuple[list[str], list[str]]:
    """Say which failures of a run are not listed, and which entries no longer say what is.

    Args:
        known: the entries.
        run: the run. Which entries no longer fail isn't known where its tests are not.
        judged: its judgement.
        today: the date in local time, such as `2026-12-31`.
        name: of the file, as the notes show it.

    Returns:
        Node ids of failures that no entry lists that still counts; entries that have expired or
        that no longer fail, in words.
    """
    valid = [each for each in known if each.expires is None or each.expires >= today]
    expired = [
        each for each in known if each.expires is not None and each.expires < today
    ]
    unlisted: dict[str, None] = {}
    met: set[int] = set()
    for failure, one in zip(run.failures, judged.failures, strict=False):
        said = failure.nodeid, None if failure.crashed else one.fingerprint
        met.update([each.line for each in known if each.lists(*said)])
        if not any(each.lists(*said) for each in valid):
            unlisted[failure.nodeid] = None
    passed = [each.nodeid for each in run.tests or () if each.outcome == "passed"]
    unseen = [*run.not_run, *(each.nodeid for each in run.collection_failures)]
    gone = [
        each
        for each in valid
        if each.line not in met
        and any(map(each.is_of, passed))
        and not any(map(each.is_of, unseen))
    ]
    notes = [
        f"{name}:{each.line}: expired on {each.expires}: {each.words}"
        for each in expired[:MAX_TOLD]
    ]
    notes += [
        f"{name}:{each.line}: fails no more: {each.words}" for each in gone[:MAX_TOLD]
    ]
    return list(unlisted), notes
