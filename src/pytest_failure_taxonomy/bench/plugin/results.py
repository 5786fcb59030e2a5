"""What the cases of a pytest run came to, one set of results a task class and way of running it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_failure_taxonomy.bench.aggregation import aggregate
from pytest_failure_taxonomy.bench.models import BenchRunReport, BenchScore, RunPlan

MakePlan = Callable[[Path, Sequence[str]], RunPlan]


class Source(NamedTuple):
    """Where results come from."""

    folder: str
    """The task class's."""
    test: str = ""
    """The test that runs the cases, without its parameters; empty for items of the class's own."""


class SourcedReport(NamedTuple):
    """The report of a run, and the test that ran it; empty for items of the class's own."""

    report: BenchRunReport
    test: str


class SourceResults:
    """The results of one source."""

    def __init__(self) -> None:
        self.scheduled: list[str] = []
        self.started: set[str] = set()
        self.scores: dict[str, BenchScore] = {}
        """As the reports of tests brought them."""
        self.unreported: dict[str, BenchScore] = {}
        """Of cases that were done; for some, pytest never came to their test."""
        self.broken: set[str] = set()
        """Cases whose tests failed by something else than a score, which does not count then."""
        self.hit_cost_cap = False

    def schedule(self, case_id: str) -> None:
        """Count a case as one to run."""
        if case_id not in self.scheduled:
            self.scheduled.append(case_id)

    def report(self, plan: RunPlan) -> BenchRunReport:
        """Aggregate them."""
        known = {case.case_id for case in plan.cases}
        scores = {**self.unreported, **self.scores}
        run_id = os.urandom(16).hex()
        return aggregate(
            plan,
            [(each, score) for each, score in scores.items() if each in known - self.broken],
            run_id=f"partial:{run_id}" if self.hit_cost_cap else run_id,
            started=(self.started | self.broken) & known,
        )


class Results:
    """The results of a run; on xdist's controller put together from its workers' reports."""

    def __init__(self) -> None:
        self._sources: dict[Source, SourceResults] = {}
        self._whole_runs: list[SourcedReport] = []

    def of(self, source: Source) -> SourceResults:
        """Return the results of a source."""
        return self._sources.setdefault(source, SourceResults())

    def __iter__(self) -> Iterator[SourceResults]:
        return iter(self._sources.values())

    def take(self, sent: Mapping[str, Any]) -> None:
        """Take what the report of a test brought along; `Sent` makes it."""
        for test, run in sent.get("runs", ()):
            self._whole_runs.append(SourcedReport(BenchRunReport.model_validate(run), test))
        for folder, test, case_id, score in sent.get("cases", ()):
            results = self.of(Source(folder, test))
            results.broken.discard(case_id)  # of an earlier attempt
            results.scores[case_id] = BenchScore.model_validate(score)
        for folder, test, case_id in sent.get("broken", ()):
            self.of(Source(folder, test)).broken.add(case_id)
        for folder in sent.get("cost_caps", ()):
            self.of(Source(folder)).hit_cost_cap = True

    def reports(self, make_plan: MakePlan) -> list[SourcedReport]:
        """Return the report of each source with a case to run, then those of whole runs."""
        reports = [
            SourcedReport(
                results.report(make_plan(Path(source.folder), results.scheduled)), source.test
            )
            for source, results in self._sources.items()
            if results.scheduled
        ]
        return [*reports, *self._whole_runs]


class Sent:
    """What the report of a test carries to the process that puts results together."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, BenchRunReport]] = []
        self._cases: list[tuple[Source, str, BenchScore]] = []
        self._broken: list[tuple[Source, str]] = []
        self._cost_caps: list[str] = []

    def add_run(self, test: str, report: BenchRunReport) -> None:
        """Add the report of a whole run that a test has made."""
        self._runs.append((test, report))

    def add_case(self, source: Source, case_id: str, score: BenchScore) -> None:
        """Add the score of a case."""
        self._cases.append((source, case_id, score))

    @property
    def has_case(self) -> bool:
        """Whether there is a score of a case."""
        return bool(self._cases)

    def add_broken(self, source: Source, case_id: str) -> None:
        """Add that a case's test failed by something else than its score."""
        self._broken.append((source, case_id))

    def add_cost_cap(self, source: Source) -> None:
        """Add that a case was not started because of what those before it had cost."""
        self._cost_caps.append(source.folder)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "runs": [[test, report.model_dump(mode="json")] for test, report in self._runs],
            "cases": [
                [*source, case_id, score.model_dump(mode="json")]
                for source, case_id, score in self._cases
            ],
            "broken": [[*source, case_id] for source, case_id in self._broken],
            "cost_caps": self._cost_caps,
        }

    def as_properties(self) -> list[tuple[str, object]]:
        """Return the scores as properties, which `--junitxml` writes down."""
        properties: list[tuple[str, object]] = []
        for _, _, score in self._cases:
            properties.append(("bench_score", score.score))
            if score.failure_modes:
                codes = " ".join(mode.code for mode in score.failure_modes)
                properties.append(("bench_failure_modes", codes))
            if score.cost_usd:
                properties.append(("bench_cost_usd", score.cost_usd))
        return properties
