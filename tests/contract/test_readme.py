"""The README does what it says: its commands run, and its sample looks like the real thing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from pytest_failure_taxonomy.faces.terminal import TITLE
from tests.helpers.children import REPORT, run_child, run_pytest
from tests.helpers.shop import write_shop

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

COMMAND: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
WITH_PLUGINS: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}
"""Plugins are found where they are installed, as a user's pytest does."""


def blocks_of(page: str, languages: str, heading: str = "") -> list[str]:
    """Return a page's code blocks of these languages, all or those right below a heading."""
    text = (ROOT / page).read_text("utf-8")
    if heading:
        _, text = text.split(f"\n## {heading}\n")
        text = text.partition("\n## ")[0]
    return re.findall(
        rf"^```(?:{languages})\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )


def commands(number: int) -> list[list[str]]:
    """Return the commands of one of the two blocks below `Try it`, each as its words."""
    blocks = blocks_of("README.md", "console", "Try it")
    assert len(blocks) == 2
    return [shlex.split(command) for command in blocks[number].split("&&")]


def group(name: str) -> list[str]:
    """Return the names of the distributions in a dependency group, those it includes, too."""
    found: list[str] = []
    entries: list[Any] = PROJECT["dependency-groups"][name]
    for entry in entries:
        if isinstance(entry, str):
            found += re.findall("^[A-Za-z0-9-]+", entry)
        else:
            found += group(entry["include-group"])
    return found


def test_the_first_command_installs_what_exists() -> None:
    """It installs this package, and plugins that its own tests use, too."""
    install, _ = commands(0)
    assert install[:4] == ["python", "-m", "pip", "install"]
    package, *plugins = install[4:]
    assert package == ".[html]"
    assert plugins
    assert set(plugins) <= set(group("test"))


@pytest.mark.slow
def test_the_first_command_runs_the_example(tmp_path: Path) -> None:
    """It finds the example's one bug, and leaves its report where pytest was started."""
    _, run = commands(0)
    assert run[:3] == ["python", "-m", "pytest"]
    shutil.copytree(
        ROOT / "example_project",
        tmp_path / "example_project",
        ignore=shutil.ignore_patterns(".*", "__pycache__", REPORT, "report.html"),
    )
    done = run_child(tmp_path, [sys.executable, *run[1:]], env=WITH_PLUGINS)
    assert done.status == 1, done.stdout + done.stderr
    (told,) = (line for line in done.tail if line.startswith("1 of 35 tests failed: "))
    assert "example_project/tests/test_tax.py" in told
    assert f"report: {REPORT}" in done.tail
    assert "<title>" in (tmp_path / "report.html").read_text("utf-8")
    report = done.report()
    assert report["verdict"]["kind"] == "test.failed"
    assert report["summary"]["failed"] == 1
    assert not (tmp_path / "example_project" / REPORT).exists()


def test_what_the_commands_come_to_is_said_before_them() -> None:
    """A first command that fails, and a second one that takes long, are no surprise."""
    _, text = (ROOT / "README.md").read_text("utf-8").split("\n## Try it\n")
    before = text.partition("```")[0].replace("\n", " ")
    assert "ends with exit code 1" in before
    assert re.search("about [0-9]+ minutes on 2 cores", before)


def test_the_second_command_runs_the_tests_as_ci_does() -> None:
    """It installs the development group, and CI's script ends with it and options."""
    upgrade, install, run = commands(1)
    assert upgrade == ["python", "-m", "pip", "install", "--upgrade", "pip"]
    assert install == ["python", "-m", "pip", "install", "-e", ".", "--group", "dev"]
    assert "pytest-xdist" in group("dev")
    assert run == ["python", "-m", "pytest", "-n", "4"]
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("an sdist has no CI script")
    last = shlex.split(script.read_text("utf-8").splitlines()[-1])
    assert last == [*run, "${pytest_options[@]}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "kind"),
    [
        pytest.param([], 1, "test.failed", id="failing"),
        pytest.param(["--tb=zzz"], 4, "usage.error", id="refused-before-plugins"),
    ],
)
def test_the_steps_for_ci_keep_a_report_of_this_run(
    tmp_path: Path, arguments: list[str], status: int, kind: str
) -> None:
    """What the step runs leaves its own report on the path to keep, whatever stood there."""
    (block,) = blocks_of("README.md", "yaml")
    run, upload = yaml.safe_load(block)
    assert run["run"] == "failure-taxonomy run -- pytest"
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert 0\n", "utf-8")
    (tmp_path / upload["with"]["path"]).write_text("an earlier run's", "utf-8")
    done = run_child(
        tmp_path,
        [*COMMAND, "run", "--", sys.executable, "-m", "pytest", *arguments],
        env=WITH_PLUGINS,
    )
    assert done.status == status, done.stdout + done.stderr
    report = json.loads((tmp_path / upload["with"]["path"]).read_text("utf-8"))
    assert report["verdict"]["kind"] == kind
    assert upload["if"] == "always()"


@pytest.mark.slow
def test_the_first_bench_passes(tmp_path: Path) -> None:
    """The two commands below `Benches` write a task class and run it."""
    (block,) = blocks_of("README.md", "console", "Benches")
    init, run = (shlex.split(line) for line in block.splitlines())
    assert (init[0], run[0]) == ("failure-taxonomy", "pytest")
    made = run_child(tmp_path, [*COMMAND, *init[1:]])
    assert made.status == 0, made.stderr
    done = run_child(
        tmp_path, [sys.executable, "-m", "pytest", *run[1:]], env=WITH_PLUGINS
    )
    assert done.status == 0, done.stdout + done.stderr
    assert re.fullmatch("[0-9]+ passed", done.outcome)


def test_contributing_sets_up_in_the_same_way() -> None:
    """The page for contributors gives the README's second block, one command a line."""
    (block,) = blocks_of("CONTRIBUTING.md", "console", "Set up")
    assert [shlex.split(line) for line in block.splitlines()] == commands(1)


def sample_of(page: str) -> list[str]:
    """Return the lines of the verdict in a page's only sample of it, without the title."""
    (sample,) = [block for block in blocks_of(page, "console|text") if TITLE in block]
    lines = sample.splitlines()
    first = next(
        i for i, line in enumerate(lines) if re.fullmatch(f"=+ {TITLE} =+", line)
    )
    return lines[first:]


def test_the_pages_show_one_sample() -> None:
    """Who goes on from the README reads about the lines that stand there."""
    assert sample_of("README.md") == sample_of("docs/tutorial.md")


def test_the_tutorial_creates_the_project_of_the_sample(tmp_path: Path) -> None:
    """Who follows the tutorial gets the lines that it shows."""
    write_shop(tmp_path)
    files = [path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    assert set(files) <= set(blocks_of("docs/tutorial.md", "ini|python"))


def test_the_sample_is_what_is_printed(tmp_path: Path) -> None:
    """The project that the sample is of ends in these lines."""
    if find_spec("openpyxl") is not None:
        pytest.skip("what the sample misses is installed")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 5439)) == 0:
            pytest.skip("something listens where the sample finds nothing")
    write_shop(tmp_path)
    done = run_pytest(tmp_path)
    shown = sample_of("README.md")
    assert done.stdout.splitlines()[-len(shown) :] == shown
