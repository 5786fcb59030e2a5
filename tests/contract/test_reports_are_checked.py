"""Every report that a test leaves behind is checked, whether the test thinks of it or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from tests.helpers.reports import make_report

SUITE: Final = """
import pathlib, pytest

REPORT = {report!r}

def test_by_its_path(tmp_path): (tmp_path / "out.txt").write_text(REPORT)
def test_below(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "failure-report.json").write_text(REPORT)
def test_of_a_pytester(pytester): (pytester.path / "r.json").write_text(REPORT)
@pytest.mark.breaks_reports
def test_on_purpose(tmp_path): (tmp_path / "out.txt").write_text(REPORT)
"""


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        pytest.param(lambda text: text, 0, id="valid"),
        pytest.param(
            lambda text: text.replace('"count"', '"counted"'),
            3,
            id="against the schema",
        ),
        pytest.param(lambda text: text[:-40], 3, id="cut"),
    ],
)
def test_a_test_that_leaves_an_invalid_report_fails(
    pytester: pytest.Pytester, change: Callable[[str], str], failed: int
) -> None:
    """Only a test that says so may leave one."""
    report = change(json.dumps(make_report()))
    pytester.makeini("[pytest]\nmarkers = breaks_reports")
    pytester.makeconftest(
        "from tests.conftest import pytest_runtest_call\npytest_plugins = 'pytester'\n"
    )
    pytester.makepyfile(SUITE.format(report=report))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(failed=failed, passed=4 - failed)
