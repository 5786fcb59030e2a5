"""Prove at the end why tests failed, if asked: start `failure-taxonomy prove`."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_failure_taxonomy.option_files import VARIABLE
from pytest_failure_taxonomy.options import PROVING_VARIABLE
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.system.interpreter import (
    interpreter_as_it_was,
    write_words,
)


def prove_at_exit(
    report: Path,
    budget: str,
    folder: Path,
    environment: Mapping[str, str],
    history: str | None,
    rewrite: Callable[[FailureReport], list[str]],
) -> None:
    """Have a report's failures proven when this process ends; its exit status stays.

    The command prints after pytest's last line, and Ctrl+C ends the command alone.

    Args:
        report: of the run.
        budget: for how long.
        folder: where pytest was started.
        environment: as at the start; tests may have changed it, and failed by that.
        history: where the run is recorded; empty for the default, `None` for nowhere.
        rewrite: writes the report's other formats again; returns what went wrong.
    """
    process_id = os.getpid()

    def prove() -> None:
        if os.getpid() != process_id:  # a fork has the same to do at its end
            return
        variables = {**environment, PROVING_VARIABLE: "1"}
        if history:
            variables[VARIABLE] = history
        command = [
            sys.executable,
            "-P",
            "-m",
            "pytest_failure_taxonomy",
            "prove",
            str(report),
        ]
        # Not ignored, or the command would ignore it, too.
        signal.signal(signal.SIGINT, lambda *_: None)
        with interpreter_as_it_was():
            write_words(sys.stdout, "")  # what was printed before comes first
            try:
                subprocess.run(  # noqa: S603 - this Python, with a command of ours
                    [*command, "--budget", budget],
                    cwd=folder,
                    env=variables,
                    check=False,
                )
                proven = json.loads(report.read_bytes())
                problems = rewrite(CODEC.decode(FailureReport, proven))
            except (OSError, ValueError) as error:
                problems = [f"nothing is proven: {error}"]
            for problem in problems:
                write_words(sys.stderr, f"failure taxonomy: {problem}\n")

    atexit.register(prove)
