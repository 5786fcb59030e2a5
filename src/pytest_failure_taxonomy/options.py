"""The options of a run and of its benches: the one table of flags and ini values, with their help.

Every pytest run of an environment imports this module, so it imports only what pytest has imported,
and has no NamedTuple, which takes longer to make than this whole table.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

DEFAULT_REPORT = "failure-report.json"
DEFAULT_STALL_SECONDS = 60
KNOWN_BY_HISTORY = "history"
STAGES = (
    "git_clone",
    "git_checkout",
    "setup",
    "baseline_run",
    "agent_run",
    "final_test",
)
"""The values of `Stage`, repeated so that nothing has to be imported; a test compares them."""
SUPERVISOR_VARIABLE = "FAILURE_TAXONOMY_SUPERVISOR"
"""Holds the process id of `failure-taxonomy run`, a colon, and the path of its mailbox."""
PROVING_VARIABLE = "FAILURE_TAXONOMY_PROVING"
"""Set in processes in which failures are being proven: their runs prove nothing themselves."""

EXPERIMENT_VARIABLE = "FAILURE_TAXONOMY_EXPERIMENT"
"""Holds what a pytest that `failure-taxonomy prove` has started is to run; no test sees it."""
NEIGHBOURS = {
    "bench": {
        "cases": "bench.kept.shown.page_runs",
        "program": "bench.kept.file.section_of_session",
    },
    "history": {
        "plugin": "history.recording.HistoryPlugin",
        "amends": "history.recording.ask_history",
    },
}
"""What the core, which imports no neighbour, loads of each by name: `cases` are those of an HTML
page, `program` returns a section of the report of a dead run, `amends` an amendment of it."""

TEMPORARY_VARIABLE = "PYTEST_DEBUG_TEMPROOT"
"""pytest's own: where it makes temporary folders."""


class Option(SimpleNamespace):
    """One option: its flag, and the ini value that says the same."""

    name: str
    """Without the prefix that all of its group have; empty for the switch."""
    type: str
    """`flag`, `text`, `path`, `number`, `count`, `choice`, `list`, or `database`: a path or a URL
    that may be left out. A path of a flag is relative to the folder in which pytest was started,
    that of an ini value to the configuration file."""
    help: str
    prefix: str = "failure_taxonomy"
    long: str = ""
    """The long name of the flag, where it is not the option's."""
    short: str = ""
    """Another name of the flag. pytest is not told of it: see `long_names`."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    """What counts if nothing is given, in words; empty for off or nothing."""
    right: str = ""
    """What to give, where that is more than the type says."""
    ini_more: str = ""
    """What else is to be said of the ini value."""
    ini_default: Any = ""
    """Where it is not that of the type; `None` for a flag that leaves it to others."""
    left_out: str | None = None
    """What the flag stands for without its value, if that may be left out."""
    is_ini_alone: bool = False
    """There is no flag."""
    is_flag_alone: bool = False
    """There is no ini value."""
    is_of_class: bool = False
    """The option of a bench is a setting of a task class, too: it overrides the `bench.yaml`, which
    overrides the ini value."""
    dest: str
    """The name of the ini value, and in pytest's namespace of options."""
    flag: str
    """The long name."""
    names: tuple[str, ...]
    """All names of the flag, the short one first."""
    value: str
    """What a value of the flag is called in the help; empty where it takes none."""

    def __init__(self, name: str, type_: str, help_: str, **more: Any) -> None:
        """Make a row of the table; what is not given is as the class has it."""
        super().__init__(name=name, type=type_, help=help_, **more)
        self.dest = f"{self.prefix}_{name}" if name else self.prefix
        self.flag = self.long or f"--{self.dest.replace('_', '-')}"
        self.names = (self.short, self.flag) if self.short else (self.flag,)
        self.value = f"{{{','.join(self.choices)}}}" if self.choices else self.metavar

    @property
    def wanted(self) -> str:
        """What to give, for messages."""
        if self.right:
            return self.right
        words = {
            "flag": "true or false",
            "path": "the name of a file",
            "text": "a text",
        }
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
           left_out="", right="a path, a URL or true",
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
    Option("prove", "text", "At the end of a run in which tests failed, repeat them for so long "
           "to prove why: order, chance or surroundings", short="--why-prove", metavar="TIME",
           right="a time such as 90s, 5m or 1h"),
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
"""All options of a run by their names without the prefix, in the order of `--help`."""


_bench = partial(Option, prefix="bench")
_setting = partial(
    _bench, ini_more=", where a bench.yaml says nothing else", is_of_class=True
)
_BENCH_ROWS = (
    _bench("only", "flag", "Run bench cases and nothing else", is_flag_alone=True),
    _bench("skip", "flag", "Skip all bench cases", is_flag_alone=True),
    _bench("json", "path", "Write the reports of all task classes to PATH as a JSON list",
           metavar="PATH"),
    _bench("baseline", "text", "Fail the gate of a task class that got worse than in RUN: a kept "
           "run, `latest` for the latest of each class, a file of --bench-json or a report",
           metavar="RUN", ini_more="; a path is relative to the configuration file"),
    _bench("storage", "path", "Keep each run with its outputs in a file in DIR, to look at it, "
           "grade it again or continue it", metavar="DIR", default=".bench in the root directory"),
    _bench("no_save", "flag", "Keep no runs"),
    _bench("resume", "text", "Continue the latest kept run of each task class, or RUN: call the "
           "system only for cases that are missing or have changed; write it behind paths, or with "
           "`=`", metavar="RUN", left_out="latest", is_flag_alone=True),
    _setting("sut", "text", "The system under test of all task classes", metavar="MODULE:CALLABLE"),
    _setting("sut_version", "text", "The version of the system under test: a run with another one "
             "is not continued", metavar="TEXT"),
    _setting("sut_isolation", "text", "Run a system that is named by --bench-sut or `sut:` in "
             "`process`es of its own, or in a `thread` of pytest's", metavar="WHERE"),
    _setting("rubric_isolation", "text", "Grade in a fork of a `warm` server or in a `fresh` "
             "interpreter a case", metavar="HOW"),
    _setting("timeout_per_case_seconds", "number", "Limit of the system under test for cases that "
             "set none of their own", long="--bench-timeout-per-case", metavar="SECONDS"),
    _setting("rubric_wall_clock_seconds", "number", "Limit of the rubric for cases that set none "
             "of their own", long="--bench-rubric-wall-clock", metavar="SECONDS"),
    _setting("concurrency", "count", "Cases of a task class that run at a time", metavar="N"),
    _setting("max_cost_usd", "number", "Start no case of a task class once its cases have cost "
             "more", long="--bench-max-cost", metavar="USD"),
    _bench("backend", "text", "Call systems that are named by --bench-sut or `sut:` on a Dask "
           "cluster: dask://HOST:PORT", metavar="URL"),
    _bench("shard", "text", "Run the I-th of N parts of each task class, such as 2/4",
           metavar="I/N"),
    _bench("root", "text", "The folder in which the mark and the fixtures find a task class by its "
           "name, relative to the root directory", default="bench", ini_default="bench",
           is_ini_alone=True),
)  # fmt: skip
BENCH_OPTIONS = {row.name: row for row in _BENCH_ROWS}
"""The same of benches. What is a setting of a task class has its name."""

_TYPES: dict[str, tuple[dict[str, object], Any, Any]] = {
    "flag": ({"action": "store_true", "default": False}, "bool", False),
    "list": ({"action": "append"}, "linelist", []),
}
"""By an option's type: what is special for argparse, and the type and the default for `addini`."""
_IN_FILE = {"path": ", relative to the configuration file", "list": ", one a line"}


def declare(parser: Any, group: Any, options: dict[str, Option]) -> None:
    """Declare the flags and the ini values of options to pytest.

    Args:
        parser: pytest's.
        group: of the parser, for the flags.
        options: a table of this module.
    """
    for option in options.values():
        attributes, ini_type, ini_default = _TYPES.get(option.type, ({}, None, ""))
        words = option.help
        if not option.is_ini_alone:
            if option.default:
                words += f"; default: {option.default}"
            if not option.is_flag_alone:
                words += f" (ini: {option.dest})"
            group.addoption(
                option.flag,
                dest=option.dest,
                help=words,
                **attributes,
                **({"metavar": option.value} if option.value else {}),
                **(
                    {}
                    if option.left_out is None
                    else {"nargs": "?", "const": option.left_out}
                ),
            )
            words = f"As {option.flag}"
        if not option.is_flag_alone:
            more = option.ini_more or _IN_FILE.get(option.type, "")
            default = ini_default if option.ini_default == "" else option.ini_default
            parser.addini(option.dest, f"{words}{more}", ini_type, default=default)


_TYPES_OF_TOML = {
    "number": (int, float),
    "count": (int,),
    "amounts": (dict,),
    "database": (bool,),
}
"""What TOML has of its own for a type of option that is declared as a text."""
_AS_TEXT = str.maketrans(":", "=", "{}' ")
"""Makes `calls=100,tokens=1e6` of a table, and leaves a number or a truth value as it is."""


def accept_types_of_toml(config: Any) -> None:
    """Replace TOML's own numbers, tables and truth values by the texts that an ini file has.

    A `pytest.toml`, new in pytest 9, keeps its types, and pytest refuses a number where a text is
    declared. A value that is declared as a number could be no text, and pytest's own message of a
    wrong one says less than ours.

    Args:
        config: of a pytest that has read its configuration file.
    """
    # Not public; pytest 8 has texts alone, and under another name.
    ini_values: dict[str, object] = getattr(config, "_inicfg", {})
    for option in (*_ROWS, *_BENCH_ROWS):
        entry: Any = ini_values.get(option.dest)
        value = getattr(entry, "value", None)
        if type(value) in _TYPES_OF_TOML.get(option.type, ()):
            text = str(value).translate(_AS_TEXT)
            ini_values[option.dest] = dataclasses.replace(entry, value=text)


def free_names(config: Any) -> dict[str, str]:
    """Return the short names that no other plugin has so far, and the long names for them."""
    return {
        option.short: option.flag
        for option in _ROWS
        if option.short and config.getoption(option.short, config) is config
    }


def long_names(config: Any, words: list[str]) -> list[str]:
    """Return the words of a command line with our long names for the short ones.

    If we registered a short name, pytest could not start with another plugin that has it, too,
    whichever of the two came first.
    """
    free, long = free_names(config), []
    files = argparse.ArgumentParser(fromfile_prefix_chars="@")
    for word in files._read_args_from_files(words):  # noqa: SLF001 - as pytest's parser reads them
        name, equals, value = word.partition("=")
        long.append(f"{free.get(name, name)}{equals}{value}")
    return long


def words_given(config: Any) -> list[str]:
    """Return the words of pytest's command line, after those of `PYTEST_ADDOPTS` and `addopts`."""
    return [
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *config.getini("addopts"),
        *map(str, config.invocation_params.args),
    ]


def typed_name(config: Any, names: Sequence[str]) -> str:
    """Return which of an option's names was typed, the last one if several were."""
    typed = [
        name
        for word in words_given(config)
        if (name := word.partition("=")[0]) in names
    ]
    return typed[-1] if typed else names[-1]
