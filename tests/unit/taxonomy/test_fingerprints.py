"""Fingerprints: the same for one failure, others for others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_failure_taxonomy.taxonomy import fingerprints
from pytest_failure_taxonomy.taxonomy.evidence import (
    OriginPlace,
    ProcessExit,
    RaisedException,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.fingerprints import (
    MAX_KEPT,
    MAX_TITLE,
    fingerprint_of,
    group_failures,
    is_test_code,
    normalize_message,
    title_of,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureJudgement,
    FailureReason,
    FailureType,
    Group,
    Judgement,
)
from pytest_failure_taxonomy.taxonomy.values import replace

CONNECT = OriginPlace(
    path="app/db.py",
    function="connect",
    text="return driver.open(url)",
    entry="tests/test_a.py: a",
)
REQUEST = OriginPlace(
    path="app/api.py",
    function="Client.request",
    text='raise ApiError(f"{status} {body}")',
)
CHECK = OriginPlace(
    path="tests/checks.py",
    function="is_ok",
    text="assert answer.ok",
    entry="tests/test_a.py: a",
)
ONE_TEST = OriginPlace(
    path="tests/test_a.py", function="test_a", text="assert add(1, 2) == 3"
)

SAME_WORDS = {
    "an address": (
        "<Foo object at 0x7f3a01> is gone",
        "<Foo object at 0xDEADBEEF99> is gone",
    ),
    "a UUID": (
        "job 3e4666bf-d5e5-4aa7-b8ce-cefe41c7568a lost",
        "job 00000000-d5e5-4aa7-b8ce-000041c7568a lost",
    ),
    "a commit": (
        "at 35acaa8 it broke",
        "at 0b9795f06c2ea27bd8a2f5c3f3f6a1b2c3d4e5f6 it broke",
    ),
    "a token": (
        "key sk_abc1DEF2ghi3JKL4mno refused",
        "key sk_zzz9DEF2ghi3JKL4mnopqr refused",
    ),
    "a time": ("late at 2026-11-22T01:02:03.5Z", "late at 2025-01-02 11:12:13+02:00"),
    "a duration": ("took 3.25s", "took 12 ms"),
    "a clock": ("took 0:01:30", "took 12:00"),
    "a number": ("expected -3 rows", "expected 1_000 rows"),
    "a count of one": ("1 validation error for User", "12 validation errors for User"),
    "a port": ("10.0.0.1:5432 refused", "192.168.1.20:55001 refused"),
    "a path of another machine": (
        "no file /home/ann/proj/data/set.json",
        "no file /builds/ci-7/x/data/set.json",
    ),
    "a temporary path": (
        "no file /tmp/pytest-of-ann/pytest-3/test_a0/out.txt",
        "no file /private/var/folders/x1/T/pytest-of-bob/pytest-12/test_a1/other.txt",
    ),
    "a temporary path on Windows": (
        r"no file C:\Users\ann\AppData\Local\Temp\tmpab1\x.txt",
        "no file /tmp/tmpk2_9s",
    ),
    "text in quotes": ("bad color: 'blue'", "bad color: 'light \\'green'"),
    "how long a list is": ("got [1, 2, 3]", "got ['a']"),
    "the order of a set": ("got {'a', 'b', 'c'}", "got {'c', 'a', 'b'}"),
    "a URL's path": (
        "GET https://api.io/v1/a answered 503",
        "GET https://api.io/v2 answered 502",
    ),
    "colours": ("\x1b[31mrefused\x1b[0m", "refused"),
    "parts of an assertion": ("boom\n +  where 1 = f(2)\n +    and 3 = g()", "boom"),
    "a diff": ("boom\n\n- a\n+ b\n? ^", "boom\n  Full diff:\n  - x"),
    "blanks": ("could  not\n connect", "could not connect"),
}
"""What is the difference, and two messages that differ in nothing else."""

OTHER_WORDS = {
    "words": ("connection refused", "connection reset by peer"),
    "words after a number": ("404 Not Found", "500 Internal Server Error"),
    "a URL's host": ("GET https://a.io/x failed", "GET https://b.io/x failed"),
    "a file's name": ("cannot read /srv/app/one.toml", "cannot read /srv/app/two.toml"),
    "an apostrophe is no quote": (
        "can't open it, don't try",
        "can't close it, don't try",
    ),
    "a second line": ("invalid\nname: missing", "invalid\nage: too small"),
    "an empty list": ("got [1]", "got []"),
}


@pytest.mark.parametrize(("one", "other"), SAME_WORDS.values(), ids=SAME_WORDS)
def test_values_do_not_count(one: str, other: str) -> None:
    """What differs from run to run leaves the words of a message as they are."""
    assert normalize_message(one) == normalize_message(other) != ""


@pytest.mark.parametrize(("one", "other"), OTHER_WORDS.values(), ids=OTHER_WORDS)
def test_words_count(one: str, other: str) -> None:
    """What tells two failures apart stays."""
    assert normalize_message(one) != normalize_message(other)


@given(
    st.text(alphabet=st.sampled_from("ab1 '\"/\\<*>-.:[](),x0\n+s"), max_size=60)
    | st.text()
)
@example("<*> tests items")
@example("/a/b c/d")
def test_normalizing_is_short_and_does_not_fail(text: str) -> None:
    """Whatever the message, there is one line of bounded length."""
    result = normalize_message(text)
    assert len(result) <= MAX_KEPT
    assert "\n" not in result


@given(st.integers(min_value=0), st.integers(min_value=0))
def test_numbers_and_addresses_never_matter(one: int, other: int) -> None:
    """Any two numbers and any two addresses read the same."""
    text = "row {} of <Table object at {:#x}> is bad ({})"
    assert normalize_message(text.format(one, one, -one)) == normalize_message(
        text.format(other, other, -other)
    )


@given(
    st.lists(st.sampled_from(["no", "route", "to", "host", "refused", "by", "peer"]))
)
def test_plain_words_stay(words: list[str]) -> None:
    """A message of words alone is left as it is, so normalizing it again changes nothing."""
    message = " ".join(words)
    assert (
        normalize_message(normalize_message(message))
        == normalize_message(message)
        == message
    )


@pytest.mark.parametrize(
    "text", [each for pair in SAME_WORDS.values() for each in pair]
)
def test_normalizing_twice_changes_nothing(text: str) -> None:
    """A message that was normalized before is left as it is."""
    assert normalize_message(normalize_message(text)) == normalize_message(text)


@pytest.mark.parametrize(
    "part",
    [
        "'",
        "'\\",
        "a.",
        "/a",
        "1-",
        "<*>",
        "[(",
        "a://",
        "\x1b[",
        "4-4-",
        "<*> (",
        '"a\\"',
    ],
)
def test_no_message_takes_long(part: str) -> None:
    """A message a million characters long is read no further than its words can count."""
    short, long = (normalize_message(part * count) for count in (10_000, 1_000_000))
    assert short == long


def fingerprint(
    place: OriginPlace | None,
    message: str = "",
    raised: str = "RuntimeError",
    *,
    module: str = "builtins",
    kind: str = "test.failed",
    nodeid: str = "tests/test_a.py::test_a",
) -> str:
    """Return the fingerprint of a failure of which little is said."""
    return fingerprint_of(
        failure(raised, message, place, module=module, nodeid=nodeid), kind
    )


def failure(
    raised: str,
    message: str,
    place: OriginPlace | None,
    *,
    module: str = "builtins",
    nodeid: str = "tests/test_a.py::test_a",
) -> TestFailure:
    """Return the failure of a test by an exception; by none where its type is empty."""
    exception = RaisedException(
        type=raised, module=module, message=message, origin=place
    )
    return TestFailure(
        nodeid=nodeid,
        phase="call",
        message=message,
        exception=exception if raised else None,
    )


def test_a_fingerprint_never_changes() -> None:
    """What is stored of old runs has to be found again: a new rule needs a new `VERSION`."""
    assert fingerprint(CONNECT, "refused by 10.0.0.1") == "96fe71ce1ee57783"


def test_the_phase_does_not_count() -> None:
    """A function that fails in a fixture and in a test is one cause."""
    assert fingerprint(CONNECT, kind="test.setup_error") == fingerprint(
        CONNECT, kind="test.failed"
    )


def test_which_test_calls_does_not_count() -> None:
    """Three hundred tests that fail in one function of the product are one group."""
    other = replace(CONNECT, entry="tests/test_b.py: b")
    assert fingerprint(CONNECT) == fingerprint(other, nodeid="tests/test_b.py::b[3]")


@pytest.mark.parametrize(
    "change",
    [
        {"path": "app/x.py"},
        {"function": "close"},
        {"text": "driver.close()"},
        {"leaf": "OSError"},
    ],
)
def test_the_place_counts(change: dict[str, str]) -> None:
    """Another file, function, statement or exception of a group is another failure."""
    assert fingerprint(CONNECT) != fingerprint(replace(CONNECT, **change))


def test_the_type_counts_and_the_module_by_its_package() -> None:
    """A library that moves its exceptions about inside changes nothing."""
    assert fingerprint(CONNECT, raised="Error") != fingerprint(
        CONNECT, raised="OtherError"
    )
    old, new = (
        fingerprint(CONNECT, module=each) for each in ("openai.error", "openai._errors")
    )
    assert old == new != fingerprint(CONNECT, module="anthropic")


def test_words_part_failures_of_one_helper() -> None:
    """A helper that raises for many causes is as many groups as it has words for."""
    codes = ["404 not found", "500 server error", "501 server error"]
    assert len({fingerprint(REQUEST, code) for code in codes}) == 2


def test_parameters_do_not_count_in_the_users_own_message() -> None:
    """The parameter of a test is a value in the message that a `raise` makes of it."""
    place = replace(REQUEST, text='raise ValueError(f"unknown color {color}")')
    one, other, none = (
        fingerprint(place, f"unknown color {color}", nodeid=f"t.py::test_a[{color}]")
        for color in ("blue", "light green", "color")
    )
    assert one == other
    assert none != fingerprint(place, "no such thing", nodeid="t.py::test_a[color]")


@pytest.mark.parametrize("parameter", ["0", "/srv", "a1", "3.5", ""])
def test_parameters_that_are_no_words_leave_a_message_alone(parameter: str) -> None:
    """A parameter `0` is no reason to take a time apart."""
    message = "refused after 17953134.0 s in /tmp/x/0-0 by 67548d-0"
    place = replace(REQUEST, text='raise OSError(f"refused {x}")')
    one, other = (
        fingerprint(place, message, nodeid=f"t.py::a[{each}]")
        for each in (parameter, "z")
    )
    assert one == other


def test_a_parameter_is_not_looked_for_in_an_objects_address() -> None:
    """The `at` that Python writes before an address is no value, also for a parameter `at`."""
    message = "refused with <object object at 0x7f3a01>"
    place = replace(REQUEST, text='raise OSError(f"refused with {x!r}")')
    one, other = (
        fingerprint(place, message, nodeid=f"t.py::a[{each}]")
        for each in ("masked-at-source", "z")
    )
    assert one == other


@pytest.mark.parametrize(
    "message", ["assert 3 == 4", "the sum is wrong\nassert 1 == 2"]
)
def test_an_assertion_is_known_by_its_place(message: str) -> None:
    """The values that an assertion compared, and its words, say no more than the statement."""
    assert fingerprint(ONE_TEST, message, "AssertionError") == fingerprint(
        ONE_TEST, "assert 0", "AssertionError"
    )


def test_an_assertion_raised_by_hand_is_known_by_its_words() -> None:
    """`raise AssertionError(why)` stands in helpers that have many causes."""
    place = replace(REQUEST, text="raise AssertionError(why)")
    one, other = (
        fingerprint(place, why, "AssertionError") for why in ("too hot", "too cold")
    )
    assert one != other


def test_a_check_in_a_helper_of_the_tests_counts_for_each_test() -> None:
    """Who calls `assert answer.ok` in a helper decides; in the product, nobody asks."""
    other = replace(CHECK, entry="tests/test_b.py: b")
    assert fingerprint(CHECK, raised="AssertionError") != fingerprint(
        other, raised="AssertionError"
    )
    product = [replace(each, path="app/checks.py") for each in (CHECK, other)]
    assert len({fingerprint(each, raised="AssertionError") for each in product}) == 1


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("ModuleNotFoundError", "No module named 'tomlkit'"),
        (
            "ImportError",
            "cannot import name 'a' from 'app' (/home/ann/app/__init__.py)",
        ),
        ("ImportError", "libfoo.so.1: cannot open shared object file"),
    ],
)
def test_what_cannot_be_imported_decides(raised: str, message: str) -> None:
    """Forty modules that import the same missing thing have one cause."""
    one, other = (
        OriginPlace(
            path=f"tests/test_{name}.py", function="<module>", text=f"import {name}"
        )
        for name in "ab"
    )
    expected = fingerprint(one, message, raised)
    assert expected == fingerprint(other, message.replace("/home/ann", "/srv"), raised)
    assert expected != fingerprint(one, message.replace("'a'", "'b'") + "'x'", raised)


def test_an_import_error_of_the_users_own_has_a_place() -> None:
    """A `raise ImportError` is like any other `raise`."""
    places = [
        replace(REQUEST, path=path, text="raise ImportError(x)")
        for path in ("a.py", "b.py")
    ]
    assert (
        len({fingerprint(each, "needs libfoo", "ImportError") for each in places}) == 2
    )


@pytest.mark.parametrize(
    ("raised", "message", "same", "other"),
    [
        (
            "TypeError",
            "f() got an unexpected keyword argument 'a'",
            "f() got an unexpected keyword argument 'a'. Did you mean 'b'?",
            "f() got an unexpected keyword argument 'c'",
        ),
        (
            "AttributeError",
            "module 'random' has no attribute 'seeed'",
            "module 'random' has no attribute 'seeed' (consider renaming '/x/random.py' since …)",
            "'NoneType' object has no attribute 'seeed'",
        ),
    ],
)
def test_names_of_the_code_count(
    raised: str, message: str, same: str, other: str
) -> None:
    """What Python says of names counts, the advice that newer versions add does not."""
    expected = fingerprint(CONNECT, message, raised)
    assert expected == fingerprint(CONNECT, same, raised)
    assert expected != fingerprint(CONNECT, other, raised)


@pytest.mark.parametrize(
    "raised", ["RecursionError", "SyntaxError", "IndentationError"]
)
def test_wordings_of_python_versions_do_not_count(raised: str) -> None:
    """Type and place say all of a failure whose wording changes with Python."""
    assert fingerprint(CONNECT, "one", raised) == fingerprint(CONNECT, "other", raised)


def test_a_timeout_is_known_by_its_function() -> None:
    """In which statement a loop was interrupted is chance."""
    one, other = (replace(CONNECT, text=text) for text in ("n += 1", "while n:"))
    timeouts = {
        fingerprint(each, "T", "Failed", kind="test.timeout") for each in (one, other)
    }
    assert len(timeouts) == 1
    assert fingerprint(one, "T", "Failed") not in timeouts


def test_without_an_exception_the_test_and_the_kind_decide() -> None:
    """Crashes and strict xpasses are known by their test, whatever its parameters."""
    crash = fingerprint(None, "worker 'gw0' crashed", "", kind="worker.crashed")
    parametrised = "tests/test_a.py::test_a[x::y-[z]]"
    assert crash == fingerprint(
        None, "gw1", "", kind="worker.crashed", nodeid=parametrised
    )
    assert crash != fingerprint(None, "", "", kind="test.xpass_strict")
    assert crash != fingerprint(
        None, "", "", kind="worker.crashed", nodeid="tests/test_a.py::b"
    )


def test_a_doctest_is_known_by_its_name() -> None:
    """All doctests are raised by one line of the standard library."""
    place = OriginPlace(path="doctest.py", function="report_failure")
    one, other = (
        fingerprint(
            place, raised="MultipleDoctestFailures", nodeid=f"app.py::app.{name}"
        )
        for name in "ab"
    )
    assert one != other


def test_the_place_of_a_test() -> None:
    """A node id gives path and function, without parameters."""

    def of_crash(nodeid: str) -> str:
        return fingerprint(None, "", "", kind="worker.crashed", nodeid=nodeid)

    names = ("a/test_b.py::TestC::test_d", "a/test_b.py", "b/test_b.py::TestC::test_d")
    assert len({of_crash(each) for each in names}) == 3
    assert of_crash(names[0]) == of_crash(f"{names[0]}[e-f]")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/checks.py", True),
        ("conftest.py", True),
        ("app/test_x.py", True),
        ("app/x_test.py", True),
        ("app/contest.py", False),
        ("tests.py/x.py", False),
    ],
)
def test_what_is_test_code(path: str, *, expected: bool) -> None:
    """Names that everybody uses tell the tests from the product."""
    assert is_test_code(path) is expected


@pytest.mark.parametrize(
    ("raised", "message", "place", "expected"),
    [
        ("OSError", "refused\nmore", CONNECT, "OSError: refused (app/db.py: connect)"),
        ("OSError", "", CONNECT, "OSError (app/db.py: connect)"),
        ("", "[XPASS(strict)] a  bug", None, "[XPASS(strict)] a bug"),
        (
            "SyntaxError",
            "bad",
            OriginPlace(path="a.py", function=""),
            "SyntaxError: bad (a.py)",
        ),
    ],
)
def test_a_title_is_one_line(
    raised: str, message: str, place: OriginPlace | None, expected: str
) -> None:
    """A group is named by type, first line and place."""
    assert title_of(failure(raised, message, place)) == expected


def test_a_title_is_short() -> None:
    """However long message and path are, a title fits."""
    title = title_of(failure("E", "m" * 999, OriginPlace(path="p" * 999, function="f")))
    assert len(title) == MAX_TITLE
    assert title.endswith("…)")


def grouped(seen: Sequence[tuple[str, str, str, str]]) -> tuple[Group, ...]:
    """Return groups of failures, given as fingerprint, node id, kind and message of each."""
    run = RunEvidence(
        exit=ProcessExit(code=1, source="pytest"),
        failures=tuple(
            TestFailure(nodeid=nodeid, phase="call", message=message)
            for _, nodeid, _, message in seen
        ),
    )
    judged = tuple(
        FailureJudgement(
            reason=FailureReason.TESTS_FAILED,
            kind=kind,
            failure_type=FailureType.UNKNOWN,
            fingerprint=fingerprint,
        )
        for fingerprint, _, kind, _ in seen
    )
    return group_failures(run, Judgement(exit_reason=None, failures=judged))


def test_groups_are_sorted_and_count_all() -> None:
    """Biggest first, then the one that occurred first; of a test that fails twice, one node id."""
    groups = grouped(
        [
            ("b", "t::1", "test.setup_error", "first of b"),
            ("a", "t::2", "test.failed", "first of a"),
            ("c", "t::3", "test.failed", "first of c"),
            ("c", "t::3", "test.teardown_error", "second of c"),
            ("c", "t::4", "test.teardown_error", "third of c"),
        ]
    )
    assert [(each.fingerprint, each.count) for each in groups] == [
        ("c", 3),
        ("b", 1),
        ("a", 1),
    ]
    assert groups[0].nodeids == ("t::3", "t::4")
    assert (groups[0].kind, groups[0].title) == ("test.teardown_error", "first of c")


def test_ten_thousand_failures_of_five_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every failure counts, and a title is made once a group."""
    titles: list[str] = []

    def title(failed: TestFailure) -> str:
        titles.append(title_of(failed))
        return titles[-1]

    monkeypatch.setattr(fingerprints, "title_of", title)
    groups = grouped(
        [
            (
                f"{number % 5}",
                f"t.py::test_{number}",
                "test.failed",
                f"cause {number % 5}",
            )
            for number in range(10_000)
        ]
    )
    assert [each.count for each in groups] == [2_000] * 5
    assert (
        [each.title for each in groups]
        == [f"cause {name}" for name in range(5)]
        == titles
    )


@pytest.mark.parametrize(
    "shown",
    [
        "(1, 'one')",
        "[1, 2]",
        "'ABCDE'",
        "<itertools.islice object at 0x7f>",
        "{'a': [1]}",
        "None",
        "3.5",
        "[[1], [2]]",
        "True",
    ],
)
def test_a_value_of_any_type_is_a_value(shown: str) -> None:
    """What a message shows of a parameter does not count, whatever its type is."""
    assert normalize_message(f"no item in {shown}, sorry") == "no item in <*>, sorry"


@pytest.mark.parametrize(
    "text", ["f() takes nothing", "none of them", "is [sic] right", "a.None"]
)
def test_words_and_calls_are_no_values(text: str) -> None:
    """Brackets of a call, and words that only look like a constant, stay."""
    assert normalize_message(text) == text
