"""Split the cases of a task class over several runs, and join their reports.

Digests of cases and of what they are judged by tell which runs belong together or are
comparable.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.load.folder import RUBRICS
from pytest_failure_taxonomy.bench.models import BenchCase, BenchDigests, TaskClass
from pytest_failure_taxonomy.bench.report import (
    aggregate,
    count_losses,
    distinct_name_of,
)
from pytest_failure_taxonomy.errors import BenchError

_NO_PART_OF_A_RUBRIC: Final = ("conftest.py", "breakdown_keys.py", "cases.py")
_HEX_DIGITS: Final = 32


def digests_of(
    task_class: TaskClass, cases: Iterable[BenchCase] | None = None
) -> BenchDigests:
    """Return the digests of a task class as it is now.

    Args:
        task_class: The class.
        cases: Those that are to run, if these are to have a digest, too.
    """
    return BenchDigests(
        taxonomy=taxonomy_digest(task_class),
        rubric=rubric_digest(task_class),
        cases=None if cases is None else cases_digest(map(case_digest, cases)),
    )


def case_digest(case: BenchCase) -> str:
    """Return the digest of everything that a case's file says of it."""
    try:
        text = json.dumps(case.fields, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        # Keys of several types, for example.
        text = repr(case.fields)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def cases_digest(digests: Iterable[str]) -> str | None:
    """Return one digest of all cases of a run: the sum of theirs, of 128 bits.

    A sum, because the digest of a whole class can then be computed from those of its
    shards, whose reports don't hold the cases. Order doesn't matter, and repetitions,
    which have one digest, count once. The id of a case is among its fields, so it is in
    its digest.

    Returns:
        `None` where a file has something else for a digest.
    """
    return joined_cases_digest(digest[:_HEX_DIGITS] for digest in set(digests))


def joined_cases_digest(digests: Iterable[str | None]) -> str | None:
    """Return the digest of all cases from those of parts without a common case.

    Returns:
        `None` where that of a part is not known.
    """
    try:
        total = sum(int(digest or "", 16) for digest in digests)
    except ValueError:
        return None
    return f"{total % 16**_HEX_DIGITS:0{_HEX_DIGITS}x}"


def taxonomy_digest(task_class: TaskClass) -> str:
    """Return the digest of the failure modes, their severities and the breakdown keys.

    Their order and their descriptions don't matter.
    """
    codes = sorted(task_class.failure_mode_taxonomy.items())
    content: list[Any] = [codes, sorted(task_class.breakdown_keys)]
    if task_class.breakdown_ranges:
        # The digests of classes without stay what they were.
        content.append(sorted(task_class.breakdown_ranges.items()))
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def rubric_digest(task_class: TaskClass) -> str | None:
    """Return the digest of rubrics, weights, version and the Python files beside them.

    A rubric may import the files of its folder. What it imports from elsewhere is not
    looked at, nor are conftest.py, tests, the breakdown keys and the cases.

    Returns:
        `None` for a class without a rubric of its own.
    """
    rubrics = set(task_class.rubrics.values())
    if task_class.rubric:
        rubrics.add(task_class.rubric)
    if not rubrics:
        return None
    settings = task_class.settings
    digest = hashlib.sha256()
    weights = sorted((settings.rubrics or {}).items())
    digest.update(json.dumps(weights).encode("ascii"))
    version = os.path.expandvars(settings.rubric_version or "")
    digest.update(version.encode("utf-8", "surrogateescape"))
    try:
        for path in _files_of(rubrics):
            content = path.read_bytes()
            name = path.name
            if path.parent.name == RUBRICS:
                name = f"{RUBRICS}/{name}"
            head = f"{name}\0{len(content)}\0"
            digest.update(head.encode("utf-8", "surrogateescape"))
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest()


def _files_of(rubrics: Iterable[Path]) -> list[Path]:
    files = set(rubrics)
    for folder in {rubric.parent for rubric in files}:
        with suppress(OSError):
            files.update(filter(_may_be_imported, folder.glob("*.py")))
    return sorted(files)


def _may_be_imported(path: Path) -> bool:
    if path.name in _NO_PART_OF_A_RUBRIC or path.name.startswith("test_"):
        return False
    return not path.stem.endswith("_test") and path.is_file()


_SHARD: Final = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)
_MOST_SHARDS: Final = 10_000


def parse_shard(given: str, where: str) -> tuple[int, int]:
    """Return the index, from 1, and the number of shards of a text such as `2/4`.

    Raises:
        BenchError: It names none.
    """
    found = _SHARD.fullmatch(given)
    index, total = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= total <= _MOST_SHARDS:
        raise BenchError(
            f"{where}: {given!r} is no part of a bench; give one such as 2/4"
        )
    return index, total


def ids_of_shard(
    task_class: models.TaskClass, index: int, total: int
) -> frozenset[str]:
    """Return the ids of the cases of a task class that belong to a shard.

    The cases are counted in the order of their files, so that all machines agree. The
    repetitions of a case stay together.
    """
    numbers: dict[str, int] = {}
    ids = set()
    for case in task_class.cases:
        # All repetitions share the id of the file.
        if numbers.setdefault(str(case.id_in_file), len(numbers)) % total == index - 1:
            ids.add(case.case_id)
    return frozenset(ids)


def shard_of_run(
    task_class: models.TaskClass, source: str, index: int, total: int
) -> models.RunShard:
    """Return what the reports of a class's shards must have in common, for a plan.

    Args:
        task_class: The class.
        source: Its folder, relative to the root directory.
        index: Which shard it is, from 1.
        total: How many there are.
    """
    digests = digests_of(task_class)
    cases = [[case.case_id, case_digest(case)] for case in task_class.cases]
    return models.RunShard(
        index=index,
        total=total,
        source=source,
        cases_digest=blake2b(json.dumps(cases).encode(), digest_size=8).hexdigest(),
        rubric_digest=digests.rubric or "",
        taxonomy_digest=digests.taxonomy or "",
    )


def join_shards(reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report for the shards of each class, as if one run had run them.

    The order of the reports makes no difference. If a shard is missing, the joined
    report is incomplete, and so is its gate.

    Args:
        reports: Reports of shards as JSON objects.

    Raises:
        BenchError: Reports of one class don't belong together; a line for each problem.
    """
    by_source: dict[str, list[_Part]] = {}
    for fields in reports:
        report = models.BenchRunReport.model_validate(fields)
        if report.shard is None:
            raise ValueError(
                f"the report of {report.task_class} is not that of a shard"
            )
        by_source.setdefault(report.shard.source, []).append((report.shard, report))
    problems = [problem for group in by_source.values() for problem in _problems(group)]
    if problems:
        raise BenchError("\n".join(problems))
    return [
        _join(group).model_dump(mode="json") for _, group in sorted(by_source.items())
    ]


_Part = tuple[models.BenchShard, models.BenchRunReport]


def _problems(parts: Sequence[_Part]) -> Iterator[str]:
    """Yield why reports of one source are not the shards of one run."""
    shards, reports = zip(*parts, strict=True)
    where = f"bench {shards[0].source}"
    totals = sorted({shard.total for shard in shards})
    if len(totals) > 1:
        counts = " and ".join(map(str, totals))
        yield f"{where}: these are shards of {counts}; merge those of one run"
        return
    indexes = Counter(shard.index for shard in shards)
    for index, count in sorted(indexes.items()):
        if count > 1:
            what = f"shard {index} of {totals[0]} is there twice"
            yield f"{where}: {what}; merge one report of each"
    for name in ("cases", "rubric", "taxonomy"):
        digests = {getattr(shard, f"{name}_digest") for shard in shards}
        if len(digests) > 1:
            what = f"the shards differ in their {name}"
            yield f"{where}: {what}; merge those of one commit"
    if any(report.system != reports[0].system for report in reports):
        yield f"{where}: the shards differ in their system; merge those of one version"
    if any(shard.gate != shards[0].gate for shard in shards):
        yield f"{where}: the shards differ in their gate; merge those of one commit"


def _join(parts: Sequence[_Part]) -> models.BenchRunReport:
    """Return the report of the run that shards are parts of."""
    shards, reports = zip(*sorted(parts, key=lambda part: part[0].index), strict=True)
    first = reports[0]
    total = shards[0].total
    present = {shard.index for shard in shards}
    missing = [index for index in range(1, total + 1) if index not in present]
    stopped = [f"shard {index} of {total} is missing" for index in missing]
    stopped += [report.stopped for report in reports if report.stopped][:1]
    scores = [scored for report in reports for scored in report.per_case]
    started = {case_id for case_id, _ in scores}
    started.update(*(shard.unscored for shard in shards))
    # The same for the same runs.
    ids = "".join(report.run_id for report in reports)
    run_id = blake2b(ids.encode(), digest_size=16).hexdigest()
    is_partial = any(report.run_id.startswith(models.PARTIAL) for report in reports)
    cases = tuple(_scheduled_cases(parts))
    # A report of an earlier version has none.
    reducers = next((shard.reducers for shard in shards if shard.reducers), ())
    settings = models.BenchSettings(reducers=reducers)
    joined = aggregate(
        models.RunPlan(
            task_class=models.TaskClass(
                name=first.task_class, cases=cases, settings=settings
            ),
            cases=cases,
            gate=shards[0].gate,
            is_selection=any(shard.is_selection for shard in shards),
        ),
        scores,
        run_id=models.id_of_run(run_id, is_partial),
        started=started,
        stopped="; ".join(stopped) or None,
        digests=_join_digests(reports),
        system=first.system,
        system_label=first.system_label,
        lost_cost_usd=add_exactly(*(shard.lost_cost_usd for shard in shards)),
        usages=[report.usage for report in reports],
        is_part=bool(missing),
    )
    losses, owed = Counter[str](), Counter[str]()
    for report in reports:
        losses.update({loss.kind: loss.cases for loss in report.lost_to_provider})
        owed.update({loss.kind: loss.cases for loss in report.lost_to_environment})
    agreements = (report.rubric_agreement for report in reports)
    return joined.model_copy(
        update={
            "lost_to_provider": count_losses(losses),
            "lost_to_environment": count_losses(owed),
            "rubric_agreement": next(filter(None, agreements), None),
        }
    )


def _scheduled_cases(parts: Iterable[_Part]) -> Iterator[models.BenchCase]:
    clusters: dict[str, str] = {}
    for _, report in parts:
        clusters |= report.clusters
    for shard, report in sorted(parts, key=lambda part: part[0].index):
        name_of = distinct_name_of(report)
        for case in shard.scheduled:
            cluster = clusters.get(name_of(case.case_id))
            yield models.BenchCase(**vars(case), cluster=cluster)


def _join_digests(
    reports: Sequence[models.BenchRunReport],
) -> models.BenchDigests | None:
    first = reports[0].digests
    if first is None:
        return None
    digests = [report.digests for report in reports if report.digests is not None]
    cases: str | None = None
    if len(digests) == len(reports):
        cases = joined_cases_digest(each.cases for each in digests)
    return first.model_copy(update={"cases": cases})
