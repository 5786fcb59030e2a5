"""What services of language models and sandboxes say in logs, and when that is why a run failed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import chunks_of_text
from pytest_failure_taxonomy.logs.tool_output import (
    MAX_LINES_AFTER,
    MAX_LINES_AFTER_RETRY,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.classification import classify_exception
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.services import service_wordings

SAID: Final[list[tuple[str, str, str]]] = [
    (*heading.split(), text)
    for heading, text in re.findall(
        r"^== (.*)\n((?:(?!== ).*\n)*)",
        Path(__file__).with_name("service_messages.txt").read_text("utf-8"),
        re.MULTILINE,
    )
]
WORK: Final = "Cloning into 'sail'...\nstep 1: look around\nstep 2: edit sail.py\n"
LIMITED: Final = 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error"}}\n'
TOO_LONG: Final = "prompt is too long: 201 tokens > 200 maximum\n"
RED: Final = (
    "collected 2 items\n\n==== short test summary info ====\n"
    "FAILED test_a.py::test_b - assert 0\n==== 1 failed, 1 passed in 0.01s ====\n"
)


def answer_of(
    log: str, stage: Stage = Stage.AGENT_RUN, exit_code: int | None = 1
) -> dict[str, Any]:
    """Return what `classify` answers."""
    answer = classify_log(
        chunks_of_text(log), name="log", stage=stage, exit_code=exit_code
    )
    content: dict[str, Any] = ANSWERS.encode(answer)
    return content


@pytest.mark.parametrize("stage", [Stage.AGENT_RUN, Stage.SETUP, Stage.FINAL_TEST])
@pytest.mark.parametrize(("kind", "service", "text"), SAID)
def test_what_services_say(kind: str, service: str, text: str, stage: Stage) -> None:
    """It is the reason in each stage, before the exit code decides, and its line is quoted."""
    found = answer_of(WORK + text, stage)
    reason = "SANDBOX_ERROR" if kind == "sandbox.failed" else "LLM_ERROR"
    assert (found["reason"], found["kind"]) == (reason, kind)
    assert service in found["message"]
    assert packaged_table("tools")["causes"][kind]["words"] in found["message"]
    assert text.splitlines()[0].strip() in [line["text"] for line in found["lines"]]
    assert found["confidence"] == "likely"


@pytest.mark.parametrize(("kind", "service", "text"), SAID)
def test_a_live_exception_is_the_same(kind: str, service: str, text: str) -> None:
    """What the recorder sees raised is what the log of it tells."""
    raised = re.match(r"((?:\w+\.)+)(\w+): (.*)", text)
    if raised is None or raised[1].startswith(("botocore.", "vllm.", "httpx.", "req")):
        pytest.skip("it is no exception of a known client")
    module = re.sub(r"^litellm\.(?:llms\..*)?$", "litellm.exceptions.", raised[1])
    module = re.sub(r"^cohere\.errors\..*", "cohere.errors.", module)
    found = classify_exception(
        RaisedException(
            type=raised[2], module=module.rstrip("."), message=raised[3], bases=()
        ),
        "/google/generativeai/",
    )
    assert found is not None
    assert found[1] == kind


ADVICE: Final = (
    # kind, charged to, failure type, what to do next
    ("llm.rate_limited", "environment", "UNKNOWN", "retry"),
    ("llm.unavailable", "environment", "UNKNOWN", "retry"),
    ("llm.timeout", "environment", "UNKNOWN", "retry"),
    ("llm.authentication", "verifier", "UNKNOWN", "escalate"),
    ("llm.quota_exceeded", "verifier", "UNKNOWN", "escalate"),
    ("llm.context_exceeded", "subject", "CONTEXT_EXHAUSTED", "escalate"),
    ("llm.bad_request", "ambiguous", "UNKNOWN", "escalate"),
    ("sandbox.failed", "environment", "UNKNOWN", "retry"),
)


@pytest.mark.parametrize(("kind", "charge_to", "failure_type", "action"), ADVICE)
def test_what_follows_from_it(
    kind: str, charge_to: str, failure_type: str, action: str
) -> None:
    """Limits and outages pass by themselves; keys, money and long prompts do not."""
    for name, _, text in SAID:
        if name == kind:
            found = answer_of(WORK + text)
            told = (found["charge_to"], found["failure_type"], found["recovery_action"])
            assert told == (charge_to, failure_type, action)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(LIMITED + "more work\n" * (MAX_LINES_AFTER + 1), id="long-ago"),
        pytest.param(
            f"{LIMITED.rstrip()} Retrying in 4 seconds (attempt 1/10)\n"
            + "more work\n" * (MAX_LINES_AFTER_RETRY + 1),
            id="asked-again",
        ),
        pytest.param(
            LIMITED
            + 'HTTP Request: POST https://api.anthropic.com/v1/messages "HTTP/1.1 200 OK"\n',
            id="answered-since",
        ),
        pytest.param(f"{LIMITED}Ran 3 tests in 0.1s\n", id="tests-ran-since"),
        pytest.param("except openai.RateLimitError:\n", id="source"),
        pytest.param("GitHub API Error: 429 slow down\n", id="another-service"),
        pytest.param("assert error == 'prompt too long'\n", id="other-words"),
        pytest.param(
            "{'type': 'authentication_error', 'message': 'a shop says no'}\n",
            id="an-error-of-a-shop",
        ),
    ],
)
def test_what_is_no_reason(log: str) -> None:
    """What was got over, and what only looks like it."""
    try:
        found = answer_of(f"{WORK}{log}error: gave up\n", Stage.AGENT_RUN, 1)
    except LogError:  # pragma: no cover - the exit code is given
        raise AssertionError from None
    assert found["kind"] == "command.failed"


def test_tests_that_ran_before_do_not_excuse_it() -> None:
    """An agent ran tests, went on, and was ended by its language model."""
    found = answer_of(f"{WORK}Ran 3 tests in 0.1s\nOK\nstep 3\n{LIMITED}")
    assert found["kind"] == "llm.rate_limited"
    found = answer_of(f"{WORK}{RED}step 3\n{LIMITED}")
    assert found["kind"] == "llm.rate_limited"


@pytest.mark.parametrize("stage", [Stage.AGENT_RUN, Stage.FINAL_TEST])
def test_a_pytest_that_came_after_it_decides(stage: Stage) -> None:
    """Its failures are newer; and the final tests are pytest's, whatever a log says later."""
    assert answer_of(f"{LIMITED}{RED}", stage)["kind"] == "test.failed"
    found = answer_of(f"{RED}{LIMITED}", Stage.FINAL_TEST)
    assert found["kind"] == "test.failed"


def test_a_success_is_a_success() -> None:
    """An agent that ended with 0 got over it."""
    assert answer_of(LIMITED, exit_code=0)["reason"] is None


def test_the_clearer_words_stay() -> None:
    """An exception that says less doesn't take the place of the answer that says why."""
    found = answer_of(f"{TOO_LONG}litellm.APIError: it failed\n")
    assert found["kind"] == "llm.context_exceeded"
    assert answer_of("litellm.APIError: it failed\n")["kind"] == "llm.error"


def test_each_answer_names_its_source() -> None:
    """And each row is met by one of the texts above, as its service or by its kind alone."""
    for row in packaged_table("libraries")["answers"]:
        assert row["source"]
    for answer in service_wordings():
        assert re.compile(answer.pattern)
    services = {service for _, service, _ in SAID}
    assert services >= {"OpenAI", "Anthropic", "LiteLLM", "Google", "Ollama", "E2B"}
