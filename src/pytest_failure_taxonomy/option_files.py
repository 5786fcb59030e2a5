"""The files that options name, and the rule that no two options name one file.

What one of them writes would destroy what the other one writes or reads. So a run with such options
is refused before it writes anything, whatever the spelling of the paths.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pytest_failure_taxonomy.options import (
    BENCH_OPTIONS,
    KNOWN_BY_HISTORY,
    OPTIONS,
    typed_name,
)

FOLDER: Final = ".failure-taxonomy"
"""Of the history by default, below the root directory; no other option may name a file in it."""
NAME: Final = "history.db"
VARIABLE: Final = "FAILURE_TAXONOMY_HISTORY"
SIDE_FILES: Final = ("-journal", "-wal", "-shm")
"""What SQLite adds to a database's name for the files that it makes beside it."""
STORAGE: Final = ".bench"
"""The folder of kept runs by default, below the root directory."""
RUN_SUFFIX: Final = ".jsonl"
"""Of a kept run's file."""
LATEST: Final = "latest"
"""Names the latest kept run."""

CONNECTION_STRING: Final = re.compile(
    r"\s*(?:host(?:addr)?|port|dbname|user|pass(?:word|file)|service|ssl\w+|options)\s*=",
    re.IGNORECASE,
)
"""A database in libpq's form, which may hold a password: it is refused, and never quoted."""
NO_CONNECTION_STRING: Final = (
    "it is a connection string of libpq; give an SQLAlchemy URL, such as "
    "postgresql://user@host/database"
)

_REPORT: Final = "failure_taxonomy_report"
_HISTORY: Final = "failure_taxonomy_history"
_BASELINE: Final = "bench_baseline"
_STORAGE: Final = "bench_storage"
_FLAGS: Final = {
    option.dest: option.names for option in (*OPTIONS.values(), *BENCH_OPTIONS.values())
}
_OURS: Final = [
    option.dest
    for option in OPTIONS.values()
    if option.type == "path" and option.dest != _REPORT
]
_OF_BENCHES: Final = ("bench_json", _BASELINE, _STORAGE)
_NO_PATHS: Final = ("", "true", "yes", "on", "1", "false", "no", "off", "0")
"""Values of the history's option and ini value that name no file."""
_OTHERS: Final = {
    "xmlpath": "--junitxml",
    "report_log": "--report-log",
    "json_report_file": "--json-report-file",
    "htmlpath": "--html",
    "log_file": "--log-file",
    "debug": "--debug",
}
"""Options of pytest and of well-known plugins that write a file, by their names in the config."""
_WRITES: Final = (
    _REPORT,
    "failure_taxonomy_html",
    "failure_taxonomy_junit",
    "bench_json",
)
_DATABASE: Final = b"SQLite format 3\0"
_OF_GITHUB: Final = ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")


class Given(NamedTuple):
    """What is given of an option, by its flag or else by its ini value."""

    value: Any
    """`None` for nothing."""
    by: str
    """The name of the flag as it was typed, or of the ini value."""
    base: Path
    """What a path is relative to."""


class _NamedFile(NamedTuple):
    by: str
    """The option, or what else names the file."""
    path: Path
    name: str = ""
    """The option's name in pytest's namespace; empty if it is not ours."""

    @property
    def real(self) -> Path:
        """The path without links."""
        return Path(os.path.realpath(self.path))


def has_password(url: str) -> bool:
    """Tell whether a URL has a password, which must not be written down."""
    from urllib.parse import parse_qsl, urlsplit  # rarely needed

    try:
        parts = urlsplit(url)
        names = [
            name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)
        ]
        is_in_query = any(
            word in name for name in names for word in ("pass", "secret", "token")
        )
        return "://" in url and (parts.password is not None or is_in_query)
    except ValueError:
        return True


def given(config: Any, name: str, ini: Any) -> Given:
    """Return the value of the option with this name in pytest's namespace."""
    flags = _FLAGS.get(name) or (_OTHERS[name],)
    value = getattr(config.known_args_namespace, name, None)
    if value is not None and value is not False:
        by = typed_name(config, flags)
        return Given(value, by, config.invocation_params.dir)
    value, base = chosen(config, None, ini)
    by = flags[-1] if value is None else f"ini value {name}"
    return Given(value, by, base)


def chosen(config: Any, option: Any, ini: Any) -> tuple[Any, Path]:
    """Return the value of an option, else its ini value, and what a path in it is relative to."""
    if option is None and ini:
        if config.inipath is None:
            return ini, config.rootpath
        return ini, config.inipath.parent
    return option, config.invocation_params.dir


def absolute(base: Path, path: str) -> Path:
    """Return the path that a user means. A link is kept, because it is refused later."""
    expanded = os.path.expanduser(os.path.expandvars(path))
    return Path(os.path.abspath(base / expanded))


def refused_files(config: Any, report: Path | None = None) -> list[str]:
    """Return a problem for each two options that name one file, and for each that names our own.

    Two options of other plugins are not compared.

    Args:
        config: pytest's; its options and ini values are known.
        report: where the report of the run goes; `None` if it has none.
    """
    files = list(_named_files(config, report))
    keys = [_identity(file.path) for file in files]
    same: dict[tuple[str, str], Path] = {}
    pairs = combinations(zip(files, keys, strict=True), 2)
    for (first, key), (second, other_key) in pairs:
        is_ours = first.name or second.name
        if is_ours and key is not None and key == other_key:
            same[first.by, second.by] = second.path
    problems = [
        f"{first} and {second} both name {path}; give each its own file"
        for (first, second), path in same.items()
    ]
    record = ""
    if report is not None:
        folder = os.path.realpath(report.parent)
        record = f"{folder}{os.sep}.{report.name}."
    history = os.path.realpath(config.rootpath / FOLDER)
    storages = [file.real for file in files if file.name == _STORAGE]
    for file in files:
        real, name = file.real, file.name
        is_kept_run = real.suffix == RUN_SUFFIX and real.parent in storages
        if record and str(real).startswith(record):
            what = "a name of the run's own record"
        elif name not in ("", _HISTORY) and real.is_relative_to(history):
            what = "in the folder of the history"
        elif name in _WRITES and _is_database(real):
            what = "a database"
        elif is_kept_run and name != _BASELINE:
            what = "in the folder of kept runs"
        else:
            continue
        problems.append(f"{file.by}: {file.path} is {what}; give another file")
    return problems


def _named_files(config: Any, report: Path | None) -> Iterator[_NamedFile]:
    """Yield the files that options name, to write or to read them."""
    ours: list[str] = []
    if report is not None:
        ours += _OURS
        by = _path_given(config, _REPORT).by
        yield _NamedFile(by, report, _REPORT)
        by, paths = _files_of_history(config)
        for path in paths:
            yield _NamedFile(by, path, _HISTORY)
        for variable in filter(os.environ.get, _OF_GITHUB):
            path = Path(os.environ[variable])
            yield _NamedFile(variable, path.absolute())
    if hasattr(config.known_args_namespace, "bench_json"):
        ours += _OF_BENCHES
    for name in (*ours, *_OTHERS):
        text, by, base = _path_given(config, name)
        if name == _STORAGE and not text:
            text = STORAGE
            base = config.rootpath
        is_history = name == OPTIONS["known"].dest and text == KNOWN_BY_HISTORY
        if text and not is_history:
            own_name = name if name in ours else ""
            yield _NamedFile(by, absolute(base, text), own_name)
    yield from _files_of_coverage(config)
    if config.inipath is not None:
        yield _NamedFile("the configuration file", config.inipath)


def _files_of_coverage(config: Any) -> Iterator[_NamedFile]:
    """Yield the files that pytest-cov's option names."""
    reports = getattr(config.known_args_namespace, "cov_report", None)
    if isinstance(reports, dict):
        for text in reports.values():
            if isinstance(text, str):
                path = absolute(config.invocation_params.dir, text)
                yield _NamedFile("--cov-report", path)


def _files_of_history(config: Any) -> tuple[str, list[Path]]:
    """Return what names an SQLite database, and its files, even if this run does not use it."""
    text, by, base = _path_given(config, _HISTORY)
    if text.lower() in _NO_PATHS:
        default = config.rootpath / FOLDER / NAME
        text = os.environ.get(VARIABLE) or str(default)
    name = sqlite_file(text)
    if not name:
        return by, []
    endings = ("", *SIDE_FILES)
    paths = [absolute(base, name + ending) for ending in endings]
    plain = unquote(name)
    if plain != name:  # a URL may have its file in percent codes
        paths += [absolute(base, plain + ending) for ending in endings]
    return by, paths


def _path_given(config: Any, name: str) -> Given:
    """Return the value of an option that names a file; an empty text if it is no path."""
    ini = None
    # Its error is shown elsewhere, or its plugin is not there.
    with suppress(Exception):
        ini = config.getini(name)
    option = given(config, name, ini)
    text = option.value
    if isinstance(text, str) and text.strip() and "\0" not in text:
        return option
    return option._replace(value="")


def _is_database(path: Path) -> bool:
    if not os.path.isfile(path):  # a pipe would wait
        return False
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE
    return False


def sqlite_file(url: str) -> str:
    """Return the file that the URL or the path of a database names; empty if it names none."""
    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return url
    if not scheme.startswith("sqlite"):
        return ""
    path = rest.partition("/")[2]
    name = path.partition("?")[0]
    if "file:" in name:
        name = name.removeprefix("file:").removeprefix("//")
        return unquote(name)
    return name


def _identity(path: Path) -> tuple[object, ...] | None:
    """Return what all spellings of a path have in common; `None` for a device and its like."""
    existing = Path(os.path.realpath(path))
    missing: list[str] = []
    while not os.path.exists(existing):
        missing.append(existing.name)
        existing = existing.parent
    status = os.stat(existing)
    mode = status.st_mode
    is_file = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    if not missing and not is_file:
        return None
    swapped = str(existing).swapcase()
    # The file system may ignore case.
    if os.path.exists(swapped) and os.path.samefile(swapped, existing):
        missing = [name.casefold() for name in missing]
    return status.st_dev, status.st_ino, *missing
