"""Compare what this project and `pytest-failure-instrumentation` say of the same bad runs.

    python tests/e2e/against_instrumentation.py [--work-dir DIR] [--output FILE] [--no-cost] CASE...

Each of the two gets a virtual environment of its own, with the same pytest. Both run the same small
projects, in one process and under ``-n 2``. The other plugin prints nothing by itself, so a
conftest file writes down what its hook is given; what it learns of a dead run at the next one is
counted, too. A run that hangs is ended by SIGTERM, as CI does it. Markdown goes to the standard
output. POSIX only; it needs the network for pip.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
RIVAL: Final = "pytest-failure-instrumentation==0.14.1"
TOOLS: Final = ("pytest==9.2.0", "pytest-xdist==3.8.0", "py-spy==0.4.3")
STALL_SECONDS: Final = 5
CANCEL_SECONDS: Final = 14.0
"""When a run that hangs is cancelled."""
GRACE_SECONDS: Final = 10.0
RUN_LIMIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
COST_TESTS: Final = 2_000
COST_RUNS: Final = 7
MAX_WORDS: Final = 110

_CONFTEST: Final = """\
import json, time
import pytest

@pytest.hookimpl(optionalhook=True)
def pytest_failure_incident(incident):
    with open("incidents.jsonl", "a") as file:
        print(json.dumps([time.time(), str(incident), incident.model_dump(mode="json")]), file=file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One bad run."""

    name: str
    test: str
    """What the second of three tests does, after `import os, signal, sys, threading, time`."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files, or other contents of `test_x.py`."""
    hangs: bool = False
    """It is cancelled."""
    modes: tuple[str, ...] = ("serial", "-n 2")


MODES: Final[Mapping[str, tuple[str, ...]]] = {"serial": (), "-n 2": ("-n", "2")}

_NATIVE: Final = "import ctypes\n\ndef native_call():\n    ctypes.string_at(0)\n"
_PARAMETERS: Final = """\
import random
import pytest

@pytest.mark.parametrize("value", [random.random()])
def test_b(value): pass
"""
_MISSING: Final = """\
import os

def test_a(): pass

if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
    def test_b(): pass
"""
_ORDER: Final = """\
import pytest, uuid

@pytest.mark.parametrize("value", sorted("abcdefgh", key=lambda each: uuid.uuid4().int))
def test_b(value): pass
"""

CASES: Final = (
    Case(name="SIGSEGV below a test", test="import engine; engine.native_call()",
         files={"engine.py": _NATIVE}),
    Case(name="`abort()` after a line on stderr",
         test="os.write(2, b'malloc(): corrupted top size\\n'); os.abort()"),
    Case(name="`os._exit(1)`", test="os._exit(1)"),
    Case(name="SIGKILL", test="os.kill(os.getpid(), signal.SIGKILL)"),
    Case(name="`os._exit(3)` at an import", test="pass",
         files={"test_x.py": "import os\nos._exit(3)\n"}),
    Case(name="blocked in a lock", hangs=True,
         test="lock = threading.Lock(); lock.acquire()\n    lock.acquire()"),
    Case(name="blocked in a child process",
         test="import subprocess\n    subprocess.run(['sleep', '600'])", hangs=True),
    Case(name="an asyncio loop that waits", hangs=True,
         test="import asyncio\n    asyncio.run(asyncio.Barrier(2).wait())"),
    Case(name="frozen: a C call that holds the GIL",
         test="import ctypes\n    ctypes.PyDLL(None).sleep(600)", hangs=True),
    Case(name="frozen: SIGSTOP", test="os.kill(os.getpid(), signal.SIGSTOP)", hangs=True),
    Case(name="blocked while collecting", test="pass", hangs=True,
         files={"test_x.py": "import threading\nthreading.Event().wait()\n"}),
    Case(name="blocked at the session's end", test="pass", hangs=True,
         files={"blocks.py": "import threading\n\n"
                "def pytest_sessionfinish():\n    threading.Event().wait()\n"}),
    Case(name="a thread that keeps the interpreter", hangs=True,
         test="threading.Thread(target=threading.Event().wait).start()"),
    Case(name="a test that computes for 9 s",
         test="end = time.monotonic() + 9\n    while time.monotonic() < end: pass"),
    Case(name="workers: parameters differ", test="", files={"test_x.py": _PARAMETERS},
         modes=("-n 2",)),
    Case(name="workers: one lacks a test", test="", files={"test_x.py": _MISSING}, modes=("-n 2",)),
    Case(name="workers: the order differs", test="", files={"test_x.py": _ORDER}, modes=("-n 2",)),
    Case(name="a wrong value in a test", test="assert 1 == 2", modes=("serial",)),
    Case(name="an error in the project's code", test="import engine; engine.native_call()",
         files={"engine.py": "def native_call():\n    return {}['x']\n"}, modes=("serial",)),
    Case(name="an error in a dependency",
         test="from packaging.version import Version; Version('no version')", modes=("serial",)),
    Case(name="a plugin's hook raises", test="pass", modes=("serial",),
         files={"blocks.py": "def pytest_collection_modifyitems():\n    raise ValueError(1)\n"}),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was said of a run."""

    words: str
    seconds: float | None
    """How long after the run's start; `None` for at its end."""


def main() -> int:
    """Run the cases, and print the tables."""
    options = _parse_arguments()
    work = Path(
        options.work_dir or tempfile.mkdtemp(prefix="against-instrumentation-")
    ).resolve()
    rival = _environment(work / "rival", [*TOOLS, RIVAL])
    ours = _environment(work / "ours", [*TOOLS, str(REPOSITORY)])
    lines = [
        "| case | mode | pytest-failure-instrumentation | this project |",
        "|---|---|---|---|",
    ]
    for case in CASES:
        if options.cases and not any(each in case.name for each in options.cases):
            continue
        for mode in case.modes:
            folder = work / f"{case.name}-{mode}".replace("/", "_").replace(" ", "_")
            cells = [
                "<br>".join(map(_shown, tell(case, mode, python, folder)))
                for tell, python in ((_told_by_rival, rival), (_told_by_ours, ours))
            ]
            lines.append(f"| {case.name} | {mode} | {cells[0]} | {cells[1]} |")
            sys.stderr.write(f"{lines[-1]}\n")
    if not options.no_cost:
        lines += ["", *_costs(work, rival, ours)]
    text = "\n".join([*lines, ""])
    sys.stdout.write(text)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    return 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("cases", nargs="*", metavar="CASE", help="part of a case's name; default: all")
    add("--work-dir", metavar="DIR", help="keep environments and runs here")
    add("--output", metavar="FILE", help="write the tables to a file, too")
    add(
        "--no-cost", action="store_true", help="don't measure what a passing test costs"
    )
    return parser.parse_args()


def _environment(folder: Path, requirements: Sequence[str]) -> Path:
    """Return the Python of a virtual environment; what is installed already stays."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, *requirements], check=True)
    return python


def _shown(said: Said) -> str:
    words = " ".join(said.words.split()).replace("|", "\\|")
    words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}…"
    return f"{words} ({said.seconds:.1f} s)" if said.seconds is not None else words


# A run.


def _write(case: Case, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    test = "import os, signal, sys, threading, time\n\ndef test_a(): pass\n\n"
    test += f"def test_b():\n    {case.test}\n\ndef test_c(): pass\n"
    ini = (
        "[pytest]\naddopts = -p blocks\n" if "blocks.py" in case.files else "[pytest]\n"
    )
    for name, content in {"test_x.py": test, "pytest.ini": ini, **case.files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def _run(
    case: Case, folder: Path, command: Sequence[str], look: Mapping[str, Any]
) -> tuple[float, int | None]:
    """Run a command; cancel it if it hangs.

    Args:
        case: what is run.
        folder: where.
        command: pytest.
        look: called every now and then while it runs, by name.

    Returns:
        When it was started, and its status; `None` if nothing but SIGKILL ended it.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONFAULTHANDLER": ""}
    with (folder / "output.txt").open("wb") as output:
        started = time.time()
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        limit = CANCEL_SECONDS if case.hangs else RUN_LIMIT_SECONDS
        is_cancelled = False
        while child.poll() is None:
            for each in look.values():
                each(time.time() - started)
            if time.time() - started > limit + GRACE_SECONDS:
                break
            if time.time() - started > limit and not is_cancelled:
                child.send_signal(signal.SIGTERM)
                is_cancelled = True
            time.sleep(POLL_SECONDS)
        status = child.poll()
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return started, status


# The other plugin.


def _told_by_rival(case: Case, mode: str, python: Path, folder: Path) -> list[Said]:
    _write(case, folder)
    (folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    settings = [
        "-o",
        f"failure_stall_seconds={STALL_SECONDS}",
        "-o",
        "failure_packages=engine",
    ]
    settings += ["-o", "failure_slow_test_seconds=2", "-o", "failure_crash_stack=true"]
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "--failure-instrumentation",
        *settings,
    ]
    started, _ = _run(case, folder, [*command, *MODES[mode]], {})
    told = [_said_by_rival(each, started) for each in _incidents(folder)]
    known = len(_incidents(folder))
    subprocess.run(
        [*command, "--collect-only", "--ignore=test_x.py"], cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True,
        timeout=RUN_LIMIT_SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    for each in _incidents(folder)[known:]:
        said = _said_by_rival(each, started)
        told.append(Said(words=f"at the next run: {said.words}", seconds=None))
    return [each for each in told if each.words] or [
        Said(words="nothing", seconds=None)
    ]


def _incidents(folder: Path) -> list[Any]:
    with suppress(OSError):
        lines = (folder / "incidents.jsonl").read_text("utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        return [each for each in found if each[2].get("kind") != "run_summary"]
    return []


def _said_by_rival(incident: Sequence[Any], started: float) -> Said:
    when, text, fields = incident
    frame = fields.get("blamed_frame") or fields.get("top_frame")
    owner = fields.get("owner")
    words = f"`{fields.get('verdict')}`"
    if frame:
        words += f" in {frame['function']} ({Path(frame['file']).name}:{frame['line']})"
    elif test := fields.get("test_in_flight"):
        words += f" in {test}"
    else:
        words += f" {text.partition('   [')[0]}"
    words += f", {owner}" if owner and owner != "unknown" else ""
    return Said(words=words, seconds=when - started)


# This project.


def _told_by_ours(case: Case, mode: str, python: Path, folder: Path) -> list[Said]:
    _write(case, folder)
    report = folder / "failure-report.json"
    seen: dict[str, Said] = {}

    def look(seconds: float) -> None:
        for words in _stalls_in(_read(report)):
            seen.setdefault(words, Said(words=words, seconds=seconds))

    option = ["-o", f"failure_taxonomy_stall_seconds={STALL_SECONDS}"]
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "--failure-taxonomy",
        *option,
        *MODES[mode],
    ]
    started, _ = _run(case, folder, command, {"report": look})
    ended = time.time()
    while time.time() - ended < GRACE_SECONDS:
        found = _read(report)
        if found.get("completeness") in {"full", "reconstructed"}:
            break
        time.sleep(POLL_SECONDS)
    look(time.time() - started)
    told = list(seen.values())
    lines = (folder / "output.txt").read_text("utf-8", "replace").splitlines()
    told += [
        Said(words=f"on the terminal: `{each.strip()}`", seconds=None)
        for each in lines
        if each.startswith("stalled ")
    ]
    verdict = _verdict_in(_read(report))
    return [*told, Said(words=verdict, seconds=None)] if verdict or told else [
        Said(words="nothing", seconds=None)
    ]  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text("utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _stalls_in(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a report says about stalls; the time is left out, because it grows."""
    for test in report.get("in_flight", ()):
        if stall := test.get("stall"):
            yield f"{stall['state']} in {stall['where']}: {test['nodeid']}"
    for stall in report.get("stalls", ()):
        yield f"{stall['state']} in {stall['where']}: {stall['what']}"


def _verdict_in(report: Mapping[str, Any]) -> str:
    verdict = report.get("verdict")
    if not verdict:
        return (
            f"no verdict, {report.get('outcome', 'no report')}"
            if report
            else "no report"
        )
    words = f"`{verdict['kind']}`: {verdict['message']}"
    places = [
        test["location"] for test in report.get("in_flight", ()) if test.get("location")
    ]
    places += [
        each["location"] for each in report.get("failures", ()) if each.get("location")
    ]
    if places:
        line = places[0]["line"]
        words += f" ({places[0]['path']}{'' if line is None else f':{line}'})"
    if owner := verdict.get("owner"):
        words += f", {owner}"
    return words


# What a passing test costs.


def _costs(work: Path, rival: Path, ours: Path) -> Iterator[str]:
    """Yield the rows of a table: CPU time of a passing test, start, memory."""
    folder = work / "cost"
    folder.mkdir(exist_ok=True)
    body = "import pytest\n\n@pytest.mark.parametrize('n', range({}))\ndef test_n(n): pass\n"
    (folder / "test_many.py").write_text(body.format(COST_TESTS), "utf-8")
    (folder / "test_one.py").write_text(body.format(1), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    variants = {
        "pytest-failure-instrumentation": (rival, "--failure-instrumentation"),
        "this project": (ours, "--failure-taxonomy"),
    }
    yield "| | a passing test | start | memory |"
    yield "|---|---|---|---|"
    for name, (python, switch) in variants.items():
        rows = []
        for _ in range(COST_RUNS):
            plain, used = _pair(folder, python, switch, "test_many.py")
            plain_one, used_one = _pair(folder, python, switch, "test_one.py")
            a_test = (used[0] - used_one[0] - plain[0] + plain_one[0]) / COST_TESTS
            rows.append(
                (a_test * 1e6, (used_one[1] - plain_one[1]) * 1e3, used[2] - plain[2])
            )
        cost, start, memory = (
            statistics.median(each) for each in zip(*rows, strict=True)
        )
        yield f"| {name} | {cost:+.0f} µs of CPU | {start:+.0f} ms | {memory / 1024:+.1f} MiB |"


def _pair(
    folder: Path, python: Path, switch: str, file: str
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    return _used(folder, command), _used(folder, [*command, switch])


def _used(folder: Path, command: Sequence[str]) -> tuple[float, float, float]:
    """Return CPU seconds, wall-clock seconds and the peak memory in KiB of a command."""
    began = time.perf_counter()
    child = os.posix_spawn(
        "/bin/sh",
        [
            "sh",
            "-c",
            'cd "$1"; shift; exec "$@" >/dev/null 2>&1',
            "sh",
            str(folder),
            *command,
        ],
        os.environ,
    )
    _, _, usage = os.wait4(child, 0)
    return _cpu(usage), time.perf_counter() - began, float(usage.ru_maxrss)


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
