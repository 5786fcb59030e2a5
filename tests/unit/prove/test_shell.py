"""The commands that may repeat what an experiment had."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.prove.experiment import Conditions
from pytest_failure_taxonomy.prove.ledger import Side
from pytest_failure_taxonomy.prove.shell import Program, commands_of

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
