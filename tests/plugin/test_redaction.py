"""Secrets never reach the report, our lines on the terminal, or what a dead run leaves behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import run_child, run_pytest
from tests.helpers.runs import PytestRuns

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])

# Put together here, so that no scanner takes this file's own texts for secrets.
TOKEN: Final = "ghp_" + "a1B2c3D4" * 4 + "wxyz"
PASSWORD: Final = "corr3ct" + "-h0rse"
FROM_ENVIRONMENT: Final = "zq7" + "Kp4vWm2x" * 3

SUITE: Final = f"""\
import os, sys
import pytest

TOKEN = "ghp_" + "a1B2c3D4" * 4 + "wxyz"
PASSWORD = "corr3ct" + "-h0rse"

def test_message():
    raise ConnectionError("https://bob:" + PASSWORD + "@db.example.org/x refused " + TOKEN)

def test_local(tmp_path):
    headers = {{"Authorization": "Bearer " + TOKEN}}
    assert headers == {{}}

def test_cut():
    assert [TOKEN + str(n) for n in range(40)] == []

def test_environment():
    raise OSError(5, "sent " + os.environ["OUR_API_KEY"])

@pytest.mark.parametrize("token", [TOKEN])
def test_nodeid(token):
    assert not token

def test_of_its_own(monkeypatch):
    monkeypatch.setenv("OTHER_SECRET", "{"hJ5k" * 6}")
    raise ValueError(os.environ["OTHER_SECRET"])

@pytest.fixture
def broken():
    raise RuntimeError("password=" + repr(PASSWORD))

def test_setup(broken): pass
"""
SECRETS: Final = (TOKEN, PASSWORD, FROM_ENVIRONMENT, "hJ5k" * 6)


def secrets_in(text: str) -> list[str]:
    """Return the secrets of which nine characters in a row are in a text."""
    return [
        secret
        for secret in SECRETS
        if any(secret[at : at + 9] in text for at in range(max(1, len(secret) - 9)))
    ]


@pytest.mark.slow
@XDIST
def test_no_secret_is_in_a_report(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Whatever held a secret, a message, a value, a node id or an argument, the report does not."""
    monkeypatch.setenv("OUR_API_KEY", FROM_ENVIRONMENT)
    runs.write(
        {
            "test_it.py": SUITE,
            "conftest.py": "def pytest_addoption(parser): parser.addoption('--db-password')\n",
            "test_broken.py": "raise ValueError('token: ghp_' + 'a1B2c3D4' * 4 + 'wxyz')\n",
        }
    )
    on = ["-n", str(workers)] if workers else []
    run = runs.run_unchecked(
        f"--db-password={PASSWORD}",
        "--continue-on-collection-errors",
        *on,
        plugins=["xdist"] if workers else [],
    )
    assert run.exit_status == 1
    assert len(run.report["failures"]) == 7
    assert secrets_in(json.dumps(run.report)) == []
    first = run.stdout.index(
        next(line for line in run.stdout if "why this run failed" in line)
    )
    assert secrets_in("\n".join(run.stdout[first:])) == []
    removed = run.report["redacted"]
    assert {"github-token", "url-password", "env:OUR_API_KEY"} <= removed.keys()
    messages = [failure["exception"]["message"] for failure in run.report["failures"]]
    assert (
        "https://bob:[REDACTED:url-password]@db.example.org/x refused [REDACTED:github-token]"
        in messages
    )


@XDIST
def test_a_secret_argument_of_its_own_goes(runs: PytestRuns, workers: int) -> None:
    """Behind an option whose name says secret the next argument goes; others stay."""
    runs.write(
        {
            "test_it.py": "def test_it(): assert 0\n",
            "conftest.py": "def pytest_addoption(parser):\n"
            "    parser.addoption('--db-password')\n"
            "    parser.addoption('--api-token', action='append')\n",
        }
    )
    on = ["-n", str(workers)] if workers else []
    given = [
        "-k",
        "test_it",
        "--db-password",
        "just a word",
        "--api-token",
        PASSWORD,
        *on,
    ]
    run = runs.run_unchecked(*given, plugins=["xdist"] if workers else [])
    args = " ".join(run.report["run"]["invocation"]["args"])
    shown = "-k test_it --db-password [REDACTED:password] --api-token [REDACTED:token]"
    assert shown in args
    assert "just a word" not in json.dumps(run.report)
    assert secrets_in(json.dumps(run.report)) == []
    removed = run.report["redacted"]
    assert removed == {"password": 1, "token": 1}


@pytest.mark.slow
def test_a_huge_text_is_cut_before_it_is_searched(runs: PytestRuns) -> None:
    """Megabytes of a comparison cost neither minutes nor memory, and lose no secret at the cut."""
    body = (
        "import pytest\n"
        "TOKEN = 'ghp_' + 'a1B2c3D4' * 4 + 'wxyz'\n"
        "@pytest.mark.parametrize('shift', range(0, 44, 4))\n"
        "def test_it(shift):\n"
        "    pytest.fail('.' * shift + (TOKEN + '  ') * 50_000)\n"
    )
    runs.write({"test_it.py": body})
    run = runs.run()
    assert len(run.report["failures"]) == 11
    assert "truncated" in run.report["failures"][0]["traceback"]
    assert "a1B2c3D4a" not in json.dumps(run.report)


def test_what_a_hook_adds_is_searched(runs: PytestRuns) -> None:
    """Other plugins' part of the report holds no secret either, and what is missing is counted."""
    hook = (
        "def pytest_failure_taxonomy_report(report):\n"
        "    token = 'ghp_' + 'a1B2c3D4' * 4 + 'wxyz'\n"
        "    return {'ours': {'password': 'hunter2-x', 'log': 'sent ' + token, 'n': [1, token]}}\n"
    )
    runs.write({"conftest.py": hook, "test_it.py": "def test_it(): assert 0\n"})
    report = runs.run().report
    assert report["extensions"]["ours"] == {
        "password": "[REDACTED:field]",
        "log": "sent [REDACTED:github-token]",
        "n": [1, "[REDACTED:github-token]"],
    }
    assert report["redacted"] == {"field": 1, "github-token": 2}


def test_more_secrets(runs: PytestRuns) -> None:
    """Patterns of the user's own are added up; a group says what of a match goes."""
    runs.write(
        {
            "pytest.ini": "[pytest]\nfailure_taxonomy_redact =\n    customer-[0-9]+\n",
            "test_it.py": "def test_it(): raise ValueError('customer-77 has pin 1234 today')\n",
        }
    )
    run = runs.run("--failure-taxonomy-redact=pin ([0-9]+)")
    message = run.report["failures"][0]["exception"]["message"]
    assert "77" not in message
    assert "1234" not in message
    assert message.endswith("today")
    assert "pin " in message


def test_a_pattern_with_several_repeats_leaves_the_report_whole(
    runs: PytestRuns,
) -> None:
    """It is searched as any other: only what it matches goes, of the message and the traceback."""
    body = (
        "def test_it():\n"
        "    raise ValueError('a long message ' * 9 + 'user=me host=' + 'db id=7' + ' then')\n"
    )
    runs.write({"test_it.py": body})
    run = runs.run_unchecked(r"--failure-taxonomy-redact=user=\S+ host=\S+ id=\S+")
    (failure,) = run.report["failures"]
    shown = f"{'a long message ' * 9}[REDACTED:pattern-1] then"
    assert failure["exception"]["message"] == shown
    assert shown in failure["traceback"]
    assert "def test_it():" in failure["traceback"]


def test_regex_is_imported_for_a_pattern_alone(runs: PytestRuns) -> None:
    """A run without patterns of the user's doesn't pay for the library that searches them."""
    body = "import sys\ndef test_it(): raise ValueError('token=a1b2c3d4e5', 'regex' in sys.modules)\n"
    runs.write({"test_it.py": body})
    assert "False" in runs.run().report["failures"][0]["exception"]["message"]


def test_a_wrong_pattern(runs: PytestRuns) -> None:
    """A pattern that is no regular expression is a usage error before any test runs."""
    runs.write({"test_it.py": "def test_it(): pass\n"})
    run = runs.run("--failure-taxonomy-redact=(oops")
    assert run.exit_status == 4
    assert any(
        "--failure-taxonomy-redact" in line and "(oops" in line for line in run.stderr
    )


@pytest.mark.slow
@pytest.mark.skipif(
    os.name != "posix", reason="the record outlives its process on POSIX alone"
)
def test_no_secret_outlives_pytest(tmp_path: Path) -> None:
    """What a dead run leaves on disk holds no secret; nor does its report."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfailure_taxonomy_watcher = false\n")
    (tmp_path / "test_it.py").write_text(SUITE + "\ndef test_last(): os._exit(9)\n")
    run = run_pytest(
        tmp_path,
        "--failure-taxonomy-redact=sent",
        env={"OUR_API_KEY": FROM_ENVIRONMENT},
    )
    assert run.status == 9
    left = "".join(
        path.read_bytes().decode("latin-1")
        for path in tmp_path.glob(".failure-report.json.*/*")
    )
    assert "test_message" in left
    assert secrets_in(left) == []
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
    assert len(report["failures"]) == 7
    assert secrets_in(json.dumps(report)) == []


@pytest.mark.skipif(os.name != "posix", reason="`run` needs POSIX")
def test_no_secret_of_a_command_is_in_its_report(tmp_path: Path) -> None:
    """The arguments of a supervised command are shown without what is secret in them."""
    command = [sys.executable, "-c", "raise SystemExit(3)", "--api-key", PASSWORD]
    command += [f"--password={PASSWORD}", TOKEN]
    run = run_child(
        tmp_path,
        [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--", *command],
    )
    assert run.status == 3
    report = run.report(completeness="reconstructed")
    assert secrets_in(json.dumps(report)) == []
    args = report["run"]["invocation"]["args"]
    assert args[-4:-1] == [
        "--api-key",
        "[REDACTED:api-key]",
        "--password=[REDACTED:password]",
    ]


WORDS_OF_OURS: Final = (
    "[0-9a-f]{32}",
    "full|running|reconstructed",
    "test",
    "T[A-Z_]+",
    r"\d+",
)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", WORDS_OF_OURS)
def test_a_pattern_that_matches_words_of_ours(runs: PytestRuns, pattern: str) -> None:
    """The report of a run, also of one that dies, stays one that can be read."""
    suite = "import os\ndef test_1(): pass\ndef test_2(): assert 0\n"
    runs.write({"test_it.py": suite})
    run = runs.run_unchecked(f"--failure-taxonomy-redact={pattern}")
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    runs.write({"test_it.py": f"{suite}def test_3(): os._exit(1)\n"})
    runs.run_unchecked(f"--failure-taxonomy-redact={pattern}")
    report = runs.wait_for_completion()
    assert (report["verdict"]["kind"], report["summary"]["passed"]) == (
        "test.failed",
        1,
    )
    assert "unsearchable" not in json.dumps(report)


@pytest.mark.parametrize(
    "password", ["final_test", "test.failed", "TESTS_FAILED", "certain_"]
)
def test_a_password_that_is_a_word_of_ours(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """It is no secret where only we can have written it."""
    monkeypatch.setenv("DB_PASSWORD", password)
    runs.write({"test_it.py": f"def test_it(): assert 0, 'it is {password}'\n"})
    run = runs.run()
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    assert f"it is {password}" not in json.dumps(run.report)
