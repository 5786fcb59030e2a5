"""Read a task class from its folder, or report everything that is wrong with its files."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.isolate.client import defines_grade
from pytest_failure_taxonomy.bench.isolate.environment import SET_FOR_RUBRICS
from pytest_failure_taxonomy.bench.load import cases
from pytest_failure_taxonomy.bench.load.folder import (
    MARKER_FILE,
    RUBRIC,
    RUBRICS,
    ClassFolder,
)
from pytest_failure_taxonomy.bench.report import RIGHT_REDUCERS, needed_runs
from pytest_failure_taxonomy.documents.content import read_text
from pytest_failure_taxonomy.documents.models import FileModel, Line, validate
from pytest_failure_taxonomy.documents.problems import (
    WRONG,
    Problems,
    Tree,
    WrongError,
    kind_of,
    not_a_string,
    quoted,
    right_words,
    shown,
)
from pytest_failure_taxonomy.documents.yaml_files import Form, read_tree
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy import packaged_table

_NAME: Final = re.compile(r"[^\W_][\w-]*")
_GRADE: Final = "write `def grade(case, output):`"
_ENUM: Final = (
    'write `class BreakdownKey(StrEnum):` and below it members, such as `OK = "ok"`'
)
_ONLY: Final = "write a docstring, imports from enum and one plain StrEnum alone"


def rubric_files(folder: ClassFolder) -> dict[str, str]:
    """Return the files of a task class's rubrics within its folder, by name in their order.

    Files of `rubrics/` whose names begin with `_` are modules that rubrics share.
    """
    names = folder.names_in(RUBRICS)
    files: dict[str, str] = {}
    for file in names or ():
        stem, suffix = os.path.splitext(os.path.basename(file))
        if suffix != ".py" or stem.startswith("_"):
            continue
        if not _NAME.fullmatch(stem):
            what = (
                f"{quoted(stem)} is no name of a rubric; write letters, digits, - and _"
            )
            folder.problems_of(file).add(None, what)
        files[stem] = file
    own = os.path.splitext(RUBRIC)[0]
    has_own = os.path.lexists(folder.path / RUBRIC)
    if has_own and own in files:
        what = (
            f"has the name of {RUBRIC}, which is a rubric, too; rename one of the two"
        )
        folder.problems_of(files[own]).add(None, what)
    if has_own or names is None:
        files[own] = RUBRIC
    elif not files and not folder.is_outside(RUBRICS):
        what = f"there is no rubric in it; write {RUBRICS}/NAME.py, or a {RUBRIC} beside it"
        folder.problems_of(RUBRICS).add(None, what)
    if len(files) == 1:
        return files
    for name, file in files.items():  # the breakdown has their scores
        banned = models.banned_part(name)
        if banned is not None:
            what = f"its name would be a breakdown key that holds {banned!r}"
            right = f"rename {models.marked_key(name)}, to judge.py for example"
            folder.problems_of(file).add(None, f"{what}; {right}")
    return dict(sorted(files.items()))


def check_rubric(folder: ClassFolder, name: str, *, may_be_script: bool) -> None:
    """Report what keeps a rubric from grading.

    Args:
        folder: The folder of the task class.
        name: The rubric's file within the folder.
        may_be_script: Whether the rubric may lack a `grade` because it reads stdin itself.
    """
    if folder.is_outside(name):
        return
    problems = folder.problems_of(name)
    right = f"{os.path.basename(name)} is Python in UTF-8 that says `def grade(case, output):`"
    tree = _parse(folder, name, right, 4 * 1024 * 1024)
    if tree is None:
        return
    grade = next(reversed(list(_definitions(tree))), None)
    if grade is None:
        # The parameters of one that is imported or assigned are unknown.
        if not may_be_script and not defines_grade(str(folder.path / name)):
            problems.add(None, f"has no function grade; {_GRADE}")
    else:
        arguments = grade.args
        positional = len(arguments.posonlyargs) + len(arguments.args)
        fits = positional - len(arguments.defaults) <= 2
        fits = fits and (positional >= 2 or arguments.vararg is not None)
        if not fits or None in arguments.kw_defaults:
            what = f"grade can't be called with a case and an output; {_GRADE}"
            problems.add(grade.lineno, what)


def _definitions(parent: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions `grade` of a module, including those in blocks, such as a `try`."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "grade":
                yield node
        elif not isinstance(node, ast.ClassDef | ast.expr):
            yield from _definitions(node)


def _read_enum(folder: ClassFolder) -> Iterator[tuple[str, int]]:
    """Yield the values of the one enumeration in the file of the keys, with their lines.

    Anything else than an enumeration of string literals is reported as a problem.
    """
    problems = folder.problems_of(_KEYS_PYTHON)
    right = f"{_KEYS_PYTHON} is Python in UTF-8 with one StrEnum"
    tree = _parse(folder, _KEYS_PYTHON, right, _MAX_BYTES)
    if tree is None:
        return
    before = len(problems)
    enumeration = None
    for statement in tree.body:
        match statement:
            case ast.ClassDef() if enumeration is None and _is_str_enum(statement):
                enumeration = statement
            case (
                ast.Expr(value=ast.Constant(value=str()))  # a docstring
                | ast.ImportFrom(module="enum" | "__future__", level=0)
                | ast.Import(names=[ast.alias(name="enum", asname=None)])
            ):
                pass
            case _:
                what = f"{_first_words(statement)} can't stand here; {_ONLY}"
                problems.add(statement.lineno, what)
    if enumeration is not None:
        yield from _members(enumeration, problems)
    elif len(problems) == before:
        problems.add(1, f"there is no StrEnum; {_ENUM}")


def _is_str_enum(statement: ast.ClassDef) -> bool:
    bases = [ast.unparse(base).removeprefix("enum.") for base in statement.bases]
    decorators = {ast.unparse(decorator) for decorator in statement.decorator_list}
    is_plain = decorators <= {"unique", "enum.unique"} and not statement.keywords
    return is_plain and bases in (["StrEnum"], ["str", "Enum"])


def _members(
    enumeration: ast.ClassDef, problems: Problems
) -> Iterator[tuple[str, int]]:
    lines: dict[str, int] = {}
    for statement in enumeration.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))
            ) if not name.startswith("_"):
                if name in lines:
                    what = f"the member {quoted(name)} stands in line {lines[name]} already"
                    problems.add(statement.lineno, f"{what}; give it once")
                else:
                    yield text, statement.lineno
                lines.setdefault(name, statement.lineno)
            case ast.Expr(value=ast.Constant(value=str())):  # a docstring
                pass
            case _:
                what = f"{_first_words(statement)} is no member with a text of its own"
                problems.add(statement.lineno, f'{what}; write NAME = "key"')


def _first_words(statement: ast.stmt) -> str:
    return quoted(ast.unparse(statement).partition("\n")[0])


def _parse(
    folder: ClassFolder, name: str, right: str, max_bytes: int
) -> ast.Module | None:
    """Return the syntax tree of a file, or `None` if it has problems."""
    problems = folder.problems_of(name)
    try:
        text = read_text(folder.path / name, problems, right=right, max_bytes=max_bytes)
        with warnings.catch_warnings():
            # An invalid escape sequence, of which Python only warns, is not a problem.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except BenchError:
        pass  # it is among the problems
    except SyntaxError as error:
        problems.add(error.lineno, f"not Python ({shown(error.msg)}); fix the syntax")
    except (ValueError, RecursionError, MemoryError) as error:
        why = shown(str(error)) or "nested too deep"
        problems.add(None, f"not Python ({why}); write it simpler")
    return None


_SETTINGS: Final = "bench.yaml"
_KEYS_YAML: Final = "breakdown_keys.yaml"
_KEYS_PYTHON: Final = "breakdown_keys.py"
_KEYS_EXAMPLE: Final = "write a list of keys, such as `- precision`, or [] for none"
_RANGE_EXAMPLE: Final = "write `- stars: {range: [1, 5]}`, or the key alone for 0 to 1"
_MOST_OF_A_KEY: Final = 1e9
_SUT: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_REPEAT: Final = 1_000
_MISSING: Final = packaged_table("wrong_values")["missing"]
_MAX_BYTES: Final = 1024 * 1024
_M = TypeVar("_M", bound=FileModel)


def check_name(text: str) -> str:
    """Return a text that can be a code or a key: printable, without blanks.

    Raises:
        WrongError: It is empty or too long, or has blanks or unprintable characters.
    """
    if not text:
        raise WrongError("is empty; give it a name, such as tests.failed")
    if not text.isprintable() or any(character.isspace() for character in text):
        raise WrongError(
            f"{quoted(text)} is no name; write printable characters without blanks,"
            " such as tests.failed"
        )
    if len(text) > cases.MAX_NAME:
        raise WrongError(
            f"{quoted(text)} is longer than {cases.MAX_NAME} characters; shorten it"
        )
    return text


# bench.yaml.


def _check_variable(name: str) -> str:
    if _VARIABLE.fullmatch(name) is None:
        raise WrongError(
            f"{quoted(name)} is no name of a variable; write letters, digits and _, such as"
            " ANTHROPIC_API_KEY"
        )
    if name.upper() in SET_FOR_RUBRICS:
        raise WrongError(f"{quoted(name)} is set for each rubric anyway; leave it out")
    return name


class _GateInFile(FileModel, models.GateSettings):
    @field_validator("decides")
    @classmethod
    def _check_what_it_decides_by(cls, given: bool, info: ValidationInfo) -> bool:  # noqa: FBT001
        # What can't be used itself is not in `data`.
        if given and [*info.data.values()] == [None, None]:
            raise WrongError(
                "has nothing to decide by; add lower_bound_95 or min_passed_cases"
            )
        return given


class _RetryInFile(FileModel, models.RetrySettings):
    most = _MAX_REPEAT


class _FieldsInFile(FileModel, models.CaseFields):
    """The keys below `fields`."""


class _WorkspaceInFile(FileModel, models.WorkspaceSettings):
    template: Line | None = None
    git: Line | None = None
    commit: Line | None = None


class _SettingsInFile(FileModel, models.BenchSettings):
    most = cases.MAX_NUMBER
    most_of = MappingProxyType({"repeat": _MAX_REPEAT})
    may_be_null = frozenset({"cluster"})

    sut_version: Line | None = None
    rubric_version: Line | None = None
    cluster: Line | None = None
    rubric_env: models.Listed[Annotated[str, AfterValidator(_check_variable)]] = ()
    retry: _RetryInFile | None = None
    gate: _GateInFile | None = None
    fields: _FieldsInFile = _FieldsInFile()
    workspace: Annotated[
        _WorkspaceInFile | None, BeforeValidator(models.as_workspace)
    ] = None

    @field_validator("reducers")
    @classmethod
    def _check_reducers(
        cls, given: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        repeat: int | None = info.data.get("repeat")  # `None`: it can't be used itself
        for name in given:
            try:
                needed = needed_runs(name)
            except ValueError:
                raise WrongError(
                    f"{quoted(name)} is no reducer; {RIGHT_REDUCERS}"
                ) from None
            if repeat is not None and needed > repeat:
                raise WrongError(
                    f"{quoted(name)} needs {needed} runs of a case, and repeat is {repeat};"
                    f" write repeat: {needed} or more"
                )
        if len(set(given)) < len(given):
            raise WrongError("names a reducer twice; name each once")
        return given

    @field_validator("sut")
    @classmethod
    def _check_sut(cls, given: str) -> str:
        if _SUT.fullmatch(given) is None:
            raise WrongError(
                f"{quoted(given)} names no callable; write it as package.module:callable"
            )
        return given


def read_settings(
    folder: ClassFolder, rubrics: Collection[str]
) -> tuple[models.BenchSettings, Tree | None]:
    """Return the settings of a task class, and the file's tree if these are its.

    If the file has problems, they are the defaults, but for what other files are read by.
    """
    if not folder.has(_SETTINGS):
        return models.BenchSettings(), None
    example = "write keys and values, such as `concurrency: 4`"
    right = "keys and values"
    tree = _read(folder, _SETTINGS, right, dict, example, or_empty=None, most=64 * 1024)
    if tree is None:
        return models.BenchSettings(), None  # nothing but comments is fine
    problems = folder.problems_of(_SETTINGS)
    settings = validate(
        _SettingsInFile, tree, problems, subject="retry", missing=_MISSING["retry"]
    )
    if settings is None:
        return _settings_for_reading(tree.value), None
    if settings.rubrics is not None:
        weights, part = settings.rubrics, tree.at("rubrics")
        for name in (each for each in weights if each not in rubrics):
            otherwise = f"the rubrics are {', '.join(rubrics)}"
            right = right_words(name, rubrics, otherwise=otherwise)
            problems.add(
                part.at(name).line,
                f"rubrics: there is no rubric {quoted(name)}; {right}",
            )
        missing = [name for name in rubrics if name not in weights]
        if missing:
            what = f"rubrics: {', '.join(missing)} has no weight"
            problems.add(
                part.line, f"{what}; give one, 0 for a rubric that decides nothing"
            )
        elif not any(weights.values()):
            problems.add(
                part.line, "rubrics: no weight is more than 0; give one that decides"
            )
    values = settings.model_dump(exclude_unset=True)
    return models.BenchSettings.model_validate(values), tree


def _settings_for_reading(values: dict[str, Any]) -> models.BenchSettings:
    """Return those by which rubric and cases are read, which must not be blamed for others."""
    is_fresh = values.get("rubric_isolation") == "fresh"
    fields = models.CaseFields()
    with suppress(ValidationError):
        fields = models.CaseFields.model_validate(values.get("fields", fields))
    isolation: Literal["fresh", "warm"] = "fresh" if is_fresh else "warm"
    return models.BenchSettings(rubric_isolation=isolation, fields=fields)


def _wrong_fields(
    settings: models.BenchSettings, fields: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the place of each name of a field that can't be used, and what is wrong."""
    for number, name in enumerate(settings.hidden):
        if name in ("id", settings.fields.id):
            what = f"{name!r} can't be hidden: the system is called by it; leave it out"
            yield ("hidden", number), what
        elif what := _why_no_field(name, fields):
            yield ("hidden", number), what
    named = {"cluster": [settings.cluster]}
    if settings.workspace is not None:
        workspace = settings.workspace
        named["workspace"] = [workspace.git_field, workspace.commit]
    for key, names in named.items():
        for name in filter(None, names):
            if what := _why_no_field(name, fields):
                yield (key,), what


def _check_workspaces(
    folder: ClassFolder,
    settings: models.BenchSettings,
    found: Iterable[models.BenchCase],
) -> None:
    """Report what no workspace can be made of: the class's template once, then those of cases."""
    workspace = settings.workspace
    if workspace is None:
        return
    of_class = models.BenchCase(case_id=_SETTINGS)
    for case in (of_class, *found) if workspace.git is None else found:
        if workspace.git is None and "workspace" not in case.fields and case.path:
            continue
        file = os.path.relpath(case.path, folder.path) if case.path else _SETTINGS
        try:
            place, _ = workspace.source_of(case)
            if workspace.git is None and not (folder.path / place).is_dir():
                raise WrongError(f"there is no folder {quoted(place)}; name one")
        except WrongError as error:
            what = f"{case.case_id}: {error}" if case.path else str(error)
            folder.problems_of(file).add(case.line, f"workspace: {what}")


def _hidden_names(settings: models.BenchSettings) -> tuple[str, ...]:
    """Return the hidden fields, and the other names that they have."""
    hidden = dict.fromkeys(settings.hidden)
    for pair in settings.fields.renamed.items():
        if not hidden.keys().isdisjoint(pair):
            hidden.update(dict.fromkeys(pair))
    return tuple(hidden)


def _why_no_field(name: str, fields: Collection[str]) -> str:
    if not fields or name in fields:
        return ""
    right = right_words(name, fields, otherwise="name a field of a case in cases/")
    return f"no case has a field {quoted(name)}; {right}"


# failure_modes.yaml.


def _check_description(text: str) -> str:
    if not text.strip():
        raise WrongError("is empty; say what the code means")
    return text


class ModeInFile(FileModel):
    """What a file says of a code."""

    severity: models.Severity
    description: Annotated[str, AfterValidator(_check_description)]


def read_failure_modes(folder: ClassFolder) -> dict[str, ModeInFile]:
    """Return the codes of a task class that can be used."""
    example = "write codes, such as `tests.failed: {severity: block, description: A test fails}`"
    found: dict[str, ModeInFile] = {}
    tree = None
    if not folder.is_outside(MARKER_FILE):
        right, or_empty = "a code in each line", ", or {} for none"
        tree = _read(folder, MARKER_FILE, right, dict, example, or_empty=or_empty)
    problems = folder.problems_of(MARKER_FILE)
    for code, part in tree.items() if tree is not None else ():
        try:
            check_name(code)
        except WrongError as error:
            problems.add(part.line, f"a code {error}")
        right = "write severity: and description: below it"
        mode = _read_part(ModeInFile, code, part, problems, _MISSING["code"], right)
        if mode is not None:
            found[code] = mode
        is_own = code in models.RUNNER_CODES and isinstance(part.value, dict)
        if is_own and part.value.get("severity") in ("warn", "info"):
            what = f"{quoted(code)} is the runner's own code; its severity is block"
            problems.add(part.at("severity").line, what)
    return found


def _read_part(
    model: type[_M],
    name: str,
    part: Tree,
    problems: Problems,
    missing: Mapping[str, str],
    right: str,
) -> _M | None:
    """Return what stands below a code or a key; `None` if it has problems."""
    if isinstance(part.value, dict):
        subject, prefix = quoted(name), f"{name}."
        return validate(
            model, part, problems, subject=subject, missing=missing, prefix=prefix
        )
    if part.value is not WRONG:
        problems.add(part.line, f"{quoted(name)} is {kind_of(part)}; {right}")
    return None


# breakdown_keys.yaml, or the same in Python.


def _check_range(given: tuple[float, ...]) -> tuple[float, ...]:
    if len(given) != 2 or not -_MOST_OF_A_KEY <= given[0] < given[1] <= _MOST_OF_A_KEY:
        raise WrongError(
            "is no range; write the least value and a greater one, such as [1, 5]"
        )
    return given


class _KeyInFile(FileModel):
    range: Annotated[models.Listed[float], AfterValidator(_check_range)]


def read_breakdown_keys(
    folder: ClassFolder, rubrics: Collection[str]
) -> tuple[frozenset[str], dict[str, tuple[float, float]]]:
    """Return the keys of a task class that can be used, and the ranges of those that have one.

    Args:
        folder: The folder of the task class.
        rubrics: The names of its rubrics, which are keys, too, if there are several.
    """
    reserved = frozenset(rubrics) if len(rubrics) > 1 else frozenset()
    if folder.is_outside(_KEYS_YAML) or folder.is_outside(_KEYS_PYTHON):
        return reserved, {}
    name = _KEYS_PYTHON if folder.has(_KEYS_PYTHON) else _KEYS_YAML
    problems = folder.problems_of(name)
    keys: list[tuple[str, int]] = []
    ranges: dict[str, tuple[float, float]] = {}
    if not folder.has(name):
        problems.add(None, f"there is no such file; {_KEYS_EXAMPLE}")
    elif name == _KEYS_YAML:
        for part in (
            _read(folder, _KEYS_YAML, "a list of keys", list, _KEYS_EXAMPLE) or ()
        ):
            if isinstance(part.value, str):
                keys.append((part.value, part.line))
            elif isinstance(part.value, dict) and len(part.value) == 1:
                ((key, given),) = part.items()
                keys.append((key, given.line))
                right = _RANGE_EXAMPLE
                below = _read_part(
                    _KeyInFile, key, given, problems, {"range": right}, right
                )
                if below is not None:
                    ranges[key] = (below.range[0], below.range[1])
            elif part.value is not WRONG:
                problems.add(part.line, f"a key {not_a_string(part)}")
    elif folder.has(_KEYS_YAML):
        problems.add(None, f"stands beside {_KEYS_YAML}; keep one of the two")
    else:
        keys = list(_read_enum(folder))
    return reserved.union(_check_keys(keys, reserved, problems)), ranges


def _check_keys(
    keys: Iterable[tuple[str, int]], reserved: frozenset[str], problems: Problems
) -> Iterable[str]:
    lines: dict[str, int] = {}
    for key, line in keys:
        try:
            check_name(key)
        except WrongError as error:
            problems.add(line, f"a key {error}")
            continue
        banned = models.banned_part(key)
        if banned is not None:
            held = shown(models.marked_key(key))
            what = f"the key {quoted(key)} holds {banned!r}, a model's opinion of itself ({held})"
            problems.add(line, f"{what}; name what the rubric measures")
        if key in reserved:
            what = f"the key {quoted(key)} is the name of a rubric, whose score has it"
            problems.add(line, f"{what}; give the key another name")
        if key in lines:
            what = f"the key {quoted(key)} stands in line {lines[key]} already; give it once"
            problems.add(line, what)
        lines.setdefault(key, line)
    return lines


def _read(
    folder: ClassFolder,
    name: str,
    right: str,
    root: type,
    example: str,
    *,
    or_empty: str | None = "",
    most: int = _MAX_BYTES,
) -> Tree | None:
    """Return the value of a file; `None` if it has none, or problems of a kind that end reading."""
    problems = folder.problems_of(name)
    path = folder.path / name
    form = Form(
        right=f"{name} is YAML in UTF-8 with {right}", max_bytes=most, is_fast=True
    )
    if_empty = None if or_empty is None else f"the file is empty; {example}{or_empty}"
    try:
        return read_tree(
            path, problems, form, root=(root,), example=example, if_empty=if_empty
        )
    except BenchError:  # it is among the problems
        return None


def load_task_class(path: str | os.PathLike[str]) -> models.TaskClass:
    """Read the folder of a task class; of its Python, only a `cases.py` is run.

    Args:
        path: Of the folder; docs/bench/task-class.md describes its content.

    Returns:
        The task class. It has the name of the real folder if the path is a link; its paths are
        absolute and keep the links of the given path.

    Raises:
        BenchError: The folder can't be used; the message has one line for each problem, sorted by
            file and line, as `FILE:LINE: what is wrong; what would be right`.
    """
    folder = ClassFolder(path)
    rubrics = rubric_files(folder)
    modes = read_failure_modes(folder)
    keys, ranges = read_breakdown_keys(folder, rubrics)
    settings, tree = read_settings(folder, rubrics)
    found, case_ids = cases.read_cases(folder, settings.fields)
    all_read = len(found) == len(case_ids)
    fields = (
        dict.fromkeys(name for case in found for name in case.fields)
        if all_read
        else ()
    )
    if tree is not None:
        for place, what in _wrong_fields(settings, fields):
            line = tree.at(*place).line
            folder.problems_of(_SETTINGS).add(line, f"{place[0]}: {what}")
    if settings.hidden:
        settings = settings.model_copy(update={"hidden": _hidden_names(settings)})
    for name in rubrics.values():
        check_rubric(folder, name, may_be_script=settings.rubric_isolation == "fresh")
    # If no case has the field, there is a problem already, for which no case is to blame.
    if settings.cluster is not None and settings.cluster in fields:
        found = list(cases.with_clusters(folder, found, settings.cluster))
    _check_workspaces(folder, settings, found)
    if settings.repeat > 1:
        runs = range(1, settings.repeat + 1)
        found = [case.as_repetition(number) for case in found for number in runs]
    oracle = cases.read_oracle(folder, case_ids)
    folder.raise_problems()
    return models.TaskClass(
        name=folder.name,
        breakdown_keys=keys,
        breakdown_ranges=ranges,
        failure_mode_taxonomy={code: mode.severity for code, mode in modes.items()},
        descriptions={code: mode.description for code, mode in modes.items()},
        cases=tuple(found),
        oracle=oracle,
        settings=settings,
        folder=folder.path,
        rubric=folder.path / RUBRIC if RUBRIC in rubrics.values() else None,
        rubrics={name: folder.path / file for name, file in rubrics.items()},
    )
