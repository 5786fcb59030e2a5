"""The errors that a user's input can cause.

Each message says where, what is wrong, and what would be right. They become `pytest.UsageError` at
pytest's edge and one line with exit code 2 at the shell's; anything else that is raised is a bug.
"""

from __future__ import annotations


class FailureTaxonomyError(Exception):
    """Base of all errors that a user can fix."""


class SettingsError(FailureTaxonomyError):
    """An option, an ini value or the report's path can't be used as given."""


class ReportError(FailureTaxonomyError):
    """A file that should be a report can't be read as one."""


class LogError(FailureTaxonomyError):
    """A log can't be read, or has nothing to judge a run by."""


class BenchError(FailureTaxonomyError):
    """A task class can't be used, or a run of one can't begin; a line for each problem."""


class RulesError(FailureTaxonomyError):
    """A file of rules can't be used; the message has a line for each problem."""


class HistoryError(FailureTaxonomyError):
    """The history can't be opened, read or written; the message never shows a password."""
