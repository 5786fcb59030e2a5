"""Recognise what is to be mended from what an exception is, holds and was raised from.

The table is `data/diagnoses.toml`; it says how a row is read. It is parsed, and this module loaded,
when the first failure comes that a row could know: a failed assertion of the user's stays what the
user says.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_failure_taxonomy.taxonomy import packaged, packaged_table, parsed
from pytest_failure_taxonomy.taxonomy.classification import is_voice_of_environment
from pytest_failure_taxonomy.taxonomy.evidence import RunError, public_name
from pytest_failure_taxonomy.taxonomy.fingerprints import normalize_message
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import (
    STRICT_XPASS,
    said_in_one_line,
    words_of_pressure,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.evidence import Fact, Failure, RaisedException
    from pytest_failure_taxonomy.taxonomy.judgement import CauseOwner, Finding

MAX_READ: Final = 6_000
"""Characters of a message that are searched."""
_MAX_VALUE: Final = 160
"""Characters of a value that a sentence quotes."""

_OWN_MARKS: Final = [
    "filterwarnings",
    "parametrize",
    "skip",
    "skipif",
    "usefixtures",
    "xfail",
]
"""The marks of pytest itself; a name near to them is a slip."""

_OPTIONAL: Final = re.compile(r"\[([^][{}]*\{\w+\}[^][]*)\]")
_NAMED: Final = re.compile(r"\{(\w+)\}")
_TYPE_AND_TEXT: Final = r"([A-Za-z_][\w.]{0,200})(?:: |$)"
_ERRNO: Final = re.compile(
    r"\[(?:Errno|WinError) (?P<errno>-?\d{1,6})\] [^\n]{1,200}?"
    r"(?:: '(?P<filename>[^'\n]{1,6000})|$)"
)
_PLACE: Final = r" \(([^()\s][^()]{0,300}:\d+)[,)]"
_URL: Final = (
    r"[a-z][\w+.-]{0,20}://(?:[^/@\s]{0,200}@)?([^/?#\s'\"]{1,200})([^#\s'\"]{0,2000})"
)

_OWNERS: Final[Mapping[str, CauseOwner]] = {
    "run": "test",
    "environment": "environment",
}
"""Who has to fix what a section of the table is about; of others the frame tells."""
_OF_TMP_PATH: Final = r"/pytest-\d{1,9}/(?:popen-\w{1,20}/)?(test\w{0,60}?)\d{1,9}/"
"""pytest's own folder for a test, and the number that keeps it apart from others."""

_Values = dict[str, str]


@value
class Diagnosis:
    """What is to be mended, as far as one failure tells it."""

    key: str
    """In words, the same for all failures that the same change mends: `import cachetools`."""
    what: str
    """One line without a place: `nothing listens on 127.0.0.1:5439`."""
    fix: str | None = None
    """A command or an edit; `None` where none is known for sure."""
    owner: CauseOwner | None = None
    """`None` where the frame that raised it says so."""
    retryable: bool | None = None
    is_simulated: bool = False
    """It reads like a fault of the environment, but a mock or the code itself raised it."""
    is_of_run: bool = False
    """Another test or worker of the same run has taken or changed what was needed."""


class _Link(NamedTuple):
    """An exception of a chain, as far as it counts here."""

    names: tuple[str, ...]
    """Dotted names of its classes, itself first."""
    message: str
    facts: Sequence[Fact] = ()
    is_passed_on: bool = True
    """It is the first, or there are only wrappers around it."""
    raiser: str | None = None
    """As of `RaisedException`."""

    @property
    def is_own_voice(self) -> bool:
        """Whether it is known that its own library raised it, and no mock or test."""
        return self.raiser is not None and is_voice_of_environment(
            self.raiser, self.names
        )

    @property
    def words(self) -> str:
        """Its type and the first line of its message."""
        name = self.names[0].removeprefix("builtins.")
        return said_in_one_line(name, self.message, is_test=True)


class _Row(NamedTuple):
    """A row of the table."""

    number: int
    section: str
    given: Mapping[str, Any]

    @property
    def is_environment(self) -> bool:
        """Whether it is what the tests need and don't have, and no fault of the code."""
        return self.section == "environment"

    def believes(self, link: _Link) -> bool:
        """Tell whether an exception is what it says, as far as this row is concerned.

        Raised by a mock library or by a test, an exception of the environment is simulated.
        """
        if not link.raiser or not self.is_environment or self.given.get("anyone"):
            return True
        named = _expanded(self.given["of"]).intersection(link.names)
        return is_voice_of_environment(link.raiser, named)


def ask_table(failure: Failure, found: Finding) -> Diagnosis | None:
    """Return what is to be mended where a failure tells it; `None` where nobody knows.

    Of a chain of exceptions the root is asked first. What an exception was raised after counts
    only if it is a wrapper; what it was raised `from`, if that is the environment's, too.

    Args:
        failure: that of the finding.
        found: the finding.
    """
    links = _links_of(failure)
    common: _Values = {
        "fingerprint": found.fingerprint or found.detail,
        "kind": found.kind,
    }
    common |= {fact.name: fact.text for link in links for fact in link.facts}
    if failure.exception is not None and failure.exception.memory is not None:
        common["pressure"] = words_of_pressure(failure.exception.memory)
    if not isinstance(failure, RunError):
        common["nodeid"] = failure.nodeid
        if failure.location is not None:
            common["at"] = f"{failure.location.path}:{failure.location.line}"
    elif place := re.search(_PLACE, failure.message):
        common["at"] = place[1]
    partial = None
    inner: _Link | None = None
    for link in reversed(links):
        if inner is not None:
            common["inner"] = inner.words
        diagnosis, is_whole = _ask(link, common)
        if is_whole:
            return diagnosis
        partial, inner = partial or diagnosis, link
    return partial


def _links_of(failure: Failure) -> list[_Link]:
    """Return the exceptions that may tell the cause, the one that was seen first."""
    raised = failure.exception
    links: list[_Link] = []
    if raised is not None:
        names = _names_of(raised.names)
        links.append(_Link(names, raised.message, raised.facts, raiser=raised.raiser))
        links += _links_behind(raised)
    elif failure.message.startswith(STRICT_XPASS):
        links.append(
            _Link(("pytest.xpass",), failure.message.removeprefix(STRICT_XPASS).strip())
        )
    elif (found := re.match(_TYPE_AND_TEXT, failure.message)) is not None:
        name = found[1] if "." in found[1] else f"builtins.{found[1]}"
        links.append(_Link(_names_of((name,)), failure.message[found.end() :]))
    if isinstance(
        failure, RunError
    ):  # asked first: pytest says more than what it stumbled over
        links.append(_Link((f"pytest.{failure.origin}",), failure.message))
    return [*_links_with_output(links)]


def _links_with_output(links: Sequence[_Link]) -> Iterator[_Link]:
    """Yield exceptions, and after each what the program printed that it tells of.

    A line such as `ModuleNotFoundError: No module named 'x'` is an exception of a Python that was
    started. What was captured is the program's own voice, whoever raised the exception.
    """
    for link in links:
        yield link
        for fact in link.facts:
            if fact.name not in ("said", "captured"):
                continue
            raiser = link.raiser if fact.name == "said" else None
            line = _Link(("program.output",), fact.text, (), link.is_passed_on, raiser)
            yield line
            if (raised := re.match(_TYPE_AND_TEXT, fact.text)) is not None:
                names = _names_of((f"builtins.{raised[1]}",))
                yield line._replace(names=names, message=fact.text[raised.end() :])


@lru_cache(maxsize=1_000)
def _names_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dotted names of a class and its bases, and the module that it is from.

    A log or another program's file tells nothing of the bases. Of Python's own they are known.
    """
    module, _, name = names[0].rpartition(".")
    own = (
        getattr(builtins, name, None)
        if module == "builtins" and len(names) == 1
        else None
    )
    if isinstance(own, type):
        names = tuple(f"builtins.{each.__name__}" for each in own.__mro__[:-1])
    return (*map(public_name, names), public_name(f"{module}."))


def _links_behind(raised: RaisedException) -> Iterator[_Link]:
    """Yield what is behind an exception, as far as that may be what it is about."""
    wrappers = tuple(_head()["wrappers"])
    names, message, is_passed_on = raised.names, raised.message, True
    for linked in raised.chain:
        is_wrapper = any(name.startswith(wrappers) for name in names)
        if not is_wrapper and not linked.is_cause:
            return
        is_passed_on = is_passed_on and is_wrapper
        names, message = linked.bases, linked.message
        yield _Link(
            _names_of(names), message, linked.facts, is_passed_on, linked.raiser
        )
    for wrapper, pattern in _head()["quoting"].items():
        found = _compiled(pattern).match(message[:MAX_READ])
        if found and any(name.startswith(wrapper) for name in names):
            yield _Link(_names_of((found["name"],)), found["message"], (), is_passed_on)


def _ask(link: _Link, common: _Values) -> tuple[Diagnosis | None, bool]:
    """Return what the first row says that knows an exception, and whether nothing is left out."""
    message = link.message[:MAX_READ]
    told = _ERRNO.match(message) if "builtins.OSError" in link.names else None
    own = (
        {}
        if told is None
        else {name: each or "" for name, each in told.groupdict().items()}
    )
    own |= {"type": link.names[0].rpartition(".")[2], "words": link.words}
    own |= {fact.name: fact.text for fact in link.facts}
    partial = None
    is_simulated = False
    for row in _rows_of(link.names):
        if not link.is_passed_on and not row.is_environment:
            continue
        if row.given.get("voice") and not link.is_own_voice:
            continue
        found = _compiled(row.given.get("text", "")).search(message)
        if found is None:
            continue
        groups = {
            name.rstrip("2345"): each
            for name, each in found.groupdict().items()
            if each
        }
        values = common | own | groups | {"asks": row.given.get("asks", "")}
        conditions = row.given.get("where", {}).items()
        if not all(
            re.fullmatch(each, _value(name, values)) for name, each in conditions
        ):
            continue
        if not row.believes(link):
            is_simulated = True
            continue
        diagnosis, is_whole = _said_by(row, values)
        if is_whole:
            return diagnosis, True
        partial = partial or diagnosis
    if is_simulated and partial is None:
        return _simulated(link), True
    return partial, False


def _simulated(link: _Link) -> Diagnosis:
    """Say of an exception that it is none of the environment's, and who raised it."""
    raiser = link.raiser or ""
    who = raiser if raiser.startswith("unittest.") else raiser.partition(".")[0]
    return Diagnosis(
        key=f"simulated {who} {link.words}",
        what=f"{link.words} [raised by {who}]",
        retryable=False,
        is_simulated=True,
    )


def _said_by(row: _Row, values: _Values) -> tuple[Diagnosis | None, bool]:
    given = row.given
    what, is_whole = _filled(given["what"], values)
    key, _ = _filled(given.get("key", given["what"]), values)
    if not what or not key:
        return None, False
    fix = next(
        filter(None, [_filled(each, values)[0] for each in given.get("fix", ())]), None
    )
    command, _, name = (fix or "").rpartition(" ")
    if command == "pip install" and name in packaged_table("plugins"):
        key = f"plugin {name}"  # whatever of it is missing, one command mends it
    return Diagnosis(
        key=key,
        what=what,
        fix=fix,
        owner=_OWNERS.get(row.section),
        is_of_run=row.section == "run",
        retryable=given.get("retryable"),
    ), is_whole


def _filled(template: str, values: _Values) -> tuple[str, bool]:
    """Put values into a template: nothing is left of it if one is missing outside of brackets."""
    left_out = 0

    def without_gaps(part: re.Match[str]) -> str:
        nonlocal left_out
        is_whole = all(_value(name, values) for name in _NAMED.findall(part[1]))
        left_out += not is_whole
        return part[1] if is_whole else ""

    template = _OPTIONAL.sub(without_gaps, template)
    if not all(_value(name, values) for name in _NAMED.findall(template)):
        return "", False
    return _NAMED.sub(lambda name: _value(name[1], values), template), not left_out


def _value(name: str, values: _Values) -> str:
    """Return a value in one line; empty where there is none."""
    found = values.get(name, "")
    if not found and name in _DERIVED:
        found = _DERIVED[name](values)
    line = " ".join(found.split())
    return line if len(line) <= _MAX_VALUE else f"{line[:_MAX_VALUE]}…"


def _address(values: _Values) -> str:
    host, port = values.get("host", ""), values.get("port", "")
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port}" if host and port else host


def _site(values: _Values) -> str:
    """Return the host that a request was sent to, with the port if that is told."""
    found = re.match(_URL, values.get("url", ""))
    return found[1] if found else _address(values)


def _page(values: _Values) -> str:
    """Return what was asked of a server, without a user, a password and a query."""
    found = re.match(_URL, values.get("url", ""))
    return found[1] + found[2].partition("?")[0] if found else _address(values)


def _install(values: _Values) -> str:
    """Return how to install what is missing, if it is sure who has it."""
    name, asked = values.get("name", ""), values["asks"]
    if asked == "libraries":
        return str(_head()["libraries"].get(name, ""))
    if asked != "modules":
        return which_to_install(asked, name)
    if values.get("own_package"):
        return "pip install -e ."
    # Of a dotted name all but its last part is there: Python would have missed that first.
    reviewed = packaged_table("distributions").get(values.get("module") or name, "")
    found = values.get("distribution") or next(iter(reviewed.split()), "")
    return f"pip install {found}" if found else ""


def _own_mark(values: _Values) -> str:
    """Return the mark of pytest itself that a name is near to; to register a slip would hide it."""
    from difflib import get_close_matches

    return next(
        iter(get_close_matches(values["name"].lower(), _OWN_MARKS, 1, cutoff=0.8)), ""
    )


def _where(values: _Values) -> str:
    """Return the place of a syntax error: that of the failure, if it is in the same file."""
    place, line = values.get("at", ""), values.get("lineno", "")
    file = values.get("filename") or values.get("file", "")
    is_there = place.rpartition(":")[0].endswith(
        file.replace("\\", "/").rpartition("/")[2]
    )
    return place if place and is_there else f"{file}:{line}" if file and line else place


def _left_by(values: _Values) -> str:
    """Return the test in whose `tmp_path` a file lies, as far as the folder's name tells."""
    found = re.search(_OF_TMP_PATH, values.get("filename", ""))
    return found[1] if found else ""


def _files_of_one_name(values: _Values) -> list[str]:
    """Return the two files, from the root directory if both are below it."""
    file = values.get("nodeid", "").partition("::")[0]
    imported, collected = (
        values.get(name, "").replace("\\", "/") for name in ("imported", "collected")
    )
    root = collected.removesuffix(file)
    both = bool(file) and collected.endswith(f"/{file}") and imported.startswith(root)
    return [imported[len(root) :], file] if both else []


_DERIVED: Final[Mapping[str, Callable[[_Values], str]]] = {
    "address": _address,
    "peer": lambda values: _address(values) or values["fingerprint"],
    "site": _site,
    "page": _page,
    "install": _install,
    "own_mark": _own_mark,
    "where": _where,
    "left_by": _left_by,
    "base": lambda values: values.get("filename", "").rpartition("/")[2],
    "first": lambda values: next(iter(_files_of_one_name(values)), ""),
    "second": lambda values: values.get("nodeid", ""),
    "folders": lambda values: " and ".join(
        [each.rpartition("/")[0] or "." for each in _files_of_one_name(values)]
    ),
    "printed_alike": lambda values: normalize_message(
        values.get("said") or values.get("captured", "")
    ),
    "missing_folder": lambda values: (
        values.get("cwd", "") if values.get("cwd") == values.get("filename") else ""
    ),
}
"""Values that are made of others, or looked up."""


@cache
def _head() -> dict[str, Any]:
    """Return what stands before the rows: lists of names, and tables to look up."""
    return parsed(_blocks()[0])


@cache
def _blocks() -> list[str]:
    return packaged("diagnoses.toml").split("\n[[")


def _expanded(names: Sequence[str]) -> set[str]:
    """Return the names of classes in a row's `of`, with those of the lists in it."""
    lists = _head()["names"]
    expanded: set[str] = set()
    for name in names:
        expanded.update(lists[name[1:]] if name.startswith("@") else (name,))
    return expanded


@lru_cache(maxsize=1_000)
def _rows_of(names: tuple[str, ...]) -> tuple[_Row, ...]:
    """Return the rows about a class with these names, in the order of the table."""
    rows = {row.number: row for name in names for row in _rows_about(name)}
    return tuple(rows[number] for number in sorted(rows))


@cache
def _rows_about(name: str) -> tuple[_Row, ...]:
    """Return the rows that name a class; only those are parsed, as all of them take 20 ms."""
    signs = [f'"{name}"']
    for title, names in _head()["names"].items():
        if name in names:
            signs.append(f'"@{title}"')
    rows = []
    for number, block in enumerate(_blocks()):
        if number and any(sign in block for sign in signs):
            ((section, (given,)),) = parsed(f"[[{block}").items()
            rows.append(_Row(number, section, given))
    return tuple(rows)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_REFUSED: Final = r"unrecognized arguments: (?P<options>.+?)(?: \(from .+\))?$"
NOT_LOADED: Final = "is installed but not loaded"
"""What is said of a plugin that is there; installing it would not help."""


def distributions_with(sort: str, name: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have something of one sort.

    That is one of `options`, `settings`, `fixtures` and `marks`.
    """
    plugins = packaged_table("plugins").items()
    return tuple(sorted(each for each, added in plugins if name in added.get(sort, ())))


def distributions_with_option(argument: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have an option.

    Args:
        argument: as it is typed, such as `--cov=src` or `-n4`.
    """
    short = re.fullmatch(r"(-[a-zA-Z])(?!-).*", argument)
    return distributions_with(
        "options", short[1] if short else argument.partition("=")[0]
    )


def refused_options(said: str) -> tuple[str, ...]:
    """Return the options that pytest has refused, by its words; none if it says something else."""
    found = re.match(_REFUSED, said)
    words = found["options"].split() if found else ()
    return tuple(each for each in words if each.startswith("-"))


def which_to_install(sort: str, names: str) -> str:
    """Return how to install the plugins that have what is missing; empty where nobody is known.

    Args:
        sort: of what is missing; `plugins` themselves, with versions perhaps.
        names: one name, or for options and plugins several, as pytest lists them.
    """
    wanted: dict[tuple[str, ...], None]
    if sort == "options":
        options = refused_options(f"unrecognized arguments: {names}")
        wanted = dict.fromkeys(map(distributions_with_option, options))
    elif sort == "plugins":
        wanted = {}
        for requirement in names.split(","):
            name = re.split(r"[^\w.-]", requirement.strip())[0]
            if name in packaged_table("plugins"):
                wanted[name,] = None
    else:
        wanted = {distributions_with(sort, names): None}
    known = [alternatives for alternatives in wanted if alternatives]
    if not known:
        return ""
    if any(len(alternatives) > 1 for alternatives in known):
        choices = [" or ".join(alternatives) for alternatives in known]
        return f"install {' and '.join(choices)}"
    distributions = [alternatives[0] for alternatives in known]
    return f"pip install {' '.join(distributions)}"
