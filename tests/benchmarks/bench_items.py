"""`bench-items` and `bench-waits`: what a run of pytest costs whose items are cases.

`bench-waits` has a system that waits, as for a model, where a runner should have all of them wait
at a time; and it compares where such a system can run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .estimates import Figure
from .measures import Column, Table
from .processes import cpu, median_of, peak_kib, spend, take_turns, wall
from .rubric_program import RUBRIC
from .variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .measures import Bench
    from .processes import Spent

CONFTEST = """\
import pytest


@pytest.fixture(scope={scope!r})
def system_under_test():
    async def answer(case):
        return {{"number": case.input}}

    return answer


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if len(terminal.stats.get("passed", ())) != {tests}:
            session.exitstatus = 99
"""
PLAIN_TESTS = """\
import pytest


@pytest.mark.parametrize("number", range({tests}))
def test_number(number):
    pass
"""

PLUGINS = ("failure_taxonomy", "failure_taxonomy_bench")
CASES = Variant(name="cases", plugins=PLUGINS)
SPREAD = Variant(name="cases, -n 2", plugins=(*PLUGINS, "xdist"), options=("-n2",))
ONE_BY_ONE = Variant(name="cases, a fixture of scope function", plugins=PLUGINS)
TESTS = Variant(name="as many plain tests, no plugin")


def measure_items(bench: Bench) -> list[Table]:
    """Measure whole runs: their time for one size and once for a large one, and peak memory."""
    middle, large = bench.tests // 2, bench.tests * 2
    sizes = (middle // 4, middle, large)
    rows = [row for row in (CASES, SPREAD, ONE_BY_ONE, TESTS) if row.is_installed]
    times = take_turns(
        {row: partial(_run, bench.workplace, row, middle) for row in rows},
        max(1, bench.rounds // 2),
    )
    # A single round: peaks repeat within 0.3 MiB.
    single = {
        (row, size): _run(bench.workplace, row, size) for row in rows for size in sizes
    }
    peaks = {key: peak_kib(spent) for key, spent in single.items()}

    def column(heading: str, figure: Callable[[Variant], Figure]) -> Column:
        figures = {row.name: figure(row) for row in rows}
        return Column(heading=heading, figures=figures, is_absolute=True)

    def seconds(cost: Callable[[Spent], float]) -> Callable[[Variant], Figure]:
        return lambda row: median_of([cost(each) for each in times[row]])

    def single_run(cost: Callable[[Spent], float]) -> Callable[[Variant], Figure]:
        return lambda row: Figure(value=cost(single[row, large]), error=0)

    def peak_mib(size: int) -> Callable[[Variant], Figure]:
        return lambda row: Figure(value=peaks[row, size] / 1024, error=0)

    def growth_kib(row: Variant) -> Figure:
        return Figure(
            value=(peaks[row, large] - peaks[row, middle]) / (large - middle), error=0
        )

    return [
        Table(
            title=f"Items: a run of pytest, {middle} cases with isolated rubrics",
            columns=(
                column("wall s", seconds(wall)),
                column("CPU s", seconds(cpu)),
                column(f"wall s, {large} cases", single_run(wall)),
                *(column(f"MiB peak, {size} cases", peak_mib(size)) for size in sizes),
                column("KiB a case", growth_kib),
            ),
            skipped=() if SPREAD in rows else ("pytest-xdist",),
        ),
        _measure_resumed(bench, middle),
    ]


NAMED = """\
import asyncio
import time

def plain(case):
    time.sleep({seconds})
    return {{"number": case.input}}

async def later(case):
    await asyncio.sleep({seconds})
    return {{"number": case.input}}
"""
SECONDS, WAITING = 0.05, 50
PLACES = {
    "plain, processes": ("sut: named:plain", CASES),
    "async, processes": ("sut: named:later", CASES),
    "plain, a thread each": ("sut: named:plain\nsut_isolation: thread", CASES),
    "async, pytest's process": ("sut: named:later\nsut_isolation: thread", CASES),
    "plain, processes, -n 2": ("sut: named:plain", SPREAD),
}


def measure_waits(bench: Bench) -> list[Table]:
    """Measure whole runs whose systems wait, by where they run, and pydantic-evals."""
    tests = bench.tests // 2
    commands = {
        row: partial(_wait, bench.workplace, row, tests, settings, variant)
        for row, (settings, variant) in PLACES.items()
        if variant.is_installed
    }
    peer = "pydantic-evals, Dataset.evaluate: no process, no item, no file"
    if find_spec("pydantic_evals"):
        program = Path(__file__).with_name("runner_program.py")
        arguments = ("pydantic-evals", str(tests), "async", str(SECONDS), str(WAITING))
        command = [sys.executable, "-P", str(program), *arguments]
        commands[peer] = partial(spend, command, bench.workplace)
    spent = take_turns(commands, max(1, bench.rounds // 2))

    def column(heading: str, cost: Callable[[Spent], float]) -> Column:
        figures = {
            row: median_of([cost(each) for each in spent[row]]) for row in commands
        }
        return Column(heading=heading, figures=figures, is_absolute=True)

    ideal = tests * SECONDS / WAITING
    return [
        Table(
            title=f"Items: {tests} cases of {SECONDS} s, {WAITING} at a time (ideally {ideal:g} s)",
            columns=(
                column("wall s", wall),
                column("CPU s", cpu),
                column(
                    "MiB peak of the biggest process",
                    lambda each: peak_kib(each) / 1024,
                ),
            ),
            skipped=() if peer in commands else ("pydantic-evals",),
        ),
        *([_measure_processes()] if sys.platform == "linux" else []),
    ]


def _measure_processes() -> Table:
    """Measure what the processes of a system take."""
    program = Path(__file__).with_name("system_program.py")
    done = subprocess.run(
        [sys.executable, "-P", str(program), str(WAITING)],
        capture_output=True,
        text=True,
        check=True,
    )
    start, parent, case = map(float, done.stdout.split())
    row = f"a system that imports nothing, {WAITING} cases at a time"
    columns = {
        "ms to start": start * 1000,
        "private MiB of the one that has imported it": parent / 1024,
        "private MiB of each case's": case / 1024,
    }
    return Table(
        title="Items: processes of a system",
        columns=tuple(
            Column(
                heading=name,
                figures={row: Figure(value=value, error=0)},
                is_absolute=True,
            )
            for name, value in columns.items()
        ),
    )


def _wait(
    workplace: Path, row: str, tests: int, settings: str, variant: Variant
) -> Spent:
    """Run pytest on cases whose system has a name."""
    folder = workplace / "".join(
        each if each.isalnum() else "_" for each in f"waits {row}"
    )
    if not folder.exists():
        folder.mkdir()
        named = NAMED.format(seconds=SECONDS)
        _write(folder, {"named.py": named, "pytest.ini": "[pytest]\npythonpath = .\n"})
        _write(folder, {"bench.yaml": f"{settings}\nconcurrency: {WAITING}\n"})
        _write_task_class(folder, range(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return spend([*command, *variant.arguments(folder / "artifact")], folder)


def _measure_resumed(bench: Bench, tests: int) -> Table:
    """Measure runs that continue one in which every case is finished."""
    rows = [row for row in (CASES, SPREAD) if row.is_installed]
    spent = take_turns(
        {row: partial(_resume, bench.workplace, row, tests) for row in rows},
        max(1, bench.rounds // 2),
    )

    def column(heading: str, cost: Callable[[Spent], float]) -> Column:
        figures = {
            row.name: median_of([cost(each) for each in spent[row]]) for row in rows
        }
        return Column(heading=heading, figures=figures, is_absolute=True)

    return Table(
        title=f"Items: a run of {tests} finished cases is resumed",
        columns=(column("wall s", wall), column("CPU s", cpu)),
    )


def _resume(workplace: Path, row: Variant, tests: int) -> Spent:
    """Continue the first run of a row; its system can't be called again."""
    parent = workplace / "resumed"
    parent.mkdir(exist_ok=True)
    folder = _folder(parent, row, tests)
    kept, finished = folder / ".bench", folder / "finished"
    if not finished.exists():
        _run(parent, row, tests)
        kept.rename(finished)
        conftest = CONFTEST.format(scope="session", tests=tests)
        broken = conftest.replace("return {", "raise RuntimeError(case.case_id)  # {")
        _write(folder, {"conftest.py": broken})
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(finished, kept)
    return _run(parent, row, tests, "--bench-resume")


def _folder(workplace: Path, row: Variant, tests: int) -> Path:
    return workplace / f"items_{row.name.replace(', ', '_').replace(' ', '_')}_{tests}"


def _run(workplace: Path, row: Variant, tests: int, *options: str) -> Spent:
    """Run pytest once on a folder that is written when it is not there."""
    folder = _folder(workplace, row, tests)
    if not folder.exists():
        folder.mkdir()
        scope = "function" if row == ONE_BY_ONE else "session"
        conftest = CONFTEST.format(scope=scope, tests=tests)
        _write(folder, {"conftest.py": conftest, "pytest.ini": "[pytest]\n"})
        if row == TESTS:
            _write(folder, {"test_numbers.py": PLAIN_TESTS.format(tests=tests)})
        else:
            _write_task_class(folder, range(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return spend([*command, *row.arguments(folder / "artifact"), *options], folder)


def _write_task_class(folder: Path, numbers: Sequence[int]) -> None:
    """Write a task class whose cases all pass."""
    (folder / "cases").mkdir()
    lines = [
        json.dumps({"id": f"case-{number}", "input": number}) for number in numbers
    ]
    _write(folder / "cases", {"cases.jsonl": "\n".join(lines)})
    codes, keys = "{}\n", "[]\n"
    _write(
        folder,
        {"failure_modes.yaml": codes, "breakdown_keys.yaml": keys, "rubric.py": RUBRIC},
    )


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
