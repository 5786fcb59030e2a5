"""Describe the frame that raised, and tell whose code it is: of which installed distribution, too.

`origin` finds that frame. Every file is looked at once.

`importlib.metadata` would read all distributions, which takes a tenth of a second in a large
environment. Here only the names of their folders are listed, and the few files of those that come
into question are read. None of it runs unless code of a distribution has raised something.

The name of a module is not that of a distribution, and agents run what they read. So for a missing
module a name counts only where the metadata of the project or of an installed distribution ask for
it.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_failure_taxonomy.hooks import inspection, tracebacks
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import RaisingFrame
from pytest_failure_taxonomy.taxonomy.judgement import CodeOwner
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.origin import OriginFinder

TEST_FILES: Final = ("test_*.py", "*_test.py")
"""The names of test modules where pytest has no others configured."""
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
"""Folders in the root directory that hold tests and what helps them."""
_MAX_CAUSES: Final = 5
"""Causes of causes that are asked for a frame."""

_ARCHIVES: Final = (".egg", ".whl", ".zip", ".pex", ".pyz", ".shiv")
"""How the files are called that Python imports packages from."""
_MAX_BYTES: Final = 8_000_000
"""The most that is read of one file; the largest list of a distribution's files has 3 MB."""
_ENDINGS: Final = (".dist-info", ".egg-info")
# Expressions that `re` compiles when they are used: most runs need none of them.
_FIELDS: Final = r"(?m)^(Name|Version):[ \t]*(.+?)[ \t]*$"
_ENTRY_POINTS: Final = r"(?m)^\[pytest11\]$([^\[]*)"
_MODULE: Final = r"(?m)^[^#;=\n]+=\s*([\w.]+)"
_REQUIRED: Final = r"(?m)^Requires-Dist:(.+)$"
_REQUIREMENT: Final = (
    r"(?am)^\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?=\s*(?:$|[\[(<>=!~;@#,]))"
)
_REQUIREMENTS: Final = r"/(requirements/|([^/]*[-_])?req)[^/]*\.(in|txt)$"
_MAX_LISTS: Final = 30
"""Files with requirements that are read of a project, so many in each of its folders."""
_NEVER_INSTALLED: Final = frozenset(
    {"conftest", "docs", "examples", "test", "testing", "tests"}
)
"""Folders and modules of a project that are part of no distribution."""


class Code(NamedTuple):
    """Whose code a file is, and what it is called."""

    owner: CodeOwner
    package: str | None
    module: str
    path: str
    absolute: str
    is_library_with_plugin: bool = False
    """It is of a library that comes with a plugin, and not in that plugin."""


class RaisingFrames:
    """Describe the frames that raised exceptions."""

    def __init__(self, finder: OriginFinder, test_files: Sequence[str]) -> None:
        """Begin without having looked at a file.

        Args:
            finder: looks at files, and at the causes of exceptions.
            test_files: the patterns of pytest's `python_files`; its default where there are none.
        """
        self._finder = finder
        self._test_files = tuple(test_files or TEST_FILES)
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
        chosen = None
        asked = self._finder.without_answer(error, asked)
        if asked and not inspection.is_of_fixture_lookup(error):
            raised = asked[-1]
            code = raised.tb_frame.f_code
            line, where = raised.tb_lineno, self._finder.collected
            key = (code.co_filename, line, code.co_qualname, where, is_in_own_code)
            if key in self._frames:
                return self._frames[key]
            chosen = next(filter(_may_have_raised, reversed(asked)), None)
        if chosen is None:
            return self._behind(error) or self._innermost(error)
        frame = chosen.tb_frame
        code = frame.f_code
        found = self.describe(
            tracebacks.function_of(code),
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
            file = tracebacks.file_of_code(name, names)
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
        dotted = tracebacks.module_name_in(names)
        file = self._finder.file(name, names)
        path = file.path
        # By its path, where generated code has no module.
        by_path = path.removeprefix("src/").rpartition(".")[0].replace("/", ".")
        module = dotted or by_path.removesuffix(".__init__")
        if file.owner not in (tracebacks.OWN, tracebacks.RUNNER) and not file.is_asked:
            return Code("python", None, module, path, name)
        absolute = os.path.abspath(name)
        if file.owner == tracebacks.OWN and not self._is_of_a_distribution(
            absolute, dotted
        ):
            return Code(
                self.owner_of_users(absolute, path), None, module, path, absolute
            )
        found = distribution_of(absolute)
        words = None if found is None else found.words
        package = module.partition(".")[0]
        if package in tracebacks.RUNNERS:
            owner: CodeOwner = "plugin" if package == tracebacks.SELF else "pytest"
            return Code(owner, words, module, path, absolute)
        if found is None or not found.plugins:
            return Code("dependency", words, module, path, absolute)
        # A distribution has no other use than with pytest, as far as its name tells.
        is_plugin = "pytest" in found.name.lower() or any(
            f"{module}.".startswith(f"{plugin}.") for plugin in found.plugins
        )
        owner = "plugin" if is_plugin else "dependency"
        return Code(owner, words, module, path, absolute, not is_plugin)

    def owner_of_users(self, absolute: str, path: str) -> CodeOwner:
        """Return whose code a file is that was not installed, as far as its place tells.

        Args:
            absolute: its path.
            path: relative to the root directory, or to the folder that it is imported from.
        """
        base = os.path.basename(absolute)
        if base == "conftest.py":
            return "conftest"
        if absolute.startswith(self._finder.roots):
            folders = path.split("/")[:-1]
            if "tests" in folders or not _TEST_FOLDERS.isdisjoint(folders[:1]):
                return "test"
        for pattern in self._test_files:  # as pytest itself decides it
            is_of_path = "/" in pattern
            place = absolute.replace(os.sep, "/") if is_of_path else base
            if fnmatchcase(place, f"*/{pattern}" if is_of_path else pattern):
                return "test"
        return "project"

    def _is_of_a_distribution(self, absolute: str, dotted: str) -> bool:
        """Tell whether a file is in an archive, or in a folder that distributions lie in.

        Such a folder is made by `pip install --target`. That of an editable installation holds the
        sources alone.
        """
        for part in absolute.split(os.sep)[:-1]:
            if part.endswith(_ARCHIVES):
                return True
        depth = dotted.count(".") + (os.path.basename(absolute) == "__init__.py")
        folder = absolute
        for _ in range(depth + 1):
            folder = os.path.dirname(folder)
        is_root = os.path.join(folder, "") in self._finder.roots
        return dotted != "" and not is_root and _has_distributions(folder)

    def _behind(self, error: Any) -> RaisingFrame | None:
        """Return the frame that pytest speaks of where it raises an exception of its own."""
        with suppress(Exception):  # pytest's objects, of which nothing is public
            if inspection.is_of_fixture_lookup(error):
                # The test or the fixture that asks for a fixture that nobody has.
                asking = [error.request._pyfuncitem.obj]  # noqa: SLF001 - there is no public way
                asking += [each.func for each in error.fixturestack]
                at = -1 if error.msg is None or len(asking) == 1 else -2
                return self._of_function(asking[at])
            if inspection.module_of(type(error)) in ("doctest", "_pytest.doctest"):
                return self._of_doctest(error)
            cause = inspection.direct_cause_of(error)
            for _ in range(_MAX_CAUSES):
                if cause is None:
                    break
                found = self._finder.find(cause)[1]
                if found is not None:
                    return found
                cause = inspection.direct_cause_of(cause)
        return None

    def _of_function(self, function: Any) -> RaisingFrame | None:
        while (plain := inspection.function_in(function)) is None:
            is_partial = type(function) is partial
            function = (
                function.func
                if is_partial
                else inspection.attribute_of(function, "__wrapped__")
            )
            if function is None:
                return None
        code = plain.__code__
        names = plain.__globals__
        return self.describe(
            tracebacks.function_of(code), code.co_filename, names, code.co_firstlineno
        )

    def _of_doctest(self, error: Any) -> RaisingFrame | None:
        failures = inspection.attribute_of(error, "failures")
        first = failures[0] if failures else error
        raised = inspection.attribute_of(first, "exc_info")
        found = None if raised is None else self._finder.find(raised[1])[1]
        if found is not None:
            return found
        test = first.test
        line = None if test.lineno is None else test.lineno + first.example.lineno + 1
        found = self.describe(test.name, test.filename, test.globs, line)
        return found and replace(found, owner="test")

    def _innermost(self, error: BaseException) -> RaisingFrame | None:
        """Return the innermost frame whose code hides itself, else pytest's, else Python's."""
        found: dict[int, TracebackType] = {}
        for each in inspection.entries_of(error)[: tracebacks.MAX_FRAMES]:
            frame, following = each.tb_frame, each.tb_next
            name = frame.f_code.co_filename
            owner, path, is_asked = self._finder.file(name, frame.f_globals)
            if owner == tracebacks.RUNNER:
                if path.startswith(f"{tracebacks.SELF}/"):
                    found.pop(1, None)  # nobody's code fails a bench case
                elif not tracebacks.is_hidden(frame, frame.f_code):
                    found[1] = each
            elif tracebacks.file_of_code(name, frame.f_globals) is None:
                continue
            elif following is None or not tracebacks.passes_on(following):
                found[2 if is_asked else 0] = each
        if not found:
            return None
        entry = found[max(found)]
        frame = entry.tb_frame
        name = frame.f_code.co_filename
        return self.describe(
            tracebacks.function_of(frame.f_code), name, frame.f_globals, entry.tb_lineno
        )


def _may_have_raised(entry: TracebackType) -> bool:
    """Tell whether an exception comes from a frame if no deeper one can have raised it.

    A hidden one says that its caller is to blame. Of generated code that is who wrote it, if that
    is known, or else who called it.
    """
    frame, following = entry.tb_frame, entry.tb_next
    if tracebacks.is_hidden(frame, frame.f_code) or (
        following is not None and tracebacks.passes_on(following)
    ):
        return False
    return (
        tracebacks.file_of_code(frame.f_code.co_filename, frame.f_globals) is not None
    )


class Distribution(NamedTuple):
    """An installed distribution, as far as it matters here."""

    name: str
    version: str
    plugins: tuple[str, ...]
    """The modules that pytest loads of it, by their dotted names."""
    info: str = ""
    """The folder or the file with its metadata."""

    @property
    def words(self) -> str:
        """Name and version, such as `requests 2.32.5`."""
        return f"{self.name} {self.version}".strip()


def distribution_of(path: str) -> Distribution | None:
    """Return the distribution of an installed file, or `None` if that can't be found out.

    Args:
        path: absolute, below a `site-packages`, or in a folder or an archive like one.
    """
    parts = path.replace(os.sep, "/").split("/")
    at = max(
        (index for index, part in enumerate(parts, 1) if part in own_files.LIBRARIES),
        default=0,
    )
    if at == len(parts):
        return None
    if (
        not at
    ):  # in another folder that distributions are installed to, or in an archive
        at = len(parts) - 1
        while not (
            _has_distributions("/".join(parts[:at])) or parts[at].endswith(_ARCHIVES)
        ):
            at -= 1
            if at < 2:
                return None
    folder, top, rest = "/".join(parts[:at]), parts[at], parts[at + 1 :]
    if top.endswith(_ARCHIVES):
        name, _, version = top.rpartition(".")[0].partition("-")
        return Distribution(name, version.partition("-")[0], ()) if version else None
    is_namespace = rest and not os.path.exists(f"{folder}/{top}/__init__.py")
    return _find(folder, "/".join((top, *rest)) if is_namespace else top)


def distribution_with(module: str, root: str) -> dict[str, str]:
    """Return the fact that says who has a missing module; none where that is not sure.

    Args:
        module: dotted name.
        root: the root directory, absolute.
    """
    is_built = not _project(root).keys().isdisjoint(("project", "build-system"))
    if module not in _NEVER_INSTALLED and (
        is_built or os.path.isfile(f"{root}/setup.py")
    ):
        places = (
            f"src/{module}",
            f"src/{module}.py",
            f"{module}/__init__.py",
            f"{module}.py",
        )
        if any(os.path.exists(f"{root}/{place}") for place in places):
            return {"own_package": "."}
    reviewed = packaged_table("distributions").get(module, "").split()
    names = {normal_name(name) for name in (module, *reviewed)}
    found = next((name for each, name in _asked_for(root).items() if each in names), "")
    if found:
        return {"distribution": found}
    is_there = any(
        os.path.exists(f"{root}/{place}") for place in (module, f"{module}.py")
    )
    return {"own_folder": "."} if is_there else {}


def _has_distributions(folder: str) -> bool:
    """Tell whether distributions are installed to a folder, whatever it is called."""
    return any(each.endswith(".dist-info") for each in _listed(folder))


@lru_cache(maxsize=1_000)
def _find(folder: str, relative: str) -> Distribution | None:
    """Return the distribution that has a top-level module, or a file of a namespace package."""
    top = relative.partition("/")[0].partition(".")[0]
    same = normal_name(top)
    named: list[str] = []
    others: list[str] = []
    for info in _listed(folder):
        name = normal_name(info.partition("-")[0].removesuffix(".egg"))
        (named if name == same else others).append(info)
    sure = next(
        (each for each in (*named, *others) if _has(folder, each, top, relative)), None
    )
    found = sure or next(iter(named), None)
    if found is None:
        return None
    info = f"{folder}/{found}"
    text = _metadata(info) or read_text(info)
    fields = dict(reversed(re.findall(_FIELDS, text.partition("\n\n")[0])))
    name, _, version = found.rpartition(".")[0].partition("-")
    entry_points = read_text(f"{info}/entry_points.txt").replace("\r\n", "\n")
    sections = re.findall(_ENTRY_POINTS, entry_points)
    return Distribution(
        fields.get("Name", name),
        fields.get("Version", version),
        tuple(
            module for section in sections for module in re.findall(_MODULE, section)
        ),
        info,
    )


def _has(folder: str, info: str, top: str, relative: str) -> bool:
    """Tell whether a distribution lists a file of its own, or a module by its top-level name."""
    tops = read_text(f"{folder}/{info}/top_level.txt").split()
    if tops and top not in tops:
        return False
    record = "\n" + read_text(f"{folder}/{info}/RECORD")
    if record == "\n":
        return top in tops
    if "/" in relative:
        return f"\n{relative}," in record
    return f"\n{top}/" in record or f"\n{top}." in record


@lru_cache(maxsize=100)
def _listed(folder: str) -> tuple[str, ...]:
    with suppress(OSError, ValueError):
        return tuple(
            sorted(each for each in os.listdir(folder) if each.endswith(_ENDINGS))
        )
    return ()


@lru_cache(maxsize=10)
def _project(root: str) -> dict[str, Any]:
    with suppress(ValueError):
        return tomllib.loads(read_text(f"{root}/pyproject.toml"))
    return {}


@lru_cache(maxsize=10)
def _asked_for(root: str) -> dict[str, str]:
    """Return what the project asks for, then what installed distributions do, by normal names."""
    texts: list[str] = []
    for folder in (f"{root}/", f"{root}/requirements/"):
        with suppress(OSError):
            files = [folder + name for name in sorted(os.listdir(folder))]
            lists = [file for file in files if re.search(_REQUIREMENTS, file)]
            texts += map(read_text, lists[:_MAX_LISTS])
    with suppress(AttributeError, TypeError):  # a table is of another form
        pyproject = _project(root)
        project, poetry = (
            pyproject.get("project", {}),
            pyproject.get("tool", {}).get("poetry", {}),
        )
        groups = project.get("optional-dependencies", {}) | pyproject.get(
            "dependency-groups", {}
        )
        of_poetry = [poetry, *poetry.get("group", {}).values()]
        asked = [each.get("dependencies", ()) for each in (project, *of_poetry)]
        texts += [
            text
            for each in (*asked, *groups.values())
            for text in each
            if type(text) is str
        ]
    for info in (f"{folder}/{name}" for folder in sys.path for name in _listed(folder)):
        texts += requirements_of(info)
    return {
        normal_name(name): name
        for text in texts
        for name in re.findall(_REQUIREMENT, text)
    }


def requirements_of(info: str) -> list[str]:
    """Return what a distribution requires, by its folder with metadata."""
    return re.findall(_REQUIRED, _metadata(info))


def normal_name(name: str) -> str:
    """Return the form of a distribution's name by which names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _metadata(info: str) -> str:
    return read_text(f"{info}/METADATA") or read_text(f"{info}/PKG-INFO")


def read_text(path: str) -> str:
    """Return the text of a file; empty where it can't be read."""
    with (
        suppress(OSError, ValueError),
        io.open(path, encoding="utf-8", errors="replace") as file,  # noqa: UP020 - that of a test
    ):
        return file.read(_MAX_BYTES)
    return ""
