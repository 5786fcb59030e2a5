"""The understanding between `failure-taxonomy run` and the pytest that it runs.

The supervisor names itself in the environment; the plugin checks that it really is its parent, so
that a pytest that a test starts is not taken for the supervised one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.own_files import READ, read_descriptor, read_file
from pytest_failure_taxonomy.recorder.record.layout import MAX_EVENTS_BYTES

SUPERVISOR_VARIABLE: Final = "FAILURE_TAXONOMY_SUPERVISOR"
"""Process id of the supervisor, a colon, and the path of the note; `plugin` reads it, too."""

_RUN_ID: Final = re.compile("[0-9a-f]{32}")
_MAX_NOTE_BYTES: Final = 64 * 1024

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def supervisor_value(note: Path) -> str:
    """Return what the supervisor puts into the environment of its command."""
    return f"{os.getpid()}:{note}"


_taken: set[Path] = set()
"""Notes that a run of this process has taken: a pytest that is run inside of one of its tests has
the same parent, and is not the one that was asked for."""


def find_note() -> Path | None:
    """Return where the supervisor and its pytest leave notes, `None` if there is no supervisor."""
    process_id, _, name = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")
    note = Path(name)
    return note if name and process_id == str(os.getppid()) and note not in _taken else None


def take_note(note: Path, *, report: str, run_id: str, record: Sequence[Path]) -> None:
    """Answer the supervisor, and be its pytest until the note is given back.

    Args:
        note: where the supervisor looks for the answer.
        report: the path of the run's report.
        run_id: the run.
        record: the files of its record, to be handed over open.
    """
    write_note(note, report=report, run_id=run_id)
    with suppress(OSError):
        _hand_over(note, run_id, record)
    _taken.add(note)


def give_note_back(note: Path) -> None:
    """Let a later run of this process be the supervisor's pytest."""
    _taken.discard(note)


def write_note(note: Path, **said: str | None) -> None:
    """Tell the other side: `stage` and `report` that are wanted, then `report` and `run_id`."""
    with suppress(OSError):
        note.write_text(json.dumps(said), "utf-8")


def read_note(note: Path | None) -> dict[str, Any]:
    """Return what the other side has said; nothing where it has not, or there is none."""
    if note is not None:
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(read_file(note, _MAX_NOTE_BYTES))
            if isinstance(found, dict) and _is_note(found):
                return found
    return {}


def _is_note(found: dict[str, Any]) -> bool:
    """Tell whether a note is one that the other side writes; a test can write one, too."""
    if not all(each is None or isinstance(each, str) for each in found.values()):
        return False
    if "run_id" not in found:
        return True
    is_path = os.path.isabs(found.get("report") or "")
    return is_path and _RUN_ID.fullmatch(found["run_id"] or "") is not None


class RecordInbox:
    """What a supervisor gets its pytest's record through: a socket that open files are sent to.

    A test may remove the record's folder at any moment, and a file that waits in a socket stays
    readable; so the supervisor need not look for the record while the run goes on.
    """

    def __init__(self, note: Path) -> None:
        """Open the inbox beside the note, where the system can have one there."""
        self._socket = None
        with suppress(ImportError, AttributeError, OSError):  # Windows; a path too long for one
            import socket

            inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            inbox.settimeout(0)
            self._socket = inbox
            with _address_beside(note) as address:
                inbox.bind(address)

    def contents(self, run_id: str) -> list[bytes] | None:
        """Return what the files of a run's record hold now; `None` where they were not sent."""
        found = None
        if self._socket is None:
            return None
        import socket

        with suppress(OSError), closing(self._socket):
            while True:  # a process may have had several runs, one after the other
                sender, descriptors, _, _ = socket.recv_fds(self._socket, 64, 8)
                # Unbuffered, because opening one that a test has sent must not read from it.
                files = [open(each, "rb", buffering=0) for each in descriptors]  # noqa: SIM115
                read = [_read_and_close(file) for file in files]
                if sender == run_id.encode():
                    found = read
        return found


def _read_and_close(file: FileIO) -> bytes:
    with file:
        file.seek(0)
        return read_descriptor(file.fileno(), MAX_EVENTS_BYTES)


def _hand_over(note: Path, run_id: str, record: Sequence[Path]) -> None:
    if not record:
        return
    import socket

    descriptors: list[int] = []
    try:
        descriptors += [os.open(path, READ) for path in record]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(0)
            with _address_beside(note) as address:
                sender.connect(address)
            socket.send_fds(sender, [run_id.encode()], descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def _address_beside(note: Path) -> Iterator[str]:
    """Yield the address of the inbox: 107 characters are the most, and a folder can have more."""
    if not sys.platform.startswith("linux"):
        yield str(note.with_name("inbox"))
        return
    folder = os.open(note.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/inbox"
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
