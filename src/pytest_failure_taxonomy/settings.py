"""What a run was asked for: options and ini values, checked and settled."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.taxonomy.stages import Stage, parse_stage

if TYPE_CHECKING:
    import pytest

DEFAULT_REPORT: Final = "failure-report.json"

_OTHER_REPORTS: Final = {
    "xmlpath": "--junitxml",
    "report_log": "--report-log",
    "json_report_file": "--json-report-file",
    "htmlpath": "--html",
    "log_file": "--log-file",
}
"""Options of pytest and of well-known plugins that write a file, by their names in the config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settled options of one run."""

    report: Path
    """Absolute."""
    report_was_named: bool
    """The user chose the path; where not, a folder that can't be written is no error."""
    stage: Stage
    strict_baseline: bool


def read_settings(config: pytest.Config) -> Settings:
    """Settle the options of a run; a flag wins over its ini value.

    Raises:
        SettingsError: values are unusable or contradict each other; the message names all.
    """
    problems: list[str] = []
    options = _options(config)
    report, named = _report_path(config, options)
    stage = Stage.FINAL_TEST
    try:
        stage = parse_stage(
            options.failure_taxonomy_stage or config.getini("failure_taxonomy_stage") or stage
        )
    except ValueError as error:
        problems.append(f"failure_taxonomy_stage: {error}")
    strict = options.failure_taxonomy_strict_baseline
    if strict and stage is not Stage.BASELINE_RUN:
        problems.append(
            f"--failure-taxonomy-strict-baseline contradicts the stage {stage}; "
            "give --failure-taxonomy-stage=baseline_run with it or leave it out"
        )
    for name, option in _OTHER_REPORTS.items():
        other = getattr(options, name, None)
        if isinstance(other, str) and other and _absolute(config, other) == report:
            problems.append(
                f"--failure-taxonomy-report and {option} both name {other}; give each its own file"
            )
    if problems:
        raise SettingsError("; ".join(problems))
    return Settings(
        report=report,
        report_was_named=named,
        stage=stage,
        strict_baseline=strict or config.getini("failure_taxonomy_strict_baseline"),
    )


def _options(config: pytest.Config) -> argparse.Namespace:
    """Return pytest's parsed options; where it failed before it knew ours, our own reading."""
    options: argparse.Namespace | None = getattr(config, "known_args_namespace", None)
    if options is not None and hasattr(options, "failure_taxonomy"):
        return options
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--failure-taxonomy-report")
    parser.add_argument("--failure-taxonomy-stage")
    parser.add_argument("--failure-taxonomy-strict-baseline", action="store_true")
    return parser.parse_known_args([str(arg) for arg in config.invocation_params.args])[0]


def _report_path(config: pytest.Config, options: argparse.Namespace) -> tuple[Path, bool]:
    option: str | None = options.failure_taxonomy_report
    if option is not None:
        if not option.strip():
            raise SettingsError(
                "--failure-taxonomy-report: the path is empty; give the name of a file"
            )
        return _absolute(config, option), True
    ini = config.getini("failure_taxonomy_report")
    if ini:
        base = config.inipath.parent if config.inipath else config.rootpath
        return Path(os.path.abspath(base / Path(ini).expanduser())), True
    return _absolute(config, DEFAULT_REPORT), False


def _absolute(config: pytest.Config, path: str) -> Path:
    # Not resolve(): a symbolic link has to stay one to be refused.
    started_in = config.invocation_params.dir
    return Path(os.path.abspath(started_in / Path(os.path.expandvars(path)).expanduser()))
