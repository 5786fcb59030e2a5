"""Describe the frame that raised: whose code it is, and of which distribution.

`origin` finds that frame. Every file is looked at once.

`importlib.metadata` would read all distributions, which takes a tenth of a second in a
large environment. Here only the names of their folders are listed, and the few files of
those that come into question are read. None of it runs unless code of a distribution
has raised something.

The name of a module is not that of a distribution, and agents run what they read. So
for a missing module a name counts only where the metadata of the project or of an
installed distribution ask for it.
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
from pytest_failure_taxonomy.taxonomy.code_owners import (
    RUNNERS,
    SELF,
    TEST_FILES,
    TEST_FOLDERS,
)
from pytest_failure_taxonomy.taxonomy.evidence import RaisingFrame
from pytest_failure_taxonomy.taxonomy.judgement import CodeOwner
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.origin import OriginFinder

_MAX_CAUSES: Final = 5
"""Causes of causes that are asked for a frame."""

_ARCHIVES: Final = (".egg", ".whl", ".zip", ".pex", ".pyz", ".shiv")
"""How the files are called that Python imports packages from."""
_MAX_BYTES: Final = 8_000_000
"""The most that is read of one file; the largest list of a distribution's files has 3
MB."""
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
"""Files with requirements that are read of a project, so many in each of its
folders."""
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
            test_files: the patterns of pytest's `python_files`; its default where there
                are none.
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
        """Return the frame that raised; if it is pytest's, the one it speaks of.

        Args:
            error: has been raised.
            asked: the entries of its traceback, without the standard library's and
                pytest's.
            is_in_own_code: the user's code is among them.
        """
        entry = None
        asked = self._finder.skip_answering_frames(error, asked)
        if asked and not inspection.is_of_fixture_lookup(error):
            raised = asked[-1]
            code = raised.tb_frame.f_code
            line = raised.tb_lineno
            where = self._finder.collected
            key = (code.co_filename, line, code.co_qualname, where, is_in_own_code)
            if key in self._frames:
                return self._frames[key]
            entry = next(filter(_may_have_raised, reversed(asked)), None)
        if entry is None:
            return self._find_subject(error) or self._find_innermost(error)
        frame = self._describe_entry(entry, is_in_own_code=is_in_own_code)
        # A file that `describe` had to look for is not that of the code: the key misses
        # it.
        has_file = entry.tb_frame.f_code.co_filename in self._codes
        if frame is not None and entry is raised and has_file:
            self._frames[key] = frame
        return frame

    def _describe_entry(
        self, entry: TracebackType, *, is_in_own_code: bool = False
    ) -> RaisingFrame | None:
        frame = entry.tb_frame
        code = frame.f_code
        return self.describe(
            tracebacks.function_of(code),
            code.co_filename,
            frame.f_globals,
            entry.tb_lineno,
            is_in_own_code=is_in_own_code,
        )

    def describe(
        self,
        function: str,
        name: str,
        names: dict[str, object],
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
            code = self._codes.get(file) or self._describe_owner(file, names)
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

    def _describe_owner(self, name: str, names: dict[str, object]) -> Code:
        dotted = tracebacks.module_name_in(names)
        file_owner, path, is_asked = self._finder.file(name, names)
        module = dotted
        if not module:  # generated code has none
            stem = path.removeprefix("src/").rpartition(".")[0]
            module = stem.replace("/", ".").removesuffix(".__init__")
        if file_owner == tracebacks.FOREIGN and not is_asked:
            return Code("python", None, module, path, name)
        absolute = os.path.abspath(name)
        is_own = file_owner == tracebacks.OWN
        if is_own and not self._is_of_a_distribution(absolute, dotted):
            owner = self.owner_of_users(absolute, path)
            return Code(owner, None, module, path, absolute)
        owner = "dependency"
        words = None
        is_library_with_plugin = False
        distribution = distribution_of(absolute)
        if distribution is not None:
            words = distribution.words
            is_library_with_plugin = bool(distribution.plugins)
            if distribution.has_as_plugin(module):
                owner = "plugin"
                is_library_with_plugin = False
        package = module.partition(".")[0]
        if package in RUNNERS:
            owner = "plugin" if package == SELF else "pytest"
            is_library_with_plugin = False
        return Code(owner, words, module, path, absolute, is_library_with_plugin)

    def owner_of_users(self, absolute: str, path: str) -> CodeOwner:
        """Return whose code a file is that was not installed, judged by its place.

        Args:
            absolute: its path.
            path: relative to the root directory, or to the folder that it is imported
                from.
        """
        base = os.path.basename(absolute)
        if base == "conftest.py":
            return "conftest"
        if absolute.startswith(self._finder.roots):
            folders = path.split("/")[:-1]
            if "tests" in folders or not TEST_FOLDERS.isdisjoint(folders[:1]):
                return "test"
        for pattern in self._test_files:  # as pytest itself decides it
            is_of_path = "/" in pattern
            place = absolute.replace(os.sep, "/") if is_of_path else base
            if fnmatchcase(place, f"*/{pattern}" if is_of_path else pattern):
                return "test"
        return "project"

    def _is_of_a_distribution(self, absolute: str, dotted: str) -> bool:
        """Tell whether a file is in an archive, or in a folder of distributions.

        Such a folder is made by `pip install --target`. That of an editable
        installation holds the sources alone.
        """
        for part in absolute.split(os.sep)[:-1]:
            if part.endswith(_ARCHIVES):
                return True
        if not dotted:
            return False
        # The folder that its package is imported from.
        folder = os.path.dirname(absolute.removesuffix(f"{os.sep}__init__.py"))
        for _ in range(dotted.count(".")):
            folder = os.path.dirname(folder)
        is_root = os.path.join(folder, "") in self._finder.roots
        return not is_root and _has_distributions(folder)

    def _find_subject(self, error: Any) -> RaisingFrame | None:
        """Return the frame that an exception of pytest's own speaks of."""
        with suppress(Exception):  # pytest's objects, of which nothing is public
            if inspection.is_of_fixture_lookup(error):
                # The test or the fixture that asks for a fixture that nobody has.
                asking = [error.request._pyfuncitem.obj]  # noqa: SLF001 - the only way
                asking += [fixture.func for fixture in error.fixturestack]
                if error.msg is not None and len(asking) > 1:
                    asking.pop()
                return self._locate_function(asking[-1])
            if inspection.module_of(type(error)) in ("doctest", "_pytest.doctest"):
                return self._locate_doctest(error)
            cause = error
            for _ in range(_MAX_CAUSES):
                cause = inspection.direct_cause_of(cause)
                if cause is None:
                    break
                frame = self._finder.find(cause)[1]
                if frame is not None:
                    return frame
        return None

    def _locate_function(self, function: Any) -> RaisingFrame | None:
        while (plain := inspection.function_in(function)) is None:
            if type(function) is partial:
                function = function.func
            else:
                function = inspection.attribute_of(function, "__wrapped__")
            if function is None:
                return None
        code = plain.__code__
        return self.describe(
            tracebacks.function_of(code),
            code.co_filename,
            plain.__globals__,
            code.co_firstlineno,
        )

    def _locate_doctest(self, error: Any) -> RaisingFrame | None:
        failures = inspection.attribute_of(error, "failures")
        failure = failures[0] if failures else error
        raised = inspection.attribute_of(failure, "exc_info")
        if raised is not None:
            frame = self._finder.find(raised[1])[1]
            if frame is not None:
                return frame
        test = failure.test
        line = test.lineno
        if line is not None:
            line += failure.example.lineno + 1
        frame = self.describe(test.name, test.filename, test.globs, line)
        return frame and replace(frame, owner="test")

    def _find_innermost(self, error: BaseException) -> RaisingFrame | None:
        """Return the innermost hidden frame, else pytest's, else Python's."""
        hidden = pytests = pythons = None
        for entry in inspection.entries_of(error)[: tracebacks.MAX_FRAMES]:
            frame = entry.tb_frame
            following = entry.tb_next
            code = frame.f_code
            file = self._finder.file(code.co_filename, frame.f_globals)
            if file.owner == tracebacks.RUNNER:
                if file.path.startswith(f"{SELF}/"):
                    pytests = None  # nobody's code fails a bench case
                elif not tracebacks.is_hidden(frame, code):
                    pytests = entry
                continue
            if tracebacks.file_of_frame(frame) is None:
                continue
            if following is not None and tracebacks.passes_on(following):
                continue
            if file.is_asked:
                hidden = entry
            else:
                pythons = entry
        innermost = hidden or pytests or pythons
        return innermost and self._describe_entry(innermost)


def _may_have_raised(entry: TracebackType) -> bool:
    """Tell whether an exception comes from a frame if no deeper one can have raised it.

    A hidden one says that its caller is to blame. Of generated code that is who wrote
    it, if that is known, or else who called it.
    """
    frame = entry.tb_frame
    following = entry.tb_next
    if tracebacks.is_hidden(frame, frame.f_code):
        return False
    if following is not None and tracebacks.passes_on(following):
        return False
    return tracebacks.file_of_frame(frame) is not None


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

    def has_as_plugin(self, module: str) -> bool:
        """Tell whether a module of it is a plugin's, by its dotted name."""
        if not self.plugins:
            return False
        # It has no other use than with pytest, as far as its name tells.
        if "pytest" in self.name.lower():
            return True
        return any(f"{module}.".startswith(f"{plugin}.") for plugin in self.plugins)


def distribution_of(path: str) -> Distribution | None:
    """Return the distribution of an installed file, or `None` if it isn't known.

    Args:
        path: absolute, below a `site-packages`, or in a folder or an archive like one.
    """
    parts = path.replace(os.sep, "/").split("/")
    depth = own_files.depth_of_libraries(parts)
    if depth == len(parts):
        return None
    # Perhaps another folder that distributions are installed to, or an archive.
    if depth == 0:
        depth = len(parts) - 1
        while not _is_installed_at(parts, depth):
            depth -= 1
            if depth < 2:
                return None
    folder = "/".join(parts[:depth])
    top = parts[depth]
    if top.endswith(_ARCHIVES):
        name, _, tags = top.rpartition(".")[0].partition("-")
        version = tags.partition("-")[0]
        if tags:
            return Distribution(name, version, ())
        return None
    is_file = depth == len(parts) - 1
    if is_file or os.path.exists(f"{folder}/{top}/__init__.py"):
        return _find(folder, top)
    return _find(folder, "/".join(parts[depth:]))  # of a namespace package


def _is_installed_at(parts: Sequence[str], depth: int) -> bool:
    if parts[depth].endswith(_ARCHIVES):
        return True
    return _has_distributions("/".join(parts[:depth]))


def distribution_with(module: str, root: str) -> dict[str, str]:
    """Return the fact that says who has a missing module; empty if that is not sure.

    Args:
        module: dotted name.
        root: the root directory, absolute.
    """
    own = f"{root}/{module}"
    source = f"{root}/src/{module}"
    has_file = os.path.exists(f"{own}.py")
    is_packaged = has_file or os.path.exists(f"{own}/__init__.py")
    if not is_packaged:
        is_packaged = os.path.exists(source) or os.path.exists(f"{source}.py")
    if is_packaged and module not in _NEVER_INSTALLED and _is_built(root):
        return {"own_package": "."}
    reviewed = packaged_table("distributions").get(module, "").split()
    names = {normal_name(name) for name in (module, *reviewed)}
    for normal, name in _read_requirements(root).items():
        if normal in names:
            return {"distribution": name}
    if has_file or os.path.exists(own):
        return {"own_folder": "."}
    return {}


def _is_built(root: str) -> bool:
    """Tell whether a distribution is built from a project."""
    is_configured = not _project(root).keys().isdisjoint(("project", "build-system"))
    return is_configured or os.path.isfile(f"{root}/setup.py")


def _has_distributions(folder: str) -> bool:
    """Tell whether distributions are installed to a folder, whatever it is called."""
    return any(name.endswith(".dist-info") for name in _list_folder(folder))


@lru_cache(maxsize=1_000)
def _find(folder: str, relative: str) -> Distribution | None:
    """Return the distribution of a top-level module or a namespace package's file."""
    top = relative.partition("/")[0].partition(".")[0]
    same = normal_name(top)
    named: list[str] = []
    others: list[str] = []
    for entry in _list_folder(folder):
        name = normal_name(entry.partition("-")[0].removesuffix(".egg"))
        (named if name == same else others).append(entry)
    for entry in (*named, *others):
        if _lists_module(f"{folder}/{entry}", top, relative):
            return _read_distribution(folder, entry)
    if named:
        return _read_distribution(folder, named[0])
    return None


def _read_distribution(folder: str, entry: str) -> Distribution:
    """Read what the folder or the file with a distribution's metadata says of it."""
    info = f"{folder}/{entry}"
    head = (_metadata(info) or read_text(info)).partition("\n\n")[0]
    fields = dict(reversed(re.findall(_FIELDS, head)))  # the first of a name counts
    name, _, version = entry.rpartition(".")[0].partition("-")
    entry_points = read_text(f"{info}/entry_points.txt").replace("\r\n", "\n")
    plugins: list[str] = []
    for section in re.findall(_ENTRY_POINTS, entry_points):
        plugins += re.findall(_MODULE, section)
    return Distribution(
        fields.get("Name", name),
        fields.get("Version", version),
        tuple(plugins),
        info,
    )


def _lists_module(info: str, top: str, relative: str) -> bool:
    """Tell whether a distribution lists a file, or a module by its top name."""
    tops = read_text(f"{info}/top_level.txt").split()
    if tops and top not in tops:
        return False
    files = read_text(f"{info}/RECORD")
    if not files:
        return top in tops
    record = f"\n{files}"
    if "/" in relative:
        return f"\n{relative}," in record
    return f"\n{top}/" in record or f"\n{top}." in record


@lru_cache(maxsize=100)
def _list_folder(folder: str) -> tuple[str, ...]:
    entries: list[str] = []
    with suppress(OSError, ValueError):
        entries = sorted(os.listdir(folder))
    return tuple([entry for entry in entries if entry.endswith(_ENDINGS)])


@lru_cache(maxsize=10)
def _project(root: str) -> dict[str, Any]:
    with suppress(ValueError):
        return tomllib.loads(read_text(f"{root}/pyproject.toml"))
    return {}


@lru_cache(maxsize=10)
def _read_requirements(root: str) -> dict[str, str]:
    """Return the requirements of project and distributions, by normal names."""
    texts: list[str] = []
    for folder in (f"{root}/", f"{root}/requirements/"):
        with suppress(OSError):
            files = [folder + name for name in sorted(os.listdir(folder))]
            lists = [file for file in files if re.search(_REQUIREMENTS, file)]
            texts += map(read_text, lists[:_MAX_LISTS])
    with suppress(AttributeError, TypeError):  # a table is of another form
        texts += _requirements_in(_project(root))
    for folder in sys.path:
        for entry in _list_folder(folder):
            texts += requirements_of(f"{folder}/{entry}")
    names: dict[str, str] = {}
    for text in texts:
        for name in re.findall(_REQUIREMENT, text):
            names[normal_name(name)] = name
    return names


def _requirements_in(pyproject: dict[str, Any]) -> list[str]:
    """Return the requirements in a `pyproject.toml`; poetry's tables have names.

    Raises:
        AttributeError, TypeError: if a table is of another form.
    """
    project = pyproject.get("project", {})
    poetry = pyproject.get("tool", {}).get("poetry", {})
    tables = [project, poetry, *poetry.get("group", {}).values()]
    lists = [table.get("dependencies", ()) for table in tables]
    groups = project.get("optional-dependencies", {})
    groups = groups | pyproject.get("dependency-groups", {})
    lists += groups.values()
    requirements: list[str] = []
    for dependencies in lists:
        requirements += [text for text in dependencies if type(text) is str]
    return requirements


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
        # A test may have patched the built-in `open`.
        io.open(path, encoding="utf-8", errors="replace") as file,  # noqa: UP020
    ):
        return file.read(_MAX_BYTES)
    return ""
