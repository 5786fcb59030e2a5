"""Break the suites of real projects on purpose and look at the fingerprints of their failures.

    python tests/e2e/fingerprints_on_real_suites.py [--sdists DIR] [--python PATH]... [NAME]...

Each project runs with one cause of failure, and with another, in one process and under ``-n 2``, in
two folders, and with each Python that is given; those need this package, installed, and what the
project's tests need (``PYTHONPATH`` is passed on). For each cause the table shows into how many
groups its failures fall, as the report says, and whether all runs agree on the groups; for each
pair of causes, how many fingerprints they share. The exit code is 1 where two runs disagree or two
causes share one that is not a line of a test.
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
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

RUN_LIMIT_SECONDS: Final = 600.0
SHOWN: Final = 3
"""Groups, and tests whose fingerprints differ, that are printed of each run."""
TEST: Final = "(tests/test_"
"""How the place of a failure in a test's own line begins in a group's title."""
TESTS_RAN: Final = (0, 1, 2)
"""Exit codes of a run that has something to say of tests; 2 where modules fail to import."""

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
        "a method raises": (
            "src/attr/validators.py",
            "_InstanceOfValidator.__call__",
            LOST,
        ),
        "another function raises": ("src/attr/_funcs.py", "asdict", REFUSED),
        "a function of many callers raises": (
            "src/attr/_make.py",
            "_CountingAttr.__init__",
            LOST,
        ),
    },
    "packaging-26.3": {
        "a method raises": ("src/packaging/markers.py", "Marker.__init__", LOST),
        "another function raises": (
            "src/packaging/utils.py",
            "canonicalize_name",
            REFUSED,
        ),
    },
}
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    # Sixty thousand tests of versions would add time and no other failures.
    "packaging-26.3": tuple(
        f"tests/test_{name}.py"
        for name in (
            "markers",
            "requirements",
            "utils",
            "dependency_groups",
            "licenses",
        )
    )
}


class Found(NamedTuple):
    """What the report of a run says of its groups, all failures counted."""

    counts: Counter[str]
    """Failures by fingerprint."""
    titles: dict[str, str]
    """By fingerprint."""
    nodes: dict[str, set[str]]
    """Fingerprints by node id; a report lists a thousand node ids of each group."""


def main() -> int:
    """Run all causes of the projects named, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=[*PROJECTS], metavar="NAME")
    parser.add_argument(
        "--sdists", type=Path, help="where NAME.tar.gz are; fetched by default"
    )
    parser.add_argument(
        "--python", action="append", default=[], help="one more to run with"
    )
    options = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        sdists = options.sdists or _fetch(options.names, Path(folder))
        for name in options.names:
            is_good &= _try_project(name, sdists, Path(folder), options.python)
    return 0 if is_good else 1


def _try_project(name: str, sdists: Path, folder: Path, pythons: list[str]) -> bool:
    broken_before: set[str] = set()
    for at, python in enumerate((sys.executable, *pythons)):
        broken_before.update(
            _run(name, None, sdists, folder / f"h{at}", python, ()).nodes
        )
    skipped = [
        f"--deselect={node}" if "::" in node else f"--ignore={node}"
        for node in sorted(broken_before)
    ]
    say(
        f"{name}: {len(broken_before)} fail before anything is broken, and are left out"
    )
    causes: dict[str, set[str]] = {}
    is_good = True
    for number, (cause, edit) in enumerate(PROJECTS[name].items()):
        elsewhere = folder / "another" / "place" / f"{number}"
        modes: list[tuple[str, Path, str, tuple[str, ...]]]
        modes = [("-n 2", elsewhere, sys.executable, ("-n", "2"))]
        modes += [
            (path, folder / f"{number}-{at}", path, ())
            for at, path in enumerate(pythons)
        ]
        first = _run(name, edit, sdists, folder / f"{number}", sys.executable, skipped)
        _print_groups(name, cause, first)
        for mode, place, python, arguments in modes:
            run = _run(name, edit, sdists, place, python, (*arguments, *skipped))
            is_good &= _is_same(mode, first, run)
        # One line of a test may fail for either cause, and is one place all the same.
        causes[cause] = {
            made for made, title in first.titles.items() if TEST not in title
        }
    for one, other in combinations(causes, 2):
        shared = causes[one] & causes[other]
        is_good &= not shared
        say(
            f"  {one} / {other}: {len(shared)} fingerprints shared, lines of tests aside"
        )
    return is_good


def _is_same(mode: str, first: Found, run: Found) -> bool:
    """Print how the groups of two runs of one cause differ; tell whether a failure changed its."""
    both = first.nodes.keys() & run.nodes.keys()
    differ = sorted(node for node in both if first.nodes[node] != run.nodes[node])
    missing, more = first.counts - run.counts, run.counts - first.counts
    say(
        f"    {mode}: {run.counts.total()} failures, {len(run.counts)} groups; "
        f"{len(both)} tests compared, {len(differ)} differ; "
        f"failures missing from groups {missing.total()}, more in groups {more.total()}"
    )
    for node in differ[:SHOWN]:
        titles = [first.titles[made] for made in sorted(first.nodes[node])]
        say(
            f"      {node}: {titles} / {[run.titles[made] for made in sorted(run.nodes[node])]}"
        )
    # Another Python may have other tests; what is missing in one group and more in another moved.
    return not (differ or (missing and more))


def _print_groups(name: str, cause: str, found: Found) -> None:
    say(
        f"  {name}, {cause}: {found.counts.total()} failures, {len(found.counts)} groups"
    )
    for made, count in found.counts.most_common(SHOWN):
        say(f"      {made} {count} x {found.titles[made]}")


def _run(
    name: str,
    edit: Edit | None,
    sdists: Path,
    folder: Path,
    python: str,
    arguments: Sequence[str],
) -> Found:
    """Unpack a project, break it, run its tests; return what the report says of their groups."""
    with tarfile.open(sdists / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / name
    if edit is not None:
        _break(root, edit)
    report = folder / "report.json"
    path = os.pathsep.join(
        [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    )
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
    command += [
        "--continue-on-collection-errors",
        f"--failure-taxonomy-report={report}",
    ]
    done = subprocess.run(
        [*command, *arguments, *ARGUMENTS.get(name, ())],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_SECONDS,
        check=False,
    )
    if not report.exists() or done.returncode not in TESTS_RAN:
        raise SystemExit(
            f"{name}: pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return _read(report)


def _read(report: Path) -> Found:
    found = Found(counts=Counter(), titles={}, nodes={})
    for group in json.loads(report.read_text("utf-8"))["groups"]:
        made = group["fingerprint"]
        found.counts[made] = group["count"]
        found.titles[made] = group["title"]
        for node in group["nodeids"]:
            found.nodes.setdefault(node, set()).add(made)
    return found


def _break(root: Path, edit: Edit) -> None:
    path, where, statement = edit
    file = root / path
    lines = file.read_text("utf-8").split("\n")
    if where in lines:
        lines[lines.index(where)] = statement
    else:
        body: Any = ast.parse("\n".join(lines))
        for part in where.split("."):
            body = [each for each in body.body if getattr(each, "name", None) == part][
                -1
            ]
        first = body.body[1] if ast.get_docstring(body) else body.body[0]
        lines.insert(first.lineno - 1, " " * first.col_offset + statement)
    file.write_text("\n".join(lines), "utf-8")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fetch(names: list[str], folder: Path) -> Path:
    wanted = ["==".join(name.rsplit("-", 1)) for name in names]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-binary",
        ":all:",
        "--no-deps",
    ]
    subprocess.run([*command, "-d", str(folder), *wanted], check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
