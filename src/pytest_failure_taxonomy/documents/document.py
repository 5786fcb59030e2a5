"""Read a YAML file as nodes that know their lines, and refuse what no such file needs."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import yaml

from pytest_failure_taxonomy.documents.composing import TooDeepError, TooManyError, compose
from pytest_failure_taxonomy.documents.problems import Problems, quoted, shown
from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.taxonomy.values import value

_SMALL: Final = 64 * 1024


@value
class Form:
    """What a sort of file may be."""

    right: str
    """What would be right, in words, where a file is none of this sort at all."""
    max_bytes: int = _SMALL
    """Room for all that one needs; YAML takes its time for what is bigger."""
    takes_aliases: bool = False
    """References to anchors are followed, as far as they don't multiply without end."""
    is_core: bool = False
    """Read in the core schema of YAML 1.2, where `no`, `on` and dates are texts."""
    is_large: bool = False
    """Parsed by libyaml where PyYAML has it: faster, but with poorer words for mistakes."""


def read_document(path: str | os.PathLike[str], problems: Problems, form: Form) -> yaml.Node | None:
    """Return the root node of a YAML file.

    Args:
        path: of a regular file.
        problems: takes those that leave something to read on with.
        form: what the file may be.

    Returns:
        `None` for a file that holds no value.

    Raises:
        FailureTaxonomyError: of the problems' class; the file can't be read, or is no YAML.
    """
    text = read_text(path, problems, right=form.right, max_bytes=form.max_bytes)
    return _compose(text, problems, form)


def read_text(
    path: str | os.PathLike[str], problems: Problems, *, right: str, max_bytes: int
) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: of a regular file of at most `max_bytes`.
        problems: takes the one that ends the reading.
        right: what the file would have to be.
        max_bytes: how big it may be.

    Raises:
        FailureTaxonomyError: of the problems' class; the file can't be read as text.
    """
    refusal = _Refusal(problems, right)
    return _decode(_read(Path(path), max_bytes, refusal), refusal)


def why_no_file(path: Path) -> str | None:
    """Return why a path is no regular file that can be opened, in words, or `None`.

    Looked at before it is opened: opening a FIFO waits for a writer, a device can do things.
    """
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return None
        return "is a directory" if path.is_dir() else "is no regular file"
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return f"can't be read ({error.strerror or error})"
    except ValueError as error:
        return f"is no path ({error})"


class _Refusal:
    """Makes the error that ends the reading of a file."""

    def __init__(self, problems: Problems, right: str) -> None:
        self._problems = problems
        self._right = right

    def __call__(self, what: str, *, line: int | None = None) -> FailureTaxonomyError:
        self._problems.add(line, f"{what}; {self._right}")
        return self._problems.as_error()


def _read(path: Path, max_bytes: int, refusal: _Refusal) -> bytes:
    why = why_no_file(path)
    if why is not None:
        raise refusal(why)
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise refusal(f"can't be read ({error.strerror or error})") from None
    if len(content) > max_bytes:
        raise refusal(f"bigger than {max_bytes // 1024:,} KiB")
    return content


def _decode(content: bytes, refusal: _Refusal) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refusal("is UTF-16")
    at = content.find(b"\0")
    if at >= 0:
        raise refusal("holds a NUL byte", line=_line_of(content, at))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = _line_of(content, error.start)
        raise refusal(f"not UTF-8 at byte {error.start}", line=line) from None


def _compose(text: str, problems: Problems, form: Form) -> yaml.Node | None:
    refusal = _Refusal(problems, form.right)
    # Asked here, for libyaml and PyYAML tell it in different words and places.
    forbidden = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if forbidden is not None:
        line = text.count("\n", 0, forbidden.start()) + 1
        raise refusal(f"holds the character {quoted(forbidden[0])}, which YAML forbids", line=line)
    try:
        return compose(
            text,
            problems,
            takes_aliases=form.takes_aliases,
            is_core=form.is_core,
            is_large=form.is_large,
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = mark.line + 1 if mark is not None else None
        raise refusal(f"not YAML ({shown(_words(error))})", line=at) from None
    except yaml.YAMLError as error:
        raise refusal(f"not YAML ({shown(str(error))})") from None
    except TooManyError as error:
        raise refusal(str(error), line=error.line) from None
    except (TooDeepError, RecursionError):
        raise refusal("nested too deep") from None


def _words(error: yaml.MarkedYAMLError) -> str:
    return "; ".join(part for part in (error.context, error.problem) if part)


def _line_of(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1
