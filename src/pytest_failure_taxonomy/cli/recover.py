"""`failure-taxonomy recover`: record an attempt of an agent, and say what to do next."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.history import values_of_others
from pytest_failure_taxonomy.cli.output import answer_json
from pytest_failure_taxonomy.logs.log_lines import open_argument
from pytest_failure_taxonomy.system.interpreter import our_command

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers
    from pytest_failure_taxonomy.history.attempts import Recovery

MAX_ERROR_BYTES: Final = 8 * 1024 * 1024
"""How much of an error is read, from its end."""


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "recover",
        help="record an attempt of an agent, and say what to do next",
        description="Record an attempt at a subtask in the history, and print as JSON what sort of "
        "failure it was, what to do next and why, and what was tried before. Exit code: 0 done, 2 "
        "if the history, the error or the report can't be used.",
        allow_abbrev=False,
    )
    parser.add_argument("--subtask", metavar="ID", required=True, help="the subtask")
    parser.add_argument(
        "--approach", metavar="TEXT", required=True, help="what was tried, in a few words"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--error", metavar="FILE", help="what the attempt has printed; -: stdin")
    what.add_argument(
        "--report",
        metavar="PATH",
        type=Path,
        help="the report of its run; a success without a verdict",
    )
    what.add_argument("--success", action="store_true", help="the attempt has succeeded")
    parser.add_argument(
        "--commit",
        metavar="COMMIT",
        help="the commit that a success has left; default: what git has checked out here, if "
        "nothing is changed since",
    )
    parser.add_argument(
        "--history",
        metavar="URL",
        help="an SQLite database or a URL of SQLAlchemy; default: FAILURE_TAXONOMY_HISTORY, else "
        ".failure-taxonomy/history.db",
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Record the attempt and print the recommendation."""
    from pytest_failure_taxonomy.history import open_history
    from pytest_failure_taxonomy.history.attempts import recover
    from pytest_failure_taxonomy.recorder.secrets import Secrets

    redact = Secrets().redact
    report = None if options.report is None else _load(options.report)
    error = None if options.error is None else redact(_read(options.error))
    with values_of_others(), open_history(options.history) as history:
        found = recover(
            history,
            options.subtask,
            redact(options.approach),
            error=error,
            report=report,
            success=options.success,
            commit=options.commit or (None if report is not None else _commit_here()),
        )
        answer_json(_as_json(found, options))
    return 0


def _commit_here() -> str | None:
    from pytest_failure_taxonomy.recorder.commit import find_commit

    state, _ = find_commit(Path.cwd(), None)
    return None if state is None or state.dirty else state.commit


def _load(path: Path) -> dict[str, Any]:
    from pytest_failure_taxonomy.errors import ReportError
    from pytest_failure_taxonomy.report.reading import load_report
    from pytest_failure_taxonomy.watcher.start import wait_for_watcher

    wait_for_watcher(path)
    report = load_report(path)
    if report.completeness == "running":
        raise ReportError(
            f"{path}: its run still goes on, or has died; if it has died, complete it by: "
            f"{our_command('finalize', str(path))}"
        )
    return report.model_dump(mode="json", by_alias=True)


def _read(path: str) -> str:
    """Read the end of an error."""
    end = b""
    with open_argument(path) as chunks:
        for chunk in chunks:
            end = (end + chunk)[-MAX_ERROR_BYTES:]
    return end.decode("utf-8", "replace")


def _as_json(found: Recovery, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "subtask": options.subtask,
        "approach": options.approach,
        "success": found.success,
        "type": found.failure_type,
        "action": found.action,
        "reason": found.reason,
        "hints": list(found.hints),
        "failure_reason": found.failure_reason,
        "circular": found.is_circular,
        "attempt_count": found.attempt_count,
        "last_good_commit": found.last_good_commit,
        "tried": [
            {
                "approach": each.approach,
                "success": each.success,
                "type": each.failure_type,
                "failure_reason": each.reason,
                "commit": each.commit,
                "at": f"{each.at.isoformat(timespec='seconds')}Z",
            }
            for each in found.tried
        ],
    }
