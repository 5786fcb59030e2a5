"""Put into a file's place what is no file, or none to be read: links, FIFOs, devices, rubbish."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

CANARY: Final = b"do not touch\n"
"""What the target of each link holds, before and after."""


def canary(path: Path) -> Path:
    """Return the file beside a path that links lead to; it holds `CANARY`."""
    target = path.with_name(f"{path.name}.target")
    if not target.exists():
        target.write_bytes(CANARY)
    return target


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:  # 107 characters are the most that an address may have
        with closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 36)


HOSTILE_FILES: Final[dict[str, Callable[[Path], object]]] = {
    "nothing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "rubbish": lambda path: path.write_bytes(b"\x00\xff\xfe\x80" * 300),
    "an-empty-object": lambda path: path.write_bytes(b"{}"),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "64-gib-of-nothing": _sparse,
    "folder": Path.mkdir,
    "fifo": lambda path: os.mkfifo(path),  # noqa: PLW0108 - Windows has none to be named here
    "socket": _socket,
    "link-to-itself": lambda path: path.symlink_to(path.name),
    "link-to-nothing": lambda path: path.symlink_to("there-is-none"),
    "link-to-a-file": lambda path: path.symlink_to(canary(path).name),
    "link-to-a-folder": lambda path: path.symlink_to("/etc"),
    "link-to-a-device": lambda path: path.symlink_to("/dev/zero"),
    "link-to-what-would-wait": lambda path: path.symlink_to("/proc/kmsg"),
    "link-to-a-tty": lambda path: path.symlink_to("/dev/tty"),
}
"""What makes each sort at a path where there is nothing yet."""
