"""Suites that make failures green, and honest suites that look alike: each ends as it claims.

The suites are in the folder `cheats`, and their `case.json` says what they do. Here plain pytest
runs them. A dishonest suite has to end with 0, and without its cheat its tests have to fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.cheats import Case, read_cases, skip_without_needs
from tests.helpers.children import ChildRun, run_plain_pytest
from tests.helpers.warm_pytest import Switch

pytestmark = pytest.mark.linux("some suites fork, send signals or read /proc")

WITHOUT_US: Final = ("failure_taxonomy", "failure_taxonomy_bench")
CLASSES: Final = frozenset(
    {
        *("outcome", "collection", "skip", "exit", "assertion"),
        *("import", "environment", "time", "output", "record"),
    }
)
"""What dishonest suites change."""
MIN_CASES: Final = 44
"""How many suites of each kind there are at least."""


DISHONEST: Final = read_cases("dishonest")
HONEST: Final = read_cases("honest")
EACH_DISHONEST: Final = pytest.mark.parametrize("case", DISHONEST)
EACH_HONEST: Final = pytest.mark.parametrize("case", HONEST)
BREAKS_REPORTS: Final = pytest.mark.breaks_reports
"""Some suites write a false report."""


@pytest.fixture(autouse=True)
def _new_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each pytest anew: some suites change what Python imports first."""
    monkeypatch.setattr(Switch, "is_on", False)


def run_case(
    case: Case, folder: Path, changes: Mapping[str, Any] | None = None
) -> ChildRun:
    """Run a copy of a suite in plain pytest."""
    facts = {**case.facts, **(changes or {})}
    blocked = [word for name in WITHOUT_US for word in ("-p", f"no:{name}")]
    return run_plain_pytest(folder, *blocked, "-rfE", *facts["args"], env=facts["env"])


@EACH_DISHONEST
@BREAKS_REPORTS
def test_a_cheat_is_green(case: Case, tmp_path: Path) -> None:
    """Plain pytest ends with 0."""
    skip_without_needs(case)
    case.copy_to(tmp_path / "suite")
    run = run_case(case, tmp_path / "suite")
    assert run.status == case.facts["exit"] == 0, run.stdout + run.stderr


@EACH_DISHONEST
def test_it_is_red_without_its_cheat(case: Case, tmp_path: Path) -> None:
    """The same suite fails where nothing hides what the tested code does wrong."""
    skip_without_needs(case)
    case.copy_to(tmp_path / "suite")
    changes = case.without_cheat(tmp_path / "suite")
    run = run_case(case, tmp_path / "suite", changes)
    assert run.status == changes.get("exit", 1), run.stdout + run.stderr
    bad = {
        line.split(" ")[1]
        for line in run.stdout.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    }
    assert bad == set(case.facts["nodeids"]), run.stdout


@EACH_HONEST
def test_an_honest_suite_ends_as_it_says(case: Case, tmp_path: Path) -> None:
    """Plain pytest ends with the exit code of `case.json`."""
    skip_without_needs(case)
    case.copy_to(tmp_path / "suite")
    run = run_case(case, tmp_path / "suite")
    assert run.status == case.facts["exit"], run.stdout + run.stderr


@pytest.mark.parametrize("case", [*DISHONEST, *HONEST])
def test_a_case_says_what_it_is(case: Case) -> None:
    """The facts of a suite agree with its files."""
    facts = case.facts
    assert facts["note"].endswith(".")
    files = [path for path in case.folder.rglob("*") if path.is_file()]
    assert 2 <= len(files) - 1 <= 5 or facts["kind"] is None
    if facts["where"] is not None:
        text = (case.folder / facts["where"]["path"]).read_text("utf-8")
        assert text.splitlines()[facts["where"]["line"] - 1].strip()
    for nodeid in facts["nodeids"]:
        assert (case.folder / nodeid.partition("::")[0]).is_file(), nodeid
    if facts["kind"] is None:
        assert not facts["findable"]
    else:
        assert facts["class"] in CLASSES
        assert facts["kind"].startswith("integrity.")
        assert facts["findable"] is not ("because" in facts)
        assert facts["cheat_files"] or facts["without"]
        assert facts["where"] is not None or facts["env"]


def test_there_are_enough() -> None:
    """Each class has several suites that cheat, and there are as many honest ones."""
    classes = Counter(param.values[0].facts["class"] for param in DISHONEST)
    assert classes.keys() == CLASSES
    assert min(classes.values()) >= 4
    assert min(len(DISHONEST), len(HONEST)) >= MIN_CASES
