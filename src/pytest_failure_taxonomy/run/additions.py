"""Add to a report what is not this package's own: of benches, and `extensions` of other plugins."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from pytest_failure_taxonomy.options import KNOWN_BY_HISTORY
from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.report.build import OWN_NAME, fit_benches, removed_from
from pytest_failure_taxonomy.report.render.terminal import Line, notice
from pytest_failure_taxonomy.report.summary import accepted_words
from pytest_failure_taxonomy.report.text import (
    change_free_texts,
    change_texts,
    encodable,
    safe_text,
)
from pytest_failure_taxonomy.run.settings import Settings
from pytest_failure_taxonomy.system.interpreter import isolate_module, our_command
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.values import replace

json = isolate_module(json)

_HOOK: Final = "the hook pytest_failure_taxonomy_report"
BENCH_PLUGIN: Final = "failure_taxonomy_bench_session"
"""The name of the plugin that runs cases; it is registered with the first task class."""


def add_benches(
    config: pytest.Config, report: dict[str, Any], faults: Faults, redact: Callable[[Any], Any]
) -> None:
    """Fill the report's field `bench`."""
    session = config.pluginmanager.get_plugin(BENCH_PLUGIN)
    if session is None:
        return
    try:
        reports = [each.model_dump(mode="json") for each in session.reports()]
        report["bench"] = fit_benches(redact(reports))
    except Exception as error:  # noqa: BLE001 - the rest of the report stands
        faults.add("the reports of benches", error)


def kept_cases(config: pytest.Config, report: dict[str, Any]) -> dict[str, Any]:
    """Return what the HTML page shows of the cases of benches, by run id."""
    session = config.pluginmanager.get_plugin(BENCH_PLUGIN)
    kept = None if session is None else kept_in(session)
    if not report["bench"] or kept is None:
        return {}
    from pytest_failure_taxonomy.bench.kept.shown import page_runs

    try:
        return page_runs(report["bench"], Path(kept["folder"]))
    except Exception:  # noqa: BLE001 - the page is there without them
        return {}


def kept_in(session: Any) -> dict[str, str] | None:
    """Return where a session of benches keeps its runs; `None` if it keeps none.

    Whoever completes the report of a pytest that died reads them there.
    """
    runs = session.storage
    if not runs.folder or runs.is_temporary:
        return None
    return {"folder": runs.folder, "session": runs.name}


def add_extensions(
    config: pytest.Config, report: dict[str, Any], faults: Faults, redact: Callable[[Any], Any]
) -> None:
    """Add what the implementations of the hook return to the report, without secrets.

    An invalid answer becomes a fault. If two answers have the same key, the first one counts.
    """
    hook = config.hook.pytest_failure_taxonomy_report
    if not hook.get_hookimpls():
        return
    extensions = report["extensions"]
    before = Counter(removed_from(json.dumps(extensions)))
    try:
        answers = hook(report=json.loads(json.dumps(report)))
    except BaseException as error:  # noqa: BLE001 - foreign
        faults.add(_HOOK, error)
        answers = []
    for answer in answers:
        try:
            if not isinstance(answer, dict):
                raise TypeError(
                    f"{type(answer).__name__} returned; a dict with one key of your own is right"
                )
            added = change_texts(json.loads(json.dumps(answer, allow_nan=False)), encodable)
            if OWN_NAME in added:
                raise ValueError(f"the name {OWN_NAME} is taken; use one of your own")
            extensions |= redact(added) | extensions
        except (TypeError, ValueError, RecursionError) as error:
            faults.add(_HOOK, error)
    removed = Counter(removed_from(json.dumps(extensions)))
    removed.subtract(before)
    if +removed:
        own = extensions.setdefault(OWN_NAME, {})
        own["redacted"] = dict(Counter(own.get("redacted", {})) + removed)
    if faults.messages:
        extensions.setdefault(OWN_NAME, {})["faults"] = list(faults.messages)


def search_again(report: dict[str, Any], redact: Callable[[str], str]) -> None:
    """Remove secrets that extensions and benches have made known, and count all again."""
    foreign = change_texts(report["extensions"], redact)
    report |= {**change_free_texts(report, redact), "extensions": foreign}
    own = report["extensions"].setdefault(OWN_NAME, {})
    own.pop("redacted", None)
    own["redacted"] = dict(Counter(removed_from(json.dumps(report))))


MAX_NAMED: Final = 3
"""How many failures that are not known are named."""
_ACCEPTED_STATES: Final = ("known", "flaky")
_TESTS_FAILED: Final = 1


class PastRuns:
    """Ask the history about one run, and accept failures that are known, where that was asked."""

    def __init__(self, settings: Settings) -> None:
        url = settings.history
        self.wants_every_test = url is not None or settings.known is not None
        """The outcome of each test has to be recorded."""
        self.url_for_record = None if url is None or has_password(url) else url
        """Where whoever completes the report of a dead run records it; never with a password."""
        self._settings = settings
        self._why_not: str | None = None
        self._known: dict[str, Any] | None = None
        if self.wants_every_test:
            # At the start: later a test may have patched what it imports.
            from pytest_failure_taxonomy.history.recording import record_run

            self._record_run = record_run

    def accept(
        self, evidence: RunEvidence, build: Callable[[RunEvidence], dict[str, Any]], uncounted: int
    ) -> RunEvidence:
        """Return the evidence of a run; with exit code 0 if tests failed and all of it is known.

        Args:
            evidence: of a session that has ended.
            build: returns the report of evidence.
            uncounted: failures that a plugin has counted beside those of tests.
        """
        known = self._settings.known
        if known is None:
            return evidence
        if self._settings.known_name == KNOWN_BY_HISTORY:
            report = build(evidence)
            self._why_not = self._record_run(report, self._settings.history or "", adds=False)
            unlisted = [
                nodeid
                for group in report["groups"]
                if (group["history"] or {}).get("state") not in _ACCEPTED_STATES
                for nodeid in group["nodeids"] or ("?",)
            ]
            notes: tuple[str, ...] = ()
        else:
            # Imported here, because most runs have no list of known failures.
            from pytest_failure_taxonomy.taxonomy.user_rules import compare_with_known

            judged = judge(evidence)
            found = compare_with_known(
                known,
                [
                    (failure.nodeid, None if failure.crashed else judgement.fingerprint)
                    for failure, judgement in zip(evidence.failures, judged.failures, strict=False)
                ],
                today=datetime.now().astimezone().date().isoformat(),
                passed=None
                if evidence.tests is None
                else [each.nodeid for each in evidence.tests if each.outcome == "passed"],
                unseen=[
                    *evidence.not_run,
                    *(each.nodeid for each in evidence.collection_failures),
                ],
                name=self._settings.known_name,
            )
            unlisted, notes = list(found.unlisted), found.notes
        others = _other_than_failed_tests(evidence, uncounted)
        is_accepted = not unlisted and not others
        self._known = {
            "by": safe_text(self._settings.known_name),
            "accepted": is_accepted,
            "failures": len(evidence.failures),
            "unknown": unlisted[:MAX_NAMED],
            "unknown_count": len(unlisted),
            "others": others,
            "notes": list(notes),
        }
        if not is_accepted:
            return evidence
        return replace(evidence, exit=replace(evidence.exit, code=0))

    def add_to(self, report: dict[str, Any]) -> None:
        """Write into a report what is known of its failures, and record it in the history."""
        if self._known is not None:
            report["extensions"].setdefault(OWN_NAME, {})["known"] = self._known
        if self._settings.history is not None and self._why_not is None:
            self._why_not = self._record_run(report, self._settings.history)

    def lines(self, report: dict[str, Any], report_path: str) -> list[Line]:
        """Return the lines about entries of known failures, and about a history that failed.

        Args:
            report: the report's JSON object.
            report_path: of its file, from where pytest was started; empty if there is none.
        """
        lines = [notice(note) for note in (self._known or {}).get("notes", ())]
        known = self._known
        if report["verdict"] is not None and (accepted := accepted_words(report)):
            lines.append(notice(accepted))  # a verdict on what crashed takes the usual place
        if known is not None and known["unknown_count"] and known["failures"]:
            count = known["unknown_count"]
            names = ", ".join(known["unknown"]) + (", ..." if count > MAX_NAMED else "")
            lines.append(notice(f"not known by {known['by']}: {count} of them: {names}"))
        elif known is not None and known["failures"] and known["others"]:
            words = f"known by {known['by']} and not accepted, because {known['others']}"
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
        names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        is_in_query = any(word in name for name in names for word in ("pass", "secret", "token"))
        return "://" in url and (parts.password is not None or is_in_query)
    except ValueError:
        return True


def _other_than_failed_tests(run: RunEvidence, uncounted: int) -> str:
    """Say what made a session fail besides tests that failed; empty if nothing."""
    workers = any(each.ending != "finished" and each.crashed_on is None for each in run.workers)
    others: tuple[tuple[object, str], ...] = (
        (run.should_fail, run.should_fail),
        (run.coverage, run.coverage),
        (run.collection_failures, "something could not be collected"),
        (run.errors or run.mismatch or run.unrecorded, "there were errors outside of tests"),
        (workers, "a worker died without a test"),
        (uncounted > 0, "a plugin has counted failures that are none of a test"),
        (run.interruptions or run.in_flight or run.ended_tests or run.not_run, "tests are missing"),
        (run.exit.code != _TESTS_FAILED or not run.failures, f"exit code {run.exit.code}"),
    )
    return next((words for is_so, words in others if is_so), "")
