"""What the user has to agree to before the pytest of a report runs: anybody may have written it.

Without that, a report has us do no more than `pytest` does in the current folder: run tests of the
project, by options that neither load code nor name a file elsewhere. Nothing in a report shows who
has written it, so only this decides.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_failure_taxonomy.prove.experiment import Setup
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.survive.machine import describe_environment
from pytest_failure_taxonomy.taxonomy import packaged_table


def doubts_about(report: FailureReport, setup: Setup) -> list[str]:
    """Return in words what needs consent; nothing for an ordinary run of this machine.

    Args:
        report: of a run.
        setup: how its pytest would be run.
    """
    rootdir, platform = report.run.invocation.rootdir, report.environment.platform
    doubts = []
    is_here = setup.folder.resolve().is_relative_to(Path.cwd())
    # It is another one if that of the report is gone.
    if not is_here or rootdir != str(setup.rootdir):
        doubts.append(f"its root directory is {rootdir}")
    if platform != describe_environment("").platform:
        doubts.append(f"its machine is {platform}")
    front = (setup.variables.get("PYTHONPATH") or "").partition(os.pathsep)[0]
    if front:
        doubts.append(f"it puts {front} in front of sys.path")
    # What an option stands for may be the next word.
    pairs = zip(setup.args, [*setup.args[1:], ""], strict=False)
    harmless = re.compile(packaged_table("experiments")["harmless"]["words"])
    doubts += [
        word for word, value in pairs if not harmless.fullmatch(f"{word}\0{value}")
    ]
    return doubts
