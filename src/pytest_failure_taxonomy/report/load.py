"""Read a report of any version from a file that may come from anybody."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.documents.content import (
    MAX_WORD,
    parse_value,
    path_words,
    read_input,
    refusal,
)
from pytest_failure_taxonomy.documents.problems import MAX_PROBLEMS, WrongError
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report import codec
from pytest_failure_taxonomy.report.amend import causes_of_groups
from pytest_failure_taxonomy.report.build import (
    MAX_NODEIDS,
    MAX_NODEIDS_OF_PART,
    MAX_REPORT_BYTES,
)
from pytest_failure_taxonomy.report.codec import Codec, DecodeError, Fields, Problem
from pytest_failure_taxonomy.report.model import (
    CODEC,
    KEYS,
    PUBLISHED,
    SCHEMA_ID,
    SCHEMA_VERSION,
    CollectionError,
    Failure,
    FailureReport,
    Limits,
    MergedRun,
    Run,
    Section,
    Worker,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    Environment,
    InFlightTest,
    Surroundings,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    FailureType,
    Group,
    GroupHistory,
    Proof,
    Verdict,
)
from pytest_failure_taxonomy.taxonomy.values import defaults_of, replace
from pytest_failure_taxonomy.taxonomy.words import and_more, counted
from pytest_failure_taxonomy.text import safe_text

_OLD_VERSIONS: Final = ("1.0", "1.1", "1.2")
_SCHEMA: Final = SCHEMA_ID.removesuffix(SCHEMA_VERSION)
_VERSION: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
_MAX_DEPTH: Final = 200
"""How deep what anybody has added to a report may be nested."""
_WITHOUT_VALUE: Final = frozenset({"is missing", "is no key of this object"})
"""Problems that do not lie in what stands at a place."""
_RIGHT: Final = "give the path of a report, the JSON file that `pytest --why` writes"

_ADDED: Final[Fields] = {
    Run: ("shard",),
    Verdict: ("owner", "charge_to", "history"),
    Failure: ("origin",),
    Group: ("owner", "history"),
    Proof: ("commit",),
    Cause: ("failure_type", "tests", "files", "unnamed", "base"),
    GroupHistory: (
        *("distributions_changed", "first_commit", "flaky_failures", "flaky_runs"),
    ),
    CollectionError: ("origin",),
    InFlightTest: ("stall", "output", "stack", "location"),
    Worker: ("peak_rss_bytes",),
    Environment: ("watcher", "memory", "git", "distributions"),
    Limits: ("causes_omitted",),
    Attribution: (
        *("rule", "detail", "severity", "retryable", "owner", "link", "charge_to"),
    ),
    Surroundings: tuple(defaults_of(Surroundings)),
    MergedRun: ("causes", "bench_shards", "name", "surroundings", "is_from_top"),
    FailureReport: tuple(defaults_of(FailureReport)),
}
"""The fields that versions after 1.0 have added, with the class that has them."""
_OLD_CODEC: Final = Codec(published=PUBLISHED, optional=_ADDED, biggest=inf, keys=KEYS)
_OWN_FIELDS: Final = (
    *("notes", "faults", "attributions", "attempt", "known", "trial", "merged"),
    *("surroundings", "session_exit_code", "redacted"),
)
"""Fields that stood there and have kept their name."""
_OWN_NAME: Final = "pytest_failure_taxonomy"
"""The key in `extensions` that had fields of ours until version 1.2."""


def load_report(path: str | os.PathLike[str]) -> FailureReport:
    """Read the report at a path.

    Args:
        path: a regular file of at most `MAX_REPORT_BYTES`, or a link to one.

    Raises:
        ReportError: there is no such file, or it is not a report that this version reads.
    """
    return parse_report(read_input(Path(path), _RIGHT), os.fspath(path))


def parse_report(data: bytes, where: str) -> FailureReport:
    """Return the report that bytes are.

    Args:
        data: JSON in UTF-8.
        where: what to call the source in an error, such as its path.

    Raises:
        ReportError: it is not a report that this version reads; the message lists every problem.
    """
    where = safe_text(where)
    if len(data) > MAX_REPORT_BYTES:
        raise refusal(where, f"bigger than {MAX_REPORT_BYTES // 1024**2} MiB", _RIGHT)
    try:
        content = parse_value(data, right=_RIGHT, max_depth=_MAX_DEPTH)
    except WrongError as error:
        raise refusal(where, error.what, _RIGHT) from None
    if not isinstance(content, dict):
        raise refusal(where, "it is no JSON object", _RIGHT)
    version = content.get("schema_version")
    numbers = _VERSION.fullmatch(version) if isinstance(version, str) else None
    newest = tuple(int(part) for part in SCHEMA_VERSION.split("."))
    if numbers is not None and (int(numbers[1]), int(numbers[2])) > newest:
        raise ReportError(
            f"{where}: schema version {version} is newer than this program reads"
            f" ({SCHEMA_VERSION}); upgrade pytest-failure-taxonomy"
        )
    try:
        return decode_report(content)
    except DecodeError as error:
        raise ReportError(list_problems(error.problems, where)) from None


def decode_report(content: Any) -> FailureReport:
    """Return the report in a JSON object of any schema version.

    Raises:
        DecodeError: it is not a report.
    """
    version = str(content.get("schema_version"))
    is_old = version in _OLD_VERSIONS and content.get("$schema") == _SCHEMA + version
    if not is_old:
        return CODEC.decode(FailureReport, content)
    report = _OLD_CODEC.decode(FailureReport, _bring_up_to_date(content))
    merged = report.merged
    if merged is not None:
        runs = [replace(run, causes=_complete_causes(run, {})) for run in merged.runs]
        merged = replace(merged, runs=tuple(runs))
    causes = _complete_causes(report, _failure_types(report))
    return replace(report, causes=causes, merged=merged)


def as_json(report: FailureReport) -> dict[str, Any]:
    """Return a report as a JSON object of the current schema version."""
    content: dict[str, Any] = CODEC.encode(report)
    return content


def _complete_causes(
    report: FailureReport | MergedRun, types: Mapping[str, FailureType]
) -> tuple[Cause, ...]:
    """Return the causes of an old report, or of a run of one, with what they lack."""
    causes = report.causes
    if not causes:  # those of the first versions have none
        causes = causes_of_groups(report)
    completed = [_complete_cause(cause, report.verdict, types) for cause in causes]
    return tuple(completed)


def _failure_types(report: FailureReport) -> dict[str, FailureType]:
    """Return the failure types of an old report, by fingerprint and node id of a file."""
    types = {}
    for failure in report.failures:
        if failure.fingerprint is not None and failure.failure_type is not None:
            types[failure.fingerprint] = failure.failure_type
    for error in report.collection_errors:
        if error.failure_type is not None:
            types[error.nodeid] = error.failure_type
    return types


def _complete_cause(
    cause: Cause, verdict: Verdict | None, types: Mapping[str, FailureType]
) -> Cause:
    """Return a cause of an old report with its missing fields, as far as they can be known.

    Args:
        cause: of a report of version 1.2 or before.
        verdict: of the same report.
        types: by fingerprint, and by node id of what could not be collected.
    """
    nodeids, prints, kind = cause.nodeids, cause.fingerprints, cause.kind
    names = [name for name in (*prints, *nodeids) if name in types]
    failure_type = FailureType.UNKNOWN
    if names:
        failure_type = types[names[0]]
    elif kind == "llm.context_exceeded":
        failure_type = FailureType.CONTEXT_EXHAUSTED
    elif verdict is not None and verdict.nodeid in (nodeids or (None,)):
        failure_type = verdict.failure_type or failure_type
    failed = nodeids if prints and not kind.startswith("interrupt.") else ()
    # Other programs than pytest name tests in their own way.
    is_test, is_file = kind.startswith("test."), kind.startswith("collection.")
    tests = [nodeid for nodeid in failed if is_test or ("::" in nodeid and not is_file)]
    is_cut = len(nodeids) in (MAX_NODEIDS, MAX_NODEIDS_OF_PART)
    is_unnamed = kind == "test.failed" and not prints
    return replace(
        cause,
        failure_type=failure_type,
        tests=tuple(tests),
        files=tuple(nodeid for nodeid in failed if nodeid not in tests),
        unnamed=max(0, cause.count - len(nodeids))
        if is_unnamed or (is_cut and tests)
        else 0,
    )


def _bring_up_to_date(content: dict[str, object]) -> dict[str, object]:
    """Return a report of an older version with the fields that had another place there."""
    extensions = content.get("extensions")
    versions = {"$schema": SCHEMA_ID, "schema_version": SCHEMA_VERSION}
    content = {**content, **versions}
    if not isinstance(extensions, dict) or _OWN_NAME not in extensions:
        return content
    content["extensions"] = {
        name: added for name, added in extensions.items() if name != _OWN_NAME
    }
    own = extensions[_OWN_NAME]
    if not isinstance(own, dict):
        return content
    fields = {name: own[name] for name in _OWN_FIELDS if own.get(name)}
    git = own.get("git")
    if isinstance(git, dict):
        repository = {"name": git.get("repository"), **git}
        repository.pop("repository", None)
        fields["repository"] = repository
    fields["is_unannotated"] = own.get("unannotated") is True
    return {**content, **fields}


def refuse_bad_benches(report: FailureReport, where: str) -> None:
    """Have the bench check its section of a report that anybody may have written.

    Raises:
        ReportError: it would not have written that; the message lists every problem.
    """
    sections: dict[codec.Path, Section] = {("bench",): report.bench}
    for number, part in enumerate(report.merged.runs if report.merged else ()):
        sections["merged", "runs", number, "bench_shards"] = part.bench_shards
    rows = [
        ((*path, number), row)
        for path, section in sections.items()
        for number, row in enumerate(section)
    ]
    if not rows:
        return
    # By name, and where there is one: the core imports no neighbour.
    check = import_module("pytest_failure_taxonomy.bench.models").problems_of_report
    problems = [
        Problem((*path, *problem.path), problem.words, problem.sent)
        for path, row in rows
        for problem in map(Problem._make, check(row))
    ]
    if problems:
        raise ReportError(list_problems(problems, safe_text(where)))


def list_problems(problems: Sequence[Problem], where: str) -> str:
    """Return the message of an error that lists the problems of a report."""
    count = counted(len(problems), "problem")
    head = f"{where}: not a report of schema version {SCHEMA_VERSION}, {count};"
    lines = [f"{head} `failure-taxonomy schema` prints what would be right"]
    for problem in problems[:MAX_PROBLEMS]:
        words = safe_text(problem.words)
        if problem.words not in _WITHOUT_VALUE and not _is_container(problem.sent):
            sent = json.dumps(problem.sent, ensure_ascii=False)
            words += f", found {safe_text(sent, MAX_WORD)}"
        lines.append(f"  {safe_text(path_words(problem.path))}: {words}")
    if more := and_more(len(problems) - MAX_PROBLEMS):
        lines.append(f"  ...{more}")
    return "\n".join(lines)


def _is_container(sent: Any) -> bool:
    return isinstance(sent, dict | list)
