"""Write the page about the fault matrix: `python -m tests.helpers.fault_table`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.taxonomy.judgement import (
    exit_code_from_returncode,
    known_kinds,
)
from tests.helpers.faults import (
    CONFIGURATIONS,
    FAULTS,
    SECOND,
    Configuration,
    End,
    Fault,
)

PAGE: Final = Path(__file__).parents[2] / "docs/explanation/fault-matrix.md"

_INTRODUCTION: Final = """\
# The fault matrix

What the report says after each way to die, in six configurations: of three tests, `test_a` passes,
`test_b` dies, `test_c` would pass. `tests/plugin/test_fault_matrix.py` brings each death about,
reads the report every 5 ms, and checks that it is valid at every moment, says success only where
pytest finished its session, and says at the end what stands here; that the caller gets the exit
code that plain pytest gives (`run` alone makes a 3 of a 0 that an unfinished session left); and
that no process of ours is left, and no file but the report. An ordinary run of the suite takes one
configuration of each death in turn, `--matrix=all` takes them all.

A cell holds the verdict's [kind](../reference/reasons-and-kinds.md#kinds), in brackets who knows
how the process ended (`exit.source`), and the exit code that the caller sees, as a shell shows it.
A question mark is what was inferred (*likely*). *Passed* is a verdict of `null`. What is not named
in the last column ends as with the plugin alone, or under `run` with `-n 2` as with `-n 2`, each
with its own second process.

*The plugin alone* is `pytest --failure-taxonomy`, `-x` and `-n 2` the same with these options; the
watcher sees the end. Under `run` (`failure-taxonomy run -- pytest`) the supervisor does. *No
watcher* is a run with the watcher switched off, and then `finalize --exit-code $?`.

Where the report was left `running`, `finalize --exit-code` has completed it.
"""

_WORDS: Final = """\
## What can't be known

"""

_MORE: Final = """\
- **How a process ended that its parent has waited for**: before Linux 6.15, the watcher can miss
  the status where the parent is quicker. The report then says `process.vanished` and
  `exit.observed: false`; it never invents a code.
- **Anything, where no process is left**: a container that is torn down with its process 1, or a
  SIGKILL to a group that the supervisor is in, leaves the report `running`, with the verdict
  `UNKNOWN`. `finalize` completes it from the record.
"""


def render_page() -> str:
    """Return the page as the table has it."""
    titles = ["the death of `test_b`", "the plugin alone", "where it is otherwise"]
    rows = [
        _row(titles),
        "|" + "---|" * len(titles),
        *(_row(_cells(fault)) for fault in FAULTS),
    ]
    table = "".join(f"{row}\n" for row in rows)
    notes = "".join(_note(fault) for fault in FAULTS if fault.note)
    return f"{_INTRODUCTION}\n## The matrix\n\n{table}\n{_WORDS}{notes}{_MORE}"


def reason_in(end: End) -> str | None:
    """Return the verdict's reason: the kind's own, where the row names none."""
    return (
        None
        if end.kind is None
        else end.reason or str(known_kinds()[end.kind].reason or "UNKNOWN")
    )


def _note(fault: Fault) -> str:
    text = f"- **{fault.title}**: {fault.note}"
    return (
        textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False) + "\n"
    )


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(fault: Fault) -> list[str]:
    alone, *others = _ends(fault)
    titles = [each.title for each in CONFIGURATIONS.values()][1:]
    otherwise = [
        f"{title}: {end}" for title, end in zip(titles, others, strict=True) if end
    ]
    return [fault.title, alone, "; ".join(otherwise)]


def _ends(fault: Fault) -> Iterator[str]:
    for name, configuration in CONFIGURATIONS.items():
        if name in fault.leaves_out:
            yield "not run"
            continue
        cell = _cell(fault.end_in(name), configuration)
        other = configuration.falls_back_on
        if other and other not in fault.leaves_out:
            neighbour = replace(CONFIGURATIONS[other], second=configuration.second)
            cell = "" if cell == _cell(fault.end_in(other), neighbour) else cell
        yield cell


def _cell(end: End, configuration: Configuration) -> str:
    code = _caller(end, configuration)
    if end.source == "earlier":
        return f"none: an earlier report stays, {code}"
    if end.source == "gone":
        return f"none: nothing is left, {code}"
    source = configuration.second if end.source == SECOND else end.source
    if end.kind is None:
        return f"passed ({source}) {code}"
    return f"`{end.kind}`{'?' if end.is_likely else ''} ({source}) {code}"


def _caller(end: End, configuration: Configuration) -> int:
    """Return the exit code that the caller sees."""
    if configuration.supervised and end.status == 0 and end.kind == "process.exited":
        return 3
    return exit_code_from_returncode(end.status)


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
