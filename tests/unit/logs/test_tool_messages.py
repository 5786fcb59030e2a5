"""What pip, uv, npm, git and Docker say when they fail, and what that means for a retry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import chunks_of_text, read_log
from pytest_failure_taxonomy.logs.tool_output import (
    MAX_LINES_AFTER,
    ToolOutput,
    tool_wordings,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.deaths import meaning_of, words_of_tool
from pytest_failure_taxonomy.taxonomy.judgement import Stage

SAID: Final[list[tuple[str, str, str]]] = [
    (*heading.split(), text)
    for heading, text in re.findall(
        r"^== (.*)\n((?:(?!== ).*\n)*)",
        Path(__file__).with_name("tool_messages.txt").read_text("utf-8"),
        re.MULTILINE,
    )
]
NO_HASH: Final = next(text for *_, text in SAID if "HASHES" in text)
RETRY: Final = SAID[0][2].splitlines()[0]
BEGINNING: Final = "Collecting things\n  Downloading x-1-py3-none-any.whl (10 kB)\n"
STAGES: Final = {"git": Stage.GIT_CLONE}


def answer_of(log: str, stage: Stage, exit_code: int | None = 1) -> dict[str, Any]:
    """Return what `classify` answers."""
    answer = classify_log(
        chunks_of_text(log), name="log", stage=stage, exit_code=exit_code
    )
    content: dict[str, Any] = ANSWERS.encode(answer)
    return content


@pytest.mark.parametrize(("tool", "cause", "text"), SAID)
def test_what_tools_say(tool: str, cause: str, text: str) -> None:
    """The tool and the cause are read, and the verdict says whether a retry can help, and why."""
    log = f"{BEGINNING}{text}\n[notice] A new release of pip is available\n"
    tools = ToolOutput()
    told = tools.message(read_log(chunks_of_text(log), tools))
    assert told is not None
    assert (told.tool, told.cause) == (tool, cause)
    assert told.line.text in text
    found = answer_of(log, STAGES.get(tool, Stage.SETUP))
    if cause == "format":
        assert found["kind"] == "tool.command_missing"
    elif cause in ("daemon", "pull_limit", "no_image"):
        kind = f"sandbox.{tool}".replace("registry", "docker")
        assert (found["reason"], found["kind"]) == ("SANDBOX_ERROR", kind)
    else:
        assert found["reason"] == (
            "GIT_CLONE_FAILED" if tool == "git" else "SETUP_FAILED"
        )
        assert found["message"].endswith(words_of_tool(told))
    assert told.line.text in [line["text"].strip() for line in found["lines"]]
    retryable = {True: "retry", False: "escalate", None: found["recovery_action"]}
    assert found["recovery_action"] == retryable[meaning_of(told).get("retryable")]


def test_every_wording_is_one_of_a_cause() -> None:
    """No cause of the table is without a meaning, and each is used."""
    assert {each.cause for each in tool_wordings()} == set(
        packaged_table("tools")["causes"]
    )


@pytest.mark.parametrize(
    ("log", "code", "stage"),
    [
        pytest.param(
            NO_HASH + "fine\n" * (MAX_LINES_AFTER + 1), 1, "setup", id="long-ago"
        ),
        pytest.param(
            f"{RETRY}\nfine\nmake: *** [all] Error 2", 1, "setup", id="got-over"
        ),
        pytest.param("fatal: I am no git\nError: whatever", 1, "setup", id="no-tool"),
        pytest.param(NO_HASH, 124, "setup", id="time-limit"),
    ],
)
def test_what_says_nothing(log: str, code: int, stage: str) -> None:
    """The exit code alone decides then."""
    found = answer_of(log, Stage(stage), code)
    assert found["message"] in ("the setup failed", "the setup hit its time limit")


def test_a_command_that_succeeded_after_all() -> None:
    """What was said on the way counts for nothing."""
    assert answer_of(SAID[-1][2], Stage.SETUP, 0)["reason"] is None


def test_without_an_exit_code() -> None:
    """What the tool says is enough to go by, if less than an exit code."""
    found = answer_of(NO_HASH, Stage.SETUP, None)
    assert (found["reason"], found["confidence"]) == ("SETUP_FAILED", "likely")
    found = answer_of(
        "Cannot connect to the Docker daemon at tcp://x.\n", Stage.AGENT_RUN, None
    )
    assert found["kind"] == "sandbox.docker"
    with pytest.raises(LogError):
        answer_of("ssh: nothing\n", Stage.SETUP, None)


def test_a_hostile_line_takes_no_time() -> None:
    """A pattern can begin at every place of a line."""
    text = "fatal: repository 'error: pathspec '" * 900
    assert answer_of(f"{text}\n" * 200, Stage.SETUP)["message"] == "the setup failed"
