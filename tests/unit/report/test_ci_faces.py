"""A report on the pages of GitHub, GitLab, TeamCity and Buildkite: what stands there, and that no text breaks out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_failure_taxonomy import faces
from pytest_failure_taxonomy.faces import (
    FORMATS,
    ci,
    issue,
    markdown,
    render,
    show_faces,
)
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.merging import merge_reports
from pytest_failure_taxonomy.taxonomy.evidence import (
    Faces,
    InFlightTest,
    Location,
    ProcessExit,
    RaisedException,
    RaisingFrame,
    SeenStall,
    Stall,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import CLOSED_FIELDS, change_texts
from tests.helpers.reports import (
    A_PROOF,
    NO_HISTORY,
    assert_valid_report,
    make_context,
    make_failure,
    make_full_run,
    make_report,
    make_report_value,
    make_run,
)

COMMAND: Final = re.compile(
    r"::(error|warning|notice) "
    r"((?:file|line|title)=[^:,\r\n]*(?:,(?:line|title)=[^:,\r\n]*)*)::(.*)"
)
BENCH: Final[dict[str, Any]] = {
    "run_id": "1",
    "task_class": "vuln",
    "per_case": [],
    "complete": True,
    "counts": {
        "scheduled": 4,
        "started": 4,
        "graded": 4,
        "lost": 0,
        "passed": 3,
        "not_run": 0,
    },
    "mean_score": 0.75,
    "standard_error": 0.25,
    "score_stddev": 0.5,
    "lower_bound_95": {
        "value": None,
        "method": "fewer than 5 cases",
        "n": 4,
        "clusters": None,
    },
    "passed_count": 3,
    "total_cost_usd": 1.5,
    "usage": {},
    "system": "app:answer 2",
    "system_label": "",
    "stopped": None,
    "lost_to_provider": [],
    "lost_to_environment": [],
    "block_severity_failure_modes": [],
    "gate": {"verdict": "FAIL", "reasons": ["3 cases passed, and 4 are wanted"]},
    "reduced": [],
    "by_tag": [],
    "by_breakdown_key": [],
    "clusters": {},
    "digests": None,
    "rubric_agreement": None,
    "baseline": None,
    "other_systems": [],
    "shard": None,
}
STALL: Final = Stall(
    state="blocked",
    seconds=60.0,
    where="acquire (x.py:6)",
    stack="File x.py",
    children=("sleep 9",),
)


@cache
def everything() -> dict[str, Any]:
    """Return a report in which every part has an entry."""
    run = make_full_run()
    (running,) = run.in_flight
    report = make_report(
        replace(
            run,
            finished=False,
            exit=ProcessExit(
                code=143, signal="SIGTERM", source="supervisor", observed=True
            ),
            in_flight=(
                replace(running, stall=STALL, output="its\nlast words"),
                InFlightTest(
                    nodeid="tests/test_crash.py::test_it",
                    phase="call",
                    elapsed_seconds=None,
                    stack="File y.py",
                    location=Location(path="tests/test_crash.py", line=3),
                ),
            ),
            stalls=(SeenStall(what="session", stall=STALL),),
        ),
        completeness="reconstructed",
    )
    report["bench"] = [BENCH]
    report["causes"][0]["owner"] = "project"
    report["causes"][0]["fix"] = "pip install shop"
    report["causes"][0]["history"] = {
        "state": "known",
        "first_seen": "2026-01-02T00:00:00Z",
        "runs": 3,
        "last_passed_commit": "0123456789abcdef",
        "distributions_changed": None,
        "first_commit": None,
        "flaky_failures": 0,
        "flaky_runs": 0,
    }
    report["causes"][-1]["proof"] = A_PROOF
    report["notes"] = ["a note"]
    report["merged"] = merge_reports([make_report()])["merged"]
    assert_valid_report(report)
    return report


def commands(report: dict[str, Any]) -> list[tuple[str, dict[str, str], str]]:
    """Return level, properties and message of each annotation, as GitHub reads them."""
    found = []
    for line in render("github", decode_report(report)).splitlines():
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(each.split("=", 1) for each in match[2].split(","))
        decoded = {name: unescaped(text) for name, text in properties.items()}
        found.append((match[1], decoded, unescaped(match[3])))
    return found


def unescaped(text: str) -> str:
    """Return a text of a command as the runner does."""
    for code, character in (
        ("0D", "\r"),
        ("0A", "\n"),
        ("3A", ":"),
        ("2C", ","),
        ("25", "%"),
    ):
        text = text.replace(f"%{code}", character)
    return text


def with_texts(report: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a report with a text in place of each that a test or a user can choose."""
    changed: dict[str, Any] = change_texts(report, lambda _: text, CLOSED_FIELDS)
    for name in (
        "failures",
        "causes",
        "in_flight",
        "stalls",
        "bench",
        "internal_errors",
    ):
        assert len(changed[name]) == len(report[name])
    changed["schema_version"] = report["schema_version"]
    return changed


HOSTILE: Final = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=()), max_size=60),
    st.text(alphabet="`*_[]()<>&|\\#!:@-+=~. 1a\n\r\t%,", max_size=60),
    st.lists(
        st.sampled_from(
            [
                *(
                    "::error::x",
                    "\n::add-mask::x",
                    "%0A::warning::x",
                    "##[error]x",
                    "\r::set-output",
                ),
                *(
                    "<script>alert(1)</script>",
                    "</details>",
                    "<img src=x onerror=alert(1)>",
                    "<!--",
                ),
                *(
                    "```",
                    "````\n",
                    "\n\n# Title\n\n",
                    "\n- item",
                    "[x](javascript:alert(1))",
                    "> q",
                ),
                *(
                    "![x](http://x)",
                    "http://evil.example",
                    "www.evil.example",
                    "a@evil.example",
                    "|",
                ),
                *(
                    "\n---\n",
                    "\n1. x",
                    "\n| a |\n| - |",
                    "\u2028::error::x",
                    "\x85::error::x",
                    "\\",
                ),
                *(
                    "`",
                    "``",
                    "&lt;b&gt;",
                    "&#60;b&#62;",
                    "\x1b[31m",
                    "*x*",
                    "__x__",
                    "$x$",
                    "1) x",
                ),
            ]
        ),
        max_size=5,
    ).map("".join),
)


# GitHub.


def test_annotations_of_a_run() -> None:
    """The headline comes first, then each cause at its place, then what was cut short."""
    report = everything()
    found = commands(report)
    errors = [(where, said) for level, where, said in found if level == "error"]
    where, said = errors[0]
    assert where == {"title": report["verdict"]["message"]}
    assert said.splitlines()[-1] == "[TIMEOUT test.stalled, likely]"
    assert "in flight: tests/test_slow.py::test_it" in said
    where, said = errors[1]
    first = report["causes"][0]
    count = f"{first['count']} x " if first["count"] > 1 else ""
    assert (
        where["title"]
        == f"{count}{first['what']} [known since 2026-01-02, 3 earlier runs]"
    )
    lines = said.splitlines()
    assert lines[0] == "fix: pip install shop"
    assert lines[-2:] == ["owner: project", f"[{first['reason']} {first['kind']}]"]
    assert errors[-1][1] == "3 annotations more; the report has them all"
    assert (None, "session blocked in acquire (x.py:6) for 1 min") in [
        (where.get("file"), said) for level, where, said in found if level == "warning"
    ]


def test_a_success_has_no_annotation() -> None:
    """Nor has a test that passed on a rerun: it is no failure of the run."""
    assert render("github", make_report_value(make_run())) == ""


ACCEPTED: Final = {
    "by": "known.yaml",
    "accepted": True,
    "failures": 1,
    "unknown": [],
    "unknown_count": 0,
    "others": "",
    "notes": [],
}


def test_accepted_failures_are_notices() -> None:
    """What is known is said, and is no error."""
    report = make_report(make_run(failures=(make_failure(),)))
    report["verdict"] = None
    assert commands(report) == []
    report["known"] = ACCEPTED
    ((level, where, _),) = commands(report)
    assert (level, where["title"]) == ("notice", "known: AssertionError: assert 3 == 4")


def test_ten_of_a_kind() -> None:
    """GitHub drops what is more in silence, so the tenth says how many there are."""
    failures = [make_failure(nodeid=f"t.py::test_{n}") for n in range(12)]
    report = make_report(make_run(failures=tuple(failures)))
    cause = report["causes"][0]
    report["causes"] = [{**cause, "key": f"{n}", "what": f"{n}"} for n in range(12)]
    found = commands(report)
    assert [level for level, _, _ in found] == ["error"] * 10
    assert [where["title"] for _, where, _ in found[1:9]] == [
        f"12 x {n}" for n in range(8)
    ]
    assert found[-1][2] == "4 annotations more; the report has them all"
    assert "and 7 more" in found[1][2]


def test_the_commands_of_a_job_share_what_github_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten of a kind a step and fifty a job, whatever stands in the place of our file."""

    def failing(nodeid: str, error: str) -> TestFailure:
        raised = RaisedException(type=error, module="shop", message="no")
        return make_failure(nodeid=nodeid, message="no", exception=raised)

    failed = [
        failing(f"a.py::t{letter}", f"{letter}Error") for letter in ascii_uppercase
    ]
    big = [failing(f"b.py::t{number}", "BiggestError") for number in range(3)]
    running = [
        InFlightTest(nodeid=f"c.py::{n}", phase="call", elapsed_seconds=1)
        for n in "xyz"
    ]
    report = make_report(make_run(failures=(*failed, *big), in_flight=tuple(running)))
    few = make_report(make_run(failures=(*failed[:6],)))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    counts = []
    for step in "112233445":
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", f"/x/step_summary_{step}")
        found = commands(few if step == "1" else report)
        levels = [level for level, _, _ in found]
        counts.append((levels.count("error"), levels.count("warning")))
        if len(counts) == 3:
            assert found[1][1]["title"].startswith("3 x BiggestError")
            assert "annotations more" in found[9][2]
    # Two commands share a step's errors, the fourth one has room for warnings, and so on to fifty.
    assert counts == [
        (7, 0),
        (3, 0),
        (10, 3),
        (0, 3),
        (10, 3),
        (0, 3),
        (8, 0),
        (0, 0),
        (0, 0),
    ]
    (tmp_path / ci.USED).unlink()
    (tmp_path / ci.USED).symlink_to("/dev/zero")
    assert len(commands(report)) == 13


@pytest.mark.parametrize(
    ("rootdir", "path", "file"),
    [
        pytest.param("/w/shop", "tests/t.py", "tests/t.py", id="the-repository"),
        pytest.param("/w/shop/api", "tests/t.py", "api/tests/t.py", id="below-it"),
        pytest.param(
            "/w/shop/api", "../lib/t.py", "lib/t.py", id="beside-the-root-directory"
        ),
        pytest.param(
            "/w/shop/api", "../../x/t.py", "api/tests/test_cart.py", id="outside"
        ),
        pytest.param("/elsewhere", "tests/t.py", "tests/t.py", id="another-machine"),
        pytest.param("/w/shop", "/w/shop/a/t.py", "a/t.py", id="absolute"),
        pytest.param(
            "/w/shop", "/usr/lib/x.py", "tests/test_cart.py", id="absolute-outside"
        ),
        pytest.param("/w/shop", "<string>", "tests/test_cart.py", id="no-file"),
    ],
)
def test_files_are_relative_to_the_repository(
    rootdir: str, path: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root directory may lie below the repository, and code outside of both."""
    failure = make_failure(location=Location(path=path, line=3))
    report = make_report(
        make_run(failures=(failure,)), context=make_context(rootdir=rootdir)
    )
    monkeypatch.setenv("GITHUB_WORKSPACE", "/w/shop")
    monkeypatch.setenv("CI_PROJECT_DIR", "/w/shop")
    assert commands(report)[0][1]["file"] == file
    assert (
        json.loads(render("gitlab", decode_report(report)))[0]["location"]["path"]
        == file
    )


def test_code_of_others_is_not_annotated() -> None:
    """Where an installed package has raised, the test's own file is named, without a line."""
    origin = RaisingFrame(
        owner="dependency",
        package="requests 2",
        module="requests",
        function="get",
        path="requests/api.py",
        line=3,
    )
    raised = RaisedException(
        type="OSError", module="builtins", message="no", frame=origin
    )
    failure = make_failure(
        exception=raised, location=Location(path=".venv/lib/requests/api.py", line=3)
    )
    report = make_report(make_run(failures=(failure,)))
    assert report["failures"][0]["origin"]["owner"] == "dependency"
    assert commands(report)[0][1]["file"] == "tests/test_cart.py"
    assert "line" not in commands(report)[0][1]


def test_a_crash_is_annotated_where_it_was() -> None:
    """The test that was running has the place."""
    run = make_run(
        finished=False,
        exit=ProcessExit(code=134, signal="SIGABRT", source="watcher", observed=True),
        in_flight=(
            InFlightTest(
                nodeid="tests/test_c.py::test_it",
                phase="call",
                elapsed_seconds=None,
                stack="File",
                location=Location(path="tests/test_c.py", line=5),
            ),
        ),
    )
    ((level, where, said),) = commands(make_report(run, completeness="reconstructed"))
    assert (level, where["file"], where["line"]) == ("error", "tests/test_c.py", "5")
    assert "tests/test_c.py::test_it" in where["title"]
    assert "SIGABRT" in where["title"]
    assert "process.crashed" in said


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_no_text_is_a_workflow_command(text: str) -> None:
    """Whatever a test says, each line is one of our commands, with the properties we gave it."""
    found = commands(with_texts(everything(), text))
    assert [level for level, _, _ in found].count("error") >= 5
    for _, where, said in found:
        assert set(where) <= {"file", "line", "title"}
        assert (
            re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", said)
            is None
        )


# Markdown.


def rendered(text: str) -> str:
    """Return Markdown as HTML."""
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def tags(html: str) -> list[str]:
    """Return the tags of a page in their order."""
    return re.findall(r"<(/?[A-Za-z!][^\s>]*)", html)


@pytest.mark.slow
def test_the_summary_of_a_run() -> None:
    """Headline, counts, causes with fix, owner and history, what was in flight, stalls, benches."""
    report = everything()
    text = render("markdown", decode_report(report))
    assert text.startswith(f"## \u274c {report['verdict']['message']}\n\n")
    assert "\n<sub>\\[TIMEOUT test.stalled, likely\\]</sub>\n" in text
    assert [line for line in text.splitlines() if line.startswith("### ")] == [
        "### Runs",
        "### Causes",
        "### In flight",
        "### Stalls",
        "### Benches",
        "### Notes",
    ]
    assert text.count("\n#### ") == len(report["causes"]) + 3
    assert f"`{report['causes'][0]['what']}`\n\nFix: `pip install shop`\n\n" in text
    assert (
        "owner: project \u00b7 known since 2026-01-02, 3 earlier runs \u00b7 "
        "last passed at 0123456789ab \u00b7 "
    ) in text
    assert (
        "<details><summary>Where it was</summary>\n\n```text\nFile x.py\n```\n\n</details>"
        in text
    )
    assert "| vuln | 3 of 4 | 0.750 | none | 1.50 | FAIL |" in text
    assert "- vuln: 3 cases passed, and 4 are wanted\n" in text
    html = rendered(text)
    assert tags(html).count("details") == tags(html).count("/details") >= 7
    assert tags(html).count("table") == 2


def test_the_summary_of_a_success() -> None:
    """One line and the counts."""
    assert render("markdown", make_report_value(make_run())) == (
        "## \u2705 pytest: no failure (1 passed)\n\n| passed |\n| --: |\n| 1 |\n\n"
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_no_text_is_markdown_or_html(text: str) -> None:
    """Whatever a test says, a parser of Markdown finds the same structure and not one tag more."""
    plain = tags(
        rendered(render("markdown", decode_report(with_texts(everything(), "word"))))
    )
    hostile = tags(
        rendered(
            render("markdown", decode_report(with_texts(everything(), text or "word")))
        )
    )
    assert without_optional(hostile) == without_optional(plain)


def without_optional(found: list[str]) -> list[str]:
    """Leave out what depends on whether a text is empty: code spans, folded texts, list items."""
    return [
        tag
        for tag in found
        if tag.strip("/") in ALWAYS or tag.strip("/") not in OUR_TAGS
    ]


ALWAYS: Final = ("h2", "h3", "h4", "table", "tr", "td", "th")
OUR_TAGS: Final = (
    *(
        "h2",
        "h3",
        "h4",
        "p",
        "strong",
        "em",
        "ul",
        "li",
        "code",
        "pre",
        "details",
        "summary",
    ),
    *("table", "thead", "tbody", "tr", "td", "th"),
)


def test_a_summary_fits_into_a_step() -> None:
    """It is cut by cause, and says how many it lacks; what follows the causes has its room."""
    report = make_report()
    cause, failure = (
        report["causes"][0],
        {**report["failures"][0], "traceback": "\u00e9" * 10_000},
    )
    report["causes"] = [
        {
            **cause,
            "fingerprints": [f"f{n}"],
            "nodeids": [],
            "count": 2,
            "kind": "test.failed",
        }
        for n in range(500)
    ]
    report["failures"] = [{**failure, "fingerprint": f"f{n}"} for n in range(500)]
    text = render("markdown", decode_report(report))
    assert 700_000 < len(text.encode()) < 1024 * 1024
    shown = text.count("#### 2 x")
    assert f"\n_{500 - shown} causes omitted: the summary is full._\n\n" in text
    assert "### In flight\n" in text
    found = tags(rendered(text))
    assert found.count("details") == found.count("/details") >= shown
    for room in (2_000, 3_000, 50_000):
        assert len(markdown.render(decode_report(report), room).encode()) <= room


def test_a_summary_follows_that_of_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in the file already counts, for GitHub drops the whole where it is too large."""
    path = tmp_path / "summary.md"
    path.write_text("# mine\n", encoding="utf-8")
    given = Faces(summary=str(path))
    assert show_faces(make_report_value(), given) == []
    assert path.read_text("utf-8").startswith("# mine\n## \u274c ")
    path.write_text("x" * (markdown.MAX_BYTES - 5), encoding="utf-8")
    (problem,) = show_faces(make_report_value(), given)
    assert problem.startswith("step summary: ")
    assert problem.endswith("it is full; a step's summary may have 1 MiB")
    assert path.stat().st_size == markdown.MAX_BYTES - 5


# Issues.


def issues(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the issues of a report, and check what all have."""
    found: list[dict[str, Any]] = json.loads(render("issue", decode_report(report)))[
        "issues"
    ]
    for each in found:
        assert re.fullmatch("[0-9a-f]{16}", each["key"])
        assert each["mark"] == f"<!-- failure-taxonomy cause={each['key']} "
        assert each["body"].startswith(f"{each['mark']}passes=0 -->\n")
        assert max(len(each["body"]), len(each["comment"])) <= issue.MAX_BODY
        assert 0 < len(each["title"]) <= 256
        assert "\n" not in each["title"]
    return found


def test_an_issue_of_a_cause() -> None:
    """Title, what is known, tests, how to repeat it, traceback; what to say when it comes again."""
    first, *_, last = issues(everything())
    (cause, *_) = everything()["causes"]
    assert first["title"] == cause["what"]
    assert first["labels"] == ["failure-taxonomy", cause["reason"]]
    for line in (
        f"`{cause['what']}`",
        f"- Is: `{cause['reason']} {cause['kind']}`",
        "- Fix: `pip install shop`",
        "- History: `known since 2026-01-02, 3 earlier runs`",
        "- Last passed at: `0123456789abcdef`",
        "- Owner: `project`",
    ):
        assert f"\n{line}\n" in first["body"]
    assert f"Tests:\n\n- `{cause['nodeids'][0]}`\n" in first["body"]
    assert "<summary>Reproduce</summary>\n\n```text\ncd /" in first["body"]
    assert "<summary>Traceback</summary>" in first["body"]
    assert first["comment"].startswith(f"- Seen again: `{cause['count']} x")
    assert "- Proof: `" in last["body"]


def test_what_decided_stands_in_an_issue_without_a_traceback() -> None:
    """A death has no traceback; the issue has what was seen of it."""
    exit_ = ProcessExit(code=137, signal="SIGKILL", source="supervisor", observed=True)
    (death,) = issues(make_report(make_run(finished=False, exit=exit_)))
    assert "\n- Evidence: `" in death["body"]
    assert "Tests:" not in death["body"]


def test_a_run_that_says_what_is_gone() -> None:
    """It has ended by itself and has left out no test; what is accepted is not gone."""

    def is_whole(change: Callable[[dict[str, Any]], object] = len) -> bool:
        report = json.loads(
            json.dumps(make_report(make_run(failures=(make_failure(),))))
        )
        change(report)
        valid = assert_valid_report(report)
        return bool(json.loads(render("issue", valid))["is_whole_run"])

    assert is_whole()
    for change in (
        lambda report: report["not_run"].update(count=1),
        lambda report: report["exit"].update(code=2),
        lambda report: report["summary"].update(
            passed=0, failed=0
        ),  # as of --setup-only
        lambda report: report["summary"].update(deselected=1),
        lambda report: report["summary"].update(errors=1),
        lambda report: report["summary"].update(timed_out=1),
        lambda report: report["summary"].update(crashed=1),
        lambda report: report["run"].update(shard={"index": 1, "total": 3}),
        lambda report: report["run"].update(stage="baseline_run"),
        lambda report: report["limits"].update(causes_omitted=1),
        lambda report: report.update(completeness="reconstructed"),
    ):
        assert not is_whole(change)
    accepted = json.loads(json.dumps(make_report(make_run(failures=(make_failure(),)))))
    accepted |= {"verdict": None, "known": ACCEPTED}
    assert json.loads(render("issue", decode_report(accepted))) == {
        "is_whole_run": False,
        "issues": [],
    }


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_no_text_calls_anybody_in_an_issue(text: str) -> None:
    """Whatever a test says stands in code: no person, issue, link or mark is made of it."""
    hostile = f"@octocat fixes #12 GH-12 https://evil.example {text} <!-- failure-taxonomy -->"
    for found in issues(with_texts(everything(), hostile)):
        assert not re.search("[@#](?!\u200b)", found["title"])
        for name in ("body", "comment"):
            html = rendered(found[name])
            assert set(tags(html)) <= {
                *("!--", "ul", "li", "p", "code", "pre", "em"),
                *FOLDED,
            }
            left = re.sub(r"(?s)<code[^>]*>.*?</code>", "", html)
            assert not re.search(r"octocat|GH-|#12|evil", left), left
            assert left.count("<!--") == (name == "body")


FOLDED: Final = (
    *("details", "/details", "summary", "/summary"),
    *("/ul", "/li", "/p", "/code", "/pre", "/em"),
)


@pytest.mark.parametrize("letter", ["`", "\x1b", "x", "\n`", "\U0001f600"])
def test_an_issue_has_room(letter: str) -> None:
    """No text is too long for GitHub, whatever it takes to show it."""
    report = with_texts(everything(), letter * 30_000)
    for cause in report["causes"]:
        cause["nodeids"] = [letter * 3_000] * 50
    assert issues(report)


# GitLab.


def test_a_code_quality_report() -> None:
    """One entry a cause and one for what was cut short, each with a place that GitLab can show."""
    report = everything()
    entries = json.loads(render("gitlab", decode_report(report)))
    first = report["causes"][0]
    count = f"{first['count']} x " if first["count"] > 1 else ""
    assert entries[0]["description"] == (
        f"{count}{first['what']} [known since 2026-01-02, 3 earlier runs]; fix: pip install shop "
        f"[{first['reason']} {first['kind']}]"
    )
    assert entries[0]["check_name"] == first["kind"]
    assert len(entries) >= len(report["causes"])
    assert {entry["severity"] for entry in entries} == {
        "blocker",
        "critical",
        "major",
        "minor",
    }
    assert json.loads(render("gitlab", make_report_value(make_run()))) == []


def test_an_entry_is_known_by_its_cause() -> None:
    """GitLab tells what a merge request adds: the same cause is the same entry in each run."""
    report = everything()
    before = [
        entry["fingerprint"]
        for entry in json.loads(render("gitlab", decode_report(report)))
    ]
    cause = {**report["causes"][0], "what": "in other words", "count": 7}
    others = {**report, "causes": [cause, *report["causes"][1:]]}
    assert [
        entry["fingerprint"]
        for entry in json.loads(render("gitlab", decode_report(others)))
    ] == before


def test_what_no_file_is_to_blame_for() -> None:
    """GitLab drops an entry without a file, so that is the one which describes the job."""
    run = make_run(
        finished=False,
        exit=ProcessExit(code=137, signal="SIGKILL", source="watcher", observed=True),
    )
    (entry,) = json.loads(
        render("gitlab", make_report_value(run, completeness="reconstructed"))
    )
    assert (entry["severity"], entry["check_name"]) == ("blocker", "process.killed")
    assert entry["location"] == {"path": ".gitlab-ci.yml", "lines": {"begin": 1}}


@settings(max_examples=100, deadline=None)
@given(HOSTILE)
def test_every_entry_is_what_gitlab_reads(text: str) -> None:
    """Fields, severities, and fingerprints that differ, whatever the texts are."""
    entries = json.loads(
        render("gitlab", decode_report(with_texts(everything(), text)))
    )
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    for entry in entries:
        assert set(entry) == {
            "description",
            "check_name",
            "fingerprint",
            "severity",
            "location",
        }
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["lines"]["begin"] >= 1
        assert not entry["location"]["path"].startswith(("/", "./"))


# TeamCity.

PROBLEM: Final = re.compile(
    r"##teamcity\[buildProblem description='((?:[ -&(-Z\\^-{}~]|\|.)*)' "
    r"identity='([A-Za-z_][A-Za-z0-9_]{0,59})'\]"
)
ESCAPE: Final = re.compile(r"\|(?:0x([0-9a-f]{4})|(.))")


def problems(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return descriptions and identities of build problems, as TeamCity reads them."""
    found = []
    for line in render("teamcity", decode_report(report)).splitlines():
        assert line.isascii()
        message = PROBLEM.fullmatch(line)
        assert message is not None, line
        description = ESCAPE.sub(
            lambda escape: chr(int(escape[1], 16)) if escape[1] else escape[2],
            message[1],
        )
        text = description.encode("utf-16", "surrogatepass").decode("utf-16")
        found.append((text, message[2]))
    return found


def test_build_problems() -> None:
    """One for each cause, with an identity that is the same in each build."""
    report = everything()
    found = problems(report)
    assert len(found) == len(report["causes"])
    assert len({identity for _, identity in found}) == len(found)
    report["run"]["id"] = "f" * 32
    assert problems(report) == found
    assert render("teamcity", make_report_value(make_run())) == ""
    accepted = {**report, "verdict": None, "known": ACCEPTED}
    assert problems(accepted) == []


def test_what_teamcity_reads() -> None:
    """Its own signs, a line's end and letters of any alphabet are escaped by its rules."""
    raised = RaisedException(
        type="E", module="t", message="a|b'c] [\u00e9 \U0001f600 \n ##teamcity[x]"
    )
    text = render(
        "teamcity",
        make_report_value(make_run(failures=(make_failure(exception=raised),))),
    )
    assert "a||b|'c|] |[|0x00e9 |0xd83d|0xde00" in text
    assert text.count("##teamcity[") == text.count("\n") == 1


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_no_text_is_a_service_message(text: str) -> None:
    """Whatever a test says, each line is one message of ours, of a size that TeamCity takes."""
    hostile = f"##teamcity[testFailed name='a'] |n '] {text}"
    for description, _ in problems(with_texts(everything(), hostile)):
        assert 0 < len(description) <= 4_000
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", description)


# All.


@pytest.mark.parametrize("name", ["github", "markdown", "gitlab", "teamcity", "issue"])
def test_a_face_is_the_same_each_time(name: str) -> None:
    """The same report gives the same text."""
    assert name in FORMATS
    assert render(name, decode_report(everything())) == render(
        name, decode_report(json.loads(json.dumps(everything())))
    )


@pytest.mark.parametrize("name", ["github", "markdown", "gitlab", "teamcity", "issue"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda report: report.update(reasons=[]), id="no-reasons"),
        pytest.param(lambda report: report.update(failures=[]), id="no-failures"),
        pytest.param(
            lambda report: report.update(extensions={"x": 7}), id="an-odd-extension"
        ),
        pytest.param(
            lambda report: report["verdict"].update(nodeid=None), id="no-node-id"
        ),
        pytest.param(
            lambda report: report["verdict"].update(
                history={**NO_HISTORY, "state": "flaky", "flaky_runs": 3}
            ),
            id="an-odd-history",
        ),
        pytest.param(
            lambda report: [cause.update(nodeids=[]) for cause in report["causes"]],
            id="causes-without-tests",
        ),
    ],
)
def test_reports_of_anybody(
    name: str, change: Callable[[dict[str, Any]], object]
) -> None:
    """What is valid by the schema may still contradict itself; it is shown all the same."""
    report = json.loads(json.dumps(everything()))
    change(report)
    assert render(name, assert_valid_report(report))


def test_outputs_of_a_step_hold_one_line_each(tmp_path: Path) -> None:
    """No kind of anybody's report makes a second output of it."""
    path = tmp_path / "output"
    report = make_report_value()
    assert report.verdict is not None
    verdict = replace(report.verdict, kind="test.failed\nevil=1")
    report = replace(report, verdict=verdict)
    assert faces.show_faces(report, Faces(output=str(path))) == []
    assert path.read_text("utf-8").splitlines() == [
        "reason=TESTS_FAILED",
        r"kind=test.failed\x0aevil=1",
        "retryable=false",
    ]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("assert 3 == 4 (a.py:7), 'b'", "assert 3 == 4 (a.py:7), 'b'"),
        (
            "*a* _b_ [c](d) `e` <f> & |g|",
            r"\*a\* \_b\_ \[c\](d) \`e\` &lt;f&gt; &amp; &#124;g&#124;",
        ),
        ("# a", r"\# a"),
        ("- a - b", r"\- a - b"),
        ("1. a", "&#49;. a"),
        ("12) a", "&#49;2) a"),
        ("===", r"\==="),
        (
            "see HTTPS://x.example or WWW.x.example",
            r"see HTTPS\://x.example or WWW\.x.example",
        ),
        ("mailto:a@b.example", r"mailto\:a&#64;&#8203;b.example"),
        ("a\\", r"a\\"),
        ("a\x1b[2Jb\nc", r"a\\x1b\[2Jb\\x0ac"),
    ],
)
def test_words_of_a_summary(text: str, written: str) -> None:
    """What Markdown gives a meaning is escaped, and the rest reads as it is."""
    report = make_report(make_run(failures=(make_failure(),)))
    report["verdict"]["message"] = text
    line = render("markdown", decode_report(report)).splitlines()[0]
    assert line == f"## \u274c {written}"
