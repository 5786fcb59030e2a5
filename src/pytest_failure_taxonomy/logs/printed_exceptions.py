"""Describe the exceptions that a printed traceback shows as the live run describes them.

The text has less: no base classes, no fields, no qualified names. What it does have leads
to the same values, so that the same rows of the tables know a failure.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from pytest_failure_taxonomy.comparisons import compare_words
from pytest_failure_taxonomy.logs.printed_tracebacks import (
    PrintedException,
    PrintedFrame,
)
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.code_owners import (
    LIBRARIES,
    NOT_SOURCES,
    RUNNERS,
    TEST_FILES,
    TEST_FOLDERS,
)
from pytest_failure_taxonomy.taxonomy.judgement import CodeOwner
from pytest_failure_taxonomy.taxonomy.program_words import (
    ASKS_FOR_MORE,
    is_about_a_program,
    telling_line,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import ASYNC_TEST, PLUGINS_FOR_ASYNC
from pytest_failure_taxonomy.text import with_place

_STANDARD_LIBRARY: Final = re.compile(
    r"(?:.*/)?(?:lib(?:64)?/(?:python|pypy)3\.\d+t?|Python3\d+/Lib)/(?P<below>.+)"
)
_RAISE: Final = re.compile(r"(?:.*[:;] ?)?raise\b")
PYTESTS_FAILED: Final = "builtins.Failed"
"""The class says of itself that it is from there."""
_SYNTAX_ERRORS: Final = frozenset(
    {"builtins.SyntaxError", "builtins.IndentationError", "builtins.TabError"}
)
_HIDDEN_SOURCE: Final = "???"
"""What pytest prints for a statement that it can't read."""
_ENDINGS: Final = (
    *("Error", "Exception", "Warning", "Exit", "Interrupt"),
    *("Failed", "Failure", "Timeout", "Group"),
)
"""How the names of exceptions end."""
_NAME: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_<>]\w*>?)*)(?:: ?|$)")
_OF_ALL: Final = ("builtins.Exception", "builtins.BaseException")
_OWN_TIMEOUT: Final = "pytest_timeout"
_COMPILED: Final = (".pyx", ".pxd", ".pxi", ".c", ".cpp", ".rs")
_RELAYS: Final = frozenset({"_multicall", "get_result"})
_CLASSIC_SETUP: Final = re.compile(
    r"(?:setup|teardown)(?:_\w+)?$|(?:async)?(?:set|tear)(?:Up|Down)\w*$", re.IGNORECASE
)
_ENVIRONMENT: Final = r"\benviron\[(['\"])(?P<name>\w+)\1\]"
_DEBUGGERS: Final = frozenset({"bdb", "pdb"})
_MAX_FACT: Final = 1_000
_NEXT: Final = r", [A-Za-z_]\w* = "
"""What stands between an argument and the next one."""
_MAX_CUTS: Final = 3


class Code(NamedTuple):
    """Whose code a file is, as far as its path tells."""

    owner: CodeOwner
    module: str
    path: str
    """Relative to the root directory, or to the folder that it was installed in."""

    @property
    def is_own(self) -> bool:
        """Whether it is the user's."""
        return self.owner in ("test", "conftest", "project")

    @property
    def is_asked(self) -> bool:
        """Whether its code can be what raised: neither the standard library's nor pytest's."""
        return self.owner not in ("python", "pytest")


class Surroundings(NamedTuple):
    """What an exception is described with besides its traceback."""

    rootdir: str
    """Empty where it is not known."""
    file: str = ""
    """The file of the test, or the one that was collected."""
    function: str = ""
    """The qualified name of the test's function; tracebacks show the bare one."""
    is_setup_or_teardown: bool = False
    is_collection: bool = False
    plugins: str = ""
    """The plugins that were loaded, as `asyncio-1.5.0, cov-7.0.0`."""
    stderr: str = ""
    """The end of what was captured of stderr."""

    def code_of(self, path: str) -> Code:
        """Tell whose code a file is."""
        path = path.replace("\\", "/")
        if path.startswith("<"):
            module = path.strip("<>").removeprefix("frozen ")
            return Code("python", module, path)
        shown = path.removeprefix(f"{self.rootdir}/") if self.rootdir else path
        if self.file and shown.endswith(f"/{self.file}") and not self.rootdir:
            shown = self.file  # a quiet log does not say where the root is
        parts = shown.split("/")
        for depth in range(len(parts) - 1, 0, -1):
            if parts[depth - 1] in LIBRARIES:
                return _installed("/".join(parts[depth:]))
        if found := _STANDARD_LIBRARY.fullmatch(path):
            return Code("python", _module_at(found["below"]), found["below"])
        if parts[0] in NOT_SOURCES and len(parts) > 1:
            return _installed("/".join(parts[1:]))
        if shown.endswith(_COMPILED):
            # Named as on the machine that built the package.
            return _installed(shown)
        return Code(self._owner_of_users(shown), _module_at(shown), shown)

    def name_of(self, frame: PrintedFrame, code: Code) -> str:
        """Return the name of a frame's function, qualified where that is known."""
        is_test = code.path == self.file and frame.function
        if is_test and frame.function == self.function.rpartition(".")[2]:
            return self.function
        return frame.function

    def _owner_of_users(self, path: str) -> CodeOwner:
        *folders, name = path.split("/")
        if name == "conftest.py":
            return "conftest"
        is_of_tests = "tests" in folders or not TEST_FOLDERS.isdisjoint(folders[:1])
        if path == self.file or is_of_tests:
            return "test"
        is_test = any(fnmatchcase(name, pattern) for pattern in TEST_FILES)
        return "test" if is_test else "project"


def _installed(path: str) -> Code:
    module = _module_at(path)
    package = module.partition(".")[0]
    owner: CodeOwner = "dependency"
    if package in RUNNERS:
        owner = "pytest"
    elif package.startswith("pytest_"):
        owner = "plugin"
    return Code(owner, module, path)


def _module_at(path: str) -> str:
    stem = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    return stem.lstrip("./").replace("/", ".")


class _Traceback:
    """The frames of one exception, and whose code they are."""

    def __init__(self, printed: PrintedException, around: Surroundings) -> None:
        self.codes = [around.code_of(frame.path) for frame in printed.frames]
        self.frames = [
            replace(frame, function=around.name_of(frame, code))
            for frame, code in zip(printed.frames, self.codes, strict=True)
        ]

    def __bool__(self) -> bool:
        return bool(self.frames)

    def _reversed(self) -> Iterator[tuple[PrintedFrame, Code]]:
        return zip(reversed(self.frames), reversed(self.codes), strict=True)

    @property
    def own(self) -> tuple[PrintedFrame, Code] | None:
        """The user's innermost frame, without hooks that only pass an exception on."""
        passed_on = False
        for frame, code in self._reversed():
            if code.is_own and not passed_on:
                return frame, code
            passed_on = frame.function in _RELAYS and code.module.startswith("pluggy")
        return None

    @property
    def location(self) -> ev.Location | None:
        """The innermost place in the user's code, or else outside of pytest."""
        asked = (pair for pair in self._reversed() if pair[1].is_asked)
        place = self.own or next(asked, None)
        return place and ev.Location(path=place[1].path, line=place[0].line)

    @property
    def origin(self) -> ev.OriginPlace | None:
        """The place that a fingerprint is made of."""
        own = self.own
        if own is None:
            foreign = [pair for pair in self._reversed() if pair[1].owner != "pytest"]
            innermost = next(iter(foreign), None) or next(self._reversed(), None)
            if innermost is None:
                return None
            frame, code = innermost
            return ev.OriginPlace(path=code.path, function=frame.function)
        frame, code = own
        entry = ""
        for first, code_of_first in zip(self.frames, self.codes, strict=True):
            if code_of_first.is_own:
                entry = f"{code_of_first.path}: {first.function}"
                break
        return ev.OriginPlace(
            path=code.path,
            function=frame.function,
            text=frame.statement,
            entry="" if entry == f"{code.path}: {frame.function}" else entry,
        )

    @property
    def raising(self) -> ev.RaisingFrame | None:
        """The innermost frame that is neither the standard library's nor pytest's."""
        asked = (pair for pair in self._reversed() if pair[1].is_asked)
        return _raising_frame(next(asked, None))

    @property
    def innermost(self) -> ev.RaisingFrame | None:
        """The innermost frame, whosever it is."""
        return _raising_frame(next(self._reversed(), None))

    @property
    def raiser(self) -> str | None:
        """As of `RaisedException`."""
        innermost = next(self._reversed(), None)
        if innermost is None:
            return None
        frame, code = innermost
        if code.owner == "python" and not code.module.startswith("unittest.mock"):
            return ""
        if not frame.statement or frame.statement == _HIDDEN_SOURCE:
            return None
        return code.module if _RAISE.match(frame.statement) else ""

    @property
    def raising_function(self) -> str:
        """As of `RaisedException`."""
        innermost = next(self._reversed(), None)
        if innermost is None or innermost[1].is_own:
            return ""
        return f"{innermost[1].module}.{innermost[0].function}"

    def facts(self) -> Iterator[ev.Fact]:
        """Yield what the frames of libraries were called with, as far as it counts."""
        found: dict[str, str] = {}
        for frame, code in self._reversed():
            if code.is_own:
                break
            if code.module in _DEBUGGERS:
                own = self.own
                if own is not None:
                    found["breakpoint"] = f"{own[1].path}:{own[0].line}"
                break
            variables = _variables_of(code.module, frame)
            if variables:
                found["raised_by"] = code.module
            for name, path in variables.items():
                if text := _argument(frame.arguments, path):
                    found[name] = text
        for name, text in found.items():
            yield ev.Fact(name=name, text=text)


def _raising_frame(pair: tuple[PrintedFrame, Code] | None) -> ev.RaisingFrame | None:
    if pair is None:
        return None
    frame, code = pair
    return ev.RaisingFrame(
        owner=code.owner,
        package=None,
        module=code.module,
        function=frame.function,
        path=code.path,
        line=frame.line,
    )


@cache
def _tables_of_variables() -> dict[tuple[str, str], dict[str, str]]:
    """Return which variables of a library's functions are facts, by module and bare name."""
    tables = {}
    for dotted, variables in packaged_table("facts")["frames"].items():
        *modules, function = dotted.split(".")
        if modules[-1].lstrip("_")[:1].isupper():
            modules.pop()  # the class of a method
        tables[".".join(modules), function] = variables
    return tables


def _variables_of(module: str, frame: PrintedFrame) -> dict[str, str]:
    """Return which arguments of a library's function are facts, and what they say."""
    tables = _tables_of_variables()
    if frame.function:
        return tables.get((module, frame.function), {})
    # Of a frozen module pytest shows no source, and so no name.
    for (of_module, _), variables in tables.items():
        if of_module == module and all(
            _argument(frame.arguments, path) for path in variables.values()
        ):
            return variables
    return {}


def _argument(arguments: str, path: str) -> str:
    """Return the value of an argument, or of one item of it; empty where it isn't plain."""
    name, _, index = path.partition(".")
    shown = re.search(rf"(?m)(?:^|, ){re.escape(name)} = ", arguments)
    if shown is None or (index and not index.isdecimal()):
        return ""
    value = _leading_literal(arguments[shown.end() :])
    if index and isinstance(value, tuple | list) and int(index) < len(value):
        value = value[int(index)]
    elif index:
        return ""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)[:_MAX_FACT]
    return ""


def _leading_literal(text: str) -> object:
    """Return the value of the literal at the beginning of a text; `None` for none."""
    line = text.partition("\n")[0][:_MAX_FACT]
    ends = [cut.start() for cut in islice(re.finditer(_NEXT, line), _MAX_CUTS)]
    for end in (len(line), *ends):
        try:
            with warnings.catch_warnings(action="ignore"):
                return ast.literal_eval(line[:end])
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def describe(
    chain: Sequence[PrintedException], around: Surroundings
) -> ev.RaisedException | None:
    """Return the exception of a printed chain; `None` where none was printed.

    Args:
        chain: the exception itself first.
        around: what else is known of the failure.
    """
    first, *others = chain
    traceback = _Traceback(first, around)
    name, words = type_and_words(first.message, first.located_type)
    raised_in = _raised_in(traceback, name, words)
    own = _in_pytests_words(words) if name in ("", PYTESTS_FAILED) else None
    if own is not None:
        name, raised_in = own
    if not name:
        return None
    if name in _SYNTAX_ERRORS and first.frames:
        place = first.frames[-1]
        words += f" ({place.path.rpartition('/')[2]}, line {place.line})"
    is_warning = "builtins.Warning" in bases_of(name)
    links = _links_of(others, around, places=is_warning)
    frame = traceback.raising
    for other in others:
        if frame is None and other.is_cause:
            frame = _Traceback(other, around).raising
    frame = frame or traceback.innermost
    if frame is None and raised_in.startswith("_pytest."):
        frame = _frame_of_pytest(raised_in)
    facts = [*traceback.facts(), *_facts_of_words(name, words, traceback)]
    if is_warning:
        facts += _place_of(frame)
    if words.startswith(ASYNC_TEST):
        facts += _plugin_for_async(around.plugins)
    facts += _facts_beside(name, words, frame, traceback, around)
    module, _, last = name.rpartition(".")
    raised = ev.RaisedException(
        type=last,
        module=module,
        message=words,
        bases=bases_of(name),
        raised_in=raised_in,
        origin=_origin_of(chain, around),
        frame=frame,
        facts=tuple(facts),
        chain=links,
        raiser=traceback.raiser,
        raising_function=traceback.raising_function,
    )
    if around.is_setup_or_teardown:
        return _with_fixture(raised, traceback)
    return raised


def _facts_beside(
    name: str,
    words: str,
    frame: ev.RaisingFrame | None,
    traceback: _Traceback,
    around: Surroundings,
) -> Iterator[ev.Fact]:
    """Yield who called a library, which one asks for more, and what a program has printed."""
    own = traceback.own
    is_of_library = frame is not None and frame.owner in ("dependency", "plugin")
    if around.is_collection and is_of_library and own is not None:
        yield ev.Fact(name="called_by", text=own[1].owner)
    if frame is not None and is_of_library and re.search(ASKS_FOR_MORE, words):
        yield ev.Fact(name="library", text=frame.module)
    folder, slash, _ = around.file.partition("/")
    if slash and words == f"No module named '{folder}'":
        # It is there: the folder that the collected file lies in.
        yield ev.Fact(name="own_folder", text=".")
    printing = packaged_table("facts")["output"]
    is_of_program = not printing.keys().isdisjoint(bases_of(name))
    is_of_program = is_of_program or is_about_a_program(words)
    line = telling_line(around.stderr) if is_of_program else ""
    if line:
        yield ev.Fact(name="captured", text=line)


def _plugin_for_async(plugins: str) -> Iterator[ev.Fact]:
    """Yield the plugin that would run an async test if it were marked for it."""
    for name, distribution in PLUGINS_FOR_ASYNC.items():
        if re.search(rf"\b{name}-\d", plugins):
            yield ev.Fact(name="plugin", text=distribution)
            return


def _frame_of_pytest(module: str) -> ev.RaisingFrame:
    """Return the frame of an exception of pytest's whose traceback it doesn't show."""
    path = f"{module.replace('.', '/')}.py"
    return ev.RaisingFrame(
        owner="pytest", package=None, module=module, function="", path=path, line=None
    )


def _origin_of(
    chain: Sequence[PrintedException], around: Surroundings
) -> ev.OriginPlace | None:
    """Return the place that a fingerprint is made of; of a group, that of one member."""
    origin = _Traceback(chain[0], around).origin
    places = []
    for member in chain[1:]:
        name, _ = type_and_words(member.message, member.located_type)
        place = _Traceback(member, around).origin or origin
        if member.is_member and name and place is not None:
            leaf = replace(place, leaf=name.rpartition(".")[2])
            places.append(leaf)
    if not places:
        return origin
    return min(
        places,
        key=lambda place: (
            place.leaf,
            place.path,
            place.function,
            place.text,
            place.entry,
        ),
    )


def _place_of(frame: ev.RaisingFrame | None) -> list[ev.Fact]:
    """Return the fact where a warning was issued, or what it warns of was raised."""
    if frame is None or frame.owner == "pytest":
        return []
    return [ev.Fact(name="place", text=f"{frame.path}:{frame.line}")]


def describe_words(message: str) -> ev.RaisedException | None:
    """Return the exception of a message without a traceback; `None` where it names none."""
    alone = PrintedException(message=message, line=None, located_type="", frames=())
    return describe((alone,), Surroundings(""))


def _links_of(
    others: Sequence[PrintedException], around: Surroundings, *, places: bool
) -> tuple[ev.LinkedException, ...]:
    """Return the exceptions behind an exception; for those behind a warning, the place, too."""
    links = []
    for printed in others:
        name, words = type_and_words(printed.message, printed.located_type)
        if not name:
            continue
        traceback = _Traceback(printed, around)
        facts = [*traceback.facts(), *_facts_of_words(name, words, traceback)]
        if places:
            facts += _place_of(traceback.raising)
        link = ev.LinkedException(
            bases=bases_of(name),
            message=words,
            is_cause=printed.is_cause,
            facts=tuple(facts),
            raiser=traceback.raiser,
        )
        links.append(link)
    return tuple(links)


def type_and_words(message: str, located: str = "") -> tuple[str, str]:
    """Return the dotted name of a printed exception's class, and its words.

    Args:
        message: `Type: words`, or only the words of a rewritten assertion.
        located: the name of the type that pytest printed behind the failing place.
    """
    name = located
    words = message
    if message.startswith("assert "):
        name = "AssertionError"
    first_line = message.partition("\n")[0]
    if match := _NAME.match(first_line):
        printed = match[1]
        last = printed.rpartition(".")[2]
        # A word before a colon need be no exception.
        is_name = printed.endswith(_ENDINGS) or "." in printed
        is_exception = last[:1].isupper() and is_name
        if is_exception or (located and last == located.rpartition(".")[2]):
            name = printed
            words = message[match.end() :]
    if name and "." not in name:
        if name == "Failed":
            name = PYTESTS_FAILED
        elif hasattr(builtins, name):
            name = f"builtins.{name}"
    return name, words


def is_telling(message: str) -> bool:
    """Tell whether words name an exception, or are some that only pytest has."""
    return bool(type_and_words(message)[0]) or _in_pytests_words(message) is not None


def _in_pytests_words(words: str) -> tuple[str, str] | None:
    """Return the class of what pytest says without naming it, and the module that raised it."""
    for row in packaged_table("output")["own_words"]:
        if re.match(row["pattern"], words):
            return row["type"], row.get("raised_in", "")
    return None


@cache
def bases_of(name: str) -> tuple[str, ...]:
    """Return the dotted names of a class and of its bases, as far as these are known."""
    module, _, last = name.rpartition(".")
    own = getattr(builtins, last, None)
    if module == "builtins" and isinstance(own, type):
        return tuple(f"builtins.{base.__name__}" for base in own.__mro__[:-1])
    names = dict.fromkeys([name])
    for base in packaged_table("bases")["bases"].get(name, ()):
        names |= dict.fromkeys(bases_of(base))
    for base in _OF_ALL:
        names.pop(base, None)
    return (*names, *_OF_ALL)


def _raised_in(traceback: _Traceback, name: str, words: str) -> str:
    """Return the module that called `pytest.fail`."""
    if name != PYTESTS_FAILED:
        return ""
    if not traceback:
        is_own_call = False
        module = ""
    else:
        is_own_call = "fail(" in traceback.frames[-1].statement
        module = traceback.codes[-1].module
    if is_own_call and not module.endswith(_OWN_TIMEOUT):
        return module
    timed_out = re.match(packaged_table("output")["patterns"]["plugin_timeout"], words)
    return _OWN_TIMEOUT if timed_out else module


def _facts_of_words(name: str, words: str, traceback: _Traceback) -> Iterator[ev.Fact]:
    """Yield what the live run reads from an exception's fields, where the text has it."""
    if name == "builtins.AssertionError":
        difference = compare_words(words)
        if difference != "other":
            yield ev.Fact(name="differs_in", text=difference)
    elif name == "builtins.KeyError" and traceback:
        asked = re.search(_ENVIRONMENT, traceback.frames[-1].statement)
        if asked is not None and words == f"'{asked['name']}'":
            yield ev.Fact(name="raised_by", text="os")
            yield ev.Fact(name="variable", text=asked["name"])


def _with_fixture(
    raised: ev.RaisedException, traceback: _Traceback
) -> ev.RaisedException:
    """Add the fixture in whose setup or teardown the exception was raised."""
    for frame, code in zip(traceback.frames, traceback.codes, strict=True):
        if code.owner in ("pytest", "python"):
            continue
        is_named = frame.is_fixture or not frame.first_line
        if not is_named or not frame.function or _CLASSIC_SETUP.match(frame.function):
            return raised
        place = None
        if code.is_own and frame.first_line:
            place = ev.Location(path=code.path, line=frame.first_line)
        return replace(raised, fixture=frame.function, fixture_place=place)
    return raised


def location_of(
    chain: Sequence[PrintedException], around: Surroundings
) -> ev.Location | None:
    """Return the innermost line of the user's that a traceback shows, or else a library's."""
    return _Traceback(chain[0], around).location


def below_pytest(printed: PrintedException, around: Surroundings) -> PrintedException:
    """Return an exception without the frames of who called pytest, such as a script."""
    owners = [around.code_of(frame.path).owner for frame in printed.frames]
    first = owners.index("pytest") if "pytest" in owners else 0
    return replace(printed, frames=printed.frames[first:])


def words_of_error(
    chain: Sequence[PrintedException], around: Surroundings, loaded: str = ""
) -> str:
    """Return type and message of an error outside of the tests, and the place in the user's code.

    Args:
        chain: the exception itself first.
        around: what else is known.
        loaded: the file that was being loaded.
    """
    first = chain[0]
    traceback = _Traceback(first, around)
    name, message = type_and_words(first.message, first.located_type)
    last = name.rpartition(".")[2]
    words = f"{last}: {message}" if last and message else last or message
    own = traceback.own
    hook = None if loaded else _hook_in(traceback)
    if hook is not None and hook[1].is_own:
        frame, code = own or hook
        return with_place(
            words, code.path, frame.line, hook[1].path, within=hook[0].function
        )
    if hook is not None and own is None:
        plugin = hook[1].module.partition(".")[0].replace("_", "-")
        kind, colon, message = words.partition(": ")
        raised = f"{kind} raised by {plugin} in {hook[0].function}"
        return with_place(f"{raised}{colon}{message}", hook[1].path, hook[0].line)
    if own is not None:
        return with_place(words, own[1].path, own[0].line, loaded)
    return f"{words} (from {loaded})" if loaded else words


def _hook_in(traceback: _Traceback) -> tuple[PrintedFrame, Code] | None:
    """Return the innermost hook implementation, unless it is pytest's."""
    found = None
    called_by_pluggy = False
    for frame, code in zip(traceback.frames, traceback.codes, strict=True):
        if called_by_pluggy and frame.function.startswith("pytest_"):
            found = frame, code
        called_by_pluggy = code.module.startswith("pluggy")
    if found is None or found[1].module.startswith(("_pytest.", "pluggy.")):
        return None
    return found
