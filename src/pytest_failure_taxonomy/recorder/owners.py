"""Describe the frame that raised, and tell whose code it is.

`origin` finds that frame. This module is loaded for the first one, and looks at every file once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

from pytest_failure_taxonomy.recorder.distributions import (
    ARCHIVES,
    distribution_of,
    is_installed_at,
)
from pytest_failure_taxonomy.recorder.inspection import (
    attribute_of,
    direct_cause_of,
    function_in,
    is_of_fixture_lookup,
    module_of,
    traceback_of,
)
from pytest_failure_taxonomy.recorder.origin import (
    MAX_FRAMES,
    OWN,
    RUNNER,
    SELF,
    FileFound,
    Found,
    entries_of,
    file_of_code,
    function_of,
    is_hidden,
    is_runner,
    module_name_in,
    passes_on,
)
from pytest_failure_taxonomy.taxonomy.evidence import CodeOwner, RaisingFrame
from pytest_failure_taxonomy.taxonomy.values import replace

TEST_FILES: Final = ("test_*.py", "*_test.py")
"""The names of test modules where pytest has no others configured."""
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
"""Folders in the root directory that hold tests and what helps them."""

_MAX_CAUSES: Final = 5
"""Causes of causes that are asked for a frame."""


class Code(NamedTuple):
    """Whose code a file is, and what it is called."""

    owner: CodeOwner
    package: str | None
    module: str
    path: str
    absolute: str
    is_library_with_plugin: bool = False
    """It is of a library that comes with a plugin, and not in that plugin."""


class Owners:
    """Tell whose code a file is."""

    def __init__(self, roots: Sequence[str], test_files: Sequence[str]) -> None:
        """Begin without having looked at a file.

        Args:
            roots: the root directory, as it is written and resolved, each with a separator at
                its end.
            test_files: the patterns of pytest's `python_files`.
        """
        self._roots = tuple(roots)
        self._test_files = tuple(test_files)

    def owner_of_users(self, name: str, path: str, dotted: str) -> Code:
        """Return whose code a file is that was not installed, as far as its place tells.

        Args:
            name: the file's, as Python has it.
            path: relative to the root directory, or to the folder that it is imported from.
            dotted: name of the module.
        """
        absolute = os.path.abspath(name)
        root = next((each for each in self._roots if absolute.startswith(each)), "")
        if self._is_of_a_distribution(absolute, dotted):
            return self.owner_of_installed(absolute, path, dotted)
        module = dotted or _module_of(path)
        base = os.path.basename(absolute)
        if base == "conftest.py":
            return Code("conftest", None, module, path, absolute)
        folders = path.split("/")[:-1] if root else []
        is_test = (
            "tests" in folders
            or not _TEST_FOLDERS.isdisjoint(folders[:1])
            or any(self._matches(absolute, base, pattern) for pattern in self._test_files)
        )
        return Code("test" if is_test else "project", None, module, path, absolute)

    def owner_of_installed(self, name: str, path: str, dotted: str) -> Code:
        """Return whose code a file of a distribution is."""
        absolute = os.path.abspath(name)
        found = distribution_of(absolute)
        words = None if found is None else found.words
        module = dotted or _module_of(path)
        if is_runner(module):
            is_ours = module.partition(".")[0] == SELF
            return Code("plugin" if is_ours else "pytest", words, module, path, absolute)
        if found is None or not found.plugins:
            return Code("dependency", words, module, path, absolute)
        is_plugin = found.is_plugin_alone or found.is_plugin_module(module)
        owner: CodeOwner = "plugin" if is_plugin else "dependency"
        return Code(owner, words, module, path, absolute, not is_plugin)

    def _is_of_a_distribution(self, absolute: str, dotted: str) -> bool:
        """Tell whether a file is in an archive, or in a folder that distributions lie in.

        Such a folder is made by `pip install --target`. That of an editable installation holds the
        sources alone.
        """
        if any(part.endswith(ARCHIVES) for part in absolute.split(os.sep)[:-1]):
            return True
        depth = dotted.count(".") + (os.path.basename(absolute) == "__init__.py")
        folder = absolute
        for _ in range(depth + 1):
            folder = os.path.dirname(folder)
        is_root = os.path.join(folder, "") in self._roots
        return dotted != "" and not is_root and is_installed_at(folder)

    def _matches(self, absolute: str, base: str, pattern: str) -> bool:
        """Tell whether a file is a test module, as pytest itself decides it."""
        if "/" not in pattern:
            return fnmatchcase(base, pattern)
        return fnmatchcase(absolute.replace(os.sep, "/"), f"*/{pattern}")


def _module_of(path: str) -> str:
    """Return the dotted name of a module by its path."""
    dotted = path.removeprefix("src/").rpartition(".")[0].replace("/", ".")
    return dotted.removesuffix(".__init__")


class Finder(Protocol):
    """What `origin.OriginFinder` does for this module."""

    collected: Path | None

    def find(self, error: BaseException) -> Found:
        """Return where an exception comes from, and the frame that raised it."""

    def file(self, name: str, module: dict[str, Any]) -> FileFound:
        """Return what a traceback's walk has to know of a file."""


class RaisingFrames:
    """Describe the frames that raised exceptions."""

    def __init__(self, finder: Finder, roots: Sequence[str], test_files: Sequence[str]) -> None:
        """Begin without having looked at a file.

        Args:
            finder: looks at files, and at the causes of exceptions.
            roots: as for `Owners`.
            test_files: as for `Owners`; pytest's default where there are none.
        """
        self._finder = finder
        self._owners = Owners(roots, test_files or TEST_FILES)
        self._codes: dict[str, Code] = {}
        self._frames: dict[tuple[str, int, str, Path | None, bool], RaisingFrame] = {}
        """Frames that are the same for every exception: many failures have one line."""

    def find(
        self,
        error: BaseException,
        asked: Sequence[TracebackType],
        is_in_own_code: bool,  # noqa: FBT001 - called for every failure
    ) -> RaisingFrame | None:
        """Return the frame that raised; where that is pytest's alone, the one it speaks of.

        Args:
            error: has been raised.
            asked: the entries of its traceback, without the standard library's and pytest's.
            is_in_own_code: the user's code is among them.
        """
        if not asked or is_of_fixture_lookup(error):
            return self._behind(error) or self._innermost(traceback_of(error))
        raised = asked[-1]
        code = raised.tb_frame.f_code
        line, where = raised.tb_lineno, self._finder.collected
        key = (code.co_filename, line, code.co_qualname, where, is_in_own_code)
        found = self._frames.get(key)
        if found is not None:
            return found
        chosen = next(filter(_may_have_raised, reversed(asked)), None)
        if chosen is None:
            return self._behind(error) or self._innermost(traceback_of(error))
        frame = chosen.tb_frame
        code = frame.f_code
        found = self.describe(
            function_of(code),
            code.co_filename,
            frame.f_globals,
            chosen.tb_lineno,
            is_in_own_code=is_in_own_code,
        )
        if found is not None and chosen is raised and code.co_filename in self._codes:
            self._frames[key] = found
        return found

    def describe(
        self,
        function: str,
        name: str,
        names: dict[str, Any],
        line: object,
        *,
        is_in_own_code: bool = False,
    ) -> RaisingFrame | None:
        """Describe a frame; return `None` for one of code that no file has.

        Args:
            function: qualified name.
            name: of the file, as Python has it.
            names: of the module.
            line: where it was; a `SyntaxError` of the user's can say anything.
            is_in_own_code: the user's code is among the callers.
        """
        code = self._codes.get(name)
        if code is None:
            file = file_of_code(name, names)
            if file is None:
                return None
            code = self._codes.get(file) or self._whose(file, names)
            self._codes[file] = code
            line = line if file == name else None
        owner = code.owner
        if owner in ("project", "dependency"):
            if str(self._finder.collected) == code.absolute:
                owner = "test"
            elif code.is_library_with_plugin and not is_in_own_code:
                owner = "plugin"
        return RaisingFrame(
            owner=owner,
            package=code.package,
            module=code.module,
            function=function,
            path=code.path,
            line=line if type(line) is int and line > 0 else None,
        )

    def _whose(self, name: str, names: dict[str, Any]) -> Code:
        dotted = module_name_in(names)
        owner, path, is_asked = self._finder.file(name, names)
        if owner == OWN:
            return self._owners.owner_of_users(name, path, dotted)
        if is_asked or owner == RUNNER:
            return self._owners.owner_of_installed(name, path, dotted)
        return Code("python", None, dotted or _module_of(path), path, name)

    def _behind(self, error: BaseException) -> RaisingFrame | None:
        """Return the frame that pytest speaks of where it raises an exception of its own."""
        with suppress(Exception):  # pytest's objects, of which nothing is public
            if is_of_fixture_lookup(error):
                return self._of_function(_asking_function(error))
            if module_of(type(error)) in ("doctest", "_pytest.doctest"):
                return self._of_doctest(error)
            cause = direct_cause_of(error)
            for _ in range(_MAX_CAUSES):
                if cause is None:
                    break
                found = self._finder.find(cause)[1]
                if found is not None:
                    return found
                cause = direct_cause_of(cause)
        return None

    def _of_function(self, function: Any) -> RaisingFrame | None:
        while (plain := function_in(function)) is None:
            is_partial = type(function) is partial
            function = function.func if is_partial else attribute_of(function, "__wrapped__")
            if function is None:
                return None
        code = plain.__code__
        names = plain.__globals__
        return self.describe(function_of(code), code.co_filename, names, code.co_firstlineno)

    def _of_doctest(self, error: Any) -> RaisingFrame | None:
        failures = attribute_of(error, "failures")
        first = failures[0] if failures else error
        raised = attribute_of(first, "exc_info")
        found = None if raised is None else self._finder.find(raised[1])[1]
        if found is not None:
            return found
        test = first.test
        line = None if test.lineno is None else test.lineno + first.example.lineno + 1
        found = self.describe(test.name, test.filename, test.globs, line)
        return found and replace(found, owner="test")

    def _innermost(self, traceback: TracebackType | None) -> RaisingFrame | None:
        """Return the innermost frame whose code hides itself, else pytest's, else Python's."""
        found: dict[int, TracebackType] = {}
        for each in entries_of(traceback)[:MAX_FRAMES]:
            frame, following = each.tb_frame, each.tb_next
            name = frame.f_code.co_filename
            owner, path, is_asked = self._finder.file(name, frame.f_globals)
            if owner == RUNNER:
                if path.startswith(f"{SELF}/"):
                    found.pop(1, None)  # nobody's code fails a bench case
                elif not is_hidden(frame, frame.f_code):
                    found[1] = each
            elif file_of_code(name, frame.f_globals) is None:
                continue
            elif following is None or not passes_on(following):
                found[2 if is_asked else 0] = each
        if not found:
            return None
        entry = found[max(found)]
        frame = entry.tb_frame
        name = frame.f_code.co_filename
        return self.describe(function_of(frame.f_code), name, frame.f_globals, entry.tb_lineno)


def _may_have_raised(entry: TracebackType) -> bool:
    """Tell whether an exception comes from a frame if no deeper one can have raised it.

    A hidden one says that its caller is to blame. Of generated code that is who wrote it, if that
    is known, or else who called it.
    """
    frame, following = entry.tb_frame, entry.tb_next
    if is_hidden(frame, frame.f_code) or (following is not None and passes_on(following)):
        return False
    return file_of_code(frame.f_code.co_filename, frame.f_globals) is not None


def _asking_function(error: Any) -> Any:
    """Return the test or the fixture that asks for a fixture that nobody has."""
    stack = [error.request._pyfuncitem.obj, *(each.func for each in error.fixturestack)]  # noqa: SLF001 - there is no public way
    return stack[-1] if error.msg is None or len(stack) == 1 else stack[-2]
