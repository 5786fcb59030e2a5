"""What well-known plugins add to pytest: who has an option, a setting or a fixture.

The table is `data/plugins.toml`, read when pytest has refused something or a fixture is missing.
"""

from __future__ import annotations

import pkgutil
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

Sort = Literal["options", "settings", "fixtures"]
"""What a plugin can add."""

_EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {f"pytest-{extra}": extra for extra in ("asyncio", "timeout", "xdist")}
)
"""The distributions that extras of this package install, and the names of the extras."""
_REFUSED: Final = re.compile(r"unrecognized arguments: (?P<options>.+?)(?: \(from .+\))?$")
_UNKNOWN_SETTING: Final = re.compile(r"Unknown config option: (?P<name>[\w-]+)")
NOT_LOADED: Final = "is installed but not loaded"
"""What is said of a plugin that is there; installing it would not help."""
_SHORT: Final = re.compile(r"(-[a-zA-Z])(?!-).*")


@cache
def names_by_distribution(sort: Sort) -> Mapping[str, Sequence[str]]:
    """Return the names of one sort that distributions have."""
    text = pkgutil.get_data(__name__.rpartition(".")[0], "data/plugins.toml") or b""
    plugins = tomllib.loads(text.decode()).items()
    return MappingProxyType({name: added[sort] for name, added in plugins if sort in added})


def distributions_with(sort: Sort, name: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have an option, a setting or a fixture."""
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


def hint_for(said: str) -> str:
    """Return which plugins have what pytest has refused, and how to install them.

    The hint is empty where nobody is known to have it, and where the reason is another.

    Args:
        said: pytest's words, and the place in brackets.
    """
    setting = _UNKNOWN_SETTING.match(said)
    if NOT_LOADED in said:
        return ""
    if setting:
        wanted = {distributions_with("settings", setting["name"]): None}
    else:
        wanted = dict.fromkeys(map(distributions_with_option, refused_options(said)))
    known = [each for each in wanted if each]
    if not known:
        return ""
    has = "has it" if len(known) == 1 else "have them"
    words = f"{' and '.join(' or '.join(each) for each in known)} {has}"
    if any(len(each) > 1 for each in known):
        return words
    return f"{words}: {install_command([each[0] for each in known])}"


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs distributions, by extras of this package where it can."""
    if all(name in _EXTRAS for name in names):
        extras = ",".join(_EXTRAS[name] for name in names)
        return f'pip install "pytest-failure-taxonomy[{extras}]"'
    return f"pip install {' '.join(names)}"
