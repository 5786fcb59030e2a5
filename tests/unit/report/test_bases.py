"""What is said of a cause that another revision may have, too, and what follows: nothing."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.faces import render
from pytest_failure_taxonomy.faces.agent import render as render_for_agents
from pytest_failure_taxonomy.faces.terminal import verdict_lines
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.report.summary import base_words
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.judgement import BaseComparison
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_failure, make_report, make_run

NEW: Final = {
    "revision": "origin/main",
    "commit": "3f2a91c",
    "status": "new",
    "lacks_test": False,
    "runs": 8,
    "failed": 0,
    "interval": {"low": 0.0, "high": 0.369417},
    "here_runs": 0,
    "here_failed": 0,
    "state": None,
}
ALSO: Final = NEW | {
    "status": "also",
    "runs": 5,
    "failed": 5,
    "interval": {"low": 0.478176, "high": 1.0},
}
UNKNOWN: Final = NEW | {"status": "undecided", "state": "time ran out"}
LACKING: Final = NEW | {"runs": 0, "interval": None, "lacks_test": True}
WORDS: Final = (
    (NEW, "new here: passes on origin/main (8 of 8)"),
    (LACKING, "new here: its test does not exist on origin/main"),
    (ALSO, "also on origin/main: fails 5 of 5 (47.8% to 100.0%)"),
    (UNKNOWN, "not known whether origin/main has it: time ran out"),
)


def report_with(base: dict[str, Any], failures: int = 1) -> FailureReport:
    """Return a report whose first cause has been compared with another revision."""
    numbers = range(failures)
    run = make_run(failures=tuple(make_failure(nodeid=f"a.py::t{n}") for n in numbers))
    report = decode_report(make_report(run))
    key = report.causes[0].key
    compared = CODEC.decode(BaseComparison, base)
    return amend(report, Amendment(bases={key: compared}))


@pytest.mark.parametrize(("base", "words"), WORDS)
def test_all_faces_say_it_in_one_line(base: dict[str, Any], words: str) -> None:
    """Of each answer, with the counts that it stands on."""
    assert base_words(CODEC.decode(BaseComparison, base)) == words
    report = report_with(base)
    faces = {
        name: render(name, report) for name in ("html", "gitlab", "issue", "github")
    }
    faces["markdown"] = render("markdown", report).replace("\\", "")
    faces["proofs"] = render("proofs", report).replace("\\", "")
    faces["agent"] = render_for_agents(report)
    faces["terminal"] = "\n".join(line.text for line in verdict_lines(report, "x"))
    for name, text in faces.items():
        assert words in text.replace("%25", "%"), name
    assert f"base: {words}" in faces["agent"]


def test_nothing_follows_from_it() -> None:
    """Whom the failure is charged to and what is advised stay as they are."""
    before, after = report_with(NEW), report_with(ALSO)
    causes = [replace(cause, base=None) for cause in after.causes]
    assert after.verdict == before.verdict
    assert causes == [replace(cause, base=None) for cause in before.causes]


def test_a_report_may_lack_it() -> None:
    """It came later than its schema version, and another comparison takes its place."""
    report = report_with(NEW)
    content = as_json(report)
    assert decode_report(content) == report
    del content["causes"][0]["base"]
    assert decode_report(content).causes[0].base is None
    key, also = report.causes[0].key, CODEC.decode(BaseComparison, ALSO)
    assert amend(report, Amendment(bases={key: also})).causes[0].base == also
    assert amend(report, Amendment(bases={"x": also})).causes == report.causes
