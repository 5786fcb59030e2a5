"""Describe the exceptions of a printed traceback as the live run describes its own.

The text has less: no base classes, no fields, no qualified names. What it does have
leads to the same values, so that the same rows of the tables know a failure.
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
from operator import attrgetter
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
_CALLED: Final[tuple[CodeOwner, ...]] = ("python", "pytest")
"""Owners of code that raises because of what its caller did."""
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
        shown = path
        if self.rootdir:
            shown = path.removeprefix(f"{self.rootdir}/")
        elif self.file and path.endswith(f"/{self.file}"):
            shown = self.file  # a quiet log does not say where the root is
        parts = shown.split("/")
        # The innermost folder of libraries counts: an environment can lie in the root.
        for depth in range(len(parts) - 1, 0, -1):
            if parts[depth - 1] in LIBRARIES:
                return _installed_code("/".join(parts[depth:]))
        if match := _STANDARD_LIBRARY.fullmatch(path):
            below = match["below"]
            return Code("python", _module_at(below), below)
        if parts[0] in NOT_SOURCES and len(parts) > 1:
            return _installed_code("/".join(parts[1:]))
        if shown.endswith(_COMPILED):
            # Named as on the machine that built the package.
            return _installed_code(shown)
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


def _installed_code(path: str) -> Code:
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


class _Frame(NamedTuple):
    """A frame, and whose code it is."""

    printed: PrintedFrame
    code: Code
    function: str
    """Its qualified name, as far as it is known."""


class _Raised:
    """A printed exception: its type, its words, and whose code its frames are."""

    def __init__(self, printed: PrintedException, around: Surroundings) -> None:
        self.printed = printed
        self.name, self.words = split_message(printed.message, printed.located_type)
        self.frames: list[_Frame] = []
        for frame in printed.frames:
            code = around.code_of(frame.path)
            function = around.name_of(frame, code)
            self.frames.append(_Frame(frame, code, function))

    def innermost(self, *ignored: CodeOwner) -> _Frame | None:
        """Return the innermost frame whose code isn't of some owners."""
        for frame in reversed(self.frames):
            if frame.code.owner not in ignored:
                return frame
        return None

    @property
    def own(self) -> _Frame | None:
        """The user's innermost frame, without hooks that only pass an exception on."""
        passed_on = False
        for frame in reversed(self.frames):
            if frame.code.is_own and not passed_on:
                return frame
            # A wrapper of a hook that asks pluggy for the result passes its error on.
            is_of_pluggy = frame.code.module.startswith("pluggy")
            passed_on = is_of_pluggy and frame.function in _RELAYS
        return None

    @property
    def location(self) -> ev.Location | None:
        """The innermost place in the user's code, or else outside of pytest."""
        frame = self.own or self.innermost(*_CALLED)
        return frame and ev.Location(path=frame.code.path, line=frame.printed.line)

    @property
    def origin(self) -> ev.OriginPlace | None:
        """The place that a fingerprint is made of."""
        frame = self.own or self.innermost("pytest") or self.innermost()
        if frame is None:
            return None
        code = frame.code
        origin = ev.OriginPlace(path=code.path, function=frame.function)
        if not code.is_own:
            return origin
        outermost = next(frame for frame in self.frames if frame.code.is_own)
        entry = f"{outermost.code.path}: {outermost.function}"
        if entry == f"{code.path}: {frame.function}":
            entry = ""
        return replace(origin, text=frame.printed.statement, entry=entry)

    @property
    def raising(self) -> ev.RaisingFrame | None:
        """The innermost frame that is neither the standard library's nor pytest's."""
        return _describe_frame(self.innermost(*_CALLED))

    @property
    def raiser(self) -> str | None:
        """As of `RaisedException`."""
        innermost = self.innermost()
        if innermost is None:
            return None
        code, statement = innermost.code, innermost.printed.statement
        if code.owner == "python" and not code.module.startswith("unittest.mock"):
            return ""
        if statement in ("", _HIDDEN_SOURCE):
            return None
        return code.module if _RAISE.match(statement) else ""

    @property
    def raising_function(self) -> str:
        """As of `RaisedException`."""
        innermost = self.innermost()
        if innermost is None or innermost.code.is_own:
            return ""
        return f"{innermost.code.module}.{innermost.function}"

    @property
    def facts(self) -> list[ev.Fact]:
        """What the live run reads from an exception's fields and its frames."""
        facts = self._read_arguments() | self._read_words()
        return [ev.Fact(name=name, text=text) for name, text in facts.items()]

    def _read_arguments(self) -> dict[str, str]:
        """Return what the frames of libraries were called with, as far as it counts."""
        facts: dict[str, str] = {}
        for frame in reversed(self.frames):
            module = frame.code.module
            if frame.code.is_own:
                break
            if module in _DEBUGGERS:
                if place := self.own:
                    facts["breakpoint"] = f"{place.code.path}:{place.printed.line}"
                break
            arguments = frame.printed.arguments
            variables = _variables_of(module, frame.function, arguments)
            if variables:
                facts["raised_by"] = module
            for name, path in variables.items():
                if text := _argument(arguments, path):
                    facts[name] = text
        return facts

    def _read_words(self) -> dict[str, str]:
        """Return what its words say of its fields."""
        if self.name == "builtins.AssertionError":
            difference = compare_words(self.words)
            return {} if difference == "other" else {"differs_in": difference}
        if self.name == "builtins.KeyError" and self.frames:
            asked = re.search(_ENVIRONMENT, self.frames[-1].printed.statement)
            if asked is not None and self.words == f"'{asked['name']}'":
                return {"raised_by": "os", "variable": asked["name"]}
        return {}


def _describe_frame(frame: _Frame | None) -> ev.RaisingFrame | None:
    if frame is None:
        return None
    return ev.RaisingFrame(
        owner=frame.code.owner,
        package=None,
        module=frame.code.module,
        function=frame.function,
        path=frame.code.path,
        line=frame.printed.line,
    )


@cache
def _tables_of_variables() -> dict[tuple[str, str], dict[str, str]]:
    """Return which arguments are facts, by module and bare name of the function."""
    tables = {}
    for dotted, variables in packaged_table("facts")["frames"].items():
        *modules, function = dotted.split(".")
        if modules[-1].lstrip("_")[:1].isupper():
            modules.pop()  # the class of a method
        tables[".".join(modules), function] = variables
    return tables


def _variables_of(module: str, function: str, arguments: str) -> dict[str, str]:
    """Return which arguments of a library's function are facts, and what they say."""
    tables = _tables_of_variables()
    if function:
        return tables.get((module, function), {})
    # Of a frozen module pytest shows no source, and so no name.
    for (of_module, _), variables in tables.items():
        if of_module == module and all(
            _argument(arguments, path) for path in variables.values()
        ):
            return variables
    return {}


def _argument(arguments: str, path: str) -> str:
    """Return the value of an argument or of its item; empty where it isn't plain."""
    name, _, index = path.partition(".")
    shown = re.search(rf"(?m)(?:^|, ){re.escape(name)} = ", arguments)
    if shown is None or (index and not index.isdecimal()):
        return ""
    value = _leading_literal(arguments[shown.end() :])
    if index:
        if not isinstance(value, tuple | list) or int(index) >= len(value):
            return ""
        value = value[int(index)]
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)[:_MAX_FACT]
    return ""


def _leading_literal(text: str) -> object:
    """Return the value of the literal at the beginning of a text; `None` for none."""
    line = text.partition("\n")[0][:_MAX_FACT]
    ends = [cut.start() for cut in islice(re.finditer(_NEXT, line), _MAX_CUTS)]
    # A text may hold what looks like the next argument: several ends are tried.
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
    first, *others = [_Raised(printed, around) for printed in chain]
    raised_in = _find_caller_of_fail(first)
    if first.name in ("", PYTESTS_FAILED) and (own := _match_own_words(first.words)):
        first.name, raised_in = own
    if not first.name:
        return None
    if first.name in _SYNTAX_ERRORS and first.frames:
        place = first.frames[-1].printed
        file_name = place.path.rpartition("/")[2]
        first.words += f" ({file_name}, line {place.line})"
    bases = bases_of(first.name)
    is_warning = "builtins.Warning" in bases
    frame = first.raising
    for other in others:
        if frame is None and other.printed.is_cause:
            frame = other.raising
    frame = frame or _describe_frame(first.innermost())
    if frame is None and raised_in.startswith("_pytest."):
        # pytest doesn't show the traceback of an exception of its own.
        frame = ev.RaisingFrame(
            owner="pytest",
            package=None,
            module=raised_in,
            function="",
            path=f"{raised_in.replace('.', '/')}.py",
            line=None,
        )
    facts = first.facts
    if is_warning:
        facts += _describe_place(frame)
    if first.words.startswith(ASYNC_TEST):
        facts += _plugin_for_async(around.plugins)
    facts += _facts_beside(first, frame, around)
    module, _, last = first.name.rpartition(".")
    raised = ev.RaisedException(
        type=last,
        module=module,
        message=first.words,
        bases=bases,
        raised_in=raised_in,
        origin=_find_origin(first, others),
        frame=frame,
        facts=tuple(facts),
        chain=_describe_links(others, places=is_warning),
        raiser=first.raiser,
        raising_function=first.raising_function,
    )
    if around.is_setup_or_teardown:
        return _add_fixture(raised, first)
    return raised


def _facts_beside(
    raised: _Raised, frame: ev.RaisingFrame | None, around: Surroundings
) -> Iterator[ev.Fact]:
    """Yield who called a library, which asks for more, and what a program printed."""
    own = raised.own
    if frame is not None and frame.owner in ("dependency", "plugin"):
        if around.is_collection and own is not None:
            yield ev.Fact(name="called_by", text=own.code.owner)
        if re.search(ASKS_FOR_MORE, raised.words):
            yield ev.Fact(name="library", text=frame.module)
    folder, slash, _ = around.file.partition("/")
    if slash and raised.words == f"No module named '{folder}'":
        # It is there: the folder that the collected file lies in.
        yield ev.Fact(name="own_folder", text=".")
    printing = packaged_table("facts")["output"]
    is_of_program = not printing.keys().isdisjoint(bases_of(raised.name))
    is_of_program = is_of_program or is_about_a_program(raised.words)
    if is_of_program and (line := telling_line(around.stderr)):
        yield ev.Fact(name="captured", text=line)


def _plugin_for_async(plugins: str) -> Iterator[ev.Fact]:
    """Yield the plugin that would run an async test if it were marked for it."""
    for name, distribution in PLUGINS_FOR_ASYNC.items():
        if re.search(rf"\b{name}-\d", plugins):
            yield ev.Fact(name="plugin", text=distribution)
            return


def _find_origin(first: _Raised, others: Sequence[_Raised]) -> ev.OriginPlace | None:
    """Return the place that a fingerprint is made of; a group's is of one member."""
    leaves = []
    for member in others:
        place = member.origin or first.origin
        if member.printed.is_member and member.name and place is not None:
            leaf = replace(place, leaf=member.name.rpartition(".")[2])
            leaves.append(leaf)
    key = attrgetter("leaf", "path", "function", "text", "entry")
    return min(leaves, key=key, default=first.origin)


def _describe_place(frame: ev.RaisingFrame | None) -> list[ev.Fact]:
    """Return the fact where a warning was issued, or what it warns of was raised."""
    if frame is None or frame.owner == "pytest":
        return []
    return [ev.Fact(name="place", text=f"{frame.path}:{frame.line}")]


def describe_words(message: str) -> ev.RaisedException | None:
    """Return the exception of a message without a traceback, if it names one."""
    alone = PrintedException(message=message, line=None, located_type="", frames=())
    return describe((alone,), Surroundings(""))


def _describe_links(
    others: Sequence[_Raised], *, places: bool
) -> tuple[ev.LinkedException, ...]:
    """Return the exceptions behind an exception; for a warning's with their places."""
    links = []
    for raised in others:
        if not raised.name:
            continue
        facts = raised.facts
        if places:
            facts += _describe_place(raised.raising)
        link = ev.LinkedException(
            bases=bases_of(raised.name),
            message=raised.words,
            is_cause=raised.printed.is_cause,
            facts=tuple(facts),
            raiser=raised.raiser,
        )
        links.append(link)
    return tuple(links)


def split_message(message: str, located: str = "") -> tuple[str, str]:
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
        # A word before a colon, as in `Note: ...`, need be no exception.
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
    return bool(split_message(message)[0]) or _match_own_words(message) is not None


def _match_own_words(words: str) -> tuple[str, str] | None:
    """Return the class that pytest's own words stand for, and who raised it."""
    for row in packaged_table("output")["own_words"]:
        if re.match(row["pattern"], words):
            return row["type"], row.get("raised_in", "")
    return None


@cache
def bases_of(name: str) -> tuple[str, ...]:
    """Return the dotted names of a class and of its known bases."""
    module, _, last = name.rpartition(".")
    own = getattr(builtins, last, None)
    if module == "builtins" and isinstance(own, type):
        classes = own.__mro__[:-1]  # without `object`
        return tuple(f"builtins.{cls.__name__}" for cls in classes)
    names = dict.fromkeys([name])
    for base in packaged_table("bases")["bases"].get(name, ()):
        names |= dict.fromkeys(bases_of(base))
    for base in _OF_ALL:
        names.pop(base, None)
    return (*names, *_OF_ALL)


def _find_caller_of_fail(raised: _Raised) -> str:
    """Return the module that called `pytest.fail`; empty for other exceptions."""
    if raised.name != PYTESTS_FAILED:
        return ""
    module = ""
    is_own_call = False
    if raised.frames:
        innermost = raised.frames[-1]
        module = innermost.code.module
        is_own_call = "fail(" in innermost.printed.statement
    if is_own_call and not module.endswith(_OWN_TIMEOUT):
        return module
    timeout = packaged_table("output")["patterns"]["plugin_timeout"]
    return _OWN_TIMEOUT if re.match(timeout, raised.words) else module


def _add_fixture(exception: ev.RaisedException, raised: _Raised) -> ev.RaisedException:
    """Add the fixture in whose setup or teardown the exception was raised."""
    for printed, code, function in raised.frames:
        if code.owner in _CALLED:
            continue
        is_named = printed.is_fixture or not printed.first_line
        if not is_named or not function or _CLASSIC_SETUP.match(function):
            return exception
        place = None
        if code.is_own and printed.first_line:
            place = ev.Location(path=code.path, line=printed.first_line)
        return replace(exception, fixture=function, fixture_place=place)
    return exception


def find_location(
    chain: Sequence[PrintedException], around: Surroundings
) -> ev.Location | None:
    """Return the user's innermost line that a traceback shows, or else a library's."""
    return _Raised(chain[0], around).location


def drop_callers_of_pytest(
    printed: PrintedException, around: Surroundings
) -> PrintedException:
    """Return an exception without the frames of who called pytest, such as a script."""
    owners = [around.code_of(frame.path).owner for frame in printed.frames]
    first = owners.index("pytest") if "pytest" in owners else 0
    return replace(printed, frames=printed.frames[first:])


def describe_error(
    chain: Sequence[PrintedException], around: Surroundings, loaded: str = ""
) -> str:
    """Return type, message and the user's place of an error outside of the tests.

    Args:
        chain: the exception itself first.
        around: what else is known.
        loaded: the file that was being loaded.
    """
    raised = _Raised(chain[0], around)
    kind = raised.name.rpartition(".")[2]
    words = ": ".join(filter(None, (kind, raised.words)))
    own = raised.own
    hook = None if loaded else _find_hook(raised)
    if hook is not None and hook.code.is_own:
        frame, code, _ = own or hook
        path = hook.code.path
        return with_place(words, code.path, frame.line, path, within=hook.function)
    if own is not None:
        return with_place(words, own.code.path, own.printed.line, loaded)
    if hook is not None:
        plugin = hook.code.module.partition(".")[0].replace("_", "-")
        kind, colon, message = words.partition(": ")
        words = f"{kind} raised by {plugin} in {hook.function}{colon}{message}"
        return with_place(words, hook.code.path, hook.printed.line)
    return f"{words} (from {loaded})" if loaded else words


def _find_hook(raised: _Raised) -> _Frame | None:
    """Return the innermost hook implementation, unless it is pytest's."""
    hook = None
    called_by_pluggy = False
    for frame in raised.frames:
        if called_by_pluggy and frame.function.startswith("pytest_"):
            hook = frame
        called_by_pluggy = frame.code.module.startswith("pluggy")
    if hook is None or hook.code.module.startswith(("_pytest.", "pluggy.")):
        return None
    return hook
