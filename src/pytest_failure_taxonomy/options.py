"""The options of a run: the one table of flags and ini values, of their help and their reference.

Every pytest run of an environment imports this module, so it imports only what pytest has imported,
and has no NamedTuple, which takes longer to make than this whole table.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

DEFAULT_REPORT = "failure-report.json"
DEFAULT_STALL_SECONDS = 60
KNOWN_BY_HISTORY = "history"
STAGES = ("git_clone", "git_checkout", "setup", "baseline_run", "agent_run", "final_test")
"""The values of `Stage`, repeated so that nothing has to be imported; a test compares them."""


class Option(SimpleNamespace):
    """One option: its flag, and the ini value that says the same."""

    name: str
    """Without the prefix that all have; empty for the switch."""
    type: str
    """`flag`, `text`, `path`, `number`, `choice`, `list`, or `database`: a path or a URL that may
    be left out. A path of a flag is relative to the folder in which pytest was started, that of an
    ini value to the configuration file."""
    help: str
    short: str = ""
    """Another name of the flag."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    """What counts if nothing is given, in words; empty for off or nothing."""
    right: str = ""
    """What to give, where that is more than the type says."""
    ini_more: str = ""
    """What else is to be said of the ini value."""
    ini_default: bool | None = False
    """Of a flag; `None` for one that leaves it to others."""
    is_ini_alone: bool = False
    """There is no flag."""

    def __init__(self, name: str, type_: str, help_: str, **more: Any) -> None:
        """Make a row of the table; what is not given is as the class has it."""
        super().__init__(name=name, type=type_, help=help_, **more)

    @property
    def dest(self) -> str:
        """The name of the ini value, and in pytest's namespace of options."""
        return f"failure_taxonomy_{self.name}" if self.name else "failure_taxonomy"

    @property
    def flag(self) -> str:
        """The long name."""
        return f"--{self.dest.replace('_', '-')}"

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the flag, the short one first."""
        return (self.short, self.flag) if self.short else (self.flag,)

    @property
    def value(self) -> str:
        """What a value of the flag is called in the help; empty where it takes none."""
        return f"{{{','.join(self.choices)}}}" if self.choices else self.metavar

    @property
    def wanted(self) -> str:
        """What to give, for messages."""
        if self.right:
            return self.right
        words = {"flag": "true or false", "path": "the name of a file", "text": "a text"}
        return words.get(self.type) or f"one of {', '.join(self.choices)}"


_ROWS = (
    Option("", "flag", "Say why the run failed: a verdict on the terminal, a report in a file; the "
           "options below need it", short="--why", ini_default=None),
    Option("report", "path", "Where the report goes; switches it on", short="--why-report",
           metavar="PATH", default=DEFAULT_REPORT, ini_more=", unless failure_taxonomy is false"),
    Option("stage", "choice", "Which stage of an attempt this run is", choices=STAGES,
           default="final_test"),
    Option("rules", "path", "Take the reasons of failures from the rules in this YAML file first",
           metavar="FILE"),
    Option("redact", "list", "Keep what matches out of the report and the verdict, besides the "
           "secrets of known forms; the first group alone, if there is one; repeatable",
           metavar="REGEX", right="regular expressions, one a line"),
    Option("strict_baseline", "flag", "In the stage baseline_run take exit code 1 alone for a "
           "valid baseline"),
    Option("stall_seconds", "number", "Look at what makes no progress for so long, and say where "
           "it hangs; 0 is off", metavar="SECONDS", default=str(DEFAULT_STALL_SECONDS),
           right="a number of seconds such as 60, or 0 for off"),
    Option("end_stalled", "flag", "End what hangs for so long; under xdist the worker of a test "
           "alone, otherwise the run"),
    Option("history", "database", "Record the run in the history and say what is new, came back, "
           "is known or flaky; an SQLite database or a URL of SQLAlchemy, FAILURE_TAXONOMY_HISTORY "
           "or .failure-taxonomy/history.db if left out", short="--why-history", metavar="URL",
           right="a path, a URL or true",
           ini_more=", relative to the configuration file; true for the default"),
    Option("known", "path", "End with exit status 0 if tests failed and every failure is one of "
           "those that FILE lists, or that the history knows", short="--why-known",
           metavar="FILE|history", right="the name of a file, or history"),
    Option("junit", "path", "Write JUnit XML that has reasons, owners and the failures of the "
           "session, too, even if pytest dies", short="--why-junit", metavar="PATH",
           right="the name of a file such as report.xml"),
    Option("html", "path", "Write one HTML page with everything in it; needs the extra html",
           short="--why-html", metavar="PATH", right="the name of a file such as report.html"),
    Option("github", "choice", "Annotate the run and write a summary and outputs of the step, for "
           "GitHub Actions; auto is on there", choices=("auto", "on", "off"), default="auto"),
    Option("summary", "choice", "What to print at the end: the verdict, each group of failures "
           "besides, as with -v, or nothing", choices=("short", "groups", "off"), default="short"),
    Option("shard", "text", "Which part of the suite this run is, such as 2/4", metavar="I/N",
           right="one such as 2/4", default="that of pytest-split, pytest-shard or the CI system"),
    Option("subtask", "text", "The subtask that this run is an attempt at; switches the history "
           "on, which keeps it", metavar="ID"),
    Option("approach", "text", "How the attempt goes about it, in a few words", metavar="TEXT"),
    Option("markers", "list", "More reasons of failure markers: NAME, or NAME = one of the 15 "
           "reasons", right="NAME, or NAME = REASON", is_ini_alone=True),
    Option("watcher", "flag", "Have a second process complete the report if pytest dies, and look "
           "at what hangs (Linux)", default="on", ini_default=True, is_ini_alone=True),
)  # fmt: skip
OPTIONS = {row.name: row for row in _ROWS}
"""All options by their names without the prefix, in the order of `--help`."""


def words_given(config: Any) -> list[str]:
    """Return the words of pytest's command line, after those of `PYTEST_ADDOPTS` and `addopts`."""
    return [
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *config.getini("addopts"),
        *map(str, config.invocation_params.args),
    ]


def typed_name(config: Any, names: Sequence[str]) -> str:
    """Return which of an option's names was typed, the last one if several were."""
    typed = [name for word in words_given(config) if (name := word.partition("=")[0]) in names]
    return typed[-1] if typed else names[-1]
