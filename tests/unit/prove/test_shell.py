"""The commands that may repeat what an experiment had."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.prove.experiment import Conditions
from pytest_failure_taxonomy.prove.ledger import Side
from pytest_failure_taxonomy.prove.shell import Program, commands_of, program_of
from pytest_failure_taxonomy.taxonomy.order import Order
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_failure, make_report_value, make_run

PLAIN = Program()
IN_ORDER = "--randomly-seed=7 --randomly-dont-reorganize"
SHUFFLED = Program(
    words="pytest -p myplugin",
    in_order=IN_ORDER,
    variables="PYTHONHASHSEED=3",
)
UTC = Conditions(variables=(("TZ", "UTC"), ("HOME", None)), words="TZ=UTC")
BUSY = Conditions(
    words="busy", around=object, in_shell="(spin & {run}; kill $(jobs -p))"
)
SEED = Conditions(seed=3, words="random.seed(3)", in_shell=None)


@pytest.mark.parametrize(
    ("program", "side", "commands"),
    [
        (PLAIN, Side(), ["pytest t.py::v"]),
        (PLAIN, Side(before=("a.py::x[1 2]",)), ["pytest 'a.py::x[1 2]' t.py::v"]),
        # One test has no order, so that the seed is tried where it fails without it no more.
        (
            SHUFFLED,
            Side(),
            [
                "pytest -p myplugin t.py::v",
                f"pytest -p myplugin {IN_ORDER} t.py::v",
                f"PYTHONHASHSEED=3 pytest -p myplugin {IN_ORDER} t.py::v",
            ],
        ),
        (
            SHUFFLED,
            Side(before=("a.py::x",)),
            [
                f"pytest -p myplugin {IN_ORDER} a.py::x t.py::v",
                f"PYTHONHASHSEED=3 pytest -p myplugin {IN_ORDER} a.py::x t.py::v",
            ],
        ),
        (
            PLAIN,
            Side(files=("a.py", "t.py", "z.py")),
            ["pytest a.py z.py t.py::v --deselect a.py --deselect z.py"],
        ),
        (PLAIN, Side(conditions=UTC), ["TZ=UTC pytest t.py::v"]),
        (PLAIN, Side(conditions=BUSY), ["(spin & pytest t.py::v; kill $(jobs -p))"]),
        (PLAIN, Side(conditions=SEED), []),
        (PLAIN, Side(before=("-a.py::x",)), ["pytest ./-a.py::x t.py::v"]),
    ],
)
def test_commands(program: Program, side: Side, commands: list[str]) -> None:
    """The shortest comes first; what a shell can't have gives none."""
    assert [*commands_of(program, side, "t.py::v")] == commands


def test_an_order_that_the_run_had() -> None:
    """Seeds are in the command once, and workers are none."""
    order = Order(
        workers={"main": "0"},
        tests=1,
        digest="0" * 16,
        seeds={"hash": 3, "randomly": 7, "random_order": 1},
        distribution="load",
        truncated=False,
    )
    report = replace(
        make_report_value(make_run(failures=(make_failure(),))), order=order
    )
    program = program_of(report)
    assert program.in_order == f"{IN_ORDER} -pno:random_order -n0"
    assert program.variables == "PYTHONHASHSEED=3"
    invocation = replace(report.run.invocation, args=("--randomly-seed=7",))
    report = replace(report, run=replace(report.run, invocation=invocation))
    program = program_of(report)
    assert "--randomly-seed=7" in program.words
    assert program.in_order == "--randomly-dont-reorganize -pno:random_order -n0"
