"""Read the rows of Parquet and Arrow files, as the Hugging Face hub and `datasets` write them.

They need the extra `parquet`, which is imported when there is such a file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pytest_failure_taxonomy.documents.problems import (
    Problems,
    WrongError,
    quoted,
    shown,
)

_ROWS: Final = 256
"""Rows that are held at a time, besides what the library reads ahead."""
_MAGIC: Final = b"ARROW1"
"""Begins a file of Arrow that is no stream."""
_INSTALL: Final = (
    'pyarrow is not installed; pip install "pytest-failure-taxonomy[parquet]"'
)
_RIGHT: Final = "copy it again, or write the cases as .jsonl"


def read_rows(path: Path, problems: Problems) -> Iterator[Any]:
    """Yield each row as plain data that JSON can hold, or the `WrongError` that says why not."""
    number = 0
    try:
        for batch in _batches(path):
            batch.validate(full=True)  # else wrong offsets lead out of its memory
            for row in batch.to_pylist():
                number += 1
                try:
                    yield _plain(row, "")
                except WrongError as error:
                    yield error
    except ImportError:
        problems.add(None, _INSTALL)
    # Its errors are of many types, and what a broken file makes of it is not documented.
    except Exception as error:  # noqa: BLE001
        kind = "Parquet" if path.suffix == ".parquet" else "Arrow"
        after = f" after row {number}" if number else ""
        why = shown(str(error)) or type(error).__name__
        problems.add(None, f"not {kind}{after} ({why}); {_RIGHT}")


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        if path.suffix == ".parquet":
            from pyarrow.parquet import ParquetFile

            table = ParquetFile(file)
            batches = table.iter_batches(_ROWS, use_threads=False)
            schema = table.schema_arrow
        elif file.read(len(_MAGIC)) == _MAGIC:
            table = pa.ipc.open_file(file)
            batches = map(table.get_batch, range(table.num_record_batches))
            schema = table.schema
        else:
            file.seek(0)
            batches = pa.ipc.open_stream(file)
            schema = batches.schema
        if len(set(schema.names)) < len(schema.names):
            raise WrongError("two columns have one name")
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                yield batch.slice(start, _ROWS)


def _plain(value: Any, where: str) -> Any:
    """Return a value of Arrow as JSON can hold it: dates as text, NaN as null."""
    if isinstance(value, dict):
        return {
            sys.intern(key): _plain(part, f"{where}.{key}".lstrip("."))
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(part, where) for part in value]
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float | Decimal):
        return _number(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta | UUID):
        return str(value)
    kind = type(value).__name__
    what = f"{quoted(where)} holds {kind}, which JSON can't hold"
    raise WrongError(what, "leave the column out")


def _number(value: float | Decimal) -> float | str | None:
    """Return a number if that is exact, its digits if not, and null if it is none."""
    if not math.isfinite(value):
        return None
    number = float(value)
    return number if number == value else str(value)
