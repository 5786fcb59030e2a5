"""Whatever happens inside of us or is done to us, the user's run is as it would be without us."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks import (
    controller,
    lifecycle,
    progress,
    session,
    worker,
)
from tests.helpers.children import (
    REPORT,
    SWITCH,
    run_child,
    run_plain_pytest,
    run_pytest,
)

pytestmark = pytest.mark.slow

PASSING: Final = "def test_passes(): pass\n"
FAILING: Final = "def test_fails(): assert 0\n"
FAULTY: Final = (
    " failed inside pytest-failure-taxonomy: RuntimeError: broken here. The run is not"
)

posix_only = pytest.mark.skipif("sys.platform == 'win32'", reason="of POSIX systems")


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """Return a folder with a configuration."""
    write(pytester.path, {"pytest.ini": "[pytest]\n"})
    return pytester.path


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder, given by name and content."""
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def faults_in(report: dict[str, Any]) -> list[str]:
    """Return what the report says of faults of ours."""
    faults: list[str] = report["faults"]
    return faults


# Faults in our hooks.

BREAKER: Final = """
import os
from functools import wraps

from pytest_failure_taxonomy.hooks import controller, guard, progress, session, worker
from pytest_failure_taxonomy.hooks import lifecycle

# As if it stood in our own code: what a test's code raises in ours is no fault of ours.
fault = "def broken(*args): raise RuntimeError('broken here')"
exec(compile(fault, guard.__file__, "exec"))

name, _, hook = os.environ["BROKEN"].partition(".")
modules = (controller, lifecycle, progress, session, worker)
(guarded,) = {vars(getattr(module, name))[hook] for module in modules if hasattr(module, name)}
if "hook" in guarded.__code__.co_freevars:
    cell = guarded.__closure__[guarded.__code__.co_freevars.index("hook")]
    cell.cell_contents = wraps(cell.cell_contents)(broken)
elif hook == "pytest_runtest_logstart":
    progress.Progress.start = broken
elif hook == "pytest_runtest_logreport":
    session.SessionRecorder._record_other_than_passed = broken
elif hook == "pytest_runtest_logfinish":
    progress.Progress.finish = broken
"""
"""A plugin that makes one of our hooks raise, in what guards it.

Three hooks guard themselves; they are broken in something that they call.
"""

ORDINARY: Final = (
    {
        "test_it.py": "import warnings\n\n"
        "def test_warns(): warnings.warn('old')\n"
        "def test_other(): pass\n" + PASSING + FAILING
    },
    ("-k", "not other"),
    1,
    "1 failed, 2 passed, 1 deselected, {} warning",
)
ANNOUNCED: Final = (
    {
        "test_it.py": PASSING,
        "conftest.py": "def pytest_collection(session):\n"
        "    hook = session.config.hook\n"
        "    hook.pytest_failure_taxonomy_section_begun(place=None)\n",
    },
    (),
    0,
    "1 passed, {} warning",
)
BROKEN_MODULE: Final = (
    {"test_it.py": "import no_such\n"},
    (),
    2,
    "{} warning, 1 error",
)
CTRL_C: Final = (
    {"test_it.py": PASSING + "def test_it(): raise KeyboardInterrupt\n"},
    (),
    2,
    "1 passed, {} warning",
)
INTERNAL: Final = (
    {"test_it.py": PASSING, "conftest.py": "def pytest_runtest_logreport(): 1 / 0\n"},
    (),
    3,
    None,
)
COMPARES: Final = {"test_it.py": PASSING + "def test_compares(): assert 1 == 2\n"}
COMPARING: Final = (COMPARES, (), 1, "1 failed, 1 passed, {} warning")
LIMITED: Final = ({"test_it.py": PASSING}, ("--timeout=60",), 0, "1 passed, {} warning")
DISTRIBUTED: Final = (
    {
        "test_it.py": PASSING + FAILING + "def test_other(): pass\n",
        "test_no.py": "import no_such",
    },
    ("-n", "1", "--continue-on-collection-errors", "-k", "not other"),
    1,
    "1 failed, 1 passed, {} warning, 1 error",
)

EXITED: Final = (
    {
        "test_it.py": PASSING
        + "def test_exits():\n    import pytest\n    pytest.exit('enough')\n"
    },
    ("-n", "1"),
    2,
    None,
)

SCENARIOS: Final = {
    "Run.pytest_collection_finish": ORDINARY,
    "Run.pytest_failure_taxonomy_section_begun": ANNOUNCED,
    "Run.pytest_report_header": ORDINARY,
    "Run.pytest_sessionstart": ORDINARY,
    "ActivityRecorder.pytest_collection_finish": ORDINARY,
    "ActivityRecorder.pytest_collection_modifyitems": ORDINARY,
    "ActivityRecorder.pytest_collectstart": ORDINARY,
    "ActivityRecorder.pytest_configure": ORDINARY,
    "ActivityRecorder.pytest_runtestloop": ORDINARY,
    "ActivityRecorder.pytest_sessionstart": ORDINARY,
    "CrashDump.pytest_configure": ORDINARY,
    "SessionRecorder.pytest_assertrepr_compare": COMPARING,
    "SessionRecorder.pytest_collection_finish": ORDINARY,
    "SessionRecorder.pytest_collectreport": BROKEN_MODULE,
    "SessionRecorder.pytest_deselected": ORDINARY,
    "SessionRecorder.pytest_exception_interact": ORDINARY,
    "SessionRecorder.pytest_internalerror": INTERNAL,
    "SessionRecorder.pytest_keyboard_interrupt": CTRL_C,
    "SessionRecorder.pytest_runtest_logfinish": ORDINARY,
    "SessionRecorder.pytest_runtest_logreport": ORDINARY,
    "SessionRecorder.pytest_runtest_logstart": ORDINARY,
    "SessionRecorder.pytest_warning_recorded": ORDINARY,
    "ActivityRecorder.pytest_timeout_cancel_timer": LIMITED,
    "ActivityRecorder.pytest_timeout_set_timer": LIMITED,
    "ControllerRecorder.pytest_collectreport": DISTRIBUTED,
    "ControllerRecorder.pytest_configure_node": DISTRIBUTED,
    "ControllerRecorder.pytest_runtest_logreport": DISTRIBUTED,
    "ControllerRecorder.pytest_testnodedown": DISTRIBUTED,
    "ControllerRecorder.pytest_testnodeready": DISTRIBUTED,
    "ControllerRecorder.pytest_xdist_node_collection_finished": DISTRIBUTED,
    "WorkerRecorder.pytest_assertrepr_compare": (COMPARES, ("-n", "1"), *COMPARING[2:]),
    "WorkerRecorder.pytest_collection_finish": DISTRIBUTED,
    "WorkerRecorder.pytest_collectreport": DISTRIBUTED,
    "WorkerRecorder.pytest_deselected": DISTRIBUTED,
    "WorkerRecorder.pytest_exception_interact": DISTRIBUTED,
    "WorkerRecorder.pytest_keyboard_interrupt": EXITED,
    "WorkerRecorder.pytest_runtest_logfinish": DISTRIBUTED,
    "WorkerRecorder.pytest_runtest_logreport": DISTRIBUTED,
    "WorkerRecorder.pytest_runtest_logstart": DISTRIBUTED,
    "WorkerRecorder.pytest_runtest_makereport": DISTRIBUTED,
}
"""For each hook a run that calls it: files, arguments, exit status, and pytest's last line."""

WRAPPERS: Final = {
    "Run.pytest_cmdline_main",
    "SessionRecorder.pytest_sessionfinish",
    "ActivityRecorder.pytest_sessionfinish",
}
"""What these raise is what others have raised."""
HAND_OVER: Final = {
    "WorkerRecorder.pytest_sessionfinish",
    "CrashDump.pytest_unconfigure",
}
"""A worker whose hand-over fails has no way left to say so; at the very end warnings are over."""


def test_each_of_our_hooks_is_broken_once() -> None:
    """The table below has all hooks that we implement."""
    classes: list[type] = [
        lifecycle.Run,
        session.SessionRecorder,
        controller.ControllerRecorder,
        worker.WorkerRecorder,
        progress.ActivityRecorder,
        progress.CrashDump,
    ]
    hooks = {
        f"{each.__name__}.{name}"
        for each in classes
        for name in vars(each)
        if "pytest_" in name
    }
    assert hooks - WRAPPERS - HAND_OVER == set(SCENARIOS)


@pytest.mark.parametrize("hook", SCENARIOS)
def test_a_fault_in_a_hook_of_ours_is_one_warning(folder: Path, hook: str) -> None:
    """It costs the run nothing but a warning, and the report says it, too."""
    files, args, status, outcome = SCENARIOS[hook]
    write(folder, {**files, "breaker.py": BREAKER})
    run = run_pytest(
        folder,
        "-p",
        "breaker",
        *args,
        plugins=("xdist", "timeout"),
        env={"BROKEN": hook},
    )
    assert run.status == status
    report = run.report()
    fault, *_ = faults_in(report)  # others can follow from the first
    assert fault.startswith(hook.partition(".")[2] + FAULTY)
    if outcome is None:
        return  # pytest shows no warnings where it met an internal error
    count = 1 + outcome.count(
        "2 passed"
    )  # the scenario with two has a warning of its own
    expected = outcome.format(count).replace(
        f"{count} warning", f"{count} warning{'s'[: count - 1]}"
    )
    assert run.outcome == expected
    assert run.stdout.count(FAULTY.partition(".")[0]) == 1
    assert run.stderr == ""
    assert report["exit"]["code"] == status


def test_a_worker_that_can_not_hand_over(folder: Path) -> None:
    """Its tests count all the same."""
    write(folder, {"test_it.py": PASSING + FAILING, "breaker.py": BREAKER})
    environment = {
        "BROKEN": "WorkerRecorder.pytest_sessionfinish",
        "PYTHONPATH": str(folder),
    }
    run = run_pytest(
        folder, "-p", "breaker", "-n", "2", plugins=("xdist",), env=environment
    )
    assert (run.status, run.outcome) == (1, "1 failed, 1 passed")
    assert run.report()["summary"]["failed"] == 1


BREAKS: Final = """
from pytest_failure_taxonomy.hooks import progress

fault = "def broken(self, nodeid): raise RuntimeError('broken here ' + nodeid)"
exec(compile(fault, progress.__file__, "exec"))
progress.Progress.start = broken
"""


@pytest.mark.parametrize(
    ("args", "ini", "outcome", "told"),
    [
        pytest.param((), "", "3 passed, 1 warning", 1, id="plain"),
        pytest.param(("-W", "error"), "", "3 passed, 1 warning", 1, id="errors"),
        pytest.param((), "filterwarnings = error", "3 passed, 1 warning", 1, id="ini-errors"),
        pytest.param(("--disable-warnings",), "", "3 passed, 1 warning", 0, id="disabled"),
        pytest.param(
            ("--max-warnings=0",), "", "3 passed", 0, id="limited",
            marks=pytest.mark.skipif(pytest.version_tuple < (9, 1), reason="new in pytest 9.1"),
        ),
        pytest.param(
            (), "max_warnings = 0", "3 passed", 0, id="ini-limited",
            marks=pytest.mark.skipif(pytest.version_tuple < (9, 1), reason="new in pytest 9.1"),
        ),
    ],
)  # fmt: skip
def test_a_fault_never_fails_a_run(
    folder: Path, args: tuple[str, ...], ini: str, outcome: str, told: int
) -> None:
    """However strict a run is with warnings, a fault of ours is not its failure."""
    tests = "".join(f"def test_{number}(): pass\n" for number in range(3))
    write(
        folder,
        {
            "pytest.ini": f"[pytest]\n{ini}\n",
            "test_it.py": tests,
            "conftest.py": BREAKS,
        },
    )
    run = run_pytest(folder, *args)
    assert (run.status, run.outcome) == (0, outcome)
    assert run.stdout.count("failed inside pytest-failure-taxonomy") == told
    report = run.report()
    assert report["verdict"] is None
    assert len(faults_in(report)) == 3, "each that differs is in the report"


def test_faults_without_end_are_capped(folder: Path) -> None:
    """A hook that fails for every test does not fill memory and report."""
    tests = "import pytest\n\n@pytest.mark.parametrize('x', range(150))\ndef test_it(x): pass\n"
    write(folder, {"test_it.py": tests, "conftest.py": BREAKS})
    run = run_pytest(folder)
    assert (run.status, run.outcome) == (0, "150 passed, 1 warning")
    assert len(faults_in(run.report())) == 100


# Faults at the start and at the end.


@pytest.mark.parametrize(
    ("name", "completeness"),
    [
        pytest.param("lifecycle.judge", "running", id="judging"),
        pytest.param("lifecycle.build_report", "running", id="building"),
        pytest.param("additions.add_extensions", "full", id="extending"),
        pytest.param("lifecycle.ReportFile.close", "running", id="writing"),
        pytest.param("showing.verdict_lines", "full", id="wording"),
        pytest.param("showing.print_lines", "full", id="printing"),
    ],
)
@pytest.mark.parametrize("test", [PASSING, FAILING], ids=["passing", "failing"])
def test_a_fault_at_the_end_is_one_line(
    folder: Path, name: str, completeness: str, test: str
) -> None:
    """The exit status stands, one line on stderr says what failed, and no traceback is shown."""
    breaks = (
        "\n\ndef pytest_sessionfinish():\n"
        "    from pytest_failure_taxonomy.hooks import additions, lifecycle, showing\n"
        "    def broken(*args, **kwargs):\n"
        "        raise RuntimeError('broken\\nhere \\x1b[31m')\n"
        f"    {name} = broken\n"
    )
    write(folder, {"test_it.py": test, "conftest.py": breaks})
    run = run_pytest(folder)
    assert run.status == int(test == FAILING)
    (line,) = run.stderr.splitlines()
    assert line.startswith(
        "the end of the run failed inside pytest-failure-taxonomy: "
        "RuntimeError: broken\\nhere \\x1b[31m. "
    )
    assert run.report(completeness=completeness)["run"]["id"]


@pytest.mark.parametrize(
    "name",
    [
        "lifecycle.judge",
        "lifecycle.build_report",
        "run_context.describe_environment",
    ],
)
def test_a_fault_at_the_start(folder: Path, name: str) -> None:
    """The run begins all the same, and the report of an earlier run does not stay."""
    breaks = (
        "from pytest_failure_taxonomy.hooks import lifecycle, run_context\n\n"
        "fault = 'def broken(*args, **kwargs): raise RuntimeError(\"broken here\")'\n"
        "exec(compile(fault, lifecycle.__file__, 'exec'))\n"
        f"{name} = broken\n"
    )
    write(
        folder, {"test_it.py": PASSING, "breaks.py": breaks, REPORT: "an earlier run's"}
    )
    run = run_pytest(folder, "-p", "breaks", env={"PYTHONPATH": str(folder)})
    assert (run.status, run.outcome) == (0, "1 passed, 1 warning")
    (line,) = run.stderr.splitlines()
    assert line.startswith("the end of the run" + FAULTY)
    assert "the start of the run" + FAULTY in run.stdout
    assert not (folder / REPORT).exists()


def test_a_fault_at_the_start_alone(folder: Path) -> None:
    """Where only the first report could not be written, the last one is, and tells of it."""
    breaks = (
        "from pytest_failure_taxonomy.hooks import lifecycle\n\n"
        "fault = 'def broken(*args, **kwargs): raise RuntimeError(\"broken here\")'\n"
        "exec(compile(fault, lifecycle.__file__, 'exec'))\n"
        "lifecycle.ReportFile.open = broken\n"
    )
    look = f"import os\n\ndef test_look(): assert not os.path.exists('{REPORT}')\n"
    write(folder, {"test_it.py": look, "breaks.py": breaks, REPORT: "an earlier run's"})
    run = run_pytest(folder, "-p", "breaks", env={"PYTHONPATH": str(folder)})
    assert (run.status, run.outcome, run.stderr) == (0, "1 passed, 1 warning", "")
    (fault,) = faults_in(run.report())
    assert fault.startswith("the start of the run" + FAULTY)


@pytest.mark.parametrize(
    "stderr",
    [
        pytest.param("None", id="none"),
        pytest.param("object()", id="object"),
        pytest.param("open(os.devnull)", id="not-writable"),
        pytest.param("sys.stderr.close()", id="closed"),
    ],
)
def test_a_fault_that_can_not_be_told(folder: Path, stderr: str) -> None:
    """Even where there is no stderr to write to, the exit status stands."""
    assign = stderr if stderr.startswith("sys") else f"sys.stderr = {stderr}"
    write(
        folder,
        {
            "test_it.py": PASSING,
            "conftest.py": "import os, sys\n\n"
            "def pytest_unconfigure():\n"
            "    from pytest_failure_taxonomy.hooks import lifecycle\n"
            "    lifecycle.judge = None\n"
            f"    {assign}\n",
        },
    )
    assert run_pytest(folder).status == 0


# What a run is made of.

STATE: Final = """
import builtins, gc, json, locale, logging, os, pathlib, random, signal, sys, threading
import warnings

def descriptors():
    # What is open, by number; numbers from 500 on are beyond what programs get.
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if int(name) < 500:
            found[name] = target.split("[")[0].split("/tmp")[0]
        else:
            assert not os.get_inheritable(int(name))
            assert ".failure-report.json" in target or target.startswith("socket:")
    return found

def children():
    tasks = pathlib.Path("/proc/self/task")
    return "".join((task / "children").read_text() for task in tasks.iterdir()).split()

def handler(number):
    value = signal.getsignal(number)
    return value if value is None or isinstance(value, int) else getattr(value, "__name__", "?")

def test_state(request):
    umask = os.umask(0)
    os.umask(umask)
    state = {
        "descriptors": descriptors(),
        "children": children(),
        "signals": {int(number): handler(number) for number in signal.valid_signals()},
        "masked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "threads": [thread.name for thread in threading.enumerate()],
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_TESTRUNUID")
        },
        "folder": os.getcwd(),
        "umask": umask,
        "path": sys.path,
        "finders": [str(type(finder)) for finder in sys.meta_path],
        "hooks": [
            sys.excepthook is sys.__excepthook__,
            sys.unraisablehook is sys.__unraisablehook__,
            threading.excepthook is threading.__excepthook__,
            sys.displayhook is sys.__displayhook__,
        ],
        "tracing": [str(sys.gettrace()), str(sys.getprofile())],
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "streams": [str(type(sys.stdout)), str(type(sys.stderr)), str(type(sys.stdin))],
        "filters": [str(each) for each in warnings.filters],
        "logging": [logging.root.level, len(logging.root.handlers)],
        "locale": locale.setlocale(locale.LC_ALL),
        "collector": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
        "builtins": sorted(vars(builtins)),
        "user properties": request.node.user_properties,
        "item": sorted(vars(request.node)),
        "session": sorted(vars(request.session)),
    }
    pathlib.Path(os.environ["STATE"]).write_text(json.dumps(state))
"""


@pytest.mark.skipif("sys.platform != 'linux'", reason="/proc is Linux's")
@pytest.mark.parametrize("args", [(), ("-s",), ("-n", "1")], ids=["", "s", "xdist"])
def test_a_test_sees_the_same_process(folder: Path, args: tuple[str, ...]) -> None:
    """No descriptor, child, thread, signal handler, variable or patch of ours is in its way."""
    write(folder, {"test_it.py": STATE})
    states = []
    for runner in (run_plain_pytest, run_pytest):
        file = folder / f"{runner.__name__}.json"
        run = runner(folder, *args, plugins=("xdist",), env={"STATE": str(file)})
        assert run.outcome == "1 passed", run.stdout
        state = json.loads(file.read_text("utf-8"))
        state["environment"].pop("STATE")
        states.append(state)
    plain, ours = states
    assert ours == plain


def test_pytests_output_is_untouched(folder: Path) -> None:
    """What pytest prints is the same to the letter, and ours comes after it."""
    tests = (
        "import sys, warnings, pytest\n\n"
        "def test_prints():\n    print('out')\n    print('err', file=sys.stderr)\n    assert 0\n\n"
        "def test_warns(): warnings.warn('old')\n"
        "@pytest.mark.skip(reason='later')\ndef test_skip(): pass\n"
        "@pytest.mark.xfail\ndef test_xfail(): assert 0\n"
        "@pytest.fixture\ndef broken(): raise ValueError('x') from OSError('y')\n"
        "def test_setup(broken): pass\n"
    )
    write(folder, {"test_it.py": tests})
    args = ("-ra", "-v", "-l", "--color=yes")
    plain = run_plain_pytest(folder, *args)
    ours = run_pytest(folder, *args)
    varying = re.compile(r"[0-9]+\.[0-9]+s|plugins: .*\n")
    before = varying.sub("", plain.stdout)
    after = varying.sub("", ours.stdout)
    assert ours.status == plain.status == 1
    assert after[: len(before)] == before
    assert ours.stderr == plain.stderr == ""


SPY: Final = """
import json, os

def keys(report):
    return sorted(vars(report))

seen = []

def pytest_runtest_logreport(report):
    seen.append(["test", report.nodeid, report.when, keys(report)])

def pytest_collectreport(report):
    seen.append(["collector", report.nodeid, "", keys(report)])

def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        with open(os.environ["SEEN"], "w") as file:
            json.dump(sorted(seen, key=str), file)
"""


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_other_plugins_see_the_same_reports(
    folder: Path, args: tuple[str, ...]
) -> None:
    """No attribute of ours is on a report when another plugin looks at it on the controller."""
    write(
        folder,
        {
            "test_it.py": PASSING + FAILING,
            "test_no.py": "import no_such\n",
            "conftest.py": SPY,
        },
    )
    seen = []
    for runner in (run_plain_pytest, run_pytest):
        file = folder / f"{runner.__name__}.json"
        environment = {"SEEN": str(file)}
        arguments = (*args, "--continue-on-collection-errors")
        runner(folder, *arguments, plugins=("xdist",), env=environment)
        seen.append(json.loads(file.read_text("utf-8")))
    assert seen[0] == seen[1]
    assert "taxonomy" not in str(seen[1])


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_reportlog_has_nothing_of_ours(folder: Path, args: tuple[str, ...]) -> None:
    """The lines of pytest-reportlog hold what they would hold without us."""
    pytest.importorskip("pytest_reportlog")
    write(folder, {"test_it.py": PASSING + FAILING, "test_no.py": "import no_such\n"})
    plugins = ("xdist", "pytest_reportlog")
    run_pytest(folder, *args, "--report-log=log", plugins=plugins)
    lines = [
        json.loads(line) for line in (folder / "log").read_text("utf-8").splitlines()
    ]
    assert len(lines) >= 3
    assert not [key for line in lines for key in line if "taxonomy" in key]


def test_junitxml_has_nothing_of_ours(folder: Path) -> None:
    """The JUnit file is the same but for its times."""
    write(folder, {"test_it.py": PASSING + FAILING})
    files = []
    for runner in (run_plain_pytest, run_pytest):
        runner(folder, "-n", "1", "--junitxml=junit.xml", plugins=("xdist",))
        text = (folder / "junit.xml").read_text("utf-8")
        files.append(re.sub(r'time(stamp)?="[^"]*"', "", text))
    assert files[0] == files[1]


# What tests do to the process.


def test_the_report_of_an_earlier_run_is_replaced_at_the_start(folder: Path) -> None:
    """While the tests run, the file says that they run."""
    look = f"import shutil\n\ndef test_look(): shutil.copy('{REPORT}', 'seen')\n"
    write(folder, {"test_it.py": look, REPORT: "an earlier run's"})
    run = run_pytest(folder)
    assert run.outcome == "1 passed"
    seen = run.report("seen", completeness="running")
    assert seen["verdict"]["kind"] == "process.vanished"


FORKS: Final = """
import os, shutil

def test_forks():
    global child
    child = os.fork()

def test_waits():
    if child:
        assert os.waitpid(child, 0)[1] == 256
        shutil.copy("failure-report.json", "seen")
    else:
        assert 0, "in the child"
"""


@posix_only
@pytest.mark.filterwarnings("default")
def test_a_forked_child_that_goes_on(folder: Path) -> None:
    """A child that runs the rest of the session neither writes nor prints for us."""
    write(folder, {"test_it.py": FORKS})
    run = run_pytest(folder, "-s")
    assert run.status == 0
    assert run.stdout.count("1 failed, 1 passed in") == 1, "the child came to its end"
    assert run.told == []
    assert run.stdout.count("failure taxonomy: ") == 1
    assert run.report()["summary"]["passed"] == 2
    assert (
        run.report("seen", completeness="running")["verdict"]["kind"]
        == "process.vanished"
    )


NEVER_PUT_BACK: Final = {
    "time.monotonic": "import time; time.monotonic = lambda: 0.0",
    "time.monotonic-nan": "import time; time.monotonic = lambda: float('nan')",
    "time.monotonic_ns": "import time; time.monotonic_ns = lambda: 1 / 0",
    "time.time": "import time; time.time = lambda: 0.0",
    "time.perf_counter": "import time; time.perf_counter = lambda: 5.0",
    "datetime": "import datetime; datetime.datetime = datetime.date",
    "os.getpid": "import os; os.getpid = lambda: 1",
    "os.replace": "import os; os.replace = broken",
    "os.rename": "import os; os.rename = broken",
    "os.unlink": "import os; os.unlink = os.remove = broken",
    "os.open": "import os; os.open = broken",
    "os.fdopen": "import os; os.fdopen = broken",
    "os.urandom": "import os; os.urandom = broken",
    "os.uname": "import os; os.uname = broken",
    "os.environ": "import os; os.environ.clear()",
    "os.path": "import os; os.path.isfile = os.path.isdir = broken",
    "builtins.open": "import builtins; builtins.open = broken",
    "builtins.sorted": "import builtins; builtins.sorted = broken",
    "pathlib": "import pathlib; pathlib.Path.open = pathlib.Path.write_text = broken",
    "json.dumps": "import json; json.dumps = json.loads = json.dump = broken",
    "json-gone": "import sys; sys.modules.pop('json')",
    "tempfile": "import tempfile; tempfile.mkstemp = tempfile.gettempdir = broken",
    "our-modules-gone": "import sys\n"
    "    for name in list(sys.modules):\n"
    "        if name.startswith('pytest_failure_taxonomy'): del sys.modules[name]",
    "settrace": "import sys; sys.settrace(lambda *args: None)",
    "recursion-limit": "import sys; sys.setrecursionlimit(10_000)",
    "warnings": "import warnings; warnings.simplefilter('error')",
    "logging": "import logging; logging.disable(); logging.raiseExceptions = True",
    "gc": "import gc; gc.disable(); gc.freeze()",
    "umask": "import os; os.umask(0o077)",
    "signals": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "chdir": "import os; os.chdir('/')",
    "folder-gone": "import os, tempfile; gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone)",
}


@pytest.mark.usefixtures("nothing_imported")
@posix_only
@pytest.mark.parametrize(
    "patch", [pytest.param(v, id=k) for k, v in NEVER_PUT_BACK.items()]
)
def test_what_a_test_patches_and_never_puts_back(folder: Path, patch: str) -> None:
    """A report is written with what was there at the start, at the place where it should be."""
    test = (
        "def broken(*args, **kwargs):\n    raise RuntimeError('patched')\n\n"
        f"def test_patches():\n    {patch}\n\n" + FAILING
    )
    write(folder, {"test_it.py": test})
    run = run_pytest(folder)
    assert run.status == 1
    assert run.outcome.startswith("1 failed, 1 passed")
    assert "failed inside" not in run.stdout, (
        "a warning would change pytest's last line"
    )
    report = run.report()
    assert report["verdict"]["kind"] == "test.failed"
    assert report["failures"][0]["location"] == {
        "path": "test_it.py",
        "line": 7 + patch.count("\n"),
    }
    duration = report["run"]["duration_seconds"]
    assert duration is None or 0 <= duration < 60
    assert run.told[-1] == f"report: {REPORT}"


@pytest.mark.usefixtures("nothing_imported")
@posix_only
@pytest.mark.parametrize(
    "imported", ["", "import jinja2, markupsafe\n"], ids=["", "imported"]
)
def test_a_file_of_the_tests_with_the_name_of_a_library(
    folder: Path, imported: str
) -> None:
    """What is imported at the end of a run is the library, and the tests have their own module."""
    own = "".join(
        f"    assert {name}.MINE\n" for name in ("jinja2", "markupsafe") if imported
    )
    test = f"{imported}def test_it():\n    assert True\n{own}"
    write(
        folder,
        {"test_it.py": test, "jinja2.py": "MINE = 1\n", "markupsafe.py": "MINE = 1\n"},
    )
    run = run_pytest(folder, "--failure-taxonomy-html=page.html")
    assert (run.status, run.outcome) == (0, "1 passed")
    assert "</html>" in (folder / "page.html").read_text("utf-8")


@pytest.mark.skipif("not hasattr(__import__('signal'), 'SIGRTMIN')", reason="of Linux")
@pytest.mark.parametrize(
    "args", [(), ("--failure-taxonomy-end-stalled",)], ids=["", "end"]
)
@pytest.mark.parametrize(
    "number",
    ["signal.SIGRTMIN + 10", "signal.SIGRTMIN + 11", "signal.SIGURG", "signal.SIGUSR1"],
)
def test_a_signal_that_a_test_sends_itself(
    folder: Path, number: str, args: tuple[str, ...]
) -> None:
    """It ends the process, or does nothing, as without us, whatever signals we use."""
    test = f"import os, signal\n\ndef test_it(): os.kill(os.getpid(), {number})\n"
    write(folder, {"test_it.py": test})
    plain = run_plain_pytest(folder)
    run = run_pytest(folder, *args)
    assert run.status == plain.status


@pytest.mark.parametrize(
    ("patch", "args"),
    [
        pytest.param("sys.stdout = None", ("-s",), id="none"),
        pytest.param("sys.stdout = object()", ("-s",), id="object"),
        pytest.param(
            "sys.stdout = sys.stderr = open(os.devnull)", ("-s",), id="not-writable"
        ),
        pytest.param("sys.stdout.close()", ("-s",), id="closed"),
        pytest.param("os.close(1)", ("-s",), id="descriptor-closed"),
        pytest.param("os.close(2)", ("-s",), id="stderr-closed"),
        pytest.param("sys.stdout = object()", (), id="object-captured"),
        pytest.param("sys.stdout.close()", (), id="closed-captured"),
        pytest.param("sys.stdout = sys.__stdout__ = None", (), id="both-gone"),
    ],
)
def test_streams_that_a_test_has_spoiled(
    folder: Path, patch: str, args: tuple[str, ...]
) -> None:
    """The exit status is pytest's own, and the report is there."""
    write(folder, {"test_it.py": f"import os, sys\n\ndef test_it():\n    {patch}\n"})
    plain = run_plain_pytest(folder, *args)
    run = run_pytest(folder, *args)
    assert run.status == plain.status
    assert run.report()["exit"]["code"] is not None
    assert "failure-taxonomy" not in run.stderr


RECURSES: Final = """
import sys

def recurse(): recurse()

def test_it(): recurse()

class Odd(Exception):
    def __str__(self): recurse()
    __repr__ = __str__

def test_odd(): raise Odd

def test_limit(): sys.setrecursionlimit(max(200, len(__import__("inspect").stack()) + 60))
"""


def test_endless_recursion(folder: Path) -> None:
    """A RecursionError is a failed test; in a `__str__` it costs the message and no more."""
    write(folder, {"test_it.py": RECURSES.partition("def test_limit")[0]})
    plain = run_plain_pytest(folder)
    run = run_pytest(folder)
    assert (run.status, run.outcome) == (plain.status, plain.outcome) == (1, "2 failed")
    first, second = run.report()["failures"]
    assert first["exception"]["type"] == "RecursionError"
    assert second["exception"]["type"] == "Odd"
    assert faults_in(run.report()) == []


def test_a_low_recursion_limit(folder: Path) -> None:
    """A limit that a test has left low fails nothing that would not have failed."""
    write(folder, {"test_it.py": RECURSES})
    plain = run_plain_pytest(folder, "-k", "limit")
    run = run_pytest(folder, "-k", "limit")
    assert run.status == plain.status


@posix_only
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077, 0o000], ids=oct)
def test_the_reports_mode(folder: Path, umask: int) -> None:
    """The file has the mode that `open()` would have given it, from the start to the end."""
    body = f"pathlib.Path('mode').write_text(oct(os.stat('{REPORT}').st_mode))"
    test = f"import os, pathlib\n\ndef test_it():\n    {body}\n"
    write(folder, {"test_it.py": test})
    run = run_pytest(folder, umask=umask)
    mode = (folder / REPORT).stat().st_mode & 0o777
    assert mode == 0o666 & ~umask
    assert (folder / "mode").read_text("utf-8").endswith(f"{mode:o}")
    assert run.status == 0


@posix_only
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
def test_descriptors_that_are_used_up(folder: Path, is_failing: bool) -> None:
    """Where no file can be opened any more, a line says that there is no report, and no more."""
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
    test = (
        f"import resource\n\ndef test_it():\n    {limit}\n    assert {not is_failing}\n"
    )
    write(folder, {"test_it.py": test})
    plain = run_plain_pytest(folder, "--tb=native")
    run = run_pytest(folder, "--tb=native")
    assert (run.status, run.outcome) == (plain.status, plain.outcome)
    path = folder / REPORT
    assert (
        run.tail[-1] == f"report: could not be written to {path}: Too many open files"
    )
    assert run.report(completeness="running")["run"]["id"]


@posix_only
@pytest.mark.parametrize("args", [(), ("-s",)], ids=["", "s"])
def test_a_test_that_closes_all_descriptors(
    folder: Path, args: tuple[str, ...]
) -> None:
    """`os.closerange` can close nothing of ours, and the report is written."""
    write(folder, {"test_it.py": "import os\n\ndef test_it(): os.closerange(3, 256)\n"})
    plain = run_plain_pytest(folder, *args)
    run = run_pytest(folder, *args)
    assert run.status == plain.status
    assert run.report()["exit"]["code"] == plain.status


def test_an_interpreter_as_strict_as_can_be(folder: Path) -> None:
    """Nothing of ours warns, even where the interpreter makes every warning an error."""
    write(folder, {"test_it.py": FAILING})
    pytest_ = [
        "-m",
        "pytest",
        "-p",
        "failure_taxonomy",
        SWITCH,
        "-p",
        "no:cacheprovider",
    ]
    command = [
        sys.executable,
        "-X",
        "dev",
        "-X",
        "warn_default_encoding",
        "-W",
        "error",
        *pytest_,
    ]
    run = run_child(folder, command)
    assert (run.status, run.stderr) == (1, "")
    assert run.report()["summary"]["warnings"] == 0


def test_an_interpreter_without_assertions(folder: Path) -> None:
    """Nothing of ours relies on `assert`."""
    write(folder, {"test_it.py": "def test_it(): raise OSError\n"})
    pytest_ = ["-m", "pytest", "-p", "failure_taxonomy", SWITCH]
    run = run_child(folder, [sys.executable, "-O", *pytest_])
    assert run.status == 1
    assert run.report()["verdict"]["kind"] == "test.failed"


def test_the_run_under_coverage(folder: Path) -> None:
    """A tracer that watches everything sees us do our work."""
    pytest.importorskip("coverage")
    write(folder, {"test_it.py": FAILING})
    pytest_ = [
        "-m",
        "coverage",
        "run",
        "-m",
        "pytest",
        "-p",
        "failure_taxonomy",
        SWITCH,
    ]
    run = run_child(folder, [sys.executable, *pytest_])
    assert run.status == 1
    assert run.report()["verdict"]["kind"] == "test.failed"


@pytest.mark.parametrize("args", [(), ("--assert=plain",)], ids=["rewrite", "plain"])
def test_asserts_of_tests_are_rewritten_as_ever(
    folder: Path, args: tuple[str, ...]
) -> None:
    """Our own modules are imported past pytest's rewriting; those of the user are not."""
    write(
        folder,
        {
            "conftest.py": "import sys\nHOOKS = [type(each).__name__ for each in sys.meta_path]\n",
            "test_it.py": "import conftest\n\ndef test_it():\n    assert conftest.HOOKS == 1\n",
        },
    )
    plain = run_plain_pytest(folder, *args)
    run = run_pytest(folder, *args)
    shown = [line for line in plain.stdout.splitlines() if line.startswith("E ")]
    assert shown
    assert [line for line in run.stdout.splitlines() if line.startswith("E ")] == shown
