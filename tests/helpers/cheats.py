"""The suites of `tests/attacks/cheats`: some cheat, and some only look as if they did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

CHEATS: Final = Path(__file__).parents[1] / "attacks/cheats"
CASE: Final = "case.json"


@dataclass(frozen=True, slots=True)
class Case:
    """A suite and what its `case.json` says of it."""

    folder: Path
    facts: Mapping[str, Any]

    def copy_to(self, folder: Path) -> None:
        """Copy the suite without `case.json`."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns(CASE))

    def without_cheat(self, folder: Path) -> Mapping[str, Any]:
        """Remove the cheat from a copy; return the changed `args`, `env` and `exit`."""
        for name in self.facts["cheat_files"]:
            (folder / name).unlink()
        without: Mapping[str, Any] = self.facts.get("without", {})
        for name, old, new in without.get("replace", ()):
            text = (folder / name).read_text("utf-8")
            assert text.count(old) == 1, f"{name} has not one {old!r}"
            (folder / name).write_text(text.replace(old, new), "utf-8")
        return without


def read_cases(kind: str) -> list[Any]:
    """Return the cases of a kind as parameters."""
    return [
        pytest.param(
            Case(path.parent, json.loads(path.read_text("utf-8"))), id=path.parent.name
        )
        for path in sorted((CHEATS / kind).glob(f"*/{CASE}"))
    ]


def skip_without_needs(case: Case) -> None:
    """Skip the test if a distribution is missing that the suite needs."""
    for requirement in map(Requirement, case.facts["needs"]):
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"needs {requirement}")
        if not requirement.specifier.contains(version, prereleases=True):
            pytest.skip(f"needs {requirement}, not {version}")
