"""The pytest command lines that are compared, and how to count the tests in what each writes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JSON_REPORT_SUMMARY = re.compile(r'"summary": (\{[^}]*\})')
JSON_REPORT_HEAD_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How many tests passed and how many failed."""

    passed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to run pytest: which plugins are let in, and which options they get."""

    name: str
    plugins: tuple[str, ...] = ()
    """Names in the entry-point group ``pytest11``; every other one is blocked."""
    options: tuple[str, ...] = ()
    """Options that switch the reporter on; ``{artifact}`` stands for the path it writes."""
    count: Callable[[Path], Outcomes] | None = None
    """Reads the outcomes back from the artifact; None where nothing must be written."""
    autoload: bool = True
    """False sets ``PYTEST_DISABLE_PLUGIN_AUTOLOAD``: pytest does not even look for plugins."""

    @property
    def is_installed(self) -> bool:
        """Whether every plugin of this variant is installed here."""
        return installed_plugins().issuperset(self.plugins)

    def switched_off(self) -> Variant:
        """Return the variant in which the same plugins are loaded and none gets an option."""
        return replace(self, name=f"{self.name}, option absent", options=(), count=None)

    def arguments(self, artifact: Path) -> list[str]:
        """Return the arguments of pytest that make this variant."""
        blocked = (
            sorted(installed_plugins().difference(self.plugins))
            if self.autoload
            else []
        )
        return [
            *(argument for name in blocked for argument in ("-p", f"no:{name}")),
            *(option.format(artifact=artifact) for option in self.options),
        ]


@cache
def installed_plugins() -> frozenset[str]:
    """Return the names of all pytest plugins that are installed here."""
    return frozenset(point.name for point in entry_points(group="pytest11"))


# The counters read little at a time: on Linux a process takes over the peak memory of the one
# that started it, so this one has to stay smaller than those it measures.


def count_junitxml(artifact: Path) -> Outcomes:
    """Count the outcomes in a JUnit XML file."""
    tests = failed = 0
    for _, element in ET.iterparse(artifact):  # noqa: S314 - pytest has just written it
        tests += element.tag == "testcase"
        failed += element.tag == "failure"
        element.clear()
    return Outcomes(passed=tests - failed, failed=failed)


def count_report_log(artifact: Path) -> Outcomes:
    """Count the outcomes of the call phase in a pytest-reportlog file."""
    outcomes: list[str] = []
    with artifact.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["$report_type"] == "TestReport" and entry["when"] == "call":
                outcomes.append(entry["outcome"])
    return Outcomes(passed=outcomes.count("passed"), failed=outcomes.count("failed"))


def count_json_report(artifact: Path) -> Outcomes:
    """Read the outcomes from the summary at the head of a pytest-json-report file."""
    with artifact.open(encoding="utf-8") as file:
        match = JSON_REPORT_SUMMARY.search(file.read(JSON_REPORT_HEAD_CHARACTERS))
    summary = json.loads(match.group(1)) if match else {}
    return Outcomes(passed=summary.get("passed", 0), failed=summary.get("failed", 0))


def count_failure_report(artifact: Path) -> Outcomes:
    """Read the outcomes from our own report, which has to be a complete one."""
    report = json.loads(artifact.read_bytes())
    if report["completeness"] != "full":
        return Outcomes(passed=0, failed=0)
    return Outcomes(
        passed=report["summary"]["passed"], failed=report["summary"]["failed"]
    )


PLAIN = Variant(name="pytest alone")
AGAIN = Variant(name="pytest alone, again")
FLOOR = Variant(name="pytest alone, autoload off", autoload=False)
OURS = Variant(
    name="pytest-failure-taxonomy",
    plugins=("failure_taxonomy",),
    options=("--failure-taxonomy", "--failure-taxonomy-report={artifact}"),
    count=count_failure_report,
)
PEERS = (
    Variant(name="junitxml", options=("--junitxml={artifact}",), count=count_junitxml),
    Variant(
        name="pytest-reportlog",
        plugins=("pytest_reportlog",),
        options=("--report-log={artifact}",),
        count=count_report_log,
    ),
    Variant(
        name="pytest-json-report",
        plugins=(
            "pytest_jsonreport",
            "metadata",
        ),  # the second is a dependency of the first
        options=("--json-report", "--json-report-file={artifact}"),
        count=count_json_report,
    ),
)
