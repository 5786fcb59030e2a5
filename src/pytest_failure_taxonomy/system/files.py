"""Read, write and remove only this package's own files, in folders that others may write to.

Anybody may replace such a file or folder by a link, a pipe or another folder. So a
folder is opened once, without following links, and its files are accessed by that
descriptor. A file is read only if it is a regular file of the folder's owner, and only
up to a maximum size. Systems without descriptors for folders check each path right
before they use it.

A journal is a file to which whole lines are appended, by one process or several. A
process may die at any time, and a disk fill up: then a line is torn, and the next one
has to begin anew.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Self

from pytest_failure_taxonomy.system.interpreter import isolate_module

os = isolate_module(os)

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
"""Don't follow links, wait at pipes, or trigger the effects of devices."""
READ: Final = os.O_RDONLY | CAREFUL
"""Flags to open a file for reading that may be of any type."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFUL
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CAREFUL

_REPARSE_POINT: Final = 0x400
"""Windows' attribute of its links, junctions among them."""
_PIECE_BYTES: Final = 1 << 20
_SPECIAL: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
MAX_NAMES: Final = 100_000
"""Names that are read of one folder."""

Identity = tuple[int, int]
"""Device and inode of a file or folder."""


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity of a file, which no other existing file on this machine has."""
    return status.st_dev, status.st_ino


def name_of_special_file(mode: int) -> str | None:
    """Return in words what a file is that is not an ordinary one; `None` for one that is."""
    if stat.S_ISREG(mode):
        return None
    return next((name for is_sort, name in _SPECIAL if is_sort(mode)), "a special file")


def read_file(path: str | Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file, up to a maximum size.

    Raises:
        OSError: if it can't be read, or is a link, a pipe, a device or a folder.
    """
    _refuse_special(os.lstat(path), path)
    return _read_and_close(os.open(path, READ), max_bytes)


def read_named_file(path: str | Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file that the user has named, which may be a link.

    It never waits: some files of `/proc` would, like a pipe.

    Raises:
        OSError: if it can't be read, or is a pipe, a device or a folder.
    """
    return _read_and_close(
        os.open(path, READ & ~getattr(os, "O_NOFOLLOW", 0)), max_bytes
    )


def read_descriptor(descriptor: int, max_bytes: int) -> bytes:
    """Return the contents of a regular file from the current position on, up to a maximum size.

    Raises:
        OSError: if it can't be read, or is not a regular file.
    """
    _refuse_special(os.fstat(descriptor), "")
    pieces = []
    while max_bytes > 0 and (
        piece := os.read(descriptor, min(max_bytes, _PIECE_BYTES))
    ):
        pieces.append(piece)
        max_bytes -= len(piece)
    return b"".join(pieces)


def _read_and_close(descriptor: int, max_bytes: int) -> bytes:
    with closing_descriptor(descriptor):
        return read_descriptor(descriptor, max_bytes)


def open_shared(path: Path, *, make: bool) -> int:
    """Return a descriptor to read and write a regular file that others may share.

    An existing file is opened without `O_CREAT`: in folders such as `/tmp` Linux
    refuses that for another user's file, even to root.

    Raises:
        OSError: if it can't be opened or created, is not a regular file, or `make` is
            false and it does not exist.
    """
    while True:
        try:
            _refuse_special(os.lstat(path), path)
            descriptor = os.open(path, os.O_RDWR | CAREFUL)
        except FileNotFoundError:
            if not make:
                raise
            try:
                return os.open(
                    path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFUL, 0o666
                )
            except FileExistsError:
                continue  # another process was quicker
        try:
            _refuse_special(os.fstat(descriptor), path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


def replace_file(
    path: Path, content: bytes, fill: Callable[[int | None, str], None] | None = None
) -> None:
    """Replace a file atomically by a new one that is created beside it.

    A reader sees the old file or the new one. The folder is opened once, so that nobody
    can replace it in between, and the name of the new file can't be predicted.

    Args:
        path: of the file.
        content: of the new one.
        fill: creates the new file, if not `write_new` is to do it. It is called with
            the descriptor of the folder and a name, or with `None` and a path on
            systems without descriptors for folders.

    Raises:
        OSError: if it can't be created or moved; the earlier file is as it was.
    """
    name = _temporary_name(path)
    with _descriptor_of(path.parent) as folder:
        temporary = name if folder is not None else str(path.with_name(name))
        try:
            if fill is None:
                write_new(temporary, content, dir_fd=folder)
            else:
                fill(folder, temporary)
            target = path if folder is None else Path(path.name)
            os.replace(
                temporary,
                target,
                src_dir_fd=folder,
                dst_dir_fd=folder,
            )
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def write_new(name: str | Path, content: bytes, *, dir_fd: int | None = None) -> None:
    """Create a new file, with the mode that `open()` would give it.

    Raises:
        OSError: if anything with that name exists, a link included, or it can't be
            written.
    """
    with os.fdopen(os.open(name, _NEW, 0o666, dir_fd=dir_fd), "wb") as file:
        file.write(content)


def create_file(path: Path, content: bytes) -> None:
    """Create a file with all of its content at once, unless there is one by now.

    On a file system without links, a process that does the same at the same time may
    replace it.

    Raises:
        OSError: if it can't be created.
    """
    temporary = path.with_name(_temporary_name(path))
    try:
        write_new(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:
            if not path.exists():
                os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _temporary_name(path: Path) -> str:
    # Fifty characters are two hundred bytes at most, and a name may have 255.
    return f".{path.name[:50]}.{os.urandom(8).hex()}.tmp"


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Yield a descriptor, and close it."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _descriptor_of(folder: Path) -> Iterator[int | None]:
    """Yield a descriptor of a folder that the user has named, which may be a link."""
    if not _HAS_DESCRIPTORS:
        yield None
        return
    descriptor = os.open(folder, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Folder:
    """An open folder; it stays the same one even if its path is replaced."""

    def __init__(
        self, path: Path, descriptor: int | None, status: os.stat_result
    ) -> None:
        """Take ownership of a descriptor. Use `open_folder` or `make_folder` instead."""
        self.path = path
        self.identity = identity_of(status)
        self.is_new = False
        """Whether `make_folder` has created it."""
        self._owner = status.st_uid
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def names(self) -> list[str]:
        """Return up to `MAX_NAMES` names of the folder, sorted.

        Raises:
            OSError: if they can't be read.
        """
        where = self._checked() if self._descriptor is None else self._descriptor
        with os.scandir(where) as entries:
            return sorted([entry.name for entry in islice(entries, MAX_NAMES)])

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file of the folder's owner, and return its descriptor.

        Raises:
            OSError: if it can't be opened, is not a regular file, or has another owner.
        """
        where, at = self._at(name)
        with suppress(FileNotFoundError):
            _refuse_special(
                os.stat(
                    where,
                    dir_fd=at,
                    follow_symlinks=False,
                ),
                name,
            )
        descriptor = os.open(where, flags | CAREFUL, mode, dir_fd=at)
        try:
            status = os.fstat(descriptor)
            _refuse_special(status, name)
            if status.st_uid != self._owner:
                raise PermissionError(errno.EPERM, "belongs to another user", name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the contents of a file, up to a maximum size.

        Raises:
            OSError: as `open_file` does, or if it can't be read.
        """
        return _read_and_close(self.open_file(name, os.O_RDONLY), max_bytes)

    def open_folder(self, name: str) -> Folder:
        """Open a folder in this one that has the same owner.

        Raises:
            OSError: if it can't be opened, is a link, or has another owner.
        """
        where, at = self._at(name)
        return _open(self.path / name, where, at, owner=self._owner)

    def unlink(self, name: str) -> None:
        """Remove a file; of a link only the link itself.

        Raises:
            OSError: if it can't be removed.
        """
        where, at = self._at(name)
        os.unlink(where, dir_fd=at)

    def move(self, name: str, target: str, *, dir_fd: int | None) -> None:
        """Move a file out of the folder.

        Raises:
            OSError: if it can't be moved.
        """
        where, at = self._at(name)
        os.replace(
            where,
            target,
            src_dir_fd=at,
            dst_dir_fd=dir_fd,
        )

    def rename(self, name: str, target: str) -> None:
        """Give a file another name in the folder, and replace what has that name.

        Raises:
            OSError: if it can't be renamed.
        """
        where, at = self._at(name)
        os.replace(
            where,
            self._at(target)[0],
            src_dir_fd=at,
            dst_dir_fd=at,
        )

    def rmdir(self) -> None:
        """Remove the folder.

        Raises:
            OSError: if it is not empty, or another one is in its place.
        """
        with _descriptor_of(self.path.parent) as parent:
            where = self.path if parent is None else Path(self.path.name)
            status = os.stat(
                where,
                dir_fd=parent,
                follow_symlinks=False,
            )
            if identity_of(status) != self.identity:
                raise _not_ours(self.path)
            os.rmdir(where, dir_fd=parent)

    def _at(self, name: str) -> tuple[str, int | None]:
        """Return a name and the descriptor it is relative to, or a path and `None`."""
        if self._descriptor is not None:
            return name, self._descriptor
        return str(self._checked() / name), None

    def _checked(self) -> Path:
        if identity_of(os.lstat(self.path)) != self.identity:
            raise _not_ours(self.path)
        return self.path


def open_folder(path: Path, identity: Identity | None = None) -> Folder:
    """Open a folder of this user. Root may open those of others, to complete their reports.

    Args:
        path: of the folder; its last part must not be a link.
        identity: that the folder must have, if it is known.

    Raises:
        OSError: if it can't be opened, is a link, has another owner or another
            identity.
    """
    is_any = identity is not None or _user() == 0
    folder = _open(path, path, None, owner=None if is_any else _user())
    if identity is not None and folder.identity != identity:
        with folder:
            raise _not_ours(path)
    return folder


def make_folder(path: Path) -> Folder:
    """Create a folder that only this user can enter, with its parents, and open it.

    Raises:
        OSError: if it can't be created, or exists and is not a folder of this user.
    """
    with suppress(
        FileExistsError
    ):  # a parent is a file: the next call raises NotADirectoryError
        path.parent.mkdir(parents=True, exist_ok=True)
    owner: int | None = _user()
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        # Some file systems give all new files to one user, so the owner is not checked
        # here. If somebody has replaced the folder, `open_file` raises, because the
        # owners differ.
        owner = None
    folder = _open(
        path,
        path,
        None,
        owner=owner,
        is_private=True,
    )
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
    status = os.stat(
        where,
        dir_fd=at,
        follow_symlinks=False,
    )
    is_link = getattr(status, "st_file_attributes", 0) & _REPARSE_POINT
    if stat.S_ISLNK(status.st_mode) or is_link:
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))
    if not _HAS_DESCRIPTORS:
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(
                errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)
            )
        return Folder(path, None, status)
    descriptor = os.open(where, _FOLDER, dir_fd=at)
    try:
        status = os.fstat(descriptor)
        if owner not in (None, status.st_uid):
            raise PermissionError(errno.EPERM, "belongs to another user", str(path))
        if is_private and status.st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
    except BaseException:
        os.close(descriptor)
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
    """Return what is wrong with a folder, as a phrase to follow its name."""
    words = error.strerror or str(error)
    return (
        words if words.startswith(("is ", "belongs ")) else f"can't be used ({words})"
    )


def _not_ours(path: Path) -> OSError:
    return FileExistsError(
        errno.EEXIST, "is not the one that was made there", str(path)
    )


def move_high(descriptor: int) -> int:
    """Give a descriptor a high number, which no program expects to get."""
    try:
        import fcntl
        import resource
    except ImportError:  # Windows
        return descriptor
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    end = min(limit, 1 << 16) if limit > 0 else 1 << 16
    for lowest in (end - 16, end // 2):
        with suppress(OSError):
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
            os.close(descriptor)
            return high
    return descriptor


class KeptDescriptor:
    """A descriptor that is kept open while tests run.

    It has a number so high that programs don't get it. A test may close it nevertheless
    and open a file of its own under that number: ask `is_open` before it is used.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor."""
        self.descriptor = move_high(descriptor)
        self.identity = identity_of(os.fstat(self.descriptor))

    def is_open(self) -> bool:
        """Tell whether the descriptor is still that of the file."""
        try:
            return identity_of(os.fstat(self.descriptor)) == self.identity
        except OSError:
            return False

    def close(self) -> None:
        """Close the descriptor, unless it is another file's by now."""
        if self.is_open():
            with suppress(OSError):
                os.close(self.descriptor)
        self.descriptor = -1


class Journal(KeptDescriptor):
    """The end of a file that was opened with `O_APPEND`, to which this process appends."""

    _is_torn = False
    _size = 0
    """How many bytes this process has appended."""

    def append(self, lines: bytes) -> None:
        """Append whole lines, by one system call where the disk has room for them.

        Raises:
            OSError: they could not be written, or only the beginning of them.
        """
        rest = b"\n" + lines if self._is_torn else lines
        while rest:
            written = os.write(self.descriptor, rest)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]
            self._size += written
            self._is_torn = bool(rest)

    def is_cut(self) -> bool:
        """Tell whether the file has become shorter than what was appended."""
        return os.lseek(self.descriptor, 0, os.SEEK_END) < self._size

    def clear(self) -> None:
        """Remove all lines."""
        os.ftruncate(self.descriptor, 0)
        self._size = 0

    def end_line(self) -> None:
        """End a last line that another process, which is gone, may have torn.

        The descriptor has to be open for reading, too.

        Raises:
            OSError: the file can't be read or written.
        """
        size = os.lseek(self.descriptor, 0, os.SEEK_END)
        if size:
            os.lseek(self.descriptor, size - 1, os.SEEK_SET)
            self._is_torn = os.read(self.descriptor, 1) != b"\n"


def whole_lines(file: BinaryIO, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield each line from an offset on, and the offset at which it begins.

    One at a time: a hostile file may have more than fit into memory. A last line
    without an end is left out: it is torn, or still being written.
    """
    file.seek(offset)
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield offset, line
        offset += len(line)
