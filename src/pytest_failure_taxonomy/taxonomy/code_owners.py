"""Tell from its name whose code a file is, for frames of a process and of a text."""

from __future__ import annotations

from typing import Final

SELF: Final = "pytest_failure_taxonomy"
RUNNERS: Final = frozenset(
    {"_pytest", "pytest", "pluggy", "xdist", "execnet", "__channelexec__", SELF}
)
"""The packages of pytest, of what pytest is made of, and of this plugin."""

LIBRARIES: Final = frozenset({"site-packages", "dist-packages"})
"""Folders that distributions are installed in."""
NOT_SOURCES: Final = frozenset(
    {".venv", "venv", ".tox", ".nox", ".eggs", "build", "__pypackages__"}
)
"""First folders below the root directory that hold copies and installations."""

TEST_FILES: Final = ("test_*.py", "*_test.py")
"""The names of test modules where pytest has no others configured."""
TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
"""Folders in the root directory that hold tests and what helps them."""
