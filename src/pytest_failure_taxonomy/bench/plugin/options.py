"""The options and ini values of the bench layer, over what a task class's own file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest
from pydantic import ValidationError

from pytest_failure_taxonomy.bench.models import BenchSettings, TaskClass
from pytest_failure_taxonomy.bench.plugin.entry import OPTIONS

SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = MappingProxyType(
    {
        "bench_sut": ("sut", str),
        "bench_sut_isolation": ("sut_isolation", str),
        "bench_rubric_isolation": ("rubric_isolation", str),
        "bench_timeout_per_case_seconds": ("timeout_per_case_seconds", float),
        "bench_rubric_wall_clock_seconds": ("rubric_wall_clock_seconds", float),
        "bench_concurrency": ("concurrency", int),
        "bench_max_cost_usd": ("max_cost_usd", float),
    }
)
"""Each option and ini value, with the setting of a `bench.yaml` that it stands for."""


def check_options(config: pytest.Config) -> None:
    """Refuse values that no task class could have, before anything is collected.

    Raises:
        pytest.UsageError: says in a line for each what is wrong.
    """
    problems = []
    for option, (name, sort) in SETTINGS.items():
        for where, given in (
            (_flag(option), config.getoption(option)),
            (option, config.getini(option) or None),
        ):
            try:
                if given is not None:
                    _converted(where, name, sort, given)
            except pytest.UsageError as error:
                problems.append(str(error))
    if problems:
        raise pytest.UsageError("\n".join(problems))


def effective_settings(config: pytest.Config, task_class: TaskClass) -> BenchSettings:
    """Return the settings of a task class: an option wins, then its `bench.yaml`, then the ini.

    Raises:
        pytest.UsageError: an ini value or an option is none that the setting can have.
    """
    own = task_class.settings
    values = {name: getattr(own, name) for name in BenchSettings.model_fields}
    for option, (name, sort) in SETTINGS.items():
        given: str | None = config.getoption(option)
        if given is None and name not in own.model_fields_set:
            given = config.getini(option) or None
        if given is not None:
            values[name] = _converted(option, name, sort, given)
    return BenchSettings(**values)


def _flag(option: str) -> str:
    return next(flag for flag, name, _, _ in OPTIONS if name == option)


def _converted(option: str, name: str, sort: Callable[[str], Any], given: str) -> Any:
    try:
        value = sort(given)
        BenchSettings.model_validate({name: value})
    except ValidationError as error:
        what = error.errors()[0]["msg"]
        raise pytest.UsageError(f"{option}: {given!r} can't be used: {what}") from None
    except ValueError:
        right = {int: "a whole number", float: "a number"}[sort]  # type: ignore[index]  # str never raises
        raise pytest.UsageError(f"{option}: {given!r} is no number; give {right}") from None
    return value
