"""Find the trials in the files of agents' harnesses, with one small reader for each.

A reader yields trials, and errors for files that can't be read; it goes on with the
others. It looks for no trial below the folder of a trial: there an agent may have
written anything.
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
from typing import Final, NamedTuple
from zipfile import BadZipFile, ZipFile

from pytest_failure_taxonomy.documents.content import (
    read_input,
    refusal,
    why_no_file,
    why_unread,
)
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.logs.foreign import ForeignObject, Scalar, exception_of
from pytest_failure_taxonomy.logs.trials import Ending, Trial
from pytest_failure_taxonomy.report.build import MAX_REPORT_BYTES
from pytest_failure_taxonomy.text import safe_text

_RIGHT: Final = "give results as a harness has written them, of trials that have ended"
_END_BYTES: Final = 262_144
"""How much is read of the end of a log that is searched for a few phrases."""
_SCORES: Final[Mapping[str, bool]] = {
    "c": True,
    "yes": True,
    "true": True,
    "i": False,
    "p": False,
    "n": False,
    "no": False,
    "false": False,
}
"""What Inspect's scorers say in words: partial credit is no success."""
_MAX_TEXT: Final = 200
"""Characters of a harness's own field that is recorded: no task's instruction is."""
_MAX_NUMBER: Final = 1e15
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

Found = Iterator[Trial | ReportError]
Reader = Callable[[Path, Path], Found]
"""Yields the trials in a file; takes its path, and the folder that was given."""


def trials_in(harness: str, paths: Iterable[Path]) -> Found:
    """Yield the trials of a harness, each once, and an error for what can't be read.

    Args:
        harness: one of `HARNESSES`.
        paths: folders with the results of any number of runs, or files of results.
    """
    keys: set[bytes] = set()
    for path in paths:
        is_of_harness = False
        for trial in _read_trials(Path(os.path.abspath(path)), HARNESSES[harness]):
            is_of_harness = True
            if isinstance(trial, ReportError):
                yield trial
            elif trial.key not in keys:
                keys.add(trial.key)
                yield trial
                if trial.problem:
                    yield refusal(trial.path, trial.problem, _RIGHT)
        if not is_of_harness:
            what = f"it has no trial of {harness}"
            yield refusal(path, what, _right_harness(harness, path))


def _right_harness(harness: str, path: Path) -> str:
    """Return what to give instead of a folder without trials of a harness."""
    right = f"give a folder that {harness} has written"
    for other, read in sorted(HARNESSES.items()):
        trials = _read_trials(path, read)
        if other != harness and any(isinstance(trial, Trial) for trial in trials):
            right = f"it has some of {other}; give --from {other}"
    return right


def _read_trials(root: Path, read: Reader) -> Found:
    errors: list[OSError] = []
    for path, folders in _walk_files(root, errors):
        try:
            for trial in read(path, root):
                if isinstance(trial, Trial) and trial.has_folder:
                    folders.clear()  # what is below an agent may have written
                yield trial
        except ReportError as error:
            yield error
    for unread in errors:
        yield refusal(unread.filename, why_unread(unread), _RIGHT)


def _walk_files(root: Path, errors: list[OSError]) -> Iterator[tuple[Path, list[str]]]:
    """Yield each file, and the folders beside it; clear their list to go no deeper."""
    if root.is_file():
        yield root, []
        return
    for folder, folders, names in os.walk(root, onerror=errors.append):
        folders.sort()
        for name in sorted(names):
            yield Path(folder, name), folders


def _check_link(path: Path, root: Path) -> Path:
    """Return a path that may be read; an agent's link must not show what is elsewhere.

    Raises:
        ReportError: it is a link that leads out of what was given.
    """
    around = root if root.is_dir() else root.parent
    if path.is_symlink() and not path.resolve().is_relative_to(around.resolve()):
        what = f"it is a link that leads out of {safe_text(str(around))}"
        raise refusal(path, what, "give the folder that holds both")
    return path


def _first_file(root: Path, *paths: Path) -> Path | None:
    for path in paths:
        if path.is_file():
            return _check_link(path, root)
    return None


def _read(path: Path, root: Path) -> ForeignObject:
    """Return the object in a file of JSON that Python has written.

    Raises:
        ReportError: it can't be read, or is no JSON.
    """
    return _parse(read_input(_check_link(path, root), _RIGHT), path)


def _read_optional(path: Path, root: Path) -> ForeignObject:
    """Return the object in a file that need not be there, or be of the harness."""
    with suppress(ReportError):
        return _read(path, root)
    return ForeignObject()


def _parse(content: bytes, where: Path | str) -> ForeignObject:
    try:
        # NaN stands for no score.
        return ForeignObject(json.loads(content, parse_constant=lambda _: None))
    except (ValueError, RecursionError) as error:
        raise refusal(where, f"it is no JSON ({error})", _RIGHT) from None


def _require_texts(
    document: ForeignObject, where: Path, first: str, second: str
) -> tuple[str, str]:
    """Return two texts that results must have; a `ReportError` if they don't."""
    texts = document.text(first), document.text(second)
    if not all(texts):
        raise refusal(where, f"it has no texts {first} and {second}", _RIGHT)
    return texts


def _scalars(holder: ForeignObject) -> dict[str, Scalar]:
    """Return the plain values of an object of the harness's, which a report has."""
    scalars: dict[str, Scalar] = {}
    for name in holder:
        match holder.field(name):
            case None:
                scalars[name] = None
            case str(text) if len(text) <= _MAX_TEXT:
                scalars[name] = text
            case int(number) | float(number) if abs(number) < _MAX_NUMBER:
                scalars[name] = number
    return scalars


def _problem(document: ForeignObject, name: str) -> str:
    """Return why the result in a field does not count; empty if nothing is wrong."""
    if document.field(name) is None or document.boolean(name) is not None:
        return ""
    return f"{name} is neither true nor false and does not count"


def _read_time(holder: ForeignObject, name: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(holder.text(name))
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC)
    return None


def _name_system(agent: str, model: str, otherwise: str) -> str:
    if agent and model:
        return f"{agent} ({model})"
    return agent or model or otherwise


def _ending_by_exception(detail: str, traceback: str) -> Ending:
    """Return the ending by the exception that is named last."""
    for line in reversed(traceback.splitlines() or detail.splitlines()):
        if raised := exception_of(line, ""):
            return Ending(raised.type, detail)
    return Ending("error", detail)


def _terminal_bench(path: Path, root: Path) -> Found:
    if not path.name.endswith("results.json"):
        return
    document = _read(path, root)
    if isinstance(document.field("results"), list):
        # A run may have been kept without the folders of its trials.
        for entry in document.children("results"):
            try:
                trial = _terminal_bench_trial(entry, path, path.parent, root)
            except ReportError as error:
                yield error
                continue
            own = path.parent / trial.task / trial.name / "results.json"
            if path == root or not os.path.isfile(own):
                yield trial
    elif path.name == "results.json":
        yield _terminal_bench_trial(document, path, path.parent.parent.parent, root)


def _terminal_bench_trial(
    document: ForeignObject, path: Path, run: Path, root: Path
) -> Trial:
    task, name = _require_texts(document, path, "task_id", "trial_name")
    # The name of the folder tells which run it was, too.
    about = _read_optional(run / "run_metadata.json", run)
    agent, model = about.text("agent_name"), about.text("model_name")
    label = document.text("failure_mode")
    if label in ("unset", "none"):
        label = ""
    endings = [Ending(label)] if label not in ("", "unknown", "parse_error") else []
    results = document.child("parser_results")
    folder = path.parent
    has_folder = folder != run
    log = None
    if has_folder:
        first, second = folder / "sessions/tests.log", folder / "panes/post-test.txt"
        log = _first_file(root, first, second)
    return Trial(
        harness="terminal-bench",
        task=task,
        system=_name_system(agent, model, run.name),
        name=name,
        identity=document.text("id") or document.text("uuid") or run.name,
        path=path,
        passed=document.boolean("is_resolved"),
        problem=_problem(document, "is_resolved"),
        label=label or None,
        tests={test: results.field(test) == "passed" for test in results},
        endings=tuple(endings),
        has_folder=has_folder,
        log=log,
        own_fields=_scalars(document),
        started_at=_read_time(document, "trial_started_at"),
        ended_at=_read_time(document, "trial_ended_at"),
    )


def _harbor(path: Path, root: Path) -> Found:
    if path.name != "result.json":
        return
    document = _read(path, root)
    if "n_total_trials" in document:  # a job's
        return
    task, name = _require_texts(document, path, "task_name", "trial_name")
    folder = path.parent
    job = folder.parent.name
    verifier = folder / "verifier"
    agent = document.child("agent_info")
    model = agent.child("model_info")
    model_names = filter(None, (model.text("provider"), model.text("name")))
    rewards, problem = _harbor_rewards(document)
    bad_scores = {
        name: f"it is {reward}" for name, reward in rewards.items() if reward < 1
    }
    passed = None
    # A reward that was given after an error of the environment's is none to harbor.
    if rewards and document.field("reward_valid") is not False:
        passed = rewards.get("reward", min(rewards.values())) >= 1
    endings = []
    for holder in (document, *document.children("step_results")):
        if raised := holder.child("exception_info"):
            label = raised.text("exception_type")
            endings.append(Ending(label, raised.text("exception_message")))
    # The tests have written it, and not harbor.
    ctrf = _read_optional(verifier / "ctrf.json", root).child("results")
    tests = {
        test.text("name"): test.field("status") != "failed"
        for test in ctrf.children("tests")
    }
    step_logs = folder.glob("steps/*/verifier/test-stdout.txt")
    logs = [verifier / "test-stdout.txt", *sorted(step_logs, reverse=True)]
    yield Trial(
        harness="harbor",
        task=task,
        system=_name_system(agent.text("name"), "/".join(model_names), job),
        name=name,
        identity=document.text("id") or job,
        path=path,
        has_folder=True,
        passed=passed,
        problem=problem,
        label=endings[0].label if endings else None,
        tests=tests,
        bad_scores=bad_scores,
        endings=tuple(endings),
        log=_first_file(root, *logs),
        own_fields={**_scalars(document), "rewards": rewards},
        started_at=_read_time(document, "started_at"),
        ended_at=_read_time(document, "finished_at"),
    )


def _harbor_rewards(document: ForeignObject) -> tuple[dict[str, float], str]:
    """Return the rewards that count, by name, and why another one does not."""
    fields = document.child("verifier_result").child("rewards")
    rewards, problem = {}, ""
    scalars = _scalars(fields)
    for name in fields:
        reward = scalars.get(name)
        if isinstance(reward, int | float):
            rewards[name] = reward
        elif not problem:
            words = safe_text(name, _MAX_TEXT)
            problem = f"the reward {words} is no number and does not count"
    return rewards, problem


def _swe_bench(path: Path, root: Path) -> Found:
    folder = path.parent
    instance = folder.name
    if path.name.endswith(".json") and path.name.count(".") > 1:
        yield from _trials_without_patch(path, root)
    report = folder / "report.json"
    # The log is there first, and the report where the tests came to their end.
    is_unreported = path.name == "run_instance.log" and not report.exists()
    if path != report and not is_unreported:
        return
    document = ForeignObject()
    if path == report:
        document = _read(path, root).child(instance)
        if not document:
            raise refusal(path, f"it says nothing of {safe_text(instance)}", _RIGHT)
    log_end = _read_end(folder / "run_instance.log", root)
    output = folder / "test_output.txt"
    output_end = _read_end(output, root)
    codes = re.findall(r">>>>> Test Exit Code:\s*(\d{1,3})\b", output_end)
    endings = []
    if document.field("patch_is_None") is True:
        endings.append(Ending("no_patch"))
    elif ">>>>> Patch Apply Failed" in log_end:
        endings.append(Ending("patch_failed"))
    elif re.search(r"Test timed out after \d+ seconds", log_end):
        endings.append(Ending("tests_timed_out"))
    elif not document:
        endings.append(_ending_by_exception(log_end, log_end))
    label = document.text("infra_failure_reason")
    if endings and not label:
        label = endings[0].label
    yield Trial(
        harness="swe-bench",
        task=instance,
        system=folder.parent.name,
        name=folder.parent.parent.name,
        path=path,
        has_folder=True,
        passed=document.boolean("resolved"),
        problem=_problem(document, "resolved"),
        label=label or None,
        tests=_swe_bench_tests(document.child("tests_status")),
        only_listed_tests_count=True,
        endings=tuple(endings),
        log=_first_file(root, output),
        exit_code=min(int(codes[-1]), 255) if codes else None,
        own_fields=_scalars(document),
    )


def _swe_bench_tests(status: ForeignObject) -> dict[str, bool]:
    """Return whether each test that counts has passed."""
    tests: dict[str, bool] = {}
    for name in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        group = status.child(name)
        tests |= dict.fromkeys(group.texts("success"), True)
        tests |= dict.fromkeys(group.texts("failure"), False)
    return tests


def _trials_without_patch(path: Path, root: Path) -> Found:
    """Yield the trials of a summary, MODEL.RUN.json, that have no patch nor folder."""
    model, _, run = path.stem.rpartition(".")
    document = _read_optional(path, root)  # any other file may be there, too
    for instance in document.texts("empty_patch_ids"):
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


def _read_end(path: Path, root: Path) -> str:
    if not path.is_file():
        return ""
    try:
        with open(_check_link(path, root), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _END_BYTES))
            return file.read(_END_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise refusal(path, why_unread(error), _RIGHT) from None


def _inspect(path: Path, root: Path) -> Found:
    if path.suffix == ".eval":
        yield from _inspect_archive(path, root)
    elif path.suffix == ".json":
        document = _read(path, root)
        if "eval" in document:
            samples = document.children("samples")
            for sample in samples:
                yield _inspect_trial(document, sample, sample.child("error"), path)
            if not samples:
                yield from _inspect_failure(document, path)


def _inspect_failure(document: ForeignObject, path: Path) -> Found:
    """Yield an evaluation that failed before it had any samples."""
    if error := document.child("error"):
        yield _inspect_trial(document, document.child("stats"), error, path)


def _inspect_archive(path: Path, root: Path) -> Found:
    with suppress(ImportError):  # comes with Inspect; Python before 3.14 knows no zstd
        import_module("zipfile_zstd")
    if why := why_no_file(_check_link(path, root)):  # a pipe would never open
        raise refusal(path, why, _RIGHT)
    try:
        archive = ZipFile(path)
    except _DAMAGES as error:
        raise refusal(path, f"it is no log of Inspect ({error})", _RIGHT) from None
    with archive:
        names = archive.namelist()
        # An evaluation that was cut short has no header.
        head = "header.json" if "header.json" in names else "_journal/start.json"
        document = _read_member(archive, head, path)
        samples = [name for name in names if name.startswith("samples/")]
        for name in samples:
            try:
                sample = _read_member(archive, name, path)
                yield _inspect_trial(document, sample, sample.child("error"), path)
            except ReportError as error:
                yield error
        if not samples:
            yield from _inspect_failure(document, path)


def _read_member(archive: ZipFile, name: str, path: Path) -> ForeignObject:
    where = f"{path}: {name}"
    try:
        if archive.getinfo(name).file_size > MAX_REPORT_BYTES:
            raise refusal(where, "it is bigger than 64 MiB", _RIGHT)
        content = archive.read(name)
    except NotImplementedError:
        what = "it is compressed by zstd, which this Python can't read"
        command = "`inspect log convert --to json`"
        right = f"install zipfile-zstd, or write the log anew by {command}"
        raise refusal(where, what, right) from None
    except _DAMAGES as error:
        raise refusal(where, f"it can't be read ({error})", _RIGHT) from None
    return _parse(content, where)


def _inspect_trial(
    document: ForeignObject, sample: ForeignObject, raised: ForeignObject, path: Path
) -> Trial:
    about = document.child("eval")
    task, model = _require_texts(about, path, "task", "model")
    run = about.text("eval_id") or about.text("run_id") or path.stem
    name = run[:8]
    if "epoch" in sample:
        name += f"-epoch-{sample.field('epoch')}"
    if "id" in sample:
        task += f"/{sample.field('id')}"
    scores = list(_inspect_scores(sample.child("scores")))
    limit = sample.child("limit").text("type")
    message = raised.text("message")
    endings = [Ending(limit)] if limit else []
    # An error says more than the limit that it may come from.
    if raised:
        endings.append(_ending_by_exception(message, raised.text("traceback")))
    own_scores = ForeignObject({score.name: score.value for score in scores})
    return Trial(
        harness="inspect",
        task=task,
        system=_name_system(about.text("solver"), model, ""),
        name=name,
        identity=sample.text("uuid") or run,
        path=path,
        passed=all(score.passed for score in scores) if scores else None,
        label=endings[-1].label if endings else None,
        bad_scores={score.name: score.words for score in scores if not score.passed},
        endings=tuple(endings),
        own_fields={
            "scores": _scalars(own_scores),
            "limit": limit or None,
            "error": message or None,
        },
        started_at=_read_time(sample, "started_at"),
        ended_at=_read_time(sample, "completed_at"),
    )


class _Score(NamedTuple):
    name: str
    value: object
    passed: bool
    words: str


def _inspect_scores(scores: ForeignObject) -> Iterator[_Score]:
    """Yield what each scorer says; a dictionary of values is one score for each."""
    for scorer in scores:
        score = scores.child(scorer)
        values = score.child("value")
        if not values:
            values = ForeignObject({"": score.field("value")})
        for name in values:
            value = values.field(name)
            passed = None
            if isinstance(value, int | float):
                passed = value >= 1
            elif isinstance(value, str):
                passed = _SCORES.get(value.lower())
            if passed is not None:
                whole_name = f"{scorer}.{name}" if name else scorer
                words = f"it is {value}\n{score.text('explanation')}".rstrip()
                yield _Score(whole_name, value, passed, words)


HARNESSES: Final[Mapping[str, Reader]] = {
    "swe-bench": _swe_bench,
    "terminal-bench": _terminal_bench,
    "harbor": _harbor,
    "inspect": _inspect,
}
"""What yields the trials in one file, by the names of the harnesses."""
