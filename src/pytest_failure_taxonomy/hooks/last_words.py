"""See what plugins write as a session ends, and what coverage has missed.

A plugin that fails a green session says why on the terminal. pytest passes on the
status alone.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress
from importlib.util import find_spec
from types import FrameType
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.program_words import telling_line
from pytest_failure_taxonomy.taxonomy.values import replace

_MAX_LINES: Final = 100
_NOTHING_COVERED: Final = "coverage 0.00 %"
_OF_PYTEST: Final = "_pytest."
_OF_PLUGGY: Final = "pluggy."


class TerminalWatch:
    """Keep the last texts that plugins other than pytest's own write on the terminal.

    The terminal's writer does what it always does. It has no public way to listen, so
    its method is shadowed until `stop` is called.
    """

    def __init__(self, writer: Any) -> None:
        self._names: dict[str, object] = getattr(writer, "__dict__", {})
        self._write: Any = getattr(writer, "write", None)
        self._own = self._write_and_note
        self._texts: deque[str] = deque(maxlen=_MAX_LINES)
        self._names.setdefault("write", self._own)

    def stop(self) -> str:
        """Stop listening; return the line that says what is wrong, or the last one."""
        if self._names.get("write") is self._own:
            del self._names["write"]
        return telling_line("\n".join(self._texts), or_last=True)

    def _write_and_note(self, *args: Any, **options: Any) -> Any:
        caller = sys._getframe(1)  # noqa: SLF001 - the only way to see the callers
        if _is_of_plugin(caller):
            self._texts += [text for text in args if type(text) is str]
        return self._write(*args, **options)


def _is_of_plugin(frame: FrameType | None) -> bool:
    """Tell whether a plugin writes, rather than pytest's own functions."""
    module = _OF_PYTEST
    while frame is not None and module.startswith(_OF_PYTEST):
        module = str(frame.f_globals.get("__name__"))
        frame = frame.f_back
    return not module.startswith(_OF_PLUGGY)


def words_of_unmeasured(plugin: Any, config: pytest.Config) -> str:
    """Say which package or folder of `--cov` is missing or wasn't imported.

    Args:
        plugin: the plugin object of pytest-cov, which measured nothing at all. What is
            read from it is not public.
        config: of the run; the place of the option is named, too.
    """
    from pytest_failure_taxonomy.hooks import option_sources

    for source in plugin.cov_controller.cov_source or ():
        if not os.path.isdir(source) and source not in sys.modules:
            is_there = find_spec(source.partition(".")[0]) is not None
            words = (
                f"{source} was never imported" if is_there else f"there is no {source}"
            )
            return f": {option_sources.with_place(config, words, f'--cov={source}')}"
    return ""


def add_coverage(run: RunEvidence, config: pytest.Config) -> RunEvidence:
    """Return a run with what pytest-cov missed, if it measured too little."""
    plugin = config.pluginmanager.get_plugin("_cov")
    if plugin is None or run.should_fail:
        return run
    shortfall = _coverage_shortfall(plugin)
    if shortfall.startswith(_NOTHING_COVERED):
        with suppress(Exception):  # a foreign object
            shortfall += words_of_unmeasured(plugin, config)
    # It counts as a failure of the session.
    uncounted = max(0, run.uncounted - bool(shortfall))
    return replace(run, coverage=shortfall, uncounted=uncounted)


def _coverage_shortfall(plugin: Any) -> str:
    """Return a sentence if pytest-cov measured too little; else an empty string.

    None of what is read here is public, so any surprise counts as no shortfall.

    Args:
        plugin: the plugin object of pytest-cov.
    """
    try:
        from coverage.results import should_fail_under  # what pytest-cov asks

        total, required = float(plugin.cov_total), float(plugin.options.cov_fail_under)
        precision = int(plugin.options.cov_precision or 0)
        if not should_fail_under(total, required, precision):
            return ""
    except Exception:  # noqa: BLE001 - a foreign object, which may do whatever it likes
        return ""
    # As pytest-cov shows it, with more digits where it would look as if it were enough.
    for digits in range(2, 9):
        if round(total, digits) < required:
            break
    else:
        digits = 2
    return f"coverage {total:.{digits}f} % is below the required {required:g} %"
