"""Break the suites of real projects on purpose and look at the fingerprints of their failures.

    python tests/e2e/fingerprints_on_real_suites.py [--sdists DIR] [--python PATH]... [NAME]...

Each project runs with one cause of failure, and with another, in one process and under ``-n 2``, in
two folders, and with each Python that is given; those need pytest and what the project's tests need
(``PYTHONPATH`` is passed on). For each cause the table shows into how many groups its failures fall
and whether all runs agree on the fingerprint of each of them; for each pair of causes, how many
fingerprints they share. The exit code is 1 where two runs disagree or two causes share one
that is not a failed assertion.

pytest loads this same file as a plugin, which writes down what the failures' fingerprints are.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.describe import cause_of, message_of
from pytest_failure_taxonomy.recorder.origin import OriginFinder
from pytest_failure_taxonomy.taxonomy.fingerprints import fingerprint_of, title_of

HERE: Final = Path(__file__).resolve()
RUN_LIMIT_SECONDS: Final = 600.0
SHOWN_GROUPS: Final = 3
ATTRIBUTE: Final = "_fingerprint"

NOISE: Final = (
    "{__import__('uuid').uuid4()} after {__import__('time').time()} s"
    " in {__import__('os').getcwd()} with {object()!r}"
)
"""In an f-string: what differs from run to run."""
LOST: Final = f'raise RuntimeError(f"session lost: {NOISE}")'
REFUSED: Final = f'raise ConnectionError(f"refused: {NOISE}")'

Edit = tuple[str, str, str]
"""A file, a function (or a line of it, if it is no function's name), and the statement to put
first in that function (or in place of that line)."""

PROJECTS: Final[Mapping[str, Mapping[str, Edit]]] = {
    "click-8.5.1": {
        "a method raises": ("src/click/formatting.py", "HelpFormatter.__init__", LOST),
        "another method raises": ("src/click/core.py", "Option.__init__", REFUSED),
        "a fixture fails": ("tests/conftest.py", "runner", REFUSED),
        "a wrong value": ("src/click/utils.py", "echo", 'message = "wrong"'),
    },
    "more_itertools-11.2.1": {
        "a function raises": ("more_itertools/more.py", "chunked", LOST),
        "another function raises": ("more_itertools/recipes.py", "take", LOST),
        "a module is renamed": (
            "more_itertools/__init__.py",
            "from .recipes import *  # noqa",
            "from .recipies import *",
        ),
        "a wrong value": ("more_itertools/recipes.py", "take", "n += 1"),
    },
    "attrs-26.1.0": {
        "a method raises": ("src/attr/validators.py", "_InstanceOfValidator.__call__", LOST),
        "another function raises": ("src/attr/_make.py", "asdict", REFUSED),
        "a function of many callers raises": ("src/attr/_make.py", "_CountingAttr.__init__", LOST),
    },
    "packaging-26.3": {
        "a method raises": ("src/packaging/markers.py", "Marker.__init__", LOST),
        "another function raises": ("src/packaging/utils.py", "canonicalize_name", REFUSED),
    },
}
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    # Sixty thousand tests of versions would add time and no other failures.
    "packaging-26.3": tuple(
        f"tests/test_{name}.py"
        for name in ("markers", "requirements", "utils", "dependency_groups", "licenses")
    )
}

# What pytest calls in the runs.

_found: list[dict[str, Any]] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Describe what failed a test where the exception is at hand."""
    report = yield
    if report.failed:
        error = None if call.excinfo is None else call.excinfo.value
        setattr(report, ATTRIBUTE, _describe(item, error, f"test.{report.when}"))
    return report


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any], report: Any
) -> None:
    """Describe why a module could not be collected."""
    if isinstance(node, pytest.Collector) and call.excinfo is not None:
        error = cause_of(call.excinfo.value)
        setattr(report, ATTRIBUTE, _describe(node, error, "collection.error"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the description of a failed test."""
    _keep(report)


@pytest.hookimpl(trylast=True)
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Keep the description of a module that could not be collected."""
    _keep(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what was kept."""
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["FINGERPRINTS"]).write_text(json.dumps(_found), "utf-8")


def _keep(report: Any) -> None:
    described = getattr(report, ATTRIBUTE, None)
    if report.failed and described is not None:
        _found.append({"key": f"{report.nodeid} {getattr(report, 'when', '')}", **described})


def _describe(node: Any, error: BaseException | None, kind: str) -> dict[str, str]:
    kind_of = type(error)
    name = "" if error is None else kind_of.__qualname__
    message = "" if error is None else message_of(error)
    place = None if error is None else OriginFinder(node.config.rootpath).origin_of(error)
    made = fingerprint_of(name, kind_of.__module__, message, place, kind, nodeid=node.nodeid)
    return {"fingerprint": made, "title": title_of(name, message, place)}


# What starts the runs.


def main() -> int:
    """Run all causes of the projects named, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=[*PROJECTS], metavar="NAME")
    parser.add_argument("--sdists", type=Path, help="where NAME.tar.gz are; fetched by default")
    parser.add_argument("--python", action="append", default=[], help="one more to run with")
    options = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        sdists = options.sdists or _fetch(options.names, Path(folder))
        for name in options.names:
            is_good &= _try_project(name, sdists, Path(folder), options.python)
    return 0 if is_good else 1


def _try_project(name: str, sdists: Path, folder: Path, pythons: list[str]) -> bool:
    healthy = set(_run(name, None, sdists, folder / "h", sys.executable, ()))
    causes: dict[str, set[str]] = {}
    is_good = True
    for number, (cause, edit) in enumerate(PROJECTS[name].items()):
        serial = _run(name, edit, sdists, folder / f"{number}", sys.executable, ())
        elsewhere = folder / "another" / "place" / f"{number}"
        runs = {"-n 2": _run(name, edit, sdists, elsewhere, sys.executable, ("-n", "2"))}
        for at, python in enumerate(pythons):
            runs[python] = _run(name, edit, sdists, folder / f"{number}-{at}", python, ())
        first = {key: one for key, one in serial.items() if key not in healthy}
        _print_groups(name, cause, first)
        for mode, run in runs.items():
            both = [key for key in first if key in run]
            differ = [key for key in both if first[key]["fingerprint"] != run[key]["fingerprint"]]
            missing = len(first) - len(both)
            more = len(run.keys() - first.keys() - healthy)
            is_good &= not differ
            say(
                f"    {mode}: {len(both)} again, {len(differ)} of them differ; "
                f"{missing} did not fail, {more} others did"
            )
            for key in differ[:SHOWN_GROUPS]:
                say(f"      {key}: {first[key]['title']} / {run[key]['title']}")
        # One assertion may fail for either cause, and is one place all the same.
        raised = [each for each in first.values() if not each["title"].startswith("AssertionError")]
        causes[cause] = {each["fingerprint"] for each in raised}
    for one, other in combinations(causes, 2):
        shared = causes[one] & causes[other]
        is_good &= not shared
        say(f"  {one} / {other}: {len(shared)} fingerprints shared, assertions aside")
    return is_good


def _print_groups(name: str, cause: str, failures: Mapping[str, Mapping[str, str]]) -> None:
    groups = Counter(each["fingerprint"] for each in failures.values())
    titles = {each["fingerprint"]: each["title"] for each in reversed([*failures.values()])}
    say(f"  {name}, {cause}: {len(failures)} failures, {len(groups)} groups")
    for made, count in groups.most_common(SHOWN_GROUPS):
        say(f"      {count} x {titles[made]}")


def _run(
    name: str,
    edit: Edit | None,
    sdists: Path,
    folder: Path,
    python: str,
    arguments: tuple[str, ...],
) -> dict[str, dict[str, str]]:
    """Unpack a project, break it, run its tests; return its failures by node id and phase."""
    with tarfile.open(sdists / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / name
    if edit is not None:
        _break(root, edit)
    found = folder / "found.json"
    sources = (root / "src", root, HERE.parent, HERE.parents[2] / "src")
    path = os.pathsep.join([*map(str, sources), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "FINGERPRINTS": str(found)}
    command = [python, "-m", "pytest", "-q", "-p", HERE.stem, "-p", "no:cacheprovider", "--tb=no"]
    done = subprocess.run(
        [*command, *arguments, "--continue-on-collection-errors", *ARGUMENTS.get(name, ())],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_SECONDS,
        check=False,
    )
    if not found.exists():
        raise SystemExit(f"{name}: pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {each["key"]: each for each in json.loads(found.read_text("utf-8"))}


def _break(root: Path, edit: Edit) -> None:
    path, where, statement = edit
    file = root / path
    lines = file.read_text("utf-8").split("\n")
    if where in lines:
        lines[lines.index(where)] = statement
    else:
        body: Any = ast.parse("\n".join(lines))
        for part in where.split("."):
            body = [each for each in body.body if getattr(each, "name", None) == part][-1]
        first = body.body[1] if ast.get_docstring(body) else body.body[0]
        lines.insert(first.lineno - 1, " " * first.col_offset + statement)
    file.write_text("\n".join(lines), "utf-8")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fetch(names: list[str], folder: Path) -> Path:
    wanted = ["==".join(name.rsplit("-", 1)) for name in names]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps"]
    subprocess.run([*command, "-d", str(folder), *wanted], check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
