"""A copy of the project in which tests run, although another copy may be installed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Experiments,
    Outcome,
    Setup,
)
from pytest_failure_taxonomy.taxonomy.values import replace


class Place:
    """A checkout in which tests run, while what is installed may be another one.

    Attributes:
        setup: how to run pytest in it.
    """

    def __init__(self, setup: Setup, source: Path, folder: Path) -> None:
        """Prepare.

        Args:
            setup: how to run pytest in the user's own checkout.
            source: the folder of that.
            folder: that of the one in which the tests run.
        """
        self.source, self.folder = source, folder
        self._roots: list[str] = []
        rootdir = self._moved(str(setup.rootdir.resolve()))
        self.setup = replace(
            setup,
            args=(*map(self._moved, setup.args), f"--rootdir={rootdir}"),
            folder=Path(self._moved(str(setup.folder.resolve()))),
            rootdir=Path(rootdir),
        )

    def run(
        self, experiments: Experiments, repeat: recorded.Repeat, **more: Any
    ) -> Outcome:
        """Run a test as it failed, with the project's modules from this checkout.

        Raises:
            ExperimentError: they come from elsewhere whatever `sys.path` says.
        """
        while True:
            conditions = repeat.conditions
            path = ("PYTHONPATH", self._python_path())
            outcome = experiments.run(
                repeat.victim,
                repeat.before,
                replace(conditions, variables=(*conditions.variables, path)),
                is_fresh=True,
                tells_modules=True,
                **more,
            )
            missing = dict(self._missing_roots(outcome.answer("modules") or {}))
            if not missing:
                return outcome
            for root in missing.keys() & self._roots:
                raise ExperimentError(
                    f"{missing[root]}, and not from the commit's files; install the project in a "
                    "way that lets PYTHONPATH come first, such as: pip install -e ."
                )
            self._roots += missing

    def _python_path(self) -> str | None:
        variables = {**os.environ, **self.setup.variables}
        inherited = self._moved(variables.get("PYTHONPATH") or "")
        return os.pathsep.join(filter(None, [*self._roots, inherited])) or None

    def _moved(self, text: str) -> str:
        """Return a text in which paths of the user's checkout have become those of this one."""
        paths = rf"{re.escape(str(self.source))}(?![^/\\:;,\[])"
        return re.sub(paths, lambda _: str(self.folder), text)

    def _missing_roots(self, modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield folders of this checkout that `sys.path` lacks, with a module that shows it."""
        places = (self.folder, self.setup.rootdir, self.setup.folder)
        tops = [place / within for place in places for within in ("", "src")]
        for name, file in modules.items():
            path = Path(file)
            if path.is_relative_to(self.folder) or name == "__main__":
                continue
            words = f"{name} is imported from {file}"
            if path.is_relative_to(self.source):
                same = self.folder / path.relative_to(self.source)
                depth = name.count(".") + (path.stem == "__init__")
                # Else it is no file of the project's.
                if same.exists():
                    yield str(same.parents[depth]), words
            elif name not in sys.stdlib_module_names:
                # A copy of a package may be installed.
                for top in tops:
                    package = top / name / "__init__.py"
                    if package.is_file() or (top / f"{name}.py").is_file():
                        yield str(top), words
