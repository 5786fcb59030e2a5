"""`failure-taxonomy prove` for a server that shows its progress, and that it doesn't outlive."""

import sys
from typing import Final

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.prove.progress import Progress
from pytest_failure_taxonomy.system.process import die_with_parent

PROGRESS: Final = "progress: "
"""Begins a line that is no part of the answer."""

if __name__ == "__main__":
    die_with_parent()
    Progress.indent, Progress.pause_of_lines = PROGRESS, 1.0
    sys.exit(main())
