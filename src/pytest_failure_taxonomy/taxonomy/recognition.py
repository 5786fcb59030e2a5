"""Recognise what to fix from what an exception is, holds and was raised from.

The table is `data/diagnoses.toml`; it says how a row is read. It is parsed, and this
module loaded, when the first failure comes that a row could know: a failed assertion of
the user's stays what the user says.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_failure_taxonomy.taxonomy import packaged_table, parse_toml, read_packaged
from pytest_failure_taxonomy.taxonomy.classification import is_voice_of_environment
from pytest_failure_taxonomy.taxonomy.evidence import RunError, public_name
from pytest_failure_taxonomy.taxonomy.fingerprints import normalize_message
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import (
    STRICT_XPASS,
    quote_exception,
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
    r"(?:: (?:\w{0,20}Path\()?'(?P<filename>[^'\n]{1,6000})|$)"
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
    """What to fix, as far as one failure tells it."""

    key: str
    """In words, the same for all failures that the same change fixes: `import
    cachetools`."""
    what: str
    """One line without a place: `nothing listens on 127.0.0.1:5439`."""
    fix: str | None = None
    """A command or an edit; `None` where none is known for sure."""
    owner: CauseOwner | None = None
    """`None` where the frame that raised it says so."""
    retryable: bool | None = None
    is_simulated: bool = False
    """It reads like a fault of the environment, but a mock or the code itself raised
    it."""
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
        return quote_exception(name, self.message, is_test=True)


class _Row(NamedTuple):
    """A row of the table."""

    number: int
    section: str
    entry: Mapping[str, Any]

    @property
    def is_environment(self) -> bool:
        """Whether the tests lack something that they need, and no code is at fault."""
        return self.section == "environment"

    def values_of(self, match: re.Match[str]) -> _Values:
        """Return the values that the row itself adds: its groups, and what it asks."""
        values = {"asks": self.entry.get("asks", "")}
        for group, text in match.groupdict().items():
            if text:
                values[group.rstrip("2345")] = text
        return values

    def concerns(self, link: _Link) -> bool:
        """Tell whether the row is about exceptions in such a place of a chain."""
        if not link.is_passed_on and not self.is_environment:
            return False
        return link.is_own_voice or not self.entry.get("voice")

    def fits(self, values: _Values) -> bool:
        """Tell whether values are as the row's conditions ask for."""
        for name, pattern in self.entry.get("where", {}).items():
            text = _get_value(name, values)
            if not re.fullmatch(pattern, text):
                return False
        return True

    def believes(self, link: _Link) -> bool:
        """Tell whether an exception is what it says, as far as this row is concerned.

        Raised by a mock library or by a test, an exception of the environment is
        simulated.
        """
        if not link.raiser or not self.is_environment:
            return True
        if self.entry.get("anyone"):
            return True
        classes = _expand_names(self.entry["of"])
        return is_voice_of_environment(link.raiser, classes.intersection(link.names))


def ask_table(failure: Failure, finding: Finding) -> Diagnosis | None:
    """Return what to fix if a failure tells it; `None` if that is not known.

    Of a chain of exceptions the root is asked first. What an exception was raised after
    counts only if it is a wrapper; what it was raised `from`, if that is the
    environment's, too.

    Args:
        failure: that of the finding.
        finding: of the failure.
    """
    links = _find_links(failure)
    common = _collect_values(failure, finding, links)
    partial = None
    for link in reversed(links):
        diagnosis, is_whole = _ask_rows(link, common)
        if is_whole:
            return diagnosis
        partial = partial or diagnosis
        common["inner"] = link.words
    return partial


def _collect_values(
    failure: Failure, finding: Finding, links: Sequence[_Link]
) -> _Values:
    """Return the values that sentences can quote, whichever exception counts."""
    values = {
        "fingerprint": finding.fingerprint or finding.detail,
        "kind": finding.kind,
    }
    for link in links:
        values |= _facts_of(link)
    raised = failure.exception
    if raised is not None and raised.memory is not None:
        values["pressure"] = words_of_pressure(raised.memory)
    if isinstance(failure, RunError):
        place = re.search(_PLACE, failure.message)
        if place is not None:
            values["at"] = place[1]
        return values
    values["nodeid"] = failure.nodeid
    location = failure.location
    if location is not None:
        values["at"] = f"{location.path}:{location.line}"
    return values


def _facts_of(link: _Link) -> _Values:
    return {fact.name: fact.text for fact in link.facts}


def _find_links(failure: Failure) -> list[_Link]:
    """Return the exceptions that may tell the cause, the one that was seen first."""
    raised = failure.exception
    message = failure.message
    links: list[_Link] = []
    if raised is not None:
        links += _follow_chain(raised)
    elif message.startswith(STRICT_XPASS):
        reason = message.removeprefix(STRICT_XPASS).strip()
        links.append(_Link(("pytest.xpass",), reason))
    else:
        match = re.match(_TYPE_AND_TEXT, message)
        if match is not None:
            name = match[1]
            if "." not in name:
                name = f"builtins.{name}"
            links.append(_Link(_names_of((name,)), message[match.end() :]))
    if isinstance(failure, RunError):
        # Asked first: pytest says more than what it stumbled over.
        links.append(_Link((f"pytest.{failure.origin}",), message))
    return [*_add_output(links)]


def _add_output(links: Sequence[_Link]) -> Iterator[_Link]:
    """Yield exceptions, and after each the output of the program that it is about.

    A line such as `ModuleNotFoundError: No module named 'x'` is an exception of a
    Python that was started. What was captured is the program's own voice, whoever
    raised the exception.
    """
    for link in links:
        yield link
        for fact in link.facts:
            if fact.name not in ("said", "captured"):
                continue
            line = _Link(
                names=("program.output",),
                message=fact.text,
                is_passed_on=link.is_passed_on,
                raiser=link.raiser if fact.name == "said" else None,
            )
            yield line
            raised = re.match(_TYPE_AND_TEXT, fact.text)
            if raised is not None:
                yield line._replace(
                    names=_names_of((f"builtins.{raised[1]}",)),
                    message=fact.text[raised.end() :],
                )


@lru_cache(maxsize=1_000)
def _names_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dotted names of a class and its bases, and the module that it is from.

    A log or another program's file tells nothing of the bases. Of Python's own they are
    known.
    """
    module, _, name = names[0].rpartition(".")
    if module == "builtins" and len(names) == 1:
        own = getattr(builtins, name, None)
        if isinstance(own, type):
            bases = own.__mro__[:-1]
            names = tuple([f"builtins.{base.__name__}" for base in bases])
    public_names = map(public_name, names)
    return (*public_names, public_name(f"{module}."))


def _follow_chain(raised: RaisedException) -> Iterator[_Link]:
    """Yield an exception and those behind it, as far as it may be about them."""
    link = _Link(
        names=_names_of(raised.names),
        message=raised.message,
        facts=raised.facts,
        raiser=raised.raiser,
    )
    yield link
    names = raised.names
    wrappers = tuple(_load_head()["wrappers"])
    for linked in raised.chain:
        is_wrapper = any(name.startswith(wrappers) for name in names)
        if not is_wrapper and not linked.is_cause:
            return
        names = linked.bases
        link = _Link(
            names=_names_of(names),
            message=linked.message,
            facts=linked.facts,
            is_passed_on=link.is_passed_on and is_wrapper,
            raiser=linked.raiser,
        )
        yield link
    for wrapper, pattern in _load_head()["quoting"].items():
        quoted = _compile(pattern).match(link.message[:MAX_READ])
        if quoted and any(name.startswith(wrapper) for name in names):
            yield _Link(
                names=_names_of((quoted["name"],)),
                message=quoted["message"],
                is_passed_on=link.is_passed_on,
            )


def _ask_rows(link: _Link, common: _Values) -> tuple[Diagnosis | None, bool]:
    """Return the diagnosis of the first row that fits, and whether it is whole."""
    message = link.message[:MAX_READ]
    own = common | _errno_of(link, message)
    own["type"] = link.names[0].rpartition(".")[2]
    own["words"] = link.words
    own |= _facts_of(link)
    partial = None
    is_simulated = False
    for row in _find_rows(link.names):
        if not row.concerns(link):
            continue
        pattern = _compile(row.entry.get("text", ""))
        match = pattern.search(message)
        if match is None:
            continue
        values = own | row.values_of(match)
        if not row.fits(values):
            continue
        if not row.believes(link):
            # Another row may know the exception as the code's own.
            is_simulated = True
            continue
        diagnosis, is_whole = _diagnose(row, values)
        if is_whole:
            return diagnosis, True
        partial = partial or diagnosis
    if is_simulated and partial is None:
        return _describe_simulation(link), True
    return partial, False


def _errno_of(link: _Link, message: str) -> _Values:
    """Return the number and the file that an `OSError` names in its message."""
    if "builtins.OSError" not in link.names:
        return {}
    match = _ERRNO.match(message)
    return {} if match is None else match.groupdict("")


def _describe_simulation(link: _Link) -> Diagnosis:
    """Say that an exception is not the environment's, and who raised it."""
    raiser = link.raiser or ""
    if not raiser.startswith("unittest."):
        raiser = raiser.partition(".")[0]
    return Diagnosis(
        key=f"simulated {raiser} {link.words}",
        what=f"{link.words} [raised by {raiser}]",
        retryable=False,
        is_simulated=True,
    )


def _diagnose(row: _Row, values: _Values) -> tuple[Diagnosis | None, bool]:
    entry = row.entry
    sentence, is_whole = _fill_template(entry["what"], values)
    key, _ = _fill_template(entry.get("key", entry["what"]), values)
    if not sentence or not key:
        return None, False
    fix = ""
    for template in entry.get("fix", ()):
        fix = fix or _fill_template(template, values)[0]
    name = fix.removeprefix("pip install ")
    if name != fix and name in packaged_table("plugins"):
        key = f"plugin {name}"  # whatever of it is missing, one command fixes it
    diagnosis = Diagnosis(
        key=key,
        what=sentence,
        fix=fix or None,
        owner=_OWNERS.get(row.section),
        is_of_run=row.section == "run",
        retryable=entry.get("retryable"),
    )
    return diagnosis, is_whole


def _fill_template(template: str, values: _Values) -> tuple[str, bool]:
    """Put values into a template, and tell whether none in brackets was missing.

    Nothing is left of it if a value is missing outside of brackets.
    """
    is_whole = True
    for part in _OPTIONAL.findall(template):
        has_all = _has_all(part, values)
        is_whole = is_whole and has_all
        template = template.replace(f"[{part}]", part if has_all else "")
    if not _has_all(template, values):
        return "", False
    text = _NAMED.sub(lambda name: _get_value(name[1], values), template)
    return text, is_whole


def _has_all(template: str, values: _Values) -> bool:
    """Tell whether there is a value for each name in a template."""
    names = _NAMED.findall(template)
    return all(_get_value(name, values) for name in names)


def _get_value(name: str, values: _Values) -> str:
    """Return a value in one line; empty where there is none."""
    text = values.get(name)
    if not text:
        derive = _DERIVED.get(name)
        text = derive(values) if derive else ""
    line = " ".join(text.split())
    if len(line) > _MAX_VALUE:
        line = f"{line[:_MAX_VALUE]}…"
    return line


def _format_address(values: _Values) -> str:
    host = values.get("host", "")
    port = values.get("port", "")
    if ":" in host:
        host = f"[{host}]"
    if host and port:
        host = f"{host}:{port}"
    return host


def _find_site(values: _Values) -> str:
    """Return the host that a request was sent to, with the port if that is known."""
    url = re.match(_URL, values.get("url", ""))
    return url[1] if url else _format_address(values)


def _find_page(values: _Values) -> str:
    """Return the URL that a server was asked for, without user, password and query."""
    page = _find_site(values)
    url = re.match(_URL, values.get("url", ""))
    if url:
        page += url[2].partition("?")[0]
    return page


def _find_install_command(values: _Values) -> str:
    """Return how to install what is missing, if it is sure who has it."""
    name = values.get("name", "")
    asks = values["asks"]
    if asks == "libraries":
        return str(_load_head()["libraries"].get(name, ""))
    if asks != "modules":
        return which_to_install(asks, name)
    if values.get("own_package"):
        return "pip install -e ."
    # Of a dotted name all but its last part is there: Python would have missed that
    # first.
    module = values.get("module") or name
    distribution = values.get("distribution", "")
    if not distribution:
        reviewed = packaged_table("distributions").get(module, "")
        distribution = reviewed.partition(" ")[0]
    return f"pip install {distribution}" if distribution else ""


def _find_close_mark(values: _Values) -> str:
    """Return pytest's mark that a name is close to: registering would hide a typo."""
    from difflib import get_close_matches

    name = values["name"].lower()
    close = get_close_matches(name, _OWN_MARKS, 1, cutoff=0.8)
    return close[0] if close else ""


def _find_place(values: _Values) -> str:
    """Return the place of a syntax error: the failure's, if it is in the same file."""
    place = values.get("at", "")
    line = values.get("lineno", "")
    file = values.get("filename") or values.get("file", "")
    name = file.replace("\\", "/").rpartition("/")[2]
    shown = place.rpartition(":")[0]
    if file and line and not shown.endswith(name):
        return f"{file}:{line}"
    return place


def _find_leaver(values: _Values) -> str:
    """Return the test in whose `tmp_path` a file lies, if the folder's name tells."""
    folder = re.search(_OF_TMP_PATH, values.get("filename", ""))
    return folder[1] if folder else ""


def _find_namesakes(values: _Values) -> list[str]:
    """Return the two files, from the root directory if both are below it."""
    file = values.get("nodeid", "").partition("::")[0]
    imported = values.get("imported", "").replace("\\", "/")
    collected = values.get("collected", "").replace("\\", "/")
    root = collected.removesuffix(file)
    if not file or not root.endswith("/") or not imported.startswith(root):
        return []
    return [imported.removeprefix(root), file]


def _join_folders(values: _Values) -> str:
    files = _find_namesakes(values)
    folders = [file.rpartition("/")[0] for file in files]
    return " and ".join([folder or "." for folder in folders])


def _find_missing_folder(values: _Values) -> str:
    folder = values.get("cwd", "")
    return folder if folder == values.get("filename") else ""


_DERIVED: Final[Mapping[str, Callable[[_Values], str]]] = {
    "address": _format_address,
    "peer": lambda values: _format_address(values) or values["fingerprint"],
    "site": _find_site,
    "page": _find_page,
    "install": _find_install_command,
    "own_mark": _find_close_mark,
    "where": _find_place,
    "left_by": _find_leaver,
    "base": lambda values: values.get("filename", "").rpartition("/")[2],
    "first": lambda values: "".join(_find_namesakes(values)[:1]),
    "second": lambda values: values.get("nodeid", ""),
    "folders": _join_folders,
    "printed_alike": lambda values: normalize_message(
        values.get("said") or values.get("captured", "")
    ),
    "missing_folder": _find_missing_folder,
}
"""Values that are made of others, or looked up."""


@cache
def _load_head() -> dict[str, Any]:
    """Return the entries before the rows: lists of names, and tables to look up."""
    return parse_toml(_load_blocks()[0])


@cache
def _load_blocks() -> list[str]:
    return read_packaged("diagnoses.toml").split("\n[[")


def _expand_names(names: Sequence[str]) -> set[str]:
    """Return the names of classes in a row's `of`, with those of the lists in it."""
    lists = _load_head()["names"]
    expanded: set[str] = set()
    for name in names:
        if name.startswith("@"):
            expanded.update(lists[name[1:]])
        else:
            expanded.add(name)
    return expanded


@lru_cache(maxsize=1_000)
def _find_rows(names: tuple[str, ...]) -> tuple[_Row, ...]:
    """Return the rows about a class with these names, in the order of the table."""
    rows = {}
    for name in names:
        for row in _parse_rows(name):
            rows[row.number] = row
    return tuple([rows[number] for number in sorted(rows)])


@cache
def _parse_rows(name: str) -> tuple[_Row, ...]:
    """Return the rows that name a class; only those are parsed, as all take 20 ms."""
    signs = [f'"{name}"']
    for title, names in _load_head()["names"].items():
        if name in names:
            signs.append(f'"@{title}"')
    rows = []
    for number, block in enumerate(_load_blocks()[1:], start=1):
        if any(sign in block for sign in signs):
            ((section, (entry,)),) = parse_toml(f"[[{block}").items()
            rows.append(_Row(number, section, entry))
    return tuple(rows)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_REFUSED: Final = r"unrecognized arguments: (?P<options>.+?)(?: \(from .+\))?$"
NOT_LOADED: Final = "is installed but not loaded"
"""The words about a plugin that is installed; installing it would not help."""


def distributions_with(sort: str, name: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have something of one sort.

    That is one of `options`, `settings`, `fixtures` and `marks`.
    """
    plugins = packaged_table("plugins").items()
    owners = [owner for owner, added in plugins if name in added.get(sort, ())]
    return tuple(sorted(owners))


def distributions_with_option(argument: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have an option.

    Args:
        argument: as it is typed, such as `--cov=src` or `-n4`.
    """
    option = argument.partition("=")[0]
    if not argument.startswith("--"):
        option = argument[:2]
    return distributions_with("options", option)


def refused_options(message: str) -> tuple[str, ...]:
    """Return the options that pytest's message refuses; none if it says otherwise."""
    refusal = re.match(_REFUSED, message)
    if refusal is None:
        return ()
    words = refusal["options"].split()
    return tuple([word for word in words if word.startswith("-")])


def which_to_install(sort: str, names: str) -> str:
    """Return how to install the plugins that have what is missing; empty if unknown.

    Args:
        sort: of what is missing; `plugins` themselves, with versions perhaps.
        names: one name, or for options and plugins several, as pytest lists them.
    """
    wanted: list[tuple[str, ...]]
    if sort == "options":
        options = refused_options(f"unrecognized arguments: {names}")
        wanted = [distributions_with_option(option) for option in options]
    elif sort == "plugins":
        wanted = []
        for requirement in names.split(","):
            name = re.split(r"[^\w.-]", requirement.strip())[0]
            if name in packaged_table("plugins"):
                wanted.append((name,))
    else:
        wanted = [distributions_with(sort, names)]
    choices = {" or ".join(alternatives): None for alternatives in wanted}
    choices.pop("", None)
    if not choices:
        return ""
    if any(" or " in choice for choice in choices):
        return f"install {' and '.join(choices)}"
    return f"pip install {' '.join(choices)}"
