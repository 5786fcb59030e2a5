"""What well-known plugins add to pytest: who has an option, a setting, a fixture or a mark.

The table is `data/plugins.toml`, read when pytest has refused something or a fixture is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

from pytest_failure_taxonomy.taxonomy.tables import packaged_table

Sort = Literal["options", "settings", "fixtures", "marks"]
"""What a plugin can add."""

_REFUSED: Final = re.compile(r"unrecognized arguments: (?P<options>.+?)(?: \(from .+\))?$")
_REQUIREMENT: Final = re.compile(r"[^\w.-]")
NOT_LOADED: Final = "is installed but not loaded"
"""What is said of a plugin that is there; installing it would not help."""
_SHORT: Final = re.compile(r"(-[a-zA-Z])(?!-).*")


@cache
def names_by_distribution(sort: Sort) -> Mapping[str, Sequence[str]]:
    """Return the names of one sort that distributions have."""
    plugins = packaged_table("plugins").items()
    return MappingProxyType({name: added[sort] for name, added in plugins if sort in added})


def distributions_with(sort: Sort, name: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have something of one sort."""
    return tuple(
        sorted(each for each, names in names_by_distribution(sort).items() if name in names)
    )


def distributions_with_option(argument: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have an option.

    Args:
        argument: as it is typed, such as `--cov=src` or `-n4`.
    """
    short = _SHORT.fullmatch(argument)
    return distributions_with("options", short[1] if short else argument.partition("=")[0])


def refused_options(said: str) -> tuple[str, ...]:
    """Return the options that pytest has refused, by its words; none if it says something else."""
    found = _REFUSED.match(said)
    words = found["options"].split() if found else ()
    return tuple(each for each in words if each.startswith("-"))


def which_to_install(sort: Sort | Literal["plugins"], names: str) -> str:
    """Return how to install the plugins that have what is missing; empty where nobody is known.

    Args:
        sort: of what is missing; `plugins` themselves, with versions perhaps.
        names: one name, or for options and plugins several, as pytest lists them.
    """
    if sort == "options":
        options = refused_options(f"unrecognized arguments: {names}")
        wanted = dict.fromkeys(map(distributions_with_option, options))
    elif sort == "plugins":
        listed = [_REQUIREMENT.split(each.strip())[0] for each in names.split(",")]
        wanted = {(each,): None for each in listed if each in packaged_table("plugins")}
    else:
        wanted = {distributions_with(sort, names): None}
    known = [each for each in wanted if each]
    if any(len(each) > 1 for each in known):
        return f"install {' and '.join(' or '.join(each) for each in known)}"
    return install_command([each[0] for each in known]) if known else ""


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs distributions."""
    return f"pip install {' '.join(names)}"
