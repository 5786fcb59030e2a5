"""The settings of a run, from options and ini values."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.aftermath.mailbox import find_mailbox, read_message
from pytest_failure_taxonomy.errors import RulesError, SettingsError
from pytest_failure_taxonomy.named_files import (
    CONNECTION_STRING,
    NO_CONNECTION_STRING,
    REPORT,
    absolute,
    chosen,
    refused_files,
)
from pytest_failure_taxonomy.taxonomy.evidence import Attempt, Faces, Shard
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason, Stage, parse_stage
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.known_failures import KnownFailure
    from pytest_failure_taxonomy.taxonomy.user_rules import Rule

DEFAULT_REPORT: Final = "failure-report.json"
DEFAULT_STALL_SECONDS: Final = 60.0
MAX_STALL_SECONDS: Final = 1e9
"""Thirty years; a longer time could not be added to a time in ns."""

SUMMARIES: Final = ("short", "groups", "off")
KNOWN_BY_HISTORY: Final = "history"
MAX_ATTEMPT: Final = 2_000
"""Characters of a subtask's id and of an approach."""

_ENDS_OF_FOLDERS: Final = ("/", os.sep)


@value
class Settings:
    """The settings of one run."""

    report: Path
    """Absolute."""
    report_was_named: bool
    """The user chose the path. If not, a folder that can't be written is no error."""
    stage: Stage
    strict_baseline: bool
    watcher: bool
    """Start a process that completes the report if this one dies."""
    observer: bool = True
    """A process may be started that looks at this one while it lives."""
    stall_seconds: float = 60.0
    """After how long without progress something counts as stalled; 0 for never."""
    ends_stalled: bool = False
    """End what is stalled."""
    rules: tuple[Rule, ...] = ()
    """The user's rules, in their order."""
    redact: tuple[str, ...] = ()
    """Regular expressions of what to remove from the report."""
    markers: Mapping[str, FailureReason]
    """The reasons of markers beyond the built-in ones, by their names."""
    history: str | None = None
    """Where the run is to be recorded, empty for the default; `None` for nowhere."""
    known: tuple[KnownFailure, ...] | None = None
    """The failures that are known; `None` if that was not asked."""
    known_name: str = ""
    """The file that lists them; `history` if the history says what is known."""
    shard: Shard | None = None
    attempt: Attempt | None = None
    faces: Faces = Faces()
    summary: str | None = None
    """What to print at the end, one of `SUMMARIES`; `None` where that was not said."""
    mailbox: Path | None = None
    """The mailbox of the supervisor, if there is one."""
    problems: tuple[str, ...] = ()
    """What else is wrong. No test runs then, but a report is written that says so."""


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of a run. An option overrides its ini value.

    Raises:
        SettingsError: if there is no place for the report; each argument is a problem.
    """
    problems: list[str] = []
    options = config.known_args_namespace
    mailbox = find_mailbox()
    wanted = read_message(mailbox)
    _ini(config, "failure_taxonomy", "true or false", problems)
    ini_report = _ini(config, "failure_taxonomy_report", "the name of a file", problems)
    ini_stage = _ini(config, "failure_taxonomy_stage", "one of the six stages", problems)
    ini_strict = _ini(config, "failure_taxonomy_strict_baseline", "true or false", problems)
    ini_watcher = _ini(config, "failure_taxonomy_watcher", "true or false", problems)
    ini_end_stalled = _ini(config, "failure_taxonomy_end_stalled", "true or false", problems)
    stall_seconds = _stall_seconds(config, options.failure_taxonomy_stall_seconds, problems)
    rules = _rules(config, options.failure_taxonomy_rules, problems)
    redact = _redact(config, options.failure_taxonomy_redact, problems)
    markers = _markers(config, problems)
    history = _history(config, options.failure_taxonomy_history, problems)
    known, known_name = _known(config, options.failure_taxonomy_known, problems)
    shard = _shard(config, options, problems)
    attempt = _attempt(config, options, problems)
    faces = Faces(
        junit=_face(config, options, "junit", problems),
        junit_family=_junit_family(config),
        html=_face(config, options, "html", problems),
        **_github(config, options, problems),
    )
    summary = _choice(config, options, "summary", SUMMARIES, problems)
    if attempt is not None and history is None:
        history = ""  # which is where attempts are kept
    stage = Stage.FINAL_TEST
    try:
        stage = parse_stage(
            options.failure_taxonomy_stage or wanted.get("stage") or ini_stage or stage
        )
    except ValueError as error:
        is_option = bool(options.failure_taxonomy_stage)
        name = "--failure-taxonomy-stage" if is_option else "failure_taxonomy_stage"
        problems.append(f"{name}: {error}")
    else:
        if options.failure_taxonomy_strict_baseline and stage is not Stage.BASELINE_RUN:
            problems.append(
                f"--failure-taxonomy-strict-baseline contradicts the stage {stage}; "
                "give --failure-taxonomy-stage=baseline_run with it or leave it out"
            )
    try:
        report, named = _report_path(
            config,
            wanted.get("report")
            if options.failure_taxonomy_report is None
            else options.failure_taxonomy_report,
            ini_report,
        )
        refused = refused_files(config, report)
        if any(each.startswith(f"{REPORT} ") or report.name in each for each in refused):
            raise SettingsError(*refused)
        if refused:  # the report says so, and nothing else is written
            problems += refused
            faces, history, known = Faces(), None, None
    except SettingsError as error:
        raise SettingsError(*error.args, *problems) from error
    return Settings(
        report=report,
        report_was_named=named,
        stage=stage,
        strict_baseline=bool(options.failure_taxonomy_strict_baseline or ini_strict),
        watcher=ini_watcher is not False and mailbox is None,
        observer=ini_watcher is not False,
        stall_seconds=stall_seconds,
        ends_stalled=bool(options.failure_taxonomy_end_stalled or ini_end_stalled),
        rules=rules,
        redact=redact,
        markers=markers,
        history=history,
        known=known,
        known_name=known_name,
        shard=shard,
        attempt=attempt,
        faces=faces,
        summary=summary,
        mailbox=mailbox,
        problems=tuple(problems),
    )


def _stall_seconds(config: pytest.Config, option: str | None, problems: list[str]) -> float:
    name, text = "--failure-taxonomy-stall-seconds", option
    wanted = "a number of seconds such as 60, or 0 for off"
    if text is None:
        name = "ini value failure_taxonomy_stall_seconds"
        text = _ini(config, "failure_taxonomy_stall_seconds", wanted, problems) or None
    if text is None:
        return DEFAULT_STALL_SECONDS
    try:
        seconds = float(text)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < MAX_STALL_SECONDS:
        problems.append(f"{name}: {text!r} is no number of seconds from 0 on; give {wanted}")
        return 0.0
    return seconds


def _rules(config: pytest.Config, option: str | None, problems: list[str]) -> tuple[Rule, ...]:
    ini = _ini(config, "failure_taxonomy_rules", "the name of a file", problems)
    path, base = chosen(config, option, ini)
    if path is None:
        return ()
    if not path.strip():
        problems.append("--failure-taxonomy-rules: the path is empty; give the name of a file")
        return ()
    from pytest_failure_taxonomy.rules.rules_file import load_rules

    try:
        return load_rules(absolute(base, path))
    except RulesError as error:
        problems += str(error).splitlines()
        return ()


def _history(config: pytest.Config, option: str | None, problems: list[str]) -> str | None:
    """Return where the history is, as `Settings.history` has it; a path becomes absolute."""
    ini = _ini(config, "failure_taxonomy_history", "a path, a URL or true", problems) or ""
    if option is None and ini.lower() in ("", "false", "no", "off", "0"):
        return None
    url, base = chosen(config, option, "" if ini.lower() in ("true", "yes", "on", "1") else ini)
    if url and CONNECTION_STRING.match(url):
        problems.append(f"--failure-taxonomy-history: {NO_CONNECTION_STRING}")
        return None
    if url and "://" not in url:
        path = absolute(base, url)
        if os.path.isdir(path) or url.endswith(".py"):
            problems.append(
                f"--failure-taxonomy-history: {url} is no database; give the URL after a =, or "
                "this option last"
            )
            return None
        return str(path)
    return url or ""


def _known(
    config: pytest.Config, option: str | None, problems: list[str]
) -> tuple[tuple[KnownFailure, ...] | None, str]:
    ini = _ini(config, "failure_taxonomy_known", "the name of a file, or history", problems)
    known, base = chosen(config, option, ini)
    if known is None:
        return None, ""
    if known == KNOWN_BY_HISTORY:
        return (), known
    if not known.strip():
        problems.append("--failure-taxonomy-known: the path is empty; give a file, or history")
        return None, ""
    from pytest_failure_taxonomy.rules.known_file import load_known

    try:
        return load_known(absolute(base, known)), known
    except RulesError as error:
        problems += str(error).splitlines()
        return None, ""


_SHARD: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
_SHARDED_BY: Final = (
    ("BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0),
    ("CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0),
    ("CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
)
"""Variables with a job's number and the count of jobs, and from where the number counts."""


def _shard(config: pytest.Config, options: argparse.Namespace, problems: list[str]) -> Shard | None:
    """Return which part of the suite this is, as the user, a plugin or the CI system says."""
    text = options.failure_taxonomy_shard
    if text is None:
        text = _ini(config, "failure_taxonomy_shard", "I/N such as 2/4", problems) or None
    if text is not None:
        found = _SHARD.fullmatch(text)
        shard = Shard(index=int(found[1]), total=int(found[2])) if found else None
        if shard is None or not 1 <= shard.index <= shard.total:
            problems.append(
                f"--failure-taxonomy-shard: {text!r} is no part of a suite; give one such as 2/4"
            )
            return None
        return shard
    splits, group = getattr(options, "splits", None), getattr(options, "group", None)
    bench = _SHARD.fullmatch(getattr(options, "bench_shard", None) or "")
    if bench:
        group, splits = bench.groups()
    if splits and group:  # pytest-split, or our benches
        return _valid_shard(group, splits)
    shards, shard_id = getattr(options, "num_shards", 1), getattr(options, "shard_id", None)
    if shards and shard_id is not None and shards != 1:  # pytest-shard
        return _valid_shard(_number_of(shard_id, 1), shards)
    for index, total, first in _SHARDED_BY:
        if index in os.environ and total in os.environ:
            return _valid_shard(_number_of(os.environ[index], 1 - first), os.environ[total])
    return None


def _number_of(found: object, more: int) -> int | None:
    text = str(found)
    return int(text) + more if text.isascii() and text.isdigit() else None


def _valid_shard(index: object, total: object) -> Shard | None:
    """Return a shard of more than one, or `None` for anything else."""
    at, of = _number_of(index, 0), _number_of(total, 0)
    if at is None or of is None or of < 2 or not 1 <= at <= of:
        return None
    return Shard(index=at, total=of)


def _attempt(
    config: pytest.Config, options: argparse.Namespace, problems: list[str]
) -> Attempt | None:
    given = {}
    for name in ("subtask", "approach"):
        said = getattr(options, f"failure_taxonomy_{name}")
        if said is None:
            said = _ini(config, f"failure_taxonomy_{name}", "a text", problems)
        given[name] = (said or "").strip()[:MAX_ATTEMPT]
    if not any(given.values()):
        return None
    missing = [name for name, said in given.items() if not said]
    if missing:
        problems.append(
            f"--failure-taxonomy-{missing[0]}: it is missing; give both subtask and approach"
        )
        return None
    return Attempt(**given)


def _face(
    config: pytest.Config, options: argparse.Namespace, name: str, problems: list[str]
) -> str | None:
    """Return the absolute path where a face of the report goes, as text."""
    option = getattr(options, f"failure_taxonomy_{name}")
    ini = _ini(config, f"failure_taxonomy_{name}", "the name of a file", problems)
    given, base = chosen(config, option, ini)
    if given is None:
        return None
    if not given.strip() or given.endswith((*_ENDS_OF_FOLDERS, ".py")) or "\0" in given:
        problems.append(
            f"--failure-taxonomy-{name}: {given!r} is no name of a file; give one such as "
            f"report.{'xml' if name == 'junit' else name}"
        )
        return None
    path = absolute(base, given)
    if os.path.isdir(path):
        problems.append(f"--failure-taxonomy-{name}: {path} is a directory; give a file's name")
    return str(path)


def _junit_family(config: pytest.Config) -> str:
    """Return the dialect that pytest's own ini value names; `legacy` is an older name of one."""
    named = _ini(config, "junit_family", "xunit2", [])
    return "xunit1" if named in ("xunit1", "legacy") else "xunit2"


def _choice(
    config: pytest.Config,
    options: argparse.Namespace,
    name: str,
    choices: Sequence[str],
    problems: list[str],
) -> str | None:
    """Return what was chosen of a few words; `None` for nothing."""
    wanted = f"one of {', '.join(choices)}"
    said = getattr(options, f"failure_taxonomy_{name}")
    if said is None:
        said = _ini(config, f"failure_taxonomy_{name}", wanted, problems) or None
    if said is not None and said not in choices:
        problems.append(f"--failure-taxonomy-{name}: {said!r} is unknown; give {wanted}")
        return None
    return None if said is None else str(said)


def _github(
    config: pytest.Config, options: argparse.Namespace, problems: list[str]
) -> dict[str, Any]:
    """Return what GitHub Actions is to be given, as it says itself where."""
    chosen = _choice(config, options, "github", ("auto", "on", "off"), problems) or "auto"
    is_there = os.environ.get("GITHUB_ACTIONS") == "true"
    if chosen == "off" or (chosen == "auto" and not is_there):
        return {}
    return {
        "github": True,
        "summary": os.environ.get("GITHUB_STEP_SUMMARY") or None,
        "output": os.environ.get("GITHUB_OUTPUT") or None,
    }


def _redact(
    config: pytest.Config, option: list[str] | None, problems: list[str]
) -> tuple[str, ...]:
    ini = _ini(config, "failure_taxonomy_redact", "regular expressions, one a line", problems)
    patterns = (*(ini or ()), *(option or ()))
    if patterns:
        from pytest_failure_taxonomy.redaction.redactor import check_patterns

        found = check_patterns(patterns)
        problems += [f"--failure-taxonomy-redact: {problem}" for problem in found]
        return () if found else patterns
    return ()


def _markers(config: pytest.Config, problems: list[str]) -> dict[str, FailureReason]:
    """Return the reasons of the user's markers, from lines of `NAME` or `NAME = REASON`."""
    lines = _ini(config, "failure_taxonomy_markers", "one marker a line", problems)
    markers = {}
    for line in lines or ():
        name, _, reason = (part.strip() for part in line.partition("="))
        try:
            markers[name] = FailureReason(reason or "UNKNOWN")
        except ValueError:
            problems.append(
                f"ini value failure_taxonomy_markers: {line!r}: {reason} is no failure reason; "
                f"give one of {', '.join(FailureReason)}"
            )
        if not re.fullmatch("[A-Za-z0-9_]+", name, re.ASCII):
            problems.append(
                f"ini value failure_taxonomy_markers: {line!r}: a marker's name has letters, "
                "digits and underscores alone; give one, or NAME = REASON"
            )
    return markers


def _ini(config: pytest.Config, name: str, wanted: str, problems: list[str]) -> Any:
    try:
        return config.getini(name)
    except (TypeError, ValueError, pytest.UsageError) as error:  # depends on the version of pytest
        problems.append(f"ini value {name}: {error}; give {wanted}")
        return None


def _report_path(config: pytest.Config, option: str | None, ini: str) -> tuple[Path, bool]:
    """Return the path of the report, and whether the user has chosen it."""
    given, base = chosen(config, option, ini)
    problem = None
    if option is not None and not option.strip():
        problem = "is empty"
    elif "\0" in (given or ""):
        problem = "holds a null character"
    elif (given or "").endswith(".py"):  # the value was forgotten, and this is a test file
        problem = f"is a Python file's, {given}"
    elif given != os.sep and (given or "").endswith(_ENDS_OF_FOLDERS):
        problem = f"is a folder's, {given}"
    if problem is not None:
        raise SettingsError(
            f"--failure-taxonomy-report: the path {problem}; give the name of a file"
        )
    return absolute(base, given or DEFAULT_REPORT), given is not None
