"""Run a command without a network: `python without_network.py COMMAND…`, on Linux.

The command has a network namespace of its own, where there is nothing but the loopback.
It needs the right to make one: as root, or where users may have namespaces. The user
stays the same one.

It is run by its path, in an interpreter of its own, and imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from typing import Final

_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1


def leave_network() -> None:
    """Give this process a network of its own, with the loopback alone.

    Raises:
        OSError: it isn't allowed to.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWNET) != 0:
        # Who isn't root may do it in a user namespace, where it has that right.
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        own = {
            "setgroups": "deny",
            "uid_map": f"{user} {user} 1",
            "gid_map": f"{group} {group} 1",
        }
        for name, text in own.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


if __name__ == "__main__":
    leave_network()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - it is what this is for
