"""Record a run at its end, and ask the history about it, in a process with a limit.

The limit is a short time: the database, its library and a server can be slow, hang or
fail; the run they are asked for goes on without an answer. The side that asks imports
nothing but the standard library.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.history import VERDICT
from pytest_failure_taxonomy.option_files import has_password
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.judgement import GroupHistory, Proof
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import safe_text

MAX_SECONDS: Final = 2.0
"""How long a run waits at its end for the answer of a history."""
START_SECONDS: Final = 30.0
"""How long the process that asks may take to start, besides the history's time."""
SECONDS_VARIABLE: Final = "FAILURE_TAXONOMY_HISTORY_SECONDS"
_SCRIPT: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from pytest_failure_taxonomy.history.recording import answer; answer()"
)
_TIME_IS_OVER: Final = "Timeout ("
"""How the stacks begin that faulthandler writes when it ends a process."""
_NOT_FOR_IT: Final = ("COVERAGE_PROCESS_START", "COV_CORE_SOURCE", "COV_CORE_DATAFILE")
"""Variables by which coverage would measure that process, too."""
MAX_WORDS: Final = 500
_TO_SECONDS: Final = len("2026-11-01T02:00:00")


class HistoryPlugin:
    """Asks the history about a run at its end, and records the run there."""

    def __init__(self, url: str, *, adds: bool) -> None:
        """Ask the history at a URL, empty for the default; `adds` records the run."""
        self._url = url
        self._adds = adds
        self._problem: Amendment | None = None

    def pytest_failure_taxonomy_amend(
        self,
        report: FailureReport,
        is_final: bool,  # noqa: FBT001 - pluggy gives it by name
    ) -> Amendment | None:
        """Return what the history says; if it gave no answer, it isn't asked again."""
        if self._problem is not None:
            return self._problem
        if is_final and not self._adds:
            return None
        amendment = ask_history(report, self._url, adds=is_final)
        if amendment.problem:
            self._problem = amendment
        return amendment


def ask_history(report: FailureReport, url: str, *, adds: bool = True) -> Amendment:
    """Return what the history says of a report, and record its run there.

    Args:
        report: of the run.
        url: where the history is; empty for the default.
        adds: record the run; if not, only ask.
    """
    answer = _ask_in_process(report, url, adds=adds)
    if not answer.problem:
        return answer
    is_shown = url and not has_password(url)
    return Amendment(
        problem=f"the run is not in the history: {answer.problem}",
        remedy=("history", "add", *([f"--history={url}"] if is_shown else [])),
    )


def _ask_in_process(report: FailureReport, url: str, *, adds: bool) -> Amendment:
    """Return the answer of the process that asks a history."""
    seconds = seconds_allowed()
    question = {"url": url, "adds": adds, "seconds": seconds}
    question["report"] = CODEC.encode(report)
    if not sys.executable:
        return Amendment(
            problem="Python does not know its own program (sys.executable is empty)"
        )
    # With -P, no module of the user's folder takes the place of an installed one.
    library = str(Path(__file__).parents[2])
    environment = {
        name: text for name, text in os.environ.items() if name not in _NOT_FOR_IT
    }
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a script of ours
            [sys.executable, "-P", "-W", "ignore", "-c", _SCRIPT, library],
            input=json.dumps(question),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds + START_SECONDS,
            check=False,
            env=environment,
            start_new_session=True,  # a Ctrl+C is the run's
        )
    except subprocess.TimeoutExpired:
        return Amendment(problem="the process that asks it did not start in time")
    except (OSError, ValueError) as error:
        return Amendment(problem=f"no process can be started: {error}")
    try:
        return CODEC.decode(Amendment, json.loads(done.stdout))
    except ValueError:
        if done.stderr.startswith(_TIME_IS_OVER):
            return Amendment(problem=f"it gave no answer within {seconds:g} s")
        lines = done.stderr.strip().splitlines()
        last = lines[-1] if lines else f"exit code {done.returncode}"
        return Amendment(problem=safe_text(last, MAX_WORDS))


def answer() -> None:
    """Answer the question on stdin, in the process that `ask_history` starts."""
    question = json.load(sys.stdin)
    from pytest_failure_taxonomy.errors import FailureTaxonomyError

    try:
        amendment = _look_up(**question)
    except FailureTaxonomyError as error:
        amendment = Amendment(problem=str(error))
    sys.stdout.write(json.dumps(CODEC.encode(amendment)))


def _look_up(url: str, report: object, seconds: float, *, adds: bool) -> Amendment:
    """Return what is known of a report's failures and causes, and record its run."""
    from pytest_failure_taxonomy.history import require_libraries

    require_libraries()
    from pytest_failure_taxonomy.history.database import open_history
    from pytest_failure_taxonomy.history.questions import proofs_of, states_of
    from pytest_failure_taxonomy.report.amend import amend
    from pytest_failure_taxonomy.report.load import decode_report

    # A library that hangs in C answers to no signal handler: this ends the process.
    faulthandler.dump_traceback_later(seconds, exit=True)
    asked = decode_report(report)
    rootdir = asked.run.invocation.rootdir
    with open_history(url or None, rootdir=rootdir, wait_seconds=seconds) as history:
        states, proofs = states_of(history, asked), proofs_of(history, asked)
        amendment = amendment_of(asked, states, proofs)
        if adds:
            history.add(amend(asked, amendment))
    return amendment


def seconds_allowed() -> float:
    """Return how long a run may wait for the history."""
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, MAX_SECONDS))
    except ValueError:
        return MAX_SECONDS
    return seconds if 0 < seconds < 1e6 else MAX_SECONDS


def amendment_of(
    report: FailureReport,
    states: Mapping[str, GroupHistory],
    proofs: Mapping[str, Proof],
) -> Amendment:
    """Return what is known of a report's failures, and what is proven of its causes."""
    histories = {}
    for name, state in states.items():
        first = state.first_seen
        first_seen = first and f"{first[:_TO_SECONDS]}Z"
        histories[name] = replace(state, first_seen=first_seen)
    unproven = [cause.key for cause in report.causes if cause.proof is None]
    return Amendment(
        of_verdict=histories.pop(VERDICT, None),
        histories=histories,
        proofs={key: proofs[key] for key in unproven if key in proofs},
    )
