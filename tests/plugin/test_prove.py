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
from typing import Final

import pytest

from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.experiment import Experiments, Setup, Victim
from pytest_failure_taxonomy.report.load import decode_report
from tests.helpers.proofs import Proofs
from tests.helpers.runs import PytestRuns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks and signals"),
]

FINE: Final = "".join(f"def test_fine_{number}(): pass\n" for number in range(8))
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

def pytest_terminal_summary():  # is no test, and may do what it wants
    __import__("subprocess").run(["true"])
""",
    **{f"test_{name}.py": "def test_it(): pass\n" * 5 for name in "abcd"},
    "test_shop.py": f"""\
import os
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
""",
    "test_z.py": """\
import time
import pytest
@pytest.fixture(scope="module")
def connection():
    yield 1
    time.sleep(0.2)
    raise RuntimeError("still open")
def test_first(connection): pass
def test_last(): pass
""",
}


THREAD: Final = """\
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def test_ctrl_c_leaves_what_is_known_and_resume_goes_on(proofs: Proofs) -> None:
    """The first cause's proof is in the report, and nothing runs any more.

    It is that of two tests which pollute together, one of which is not enough. What ran before
    theirs on their own worker counts. A fixture of the session is set up by then, and must stay so.
    Other tests that failed with the same message have other causes, which is said.

    The second one's is the end of a fixture that fails each time. It is charged to the last test of
    the module, and the fixture's, whichever runs.
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
        process.send_signal(signal.SIGTERM)  # as Ctrl+C
        _, said = process.communicate()
    assert process.returncode == 130
    assert (
        "interrupted; the results so far are in the report, --resume continues" in said
    )
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
    ending = proofs.proofs()["test_z.py::test_last"]
    assert (ending["type"], ending["status"]) == ("reproducible", "proven")
    assert ending["nodeids"] == []
    assert ending["command"].endswith(" test_z.py::test_first")


def experiments_alive() -> list[str]:
    """Return the command lines of pytest processes of experiments in this one's folder."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = (
                    Path("/proc", entry, "cmdline")
                    .read_bytes()
                    .decode(errors="replace")
                )
                working = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            if (
                "pytest_failure_taxonomy.prove.inside" in command
                and working == os.getcwd()
            ):
                found.append(command)
    return found


def test_a_crash_and_what_may_decide_besides(proofs: Proofs) -> None:
    """A test that takes its process along fails by itself.

    A file that the run has left makes no difference; tests that it had deselected may, and a test
    that is gone is reported.
    """
    proofs.runs.write(
        {
            "test_it.py": """\
import os
import signal
def test_fine(): open('left.txt', 'w').close()
def test_deselected(): pass
def test_crash(): os.kill(os.getpid(), signal.SIGSEGV)
"""
        }
    )
    (proofs.runs.path / "left.txt").touch()
    proofs.runs.run_unchecked("-p", "no:faulthandler", "-k", "not deselected")
    proofs.runs.wait_for_completion()
    assert proofs.prove()[0] == 0
    ((nodeid, proof),) = proofs.proofs().items()
    assert (proof["type"], proof["status"]) == ("reproducible", "proven")
    assert proof["suspicions"] == [
        "it may need one of 1 test that the run had deselected"
    ]
    proofs.runs.write({"test_it.py": "def test_fine(): pass\n", "conftest.py": THREAD})
    code, out, _ = proofs.prove()
    assert code == 1
    assert out[2].startswith("every experiment needs its own process: ")
    assert f"   {nodeid} is not collected any more" in out
    assert (
        out[-1]
        == "1 cause not proven; to go on: failure-taxonomy prove --resume --budget 10m"
    )


def test_what_is_known_of_the_collected_tests(runs: PytestRuns) -> None:
    """Their order before plugins changed it, and a thread that keeps it from forking."""
    runs.write(
        {
            "conftest.py": f"{THREAD}def pytest_collection_modifyitems(items): items.reverse()\n",
            "test_it.py": "def test_login(): pass\ndef test_user(): pass\n",
        }
    )
    setup = Setup(args=("-p", "failure_taxonomy"), folder=runs.path, rootdir=runs.path)
    with Experiments(
        setup, until=time.monotonic() + 60, limit_seconds=60
    ) as experiments:
        experiments.start()
        assert experiments.nodeids == (
            "test_it.py::test_user",
            "test_it.py::test_login",
        )
        assert experiments.natural == experiments.nodeids[::-1]
        victim = Victim(
            nodeid="test_it.py::test_user",
            fingerprints=frozenset(),
            endings=frozenset(),
        )
        outcome = experiments.run(victim, experiments.nodeids[1:])
        assert (outcome.result, experiments.fresh_runs, experiments.forks) == (
            "passed",
            1,
            0,
        )


@pytest.mark.lowest
def test_forks_and_fresh_processes_give_the_same_answers(runs: PytestRuns) -> None:
    """What a proof is made of, with any pytest: a pass, a failure, its place and its state."""
    test = "import state\ndef test_it(): state.check(1 not in state.SEEN)\n"
    polluter = "import state\ndef test_one(): state.SEEN.add(1)\n"
    runs.write({**SHOP, "test_a.py": FINE, "test_b.py": polluter, "test_it.py": test})
    run = runs.run("test_a.py", "test_b.py", "test_it.py")
    report = decode_report(run.report)
    (victim,) = recorded.victims_of(report, report.causes[0])
    setup = Setup(args=("-p", "failure_taxonomy"), folder=runs.path, rootdir=runs.path)
    with Experiments(
        setup, until=time.monotonic() + 60, limit_seconds=60
    ) as experiments:
        experiments.start()
        before = [
            each
            for each in experiments.nodeids
            if each.startswith(("test_a", "test_b"))
        ]
        for is_fresh in (False, True):
            assert experiments.run(victim, is_fresh=is_fresh).result == "passed"
            assert experiments.run(victim, before, is_fresh=is_fresh).result == "failed"
        assert experiments.walk(victim, before, 4) == len(before)
        ((key, text),) = experiments.find_state(victim, before).answer("fixed")
        assert text.startswith("state.SEEN = ")
        assert experiments.run(victim, before, put_back=[key]).result == "passed"


WRITES: Final = {
    "pytest.ini": """\
[pytest]
log_file = run.log
nightly_report_file = nightly.txt
addopts = --junitxml=junit.xml --debug=debug.log --report-dir=reports --opened=opened.txt
""",
    "conftest.py": """\
import argparse
import pytest

def pytest_addoption(parser):
    parser.addini("nightly_report_file", "is written")
    parser.addoption("--report-dir")
    parser.addoption("--html", dest="htmlpath")
    parser.addoption("--opened", type=argparse.FileType("w"))
    parser.addoption("--rules", type=argparse.FileType("r"), default="pytest.ini")

def pytest_configure(config):
    config.option.htmlpath = "page.html"
    assert config.option.rules.read().startswith("[pytest]")

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    option = session.config.option
    for path in (option.report_dir, option.htmlpath, session.config.getini("nightly_report_file")):
        if path:
            open(path, "w").close()
    option.opened.write("all")
""",
    "test_it.py": """\
import logging
def test_it(): logging.getLogger().error("it fails"); assert 0
""",
}


@pytest.mark.lowest
def test_no_file_of_an_option_is_written(proofs: Proofs) -> None:
    """Whether pytest, a plugin or a conftest writes it, and whoever names it, and where."""
    proofs.runs.write(WRITES)
    proofs.runs.run("--log-file=typed.log", "--junit-xml", "typed.xml")
    names = [
        "typed.log",
        "typed.xml",
        "debug.log",
        "reports",
        "opened.txt",
        "page.html",
    ]
    assert all((proofs.runs.path / name).exists() for name in names)
    names += ["nightly.txt", "run.log", "junit.xml"]
    for name in names:
        (proofs.runs.path / name).write_text("mine")
    code, out, _ = proofs.prove("--fixed")
    assert (code, out[-1]) == (1, "   not fixed: failed in run 1")
    changed = [
        name for name in names if (proofs.runs.path / name).read_text() != "mine"
    ]
    assert changed == []


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
    "no time": (
        (
            "def test_it():\n    open('conftest.py', 'w').write('import time; time.sleep(60)')\n"
            "    assert 0"
        ),
        ("--budget", "1s"),
        "prove: the tests can't be collected: pytest gave no answer in time",
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


CHANGES: Final = """\
import os
NAMES = ["data.txt"]
def test_first(): NAMES[0] = "gone.txt"
def test_second(): pass
def test_moves(tmp_path): os.chdir(tmp_path)
def test_last(): pass
def test_opens(): open(NAMES[0])
"""


def test_what_has_changed_something_is_suspected_first(proofs: Proofs) -> None:
    """Of two tests that make a victim fail, the one that left another folder is tried first."""
    proofs.runs.write({"data.txt": "", "test_it.py": CHANGES})
    assert proofs.runs.run().exit_status == 1
    proof = proofs.prove_only()
    assert (proof["type"], proof["nodeids"]) == (
        "order.polluted",
        ["test_it.py::test_moves"],
    )
