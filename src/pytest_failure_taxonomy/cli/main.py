"""The command line as `commands.toml` has it, with the values that its options take.

A user's mistake becomes a line and exit code 2.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.cli.output import let_go_of_streams, tell, tell_plainly
from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.system import import_named
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, Stage

_AGO: Final = re.compile(r"([0-9]{1,5})([dwh])")
_DURATION: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}


def command_line(given: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line; what it parses says in `runs` what is to run.

    The values of `runs`, and of `asks`, by which a command reaches a neighbour of the core, are
    names of functions.

    Args:
        given: what is to be parsed. A command that is not among them has a name and a help, but no
            arguments and no commands of its own: all of them would take as long again.
    """
    parser = argparse.ArgumentParser(
        prog="failure-taxonomy",
        description="Say why a test run failed, and what to fix.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    top = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    others = ["for harnesses and benches:"]
    parents: dict[str, argparse.ArgumentParser] = {}
    below: dict[str, argparse._SubParsersAction[argparse.ArgumentParser]] = {}
    table = tomllib.loads(
        files("pytest_failure_taxonomy.cli")
        .joinpath("commands.toml")
        .read_text("utf-8")
    )
    for entry in table["command"]:
        parent, _, name = entry["name"].rpartition(" ")
        if parent and parent not in given:
            continue
        if parent and parent not in below:
            below[parent] = parents[parent].add_subparsers(
                title="commands", metavar="COMMAND"
            )
        words = entry["help"]
        about = entry.get("description", f"{words[:1].upper()}{words[1:]}.")
        if "{formats}" in about and name in given:
            formats = [f"{name}: {what}" for name, what in _formats().items()]
            about = about.replace("{formats}", "; ".join(formats))
        options = {"description": about, "allow_abbrev": False}
        if entry.get("is_for_harnesses", False):  # argparse lists what has a help
            others.append(f"    {name:<10}{words}")
        else:
            options["help"] = words
        command = (below[parent] if parent else top).add_parser(
            name, usage=entry.get("usage"), **options
        )
        command.set_defaults(
            runs=entry.get("runs"),
            asks=entry.get("asks", {}),
            about=command.format_help,
        )
        if name in given:
            _add_arguments(command, entry.get("arguments", ()), table)
        parents[name] = command
    parser.epilog = "\n".join(others)
    return parser


def _add_arguments(
    parser: argparse.ArgumentParser,
    entries: Iterable[dict[str, Any]],
    table: Mapping[str, Any],
) -> None:
    groups: dict[str, argparse._ArgumentGroup] = {}
    for entry in entries:
        for argument in table["shared"][entry["use"]] if "use" in entry else [entry]:
            given = dict(argument)
            into: Any = parser
            if (title := given.pop("group", None)) is not None:
                if title not in groups:
                    about = "In patterns * stands for any text, ? for a letter."
                    groups[title] = parser.add_argument_group(title, about)
                into = groups[title]
            if (pick := given.pop("pick", None)) is not None:
                if pick not in groups:
                    required = pick == "one"
                    groups[pick] = parser.add_mutually_exclusive_group(
                        required=required
                    )
                into = groups[pick]
            if given.pop("is_inherited", False):
                given["default"] = argparse.SUPPRESS
            if "type" in given:
                named = given["type"]
                given["type"] = _TYPES.get(named) or _number(**table["numbers"][named])
            if isinstance(given.get("choices"), str):
                choices = given["choices"]
                given["choices"] = _CHOICES.get(choices) or list(_formats())
            into.add_argument(*given.pop("names"), **given)


def _formats() -> Mapping[str, str]:
    """Return the formats of reports, which hardly any command needs to know."""
    from pytest_failure_taxonomy.faces import list_formats

    return list_formats()


def _number(least: float, most: float, what: str) -> Callable[[str], float]:
    """Return a parser of numbers, of whole ones if `least` is whole; `what` says what is right."""
    kind = type(least)

    def parse(text: str) -> float:
        number = math.nan
        if kind is float or (text.isascii() and text.isdecimal() and len(text) < 10):
            with suppress(ValueError):
                number = kind(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
        return number

    return parse


def _time(text: str) -> datetime:
    """Return a time in UTC and without a zone, of a date, a time or `90d`."""
    try:
        if ago := _AGO.fullmatch(text):
            at = datetime.now(UTC) - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
        else:
            at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; give one such as 2026-01-31, 2026-01-31T12:00Z, 12h, 7d or 4w"
        ) from None
    return (
        at.replace(tzinfo=None)
        if at.tzinfo is None
        else at.astimezone(UTC).replace(tzinfo=None)
    )


def _duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `5m`, `1h` or `90`."""
    found = _DURATION.fullmatch(text)
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; give one such as 90s, 5m or 1h"
        )
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


_TYPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "path": Path,
    "int": int,
    "time": _time,
    "duration": _duration,
}
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "stages": [stage.value for stage in Stage],
    "reasons": [reason.value for reason in FailureReason],
}


_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130
_EXIT_STOPS_BISECTION = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if next((word for word in given if not word.startswith("-")), "") != "bisect-step":
        return _run(given)
    # `git bisect run` would take a commit for bad where it is only this command that went wrong.
    try:
        code = _run(given)
    except SystemExit as error:  # argparse
        code = int(error.code or 0)
    except Exception:  # noqa: BLE001 - Python itself would end with 1, which is bad
        traceback.print_exc()
        code = _EXIT_USAGE
    return _EXIT_STOPS_BISECTION if code == _EXIT_USAGE else code


def _run(given: Sequence[str]) -> int:
    try:
        options = command_line(given).parse_args(given)
        if options.runs is None:
            tell_plainly(options.about().rstrip())
            return _EXIT_USAGE
        name, *words = options.runs.split()
        return int(import_named(name)(options, *words))
    except FailureTaxonomyError as error:
        tell(str(error))
        return _EXIT_USAGE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except FileNotFoundError:
        try:
            os.getcwd()
        except OSError:
            tell(
                "the working directory doesn't exist any more; change to one that does"
            )
            return _EXIT_USAGE
        raise
    finally:
        let_go_of_streams()
