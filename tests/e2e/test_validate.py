"""`failure-taxonomy validate`, as a shell uses it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.rules.files import load_rules
from tests.helpers.children import REPORT, ChildRun, run_child, run_pytest
from tests.helpers.kept_runs import write_files
from tests.helpers.task_classes import passing_cases, task_class_files

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-rules.md"

GOOD: Final = "rules:\n  - phase: setup\n    reason: SETUP_FAILED\n"
BAD: Final = "rules:\n  - phase: set-up\n    reason: SETUP_FAIL\n"
RIGHT: Final = "give rules (YAML), reports (JSON) or task classes (folders)"
BAD_LINES: Final = (
    "2: phase: 'set-up' is unknown; did you mean setup?",
    "3: reason: 'SETUP_FAIL' is none of the fifteen reasons; did you mean SETUP_FAILED?",
)


def validate(folder: Path, *paths: str) -> ChildRun:
    """Run `validate`."""
    return run_child(folder, [*CLI, "validate", *paths])


def example() -> str:
    """Return the file of rules that the page shows."""
    found = re.search(
        r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1]


def test_good_files_get_a_line_each(tmp_path: Path) -> None:
    """Rules and a report are told apart by what they are called, or by what is in them."""
    (tmp_path / "test_it.py").write_text("def test_it(): assert 0\n", "utf-8")
    assert run_pytest(tmp_path).status == 1
    (tmp_path / "plain").write_bytes(b" \n" + (tmp_path / REPORT).read_bytes())
    (tmp_path / "one.yaml").write_text(GOOD, "utf-8")
    (tmp_path / "rules.txt").write_text(
        GOOD + "  - {nodeid: '*', reason: TIMEOUT}\n", "utf-8"
    )
    run = validate(tmp_path, "one.yaml", REPORT, "plain", "rules.txt")
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [
        "ok one.yaml (1 rule)",
        f"ok {REPORT} (report, full)",
        "ok plain (report, full)",
        "ok rules.txt (2 rules)",
    ]


def test_all_problems_of_all_files_are_told(tmp_path: Path) -> None:
    """A bad file does not hide the others; the answer is exit code 1."""
    (tmp_path / "bad.yaml").write_text(BAD, "utf-8")
    (tmp_path / "good.yml").write_text(GOOD, "utf-8")
    (tmp_path / "worse.yaml").write_text("rules: 1\n", "utf-8")
    (tmp_path / "report.json").write_text("{}", "utf-8")
    run = validate(tmp_path, "bad.yaml", "good.yml", "worse.yaml", "report.json")
    assert (run.status, run.stdout) == (1, "ok good.yml (1 rule)\n")
    lines = run.stderr.splitlines()
    assert lines[:2] == [f"bad.yaml:{told}" for told in BAD_LINES]
    assert lines[2].startswith(
        "worse.yaml:1: rules: is the value 1 and not a list; write"
    )
    assert lines[3].startswith("report.json: not a report of schema version")


@pytest.mark.skipif(sys.platform == "win32", reason="has no FIFOs among its files")
def test_paths_that_can_not_be_read(tmp_path: Path) -> None:
    """A missing file, a folder or a FIFO is exit code 2; the files beside it are still checked."""
    (tmp_path / "bad.yaml").write_text(BAD, "utf-8")
    os.mkfifo(tmp_path / "fifo")
    run = validate(tmp_path, "none.yaml", ".", "fifo", "bad.yaml")
    assert run.status == 2
    assert run.stderr.splitlines()[:3] == [
        f"none.yaml: there is no such file; {RIGHT}",
        f".: has no task class in it; {RIGHT}",
        f"fifo: is a named pipe and not a file; {RIGHT}",
    ]
    assert run.stderr.splitlines()[3].startswith(f"bad.yaml:{BAD_LINES[0]}")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"{", "{}".encode("utf-16"), b"[" * 100_000, bytes(range(256))],
)
@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a"])
def test_no_content_ends_in_a_traceback(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """Whatever is in a file, the answer is one line that says why it is none of ours."""
    (tmp_path / name).write_bytes(content)
    run = validate(tmp_path, name)
    assert run.status == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"{name}:")


def test_without_a_path_it_is_wrong_use(tmp_path: Path) -> None:
    """There has to be something to check."""
    run = validate(tmp_path)
    assert run.status == 2
    assert "the following arguments are required: PATH" in run.stderr


def test_the_example_of_the_page_is_good(tmp_path: Path) -> None:
    """The rules that the documentation shows can be used, and each key has a row in its tables."""
    path = tmp_path / "failure-rules.yaml"
    path.write_text(example(), "utf-8")
    run = validate(tmp_path, path.name)
    assert (run.status, run.stdout) == (0, "ok failure-rules.yaml (2 rules)\n")
    assert run.stdout in PAGE.read_text("utf-8")
    first = load_rules(path)[0]
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(type(first).__annotations__)


def test_any_file_of_a_class_stands_for_it(tmp_path: Path) -> None:
    """A rubric among several, a table and `cases.py` belong to the class above them."""
    rubric = "def grade(case, output): ...\n"
    names = ("cases.py", "cases/a.csv", "rubrics/right.py", "rubrics/style.py")
    content = ("def cases():\n    yield {'id': 'made'}\n", "id\nrow\n", rubric, rubric)
    files = dict(zip(names, content, strict=True))
    files |= {"failure_modes.yaml": "{}\n", "breakdown_keys.yaml": "[]\n"}
    for name, text in files.items():
        path = tmp_path / "bench" / "mail" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    run = validate(tmp_path, *(f"bench/mail/{name}" for name in names))
    assert (run.status, run.stdout) == (0, "ok bench/mail (task class, 2 cases)\n")
    assert not list(tmp_path.rglob("__pycache__"))


def test_the_oracle_is_run_on_demand(tmp_path: Path) -> None:
    """With --oracle the rubrics grade their examples; a wrong one is a problem with its line."""
    write_files(tmp_path, task_class_files(passing_cases(2)))
    oracle = tmp_path / "bench/echo/oracle/examples.yaml"
    oracle.parent.mkdir()
    gold = "- {id: right, case: case-000, output: 0, expect: gold}\n"
    oracle.write_text(
        gold + "- {id: wrong, case: case-000, output: 1, expect: null}\n", "utf-8"
    )
    run = validate(tmp_path, "--oracle", "bench")
    said = "ok bench/echo (task class, 2 cases, 2 examples graded as expected)\n"
    assert (run.status, run.stdout, run.stderr) == (0, said, "")
    bad = "- {id: other, case: case-001, output: '2\u202e', expect: gold}\n"
    oracle.write_text(gold.replace("gold", "null") + bad, "utf-8")
    run = validate(tmp_path, "--oracle", "bench/echo")
    at = os.path.join("bench", "echo", "oracle", "examples.yaml")
    said = r"score 0.25 (counts 0): answer.wrong: got '2\u202e'"
    assert run.status == 1
    assert run.stderr.splitlines() == [
        f"{at}:1: right: null: must not pass, and passed; the rubric said score 1.00",
        f"{at}:2: other: gold: must pass, and did not; the rubric said {said}",
    ]
    assert validate(tmp_path, "bench").status == 0


@pytest.mark.parametrize(
    ("case", "note"),
    [
        (
            {"id": "a", "question": "How many?", "kind": "x"},
            "; note: no case has an input; say `fields: {input: question}`",
        ),
        ({"id": "a", "question": "How many?", "input": None}, ""),
        ({"id": "a", "number": 5, "repo": "shop"}, ""),
        ({"id": "a"}, ""),
    ],
)
def test_cases_without_an_input_are_noted(
    tmp_path: Path, case: dict[str, object], note: str
) -> None:
    """Where the input has another name, the system would be called with nothing."""
    write_files(tmp_path, task_class_files([case]))
    run = validate(tmp_path, "bench")
    said = f"ok bench/echo (task class, 1 case{note})\n"
    assert (run.status, run.stdout, run.stderr) == (0, said, "")


def test_an_oracle_of_labels_alone_tests_nothing(tmp_path: Path) -> None:
    """It is said, and so is an oracle that is not there."""
    write_files(tmp_path, task_class_files(passing_cases(1)))
    nothing = "ok bench/echo (task class, 1 case, nothing tested: {why})\n"
    run = validate(tmp_path, "--oracle", "bench")
    assert run.stdout == nothing.format(why="it has no oracle")
    label = "{id: right, case: case-000, output: 0, label: pass}\n"
    write_files(tmp_path, {"bench/echo/oracle/people.yaml": label})
    run = validate(tmp_path, "--oracle", "bench")
    why = "its 1 example has a label, but no `expect`"
    assert (run.status, run.stdout) == (0, nothing.format(why=why))


def test_an_oracle_shows_no_secret(tmp_path: Path) -> None:
    """What a rubric was given by a variable is taken out of what it says; it has to be given."""
    rubric = "import os\n\n\ndef grade(case, output):\n    raise ValueError(os.environ['JUDGE'])\n"
    settings = "rubric_env: [JUDGE]\n"
    write_files(
        tmp_path, task_class_files(passing_cases(1), rubric=rubric, settings=settings)
    )
    gold = "{id: right, case: case-000, output: 0, expect: gold}\n"
    write_files(tmp_path, {"bench/echo/oracle/examples.yaml": gold})
    said = validate(tmp_path, "--oracle", "bench").stderr
    assert "rubric_env: JUDGE is not set, or empty; set what the rubric needs" in said
    call = [*CLI, "validate", "--oracle", "bench"]
    run = run_child(tmp_path, call, env={"JUDGE": "tulip-9481-orchard"})
    assert run.status == 1
    assert "raised ValueError: [REDACTED:env:JUDGE]" in run.stderr
    assert "tulip" not in run.stderr
