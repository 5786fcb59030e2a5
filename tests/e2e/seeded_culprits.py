"""Seed tests that spoil the process into real suites, and see whether the report names them.

    python -m tests.e2e.seeded_culprits CHECKOUTS [--python PATH] [--kind WORDS] [NAME]...

CHECKOUTS has a folder for each project, whose suite passes in less than 30 seconds. The Python that
is given has pytest-xdist, what the suites need, and this package installed; what is measured is the
source beside this script. Linux only.

For each of ten kinds, a fresh copy of the checkout gets two test files with ordinary names: in the
one, a test that passes and leaves something behind (the culprit); in the other, which pytest
collects after the suite's own, a test that fails, dies or hangs because of it (the victim). Our own
plugin of this script writes down what ran, so a seed that had no effect is seen: it is *void*.

The culprit is *named first* if no other test stands before it in what the first cause says (`what`
and `fix`, then the verdict's message), the cause's own tests and those in flight aside. It is
*listed* if an entry of the report's `changes` has its node id, with the right `what`.

Then each suite runs without culprits: in its own order, under ``-n 2``, reversed, and with tests
that fail, die or hang for reasons of their own. A test that any cause names there is *blamed*, the
cause's own tests aside. The exit code is 1 where less than 90 % are named first, where any test is
blamed, where a seed is void, or where a suite does not pass. Nothing kills for want of memory: the
victim of the memory hog sends SIGKILL to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.e2e.labelled_tests import ORDER_PLUGIN
from tests.helpers.other_suites import own_environment, say

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
RUN_LIMIT_SECONDS: Final = 180
ENDLESS_LIMIT_SECONDS: Final = 12
"""What a run that hangs gets beyond twice the time of its suite."""
STALL_SECONDS: Final = 3
LEAST_NAMED: Final = 0.9
ENDED_BY_LIMIT: Final = 124
NAMES_SHOWN: Final = 200
"""Characters of a sentence that are printed."""

EARLY: Final = ("accessors", "adapters", "affixes", "aliases")
LATE: Final = ("widths", "windows", "wrappers", "writers")
"""Words for files that pytest collects before, and after, a suite's own."""
WORDS: Final = ("bounds", "copies", "defaults", "empty", "keys", "merging", "nested")
TEXTS: Final = (".md", ".rst", ".toml")
"""Of a file beside a suite, which the victim of a changed folder reads."""
ASPECTS: Final = ("are_kept", "by_name", "in_order", "of_slices", "roundtrip")

SHARED: Final = '''
"""What the tests of this suite have in common."""

import threading

kept = []
lock = threading.Lock()
begun, done = threading.Event(), threading.Event()
'''
IMPORTS: Final = """
import fcntl
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import $shared as shared

"""
CULPRIT_FILE: Final = (
    IMPORTS
    + """
def test_$neighbour():
    assert sorted([2, 1]) == [1, 2]

def test_$culprit():
$body

def test_${neighbour}_again():
    assert "a".upper() == "A"
"""
)
VICTIM_FILE: Final = (
    IMPORTS
    + """
def test_$victim():
$body
"""
)


class Kind(NamedTuple):
    """A way in which a test can spoil what comes after it."""

    change: str
    """The `what` of the ledger's entry."""
    culprit: str
    victim: str
    is_endless: bool = False
    """Only a time limit ends the run."""


IN_THREAD: Final = """
    def work():
{}
    threading.Thread(target=work, daemon=True).start()
"""
IN_CHILD: Final = """
    code = {}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    shared.kept.append(child)
    assert child.stdout.readline()
"""
READY: Final = "print('ready', flush=True); time.sleep(600)"
MISSES_A_FILE: Final = """
    with open("$relative") as file:
        assert file.read()
"""
KINDS: Final[Mapping[str, Kind]] = {
    "memory kept, then SIGKILL": Kind(
        "memory",
        "    shared.kept.append(b'x' * (640 << 20))",
        "    os.kill(os.getpid(), signal.SIGKILL)",
    ),
    "thread leaves the process": Kind(
        "thread",
        IN_THREAD.format("        shared.begun.wait()\n        os._exit(3)"),
        "    shared.begun.set()\n    time.sleep(60)",
    ),
    "thread blocks the exit": Kind(
        "thread",
        "    threading.Thread(target=threading.Event().wait).start()",
        "    pass",
        is_endless=True,
    ),
    "thread holds a lock": Kind(
        "thread",
        IN_THREAD.format(
            "        with shared.lock:\n"
            "            shared.begun.set()\n"
            "            time.sleep(600)"
        )
        + "    shared.begun.wait()",
        "    with shared.lock:\n        pass",
        is_endless=True,
    ),
    "folder deleted": Kind(
        "folder",
        "    with tempfile.TemporaryDirectory() as folder:\n        os.chdir(folder)",
        "    assert os.getcwd()",
    ),
    "folder changed": Kind("folder", "    os.chdir(tempfile.mkdtemp())", MISSES_A_FILE),
    "fork came back": Kind(
        "forked",
        """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        os.waitpid(child, 0)
""",
        "    os.mkdir('$place/made')",
    ),
    "child holds a port": Kind(
        "child",
        IN_CHILD.format(
            '"import socket, time; server = socket.create_server('
            f"('127.0.0.1', $port)); {READY}\""
        ),
        "    with socket.socket() as server:\n"
        "        server.bind(('127.0.0.1', $port))",
    ),
    "child locks a database": Kind(
        "child",
        IN_CHILD.format(
            "\"import sqlite3, time; shop = sqlite3.connect('$place/shop.db');"
            f" shop.execute('begin exclusive'); {READY}\""
        ),
        "    shop = sqlite3.connect('$place/shop.db', timeout=0.1)\n"
        "    shared.kept.append(shop)\n"
        "    shop.execute('create table goods (name)')",
    ),
    "child locks a file": Kind(
        "child",
        IN_CHILD.format(
            "\"import fcntl, time; file = open('$place/lock', 'w');"
            f' fcntl.flock(file, fcntl.LOCK_EX); {READY}"'
        ),
        "    with open('$place/lock', 'a') as file:\n"
        "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
    ),
    "thread changes the folder": Kind(
        "thread",
        IN_THREAD.format(
            "        shared.begun.wait()\n"
            "        os.chdir(tempfile.mkdtemp())\n"
            "        shared.done.set()"
        ),
        "    shared.begun.set()\n    shared.done.wait()\n" + MISSES_A_FILE,
    ),
}
LOCKS: Final = ("child locks a database", "child locks a file")
"""One kind in two ways: the projects get them in turn."""

OWN_FAILURES: Final = """
    open("no-such-file.txt")

def test_${victim}_twice():
    assert {"a": 1} == {"a": 2}

def test_${victim}_apart():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_server(server.getsockname())

def test_${victim}_last():
    os.kill(os.getpid(), signal.SIGKILL)
"""
OWN_STALL: Final = "    threading.Event().wait()"


class Project(NamedTuple):
    """A checkout, and what its suite is like."""

    name: str
    folder: Path
    tests: Path
    """The folder with most test files, relative to the checkout's."""
    seconds: float
    """How long the suite takes."""
    lock: str
    """Which of the `LOCKS` it gets."""


class Seed(NamedTuple):
    """The two tests that a copy gets, by their node ids; empty where it has no such test."""

    culprit: str = ""
    victim: str = ""


class Ran(NamedTuple):
    """What came of one run."""

    report: dict[str, Any]
    """Empty where none was written."""
    phases: list[tuple[str, str, str]]
    """Node id, phase and outcome of what ended, in the order of the ends."""
    exit_code: int
    seconds: float


class Row(NamedTuple):
    """What came of one seed."""

    project: str
    kind: str
    culprit: str
    void: str
    """Why the seed had no effect; empty where it had."""
    named: str
    """`first`, `after NAME`, `no`."""
    listed: str
    """`yes`, `as WHAT`, `no`."""
    sentence: str


class Control(NamedTuple):
    """What came of one run without a culprit."""

    project: str
    mode: str
    blamed: tuple[str, ...]
    changes: tuple[str, ...] | None
    """What was changed by which test; None where the report has no such field."""
    sentence: str


class Bench:
    """Runs suites in copies of their checkouts."""

    def __init__(self, python: str, folder: Path) -> None:
        self._python = python
        self._folder = folder
        self._count = 0
        (folder / "plugins").mkdir()
        (folder / "plugins" / "labelled_order.py").write_text(ORDER_PLUGIN, "utf-8")

    def copy(self, checkout: Path) -> Path:
        """Return a fresh copy of a checkout, in a folder of its own."""
        self._count += 1
        place = self._folder / f"{self._count}" / checkout.name
        skipped = shutil.ignore_patterns(".git", "__pycache__", ".failure-taxonomy")
        shutil.copytree(checkout, place, symlinks=True, ignore=skipped)
        return place

    def run(
        self, place: Path, *arguments: str, order: str = "own", limit_seconds: int
    ) -> Ran:
        """Run the suite in a copy, end what it leaves behind, and remove the copy."""
        around = place.parent
        report, results = around / "report.json", around / "results"
        (around / "tmp").mkdir()
        paths = [SOURCE, self._folder / "plugins", place / "src", place]
        variables = own_environment(
            around / "home",
            PYTHONPATH=os.pathsep.join(map(str, paths)),
            TMPDIR=str(around / "tmp"),
            # Some suites have parameters from a set, and xdist wants the same order in
            # each worker. A set of constants that is read from bytecode may have another
            # order than one that has just been compiled.
            PYTHONHASHSEED="0",
            PYTHONDONTWRITEBYTECODE="1",
            LABELLED_ORDER=order,
            LABELLED_RESULTS=str(results),
        )
        command = [
            *(self._python, "-m", "pytest_failure_taxonomy", "run"),
            *("--timeout", str(limit_seconds), "--report", str(report), "--"),
            *(self._python, "-m", "pytest", "-q", "-p", "labelled_order"),
            *("-p", "no:randomly", "-p", "no:cacheprovider", *arguments),
        ]
        began = time.monotonic()
        with (around / "out").open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=place,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                exit_code = process.wait(limit_seconds + RUN_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                exit_code = ENDED_BY_LIMIT
            finally:
                end_leftovers(variables["HOME"])
                process.wait()
        seconds = time.monotonic() - began
        text = results.read_text("utf-8") if results.exists() else ""
        ran = Ran(
            json.loads(report.read_text("utf-8")) if report.exists() else {},
            [tuple(json.loads(line)) for line in text.splitlines()],
            exit_code,
            seconds,
        )
        shutil.rmtree(around, ignore_errors=True)
        return ran


def main() -> int:
    """Seed each project in each way, and print what the reports say."""
    options = parse_arguments()
    rows: list[Row] = []
    controls: list[Control] = []
    is_complete = True
    # Short, and without a word of this script: sockets lie in it, and causes name it.
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        bench = Bench(options.python, Path(folder).resolve())
        for number, checkout in enumerate(checkouts(options.checkouts, options.names)):
            first = bench.run(bench.copy(checkout), limit_seconds=RUN_LIMIT_SECONDS)
            tests = {nodeid for nodeid, _, _ in first.phases}
            say(f"{checkout.name}: {len(tests)} tests in {first.seconds:.1f} s")
            if first.exit_code or not tests:
                say(f"  left out: it does not pass: exit code {first.exit_code}")
                is_complete = False
                continue
            place = tests_folder(tests)
            lock = LOCKS[number % 2]
            project = Project(checkout.name, checkout, place, first.seconds, lock)
            for row in try_seeds(bench, project, options.kind):
                rows.append(row)
                show_row(row)
            for control in () if options.kind else try_controls(bench, project, first):
                controls.append(control)
                show_control(control)
    if options.output:
        found = [row._asdict() for row in rows]
        found += [control._asdict() for control in controls]
        options.output.write_text(json.dumps(found, indent=1), "utf-8")
    is_good = summarize(rows, controls)
    return int(not (is_good and is_complete))


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", type=Path, metavar="CHECKOUTS")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of projects; all by default"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="which has what the suites need"
    )
    parser.add_argument(
        "--kind",
        default="",
        metavar="WORDS",
        help="only kinds with these words, and nothing without culprits",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write what came out as JSON, too"
    )
    return parser.parse_intermixed_args()


def checkouts(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of the projects that are asked for."""
    for checkout in sorted(folder.resolve().iterdir()):
        is_wanted = not names or checkout.name in names
        if checkout.is_dir() and is_wanted:
            yield checkout


def tests_folder(nodeids: Iterable[str]) -> Path:
    """Return the folder with most test files, relative to the checkout."""
    files = {Path(nodeid.partition("::")[0]) for nodeid in nodeids}
    # A suite's doctests lie elsewhere: in the modules, and in the documentation.
    folders = [file.parent for file in sorted(files) if file.name.startswith("test_")]
    return Counter(folders).most_common(1)[0][0] if folders else Path()


def end_leftovers(home: str) -> None:
    """Kill the processes that have been started at this home."""
    mark = os.fsencode(f"HOME={home}")
    for folder in Path("/proc").glob("[0-9]*"):
        # Another one may end, or be another user's, meanwhile.
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


# Seeds.


def try_seeds(bench: Bench, project: Project, words: str) -> Iterator[Row]:
    """Run copies with a culprit and its victim, and look for the culprit in the reports.

    Args:
        bench: runs them.
        project: whose suite gets the two.
        words: in the name of each kind that is wanted; empty for all.
    """
    for name, kind in KINDS.items():
        if words not in name or name in {*LOCKS} - {project.lock}:
            continue
        place = bench.copy(project.folder)
        seed = plant(project, place, name, kind.victim, kind.culprit)
        ran = run_seeded(bench, project, place, is_endless=kind.is_endless)
        text = sentence_of(ran.report)
        yield Row(
            project=project.name,
            kind=name,
            culprit=seed.culprit,
            void=why_void(ran, seed, is_endless=kind.is_endless),
            named=how_named(ran.report, text, seed),
            listed=how_listed(ran.report, seed, kind.change),
            sentence=text,
        )


def run_seeded(bench: Bench, project: Project, place: Path, *, is_endless: bool) -> Ran:
    """Run a copy; one that will hang until a time limit ends it."""
    if not is_endless:
        return bench.run(place, limit_seconds=RUN_LIMIT_SECONDS)
    return bench.run(
        place,
        f"--failure-taxonomy-stall-seconds={STALL_SECONDS}",
        limit_seconds=ENDLESS_LIMIT_SECONDS + round(2 * project.seconds),
    )


def plant(
    project: Project, place: Path, name: str, victim: str, culprit: str = ""
) -> Seed:
    """Write the seed's files into a copy; return the node ids.

    Args:
        project: what is copied.
        place: where the copy is.
        name: decides the names, with the project's.
        victim: the body of a test.
        culprit: the body of an earlier one; empty for none.
    """
    chance = random.Random(f"{project.name} {name}")  # noqa: S311 - for names
    number = chance.randrange(10, 100)
    tests = [f"{one}_{other}" for one in WORDS for other in ASPECTS]
    names = dict(
        zip(("culprit", "victim", "neighbour"), chance.sample(tests, 3), strict=True)
    )
    names |= {
        "shared": f"common_{number}",
        "relative": next(
            path.name
            for path in sorted(project.folder.iterdir())
            if path.suffix in TEXTS and path.stat().st_size
        ),
        "place": str(place.parent),
        "port": str(free_port()),
    }
    files = {
        f"{names['shared']}.py": SHARED,
        str(project.tests / f"test_{chance.choice(LATE)}_{number}.py"): (
            VICTIM_FILE.replace("$body", victim)
        ),
    }
    last = f"{[*files][-1]}::test_{names['victim']}"
    first = ""
    if culprit:
        path = str(project.tests / f"test_{chance.choice(EARLY)}_{number}.py")
        files[path] = CULPRIT_FILE.replace("$body", culprit)
        first = f"{path}::test_{names['culprit']}"
    for path, text in files.items():
        (place / path).write_text(string.Template(text).substitute(names), "utf-8")
    return Seed(first, last)


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def why_void(ran: Ran, seed: Seed, *, is_endless: bool) -> str:
    """Return why a seed had no effect; empty where it had."""
    calls = [
        (nodeid, outcome) for nodeid, when, outcome in ran.phases if when == "call"
    ]
    if (seed.culprit, "passed") not in calls:
        return "the culprit did not pass"
    began = [nodeid for nodeid, _ in calls].index(seed.culprit)
    others = [nodeid for nodeid, _ in calls[began + 1 :] if nodeid != seed.victim]
    if len(others) < 2:  # one is the culprit's neighbour
        return "no test of the suite ran after the culprit"
    if is_endless:
        is_hanging = ran.exit_code == ENDED_BY_LIMIT
        return "" if is_hanging else f"it ended with exit code {ran.exit_code}"
    outcomes = {outcome for nodeid, outcome in calls if nodeid == seed.victim}
    return "the victim passed" if outcomes == {"passed"} else ""


def sentence_of(report: Mapping[str, Any]) -> str:
    """Return what a report says first."""
    parts = []
    for cause in report.get("causes", ())[:1]:
        parts += [cause["what"], cause["fix"]]
    if report.get("verdict"):
        parts.append(report["verdict"]["message"])
    return " | ".join(filter(None, parts))


def names_in(text: str) -> list[str]:
    """Return the names of test functions in a text; those of files aren't any."""
    return re.findall(r"\b(test[_A-Z]\w*)\b(?!\.\w|/)", text)


def function_of(nodeid: str) -> str:
    """Return the name of a test's function."""
    return nodeid.partition("[")[0].rpartition("::")[2]


def own_tests(report: Mapping[str, Any], cause: Mapping[str, Any]) -> set[str]:
    """Return the names of the tests that a cause is about, and of those in flight."""
    in_flight = [test["nodeid"] for test in report["in_flight"]]
    return {function_of(nodeid) for nodeid in (*cause.get("nodeids", ()), *in_flight)}


def how_named(report: Mapping[str, Any], text: str, seed: Seed) -> str:
    """Return whether the culprit is the first one that is named in a text."""
    if not report:
        return "no report"
    culprit = function_of(seed.culprit)
    first = report["causes"][0] if report["causes"] else {}
    victims = own_tests(report, first) | {function_of(seed.victim)}
    others = [name for name in names_in(text) if name not in victims - {culprit}]
    if culprit not in others:
        return f"no, but {others[0]}" if others else "no"
    return "first" if others[0] == culprit else f"after {others[0]}"


def how_listed(report: Mapping[str, Any], seed: Seed, change: str) -> str:
    """Return whether the changes have an entry of the culprit."""
    entries = [
        entry["what"]
        for entry in report.get("changes") or ()
        if entry["nodeid"] == seed.culprit
    ]
    if change in entries:
        return "yes"
    return f"as {', '.join(entries)}" if entries else "no"


# Runs without culprits.


def try_controls(bench: Bench, project: Project, first: Ran) -> Iterator[Control]:
    """Run a suite in which nothing is to be blamed."""
    yield control_of(project, "own order", first)
    ran = bench.run(
        bench.copy(project.folder), "-n", "2", limit_seconds=RUN_LIMIT_SECONDS
    )
    yield control_of(project, "-n 2", ran)
    ran = bench.run(
        bench.copy(project.folder), order="reversed", limit_seconds=RUN_LIMIT_SECONDS
    )
    yield control_of(project, "reversed", ran)
    for mode, body in {"own failures": OWN_FAILURES, "own stall": OWN_STALL}.items():
        place = bench.copy(project.folder)
        plant(project, place, mode, body)
        ran = run_seeded(bench, project, place, is_endless=body == OWN_STALL)
        yield control_of(project, mode, ran)


def control_of(project: Project, mode: str, ran: Ran) -> Control:
    """Return what a report blames tests for."""
    known = {function_of(nodeid) for nodeid, _, _ in ran.phases}
    nodeids = {nodeid for nodeid, _, _ in ran.phases}
    blamed: list[str] = []
    for cause in ran.report.get("causes", ()):
        own = own_tests(ran.report, cause)
        text = f"{cause['what']} | {cause['fix']}"
        blamed += [name for name in names_in(text) if name in known - own]
        # A doctest's name is a word like any other: its whole node id counts.
        others = nodeids.intersection(re.split(r"[\s,;|()]+|: ", text))
        blamed += [each for each in sorted(others) if function_of(each) not in own]
    changes = ran.report.get("changes")
    return Control(
        project=project.name,
        mode=mode,
        blamed=tuple(dict.fromkeys(map(function_of, blamed))),
        changes=None
        if changes is None
        else tuple(f"{entry['what']} by {entry['nodeid']}" for entry in changes),
        sentence=sentence_of(ran.report) if ran.report else "no report",
    )


# Telling.


def show_row(row: Row) -> None:
    """Print what came of a seed."""
    void = f"VOID: {row.void}; " if row.void else ""
    say(f"  {row.kind:26} {void}named: {row.named}; listed: {row.listed}")
    say(f"      {function_of(row.culprit)}: {row.sentence[:NAMES_SHOWN]}")


def show_control(control: Control) -> None:
    """Print what came of a run without a culprit."""
    changes = "no such field"
    if control.changes is not None:
        shown = "; ".join(control.changes)[:NAMES_SHOWN]
        changes = f"{len(control.changes)} {shown}"
    blamed = ", ".join(control.blamed) or "nobody"
    say(f"  without, {control.mode:17} blamed: {blamed}; changes: {changes}")
    if control.sentence:
        say(f"      {control.sentence[:NAMES_SHOWN]}")


def summarize(rows: Sequence[Row], controls: Sequence[Control]) -> bool:
    """Print the figures; return whether they are good enough."""
    valid = [row for row in rows if not row.void]
    counts = Counter(row.kind for row in valid)
    named = Counter(row.kind for row in valid if row.named == "first")
    listed = Counter(row.kind for row in valid if row.listed == "yes")
    say("\n| kind | named first | listed |\n| --- | --- | --- |")
    for kind, count in counts.items():
        say(f"| {kind} | {named[kind]} of {count} | {listed[kind]} |")
    blamed = sum(len(control.blamed) for control in controls)
    changes = sum(len(control.changes or ()) for control in controls)
    first = f"named first {named.total()} of {len(valid)}"
    say(f"\n{first}; blamed in unseeded suites {blamed}")
    say(
        f"void seeds {len(rows) - len(valid)}; "
        f"entries of changes in {len(controls)} unseeded runs: {changes}"
    )
    is_named = named.total() >= LEAST_NAMED * len(valid)
    return is_named and not blamed and len(valid) == len(rows)


if __name__ == "__main__":
    sys.exit(main())
