"""Prove order-dependent tests of real projects, and compare it with what is known of them.

    python -m tests.e2e.labelled_tests CHECKOUTS --labels FILE [--seeds 1,2,3] [NAME]...

CHECKOUTS has a folder `OWNER__NAME` for each project, at the commit that the labels name; where its
tests need something, there is a virtual environment `OWNER__NAME.venv` beside it, or `--python` has
it all; this package is installed in either. The labels are a CSV file with the columns of IDoFT's
`py-data.csv`: address, commit, node id, category. Each suite runs in its own order, reversed, and
shuffled with each seed, in a copy and at a home of its own; then `failure-taxonomy prove` works on
the report, at another home. What it calls proven is tried again by plain pytest, without this
package, in fresh copies:

- `order.polluted`: `pytest POLLUTER VICTIM` must fail and `pytest VICTIM` must pass, each time, or
  `pytest OTHER VICTIM`, where the proof says that it passes after another test;
- `order.brittle`: `pytest SETTER VICTIM` must pass and `pytest VICTIM` must fail, each time;
- `reproducible`: `pytest VICTIM` must fail each time, and the whole suite's own order, too;
- `flaky`: `pytest VICTIM` must not be what explains it all: the order must not decide.

A proof that does not hold is wrong, and the exit code is 1 then. A labelled test counts as a victim
if it fails whenever plain pytest runs the suite in that order, and passes alone or in the suite's
own order. With `--neighbours`, the Python of an environment that has detect-test-pollution and
pytest-flakedoctor, these are asked instead, for the same victims and with the same order: the first
for some of each order, the second for the one that it chooses itself, the first that fails.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.helpers.other_suites import own_environment, run, say

CHECKS: Final = 3
"""How often each side of a proof is tried again."""
MOST_CHECKED: Final = 3
"""Tests of one cause for which its proof is tried."""
ORDER_PLUGIN: Final = """
import json, os, random
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    order = os.environ.get("LABELLED_ORDER", "own")
    if order == "reversed":
        items.reverse()
    elif order.isdigit():
        random.Random(int(order)).shuffle(items)

def pytest_runtest_logreport(report):
    path = os.environ.get("LABELLED_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.when, report.outcome]) + "\\n")
"""
_FRESH: Final = re.compile(r"(\d[\d,]*) runs? in fresh")
_CAUSE: Final = re.compile(r"(\d+)\. \d+ x ")


class Project(NamedTuple):
    """A checkout, and what is known of its tests."""

    name: str
    folder: Path
    python: str
    labels: dict[str, str]
    """Categories by node id."""

    def label(self, nodeid: str) -> str:
        """Return the category of a test, also of a case of a parametrized one."""
        return self.labels.get(nodeid) or self.labels.get(nodeid.partition("[")[0], "")


class Row(NamedTuple):
    """What came of one cause in one order."""

    project: str
    order: str
    victim: str
    label: str
    tests: int
    """Victims of the cause, without those for which the proof says that there is another one."""
    proof: str
    status: str
    named: tuple[str, ...]
    check: str
    """`holds`, `wrong: why`, or empty where nothing was proven."""
    fresh: int
    seconds: float
    words: str


class Bench:
    """Runs one project's suite in copies of its checkout."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self._folder = folder
        self._count = 0
        self._alone: dict[str, Counter[str]] = {}
        (folder / "plugins").mkdir(exist_ok=True)
        (folder / "plugins" / "labelled_order.py").write_text(ORDER_PLUGIN, "utf-8")

    def copy(self) -> Path:
        """Return a fresh copy of the checkout."""
        self._count += 1
        place = self._folder / f"{self.project.name}.{self._count}" / "project"
        shutil.copytree(self.project.folder, place, symlinks=True)
        return place

    def environment(self, place: Path, order: str = "own") -> dict[str, str]:
        """Return the variables of a run in a copy, with a home of its own beside it."""
        self._count += 1
        paths = [self._folder / "plugins", place, place / "src"]
        return own_environment(
            place.parent / f"home.{self._count}",
            PYTHONPATH=os.pathsep.join(map(str, paths)),
            LABELLED_ORDER=order,
        )

    def plain(self, order: str, *nodeids: str) -> dict[str, str]:
        """Return the outcomes of a run without this package, in a copy of its own."""
        place = self.copy()
        results = place.parent / "results"
        run(
            [
                *(self.project.python, "-m", "pytest", "-q", "-p", "labelled_order"),
                *("-p", "no:failure_taxonomy", "-p", "no:failure_taxonomy_bench"),
                *("--continue-on-collection-errors", *nodeids),
            ],
            place,
            {**self.environment(place, order), "LABELLED_RESULTS": str(results)},
        )
        outcomes: dict[str, str] = {}
        for line in results.read_text("utf-8").splitlines() if results.exists() else ():
            nodeid, when, outcome = json.loads(line)
            if outcome == "failed" or when == "call":
                outcomes[nodeid] = (
                    "failed" if outcomes.get(nodeid) == "failed" else outcome
                )
        shutil.rmtree(place.parent)
        return outcomes

    def counts(self, victim: str, *before: str) -> Counter[str]:
        """Return how a test ends, each time, alone or after others."""
        if not before and victim in self._alone:
            return self._alone[victim]
        made = Counter(
            self.plain("own", *before, victim).get(victim, "not run")
            for _ in range(CHECKS)
        )
        if not before:
            self._alone[victim] = made
        return made


def main() -> int:
    """Prove what fails in each order, and print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", type=Path, metavar="CHECKOUTS")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of projects; all by default"
    )
    parser.add_argument("--labels", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--python", default=sys.executable, help="where a project has none"
    )
    parser.add_argument("--seeds", default="1,2,3", help="of the shuffled orders")
    parser.add_argument(
        "--budget", default="300s", help="of one report (default: %(default)s)"
    )
    parser.add_argument(
        "--neighbours", metavar="PYTHON", help="which has the other tools: ask them"
    )
    parser.add_argument(
        "--most", type=int, default=3, help="victims of an order for the others"
    )
    parser.add_argument(
        "--output", type=Path, help="write all rows as lines of JSON, too"
    )
    options = parser.parse_intermixed_args()
    orders = ["own", "reversed", *filter(None, options.seeds.split(","))]
    rows: list[Row] = []
    truth: Counter[str] = Counter()
    others: Counter[tuple[str, str]] = Counter()
    for project in projects(
        options.checkouts, options.labels, options.python, options.names
    ):
        with tempfile.TemporaryDirectory(prefix="labelled-") as folder:
            bench = Bench(project, Path(folder))
            own = bench.plain("own")
            say(f"{project.name}: {len(own)} tests, {len(project.labels)} labelled")
            for order in orders if options.neighbours else ():
                for tool, verdict, words in ask_neighbours(bench, order, own, options):
                    others[tool, verdict] += 1
                    say(f"  {order}: {tool}: {verdict}: {words}")
            for order in () if options.neighbours else orders:
                for row in prove_order(bench, order, own, truth, options):
                    rows.append(row)
                    if options.output:
                        with options.output.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(row._asdict()) + "\n")
    if options.neighbours:
        say(f"other tools: {dict(others)}")
        return 0
    return summarize(rows, truth)


def projects(
    checkouts: Path, labels: Path, python: str, names: Sequence[str]
) -> Iterator[Project]:
    """Yield the checkouts that have labelled tests."""
    with labels.open(encoding="utf-8", newline="") as file:
        table = [row for row in csv.reader(file) if len(row) > 3]
    for folder in sorted(
        each for each in checkouts.iterdir() if (each / ".git").exists()
    ):
        if names and folder.name not in names:
            continue
        commit = subprocess.check_output(
            ["git", "-C", folder, "rev-parse", "HEAD"], text=True
        )
        address = f"github.com/{folder.name.replace('__', '/')}"
        known = {
            test: category
            for at, sha, test, category, *_ in table
            if address in at
            and commit.startswith(sha.strip())
            and category.startswith("OD")
        }
        own = folder.with_name(f"{folder.name}.venv") / "bin" / "python"
        yield Project(folder.name, folder, str(own) if own.exists() else python, known)


def prove_order(
    bench: Bench,
    order: str,
    own: Mapping[str, str],
    truth: Counter[str],
    options: argparse.Namespace,
) -> Iterator[Row]:
    """Run a suite in an order, prove what fails, and try again what is proven."""
    project = bench.project
    place = bench.copy()
    report_path = place.parent / "report.json"
    run(
        [
            *(project.python, "-m", "pytest", "-q", "-p", "labelled_order"),
            *(
                "--continue-on-collection-errors",
                "--why",
                f"--why-report={report_path}",
            ),
        ],
        place,
        bench.environment(place, order),
    )
    if not report_path.exists():
        say(f"  {order}: no report")
        return
    report = json.loads(report_path.read_text("utf-8"))
    failing = [each["nodeid"] for each in report["failures"] if each["nodeid"]]
    if not failing:
        say(f"  {order}: nothing fails")
        return
    again = [bench.plain(order) for _ in range(2)]
    victims = {
        nodeid
        for nodeid in failing
        if project.label(nodeid)
        and all(each.get(nodeid) == "failed" for each in again)
        and (own.get(nodeid) == "passed" or bench.counts(nodeid)["passed"] == CHECKS)
    }
    truth["fail"] += sum(bool(project.label(each)) for each in failing)
    truth["victims"] += len(victims)
    spent = processor_seconds()
    lines, seconds = watch(
        [
            *(
                project.python,
                "-m",
                "pytest_failure_taxonomy",
                "prove",
                str(report_path),
            ),
            *("--budget", options.budget, "--yes"),
        ],
        place,
        bench.environment(place, order),
    )
    spent = processor_seconds() - spent
    truth["processor"] += round(spent)
    closing = next(
        (each for each in reversed(lines) if "fork" in each or "fresh" in each), ""
    )
    counts = f"{len(failing)} fail, {len(victims)} victims"
    say(
        f"  {order}: {counts}; {closing or lines[-1:]} ({spent:.1f} s of the processor)"
    )
    counted = _FRESH.search(closing)
    truth["fresh"] += int(counted[1].replace(",", "")) if counted else 0
    report = json.loads(report_path.read_text("utf-8"))
    for number, cause in enumerate(report["causes"], 1):
        if not cause["nodeids"]:
            continue
        row = judge(bench, order, cause, own, victims, seconds.get(number, 0.0))
        if row.proof.startswith("order.") and row.status == "proven":
            truth["found"] += row.tests
        label = f"{row.label or 'no label'} ({row.tests} victims)"
        after = ", ".join(row.named) or "nothing"
        counts = f"{row.fresh} fresh runs, {row.seconds:.1f} s"
        say(
            f"    {row.proof or 'none'} {row.status}, {label}: {row.victim} after {after}; {counts}"
        )
        say(f"      {'; '.join(filter(None, (row.check, row.words)))}")
        yield row
    shutil.rmtree(place.parent)


def judge(
    bench: Bench,
    order: str,
    cause: Mapping[str, Any],
    own: Mapping[str, str],
    victims: set[str],
    seconds: float,
) -> Row:
    """Return what is proven of a cause, and whether it holds."""
    proof = cause["proof"] or {}
    # Where tests have one message and several causes, the proof says for which it isn't true.
    others = " ".join(proof.get("suspicions", ()))
    nodeids = [each for each in cause["nodeids"] if f"{each}, which " not in others]
    labels = Counter(bench.project.label(each) for each in nodeids)
    counts = [proof.get("runs") or 0, (proof.get("without") or {}).get("runs") or 0]
    row = Row(
        project=bench.project.name,
        order=order,
        victim=nodeids[0],
        label=labels.most_common(1)[0][0],
        tests=len(victims.intersection(nodeids)),
        proof=proof.get("type", ""),
        status=proof.get("status", ""),
        named=tuple(proof.get("nodeids", ())),
        check="",
        fresh=sum(counts),
        seconds=seconds,
        words="; ".join(
            filter(None, [proof.get("state"), *proof.get("suspicions", ())])
        ),
    )
    if row.status != "proven":
        return row
    wrong: list[str] = []
    for nodeid in nodeids[:MOST_CHECKED]:
        other = ((proof.get("without") or {}).get("state") or "").removeprefix("after ")
        alone = bench.counts(nodeid, *filter(None, other.split(" and ")))
        after = bench.counts(nodeid, *row.named) if row.named else alone
        expected = {
            "order.polluted": (after["failed"], alone["passed"]),
            "order.brittle": (after["passed"], alone["failed"]),
            "reproducible": (alone["failed"], CHECKS * (own.get(nodeid) != "passed")),
        }.get(row.proof)
        if row.proof == "flaky":
            if nodeid in victims and len(alone) == 1:
                wrong.append(f"{nodeid} alone: {dict(alone)}")
        elif expected is not None and expected != (CHECKS, CHECKS):
            wrong.append(f"{nodeid} alone: {dict(alone)}, after: {dict(after)}")
    return row._replace(check=f"wrong: {'; '.join(wrong)}" if wrong else "holds")


def ask_neighbours(
    bench: Bench, order: str, own: Mapping[str, str], options: argparse.Namespace
) -> Iterator[tuple[str, str, str]]:
    """Yield the tool, what is to be said of its answer, and the answer, for victims of an order."""
    ran = bench.plain(order)
    failing = [nodeid for nodeid, outcome in ran.items() if outcome == "failed"]
    again = bench.plain(order) if failing else {}
    victims = [
        nodeid
        for nodeid in failing
        if bench.project.label(nodeid) and again.get(nodeid) == "failed"
        if own.get(nodeid) == "passed" or bench.counts(nodeid)["passed"] == CHECKS
    ]
    for victim in victims[: options.most]:
        # The tests that ran before it, in their order.
        before = [*ran][: [*ran].index(victim) + 1]
        place = bench.copy()
        (place.parent / "tests").write_text(
            "".join(f"{each}\n" for each in before), "utf-8"
        )
        # It is not started by `-m`, for it would not find itself as a plugin.
        detector = Path(options.neighbours).with_name("detect-test-pollution")
        command = [str(detector), "--failing-test", victim]
        began = time.monotonic()
        said = run(
            [*command, f"--testids-file={place.parent / 'tests'}"],
            place,
            bench.environment(place),
        )
        polluter = re.search(r"the polluting test is: (.+)", said)
        verdict = _verdict(bench, victim, (polluter[1].strip(),) if polluter else ())
        words = f"{victim}: {last_line(said)}; {time.monotonic() - began:.1f} s"
        yield "detect-test-pollution", verdict, words
        shutil.rmtree(place.parent)
    if not victims:
        return
    # It looks at the first test that fails; the order is that of its arguments.
    place = bench.copy()
    result = place.parent / "doctor.json"
    command = [
        options.neighbours,
        "-m",
        "pytest",
        "--doctor",
        "--doctor-allow-side-effects",
    ]
    began = time.monotonic()
    said = run(
        [*command, f"--doctor-json={result}", *ran], place, bench.environment(place)
    )
    took = time.monotonic() - began
    found = json.loads(result.read_text("utf-8")) if result.exists() else {}
    named = tuple((found.get("repro") or {}).get("polluters") or ())
    victim = found.get("nodeid", "")
    words = f"{victim}: {found.get('headline', last_line(said))} {', '.join(named)}; {took:.1f} s"
    yield "pytest-flakedoctor", _verdict(bench, victim, named), words
    shutil.rmtree(place.parent)


def _verdict(bench: Bench, victim: str, polluters: Sequence[str]) -> str:
    if not polluters:
        return "nothing"
    alone, after = bench.counts(victim), bench.counts(victim, *polluters)
    return (
        "holds" if (alone["passed"], after["failed"]) == (CHECKS, CHECKS) else "wrong"
    )


def summarize(rows: Iterable[Row], truth: Counter[str]) -> int:
    """Print the figures of all causes; return 1 where something is wrong."""
    rows = list(rows)
    labelled = [row for row in rows if row.tests]
    proven = [
        row
        for row in labelled
        if row.status == "proven" and row.proof.startswith("order.")
    ]
    wrong = [row for row in rows if row.check.startswith("wrong")]
    say("")
    say(
        f"labelled tests failed {truth['fail']} times in all orders, {truth['victims']} as victims"
    )
    say(
        f"victims proven: {truth['found']}; their causes: {len(labelled)}, proven {len(proven)}"
    )
    say(f"proofs: {dict(Counter((row.proof or 'none', row.status) for row in rows))}")
    say(f"wrong: {len(wrong)}")
    for row in wrong:
        say(f"  {row.project} {row.order} {row.proof}: {row.check}")
    if proven:
        fresh = statistics.median(row.fresh for row in proven)
        seconds = statistics.median(row.seconds for row in proven)
        say(
            f"median of proven causes: {fresh:.0f} fresh runs for the proof, {seconds:.1f} s"
        )
    totals = f"{truth['fresh']} fresh runs and {truth['processor']} s of the processor"
    say(f"in all: {totals}, for {len(rows)} causes")
    return int(bool(wrong))


def processor_seconds() -> float:
    """Return what all processes that have ended below this one have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def last_line(text: str) -> str:
    """Return the last line that isn't empty."""
    return (text.strip().splitlines() or ["nothing"])[-1]


def watch(
    command: Sequence[str], place: Path, variables: Mapping[str, str]
) -> tuple[list[str], dict[int, float]]:
    """Run `prove`; return its lines, and how many seconds each cause took by its number."""
    lines: list[str] = []
    began: dict[int, float] = {}
    with subprocess.Popen(
        command,
        cwd=place,
        env={**variables, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None  # for mypy: it is a pipe
        for line in process.stdout:
            lines.append(line.rstrip())
            if number := _CAUSE.match(line):
                began[int(number[1])] = time.monotonic()
    ended = [*list(began.values())[1:], time.monotonic()]
    return lines, {
        number: end - start
        for (number, start), end in zip(began.items(), ended, strict=True)
    }


if __name__ == "__main__":
    sys.exit(main())
