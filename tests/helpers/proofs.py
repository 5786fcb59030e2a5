"""Run pytest, and prove the causes of its report."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.runs import PytestRuns


class Proofs:
    """Runs pytest and proves the causes of its report."""

    def __init__(self, runs: PytestRuns, capsys: pytest.CaptureFixture[str]) -> None:
        self.runs = runs
        self._capsys = capsys

    def prove(self, *words: str) -> tuple[int, list[str], list[str]]:
        """Return exit code and lines of the command."""
        self._capsys.readouterr()
        code = main(["prove", *words])
        printed = self._capsys.readouterr()
        return code, printed.out.splitlines(), printed.err.splitlines()

    def proofs(self) -> dict[str, dict[str, Any]]:
        """Return the proofs of the report by the first test of their causes."""
        report = self.runs.read_report()
        return {cause["nodeids"][0]: cause["proof"] for cause in report["causes"]}

    def prove_only(self, *words: str) -> dict[str, Any]:
        """Return the proof of the report's only cause, once it was made."""
        self.prove(*words)
        (proof,) = self.proofs().values()
        return proof
