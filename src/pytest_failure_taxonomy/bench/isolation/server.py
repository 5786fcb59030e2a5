"""The program of a process that runs rubrics: `python server.py SOCKET RUBRIC`.

It is run by its path and imports nothing of the package that it is part of.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Serve on the socket of the first argument; without one (`-`), run one case from stdin."""
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path[0] == folder:
        del sys.path[0]
    package = type(sys)("_isolated")
    package.__path__ = [folder]
    sys.modules["_isolated"] = package
    # Only what the rubric compiles is not to be kept: its folder is the user's.
    forbidden, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    entry = __import__("_isolated.entry", fromlist=["serve"])
    sys.dont_write_bytecode = forbidden
    if sys.argv[1] == "-":
        entry.run_one()
    else:
        entry.serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
