"""The stages of one attempt at a task, in the order in which they run."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """Name the step of an attempt that a command belongs to.

    The value is what users write on the command line and find in the report. A plain test run
    is the `final_test` of its attempt.
    """

    GIT_CLONE = "git_clone"
    GIT_CHECKOUT = "git_checkout"
    SETUP = "setup"
    BASELINE_RUN = "baseline_run"
    AGENT_RUN = "agent_run"
    FINAL_TEST = "final_test"


def parse_stage(stage: str) -> Stage:
    """Return the `Stage` that a string names.

    Raises:
        ValueError: the string names no stage; the message names it and lists the six.
    """
    try:
        return Stage(stage)
    except ValueError:
        known = ", ".join(Stage)
        raise ValueError(f"unknown stage {stage!r}; one of {known}") from None
