"""What makes a test fail that is no test: an import, files that a run has left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.proofs import Proofs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks and a shell"),
]

WRITES: Final = (
    "def test_writes():\n    with open('out.txt', 'a') as file: file.write('1')\n"
)
READS: Final = "import os\ndef test_reads(): assert not os.path.exists('out.txt')\n"
CHANGES: Final = """\
def test_changes():
    with open("data.txt") as file: text = file.read()
    with open("data.txt", "w") as file: file.write(text + "1")
"""
COMPARES: Final = """\
def test_compares():
    with open("data.txt") as file: assert file.read() == "0"
"""


def shell_status(command: str) -> int:
    """Return how a command ends."""
    return subprocess.run(["bash", "-c", command], check=False).returncode


def commit_all(folder: Path) -> None:
    """Have all files of a folder in git."""
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "1"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_a_file_that_is_imported(proofs: Proofs) -> None:
    """No test of it has to run; the command imports it, and runs none of its tests."""
    proofs.runs.write(
        {
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "state.py": "ON = True\n",
            "test_a.py": "def test_fine(): pass\n",
            "test_b.py": "import state\nstate.ON = False\ndef test_fine(): pass\n",
            "test_c.py": "import state\ndef test_on(): assert state.ON\n",
        }
    )
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("collection.polluted", "proven")
    assert (proof["state"], proof["nodeids"]) == ("test_b.py", [])
    assert proof["failed"] == proof["runs"] >= 8
    assert proof["without"]["failed"] == 0
    assert proof["command"].endswith(
        "test_b.py test_c.py::test_on --deselect test_b.py"
    )
    assert shell_status(proof["command"]) == 1
    assert shell_status("pytest test_c.py::test_on") == 0


def test_a_file_that_a_test_before_it_leaves(proofs: Proofs) -> None:
    """In a copy without it the test before decides, and is named; nothing of it stays here."""
    proofs.runs.write({"test_a.py": WRITES, "test_b.py": READS})
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    assert proof["nodeids"] == ["test_a.py::test_writes"]
    assert proof["suspicions"] == ["left behind: the file out.txt"]
    assert shell_status(proof["command"]) == 1


def test_a_file_that_a_test_after_it_leaves(proofs: Proofs) -> None:
    """The file decides: each next run fails; the test that leaves it is named."""
    proofs.runs.write({"test_b.py": READS, "test_c.py": WRITES})
    (proofs.runs.path / "out.txt").touch()
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("leftover.files", "proven")
    assert (proof["state"], proof["nodeids"]) == ("out.txt", ["test_c.py::test_writes"])
    assert proof["command"].endswith(" test_b.py::test_reads")
    assert (proofs.runs.path / "out.txt").exists()  # nothing of the user's is removed


@pytest.mark.parametrize("has_git", [True, False])
def test_a_file_that_an_earlier_run_left(proofs: Proofs, *, has_git: bool) -> None:
    """The test passes once, and leaves what it fails on: it is named itself."""
    test = """\
import os
def test_once():
    assert not os.path.exists("once.txt")
    open("once.txt", "w").close()
"""
    proofs.runs.write({"test_it.py": test})
    if has_git:
        commit_all(proofs.runs.path)
    proofs.runs.run()
    time.sleep(2.1)  # what is written that late may be the run's
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("leftover.files", "proven")
    assert (proof["state"], proof["nodeids"]) == ("once.txt", ["test_it.py::test_once"])


@pytest.mark.parametrize("is_tracked", [True, False])
def test_a_file_that_a_test_changes(proofs: Proofs, *, is_tracked: bool) -> None:
    """Git knows what was in it; without git nobody does, and nothing is proven."""
    proofs.runs.write(
        {"test_a.py": CHANGES, "test_b.py": COMPARES, ".gitignore": "failure-report*\n"}
    )
    (proofs.runs.path / "data.txt").write_text("0")
    if is_tracked:
        commit_all(proofs.runs.path)
    proofs.runs.run()
    proof = proofs.prove_only()
    if is_tracked:
        assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
        assert proof["nodeids"] == ["test_a.py::test_changes"]
    else:
        assert (proof["type"], proof["status"]) == ("reproducible", "suspected")
        assert "the run has written data.txt" in proof["suspicions"][0]


def test_a_file_elsewhere(
    proofs: Proofs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It can't be put away, so that it fails each time is only suspected."""
    place = tmp_path_factory.mktemp("elsewhere") / "rows.txt"
    proofs.runs.write(
        {
            "test_it.py": f"""\
def test_before(): open({str(place)!r}, "w").close()
def test_reads():
    with open({str(place)!r}) as file: assert file.read()
"""
        }
    )
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("reproducible", "suspected")
    assert f"the run has left {place}, which it reads" in proof["suspicions"]


def test_a_project_that_changes_the_order(proofs: Proofs) -> None:
    """It is proven, and there is no command, as no plain run would have the order."""
    proofs.runs.write(
        {
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "conftest.py": "def pytest_collection_modifyitems(items): items.reverse()\n",
            "state.py": "ON = True\n",
            "test_a.py": "import state\ndef test_on(): assert state.ON\n",
            "test_b.py": "import state\ndef test_off(): state.ON = False\n",
        }
    )
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    assert proof["command"] is None
    words = "pytest runs these tests in another order, so no command repeats it"
    assert words in proof["suspicions"]


def test_a_test_that_ends_otherwise_in_a_fork(proofs: Proofs) -> None:
    """It is continued in processes of their own."""
    proofs.runs.write(
        {
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "state.py": "ON = True\n",
            "test_a.py": "import state\ndef test_off(): state.ON = False\n",
            "test_b.py": """\
import os, state
MAIN = os.getpid()
def test_on():
    assert os.getpid() == MAIN, "no client after a fork"
    assert state.ON
""",
        }
    )
    proofs.runs.run()
    proof = proofs.prove_only()
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    assert proof["nodeids"] == ["test_a.py::test_off"]


def test_a_library_of_numbers_keeps_no_process_from_forking(proofs: Proofs) -> None:
    """Its threads are switched off in the process that searches, and there alone."""
    pytest.importorskip("numpy")
    test = (
        "import numpy, os\ndef test_it(): assert 0, os.environ.get('OMP_NUM_THREADS')\n"
    )
    proofs.runs.write({"test_it.py": test})
    proofs.runs.run()
    _, lines, _ = proofs.prove()
    assert "every experiment needs its own process" not in "\n".join(lines)


def test_what_was_seen_until_time_ran_out(proofs: Proofs) -> None:
    """Nothing that was tried on one side only is suspected."""
    proofs.runs.write(
        {"test_it.py": "import time\ndef test_it(): time.sleep(1); assert 0\n"}
    )
    proofs.runs.run()
    proof = proofs.prove_only("--budget", "12s")
    assert (proof["type"], proof["status"]) in [
        ("reproducible", "suspected"),
        ("flaky", "undecided"),
    ]
    assert proof["state"] == "time ran out"
    assert proof["failed"] == proof["runs"] > 0
