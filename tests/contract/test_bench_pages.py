"""The pages on benches: their files and commands do what they say, their tables are whole."""

from __future__ import annotations

import gzip
import json
import os
import re
import runpy
import shlex
import shutil
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import pytest_failure_taxonomy.bench as public
from pytest_failure_taxonomy.bench.bounds import lower_bound_95
from pytest_failure_taxonomy.bench.models import RUNNER_CODES
from pytest_failure_taxonomy.bench.plugin import entry
from pytest_failure_taxonomy.options import BENCH_OPTIONS
from tests.benchmarks.humaneval import make_problems
from tests.contract.test_docs import code_blocks, code_in, read_page, section, tables
from tests.helpers.children import run_child

pytest.importorskip("xdist")
pytest.importorskip("scipy")

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
HOW_TO: Final = "docs/bench/write-a-bench.md"
RUBRICS: Final = "docs/bench/grade.md"
COMPARE: Final = "docs/bench/compare-runs.md"
REFERENCE: Final = "docs/bench/options.md"

BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE: Final = re.compile(r"# ([\w./-]+\.(?:py|yaml|yml|ini))\n")
COMMAND: Final = re.compile(r"\$ (.*?)(?:   # exit code (\d))?")
VARIES: Final = (
    (re.compile(r"<?\b[\d.]+ (?:ms|s)\b"), "N ms"),
    (re.compile(r"\bin [\d.]+s\b"), "in N s"),
)
PROGRAMS: Final = {
    "pytest": [sys.executable, "-m", "pytest"],
    "failure-taxonomy": [sys.executable, "-m", "pytest_failure_taxonomy"],
}
ENVIRONMENT: Final = {
    # `run -- pytest` takes the first pytest on the path: it has to be that of these tests.
    "PATH": os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    ),
    "PYTEST_ADDOPTS": "-p failure_taxonomy -p failure_taxonomy_bench -p xdist",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def steps_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield what a reader does, in order: files to write, and transcripts to repeat.

    `$ cat FILE` shows a file that a comment can't name.
    """
    for language, text in BLOCK.findall(read_page(page)):
        named = FILE.match(text)
        if named is not None:
            yield named[1], text
        elif language == "console" and text.startswith("$ "):
            for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]:
                shown = re.match(r"\$ cat (\S+)\n", part)
                yield (shown[1], part[shown.end() :]) if shown else ("", part)


def transcripts_of(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each command of a block with its exit code and the lines that it prints."""
    command: re.Match[str] | None = None
    printed: list[str] = []
    for line in [*text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if command is not None:
                yield command[1], int(command[2] or 0), printed
            command, printed = COMMAND.fullmatch(line), []
        else:
            printed.append(line)


def run_command(folder: Path, command: str) -> tuple[int, str]:
    """Run one command as a shell would, and return its exit code and what it printed."""
    program, *arguments = shlex.split(command)
    done = run_child(folder, [*PROGRAMS[program], *arguments], env=ENVIRONMENT)
    return done.status, done.stdout + done.stderr


def plain(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    return text.replace("N s", "N ms")


def as_pattern(printed: list[str]) -> str:
    """Return the expression that an output has to match.

    `...` stands for any text, and the columns of tables may be wider or narrower.
    """
    lines = plain("\n".join(printed)).split("\n")
    exact = "\n".join(
        "(?:.*\n)*?.*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*")
        for line in lines
    )
    return re.sub(r"(?:\\ ){2,}", " +", exact)


def follow(page: str, folder: Path) -> int:
    """Write each file of a page and run each of its commands; return how many there were."""
    commands = 0
    for name, text in steps_of(page):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
            continue
        for command, exit_code, printed in transcripts_of(text):
            commands += 1
            status, output = run_command(folder, command)
            assert status == exit_code, f"{command}\n{output}"
            found = re.fullmatch(as_pattern(printed), plain(output.rstrip("\n")))
            assert found, (
                f"{command}\n{output}\n--- is not as on the page:\n"
                + "\n".join(printed)
            )
    return commands


@pytest.mark.slow
def test_the_page_from_nothing_to_a_gate_and_a_dataset(tmp_path: Path) -> None:
    """Who writes each file and runs each command in turn sees what the page shows."""
    assert follow(HOW_TO, tmp_path) == 17
    check_the_workflow(tmp_path)
    check_humaneval(tmp_path / "bench" / "code")


def check_humaneval(folder: Path) -> None:
    """Do what the end of the page says, with problems in the data set's shape."""
    problems = make_problems()[:8]
    lines = [json.dumps(problem) for problem in problems]
    solutions = {p["prompt"]: p["canonical_solution"] for p in problems}
    conftest = (folder / "conftest.py").read_text("utf-8")
    conftest = conftest.replace("FAKE_MODEL[case.case_id]", "FAKE_MODEL[case.input]")
    conftest += f"\n\nFAKE_MODEL = {solutions!r}\n"
    (folder / "conftest.py").write_text(conftest, "utf-8")
    shutil.rmtree(folder / "oracle")
    (folder / "cases" / "problems.jsonl").unlink()
    data = gzip.compress("\n".join(lines).encode())
    (folder / "cases" / "HumanEval.jsonl.gz").write_bytes(data)
    status, output = run_command(folder, "pytest . -q")
    assert status == 0, output
    assert "bench code: 8 of 8 passed; mean 1.000; at least 0.688" in output


@pytest.mark.slow
def test_the_page_that_compares_runs(tmp_path: Path) -> None:
    """Its files and commands, from two runs to repeated cases, do what they say."""
    assert follow(COMPARE, tmp_path) > 7


class _Judge(BaseHTTPRequestHandler):
    """Answers as a model would that likes everything; refuses who has no key."""

    def do_POST(self) -> None:
        """Give ten points."""
        is_known = self.headers["Authorization"] == "Bearer a-key-for-the-judge"
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if is_known else 401)
        self.end_headers()
        self.wfile.write(b'{"choices": [{"message": {"content": "10"}}]}')
        self.server.asked.append(is_known)  # type: ignore[attr-defined]  # set below

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.slow
def test_the_page_on_rubrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rubrics grade, and the one that asks a model reaches it with its key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Judge) as server:
        server.asked = []  # type: ignore[attr-defined]  # for the handler
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setitem(
            ENVIRONMENT, "JUDGE_URL", f"http://127.0.0.1:{server.server_port}/"
        )
        monkeypatch.setitem(ENVIRONMENT, "JUDGE_KEY", "a-key-for-the-judge")
        assert follow(RUBRICS, tmp_path) == 5
        server.shutdown()
    assert server.asked  # type: ignore[attr-defined]  # as above
    assert all(server.asked)  # type: ignore[attr-defined]  # as above


def check_the_workflow(folder: Path) -> None:
    """Run what the workflow runs, and see that it keeps what there is."""
    (path,) = (folder / ".github" / "workflows").iterdir()
    workflow = yaml.safe_load(path.read_text("utf-8"))
    steps = workflow["jobs"]["bench"]["steps"]
    install, *commands = [step["run"] for step in steps if "run" in step]
    assert install in read_page(HOW_TO).partition("## ")[0]
    for command in commands:
        status, output = run_command(folder, command)
        assert status == 0, f"{command}\n{output}"
    (upload,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert upload["if"] == "always()"
    assert all((folder / name).is_file() for name in upload["with"]["path"].split())


def test_what_is_to_be_installed_exists() -> None:
    """The page's first command names this package and an extra that it has."""
    ((command,),) = [
        block.splitlines()
        for block in code_blocks(read_page(HOW_TO), "console")
        if "pip install" in block
    ]
    name, extra = re.fullmatch(r"([\w-]+)\[(\w+)\]", shlex.split(command)[-1]).groups()  # type: ignore[union-attr]  # fails the test
    assert name == PROJECT["name"]
    assert PROJECT["optional-dependencies"][extra]


def test_the_codes_of_the_runner_are_listed() -> None:
    """The page has all six."""
    (rows,) = tables(section(read_page(HOW_TO), "Read a failure"))
    assert [code_in(row[0])[0] for row in rows[1:]] == list(RUNNER_CODES)


@pytest.mark.parametrize(("share", "cases"), [(0.8, 14), (0.9, 29), (0.95, 59)])
def test_how_many_cases_prove_how_much(share: float, cases: int) -> None:
    """The page's numbers of cases prove what it says, and one less does not."""
    sentence = re.search(r"it takes .*?don't", read_page(HOW_TO), re.DOTALL)
    assert sentence is not None
    assert re.search(rf"\b{cases}( cases to prove| for) {share:g}\b", sentence[0])
    for count, proves in ((cases, True), (cases - 1, False)):
        bound = lower_bound_95([1.0] * count).value
        assert bound is not None
        assert (bound >= share) is proves


# The reference.


def test_every_option_is_documented() -> None:
    """The two tables have each option with its ini value and what it stands for."""
    of_settings, others = tables(section(read_page(REFERENCE), "Options"))
    assert [[code_in(cell) for cell in row[:3]] for row in of_settings[1:]] == [
        [[f"{option.flag}={option.metavar}"], [option.dest], [option.name]]
        for option in BENCH_OPTIONS.values()
        if option.is_of_class
    ]
    parser = pytest.Parser(_ispytest=True)
    entry.pytest_addoption(parser)
    (group,) = [each for each in parser._groups if each.name == "bench"]
    declared = {name for option in group.options for name in option.names()}
    rows = [*of_settings[1:], *others[1:]]
    listed = {name.partition("=")[0] for row in rows for name in code_in(row[0])}
    assert listed == declared
    ini = {name for row in rows for name in code_in(row[1])}
    assert ini == {name for name in parser._inidict if name.startswith("bench_")}


def test_every_public_name_is_documented() -> None:
    """The section names each name that the package gives away."""
    text = section(read_page(REFERENCE), "In Python")
    assert [name for name in vars(public)["__all__"] if f"`{name}`" not in text] == []


def test_the_fixtures_are_documented() -> None:
    """The table has the plugin's fixtures, and the one that is the author's."""
    fixtures, _ = tables(section(read_page(REFERENCE), "Fixtures"))
    listed = [code_in(row[0])[0] for row in fixtures[1:]]
    declared = [
        name
        for name, each in vars(entry).items()
        if "fixture" in type(each).__name__.lower()
    ]
    assert sorted(listed) == sorted([*declared, "system_under_test"])


@pytest.mark.slow
def test_the_code_of_the_reference_runs(tmp_path: Path) -> None:
    """The tests pass, one of them once for each case, and the script runs to its end."""
    assert run_command(tmp_path, "failure-taxonomy bench init bench/mail")[0] == 0
    *tests, script = code_blocks(read_page(REFERENCE), "python")
    (tmp_path / "test_it.py").write_text("\n\n".join(tests), encoding="utf-8")
    status, output = run_command(tmp_path, "pytest -v test_it.py --strict-markers")
    assert status == 0, output
    assert "test_it.py::test_mail[plus-sign] PASSED" in output
    assert "= 5 passed in " in output
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        names: dict[str, Any] = runpy.run_path("script.py")
    finally:
        os.chdir(before)
    assert names["report"].passed_count == 3
