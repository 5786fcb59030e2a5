"""Write `taxonomy/data/bases.toml`: the base classes of exceptions, which no traceback prints.

    python -m tests.helpers.exception_bases PACKAGE…

Run it where the packages are installed. Of the standard library and of these packages it
takes the exceptions that are derived from one that our tables name, or from one of Python's
own besides `Exception`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parents[2] / "src/pytest_failure_taxonomy/taxonomy/data"
FILE: Final = DATA / "bases.toml"

_HEAD: Final = """\
# The direct base classes of exceptions by their dotted names, as a traceback prints them:
# it shows no bases, and rows of other tables are about a class and what is derived from it.
# `Exception` and `object` are left out. Made by `python -m tests.helpers.exception_bases`
# from the packages themselves; `tests/unit/logs/test_exception_bases.py` compares them.

[bases]
"""
_STANDARD: Final = (
    *("asyncio", "binascii", "bdb", "concurrent.futures", "configparser", "ctypes"),
    *("email.errors", "ftplib", "getopt", "http.client", "imaplib", "json", "locale"),
    *("lzma", "multiprocessing", "pickle", "poplib", "queue", "shutil", "smtplib"),
    *("socket", "sqlite3", "ssl", "struct", "subprocess", "tarfile", "telnetlib"),
    *(
        "tomllib",
        "unittest",
        "urllib.error",
        "xml.etree.ElementTree",
        "zipfile",
        "zlib",
    ),
    *("zoneinfo",),
)
_MODULES: Final = re.compile(r"(?:.*\.)?_?(?:exc|exceptions?|errors?|err|error_codes)")
"""Names of the modules in which packages define their exceptions."""
_PLAIN: Final = (Exception, BaseException, object)
_OF_PYTHON: Final = (
    *(AssertionError, BaseExceptionGroup, ImportError, KeyError, MemoryError),
    *(OSError, SyntaxError, SystemExit, UnicodeError, Warning),
)
"""Classes of Python's own that rows of our tables are about."""
_KNOWN_BY_MODULE: Final = (
    "psycopg.errors.",
    "psycopg2.errors.",
    "psycopg2.errorcodes.",
)
"""Modules with hundreds of classes, which the tables name as a whole."""


def load_modules(packages: list[str]) -> None:
    """Import the standard library's modules, the packages, and where these have exceptions."""
    warnings.simplefilter("ignore")
    for name in (*_STANDARD, *packages):
        with suppress(Exception):
            package = importlib.import_module(name)
            paths = getattr(package, "__path__", ())
            for found in pkgutil.walk_packages(
                paths, f"{name}.", onerror=lambda _: None
            ):
                if _MODULES.fullmatch(found.name):
                    with suppress(Exception):
                        importlib.import_module(found.name)


def exceptions_of(packages: list[str]) -> Iterator[type[BaseException]]:
    """Yield the loaded classes of exceptions that are from these packages."""
    wanted = {name.partition(".")[0] for name in (*_STANDARD, *packages)}
    wanted |= {f"_{name}" for name in wanted}
    waiting: list[type[BaseException]] = [BaseException]
    seen: set[type] = set()
    while waiting:
        for kind in type.__subclasses__(waiting.pop()):
            if kind not in seen:
                seen.add(kind)
                waiting.append(kind)
                if kind.__module__.partition(".")[0] in wanted:
                    yield kind


def name_of(kind: type) -> str:
    """Return a class's name as a traceback prints it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def names_in_tables() -> set[str]:
    """Return the dotted names of exceptions that our tables are about."""
    text = (DATA / "diagnoses.toml").read_text("utf-8")
    names = set(re.findall(r'"((?!builtins\.)(?:\w+\.)+\w+)"', text))
    libraries = tomllib.loads((DATA / "libraries.toml").read_text("utf-8"))
    for module, kinds in libraries["exceptions"].items():
        for types in kinds.values():
            names |= {f"{module}.{name}" for name in types}
    return names


def rows_of(packages: list[str]) -> dict[str, list[str]]:
    """Return the direct bases of each class that matters, by name."""
    load_modules(packages)
    known = names_in_tables()
    rows = {}
    for kind in exceptions_of(packages):
        ancestors = [base for base in kind.__mro__[1:] if base not in _PLAIN]
        matters = issubclass(kind, _OF_PYTHON) or any(
            name_of(base) in known for base in ancestors
        )
        name = name_of(kind)
        if name.startswith(_KNOWN_BY_MODULE) or "[" in name or "<locals>" in name:
            continue
        if matters:
            bases = [base for base in kind.__bases__ if base not in _PLAIN]
            rows[name] = [name_of(base) for base in bases]
    return dict(sorted(rows.items()))


def main(packages: list[str]) -> None:
    """Write the file anew."""
    lines = []
    for name, bases in rows_of(packages).items():
        quoted = ", ".join(f'"{base}"' for base in bases)
        lines.append(f'"{name}" = [{quoted}]\n')
    FILE.write_text(_HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
