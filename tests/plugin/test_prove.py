"""`failure-taxonomy prove`: what is proven of real runs, and how it goes about it.

A run of a proof takes a quarter of a second of a processor, so one project has several causes. What
is proven of an ordinary run, and what is said of it, is tested with the example project.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.prove import causes
from pytest_failure_taxonomy.prove.experiment import Experiments, Setup
from tests.helpers.runs import PytestRuns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks and signals"),
]

FINE: Final = "".join(f"def test_fine_{number}(): pass\n" for number in range(20))
SHOP: Final = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "state.py": "SEEN = set()\nOFF = False\ndef check(well): assert well, 'broken'\n",
    "conftest.py": """\
import os
import pytest
@pytest.fixture(scope="session", autouse=True)
def database():
    os.environ["SHOP_DATABASE"] = "rows"
    yield
    del os.environ["SHOP_DATABASE"]
""",
    **{f"test_{name}.py": "def test_it(): pass\n" * 9 for name in "abcd"},
    "test_shop.py": f"""\
import os
import time
import state
def test_one(): state.SEEN.add(1)
def test_off(): state.OFF = True
{FINE}
def test_two(): state.SEEN.add(2)
{FINE.replace("fine", "well")}
def test_first(): state.check(os.environ["SHOP_DATABASE"] and state.SEEN != {{1, 2}})
def test_like_it(): state.check(state.SEEN != {{1, 2}})
def test_after_another(): state.check(not state.OFF)
def test_alone(): state.check(False)
def test_slow():
    time.sleep(0.2)
    assert 0, "slow"
""",
}


class Proofs:
    """Runs pytest and proves the causes of its report."""

    def __init__(self, runs: PytestRuns, capsys: pytest.CaptureFixture[str]) -> None:
        self.runs = runs
        self._capsys = capsys

    def prove(self, *words: str) -> tuple[int, list[str], list[str]]:
        """Return exit code and lines of the command."""
        self._capsys.readouterr()
        code = main(["prove", *words])
        said = self._capsys.readouterr()
        return code, said.out.splitlines(), said.err.splitlines()

    def proofs(self) -> dict[str, dict[str, Any]]:
        """Return the proofs of the report by the first test of their causes."""
        report = self.runs.read_report()
        return {cause["nodeids"][0]: cause["proof"] for cause in report["causes"]}


@pytest.fixture
def proofs(
    runs: PytestRuns, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Proofs:
    """Return what runs and proves in the folder of the test, without looking along axes."""
    monkeypatch.chdir(runs.path)
    monkeypatch.setattr(causes, "axes_of", lambda *_, **__: ())
    return Proofs(runs, capsys)


def test_ctrl_c_leaves_what_is_known_and_resume_goes_on(proofs: Proofs) -> None:
    """The first cause's proof is in the report, and nothing runs any more.

    It is that of two tests which pollute together, one of which is not enough. What ran before
    theirs on their own worker counts. A fixture of the session is set up by then, and must stay so.
    Other tests that failed with the same message have other causes, which is said.
    """
    proofs.runs.write(SHOP)
    proofs.runs.run("-n", "2", "--dist", "loadfile", plugins=["xdist"])
    assert proofs.runs.read_report()["order"]["distribution"] == "loadfile"
    command = [sys.executable, "-u", "-m", "pytest_failure_taxonomy", "prove"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("2. "):
            lines.append(process.stdout.readline())
            assert lines[-1]
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "interrupted; what is proven so far is in the report, --resume goes on" in said
    assert "the recorded order is not known" not in "\n".join(lines)
    shop = "test_shop.py::test_"
    first, second = (cause["proof"] for cause in proofs.runs.read_report()["causes"])
    assert second is None
    assert (first["type"], first["status"]) == ("order.polluted", "proven")
    assert first["nodeids"] == [f"{shop}one", f"{shop}two"]
    assert first["state"].startswith("state.SEEN = ")
    others = (
        f"{shop}after_another, which passes after the same tests",
        f"{shop}alone, which fails alone",
    )
    assert first["suspicions"] == [f"another cause for {', '.join(others)}"]
    assert experiments_alive() == []
    code, out, _ = proofs.prove("--resume")
    assert code == 0
    assert [line[:2] for line in out if line[0].isdigit() and line[1] == "."] == ["2."]
    second = proofs.proofs()[f"{shop}slow"]
    assert (second["type"], second["status"]) == ("reproducible", "proven")


def experiments_alive() -> list[str]:
    """Return the command lines of pytest processes of experiments in this one's folder."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace")
                working = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            if "pytest_failure_taxonomy.prove.inside" in command and working == os.getcwd():
                found.append(command)
    return found


def test_what_fails_by_itself(proofs: Proofs) -> None:
    """Each cause has its own proof, also of a test that takes its process along.

    The end of a fixture that fails each time is charged to the last test of the module, and the
    fixture's, whichever runs. What may decide besides is said: a file that the run has left, and
    tests that it had deselected. A test that is gone is said to be.
    """
    proofs.runs.write(
        {
            "test_it.py": """\
import os
import pytest
import signal
def test_a(): assert not os.path.exists('left.txt')
def test_b(): open('left.txt', 'w').close()
def test_c(): pass
@pytest.fixture(scope="module")
def connection():
    yield 1
    raise RuntimeError("still open")
def test_first(connection): pass
def test_last(): pass
""",
            "test_later.py": """\
import os, signal
def test_crash(): os.kill(os.getpid(), signal.SIGSEGV)
""",
        }
    )
    (proofs.runs.path / "left.txt").touch()
    proofs.runs.run_unchecked("-p", "no:faulthandler", "-k", "not test_c or test_crash")
    assert len(proofs.runs.wait_for_completion()["causes"]) == 3
    code, _, _ = proofs.prove()
    found = proofs.proofs()
    assert code == 0
    assert {(proof["type"], proof["status"]) for proof in found.values()} == {
        ("reproducible", "proven")
    }
    ending = found["test_it.py::test_last"]
    assert ending["nodeids"] == []
    assert ending["command"].endswith(" test_it.py::test_first")
    assert found["test_it.py::test_a"]["suspicions"] == [
        "files that were written since the run began: left.txt",
        "it may need one of 1 test that the run had deselected",
    ]
    proofs.runs.write({"test_it.py": "def test_c(): pass\n"})
    number = [*found].index("test_it.py::test_a") + 1
    code, out, _ = proofs.prove("--cause", str(number))
    assert code == 1
    assert "   test_it.py::test_a is not collected any more" in out
    assert out[-1] == "1 cause not proven; to go on: failure-taxonomy prove --resume --budget 10m"


def test_a_thread_keeps_it_from_forking(proofs: Proofs) -> None:
    """Then every experiment has a process of its own."""
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    proofs.runs.write(
        {"conftest.py": f"import threading\n{thread}\n", "test_it.py": "def test_it(): assert 0\n"}
    )
    proofs.runs.run()
    code, out, _ = proofs.prove()
    assert code == 0
    assert out[1].startswith("every experiment takes a process of its own: ")
    assert proofs.proofs()["test_it.py::test_it"]["type"] == "reproducible"
    assert " 0 in forks, " in out[-1]


def test_the_order_before_plugins_changed_it_is_known(runs: PytestRuns) -> None:
    """What is collected before a test may be what it needs."""
    runs.write(
        {
            "conftest.py": "def pytest_collection_modifyitems(items): items.reverse()\n",
            "test_it.py": "def test_login(): pass\ndef test_user(): assert 0\n",
        }
    )
    setup = Setup(args=("-p", "failure_taxonomy"), folder=runs.path, rootdir=runs.path)
    with Experiments(setup, until=time.monotonic() + 60, limit_seconds=60) as experiments:
        experiments.start()
        assert experiments.nodeids == ("test_it.py::test_user", "test_it.py::test_login")
        assert experiments.natural == experiments.nodeids[::-1]


REFUSED: Final = {
    "no cause": ("def test_it(): pass", (), "prove: nothing failed in this run"),
    "no such cause": (
        "def test_it(): assert 0",
        ("--cause", "2"),
        "prove: there is no cause 2; the report has 1, which `failure-taxonomy show --all` lists",
    ),
    "effects": (
        "import subprocess\ndef test_it():\n    subprocess.run(['true'])\n    assert 0",
        (),
        "prove: the tests use subprocess (true), and would do so in every run; to go on: ",
    ),
    "not collected": (
        "def test_it():\n    open('conftest.py', 'w').write('1 / 0')\n    assert 0",
        (),
        "prove: the tests can't be collected: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(proofs: Proofs, name: str) -> None:
    """One line says what is wrong and what would be right; the exit code is 2."""
    content, words, expected = REFUSED[name]
    proofs.runs.write({"test_it.py": content})
    proofs.runs.run()
    code, _, err = proofs.prove(*words)
    assert code == 2
    (line,) = err
    assert line.removeprefix("failure-taxonomy: ").startswith(expected)
