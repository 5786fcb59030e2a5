"""Find the distribution that an installed file belongs to, or that a missing module is of.

`importlib.metadata` would read all of them, which takes a tenth of a second in a large environment.
Here only the names of their folders are listed, and the few files of those that come into question
are read. None of it runs unless code of a distribution has raised something.

The name of a module is not that of a distribution, and agents run what they read. So for a missing
module a name counts only where the metadata of the project or of an installed distribution ask for
it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.recorder.origin import LIBRARIES
from pytest_failure_taxonomy.taxonomy.tables import packaged_table

ARCHIVES: Final = (".egg", ".whl", ".zip", ".pex", ".pyz", ".shiv")
"""How the files are called that Python imports packages from."""

_MAX_BYTES: Final = 8_000_000
"""The most that is read of one file; the largest list of a distribution's files has 3 MB."""
_ENDINGS: Final = (".dist-info", ".egg-info")
_FIELDS: Final = re.compile(r"^(Name|Version):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_ENTRY_POINTS: Final = re.compile(r"^\[pytest11\]$([^\[]*)", re.MULTILINE)
_MODULE: Final = re.compile(r"^[^#;=\n]+=\s*([\w.]+)", re.MULTILINE)
_SEPARATORS: Final = re.compile(r"[-_.]+")
_REQUIRED: Final = re.compile(r"^Requires-Dist:(.+)$", re.MULTILINE)
_REQUIREMENT: Final = re.compile(
    # Flags that are joined by `|` call `sorted`, which a test may have replaced.
    r"(?am)^\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?=\s*(?:$|[\[(<>=!~;@#,]))"
)
_REQUIREMENTS: Final = re.compile(r"/(requirements/|([^/]*[-_])?req)[^/]*\.(in|txt)$")
_MAX_LISTS: Final = 30
"""Files with requirements that are read of a project, so many in each of its folders."""
_NEVER_INSTALLED: Final = frozenset({"conftest", "docs", "examples", "test", "testing", "tests"})
"""Folders and modules of a project that are part of no distribution."""


class Distribution(NamedTuple):
    """An installed distribution, as far as it matters here."""

    name: str
    version: str
    plugins: tuple[str, ...]
    """The modules that pytest loads of it, by their dotted names."""

    @property
    def words(self) -> str:
        """Name and version, such as `requests 2.32.5`."""
        return f"{self.name} {self.version}".strip()

    @property
    def is_plugin_alone(self) -> bool:
        """Whether it has no other use than with pytest, as far as its name tells."""
        return bool(self.plugins) and "pytest" in self.name.lower()

    def is_plugin_module(self, dotted: str) -> bool:
        """Tell whether pytest loads this module, or a package that it is in."""
        return any(f"{dotted}.".startswith(f"{each}.") for each in self.plugins)


def distribution_of(path: str) -> Distribution | None:
    """Return the distribution of an installed file, or `None` if that can't be found out.

    Args:
        path: absolute, below a `site-packages`, or in a folder or an archive like one.
    """
    folder, _, relative = _split(path.replace(os.sep, "/"))
    if not relative:
        return None
    top, _, rest = relative.partition("/")
    if top.endswith(ARCHIVES):
        name, _, version = top.rpartition(".")[0].partition("-")
        return Distribution(name, version.partition("-")[0], ()) if version else None
    is_namespace = bool(rest) and not os.path.exists(f"{folder}/{top}/__init__.py")
    return _find(folder, relative if is_namespace else top)


def distribution_with(module: str, root: str) -> dict[str, str]:
    """Return the fact that says who has a missing module; none where that is not sure.

    Args:
        module: dotted name.
        root: the root directory, absolute.
    """
    is_built = not _project(root).keys().isdisjoint(("project", "build-system"))
    if module not in _NEVER_INSTALLED and (is_built or os.path.isfile(f"{root}/setup.py")):
        places = f"src/{module}", f"src/{module}.py", f"{module}/__init__.py", f"{module}.py"
        if any(os.path.exists(f"{root}/{place}") for place in places):
            return {"own_package": "."}
    reviewed = packaged_table("distributions").get(module, "").split()
    names = {_normal(name) for name in (module, *reviewed)}
    found = next((name for each, name in _asked_for(root).items() if each in names), "")
    if found:
        return {"distribution": found}
    is_there = any(os.path.exists(f"{root}/{place}") for place in (module, f"{module}.py"))
    return {"own_folder": "."} if is_there else {}


def is_installed_at(folder: str) -> bool:
    """Tell whether distributions are installed to a folder, whatever it is called."""
    return any(each.endswith(".dist-info") for each in _listed(folder))


def _split(path: str) -> tuple[str, str, str]:
    """Split a path at the folder that its distribution is installed to."""
    parts = path.split("/")
    ends = [i for i, part in enumerate(parts) if part in LIBRARIES]
    if ends:
        at = ends[-1]
        return "/".join(parts[: at + 1]), parts[at], "/".join(parts[at + 1 :])
    for at in range(len(parts) - 1, 1, -1):
        folder = "/".join(parts[:at])
        if is_installed_at(folder) or parts[at].endswith(ARCHIVES):
            return folder, parts[at - 1], "/".join(parts[at:])
    return "", "", ""


@lru_cache(maxsize=1_000)
def _find(folder: str, relative: str) -> Distribution | None:
    """Return the distribution that has a top-level module, or a file of a namespace package."""
    top = relative.partition("/")[0].partition(".")[0]
    same = _normal(top)
    named = [each for each in _listed(folder) if _name_in(each) == same]
    others = [each for each in _listed(folder) if each not in named]
    sure = next((each for each in (*named, *others) if _has(folder, each, top, relative)), None)
    found = sure or next(iter(named), None)
    return None if found is None else _read_distribution(f"{folder}/{found}")


def _has(folder: str, info: str, top: str, relative: str) -> bool:
    """Tell whether a distribution lists a file of its own, or a module by its top-level name."""
    tops = _read(f"{folder}/{info}/top_level.txt").split()
    if tops and top not in tops:
        return False
    record = "\n" + _read(f"{folder}/{info}/RECORD")
    if record == "\n":
        return top in tops
    if "/" in relative:
        return f"\n{relative}," in record
    return f"\n{top}/" in record or f"\n{top}." in record


def _name_in(info: str) -> str:
    """Return the name of a distribution as the name of its folder has it, in its normal form."""
    return _normal(info.partition("-")[0].removesuffix(".egg"))


@lru_cache(maxsize=100)
def _listed(folder: str) -> tuple[str, ...]:
    with suppress(OSError, ValueError):
        return tuple(sorted(each for each in os.listdir(folder) if each.endswith(_ENDINGS)))
    return ()


@lru_cache(maxsize=1_000)
def _read_distribution(info: str) -> Distribution:
    text = _read(f"{info}/METADATA") or _read(f"{info}/PKG-INFO") or _read(info)
    fields = dict(reversed(_FIELDS.findall(text.partition("\n\n")[0])))
    name, _, version = os.path.basename(info).rpartition(".")[0].partition("-")
    entry_points = _read(f"{info}/entry_points.txt").replace("\r\n", "\n")
    sections = _ENTRY_POINTS.findall(entry_points)
    return Distribution(
        fields.get("Name", name),
        fields.get("Version", version),
        tuple(module for section in sections for module in _MODULE.findall(section)),
    )


@lru_cache(maxsize=10)
def _project(root: str) -> dict[str, Any]:
    from tomllib import loads

    with suppress(ValueError):
        return loads(_read(f"{root}/pyproject.toml"))
    return {}


@lru_cache(maxsize=10)
def _asked_for(root: str) -> dict[str, str]:
    """Return what the project asks for, then what installed distributions do, by normal names."""
    texts: list[str] = []
    for folder in (f"{root}/", f"{root}/requirements/"):
        with suppress(OSError):
            files = [folder + name for name in sorted(os.listdir(folder))]
            texts += map(_read, [*filter(_REQUIREMENTS.search, files)][:_MAX_LISTS])
    with suppress(AttributeError, TypeError):  # a table is of another form
        pyproject = _project(root)
        project, poetry = pyproject.get("project", {}), pyproject.get("tool", {}).get("poetry", {})
        groups = project.get("optional-dependencies", {}) | pyproject.get("dependency-groups", {})
        of_poetry = [poetry, *poetry.get("group", {}).values()]
        asked = [each.get("dependencies", ()) for each in (project, *of_poetry)]
        texts += [text for each in (*asked, *groups.values()) for text in each if type(text) is str]
    for info in (f"{folder}/{name}" for folder in sys.path for name in _listed(folder)):
        texts += _REQUIRED.findall(_read(f"{info}/METADATA") or _read(f"{info}/PKG-INFO"))
    return {_normal(name): name for text in texts for name in _REQUIREMENT.findall(text)}


def _normal(name: str) -> str:
    """Return the form of a distribution's name by which names are compared."""
    return _SEPARATORS.sub("-", name).lower()


def _read(path: str) -> str:
    with suppress(OSError, ValueError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_BYTES)
    return ""
