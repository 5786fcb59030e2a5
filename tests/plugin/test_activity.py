"""Deaths outside of any test: the verdict names the file that was collected, or the hook."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import REPORT, ChildRun, run_pytest
from tests.helpers.reports import assert_valid_report, extensions_of
from tests.helpers.waiting import wait_until

if not sys.platform.startswith("linux"):
    pytest.skip("the watcher needs Linux", allow_module_level=True)

EXIT: Final = "import os; os._exit(3)\n"
PASSING: Final = "def test_passes(): pass\n"
LEFT: Final = "the process exited before pytest had finished"
HOOK: Final = "def {}(): import os; os._exit(3)\n"
ON_WORKER: Final = (
    "import os\n"
    "def pytest_sessionfinish(session):\n"
    "    if 'PYTEST_XDIST_WORKER' in os.environ: os._exit(3)\n"
)


def run(
    folder: Path, files: dict[str, str], *args: str
) -> tuple[ChildRun, dict[str, Any]]:
    """Run pytest on some files, and return its report once it is complete."""
    for name, content in {"pytest.ini": "[pytest]\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    child = run_pytest(folder, *args, plugins=["xdist"] if "-n1" in args else [])

    def completed() -> dict[str, Any] | None:
        report: dict[str, Any] = json.loads((folder / REPORT).read_bytes())
        return report if report["completeness"] != "running" else None

    report: dict[str, Any] = wait_until(completed, "the report")
    assert_valid_report(report)
    return child, report


@pytest.mark.parametrize(
    ("files", "nodeid", "doing"),
    [
        (
            {"test_a.py": PASSING, "sub/test_b.py": EXIT},
            "sub/test_b.py",
            "sub/test_b.py was being collected",
        ),
        (
            {"conftest.py": EXIT},
            "conftest.py",
            "conftest.py was being collected",
        ),
        (
            {"sub/conftest.py": EXIT, "sub/test_a.py": PASSING},
            "sub/conftest.py",
            "sub/conftest.py was being collected",
        ),
        *(
            (
                {"conftest.py": HOOK.format(name), "test_a.py": PASSING},
                None,
                f"{name} (conftest.py) was being called",
            )
            for name in (
                "pytest_configure",
                "pytest_collection_modifyitems",
                "pytest_sessionfinish",
                "pytest_terminal_summary",
                "pytest_unconfigure",
            )
        ),
    ],
)
def test_the_verdict_names_the_place(
    tmp_path: Path, files: dict[str, str], nodeid: str | None, doing: str
) -> None:
    """An `os._exit` leaves no trace, but the record says where pytest was."""
    child, report = run(tmp_path, files)
    assert child.status == 3
    verdict = report["verdict"]
    assert (verdict["kind"], verdict["nodeid"]) == ("process.exited", nodeid)
    assert verdict["message"] == f"{LEFT}, while {doing}"


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(
    ("files", "nodeid", "doing"),
    [
        ({"test_a.py": EXIT}, "test_a.py", "test_a.py was being collected"),
        (
            {"conftest.py": ON_WORKER, "test_a.py": PASSING},
            None,
            "pytest_sessionfinish (conftest.py or pytest-xdist) was being called",
        ),
    ],
)
def test_the_verdict_names_the_place_of_a_worker(
    tmp_path: Path, files: dict[str, str], nodeid: str | None, doing: str
) -> None:
    """A worker that dies outside of a test says where it was, too."""
    _, report = run(tmp_path, files, "-n1", "--max-worker-restart=0")
    verdict = report["verdict"]
    assert (verdict["kind"], verdict["nodeid"]) == ("worker.crashed", nodeid)
    assert verdict["message"] == f"gw0 exited with code 3 while {doing}"
    assert verdict["evidence"][0]["detail"] == (
        f"worker gw0 exited with code 3 while {doing}"
    )
    assert report["completeness"] == "full"


def test_a_run_is_as_it_was(tmp_path: Path) -> None:
    """Nothing of ours is left in the import system, and a run that fails says nothing of this."""
    content = (
        "import sys\n"
        "def test_meta_path():\n"
        "    assert not [each for each in sys.meta_path if 'taxonomy' in type(each).__module__]\n"
        "def test_fails(): assert 0\n"
    )
    child, report = run(tmp_path, {"conftest.py": "", "test_a.py": content})
    assert child.outcome == "1 failed, 1 passed"
    assert (
        report["verdict"]["message"]
        == "1 of 2 tests failed: assert 0: test_fails (test_a.py:4)"
    )
    assert extensions_of(report) == {}
