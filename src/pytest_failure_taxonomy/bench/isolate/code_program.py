"""The program of a process that runs code: `python -P code_program.py`.

stdin has the source and, behind it, the token of the answer; stdout takes the answer,
stderr what the source prints. It is run by its path: Python does not cache its
bytecode, and each import costs every case, so it is short.
"""

from __future__ import annotations

import faulthandler
import marshal
import os
import sys

SOURCE_FILE = "<code>"
"""What tracebacks call the source."""
HEAD_BYTES = 4
TOKEN_BYTES = 16
_MAX_MESSAGE_CHARACTERS = 500
_SPARE_BYTES = 1 << 20
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


def main() -> None:
    """Run the source, and answer how it ended."""
    given, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    size = int.from_bytes(_read(given, HEAD_BYTES), "big")
    message = _read(given, size)
    parent, limits, source = marshal.loads(message)  # noqa: S302 - our parent wrote it
    _settle(parent, limits)
    # The source may replace any function, so those that answer are bound before it
    # runs. The token is still in the pipe: no variable of this process holds it.
    process_id, getpid, leave = os.getpid(), os.getpid, os._exit
    read, write = os.read, os.write

    def answer(words: str) -> None:
        for stream in (sys.stdout, sys.stderr):
            # The source may have replaced it, and `contextlib` takes long to import.
            try:  # noqa: SIM105 - as above
                stream.flush()
            except BaseException:  # noqa: BLE001, S110 - as above
                pass
        if getpid() == process_id:  # else it is a fork that the source has made
            write(answers, read(given, TOKEN_BYTES) + words.encode("utf-8", "replace"))
        leave(0)

    spare = bytearray(_SPARE_BYTES)  # to answer if there is no more memory
    module = sys.modules["__main__"] = type(sys)("__main__")
    sys.argv[:] = [SOURCE_FILE]
    try:
        code = compile(source, SOURCE_FILE, "exec", dont_inherit=True)
    except BaseException as error:  # noqa: BLE001 - a deep nesting raises others
        answer(f"syntax\n{getattr(error, 'lineno', 0) or 0}\n{_words_of(error)}")
    try:
        exec(code, vars(module))  # noqa: S102 - it is what this process is for
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        del spare
        answer(f"{_ending_of(error)}\n{_line_of(error)}\n{_words_of(error)}")
    answer("passed\n0\n")


def _read(source: int, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = os.read(source, size - len(received))
        if not data:
            os._exit(1)  # the parent is gone
        received += data
    return received


def _settle(parent: int, limits: tuple[tuple[int, tuple[int, int]], ...]) -> None:
    """Limit this process, and have it die with its parent."""
    faulthandler.enable()
    if limits:
        import resource

        for which, limit in limits:
            try:
                resource.setrlimit(which, limit)
            except (OSError, ValueError):  # a limit that this system does not have
                continue
    if sys.platform == "linux":
        try:
            import ctypes
        except ImportError:
            return
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _ending_of(error: BaseException) -> str:
    endings = {AssertionError: "assertion", MemoryError: "killed", SystemExit: "left"}
    for kind, ending in endings.items():
        if issubclass(type(error), kind):  # `isinstance` would ask the exception
            return ending
    return "exception"


def _line_of(error: BaseException) -> int:
    """Return the innermost line of the source in a traceback; 0 if there is none."""
    line, rest = 0, error.__traceback__
    while rest is not None:
        if rest.tb_frame.f_code.co_filename == SOURCE_FILE:
            line = rest.tb_lineno
        rest = rest.tb_next
    return line


def _words_of(error: BaseException) -> str:
    """Return the last line of a traceback."""
    name = type(error).__name__
    try:
        message = error.msg if type(error) is SyntaxError else str(error)
    except BaseException:  # noqa: BLE001 - `__str__` is the source's code
        message = ""
    message = message[:_MAX_MESSAGE_CHARACTERS]
    return f"{name}: {message}" if message else name


if __name__ == "__main__":
    main()
