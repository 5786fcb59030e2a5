"""One aligned Markdown table, fit for a terminal and for a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .variants import PLAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .estimates import Figure
    from .measures import Column


def render_table(columns: Sequence[Column], names: Sequence[str]) -> str:
    """Render the columns, one row a variant that has a figure, with a dash where one has none.

    Args:
        columns: The measured quantities.
        names: The variants, in the order of the rows.

    Returns:
        The lines of the table, each with its line end.
    """
    rows = [["", *(column.heading for column in columns)]]
    for name in names:
        figures = [column.figures.get(name) for column in columns]
        if any(figures):
            pairs = zip(columns, figures, strict=True)
            rows.append(
                [name, *(_cell(name, column, figure) for column, figure in pairs)]
            )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    rows.insert(
        1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    )
    return "".join(
        f"| {row[0]:<{widths[0]}} | "
        + " | ".join(
            f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)
        )
        + " |\n"
        for row in rows
    )


def _cell(name: str, column: Column, figure: Figure | None) -> str:
    """Render one figure: with its sign where it is a difference, with its error where known."""
    if figure is None:
        return "–"  # noqa: RUF001 - a dash, not a minus
    is_absolute = column.is_absolute or name == PLAIN.name
    value = f"{figure.value:.1f}" if is_absolute else f"{figure.value:+.1f}"
    return f"{value} ± {figure.error:.1f}" if figure.error else value
