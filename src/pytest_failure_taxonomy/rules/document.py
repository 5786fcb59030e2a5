"""Read a YAML file as nodes that know their lines, and refuse what no file of rules needs."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

import yaml

from pytest_failure_taxonomy.errors import RulesError
from pytest_failure_taxonomy.rules.problems import Problems, quoted, shown

MAX_BYTES: Final = 64 * 1024
"""Room for hundreds of rules; YAML in pure Python takes its time for what is bigger."""

REFUSED: Final = "!refused"
"""The tag of a node about which everything has been said."""

_RIGHT: Final = "a file of rules is YAML in UTF-8 that begins with `rules:`"


def read_document(path: str | os.PathLike[str], problems: Problems) -> yaml.Node | None:
    """Return the root node of a YAML file.

    Args:
        path: of a regular file of at most `MAX_BYTES`.
        problems: takes those that leave something to read on with.

    Returns:
        `None` for a file that holds no value.

    Raises:
        RulesError: the file can't be read, or is no YAML.
    """
    return _compose(_decode(_read(Path(path), problems), problems), problems)


def _read(path: Path, problems: Problems) -> bytes:
    try:
        # Looked at before it is opened: opening a FIFO waits for a writer, a device can do things.
        if not stat.S_ISREG(path.stat().st_mode):
            what = "is a directory" if path.is_dir() else "is no regular file"
            raise _refusal(problems, what)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refusal(problems, "there is no such file") from None
    except OSError as error:
        raise _refusal(problems, f"can't be read ({error.strerror or error})") from None
    except ValueError as error:
        raise _refusal(problems, f"is no path ({error})") from None
    if len(content) > MAX_BYTES:
        raise _refusal(problems, f"bigger than {MAX_BYTES // 1024} KiB")
    return content


def _decode(content: bytes, problems: Problems) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refusal(problems, "is UTF-16")
    at = content.find(b"\0")
    if at >= 0:
        raise _refusal(problems, "holds a NUL byte", line=_line_of(content, at))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = _line_of(content, error.start)
        raise _refusal(problems, f"not UTF-8 at byte {error.start}", line=line) from None


def _compose(text: str, problems: Problems) -> yaml.Node | None:
    try:
        loader = _Loader(text, problems)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        raise _refusal(problems, f"not YAML ({shown(_words(error))})", line=line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"holds the character {quoted(chr(error.character))}, which YAML forbids"
        raise _refusal(problems, what, line=line) from None
    except RecursionError:
        raise _refusal(problems, "nested too deep") from None
    return node


class _Loader(yaml.SafeLoader):
    """Compose nodes; a reference to an anchor becomes a problem, however often it stands there."""

    def __init__(self, text: str, problems: Problems) -> None:
        super().__init__(text)
        self._problems = problems

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if not self.check_event(yaml.AliasEvent):
            node: yaml.Node | None = super().compose_node(parent, index)
            return node
        event = self.get_event()  # type: ignore[no-untyped-call]  # the stubs left it out
        line = event.start_mark.line + 1
        name = quoted(f"*{event.anchor}")
        self._problems.add(line, f"{name} refers to an anchor; write the value itself here")
        return yaml.ScalarNode(REFUSED, "", event.start_mark, event.end_mark)


def _words(error: yaml.MarkedYAMLError) -> str:
    return "; ".join(part for part in (error.context, error.problem) if part)


def _line_of(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1


def _refusal(problems: Problems, what: str, *, line: int | None = None) -> RulesError:
    problems.add(line, f"{what}; {_RIGHT}")
    return problems.as_error()
