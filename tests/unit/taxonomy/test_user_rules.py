"""Rules of users: which failure one is about, and which of several comes first."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy.evidence import (
    RaisedException,
    RaisingFrame,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    KIND_FAMILIES,
    FailureReason,
    known_kinds,
)
from pytest_failure_taxonomy.taxonomy.user_rules import (
    MAX_SEARCHED,
    Rule,
    default_kind,
    match_rule,
    reasons_of_kind,
)
from pytest_failure_taxonomy.taxonomy.values import replace

REFUSED: Final = RaisedException(
    type="ConnectionError",
    module="requests.exceptions",
    message="Connection refused",
    bases=(
        "requests.exceptions.ConnectionError",
        "requests.exceptions.RequestException",
        "builtins.OSError",
        "builtins.Exception",
        "builtins.BaseException",
    ),
)


def rule(name: str = "one", **match: Any) -> Rule:
    """Return a rule about something."""
    return Rule(
        name=name, reason=FailureReason.SANDBOX_ERROR, kind="sandbox.x", **match
    )


def is_matched(given: Rule, **failure: Any) -> bool:
    """Tell whether a rule matches a failure, which is the usual one but for what is given."""
    usual: dict[str, Any] = {
        "exception": REFUSED,
        "message": "requests.exceptions.ConnectionError: Connection refused",
        "nodeid": "tests/db/test_it.py::TestIt::test_it[a-1]",
        "phase": "call",
    }
    return match_rule([given], TestFailure(**{**usual, **failure})) is given


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("ConnectionError", True),
        ("requests.exceptions.ConnectionError", True),
        ("requests.ConnectionError", True),
        ("exceptions.ConnectionError", True),
        ("RequestException", True),
        ("requests.RequestException", True),
        ("OSError", True),
        ("builtins.OSError", True),
        ("BaseException", True),
        ("Error", False),
        ("ectionError", False),
        ("requests.OSError", False),
        ("urllib3.ConnectionError", False),
        ("requests.adapters.ConnectionError", False),
        ("exceptions.requests.ConnectionError", False),
        ("connectionerror", False),
        ("requests", False),
    ],
)
def test_an_exception_matches_by_name_or_base(name: str, matches: bool) -> None:
    """A bare or dotted name matches the class and what is derived from it, by whole words."""
    assert is_matched(rule(exception=name)) is matches


def test_an_exception_without_known_bases_matches_by_its_own_name() -> None:
    """Where only a log told of it, the class's own name has to do."""
    only = RaisedException(type="Book.DoesNotExist", module="app.models", message="")
    for name in ("DoesNotExist", "Book.DoesNotExist", "app.models.Book.DoesNotExist"):
        assert is_matched(rule(exception=name), exception=only)
    assert not is_matched(rule(exception="Exception"), exception=only)
    assert not is_matched(rule(exception="OSError"), exception=None)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ({"code_owner": "dependency"}, True),
        ({"code_owner": "project"}, False),
        ({"package": "requests"}, True),
        ({"package": "Requests"}, True),
        ({"package": "request"}, False),
        ({"package": "req*"}, True),
        ({"package": "requests 2.*"}, True),
        ({"package": "requests 3.*"}, False),
        ({"package": "requests", "code_owner": "plugin"}, False),
        ({"package": "*", "code_owner": "dependency"}, True),
    ],
)
def test_whose_code_raised_it_matches(match: dict[str, Any], matches: bool) -> None:
    """The name of a distribution is matched as it is, or with its version after a space."""
    frame = RaisingFrame(
        owner="dependency",
        package="requests 2.32.5",
        module="requests.adapters",
        function="HTTPAdapter.send",
        path="requests/adapters.py",
        line=677,
    )
    assert is_matched(rule(**match), exception=replace(REFUSED, frame=frame)) is matches
    project = replace(frame, owner="project", package=None)
    is_project = match == {"code_owner": "project"}
    assert (
        is_matched(rule(**match), exception=replace(REFUSED, frame=project))
        is is_project
    )
    assert not is_matched(rule(**match), exception=REFUSED)
    assert not is_matched(rule(**match), exception=None)


@pytest.mark.parametrize(
    ("written", "matches"),
    [("pytest-cov", True), ("Pytest_Cov", True), ("pytest.cov", False)],
)
def test_a_distribution_has_many_spellings(written: str, matches: bool) -> None:
    """Hyphens and underscores are one, as installers have it, and so are both cases."""
    frame = RaisingFrame(
        owner="plugin",
        package="pytest-cov 7.1.0",
        module="m",
        function="f",
        path="p",
        line=None,
    )
    assert (
        is_matched(rule(package=written), exception=replace(REFUSED, frame=frame))
        is matches
    )


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("refused", True),
        ("^Connection", True),
        ("^requests", True),
        ("refused$", True),
        ("could not connect|refused", True),
        ("(?i)REFUSED", True),
        ("REFUSED", False),
        ("^refused", False),
    ],
)
def test_a_message_is_searched(pattern: str, matches: bool) -> None:
    """A pattern is searched in the exception's message and in pytest's line about the failure."""
    assert is_matched(rule(message=pattern)) is matches


def test_a_message_is_searched_as_far_as_it_is_short() -> None:
    """What stands behind the cap does not count."""
    for length, matches in ((MAX_SEARCHED - 1, True), (MAX_SEARCHED, False)):
        message = "x" * length + "y"
        assert is_matched(rule(message="y"), exception=None, message=message) is matches


@pytest.mark.parametrize(
    ("glob", "matches"),
    [
        ("tests/db/*", True),
        ("tests/*", True),
        ("*::test_it*", True),
        ("tests/db/test_it.py::TestIt::test_it[a-1]", True),
        ("*test_it[?-1]", True),
        ("*[a-*]", True),
        ("*[[]*", False),
        ("tests/db", False),
        ("tests/api/*", False),
        ("TESTS/db/*", False),
    ],
)
def test_a_node_id_matches_by_glob(glob: str, matches: bool) -> None:
    """A glob is for the whole node id; brackets in it are those of a parametrised test."""
    assert is_matched(rule(nodeid=glob)) is matches


def test_a_phase_matches_itself() -> None:
    """A rule for one phase leaves the others alone."""
    assert is_matched(rule(phase="setup"), phase="setup")
    assert not is_matched(rule(phase="setup"))


def test_all_that_a_rule_says_has_to_hold() -> None:
    """Several fields narrow a rule down."""
    whole = {
        "exception": "OSError",
        "message": "refused",
        "nodeid": "tests/*",
        "phase": "call",
    }
    assert is_matched(rule(**whole))
    for field, other in (
        ("exception", "ValueError"),
        ("message", "granted"),
        ("nodeid", "src/*"),
        ("phase", "teardown"),
    ):
        assert not is_matched(rule(**{**whole, field: other}))


def test_the_first_rule_wins() -> None:
    """The order of the file decides, not how exact a rule is; without any, there is none."""
    failure = TestFailure(exception=REFUSED, message="", nodeid="a.py::b", phase="call")
    wide, narrow = (
        rule("wide", exception="Exception"),
        rule("narrow", message="refused"),
    )
    assert match_rule([wide, narrow], failure) is wide
    assert match_rule([narrow, wide], failure) is narrow
    assert match_rule([], failure) is None


def test_a_search_can_be_given() -> None:
    """The caller decides how a pattern is searched, and is asked only where the rest matches."""
    asked: list[tuple[str, str]] = []

    def search(pattern: str, text: str) -> bool:
        asked.append((pattern, text))
        return False

    rules = [rule(message="a", phase="setup"), rule(message="b")]
    failure = TestFailure(
        exception=REFUSED, message="Connection refused", nodeid="a.py::b", phase="call"
    )
    found = match_rule(rules, failure, search)
    assert (found, asked) == (None, [("b", "Connection refused")])


def test_kinds_belong_to_reasons() -> None:
    """A published kind keeps its reason; the families of kinds have theirs; others are free."""
    assert reasons_of_kind("test.timeout") == (FailureReason.TIMEOUT,)
    assert reasons_of_kind("sandbox.database") == (FailureReason.SANDBOX_ERROR,)
    assert reasons_of_kind("sandbox.a.b") == (FailureReason.SANDBOX_ERROR,)
    assert reasons_of_kind("command.failed") == ()
    assert reasons_of_kind("billing.late") == ()
    for kind, row in known_kinds().items():
        family = KIND_FAMILIES.get(kind.partition(".")[0])
        assert family is None or row.reason in family


@pytest.mark.parametrize("reason", FailureReason)
def test_a_rule_without_a_kind_gets_one(reason: FailureReason) -> None:
    """The kind of a rule that names none says its reason, and is none of the published ones."""
    kind = default_kind(reason)
    assert kind == f"rule.{reason.lower()}"
    assert kind not in known_kinds()
    assert reasons_of_kind(kind) == ()
