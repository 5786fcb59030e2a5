"""Have what pytest and its plugins write go elsewhere, in a run of our own.

`data/experiments.toml` has the options, of pytest and of well-known plugins.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy import packaged_table

_TABLE: Final = packaged_table("experiments")
_VALUES: Final[Mapping[str, bool | int | None]] = {
    "none": None,
    "off": False,
    "on": True,
    "zero": 0,
}
_NEUTRAL: Final[dict[str, bool | int | str | None]] = {}
for _neutral, _names in _TABLE["neutral"].items():
    _NEUTRAL.update(dict.fromkeys(_names, _VALUES.get(_neutral, _neutral)))
"""Values that options have in an experiment, by their names in the config."""
_IS_WRITTEN: Final = re.compile(_TABLE["written"]["names"]).search
"""Tells whether an option or an ini value of a name names what is written."""


class Redirection:
    """Options and ini values that name files of a folder of our own."""

    def __init__(self, folder: Path, *, keeps_runs: bool) -> None:
        """Prepare.

        Args:
            folder: where files go.
            keeps_runs: leave alone what decides which tests run, and where.
        """
        self._folder = folder
        self._neutral = dict(_NEUTRAL)
        if keeps_runs:
            for name in _TABLE["neutral_runs"]["options"]:
                del self._neutral[name]

    def redirect_options(self, config: pytest.Config) -> None:
        """Have options keep what the table says, whoever sets them, and when.

        pytest parses its command line once more after the first conftest was loaded,
        and plugins and conftests set options of others.
        """
        decide = self._decide

        class Options(argparse.Namespace):
            def __setattr__(self, name: str, option: Any) -> None:
                super().__setattr__(name, decide(name, option))

        for options in (config.option, config.known_args_namespace):
            options.__class__ = Options
            for name, option in [*vars(options).items()]:
                setattr(options, name, option)

    def redirect_ini_values(self, config: pytest.Config) -> None:
        """Have the ini values that are known now name files of our own."""
        # There is no public way to replace one, or to learn which there are.
        for name in filter(_IS_WRITTEN, config._parser._inidict):  # noqa: SLF001
            path = self._redirect(name, config.getini(name))
            config._inicache[name] = path  # noqa: SLF001

    def _decide(self, name: str, option: Any) -> Any:
        return self._neutral.get(name, self._redirect(name, option))

    def _redirect(self, name: str, option: Any) -> Any:
        """Return the value of an option, which names a file of our own if any."""
        if option and isinstance(option, str | Path) and _IS_WRITTEN(name):
            return type(option)(self._folder / f"{name}.{Path(option).name}")
        return option
