"""Who is logged in, for the whole process."""

from __future__ import annotations

current: list[str] = []


def log_in(name: str) -> None:
    """Log a person in."""
    current.append(name)


def greeting() -> str:
    """Greet whoever has logged in last."""
    return f"Hello {current[-1]}" if current else "Who are you?"
