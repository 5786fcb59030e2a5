"""Find out which distribution brings a module that is missing.

The name of a module is not that of a distribution, and agents run what they read. So here a name
counts only where the metadata of the project itself or of an installed distribution asks for it.
The files are read once a run, and only when a module is missing.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

from pytest_failure_taxonomy.recorder.distributions import metadata_in, normal_name, read_text

_MAX_FILES: Final = 20
"""Files of requirements that are read."""
_REQUIREMENT: Final = re.compile(
    r"^\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?=\s*(?:$|[\[(<>=!~;@#,]))", re.ASCII | re.MULTILINE
)
_REQUIRED: Final = re.compile(r"^Requires-Dist:(.+)$", re.MULTILINE)
_NEVER_INSTALLED: Final = frozenset({"conftest", "docs", "examples", "test", "testing", "tests"})
"""Folders and modules of a project that are part of no distribution."""


def distribution_with(module: str, root: str) -> dict[str, str]:
    """Return the fact that says who has a missing module; none where that is not sure.

    Args:
        module: dotted name.
        root: the root directory, absolute.
    """
    if module not in _NEVER_INSTALLED and _is_installable(root):
        places = (os.path.join(root, folder, module) for folder in ("src", ""))
        if any(os.path.isdir(place) or os.path.isfile(f"{place}.py") for place in places):
            return {"own_package": "."}
    name = normal_name(module)
    found = _asked_by_project(root).get(name) or _asked_by_installed().get(name)
    return {"distribution": found} if found else {}


@cache
def _project(root: str) -> dict[str, Any]:
    with suppress(ValueError):  # pytest has refused it, or nobody reads it
        return tomllib.loads(read_text(os.path.join(root, "pyproject.toml")))
    return {}


def _is_installable(root: str) -> bool:
    is_built = not _project(root).keys().isdisjoint(("project", "build-system"))
    return is_built or os.path.isfile(os.path.join(root, "setup.py"))


@cache
def _asked_by_project(root: str) -> dict[str, str]:
    """Return the distributions that a project asks for, by their normal names."""
    texts: list[str] = []
    with suppress(AttributeError, TypeError):  # it is of another form
        texts += _requirements_in(_project(root))
    with suppress(OSError):
        files = sorted(filter(re.compile(r"req.*\.(in|txt)$").match, os.listdir(root)))
        texts += [read_text(os.path.join(root, name)) for name in files[:_MAX_FILES]]
    return _names_in(texts)


def _requirements_in(project: dict[str, Any]) -> Iterator[str]:
    """Yield the requirements in a `pyproject.toml`, Poetry's included, of which keys are names."""
    poetry = _at(project, "tool", "poetry")
    tables = [
        _at(project, "project", "dependencies"),
        *_at(project, "project", "optional-dependencies").values(),
        *_at(project, "dependency-groups").values(),
        *(_at(poetry, name) for name in ("dependencies", "dev-dependencies")),
        *(_at(poetry, "group", name, "dependencies") for name in _at(poetry, "group")),
    ]
    for table in tables:
        yield from (each for each in table if type(each) is str)


def _at(table: dict[str, Any], *keys: str) -> Any:
    for key in keys:
        table = table.get(key, {})
    return table


@cache
def _asked_by_installed() -> dict[str, str]:
    """Return the distributions that installed ones ask for, their extras included."""
    return _names_in(
        asked
        for path in sys.path
        for text in metadata_in(path)
        for asked in _REQUIRED.findall(text)
    )


def _names_in(texts: Iterable[str]) -> dict[str, str]:
    found = (name for text in texts for name in _REQUIREMENT.findall(text))
    return {normal_name(name): name for name in found}
