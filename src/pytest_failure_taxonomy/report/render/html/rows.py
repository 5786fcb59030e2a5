"""The failures and tests of a report, in few bytes, for the script of the page."""

from __future__ import annotations

from typing import Any, Final

from pytest_failure_taxonomy.report.render.html.overview import command_of
from pytest_failure_taxonomy.report.render.html.shown import LINE_CLASSES, line_class
from pytest_failure_taxonomy.report.render.html.timing import Timing
from pytest_failure_taxonomy.report.summary import history_words
from pytest_failure_taxonomy.report.text import first_line, safe_text, telling_line

_MAX_SAID: Final = 300
_COLLECTION: Final = ("INTERNAL_ERROR", "collection.error")
_DIGITS: Final = 3


class Table:
    """Texts that stand once, however often they are used."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, a new one where it has none."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


def rows_of(report: dict[str, Any], timing: Timing) -> dict[str, Any]:
    """Return what the script shows: tables of texts, groups, failures and tests.

    Tracebacks of one cause have most of their lines in common, so each different line stands once.
    """
    files, lines, workers = Table(), Table(), Table()
    failures = [
        *(_failure(each, files, lines) for each in report["failures"]),
        *(_collection(each, files, lines) for each in report["collection_errors"]),
    ]
    tests = report["tests"]
    rows = None if tests is None else [_test(each, files, workers) for each in tests]
    groups = _groups(report, failures, files)
    return {
        "groups": groups,
        "failures": failures,
        "tests": rows,
        "files": files.texts,
        "workers": workers.texts,
        "lines": lines.texts,
        "classes": [line_class(line) for line in lines.texts],
        "names": LINE_CLASSES,
        "lanes": [[lane.name, lane.death] for lane in timing.lanes],
        "running": [list(each) for each in timing.running],
        "end": timing.end,
        "death": timing.death,
    }


def _name(nodeid: str, files: Table) -> list[Any]:
    file, colons, rest = nodeid.partition("::")
    return [files.number(file), colons + rest]


def _traceback(text: str | None, lines: Table) -> list[int] | None:
    return None if text is None else [lines.number(line) for line in text.splitlines()]


def _place(location: dict[str, Any] | None) -> str | None:
    if location is None:
        return None
    return f"{location['path']}" + (f":{location['line']}" if location["line"] else "")


def _origin(origin: dict[str, Any] | None) -> str | None:
    if origin is None:
        return None
    package = f" of {origin['package']}" if origin["package"] else ""
    return f"{origin['function']} in {_place(origin)}{package}"


def _said(raised: dict[str, Any] | None, other: str | None) -> str:
    if raised is None:
        return safe_text(first_line(other or ""), _MAX_SAID)
    message = telling_line(raised["message"])
    name = raised["type"]
    return safe_text(f"{name}: {message}" if message else name, _MAX_SAID)


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: each for name, each in fields.items() if each not in (None, "", [])}


def _failure(failure: dict[str, Any], files: Table, lines: Table) -> dict[str, Any]:
    return _filled(
        id=_name(failure["nodeid"], files),
        run=command_of(failure["nodeid"]),
        phase=failure["phase"],
        reason=failure["reason"],
        kind=failure["kind"],
        owner=(failure["origin"] or {}).get("owner"),
        type=failure["failure_type"],
        said=_said(failure["exception"], failure["traceback"]),
        message=_rest_of_message(failure),
        place=_place(failure["location"]),
        origin=_origin(failure["origin"]),
        traceback=_traceback(failure["traceback"], lines),
        seconds=_rounded(failure["duration_seconds"]),
        attempts=failure["attempts"] if failure["attempts"] > 1 else None,
        worker=failure["worker"],
        marker=failure["marker"],
        rule=failure["rule"],
        print=failure["fingerprint"],
    )


def _rest_of_message(failed: dict[str, Any]) -> str | None:
    """Return the exception's message where no traceback shows it."""
    raised = failed["exception"]
    return raised["message"] if raised and failed["traceback"] is None else None


def _collection(failed: dict[str, Any], files: Table, lines: Table) -> dict[str, Any]:
    reason, kind = _COLLECTION
    return _filled(
        id=_name(failed["nodeid"], files),
        run=command_of(failed["nodeid"].partition("::")[0]),
        phase="collection",
        reason=reason,
        kind=kind,
        owner=(failed["origin"] or {}).get("owner"),
        type=failed["failure_type"],
        said=_said(failed["exception"], failed["message"]),
        message=failed["message"] if failed["traceback"] is None else None,
        place=_place(failed["location"]),
        origin=_origin(failed["origin"]),
        traceback=_traceback(failed["traceback"], lines),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


def _test(test: dict[str, Any], files: Table, workers: Table) -> list[Any]:
    return [
        *_name(test["nodeid"], files),
        test["outcome"],
        _rounded(test["start_seconds"]),
        _rounded(test["duration_seconds"]),
        workers.number(test["worker"] or ""),
    ]


def _groups(
    report: dict[str, Any], failures: list[dict[str, Any]], files: Table
) -> list[dict[str, Any]]:
    """Return the groups, each with the numbers of its failures; what is in none comes last.

    A report lists some failures in full, and of the others the node ids. These are added to the
    failures as names alone.
    """
    members, alone = _members(report, failures)
    groups = []
    for group, numbers in zip(report["groups"], members, strict=True):
        listed = {tuple(failures[number]["id"]) for number in numbers}
        for nodeid in group["nodeids"]:
            if tuple(_name(nodeid, files)) not in listed:
                numbers.append(len(failures))
                failures.append(_only_name(nodeid, group, files))
        groups.append(_group(report, group, numbers))
    return [*groups, *(_alone(number, failures[number]) for number in alone)]


def _members(
    report: dict[str, Any], failures: list[dict[str, Any]]
) -> tuple[list[list[int]], list[int]]:
    """Return the numbers of the failures of each group, and of those in none."""
    prints = {group["fingerprint"]: number for number, group in enumerate(report["groups"])}
    collected = {
        nodeid: number
        for number, group in enumerate(report["groups"])
        if (group["reason"], group["kind"]) == _COLLECTION
        for nodeid in group["nodeids"]
    }
    members: list[list[int]] = [[] for _ in report["groups"]]
    alone: list[int] = []
    nodeids = [each["nodeid"] for each in (*report["failures"], *report["collection_errors"])]
    for number, failure in enumerate(failures):
        group = prints.get(failure.get("print"))
        if group is None and failure["kind"] == _COLLECTION[1]:
            group = collected.get(nodeids[number])
        (alone if group is None else members[group]).append(number)
    return members, alone


def _only_name(nodeid: str, group: dict[str, Any], files: Table) -> dict[str, Any]:
    return _filled(
        id=_name(nodeid, files),
        run=command_of(nodeid),
        reason=group["reason"],
        kind=group["kind"],
        owner=group["owner"],
        only=True,
    )


def _group(report: dict[str, Any], group: dict[str, Any], members: list[int]) -> dict[str, Any]:
    passed = (group["history"] or {}).get("last_passed_commit")
    seen = history_words(report, group["history"], [group["fingerprint"]])
    return _filled(
        title=first_line(group["title"]),
        count=group["count"],
        reason=group["reason"],
        kind=group["kind"],
        owner=group["owner"],
        history=f"{seen}, last passed at {passed[:12]}" if passed else seen,
        state=(group["history"] or {}).get("state"),
        members=members,
    )


def _alone(number: int, failure: dict[str, Any]) -> dict[str, Any]:
    """Return a group of one failure."""
    names = ("reason", "kind", "owner")
    return _filled(
        title=failure.get("said") or failure["kind"],
        count=1,
        members=[number],
        **{name: failure.get(name) for name in names},
    )
