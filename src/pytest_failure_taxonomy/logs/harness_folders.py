"""Find the trials in what harnesses of agents leave behind: one small reader for each harness.

A reader yields trials, and errors for what can't be read; the rest is read all the same. Nothing
below the folder of a trial is taken for a trial: there an agent may have written what it likes.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

from pytest_failure_taxonomy.documents.content import (
    read_input,
    refusal,
    why_no_file,
    why_unread,
)
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.logs.foreign import text_at
from pytest_failure_taxonomy.logs.trials import Ending, Trial
from pytest_failure_taxonomy.report.build import (
    MAX_REPORT_BYTES,
    object_at,
    objects_at,
    texts_at,
)
from pytest_failure_taxonomy.text import safe_text

_RIGHT: Final = "give results as a harness has written them, of trials that have ended"
_END_BYTES: Final = 262_144
"""How much is read of the end of a log that is searched for a few phrases."""
_SCORES: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("c", "yes", "true"), True),
    **dict.fromkeys(("i", "p", "n", "no", "false"), False),
}
"""What Inspect's scorers say in words: partial credit is no success."""
_MAX_TEXT: Final = 200
_MAX_NUMBER: Final = 1e15
"""What is kept of a harness's own fields: a task's instruction is none of them."""
_DAMAGES: Final = (
    BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    ValueError,
)
"""What reading a damaged archive raises."""


class _Score(NamedTuple):
    value: Any
    passed: bool
    words: str


Found = Iterator[Trial | ReportError]


def trials_in(harness: str, paths: Iterable[Path]) -> Found:
    """Yield the trials that a harness has left, each once, and an error for what can't be read.

    Args:
        harness: one of `HARNESSES`.
        paths: folders with the results of any number of runs, or files of results.
    """
    known: set[bytes] = set()
    for path in paths:
        is_of_harness = False
        for found in _trials_below(Path(os.path.abspath(path)), HARNESSES[harness]):
            is_of_harness = True
            if isinstance(found, ReportError):
                yield found
            elif found.key not in known:
                known.add(found.key)
                yield found
                if found.problem:
                    yield refusal(found.path, found.problem, _RIGHT)
        if not is_of_harness:
            right = f"give a folder that {harness} has written"
            for other in sorted(HARNESSES.keys() - {harness}):
                if any(
                    isinstance(found, Trial)
                    for found in _trials_below(path, HARNESSES[other])
                ):
                    right = f"it has some of {other}; give --from {other}"
            yield refusal(path, f"it has no trial of {harness}", right)


def _trials_below(root: Path, read: Callable[[Path, Path], Found]) -> Found:
    errors: list[OSError] = []
    for path, folders in _files(root, errors):
        try:
            for found in read(path, root):
                if isinstance(found, Trial) and found.has_folder:
                    folders.clear()  # what is below an agent may have written
                yield found
        except ReportError as error:
            yield error
    for unread in errors:
        yield refusal(unread.filename, why_unread(unread), _RIGHT)


def _files(root: Path, errors: list[OSError]) -> Iterator[tuple[Path, list[str]]]:
    """Yield each file, and the folders beside it: who clears their list goes no deeper."""
    if root.is_file():
        yield root, []
        return
    for folder, folders, names in os.walk(root, onerror=errors.append):
        folders.sort()
        for name in sorted(names):
            yield Path(folder, name), folders


def _inside(path: Path, root: Path) -> Path:
    """Return a path that is read; an agent's link must not show what is elsewhere.

    Raises:
        ReportError: it is a link that leads out of what was given.
    """
    around = root if root.is_dir() else root.parent
    if path.is_symlink() and not path.resolve().is_relative_to(around.resolve()):
        what = f"it is a link that leads out of {safe_text(str(around))}"
        raise refusal(path, what, "give the folder that holds both")
    return path


def _first_file(root: Path, *paths: Path) -> Path | None:
    found = next((path for path in paths if path.is_file()), None)
    return None if found is None else _inside(found, root)


def _read(path: Path, root: Path) -> dict[str, Any]:
    """Return the object in a file of JSON that Python has written.

    Raises:
        ReportError: it can't be read, or is no JSON.
    """
    return _parsed(read_input(_inside(path, root), _RIGHT), path)


def _parsed(content: bytes, where: Path | str) -> dict[str, Any]:
    try:
        found = json.loads(
            content, parse_constant=lambda _: None
        )  # NaN stands for no score
        return found if isinstance(found, dict) else {}
    except (ValueError, RecursionError) as error:
        raise refusal(where, f"it is no JSON ({error})", _RIGHT) from None


def _named(document: Mapping[str, Any], where: Path, *names: str) -> list[str]:
    """Return texts that results must have; a `ReportError` if they don't."""
    texts = [text_at(document, name) for name in names]
    if not all(texts):
        raise refusal(where, f"it has no texts {' and '.join(names)}", _RIGHT)
    return texts


def _scalars(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of an object of the harness's, which a report keeps."""
    return {
        name: each
        for name, each in holder.items()
        if each is None
        or (isinstance(each, str) and len(each) <= _MAX_TEXT)
        or (isinstance(each, int | float) and abs(each) < _MAX_NUMBER)
    }


def _problem(name: str, value: object) -> str:
    is_result = value is None or isinstance(value, bool)
    return "" if is_result else f"{name} is neither true nor false and does not count"


def _time(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    return None


def _system(agent: str, model: str, otherwise: str) -> str:
    return f"{agent} ({model})" if agent and model else agent or model or otherwise


def _ending_by_exception(detail: str, traceback: str) -> Ending:
    """Return the ending by the exception that is named last."""
    lines = reversed(traceback.splitlines() or detail.splitlines())
    raised = next(
        filter(None, (foreign.exception_of(line, "") for line in lines)), None
    )
    return Ending(raised.type if raised else "error", detail)


def _terminal_bench(path: Path, root: Path) -> Found:
    if path.name.endswith("results.json"):
        document = _read(path, root)
        if isinstance(document.get("results"), list):
            # A run may have been kept without the folders of its trials.
            for each in objects_at(document, "results"):
                try:
                    trial = _terminal_bench_trial(each, path, path.parent, root)
                except ReportError as error:
                    yield error
                    continue
                own = path.parent / trial.task / trial.name / "results.json"
                if path == root or not os.path.isfile(own):
                    yield trial
        elif path.name == "results.json":
            yield _terminal_bench_trial(document, path, path.parent.parent.parent, root)


def _terminal_bench_trial(
    document: dict[str, Any], path: Path, run: Path, root: Path
) -> Trial:
    task, name = _named(document, path, "task_id", "trial_name")
    about: dict[str, Any] = {}
    with suppress(ReportError):  # the name of the folder says which run it was, too
        about = _read(run / "run_metadata.json", run)
    resolved, label = document.get("is_resolved"), text_at(document, "failure_mode")
    label = "" if label in ("unset", "none") else label
    results, has_folder = object_at(document, "parser_results"), path.parent != run
    logs = (
        path.parent / "sessions" / "tests.log",
        path.parent / "panes" / "post-test.txt",
    )
    return Trial(
        harness="terminal-bench",
        task=task,
        system=_system(
            text_at(about, "agent_name"), text_at(about, "model_name"), run.name
        ),
        name=name,
        identity=text_at(document, "id") or text_at(document, "uuid") or run.name,
        path=path,
        passed=resolved if isinstance(resolved, bool) else None,
        problem=_problem("is_resolved", resolved),
        label=label or None,
        tests={test: result == "passed" for test, result in results.items()},
        endings=(Ending(label),) if label not in ("", "unknown", "parse_error") else (),
        has_folder=has_folder,
        log=_first_file(root, *logs) if has_folder else None,
        told=_scalars(document),
        started_at=_time(text_at(document, "trial_started_at")),
        ended_at=_time(text_at(document, "trial_ended_at")),
    )


def _harbor(path: Path, root: Path) -> Found:
    if path.name != "result.json":
        return
    document = _read(path, root)
    if "n_total_trials" in document:  # a job's
        return
    task, name = _named(document, path, "task_name", "trial_name")
    agent, verifier = object_at(document, "agent_info"), path.parent / "verifier"
    model = object_at(agent, "model_info")
    named = "/".join(filter(None, (text_at(model, "provider"), text_at(model, "name"))))
    given = object_at(object_at(document, "verifier_result"), "rewards")
    kept = _scalars(given)
    rewards = {
        name: each for name, each in kept.items() if isinstance(each, int | float)
    }
    odd = next(
        (safe_text(name, _MAX_TEXT) for name in given if name not in rewards), None
    )
    endings = tuple(
        Ending(text_at(raised, "exception_type"), text_at(raised, "exception_message"))
        for holder in (document, *objects_at(document, "step_results"))
        if (raised := object_at(holder, "exception_info"))
    )
    listed: list[dict[str, Any]] = []
    with suppress(ReportError):  # the tests have written it, and not harbor
        listed = objects_at(
            object_at(_read(verifier / "ctrf.json", root), "results"), "tests"
        )
    of_steps = sorted(
        path.parent.glob("steps/*/verifier/test-stdout.txt"), reverse=True
    )
    # A reward that was given after an error of the environment's is none to harbor.
    is_valid = rewards and document.get("reward_valid") is not False
    counted = [rewards["reward"]] if "reward" in rewards else [*rewards.values()]
    yield Trial(
        harness="harbor",
        task=task,
        system=_system(text_at(agent, "name"), named, path.parent.parent.name),
        name=name,
        identity=text_at(document, "id") or path.parent.parent.name,
        path=path,
        has_folder=True,
        passed=all(reward >= 1 for reward in counted) if is_valid else None,
        problem=""
        if odd is None
        else f"the reward {odd} is no number and does not count",
        label=endings[0].label if endings else None,
        tests={
            text_at(each, "name"): each.get("status") != "failed" for each in listed
        },
        bad_scores={
            each: f"it is {rewards[each]}" for each in rewards if rewards[each] < 1
        },
        endings=endings,
        log=_first_file(root, verifier / "test-stdout.txt", *of_steps),
        told={**_scalars(document), "rewards": rewards},
        started_at=_time(text_at(document, "started_at")),
        ended_at=_time(text_at(document, "finished_at")),
    )


def _swe_bench(path: Path, root: Path) -> Found:
    folder, instance = path.parent, path.parent.name
    if path.name.endswith(".json") and path.name.count(".") > 1:
        yield from _without_patch(path, root)
    report = folder / "report.json"
    # The log is there first, and the report where the tests came to their end.
    if path.name != "report.json" and (
        path.name != "run_instance.log" or report.exists()
    ):
        return
    document: dict[str, Any] = {}
    if path == report:
        document = object_at(_read(path, root), instance)
        if not document:
            raise refusal(path, f"it says nothing of {safe_text(instance)}", _RIGHT)
    said, output = (
        _end_of(folder / "run_instance.log", root),
        folder / "test_output.txt",
    )
    codes = re.findall(r">>>>> Test Exit Code:\s*(\d{1,3})\b", _end_of(output, root))
    groups, resolved, label = (
        object_at(document, "tests_status"),
        document.get("resolved"),
        "",
    )
    if document.get("patch_is_None") is True:
        label = "no_patch"
    elif ">>>>> Patch Apply Failed" in said:
        label = "patch_failed"
    elif re.search(r"Test timed out after \d+ seconds", said):
        label = "tests_timed_out"
    endings = (Ending(label),) if label else ()
    if not (label or document):
        endings = (_ending_by_exception(said, said),)
        label = endings[0].label
    yield Trial(
        harness="swe-bench",
        task=instance,
        system=folder.parent.name,
        name=folder.parent.parent.name,
        path=path,
        has_folder=True,
        passed=resolved if isinstance(resolved, bool) else None,
        problem=_problem("resolved", resolved),
        label=text_at(document, "infra_failure_reason") or label or None,
        tests={
            test: result == "success"
            for group in ("FAIL_TO_PASS", "PASS_TO_PASS")
            for result in ("success", "failure")
            for test in texts_at(object_at(groups, group), result)
        },
        only_told_tests_count=True,
        endings=endings,
        log=_first_file(root, output),
        exit_code=min(int(codes[-1]), 255) if codes else None,
        told=_scalars(document),
    )


def _without_patch(path: Path, root: Path) -> Found:
    """Yield the trials of a summary, MODEL.RUN.json, that have no folder: nothing was handed in."""
    model, _, run = path.stem.rpartition(".")
    document: dict[str, Any] = {}
    with suppress(ReportError):  # any other file may be there, too
        document = _read(path, root)
    for instance in texts_at(document, "empty_patch_ids"):
        yield Trial(
            harness="swe-bench",
            task=instance,
            system=model,
            name=run,
            path=path,
            passed=False,
            label="no_patch",
            endings=(Ending("no_patch"),),
        )


def _end_of(path: Path, root: Path) -> str:
    if not path.is_file():
        return ""
    try:
        with open(_inside(path, root), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
            return file.read(_END_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise refusal(path, why_unread(error), _RIGHT) from None


def _inspect(path: Path, root: Path) -> Found:
    if path.suffix == ".eval":
        yield from _inspect_archive(path, root)
    elif path.suffix == ".json":
        document = _read(path, root)
        if "eval" in document:
            for sample in objects_at(document, "samples") or _before_samples(document):
                yield _inspect_trial(document, sample, path)


def _before_samples(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what stands for the samples of an evaluation that failed before it had any."""
    error = object_at(document, "error")
    return [{**object_at(document, "stats"), "error": error}] if error else []


def _inspect_archive(path: Path, root: Path) -> Found:
    with suppress(ImportError):  # comes with Inspect; Python before 3.14 knows no zstd
        import_module("zipfile_zstd")
    if (why := why_no_file(_inside(path, root))) is not None:  # a pipe would never open
        raise refusal(path, why, _RIGHT)
    try:
        archive = ZipFile(path)
    except _DAMAGES as error:
        raise refusal(path, f"it is no log of Inspect ({error})", _RIGHT) from None
    with archive:
        names = archive.namelist()
        # An evaluation that was cut short has no header.
        head = "header.json" if "header.json" in names else "_journal/start.json"
        document = _member(archive, head, path)
        samples = [name for name in names if name.startswith("samples/")]
        for name in samples:
            try:
                yield _inspect_trial(document, _member(archive, name, path), path)
            except ReportError as error:
                yield error
        for whole in () if samples else _before_samples(document):
            yield _inspect_trial(document, whole, path)


def _member(archive: ZipFile, name: str, path: Path) -> dict[str, Any]:
    where = f"{path}: {name}"
    try:
        if archive.getinfo(name).file_size > MAX_REPORT_BYTES:
            raise refusal(where, "it is bigger than 64 MiB", _RIGHT)
        content = archive.read(name)
    except NotImplementedError:
        what = "it is compressed by zstd, which this Python can't read"
        right = "install zipfile-zstd, or write the log anew by `inspect log convert --to json`"
        raise refusal(where, what, right) from None
    except _DAMAGES as error:
        raise refusal(where, f"it can't be read ({error})", _RIGHT) from None
    return _parsed(content, where)


def _inspect_trial(
    document: dict[str, Any], sample: dict[str, Any], path: Path
) -> Trial:
    about = object_at(document, "eval")
    task, model = _named(about, path, "task", "model")
    run = text_at(about, "eval_id") or text_at(about, "run_id") or path.stem
    scores = dict(_inspect_scores(object_at(sample, "scores")))
    limit, raised = (
        text_at(object_at(sample, "limit"), "type"),
        object_at(sample, "error"),
    )
    message = text_at(raised, "message")
    endings = [Ending(limit)] if limit else []
    if raised:
        endings.append(_ending_by_exception(message, text_at(raised, "traceback")))
    return Trial(
        harness="inspect",
        task=f"{task}/{sample['id']}" if "id" in sample else task,
        system=_system(text_at(about, "solver"), model, ""),
        name=f"{run[:8]}-epoch-{sample['epoch']}" if "epoch" in sample else run[:8],
        identity=text_at(sample, "uuid") or run,
        path=path,
        passed=all(each.passed for each in scores.values()) if scores else None,
        label=endings[-1].label if endings else None,
        bad_scores={
            name: each.words for name, each in scores.items() if not each.passed
        },
        endings=tuple(endings),
        told={
            "scores": _scalars({name: each.value for name, each in scores.items()}),
            "limit": limit or None,
            "error": message or None,
        },
        started_at=_time(text_at(sample, "started_at")),
        ended_at=_time(text_at(sample, "completed_at")),
    )


def _inspect_scores(scores: dict[str, Any]) -> Iterator[tuple[str, _Score]]:
    """Yield what each scorer says; a dictionary of values is one score for each."""
    for scorer in scores:
        said = object_at(scores, scorer)
        values = object_at(said, "value") or {"": said.get("value")}
        for name, each in values.items():
            passed = each >= 1 if isinstance(each, int | float) else None
            if isinstance(each, str):
                passed = _SCORES.get(each.lower())
            if passed is not None:
                words = f"it is {each}\n{text_at(said, 'explanation')}".rstrip()
                yield (
                    f"{scorer}.{name}" if name else scorer,
                    _Score(each, passed, words),
                )


HARNESSES: Final[Mapping[str, Callable[[Path, Path], Found]]] = {
    "swe-bench": _swe_bench,
    "terminal-bench": _terminal_bench,
    "harbor": _harbor,
    "inspect": _inspect,
}
"""What yields the trials in one file, by the names of the harnesses."""
