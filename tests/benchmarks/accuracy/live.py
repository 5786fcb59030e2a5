"""Compare our first screen with what a colleague would say, on projects that fail as in public reports.

    python -m tests.benchmarks.accuracy.live [NAME…] [--folder FOLDER] [--plugin VERSION_OR_PATH]

FOLDER, `live` beside this script by default, has a folder for each project and `cases.toml` with a
table for each. NAME is how the names of some of them start. A table says:

report       the address of the public report
ideal        the sentence that a colleague would say
packages     what pip installs
command      the run
environment  its variables, `NAME=value` each, with blanks between them; a folder's name is made a path
setup        a command for the shell before the run
within       a command that runs the one that follows it
must, never  regular expressions for the closing section: all are found there, none is
charge       who is charged: one of these, with `|` between them
retry        `retryable` of the verdict, one of these letters: y true, n false, ? null

Each project is copied, and runs twice: by plain pytest, and by `failure-taxonomy run`, which has to
leave pytest's exit status and counts as they are. What is not as the table says is printed, with the
ideal sentence and what we said; the figures stand at the end. The exit code is 0 whatever they are.

This needs pip, the network, Linux, and a Python for which the packages have wheels (3.12). Each set of
packages gets a virtual environment, which is kept (`--environments`). The plugin is built as a wheel
from a path, or installed from an index by its version; the default is this repository. A project that
can't be set up counts as wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[3]
PROJECTS: Final = Path(__file__).with_suffix("")
DISTRIBUTION: Final = "pytest-failure-taxonomy"
TITLE: Final = "why this run failed"
LIMIT_SECONDS: Final = 240
RETRYABLE: Final[Mapping[bool | None, str]] = {True: "y", False: "n", None: "?"}
PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
"""Variables that a project's run gets from ours. It gets none that could decide how it ends."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a command ended, and what it printed."""

    status: int
    """128 and the number for a signal."""
    stdout: str
    stderr: str

    def result(self) -> tuple[int, list[str]]:
        """Return the exit status, and the counts that pytest prints.

        Not the names of what failed: which of two workers loses a race is no one's to say.
        """
        own, _, _ = self.stdout.partition(TITLE)
        return self.status, re.findall(r"^=+ (.*) in [\d.]+s", own, re.MULTILINE)

    def first_screen(self) -> str:
        """Return the closing section; where there is none, the last lines.

        That of a pytest that died is on the standard error.
        """
        for stream in (self.stdout, self.stderr):
            _, title, section = stream.partition(TITLE)
            if title:
                return title + section
        return "\n".join((self.stdout or self.stderr).splitlines()[-4:])


@dataclass(frozen=True, slots=True)
class Answer:
    """What is wrong with an answer, by what was asked of it; nothing where it is right."""

    sentence: list[str]
    charge: list[str]
    retry: list[str]
    pytest: list[str]
    """Of pytest's own result, which the plugin must leave alone."""
    screen: str = ""

    def problems(self) -> list[str]:
        """Return all that is wrong."""
        return self.sentence + self.charge + self.retry + self.pytest


class Environments:
    """Virtual environments by their packages, each with the plugin."""

    def __init__(self, folder: Path, plugin: str) -> None:
        self._folder = folder
        self._plugin = self._built(plugin)

    def scripts_with(self, packages: Sequence[str]) -> Path:
        """Return the folder of the programs of an environment, which is made where it is missing."""
        key = "\n".join([sys.version, *packages])
        home = self._folder / hashlib.sha256(key.encode()).hexdigest()[:12]
        if not (home / "packages.txt").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
            _install(home, *packages)
            (home / "packages.txt").write_text("\n".join(packages))
        installed = home / "plugin.txt"
        if not installed.exists() or installed.read_text() != self._plugin:
            _install(home, self._plugin)
            _install(home, "--force-reinstall", "--no-deps", self._plugin)
            installed.write_text(self._plugin)
        return home / "bin"

    def _built(self, plugin: str) -> str:
        """Return what pip installs the plugin from: a wheel made of a path, or a version."""
        if not Path(plugin).exists():
            return f"{DISTRIBUTION}=={plugin}"
        with tempfile.TemporaryDirectory() as scratch:
            command = ["wheel", "--quiet", "--no-deps", "--wheel-dir", scratch]
            subprocess.run([sys.executable, "-m", "pip", *command, plugin], check=True)
            (wheel,) = Path(scratch).glob("*.whl")
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]
            place = self._folder / "wheels" / digest / wheel.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(wheel, place)
        return str(place)


def _install(home: Path, *arguments: str) -> None:
    """Install packages into an environment."""
    quiet = ("--quiet", "--disable-pip-version-check")
    command = [str(home / "bin" / "python"), "-m", "pip", "install", *quiet, *arguments]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def ask(project: Path, case: Mapping[str, Any], environments: Environments) -> Answer:
    """Run a project by plain pytest and with the plugin, and compare the answer with its table.

    Raises:
        OSError, SubprocessError: the project or its environment could not be set up.
    """
    scripts = environments.scripts_with(case["packages"])
    command = case["command"].split()
    with tempfile.TemporaryDirectory(prefix="live-") as scratch:
        folder = Path(scratch) / "project"  # the same for both: output names it
        _copy(project, folder, case, scripts)
        plain = _run(folder, case, scripts, command)
        _copy(project, folder, case, scripts)
        supervised = ["failure-taxonomy", "run", "--", *command]
        ours = _run(folder, case, scripts, supervised)
        return judge(case, plain, ours, _verdict_in(folder))


def judge(
    case: Mapping[str, Any], plain: Run, ours: Run, verdict: Mapping[str, Any]
) -> Answer:
    """Return what is wrong with the answer to a case."""
    screen = ours.first_screen()
    lacks = [
        f"lacks {pattern!r}"
        for pattern in case["must"]
        if not re.search(pattern, screen, re.MULTILINE)
    ]
    says = [
        f"says {pattern!r}"
        for pattern in case["never"]
        if re.search(pattern, screen, re.MULTILINE)
    ]
    charge, retry, changed = [], [], []
    if case["charge"] and verdict.get("charge_to") not in case["charge"].split("|"):
        charge.append(f"charged to {verdict.get('charge_to')}")
    if case["retry"] and RETRYABLE[verdict.get("retryable")] not in case["retry"]:
        retry.append(f"retryable: {verdict.get('retryable')}")
    if plain.result() != ours.result():
        changed.append(f"pytest's {plain.result()} became {ours.result()}")
    return Answer(lacks + says, charge, retry, changed, screen)


def _copy(project: Path, folder: Path, case: Mapping[str, Any], scripts: Path) -> None:
    """Make a fresh copy of a project, with an empty home beside it, and set it up."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(project, folder)
    (folder.parent / "home").mkdir(exist_ok=True)
    if case.get("setup"):
        subprocess.run(
            ["sh", "-c", case["setup"]],
            cwd=folder,
            env=variables_of(folder, case, scripts),
            check=True,
            capture_output=True,
        )


def _run(
    folder: Path, case: Mapping[str, Any], scripts: Path, command: Sequence[str]
) -> Run:
    """Run a command in a project, within another one if its table says so."""
    ended = subprocess.run(
        [*case.get("within", "").split(), *command],
        cwd=folder,
        env=variables_of(folder, case, scripts),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT_SECONDS,
        check=False,
    )
    status = ended.returncode
    return Run(128 - status if status < 0 else status, ended.stdout, ended.stderr)


def variables_of(
    folder: Path, case: Mapping[str, Any], scripts: Path
) -> dict[str, str]:
    """Return the environment of a project's commands."""
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    variables |= {
        "HOME": str(folder.parent / "home"),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PATH": f"{scripts}{os.pathsep}{variables['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for pair in case.get("environment", "").split():
        name, value = pair.split("=", 1)
        inside = folder / value
        variables[name] = str(inside) if value and inside.is_dir() else value
    return variables


def _verdict_in(folder: Path) -> Mapping[str, Any]:
    """Return the verdict of a run's report; an empty one where there is none."""
    try:
        verdict = json.loads((folder / "failure-report.json").read_text())["verdict"]
    except (OSError, ValueError, KeyError):
        return {}
    return verdict or {}


def main() -> None:
    """Ask all projects that the arguments name, and print each miss and the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", type=Path, default=PROJECTS)
    parser.add_argument("--plugin", default=str(REPOSITORY), metavar="VERSION_OR_PATH")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(tempfile.gettempdir()) / "failure-taxonomy-live",
        metavar="FOLDER",
        help="where virtual environments are kept; default: %(default)s",
    )
    options = parser.parse_args()
    cases = tomllib.loads((options.folder / "cases.toml").read_text())
    chosen = [name for name in cases if name.startswith(tuple(options.names) or "")]
    environments = Environments(options.environments, options.plugin)
    answers = []
    for name in chosen:
        try:
            answer = ask(options.folder / name, cases[name], environments)
        except (OSError, subprocess.SubprocessError) as error:
            answer = Answer([f"not set up: {error}"], [], [], [])
        answers.append(answer)
        _print_answer(name, cases[name], answer)
    _print_figures(answers)


def _print_answer(name: str, case: Mapping[str, Any], answer: Answer) -> None:
    """Print what is wrong with an answer, the ideal one, and what we said."""
    said = [line.strip() for line in answer.screen.splitlines()[1:6]]
    sys.stdout.write(f"{name}: {'; '.join(answer.problems()) or 'right'}\n")
    sys.stdout.write(f"    ideal: {case['ideal']}\n")
    sys.stdout.write(f"    said:  {' / '.join(said)[:500]}\n")
    sys.stdout.flush()


def _print_figures(answers: Sequence[Answer]) -> None:
    """Print how many answers are right, as a whole and in each respect."""
    figures = {
        "right at first sight": sum(not answer.problems() for answer in answers),
        "the sentence is right": sum(not answer.sentence for answer in answers),
        "the charge is right": sum(not answer.charge for answer in answers),
        "whether a retry helps is right": sum(not answer.retry for answer in answers),
        "pytest's own result is unchanged": sum(not each.pytest for each in answers),
    }
    for what, count in figures.items():
        sys.stdout.write(f"{count:4} of {len(answers)}  {what}\n")


if __name__ == "__main__":
    main()
