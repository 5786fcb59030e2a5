"""The two ways to begin: as a server, or for one case."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import NoReturn

from . import child, limits, wire
from .capture import capture
from .loading import load_target
from .serving import Server


def serve(descriptor: int) -> NoReturn:
    """Serve the client at the other end of a socket until it is gone."""
    limits.be_first_to_go()
    control = socket.socket(fileno=descriptor)
    head = control.recv(wire.REQUEST.size, socket.MSG_WAITALL)
    hello = json.loads(control.recv(wire.REQUEST.unpack(head)[-1], socket.MSG_WAITALL))
    server = Server(control, hello)
    try:
        if server.load():
            control.settimeout(0)
            server.serve()
    finally:
        server.close()
        # What the rubric wants to be done at exit is not waited for, nor are its threads.
        os._exit(0)


def run_one() -> NoReturn:
    """Run the one case that stdin brings, in this very process, and answer on stdout."""
    given = sys.stdin.buffer
    head = given.read(wire.REQUEST.size)
    hello = json.loads(given.read(wire.REQUEST.unpack(head)[-1]))
    body = given.read()
    output = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    verdict = child.Verdict(output, bytes(wire.TOKEN_BYTES), capture())
    try:
        if hello["target"]:
            child.run_system(verdict, load_target(hello["target"], hello["path"]), body)
        child.settle(f"{hello['folder']}/1")
        limits.limit_process(hello["memory_mb"], 0)
        child.grade(verdict, None, hello["rubric"], body)
    except BaseException as error:  # noqa: BLE001 - it is the case's result, whatever it is
        verdict.give(wire.RAISED, child.describe(error))
