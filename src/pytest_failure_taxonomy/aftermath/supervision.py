"""The understanding between `failure-taxonomy run` and the pytest that it runs.

The supervisor names itself in the environment; the plugin checks that it really is its parent, so
that a pytest that a test starts is not taken for the supervised one. What the two leave for each
other has no name on any disk where the system can do without (Linux): nothing is left behind when
the supervisor is killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.recorder.record.layout import MAX_EVENTS_BYTES
from pytest_failure_taxonomy.system.own_files import CAREFUL, READ, read_descriptor

SUPERVISOR_VARIABLE: Final = "FAILURE_TAXONOMY_SUPERVISOR"
"""Process id of the supervisor, a colon, and the path of the note; `plugin` reads it, too."""

_RUN_ID: Final = re.compile("[0-9a-f]{32}")
_MAX_NOTE_BYTES: Final = 64 * 1024

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

_FOLDER: Final = "failure-taxonomy-"
"""How the folder's name begins that holds note and inbox where they need one."""
_NOTE: Final = "note"
_INBOX: Final = "inbox"
_ADDRESS_BYTES: Final = 100

_HAS_LAUNCHERS: Final = sys.platform == "win32"
"""A program starts the interpreter of a virtual environment, which so has another parent."""


_taken: set[Path] = set()
"""Notes that a run of this process has taken: a pytest that is run inside of one of its tests has
the same parent, and is not the one that was asked for."""


def find_note() -> Path | None:
    """Return where the supervisor and its pytest leave notes, `None` if there is no supervisor."""
    process_id, _, name = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")
    note = Path(name)
    if not name or note in _taken:
        return None
    if _HAS_LAUNCHERS:  # the first pytest is the one
        return note if "run_id" not in read_note(note) else None
    return note if process_id == str(os.getppid()) else None


def take_note(note: Path, *, report: str, run_id: str, record: Sequence[Path]) -> None:
    """Answer the supervisor, and be its pytest until the note is given back.

    Args:
        note: where the supervisor looks for the answer.
        report: the path of the run's report.
        run_id: the run.
        record: the files of its record, to be handed over open.
    """
    inbox = read_note(note).get("inbox")
    write_note(note, report=report, run_id=run_id, inbox=inbox)
    with suppress(OSError):
        if inbox:
            _hand_over(inbox, run_id, record)
    _taken.add(note)


def give_note_back(note: Path) -> None:
    """Let a later run of this process be the supervisor's pytest.

    A supervisor that was killed can't remove its folder, where it has one. We do.
    """
    _taken.discard(note)
    supervisor, _, _ = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")
    is_orphan = not _HAS_LAUNCHERS and supervisor != str(os.getppid())
    if is_orphan and note.parent.name.startswith(_FOLDER):
        _remove_folder(note.parent)


def write_note(note: Path, **said: str | None) -> None:
    """Tell the other side: `stage` and `report` that are wanted, then `report` and `run_id`.

    `inbox` is where open files can be sent to, where that is possible.
    """
    with suppress(OSError), open(_open_note(note, os.O_RDWR | os.O_CREAT), "wb") as file:
        file.truncate()
        file.write(json.dumps(said).encode("ascii"))


def read_note(note: Path | None) -> dict[str, Any]:
    """Return what the other side has said; nothing where it has not, or there is none."""
    if note is not None:
        with suppress(OSError, ValueError, RecursionError):
            descriptor = _open_note(note, os.O_RDONLY)
            try:
                found = json.loads(read_descriptor(descriptor, _MAX_NOTE_BYTES))
            finally:
                os.close(descriptor)
            if isinstance(found, dict) and _is_note(found):
                return found
    return {}


def _open_note(note: Path, flags: int) -> int:
    """Open a note, which may be anything by now; only the kernel's own links are followed."""
    is_descriptor = note.is_relative_to("/proc") and note.parent.name == "fd"
    careful = CAREFUL & ~os.O_NOFOLLOW if is_descriptor else CAREFUL
    return os.open(note, flags | careful, 0o600)


def _is_note(found: dict[str, Any]) -> bool:
    """Tell whether a note is one that the other side writes; a test can write one, too."""
    if not all(each is None or isinstance(each, str) for each in found.values()):
        return False
    if "run_id" not in found:
        return True
    is_path = os.path.isabs(found.get("report") or "")
    return is_path and _RUN_ID.fullmatch(found["run_id"] or "") is not None


class Desk:
    """Where a supervisor and its pytest leave word for each other: a note, and an inbox.

    The inbox is a socket that the open files of a record are sent to. A test may remove the
    record's folder at any moment, and a file that waits in a socket stays readable; so the
    supervisor need not look for the record while the run goes on.
    """

    def __init__(self, *, stage: str | None, report: str | None) -> None:
        """Write the note.

        Args:
            stage: what the run is to be, where that is wanted.
            report: where its report is to go, where that is wanted.

        Raises:
            OSError: there is no place for a note.
        """
        self._folder: Path | None = None
        self._socket: Any = None
        self._kept: list[int] = []
        inbox: str | None = None
        try:
            if _reaches_descriptors():
                self.note = self._reachable(os.memfd_create(_NOTE))
            else:
                self.note = self._make_folder() / _NOTE
            with suppress(ImportError, AttributeError, OSError):  # Windows; a path too long for one
                inbox = self._open_inbox()
            write_note(self.note, stage=stage, report=report, inbox=inbox)
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """What tells the command of the desk."""
        return {SUPERVISOR_VARIABLE: f"{os.getpid()}:{self.note}"}

    def contents(self, run_id: str) -> list[bytes] | None:
        """Return what the files of a run's record hold now; `None` where they were not sent."""
        found = None
        if self._socket is None:
            return None
        import socket

        with suppress(OSError):
            while True:  # a process may have had several runs, one after the other
                sender, descriptors, _, _ = socket.recv_fds(self._socket, 64, 8)
                # Unbuffered, because opening one that a test has sent must not read from it.
                files = [open(each, "rb", buffering=0) for each in descriptors]  # noqa: SIM115
                read = [_read_and_close(file) for file in files]
                if sender == run_id.encode():
                    found = read
        return found

    def close(self) -> None:
        """Leave nothing behind."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        while self._kept:
            os.close(self._kept.pop())
        if self._folder is not None:
            _remove_folder(self._folder)
            self._folder = None

    def _open_inbox(self) -> str:
        import socket

        inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        inbox.settimeout(0)
        self._socket = inbox
        if self._folder is not None:
            path = self._folder / _INBOX
            with _short_address(path) as address:
                inbox.bind(address)
            return str(path)
        folder = self._make_folder()
        try:  # an address needs a name for a moment only
            with _short_address(folder / _INBOX) as address:
                inbox.bind(address)
            return str(self._reachable(os.open(folder / _INBOX, os.O_PATH | os.O_NOFOLLOW)))
        finally:
            _remove_folder(folder)
            self._folder = None

    def _make_folder(self) -> Path:
        import tempfile  # here, because each supervised pytest loads this module

        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        return self._folder

    def _reachable(self, descriptor: int) -> Path:
        """Keep a descriptor, and return the path by which other processes of the user reach it."""
        self._kept.append(descriptor)
        return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _reaches_descriptors() -> bool:
    """Tell whether other processes can open what this one has open (Linux, with `/proc`)."""
    return hasattr(os, "memfd_create") and os.path.isdir(f"/proc/{os.getpid()}/fd")


def _remove_folder(folder: Path) -> None:
    """Remove a desk's folder with the two names that it can have."""
    for name in (_NOTE, _INBOX):
        with suppress(OSError):
            os.unlink(folder / name)
    with suppress(OSError):
        os.rmdir(folder)


def _read_and_close(file: FileIO) -> bytes:
    with file:
        file.seek(0)
        return read_descriptor(file.fileno(), MAX_EVENTS_BYTES)


def _hand_over(inbox: str, run_id: str, record: Sequence[Path]) -> None:
    if not record:
        return
    import socket

    descriptors: list[int] = []
    try:
        descriptors += [os.open(path, READ) for path in record]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(0)
            with _short_address(Path(inbox)) as address:
                sender.connect(address)
            socket.send_fds(sender, [run_id.encode()], descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def _short_address(path: Path) -> Iterator[str]:
    """Yield the address of a socket: 107 characters are the most, and a folder can have more."""
    if len(os.fsencode(path)) < _ADDRESS_BYTES or not os.path.isdir("/proc/self/fd"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def die_with_parent() -> None:
    """Have this process end when its supervisor is killed: nobody would see its own end."""
    parent = os.getppid()
    if _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM)) and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, so that none is left behind; Linux alone can."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False
