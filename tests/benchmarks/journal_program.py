"""Write the outcomes of cases into the file of a run: the sample of `bench-journal`.

``python -P journal_program.py KIND LINES``. It asserts that the file has as many lines.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

SENTENCE = "The parser of part {number} reads a header, checks its length, and copies the rest. "
"""80 characters."""


def outputs_of(kind: str, number: int) -> tuple[Any, Any]:
    """Return the output and the transcript of a case."""
    sentence = SENTENCE.format(number=number)
    if kind == "short":
        return {"answer": number}, None
    if kind == "1 kB":
        return {"answer": sentence * 12}, None
    roles = ("user", "assistant") * 4
    said = [
        {"role": role, "content": f"{index}: {sentence * 6}"}
        for index, role in enumerate(roles)
    ]
    return {"answer": sentence * 50}, said


def main(kind: str, lines: int) -> None:
    """Write them as a run does, with secrets removed from what is kept."""
    from pytest_failure_taxonomy.bench.kept.lines import ScheduledCase
    from pytest_failure_taxonomy.bench.kept.writer import RunFile
    from pytest_failure_taxonomy.bench.models import BenchScore
    from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
    from pytest_failure_taxonomy.redaction.redactor import Redactor

    score = BenchScore(passed=True, score=1.0, breakdown={"found": 1.0})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.touch()
        cases = [
            ScheduledCase(case_id=f"case-{number}", digest=f"{number:064x}")
            for number in range(lines)
        ]
        file = RunFile(path, cases, Redactor(()).redact_json)
        for number in range(lines):
            output, transcript = outputs_of(kind, number)
            call = CaseAttempt(attempt=1, started_at=1e9 + number, seconds=0.25)
            outcome = CaseOutcome(
                case_id=f"case-{number}",
                score=score,
                attempts=(call,),
                output=output,
                transcript=transcript,
            )
            file.note_outcome(outcome)
        file.close()
        written = path.read_bytes().count(b"\n")
        if file.problem or written != lines:
            sys.exit(f"{written} of {lines} lines: {file.problem}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
