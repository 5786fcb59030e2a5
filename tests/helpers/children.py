"""Run pytest in a process whose surroundings a test chooses: folder, environment, descriptors.

`runs` checks a run against one without our plugin; this is for runs that are odd by intention.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

# Loaded before any `pytester` remembers which modules there are: it removes later ones, which our
# plugin would take for a test that hides them.
import pytest_failure_taxonomy.hooks.lifecycle
import pytest_failure_taxonomy.hooks.start

# `pytester` forgets what a test imports. This module knows the watcher of the run before in this
# process, and ends it: hundreds of them would look at the process until the suite is over.
import pytest_failure_taxonomy.survive.start_watcher  # noqa: F401
from tests.helpers.portability import pretended_system
from tests.helpers.reports import read_report
from tests.helpers.warm_pytest import warm_server

with suppress(ImportError):  # Windows has none
    import resource  # noqa: F401 - for the same reason

REPORT: Final = "failure-report.json"
SWITCH: Final = "--failure-taxonomy"
TIMEOUT_SECONDS: Final = 120.0

_NOT_INHERITED: Final = re.compile(
    "PYTEST_(?!DEBUG_TEMPROOT)|PYTHON(WARNINGS|UTF8|IOENCODING|UNBUFFERED|_COLORS)|PY_COLORS"
    "|NO_COLOR|FORCE_COLOR|COLUMNS|LC_|LANG|CI$|CI_|BUILD|GITHUB_|GITLAB_|TF_BUILD|CIRCLE|JENKINS_"
    "|FAILURE_TAXONOMY_FOR$|AI_AGENT$|CLAUDECODE$|CODEX_|CURSOR_AGENT$|GEMINI_CLI$"
)
"""Variables of the suite's own environment that would change what a child does or prints."""

_LAST_LINE: Final = re.compile(
    r"(=+ )?(.*[a-z] )?in [0-9]+\.[0-9]+s( \([0-9:]+\))?( =+)?"
)
_TITLE: Final = re.compile("=+ why this run failed =+")
_ELAPSED: Final = re.compile(r"(?<=, )[0-9][0-9.]* (?:m?s|min(?: [0-9]+ s)?)(?=\))")
_GAP: Final = re.compile(r" {2,}(?=\[[A-Z_]+ [^\]]+\]$)")
"""What puts the codes at the end of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRun:
    """What a child process was given and what came of it."""

    folder: Path
    """Where it was started."""
    status: int
    """As `subprocess` has it: negative for a death by signal."""
    stdout: str
    stderr: str

    @property
    def tail(self) -> list[str]:
        """What was printed on stdout after pytest's last line: our lines, if there are any."""
        lines = self.stdout.splitlines()
        last = max(
            (i for i, line in enumerate(lines) if _LAST_LINE.fullmatch(line)),
            default=-1,
        )
        return [_plain(line) for line in lines[last + 1 :]]

    @property
    def told(self) -> list[str]:
        """The verdict's lines on stdout or stderr, elapsed times replaced by `N s`."""
        lines = [_plain(line) for line in (self.stdout + self.stderr).splitlines()]
        first = next(
            (i for i, line in enumerate(lines) if _TITLE.fullmatch(line)), len(lines)
        )
        last = next(
            (i for i in range(first, len(lines)) if lines[i].startswith("report: ")),
            first,
        )
        return lines[first : last + 1]

    @property
    def outcome(self) -> str:
        """Pytest's last line, without the time that it took."""
        lines = [
            line for line in self.stdout.splitlines() if _LAST_LINE.fullmatch(line)
        ]
        return lines[-1].strip("= ").rpartition(" in ")[0] if lines else ""

    def report(
        self, path: str | Path = REPORT, *, completeness: str = "full"
    ) -> dict[str, Any]:
        """Return a report that the child has written, after checking it."""
        report = read_report(self.folder / path)
        assert report["completeness"] == completeness
        return report


def _plain(line: str) -> str:
    return _GAP.sub(" ", _ELAPSED.sub("N s", line))


def child_environment(
    changes: Mapping[str, str | None] | None = None,
) -> dict[str, str]:
    """Return the environment of a child: ours without what would change its output.

    Args:
        changes: variables to set, or to remove where the value is `None`.
    """
    inherited = {k: v for k, v in os.environ.items() if not _NOT_INHERITED.match(k)}
    given: dict[str, str | None] = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "80",
        **(changes or {}),
    }
    if pretended_system() is not None and (path := given.get("PYTHONPATH")):
        given["PYTHONPATH"] = f"{path}{os.pathsep}{os.environ['PYTHONPATH']}"
    inherited.update(
        {name: value for name, value in given.items() if value is not None}
    )
    return {k: v for k, v in inherited.items() if given.get(k, v) is not None}


def pytest_command(
    *args: str, plugins: Sequence[str] = ("failure_taxonomy",)
) -> list[str]:
    """Return the command that runs pytest with the entry points of the plugins named."""
    loaded = [part for name in plugins for part in ("-p", name)]
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loaded, *args]


def run_pytest(
    folder: Path,
    *args: str,
    switch: Sequence[str] = (SWITCH,),
    plugins: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    launcher: Sequence[str] = (),
    **options: Any,
) -> ChildRun:
    """Run pytest with our plugin in a folder.

    Args:
        folder: where to start it.
        args: further arguments.
        switch: the arguments that switch the report on.
        plugins: names of the entry points of other plugins to load.
        env: changes to the environment; a value of `None` removes the variable.
        launcher: a command that prepares its own process and executes the rest in it.
        options: passed on to `subprocess.run`.
    """
    command = pytest_command(*switch, *args, plugins=("failure_taxonomy", *plugins))
    return run_child(folder, [*launcher, *command], env=env, **options)


def run_plain_pytest(folder: Path, *args: str, **options: Any) -> ChildRun:
    """Run pytest without our plugin; the arguments are those of `run_pytest`."""
    plugins: Sequence[str] = options.pop("plugins", ())
    launcher: Sequence[str] = options.pop("launcher", ())
    return run_child(
        folder, [*launcher, *pytest_command(*args, plugins=plugins)], **options
    )


def run_inside(
    pytester: pytest.Pytester,
    *args: str,
    switch: Sequence[str] = (SWITCH,),
    plugins: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
) -> ChildRun:
    """Run pytest with our plugin in this very process: ten times as fast, for the rows of tables.

    The arguments are those of `run_pytest`; the folder is the `pytester`'s.
    """
    command = pytest_command(*switch, *args, plugins=("failure_taxonomy", *plugins))
    with pytest.MonkeyPatch.context() as patch:
        environment = child_environment(env)
        for name in set(os.environ) - set(environment):
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        # Our modules are those of the test process: its other tests patch what they use.
        for module in ("lifecycle", "start"):
            name = f"pytest_failure_taxonomy.hooks.{module}.isolate_package"
            patch.setattr(name, lambda: None)
        arguments = command[command.index("pytest") + 1 :]
        result = pytester.runpytest_inprocess(*arguments, no_reraise_ctrlc=True)
    return ChildRun(
        folder=pytester.path,
        status=int(result.ret),
        stdout="".join(f"{line}\n" for line in result.outlines),
        stderr="".join(f"{line}\n" for line in result.errlines),
    )


def run_child(
    folder: Path,
    command: Sequence[str],
    *,
    env: Mapping[str, str | None] | None = None,
    **options: Any,
) -> ChildRun:
    """Run a command in a folder to its end; a plain run of pytest in a fork that is warm."""
    environment = child_environment(env)
    is_merged = options == {"stderr": subprocess.STDOUT}
    server = None if options and not is_merged else warm_server(command, environment)
    if server is not None:
        status, stdout, stderr = server.run(
            command, folder, environment, TIMEOUT_SECONDS, is_merged=is_merged
        )
        return ChildRun(
            folder=folder, status=status, stdout=_text(stdout), stderr=_text(stderr)
        )
    streams = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "stdin": subprocess.DEVNULL,
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        timeout=TIMEOUT_SECONDS,
        check=False,
        **{**streams, **options},
    )
    return ChildRun(
        folder=folder,
        status=done.returncode,
        stdout=_text(done.stdout),
        stderr=_text(done.stderr),
    )


def _text(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "backslashreplace")
