"""Describe exceptions as plain values: their type, text, fields and causes.

The reports of pytest say how a failure reads. They don't say of which type the
exception was. What is read of the fields of an exception stands in
`taxonomy/data/facts.toml`. As everywhere in the recorder no code of the user's runs:
see `inspection`.

How a failure reads is the `longrepr` of a report, which may be one of several types.
pytest renders it by a terminal writer, which takes 100 µs and more. Here its lines are
joined, which gives the same text. A `longrepr` of a plugin's or the user's own type is
asked for its text, as pytest does, and whatever comes of it is held.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
)
from typing import Any, Final, TypedDict

import pytest

# Not public, and what most failures have.
from _pytest._code.code import ExceptionChainRepr

from pytest_failure_taxonomy.hooks import beside, inspection, origin, tracebacks
from pytest_failure_taxonomy.hooks.misfits import misfit_of
from pytest_failure_taxonomy.hooks.owners import distribution_of, distribution_with
from pytest_failure_taxonomy.hooks.surroundings import facts_around
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.system.process import own_limits
from pytest_failure_taxonomy.taxonomy import evidence, packaged_table, program_words
from pytest_failure_taxonomy.taxonomy.code_owners import LIBRARIES
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import telling_line
from pytest_failure_taxonomy.text import cap_between_words, with_place

MAX_TEXT: Final = 100_000
"""Characters kept of one traceback; the report cuts further. The comparison of large
values has megabytes: too many to search for secrets, to write to the record and to keep
in memory."""
MAX_MESSAGE: Final = 8_000
"""Characters kept of one message, an exception's as well; the report cuts further."""
MAX_LINKS: Final = 8
"""Exceptions that are read of one chain."""
_MAX_FACT: Final = 1_000
"""Characters of a fact; a longer text is skipped."""
_MAX_LINKED_MESSAGE: Final = 2_000
"""Characters kept of the message of an exception in a chain."""
_MAX_PART: Final = 200
"""Characters of what a doctest expects, and of what it got."""

_IMPORT_FAILURES: Final = frozenset(
    {"_pytest.config.ConftestImportFailure", "_pytest.config.PluginImportFailure"}
)
_UNCAUGHT: Final = {
    "pytest.PytestUnraisableExceptionWarning": "unraisable",
    "pytest.PytestUnhandledThreadExceptionWarning": "unhandled in a thread:",
}
"""pytest's warnings of exceptions that could not be caught, and a word for each."""
_WITH_FRAMES: Final = frozenset(
    {
        "builtins.ImportError",
        "builtins.OSError",
        "builtins.KeyError",
        "builtins.SystemExit",
        "http.client.HTTPException",
        "bdb.BdbQuit",
    }
)
"""Exceptions about which a frame of the standard library may say more."""
_OF_SYSTEM: Final = frozenset({"builtins.OSError", "sqlite3.OperationalError"})
"""Exceptions that may come of what an earlier test did to the process, or another
process holds."""
_PATH: Final = type(Path())
_FIXTURES: Final = pytest.fixture.__code__.co_filename
_OF_FIXTURES: Final = {"pytest_fixture_setup": "fixturedef", "finish": "self"}
"""Functions of pytest that set a fixture up or tear it down, and where they have it."""
_OF_CLASSIC_SETUP: Final = ("_xunit_", "_unittest_")
"""How the fixtures are called that pytest makes of `setup_method`, `setUpClass` and the
like."""
_ASSERTION: Final = inspection.names_of_bases(AssertionError)


class _Seen(TypedDict, total=False):
    """Fields of a `RaisedException` that most have no use for."""

    memory: evidence.MemoryPressure | None
    raised_in: str
    raiser: str | None
    raising_function: str
    fixture: str
    fixture_place: evidence.Location | None
    facts: tuple[evidence.Fact, ...]
    chain: tuple[evidence.LinkedException, ...]


def describe_exception(
    error: BaseException,
    origins: origin.OriginFinder,
    formatted: str = "",
    report: pytest.TestReport | pytest.CollectReport | None = None,
) -> evidence.RaisedException:
    """Describe an exception by its type, message, origin, and the exceptions behind it.

    Args:
        error: has been raised.
        origins: finds where it comes from.
        formatted: type and text, as for `inspection.text_of`.
        report: of the test or the collector; it has the texts of the whole chain.
    """
    kind = type(error)
    message = message_of(error, formatted)
    place, frame = origins.find(error)
    is_in_fixtures = report is not None and report.when in ("setup", "teardown")
    more: _Seen = {}
    if kind is AssertionError:
        bases = _ASSERTION
        # A plain assertion holds nothing.
        is_more = inspection.cause_or_context_of(error)[0] is not None
        is_more = is_more or program_words.is_about_a_program(message)
    else:
        bases = inspection.names_of_bases(kind)
        more["raiser"] = origins.raiser_of(error)
        more["raising_function"] = origins.raising_function_of(error)
        is_more = kind is not MemoryError or is_in_fixtures
        if issubclass(kind, MemoryError):
            more["memory"] = _memory_pressure()
        elif issubclass(kind, pytest.fail.Exception):
            more["raised_in"] = _module_failing(error)
    if is_in_fixtures or is_more:
        with suppress(OSError, MemoryError):  # all descriptors or memory are used up
            if is_in_fixtures:
                more |= _fixture_of(error, origins.rootdir)
            if is_more:
                facts = _facts_of(error, bases, message, origins)
                if issubclass(kind, Warning):
                    facts |= _place_of(error, frame, origins)
                is_collection = report is None or report.when == "collect"
                if is_collection and frame and frame.owner == "dependency":
                    facts |= _caller_at(place, origins)
                more["facts"] = _make_facts(facts)
                more["chain"] = _chain_of(error, report and report.longrepr, origins)
    raised = evidence.RaisedException(
        type=inspection.name_of(kind),
        module=inspection.module_of(kind),
        message=message,
        bases=bases,
        origin=place,
        frame=frame,
        **more,
    )
    if is_more:
        with suppress(OSError, MemoryError):
            return _add_program_output(raised, error, report)
    return raised


def _module_failing(error: BaseException) -> str:
    """Return the module that called `pytest.fail`."""
    for entry in reversed(inspection.entries_of(error)):
        module = tracebacks.module_of_frame(entry.tb_frame)
        if module != "_pytest.outcomes":
            return module
    return ""


def _add_program_output(
    raised: evidence.RaisedException,
    error: BaseException,
    report: pytest.TestReport | pytest.CollectReport | None,
) -> evidence.RaisedException:
    """Add what a program printed before it failed, or this one before it left."""
    facts = raised.facts
    printing = packaged_table("facts")["output"]
    is_exit = "builtins.SystemExit" in raised.names
    is_of_program = not printing.keys().isdisjoint(raised.names)
    if not is_of_program and program_words.is_about_a_program(raised.message):
        is_of_program = True
        process = beside.find_asserted_process(error)
        if process is not None:
            of_process = _facts_of_fields(process, (beside.COMPLETED_PROCESS,))
            facts += _make_facts(of_process)
    has_said = any(fact.name == "said" for fact in facts)
    if (is_exit or is_of_program) and not has_said:
        line = beside.find_printed_line(error, report, is_exit=is_exit)
        if line:
            facts += _make_facts({"captured": line})
    return replace(raised, facts=facts)


def name_exception(error: BaseException) -> evidence.RaisedException:
    """Describe an exception by its type alone, which no test can have patched."""
    kind = type(error)
    return evidence.RaisedException(
        type=inspection.name_of(kind),
        module=inspection.module_of(kind),
        message="",
        bases=inspection.names_of_bases(kind),
    )


def _facts_of(
    error: BaseException,
    bases: tuple[str, ...],
    message: str,
    origins: origin.OriginFinder,
) -> dict[str, str]:
    """Return facts from the fields of an exception and its frames, besides its message.

    Args:
        error: has been raised.
        bases: the dotted names of its classes.
        message: its text.
        origins: of the run.
    """
    facts: dict[str, str] = {}
    if not _WITH_FRAMES.isdisjoint(bases):
        _read_frames(error, facts, origins)
    facts |= _facts_of_fields(error, bases)
    facts |= _facts_of_run(error, bases, message, facts, origins)
    facts |= _old_setup_of(inspection.holder_of(error))
    is_file = "builtins.FileNotFoundError" in bases and "filename" in facts
    if is_file and "folder_gone" not in facts:  # else no path is relative to anything
        # Relative to the root directory, so that it reads the same in any checkout.
        file = own_files.location(facts["filename"], None, origins.rootdir)
        facts["file"] = file.path
    if "builtins.ModuleNotFoundError" in bases and "name" in facts:
        facts |= distribution_with(facts["name"], str(origins.rootdir))
    facts |= facts_around(error, message, origins)
    facts |= misfit_of(error, message, origins)
    if re.search(program_words.ASKS_FOR_MORE, message):
        frame = origins.find(error)[1]
        if frame is not None and frame.owner in ("dependency", "plugin"):
            facts["library"] = frame.module
    return facts


def _facts_of_fields(holder: object, bases: Iterable[str]) -> dict[str, str]:
    """Return what an exception, or a `CompletedProcess`, itself holds.

    Args:
        holder: the one or the other.
        bases: the dotted names of its classes.
    """
    facts: dict[str, str] = {}
    tables = packaged_table("facts")["fields"]
    for base in bases:
        for name, paths in tables.get(base, {}).items():
            _add(facts, name, holder, paths)
    if "command" in facts:
        program = facts["command"].strip().partition(" ")[0]
        facts["command"] = os.path.basename(program)
    line = _find_program_output(holder, bases)
    if line:
        facts.setdefault("said", line)
    return facts


def _find_program_output(error: object, bases: Iterable[str]) -> str:
    """Return the output of a program if the exception is about a program."""
    tables = map(packaged_table("facts")["output"].get, bases)
    for path in " ".join(filter(None, tables)).split():
        if line := program_words.telling_line(_read_path(error, path), or_last=True):
            return line
    return ""


def _make_facts(facts: dict[str, str]) -> tuple[evidence.Fact, ...]:
    return tuple(evidence.Fact(name=name, text=text) for name, text in facts.items())


def _caller_at(
    place: evidence.OriginPlace | None, origins: origin.OriginFinder
) -> dict[str, str]:
    """Return the fact that says whose line called a library; empty without a line."""
    if place is None or not place.text:
        return {}
    file = f"{origins.roots[0]}{place.path}"
    owner = origins.raising_frames.owner_of_users(file, place.path)
    return {"called_by": "test" if file == str(origins.collected) else owner}


def _chain_of(
    error: BaseException, shown: object, origins: origin.OriginFinder
) -> tuple[evidence.LinkedException, ...]:
    """Return the exceptions behind an exception, the nearest first.

    Args:
        error: has been raised.
        shown: what pytest has formatted; it has the texts of the whole chain.
        origins: of the run.
    """
    links: list[evidence.LinkedException] = []
    entries = inspection.attribute_of(shown, "chain")
    # The last entry is the exception itself.
    texts = iter(entries[-2::-1] if type(entries) is list else ())
    visited = {id(error)}
    while len(links) < MAX_LINKS:
        linked, is_cause = inspection.cause_or_context_of(error)
        if linked is None and issubclass(type(error), BaseExceptionGroup):
            linked = next(origin.leaves_of(error), None)
            texts = iter(())
        if linked is None or id(linked) in visited:
            break
        visited.add(id(linked))
        bases = inspection.names_of_bases(type(linked))
        crash = next(texts, (None, None))[1]
        formatted = "" if crash is None else str(crash.message)
        text = ""
        if formatted or inspection.says_plainly(linked):
            text = inspection.text_of(linked, formatted)
        message = cap_between_words(text, _MAX_LINKED_MESSAGE)
        facts = _facts_of(linked, bases, message, origins)
        # A warning of an exception that could not be caught was issued far away from
        # it.
        if issubclass(type(error), Warning):
            facts |= _place_of(linked, origins.find(linked)[1], origins)
        link = evidence.LinkedException(
            bases=bases,
            message=message,
            is_cause=is_cause,
            facts=_make_facts(facts),
            raiser=origins.raiser_of(linked),
        )
        links.append(link)
        error = linked
    return tuple(links)


def _fixture_of(error: BaseException, rootdir: Path) -> _Seen:
    """Return name and place of the fixture whose setup or teardown raised.

    A fixture that is kept for several tests raises the same exception for each of them.
    """
    for entry in reversed(inspection.entries_of(error)):
        frame = entry.tb_frame
        code = frame.f_code
        if code.co_filename == _FIXTURES and code.co_name in _OF_FIXTURES:
            variable = _OF_FIXTURES[code.co_name]
            definition = frame.f_locals.get(variable)
            name = inspection.attribute_of(definition, "argname")
            if type(name) is not str or name.startswith(_OF_CLASSIC_SETUP):
                return {}
            function = inspection.attribute_of(definition, "func")
            return {
                "fixture": name,
                "fixture_place": _locate_function(function, rootdir),
            }
    return {}


def _locate_function(function: object, rootdir: Path) -> evidence.Location | None:
    """Return where a function of the user's is defined, its decorators included."""
    if type(function) is MethodType:
        function = function.__func__
    if type(function) is not FunctionType:
        return None
    code = function.__code__
    if not own_files.is_own(code.co_filename, rootdir):
        return None
    return own_files.location(code.co_filename, code.co_firstlineno, rootdir)


def _read_frames(
    error: BaseException, facts: dict[str, str], origins: origin.OriginFinder
) -> None:
    """Add facts of the innermost frames, those of libraries; the outermost counts."""
    tables = packaged_table("facts")["frames"]
    entries = inspection.entries_of(error)
    for entry in reversed(entries[-tracebacks.MAX_FRAMES :]):
        frame = entry.tb_frame
        code = frame.f_code
        if own_files.is_own(code.co_filename, origins.rootdir):
            return
        module = tracebacks.module_of_frame(frame)
        if module in ("bdb", "pdb"):
            place = origin.own_place_of(error, origins.rootdir)
            if place is not None:
                facts["breakpoint"] = f"{place.path}:{place.line}"
            return
        variables = tables.get(f"{module}.{code.co_qualname}")
        if not variables:
            continue
        facts["raised_by"] = module
        for name, path in variables.items():
            variable, _, rest = path.partition(".")
            _add(facts, name, frame.f_locals.get(variable), rest)


def _add(facts: dict[str, str], name: str, holder: object, paths: str) -> None:
    """Add a fact if a path (it may be empty) leads to a text or a whole number."""
    for path in paths.split() or ("",):
        value = _read_path(holder, path)
        if type(value) is _PATH:
            value = str(value)
        is_text = type(value) is str and 0 < len(value) <= _MAX_FACT
        if is_text or type(value) is int:
            facts[name] = str(value)
            return


def _facts_of_run(
    error: BaseException,
    bases: tuple[str, ...],
    message: str,
    facts: dict[str, str],
    origins: origin.OriginFinder,
) -> dict[str, str]:
    """Return how an exception is related to earlier tests and other workers."""
    if origins.ledger is not None and not _OF_SYSTEM.isdisjoint(bases):
        return origins.ledger.facts_of(error, message, facts)
    if "builtins.ResourceWarning" in bases:
        # Below the root directory a file is not in the `tmp_path` of a test of this
        # run.
        is_own = str(origins.rootdir) in message
        return {"in_root": "yes"} if is_own else {}
    if "pytest.PytestUnraisableExceptionWarning" not in bases:
        return {}
    # Where tracemalloc is on, pytest tells where the object was made.
    _, _, stack = message.partition("\nObject allocated at:\n")
    place = origin.own_place_in([*origin.printed_frames(stack)], origins.rootdir)
    if place is None:
        return {}
    return {"allocated": f"{place.path}:{place.line}"}


def _place_of(
    error: BaseException,
    frame: evidence.RaisingFrame | None,
    origins: origin.OriginFinder,
) -> dict[str, str]:
    """Return the fact where a warning was issued, or what it warns of was raised.

    A node that can't be collected is a class or a function of the user's. pytest warns
    of it from a method of its own, which has looked the place up.
    """
    if frame is None:
        return {}
    if frame.owner != "pytest":
        return {"place": f"{frame.path}:{frame.line}"}
    names = inspection.entries_of(error)[-1].tb_frame.f_locals
    path = names.get("path")
    line = names.get("lineno")
    if type(path) is not _PATH or type(line) is not int:
        return {}
    place = own_files.location(str(path), line + 1, origins.rootdir)
    return {"place": f"{place.path}:{place.line}"}


def _old_setup_of(holder: object) -> dict[str, str]:
    """Return the fact that a class has nose's `setup`, which pytest 8 ignores."""
    bodies = [inspection.body_of(base) for base in inspection.bases_of(type(holder))]
    names = {name for body in bodies for name in body}
    is_old = "setup" in names and "setup_method" not in names
    return {"old_setup": "setup"} if is_old else {}


def _read_path(holder: Any, path: str) -> Any:
    """Return the value at the end of a path, `None` if it leads nowhere."""
    for step in filter(None, path.split(".")):
        kind = type(holder)
        if step.isdecimal():
            items: Sequence[Any] = ()
            if kind is list:
                items = holder
            elif issubclass(kind, tuple):  # not by a method of a class of the user's
                items = tuple.__getitem__(holder, slice(None))
            index = int(step)
            holder = None
            if index < len(items):
                holder = items[index]
        elif kind is dict:
            holder = holder.get(step)
        else:
            holder = next(_fields(holder, step), None)
    return holder


def _fields(holder: object, name: str) -> Iterator[object]:
    """Yield what an object and its classes hold under a name, without properties."""
    own = inspection.attribute_of(holder, name)
    if own is not None:
        yield own
    for base in inspection.bases_of(type(holder)):
        value: Any = inspection.body_of(base).get(name)
        kind: type = type(value)
        is_slot = kind is MemberDescriptorType
        if kind is GetSetDescriptorType:
            is_slot = inspection.module_of(base) == "builtins"
        if is_slot:
            with suppress(AttributeError):  # a slot that is empty
                yield value.__get__(holder)
        elif value is not None and inspection.is_plain(value):
            yield value


def _memory_pressure() -> evidence.MemoryPressure | None:
    """Return the memory limit closest to being reached; `None` without a limit.

    The exception still holds what its frames had, so that this is nearly what they
    used.
    """
    try:
        used = own_limits()
    except MemoryError:  # nothing is left; which limit is unknown
        return None
    pressures = [
        evidence.MemoryPressure(
            limit=name,
            used_bytes=use,
            limit_bytes=limit,
        )
        for name, (use, limit) in used.items()
    ]
    return max(pressures, key=_used_share, default=None)


def _used_share(pressure: evidence.MemoryPressure) -> float:
    return pressure.used_bytes / max(1, pressure.limit_bytes)


def cause_of(error: BaseException) -> BaseException:
    """Return the exception that pytest has wrapped in an import error of its own."""
    is_refusal = issubclass(type(error), pytest.Collector.CollectError)
    if is_refusal or is_import_failure(error):
        return inspection.direct_cause_of(error) or error
    return error


def is_import_failure(error: BaseException) -> bool:
    """Tell whether pytest wraps an error in a conftest or (from 9.2) a plugin in it."""
    return inspection.dotted_name_of(type(error)) in _IMPORT_FAILURES  # not public


def message_of(error: BaseException, formatted: str = "") -> str:
    """Return the text of an exception, capped.

    The text of a doctest's failure does not say what was wrong, so it is replaced.
    """
    if type(error) is AssertionError:
        return cap_between_words(inspection.text_of(error, formatted), MAX_MESSAGE)
    text = _words_of_doctest(error) or inspection.text_of(error, formatted)
    path, _ = origin.named_place(error)
    # The name of an installed file may be `__init__.py`. The place of a user's is added
    # anyway.
    if _is_installed(path) or path.startswith(own_files.STANDARD_LIBRARY):
        name = os.path.basename(path)
        text = text.replace(f"({name}, line ", f"({path}, line ")
    return cap_between_words(text, MAX_MESSAGE)


def _is_installed(path: str) -> bool:
    return not LIBRARIES.isdisjoint(path.split(os.sep))


def quotes_a_traceback(message: str) -> bool:
    """Tell whether the message of an exception is a traceback from another process."""
    text = message.strip()
    return not text.startswith(telling_line(text))


def words_of(
    error: BaseException, rootdir: Path, loaded: str = "", formatted: str = ""
) -> str:
    """Return type and message of an exception, and the place in the user's code.

    xdist passes a worker's error on as an exception whose message is the traceback.

    Args:
        error: any exception.
        rootdir: absolute.
        loaded: the file or plugin that was being loaded.
        formatted: type and text, as for `inspection.text_of`.
    """
    uncaught = _words_of_uncaught(error, rootdir)
    if uncaught:
        return uncaught
    text = message_of(error, formatted).strip()
    if quotes_a_traceback(text):
        words = telling_line(text)
        frames = [*origin.printed_frames(text)]
        place = origin.own_place_in(frames, rootdir)
    else:
        words = _format_exception(error, text)
        frames = origin.frames_of(error)
        place = origin.own_place_of(error, rootdir)
    hook = None if loaded else origin.hook_in(frames)
    if hook is not None and own_files.is_own(hook.path, rootdir):
        file = own_files.location(hook.path, hook.line, rootdir)
        raised_at = place or file
        return with_place(
            words, raised_at.path, raised_at.line, file.path, within=hook.function
        )
    if hook is not None and place is None:
        path = origin.path_below_libraries(hook.path)
        is_refusal = issubclass(type(error), pytest.UsageError)
        plugin = "" if is_refusal else words_of_plugin(hook.path)
        if not plugin:
            return with_place(words, path, hook.line, within=hook.function)
        kind, colon, message = words.partition(": ")
        raised = f"{kind} raised by {plugin} in {hook.function}"
        return with_place(f"{raised}{colon}{message}", path, hook.line)
    if place is not None:
        return with_place(words, place.path, place.line, loaded)
    return f"{words} (from {loaded})" if loaded else words


def _format_exception(error: BaseException, message: str) -> str:
    """Return type and message, as Python prints them."""
    name = inspection.name_of(type(error))
    if message:
        return f"{name}: {message}"
    return name


def _words_of_uncaught(error: BaseException, rootdir: Path) -> str:
    """Return what pytest warns of that could not be caught; empty for all else.

    It was raised in a thread, say. With `-W error` the warning, or a group of several,
    is raised outside of any test.
    """
    first = error
    others = 0
    if issubclass(type(error), BaseExceptionGroup):
        members = origin.exceptions_in(error)
        first = members[0]
        others = len(members) - 1
    where = _UNCAUGHT.get(inspection.dotted_name_of(type(first)))
    uncaught = inspection.direct_cause_of(first)
    if where is None or uncaught is None:
        return ""
    return f"{where} {words_of(uncaught, rootdir)}{_describe_others(others)}"


def _describe_others(count: int) -> str:
    if count:
        return f" (and {count} more)"
    return ""


def words_of_plugin(path: str) -> str:
    """Return name and version of a plugin file's distribution; empty for none."""
    distribution = None
    if _is_installed(path):
        distribution = distribution_of(path)
    return "" if distribution is None else distribution.words


def _words_of_doctest(error: Any) -> str:
    """Return what a doctest's first failure expected and got; empty for no doctest."""
    kind = inspection.dotted_name_of(type(error))
    if kind == "_pytest.doctest.MultipleDoctestFailures":
        first, *others = error.failures
        return _words_of_doctest(first) + _describe_others(len(others))
    if kind == "doctest.UnexpectedException":
        raised = error.exc_info[1]
        return _format_exception(raised, message_of(raised))
    if kind == "doctest.DocTestFailure":
        expected = _shorten(error.example.want)
        return f"expected {expected}, got {_shorten(error.got)}"
    return ""


def _shorten(text: str) -> str:
    first, newline, _ = text.strip().partition("\n")
    if not first:
        return "nothing"
    if len(first) > _MAX_PART:
        return f"{first[:_MAX_PART]}…"
    return f"{first} …" if newline else first


# What pytest shows of a failure.


def shown_text(longrepr: Any) -> str | None:
    """Return the text of a `longrepr`, without its middle if it is too long."""
    if longrepr is None:
        return None
    return cap_between_words(_whole_text(longrepr), MAX_TEXT)


def _whole_text(longrepr: Any) -> str:
    if issubclass(type(longrepr), str):
        return str.__str__(longrepr)  # not its own method
    kind = inspection.dotted_name_of(type(longrepr)).removeprefix("_pytest._code.code.")
    if kind == "ExceptionChainRepr":
        entries = longrepr.chain
    elif kind == "ReprExceptionInfo" and hasattr(longrepr.reprtraceback, "reprentries"):
        entries = [(longrepr.reprtraceback, None, "")]
    else:
        try:
            return str(longrepr)
        except BaseException as failure:  # foreign
            if inspection.came_from_signal(failure):
                raise
            return f"<text not available: {inspection.name_of(type(failure))}>"
    lines: list[str] = []
    for reprtraceback, _, description in entries:
        _add_traceback(lines, reprtraceback)
        if description:
            lines += ["", description, ""]
    return "\n".join(lines)


def shown_message(longrepr: Any) -> str:
    """Return the message that pytest's short summary would show."""
    crash = _crash_of(longrepr)
    if crash is not None:
        text = str(crash.message)
    elif longrepr is None:
        text = ""
    else:
        text = _whole_text(longrepr).strip()
        if not issubclass(type(longrepr), str):
            text = text.rpartition("\n")[2]
    return cap_between_words(text, MAX_MESSAGE)


def shown_exception(longrepr: Any) -> str:
    """Return type and text as pytest has formatted them; empty if it has not.

    Of a module that can't be imported the text has them in its last lines, after an
    `E`.
    """
    crash = _crash_of(longrepr)
    if crash is not None:
        return str(crash.message)
    if longrepr is None:
        return ""
    lines = _whole_text(longrepr)[-MAX_TEXT:].rstrip().splitlines()
    first = len(lines)
    while first and lines[first - 1].startswith("E   "):
        first -= 1
    return "\n".join([line[4:] for line in lines[first:]])


def words_for_people(longrepr: Any) -> str:
    """Return the text that pytest or a custom item shows instead of a traceback.

    Such a text is meant for people; the `str()` of the exception may be its arguments.
    """
    if issubclass(type(longrepr), str):
        return cap_between_words(_whole_text(longrepr).strip(), MAX_MESSAGE)
    if type(longrepr) is ExceptionChainRepr:
        return ""
    words = inspection.attribute_of(longrepr, "errorstring")
    if type(words) is not str:
        return ""
    # Of a missing fixture; a list of the existing ones follows.
    first = words.strip().partition("\n")[0].strip()
    return cap_between_words(first, MAX_MESSAGE)


def shown_place(longrepr: Any, rootdir: Path) -> evidence.Location | None:
    """Return the place that pytest shows; for a library, the line that called it.

    If the traceback has no line of the user's code, return pytest's place anyway.
    """
    crash = _crash_of(longrepr)
    if crash is None:
        return None
    if not own_files.is_own(crash.path, rootdir):
        shown = inspection.attribute_of(longrepr, "reprtraceback")
        for entry in reversed(getattr(shown, "reprentries", ())):
            place = getattr(entry, "reprfileloc", None)
            if place is not None and own_files.is_own(place.path, rootdir):
                return own_files.location(place.path, place.lineno, rootdir)
    return own_files.location(crash.path, crash.lineno, rootdir)


def _crash_of(longrepr: object) -> Any:
    """Return pytest's object with a crash's place and message; `None` without one."""
    # That of nearly all failures, which is asked often.
    if type(longrepr) is ExceptionChainRepr:
        return longrepr.reprcrash
    crash = inspection.attribute_of(longrepr, "reprcrash")
    if inspection.module_of(type(crash)).startswith("_pytest."):
        return crash
    return None


def _add_traceback(lines: list[str], reprtraceback: Any) -> None:
    for index, entry in enumerate(reprtraceback.reprentries):
        if index and entry.style == "long":
            lines.append(reprtraceback.entrysep * 20)
        # --tb=native: as Python prints them, with line ends
        if not hasattr(entry, "reprfileloc"):
            lines += [line.rstrip("\n") for line in entry.lines]
            continue
        where = _place_lines(entry.reprfileloc)
        local_values = [] if entry.reprlocals is None else entry.reprlocals.lines
        if entry.style == "short":
            lines += where
            lines += entry.lines
            lines += local_values
            continue
        arguments = [] if entry.reprfuncargs is None else entry.reprfuncargs.args
        shown = [f"{name} = {text}" for name, text in arguments]
        for block in (shown, entry.lines, local_values, where):
            if block:
                lines += block
                lines.append("")
    if reprtraceback.extraline:
        lines.append(str(reprtraceback.extraline))


def _place_lines(place: Any) -> list[str]:
    if place is None:
        return []
    head = place.message.partition("\n")[0]
    return [f"{place.path}:{place.lineno}: {head}"]
