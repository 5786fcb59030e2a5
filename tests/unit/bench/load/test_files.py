"""The files beside the cases: every problem of each, in its exact words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import RUNNER_CODES
from pytest_failure_taxonomy.bench.sharding import taxonomy_digest
from tests.unit.bench.load.a_class import problems_of, write_class

CODES: Final = (
    "write codes, such as `tests.failed: {severity: block, description: A test fails}`"
)
CODES_FORM: Final = "failure_modes.yaml is YAML in UTF-8 with a code in each line"
KEYS: Final = "write a list of keys, such as `- precision`, or [] for none"
ENUM: Final = (
    'write `class BreakdownKey(StrEnum):` and below it members, such as `OK = "ok"`'
)
ONLY: Final = "write a docstring, imports from enum and one plain StrEnum alone"
GRADE: Final = "write `def grade(case, output):`"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: the file is empty; {CODES}, or {{}} for none"),
        ("# nothing\n", f"1: the file is empty; {CODES}, or {{}} for none"),
        ("- a.b\n", f"1: the file begins with a list; {CODES}"),
        ("tests.failed", f"1: the file begins with the value 'tests.failed'; {CODES}"),
        ("a:", "1: 'a' is empty; write severity: and description: below it"),
        (
            "a: block",
            "1: 'a' is the value 'block'; write severity: and description: below it",
        ),
        ("a: {severity: block}", "1: 'a' has no description; say what the code means"),
        ("a: {description: x}", "1: 'a' has no severity; add one of block, warn, info"),
        (
            "a:\n  severity: fatal\n  description: x",
            "2: a.severity: 'fatal' is unknown; write block, warn or info",
        ),
        (
            "a: {severity: Warn, description: x}",
            "1: a.severity: 'Warn' is unknown; did you mean warn?",
        ),
        (
            "a: {severity: , description: x}",
            "1: a.severity: is empty; give it a value or leave it out",
        ),
        (
            "a: {severity: info, description: }",
            "1: a.description: is empty; give it a value or leave it out",
        ),
        (
            "a: {severity: info, description: ' '}",
            "1: a.description: is empty; say what the code means",
        ),
        (
            "a: {severity: info, description: 5}",
            "1: a.description: 5 is a number, not a string; put it in quotes",
        ),
        (
            "a: {severity: info, description: [x]}",
            "1: a.description: is a list, not a string; write one",
        ),
        (
            "a: {severity: info, descripton: x}",
            "1: unknown key 'a.descripton'; did you mean description?",
        ),
        (
            "a: {severity: info, description: x, owner: me}",
            "1: unknown key 'a.owner'; the keys are severity, description",
        ),
        (
            (
                "a: {severity: info, description: x}\nb: {severity: info, description: x}\n"
                "a: {severity: block, description: x}"
            ),
            "3: the key 'a' stands in line 1 already; give it once",
        ),
        (
            "a: {severity: info, severity: block, description: x}",
            "1: the key 'severity' stands in line 1 already; give it once",
        ),
        (
            "404: {severity: info, description: x}",
            "1: a key 404 is a number, not a string; put it in quotes",
        ),
        (
            "true: {severity: info, description: x}",
            "1: a key true is not a string; put it in quotes",
        ),
        (
            "? [a]\n: {severity: info, description: x}",
            "1: a key is a list, not a string; write one",
        ),
        (
            "a b: {severity: info, description: x}",
            (
                "1: a code 'a b' is no name; write printable characters without blanks,"
                " such as tests.failed"
            ),
        ),
        (
            '"a\\tb": {severity: info, description: x}',
            (
                r"1: a code 'a\tb' is no name; write printable characters without blanks,"
                " such as tests.failed"
            ),
        ),
        (
            "'': {severity: info, description: x}",
            "1: a code is empty; give it a name, such as tests.failed",
        ),
        (
            f"{'a' * 201}: {{severity: info, description: x}}",
            f"1: a code '{'a' * 59}…' is longer than 200 characters; shorten it",
        ),
        (
            "a: &x {severity: info, description: x}\nb: *x",
            "2: '*x' refers to an anchor; write the value itself here",
        ),
        (
            "<<: {severity: info, description: x}",
            "1: a key '<<' merges other mappings; write the keys themselves",
        ),
        (
            "a: {}\n---\nb: {}",
            "2: not YAML (expected a single document in the stream; but found",
        ),
        ("a: {\nb: ]\n", "2: not YAML ("),
        (b"a: \xff", f"1: not UTF-8 at byte 3; {CODES_FORM}"),
        ("a: \0", f"1: holds a NUL byte; {CODES_FORM}"),
        (
            "a:\n- \x07",
            rf"2: holds the character '\x07', which YAML forbids; {CODES_FORM}",
        ),
        ("a: {}".encode("utf-16"), f" is UTF-16; {CODES_FORM}"),
        ("[" * 5_000, f" nested too deep; {CODES_FORM}"),
        ("a" * (1024 * 1024 + 1), f" bigger than 1 MiB; {CODES_FORM}"),
    ],
)
def test_failure_modes(tmp_path: Path, content: str | bytes, problem: str) -> None:
    """A mistake in the codes is told first of all."""
    write_class(tmp_path, {"failure_modes.yaml": content})
    told = problems_of(tmp_path)[0]
    assert told.startswith(f"failure_modes.yaml:{problem}")


@pytest.mark.parametrize("severity", ["warn", "info"])
@pytest.mark.parametrize("code", RUNNER_CODES)
def test_a_runner_code_is_block(tmp_path: Path, code: str, severity: str) -> None:
    """Nobody can make the runner's own failures harmless."""
    content = f"{code}:\n  description: x\n  severity: {severity}\n"
    write_class(tmp_path, {"failure_modes.yaml": content})
    assert problems_of(tmp_path) == [
        f"failure_modes.yaml:3: {code!r} is the runner's own code; its severity is block"
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: the file is empty; {KEYS}"),
        ("a: b", f"1: the file begins with a mapping; {KEYS}"),
        ("a", f"1: the file begins with the value 'a'; {KEYS}"),
        ("- a\n- 5", "2: a key 5 is a number, not a string; put it in quotes"),
        ("- a\n-", "2: a key is empty; give it a value or leave it out"),
        ("- a\n- ''", "2: a key is empty; give it a name, such as tests.failed"),
        ("- [a]", "1: a key is a list, not a string; write one"),
        ("- a\n- b\n- a", "3: the key 'a' stands in line 1 already; give it once"),
        (
            "- a b",
            "1: a key 'a b' is no name; write printable characters without blanks, such as",
        ),
        ("- &x a\n- *x", "2: '*x' refers to an anchor; write the value itself here"),
        (
            "- Model_Says_so",
            (
                "1: the key 'Model_Says_so' holds 'model_says', a model's opinion of itself"
                " ([Model_Says]_so); name what the rubric measures"
            ),
        ),
        (
            "- the_CONFIDENCE",
            "1: the key 'the_CONFIDENCE' holds 'confidence', a model's opinion",
        ),
        (
            "- AllMost",
            "1: the key 'AllMost' holds 'llm', a model's opinion of itself (A[llM]ost); ",
        ),
        (
            "- self_reported",
            "1: the key 'self_reported' holds 'self_reported', a model's opinion",
        ),
        (
            "- stars: [1, 5]",
            "1: 'stars' is a list; write `- stars: {range: [1, 5]}`, or the key",
        ),
        (
            "- stars: {}",
            "1: 'stars' has no range; write `- stars: {range: [1, 5]}`, or the key",
        ),
        (
            "- stars: {range: [5, 1]}",
            "1: stars.range: is no range; write the least value and a",
        ),
        (
            "- stars: {range: [1]}",
            "1: stars.range: is no range; write the least value and a",
        ),
        ("- stars: {rang: [1, 5]}", "1: unknown key 'stars.rang'; did you mean range?"),
        (
            "- a\n- a: {range: [1, 5]}",
            "2: the key 'a' stands in line 1 already; give it once",
        ),
    ],
)
def test_breakdown_keys(tmp_path: Path, content: str, problem: str) -> None:
    """A mistake in the keys is the one thing told of a class that is good otherwise."""
    write_class(tmp_path, {"breakdown_keys.yaml": content})
    (told,) = problems_of(tmp_path)
    assert told.startswith(f"breakdown_keys.yaml:{problem}")


def test_keys_with_a_range(tmp_path: Path) -> None:
    """A key may have values beyond 0 to 1 if its class says so; that is part of the taxonomy."""
    write_class(
        tmp_path, {"breakdown_keys.yaml": "- right\n- stars: {range: [1, 5]}\n"}
    )
    loaded = load_task_class(tmp_path)
    assert loaded.breakdown_keys == {"right", "stars"}
    assert loaded.breakdown_ranges == {"stars": (1.0, 5.0)}
    plain = loaded.model_copy(update={"breakdown_ranges": {}})
    assert taxonomy_digest(loaded) != taxonomy_digest(plain)


def test_one_file_of_breakdown_keys(tmp_path: Path) -> None:
    """There is the YAML or the Python, and not both or neither."""
    write_class(tmp_path / "none", {"breakdown_keys.yaml": None})
    told = f"breakdown_keys.yaml: there is no such file; {KEYS}"
    assert problems_of(tmp_path / "none") == [told]
    write_class(tmp_path / "both", {"breakdown_keys.py": ""})
    told = "breakdown_keys.py: stands beside breakdown_keys.yaml; keep one of the two"
    assert problems_of(tmp_path / "both") == [told]


HEAD: Final = "from enum import StrEnum\nclass K(StrEnum):\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: there is no StrEnum; {ENUM}"),
        ("class K(StrEnum)\n", "1: not Python (expected ':'); fix the syntax"),
        ("x = (\n", "1: not Python ('(' was never closed); fix the syntax"),
        ("-" * 50_000 + "1", " not Python ("),
        (
            HEAD + "    A = 'a'\nprint('hello')",
            f"4: \"print('hello')\" can't stand here; {ONLY}",
        ),
        (
            "import os\n" + HEAD + "    A = 'a'",
            f"1: 'import os' can't stand here; {ONLY}",
        ),
        (
            HEAD + "    A = 'a'\nclass L(StrEnum):\n    B = 'b'",
            "4: 'class L(StrEnum):' can't stand here;",
        ),
        ("class K:\n    A = 'a'", f"1: 'class K:' can't stand here; {ONLY}"),
        (
            "@x\nclass K(StrEnum):\n    A = 'a'",
            f"2: '@x' can't stand here; {ONLY}",
        ),
        (
            HEAD + "    A = auto()",
            "3: 'A = auto()' is no member with a text of its own; write NAME",
        ),
        (
            HEAD + "    A = 5",
            "3: 'A = 5' is no member with a text of its own; write NAME = \"key\"",
        ),
        (
            HEAD + "    A = B = 'a'",
            "3: \"A = B = 'a'\" is no member with a text of its own; write",
        ),
        (
            HEAD + "    def f(self): ...",
            "3: 'def f(self):' is no member with a text of its own;",
        ),
        (HEAD + "    _A = 'a'", "3: \"_A = 'a'\" is no member with a text of its own"),
        (
            HEAD + "    A = 'a'\n    A = 'b'",
            "4: the member 'A' stands in line 3 already; give it",
        ),
        (
            HEAD + "    A = 'a'\n    B = 'a'",
            "4: the key 'a' stands in line 3 already; give it once",
        ),
        (
            HEAD + "    A = 'x_llm'",
            "3: the key 'x_llm' holds 'llm', a model's opinion of itself",
        ),
        (
            HEAD + "    A = ''",
            "3: a key is empty; give it a name, such as tests.failed",
        ),
        (
            b"\xff",
            "1: not UTF-8 at byte 0; breakdown_keys.py is Python in UTF-8 with one StrEnum",
        ),
    ],
)
def test_breakdown_keys_in_python(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    """The file is parsed and never run; what is no text of a member is told with its line."""
    write_class(tmp_path, {"breakdown_keys.yaml": None, "breakdown_keys.py": content})
    (told,) = problems_of(tmp_path)
    assert told.startswith(f"breakdown_keys.py:{problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "- a",
            "1: the file begins with a list; write keys and values, such as `concurrency: 4`",
        ),
        (
            "timeout: 5",
            "1: unknown key 'timeout'; the keys are sut, sut_version, sut_isolation, ",
        ),
        ("concurency: 5", "1: unknown key 'concurency'; did you mean concurrency?"),
        (
            "repeat: 1\nrepeat: 2",
            "2: the key 'repeat' stands in line 1 already; give it once",
        ),
        ("sut:", "1: sut: is empty; give it a value or leave it out"),
        ("sut: 5", "1: sut: 5 is a number, not a string; put it in quotes"),
        (
            "sut: a.b",
            "1: sut: 'a.b' names no callable; write it as package.module:callable",
        ),
        (
            "sut: a-b:c",
            "1: sut: 'a-b:c' names no callable; write it as package.module:callable",
        ),
        (
            "sut_isolation: proces",
            "1: sut_isolation: 'proces' is unknown; did you mean process?",
        ),
        (
            "rubric_isolation: no",
            "1: rubric_isolation: 'no' is unknown; write warm or fresh",
        ),
        (
            "rubric_isolation: 5",
            "1: rubric_isolation: 5 is unknown; write warm or fresh",
        ),
        (
            "timeout_per_case_seconds: 0",
            "1: timeout_per_case_seconds: 0 is not more than 0; write a bigger number",
        ),
        (
            "rubric_wall_clock_seconds: '5'",
            "1: rubric_wall_clock_seconds: '5' is not a number; write one, without quotes",
        ),
        (
            "rubric_wall_clock_seconds: true",
            "1: rubric_wall_clock_seconds: true is not a number; write one",
        ),
        (
            "timeout_per_case_seconds: 1:30",
            "1: timeout_per_case_seconds: '1:30' is not a number; write one, without quotes",
        ),
        (
            "timeout_per_case_seconds: .inf",
            "1: '.inf' is no number to JSON; write null or put it in quotes",
        ),
        (
            "timeout_per_case_seconds: 1e10",
            (
                "1: timeout_per_case_seconds: 10000000000.0 is more than 1,000,000,000;"
                " write 1,000,000,000 or less"
            ),
        ),
        ("concurrency: 0", "1: concurrency: 0 is less than 1; write 1 or more"),
        (
            "concurrency: 2.0",
            "1: concurrency: 2.0 is not a whole number; write one",
        ),
        (
            "concurrency: [1]",
            "1: concurrency: a list is not a whole number; write one",
        ),
        (
            "max_cost_usd: -1",
            "1: max_cost_usd: a cap of -1 lets no case run; give more than 0",
        ),
        (
            "max_cost_usd: 0",
            "1: max_cost_usd: a cap of 0 lets no case run; give more than 0, or leave it out",
        ),
        (
            "hidden: expected",
            "1: hidden: 'expected' is not a list; write one in brackets",
        ),
        (
            "hidden: [input, id]",
            "1: hidden: 'id' can't be hidden: the system is called by it; ",
        ),
        (
            "hidden:\n- inptu",
            "2: hidden: no case has a field 'inptu'; did you mean input?",
        ),
        (
            "\ncluster: inptu",
            "2: cluster: no case has a field 'inptu'; did you mean input?",
        ),
        ("gate: {min_passed_cases: 0}", "1: gate.min_passed_cases: "),
        (
            "gate: {min_cases: 3}",
            "1: unknown key 'gate.min_cases'; did you mean min_passed_cases?",
        ),
        (
            f"repeat: {'9' * 4000}",
            "1: repeat: the number is more than 1,000; write 1,000 or less",
        ),
        (
            "repeat: 0x" + "f" * 9000,
            "1: '0xfffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        ),
        (
            "retry: {on: [llm.rate_limit]}",
            (
                "1: retry.on: 'llm.rate_limit' is no kind of failure; near it are llm.rate_limited,"
            ),
        ),
        (
            "retry: {on: ['*', sandbox.*, nothing.like.it]}",
            (
                "1: retry.on: 'nothing.like.it' is no kind of failure; write kinds such as"
                " llm.rate_limited"
            ),
        ),
        (
            "retry: {on: llm.error}",
            "1: retry.on: 'llm.error' is not a list; write one in brackets",
        ),
        (
            "retry: {on: []}",
            "1: retry.on: is an empty list; name kinds such as llm.rate_limited",
        ),
        (
            "repeat: 1\nretry: {attempts: 2}",
            "2: retry has no on; name the kinds of failures to try again on: [llm.rate_limited]",
        ),
        (
            "retry: {on: [llm.*], attempts: 0}",
            "1: retry.attempts: 0 is less than 1; write 1",
        ),
        (
            "retry: {on: [llm.*], attempts: 1001}",
            "1: retry.attempts: 1001 is more than 1,000; write 1,000 or less",
        ),
        (
            "retry: {on: [llm.*], backoff_seconds: -1}",
            "1: retry.backoff_seconds: -1 is less than 0; write 0 or more",
        ),
        (
            "sut_version: 1.0",
            "1: sut_version: 1.0 is a number, not a string; put it in quotes",
        ),
        (
            "sut_version: ' '",
            "1: sut_version: is empty; give it a value or leave it out",
        ),
        (
            "stop_after_same_failure: -1",
            "1: stop_after_same_failure: -1 is less than 0; write 0 or more",
        ),
        (
            "gate: 0.7",
            "1: gate: 0.7 is not a mapping; write keys and values below it",
        ),
        (
            "gate:\n  lower_bound: 1",
            "2: unknown key 'gate.lower_bound'; did you mean lower_bound_9",
        ),
        (
            "gate:\n  min_passed_cases: 1\n  lower_bound_95: 70",
            "3: gate.lower_bound_95: 70 is more than 1; write 1 or less",
        ),
        (
            "gate: {min_passed_cases: 0}",
            "1: gate.min_passed_cases: 0 is less than 1; write 1 or more",
        ),
        (
            "gate: {decides: true}",
            "1: gate.decides: has nothing to decide by; add lower_bound_95 or min_passed_cases",
        ),
        (
            "sut: &x a\nrubric_isolation: *x",
            "2: '*x' refers to an anchor; write the value itself",
        ),
    ],
)
def test_settings(tmp_path: Path, content: str, problem: str) -> None:
    """A mistake in `bench.yaml` is told with the line of its key."""
    write_class(tmp_path, {"bench.yaml": content})
    told = problems_of(tmp_path)[-1]
    assert told.startswith(f"bench.yaml:{problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f" has no function grade; {GRADE}"),
        ("def grades(case, output): ...", f" has no function grade; {GRADE}"),
        (
            "class A:\n    def grade(case, output): ...",
            f" has no function grade; {GRADE}",
        ),
        ("def grade(case output): ...", "1: not Python (invalid syntax"),
        (
            "async def grade(case): ...",
            "1: grade can't be called with a case and an output;",
        ),
        (
            "\ndef grade(): ...",
            f"2: grade can't be called with a case and an output; {GRADE}",
        ),
        ("def grade(case): ...", "1: grade can't be called with a case and an output;"),
        (
            "def grade(a, b, c): ...",
            "1: grade can't be called with a case and an output;",
        ),
        (
            "def grade(a, b, *, c): ...",
            "1: grade can't be called with a case and an output;",
        ),
        (
            "def grade(a, *, output): ...",
            "1: grade can't be called with a case and an output;",
        ),
        (b"# \xff", "1: not UTF-8 at byte 2; rubric.py is Python in UTF-8 that says"),
    ],
)
def test_rubric(tmp_path: Path, content: str | bytes, problem: str) -> None:
    """A rubric that could not grade is told before a case has run."""
    write_class(tmp_path, {"rubric.py": content})
    (told,) = problems_of(tmp_path)
    assert told.startswith(f"rubric.py:{problem}")


@pytest.mark.parametrize(
    "content",
    [
        "def grade(case, output, extra=1, *, more=2, **rest): ...",
        "def grade(*given): ...",
        "def grade(case, /, *rest): ...",
        "def grade(): ...\ndef grade(case, output): ...",
        "if True:\n    def grade(case, output): ...",
        "try:\n    import x\nexcept ImportError:\n    def grade(case, output): ...",
        "from elsewhere import grade",
        "import elsewhere as grade",
        "grade = lambda case, output: {}",
        "grade: object = print",
        "x = '\\d'\ndef grade(case, output): ...",
    ],
)
def test_rubrics_that_can_grade(tmp_path: Path, content: str) -> None:
    """Whatever can be called with two arguments is a rubric, and what only a run can tell."""
    write_class(tmp_path, {"rubric.py": content, "failure_modes.yaml": "- wrong"})
    (told,) = problems_of(tmp_path)
    assert told.startswith("failure_modes.yaml:1: the file begins with a list")


def test_a_script_needs_no_grade(tmp_path: Path) -> None:
    """A rubric in a fresh interpreter may read stdin itself; a `grade` that it has must fit."""
    files: dict[str, str | bytes | None] = {
        "bench.yaml": "rubric_isolation: fresh\nrepeat: 0\n"
    }
    write_class(tmp_path, {**files, "rubric.py": "print(input())"})
    told = "bench.yaml:2: repeat: 0 is less than 1; write 1 or more"
    assert problems_of(tmp_path) == [told]
    write_class(tmp_path, {**files, "rubric.py": "def grade(): ..."})
    assert problems_of(tmp_path)[0] == told
    assert problems_of(tmp_path)[1].startswith("rubric.py:1: grade can't be called")
