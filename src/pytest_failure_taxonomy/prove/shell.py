"""Commands of a shell that make a test fail again, as a plain pytest.

Each is run before anybody is given it (`Experiments.run_command`).
"""

from __future__ import annotations

import shlex
from typing import Final

from pytest_failure_taxonomy.prove.experiment import Conditions
from pytest_failure_taxonomy.prove.ledger import Side
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.taxonomy.values import value

_BEGINS_AN_OPTION: Final = ("-", "@")


@value
class Program:
    """How pytest is called, with the options of the recorded run, for a shell."""

    words: str = "pytest"
    in_order: str = ""
    """Options that keep plugins from running the tests in another order."""
    variables: str = ""
    """Assignments without which the run has another state."""


def program_of(report: FailureReport) -> Program:
    """Return how the pytest of a report is called by people."""
    words, order = reproduction_of(report).program, report.order
    if order is None:
        return Program(words=words)
    options: list[str] = []
    seed = order.seeds.get("randomly")
    if seed is not None:
        options += [f"--randomly-seed={seed}", "--randomly-dont-reorganize"]
    if "random_order" in order.seeds:
        options.append("-pno:random_order")
    if order.distribution is not None:
        options.append("-n0")
    hash_seed = order.seeds.get("hash")
    missing = [option for option in options if option not in words.split()]
    return Program(
        words=words,
        in_order=shlex.join(missing),
        variables="" if hash_seed is None else f"PYTHONHASHSEED={hash_seed}",
    )


def commands_of(program: Program, side: Side, victim: str) -> tuple[str, ...]:
    """Return commands that may repeat a side, the shortest first; none if none can.

    Args:
        program: how pytest is called.
        side: what runs before, and what is different.
        victim: node id of the test.
    """
    conditions = side.conditions
    if conditions.in_shell is None:
        return ()
    targets = [*side.before, victim]
    others = [file for file in side.files if not victim.startswith(f"{file}::")]
    words = [*conditions.args, *map(_as_argument, [*others, *targets])]
    for file in others:
        words += ["--deselect", file]
    with_order = " ".join(filter(None, [program.words, program.in_order]))
    # Two tests may have the right order by chance, with a plugin that shuffles them.
    starts = [with_order] if len(targets) > 1 else [program.words, with_order]
    assignments = _assignments(conditions)
    runs = [" ".join([*assignments, start, shlex.join(words)]) for start in starts]
    if program.variables:
        runs.append(f"{program.variables} {runs[-1]}")
    commands = [conditions.in_shell.replace("{run}", run) for run in runs]
    return tuple(dict.fromkeys(commands))


def _assignments(conditions: Conditions) -> list[str]:
    # Folders of the experiments' own are gone by then.
    if conditions.around:
        return []
    return [
        f"{name}={shlex.quote(text)}"
        for name, text in conditions.variables
        if text is not None
    ]


def _as_argument(target: str) -> str:
    # pytest would take these for an option, and for a file of arguments.
    return f"./{target}" if target.startswith(_BEGINS_AN_OPTION) else target
