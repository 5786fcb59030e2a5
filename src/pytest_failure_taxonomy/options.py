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
"""The values of `Stage`, written again so that nothing has to be imported; a test compares both."""
SUPERVISOR_VARIABLE = "FAILURE_TAXONOMY_SUPERVISOR"
"""Holds the process id of `failure-taxonomy run`, a colon, and the path of its mailbox."""
PROVING_VARIABLE = "FAILURE_TAXONOMY_PROVING"
"""Set in processes that prove failures, so that their runs prove nothing themselves."""

EXPERIMENT_VARIABLE = "FAILURE_TAXONOMY_EXPERIMENT"
"""Tells a pytest that `failure-taxonomy prove` has started what to run; no test sees it."""
NEIGHBOURS = {
    "bench": {
        "cases": "bench.kept.shown.page_runs",
        "program": "bench.kept.runs.section_of_session",
    },
    "history": {
        "plugin": "history.recording.HistoryPlugin",
        "amends": "history.recording.ask_history",
    },
}
"""Functions that the core loads by name, as it imports no neighbour: `cases` returns the cases of
an HTML page, `program` a section of the report of a dead run, `amends` an amendment of it."""

TEMPORARY_VARIABLE = "PYTEST_DEBUG_TEMPROOT"
"""pytest's own variable for the folder of its temporary folders."""


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
    """Another name of the flag. pytest does not know it: see `long_names`."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    """The default in words; empty for off or nothing."""
    right: str = ""
    """What to give, where the type doesn't say enough."""
    ini_more: str = ""
    """What the help adds about the ini value."""
    ini_default: Any = ""
    """The default for `addini`, where it differs from the type's; `None` for a flag that other
    options can switch on."""
    left_out: str | None = None
    """The value of a flag that is given without one; `None` if it needs a value."""
    is_ini_alone: bool = False
    """It can only be set in a configuration file."""
    is_flag_alone: bool = False
    """It can only be set on the command line."""
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
    """The name of the flag's value in the help; empty for a flag without a value."""

    def __init__(self, name: str, type_: str, help_: str, **more: Any) -> None:
        """Make a row of the table; attributes that are not given keep the class's defaults."""
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
    Option("report", "path", "Where to write the report; also switches it on", short="--why-report",
           metavar="PATH", default=DEFAULT_REPORT, ini_more=", unless failure_taxonomy is false"),
    Option("stage", "choice", "Which stage of an attempt this run is", choices=STAGES,
           default="final_test"),
    Option("rules", "path", "Classify failures by the rules in this YAML file first",
           metavar="FILE"),
    Option("redact", "list", "Remove text that matches from the report and the verdict, in "
           "addition to secrets of known forms; if REGEX has groups, only the first group; "
           "repeatable",
           metavar="REGEX", right="regular expressions, one a line"),
    Option("strict_baseline", "flag", "In the stage baseline_run, accept only exit code 1 as a "
           "valid baseline"),
    Option("stall_seconds", "number", "After this many seconds without progress, find out where "
           "the run hangs; 0 turns this off", metavar="SECONDS", default=str(DEFAULT_STALL_SECONDS),
           right="a number of seconds such as 60, or 0 for off"),
    Option("end_stalled", "flag", "End a run that hangs for that long; with xdist, only the worker "
           "whose test hangs"),
    Option("history", "database", "Record the run in the history, and say which failures are new, "
           "known or flaky, or came back; URL is an SQLite file or an SQLAlchemy URL, by default "
           "FAILURE_TAXONOMY_HISTORY, else .failure-taxonomy/history.db", short="--why-history",
           metavar="URL", left_out="", right="a path, a URL or true",
           ini_more=", relative to the configuration file; true for the default"),
    Option("known", "path", "Exit with 0 if tests failed and every failure is known: listed in "
           "FILE, or known to the history", short="--why-known",
           metavar="FILE|history", right="the name of a file, or history"),
    Option("junit", "path", "Write JUnit XML with reasons, owners and failures outside of "
           "tests, even if pytest dies", short="--why-junit", metavar="PATH",
           right="the name of a file such as report.xml"),
    Option("html", "path", "Write the report as one HTML page; needs the extra html",
           short="--why-html", metavar="PATH", right="the name of a file such as report.html"),
    Option("github", "choice", "On GitHub Actions, annotate the run and write the step's summary "
           "and outputs; on TeamCity, report build problems; auto: there, off: nowhere",
           choices=("auto", "on", "off"), default="auto"),
    Option("summary", "choice", "What to print at the end: the verdict (short), the verdict and "
           "the causes with their tests, as -v does (groups), or nothing (off)",
           choices=("short", "groups", "off"), default="short"),
    Option("prove", "text", "Run failed tests again at the end, for up to TIME, to "
           "prove why they fail: order, chance or conditions", short="--why-prove", metavar="TIME",
           right="a time such as 90s, 5m or 1h"),
    Option("shard", "text", "Which part of the suite this run is, such as 2/4", metavar="I/N",
           right="one such as 2/4",
           default="as set by pytest-split, pytest-shard or the CI system"),
    Option("certify", "flag", "Fail the run if anything but the code of the tests made a result, "
           "such as a hook that hides failures; switches the report on"),
    Option("base", "text", "Say which files that decide results differ from REV's: tests and files "
           "among them, conftest files, plugins, pytest's settings; switches the report on",
           metavar="REV", right="a commit of the repository such as origin/main"),
    Option("subtask", "text", "The subtask that this run attempts; switches the history on, to "
           "record the attempt", metavar="ID"),
    Option("approach", "text", "What this attempt tries, in a few words", metavar="TEXT"),
    Option("markers", "list", "More failure markers: NAME, or NAME = one of the 15 reasons",
           right="NAME, or NAME = REASON", is_ini_alone=True),
    Option("watcher", "flag", "Start a second process that completes the report if pytest dies, "
           "and looks at what hangs (Linux)", default="on", ini_default=True, is_ini_alone=True),
)  # fmt: skip
OPTIONS = {row.name: row for row in _ROWS}
"""All options of a run by their names without the prefix, in the order of `--help`."""


_bench = partial(Option, prefix="bench")
_setting = partial(_bench, ini_more=", unless a bench.yaml sets it", is_of_class=True)
_BENCH_ROWS = (
    _bench("only", "flag", "Run only bench cases", is_flag_alone=True),
    _bench("skip", "flag", "Skip all bench cases", is_flag_alone=True),
    _bench("json", "path", "Write the reports of all task classes to PATH as a JSON list",
           metavar="PATH"),
    _bench("baseline", "text", "Fail the gate of a task class that got worse since RUN: a kept "
           "run, `latest` for the latest of each class, a file of --bench-json or a report",
           metavar="RUN", ini_more="; a path is relative to the configuration file"),
    _bench("storage", "path", "Save each run with its outputs to a file in DIR, to show it, grade "
           "it again or continue it", metavar="DIR", default=".bench in the root directory"),
    _bench("no_save", "flag", "Save no runs"),
    _bench("resume", "text", "Continue the latest kept run of each task class, or RUN: call the "
           "system only for cases that are missing or have changed; write it after the paths, or "
           "with `=`", metavar="RUN", left_out="latest", is_flag_alone=True),
    _setting("sut", "text", "The system under test of all task classes", metavar="MODULE:CALLABLE"),
    _setting("sut_version", "text", "The version of the system under test; a run of another "
             "version is not continued", metavar="TEXT"),
    _setting("sut_isolation", "text", "Where to run a system that --bench-sut or `sut:` names: in "
             "a `process` of its own, or in a `thread` of pytest", metavar="WHERE"),
    _setting("rubric_isolation", "text", "Grade each case in a fork of a `warm` server, or in a "
             "`fresh` interpreter", metavar="HOW"),
    _setting("timeout_per_case_seconds", "number", "Time limit of the system under test, for cases "
             "that don't set their own", long="--bench-timeout-per-case", metavar="SECONDS"),
    _setting("rubric_wall_clock_seconds", "number", "Time limit of the rubric, for cases that "
             "don't set their own", long="--bench-rubric-wall-clock", metavar="SECONDS"),
    _setting("concurrency", "count", "How many cases of a task class run at the same time",
             metavar="N"),
    _setting("max_cost_usd", "number", "Start no more cases of a task class once they have cost "
             "more than this", long="--bench-max-cost", metavar="USD"),
    _bench("backend", "text", "Call systems on the Dask cluster dask://HOST:PORT, if --bench-sut "
           "or `sut:` names them", metavar="URL"),
    _bench("shard", "text", "Run the I-th of N parts of each task class, such as 2/4",
           metavar="I/N"),
    _bench("root", "text", "The folder in which the mark and the fixtures find a task class by its "
           "name, relative to the root directory", default="bench", ini_default="bench",
           is_ini_alone=True),
)  # fmt: skip
BENCH_OPTIONS = {row.name: row for row in _BENCH_ROWS}
"""The same for benches. An option that is also a setting of a task class has the setting's name."""

_TYPES: dict[str, tuple[dict[str, object], Any, Any]] = {
    "flag": ({"action": "store_true", "default": False}, "bool", False),
    "list": ({"action": "append"}, "linelist", []),
}
"""By an option's type: attributes for argparse, and the type and the default for `addini`."""
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
"""By an option's type: TOML's own types of values, where pytest knows the option as a text."""
_AS_TEXT = str.maketrans(":", "=", "{}' ")
"""Turns a table into `calls=100,tokens=1e6`, and leaves a number or a truth value as it is."""


def accept_types_of_toml(config: Any) -> None:
    """Replace TOML's own numbers, tables and truth values by the texts that an ini file has.

    A `pytest.toml`, new in pytest 9, keeps its types, and pytest refuses a number where a text is
    declared. If we declared a number, it could not be given as a text, and pytest's message about
    a wrong value says less than ours.

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
    """Return the short names that no other plugin has taken, with their long names."""
    return {
        option.short: option.flag
        for option in _ROWS
        if option.short and config.getoption(option.short, config) is config
    }


def long_names(config: Any, words: list[str]) -> list[str]:
    """Return the words of a command line, with our short names replaced by the long ones.

    If we registered a short name, pytest could not start with another plugin that has the same
    name.
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
