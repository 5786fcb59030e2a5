"""The report on disk: whole or not at all; on a full disk in the room that was kept for it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.report.load import as_json
from pytest_failure_taxonomy.report.model import Section
from pytest_failure_taxonomy.report.write import encode, write_report
from pytest_failure_taxonomy.survive.layout import RESERVE_BYTES
from pytest_failure_taxonomy.survive.writer import allocate_file
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.files import open_folder
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_report_value

keeps_room = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"),
    reason="the system can't allocate a file's blocks",
)

REPORT: Final = make_report_value()
LARGE: Final = replace(REPORT, notes=("x" * RESERVE_BYTES,))


def keep_room(path: Path, size: int) -> None:
    """Make a file that keeps room."""
    with open_folder(path.parent) as folder:
        allocate_file(folder, path.name, size)


@pytest.fixture
def reserve(tmp_path: Path) -> Path:
    """Return a file that keeps room, in a folder beside the report."""
    (tmp_path / ".record").mkdir()
    path = tmp_path / ".record" / "reserve"
    keep_room(path, RESERVE_BYTES)
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Return the path of a report that an earlier write has made."""
    path = tmp_path / "report.json"
    path.write_text("running")
    return path


def let_nothing_be_made(patch: pytest.MonkeyPatch, number: int) -> None:
    """Have the making of each new file fail with an error."""

    def refuse(*args: object, **given: object) -> None:
        raise OSError(number, os.strerror(number))

    patch.setattr(files, "write_new", refuse)


def names(folder: Path) -> list[str]:
    """Return the names of all files in a folder and below it."""
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir())


@keeps_room
def test_the_room_that_is_kept_is_there(reserve: Path) -> None:
    """Its blocks are allocated, so that no other file can take them."""
    status = reserve.stat()
    assert status.st_size == RESERVE_BYTES
    assert status.st_blocks * 512 >= RESERVE_BYTES


@keeps_room
def test_no_room_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of a file whose blocks can't all be had."""

    def refuse(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(isolate_module(os), "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space left"):
        keep_room(tmp_path / "reserve", RESERVE_BYTES)
    assert names(tmp_path) == []


def test_each_item_of_a_list_stands_on_a_line() -> None:
    """Whatever is in the items: lists, quotes and commas, or nothing."""
    items: Section = ({"a": ["x", ", ", '", "']}, {"b": []}, {"c": "y"}, {})
    report = replace(REPORT, bench=items, stalls=())
    lines = encode(report).decode().splitlines()
    start = lines.index(' "bench": [') + 1
    end = start + len(items)
    assert [json.loads(each.removesuffix(",")) for each in lines[start:end]] == [*items]
    assert lines[end] == " ],"
    assert ' "stalls": [],' in lines
    assert json.loads("".join(lines)) == as_json(report)


def test_the_reserve_stays_where_there_is_room(report: Path, reserve: Path) -> None:
    """A report is a new file, and what was kept for it is not touched."""
    before = reserve.stat()
    write_report(report, REPORT, reserve)
    assert report.read_bytes() == encode(REPORT)
    assert reserve.stat() == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])
def test_a_full_disk(
    report: Path, reserve: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The report is written into the reserve, which then is the report, and of its size."""
    kept = reserve.stat().st_ino
    let_nothing_be_made(monkeypatch, number)
    write_report(report, REPORT, reserve)
    assert report.read_bytes() == encode(REPORT)
    assert report.stat().st_ino == kept
    assert names(report.parent) == ["report.json"]
    (report.parent / "plain").touch()
    assert report.stat().st_mode == (report.parent / "plain").stat().st_mode


def test_a_reader_never_sees_half_a_report(
    report: Path, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has the report open while it is replaced reads the earlier one to its end."""
    let_nothing_be_made(monkeypatch, errno.ENOSPC)
    with report.open() as reader:
        write_report(report, REPORT, reserve)
        assert reader.read() == "running"
    assert json.loads(report.read_bytes()) == as_json(REPORT)


@pytest.mark.parametrize("size", [len(encode(REPORT)), len(encode(REPORT)) - 1])
def test_the_size_of_the_reserve(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A report fits to the byte; one byte less, and both files stay as they were."""
    reserve = tmp_path / "kept"
    keep_room(reserve, size)
    let_nothing_be_made(monkeypatch, errno.ENOSPC)
    if size == len(encode(REPORT)):
        write_report(report, REPORT, reserve)
        assert report.read_bytes() == encode(REPORT)
        return
    with pytest.raises(OSError, match="No space left on device"):
        write_report(report, REPORT, reserve)
    assert report.read_text() == "running"
    assert reserve.stat().st_size == size
    assert names(tmp_path) == ["kept", "report.json"]


def test_other_errors_leave_the_reserve_alone(
    report: Path, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there for want of room and nothing else."""
    let_nothing_be_made(monkeypatch, errno.EACCES)
    with pytest.raises(PermissionError):
        write_report(report, REPORT, reserve)
    assert names(report.parent) == ["report.json", "reserve"]


@pytest.mark.parametrize("how", ["none", "gone", "taken"])
def test_no_reserve(report: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Where there is none, or another process has taken it, the error is that of the disk."""
    reserve = None if how == "none" else report.parent / ".record" / "reserve"
    let_nothing_be_made(monkeypatch, errno.ENOSPC)
    if how == "taken" and reserve is not None:
        reserve.parent.mkdir()
        keep_room(reserve, RESERVE_BYTES)

        def take(source: str, target: str, **folders: int) -> None:
            if os.path.basename(source) == reserve.name:
                reserve.unlink()
            os.replace(source, target, **folders)

        monkeypatch.setattr(isolate_module(os), "replace", take)
    with pytest.raises(OSError, match="No space left on device"):
        write_report(report, REPORT, reserve)
    assert report.read_text() == "running"
    assert names(report.parent) == ["report.json"]


def test_a_report_that_is_too_large(
    report: Path, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room stays for another try, when the report may be written as usual."""
    with monkeypatch.context() as patch:
        let_nothing_be_made(patch, errno.ENOSPC)
        with pytest.raises(OSError, match="No space left on device"):
            write_report(report, LARGE, reserve)
    assert names(report.parent) == ["report.json", "reserve"]
    write_report(report, LARGE, reserve)
    assert json.loads(report.read_bytes()) == as_json(LARGE)
