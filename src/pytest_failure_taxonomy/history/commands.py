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
    """Word what goes wrong with a value in a database that this program has not written.

    Raises:
        HistoryError: there is such a value, or what reads it is not installed.
    """

    def asking(*args: P.args, **given: P.kwargs) -> T:
        from pytest_failure_taxonomy.history import require_libraries

        require_libraries()
        try:
            return ask(*args, **given)
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

    return asking


def _open(options: argparse.Namespace, *, create: bool = False) -> History:
    from pytest_failure_taxonomy.history import open_history

    return open_history(getattr(options, "history", None), create=create)


def _wanted(options: argparse.Namespace) -> Wanted:
    from pytest_failure_taxonomy.history.questions import Wanted

    return Wanted(
        **{name: getattr(options, name, None) for name in Wanted.__annotations__}
    )


@worded
def add(options: argparse.Namespace) -> int:
    """Take in what can be; tell of each file that can't, and of all else how many were new."""
    from pytest_failure_taxonomy.survive.complete import running_watchers

    added = known = 0
    problems: list[str] = []
    others: list[str] = []
    watchers = (
        running_watchers()
    )  # looked for once: that takes as long as to read a report
    with _open(options, create=True) as history, history.adding() as take_in:
        for path in options.reports:
            for file in reports_in(path, problems, others):
                try:
                    if take_in(*_load(file, watchers)):
                        added += 1
                    else:
                        known += 1
                except HistoryError as error:
                    problems.append(f"{safe_text(str(file))}: {error}")
                except FailureTaxonomyError as error:
                    problems.append(str(error))
    for problem in problems:
        tell(problem)
    if others:
        names = listed([safe_text(each) for each in others], _MAX_NAMES)
        tell(
            f"{counted(len(others), 'other JSON file')} in the folders, no reports: {names}"
        )
    if getattr(options, "format", "table") == "json":
        counts = {
            "added": added,
            "known": known,
            "refused": len(problems),
            "others": len(others),
        }
        answer(json.dumps(counts) + "\n")
    else:
        answer(f"{counted(added, 'run')} added, {known:,} known already\n")
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


@worded
def rows(options: argparse.Namespace, name: str) -> int:
    """Print the answer to a question about the runs that the options want, or about tasks."""
    from pytest_failure_taxonomy.history.questions import explain_no_runs

    table = _table(name)
    module, _, question = table["asks"].partition(".")
    ask = getattr(import_module(f"pytest_failure_taxonomy.history.{module}"), question)
    names = ("limit", "by", "each")
    given = {name: getattr(options, name) for name in names if hasattr(options, name)}
    given |= table.get("given", {})
    if module == "questions":
        given["wanted"] = _wanted(options)
    storms, trials = [], 0
    with _open(options) as history:
        found = ask(history, **given)
        if table.get("leaves_out_storms", False):
            from pytest_failure_taxonomy.history.questions import (
                count_trials,
                list_runs,
            )

            storms = list_runs(history, given["wanted"], limit=_STORMS, storms=True)
            trials = count_trials(history, given["wanted"])
        no_runs = None
        if module == "questions" and not found:
            no_runs = explain_no_runs(history, given["wanted"])
    _print(options, table, found, no_runs)
    for run in storms:
        tell(f"run {run.id:.8}: {_WORDS['storm'](run)}; not counted")
    if trials:
        words = (
            f"{counted(trials, 'trial')} of harnesses not counted, "
            "as no two are of the same code"
        )
        tell(
            f"{words}; failure-taxonomy history rates --by task says how often they passed"
        )
    return _FAILED if found and table.get("fails", False) else 0


@worded
def rates(options: argparse.Namespace) -> int:
    """Print how often systems pass, or how much two of them differ."""
    from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
    from pytest_failure_taxonomy.history.questions import explain_no_runs
    from pytest_failure_taxonomy.history.rates import compare_systems, count_rates

    wanted = _wanted(options)
    with _open(options) as history:
        if options.compare is None:
            limit = getattr(options, "limit", 20)
            rates = count_rates(history, wanted, by=options.by, limit=limit)
            no_runs = None if rates else explain_no_runs(history, wanted)
            _print(options, _table("rates"), rates, no_runs)
            if any(row.low is None for row in rates):
                tell(f"bounds: {NO_SCIPY}")
            return 0
        first, second = options.compare
        rows = compare_systems(history, wanted, first=first, second=second)
    _print(options, _table("compared"), rows)
    for name, count in ((first, rows[0].only_first), (second, rows[0].only_second)):
        if count:
            tell(
                f"not compared: {counted(count, 'task')} that only {safe_text(name)} has tried"
            )
    if len(rows) > 1 and all(row.share is None for row in rows):
        tell(
            "it is not decided that they differ, so no share of a difference is explained"
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
        row: dict[str, object] = {"state": state.state, "words": state_words(state)}
        row |= {name: getattr(group, name) for name in _OF_GROUP}
        row["proof"] = None if proof is None else proof.type
        rows.append(row | {name: getattr(state, name) for name in _OF_STATE})
    _print(options, _table("new"), rows)
    return _FAILED if any(row["state"] in ("new", "came_back") for row in rows) else 0


@worded
def since(options: argparse.Namespace) -> int:
    """Say when a failure began."""
    from pytest_failure_taxonomy.history.questions import find_since, find_since_of_test

    name = options.failure
    where = {"project": options.project, "branch": options.branch}
    with _open(options) as history:
        if _FINGERPRINT.fullmatch(name):
            # It may be the key of a cause of the report in this folder, if there is one.
            path = Path(DEFAULT_REPORT)
            causes = _load(path)[0].causes if path.is_file() else ()
            named = [cause.fingerprints for cause in causes if cause.key == name]
            names = named[0] if named else (name,)
            rows = [find_since(history, name, **where) for name in names]
        else:
            rows = [*find_since_of_test(history, name, **where)]
    if getattr(options, "format", "table") != "table":
        _print(options, _table("since"), rows)
        return 0
    blocks = []
    for row in rows:
        told = lines_of("since", row)
        blocks.append(
            "".join(f"{name + ':':15}{safe_text(words, 500)}\n" for name, words in told)
        )
    answer("\n".join(blocks))
    return 0


def lines_of(name: str, row: Any) -> Iterator[tuple[str, str]]:
    """Yield the headings and words of a row of a table, without those that are empty."""
    table = _table(name)
    for column in output.columns_of(table.get("lines") or table["columns"], _WORDS):
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


def _table(name: str) -> _Table:
    text = (
        files("pytest_failure_taxonomy.history")
        .joinpath("commands.toml")
        .read_text("utf-8")
    )
    table: _Table = tomllib.loads(text)[name]
    return table


def _print(
    options: argparse.Namespace,
    table: _Table,
    rows: Sequence[Any],
    no_runs: str | None = None,
) -> None:
    """Print rows: as a table, Markdown's too, of the columns; as JSON or CSV with every field.

    `no_runs` says why there are none, where the question is about no run at all.
    """
    chosen = getattr(options, "format", "table")
    if no_runs is not None and chosen in ("json", "csv"):
        tell(no_runs)
    if chosen == "json":
        output.answer_json([_plain(row) for row in rows])
    elif chosen == "csv":
        answer(output.csv_text([_plain(row) for row in rows]))
    elif not rows:
        tell(no_runs or table["nothing"])
    else:
        columns = output.columns_of(table.get("columns", {}), _WORDS, vars(options))
        if not columns:  # every field
            rows = [_plain(row) for row in rows]
            columns = [Column(name, itemgetter(name)) for name in rows[0]]
        columns = [column for column in columns if column.is_of_use(rows)]
        if chosen == "markdown":
            answer(output.markdown_table(columns, rows))
        else:
            output.answer_lines(output.table_lines(columns, rows))


def _plain(row: Any) -> dict[str, object]:
    row = getattr(
        row, "_mapping", row
    )  # of the database, and no tuple in a running program
    plain = dict(row) if isinstance(row, Mapping) else to_dict(row)
    for name, each in plain.items():
        if isinstance(each, datetime):
            plain[name] = f"{each.isoformat()}Z"
        elif isinstance(each, Mapping):
            plain[name] = dict(each)
        elif isinstance(each, tuple):
            plain[name] = list(each)
    return plain


def _when(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M")


def _commit(commit: str | None) -> str:
    return (commit or "")[:10]


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 60 else f"{minutes / 60:.1f} h"


def _rate(rate: float | None, low: float | None, high: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:.1%}" + ("" if low is None else f" ({low:.1%} to {high:.1%})")


def _points(
    difference: float | None, low: float | None, high: float | None, method: str
) -> str:
    """Return a difference of rates in percentage points, with its bounds or why it has none."""
    if difference is None:
        return ""
    more = method.removeprefix("none: ").replace("cases", "tasks")
    if low is not None and high is not None:
        more = f"{100 * low:+.1f} to {100 * high:+.1f}"
    return f"{100 * difference:+.1f}" + (f" ({more})" if more else "")


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "when": _when,
    "when or not": lambda at: _when(at) or "not known",
    "commit": _commit,
    ", commit": lambda commit: f", commit {_commit(commit)}" if commit else "",
    ", run": lambda run: f", run {run[:8]}" if run else "",
    "proven": lambda type_: f" [{type_}, proven]" if type_ else "",
    "more": lambda others: and_more(len(others)),
    ", common": lambda words: f": {words}" if words else "",
    "fail together": lambda test: (
        f"these {len(test.companions) + 1:,} fail together"
        + (f": {test.common}" if test.common else ", each in its own way")
    ),
    "storm": lambda run: (
        f"{run.storm_tests:,} of {run.passed + run.failed + run.errors:,} tests failed: {run.storm}"
    ),
    "type": lambda test: f"{test.type}, {test.status}" if test.type else "",
    "state": lambda row: (
        f"{row.state} since {_when(row.state_seen)}, run {row.state_run[:8]}"
        if row.state
        else ""
    ),
    "branches": lambda names: ", ".join(names) or "not known",
    "seconds": _seconds,
    "status": lambda reason: f"✗ failed ({reason})" if reason else "✓ passed",
    "failed": lambda run: str(run.failed + run.errors),
    "unclassified": lambda period: (
        f"{period.unclassified / period.failed:.1%}" if period.failed else ""
    ),
    "reasons": lambda period: ", ".join(
        f"{name} {count} ({period.minutes_by_reason[name]:.1f} min)"
        for name, count in period.reasons.items()
    ),
    "rate": lambda row: _rate(row.rate, row.low, row.high),
    "rate without": lambda row: _rate(
        row.rate_without, row.low_without, row.high_without
    ),
    "whose": lambda row: ", ".join(filter(None, (row.task, row.system))),
    "difference": lambda row: _points(row.difference, row.low, row.high, row.method),
    "explained": lambda row: (
        _points(row.explained, row.explained_low, row.explained_high, "")
        + ("" if row.share is None else f", {row.share:.0%} of it")
    ),
    "name": lambda task: "" if task.name == task.id else task.name,
}


# An attempt of an agent.


@worded
def recover(options: argparse.Namespace) -> int:
    """Record the attempt and print the recommendation."""
    from pytest_failure_taxonomy.history.attempts import recover as recommend
    from pytest_failure_taxonomy.logs.log_lines import open_log
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
                f"{path}: its run still goes on, or has died; if it has died, complete it by: "
                f"{our_command('finalize', str(path))}"
            )
    elif not commit:
        state, _ = find_commit(Path.cwd(), None)
        commit = None if state is None or state.dirty else state.commit
    if options.error is not None:
        end = b""
        with open_log(options.error) as chunks:
            for chunk in chunks:
                end = (end + chunk)[-MAX_ERROR_BYTES:]
        error = redact(end.decode("utf-8", "replace"))
    with _open(options, create=True) as history:
        found = recommend(
            history,
            options.subtask,
            redact(options.approach),
            error=error,
            report=report,
            success=options.success,
            commit=commit,
        )
    names = {"failure_type": "type", "is_circular": "circular"}
    tried = [
        {
            "approach": each.approach,
            "success": each.success,
            "type": each.failure_type,
            "failure_reason": each.reason,
            "commit": each.commit,
            "at": f"{each.at.isoformat(timespec='seconds')}Z",
        }
        for each in found.tried
    ]
    recommendation = {
        names.get(name, name): each for name, each in to_dict(found).items()
    }
    given = {"subtask": options.subtask, "approach": options.approach}
    output.answer_json({**given, **recommendation, "tried": tried})
    return 0
