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

What does the report say after each way to die? Of three tests, `test_a` passes, `test_b` dies, and
`test_c` would pass. `tests/plugin/test_fault_matrix.py` causes each death, reads the report every
5 ms, and checks that

- the report is valid at every moment, says success only if pytest finished its session, and ends as
  in the table;
- the caller gets plain pytest's exit code, but `run` turns 0 of an unfinished session into 3;
- no process of the plugin is left, and no file except the report.

A cell has the verdict's [kind](../reference/reasons-and-kinds.md#kinds), with a question mark if it
is *likely*; in brackets who saw the end, if not pytest (`exit.source`); and the shell's exit code.
*Passed* is a verdict of `null`. Apart from who saw the end, the last column lists only differences:
from the plugin alone, or for `run -n 2`, from `-n 2`.

- *The plugin alone*: `pytest --failure-taxonomy`; *`-x`* and *`-n 2`* add these options. The
  watcher sees the end.
- *`run`*: under `failure-taxonomy run`. Its process, the supervisor, sees the end.
- *No watcher*: without the watcher; `finalize --exit-code $?` runs afterwards.
"""

_WORDS: Final = """\
## Notes

"""

_MORE: Final = """\
- **Anything, if no process is left**, as in a container that is torn down: the report stays
  `running`, with the verdict `UNKNOWN`, until `finalize` completes it.
"""


def render_page() -> str:
    """Return the page as the table has it."""
    titles = ["the death of `test_b`", "the plugin alone", "differences"]
    rows = [
        _row(titles),
        "|" + "---|" * len(titles),
        *(_row(_cells(fault)) for fault in FAULTS),
    ]
    table = "".join(f"{row}\n" for row in rows)
    titles_of_note: dict[str, list[str]] = {}
    for fault in FAULTS:
        if fault.note:
            titles_of_note.setdefault(fault.note, []).append(f"**{fault.title}**")
    notes = "".join(_note(note, same) for note, same in titles_of_note.items())
    return f"{_INTRODUCTION}\n## The matrix\n\n{table}\n{_WORDS}{notes}{_MORE}"


def reason_in(end: End) -> str | None:
    """Return the verdict's reason: the kind's own, where the row names none."""
    return (
        None
        if end.kind is None
        else end.reason or str(known_kinds()[end.kind].reason or "UNKNOWN")
    )


def _note(note: str, titles: list[str]) -> str:
    text = f"- {', '.join(titles)}: {note}"
    return (
        textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False) + "\n"
    )


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(fault: Fault) -> list[str]:
    alone, *others = _ends(fault)
    titles = [each.title for each in CONFIGURATIONS.values()][1:]
    titles_of_end: dict[str, list[str]] = {}
    for title, end in zip(titles, others, strict=True):
        if end:
            titles_of_end.setdefault(end, []).append(title)
    otherwise = [f"{', '.join(same)}: {end}" for end, same in titles_of_end.items()]
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
        return f"an earlier report stays, {code}"
    if end.source == "gone":
        return f"nothing is left, {code}"
    source = configuration.second if end.source == SECOND else end.source
    seen_by = "" if source == "pytest" else f" ({source})"
    if end.kind is None:
        return f"passed{seen_by} {code}"
    return f"`{end.kind}`{'?' if end.is_likely else ''}{seen_by} {code}"


def _caller(end: End, configuration: Configuration) -> int:
    """Return the exit code that the caller sees."""
    if configuration.supervised and end.status == 0 and end.kind == "process.exited":
        return 3
    return exit_code_from_returncode(end.status)


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
