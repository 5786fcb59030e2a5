"""Read, write and remove only what is ours, in folders that others may write to.

Anybody may put a link, a pipe or a folder of their own in the place of what we made. So a folder is
opened once, without following a link, and what is in it is reached by that descriptor; a file is
read where it is a regular one of the folder's owner, up to a cap; and nothing is removed but names
that we make. Systems without such descriptors look at each path right before they use it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

# Bound here, because a test may replace them in their module and never put them back.
from os import close, fdopen, fstat, lstat, mkdir, replace, rmdir, unlink, urandom
from os import open as open_descriptor
from os import read as read_bytes
from os import scandir as scan
from os import stat as status_of
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_HAS_DESCRIPTORS: Final = (
    {os.open, os.stat, os.mkdir, os.rename, os.rmdir, os.unlink} <= os.supports_dir_fd
    and {os.listdir, os.scandir} <= os.supports_fd
    and hasattr(os, "O_DIRECTORY")
)
CAREFUL: Final = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
"""Follow no link, wait for nobody at a pipe, and give no device its effect."""
READ: Final = os.O_RDONLY | CAREFUL
"""How a file is opened that may be anything."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFUL
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CAREFUL

_REPARSE_POINT: Final = 0x400
"""Windows' attribute of its links, junctions among them."""
_PIECE_BYTES: Final = 1 << 20
MAX_NAMES: Final = 100_000
"""Names of one folder that are looked at."""

Identity = tuple[int, int]
"""Device and inode of a file or folder."""


def identity_of(status: os.stat_result) -> Identity:
    """Return what tells a file from all others on this machine while it exists."""
    return status.st_dev, status.st_ino


def read_file(path: str | Path, max_bytes: int) -> bytes:
    """Return what a regular file holds, up to a cap.

    Raises:
        OSError: there is none, it can't be read, or it is a link, a pipe, a device or a folder.
    """
    _refuse_special(lstat(path), path)
    descriptor = open_descriptor(path, READ)
    try:
        return read_descriptor(descriptor, max_bytes)
    finally:
        close(descriptor)


def read_descriptor(descriptor: int, max_bytes: int) -> bytes:
    """Return what a regular file holds from its descriptor's position on, up to a cap.

    Raises:
        OSError: it can't be read, or is no regular file.
    """
    _refuse_special(fstat(descriptor), "")
    pieces = []
    while max_bytes > 0 and (piece := read_bytes(descriptor, min(max_bytes, _PIECE_BYTES))):
        pieces.append(piece)
        max_bytes -= len(piece)
    return b"".join(pieces)


def open_shared(path: Path, *, make: bool) -> int:
    """Return a descriptor to read and write a regular file that others may share.

    Where it is there it is not opened as one to be made: in folders such as `/tmp` Linux refuses
    that for another user's file even to root.

    Raises:
        OSError: there is none and none was to be made, it is no regular file, or can't be opened.
    """
    while True:
        try:
            _refuse_special(lstat(path), path)
            descriptor = open_descriptor(path, os.O_RDWR | CAREFUL)
        except FileNotFoundError:
            if not make:
                raise
            try:
                return open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFUL, 0o666)
            except FileExistsError:
                continue  # another process was quicker
        try:
            _refuse_special(fstat(descriptor), path)
        except OSError:
            close(descriptor)
            raise
        return descriptor


def write_file(path: Path, fill: Callable[[int | None, str], None]) -> None:
    """Replace a file at once by a new one that a function makes beside it.

    The folder is opened once, so that nobody can put another one in its place in between, and the
    new file's name can't be foreseen.

    Args:
        path: what is replaced.
        fill: called with the folder's descriptor, `None` on a system that has none for folders, and
            the name of the new file below it, or its path; it makes the file.

    Raises:
        OSError: as `fill` does, or the file can't be moved; nothing is left of the new one then.
    """
    # Fifty characters are two hundred bytes at most, and a name may have 255.
    name = f".{path.name[:50]}.{urandom(8).hex()}.tmp"
    with _descriptor_of(path.parent) as folder:
        temporary = name if folder is not None else str(path.with_name(name))
        try:
            fill(folder, temporary)
            target = path if folder is None else Path(path.name)
            replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                unlink(temporary, dir_fd=folder)
            raise


def write_new(name: str | Path, content: bytes, *, dir_fd: int | None = None) -> None:
    """Make a file that is not there yet, with the mode that `open()` would give it.

    Raises:
        OSError: there is something of that name, a link included, or it can't be written.
    """
    with fdopen(open_descriptor(name, _NEW, 0o666, dir_fd=dir_fd), "wb") as file:
        file.write(content)


@contextmanager
def _descriptor_of(folder: Path) -> Iterator[int | None]:
    """Yield a descriptor of a folder that the user has named: a link to it is theirs."""
    if not _HAS_DESCRIPTORS:
        yield None
        return
    descriptor = open_descriptor(folder, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        yield descriptor
    finally:
        close(descriptor)


class Folder:
    """A folder of ours that is open: whatever is put in its place, this is the one that it was."""

    def __init__(self, path: Path, descriptor: int | None, status: os.stat_result) -> None:
        """Take over a descriptor; `open_folder` and `make_folder` are how to get one."""
        self.path = path
        self.identity = identity_of(status)
        self.is_new = False
        """It was not there before `make_folder`."""
        self._owner = status.st_uid
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self._descriptor is not None:
            with suppress(OSError):
                close(self._descriptor)
            self._descriptor = None

    def names(self) -> list[str]:
        """Return the names in the folder, sorted; no more than `MAX_NAMES`.

        Raises:
            OSError: they can't be read.
        """
        with scan(self._descriptor if self._descriptor is not None else self._checked()) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_NAMES))

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Return a descriptor of a regular file in the folder that has the folder's owner.

        Raises:
            OSError: there is none such, or it can't be opened.
        """
        where, at = self._at(name)
        with suppress(FileNotFoundError):
            _refuse_special(status_of(where, dir_fd=at, follow_symlinks=False), name)
        descriptor = open_descriptor(where, flags | CAREFUL, mode, dir_fd=at)
        try:
            status = fstat(descriptor)
            _refuse_special(status, name)
            if status.st_uid != self._owner:
                raise PermissionError(errno.EPERM, "belongs to another user", name)
        except BaseException:
            close(descriptor)
            raise
        return descriptor

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return what a file in the folder holds, up to a cap.

        Raises:
            OSError: as `open_file` does, or it can't be read.
        """
        descriptor = self.open_file(name, os.O_RDONLY)
        try:
            return read_descriptor(descriptor, max_bytes)
        finally:
            close(descriptor)

    def open_folder(self, name: str) -> Folder:
        """Return a folder in this one that has its owner.

        Raises:
            OSError: there is none such.
        """
        where, at = self._at(name)
        return _open(self.path / name, where, at, owner=self._owner)

    def unlink(self, name: str) -> None:
        """Remove a file, or a link but not what it points to.

        Raises:
            OSError: there is none, or it can't be removed.
        """
        where, at = self._at(name)
        unlink(where, dir_fd=at)

    def move(self, name: str, target: str, *, dir_fd: int | None) -> None:
        """Move a file out of the folder.

        Raises:
            OSError: there is none, or it can't be moved.
        """
        where, at = self._at(name)
        replace(where, target, src_dir_fd=at, dst_dir_fd=dir_fd)

    def rmdir(self) -> None:
        """Remove the folder if it is empty and still in its place.

        Raises:
            OSError: it is not, or another one is in its place.
        """
        with _descriptor_of(self.path.parent) as parent:
            where = self.path if parent is None else Path(self.path.name)
            status = status_of(where, dir_fd=parent, follow_symlinks=False)
            if identity_of(status) != self.identity:
                raise _not_ours(self.path)
            rmdir(where, dir_fd=parent)

    def _at(self, name: str) -> tuple[str, int | None]:
        """Return a name and the descriptor that it is relative to; a path where there is none."""
        if self._descriptor is not None:
            return name, self._descriptor
        return str(self._checked() / name), None

    def _checked(self) -> Path:
        if identity_of(lstat(self.path)) != self.identity:
            raise _not_ours(self.path)
        return self.path


def open_folder(path: Path, identity: Identity | None = None) -> Folder:
    """Open a folder that is this user's; root may open another's, to complete what they left.

    Args:
        path: of the folder; its last part is no link.
        identity: what it was when it was made, where that is known.

    Raises:
        OSError: there is no folder, it is a link, another user's, or not the one it was.
    """
    is_any = identity is not None or _user() == 0
    folder = _open(path, path, None, owner=None if is_any else _user())
    if identity is not None and folder.identity != identity:
        folder.close()
        raise _not_ours(path)
    return folder


def make_folder(path: Path) -> Folder:
    """Make a folder that this user alone can enter, with those above it, and open it.

    Raises:
        OSError: it can't be made, or what is there is no folder of this user's.
    """
    with suppress(FileExistsError):  # a file is in the way, which the next call says
        path.parent.mkdir(parents=True, exist_ok=True)
    owner: int | None = _user()
    with suppress(FileExistsError):
        mkdir(path, 0o700)
        # Some file systems give all that is made to one user. Where it isn't ours, but another's in
        # its place, no file that we make in it has its owner, and `open_file` refuses it.
        owner = None
    folder = _open(path, path, None, owner=owner, is_private=True)
    folder.is_new = owner is None
    return folder


def _open(
    path: Path,
    where: str | Path,
    at: int | None,
    *,
    owner: int | None,
    is_private: bool = False,
) -> Folder:
    status = status_of(where, dir_fd=at, follow_symlinks=False)
    is_link = getattr(status, "st_file_attributes", 0) & _REPARSE_POINT
    if stat.S_ISLNK(status.st_mode) or is_link:
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))
    if not _HAS_DESCRIPTORS:
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return Folder(path, None, status)
    descriptor = open_descriptor(where, _FOLDER, dir_fd=at)
    try:
        status = fstat(descriptor)
        if owner not in (None, status.st_uid):
            raise PermissionError(errno.EPERM, "belongs to another user", str(path))
        if is_private and status.st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
    except BaseException:
        close(descriptor)
        raise
    return Folder(path, descriptor, status)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _refuse_special(status: os.stat_result, path: str | Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))


def reason_of(error: OSError) -> str:
    """Return what is wrong with a folder, in words that follow its name."""
    words = error.strerror or str(error)
    return words if words.startswith(("is ", "belongs ")) else f"can't be used ({words})"


def _not_ours(path: Path) -> OSError:
    return FileExistsError(errno.EEXIST, "is not the one that was made there", str(path))


def move_high(descriptor: int) -> int:
    """Give a descriptor a high number, which no program expects to get."""
    try:
        import fcntl
        import resource
    except ImportError:  # Windows
        return descriptor
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for lowest in _high_numbers(soft):
        with suppress(OSError):
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
            close(descriptor)
            return high
    return descriptor


def _high_numbers(limit: int) -> Iterator[int]:
    end = min(limit, 1 << 16) if limit > 0 else 1 << 16
    yield from (end - 16, end // 2)
