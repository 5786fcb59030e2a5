"""Read the outputs of some cases of a kept run: memory may not hold those of all."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from pytest_failure_taxonomy.bench.run_records import KeptAttempt, LineReader


def read_calls(path: Path, case_ids: Collection[str]) -> Iterator[KeptAttempt]:
    """Yield the calls of some cases with their outputs, in the order of the file.

    Lines and files that can't be read are left out: who has read the run knows of them.

    Args:
        path: The file of the run.
        case_ids: The cases.
    """
    with suppress(OSError):
        for record in LineReader(path).new(["attempt"]):
            case_id = record.get("case_id")
            if isinstance(case_id, str) and case_id in case_ids:
                with suppress(ValidationError):
                    yield KeptAttempt.model_validate(record)
