"""Group failures by what to fix, and describe each cause in one sentence.

A fingerprint tells which failures are one and the same; several of them can have one
cause, such as a package that is not installed, and a run can have several causes. Every
finding of the judge is in exactly one cause.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.charges import charge_of_findings, one_charge
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    RunError,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    FailureType,
    Finding,
    RecoveryAction,
    Stage,
    describe_kind,
    owner_of_most,
    recovery_of_failure,
)
from pytest_failure_taxonomy.taxonomy.order import digest_of
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import (
    OUTCOMES,
    PYTESTS_REFUSAL,
    STRICT_XPASS,
    TYPES_OF_PYTEST,
    and_more,
    bracket_place,
    counted,
    one_line,
    quote_exception,
    shortened,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy import evidence
    from pytest_failure_taxonomy.taxonomy.judgement import FailureReason
    from pytest_failure_taxonomy.taxonomy.recognition import Diagnosis

MAX_WHAT: Final = 200
"""Characters of the sentence of a cause, its place included."""
_MAX_ENDING: Final = 320
"""The same of an ending of the whole run, which may name several things and no
place."""
_MAX_NAME: Final = 80
"""Characters of the name of a test; its parameters can be of any length."""

_MAX_PATH: Final = 120

_FIRST: Final = (
    *("collection.", "conftest.", "usage.", "plugin."),
    *("internal.", "process.", "worker."),
)
"""How kinds begin that explain what else failed, or did not run; stalls do so, too."""
_LAST: Final = (
    "interrupt.",
    "process.",
    "session.",
    "exit_status.",
)
"""How the kinds begin of endings that came after what had failed."""
_AT_A_NODE: Final = (
    "process.",
    "worker.",
    "test.",
    "collection.",
    "session.",
    "stage.",
)
"""How the kinds begin of endings that are others at another node."""
_STATES: Final = (
    "new",
    "came_back",
    None,
    "known",
    "flaky",
)
"""What a history says, in the order in which people want to see it."""

_LEAST_RECOVERABLE: Final = (
    RecoveryAction.ESCALATE,
    RecoveryAction.ROLLBACK,
    RecoveryAction.SKIP,
    RecoveryAction.CONTINUE,
    RecoveryAction.RETRY,
)
"""The order in which one action stands for several."""

_CHECKS: Final = frozenset({"AssertionError", "Failed", "Skipped"})
"""What people raise to say that something is wrong; they have said it in their own
words."""
_NOT_BY_PEOPLE: Final = (
    *(
        "async def functions are not",
        " not found in `markers` ",
        "Database access not allowed",
        "ScopeMismatch: ",
        "Defining 'pytest_plugins' in a ",
        "Invalid regex pattern provided",
    ),
    *("snapshot", "--force-regen", "FILES DIFFER", "File not found in data directory"),
)
"""One of them is in the text where pytest or a plugin raises the same."""
_CHECKING_MODULES: Final = frozenset(
    {
        "_pytest.doctest",
        "_pytest.python_api",
        "_pytest.raises",
        "_pytest.recwarn",
    }
)
"""Modules of pytest that fail a test because of what the test has asked them to
check."""
_MAX_NAMING: Final = 2_000
"""Characters of a message that are searched for names."""
_NAMING: Final = frozenset(
    {
        "command",
        "file",
        "filename",
        "host",
        "name",
        "url",
    }
)
"""Facts of an exception that name what it is about."""
_COMMON_NAMES: Final = frozenset(
    {
        "NoneType",
        "dict",
        "int",
        "list",
        "object",
        "str",
    }
)
"""Names that two exceptions may have in common by chance."""
_WITHOUT_EXCEPTION: Final = (STRICT_XPASS, "bdb.BdbQuit")
"""How a test's failure begins that has no exception and that a row of the table
knows."""
_PLAIN: Final = (
    "AssertionError: ",
    "Failed: ",
    "CaseFailedError: ",
    "CaseWithoutScoreError: ",
    "CaseLostToEnvironmentError: ",
    "DocTestFailure: ",
)
"""Exceptions that say nothing by their type: a check has failed."""
_DIFFERS_IN: Final = {
    "dates": "two dates or times at most a day apart",
    "order": "the same elements in another order",
}
"""What the two sides of an assertion differ in that may come and go, in words."""
_ELIDED: Final = re.compile(r"\.\.\.|\[\d+ chars\]")
"""How pytest shortens a value."""
# Only what begins a word is tried: a text of a megabyte without blanks takes no time.
_CONFTEST: Final = r"(?<![^\s'\"()])[^\s'\"()]*conftest\.py"
_OWN_PLACE: Final = r" \(((?![/<])[^()\s]{1,300}\.py:\d+)[,)]"
"""The place that the words of an error name, if it is below the root directory."""
_BY_PLUGIN: Final = " raised by "
"""Stands in the words of an error whose place is in a plugin."""
_LOADED_BY: Final = r"\(([^\s()]+:\d+), from [^()]*conftest\.py"
"""Of an error in a module that a conftest imports: its place."""


def gather_causes(
    findings: Iterable[Finding], stage: Stage = Stage.FINAL_TEST, rootdir: str = ""
) -> tuple[Cause, ...]:
    """Return the causes of findings: those that explain others first, then the biggest.

    Failures of one fingerprint are in one cause, unless they say that different things
    are to be fixed, such as two hosts that one function asks. Of equals, those of which
    it is known what to fix are first, then what failed first.

    Args:
        findings: all of a run, in the order of the evidence. What was only said, as by
            a marker, is a cause where nothing was seen.
        stage: the step of an attempt that the run was.
        rootdir: absolute; paths below it are told relative to it. Empty where it is not
            known.
    """
    findings = list(findings)
    observed = [finding for finding in findings if not finding.is_hearsay]
    observed = observed or findings
    with_subtests: set[str | None] = set()
    keys: dict[Hashable, str] = {}
    members: dict[str, tuple[Diagnosis | None, list[Finding]]] = {}
    failed: dict[str, list[tuple[str, TestFailure]]] = {}
    """By test: its failures so far, each with the key of its cause."""
    for finding in observed:
        failure = finding.failure
        # Failures alike in all that a diagnosis reads are recognised once.
        identity = _make_identity(finding)
        key = keys.get(identity) if finding.fingerprint else None
        if key is None:
            diagnosis = recognise(finding)
            key = _make_key(finding) if diagnosis is None else diagnosis.key
            keys[identity] = key
            members.setdefault(key, (diagnosis, []))
        if isinstance(failure, TestFailure):
            earlier = failed.setdefault(failure.nodeid, [])
            # A teardown often fails over what had failed the test already.
            if failure.phase == "teardown" and earlier:
                key = _find_key_before_teardown(failure, earlier) or key
            earlier.append((key, failure))
            if failure.part == "subtest":
                with_subtests.add(finding.nodeid)
        members[key][1].append(finding)
    # A key has no findings left if all of them joined an earlier failure's cause.
    with_findings = [item for item in members.items() if item[1][1]]
    recognised_first = sorted(with_findings, key=lambda item: item[1][0] is None)
    return sort_causes(
        [
            _make_cause(key, *of_key, with_subtests, stage, rootdir)
            for key, of_key in recognised_first
        ]
    )


def _make_identity(finding: Finding) -> Hashable:
    """Return all by which failures of one fingerprint can differ in what to fix."""
    failure = finding.failure
    if failure is None:
        return finding.fingerprint, None
    raised = failure.exception
    if raised is None:
        return finding.fingerprint, failure.message
    return (
        finding.fingerprint,
        failure.message,
        raised.message,
        raised.facts,
        raised.chain,
    )


def _find_key_before_teardown(
    failure: TestFailure, earlier: Sequence[tuple[str, TestFailure]]
) -> str:
    """Return the key of an earlier failure that named the same thing; empty if none."""
    things = _find_named_things(failure)
    for key, before in earlier:
        if things & _find_named_things(before):
            return key
    return ""


def _find_named_things(failure: TestFailure) -> frozenset[str]:
    """Return the names of the files, hosts, attributes that an exception is about."""
    raised = failure.exception
    if raised is None or raised.type in _CHECKS:
        return frozenset()
    message = raised.message[:_MAX_NAMING]
    names = set(re.findall(r"'([^'\n]{2,200})'", message))
    for fact in raised.facts:
        if fact.name in _NAMING:
            names.add(fact.text)
    return frozenset(names - _COMMON_NAMES)


def recognise(finding: Finding) -> Diagnosis | None:
    """Return what to fix if a finding tells it; `None` if that is not known."""
    failure = finding.failure
    if failure is None:
        return None
    raised = failure.exception
    may_be_known = True
    if raised is not None and raised.type in _CHECKS:
        may_be_known = any(text in raised.message for text in _NOT_BY_PEOPLE)
        # A check of a program that failed; what it printed says more.
        for fact in raised.facts:
            may_be_known = may_be_known or not fact.name.startswith("differs_")
    elif raised is None and isinstance(failure, TestFailure):
        may_be_known = failure.message.startswith(_WITHOUT_EXCEPTION)
    if not may_be_known:
        return None
    # Imported here, because most failures are assertions, which no table knows.
    from pytest_failure_taxonomy.taxonomy.recognition import ask_table

    return ask_table(failure, finding)


class _Members(NamedTuple):
    """What is of one cause."""

    diagnosis: Diagnosis | None
    findings: Sequence[Finding]
    of_tests: list[TestFailure]
    """The failures of tests."""
    tests: tuple[str, ...]
    """Their node ids."""
    files: list[str]
    """What could not be collected."""
    shown: int
    """How many tests, files or else findings there are."""


def _make_cause(
    key: str,
    diagnosis: Diagnosis | None,
    findings: Sequence[Finding],
    with_subtests: set[str | None],
    stage: Stage,
    rootdir: str,
) -> Cause:
    failures = [finding.failure for finding in findings if finding.failure is not None]
    nodeids = dict.fromkeys([finding.nodeid for finding in findings if finding.nodeid])
    fingerprints: dict[str, None] = {}
    of_tests: list[TestFailure] = []
    tests: dict[str, None] = {}
    files: list[str] = []
    counts: dict[tuple[FailureReason, str], int] = {}
    unnamed = 0
    hung_at: dict[Hashable, str | None] = {}
    answers = []
    for finding in findings:
        failure = finding.failure
        count = finding.count
        if isinstance(failure, TestFailure):
            of_tests.append(failure)
            if failure.nodeid:
                tests[failure.nodeid] = None
            else:
                unnamed += 1
            # A test that failed only because its subtests did is not counted beside
            # them.
            if failure.part == "sum" and finding.nodeid in with_subtests:
                count = 0
        elif isinstance(failure, CollectionFailure):
            # Those without a name may be several.
            if not failure.nodeid or failure.nodeid not in files:
                files.append(failure.nodeid)
        elif finding.kind == "test.failed" and failure is None and not finding.nodeid:
            unnamed += 0 if finding.headline else count
        kind = finding.reason, finding.kind
        counts[kind] = counts.get(kind, 0) + count
        fingerprints |= dict.fromkeys([finding.fingerprint, *finding.explains])
        answers.append(_judge_retry(finding, diagnosis, hung_at))
    fingerprints.pop("", None)
    # Else a fingerprint is one already.
    if len(key) != 16 or key.strip("0123456789abcdef"):
        key = digest_of((key,))
    reason, most = max(counts, key=counts.__getitem__)  # of equals, the first
    count = sum(counts.values()) or 1
    shown = len(tests) + unnamed or len(files) or count
    members = _Members(diagnosis, findings, of_tests, tuple(tests), files, shown)
    owner = (diagnosis and diagnosis.owner) or owner_of_most(failures)
    return Cause(
        key=key,
        what=_describe_cause(members, rootdir),
        fix=None if diagnosis is None else diagnosis.fix,
        reason=reason,
        kind=most,
        owner=owner,
        retryable=whether_retry_helps(answers),
        failure_type=findings[0].failure_type or FailureType.UNKNOWN,
        count=count,
        nodeids=tuple(nodeids),
        tests=members.tests,
        files=tuple(files),
        unnamed=unnamed,
        fingerprints=tuple(fingerprints),
        charge_to=charge_of_findings(
            findings,
            stage,
            owner,
            is_simulated=diagnosis is not None and diagnosis.is_simulated,
            is_of_run=diagnosis is not None and diagnosis.is_of_run,
        ),
    )


def sort_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return causes in the order in which they are shown; the sort is stable."""
    return tuple(sorted(causes, key=_rank_cause))


def _rank_cause(cause: Cause) -> tuple[bool, int, int]:
    """Return the sort key: first what explains others, then the new, then the big."""
    explains_others = cause.kind.startswith(_FIRST) or cause.kind.endswith(".stalled")
    state = cause.history and cause.history.state
    return not explains_others, _STATES.index(state), -cause.count


def join_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the causes of several runs, those of one key as one."""
    joined: dict[str, Cause] = {}
    for cause in causes:
        earlier = joined.setdefault(cause.key, cause)
        if earlier is cause:
            continue
        lists = {}
        for name in ("nodeids", "tests", "files", "fingerprints"):
            both = (*getattr(earlier, name), *getattr(cause, name))
            lists[name] = tuple(dict.fromkeys(both))
        joined[cause.key] = replace(
            earlier,
            retryable=whether_retry_helps((earlier.retryable, cause.retryable)),
            count=earlier.count + cause.count,
            unnamed=earlier.unnamed + cause.unnamed,
            charge_to=one_charge((earlier.charge_to, cause.charge_to)),
            history=earlier.history or cause.history,
            proof=earlier.proof or cause.proof,
            base=earlier.base or cause.base,
            **lists,
        )
    return sort_causes(joined.values())


def choose_action(
    causes: Iterable[Cause], kind: str, last_good_commit: str | None = None
) -> tuple[Cause, RecoveryAction]:
    """Return the cause that is hardest to recover from, and its recovery action.

    Among equals, prefer the first cause of the verdict's kind.
    """
    firsts: dict[Hashable, Cause] = {}
    for cause in causes:
        firsts.setdefault((cause.failure_type, cause.retryable, cause.kind), cause)
    ranked = []
    # The index decides between equals, so that causes are never compared.
    for index, cause in enumerate(firsts.values()):
        action = recovery_of_failure(
            cause.failure_type,
            cause.retryable,
            last_good_commit,
            kind=cause.kind,
        )
        rank = _LEAST_RECOVERABLE.index(action)
        ranked.append((rank, cause.kind != kind, index, cause, action))
    _, _, _, least, action = min(ranked)
    return least, action


def whether_retry_helps(answers: Iterable[bool | None]) -> bool | None:
    """Tell whether the same run again can pass: only if every answer says so."""
    answers = set(answers)
    if answers == {True}:
        return True
    return False if False in answers else None


def headline_of_run(causes: Sequence[Cause], run: evidence.RunEvidence) -> str:
    """Return in one line what failed: the only cause, or how many causes there are."""
    failed = _describe_counts(causes, run)
    first = causes[0]
    if len(causes) == 1:
        has_tests = first.tests or first.unnamed
        counts_itself = first.what.startswith((failed, f"{len(first.tests):,} tests "))
        if not has_tests or first.files or counts_itself:
            return first.what
        return f"{failed}: {first.what}"
    if not failed:
        if len(causes) > 2:
            return f"{first.what}, and {len(causes) - 1} more causes"
        return f"{first.what}, {_word_joined_ending(causes[1])}"
    # Those that ended the whole run; with two causes, the tests failed of the other.
    endings = [
        cause for cause in causes if not (cause.tests or cause.files or cause.unnamed)
    ]
    headline = failed
    if len(endings) == 1:
        headline = f"{failed}, {_word_joined_ending(endings[0])}"
        if len(causes) == 2:
            return headline
    return f"{headline}, {counted(len(causes), 'cause')}"


def _word_joined_ending(ending: Cause) -> str:
    """Return an ending to follow what else failed."""
    is_later = ending.kind.startswith(_LAST) or ending.kind.endswith(".stalled")
    return f"{'then' if is_later else 'and'} {ending.what}"


def _describe_counts(causes: Sequence[Cause], run: evidence.RunEvidence) -> str:
    """Say how many tests failed, and how many files could not be collected."""
    nodeids: set[str] = set()
    collected: set[str] = set()
    tests = 0
    files = 0
    for cause in causes:
        nodeids.update(cause.tests)
        tests += cause.unnamed
        collected.update(cause.files)
        files += cause.files.count("")
    collected.discard("")
    tests += len(nodeids)
    files += len(collected)
    ran = run.counts.collected - len(run.not_run)
    parts = []
    if tests:
        of_all = f" of {ran:,}" if ran > tests else ""
        noun = "test" if max(ran, tests) == 1 else "tests"
        parts.append(f"{tests:,}{of_all} {noun} failed")
    if files:
        noun = "file" if tests else "test file"
        parts.append(f"{counted(files, noun)} can't be collected")
    return ", ".join(parts)


def _describe_cause(members: _Members, rootdir: str) -> str:
    """Return what is wrong, and where."""
    finding, sentence = members.findings[0], ""
    if members.diagnosis is not None:
        sentence = members.diagnosis.what
    elif (
        finding.failure is not None
        and not finding.headline
        and (finding.nodeid or finding.words)
    ):
        sentence = (
            finding.words[0] if finding.words else _describe_failure(finding.failure)
        )
        if len(members.files) > 1:  # which of them imported it first tells nothing
            sentence = re.sub(r", from [^()]{1,300}\)", ")", sentence)
    if not sentence:
        return one_line(_describe_by_kind(members), _MAX_ENDING)
    if rootdir:
        sentence = sentence.replace(f"{rootdir.rstrip('/')}/", "")
    where = _describe_places(members, sentence)
    if not where:
        return one_line(sentence, MAX_WHAT)
    words = one_line(sentence, max(_MAX_NAME, MAX_WHAT - len(where)))
    return f"{words.removesuffix('.')}: {where}"


def _describe_by_kind(members: _Members) -> str:
    """Return what happened in the words of its kind, with the name of the test."""
    finding = members.findings[0]
    kind = describe_kind(finding.kind, finding.reason)
    nodeid = finding.nodeid
    parts = [part for part in (kind.one, *finding.words[:1]) if part]
    words = finding.headline or ": ".join(parts)
    if members.shown > 1 and kind.many != kind.one:
        return _describe_many(members, words)
    if nodeid is None or nodeid in words:
        return words
    if "1 test " in words:
        words = words.replace("1 test", _shorten_name(nodeid), 1)
        if members.of_tests:
            words += _describe_place(_find_own_place(members.of_tests[0]))
        return words
    if not finding.kind.startswith("process."):
        return words
    head, colon, rest = words.partition(": ")
    return f"{head} while it ran {nodeid}{colon}{rest}"


def _describe_many(members: _Members, words: str) -> str:
    """Return what happened several times, from the words for one of these times."""
    finding = members.findings[0]
    kind = describe_kind(finding.kind, finding.reason)
    place = ""
    if finding.kind == "worker.crashed" and finding.nodeid:
        _, joint, test = words.partition(" while ")
        place = joint + test
    else:
        where = _describe_tests(members, "")
        if where and not where.startswith("first "):
            place = f": {where}"
    has_detail = words.startswith(kind.one)
    detail = words.removeprefix(kind.one) if has_detail else ""
    return kind.phrase(members.shown) + detail + place


def _describe_places(members: _Members, sentence: str) -> str:
    """Return which files can't be imported or where tests failed, without the colon."""
    if members.files:
        return _describe_files(members, sentence)
    failure = members.findings[0].failure
    if isinstance(failure, RunError):
        return _describe_error_place(failure, sentence)
    return _describe_tests(members, sentence)


def _describe_error_place(error: RunError, sentence: str) -> str:
    """Return the user's line, or the conftest, that an error's message names."""
    if error.origin in ("internal", "plugin"):
        match = re.search(_OWN_PLACE, error.message)
        is_of_plugin = _BY_PLUGIN in error.message
        if match is None or is_of_plugin or match[1] in sentence:
            return ""
        place = match[1]
        origin = error.exception and error.exception.origin
        if not origin or origin.function in ("", "<module>"):
            return place
        return f"{origin.function} ({place})"
    match = re.search(_CONFTEST, error.message)
    if error.origin != "conftest" or match is None or match.group() in sentence:
        return ""
    file = match.group()
    return f"{file} can't be imported{_describe_import(error, file, sentence)}"


def _describe_files(members: _Members, sentence: str) -> str:
    """Return which files can't be imported, and how many tests failed beside them."""
    failure = members.findings[0].failure
    raised = None if failure is None else failure.exception
    first = members.files[0]
    count = len(members.files)
    parts = []
    if count > 1 or members.tests or first.partition("::")[0] not in sentence:
        is_import = raised is not None and raised.type not in _REFUSALS
        how = "imported" if is_import and "::" not in first else "collected"
        subject = f"{count:,} test files"
        place = ""
        if count == 1:
            subject = shortened(first, _MAX_PATH)
            place = _describe_import(failure, first, sentence)
        parts.append(f"{subject} can't be {how}{place}")
    if members.tests:
        parts.append(f"{counted(len(members.tests), 'test')} failed")
    return ", ".join(parts)


def _describe_import(failure: evidence.Failure | None, file: str, sentence: str) -> str:
    """Return the place in the user's code that a file's import came to, in brackets.

    Nothing is added if that is the file itself, or if the sentence names it.
    """
    at = ""
    if isinstance(failure, CollectionFailure) and failure.location is not None:
        path = failure.location.path
        if path != file.partition("::")[0] and not _ELSEWHERE.match(path):
            at = _describe_place(failure.location)
    elif isinstance(failure, RunError):
        loaded = re.search(_LOADED_BY, failure.message)
        if loaded is not None:
            at = f" ({loaded[1]})"
    return "" if at.strip(" ()") in sentence else at


def _describe_tests(members: _Members, sentence: str) -> str:
    """Name the fixture, or the function and the test, that failed, with its place."""
    of_tests = members.of_tests
    if not of_tests:
        return ""
    first = of_tests[0]
    at = _describe_place(_find_own_place(first))
    if at.strip(" ()") in sentence:
        at = ""
    if fixture := _describe_fixture(of_tests, at):
        return fixture
    name = _shorten_name(first.nodeid)
    is_one = len(members.tests) == 1 or not name  # a log may not say which
    function = _find_function(first) if at else ""
    if function and not is_one:
        places = {_find_own_place(failure) for failure in of_tests}
        if len(places) == 1:
            return f"{function}{at}"
    where = f"{name}{at}".strip()
    if function and _is_elsewhere(first, function):
        where = f"{function}{at}, in {name}"
    return where if is_one else f"first {where}"


def _describe_fixture(of_tests: Sequence[TestFailure], at: str) -> str:
    """Name the fixture in which all of these tests failed; empty if there is none."""
    raised = of_tests[0].exception
    if raised is None or raised.fixture is None:
        return ""
    fixtures = {failure.exception and failure.exception.fixture for failure in of_tests}
    if None in fixtures:
        return ""
    if raised.fixture_place is not None:
        at = _describe_place(raised.fixture_place)
    return f"fixture {raised.fixture}{at}{and_more(len(fixtures) - 1)}"


def _find_function(failure: TestFailure) -> str:
    """Return the user's function that raised an exception; empty if it is pytest's."""
    origin = failure.exception and failure.exception.origin
    place = _find_own_place(failure)
    if not origin or not place or origin.path.startswith("_pytest/"):
        return ""
    # Without a line of the user's the function is a library's, and the place the
    # test's.
    return origin.function if place.line or origin.text else ""


def _is_elsewhere(failure: TestFailure, function: str) -> bool:
    """Tell whether a function is neither the test nor in its file."""
    place = _find_own_place(failure)
    name = _shorten_name(failure.nodeid).partition("[")[0]
    if place is None or function == name.replace("::", "."):
        return False
    return place.path not in (failure.nodeid.partition("::")[0], "")


_USERS: Final = ("test", "conftest", "project")
"""Owners of code in which something is to be fixed."""
_ELSEWHERE: Final = re.compile("[/<]|[A-Za-z]:|.*(?:site|dist)-packages/")
"""How the paths of pytest, of libraries and of no file begin."""
_REFUSALS: Final = TYPES_OF_PYTEST | OUTCOMES | {PYTESTS_REFUSAL}
"""Types of exceptions that stop a collection and do not come from an import."""


def _judge_retry(
    finding: Finding, diagnosis: Diagnosis | None, hung_at: dict[Hashable, str | None]
) -> bool | None:
    """Return what a user's rule says, else what is known about the cause, or the kind.

    Args:
        finding: one of a cause's findings.
        diagnosis: of that cause.
        hung_at: the tests that hung in the project's code, by the place; added to.
    """
    failure = finding.failure
    attribution = failure.attributed if isinstance(failure, TestFailure) else None
    if attribution is not None and attribution.retryable is not None:
        return attribution.retryable
    # What a service answers to the next run, its exception doesn't tell.
    if diagnosis is not None and (
        diagnosis.retryable is not None
        or diagnosis.owner == "environment"
        or diagnosis.is_of_run
    ):
        return diagnosis.retryable
    raised = None if failure is None else failure.exception
    if _describe_difference(raised):
        return None
    if finding.retryable is not None:
        return finding.retryable
    frame = None if raised is None else raised.frame
    is_hung = (
        finding.kind == "test.timeout"
        and frame is not None
        and frame.owner == "project"
    )
    if is_hung and hung_at.setdefault(frame, finding.nodeid) != finding.nodeid:
        return None  # where another test hung, too: a loop without an end, perhaps
    return describe_kind(finding.kind, finding.reason).retryable


def _describe_failure(failure: evidence.Failure) -> str:
    """Return an unrecognised failure's message; of a failed check without its type."""
    attribution = failure.attributed if isinstance(failure, TestFailure) else None
    if attribution is not None and attribution.source == "test" and attribution.detail:
        return one_line(attribution.detail)
    raised = failure.exception
    words = one_line(failure.message) if raised is None else _describe_exception(raised)
    for plain in _PLAIN:
        words = words.removeprefix(plain)
    where = _get_fact(raised, "differs_at")
    if where and _ELIDED.search(words):
        words = where  # of the values themselves the words have only the beginning
    difference = _describe_difference(raised)
    return f"{difference}: {words}" if difference else words


def _describe_difference(raised: evidence.RaisedException | None) -> str:
    """Say in what the two sides of an assertion differ, if that may come and go."""
    return _DIFFERS_IN.get(_get_fact(raised, "differs_in"), "")


def _get_fact(raised: evidence.RaisedException | None, name: str) -> str:
    for fact in () if raised is None else raised.facts:
        if fact.name == name:
            return fact.text
    return ""


def _describe_exception(raised: evidence.RaisedException) -> str:
    """Return an exception's message, a group's first, or a bare assertion's line."""
    if "builtins.BaseExceptionGroup" in raised.bases and raised.chain:
        leaf = raised.chain[0]
        name = leaf.bases[0].removeprefix("builtins.")
        words = quote_exception(name, leaf.message, is_test=True)
        count = re.search(r"\((\d+) sub-exceptions?\)", raised.message)
        of = f" of {count[1]}" if count else ""
        return f"{words} [{raised.type}{of}]"
    statement = raised.origin.text if raised.origin is not None else ""
    if not raised.message and statement.startswith("assert "):
        return one_line(statement)
    return quote_exception(raised.type, raised.message, is_test=True)


def _shorten_name(nodeid: str) -> str:
    return shortened(nodeid.partition("::")[2] or nodeid, _MAX_NAME)


def _find_own_place(failure: TestFailure) -> evidence.Location | None:
    """Return where a test failed in the user's own files, as far as that is known."""
    place = failure.location
    raised = failure.exception
    if place is None:
        return None
    is_own = not _ELSEWHERE.match(place.path)
    origin = None if raised is None else raised.origin
    frame = None if raised is None else raised.frame
    if frame is not None and frame.owner in _USERS:
        # Of a group pytest shows where it left the test; what is in it was raised
        # further in.
        is_of_group = origin is not None and origin.leaf
        is_shown = place.line == frame.line and place.path.endswith(f"/{frame.path}")
        if is_of_group or not (is_own or is_shown):
            return replace(
                place,
                path=frame.path,
                line=frame.line,
            )
        return place
    if is_own:
        return place
    if origin is not None and origin.text:
        return replace(
            place,
            path=origin.path,
            line=None,
        )
    file = failure.nodeid.partition("::")[0]
    return (
        replace(
            place,
            path=file,
            line=None,
        )
        if file
        else None
    )


def _describe_place(place: evidence.Location | None) -> str:
    if place is not None and len(place.path) > _MAX_PATH:
        end = place.path[-_MAX_PATH:]
        place = replace(place, path=f"…{end}")
    return bracket_place(place)


def _make_key(finding: Finding) -> str:
    """Return what unrecognised failures that one change fixes have in common."""
    failure = finding.failure
    raised = None if failure is None else failure.exception
    if raised is not None:
        if isinstance(failure, TestFailure) and raised.fixture is not None:
            return _make_fixture_key(raised, finding)
        key = _make_refusal_key(raised)
        if key:
            return key
    if finding.fingerprint:
        return finding.fingerprint
    if isinstance(failure, RunError):
        return f"{finding.kind} {one_line(failure.message)}"
    is_at_node = finding.kind.startswith(_AT_A_NODE)
    nodeid = finding.nodeid if is_at_node else None
    return f"{finding.reason} {finding.kind} {nodeid or ''}"


def _make_fixture_key(raised: evidence.RaisedException, finding: Finding) -> str:
    file = ""
    if raised.origin is not None:
        entry = raised.origin.entry.partition(": ")[0]
        file = entry or raised.origin.path
    kind = f"{raised.module}.{raised.type}"
    return f"fixture {raised.fixture} {file} {kind} {finding.reason}"


def _make_refusal_key(raised: evidence.RaisedException) -> str:
    """Return what refusals of one function have in common, whichever line calls it.

    Return an empty text for what the user's own code has raised, for checks that a
    library makes for a test, such as `numpy.testing` or `pytest.raises`, and where
    there are no words to compare.
    """
    function = raised.raising_function
    if raised.type in OUTCOMES:
        # `pytest.fail` is at the end of each; what has called it may be pytest itself.
        function = raised.raised_in
        if not function.startswith("_pytest.") or function in _CHECKING_MODULES:
            return ""
    if not function or not raised.message or "builtins.AssertionError" in raised.names:
        return ""
    # Imported here, because most failures are assertions, which don't come so far.
    from pytest_failure_taxonomy.taxonomy.fingerprints import normalize_message

    words = [f"{raised.module}.{raised.type}", raised.message, function]
    for linked in raised.chain:
        words += [linked.bases[0], linked.message]
    return " ".join([normalize_message(text, keeps_names=True) for text in words])
