"""Every form of a secret through real runs: what is left of it on disk and on the terminal.

Each secret is made of chance at run time, in the suite that the runs are given and here alike: no
file holds one. pytest's own output shows them all; it is not ours to change.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import string
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import ChildRun, run_child, run_pytest

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])

# `{S}` is a secret of no form, `{T}` a token of GitHub's, `{b}` ends a line in the middle of one.
FORMS: Final = {
    "element": "<password>{S}</password>",
    "input": '<input type="hidden" name="csrf_token" value="{S}">',
    "input-value-first": '<input value="{S}" name="csrf_token">',
    "pair": "[('user', 'me'), ('password', '{S}')]",
    "entry-with-value": "{'name': 'DB_PASSWORD', 'value': '{S}'}",
    "netrc": "machine example.org login me password {S}",
    "netrc-lines": "machine example.org\n  login me\n  password {S}\n",
    "azure": "https://a.blob.example.net/c/b?sv=2022&se=2030&sp=r&sig={S}%3D",
    "user-and-colon": "https://{S}:@api.example.org/v1",
    "user-alone": "https://{S}@example.org/me/it.git",
    "slash-in-password": "postgres://me:a/{S}@db.example.org/app",
    "behind-underscore": "fx_{T}",
    "beside-and-again": "assert Cfg(api_key='{S}') == '{S}'",
    "again-and-beside": "{S} is not Cfg(api_key='{S}')",
    "again-in-base64": "password='{S}' was sent as {B}",
    "token-on-two-lines": "it was {T1}\n{T2} then",
    "token-on-two-lines-of-pytest": "it was\nE   {T1}\nE   {T2}",
    "again-on-two-lines": "token='{S}'\n  {S1}\n  {S2}",
    "curl-u": "$ curl -sS -u me:{S} https://example.org",
    "curl-user": "curl --user 'me:{S}' https://example.org",
    "curl-list": "['curl', '-u', 'me:{S}', 'https://example.org']",
    "curl-header": "curl -H 'Authorization: Bearer {S}' https://example.org",
    "mysql": "mysql -h db -u me -p{S} app",
    "psql": "PGPASSWORD={S} psql -h db",
    "docker": "docker login -u me -p {S} registry.example.org",
    "sshpass": "sshpass -p {S} ssh me@example.org",
    "option": "app --password {S} --verbose",
    "header": "{'Authorization': 'Basic {S}=='}",
    "keyword": "connect(password='{S}')",
    "json": '{"client_secret": "{S}"}',
    "token": "the server refused {T}",
    "changed-copy": "assert Cfg(api_key='{S}') == '{C}'",
    "changed-copy-and-beside": "{C} is not Cfg(api_key='{S}')",
    "changed-copy-in-hexadecimal": "password='{S}' was sent as {H}",
}

NAMES: Final = (
    *(
        "DEPLOY_PAT",
        "RAILS_MASTER_KEY",
        "FERNET_KEY",
        "STRIPE_KEY",
        "HMAC_KEY",
        "SIGNING_KEY",
    ),
    *("DB_PW", "PGPASS", "TF_VAR_db_pw", "PASSWORD_SALT", "SESSION_KEY", "WIFI_PSK"),
)
"""Environment variables whose names say that their values are secret."""

SUITE: Final = """
import os, random, string
from base64 import b64encode
import pytest

def chance(name, length=24):
    return "".join(random.Random(name).choices(string.ascii_letters + string.digits, k=length))

def filled(name, text):
    secret, token = chance(name), "gh" + "p_" + chance(name, 36)
    made = {"S1": secret[:11], "S2": secret[11:], "T1": token[:15], "T2": token[15:], "S": secret,
            "T": token, "B": b64encode(secret.encode()).decode(), "C": "xyz" + secret[3:-3] + "xyz",
            "H": (secret[:-3] + "xyz").encode().hex()}
    for each, value in made.items():
        text = text.replace("{" + each + "}", value)
    return text

FORMS = __FORMS__
NAMES = __NAMES__

@pytest.mark.parametrize("late", ["late", "late-in-url"])
def test_bare_before_it_is_known(late):
    raise ValueError(f"it said {chance(late)} and {chance(late)[:-3]}xyz")

@pytest.mark.parametrize("name", FORMS)
def test_form(name):
    raise ValueError(filled(name, FORMS[name]))

@pytest.mark.parametrize("value", ["gh" + "p_" + chance(name, 36) for name in ("id-1", "id-2")])
def test_nodeid(value):
    assert value == ""

@pytest.mark.parametrize("value", ["gh" + "p_" + chance("passing-id", 36)])
def test_passing_nodeid(value):
    pass

@pytest.mark.parametrize("value", [chance("environment")])
def test_nodeid_of_environment(value):
    assert not value

def test_environment_wrapped():
    value = os.environ["OUR_API_KEY"]
    raise ValueError("line one " + value[:9] + "\\n   " + value[9:])

def test_environment_changed():
    value = os.environ["OUR_API_KEY"]
    assert value == value[:-3] + "xyz"

@pytest.mark.parametrize("name", NAMES)
def test_environment_named(name):
    raise ValueError("it said " + chance(name))

def test_late():
    raise ValueError("connect(password=" + repr(chance("late")) + ")")

def test_late_in_url():
    raise ValueError("https://me:" + chance("late-in-url") + "@example.org/")

def test_argument(request):
    raise ValueError("with " + request.config.getoption("db_password"))

def test_output():
    from dataclasses import dataclass
    @dataclass
    class Config:
        api_key: str
    assert Config(api_key=chance("dataclass")) == Config(api_key="")
""".replace("__FORMS__", repr(FORMS)).replace("__NAMES__", repr(NAMES))

CONFTEST: Final = """
import os, signal

def pytest_addoption(parser):
    parser.addoption("--db-password")

class Killer:
    # The process that has the record dies when all tests have been reported to it.
    def __init__(self, tests):
        self.left = tests

    def pytest_runtest_logfinish(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def pytest_configure(config):
    if "KILL_AFTER" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Killer(int(os.environ["KILL_AFTER"])))
"""
TESTS: Final = len(FORMS) + len(NAMES) + 12


def chance(name: str, length: int = 24) -> str:
    """Return what the suite's function of that name does."""
    letters = string.ascii_letters + string.digits
    return "".join(random.Random(name).choices(letters, k=length))  # noqa: S311  made-up secrets


def secrets() -> dict[str, str]:
    """Return the secrets of the suite by what they are in."""
    others = ("late", "late-in-url", "environment", "argument", "dataclass")
    tokens = (
        "id-1",
        "id-2",
        "passing-id",
        *(name for name, form in FORMS.items() if "{T" in form),
    )
    found = {name: chance(name) for name in (*FORMS, *NAMES, *others)}
    return found | {name: chance(name, 36) for name in tokens}


def leaks(text: str) -> list[str]:
    """Return the forms of which eight characters in a row are in a text."""
    return [
        name
        for name, secret in secrets().items()
        if any(secret[at : at + 8] in text for at in range(len(secret) - 7))
    ]


def run_suite(folder: Path, workers: int, **environment: str) -> ChildRun:
    """Run the suite without a watcher."""
    (folder / "pytest.ini").write_text("[pytest]\nfailure_taxonomy_watcher = false\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(SUITE)
    on = ["-n", str(workers)] if workers else []
    named = {name: chance(name) for name in NAMES}
    return run_pytest(
        folder,
        f"--db-password={chance('argument')}",
        *on,
        plugins=["xdist"] if workers else [],
        env={"OUR_API_KEY": chance("environment"), **named, **environment},
    )


@XDIST
def test_no_form_of_a_secret_reaches_a_report(tmp_path: Path, workers: int) -> None:
    """Neither the report nor our lines hold one, whichever text gave it away first."""
    run = run_suite(tmp_path, workers)
    report = run.report()
    assert len(report["failures"]) == TESTS - 1
    assert leaks((tmp_path / "failure-report.json").read_text()) == []
    assert leaks("\n".join(run.told)) == []
    assert len({failure["nodeid"] for failure in report["failures"]}) == TESTS - 1


@pytest.mark.skipif(
    os.name != "posix", reason="the record outlives its process on POSIX alone"
)
@XDIST
def test_no_form_of_a_secret_outlives_pytest(tmp_path: Path, workers: int) -> None:
    """A pytest that is killed leaves none on disk, and none comes into the report made of that."""
    run = run_suite(tmp_path, workers, KILL_AFTER=str(TESTS))
    assert run.status == -signal.SIGKILL
    files = [
        path for path in tmp_path.glob(".failure-report.json.*/**/*") if path.is_file()
    ]
    left = "".join(path.read_bytes().decode("latin-1") for path in files)
    assert "test_bare_before_it_is_known" in left
    assert leaks(left) == []
    assert leaks((tmp_path / "failure-report.json").read_text()) == []
    command = [
        sys.executable,
        "-m",
        "pytest_failure_taxonomy",
        "finalize",
        "failure-report.json",
    ]
    finalized = run_child(tmp_path, command)
    report = run.report(completeness="reconstructed")
    assert len(report["failures"]) == TESTS - 1
    assert leaks(json.dumps(report) + finalized.stdout + finalized.stderr) == []


@pytest.mark.skipif(
    os.name != "posix", reason="the record outlives its process on POSIX alone"
)
@XDIST
def test_a_node_id_is_one_in_the_record_of_all_processes(
    tmp_path: Path, workers: int
) -> None:
    """The test in flight is found again among those selected, and is not told as not run."""
    suite = (
        "import os, pytest, signal, time\n"
        "TOKENS = ['gh' + 'p_' + 'a1B2c3D4' * 4 + each for each in ('wxya', 'wxyb')]\n"
        "@pytest.mark.parametrize('token', TOKENS)\n"
        "def test_it(token):\n"
        "    if token.endswith('b'):\n"
        "        time.sleep(0.5)\n"
        "        parent = 'PYTEST_XDIST_WORKER' in os.environ\n"
        "        os.kill(os.getppid() if parent else os.getpid(), signal.SIGKILL)\n"
        "        time.sleep(5)\n"
        "def test_other(): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nfailure_taxonomy_watcher = false\n")
    (tmp_path / "test_it.py").write_text(suite)
    on = ["-n", "1"] if workers else []
    run = run_pytest(tmp_path, *on, plugins=["xdist"] if workers else [])
    assert run.status == -signal.SIGKILL
    command = [
        sys.executable,
        "-m",
        "pytest_failure_taxonomy",
        "finalize",
        "failure-report.json",
    ]
    run_child(tmp_path, command)
    report = run.report(completeness="reconstructed")
    (flying,) = report["in_flight"]
    assert re.fullmatch(
        r"test_it\.py::test_it\[\[REDACTED:github-token [0-9a-f]{10}\]\]",
        flying["nodeid"],
    )
    assert report["not_run"]["nodeids"] == ["test_it.py::test_other"]


@XDIST
def test_redacted_node_ids_stay_distinct(tmp_path: Path, workers: int) -> None:
    """Two tests that differ by their secret alone are two in every list, and one in each."""
    suite = (
        "import pytest\n"
        "TOKENS = ['gh' + 'p_' + 'a1B2c3D4' * 4 + each for each in ('wxya', 'wxyb')]\n"
        "@pytest.mark.parametrize('token', TOKENS)\n"
        "def test_it(token): raise ValueError('no')\n"
    )
    (tmp_path / "test_it.py").write_text(suite)
    on = ["-n", str(workers)] if workers else []
    run = run_pytest(tmp_path, *on, plugins=["xdist"] if workers else [])
    report = run.report()
    shown = {failure["nodeid"] for failure in report["failures"]}
    assert len(shown) == 2
    assert set(report["groups"][0]["nodeids"]) == shown
    assert set(report["reasons"][0]["nodeids"]) == shown
    removed = report["redacted"]
    assert set(removed) == {"github-token"}
