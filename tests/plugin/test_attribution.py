"""Who says what a failure is: the test, a hook, a rule of the user's, the table of libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import run_child, run_pytest
from tests.helpers.runs import PytestRuns

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])

SAID: Final = (
    "def test_known(failure_taxonomy):\n"
    "    failure_taxonomy.record('TOOL_ERROR', 'tool.first', 'a first guess')\n"
    "    failure_taxonomy.record('SANDBOX_ERROR', 'sandbox.browser', 'no display')\n"
    "    assert 0\n"
    "def test_passes(failure_taxonomy):\n"
    "    failure_taxonomy.record('LLM_ERROR', 'llm.slow', 'but it went well')\n"
)
HOOK: Final = (
    "def pytest_failure_taxonomy_classify(exception, nodeid, phase):\n"
    "    if isinstance(exception, OSError):\n"
    "        return 'SANDBOX_ERROR', f'sandbox.{phase}'\n"
)
RULES: Final = """\
rules:
  - name: flaky-backend
    exception: ConnectionError
    message: "refus(ed|al)"
    nodeid: "test_*.py::*"
    phase: call
    reason: SANDBOX_ERROR
    kind: sandbox.backend
    severity: warn
    retryable: true
    owner: platform team
    link: https://example.org/runbook
  - exception: ConnectionError
    reason: TOOL_ERROR
    kind: tool.net
"""
REFUSED: Final = (
    "def test_it():\n    raise ConnectionRefusedError('connection refused')\n"
)


def run_suite(
    runs: PytestRuns, files: Mapping[str, str], *args: str, workers: int = 0
) -> dict[str, Any]:
    """Run pytest on files of which some test fails, and return its report."""
    runs.write(files)
    on = ["-n", str(workers)] if workers else []
    run = runs.run(*args, *on, plugins=["xdist"] if workers else [])
    assert run.exit_status == 1
    return run.report


@XDIST
def test_a_test_may_know_better(runs: PytestRuns, workers: int) -> None:
    """The last word of a failing test is the reason; that of a passing one is none."""
    report = run_suite(runs, {"test_it.py": SAID}, workers=workers)
    (failure,) = report["failures"]
    assert (failure["reason"], failure["kind"]) == ("SANDBOX_ERROR", "sandbox.browser")
    assert report["verdict"]["reason"] == "SANDBOX_ERROR"
    (attribution,) = report["attributions"]
    assert {name: told for name, told in attribution.items() if told is not None} == {
        "reason": "SANDBOX_ERROR",
        "kind": "sandbox.browser",
        "source": "test",
        "detail": "no display",
        "count": 1,
    }


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            "record('SANDBOX', 'sandbox.x', '')",
            "'SANDBOX' is no failure reason; give one of",
        ),
        (
            "record('LLM_ERROR', 'Llm', '')",
            "'Llm' is no kind; give lower-case words with dots",
        ),
        (
            "record('LLM_ERROR', 'test.failed', '')",
            "refines TESTS_FAILED, not LLM_ERROR",
        ),
    ],
)
def test_a_wrong_word_of_a_test(runs: PytestRuns, call: str, words: str) -> None:
    """A reason or kind that is none is an error in the test that says it."""
    report = run_suite(
        runs,
        {"test_it.py": f"def test_it(failure_taxonomy): failure_taxonomy.{call}\n"},
    )
    (failure,) = report["failures"]
    assert failure["exception"]["type"] == "ValueError"
    assert words in failure["exception"]["message"]


def test_the_fixture_without_the_option(tmp_path: Path) -> None:
    """A suite that uses the fixture runs without a report, too."""
    (tmp_path / "test_it.py").write_text(SAID)
    run = run_pytest(tmp_path, switch=())
    assert run.status == 1
    assert "1 failed, 1 passed" in run.stdout
    assert sorted(os.listdir(tmp_path)) == ["test_it.py"]


@XDIST
def test_a_hook_is_asked(runs: PytestRuns, workers: int) -> None:
    """A conftest's hook sees the exception itself, in the process that ran the test."""
    body = (
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError(28, 'No space left')\n"
        "def test_setup(broken): pass\n"
        "def test_call(): open('/nowhere/at/all')\n"
        "def test_other(): assert 0\n"
    )
    report = run_suite(runs, {"conftest.py": HOOK, "test_it.py": body}, workers=workers)
    kinds = {
        each["nodeid"].rpartition("_")[2]: each["kind"] for each in report["failures"]
    }
    assert kinds == {
        "setup": "sandbox.setup",
        "call": "sandbox.call",
        "other": "test.failed",
    }


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (
            "return 'SANDBOX_ERROR'",
            "TypeError: 'SANDBOX_ERROR' returned; a pair of reason and kind",
        ),
        ("return 'SANDBOX', 'sandbox.x'", "ValueError: 'SANDBOX' is no failure reason"),
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("import pytest; pytest.skip('x')", "Skipped: x"),
    ],
)
@XDIST
def test_a_hook_that_is_wrong(
    runs: PytestRuns, workers: int, body: str, fault: str
) -> None:
    """A hook's own failure is told once and changes nothing else."""
    hook = f"def pytest_failure_taxonomy_classify(exception):\n    {body}\n"
    report = run_suite(
        runs,
        {"conftest.py": hook, "test_it.py": "def test_it(): assert 0\n"},
        workers=workers,
    )
    assert report["failures"][0]["kind"] == "test.failed"
    (told,) = report["faults"]
    assert told.startswith("the hook pytest_failure_taxonomy_classify failed: ")
    assert fault in told


def test_a_hook_that_is_wrong_is_pointed_at(runs: PytestRuns) -> None:
    """The warning names the file and line of the implementation, not ours."""
    hook = "def pytest_failure_taxonomy_classify(exception):\n    return exception.nothing\n"
    runs.write({"conftest.py": hook, "test_it.py": "def test_it(): assert 0\n"})
    run = runs.run()
    assert any(line.endswith("conftest.py:2") for line in run.stdout)
    assert not any("guard.py" in line for line in run.stdout)


@pytest.mark.slow
@XDIST
def test_rules_are_asked_in_their_order(runs: PytestRuns, workers: int) -> None:
    """The first rule that matches gives reason, kind and name; the report tells what it says."""
    files = {
        "rules.yaml": RULES,
        "test_it.py": REFUSED
        + "def test_reset(): raise ConnectionResetError('reset')\n",
    }
    report = run_suite(
        runs, files, "--failure-taxonomy-rules=rules.yaml", workers=workers
    )
    found = {
        each["nodeid"].rpartition("_")[2]: (each["reason"], each["kind"], each["rule"])
        for each in report["failures"]
    }
    assert found == {
        "it": ("SANDBOX_ERROR", "sandbox.backend", "flaky-backend"),
        "reset": ("TOOL_ERROR", "tool.net", "rule-2"),
    }
    causes = {each["kind"]: each["retryable"] for each in report["causes"]}
    assert causes == {"sandbox.backend": True, "tool.net": False}  # raised by the test
    assert report["verdict"]["retryable"] is False
    told = {each["rule"]: each for each in report["attributions"]}
    assert told["flaky-backend"]["owner"] == "platform team"
    assert told["flaky-backend"]["severity"] == "warn"


def test_the_terminal_names_the_owner(runs: PytestRuns) -> None:
    """Who owns a failure and where to read on stands beside it."""
    runs.write({"rules.yaml": RULES, "test_it.py": REFUSED})
    run = runs.run("--failure-taxonomy-rules=rules.yaml")
    (line,) = [line for line in run.stdout if line.startswith("1 test failed: ")]
    assert "[platform team, https://example.org/runbook]" in line


@pytest.mark.slow
def test_rules_by_ini(runs: PytestRuns) -> None:
    """The ini value is relative to the configuration file; the option wins over it."""
    files = {
        "pytest.ini": "[pytest]\nfailure_taxonomy_rules = ours/rules.yaml\n",
        "ours/rules.yaml": RULES,
        "test_it.py": REFUSED,
    }
    assert run_suite(runs, files)["failures"][0]["rule"] == "flaky-backend"
    runs.write({**files, "other.yaml": RULES.replace("flaky-backend", "other")})
    run = runs.run("--failure-taxonomy-rules=other.yaml")
    assert run.report["failures"][0]["rule"] == "other"


def test_a_test_comes_before_a_rule(runs: PytestRuns) -> None:
    """What a test says of itself stands, whatever rules would say."""
    body = (
        "def test_it(failure_taxonomy):\n"
        "    failure_taxonomy.record('LLM_ERROR', 'llm.error')\n"
        "    raise ConnectionRefusedError('connection refused')\n"
    )
    report = run_suite(
        runs,
        {"rules.yaml": RULES, "test_it.py": body},
        "--failure-taxonomy-rules=rules.yaml",
    )
    assert (report["failures"][0]["kind"], report["failures"][0]["rule"]) == (
        "llm.error",
        None,
    )


def test_bad_rules_stop_the_run(runs: PytestRuns) -> None:
    """All mistakes of a rules file are one usage error, a line each, before any test runs."""
    bad = "rules:\n  - reason: NOPE\n    exception: X\n  - reason: LLM_ERROR\n    severty: warn\n"
    runs.write({"rules.yaml": bad, "test_it.py": "def test_it(): print('ran')\n"})
    run = runs.run("--failure-taxonomy-rules=rules.yaml")
    assert run.exit_status == 4
    assert run.verdict == ("INTERNAL_ERROR", "usage.error")
    (told,) = [
        number for number, line in enumerate(run.stderr) if line.startswith("ERROR: ")
    ]
    first, _, third, blank, *_ = [*run.stderr[told:], ""]
    assert "rules.yaml:2: reason: 'NOPE'" in first
    assert "rules.yaml:5: unknown key 'severty'" in third
    assert not blank


@pytest.mark.slow
def test_a_pattern_without_end(runs: PytestRuns) -> None:
    """A rule whose pattern would search for ever is switched off, and the run says so."""
    rules = (
        "rules:\n"
        "  - {name: endless, message: '^(a|a)*$', reason: LLM_ERROR, kind: llm.x}\n"
        "  - {name: next, exception: ValueError, reason: TOOL_ERROR, kind: tool.x}\n"
    )
    body = "def test_it(): raise ValueError('a' * 60 + 'b')\n"
    report = run_suite(
        runs,
        {"rules.yaml": rules, "test_it.py": body},
        "--failure-taxonomy-rules=rules.yaml",
    )
    assert report["failures"][0]["rule"] == "next"
    (told,) = report["faults"]
    assert "endless" in told


def test_a_library_is_known(runs: PytestRuns) -> None:
    """An exception of a well-known library says what broke, without the library being imported."""
    files = {
        "openai.py": "class RateLimitError(Exception): pass\n"
        "def create(): raise RateLimitError('slow down')\n",
        "test_it.py": "import openai\ndef test_it(): openai.create()\n",
    }
    report = run_suite(runs, files)
    failure = report["failures"][0]
    assert (failure["reason"], failure["kind"]) == ("LLM_ERROR", "llm.rate_limited")
    assert failure["rule"] == "library:llm.rate_limited"
    assert report["verdict"]["retryable"] is True


@pytest.mark.slow
@pytest.mark.skipif(
    os.name != "posix", reason="the record outlives its process on POSIX alone"
)
def test_rules_outlive_pytest(tmp_path: Path) -> None:
    """A run that dies after a failure gets the same answer from what it left behind."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfailure_taxonomy_watcher = false\n")
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "test_it.py").write_text(
        f"import os\n{REFUSED}{SAID}def test_dies(): os._exit(9)\n"
    )
    run = run_pytest(
        tmp_path, "--failure-taxonomy", "--failure-taxonomy-rules=rules.yaml"
    )
    assert run.status == 9
    (tmp_path / "rules.yaml").unlink()
    run_child(
        tmp_path,
        [
            sys.executable,
            "-m",
            "pytest_failure_taxonomy",
            "finalize",
            "failure-report.json",
        ],
    )
    report = run.report(completeness="reconstructed")
    assert [(each["kind"], each["rule"]) for each in report["failures"]] == [
        ("sandbox.backend", "flaky-backend"),
        ("sandbox.browser", None),
    ]


@XDIST
def test_a_marker_is_one_more_reason(runs: PytestRuns, workers: int) -> None:
    """A failing test's last marker stands with it and among the reasons; it overrides nothing."""
    body = (
        "def test_it():\n"
        "    print('[GZA_FAILURE:TEST_FAILURE]')\n"
        "    print('  [GZA_FAILURE:MAX_TURNS]  ')\n"
        "    print('not [GZA_FAILURE:UNKNOWN] on its own')\n"
        "    assert 0\n"
        "def test_unknown():\n"
        "    print('[GZA_FAILURE:WHATEVER]')\n"
        "    assert 0\n"
        "def test_none(): assert 0\n"
        "def test_passes(): print('[GZA_FAILURE:MAX_TURNS]')\n"
    )
    report = run_suite(runs, {"test_it.py": body}, workers=workers)
    markers = {
        each["nodeid"].rpartition("_")[2]: each["marker"] for each in report["failures"]
    }
    assert markers == {"it": "MAX_TURNS", "unknown": "UNKNOWN", "none": None}
    held = {(each["reason"], each["kind"], each["count"]) for each in report["reasons"]}
    assert held == {
        ("TESTS_FAILED", "test.failed", 3),
        ("AGENT_GAVE_UP", "marker.max_turns", 1),
        ("UNKNOWN", "marker.unknown", 1),
    }
    assert report["verdict"]["kind"] == "test.failed"


def test_markers_of_ones_own(runs: PytestRuns) -> None:
    """More markers can be known, with the reason that they stand for."""
    files = {
        "pytest.ini": "[pytest]\n"
        "failure_taxonomy_markers =\n    NO_NETWORK = SANDBOX_ERROR\n    LOST\n",
        "test_it.py": "import pytest\n@pytest.mark.parametrize('name', ['NO_NETWORK', 'LOST'])\n"
        "def test_it(name):\n    print(f'[GZA_FAILURE:{name}]')\n    assert 0\n",
    }
    report = run_suite(runs, files)
    assert [each["marker"] for each in report["failures"]] == ["NO_NETWORK", "LOST"]
    held = [(each["reason"], each["kind"]) for each in report["reasons"]]
    assert ("SANDBOX_ERROR", "marker.no_network") in held
    assert report["verdict"]["reason"] == "TESTS_FAILED"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("A B", "a marker's name has letters"),
        ("LOST = NOWHERE", "NOWHERE is no failure reason"),
    ],
)
def test_a_wrong_marker(runs: PytestRuns, line: str, words: str) -> None:
    """What is no marker or no reason in the configuration is a usage error."""
    runs.write(
        {
            "pytest.ini": f"[pytest]\nfailure_taxonomy_markers = {line}\n",
            "test_it.py": "def test_it(): pass\n",
        }
    )
    run = runs.run()
    assert run.exit_status == 4
    assert any(words in each for each in run.stderr)


@pytest.mark.slow
@XDIST
def test_failure_types(runs: PytestRuns, workers: int) -> None:
    """Failures, collection errors and the verdict say what sort of recovery they take."""
    files = {
        "test_fails.py": "def test_it(): assert 1 == 2\ndef test_import(): import nowhere\n",
        "test_import.py": "import nowhere_either\n",
        "test_syntax.py": "def test_it(:\n",
    }
    report = run_suite(runs, files, "--continue-on-collection-errors", workers=workers)
    types = {
        each["nodeid"].rpartition("_")[2]: each["failure_type"]
        for each in report["failures"]
    }
    assert types == {"it": "VERIFICATION_FAILED", "import": "BROKEN_BUILD"}
    broken = {
        each["nodeid"]: each["failure_type"] for each in report["collection_errors"]
    }
    assert broken == {
        "test_import.py": "BROKEN_BUILD",
        "test_syntax.py": "BROKEN_BUILD",
    }
    verdict = report["verdict"]
    assert verdict["failure_type"] == types[verdict["nodeid"].rpartition("_")[2]]
    assert (verdict["retryable"], verdict["recovery_action"]) == (False, "escalate")


@XDIST
def test_one_cause_is_one_group(runs: PytestRuns, workers: int) -> None:
    """Failures of one cause have one fingerprint, whatever their parameters and workers."""
    body = (
        "import pytest\n"
        "from shop import price\n"
        "@pytest.mark.parametrize('item', range(6))\n"
        "def test_price(item): assert price(item)\n"
        "@pytest.mark.parametrize('item', range(4))\n"
        "def test_name(item): raise KeyError('no name')\n"
    )
    files = {
        "pytest.ini": "[pytest]\npythonpath = .\n",
        "shop.py": "def price(item):\n    raise LookupError(f'item {item} at {object()}')\n",
        "test_a.py": body,
        "test_b.py": body,
    }
    report = run_suite(runs, files, workers=workers)
    assert [
        (each["count"], each["title"].partition(":")[0]) for each in report["groups"]
    ] == [
        (12, "LookupError"),
        (4, "KeyError"),
        (4, "KeyError"),
    ]
    assert report["groups"][0]["title"].endswith("(shop.py: price)")
    for group in report["groups"]:
        own_prints = {
            each["fingerprint"]
            for each in report["failures"]
            if each["nodeid"] in group["nodeids"]
        }
        assert own_prints == {group["fingerprint"]}


def test_the_terminal_counts_causes(runs: PytestRuns) -> None:
    """Several failures are said to have so many causes, the most frequent first."""
    body = (
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(9))\n"
        "def test_it(n): raise OSError(5, 'x')\n"
    )
    runs.write({"test_it.py": body + "def test_other(): assert 0\n"})
    run = runs.run()
    at = next(
        n
        for n, line in enumerate(run.stdout)
        if line.startswith("10 tests failed, 2 cause")
    )
    assert run.stdout[at + 1 : at + 3] == [
        "  9 x OSError: x: test_it (test_it.py:3)",
        "  1 x assert 0: test_other (test_it.py:4)",
    ]
