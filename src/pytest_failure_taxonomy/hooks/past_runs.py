"""What earlier runs say of one run, and whether failures that are known fail it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from pytest_failure_taxonomy.faces.terminal import Line, notice
from pytest_failure_taxonomy.history.recording import record_run
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.options import KNOWN_BY_HISTORY
from pytest_failure_taxonomy.report.summary import accepted_words
from pytest_failure_taxonomy.system.interpreter import our_command
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.user_rules import compare_with_known
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import safe_text

MAX_NAMED: Final = 3
"""How many failures that are not known are named."""
_ACCEPTED_STATES: Final = ("known", "flaky")
_TESTS_FAILED: Final = 1


class PastRuns:
    """Ask the history about one run, and accept failures that are known, where that was asked."""

    def __init__(self, settings: Settings) -> None:
        url = settings.history
        self.url_for_record = None if url is None or has_password(url) else url
        """Where whoever completes the report of a dead run records it; never with a password."""
        self._settings = settings
        self._why_not: str | None = None
        self._known: dict[str, Any] | None = None

    def accept(
        self, evidence: RunEvidence, build: Callable[[RunEvidence], dict[str, Any]]
    ) -> RunEvidence:
        """Return the evidence of a run; with exit code 0 if tests failed and all of it is known.

        Args:
            evidence: of a session that has ended.
            build: returns the report of evidence.
        """
        known = self._settings.known
        if known is None:
            return evidence
        if self._settings.known_name == KNOWN_BY_HISTORY:
            report = build(evidence)
            self._why_not = record_run(report, self._settings.history or "", adds=False)
            unlisted = [
                nodeid
                for group in report["groups"]
                if (group["history"] or {}).get("state") not in _ACCEPTED_STATES
                for nodeid in group["nodeids"] or ("?",)
            ]
            notes: list[str] = []
        else:
            today = datetime.now().astimezone().date().isoformat()
            name = self._settings.known_name
            unlisted, notes = compare_with_known(
                known, evidence, judge(evidence), today, name
            )
        others = _other_than_failed_tests(evidence)
        is_accepted = not unlisted and not others
        self._known = {
            "by": safe_text(self._settings.known_name),
            "accepted": is_accepted,
            "failures": len(evidence.failures),
            "unknown": unlisted[:MAX_NAMED],
            "unknown_count": len(unlisted),
            "others": others,
            "notes": notes,
        }
        if not is_accepted:
            return evidence
        return replace(evidence, exit=replace(evidence.exit, code=0))

    def add_to(self, report: dict[str, Any]) -> None:
        """Write into a report what is known of its failures, and record it in the history."""
        if self._known is not None:
            report["known"] = self._known
        if self._settings.history is not None and self._why_not is None:
            self._why_not = record_run(report, self._settings.history)

    def lines(self, report: dict[str, Any], report_path: str) -> list[Line]:
        """Return the lines about entries of known failures, and about a history that failed.

        Args:
            report: the report's JSON object.
            report_path: of its file, from where pytest was started; empty if there is none.
        """
        lines = [notice(note) for note in (self._known or {}).get("notes", ())]
        known = self._known
        if report["verdict"] is not None and (accepted := accepted_words(report)):
            lines.append(
                notice(accepted)
            )  # a verdict on what crashed takes the usual place
        if known is not None and known["unknown_count"] and known["failures"]:
            count = known["unknown_count"]
            names = ", ".join(known["unknown"]) + (", ..." if count > MAX_NAMED else "")
            lines.append(
                notice(f"not known by {known['by']}: {count} of them: {names}")
            )
        elif known is not None and known["failures"] and known["others"]:
            words = (
                f"known by {known['by']} and not accepted, because {known['others']}"
            )
            lines.append(notice(f"all failures are {words}"))
        if self._why_not is not None:
            words = f"the run is not in the history: {self._why_not}"
            if report_path:
                url = self.url_for_record
                command = ["add", *([f"--history={url}"] if url else []), report_path]
                words += f"; add it by: {our_command('history', *command)}"
            lines.append(notice(words))
        return lines


def has_password(url: str) -> bool:
    """Tell whether a URL has a password, which must not be written down."""
    try:
        parts = urlsplit(url)
        names = [
            name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)
        ]
        is_in_query = any(
            word in name for name in names for word in ("pass", "secret", "token")
        )
        return "://" in url and (parts.password is not None or is_in_query)
    except ValueError:
        return True


def _other_than_failed_tests(run: RunEvidence) -> str:
    """Say what made a session fail besides tests that failed; empty if nothing."""
    workers = any(
        each.ending != "finished" and each.crashed_on is None for each in run.workers
    )
    others: tuple[tuple[object, str], ...] = (
        (run.should_fail, run.should_fail),
        (run.coverage, run.coverage),
        (run.gate, run.gate),
        (run.collection_failures, "something could not be collected"),
        (run.errors or run.mismatch, "there were errors outside of tests"),
        (run.unrecorded, "pytest has counted failures that could not be recorded"),
        (workers, "a worker died without a test"),
        (run.uncounted, "a plugin has counted failures that are none of a test"),
        (
            run.interruptions or run.in_flight or run.ended_tests or run.not_run,
            "tests are missing",
        ),
        (
            run.exit.code != _TESTS_FAILED or not run.failures,
            f"exit code {run.exit.code}",
        ),
    )
    return next((words for is_so, words in others if is_so), "")
