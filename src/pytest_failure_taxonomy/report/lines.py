"""One line for the terminal, told apart from printing it."""

from __future__ import annotations

from pytest_failure_taxonomy.taxonomy.values import value


@value
class Line:
    """One line for the terminal, with what to emphasise."""

    text: str
    """Safe to print: control characters are escaped."""
    color: str | None = None
    """`red`, `green` or `yellow`, as pytest's own terminal writer names them."""
    bold: bool = False
    is_title: bool = False
    """To be drawn as one of pytest's separators."""
    tail: str = ""
    """What stands at the end of the line, dim: codes."""

    def gap(self, width: int) -> str:
        """Return the blanks that put the tail at the end of a line of so many columns."""
        return " " * max(2, width - len(self.text) - len(self.tail)) if self.tail else ""
