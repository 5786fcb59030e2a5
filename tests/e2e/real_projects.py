"""Run the test suites of real projects with and without the report, and compare the two.

    python tests/e2e/real_projects.py [--unbroken] [--work-dir DIR] [--output FILE] NAME...

Each project is fetched as an sdist and gets a virtual environment of its own. Its suite runs plain,
with the report, and plain again, in one process and under ``-n 2``; the second plain run shows what
differs from run to run by itself. Then the project is broken in the ways that its row of `PROJECTS`
lists, and runs again. A Markdown table and every difference go to the standard output. The exit
code is 1 where the report changed something or says something else than pytest. POSIX only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ("pytest==9.2.0", "pytest-xdist==3.8.0", "pytest-timeout==2.4.0")
MODES: Final[Mapping[str, tuple[str, ...]]] = {"serial": (), "-n 2": ("-n", "2")}
RUN_LIMIT_SECONDS: Final = 1_800.0
MAX_WAIT_SECONDS: Final = 5.0
PR_SET_CHILD_SUBREAPER: Final = 36
MAX_VERDICT_LINES: Final = 7
"""With the title."""
MAX_SHOWN: Final = 10
"""Differences of one sort that are listed."""
KEPT_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One way to break a project on purpose, and what the report has to make of it."""

    name: str
    path: str = ""
    """The file to edit, relative to the sdist's folder."""
    old: str = ""
    """Stands in it exactly once."""
    new: str = ""
    without: str = ""
    """A distribution to uninstall."""
    arguments: tuple[str, ...] = ()
    modes: tuple[str, ...] = tuple(MODES)
    kind: str
    """The verdict's kind."""
    says: str = ""
    """What the lines on the terminal must hold, such as the place of the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What a project's suite needs, and how to break it."""

    version: str
    requirements: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    breaks: tuple[Break, ...] = ()


PROJECTS: Final[Mapping[str, Project]] = {
    "packaging": Project(  # sixty thousand parametrized tests
        version="26.3",
        requirements=("hypothesis", "pretend", "tomli_w", "coverage"),
        breaks=(
            Break(
                name="tomli_w missing",
                without="tomli_w",
                kind="collection.error",
                says="tomli_w is not installed: tests/test_pylock.py can't be imported",
            ),
            Break(
                name="wrong value",
                path="src/packaging/version.py",
                old="return self.release[0] if len(self.release) >= 1 else 0",
                new="return self.release[-1] if len(self.release) >= 1 else 0",
                arguments=("tests/test_version.py",),
                kind="test.failed",
                says="(tests/test_version.py:",
            ),
            Break(
                name="syntax error",
                path="src/packaging/specifiers.py",
                old="\nimport abc\n",
                new="\nimport abc\nif\n",
                kind="collection.error",
                says="SyntaxError: invalid syntax (src/packaging/specifiers.py:14)",
            ),
        ),
    ),
    "click": Project(  # the terminal's streams replaced, subprocesses
        version="8.5.1",
        breaks=(
            Break(
                name="wrong value",
                path="src/click/types.py",
                old='    name = "integer"\n',
                new='    name = "whole"\n',
                kind="test.failed",
            ),
            Break(
                name="name error",
                path="src/click/core.py",
                old="\nclass Command:\n",
                new="\nclass Command(Missing):\n",
                kind="conftest.error",
                says="src/click/core.py:",
            ),
        ),
    ),
    "attrs": Project(  # hypothesis, --import-mode=importlib
        version="26.1.0",
        requirements=("hypothesis", "cloudpickle", "pympler"),
        arguments=("--hypothesis-seed=0",),
        breaks=(
            Break(
                name="import error",
                path="src/attr/validators.py",
                old="\nimport operator\n",
                new="\nimport operatorr\n",
                kind="conftest.error",
                says="src/attr/validators.py:",
            ),
            Break(
                name="falsifiable",
                path="src/attr/_funcs.py",
                old="def asdict(\n",
                new="def asdict(inst, **_):\n    return {}\n\n\ndef _asdict(\n",
                kind="test.failed",
            ),
        ),
    ),
    "more-itertools": Project(  # unittest
        version="11.2.1",
        breaks=(
            Break(
                name="endless loop",
                path="more_itertools/more.py",
                old="    iterator = iter(partial(take, n, iter(iterable)), [])\n    if strict:\n",
                new="    while n:\n        pass\n    iterator = iter([])\n    if strict:\n",
                arguments=("--timeout=2",),
                kind="test.timeout",
                says="time limit of 2 s",
            ),
        ),
    ),
    "iniconfig": Project(version="2.3.1"),
    "pluggy": Project(version="1.7.0", requirements=("pytest-benchmark",)),
    "flask": Project(
        version="3.1.3",
        requirements=("asgiref", "greenlet", "python-dotenv"),
    ),
    "jinja2": Project(
        version="3.1.6",
        requirements=("trio",),
        breaks=(
            Break(
                name="fixture fails",
                path="tests/conftest.py",
                old="    return Environment()\n",
                new="    return Environment(nothing=True)\n",
                kind="test.setup_error",
                says="tests/conftest.py:12",
            ),
            Break(
                name="teardown fails",
                path="tests/conftest.py",
                old="    return Environment()\n",
                new="    yield Environment()\n    assert Environment() is None\n",
                kind="test.teardown_error",
                says="tests/conftest.py:13",
            ),
            Break(
                name="worker dies",
                path="src/jinja2/filters.py",
                old="    return soft_str(s).upper()\n",
                new="    import os\n\n    os.abort()\n",
                modes=("-n 2",),
                kind="worker.crashed",
                says="SIGABRT",
            ),
        ),
    ),
    "werkzeug": Project(  # servers in subprocesses
        version="3.1.9",
        requirements=("cffi", "cryptography", "ephemeral-port-reserve", "watchdog"),
        arguments=("-k", "not reloader"),
    ),
    "python-dateutil": Project(  # its conftest makes this pytest fail; many expected failures
        version="4.0.0",
        requirements=("freezegun", "hypothesis", "coverage", "build", "attrs"),
        breaks=(
            Break(
                name="wrong value",
                path="src/dateutil/easter.py",
                old="    p = i - j + e\n",
                new="    p = i - j + e + 1\n",
                kind="test.failed",
                arguments=("-W", "ignore::pytest.PytestUnknownMarkWarning"),
                says="tests/test_easter.py:",
            ),
        ),
    ),
    "toolz": Project(  # doctests, log_cli_level
        version="1.2.0",
        arguments=("--doctest-modules",),
        breaks=(
            Break(
                name="wrong value",
                path="toolz/itertoolz.py",
                old="    return itertools.chain.from_iterable(seqs)\n",
                new="    return itertools.chain(itertools.chain.from_iterable(seqs), [None])\n",
                kind="test.failed",
            ),
        ),
    ),
    "networkx": Project(  # tests inside of the package, doctests, a conftest with options
        version="3.6.1",
        requirements=("numpy", "scipy"),
        arguments=("--doctest-modules", "--pyargs", "networkx"),
    ),
    "tomlkit": Project(version="0.15.2", requirements=("PyYAML",)),
    "markdown-it-py": Project(  # files of expected output, a timeout for each test
        version="4.3.0",
        requirements=("linkify-it-py", "pytest-regressions", "requests"),
    ),
    "beautifulsoup4": Project(  # inherited tests
        version="4.15.0", requirements=("lxml", "html5lib")
    ),
    "trio": Project(  # a plugin by -p, async tests, tests inside of the package
        version="0.35.0",
        requirements=(
            "coverage",
            "async_generator",
            "pyOpenSSL",
            "trustme",
            "jedi",
            "astor",
        ),
        arguments=("src/trio", "--skip-optional-imports"),
    ),
    "pytest-xdist": Project(  # pytest inside of pytest
        version="3.8.0", requirements=("filelock",)
    ),
    "pytest": Project(
        version="9.2.0",
        requirements=("hypothesis", "attrs", "pexpect", "xmlschema", "requests"),
        arguments=(
            "testing/test_runner.py",
            "testing/test_skipping.py",
            "testing/test_subtests.py",
            "testing/test_unittest.py",
            "testing/test_doctest.py",
            "testing/test_terminal.py",
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a suite as it was seen from outside."""

    command: str
    exit_code: int
    out: tuple[str, ...]
    err: tuple[str, ...]
    wall_seconds: float
    cpu_seconds: float
    """User and system, of pytest and of every process that it started."""
    xml: Path
    report: Path


@dataclass(slots=True, kw_only=True)
class Comparison:
    """One suite in one mode: what the table says of it, and what is wrong."""

    suite: str
    mode: str
    plain: tuple[Run, Run]
    ours: Run
    report: dict[str, Any]
    verdict_lines: tuple[str, ...]
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """What is wrong in words, by the column of the table that it belongs to."""

    def check(self, column: str, problems: Iterator[str]) -> None:
        """Note what a check found."""
        self.wrong[column] = list(problems)

    @property
    def is_right(self) -> bool:
        """Tell whether no check found anything."""
        return not any(self.wrong.values())


class BrokenSetupError(Exception):
    """What was to be compared could not be made ready or did not end."""


def main() -> int:
    """Compare the named projects, or all of them.

    Returns:
        0 where the report changes nothing and agrees with pytest, else 1.
    """
    options = _parse_arguments()
    work: Path = options.work_dir or Path(tempfile.mkdtemp(prefix="real-projects-"))
    work.mkdir(parents=True, exist_ok=True)
    _adopt_orphans()
    comparisons = []
    try:
        checker = _environment(work / "checker", ["jsonschema", *TOOLS])
        for name in options.names or PROJECTS:
            for comparison in _compare_project(name, work.resolve(), checker, options):
                comparisons.append(comparison)
                sys.stderr.write(_row(comparison))
                sys.stderr.flush()
    except BrokenSetupError as error:
        sys.stderr.write(f"real_projects: {error}\n")
        return 1
    text = "".join(_render(comparisons))
    sys.stdout.write(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return int(not all(comparison.is_right for comparison in comparisons))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add(
        "names", nargs="*", metavar="NAME", choices=[[], *PROJECTS], help="default: all"
    )
    add(
        "--unbroken",
        action="store_true",
        help="run the projects only as they were released",
    )
    add(
        "--mode",
        choices=MODES,
        action="append",
        help="run in this mode only (repeatable)",
    )
    add(
        "--only",
        metavar="BREAK",
        help="break the projects only in the way of this name",
    )
    add(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help="keep sdists, environments and runs here",
    )
    add("--output", type=Path, metavar="FILE", help="write the table to a file, too")
    return parser.parse_args()


# Getting a project ready.


def _compare_project(
    name: str, work: Path, checker: Path, options: argparse.Namespace
) -> Iterator[Comparison]:
    """Compare a project as it was released, then broken in each way, in each mode."""
    project = PROJECTS[name]
    folder = work / name
    source = _unpack(_download(name, project.version, work / "sdists"), folder)
    python = _environment(
        folder / "environment",
        [*TOOLS, *project.requirements],
        ["-e", str(source)],
    )
    modes = options.mode or list(MODES)
    if not options.only:
        _pytest(
            python,
            source,
            folder / "first",
            ["--collect-only", "-q", *project.arguments],
        )
        for mode in modes:
            yield _compare(name, mode, python, source, checker, project.arguments, None)
    for broken in () if options.unbroken else project.breaks:
        if options.only not in (None, broken.name):
            continue
        arguments = (*project.arguments, *broken.arguments)
        for mode in (each for each in modes if each in broken.modes):
            with _broken(broken, source, python):
                suite = f"{name}, {broken.name}"
                yield _compare(suite, mode, python, source, checker, arguments, broken)


def _download(name: str, version: str, folder: Path) -> Path:
    """Return the path of a project's sdist."""
    pattern = re.sub("[-_.]+", "?", f"{name}-{version}.tar.gz").replace(
        "?tar?gz", ".tar.gz"
    )
    if not any(folder.glob(pattern)):
        fetch = ["download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder)]
        _checked([sys.executable, "-m", "pip", *fetch, f"{name}=={version}"])
    return next(folder.glob(pattern))


def _unpack(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist anew and return its folder."""
    shutil.rmtree(folder / "source", ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    return next((folder / "source").iterdir())


def _environment(folder: Path, *requirements: list[str]) -> Path:
    """Return the Python of a virtual environment with these requirements, installed in turn.

    The plugin is installed as its users have it and not as editable: hypothesis takes the constants
    of all modules outside of site-packages for examples, and would find others than without it.
    """
    python = folder / "bin" / "python"
    wanted = json.dumps(requirements)
    installed = folder / "installed"
    if not installed.exists() or installed.read_text("utf-8") != wanted:
        venv.create(folder, clear=True, with_pip=True)
        for each in requirements:
            _checked([str(python), "-m", "pip", "install", "-q", *each])
        installed.write_text(wanted, "utf-8")
    _checked([str(python), "-m", "pip", "install", "-q", str(REPOSITORY)])
    ours = ["install", "-q", "--no-deps", "--force-reinstall", str(REPOSITORY)]
    _checked([str(python), "-m", "pip", *ours])
    return python


@contextmanager
def _broken(broken: Break, source: Path, python: Path) -> Iterator[None]:
    """Break a project, and fix it again."""
    if broken.without:
        kept = _checked([str(python), "-m", "pip", "freeze"])
        pinned = next(
            line for line in kept.splitlines() if line.startswith(broken.without)
        )
        _checked([str(python), "-m", "pip", "uninstall", "-q", "-y", broken.without])
        try:
            yield
        finally:
            _checked([str(python), "-m", "pip", "install", "-q", pinned])
        return
    path = source / broken.path
    text = path.read_text("utf-8")
    if text.count(broken.old) != 1:
        raise BrokenSetupError(f"{path}: does not hold {broken.old!r} exactly once")
    path.write_text(text.replace(broken.old, broken.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


def _checked(command: Sequence[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BrokenSetupError(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


# Running.


def _compare(
    suite: str,
    mode: str,
    python: Path,
    source: Path,
    checker: Path,
    arguments: Sequence[str],
    broken: Break | None,
) -> Comparison:
    """Run a suite plain, with the report, and plain again, and check one against the other."""
    place = source.parent.parent / "runs" / re.sub(r"\W+", "-", f"{suite} {mode}")
    wanted = [*MODES[mode], *arguments]
    without = ["-p", "no:failure_taxonomy", *wanted]
    report = place / "ours" / "report.json"
    first = _pytest(python, source, place / "plain", without)
    ours = _pytest(
        python, source, place / "ours", [f"--failure-taxonomy-report={report}", *wanted]
    )
    second = _pytest(python, source, place / "again", without)
    if not report.exists():
        raise BrokenSetupError(f"no report was written: {ours.command}")
    out, said = _split_off_verdict(ours.out)
    err, said_on_stderr = _split_off_verdict(ours.err)
    comparison = Comparison(
        suite=suite,
        mode=mode,
        plain=(first, second),
        ours=ours,
        report=json.loads(report.read_text("utf-8")),
        verdict_lines=(*said, *said_on_stderr),
    )
    check = comparison.check
    check("exit", _check_exit(comparison))
    check(
        "output",
        chain(
            _check_text(first.out, second.out, out, is_ordered=mode == "serial"),
            _check_text(first.err, second.err, err, is_ordered=False),
        ),
    )
    check("counts", _check_counts(comparison))
    check("xml", _check_xml(comparison))
    check("schema", _check_schema(checker, report))
    check("failures", _check_failures(comparison, source))
    check("verdict", _check_verdict(comparison, broken))
    return comparison


def _pytest(python: Path, source: Path, place: Path, arguments: Sequence[str]) -> Run:
    """Run pytest in a project's folder, and in a small and fixed environment."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    xml = place / "junit.xml"
    # Its own, because another pytest may clean up the usual one; short, because it holds sockets.
    temporary = tempfile.mkdtemp()
    command = [str(python), "-m", "pytest", "-ra", *arguments, f"--junitxml={xml}"]
    environment = {
        name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ
    }
    environment |= {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "COLUMNS": "120",
        "PYTHONHASHSEED": "0",
        "PYTEST_DEBUG_TEMPROOT": temporary,
        "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
    }
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=source,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            exit_code = process.wait(RUN_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise BrokenSetupError(
                f"not over in {RUN_LIMIT_SECONDS:.0f} s: {command}"
            ) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it left behind
            shutil.rmtree(temporary, ignore_errors=True)
    wall_seconds = time.perf_counter() - started
    _wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(
        command=" ".join(command),
        exit_code=exit_code,
        out=tuple((place / "out").read_text("utf-8", "replace").splitlines()),
        err=tuple((place / "err").read_text("utf-8", "replace").splitlines()),
        wall_seconds=wall_seconds,
        cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        xml=xml,
        report=place / "report.json",
    )


def _adopt_orphans() -> None:
    """Make processes that a run leaves behind children of this one, so that their time counts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> None:
    """Wait for the ends of what a run left behind, but not for what has no end."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)


# Comparing. Each check yields what is wrong, in words.

_LAST_LINE: Final = re.compile(r"=*\s*(no tests ran|\d+ .+?) in [\d.]+s.*")
_COUNT: Final = re.compile(
    r"(\d+) (passed|failed|error|skipped|xf|xp|deselected|warning|rerun)"
)
_NAMES: Final = {
    "error": "errors",
    "xf": "xfailed",
    "xp": "xpassed",
    "warning": "warnings",
}
_OURS: Final = re.compile(r"=+ why this run failed =+|failure taxonomy: .*")
_PROGRESS: Final = re.compile(r"[.FEsxXRuy,-]+( +\[ *\d+%\])?")
_PLACE: Final = re.compile(r"(\S+?):(\d+)(: .*|:?)")
_WITHOUT_EXCEPTION: Final = ("test.xpass_strict", "worker.crashed")
_SHORT_SUMMARY: Final = re.compile(r"(FAILED|ERROR|SUBFAILED\S*) (.*)")
_VARYING: Final = (
    (re.compile(r"(, )?failure-taxonomy-[\w.]+"), ""),
    (re.compile(r"\b\d+(\.\d+)? ?(s|ms|us|seconds)\b( \(\d+:\d\d:\d\d\))?"), "# s"),
    (re.compile(r"0x[0-9a-fA-F]+(\.\.\.)?"), "0x#"),
    (re.compile(r"/popen-gw\d+|/tmp[a-z0-9_]{8}\b"), "/#"),
    (re.compile(r"\bgw\d\b"), "gw#"),
    (re.compile(r"/runs/[^/]+/(plain|ours|again)\b"), "/#"),
    (re.compile(r"([=_!+-])\1{2,}"), r"\1\1\1"),
)
"""What differs between two runs of the same suite, and what to read in its place."""


def _split_off_verdict(
    lines: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return pytest's own lines, and ours."""
    start = next(
        (at for at, line in enumerate(lines) if _OURS.fullmatch(line)), len(lines)
    )
    end = (
        next(
            (at for at in range(start, len(lines)) if "report: " in lines[at]),
            start - 1,
        )
        + 1
    )
    return lines[:start] + lines[end:], lines[start:end]


def _check_exit(comparison: Comparison) -> Iterator[str]:
    expected = {run.exit_code for run in comparison.plain}
    code = comparison.ours.exit_code
    if code not in expected:
        yield f"exit status {code} instead of {sorted(expected)}"
    if comparison.report["exit"]["code"] != code:
        yield f"exit status {code}, and the report says {comparison.report['exit']}"
    if comparison.report["completeness"] != "full":
        yield f"completeness is {comparison.report['completeness']}"


def _check_text(
    first: Sequence[str],
    second: Sequence[str],
    ours: Sequence[str],
    *,
    is_ordered: bool,
) -> Iterator[str]:
    """Compare what was printed; what differs between the plain runs, too, is not counted."""
    one, two, three = map(_steady, (first, second, ours))
    if is_ordered and three in (one, two):
        return
    plain_one, plain_two, with_report = map(_tally, (one, two, three))
    missing = (plain_one & plain_two) - with_report
    added = with_report - (plain_one | plain_two)
    yield from (f"{count} times not: {line}" for line, count in missing.items())
    yield from (f"{count} times new: {line}" for line, count in added.items())
    if is_ordered and one == two and not missing and not added:
        yield "the same lines in another order"


def _steady(lines: Sequence[str]) -> list[str]:
    """Return the lines without what differs from run to run."""
    steady = list(lines)
    for pattern, replacement in _VARYING:
        steady = [pattern.sub(replacement, line) for line in steady]
    return steady


def _tally(lines: Sequence[str]) -> Counter[str]:
    """Count the lines; of those that show progress count the characters."""
    tally: Counter[str] = Counter()
    for line in lines:
        progress = _PROGRESS.match(line)
        rest = line[progress.end() :] if progress else line
        if progress and (not rest or rest.startswith("[gw")):
            tally.update(f"progress {each}" for each in progress[0].partition(" ")[0])
        else:
            rest = line
        tally[rest] += bool(rest)
    return tally


def _last_line(run: Run) -> str:
    found = [match[1] for line in run.out if (match := _LAST_LINE.fullmatch(line))]
    return found[-1] if found else ""


def _check_counts(comparison: Comparison) -> Iterator[str]:
    """Compare the report's summary with pytest's last line, and with itself."""
    summary = comparison.report["summary"]
    line = _last_line(comparison.ours)
    if not line and comparison.ours.exit_code < 3:
        yield "pytest's last line is missing"
    said = Counter(
        {_NAMES.get(name, name): int(number) for number, name in _COUNT.findall(line)}
    )
    for name in (
        *_NAMES.values(),
        "passed",
        "failed",
        "skipped",
        "rerun",
        "deselected",
    ):
        is_untold = (
            name == "deselected" and comparison.mode != "serial"
        )  # by xdist's controller
        if line and summary[name] != said[name] and not is_untold:
            yield f"{name}: pytest says {said[name]}, the report {summary[name]}"
    if comparison.report["verdict"] is None and (
        summary["in_flight"] or summary["not_run"]
    ):
        yield f"{summary['in_flight']} in flight, {summary['not_run']} not run"


def _check_xml(comparison: Comparison) -> Iterator[str]:
    """Compare the report's summary with junit's totals, but for its "tests".

    There junit counts passed subtests, and no second time a test that passed before its teardown
    failed.
    """
    if not comparison.ours.xml.exists():
        return
    head = re.search(
        "<testsuite .*?>", comparison.ours.xml.read_text("utf-8", "replace")
    )
    said = dict(re.findall(r'(\w+)="(\d+)"', head[0])) if head else {}
    summary = comparison.report["summary"]
    errors = comparison.report["internal_errors"]
    internal = sum(each["kind"] == "internal.error" for each in errors)
    expected = {
        "failures": summary["failed"] - summary["crashed"],
        "errors": summary["errors"] + summary["crashed"] + internal,
        "skipped": summary["skipped"] + summary["xfailed"],
    }
    for name, number in expected.items():
        if int(said.get(name, -1)) != number:
            yield f"{name}: junit says {said.get(name)}, the report {number}"


_CHECK_SCHEMA: Final = """
import importlib.resources, json, pathlib, sys
from jsonschema import Draft202012Validator
from pytest_failure_taxonomy import load_report

path = pathlib.Path(sys.argv[1])
package = importlib.resources.files("pytest_failure_taxonomy.report")
schema = json.loads((package / "failure-report-1.2.schema.json").read_text("utf-8"))
for error in Draft202012Validator(schema).iter_errors(json.loads(path.read_bytes())):
    print(f"{error.json_path}: {error.message}")
try:
    load_report(path)
except Exception as error:
    print(f"load_report: {error}")
"""


def _check_schema(checker: Path, report: Path) -> Iterator[str]:
    yield from _checked([str(checker), "-c", _CHECK_SCHEMA, str(report)]).splitlines()


def _check_failures(comparison: Comparison, source: Path) -> Iterator[str]:
    """Compare each listed failure with pytest's short summary and with where it says it is."""
    report, out = comparison.report, comparison.ours.out
    summary, limits = report["summary"], report["limits"]
    listed = len(report["failures"]) + limits["failures_omitted"]
    if listed > summary["failed"] + summary["errors"]:
        yield f"{listed} failures listed, {summary['failed']} failed, {summary['errors']} errors"
    lines = {match[2] for line in out if (match := _SHORT_SUMMARY.fullmatch(line))}
    shown = {
        (os.path.normpath(source / match[1]), int(match[2]))
        for line in out
        if (match := _PLACE.fullmatch(line))
    }
    for failure in (*report["failures"], *report["collection_errors"]):
        nodeid = failure["nodeid"]
        if lines and not any(line.startswith(nodeid) for line in lines):
            yield f"{nodeid} is not in pytest's short summary"
        if (
            failure["exception"] is None
            and failure.get("kind") not in _WITHOUT_EXCEPTION
        ):
            yield f"{nodeid} has no exception"
        if failure.get("kind") != "worker.crashed":
            yield from (
                f"{nodeid}: {each}" for each in _check_place(failure, source, shown)
            )


def _check_place(
    failure: dict[str, Any], source: Path, shown: set[tuple[str, int]]
) -> Iterator[str]:
    """Check that the place of a failure is in a file and, for a test, that pytest shows it."""
    place = failure["location"]
    if place is None or place["line"] is None:
        yield "no place"
        return
    path = source / place["path"]
    if not path.is_file():
        yield f"{place['path']} is no file"
    elif len(path.read_bytes().splitlines()) < place["line"]:
        yield f"{place['path']} has no line {place['line']}"
    raised = failure["exception"]
    is_shown = "phase" in failure and raised and not raised["type"].endswith("Group")
    if is_shown and (os.path.normpath(path), place["line"]) not in shown:
        yield f"pytest does not show {place['path']}:{place['line']}"


_UNUSUAL: Final = (
    *("notes", "faults", "attributions", "attempt", "known", "trial", "merged"),
    *("session_exit_code", "is_unannotated", "extensions"),
)
"""Fields that are empty in the report of an ordinary run."""


def _check_verdict(comparison: Comparison, broken: Break | None) -> Iterator[str]:
    verdict = comparison.report["verdict"]
    lines = comparison.verdict_lines
    if not 0 < len(lines) <= MAX_VERDICT_LINES:
        yield f"{len(lines)} lines on the terminal"
    if (verdict is None) != (comparison.ours.exit_code == 0):
        yield f"exit status {comparison.ours.exit_code}, and the verdict is {verdict}"
    report = comparison.report
    told = {name: report[name] for name in _UNUSUAL if report[name]}
    if told:
        yield f"extensions: {told}"
    if broken is None:
        return
    kind = verdict["kind"] if verdict else None
    if kind != broken.kind:
        yield f"{kind} instead of {broken.kind}"
    if broken.says not in "\n".join(lines):
        yield f"the lines on the terminal do not say {broken.says!r}"


# Telling.

_HEAD: Final = (
    "suite", "mode", "pytest says", "exit", "output", "counts", "xml", "schema", "failures",
    "verdict", "report KiB", "wall s", "CPU s",
)  # fmt: skip


def _row(comparison: Comparison) -> str:
    """Render one row of the table."""
    checks = [
        f"**{len(each)} wrong**" if each else "ok" for each in comparison.wrong.values()
    ]
    verdict = comparison.report["verdict"]
    checks[0] = checks[0].replace("ok", f"{comparison.ours.exit_code} ok")
    checks[-1] = f"{verdict['kind'] if verdict else '-'} {checks[-1]}"
    cells = [
        comparison.suite,
        comparison.mode,
        _last_line(comparison.ours),
        *checks,
        f"{comparison.ours.report.stat().st_size / 1024:.1f}",
        _cost(*((run.wall_seconds) for run in (*comparison.plain, comparison.ours))),
        _cost(*((run.cpu_seconds) for run in (*comparison.plain, comparison.ours))),
    ]
    return f"| {' | '.join(cells)} |\n"


def _cost(first: float, second: float, ours: float) -> str:
    """Render a cost as the plain runs' mean and what the report adds, with half their distance."""
    mean = (first + second) / 2
    return f"{mean:.2f} {ours - mean:+.2f} ± {abs(first - second) / 2:.2f}"


def _render(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Render the table, then all that was wrong and what the terminal said of failures."""
    yield f"| {' | '.join(_HEAD)} |\n|{' --- |' * len(_HEAD)}\n"
    yield from map(_row, comparisons)
    for comparison in comparisons:
        if comparison.is_right and comparison.report["verdict"] is None:
            continue
        yield f"\n### {comparison.suite}, {comparison.mode}\n\n"
        yield f"    {comparison.ours.command}\n\n"
        yield from (f"    {line}\n" for line in comparison.verdict_lines)
        for column, problems in comparison.wrong.items():
            if problems:
                yield f"\n{column}:\n\n"
                yield from (f"- `{problem}`\n" for problem in problems[:MAX_SHOWN])
                yield f"- and {len(problems) - MAX_SHOWN} more\n" * (
                    len(problems) > MAX_SHOWN
                )


if __name__ == "__main__":
    sys.exit(main())
