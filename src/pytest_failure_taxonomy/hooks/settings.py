"""The settings of a run, from options and ini values."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.errors import RulesError, SettingsError
from pytest_failure_taxonomy.faces import missing_library
from pytest_failure_taxonomy.option_files import (
    CONNECTION_STRING,
    NO_CONNECTION_STRING,
    Given,
    absolute,
    given,
    refused_files,
)
from pytest_failure_taxonomy.options import (
    DEFAULT_REPORT,
    DEFAULT_STALL_SECONDS,
    KNOWN_BY_HISTORY,
    OPTIONS,
    PROVING_VARIABLE,
    SUPERVISOR_VARIABLE,
)
from pytest_failure_taxonomy.taxonomy.evidence import Attempt, Faces, Shard
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, Stage
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.user_rules import KnownFailure, Rule

MAX_STALL_SECONDS: Final = 1e9
"""Thirty years; a longer time could not be added to a time in ns."""

MAX_ATTEMPT: Final = 2_000
"""Characters of a subtask's id and of an approach."""

_ENDS_OF_FOLDERS: Final = ("/", os.sep)


@value
class RetriedTests:
    """What a retry runs again."""

    nodeids: tuple[str, ...]
    """None for all tests."""
    folder: Path
    """Where its files go."""


@value
class Settings:
    """The settings of one run."""

    report: Path
    """Absolute."""
    report_was_named: bool
    """The user chose the path. If not, a folder that can't be written is no error."""
    report_by: str = OPTIONS["report"].flag
    """What named it, for messages."""
    stage: Stage
    strict_baseline: bool
    watcher: bool
    """Start a process that completes the report if this one dies."""
    observer: bool = True
    """A process may be started that looks at this one while it lives."""
    stall_seconds: float = DEFAULT_STALL_SECONDS
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
    prove: str | None = None
    """For how long failures are to be proven at the end; `None` for not at all."""
    base: str | None = None
    """The commit whose files are compared; `None` for none."""
    certify: bool = False
    """Fail the run if something else than the tests' code made a result."""
    shard: Shard | None = None
    attempt: Attempt | None = None
    faces: Faces = Faces()
    summary: str | None = None
    """What to print at the end, as the option has it; `None` without one."""
    mailbox: Path | None = None
    """The mailbox of the supervisor, if there is one."""
    is_child: bool = False
    """The supervisor sees how this process ends."""
    report_before: Path | None = None
    """The report of an earlier pytest of the supervisor's command, which must stay."""
    retried: RetriedTests | None = None
    """What the supervisor has this run do again; `None` for a run of its own."""
    problems: tuple[str, ...] = ()
    """What else is wrong. No test runs then, but a report is written that says so."""
    warnings: tuple[str, ...] = ()
    """Configured options that this machine can't fulfil; the run goes on."""


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of a run. An option overrides its ini value.

    Raises:
        SettingsError: if there is no place for the report; each argument is a problem.
    """
    reader = _Reader(config)
    mailbox, is_child, report_before, wanted = None, False, None, {}
    if SUPERVISOR_VARIABLE in os.environ:
        from pytest_failure_taxonomy.survive import mailbox as mail

        mailbox = mail.find_mailbox()
        is_child = mailbox is not None and mail.is_supervised_child()
        report_before = mail.report_before_this() if mailbox is None else None
        wanted = mail.read_message(mailbox)
    reader.ini(
        ""
    )  # that it is on is known already, but not what is wrong with its value
    retried = _read_retried(wanted.get("retried"))
    named = reader.read("report", wanted.get("report_wanted"))
    if retried is not None:  # the user's report is of the whole
        named = named._replace(value=wanted["report_wanted"])
    report = reader.path("report", named)
    if report is None:
        if named.value is not None:
            raise SettingsError(*reader.problems)
        report = absolute(named.base, DEFAULT_REPORT)
    stage, strict_baseline = _stage(reader, wanted.get("stage"))
    observer = reader.ini("watcher") is not False
    history = _history(reader)
    named_known = reader.read("known")
    is_by_history = named_known.value == KNOWN_BY_HISTORY
    known_failures = () if is_by_history else _read_file(reader, "known", named_known)
    attempt = _attempt(reader)
    if attempt is not None and history is None:
        history = ""  # which is where attempts are kept
    faces = _faces(reader) if retried is None else Faces()
    refused = refused_files(config, report)
    reader.problems += refused
    if refused:
        if any(
            problem.startswith(f"{named.by} ") or report.name in problem
            for problem in refused
        ):
            raise SettingsError(*reader.problems)
        # The report says so, and nothing else is written.
        faces, history, known_failures = Faces(), None, None
    return Settings(
        report=report,
        report_was_named=named.value is not None,
        report_by=named.by,
        stage=stage,
        strict_baseline=strict_baseline,
        watcher=observer and not is_child,
        observer=observer,
        stall_seconds=_stall_seconds(reader),
        ends_stalled=bool(reader.read("end_stalled").value),
        rules=_read_file(reader, "rules", reader.read("rules")) or (),
        redact=_redact(reader),
        markers=_markers(reader),
        history=history,
        known=known_failures,
        known_name=named_known.value or "",
        prove=None if retried else _prove(reader),
        base=_base(reader),
        certify=bool(reader.read("certify").value) or wanted.get("certify") == "yes",
        shard=_shard(reader),
        attempt=attempt,
        faces=faces,
        summary="off" if retried else reader.choice("summary"),
        mailbox=mailbox,
        is_child=is_child,
        report_before=report_before,
        retried=retried,
        problems=tuple(reader.problems),
        warnings=tuple(reader.warnings),
    )


class _Reader:
    """Reads the values of options, and collects problems with them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.options = config.known_args_namespace
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def ini(self, name: str) -> Any:
        """Return an ini value."""
        option = OPTIONS[name]
        try:
            return self.config.getini(option.dest)
        except (
            TypeError,
            ValueError,
            pytest.UsageError,
        ) as error:  # as pytest's version has it
            self.problems.append(
                f"ini value {option.dest}: {error}; give {option.wanted}"
            )
            return None

    def read(self, name: str, wanted: str | None = None) -> Given:
        """Return an option's value, else the supervisor's, else its ini value."""
        option = OPTIONS[name]
        setting = given(self.config, option.dest, self.ini(name))
        if wanted and getattr(self.options, option.dest) is None:
            return setting._replace(value=wanted, by=f"run --{name}")
        return setting

    def refuse(self, name: str, setting: Given, problem: str) -> None:
        """Note that a value is not right."""
        self.problems.append(f"{setting.by}: {problem}; give {OPTIONS[name].wanted}")

    def path(self, name: str, setting: Given) -> Path | None:
        """Return the absolute path of a file; `None` for none or an unusable name."""
        text = setting.value
        if text is None:
            return None
        if not text.strip():
            problem = "is empty"
        elif "\0" in text:
            problem = "holds a null character"
        elif text.endswith(".py"):  # the value was forgotten, and this is a test file
            problem = f"is a Python file's, {text}"
        elif text != os.sep and text.endswith(_ENDS_OF_FOLDERS):
            problem = f"is a folder's, {text}"
        else:
            return absolute(setting.base, text)
        self.refuse(name, setting, f"the path {problem}")
        return None

    def choice(self, name: str, wanted: str | None = None) -> str | None:
        """Return the chosen word; `None` if none was chosen."""
        setting = self.read(name, wanted)
        if setting.value is None or setting.value in OPTIONS[name].choices:
            return setting.value  # type: ignore[no-any-return]
        self.refuse(name, setting, f"{setting.value!r} is unknown")
        return None


def _read_retried(path: str | None) -> RetriedTests | None:
    """Return what the supervisor wants to be run again."""
    if path is None:
        return None
    nodeids = json.loads(Path(path).read_text("utf-8"))
    return RetriedTests(nodeids=tuple(nodeids), folder=Path(path).parent)


def _stage(reader: _Reader, wanted: str | None) -> tuple[Stage, bool]:
    """Return the stage, and whether its baseline is strict."""
    problems_before = len(reader.problems)
    stage = Stage(reader.choice("stage", wanted) or Stage.FINAL_TEST)
    strict = reader.read("strict_baseline")
    is_stage_known = len(reader.problems) == problems_before
    typed = reader.options.failure_taxonomy_strict_baseline
    if typed and is_stage_known and stage is not Stage.BASELINE_RUN:
        reader.problems.append(
            f"{strict.by} contradicts the stage {stage}; "
            f"give {OPTIONS['stage'].flag}=baseline_run "
            "with it or leave it out"
        )
    return stage, bool(strict.value)


def _stall_seconds(reader: _Reader) -> float:
    setting = reader.read("stall_seconds")
    if setting.value is None:
        return DEFAULT_STALL_SECONDS
    try:
        seconds = float(setting.value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < MAX_STALL_SECONDS:
        reader.refuse(
            "stall_seconds",
            setting,
            f"{setting.value!r} is no number of seconds from 0 on",
        )
        return 0.0
    return seconds


def _history(reader: _Reader) -> str | None:
    """Return the history's place, as `Settings.history`; a path becomes absolute."""
    setting = reader.read("history")
    url = setting.value
    if url is not None and reader.options.failure_taxonomy_history is None:
        if url.lower() in ("false", "no", "off", "0"):
            return None
        url = "" if url.lower() in ("true", "yes", "on", "1") else url
    if url and CONNECTION_STRING.match(url):
        reader.problems.append(f"{setting.by}: {NO_CONNECTION_STRING}")
        return None
    if url and "://" not in url:
        path = absolute(setting.base, url)
        if os.path.isdir(path) or url.endswith(".py"):
            reader.problems.append(
                f"{setting.by}: {url} is no database; "
                "give the URL after a =, or this option last"
            )
            return None
        return str(path)
    return url  # type: ignore[no-any-return]  # pytest's namespace has no types


def _read_file(reader: _Reader, name: str, setting: Given) -> Any:
    """Return the rules or known failures in a file; `None` if it can't be used."""
    path = reader.path(name, setting)
    if path is None:
        return None
    from pytest_failure_taxonomy.rules import files

    try:
        return files.load_rules(path) if name == "rules" else files.load_known(path)
    except RulesError as error:
        reader.problems += str(error).splitlines()
        return None


def _base(reader: _Reader) -> str | None:
    """Return the commit to compare with; a problem if there is no such one."""
    setting = reader.read("base")
    if setting.value is not None:
        from pytest_failure_taxonomy.hooks.base_files import is_commit

        if not is_commit(reader.config.rootpath, setting.value):
            reader.refuse("base", setting, f"{setting.value!r} is no commit here")
            return None
    return setting.value  # type: ignore[no-any-return]


def _prove(reader: _Reader) -> str | None:
    """Return the proving time; `None` in a run started by a test or experiment."""
    setting = reader.read("prove")
    if setting.value is not None and not re.fullmatch(
        r"0*[1-9][0-9]{0,5}[smh]?", setting.value
    ):
        reader.refuse("prove", setting, f"{setting.value!r} is no time")
    is_nested = {"PYTEST_CURRENT_TEST", PROVING_VARIABLE} & os.environ.keys()
    return None if is_nested else setting.value


_SHARD: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
_SHARDED_BY: Final = (
    ("group", "splits", 1),  # pytest-split, or our benches
    ("shard_id", "num_shards", 0),  # pytest-shard
    ("BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0),
    ("CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0),
    ("CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
)
"""Options of plugins, then variables of CI systems: the job's number, the count of
jobs, and where the number starts."""


def _shard(reader: _Reader) -> Shard | None:
    """Return the shard of the suite that the user, a plugin or the CI names."""
    given_shard = reader.read("shard")
    if given_shard.value is not None:
        match = _SHARD.fullmatch(given_shard.value)
        shard = Shard(index=int(match[1]), total=int(match[2])) if match else None
        if shard is None or not 1 <= shard.index <= shard.total:
            reader.refuse(
                "shard", given_shard, f"{given_shard.value!r} is no part of a suite"
            )
            return None
        return shard
    variables = {**os.environ, **vars(reader.options)}
    if bench := _SHARD.fullmatch(variables.get("bench_shard") or ""):
        variables["group"], variables["splits"] = bench.groups()
    for index, total, first in _SHARDED_BY:
        texts = str(variables.get(index)), str(variables.get(total))
        if all(text.isascii() and text.isdigit() for text in texts):
            at, of = int(texts[0]) + 1 - first, int(texts[1])
            if of > 1 and 1 <= at <= of:
                return Shard(index=at, total=of)
    return None


def _attempt(reader: _Reader) -> Attempt | None:
    texts = {
        name: (reader.read(name).value or "").strip()[:MAX_ATTEMPT]
        for name in ("subtask", "approach")
    }
    if not any(texts.values()):
        return None
    missing = [OPTIONS[name].flag for name, text in texts.items() if not text]
    if missing:
        reader.problems.append(
            f"{missing[0]}: it is missing; give both subtask and approach"
        )
        return None
    return Attempt(**texts)


def _faces(reader: _Reader) -> Faces:
    """Return the other formats of the report that are written, and where they go."""
    paths: dict[str, str | None] = {}
    for name in ("junit", "html"):
        setting = reader.read(name)
        path = reader.path(name, setting)
        if path is not None and path.is_dir():
            reader.refuse(name, setting, f"{path} is a directory")
        paths[name] = None if path is None else str(path)
    family = None
    with suppress(ValueError):  # `-p no:junitxml`
        family = reader.config.getini("junit_family")
    if paths["html"] is not None and (missing := missing_library("html")) is not None:
        # Only a typed option is an error: machines with and without the library share a
        # configuration.
        paths["html"] = None
        words = {
            str(word).partition("=")[0] for word in reader.config.invocation_params.args
        }
        problems = (
            reader.warnings
            if words.isdisjoint(OPTIONS["html"].names)
            else reader.problems
        )
        problems.append(f"{reader.read('html').by}: {missing}")
    mode = reader.choice("github") or "auto"
    is_on_github = mode == "on" or (
        mode == "auto" and os.environ.get("GITHUB_ACTIONS") == "true"
    )
    return Faces(
        **paths,
        junit_family="xunit1"
        if family in ("xunit1", "legacy")
        else "xunit2",  # of older pytests
        github=is_on_github,
        summary=(os.environ.get("GITHUB_STEP_SUMMARY") or None)
        if is_on_github
        else None,
        output=(os.environ.get("GITHUB_OUTPUT") or None) if is_on_github else None,
        teamcity=mode == "auto" and bool(os.environ.get("TEAMCITY_VERSION")),
    )


def _redact(reader: _Reader) -> tuple[str, ...]:
    patterns = (
        *(reader.ini("redact") or ()),
        *(reader.options.failure_taxonomy_redact or ()),
    )
    if patterns:
        from pytest_failure_taxonomy.redaction.redactor import check_patterns

        problems = check_patterns(patterns)
        reader.problems += [
            f"{OPTIONS['redact'].flag}: {problem}" for problem in problems
        ]
        return () if problems else patterns
    return ()


def _markers(reader: _Reader) -> dict[str, FailureReason]:
    """Return the reasons of markers, from lines `NAME` or `NAME = REASON`."""
    setting = reader.read("markers")
    markers = {}
    for line in setting.value or ():
        name, _, reason = (part.strip() for part in line.partition("="))
        try:
            markers[name] = FailureReason(reason or "UNKNOWN")
        except ValueError:
            reader.problems.append(
                f"{setting.by}: {line!r}: {reason} is no failure reason; "
                f"give one of {', '.join(FailureReason)}"
            )
        if not re.fullmatch("[A-Za-z0-9_]+", name, re.ASCII):
            reader.refuse(
                "markers",
                setting,
                f"{line!r}: a marker's name has letters, digits and underscores alone",
            )
    return markers
