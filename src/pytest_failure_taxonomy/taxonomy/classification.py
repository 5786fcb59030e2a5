"""Classify each failure: its reason and kind, failure type and fingerprint.

An exception is recognised by the dotted names of its class and base classes, which are
made of `__module__` and `__qualname__`; a class is not always imported by that name. No
library is imported for it: what those of well-known libraries mean is in
`data/libraries.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy import evidence, packaged_table
from pytest_failure_taxonomy.taxonomy.deaths import is_used_up
from pytest_failure_taxonomy.taxonomy.evidence import public_name
from pytest_failure_taxonomy.taxonomy.judgement import (
    KIND_FAMILIES,
    PHASE_KINDS,
    FailureJudgement,
    FailureReason,
    FailureType,
    known_kinds,
    reason_of,
    type_of_kind,
)
from pytest_failure_taxonomy.taxonomy.services import kind_of_answer
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import STRICT_XPASS

MAX_TEXT_READ: Final = 20_000
"""Characters of a log's text that are searched for a failure type."""

_LASTING: Final = frozenset({FailureType.VERIFICATION_FAILED, FailureType.BROKEN_BUILD})
"""Types of failures that running the same again does not fix."""

_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED

EXCEPTIONS: Final[Mapping[str, FailureType]] = MappingProxyType(
    {
        "builtins.SyntaxError": _BUILD,
        "builtins.ImportError": _BUILD,
        # Ours: a test asks for what isn't there.
        "_pytest.fixtures.FixtureLookupError": _BUILD,
        "builtins.AssertionError": _CHECK,
        "builtins.Failed": _CHECK,  # as pytest's own outcome calls itself
        "_pytest.outcomes.Failed": _CHECK,
        # Ours: a server answered, with another status.
        "urllib.error.HTTPError": _CHECK,
    }
)
"""The failure types of exception classes and their subclasses."""

WRAPPERS: Final = frozenset(
    {"_pytest.nodes.CollectError", "_pytest.nodes.Collector.CollectError"}
)
"""Classes that only wrap another failure, which their text names."""

_ERRNO: Final = re.compile(r"\[Errno (\d{1,5})\]")

NEAR_LIMIT_SHARE: Final = 0.9
"""How much of a limit must be used for a `MemoryError` to be the limit's doing. A test
that asks for more than any machine has gets one, too, and that is the test's own
failure."""


def judge_test_failures(
    failures: Sequence[evidence.TestFailure], *, reads_text: bool = False
) -> tuple[FailureJudgement, ...]:
    """Return the judgement of each failed test, in their order.

    Failures that are judged alike share one object, so that many failures take little
    memory. A test that failed only because its subtests did has the fingerprint of the
    first of them.

    Args:
        failures: all of a run.
        reads_text: the text of a failure may tell its type, too, as in a log, where
            text is all there is.
    """
    if not failures:
        return ()
    # Imported here, because a run without failures needs no fingerprint.
    from pytest_failure_taxonomy.taxonomy.fingerprints import fingerprint_of

    of_subtests: dict[str, str] = {}
    by_fingerprint: dict[str, FailureJudgement] = {}
    judged = []
    for failure in failures:
        attribution, timed_out = failure.attributed, is_timeout(failure)
        kind = (
            _kind_of(failure, timed_out=timed_out)
            if attribution is None
            else attribution.kind
        )
        failure_type = _type_of_test_failure(failure, kind)
        if reads_text:
            failure_type = _refine_type(failure_type, failure)
        if attribution is not None:
            retryable = attribution.retryable
        else:
            fails_again = failure_type in _LASTING and kind in PHASE_KINDS.values()
            retryable = False if fails_again else None
        fingerprint = of_subtests.get(failure.nodeid) if failure.part == "sum" else None
        if fingerprint is None:
            fingerprint = fingerprint_of(failure, kind)
        if failure.part == "subtest":
            of_subtests.setdefault(failure.nodeid, fingerprint)
        ruling = FailureJudgement(
            reason=reason_of(kind) if attribution is None else attribution.reason,
            kind=kind,
            failure_type=failure_type,
            retryable=retryable,
            rule=None if attribution is None else attribution.rule,
            timed_out=timed_out,
            fingerprint=fingerprint,
        )
        # One fingerprint has one judgement, as good as always.
        alike = by_fingerprint.setdefault(fingerprint, ruling)
        judged.append(alike if alike is ruling or alike == ruling else ruling)
    return tuple(judged)


def judge_collection_failures(
    failures: Sequence[evidence.CollectionFailure], *, reads_text: bool = False
) -> tuple[FailureJudgement, ...]:
    """Return the judgement of each node that could not be collected, in their order."""
    # Imported here, because a run without failures needs no fingerprint.
    from pytest_failure_taxonomy.taxonomy.fingerprints import fingerprint_of

    judged = []
    for failure in failures:
        if failure.exception is None:
            failure_type = type_at_head(failure.message) or FailureType.BROKEN_BUILD
        else:
            failure_type = failure_type_of(failure.exception, collecting=True)
        if reads_text:
            failure_type = _refine_type(failure_type, failure)
        judged.append(
            FailureJudgement(
                reason=reason_of("collection.error"),
                kind="collection.error",
                failure_type=failure_type,
                fingerprint=fingerprint_of(failure, "collection.error"),
            )
        )
    return tuple(judged)


def judge_run_error(error: evidence.RunError) -> FailureJudgement:
    """Return the judgement of an error outside of the tests and of collection.

    A conftest that could not be loaded is broken code. Of anything else the exception
    alone can say so: what pytest refuses is no failed check, whatever words it uses.
    """
    is_conftest = error.origin == "conftest"
    if error.exception is not None:
        failure_type: FailureType | None = failure_type_of(
            error.exception, collecting=is_conftest
        )
    else:
        failure_type = type_at_head(error.message)
    if is_conftest:
        failure_type = failure_type or FailureType.BROKEN_BUILD
    elif failure_type is not FailureType.BROKEN_BUILD:
        failure_type = FailureType.UNKNOWN
    kind = f"{error.origin}.error"
    return FailureJudgement(
        reason=reason_of(kind),
        kind=kind,
        failure_type=failure_type,
    )


def is_timeout(failure: evidence.TestFailure) -> bool:
    """Tell whether pytest-timeout ended this test.

    Its thread method ends the process, too, and leaves no message; then the test has
    used up its limit. Its signal method calls `pytest.fail` from its own module. The
    wording can't be relied on: it changed in pytest-timeout 2.4.
    """
    if failure.crashed:
        return is_used_up(failure.limit)
    raised = failure.exception
    return (
        raised is not None
        and raised.type == "Failed"
        and raised.raised_in == "pytest_timeout"
    )


def type_in_text(text: str) -> FailureType:
    """Return the failure type that a log's text tells."""
    from pytest_failure_taxonomy.taxonomy.failure_text import classify_failure

    return classify_failure(text[:MAX_TEXT_READ], "")


def is_voice_of_environment(raiser: str | None, names: Iterable[str]) -> bool:
    """Tell whether an exception was raised where a fault of the environment is raised.

    Args:
        raiser: as of `RaisedException`; where it isn't known, the exception is
            believed.
        names: dotted names of those of its classes that speak of the environment.
    """
    if not raiser:
        return True
    package = raiser.partition(".")[0]
    if package in packaged_table("environment")["voices"]:
        return True
    return package in {name.partition(".")[0] for name in names}


def failure_type_of(
    raised: evidence.RaisedException, *, collecting: bool = False
) -> FailureType:
    """Return the failure type of an exception in a report.

    The first of its classes that is listed decides. Any other exception failed a test,
    whatever its message says: the code runs and does not pass. During collection it
    means that the code can't even be loaded. The text is read only if the exception
    wraps another one, and then only for the exceptions that its tracebacks name.

    Args:
        raised: the exception.
        collecting: The failure is a collection error, not a test's.
    """
    otherwise = _BUILD if collecting else _CHECK
    for name in raised.names:
        if name in EXCEPTIONS:
            return EXCEPTIONS[name]
        is_of_environment = name in packaged_table("environment")["exceptions"]
        if is_of_environment and is_voice_of_environment(raised.raiser, [name]):
            return FailureType.UNKNOWN
        if name in WRAPPERS:
            return type_at_head(raised.message) or otherwise
    if "builtins.OSError" in raised.names:
        errno = _ERRNO.search(raised.message[:MAX_TEXT_READ])
        is_listed = errno and int(errno[1]) in packaged_table("environment")["errnos"]
        if is_listed and is_voice_of_environment(raised.raiser, ()):
            return FailureType.UNKNOWN
    return otherwise


def type_at_head(text: str) -> FailureType | None:
    """Return the failure type of the exceptions that a text's tracebacks name."""
    # Imported here, because most exceptions tell their type by their class.
    from pytest_failure_taxonomy.taxonomy.failure_text import failure_type_at_head

    return failure_type_at_head(text)


def _kind_of(failure: evidence.TestFailure, *, timed_out: bool) -> str:
    if timed_out:
        return "test.timeout"
    if failure.stall is not None and failure.stall.is_ended:
        return "test.stalled"
    if failure.crashed:
        return "test.crashed" if failure.forked else "worker.crashed"
    memory = None if failure.exception is None else failure.exception.memory
    if (
        memory is not None
        and memory.used_bytes >= NEAR_LIMIT_SHARE * memory.limit_bytes
    ):
        return "sandbox.memory"
    # It failed by passing: no exception, and pytest's own wording.
    is_strict_xpass = failure.exception is None and failure.message.startswith(
        STRICT_XPASS
    )
    return "test.xpass_strict" if is_strict_xpass else PHASE_KINDS[failure.phase]


def _type_of_test_failure(failure: evidence.TestFailure, kind: str) -> FailureType:
    """Return the failure type that the exception says, or else the kind."""
    is_of_service = kind in known_kinds() and kind.partition(".")[0] in KIND_FAMILIES
    if failure.attributed is not None and is_of_service:
        return type_of_kind(kind)
    if kind == "sandbox.memory":
        return FailureType.UNKNOWN
    if failure.exception is not None:
        return failure_type_of(failure.exception)
    if kind == "test.xpass_strict":
        return FailureType.VERIFICATION_FAILED
    if failure.crashed:
        return FailureType.UNKNOWN
    by_kind = (
        FailureType.VERIFICATION_FAILED
        if kind == "test.failed"
        else FailureType.UNKNOWN
    )
    return type_at_head(failure.message) or by_kind


def _refine_type(
    failure_type: FailureType, failure: evidence.FailureAtNode
) -> FailureType:
    """Return the failure type, by the failure's text where that says more.

    A log names an exception without its module and its bases, so the one at the text's
    head may be known better than by `failure_type`; the words count where nothing else
    does.
    """
    raised = failure.exception
    text = failure.message if raised is None else f"{raised.type}: {raised.message}"
    at_head = type_at_head(text)
    if at_head is not None and at_head is not FailureType.UNKNOWN:
        return at_head
    return type_in_text(text) if failure_type is FailureType.UNKNOWN else failure_type


def name_libraries(run: evidence.RunEvidence) -> evidence.RunEvidence:
    """Attribute failures to the well-known libraries that raised their exceptions.

    Call it after the user's rules: what they have attributed stays.
    """
    failures = list(run.failures)
    for index, failure in enumerate(failures):
        if failure.attributed is not None or failure.exception is None:
            continue
        classified = classify_exception(failure.exception, failure.traceback)
        if classified is not None:
            reason, kind = classified
            attributed = evidence.Attribution(
                reason=reason,
                kind=kind,
                source="library",
                rule=f"library:{kind}",
            )
            failures[index] = replace(failure, attributed=attributed)
    return replace(run, failures=tuple(failures))


_GITPYTHON_COMMANDS: Final = frozenset(
    {"git.exc.CommandError", "git.exc.GitCommandError", "git.exc.GitCommandNotFound"}
)
_WORTH_A_PHRASE: Final = frozenset({"llm.bad_request", "llm.rate_limited", "llm.error"})
_NO_LIBRARIES: Final = ("builtins.", "_pytest.", "pytest.")
_STATUS: Final = (
    r"(?:^|^Error code: |^API error occurred: Status |\bstatus[ _]code: )"
    r"([1-5][0-9]{2})\b"
)
"""Where a service's exception has the status of the answer in its message."""


def classify_exception(
    raised: evidence.RaisedException, traceback: str | None = None
) -> tuple[FailureReason, str] | None:
    """Return the reason and kind of a well-known library's exception.

    The most derived class in the tables decides. A user's own class counts as the
    library's class that it is derived from.

    Args:
        raised: The exception. If its base classes are unknown, only its own name is
            looked up.
        traceback: The traceback that pytest printed, if any; it shows which library
            raised an exception of a shared module.

    Returns:
        `None` for any other exception.
    """
    foreign = [name for name in raised.names if not name.startswith(_NO_LIBRARIES)]
    names = [public_name(name) for name in foreign]
    is_of_gitpython = not _GITPYTHON_COMMANDS.isdisjoint(names)
    if is_of_gitpython or "subprocess.CalledProcessError" in names:
        kind = _kind_of_git(raised, is_of_gitpython=is_of_gitpython)
    else:
        kind = _kind_of_library(raised, names, traceback or "")
    return None if kind is None else (reason_of(kind), kind)


def _kind_of_git(
    raised: evidence.RaisedException, *, is_of_gitpython: bool
) -> str | None:
    if not is_voice_of_environment(raised.raiser, ["git."]):
        return None
    subcommand = git_subcommand(raised.message)
    if subcommand is None and not is_of_gitpython:
        return None
    kind: str = packaged_table("libraries")["git"].get(subcommand, "tool.git")
    return kind


def _kind_of_library(
    raised: evidence.RaisedException, names: Sequence[str], traceback: str
) -> str | None:
    tables = packaged_table("libraries")
    modules = [name.rpartition(".")[0] for name in names]
    # A class by itself says more than its module.
    candidates = [
        *zip(map(kinds_by_exception().get, names), modules, strict=True),
        *zip(map(tables["modules"].get, modules), modules, strict=True),
    ]
    text = raised.message + traceback.replace("\\", "/")
    for kind, module in candidates:
        if not kind or not is_voice_of_environment(raised.raiser, [module]):
            continue
        wordings = tables["only_within"].get(module, ("",))
        if any(wording in text for wording in wordings):
            return _kind_by_words(kind, raised.message)
    return None


def _kind_by_words(kind: str, message: str) -> str:
    """Return the kind that a service's answer says, by its status or its words."""
    tables = packaged_table("libraries")
    if kind == "llm.error":
        status = re.search(_STATUS, message)
        if status is not None:
            kind = tables["http"].get(status[1], kind)
    if kind in _WORTH_A_PHRASE:
        return kind_of_answer(message) or kind
    return kind


@cache
def kinds_by_exception() -> Mapping[str, str]:
    """Return the kinds of single exceptions, by their dotted names."""
    kinds = {}
    for module, rows in packaged_table("libraries")["exceptions"].items():
        for kind, names in rows.items():
            for name in names:
                kinds[f"{module}.{name}"] = kind
    return kinds


_MAX_COMMAND: Final = 2_000
"""Characters of a command that are looked at; the sub-command stands near its
beginning."""
_MAX_SHELLS: Final = 3
"""How deep a shell may be started within a shell."""

_ELEMENT: Final = r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\""
_WORD: Final = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+"
_ASSIGNMENT: Final = r"[A-Za-z_][A-Za-z0-9_]*="
_NEXT_COMMAND: Final = r"&&|\|\||[;|\n]"


def git_subcommand(message: str) -> str | None:
    """Return the git sub-command that a message says has failed, such as `clone`.

    Args:
        message: of a `subprocess.CalledProcessError` or a `git.exc.CommandError`.

    Returns:
        An empty text for a git without a sub-command, `None` where it was no git, or
        where a shell's line has several commands and the message doesn't say which of
        them failed.
    """
    if not message.startswith("Command '"):
        _, _, rest = message.partition("cmdline: ")
        line = rest.partition("\n")[0]
        return _subcommand_in(line[:_MAX_COMMAND].split(), _MAX_SHELLS)
    command = message.removeprefix("Command '")
    command = command.rpartition("' ")[0] or command
    if not command.startswith(("[", "(")):
        return _subcommand_in(["sh", "-c", command.strip("'")], _MAX_SHELLS)
    words = []
    for element in re.finditer(_ELEMENT, command[:_MAX_COMMAND]):
        word = element[1] or element[2] or ""
        words.append(word.replace("\\\\", "\\").replace("\\n", "\n"))
    return _subcommand_in(words, _MAX_SHELLS)


def _subcommand_in(words: Sequence[str], shells_left: int) -> str | None:
    tables = packaged_table("libraries")["command_lines"]
    # Skip `sudo`, `env` and the like, and variables set for one command.
    while words and (words[0] in tables["prefixes"] or re.match(_ASSIGNMENT, words[0])):
        words = words[1:]
    if not words:
        return None
    program = re.split(r"[/\\]", words[0])[-1]
    if program in tables["git"]:
        is_value = False
        for word in words[1:]:
            if not is_value and not word.startswith("-"):
                return word
            is_value = not is_value and word in tables["options_with_a_value"]
        return ""
    if program in tables["shells"] and shells_left:
        for option, line in pairwise(words[1:]):
            if re.fullmatch("-[^-].*c|-c", option, re.DOTALL):
                commands = _commands_in(line)
                if len(commands) == 1:
                    return _subcommand_in(commands[0], shells_left - 1)
                return None
    return None


def _commands_in(line: str) -> list[list[str]]:
    """Return the words of each command in a shell's line that does some work."""
    without_work = packaged_table("libraries")["command_lines"]["without_work"]
    commands = []
    for part in re.split(_NEXT_COMMAND, line[:_MAX_COMMAND]):
        words = [word.strip("'\"") for word in re.findall(_WORD, part)]
        if words and words[0] not in without_work:
            commands.append(words)
    return commands
