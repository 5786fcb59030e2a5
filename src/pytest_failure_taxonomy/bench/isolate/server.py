"""The program of a process that runs cases: `python server.py SOCKET RUBRIC`.

It is run by its path, and imports its neighbours under a private package name, so that they can't
clash with modules of a rubric. Python does not cache the bytecode of this file, so it is short.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Serve on the socket that the first argument names; for `-`, run one case from stdin."""
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path[0] == folder:
        del sys.path[0]
    package = type(sys)("_isolated")
    package.__path__ = [folder]
    sys.modules["_isolated"] = package
    # Our own bytecode may be cached, but not the rubric's: its folder is the user's.
    forbidden, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    serving = __import__("_isolated.serving", fromlist=["serve"])
    sys.dont_write_bytecode = forbidden
    if sys.argv[1] == "-":
        serving.run_one()
    else:
        serving.serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
