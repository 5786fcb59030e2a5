"""Run the test suites of other projects, each run at a home of its own; what their scripts share.

It needs nothing but Python: the one that runs a script has what the projects need.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

LIMIT_SECONDS: Final = 900.0
_OF_THIS_RUN: Final = ("PYTEST_", "XDG_")


def own_environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a run that finds nothing that another one has left at home.

    Args:
        home: a folder that is made here; it is the caller's to remove.
        variables: further ones.
    """
    home.mkdir(parents=True)
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(_OF_THIS_RUN)
    }
    # The packages that are installed in the real one stay.
    return {
        **kept,
        "HOME": str(home),
        "PYTHONUSERBASE": site.getuserbase(),
        **variables,
    }


def run(command: Sequence[str], place: Path, variables: Mapping[str, str]) -> str:
    """Run a command in a folder; return what it printed."""
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "took too long"
    return done.stdout.decode("utf-8", "replace")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
