"""The mailbox between `failure-taxonomy run` and the pytest that it runs.

The supervisor puts its process id and the mailbox into an environment variable. It is
the parent of its pytest, but for GNU `timeout` between them; or its command is a shell
or the like, of which the first pytest claims the mailbox that is not a test's own. On
Linux the mailbox has no name on any disk, so that nothing is left behind if the
supervisor is killed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeGuard

from pytest_failure_taxonomy.options import SUPERVISOR_VARIABLE
from pytest_failure_taxonomy.report.codec import RECORD
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.crash_output import read_left
from pytest_failure_taxonomy.survive.folder import RUN_ID
from pytest_failure_taxonomy.system.files import (
    CAREFUL,
    READ,
    closing_descriptor,
    identity_of,
    read_descriptor,
)
from pytest_failure_taxonomy.system.process import (
    has_ancestor,
    parent_behind_timeouts,
)
from pytest_failure_taxonomy.taxonomy.evidence import Faces, Left
from pytest_failure_taxonomy.taxonomy.judgement import Stage

_MAX_MESSAGE_BYTES: Final = 64 * 1024

_FOLDER: Final = "failure-taxonomy-"
"""How the name of the folder begins that holds message and inbox where they need
one."""
_MESSAGE: Final = "message"
_INBOX: Final = "inbox"
_ADDRESS_BYTES: Final = 100

_HAS_LAUNCHERS: Final = sys.platform == "win32"
"""In a virtual environment a launcher starts the interpreter, and is its parent."""


_claimed: set[Path] = set()
"""Mailboxes that belong to a run of this process. A pytest that runs inside of one of
its tests has the same parent, but is not the supervised one."""

_counted: set[Path] = set()
"""Mailboxes to which this process has said that it came too late."""

_CHILD: Final = "child"
_MAX_DIGITS: Final = 9

_SET_BY_PYTEST: Final = ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST")
"""Variables that mark a pytest as started by a test, or by an xdist worker."""


def find_mailbox() -> Path | None:
    """Return the mailbox that is this process's to claim; `None` if there is none."""
    mailbox = _find_outer_mailbox()
    if mailbox is None or mailbox in _claimed:
        return None
    if _HAS_LAUNCHERS:  # the first pytest is the supervised one
        return None if "run_id" in read_message(mailbox) else mailbox
    if is_supervised_child():
        return mailbox
    with _lock_mailbox(mailbox):  # another pytest may be about to write
        message = read_message(mailbox)
    return mailbox if _is_below(message) and _is_free(message) else None


def is_supervised_child() -> bool:
    """Tell whether the supervisor sees how this process ends."""
    supervisor = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")[0]
    return _HAS_LAUNCHERS or supervisor == str(parent_behind_timeouts())


def report_before_this() -> Path | None:
    """Return the report of an earlier pytest of the command; tell the supervisor.

    Returns:
        `None` if there was none, or if it passed.
    """
    mailbox = _find_outer_mailbox()
    if mailbox is None or mailbox in _claimed or is_supervised_child():
        return None
    with _lock_mailbox(mailbox):
        message = read_message(mailbox)
        if not _is_below(message) or _is_free(message):
            return None
        _count_latecomer(mailbox, message)
    return Path(message["report"] or "")


def _count_latecomer(mailbox: Path, message: Mapping[str, str | None]) -> None:
    """Count this process among those that came too late for the report."""
    if mailbox not in _counted:
        _counted.add(mailbox)
        write_message(
            mailbox, **{**message, "later": str(_count(message, "later") + 1)}
        )


def _count(message: Mapping[str, str | None], name: str) -> int:
    """Return a number in a message, which anybody may have written."""
    text = message.get(name) or ""
    return int(text) if len(text) < _MAX_DIGITS and text.isdecimal() else 0


def _find_outer_mailbox() -> Path | None:
    name = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")[2]
    return Path(name) if name else None


def _is_below(message: Mapping[str, str | None]) -> bool:
    """Tell whether a message is for any pytest of the command, and this is one of them.

    In a container the process id and the mailbox of the variable are those of others.
    """
    supervisor = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")[0]
    return message.get("below") == _identify_outer_pytest() and has_ancestor(supervisor)


def _is_free(message: Mapping[str, str | None]) -> bool:
    """Tell whether no pytest has claimed a mailbox, or one has that passed."""
    return "run_id" not in message or message.get("passed") == "yes"


def _identify_outer_pytest() -> str:
    """Identify the test or worker of another pytest that this process is part of."""
    return " ".join(os.environ.get(name, "-") for name in _SET_BY_PYTEST)


def claim_mailbox(
    mailbox: Path, *, report: str, run_id: str, record: Sequence[Path], faces: Faces
) -> bool:
    """Answer the supervisor, and be its pytest until the mailbox is released.

    Args:
        mailbox: as `find_mailbox` returns it.
        report: the path of the run's report.
        run_id: the run.
        record: the files of its record, whose descriptors are sent.
        faces: the other formats of its report.

    Returns:
        False if another pytest of the same command was faster.
    """
    is_child = is_supervised_child()
    with _lock_mailbox(mailbox):
        message = read_message(mailbox)
        if not is_child and not _is_free(message):
            _count_latecomer(mailbox, message)
            return False
        message |= {"report": report, "run_id": run_id, "passed": None}
        message["faces"] = RECORD.to_text(faces)
        message["claimed_by"] = _CHILD if is_child else "descendant"
        message["runs"] = str(_count(message, "runs") + 1)
        write_message(mailbox, **message)
    _claimed.add(mailbox)
    inbox = message.get("inbox")
    if is_child and inbox and record:
        with suppress(OSError), ExitStack() as opened:
            descriptors = []
            for path in record:
                descriptors.append(os.open(path, READ))
                opened.callback(os.close, descriptors[-1])
            _send(inbox, run_id, descriptors)
    return True


def send_to_supervisor(
    mailbox: Path, run_id: str, descriptors: Mapping[str, int]
) -> bool:
    """Send descriptors to read from when this process has died.

    The supervisor shows the stacks of a crash where the command's stderr goes, so that
    must be this process's. No other descriptor of stderr is sent: a command may wait
    for the end of that pipe, and the supervisor waits for the command.

    Args:
        mailbox: as `find_mailbox` returns it.
        run_id: the run.
        descriptors: by one letter, as in `record.layout`.

    Returns:
        Whether the supervisor reads and shows the stacks of a crash.
    """
    sent = {
        name: descriptor
        for name, descriptor in descriptors.items()
        if name in (layout.STDOUT, layout.STDERR)
    }
    with suppress(OSError):
        shows = False
        message = read_message(mailbox)
        if layout.CRASH_FILE in descriptors:
            number = message.get("stderr") or "2"
            theirs = os.stat(f"/proc/{os.getppid()}/fd/{number}")
            ours = os.fstat(descriptors[layout.TERMINAL])
            shows = identity_of(theirs) == identity_of(ours)
        if shows:
            sent[layout.CRASH_FILE] = descriptors[layout.CRASH_FILE]
        inbox = message.get("inbox")
        if inbox and sent:
            _send(inbox, f"{run_id}:{''.join(sent)}", list(sent.values()))
            return shows
    return False


def release_mailbox(mailbox: Path, *, report: str, has_passed: bool) -> None:
    """Let a later run of this process, or one after a passed run, have the supervisor.

    A supervisor that was killed could not remove its folder, if it had one; so it is
    removed here.

    Args:
        mailbox: as `find_mailbox` returns it.
        report: the path of the run's report, which its folder may have refused.
        has_passed: nothing failed.
    """
    _claimed.discard(mailbox)
    supervisor = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")[0]
    with _lock_mailbox(mailbox):
        message = read_message(mailbox)
        if message.get("report", report) != report:
            message["report"] = report
            write_message(mailbox, **message)
        if message.get("claimed_by") == _CHILD:
            is_orphan = not is_supervised_child()
        else:
            is_orphan = not has_ancestor(supervisor)
            if has_passed and "run_id" in message:
                write_message(mailbox, **{**message, "passed": "yes"})
    if is_orphan and mailbox.parent.name.startswith(_FOLDER):
        _remove_folder(mailbox.parent)


@contextmanager
def _lock_mailbox(mailbox: Path) -> Iterator[None]:
    """Keep others from claiming a mailbox for a moment, where the system can."""
    with ExitStack() as opened:
        with suppress(ImportError, OSError):
            import fcntl

            descriptor = _open(mailbox, os.O_RDONLY)
            opened.enter_context(closing_descriptor(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def write_message(mailbox: Path, **fields: str | None) -> None:
    """Leave a message for the other side.

    The supervisor's has the `stage` and the report that it wants (`report_wanted`), the
    `inbox` to send descriptors to, its descriptor of the command's `stderr`, and
    `below`: what a pytest that is no child of it
    must have around it to be the command's, `None` for no such pytest. Whoever claims
    the mailbox adds the path of the `report`, the `run_id`, whom it was `claimed_by`,
    how many `runs` ever have, and `passed`; a pytest that comes too late is counted in
    `later`. `retried` is a file with the node ids of a retry, and `faces` are the
    other formats of the report.
    """
    with suppress(OSError), open(_open(mailbox, os.O_RDWR | os.O_CREAT), "wb") as file:
        file.truncate()
        file.write(json.dumps(fields).encode("ascii"))


def read_message(mailbox: Path | None) -> dict[str, str | None]:
    """Return the message in a mailbox; an empty one without message or mailbox."""
    if mailbox is None:
        return {}
    with suppress(OSError, ValueError, RecursionError):
        with closing_descriptor(_open(mailbox, os.O_RDONLY)) as descriptor:
            message = json.loads(read_descriptor(descriptor, _MAX_MESSAGE_BYTES))
        if _is_sound(message):
            return message
    return {}


def _is_sound(message: object) -> TypeGuard[dict[str, str | None]]:
    """Tell whether a message has the form of one: a test may have written it."""
    if not isinstance(message, dict):
        return False
    for field in message.values():
        if field is not None and not isinstance(field, str):
            return False
    if "run_id" not in message:
        return True
    if not os.path.isabs(message.get("report") or ""):
        return False
    return RUN_ID.fullmatch(message["run_id"] or "") is not None


def _open(mailbox: Path, flags: int) -> int:
    """Open a mailbox, which a test may have replaced; follow only kernel links."""
    is_descriptor = mailbox.is_relative_to("/proc") and mailbox.parent.name == "fd"
    careful = CAREFUL & ~os.O_NOFOLLOW if is_descriptor else CAREFUL
    return os.open(mailbox, flags | careful, 0o600)


class Mailbox:
    """The supervisor's side of a mailbox: a message file and an inbox.

    The inbox is a socket to which pytest sends the descriptors of its record. A test
    may remove the folder of the record, but a file that waits in a socket stays
    readable; so the supervisor need not watch the record while the run goes on.
    """

    def __init__(
        self,
        *,
        stage: str | None,
        report: str | None,
        certifies: bool = False,
        stderr: int = 2,
        retried: Path | None = None,
    ) -> None:
        """Open a mailbox with a message for pytest.

        Args:
            stage: the stage that the run is to have, if the user gave one.
            report: the path that its report is to have, if the user gave one.
            certifies: what made a result other than the tests is to fail the run.
            stderr: this process's descriptor of the file that is the command's stderr.
            retried: a file with the node ids of the tests that are run again.

        Raises:
            OSError: if there is no place for a message.
        """
        self._opened = ExitStack()
        self._socket: Any = None
        self.run_id: str | None = None
        """Of the pytest that has answered; `None` if none has that has this plugin."""
        self.report = ""
        """The path of its report."""
        self.faces = Faces()
        """The other formats of its report."""
        self.is_of_child = True
        """That pytest is the command itself, and no descendant of it."""
        self.replaced = 0
        """How many passed before it, and have lost their report to it."""
        self.later = 0
        """How many came while it ran, or after it, and are not in its report."""
        self.record: list[bytes] | None = None
        """The contents of the files of its record; `None` if they were not sent."""
        self.left = Left()
        """What it has left of its last moments."""
        inbox: str | None = None
        folder: Path | None = None
        try:
            # Other processes can open this one's descriptors on Linux with `/proc`.
            if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
                self.path = self._expose_descriptor(os.memfd_create(_MESSAGE))
            else:
                folder = _make_folder()
                self._opened.callback(_remove_folder, folder)
                self.path = folder / _MESSAGE
            # Windows; a path too long for one
            with suppress(ImportError, AttributeError, OSError):
                inbox = self._open_inbox(folder)
            write_message(
                self.path,
                stage=stage,
                report_wanted=report,
                certify="yes" if certifies else None,
                retried=None if retried is None else str(retried),
                inbox=inbox,
                stderr=str(stderr),
                # What an agent tries is not what became of it.
                below=None if stage == Stage.AGENT_RUN else _identify_outer_pytest(),
            )
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """The environment variable that a command needs to find the mailbox."""
        return {SUPERVISOR_VARIABLE: f"{os.getpid()}:{self.path}"}

    def collect(self) -> None:
        """Read what pytest has answered and sent; the command has ended."""
        answer = read_message(self.path)
        if "run_id" not in answer:
            return
        self.run_id = str(answer["run_id"])
        self.report = answer["report"] or ""
        with suppress(ValueError, RecursionError):  # a test may have written it
            self.faces = RECORD.decode(Faces, json.loads(answer.get("faces") or "{}"))
        self.is_of_child = answer.get("claimed_by") == _CHILD
        self.replaced = max(0, _count(answer, "runs") - 1)
        self.later = _count(answer, "later")
        if self._socket is None:
            return
        import socket

        with suppress(OSError):
            while True:  # a process may have had several runs, one after the other
                words, descriptors, _, _ = socket.recv_fds(self._socket, 64, 8)
                self._receive(words.decode("ascii", "replace"), descriptors)

    def _receive(self, words: str, descriptors: Sequence[int]) -> None:
        """Read what was sent, and close the descriptors."""
        sender, is_left, letters = words.partition(":")
        if is_left and sender == self.run_id:
            padded = letters.ljust(len(descriptors))
            self.left = read_left(zip(padded, descriptors, strict=False))
            return
        # Unbuffered: a test may have sent one, and opening that must not read from it.
        files = [
            open(number, "rb", buffering=0)  # noqa: SIM115
            for number in descriptors
        ]
        contents = []
        for file in files:
            with file:
                file.seek(0)
                content = read_descriptor(file.fileno(), layout.MAX_EVENTS_BYTES)
                contents.append(content)
        if not is_left and sender == self.run_id:
            self.record = contents

    def close(self) -> None:
        """Remove the mailbox."""
        self._opened.close()

    def _open_inbox(self, folder: Path | None) -> str:
        import socket

        self._socket = inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._opened.callback(inbox.close)
        inbox.settimeout(0)
        path = (folder or _make_folder()) / _INBOX
        try:
            with _short_address(path) as address:
                inbox.bind(address)
            if folder is not None:
                return str(path)
            # The socket needs a name only until it is open.
            return str(
                self._expose_descriptor(os.open(path, os.O_PATH | os.O_NOFOLLOW))
            )
        finally:
            if folder is None:
                _remove_folder(path.parent)

    def _expose_descriptor(self, descriptor: int) -> Path:
        """Keep a descriptor open; return a path by which other processes open it."""
        self._opened.callback(os.close, descriptor)
        return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _make_folder() -> Path:
    import tempfile  # here, because each supervised pytest loads this module

    return Path(tempfile.mkdtemp(prefix=_FOLDER))


def _remove_folder(folder: Path) -> None:
    """Remove the folder of a mailbox with its two files."""
    for name in (_MESSAGE, _INBOX):
        with suppress(OSError):
            os.unlink(folder / name)
    with suppress(OSError):
        os.rmdir(folder)


def _send(inbox: str, words: str, descriptors: Sequence[int]) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0)
        with _short_address(Path(inbox)) as address:
            sender.connect(address)
        socket.send_fds(sender, [words.encode()], list(descriptors))


@contextmanager
def _short_address(path: Path) -> Iterator[str]:
    """Yield the address of a socket, limited to 107 bytes; paths can be longer."""
    if len(os.fsencode(path)) < _ADDRESS_BYTES or not os.path.isdir("/proc/self/fd"):
        yield str(path)
        return
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    with closing_descriptor(opened) as folder:
        yield f"/proc/self/fd/{folder}/{path.name}"
