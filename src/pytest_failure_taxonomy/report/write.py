"""Write the report to disk: atomically, and with the mode of an ordinary file."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.interpreter import isolate_module

if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.model import FailureReport

os = isolate_module(os)

MAX_NAME_BYTES: Final = 255
"""What Linux, macOS and their usual file systems allow a name to have."""

_BETWEEN: Final = os.urandom(16).hex()
"""Stands between the items of a list while it is encoded; no text can guess it."""
_ENCODED_BETWEEN: Final = f', "{_BETWEEN}", '

_NO_ROOM: Final = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
"""The disk is full, or the user's share of it."""

_MAX_SUFFIX_BYTES: Final = 32
_DIGEST_DIGITS: Final = 16


def encode(report: FailureReport) -> bytes:
    """Return the report as ASCII JSON, one object: a line for each field and each item of a list.

    That reads nearly as well as indented JSON, and is four times as fast to make: `json` indents in
    Python and does the rest in C.
    """
    # Imported here, because most of who asks for a path writes no report.
    from pytest_failure_taxonomy.report.model import CODEC

    fields = []
    for name, content in CODEC.fields_of(report).items():
        if isinstance(content, tuple | list) and content:
            # All items by one call: to begin one takes as long as to encode a short item.
            with_marks = [mark for item in content for mark in (item, _BETWEEN)]
            items = CODEC.to_text(with_marks[:-1]).replace(_ENCODED_BETWEEN, ",\n  ")
            text = f"[\n  {items[1:-1]}\n ]"
        else:
            text = CODEC.to_text(content)
        fields.append(f' "{name}": {text}')
    return ("{\n" + ",\n".join(fields) + "\n}\n").encode("ascii")


def refuse_special_file(path: Path, what: str) -> None:
    """Refuse a path at which there is anything but an ordinary file.

    Args:
        path: where a file is to be.
        what: how the message begins.

    Raises:
        SettingsError: it is a folder, a link, a pipe or a device; it has not been touched.
    """
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return
    name = files.name_of_special_file(mode)
    if name is not None:
        raise SettingsError(f"{what}{path} is {name}; give the name of a file")


def write_report(
    path: Path, report: FailureReport, reserve: Path | None = None
) -> None:
    """Replace the file atomically: a reader sees the old report or the new one.

    The text is complete before a file is opened. Missing folders are made. The file gets the mode
    that `open()` would give it, not the 0600 of a temporary file, so that a CI agent can read it.

    Args:
        path: where the report goes.
        report: what is written there.
        reserve: a file on the same disk that keeps room for it. Where the disk is full the report
            is written into that file, if it fits, and the file moved to where the report goes.

    Raises:
        OSError: it could not be written; the earlier file is as it was.
    """
    content = encode(report)
    make_folder(path.parent)

    def fill(folder: int | None, name: str) -> None:
        try:
            files.write_new(name, content, dir_fd=folder)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            if not _use_reserve(reserve, folder, name, content):
                raise

    files.replace_file(path, content, fill)


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically by a text; missing folders are made, and a link is not followed.

    Raises:
        OSError: it could not be written; the earlier file is as it was.
        SettingsError: there is a folder, a pipe or a device at the path.
    """
    content = text.encode("utf-8", "replace")
    refuse_special_file(path, what="")
    make_folder(path.parent)
    files.replace_file(path, content)


def write_what_fits(path: Path, report: FailureReport, reserve: Path) -> FailureReport:
    """Replace the file by as much of the report as the reserve has room for.

    Returns:
        what was written; `limits` says what is missing, and so does a fault in words.

    Raises:
        OSError: there is no reserve, or it has too little room for any report.
    """
    from pytest_failure_taxonomy.report.trim import cut_to_fit

    room = os.lstat(reserve).st_size
    part = cut_to_fit(report, room, lambda part: len(encode(part)))
    if part is None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write_report(path, part, reserve)
    return part


def _use_reserve(
    reserve: Path | None, folder: int | None, name: str, content: bytes
) -> bool:
    """Move the reserve to where the report goes and write into it; tell whether that worked.

    It is moved before it is written: of two processes that want it only one gets it, and the other
    can't write into what may be a report by then.
    """
    if reserve is None:
        return False
    with suppress(OSError), files.open_folder(reserve.parent) as record:
        with os.fdopen(record.open_file(reserve.name, os.O_WRONLY), "wb") as file:
            status = os.fstat(file.fileno())
            if status.st_size < len(content) or status.st_nlink != 1:
                return False
            record.move(reserve.name, name, dir_fd=folder)
            file.write(content)
            file.truncate()
        return True
    return False


def make_folder(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        NotADirectoryError: one of them exists and is a file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(
            errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename
        ) from error


def remove_report(path: Path) -> None:
    """Remove an earlier run's report that can't be replaced; it must not pass for this run's."""
    with suppress(OSError):
        os.unlink(path)


def fallback_path(path: Path, run_id: str) -> Path:
    """Return a path in the temporary folder, for a report that can't be written to its own."""
    import tempfile  # here, because the watcher has to be quick and needs none

    return Path(tempfile.gettempdir()) / path_of_run(path, run_id).name


def path_beside(path: Path, ending: str) -> Path:
    """Return the path of a hidden file or folder beside the report, such as its lock.

    All such names are made here. The name is a dot, the report's name and the ending; where that is
    longer than a name may be, the report's name is cut, and a digest of all of it takes its place.

    Args:
        path: the report's.
        ending: what tells one of them from another, such as `.lock`; short.
    """
    return path.with_name(_fitting_name(".", path.name, ending))


def path_of_run(path: Path, run_id: str) -> Path:
    """Return a path in the report's folder, for a report that can't be written to its own."""
    suffix = path.suffix if len(os.fsencode(path.suffix)) <= _MAX_SUFFIX_BYTES else ""
    stem = path.name.removesuffix(suffix)
    return path.with_name(_fitting_name("", stem, f".{run_id}{suffix}"))


def _fitting_name(start: str, name: str, ending: str) -> str:
    """Return the three parts as one name that has no more bytes than a name may have."""
    whole = os.fsencode(name)
    room = MAX_NAME_BYTES - len(os.fsencode(start + ending))
    if len(whole) <= room:
        return f"{start}{name}{ending}"
    from hashlib import sha256  # here, because hardly any run needs it

    digest = sha256(whole).hexdigest()[:_DIGEST_DIGITS]
    kept = whole[: room - len(digest) - 1].decode("utf-8", "ignore")
    return f"{start}{kept}~{digest}{ending}"
