"""Find the distribution that an installed file belongs to.

`importlib.metadata` would read all of them, which takes a tenth of a second in a large environment.
Here only the names of their folders are listed, and the few files of those that come into question
are read. None of it runs unless code of a distribution has raised something.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from pytest_failure_taxonomy.recorder.origin import LIBRARIES

ARCHIVES: Final = (".egg", ".whl", ".zip", ".pex", ".pyz", ".shiv")
"""How the files are called that Python imports packages from."""

_MAX_BYTES: Final = 8_000_000
"""The most that is read of one file; the largest list of a distribution's files has 3 MB."""
_ENDINGS: Final = (".dist-info", ".egg-info")
_FIELDS: Final = re.compile(r"^(Name|Version):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_ENTRY_POINTS: Final = re.compile(r"^\[pytest11\]$([^\[]*)", re.MULTILINE)
_MODULE: Final = re.compile(r"^[^#;=\n]+=\s*([\w.]+)", re.MULTILINE)
_SEPARATORS: Final = re.compile(r"[-_.]+")


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
    same = normal_name(top)
    named = [each for each in _listed(folder) if _name_in(each) == same]
    others = [each for each in _listed(folder) if each not in named]
    sure = next((each for each in (*named, *others) if _has(folder, each, top, relative)), None)
    found = sure or next(iter(named), None)
    return None if found is None else _read_distribution(f"{folder}/{found}")


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


def _name_in(info: str) -> str:
    """Return the name of a distribution as the name of its folder has it, in its normal form."""
    return normal_name(info.partition("-")[0].removesuffix(".egg"))


@lru_cache(maxsize=100)
def _listed(folder: str) -> tuple[str, ...]:
    with suppress(OSError, ValueError):
        return tuple(sorted(each for each in os.listdir(folder) if each.endswith(_ENDINGS)))
    return ()


@lru_cache(maxsize=1_000)
def _read_distribution(info: str) -> Distribution:
    text = read_text(f"{info}/METADATA") or read_text(f"{info}/PKG-INFO") or read_text(info)
    fields = dict(reversed(_FIELDS.findall(text.partition("\n\n")[0])))
    name, _, version = os.path.basename(info).rpartition(".")[0].partition("-")
    entry_points = read_text(f"{info}/entry_points.txt").replace("\r\n", "\n")
    sections = _ENTRY_POINTS.findall(entry_points)
    return Distribution(
        fields.get("Name", name),
        fields.get("Version", version),
        tuple(module for section in sections for module in _MODULE.findall(section)),
    )


def normal_name(name: str) -> str:
    """Return the form of a distribution's name by which names are compared."""
    return _SEPARATORS.sub("-", name).lower()


def metadata_in(folder: str) -> Iterator[str]:
    """Yield the metadata of the distributions that are installed to a folder."""
    for info in _listed(folder):
        text = read_text(f"{folder}/{info}/METADATA") or read_text(f"{folder}/{info}/PKG-INFO")
        yield text.partition("\n\n")[0]


def read_text(path: str) -> str:
    """Return the text of a file, an empty one where it can't be read."""
    with suppress(OSError, ValueError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_BYTES)
    return ""
