"""`failure-taxonomy history`, what has failed when, and `recover`, what to do next."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypedDict, TypeVar

from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.output import Column, answer, tell
from pytest_failure_taxonomy.cli.reports import load, reports_in
from pytest_failure_taxonomy.errors import (
    FailureTaxonomyError,
    HistoryError,
    ReportError,
)
from pytest_failure_taxonomy.options import DEFAULT_REPORT
from pytest_failure_taxonomy.system.interpreter import our_command
from pytest_failure_taxonomy.taxonomy.values import to_dict
from pytest_failure_taxonomy.taxonomy.words import and_more, counted, listed
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.history.database import History
    from pytest_failure_taxonomy.history.questions import Wanted
    from pytest_failure_taxonomy.report.model import FailureReport

P = ParamSpec("P")
T = TypeVar("T")

MAX_ERROR_BYTES: Final = 8 * 1024 * 1024
"""How much of an error is read, from its end."""
_FAILED: Final = 1
_STORMS: Final = 3
"""How many skipped storms an answer names; `history storms` lists all."""
_MAX_NAMES: Final = 5
_FINGERPRINT: Final = re.compile("[0-9a-f]+")
_OF_GROUP: Final = ("count", "fingerprint", "reason", "kind", "title")
_OF_STATE: Final = ("first_seen", "first_commit", "runs", "last_passed_commit")
"""What `history new` says of a group of failures, and of its state."""


def worded(ask: Callable[P, T]) -> Callable[P, T]:
    """Word what goes wrong with a value of a database that another program wrote.

    Raises:
        HistoryError: there is such a value, or what reads it is not installed.
    """

    def ask_and_word(*args: P.args, **options: P.kwargs) -> T:
        from pytest_failure_taxonomy.history import require_libraries

        require_libraries()
        try:
            return ask(*args, **options)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise HistoryError(
                "history: the database holds data that this program did not write "
                f"({safe_text(str(error))}); give another one with --history"
            ) from None

    return ask_and_word


def _open(options: argparse.Namespace, *, create: bool = False) -> History:
    from pytest_failure_taxonomy.history import open_history

    return open_history(getattr(options, "history", None), create=create)


def _read_filters(options: argparse.Namespace) -> Wanted:
    from pytest_failure_taxonomy.history.questions import Wanted

    filters = {name: getattr(options, name, None) for name in Wanted.__annotations__}
    return Wanted(**filters)


@worded
def add(options: argparse.Namespace) -> int:
    """Add what can be added; name each file that can't, and count all others."""
    from pytest_failure_taxonomy.survive.complete import running_watchers

    added = unchanged = 0
    problems: list[str] = []
    others: list[str] = []
    # Looked for once: that takes as long as to read a report.
    watchers = running_watchers()
    with _open(options, create=True) as history, history.adding() as add_run:
        for path in options.reports:
            for file in reports_in(path, problems, others):
                try:
                    is_new = add_run(*_load(file, watchers))
                except HistoryError as error:
                    problems.append(f"{safe_text(str(file))}: {error}")
                except FailureTaxonomyError as error:
                    problems.append(str(error))
                else:
                    added += is_new
                    unchanged += not is_new
    for problem in problems:
        tell(problem)
    if others:
        names = listed([safe_text(other) for other in others], _MAX_NAMES)
        files = counted(len(others), "other JSON file")
        tell(f"{files} in the folders, no reports: {names}")
    if _read_format(options) == "json":
        counts = {
            "added": added,
            "known": unchanged,
            "refused": len(problems),
            "others": len(others),
        }
        answer(json.dumps(counts) + "\n")
    else:
        answer(f"{counted(added, 'run')} added, {unchanged:,} known already\n")
    return 2 if problems else 0


def _load(
    path: Path, watchers: Sequence[tuple[int, list[str]]] | None = None
) -> tuple[FailureReport, str]:
    """Return a report, or that of a JUnit file, and which of the two it is."""
    from pytest_failure_taxonomy.logs.foreign import report_from
    from pytest_failure_taxonomy.logs.junit import is_junit
    from pytest_failure_taxonomy.redaction.secrets import Secrets
    from pytest_failure_taxonomy.survive.machine import ci_job, find_commit
    from pytest_failure_taxonomy.taxonomy.evidence import Environment

    if not is_junit(path):
        return load(path, watchers), "report"
    ci = ci_job()
    git, _ = find_commit(Path.cwd(), ci)
    environment = Environment(python="", platform="", pytest="", ci=ci, git=git)
    report = report_from(
        "junit", path, rootdir=Path.cwd(), environment=environment, redaction=Secrets()
    )
    return report, "junit"


def _print_answer(options: argparse.Namespace, name: str) -> Sequence[Any]:
    """Print the answer to the question of a table; return its rows."""
    from pytest_failure_taxonomy.history.questions import (
        count_trials,
        explain_no_runs,
        list_runs,
    )

    table = _read_table(name)
    module, _, question = table["asks"].partition(".")
    ask = getattr(import_module(f"pytest_failure_taxonomy.history.{module}"), question)
    arguments: dict[str, Any] = {}
    for option in ("limit", "by", "each"):
        if hasattr(options, option):
            arguments[option] = getattr(options, option)
    arguments |= table.get("given", {})
    wanted = _read_filters(options)
    is_about_runs = module != "tasks"
    if is_about_runs:
        arguments["wanted"] = wanted
    storms, trials, no_runs = [], 0, None
    with _open(options) as history:
        answers: Sequence[Any] = ask(history, **arguments)
        if table.get("leaves_out_storms", False):
            storms = list_runs(history, wanted, limit=_STORMS, storms=True)
            trials = count_trials(history, wanted)
        if is_about_runs and not answers:
            no_runs = explain_no_runs(history, wanted)
    _print(options, table, answers, no_runs)
    for run in storms:
        tell(f"run {run.id:.8}: {_describe_storm(run)}; not counted")
    if trials:
        tell(
            f"{counted(trials, 'trial')} of harnesses not counted, as no two are of "
            "the same code; failure-taxonomy history rates --by task says how often "
            "they passed"
        )
    return answers


@worded
def rows(options: argparse.Namespace, name: str) -> int:
    """Print the answer to a question about runs, or about tasks."""
    answers = _print_answer(options, name)
    return _FAILED if answers and _read_table(name).get("fails", False) else 0


@worded
def rates(options: argparse.Namespace) -> int:
    """Print how often systems pass, or how much two of them differ."""
    from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
    from pytest_failure_taxonomy.history.rates import compare_systems

    if options.compare is None:
        systems = _print_answer(options, "rates")
        if any(system.low is None for system in systems):
            tell(f"bounds: {NO_SCIPY}")
        return 0
    first, second = options.compare
    with _open(options) as history:
        filters = _read_filters(options)
        rows = compare_systems(history, filters, first=first, second=second)
    _print(options, _read_table("compared"), rows)
    for name, count in ((first, rows[0].only_first), (second, rows[0].only_second)):
        if count:
            tasks = counted(count, "task")
            tell(f"not compared: {tasks} that only {safe_text(name)} has tried")
    if len(rows) > 1 and all(row.share is None for row in rows):
        tell(
            "it is not decided that they differ, so no share of a difference is "
            "explained"
        )
    return 0


@worded
def new(options: argparse.Namespace) -> int:
    """Say which failures of a report are new, came back or are known."""
    from pytest_failure_taxonomy.history.questions import proofs_of, states_of
    from pytest_failure_taxonomy.report.summary import state_words

    report, _ = _load(options.report)
    with _open(options) as history:
        states, proofs = states_of(history, report), proofs_of(history, report)
    rows = []
    for group in report.groups:
        state = states[group.fingerprint]
        proof = proofs.get(group.fingerprint)
        # The order of the fields is that of the columns in CSV.
        row: dict[str, object] = {"state": state.state, "words": state_words(state)}
        row |= {name: getattr(group, name) for name in _OF_GROUP}
        row["proof"] = proof and proof.type
        row |= {name: getattr(state, name) for name in _OF_STATE}
        rows.append(row)
    _print(options, _read_table("new"), rows)
    return _FAILED if any(row["state"] in ("new", "came_back") for row in rows) else 0


@worded
def since(options: argparse.Namespace) -> int:
    """Say when a failure began."""
    from pytest_failure_taxonomy.history.questions import find_since, find_since_of_test

    name = options.failure
    filters = {"project": options.project, "branch": options.branch}
    with _open(options) as history:
        if _FINGERPRINT.fullmatch(name):
            # It may be the key of a cause of the report in this folder, if there is
            # one.
            path = Path(DEFAULT_REPORT)
            causes = _load(path)[0].causes if path.is_file() else ()
            named = (cause.fingerprints for cause in causes if cause.key == name)
            fingerprints = next(named, (name,))
            rows = [find_since(history, text, **filters) for text in fingerprints]
        else:
            rows = [*find_since_of_test(history, name, **filters)]
    if _read_format(options) != "table":
        _print(options, _read_table("since"), rows)
        return 0
    blocks = []
    for row in rows:
        block = ""
        for heading, words in lines_of("since", row):
            block += f"{heading + ':':15}{safe_text(words, 500)}\n"
        blocks.append(block)
    answer("\n".join(blocks))
    return 0


def lines_of(name: str, row: Any) -> Iterator[tuple[str, str]]:
    """Yield the headings and words of a table's row, without those that are empty."""
    table = _read_table(name)
    lines = table.get("lines") or table["columns"]
    for column in output.columns_of(lines, _WORDS):
        if words := column.words(row):
            yield column.heading, words


@worded
def prune(options: argparse.Namespace) -> int:
    """Remove old runs."""
    from pytest_failure_taxonomy.history.questions import prune

    with _open(options) as history:
        removed = prune(
            history,
            before=options.before,
            project=options.project,
            dry_run=options.dry_run,
        )
    verb = "would be removed" if options.dry_run else "removed"
    answer(f"{counted(removed, 'run')} {verb}\n")
    return 0


class _Table(TypedDict, total=False):
    """What `commands.toml` has of a command."""

    asks: str
    """Module and name of the function that answers."""
    given: Mapping[str, object]
    """Further arguments for that function."""
    columns: Mapping[str, str]
    lines: Mapping[str, str]
    """The same for one row alone."""
    nothing: str
    """The words if there are no rows."""
    leaves_out_storms: bool
    fails: bool
    """Whether rows are a failure."""


def _read_table(name: str) -> _Table:
    file = files("pytest_failure_taxonomy.history") / "commands.toml"
    table: _Table = tomllib.loads(file.read_text("utf-8"))[name]
    return table


def _read_format(options: argparse.Namespace) -> str:
    # Some commands have no such option.
    return getattr(options, "format", "table")


def _print(
    options: argparse.Namespace,
    table: _Table,
    rows: Sequence[Any],
    no_runs: str | None = None,
) -> None:
    """Print rows as a table of the columns, or as JSON or CSV with every field.

    `no_runs` says why there are none, where the question is about no run at all.
    """
    chosen = _read_format(options)
    if no_runs is not None and chosen in ("json", "csv"):
        tell(no_runs)
    if chosen == "json":
        output.answer_json([*map(_list_fields, rows)])
    elif chosen == "csv":
        answer(output.csv_text([*map(_list_fields, rows)]))
    elif not rows:
        tell(no_runs or table["nothing"])
    else:
        columns = output.columns_of(table.get("columns", {}), _WORDS, vars(options))
        # In Markdown `history since` is a table, too, of every field.
        if not columns:
            rows = [*map(_list_fields, rows)]
            columns = [Column(name, itemgetter(name)) for name in rows[0]]
        columns = [column for column in columns if column.is_of_use(rows)]
        if chosen == "markdown":
            answer(output.markdown_table(columns, rows))
        else:
            output.answer_lines(output.table_lines(columns, rows))


def _list_fields(row: Any) -> dict[str, object]:
    """Return the fields of a row of any kind, as JSON and CSV have them."""
    # A row of the database is a tuple to type checkers alone.
    row = getattr(row, "_mapping", row)
    fields = dict(row) if isinstance(row, Mapping) else to_dict(row)
    for name, content in fields.items():
        if isinstance(content, datetime):
            fields[name] = f"{content.isoformat()}Z"
        elif isinstance(content, tuple):
            fields[name] = [*content]
    return fields


def _format_time(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M")


def _shorten_commit(commit: str | None) -> str:
    return (commit or "")[:10]


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 60 else f"{minutes / 60:.1f} h"


def _format_rate(rate: float | None, low: float | None, high: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:.1%}" + ("" if low is None else f" ({low:.1%} to {high:.1%})")


def _format_points(
    difference: float | None, low: float | None, high: float | None, method: str
) -> str:
    """Return a difference of rates in points, with its bounds or why it has none."""
    if difference is None:
        return ""
    words = method.removeprefix("none: ").replace("cases", "tasks")
    if low is not None and high is not None:
        words = f"{100 * low:+.1f} to {100 * high:+.1f}"
    return f"{100 * difference:+.1f}" + (f" ({words})" if words else "")


def _describe_storm(run: Any) -> str:
    tests = run.passed + run.failed + run.errors
    return f"{run.storm_tests:,} of {tests:,} tests failed: {run.storm}"


def _describe_companions(test: Any) -> str:
    words = f": {test.common}" if test.common else ", each in its own way"
    return f"these {len(test.companions) + 1:,} fail together{words}"


def _describe_state(row: Any) -> str:
    if not row.state:
        return ""
    return f"{row.state} since {_format_time(row.state_seen)}, run {row.state_run[:8]}"


def _describe_reasons(period: Any) -> str:
    reasons = []
    for name, count in period.reasons.items():
        reasons.append(f"{name} {count} ({period.minutes_by_reason[name]:.1f} min)")
    return ", ".join(reasons)


def _describe_explained(row: Any) -> str:
    points = _format_points(row.explained, row.explained_low, row.explained_high, "")
    return points + ("" if row.share is None else f", {row.share:.0%} of it")


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "when": _format_time,
    "when or not": lambda at: _format_time(at) or "not known",
    "commit": _shorten_commit,
    ", commit": lambda commit: f", commit {_shorten_commit(commit)}" if commit else "",
    ", run": lambda run: f", run {run[:8]}" if run else "",
    "proven": lambda type_: f" [{type_}, proven]" if type_ else "",
    "more": lambda others: and_more(len(others)),
    ", common": lambda words: f": {words}" if words else "",
    "fail together": _describe_companions,
    "storm": _describe_storm,
    "type": lambda test: f"{test.type}, {test.status}" if test.type else "",
    "state": _describe_state,
    "branches": lambda names: ", ".join(names) or "not known",
    "seconds": _format_seconds,
    "status": lambda reason: f"✗ failed ({reason})" if reason else "✓ passed",
    "failed": lambda run: str(run.failed + run.errors),
    "unclassified": lambda period: (
        f"{period.unclassified / period.failed:.1%}" if period.failed else ""
    ),
    "reasons": _describe_reasons,
    "rate": lambda row: _format_rate(row.rate, row.low, row.high),
    "rate without": lambda row: _format_rate(
        row.rate_without, row.low_without, row.high_without
    ),
    "whose": lambda row: ", ".join(filter(None, (row.task, row.system))),
    "difference": lambda row: _format_points(
        row.difference, row.low, row.high, row.method
    ),
    "explained": _describe_explained,
    "name": lambda task: "" if task.name == task.id else task.name,
}
"""Formats of cells beside Python's own, by the names that `commands.toml` uses."""


# An attempt of an agent.


@worded
def recover(options: argparse.Namespace) -> int:
    """Record the attempt and print the recommendation."""
    from pytest_failure_taxonomy.history.attempts import recover as recommend
    from pytest_failure_taxonomy.redaction.secrets import Secrets
    from pytest_failure_taxonomy.survive.machine import find_commit

    redact = Secrets().redact
    report = error = None
    commit = options.commit
    if options.report is not None:
        path = options.report
        report = load(path)
        if report.completeness == "running":
            raise ReportError(
                f"{path}: its run still goes on, or has died; if it has died, complete "
                f"it by: {our_command('finalize', str(path))}"
            )
    elif not commit:
        state, _ = find_commit(Path.cwd(), None)
        commit = None if state is None or state.dirty else state.commit
    if options.error is not None:
        error = redact(_read_end(options.error))
    with _open(options, create=True) as history:
        recovery = recommend(
            history,
            options.subtask,
            redact(options.approach),
            error=error,
            report=report,
            success=options.success,
            commit=commit,
        )
    fields: dict[str, Any] = {
        "subtask": options.subtask,
        "approach": options.approach,
    }
    names = {"failure_type": "type", "is_circular": "circular"}
    for name, content in to_dict(recovery).items():
        fields[names.get(name, name)] = content
    fields["tried"] = [
        {
            "approach": attempt.approach,
            "success": attempt.success,
            "type": attempt.failure_type,
            "failure_reason": attempt.reason,
            "commit": attempt.commit,
            "at": f"{attempt.at.isoformat(timespec='seconds')}Z",
        }
        for attempt in recovery.tried
    ]
    output.answer_json(fields)
    return 0


def _read_end(path: Path) -> str:
    """Return the end of a text, which may be longer than memory."""
    from pytest_failure_taxonomy.logs.log_lines import open_log

    end = b""
    with open_log(path) as chunks:
        for chunk in chunks:
            end = (end + chunk)[-MAX_ERROR_BYTES:]
    return end.decode("utf-8", "replace")
