"""Record a run at its end: ask the history in a process of its own, which may take a short time.

The database, its library and a server can be slow, hang or fail; the run they are asked for goes on
without an answer. The side that asks imports nothing but the standard library.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.history import VERDICT
from pytest_failure_taxonomy.taxonomy.values import to_dict
from pytest_failure_taxonomy.text import safe_text

MAX_SECONDS: Final = 2.0
"""How long a run waits at its end for the answer of a history."""
START_SECONDS: Final = 30.0
"""How long the process that asks may take to start, which is no fault of the history's."""
SECONDS_VARIABLE: Final = "FAILURE_TAXONOMY_HISTORY_SECONDS"
_SCRIPT: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from pytest_failure_taxonomy.history.recording import answer; answer()"
)
_TIME_IS_OVER: Final = "Timeout ("
"""How the stacks begin that faulthandler writes when it ends a process."""
_MORE_OF_STATE: Final = ("first_commit", "flaky_failures", "flaky_runs")
"""What the state of a cause has of one of its groups."""
_NOT_FOR_IT: Final = ("COVERAGE_PROCESS_START", "COV_CORE_SOURCE", "COV_CORE_DATAFILE")
"""Variables by which coverage would measure that process, too."""
MAX_WORDS: Final = 500


def record_run(report: dict[str, Any], url: str, *, adds: bool = True) -> str | None:
    """Write into a report what the history says of its groups, and record its run there.

    Args:
        report: its JSON object, whose `groups` get their `history`.
        url: where the history is; empty for the default.
        adds: record the run; if not, only ask.

    Returns:
        In words why the history gave no answer; `None` if it gave one.
    """
    seconds = seconds_allowed()
    question = {"url": url, "adds": adds, "report": report, "seconds": seconds}
    if not sys.executable:
        return "Python does not know its own program (sys.executable is empty)"
    library = str(Path(__file__).parents[2])
    environment = {
        name: each for name, each in os.environ.items() if name not in _NOT_FOR_IT
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
        return "the process that asks it did not start in time"
    except (OSError, ValueError) as error:
        return f"no process can be started: {error}"
    try:
        said = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[
            -1
        ]
        is_late = done.stderr.startswith(_TIME_IS_OVER)
        return (
            f"it gave no answer within {seconds:g} s"
            if is_late
            else safe_text(last, MAX_WORDS)
        )
    if "problem" in said:
        return str(said["problem"])
    _write_answer(report, **said)
    return None


def answer() -> None:
    """Answer the question on stdin; the process that `record_run` starts does no more."""
    question = json.load(sys.stdin)
    from pytest_failure_taxonomy.errors import FailureTaxonomyError

    said: dict[str, Any]
    try:
        said = _what_is_known(**question)
    except FailureTaxonomyError as error:
        said = {"problem": str(error)}
    sys.stdout.write(json.dumps(said))


def _what_is_known(
    url: str, report: dict[str, Any], seconds: float, *, adds: bool
) -> dict[str, Any]:
    from pytest_failure_taxonomy.history import require_libraries

    require_libraries()
    from pytest_failure_taxonomy.history.database import open_history
    from pytest_failure_taxonomy.history.questions import proofs_of, states_of
    from pytest_failure_taxonomy.report.model import CODEC
    from pytest_failure_taxonomy.taxonomy.judgement import GroupHistory

    faulthandler.dump_traceback_later(seconds, exit=True)
    rootdir = report["run"]["invocation"]["rootdir"]
    with open_history(url or None, rootdir=rootdir, wait_seconds=seconds) as history:
        states = {}
        for name, state in states_of(history, report).items():
            first = state.first_seen
            first_seen = (
                None if first is None else f"{first.isoformat(timespec='seconds')}Z"
            )
            fields = {**to_dict(state), "first_seen": first_seen}
            states[name] = {key: fields[key] for key in CODEC.keys_of(GroupHistory)}
        said = {"states": states, "proofs": proofs_of(history, report)}
        _write_answer(report, **said)
        if adds:
            history.add(report)
    return said


def seconds_allowed() -> float:
    """Return how long a run may wait for the history."""
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, MAX_SECONDS))
    except ValueError:
        return MAX_SECONDS
    return seconds if 0 < seconds < 1e6 else MAX_SECONDS


def _write_answer(
    report: dict[str, Any], states: Mapping[str, Any], proofs: Mapping[str, Any]
) -> None:
    """Write into a report what is known of its failures, and what is proven of their causes."""
    _write_states(report, states)
    unproven = {cause["key"] for cause in report["causes"] if cause["proof"] is None}
    if known := {key: proof for key, proof in proofs.items() if key in unproven}:
        from pytest_failure_taxonomy.report.amend import with_proofs

        report.update(with_proofs(report, known))


def _write_states(
    report: dict[str, Any], states: Mapping[str, Mapping[str, Any]]
) -> None:
    for group in report["groups"]:
        group["history"] = states.get(group["fingerprint"], group["history"])
    verdict = report["verdict"]
    if verdict is not None:
        verdict["history"] = states.get(VERDICT)
        _write_states_of_causes(report, states.get(VERDICT))


def _write_states_of_causes(
    report: dict[str, Any], of_verdict: Mapping[str, Any] | None
) -> None:
    """Say of each cause what its groups' states come to, and judge by it what a retry would do."""
    from pytest_failure_taxonomy.report.amend import judge_causes_again
    from pytest_failure_taxonomy.report.build import sort_causes

    verdict, causes = report["verdict"], report["causes"]
    groups = {group["fingerprint"]: group["history"] for group in report["groups"]}
    for cause in causes:
        states = [
            state for each in cause["fingerprints"] if (state := groups.get(each))
        ]
        if states:
            cause["history"] = _state_of_all(states)
        elif of_verdict is not None and cause["kind"] == verdict["kind"]:
            cause["history"] = dict(of_verdict)
        if (cause["history"] or {}).get("state") == "flaky":
            # A failed assertion fails again, unless its test is known to pass now and then.
            cause["retryable"] = True
    sort_causes(causes)
    judge_causes_again(report)


def _state_of_all(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is known of a cause: it is old if any of its groups is, and flaky if all are."""
    told = {each["state"] for each in states}
    state = next((each for each in ("known", "came_back") if each in told), "new")
    if told == {"flaky"}:
        state = "flaky"
    first = min(
        (each["first_seen"] for each in states if each["first_seen"]), default=None
    )
    # The first one of which more is known.
    known = next(
        (each for each in states if each["first_commit"] or each["flaky_runs"]),
        states[0],
    )
    more = {name: known[name] for name in _MORE_OF_STATE}
    return {
        "state": state,
        "first_seen": None if state == "new" else first,
        "runs": max(each["runs"] for each in states),
        "last_passed_commit": next(
            (commit for each in states if (commit := each["last_passed_commit"])), None
        ),
        "distributions_changed": next(
            (
                words
                for each in states
                if (words := each["distributions_changed"]) is not None
            ),
            None,
        ),
        **more,
    }
