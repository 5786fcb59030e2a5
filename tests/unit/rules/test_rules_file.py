"""A file of rules: what it may say, and what is said of one that can't be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.documents.problems import MAX_PROBLEMS
from pytest_failure_taxonomy.errors import RulesError
from pytest_failure_taxonomy.rules.files import MAX_BYTES, load_rules
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason
from pytest_failure_taxonomy.taxonomy.user_rules import Rule

RIGHT: Final = "a file of rules is YAML in UTF-8 that begins with `rules:`"
EXAMPLE: Final = "write `rules:` and below it a list of rules, each beginning with `- `"

EVERY_KEY: Final = r"""
rules:
  - name: database-down
    exception: psycopg.OperationalError
    message: "could not connect|Connection refused"
    nodeid: "tests/db/*"
    phase: setup
    code_owner: dependency
    package: psycopg*
    reason: SANDBOX_ERROR
    kind: sandbox.database
    severity: warn
    retryable: true
    owner: platform-team
    link: https://wiki.example.org/database
    charge_to: environment
  - phase: teardown
    reason: TESTS_FAILED
"""

TEN_MISTAKES: Final = r"""rules:
  - exeption: ValueError
    reason: SANDBX_ERROR
  - message: "(a"
    phase: cal
    kind: Sandbox
    severity: fatal
  - nodeid: 12
    reason: LLM_ERROR
    kind: sandbox.docker
    retryable: maybe
    charge_to: enviroment
  - reason: TIMEOUT
"""


def write(folder: Path, content: str | bytes) -> Path:
    """Write a file of rules."""
    path = folder / "rules.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def problems_of(path: Path) -> list[str]:
    """Return what is said of a bad file, without its path."""
    with pytest.raises(RulesError) as caught:
        load_rules(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def test_a_file_with_every_key(tmp_path: Path) -> None:
    """Each key arrives in its field; what a rule leaves out has its default."""
    assert load_rules(write(tmp_path, EVERY_KEY)) == (
        Rule(
            name="database-down",
            exception="psycopg.OperationalError",
            message="could not connect|Connection refused",
            nodeid="tests/db/*",
            phase="setup",
            code_owner="dependency",
            package="psycopg*",
            reason=FailureReason.SANDBOX_ERROR,
            kind="sandbox.database",
            severity="warn",
            retryable=True,
            owner="platform-team",
            link="https://wiki.example.org/database",
            charge_to="environment",
        ),
        Rule(
            name="rule-2",
            phase="teardown",
            reason=FailureReason.TESTS_FAILED,
            kind="rule.tests_failed",
            severity="block",
            retryable=None,
        ),
    )


@pytest.mark.parametrize("reason", FailureReason)
def test_every_reason_can_be_given(tmp_path: Path, reason: FailureReason) -> None:
    """A rule may give any of the fifteen reasons, also one without a kind."""
    path = write(tmp_path, f"rules: [{{phase: call, reason: {reason}}}]")
    (rule,) = load_rules(path)
    assert (rule.reason, rule.kind) == (reason, f"rule.{reason.lower()}")


@pytest.mark.parametrize(
    "text", ["no", "yes", "on", "off", "2026-01-01", "1_000", "12:30:45"]
)
def test_plain_scalars_are_those_of_yaml_1_2(tmp_path: Path, text: str) -> None:
    """What only YAML 1.1 takes for a boolean, a date or a number is a string."""
    path = write(tmp_path, f"rules: [{{owner: {text}, phase: call, reason: TIMEOUT}}]")
    assert load_rules(path)[0].owner == text


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """A file that an editor on Windows wrote is read: a mark at its head, CRLF at its line ends."""
    content = b"\xef\xbb\xbf" + EVERY_KEY.replace("\n", "\r\n").encode()
    assert len(load_rules(write(tmp_path, content))) == 2


def test_ten_mistakes_are_all_told_with_their_lines(tmp_path: Path) -> None:
    """All that is wrong with a file is said at once, each with its line and what would be right."""
    assert problems_of(write(tmp_path, TEN_MISTAKES)) == [
        "2: unknown key 'exeption'; did you mean exception?",
        "3: reason: 'SANDBX_ERROR' is none of the fifteen reasons; did you mean SANDBOX_ERROR?",
        (
            "4: message: '(a' is no regular expression (missing ), unterminated subpattern at"
            r" position 0); put a \ before a character that stands for itself"
        ),
        "4: the rule has no reason; add one of the fifteen, such as `reason: SANDBOX_ERROR`",
        "5: phase: 'cal' is unknown; did you mean call?",
        (
            "6: kind: 'Sandbox' is no kind; write lower-case words with dots between them,"
            " such as sandbox.database"
        ),
        "7: severity: 'fatal' is unknown; write block, warn or info",
        "8: nodeid: 12 is a number, not a string; put it in quotes",
        (
            "10: kind: sandbox.docker belongs to SANDBOX_ERROR and not to LLM_ERROR;"
            " change one of the two"
        ),
        "11: retryable: 'maybe' is neither true nor false; write one of them, without quotes",
        "12: charge_to: 'enviroment' is unknown; did you mean environment?",
        (
            "13: the rule would match every failure; add at least one of exception, message,"
            " nodeid, phase, code_owner, package"
        ),
    ]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("reason: 5", "reason: 5 is a number, not a string; put it in quotes"),
        ("reason:", "reason: is empty; give it a value or leave it out"),
        ("reason: [TIMEOUT]", "reason: is a list, not a string; write one"),
        (
            "reason: BROKEN",
            "reason: 'BROKEN' is none of the fifteen reasons; they are "
            + ", ".join(FailureReason),
        ),
        (
            "reason: timeout",
            "reason: 'timeout' is none of the fifteen reasons; did you mean",
        ),
        (
            "exception: Value Error",
            "exception: 'Value Error' is no name of a class; write it as",
        ),
        ("exception: .Error", "exception: '.Error' is no name of a class; write it as"),
        ("exception: {a: b}", "exception: is a mapping, not a string; write one"),
        ("message: ''", "message: is empty; give it a value or leave it out"),
        (
            "message: 'a{2,1}'",
            "message: 'a{2,1}' is no regular expression (min repeat greater",
        ),
        (
            "message: 'a{99999999999}'",
            "message: 'a{99999999999}' is too much for a regular",
        ),
        (
            f"message: {'a' * 1_001}",
            "message: is longer than 1,000 characters; make several",
        ),
        ("nodeid: ' '", "nodeid: is empty; give it a value or leave it out"),
        ("owner: true", "owner: true is not a string; put it in quotes"),
        (
            "retryable: yes",
            "retryable: 'yes' is neither true nor false; write one of them",
        ),
        (f"owner: {'a' * 201}", "owner: is longer than 200 characters; shorten it"),
        (
            r'owner: "a\nb"',
            r"owner: 'a\nb' is not one line of printable text; write one",
        ),
        (
            r'owner: "\e[31m"',
            r"owner: '\x1b[31m' is not one line of printable text; write one",
        ),
        ("kind: sandbox", "kind: 'sandbox' is no kind; write lower-case words"),
        ("kind: a..b", "kind: 'a..b' is no kind; write lower-case words"),
        (
            "kind: llm.mine",
            "kind: llm.mine belongs to LLM_ERROR and not to TIMEOUT; change",
        ),
        (
            "kind: git.mine",
            "kind: git.mine belongs to GIT_CLONE_FAILED or GIT_CHECKOUT_FAILED and",
        ),
        (
            "kind: test.failed",
            "kind: test.failed belongs to TESTS_FAILED and not to TIMEOUT",
        ),
        (
            "retryable: 'true'",
            "retryable: 'true' is neither true nor false; write one of them",
        ),
        ("retryable: [true]", "retryable: a list is neither true nor false; write one"),
        (
            "link: example.org",
            "link: 'example.org' is no address; begin it with https:// or",
        ),
        (
            "link: 'https://'",
            "link: 'https://' is no address; begin it with https:// or",
        ),
        (
            "phase: collect",
            "phase: 'collect' is unknown; write setup, call or teardown",
        ),
        ("code_owner: tests", "code_owner: 'tests' is unknown; did you mean test?"),
        ("package: 5", "package: 5 is a number, not a string; put it in quotes"),
        ("colour: red", "unknown key 'colour'; the keys are name, exception, message,"),
        ("5: red", "a key 5 is a number, not a string; put it in quotes"),
        ("[a]: red", "a key is a list, not a string; write one"),
        (
            "phase: !!python/name:os.system x",
            "the tag '!!python/name:os.system' is not supported;",
        ),
        ("<<: {a: b}", "a key '<<' merges other mappings; write the keys themselves"),
        ("phase: *there", "'*there' refers to an anchor; write the value itself here"),
    ],
)
def test_a_wrong_value_is_told(tmp_path: Path, rule: str, problem: str) -> None:
    """A key or value that can't be used is the one thing said of a rule that is right otherwise."""
    key = rule.partition(":")[0]
    others = ["name: one", "nodeid: 'a*'", "phase: call", "reason: TIMEOUT"]
    lines = [rule, *(other for other in others if not other.startswith(f"{key}:"))]
    path = write(tmp_path, "rules:\n  - " + "\n    ".join(lines))
    (told,) = problems_of(path)
    assert told.startswith(f"2: {problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: the file is empty; {EXAMPLE}"),
        ("# nothing\n", f"1: the file is empty; {EXAMPLE}"),
        ("null", f"1: the file is empty; {EXAMPLE}"),
        ("- a", f"1: the file begins with a list; {EXAMPLE}"),
        ("rules", f"1: the file begins with the value 'rules'; {EXAMPLE}"),
        ("{}", f"1: there are no rules; {EXAMPLE}"),
        ("rules:", f"1: rules: is empty and not a list; {EXAMPLE}"),
        ("rules: []", f"1: rules: the list is empty; {EXAMPLE}"),
        ("rules: {a: b}", f"1: rules: is a mapping and not a list; {EXAMPLE}"),
        ("rules: [a]", "1: a rule is the value 'a'; write keys and values, such as"),
        ("rules:\n-\n", "2: a rule is empty; write keys and values, such as"),
        (
            "rules:\n- [",
            "2: not YAML (while parsing a flow node; expected the node content",
        ),
        (
            "rules: []\n---\nrules: []",
            "2: not YAML (expected a single document in the stream;",
        ),
        (
            "rules:\n\t- a",
            "2: not YAML (while scanning for the next token; found character",
        ),
        (
            "rules:\n - \x01",
            r"2: holds the character '\x01', which YAML forbids; " + RIGHT,
        ),
        ("a: b\0", f"1: holds a NUL byte; {RIGHT}"),
        (b"rules:\n\x80", f"2: not UTF-8 at byte 7; {RIGHT}"),
        ("rules: []".encode("utf-16"), f" is UTF-16; {RIGHT}"),
        (b"\x89PNG\r\n\x1a\n\0\0", f"3: holds a NUL byte; {RIGHT}"),
        ("[" * 50_000, f" nested too deep; {RIGHT}"),
        ("{a: " * 15_000, f" nested too deep; {RIGHT}"),
        ("rules: *b", "1: '*b' refers to an anchor; write the value itself here"),
        (b"a" * (MAX_BYTES + 1), f" bigger than 64 KiB; {RIGHT}"),
    ],
)
def test_a_file_that_holds_no_rules(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    """What is no file of rules gets one line that says why."""
    (told,) = problems_of(write(tmp_path, content))
    assert told.startswith(problem)


def test_a_bomb_of_aliases_does_not_go_off(tmp_path: Path) -> None:
    """References are refused where they stand, and never followed."""
    levels = "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    told = problems_of(write(tmp_path, f"a0: &a0 lol\n{levels}rules: *a29\n"))
    assert told[0] == "1: unknown key 'a0'; the only key here is `rules`"
    assert told[2] == "2: '*a0' refers to an anchor; write the value itself here"
    # 30 unknown keys and 29 times 9 references, and the one that is asked for
    assert told[-1] == f" ... and {30 + 29 * 9 + 1 - MAX_PROBLEMS} more problems"


def test_names_and_keys_that_stand_twice(tmp_path: Path) -> None:
    """A name of two rules, and a key given twice, are told with the line of the first."""
    content = (
        "rules:\n- {name: a, phase: call, reason: TIMEOUT}\n- name: a\n  phase: call\n"
        "  phase: setup\n  reason: TIMEOUT\n- {name: rule-4, phase: call, reason: TIMEOUT}\n"
        "- {phase: call, reason: TIMEOUT}\nrules: []\n"
    )
    assert problems_of(write(tmp_path, content)) == [
        "3: name: 'a' is the name of the rule in line 2; each rule needs its own",
        "5: the key 'phase' stands in line 4 already; give it once",
        "8: name: 'rule-4' is the name of the rule in line 7; each rule needs its own",
        "9: the key 'rules' stands in line 1 already; give it once",
    ]


def test_a_long_list_of_problems_is_cut(tmp_path: Path) -> None:
    """More problems than anybody reads are counted."""
    told = problems_of(write(tmp_path, "rules:\n" + "- a\n" * 250))
    assert (len(told), told[-1]) == (MAX_PROBLEMS + 1, " ... and 150 more problems")


def test_paths_without_a_file(tmp_path: Path) -> None:
    """A missing file, a folder, a FIFO and a path that is none get one line each."""
    fifo = tmp_path / "fifo"
    if hasattr(os, "mkfifo"):
        os.mkfifo(fifo)
        assert problems_of(fifo) == [f" is a named pipe and not a file; {RIGHT}"]
    assert problems_of(tmp_path / "none.yaml") == [f" there is no such file; {RIGHT}"]
    assert problems_of(tmp_path) == [f" is a directory and not a file; {RIGHT}"]
    with pytest.raises(RulesError, match=r"is no path|can't be read|no such file"):
        load_rules("a\0b")


def test_a_path_can_not_forge_lines(tmp_path: Path) -> None:
    """Control characters in a path are shown as escapes."""
    with pytest.raises(RulesError, match=r"a\\nb: there is no such file") as caught:
        load_rules(tmp_path / "a\nb")
    assert "\n" not in str(caught.value)


_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(("rules",)),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.one_of(
        st.binary(), st.text().map(str.encode), _VALUES.map(repr).map(str.encode)
    )
)
def test_any_content_is_rules_or_a_list_of_problems(
    tmp_path: Path, content: bytes
) -> None:
    """Whatever is in a file, it is read or refused in words, each line with the file's name."""
    path = write(tmp_path, content)
    told = ""
    try:
        load_rules(path)
    except RulesError as error:
        told = str(error)
    assert all(line.startswith(f"{path}:") for line in told.split("\n") if told)
