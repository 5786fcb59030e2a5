"""`failure-taxonomy prove`, which runs tests again to prove why they failed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.reports import load
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import write_report


def prove(options: argparse.Namespace) -> int:
    """Prove the causes of a report; exit code 1 where one of them is not proven."""
    from pytest_failure_taxonomy.prove.causes import prove_causes

    path = Path(options.report)

    def save(report: dict[str, Any]) -> None:
        with output.writing_to(path):
            write_report(path, report)

    report = prove_causes(
        path,
        load(path),
        budget_seconds=options.budget,
        number=options.cause,
        resumes=options.resume,
        allows_effects=options.yes,
        tell=lambda line: output.answer(f"{safe_text(line)}\n"),
        save=save,
    )
    proofs = [cause["proof"] for cause in report["causes"]]
    return int(any(each is None or each["status"] != "proven" for each in proofs))
