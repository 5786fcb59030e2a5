"""`failure-taxonomy history`: take runs in, and ask what has failed when."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.columns import MAX_CELL, Column, csv_text, table_lines
from pytest_failure_taxonomy.cli.output import answer, answer_json, answer_lines, tell
from pytest_failure_taxonomy.errors import FailureTaxonomyError, HistoryError
from pytest_failure_taxonomy.options import DEFAULT_REPORT
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason, Stage
from pytest_failure_taxonomy.taxonomy.values import to_dict
from pytest_failure_taxonomy.taxonomy.words import counted

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers
    from pytest_failure_taxonomy.history.novelty import Since
    from pytest_failure_taxonomy.history.questions import Wanted
    from pytest_failure_taxonomy.history.store import History

FORMATS: Final = ("table", "json", "csv", "markdown")
_FAILED: Final = 1
_FINGERPRINT: Final = re.compile("[0-9a-f]+")
_AGO: Final = re.compile(r"([0-9]{1,5})([dwh])")
_MARKUP: Final = {ord(each): f"&#{ord(each)};" for each in "&\\`*_[]<>|#~"}
"""What Markdown and HTML would read as markup."""
_HOURS: Final = {"h": 1, "d": 24, "w": 168}


def add_parser(commands: Parsers) -> None:
    """Add the command and its own commands to the command line."""
    parser = commands.add_parser(
        "history",
        help="say what fails most, is flaky or new, and since when",
        description="Keep the runs of a test suite, and ask what has failed when. "
        "Without a command of its own it lists the latest runs. Exit code: 0 done, 1 something is "
        "new or unmerged where that was asked, 2 the history can't be used.",
        allow_abbrev=False,
    )
    _add_common(parser)
    _add_filters(parser)
    _add_limit(parser)
    parser.set_defaults(execute=partial(_execute, _list))
    own = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, execute: Callable[[argparse.Namespace], int], words: str) -> Any:
        each = own.add_parser(
            name, help=words, description=f"{words[:1].upper()}{words[1:]}.", allow_abbrev=False
        )
        _add_common(each)
        each.set_defaults(execute=partial(_execute, execute))
        return each

    each = add("add", _add, "take the runs of reports and JUnit files in, each once")
    each.add_argument("reports", metavar="REPORT", nargs="+", type=Path)
    each = add("list", _list, "list runs, the latest first")
    _add_filters(each)
    _add_limit(each)
    each = add("top", _top, "list what fails most, with the time lost to it")
    _add_filters(each)
    _add_limit(each)
    each = add("flaky", _flaky, "list tests that pass and fail, with the rate of their failures")
    _add_filters(each, verdicts=False)
    _add_limit(each)
    each = add(
        "new",
        _new,
        "say which failures of a report no earlier run had, which came back, which are known; "
        "exit code 1 if one is new or came back",
    )
    each.add_argument("report", metavar="REPORT", type=Path)
    each = add("since", _since, "say when a failure began, and the last commit before it")
    each.add_argument(
        "failure",
        metavar="NODEID|FINGERPRINT",
        help="of a test, for its latest failure, or of a failure: a part of a node id or the "
        "beginning of a fingerprint suffices; or the key of a cause in ./failure-report.json",
    )
    each.add_argument("--project", metavar="NAME", help="if several projects have it")
    each = add("stats", _stats, "count the reasons of each day, week or month, with minutes lost")
    each.add_argument("--by", choices=("day", "week", "month"), default="week")
    _add_filters(each)
    each = add(
        "unmerged",
        _unmerged,
        "list failed tasks that no success has followed; exit code 1 if there are any",
    )
    each = add("tasks", _tasks, "list the tasks of agents and how they ended")
    each = add("prune", _prune, "remove the runs that began before a time")
    each.add_argument(
        "--before", metavar="TIME", required=True, type=_time, help="such as 2026-01-31, 90d or 26w"
    )
    each.add_argument("--project", metavar="NAME", help="of this project alone")
    each.add_argument("--dry-run", action="store_true", help="say how many, and remove none")


def _execute(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history import require_libraries

    require_libraries()
    with values_of_others():
        return command(options)


@contextmanager
def values_of_others() -> Iterator[None]:
    """Word what goes wrong with a value in a database that this program has not written.

    Raises:
        HistoryError: there is such a value.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise HistoryError(
            "history: the database holds what this program has not written "
            f"({safe_text(str(error))}); give another one by --history"
        ) from None


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history",
        metavar="URL",
        default=argparse.SUPPRESS,
        help="an SQLite database or a URL of SQLAlchemy; default: FAILURE_TAXONOMY_HISTORY, else "
        ".failure-taxonomy/history.db",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default=argparse.SUPPRESS,
        help="how the answer is printed; default: table",
    )


def _add_filters(parser: argparse.ArgumentParser, *, verdicts: bool = True) -> None:
    group = parser.add_argument_group(
        "filters", "In patterns * stands for any text, ? for a letter."
    )
    # What is given before the command's own name counts, too.
    quiet: dict[str, Any] = {"default": argparse.SUPPRESS}
    if verdicts:
        reasons = [each.value for each in FailureReason]
        group.add_argument("--reason", choices=reasons, metavar="REASON", **quiet)
        group.add_argument("--kind", metavar="PATTERN", help="such as sandbox.*", **quiet)
        group.add_argument("--owner", metavar="OWNER", help="such as environment", **quiet)
    stages = [each.value for each in Stage]
    group.add_argument("--stage", choices=stages, metavar="STAGE", **quiet)
    group.add_argument("--branch", metavar="PATTERN", **quiet)
    group.add_argument("--nodeid", metavar="PATTERN", help="tests that failed", **quiet)
    group.add_argument("--project", metavar="NAME", help="the repository or its folder", **quiet)
    group.add_argument(
        "--since", metavar="TIME", type=_time, help="such as 2026-01-31, 12h, 7d or 4w", **quiet
    )
    group.add_argument("--until", metavar="TIME", type=_time, **quiet)


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--limit", type=_limit, metavar="N", default=argparse.SUPPRESS, help="default: 20"
    )


def _limit(given: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", given) or int(given) == 0:
        raise argparse.ArgumentTypeError(f"{given!r} is no number of rows; give 1 or more")
    return int(given)


def _time(given: str) -> datetime:
    """Return a time in UTC and without a zone, of a date, a time or `90d`."""
    ago = _AGO.fullmatch(given)
    now = datetime.now(UTC)
    try:
        if ago:
            at = now - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
        else:
            at = datetime.fromisoformat(given)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{given!r} is no time; give one such as 2026-01-31, 2026-01-31T12:00Z, 12h, 7d or 4w"
        ) from None
    return at.replace(tzinfo=None) if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)


def _open(options: argparse.Namespace, *, create: bool = False) -> History:
    from pytest_failure_taxonomy.history import open_history

    return open_history(getattr(options, "history", None), create=create)


def _wanted(options: argparse.Namespace) -> Wanted:
    from pytest_failure_taxonomy.history.questions import Wanted

    names = ("project", "reason", "kind", "owner", "stage", "branch", "nodeid", "since", "until")
    return Wanted(**{name: getattr(options, name, None) for name in names})


def _rows(options: argparse.Namespace) -> int:
    return int(getattr(options, "limit", 20))


def _add(options: argparse.Namespace) -> int:
    """Take in what can be; tell of each file that can't, and of all else how many were new."""
    added = known = 0
    problems: list[str] = []
    with _open(options, create=True) as history:
        for path in options.reports:
            try:
                report, source = _load(path)
                if history.add(report, source=source):
                    added += 1
                else:
                    known += 1
            except FailureTaxonomyError as error:
                problems.append(str(error))
    for problem in problems:
        tell(problem)
    if getattr(options, "format", "table") == "json":
        answer(json.dumps({"added": added, "known": known, "refused": len(problems)}) + "\n")
    else:
        answer(f"{counted(added, 'run')} added, {known} known already\n")
    return 2 if problems else 0


def _load(path: Path) -> tuple[dict[str, Any], str]:
    from pytest_failure_taxonomy.recorder.commit import find_commit
    from pytest_failure_taxonomy.recorder.machine import ci_job
    from pytest_failure_taxonomy.recorder.secrets import Secrets
    from pytest_failure_taxonomy.report.foreign import report_from
    from pytest_failure_taxonomy.report.from_junit import is_junit
    from pytest_failure_taxonomy.report.reading import load_report
    from pytest_failure_taxonomy.taxonomy.evidence import Environment

    if is_junit(path):
        ci = ci_job()
        git, _ = find_commit(Path.cwd(), ci)
        environment = Environment(python="", platform="", pytest="", ci=ci, git=git)
        report = report_from(
            "junit", path, rootdir=Path.cwd(), environment=environment, redaction=Secrets()
        )
        return report, "junit"
    return load_report(path).model_dump(mode="json", by_alias=True), "report"


def _list(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.questions import list_runs

    with _open(options) as history:
        rows = list_runs(history, _wanted(options), limit=_rows(options))
    columns = [
        Column("started", lambda row: _when(row.started_at)),
        Column("run", lambda row: row.id[:8]),
        Column("status", lambda row: f"✗ failed ({row.reason})" if row.reason else "✓ passed"),
        Column("kind", lambda row: row.kind or ""),
        Column("commit", lambda row: _commit(row.commit)),
        Column("branch", lambda row: row.branch or ""),
        Column("passed", lambda row: str(row.passed), is_number=True),
        Column("failed", lambda row: str(row.failed + row.errors), is_number=True),
        Column("took", lambda row: _seconds(row.duration_seconds), is_number=True),
        Column("first failure", lambda row: row.nodeid or ""),
    ]
    _print(options, columns, rows, nothing="no run matches")
    return 0


def _top(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.questions import find_top

    with _open(options) as history:
        rows = find_top(history, _wanted(options), limit=_rows(options))
    columns = [
        Column("runs", lambda row: str(row.runs), is_number=True),
        Column("failures", lambda row: str(row.failures), is_number=True),
        Column("time", lambda row: _seconds(row.seconds), is_number=True),
        Column("first seen", lambda row: _when(row.first_seen)),
        Column("last seen", lambda row: _when(row.last_seen)),
        Column("fingerprint", lambda row: row.fingerprint),
        Column("kind", lambda row: row.kind),
        Column("owner", lambda row: row.owner or ""),
        Column("failure", lambda row: row.title),
    ]
    _print(options, columns, rows, nothing="no failure matches")
    return 0


def _flaky(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.flakiness import find_flaky

    with _open(options) as history:
        rows = find_flaky(history, _wanted(options), limit=_rows(options))
    columns = [
        Column("failed", lambda row: f"{row.failures} of {row.runs}", is_number=True),
        Column("rate (95 %)", lambda row: f"{_percent(row.low)} to {_percent(row.high)}"),
        Column("both on a commit", lambda row: str(row.commits), is_number=True),
        Column("changes", lambda row: str(row.changes), is_number=True),
        Column("last failed", lambda row: _when(row.last_failed)),
        Column("advice", lambda row: row.advice),
        Column("test", lambda row: row.nodeid),
    ]
    _print(options, columns, rows, nothing="no test is flaky")
    return 0


def _new(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.novelty import states_of
    from pytest_failure_taxonomy.report.summary import state_words

    report, _ = _load(options.report)
    with _open(options) as history:
        states = states_of(history, report)
    rows = [
        {
            "state": state.state,
            "words": state_words(to_dict(state)),
            **{name: each[name] for name in ("count", "fingerprint", "reason", "kind", "title")},
            "first_seen": state.first_seen,
            "first_commit": state.first_commit,
            "runs": state.runs,
            "last_passed_commit": state.last_passed_commit,
        }
        for each in report["groups"]
        for state in (states[each["fingerprint"]],)
    ]
    columns = [
        Column("state", lambda row: row["words"]),
        Column("count", lambda row: str(row["count"]), is_number=True),
        Column("last passed", lambda row: _commit(row["last_passed_commit"])),
        Column("fingerprint", lambda row: row["fingerprint"]),
        Column("failure", lambda row: row["title"]),
    ]
    _print(options, columns, rows, nothing="the report has no failure")
    return _FAILED if any(row["state"] in ("new", "came_back") for row in rows) else 0


def _since(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.novelty import find_since, find_since_of_test

    name, project = options.failure, options.project
    with _open(options) as history:
        if _FINGERPRINT.fullmatch(name):
            names = _fingerprints_of_cause(name) or [name]
            rows = [find_since(history, each, project=project) for each in names]
        else:
            rows = [*find_since_of_test(history, name, project=project)]
    if getattr(options, "format", "table") != "table":
        _print(options, [], rows, nothing="")
    else:
        answer("\n".join(map(_since_words, rows)))
    return 0


def _fingerprints_of_cause(key: str) -> list[str]:
    """Return the fingerprints of a cause of the report in this folder, if there is one."""
    path = Path(DEFAULT_REPORT)
    if not path.is_file():
        return []
    report, _ = _load(path)
    return next((each["fingerprints"] for each in report["causes"] if each["key"] == key), [])


def _since_words(found: Since) -> str:
    lines = [
        *([("test", found.nodeid)] if found.nodeid else []),
        ("failure", f"{found.title} ({found.kind})"),
        ("fingerprint", found.fingerprint),
        ("first seen", _at(found.first_seen, found.first_commit, found.first_run)),
        ("failing since", _at(found.streak_seen, found.streak_commit, found.streak_run)),
        (
            "last passed",
            "not known"
            if found.last_passed_at is None
            else _at(found.last_passed_at, found.last_passed_commit, None),
        ),
        ("last seen", _when(found.last_seen)),
        ("runs", str(found.runs)),
        ("branches", ", ".join(found.branches) or "not known"),
    ]
    return "".join(f"{name + ':':15}{safe_text(words, 500)}\n" for name, words in lines)


def _stats(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.questions import count_periods

    with _open(options) as history:
        rows = count_periods(history, _wanted(options), by=options.by)
    columns = [
        Column(options.by, lambda row: row.begins),
        Column("runs", lambda row: str(row.runs), is_number=True),
        Column("failed", lambda row: str(row.failed), is_number=True),
        Column(
            "unclassified",
            lambda row: _percent(row.unclassified / row.failed) if row.failed else "",
            is_number=True,
        ),
        Column("minutes lost", lambda row: f"{row.minutes_lost:.1f}", is_number=True),
        Column(
            "reasons",
            lambda row: ", ".join(
                f"{name} {count} ({row.minutes_by_reason[name]:.1f} min)"
                for name, count in row.reasons.items()
            ),
        ),
    ]
    _print(options, columns, rows, nothing="no run matches")
    return 0


def _tasks(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.tasks import list_tasks

    with _open(options) as history:
        rows = list_tasks(history)
    _print(options, _TASK_COLUMNS, rows, nothing="there is no task")
    return 0


def _unmerged(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.tasks import unmerged

    with _open(options) as history:
        rows = unmerged(history)
    _print(options, _TASK_COLUMNS, rows, nothing="no failed task is left")
    return _FAILED if rows else 0


_TASK_COLUMNS: Final = (
    Column("task", lambda row: row.id),
    Column("status", lambda row: row.words),
    Column("when", lambda row: row.at or ""),
    Column("name", lambda row: "" if row.name == row.id else row.name),
)


def _prune(options: argparse.Namespace) -> int:
    from pytest_failure_taxonomy.history.questions import prune

    with _open(options) as history:
        removed = prune(
            history, before=options.before, project=options.project, dry_run=options.dry_run
        )
    verb = "would be removed" if options.dry_run else "removed"
    answer(f"{counted(removed, 'run')} {verb}\n")
    return 0


def _print(
    options: argparse.Namespace, columns: Sequence[Column], rows: Sequence[Any], *, nothing: str
) -> None:
    """Print rows: as a table, Markdown's too, of the columns; as JSON or CSV with every field."""
    chosen = getattr(options, "format", "table")
    if chosen == "json":
        answer_json([_plain(row) for row in rows])
    elif chosen == "csv":
        answer(csv_text([_plain(row) for row in rows]))
    elif not rows:
        tell(nothing)
    elif chosen == "markdown":
        if not columns:  # every field
            rows = [_plain(row) for row in rows]
            columns = [Column(name, itemgetter(name)) for name in rows[0]]
        lines = [
            [each.heading for each in columns],
            ["--:" if each.is_number else "---" for each in columns],
        ]
        for row in rows:
            cells = [safe_text(str(each.words(row)), MAX_CELL) for each in columns]
            lines.append([cell.translate(_MARKUP) for cell in cells])
        answer("".join(f"| {' | '.join(cells)} |\n" for cells in lines))
    else:
        answer_lines(table_lines(columns, rows))


def _plain(row: Any) -> dict[str, Any]:
    fields = dict(row) if isinstance(row, Mapping) else to_dict(row)
    return {
        name: f"{each.isoformat()}Z" if isinstance(each, datetime) else _plain_value(each)
        for name, each in fields.items()
    }


def _plain_value(each: Any) -> Any:
    if isinstance(each, Mapping):
        return dict(each)
    return list(each) if isinstance(each, tuple) else each


def _when(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M")


def _at(at: datetime, commit: str | None, run: str | None) -> str:
    words = [_when(at)]
    if commit:
        words.append(f"commit {_commit(commit)}")
    if run:
        words.append(f"run {run[:8]}")
    return ", ".join(words)


def _commit(commit: str | None) -> str:
    return (commit or "")[:10]


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 60 else f"{minutes / 60:.1f} h"


def _percent(rate: float) -> str:
    return f"{rate:.1%}"
