"""A folder that holds what the pages speak of, so that a reader's commands can be run in it.

It is made by the commands that readers use: a project with a repository, reports of its runs, of
shards and of stages, a history, a bench with two runs, and what a harness has left. Programs that
would change the machine are replaced by scripts that only print. What pages write in capitals for
a reader to replace (`FOLDER`, `COMMIT`) exists by that name.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.helpers.children import ChildRun, run_child
from tests.helpers.harness_folders import (
    PYTEST_LOG,
    terminal_bench_run,
    terminal_bench_trial,
)
from tests.helpers.page_commands import OPTIONS_OF_OTHERS, ROOT

_STUBS: Final = {
    "AGENT": "echo done",
    "claude": "echo done",
    "my-agent": "echo done",
    "pip": 'echo "pip $*: nothing is installed here"',
    "python": 'if [ "$1 $2" = "-m pip" ]; then exec pip; fi\nexec {python} "$@"',
}
"""Programs by name, and what a shell runs in their place."""

_CONFTEST: Final = f"""\
def pytest_addoption(parser):
    for option in {tuple(OPTIONS_OF_OTHERS)}:
        try:
            parser.addoption(option)
        except ValueError:
            pass  # its plugin is installed
"""
_FILES: Final = {
    "pytest.ini": "[pytest]\ntestpaths = tests\npythonpath = .\n",
    "conftest.py": _CONFTEST,
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.4"\n',
    "shop.py": "def total(prices):\n    return sum(prices)\n",
    "tests/test_cart.py": (
        "from shop import total\n\n\n"
        "def test_empty():\n    assert total([]) == 0\n\n\n"
        "def test_total():\n    assert total([1, 2]) == 3\n"
    ),
    "tests/test_names.py": "def test_names():\n    assert 'a b'.split() == ['a', 'b']\n",
    "tests/test_tax.py": "def test_default():\n    assert 100 * 0.2 == 20\n",
}
"""The project as it was released."""
_BUG: Final = {"shop.py": "def total(prices):\n    return sum(prices) + len(prices)\n"}
_BESIDE: Final = {
    "failure-rules.yaml": (
        "rules:\n"
        "  - {name: flaky-clock, message: clock went backwards, reason: TESTS_FAILED}\n"
        "  - {name: no-database, message: could not connect, reason: SANDBOX_ERROR}\n"
    ),
    "known.yaml": '- nodeid: "tests/test_cart.py::test_total"\n  owner: payments\n',
    "log.jsonl": "".join(
        json.dumps(entry) + "\n"
        for entry in (
            {"pytest_version": "9.0.0", "$report_type": "SessionStart"},
            {
                "nodeid": "tests/test_cart.py::test_total",
                "when": "call",
                "outcome": "failed",
                "longrepr": "assert 5 == 3",
                "$report_type": "TestReport",
            },
            {"exitstatus": 1, "$report_type": "SessionFinish"},
        )
    ),
}
"""Files that git doesn't know."""

_PLUGINS: Final = (
    "failure_taxonomy",
    "failure_taxonomy_bench",
    "rerunfailures",
    "timeout",
    "xdist",
)
"""The entry points that are loaded: all that the suite needs would take three times as long."""

_STAGES: Final = {
    "git_clone": "true",
    "git_checkout": "true",
    "setup": "true",
    "baseline_run": "pytest",
    "agent_run": "my-agent",
    "final_test": "pytest",
}
_RELEASED: Final = (
    "git init --quiet",
    "echo '*' > .git/info/exclude",
    "git add --force --all",
    "git commit --quiet --message 'release 1.4'",
    "git tag v1.4",
    "pytest --why --why-history",
)
_BROKEN: Final = (
    "git commit --quiet --all --message 'cart: round'",
    "git commit --quiet --allow-empty --message 'docs: prices'",
    "git tag 4f0c2d1 && git tag COMMIT",
    "git update-ref refs/remotes/origin/main v1.4",
    "git clone --quiet --bare . ../shop.git",
    "ln -s ../shop.git REPOSITORY",
)
_RUNS: Final = (
    *(
        f"failure-taxonomy run --report shard-{number}/failure-report.json --"
        f" pytest --failure-taxonomy-shard={number}/4 {tests}"
        for number, tests in enumerate(
            (
                "tests/test_cart.py::test_empty",
                "tests/test_cart.py::test_total",
                "tests/test_tax.py",
                "tests/test_names.py",
            ),
            1,
        )
    ),
    *(
        f"failure-taxonomy run --stage {stage} --report {number}.json -- {command}"
        for number, (stage, command) in enumerate(_STAGES.items(), 1)
    ),
    "failure-taxonomy merge 1.json 2.json 3.json 4.json 5.json 6.json -o attempt.json",
    *(
        "pytest --why --why-history --failure-taxonomy-subtask=shop-17"
        f' --failure-taxonomy-approach="agent {number}, model M"'
        f" --why-report=results/{folder}/shop-17.json"
        for number, folder in ((1, "a"), (2, "b"))
    ),
    "mkdir api web",
    *(
        "cd ../apart && pytest --why --failure-taxonomy-report="
        f"$OLDPWD/{name}/failure-report.json --rootdir={name} {name}"
        for name in ("api", "web")
    ),
    "pytest --junitxml=junit.xml > run.log",
    "failure-taxonomy convert --from terminal-bench runs/2026-01-02 -o reports",
    "failure-taxonomy merge --by task reports -o tasks",
    "failure-taxonomy bench init bench/mail",
    "pytest bench -q --bench-json=old.json",
    "pytest bench -q --bench-json=new.json",
    "pytest --why --why-history",
    "cp .failure-taxonomy/history.db history.db",
    "cp 1.json clone.json",
    "cp failure-report.json first.json",
    "cp -r results FOLDER",
    "cp failure-report.json failure-report-py313.json",
)


class World:
    """What the pages speak of, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"

    def copy_to(self, folder: Path) -> World:
        """Return a copy in which all paths are those of the copy.

        The names of the two folders have the same length: that of a path is part of a database.
        """
        assert len(str(folder)) == len(str(self.folder))
        shutil.copytree(self.folder, folder, symlinks=True)
        mine, other = os.fsencode(self.folder), os.fsencode(folder)
        for path in folder.rglob("*"):
            if path.is_file() and ".git" not in path.parts:
                content = path.read_bytes()
                if mine in content:
                    path.write_bytes(content.replace(mine, other))
        return World(folder)

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the project."""
        for name, content in files.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")

    def run(self, line: str) -> ChildRun:
        """Run a line as a reader's shell does: in the folder, with the variables, of the line before."""
        state = self.folder / "shell"
        script = [
            "set -a",
            f". {state}" if state.exists() else "",
            line,
            "status_of_line=$?",
            f"{{ export -p; echo \"cd '$PWD'\"; }} > {state}",
            "exit $status_of_line",
        ]
        return run_child(
            self.project, ["sh", "-c", "\n".join(script)], env=self._environment()
        )

    def _environment(self) -> dict[str, str | None]:
        git = {
            "init.defaultBranch": "main",
            "user.name": "Ada",
            "user.email": "ada@example.org",
            f"url.{self.folder / 'shop.git'}.insteadOf": "https://example.org/shop.git",
        }
        settings: dict[str, str | None] = {"GIT_CONFIG_COUNT": str(len(git))}
        for number, (key, value) in enumerate(git.items()):
            settings[f"GIT_CONFIG_KEY_{number}"] = key
            settings[f"GIT_CONFIG_VALUE_{number}"] = value
        path = [
            str(self.folder / "bin"),
            str(Path(sys.executable).parent),
            os.environ.get("PATH", os.defpath),
        ]
        return {
            **settings,
            "FAILURE_TAXONOMY_HISTORY": None,
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(self.folder / "home"),
            "PATH": os.pathsep.join(path),
            "PYTEST_ADDOPTS": " ".join(f"-p {name}" for name in _PLUGINS),
            "TMPDIR": str(self.folder / "tmp"),
        }


def make_world(folder: Path) -> World:
    """Make the world from nothing."""
    world = World(folder)
    for name in ("bin", "home", "project", "tmp"):
        (folder / name).mkdir(parents=True)
    for name, script in _STUBS.items():
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script.replace('{python}', sys.executable)}\n")
        path.chmod(0o755)
    for name in ("api", "web"):
        (folder / "apart" / name).mkdir(parents=True)
        (folder / "apart" / name / "test_it.py").write_text("def test_it(): assert 0\n")
    world.write(_FILES)
    _take_steps(world, _RELEASED)
    world.write(_BUG)
    _take_steps(world, _BROKEN)
    world.write(_BESIDE)
    shutil.copytree(
        ROOT / "example_project",
        world.project / "example_project",
        ignore=shutil.ignore_patterns(".*", "__pycache__", "*.json", "*.html"),
    )
    trials = world.project / "runs" / "2026-01-02"
    terminal_bench_run(trials)
    terminal_bench_trial(
        trials,
        "fix-git",
        is_resolved=False,
        parser_results={"test_exists": "passed", "test_greets": "failed"},
        log=PYTEST_LOG,
    )
    _take_steps(world, _RUNS)
    return world


def _take_steps(world: World, steps: tuple[str, ...]) -> None:
    for step in steps:
        done = world.run(step)
        (world.folder / "shell").unlink()
        assert done.status in {0, 1}, f"{step}\n{done.stdout}{done.stderr}"
