"""Compare how much an agent has to read until it knows why a run failed.

    python -m tests.benchmarks.agents [NAME…] [--projects FOLDER]… [--only] [--way WAY]…

Each broken project runs four times, in a fresh copy: by plain pytest, by `pytest -q --tb=short`, by
pytest-receptor with its output for agents, and by `failure-taxonomy run --for agent`. What an agent
reads is all of what that command prints, on stdout and stderr.

The answer *has the deciding line* where it says at which line of which file the project fails and
why: `place` and each of `decides`. All is *known* where it names the test, too (`test`), so that one
can run that alone. Where an answer is not enough, the agent reads what the same tool says at most:
`pytest -vv`, `--receptor-full`, `failure-taxonomy show --all`; these bytes are added.
What is not even known then is counted as *never*, with the bytes of both.

NAME is how the names of some projects start. The projects are those of `broken.toml` beside this
script, and with `--projects` those of other folders (with `--only`, of them alone), which hold
`projects.toml` and a folder for each of its tables. A table says:

command      the run, which ends in options of pytest
place        `path:line`; empty where the project fails at no line
test         the node id; empty where it fails in no test
decides      regular expressions: why it fails
environment  its variables, `NAME=value` each, with blanks between them; a folder's name is made a path
setup        a command for the shell before the run
scripts      the folder of the environment's programs; default: that of this Python
files        by path, instead of a folder

Tokens are estimated as the product does for its limit (docs/reference/agent-format.md), the same way
for all. The exit code is 0 whatever the figures are.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.faces.agent import weigh

from .accuracy.live import LIMIT_SECONDS, variables_of

OWN: Final = Path(__file__).with_name("broken.toml")
SCRIPTS: Final = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run a project; `{}` is its command."""

    name: str
    first: str
    second: str


WAYS: Final = (
    Way("pytest", "{}", "{} -vv"),
    Way("--tb=short", "{} -q --tb=short", "{} -vv"),
    Way("receptor", "{} --receptor=llm", "{} --receptor=llm --receptor-full"),
    Way(
        "ours", "failure-taxonomy run --for agent -- {}", "failure-taxonomy show --all"
    ),
)


@dataclass(frozen=True, slots=True)
class Project:
    """A broken project."""

    name: str
    folder: Path
    table: Mapping[str, Any]

    def decides(self, output: str) -> bool:
        """Tell whether an output has the line that decides."""
        patterns = [*self.table["decides"]]
        if place := self.table.get("place", ""):
            path, _, line = place.rpartition(":")
            # A stack of the interpreter writes it in another way.
            patterns.append(rf'{re.escape(path)}(?::|", line ){line}\b')
        return all(re.search(pattern, output) for pattern in patterns)

    def is_known(self, output: str) -> bool:
        """Tell whether an output has all that one needs."""
        return self.decides(output) and self.table.get("test", "") in output


@dataclass(frozen=True, slots=True)
class Reading:
    """What an agent has read of a project."""

    texts: tuple[str, ...]
    """One, or two where the first was not enough."""
    decides: bool
    """The first one has the deciding line."""
    is_known: bool

    @property
    def size(self) -> int:
        """Return the bytes of all."""
        return sum(len(text.encode()) for text in self.texts)

    @property
    def tokens(self) -> float:
        """Return an estimate."""
        return sum(map(weigh, self.texts)) / 4


def read_until_known(project: Project, way: Way) -> Reading:
    """Run a project in one way, and a second time if the first answer is not enough."""
    with tempfile.TemporaryDirectory(prefix="agents-") as scratch:
        folder = Path(scratch) / "project"
        _set_up(project, folder)
        first = _run(project, folder, way.first)
        decides, is_known = project.decides(first), project.is_known(first)
        if is_known:
            return Reading((first,), decides, is_known)
        second = _run(project, folder, way.second)
        return Reading((first, second), decides, project.is_known(first + second))


def _set_up(project: Project, folder: Path) -> None:
    if files := project.table.get("files"):
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
    else:
        shutil.copytree(project.folder, folder)
    (folder.parent / "home").mkdir()
    if setup := project.table.get("setup"):
        subprocess.run(
            ["sh", "-c", setup],
            cwd=folder,
            env=_variables(project, folder),
            check=True,
            capture_output=True,
        )


def _variables(project: Project, folder: Path) -> dict[str, str]:
    scripts = Path(project.table.get("scripts", SCRIPTS))
    return variables_of(folder, project.table, scripts)


def _run(project: Project, folder: Path, way: str) -> str:
    """Return what a command prints."""
    ended = subprocess.run(
        way.format(project.table["command"]).split(),
        cwd=folder,
        env=_variables(project, folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return ended.stdout.decode("utf-8", "replace")


def projects_of(path: Path, starts: Sequence[str]) -> Iterator[Project]:
    """Yield the projects of a table whose names have one of these starts."""
    for name, table in tomllib.loads(path.read_text("utf-8")).items():
        if name.startswith(tuple(starts) or ""):
            yield Project(name, path.parent / table.get("folder", name), table)


def main() -> None:
    """Read about all projects that the arguments name, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME")
    add("--projects", type=Path, action="append", default=[], metavar="FOLDER")
    add("--way", choices=[way.name for way in WAYS], action="append", help="not all")
    add("--only", action="store_true", help="without the projects of this repository")
    add("--output", type=Path, metavar="FILE", help="write the tables there, too")
    add("--answers", type=Path, metavar="FOLDER", help="write what was read there")
    options = parser.parse_args()
    tables = [folder.resolve() / "projects.toml" for folder in options.projects]
    if not options.only:
        tables.insert(0, OWN)
    ways = [way for way in WAYS if way.name in (options.way or (way.name,))]
    readings: dict[str, dict[str, Reading]] = {way.name: {} for way in ways}
    for project in [p for path in tables for p in projects_of(path, options.names)]:
        try:
            of_ways = {way.name: read_until_known(project, way) for way in ways}
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{project.name}: left out: {error}\n")
            continue
        for name, reading in of_ways.items():
            readings[name][project.name] = reading
            if options.answers:
                _write_answer(options.answers / project.name / f"{name}.txt", reading)
        sys.stderr.write(_row(project.name, [*of_ways.values()]))
        sys.stderr.flush()
    text = "".join(_render(readings))
    sys.stdout.write(text)
    if options.output:
        options.output.write_text(text, "utf-8")


def _write_answer(path: Path, reading: Reading) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n---- second ----\n".join(reading.texts), "utf-8")


def _row(name: str, readings: Sequence[Reading]) -> str:
    cells = [f"{_cell(reading):>9}" for reading in readings]
    return f"| {name:28} | {' | '.join(cells)} |\n"


def _cell(reading: Reading) -> str:
    """Return the bytes; with a mark if the line was not in the first answer, or never."""
    mark = "" if reading.decides else "*"
    return f"{reading.size}{mark}{'' if reading.is_known else '!'}"


def _render(readings: Mapping[str, Mapping[str, Reading]]) -> Iterator[str]:
    """Yield the figures of each way, then the bytes of each project."""
    names = [*next(iter(readings.values()))]
    yield f"{len(names)} projects\n\n"
    yield (
        "| | bytes, median | bytes, mean | tokens, median | tokens, mean "
        "| deciding line in the answer | a second command | never known |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    for way, of_projects in readings.items():
        group = [*of_projects.values()]
        sizes = [reading.size for reading in group]
        tokens = [reading.tokens for reading in group]
        share = statistics.mean(reading.decides for reading in group)
        again = sum(len(reading.texts) > 1 for reading in group)
        never = sum(not reading.is_known for reading in group)
        yield (
            f"| {way} | {statistics.median(sizes):,.0f} | {statistics.mean(sizes):,.0f} "
            f"| {statistics.median(tokens):,.0f} | {statistics.mean(tokens):,.0f} "
            f"| {share:.0%} | {again} | {never} |\n"
        )
    yield f"\n| bytes | {' | '.join(readings)} |\n|---|{'---|' * len(readings)}\n"
    for name in names:
        yield _row(name, [readings[way][name] for way in readings])
    yield "\n`*`: the deciding line is not in the first answer; `!`: not all is ever known.\n"


if __name__ == "__main__":
    main()
