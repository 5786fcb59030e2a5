"""Run the package and its tests as on another system, by hiding what Windows or macOS lack.

It is hidden from the package and from its tests alone: pytest and the standard library find
everything, as their own versions for those systems would. A module of ours that imports `os`, say,
gets one without `os.fork`, and `fcntl` can't be imported at all. What can't be had in this way:
files that can't be removed while they are open, drive letters, real consoles.

`python -m pytest --as-on=windows` runs the suite so. This file is loaded by `sitecustomize` in each
Python that such a run starts, so it imports little.
"""

from __future__ import annotations

import builtins
import errno
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

SYSTEMS: Final = ("windows", "macos")

_HIDDEN_FROM: Final = ("pytest_failure_taxonomy", "tests")
_SYSTEM: Final = "TESTS_RUN_AS_ON"
"""The environment variable that names the system."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WINDOWS_OS: Final = _words("""
    DirEntry F_OK O_APPEND O_CREAT O_EXCL O_RDONLY O_RDWR O_TRUNC O_WRONLY P_DETACH P_NOWAIT
    P_NOWAITO P_OVERLAY P_WAIT PathLike R_OK SEEK_CUR SEEK_END SEEK_SET W_OK X_OK abort access
    altsep chdir chmod close closerange cpu_count curdir defpath device_encoding devnull dup dup2
    environ error execl execle execlp execlpe execv execve execvp execvpe extsep fdopen fsdecode
    fsencode fspath fstat fsync ftruncate get_exec_path get_inheritable get_terminal_size getcwd
    getcwdb getenv getlogin getpid getppid isatty kill linesep link listdir lseek lstat makedirs
    mkdir name open pardir path pathsep pipe popen putenv read readlink remove removedirs rename
    renames replace rmdir scandir sep set_inheritable spawnl spawnle spawnv spawnve stat
    stat_result statvfs_result strerror supports_bytes_environ supports_dir_fd
    supports_effective_ids supports_fd supports_follow_symlinks symlink system terminal_size times
    times_result truncate umask unlink unsetenv urandom utime waitpid waitstatus_to_exitcode walk
    write
    """)
"""All that `os` has on Windows, Python 3.11."""
_WINDOWS_SIGNAL: Final = _words("""
    Handlers NSIG SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIG_DFL SIG_IGN Signals
    default_int_handler getsignal raise_signal set_wakeup_fd signal strsignal valid_signals
    """)
_MACOS_LACKS: Final[Mapping[str, frozenset[str]]] = {
    "os": _words(
        "O_PATH O_TMPFILE copy_file_range eventfd fdatasync memfd_create pidfd_open pipe2 "
        "posix_fallocate posix_fadvise sched_getaffinity setns setresuid splice unshare "
        "waitid"
    ),
    "signal": _words(
        "SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo"
    ),
    "select": _words("EPOLLIN epoll"),
    "time": _words("CLOCK_BOOTTIME"),
}
_WINDOWS_LACKS: Final[Mapping[str, frozenset[str]]] = {
    "select": _words("EPOLLIN POLLIN POLLOUT epoll poll"),
    "socket": _words("AF_UNIX CMSG_LEN SCM_RIGHTS recv_fds send_fds"),
    "time": _words("CLOCK_BOOTTIME CLOCK_MONOTONIC clock_gettime tzset"),
    "faulthandler": _words("register unregister"),
}
_WINDOWS_HAS: Final[Mapping[str, frozenset[str]]] = {
    "os": _WINDOWS_OS,
    "signal": _WINDOWS_SIGNAL,
}
_NOT_ON_WINDOWS: Final = _words("fcntl grp posix pty pwd resource syslog termios tty")


def environment_of(system: str, folder: Path) -> dict[str, str]:
    """Return what makes each Python of a run take itself to be on that system.

    Args:
        system: one of `SYSTEMS`.
        folder: where to put the module that does it.
    """
    place = folder / f"as-on-{system}"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        f"import runpy\nrunpy.run_path({__file__!r})['install']({system!r})\n", "utf-8"
    )
    path = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": f"{place}{os.pathsep}{path}" if path else str(place),
        _SYSTEM: system,
    }


def pretended_system() -> str | None:
    """Return which of `SYSTEMS` this process takes itself to be on; `None` if the true one."""
    return os.environ.get(_SYSTEM)


def install(system: str) -> None:
    """Hide from the package and its tests what a system lacks."""
    import faulthandler
    import select
    import signal
    import socket
    import time

    is_windows = system == "windows"
    own: dict[str, dict[str, Any]] = {
        "sys": {"platform": "win32" if is_windows else "darwin"},
        "os": _windows_os() if is_windows else {},
        "ctypes": {},
    }
    shown: dict[str, types.ModuleType] = {}
    for module in (sys, os, signal, select, socket, time, faulthandler):
        name = module.__name__
        lacks = (_WINDOWS_LACKS if is_windows else _MACOS_LACKS).get(name, frozenset())
        has = _WINDOWS_HAS.get(name) if is_windows else None
        shown[name] = _shown_part(module, own.get(name, {}), lacks, has)
    if is_windows:
        shown["ctypes"] = _windows_ctypes()
    _hide_proc()
    _replace_imports(shown, _NOT_ON_WINDOWS if is_windows else frozenset())


def _shown_part(
    module: types.ModuleType,
    own: dict[str, Any],
    lacks: frozenset[str],
    has: frozenset[str] | None,
) -> types.ModuleType:
    """Return what is to be seen of a module; what a test patches there is patched for everybody."""

    def is_hidden(name: str) -> bool:
        return name in lacks or (
            has is not None and name not in has and not name.startswith("_")
        )

    class Shown(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in own:
                return own[name]
            if is_hidden(name):
                raise AttributeError(
                    f"module {module.__name__!r} has no attribute {name!r}"
                )
            return getattr(module, name)

        def __setattr__(self, name: str, value: object) -> None:
            if name in own:
                own[name] = value
            else:
                setattr(module, name, value)

        def __delattr__(self, name: str) -> None:
            if name in own:
                del own[name]
            else:
                delattr(module, name)

        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # pytest's monkeypatch asks it
            seen = {
                name: each for name, each in vars(module).items() if not is_hidden(name)
            }
            return {**seen, **own}

    return Shown(module.__name__)


def _windows_os() -> dict[str, Any]:
    def without_folder(call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **named: Any) -> Any:
            if any(
                named.get(each) is not None
                for each in ("dir_fd", "src_dir_fd", "dst_dir_fd")
            ):
                raise NotImplementedError("dir_fd unavailable on this platform")
            return call(*args, **named)

        return checked

    def open_file(path: Any, flags: int, *args: Any, **named: Any) -> int:
        if isinstance(path, str | bytes | os.PathLike) and os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return int(without_folder(os.open)(path, flags, *args, **named))

    def kill(process_id: int, number: int) -> None:
        if number == 0:
            raise AssertionError("os.kill(process, 0) is a Ctrl+C on Windows")
        os.kill(process_id, number)

    names = "access link lstat mkdir readlink remove rename replace rmdir stat symlink unlink utime"
    return {
        "name": "nt",
        "open": open_file,
        "kill": kill,
        "supports_dir_fd": frozenset(),
        "supports_follow_symlinks": frozenset(),
        **{name: without_folder(getattr(os, name)) for name in names.split()},
    }


def _windows_ctypes() -> types.ModuleType:
    """Return as much of `ctypes` as Windows is asked by."""
    processes = os.open("/proc", os.O_RDONLY)  # as long as it is to be seen

    def open_process(_access: int, _inherit: bool, process_id: int) -> int:
        try:
            os.kill(process_id, 0)
        except OSError:
            return 0
        return process_id

    def wait_for_single_object(handle: int, _milliseconds: int) -> int:
        with open(
            os.open(f"{handle}/stat", os.O_RDONLY, dir_fd=processes), "rb"
        ) as file:
            has_ended = file.read().rpartition(b") ")[2].split()[0] in b"ZX"
        return 0 if has_ended else 0x102

    kernel = types.SimpleNamespace(
        OpenProcess=open_process,
        WaitForSingleObject=wait_for_single_object,
        CloseHandle=lambda _handle: 1,
    )
    module = types.ModuleType("ctypes")
    module.windll = types.SimpleNamespace(kernel32=kernel)  # type: ignore[attr-defined]  # Windows
    return module


def _hide_proc() -> None:
    """Have nobody find `/proc`, in whichever way it is asked for."""
    real_stat = os.stat

    def refuse_proc(path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = os.fsdecode(path)
            if name == "/proc" or name.startswith("/proc/"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            refuse_proc(args[0])

    def stat(path: Any, *args: Any, **named: Any) -> os.stat_result:
        refuse_proc(path)
        return real_stat(path, *args, **named)

    sys.addaudithook(hook)
    os.stat = stat


def _replace_imports(
    shown: Mapping[str, types.ModuleType], absent: frozenset[str]
) -> None:
    real = builtins.__import__

    def replaced(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as builtins has it
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - as builtins has it
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        module = real(name, globals, locals, fromlist, level)
        importer = str((globals or {}).get("__name__", ""))
        if level or importer.partition(".")[0] not in _HIDDEN_FROM:
            return module
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return shown.get(getattr(module, "__name__", ""), module)

    builtins.__import__ = replaced
