"""Users' files about failures: rules that attribute them, lists of known ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

from pytest_failure_taxonomy.taxonomy import judgement
from pytest_failure_taxonomy.taxonomy.evidence import (
    Phase,
    RaisedException,
    RaisingFrame,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.values import value

Severity = Literal["block", "warn", "info"]

MAX_SEARCHED: Final = 2_000
"""Characters of a message that a rule's pattern is searched in."""


@value
class Rule:
    """One rule. A condition that is `None` matches everything; one of six is set."""

    name: str
    reason: judgement.FailureReason
    kind: judgement.KindName
    exception: str | None = None
    """The name of a class: its last part, or dotted."""
    message: str | None = None
    """A regular expression that is searched in the message."""
    nodeid: str | None = None
    """A glob: `*` stands for any text, `?` for any character, brackets for
    themselves."""
    phase: Phase | None = None
    code_owner: judgement.CodeOwner | None = None
    """Whose code has raised the exception."""
    package: str | None = None
    """A glob for the name of the distribution that has raised it, or for name and
    version."""
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
    row = judgement.known_kinds().get(kind)
    if row is not None and row.reason is not None:
        return (row.reason,)
    return judgement.KIND_FAMILIES.get(kind.partition(".")[0], ())


def match_rule(
    rules: Iterable[Rule],
    failure: TestFailure,
    is_found: Callable[[str, str], bool] | None = None,
) -> Rule | None:
    """Return the first rule that matches a failure.

    Args:
        rules: in the order in which they are asked.
        failure: a rule's pattern is searched in the message of its exception and, where
            it isn't found there, in its own, as pytest words it.
        is_found: searches a pattern in a text. Python's own search can take for ever
            with a bad pattern, and is what is used where none is given.
    """
    texts = [failure.message[:MAX_SEARCHED]]
    if failure.exception is not None:
        raised = failure.exception.message[:MAX_SEARCHED]
        if raised != texts[0]:
            texts.insert(0, raised)
    search = is_found or (lambda pattern, text: re.search(pattern, text) is not None)
    for rule in rules:
        if not _could_match(rule, failure):
            continue
        pattern = rule.message
        if pattern is None or any(search(pattern, text) for text in texts):
            return rule
    return None


def _could_match(rule: Rule, failure: TestFailure) -> bool:
    """Tell whether a rule matches a failure in everything but the message."""
    if rule.phase not in (None, failure.phase):
        return False
    pattern = "*" if rule.nodeid is None else rule.nodeid.replace("[", "[[]")
    if not fnmatchcase(failure.nodeid, pattern):
        return False
    raised = failure.exception
    if raised is None:
        return rule.exception is rule.code_owner is rule.package is None
    if rule.exception is not None and not is_exception(raised, rule.exception):
        return False
    return _is_of_code(rule, raised.frame)


def is_exception(raised: RaisedException, name: str) -> bool:
    """Tell whether an exception is of a class, or of one derived from it.

    A dotted name needs the first package and the class; the modules in between may be
    missing, because libraries offer their classes in other modules than those that
    define them.
    """
    wanted = name.split(".")
    for dotted in raised.names:
        if f".{dotted}".endswith(f".{name}"):
            return True
        parts = dotted.split(".")
        has_package = parts[0] == wanted[0]
        has_class = parts[-1] == wanted[-1]
        if has_package and has_class and len(wanted) > 1:
            # In this order: each takes from what is left.
            left = iter(parts)
            if all(part in left for part in wanted):
                return True
    return False


def _normalise_name(name: str) -> str:
    return re.sub(r"[-_]+", "-", name).lower()


MAX_TOLD: Final = 5
"""How many entries of one sort are named."""


@value
class KnownFailure:
    """One entry: failures that are known, by their node ids or their cause."""

    line: int
    nodeid: str | None = None
    """A pattern: `*` stands for any text, `?` for one character, brackets for
    themselves."""
    fingerprint: str | None = None
    """The first characters of a group's fingerprint, six or more."""
    owner: str | None = None
    link: str | None = None
    expires: str | None = None
    """The last day on which it counts, such as `2026-12-31`."""

    @property
    def words(self) -> str:
        """What it lists and whose it is, for messages."""
        name = str(self.nodeid)
        if self.fingerprint is not None:
            name = f"fingerprint {self.fingerprint}"
        about = [text for text in (self.owner, self.link) if text]
        return f"{name} ({', '.join(about)})" if about else name

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


def _is_of_code(rule: Rule, frame: RaisingFrame | None) -> bool:
    """Tell whether an exception was raised in such code as a rule names."""
    if frame is None:
        return rule.code_owner is rule.package is None
    if rule.code_owner not in (None, frame.owner):
        return False
    if rule.package is None:
        return True
    package = frame.package or ""
    if " " not in rule.package:
        package = package.partition(" ")[0]
    pattern = _normalise_name(rule.package)
    return package != "" and fnmatchcase(_normalise_name(package), pattern)


def compare_with_known(
    entries: Sequence[KnownFailure],
    run: RunEvidence,
    judged: judgement.Judgement,
    today: str,
    name: str,
) -> tuple[list[str], list[str]]:
    """Say which failures of a run are not listed, and which entries no longer hold.

    Args:
        entries: of a file of known failures.
        run: the run. Which entries no longer fail isn't known where its tests are not.
        judged: its judgement.
        today: the date in local time, such as `2026-12-31`.
        name: of the file, as the notes show it.

    Returns:
        Node ids of failures that no entry lists that still counts; entries that have
        expired or that no longer fail, in words.
    """
    expired = [entry for entry in entries if (entry.expires or today) < today]
    valid = [entry for entry in entries if (entry.expires or today) >= today]
    unlisted: dict[str, None] = {}
    met: set[int] = set()
    for failure, ruling in zip(run.failures, judged.failures, strict=False):
        nodeid = failure.nodeid
        fingerprint = None if failure.crashed else ruling.fingerprint
        met.update(
            [entry.line for entry in entries if entry.lists(nodeid, fingerprint)]
        )
        if not any(entry.lists(nodeid, fingerprint) for entry in valid):
            unlisted[nodeid] = None
    passed = [test.nodeid for test in run.tests or () if test.outcome == "passed"]
    unseen = [*run.not_run]
    unseen += [failure.nodeid for failure in run.collection_failures]
    notes = []
    for entry in expired[:MAX_TOLD]:
        note = f"expired on {entry.expires}: {entry.words}"
        notes.append(f"{name}:{entry.line}: {note}")
    gone = 0
    for entry in valid:
        if entry.line in met or gone == MAX_TOLD:
            continue
        if any(map(entry.is_of, passed)) and not any(map(entry.is_of, unseen)):
            gone += 1
            notes.append(f"{name}:{entry.line}: no longer fails: {entry.words}")
    return list(unlisted), notes
