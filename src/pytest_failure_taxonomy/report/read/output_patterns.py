"""The wordings of pytest 8.4 to 9.2, pytest-timeout, pytest-xdist, shells and CI systems.

Each was taken from real output. None of these patterns can take more than linear time on a line.
"""

from __future__ import annotations

import re
from typing import Final

SESSION_STARTS: Final = "test session starts"
SUMMARY: Final = "short test summary info"
KILLED_BY_PLUGIN: Final = re.compile(r"\+ Timeout \+")
"""pytest-timeout's thread method prints it before and after the stacks, then calls `os._exit`."""
BANNER: Final = re.compile(
    r"KeyboardInterrupt$|_pytest\.outcomes\.Exit(?:: |$)|(?:[\w.]+\.)?Interrupted: "
    r"|session-timeout: [0-9.]+ sec exceeded$|stopping after [0-9]+ failures$"
)
"""Why pytest stopped, printed between exclamation marks; the only words in some quiet logs."""
CONFTEST: Final = re.compile(r"ImportError while loading conftest '(.*)'\.?$")

LAST_LINE: Final = re.compile(
    r"(?:(?:=+ )?(?:(?:[0-9]+(?:/[0-9]+)? [a-z][a-z -]*|no tests (?:ran|collected))"
    r"(?: \([0-9]+ deselected\))?(?:, )?)+|=+ ) in [0-9]+\.[0-9]+(?:s| seconds)"
    r"(?: \([0-9 a-z,:]+\))?(?: =+)?$"
)
"""Since pytest 2: in `seconds` until 5.0, with `pytest-warnings` and sometimes no words before."""
ONLY_COLLECTED: Final = re.compile("[0-9] tests? collected")
COUNT: Final = re.compile("([0-9]+) ([a-z-]+)")
COLLECTED: Final = re.compile(r"(?:collecting \.\.\. )?collected ([0-9]+) items?(.*)$")
COLLECTED_ON_WORKERS: Final = re.compile(r"[0-9]+ workers? \[([0-9]+) items?\]")
COLLECTED_ERRORS: Final = re.compile(r" / ([0-9]+) errors?")

RESULT: Final = re.compile(
    r"(?P<outcome>FAILED|ERROR|SUBFAIL[A-Z]*(?:\[.*?\])?(?: ?\(.*?\))?(?= )) "
    r"(?P<nodeid>.+?)(?: - (?P<message>.*))?$"
)
"""A line of the short summary."""
VERBOSE: Final = re.compile(
    r"(?:\[(?P<worker>gw[0-9]+)\] (?:\[ *[0-9]+%\] )?(?P<before>PASSED|FAILED|ERROR) )?"
    r"(?P<nodeid>\S+\.py::\S.*?)(?: (?P<after>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)\b.*)?$"
)
"""A line of `-v`; without an outcome it names a test that was running."""
PROGRESS: Final = re.compile(
    r"(?:(?P<path>\S+\.py) )?(?P<letters>[.FEsxXRup]+)(?: +\[ *[0-9]+%\])?"
)
COMPLETE: Final = re.compile(r"(?:\S+\.py )?[.FEsxXRup]+ +\[100%\]$")

PHASE_TITLE: Final = re.compile(r"ERROR (at setup of|at teardown of|collecting) (.+)$")
LOCATION: Final = re.compile(r"(\S.*?):([0-9]+): ([A-Za-z_][\w.]*)$")
RAISED: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:: (.*))?$")
"""An exception on the last line of a traceback."""

CRASHED: Final = re.compile(r"worker '(gw[0-9]+)' crashed while running '(.+?)'?$")
NODE_DOWN: Final = re.compile(r"\[(gw[0-9]+)\] node down: (.*)$")
TOO_MANY_WARNINGS: Final = re.compile("maximum allowed warnings exceeded:")
TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):")
TIME_LIMIT: Final = re.compile(r"timeout: ([0-9.]+)s$")
FAULTHANDLER_LIMIT: Final = re.compile(r"Timeout \(([0-9]+):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)\)!")
PLUGIN_TIMEOUT: Final = re.compile(r"Timeout (?:\(>[0-9.]+s\) from pytest-timeout\.|>[0-9.]+s)$")
"""The message of pytest-timeout's signal method: from 2.4 on, and before."""
FATAL: Final = re.compile(r"Fatal Python error: (.*)$")
OF_SHELL: Final = re.compile(
    r"(?:.*: line [0-9]+: +[0-9]+ )?"
    r"((?:Segmentation fault|Aborted|Bus error|Illegal instruction|Killed|Terminated)"
    r"(?: \(core dumped\))?)(?: .*)?$"
)
JOB_EXIT_CODE: Final = re.compile(
    r"(?:##\[error\])?Process completed with exit code ([0-9]+)\.?$"
    r"|ERROR: Job failed: exit code ([0-9]+)$"
)
"""How GitHub and GitLab report the exit code of a step's command."""

USAGE: Final = re.compile(
    r"ERROR: (?:usage: .*|file or directory not found: .*|not found: .*"
    r"|Wrong expression passed to .*"
    r"|Unknown config option.*|.*requires pytest.*|.*not a valid .*)$"
)
"""Usage errors that are certainly pytest's."""
PLUGIN_ERROR: Final = re.compile(
    r"(?:ERROR|ImportError): (Error importing plugin .*|Missing required plugins: .*)$"
)
ANY_ERROR: Final = re.compile(r"ERROR: (.+)$")
USAGE_DETAIL: Final = re.compile(r".*: error: (.+)$")
ERROR_WORDS: Final = re.compile(
    r"\b(?:error|fatal|failed|exception|panic|traceback|FAIL|FAILED|cannot|denied)\b|[A-Za-z]Error\b",
    re.IGNORECASE,
)
"""Words that mark an error in the output of any program."""
