"""`bench-items`: what a run of pytest costs whose items are the cases of a task class."""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING

from .estimates import Figure
from .measures import Column, Table
from .processes import cpu, median_of, peak_kib, spend, take_turns, wall
from .rubric_program import RUBRIC
from .variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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
    single = {(row, size): _run(bench.workplace, row, size) for row in rows for size in sizes}
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
        return Figure(value=(peaks[row, large] - peaks[row, middle]) / (large - middle), error=0)

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


def _measure_resumed(bench: Bench, tests: int) -> Table:
    """Measure runs that continue one in which every case is finished."""
    rows = [row for row in (CASES, SPREAD) if row.is_installed]
    spent = take_turns(
        {row: partial(_resume, bench.workplace, row, tests) for row in rows},
        max(1, bench.rounds // 2),
    )

    def column(heading: str, cost: Callable[[Spent], float]) -> Column:
        figures = {row.name: median_of([cost(each) for each in spent[row]]) for row in rows}
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
    lines = [json.dumps({"id": f"case-{number}", "input": number}) for number in numbers]
    _write(folder / "cases", {"cases.jsonl": "\n".join(lines)})
    codes, keys = "{}\n", "[]\n"
    _write(folder, {"failure_modes.yaml": codes, "breakdown_keys.yaml": keys, "rubric.py": RUBRIC})


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
