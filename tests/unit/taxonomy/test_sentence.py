"""One sentence of what exceptions say, whoever has written it."""

from __future__ import annotations

import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.taxonomy.words import MAX_WORDS, one_line

_PARTS: Final = st.sampled_from(
    [
        *(
            "a",
            "is wrong",
            "value",
            " ",
            "\n",
            "\n\n",
            "    ",
            ":",
            ",",
            ". ",
            "'",
            '"',
        ),
        *("(", ")", "[", "]", "{", "}", "=====", "***", "| ", "# ", "-", "╔═══╗", "│"),
        *("assert ", "Expected: ", "[left]: ", "2 errors", "while ", "1. ", "* "),
        *("Traceback (most recent call last):", '  File "a.py", line 1, in f', "\r"),
        *("<module 'a' from 'b'>", "<class 'int'>", "<a.B object at 0x7f00aa00bb00>"),
        *(" at 0x7f00aa00bb00", "thread id 139703058869120", "12345678901", "id "),
        *(" See https://a.example/b for more", "[Errno 2] ", " (a.py:3)", "x" * 90),
        *("[type=a, input_value=", ", input_type=b]", "<ExceptionInfo ", " tblen=1>"),
        *("('a b', ", "0x12345678", "1.23456789 seconds", " object>", "<", ">", "é"),
    ]
)


@given(
    st.one_of(
        st.text(),
        st.lists(_PARTS, max_size=30).map("".join),
        st.integers(0, 3_000).map(lambda count: "word " * count),
    ),
    st.integers(60, MAX_WORDS),
)
def test_any_message_becomes_one_sentence(text: str, limit: int) -> None:
    """It fits, says something where the message does, and stays as it is if read again."""
    sentence = one_line(text, limit)
    assert len(sentence) <= limit
    assert len(sentence.splitlines()) <= 1
    assert bool(sentence) is bool(text.strip())
    assert one_line(sentence, limit) == sentence


@pytest.mark.parametrize(
    "part",
    [
        *("\n", " ", "(", "'", "<", "<a.", "=", "a ", "a: b\n", "[type=a, ", "0x"),
        *("See https://", "thread id ", "1", "{'a': ", ", ", "\n- ", "\n  a\n", "id 1"),
    ],
)
def test_no_message_takes_long(part: str) -> None:
    """A message of 8,000 characters that repeats what a pattern looks for takes linear time."""
    started = time.process_time()
    one_line(f"a{part * (8_000 // len(part))}b")
    assert time.process_time() - started < 2


_BOX: Final = "╔══════╗\n║ The browser is not there. ║\n╚══════╝"
_MODULE: Final = "<module 'tests.conftest' from '/tmp/a/tests/conftest.py'>"
_REMOTE: Final = (
    '\n"""\nTraceback (most recent call last):\n  File "x.py", line 3, in f\n    g()\n'
    'ValueError: bad id\n"""'
)
_PYDANTIC: Final = (
    "2 validation errors for User\nid\n  Input should be a valid integer [type=int_parsing, "
    "input_value='x', input_type=str]\n    For further information visit "
    "https://errors.pydantic.dev/2.14/v/int_parsing\nname\n  Field required [type=missing, "
    "input_value={'id': 'x'}, input_type=dict]\n    For further information visit "
    "https://errors.pydantic.dev/2.14/v/missing"
)
_SQLITE: Final = (
    "SQLite objects created in a thread can only be used in that same thread. The object was "
    "created in thread id 139703058869120 and this is thread id 139702961239744."
)
_NUMPY: Final = (
    "\nNot equal to tolerance rtol=1e-07, atol=0\n\nMismatched elements: 1 / 3 (33.3%)\n"
    "Max absolute difference among violations: 1.\n ACTUAL: array([1., 2., 3.])\n"
)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        # Decoration.
        (_BOX, "The browser is not there."),
        ("\n==========\nERROR: no engine\n==========\nmore", "ERROR: no engine"),
        ("===== no engine =====", "no engine"),
        ("*****\n* no engine *\n*****", "no engine"),
        ("3\nitems are missing", "items are missing"),
        # What looks like it and is none.
        ("--foo is no option", "--foo is no option"),
        ("__init__() takes 1 argument", "__init__() takes 1 argument"),
        ("#12 is closed", "#12 is closed"),
        ("-1 is negative", "-1 is negative"),
        ("====", "===="),
        ("3", "3"),
        ("'_re'", "'_re'"),
        # Representations, numbers and links.
        (f"{_MODULE} is there", "module tests.conftest is there"),
        ("no JSON of <a.b.<locals>.Foo object at 0x7f0a1b2c3d4e>", "no JSON of <Foo>"),
        ("<function f at 0x7f0a1b2c3d4e> hangs", "<function f> hangs"),
        ("'x' must be <class 'int'>", "'x' must be int"),
        ("<ExceptionInfo ValueError('boom') tblen=1>", "ValueError('boom')"),
        ("(\"'x' must be int\", Attribute(name='x'), 3)", "'x' must be int"),
        ("('a', 2)", "('a', 2)"),
        (_SQLITE, _SQLITE.partition(" The object")[0]),
        ("thread 139703058869120 holds it", "thread … holds it"),
        ("no room for 34359738368 bytes", "no room for 34359738368 bytes"),
        ("assert 12345678901 == 1", "assert 12345678901 == 1"),
        ("It is gone. See https://a.example/b.html for details.", "It is gone."),
        ("no table x\n(Background on this error at: https://a.example)", "no table x"),
        ("no: https://a.example/b", "no: https://a.example/b"),
        (
            "[Errno 13] Permission denied: 'data/x.json'",
            "Permission denied: 'data/x.json'",
        ),
        # What the next lines go on with.
        ("Missing:\n  - a\n  - b", "Missing: a; b"),
        (
            "Fixtures are not called directly,\nbut by pytest.",
            "Fixtures are not called directly, but by pytest.",
        ),
        (
            "while parsing a mapping\n  in a.yaml, line 1\nexpected ':'",
            "while parsing a mapping: in a.yaml, line 1 expected ':'",
        ),
        (
            _PYDANTIC,
            (
                "2 validation errors for User: id: Input should be a valid integer; name: Field "
                "required"
            ),
        ),
        (_REMOTE, "ValueError: bad id"),
        (f"it failed:\n{_REMOTE.strip()[3:]}", "it failed: ValueError: bad id"),
        # What was expected, and what came.
        (
            _NUMPY,
            (
                "Not equal to tolerance rtol=1e-07, atol=0: Mismatched elements: 1 / 3 (33.3%); "
                "Max absolute difference among violations: 1.; ACTUAL: array([1., 2., 3.])"
            ),
        ),
        (
            "expected call not found.\nExpected: mock(1)\n  Actual: mock(2)",
            "expected call not found: Expected: mock(1); Actual: mock(2)",
        ),
        (
            'Attributes differ\n\nAttribute "dtype" differs\n[left]:  int64\n[right]: float64',
            'Attribute "dtype" differs: [left]: int64; [right]: float64',
        ),
        ("no table x\n[SQL: select]\n[parameters: {}]", "no table x"),
        ("assert 1 == 2\n  a: 1\n  b: 2", "assert 1 == 2"),
        ("totals differ\nassert 1 == 2", "totals differ"),
    ],
)
def test_sentences_of_messages(message: str, sentence: str) -> None:
    """The words stay, and what only a program reads goes."""
    assert one_line(message) == sentence


@pytest.mark.parametrize(
    ("message", "limit", "sentence"),
    [
        (
            f"payload {{{', '.join(f'{n}: 0' for n in range(30))}}} lacks 'id'",
            60,
            "payload {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0,…} lacks 'id'",
        ),
        (
            f"Order(items=[{'1, ' * 40}1], tags={{}}) has no customer (a/b.py:12, from c.py)",
            80,
            "Order(items=[1, 1, 1, 1, 1, 1, 1, 1,…) has no customer (a/b.py:12, from c.py)",
        ),
        (f"'{'x' * 90}' is no name", 40, "'…' is no name"),
        (
            "many words " * 9,
            60,
            "many words many words many words many words many words …",
        ),
        (
            f"{'many words ' * 9}(a/b.py:12)",
            60,
            "many words many words many words many words … (a/b.py:12)",
        ),
    ],
)
def test_quotations_are_cut_first(message: str, limit: int, sentence: str) -> None:
    """The words behind a quotation stay, and so does the place at the end."""
    assert one_line(message, limit) == sentence
    assert len(sentence) <= limit
