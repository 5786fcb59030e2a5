"""The history of runs: a database of what failed when, and what it answers.

Needs the extra `history` (SQLAlchemy and Alembic), which only these modules import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_failure_taxonomy.history.database import History, open_history

__all__ = ["NOT_INSTALLED", "VERDICT", "History", "open_history", "require_libraries"]

NOT_INSTALLED: Final = (
    'history: {} is not installed; pip install "pytest-failure-taxonomy[history]"'
)
VERDICT: Final = "verdict"
"""Where the states of groups have that of a verdict that no group has."""


def require_libraries() -> None:
    """Import what the extra brings, before any other module of the history is imported.

    Raises:
        HistoryError: it is not installed; the message says how to get it.
    """
    from importlib import import_module

    import_module(f"{__name__}.database")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.database"), name)
