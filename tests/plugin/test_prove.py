"""`failure-taxonomy prove`: what is proven of real runs, and what it does not touch."""

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
from pytest_failure_taxonomy.prove import axes
from tests.helpers.runs import PytestRuns
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks and signals"),
]

SHOP: Final = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "shop/__init__.py": "",
    "shop/config.py": "RATE = 0.2\nUSER = None\n",
    "conftest.py": """\
import os
import pytest
@pytest.fixture(scope="session", autouse=True)
def database():
    os.environ["SHOP_DATABASE"] = "rows"
    yield
    del os.environ["SHOP_DATABASE"]
""",
    "test_first.py": """\
import pytest
@pytest.mark.parametrize("number", range(30))
def test_fine(number): pass
def test_login():
    from shop import config
    config.USER = "ada"
""",
    "test_tax.py": """\
from shop import config
def test_default(): config.RATE = 0.19
""",
    "test_total.py": """\
import os; from shop import config
def total(): return os.environ["SHOP_DATABASE"] and round(10 * (1 + config.RATE), 2)
def test_total(): assert total() == 12
def test_user(): assert config.USER
""",
}
TOTAL: Final = "test_total.py::test_total"


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

    def only(self) -> dict[str, Any]:
        """Return the proof of the report's only cause."""
        (cause,) = self.runs.read_report()["causes"]
        proof: dict[str, Any] = cause["proof"]
        return proof


@pytest.fixture
def proofs(
    runs: PytestRuns, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Proofs:
    """Return what runs and proves in the folder of the test."""
    monkeypatch.chdir(runs.path)
    # Tests that run beside this one measure times.
    monkeypatch.setattr(axes, "_BUSY_PER_PROCESSOR", 0)
    return Proofs(runs, capsys)


def test_a_polluter_and_what_it_leaves_behind(proofs: Proofs) -> None:
    """All is said: what passes alone, after what it fails, and the state that mends it.

    That a fixture of the session is set up by then, and must stay so, is no hindrance.
    """
    proofs.runs.write(SHOP)
    assert proofs.runs.run("-k", "not user").exit_status == 1
    before = tree_of(proofs.runs.path)
    code, out, err = proofs.prove()
    assert (code, err) == (0, [])
    assert out[0] == "1 cause, in at most 5 min and about 360 runs of some of the tests"
    assert out[1] == f"1. 1 x assert 11.9 == 12: test_total (test_total.py:3): {TOTAL}"
    assert out[2].lstrip() == (
        "order-dependent, proven: passes alone (5 of 5), fails after test_tax.py::test_default"
        " (5 of 5)"
    )
    assert out[3].lstrip() == (
        "test_tax.py::test_default leaves shop.config.RATE = 0.19 (was 0.2); with it put back"
        " test_total passes"
    )
    options = "-p failure_taxonomy -p no:cacheprovider"
    assert out[4] == f"   pytest {options} test_tax.py::test_default {TOTAL}"
    assert out[5].startswith("12 runs in fresh processes, ")
    assert len(out) == 6
    proof = proofs.only()
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    assert (proof["runs"], proof["failed"]) == (5, 5)
    assert proof["without"] == {"runs": 5, "failed": 0, "state": None}
    report = proofs.runs.read_report()
    assert report["verdict"]["retryable"] is False
    assert tree_of(proofs.runs.path) == before


def tree_of(folder: Path) -> list[tuple[str, int, int]]:
    """Return all files of a folder but the report, with sizes and times."""
    return sorted(
        (str(path), (status := path.stat()).st_size, status.st_mtime_ns)
        for path in folder.rglob("*")
        if path.name != "failure-report.json" and not path.is_dir()
    )


def test_the_order_of_a_worker(proofs: Proofs) -> None:
    """Under xdist what ran before it on its own worker counts."""
    shop = SHOP["test_tax.py"] + SHOP["test_total.py"].replace("from shop import config\n", "\n")
    proofs.runs.write(
        {
            **{name: text for name, text in SHOP.items() if not name.startswith("test_")},
            **{f"test_{name}.py": "def test_it(): pass\n" * 9 for name in "abcd"},
            "test_shop.py": shop,
        }
    )
    proofs.runs.run("-n", "2", "--dist", "loadfile", "-k", "not user", plugins=["xdist"])
    assert proofs.runs.read_report()["order"]["distribution"] == "loadfile"
    code, out, _ = proofs.prove()
    assert code == 0
    assert "the recorded order is not known" not in "\n".join(out)
    assert proofs.only()["nodeids"] == ["test_shop.py::test_default"]


def test_two_that_pollute_together(proofs: Proofs) -> None:
    """Both are named, and neither alone is enough."""
    fine = "".join(f"def test_fine_{number}(): pass\n" for number in range(20))
    proofs.runs.write(
        {
            "state.py": "SEEN = set()\n",
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "test_a.py": f"import state\ndef test_one(): state.SEEN.add(1)\n{fine}",
            "test_b.py": f"import state\n{fine}def test_two(): state.SEEN.add(2)\n{fine}",
            "test_c.py": "import state\ndef test_it(): assert state.SEEN != {1, 2}\n",
        }
    )
    proofs.runs.run()
    code, _, _ = proofs.prove()
    assert code == 0
    proof = proofs.only()
    assert proof["nodeids"] == ["test_a.py::test_one", "test_b.py::test_two"]
    assert proof["state"].startswith("state.SEEN = ")


def test_one_message_may_have_several_causes(proofs: Proofs) -> None:
    """What is proven of the first test of a cause is said of the others if they end like it."""
    proofs.runs.write(
        {
            "state.py": "ON = OFF = READY = False\ndef check(well): assert well, 'broken'\n",
            "test_it.py": """\
import state
def test_a(): state.ON = True
def test_b(): state.OFF = True
def test_first(): state.check(not state.ON)
def test_like_it(): state.check(not state.ON)
def test_after_another(): state.check(not state.OFF)
def test_alone(): state.check(False)
""",
            "pytest.ini": "[pytest]\npythonpath = .\n",
        }
    )
    proofs.runs.run()
    proofs.prove()
    proof = proofs.only()
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    (suspicion,) = proof["suspicions"]
    assert suspicion == (
        "another cause for test_it.py::test_after_another, which passes after the same tests, "
        "test_it.py::test_alone, which fails alone"
    )


def test_one_that_needs_another(proofs: Proofs) -> None:
    """A test that fails alone and passes after another is brittle."""
    reverse = "def pytest_collection_modifyitems(items): items.reverse()\n"
    proofs.runs.write({**SHOP, "test_tax.py": "", "conftest.py": SHOP["conftest.py"] + reverse})
    proofs.runs.run()
    code, out, _ = proofs.prove()
    assert code == 0
    assert (
        "   brittle, proven: fails alone (5 of 5), passes after test_first.py::test_login (5 of 5)"
    ) in out
    assert proofs.only()["nodeids"] == ["test_first.py::test_login"]


def test_what_fails_by_itself_crashes_and_comes_and_goes(proofs: Proofs) -> None:
    """Each cause has its own proof, also of a test that takes its process along."""
    proofs.runs.write(
        {
            "test_it.py": """\
import os, random, signal
def test_wrong(): assert 1 == 2
def test_coin(): assert random.SystemRandom().random() < 0.5, "tails"
def test_crash(): os.kill(os.getpid(), signal.SIGSEGV)
"""
        }
    )
    for _ in range(40):
        proofs.runs.run_unchecked("-p", "no:faulthandler")
        report = proofs.runs.wait_for_completion()
        if len(report["causes"]) == 3:
            break
    code, out, _ = proofs.prove("--budget", "4m")
    by_type = {
        cause["nodeids"][0].partition("::")[2]: cause["proof"]
        for cause in proofs.runs.read_report()["causes"]
    }
    types = {name: (proof["type"], proof["status"]) for name, proof in by_type.items()}
    assert types == {
        "test_wrong": ("reproducible", "proven"),
        "test_coin": ("flaky", "proven"),
        "test_crash": ("reproducible", "proven"),
    }
    assert code == 0
    coin = by_type["test_coin"]
    assert 0 < coin["failed"] < coin["runs"] == 20
    low, high = (f"{coin['interval'][name]:.1%}" for name in ("low", "high"))
    words = f"fails {coin['failed']} of 20 whatever the order ({low} to {high})"
    assert f"   flaky, proven: {words}" in out


def test_a_thread_keeps_it_from_forking(proofs: Proofs) -> None:
    """Then every experiment has a process of its own, and the answer is the same."""
    thread = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    proofs.runs.write(
        {**SHOP, "conftest.py": SHOP["conftest.py"] + f"{thread}\n", "test_first.py": ""}
    )
    proofs.runs.run(f"--deselect={TOTAL[:-5]}user")
    code, out, _ = proofs.prove()
    assert code == 0
    assert out[1].startswith("every experiment takes a process of its own: ")
    proof = proofs.only()
    assert (proof["type"], proof["nodeids"]) == ("order.polluted", ["test_tax.py::test_default"])
    assert out[-1].endswith("0 in forks, 0 s") or " 0 in forks, " in out[-1]


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


def test_the_end_of_a_fixture_that_fails_each_time(proofs: Proofs) -> None:
    """It is charged to the last test of the module, and the fixture's, whichever runs."""
    proofs.runs.write(
        {
            "test_it.py": """\
import pytest
@pytest.fixture(scope="module")
def connection():
    yield 1
    raise RuntimeError("still open")
def test_first(connection): pass
def test_last(): pass
"""
        }
    )
    proofs.runs.run()
    code, _, _ = proofs.prove()
    assert code == 0
    proof = proofs.only()
    assert (proof["type"], proof["nodeids"]) == ("reproducible", [])
    assert proof["command"].endswith(" test_it.py::test_first")


def test_what_may_decide_besides_is_said(proofs: Proofs) -> None:
    """A file that the run has left, and tests that it had deselected; a test that is gone."""
    proofs.runs.write(
        {
            "test_it.py": "import os\ndef test_a(): assert not os.path.exists('left.txt')\n"
            "def test_b(): open('left.txt', 'w').close()\ndef test_c(): pass\n"
        }
    )
    (proofs.runs.path / "left.txt").touch()
    proofs.runs.run("-k", "not test_c")
    code, _, _ = proofs.prove()
    assert code == 0
    assert proofs.only()["suspicions"] == [
        "files that were written since the run began: left.txt",
        "it may need one of 1 test that the run had deselected",
    ]
    proofs.runs.write({"test_it.py": "def test_c(): pass\n"})
    code, out, _ = proofs.prove()
    assert code == 1
    assert "   test_it.py::test_a is not collected any more" in out
    assert out[-1] == "1 cause not proven; to go on: failure-taxonomy prove --resume --budget 10m"


def test_ctrl_c_leaves_what_is_known_and_resume_goes_on(proofs: Proofs) -> None:
    """The first cause's proof is in the report, and nothing runs any more."""
    proofs.runs.write(
        {
            "test_it.py": "import time\ndef test_a(): assert 0, 'one'\n"
            "def test_b():\n    time.sleep(1)\n    assert 0, 'two'\n"
        }
    )
    proofs.runs.run()
    command = [sys.executable, "-m", "pytest_failure_taxonomy", "prove"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: proofs.runs.read_report()["causes"][0]["proof"], "the first proof")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert b"interrupted; what is proven so far is in the report, --resume goes on" in said
    first, second = proofs.runs.read_report()["causes"]
    assert (first["proof"]["status"], second["proof"]) == ("proven", None)
    assert experiments_alive() == []
    code, out, _ = proofs.prove("--resume")
    assert code == 0
    assert [line[:2] for line in out if line[0].isdigit() and line[1] == "."] == ["2."]


def experiments_alive() -> list[str]:
    """Return the command lines of pytest processes of experiments below this one's user."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "pytest_failure_taxonomy.prove.inside" in command:
                working = os.readlink(f"/proc/{entry}/cwd")
                if working == os.getcwd():
                    found.append(command)
    return found
