"""What all faces of one report say alike: who has to fix a cause, and what the next step is."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from defusedxml import ElementTree

from pytest_failure_taxonomy.faces import agent, issue, render
from pytest_failure_taxonomy.faces.junit import XUNIT1
from pytest_failure_taxonomy.faces.terminal import detail_lines
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.attempts import recover
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.summary import summarise
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    RaisedException,
)
from tests.helpers.reports import make_failure, make_report, make_run

OWNERS: Final = (
    "test",
    "conftest",
    "project",
    "dependency",
    "pytest",
    "plugin",
    "python",
    "environment",
    None,
)
"""Of the causes; the last has none, and is its frame's then."""
FRAME: Final = {
    "owner": "dependency",
    "package": "requests 2.32.5",
    "module": "requests.adapters",
    "function": "HTTPAdapter.send",
    "path": "requests/adapters.py",
    "line": 677,
}


def a_report() -> dict[str, Any]:
    """Return the report of a run with a cause of each owner, all raised in one library."""
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_it.py::test_{number}",
            message=f"no answer from {number}",
            exception=RaisedException(
                type=f"Error{number}", module="shop", message="no answer"
            ),
        )
        for number in range(len(OWNERS))
    )
    report = copy.deepcopy(make_report(make_run(failures=failures)))
    assert len(report["causes"]) == len(OWNERS)
    for cause, owner in zip(report["causes"], OWNERS, strict=True):
        cause["owner"] = owner
    for failure in report["failures"]:
        failure["origin"] = FRAME
    return report


def test_the_owner_is_the_same_on_all_faces() -> None:
    """That of the cause; where it has none, whose code raised it."""
    report = a_report()
    owners = {
        cause["nodeids"][0]: owner or "dependency"
        for cause, owner in zip(report["causes"], OWNERS, strict=True)
    }
    expected = list(owners.values())

    page = render("html", decode_report(report))
    assert re.findall(r'class="card cause".* data-owner="(\w+)"', page) == expected
    assert re.findall(r'<span class="owner">(\w+)</span>', page) == expected
    assert re.findall(r"<span>owner: (\w+)</span>", page) == expected
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [failure["owner"] for failure in data["failures"]] == expected

    root = ElementTree.fromstring(
        render("junit", decode_report(report), family=XUNIT1).encode()
    )
    for case in root.iter("testcase"):
        properties = {each.get("name"): each.get("value") for each in case.iter()}
        owner = owners[f"{case.get('file')}::{case.get('name')}"]
        assert properties["failure_taxonomy.owner"] == owner
        is_of_package = "failure_taxonomy.package" in properties
        assert is_of_package is (owner == "dependency")
        [failure] = case.iter("failure")
        assert f"owner: {owner}" in (failure.text or "")
    suite = next(root.iter("properties"))
    assert {each.get("name"): each.get("value") for each in suite}[
        "failure_taxonomy.owner"
    ] == summarise(decode_report(report)).owner

    tests = json.loads(render("ctrf", decode_report(report)))["results"]["tests"]
    assert {test["name"]: test["labels"]["owner"] for test in tests} == owners

    bodies = [
        entry["body"]
        for entry in json.loads(issue.render(decode_report(report)))["issues"]
    ]
    assert [re.findall(r"- Owner: `(\w+)`", body) for body in bodies] == [
        [owner] for owner in expected
    ]
    assert (
        re.findall(r"owner: (\w+)", render("markdown", decode_report(report)))
        == expected
    )
    annotations = "\n".join(render("github", decode_report(report)).split("%0A"))
    assert re.findall(r"^owner: (\w+)$", annotations, re.MULTILINE) == expected
    answers = [
        agent.render_cause(decode_report(report), n + 1) for n in range(len(OWNERS))
    ]
    assert [re.findall(r"owner: (\w+)", text) for text in answers] == [
        [owner] for owner in expected
    ]
    lines = [line.text for line in detail_lines(decode_report(report)) if line.tail]
    assert [re.findall(r" \[(\w+)\]$", line) for line in lines] == [
        [owner] for owner in expected
    ]


def test_where_it_was_raised_contradicts_no_owner() -> None:
    """The library is named, and its owner only where that has to fix the cause."""
    report = copy.deepcopy(make_report(make_run(failures=(make_failure(),))))
    report["failures"][0]["origin"] = FRAME
    for owner, words in (
        ("environment", ", raised in requests 2.32.5"),
        (None, ", raised in requests 2.32.5 (dependency)"),
    ):
        report["causes"][0]["owner"] = owner
        assert summarise(decode_report(report)).see.endswith(words)


LIBRARY: Final = "/v/lib/python3.13/site-packages/requests/adapters.py"
TRACEBACK: Final = f"""\
tests/test_it.py:5: in test_it
    get()
{LIBRARY}:677: in send
    raise ConnectionError(e)
E   ConnectionError: no answer"""


def test_the_frames_of_libraries_are_folded() -> None:
    """Where nothing can be unfolded, their number is said."""
    failures = (make_failure(traceback=TRACEBACK),)
    gone = CollectionFailure(
        nodeid="tests/test_gone.py", message="no", traceback=TRACEBACK
    )
    run = make_run(failures=failures, collection_failures=(gone,))
    report = make_report(run)
    bodies = [
        entry["body"]
        for entry in json.loads(issue.render(decode_report(report)))["issues"]
    ]
    for text in (
        render("junit", decode_report(report)),
        "".join(bodies),
    ):
        assert LIBRARY not in text
        assert text.count("tests/test_it.py:5: in test_it") == 2
        assert text.count("(1 library frame omitted)") == 2
        assert "ConnectionError: no answer" in text
    answer = agent.render(decode_report(report))
    assert LIBRARY not in answer
    assert answer.count("   > tests/test_it.py:5: get()\n") == 2
    for number in (1, 2):
        cause = agent.render_cause(decode_report(report), number)
        assert LIBRARY not in cause
        assert "(1 library frame omitted)" in cause
    parts = render("markdown", decode_report(report)).split("<details>")
    folded = [part for part in parts if LIBRARY in part]
    titles = [part.partition("</summary>")[0] for part in folded]
    assert titles == ["<summary>With library frames"] * 2
    assert sum("<summary>Traceback" in part for part in parts) == 2


def _report_of(name: str) -> dict[str, Any]:
    """Return the report of a failed test, or of broken code."""
    syntax = RaisedException(
        type="SyntaxError",
        module="builtins",
        message="invalid syntax",
        bases=("builtins.SyntaxError", "builtins.Exception"),
    )
    broken = CollectionFailure(
        nodeid="tests/test_it.py", message="invalid syntax", exception=syntax
    )
    runs = {
        "failed": make_run(failures=(make_failure(),)),
        "broken": make_run(collection_failures=(broken,)),
    }
    return copy.deepcopy(make_report(runs[name]))


SAYS: Final[list[tuple[str, dict[str, Any], str]]] = [
    (
        "failed",
        {},
        "change the code before you run it again: unchanged code fails again",
    ),
    ("failed", {"retryable": None}, "run it once more as it is"),
    ("failed", {"retryable": True}, "retry the same run: it can pass"),
    (
        "failed",
        {"fix": "pip install x"},
        "apply the fix, then run again: pip install x",
    ),
    (
        "failed",
        {"owner": "environment"},
        "fix the environment before you run it again: an unchanged run fails again",
    ),
    (
        "broken",
        {},
        "fix the code that does not load before you run it again: unchanged code fails again",
    ),
    (
        "failed",
        {"reason": "AGENT_GAVE_UP"},
        "continue from the last commit, with more turns or with a smaller task",
    ),
]
"""A run, what is different in its cause, and the step that all faces name first."""


@pytest.mark.parametrize(("name", "changes", "step"), SAYS)
def test_the_next_step_is_the_same_on_all_faces(
    name: str, changes: dict[str, Any], step: str, tmp_path: Path
) -> None:
    """An agent that reads the answer and one that is told by `recover` do the same."""
    report = _report_of(name)
    report["causes"][0] |= changes
    report["verdict"] |= {
        field: changes[field] for field in ("retryable", "reason") if field in changes
    }
    answer = agent.render(decode_report(report))
    (line,) = re.findall("^  try: (.*)$", answer, re.MULTILINE)
    steps = line.split("; then ")
    assert steps[0] == step
    with open_history(f"sqlite:///{tmp_path}/h.db") as history:
        hints = recover(history, "s", "a", report=decode_report(report)).hints
    assert list(hints) == [f"{step[0].upper()}{step[1:]}." for step in steps]


def test_several_causes_of_several_owners() -> None:
    """Whoever reads it fixes each of them."""
    report = a_report()
    report["verdict"]["retryable"] = False
    for cause in report["causes"]:
        cause["retryable"] = False
    assert "\n  try: fix each cause before you run it again: " in agent.render(
        decode_report(report)
    )
