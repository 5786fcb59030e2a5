"""Describe exceptions as plain values, and keep them until the report of their test comes by.

The reports of pytest say how a failure reads. They don't say of which type the exception was.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.record.write import to_json
from pytest_failure_taxonomy.recorder import longrepr
from pytest_failure_taxonomy.recorder.attribution import Attributor
from pytest_failure_taxonomy.recorder.inspection import (
    bases_of,
    cause_or_context_of,
    direct_cause_of,
    dotted_name_of,
    field_of,
    is_of_fixture_lookup,
    module_of,
    name_of,
    text_of,
    traceback_of,
)
from pytest_failure_taxonomy.recorder.origin import (
    LIBRARIES,
    STANDARD_LIBRARY,
    OriginFinder,
    exceptions_in,
    frames_of,
    hook_in,
    is_own,
    location,
    named_place,
    own_place_in,
    own_place_of,
    path_below_libraries,
    place_of,
    printed_frames,
    raising_module,
)
from pytest_failure_taxonomy.recorder.secrets import changed_secrets
from pytest_failure_taxonomy.report.text import (
    cap_between_words,
    with_place,
)
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    Fact,
    Location,
    MemoryPressure,
    RaisedException,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import telling_line

json = isolate_module(json)

_ATTRIBUTE: Final = "_failure_taxonomy"
"""The attribute by which a worker's report carries the description to the controller."""

_IMPORT_FAILURES: Final = frozenset(
    {"_pytest.config.ConftestImportFailure", "_pytest.config.PluginImportFailure"}
)
_UNCAUGHT: Final = {
    "pytest.PytestUnraisableExceptionWarning": "unraisable",
    "pytest.PytestUnhandledThreadExceptionWarning": "unhandled in a thread:",
}
"""pytest's warnings of exceptions that could not be caught, and a word for each."""

_ASYNC_TEST: Final = "async def functions are not natively supported"
"""What pytest says of an async test that no plugin has taken."""
_PLUGINS_FOR_ASYNC: Final = {"asyncio": "pytest-asyncio", "anyio": "anyio"}
"""Plugins that take only tests which are marked for them, unless they are told otherwise."""

_MAX_PART: Final = 200
"""Characters of what a doctest expects, and of what it got."""


_RESERVE: Final = 4 << 20
"""Bytes of address space that a `MemoryError` sets free. A test that fails of one still has all
that it has asked for, and what describes the failure, and its modules, must fit in beside it."""

Report = pytest.TestReport | pytest.CollectReport


@value
class Described:
    """What a failure's report does not say: a worker sends it along."""

    exception: RaisedException | None
    place: Location | None = None
    attributed: Attribution | None = None


_NOTHING: Final = Described(exception=None)
_ASSERTION: Final = tuple(map(dotted_name_of, bases_of(AssertionError)[:-1]))


class ExceptionMemory:
    """Keep exceptions until their reports come by."""

    def __init__(
        self,
        rootdir: Path,
        attributor: Attributor,
        learn: Callable[[dict[str, str]], None] = lambda _: None,
        *,
        test_files: Sequence[str] = (),
    ) -> None:
        """Begin without exceptions.

        Args:
            rootdir: of the run.
            attributor: asks the user's code why a test failed.
            learn: called on the controller with possible secrets of a worker's environment.
            test_files: the patterns of pytest's `python_files`.
        """
        self._rootdir = rootdir
        self._attributor = attributor
        self._learn = learn
        self._environment = dict(os.environ)
        self._origins = OriginFinder(rootdir, test_files)
        self._raised: dict[tuple[str, str], tuple[pytest.Item, pytest.CallInfo[Any]]] = {}
        self._collecting: dict[str, Described] = {}
        self._received: tuple[Report, Described] | None = None
        self._reserve: mmap.mmap | None = None
        with suppress(OSError, MemoryError):
            self._reserve = mmap.mmap(-1, _RESERVE)  # no page of it is ever touched

    def see_test(self, node: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Keep the outcome of a phase of a test."""
        # Not the exception: a later hook puts that of a unittest into the call.
        self._raised[node.nodeid, call.when] = node, call

    def take_test(self, report: pytest.TestReport) -> Described:
        """Return the exception of a failed test and its attribution, and forget them."""
        if self._received is not None and self._received[0] is report:
            return self._received[1]
        if not self._raised:
            return _NOTHING
        node, call = self._raised.pop((report.nodeid, str(report.when)), (None, None))
        # pytest-forked puts a text there, of a process that has ended.
        error = None if call is None else getattr(call.excinfo, "value", None)
        if node is None or error is None:
            return _NOTHING
        return self.explain_test(node, error, report)

    def explain_test(
        self, node: pytest.Item, error: BaseException, report: pytest.TestReport
    ) -> Described:
        """Describe the exception of a failed test, and ask the user's code for the reason."""
        if issubclass(type(error), MemoryError) and self._reserve is not None:
            self._reserve.close()
            self._reserve = None
        self._origins.collected = _test_module_of(node)
        formatted = longrepr.exception_in(report.longrepr)
        raised = describe_exception(error, self._origins, formatted, report)
        said = longrepr.words_for_people(report.longrepr)
        if said:
            others = missing_fixtures_beside(error)
            raised = replace(raised, message="; ".join([said, *others]))
        if raised.message.startswith(_ASYNC_TEST):
            raised = replace(raised, facts=_plugins_for_async(node.config))
        attributed = self._attributor.ask(node, error, str(report.when))
        return Described(exception=raised, attributed=attributed)

    def describe_error(self, error: BaseException, formatted: str = "") -> RaisedException | None:
        """Describe the cause of an error outside of the tests.

        Return `None` for a worker's error that xdist passes on as text: only the text has its type.

        Args:
            error: left pytest, or one of its hooks.
            formatted: type and text of its cause, as for `inspection.text_of`.
        """
        cause = cause_of(error)
        behind = direct_cause_of(cause)
        if issubclass(type(cause), pytest.UsageError) and issubclass(type(behind), ImportError):
            cause = behind or cause  # a plugin is missing
        if quotes_a_traceback(message_of(cause, formatted)):
            return None
        return describe_exception(cause, self._origins, formatted)

    def forget(self) -> None:
        """Forget exceptions that failed no test: skips, expected failures, reruns."""
        if self._raised:
            self._raised.clear()

    def see_collector(
        self, node: pytest.Collector, call: pytest.CallInfo[Any], report: Report
    ) -> None:
        """Keep the exception of a node that could not be collected."""
        if call.excinfo is None:
            return
        error = cause_of(call.excinfo.value)
        self._origins.collected = _test_module_of(node)
        formatted = longrepr.exception_in(report.longrepr)
        described = describe_exception(error, self._origins, formatted, report)
        said = words_of_refusal(call.excinfo.value)
        if said:
            described = replace(described, message=said)
        place = place_of(error, self._rootdir)
        self._collecting[node.nodeid] = Described(exception=described, place=place)

    def take_collector(self, report: pytest.CollectReport) -> Described:
        """Return exception and place of a node that could not be collected, and forget them."""
        if self._received is not None and self._received[0] is report:
            return self._received[1]
        return self._collecting.pop(report.nodeid, _NOTHING)

    def send_with(self, report: Report) -> None:
        """Attach the exception to a report on a worker."""
        if isinstance(report, pytest.TestReport):
            described = self.take_test(report)
        else:
            described = self.take_collector(report)
        sent = {"described": described, "environment": changed_secrets(self._environment)}
        setattr(report, _ATTRIBUTE, to_json(sent))

    def receive_from(self, report: Report) -> None:
        """Detach the exception from a report on the controller, before other plugins see it."""
        sent = report.__dict__.pop(_ATTRIBUTE, None)
        self._received = None
        if sent is not None:
            from pytest_failure_taxonomy.record.parsing import parse

            found = json.loads(sent)
            self._received = report, parse(Described, found["described"])
            self._learn(found["environment"])


def describe_exception(
    error: BaseException, origins: OriginFinder, formatted: str = "", report: Report | None = None
) -> RaisedException:
    """Describe an exception by its type, message and origin, and by what is behind it.

    Args:
        error: has been raised.
        origins: finds where it comes from.
        formatted: type and text, as for `inspection.text_of`.
        report: of the test or the collector; it has the texts of the whole chain.
    """
    kind = type(error)
    origin, frame = origins.find(error)
    is_assertion = kind is AssertionError
    bases = _ASSERTION if is_assertion else tuple(map(dotted_name_of, bases_of(kind)[:-1]))
    more: dict[str, Any] = {}
    # A plain assertion holds nothing, and to load what reads the rest takes time and memory.
    is_more = not is_assertion or cause_or_context_of(error)[0] is not None
    is_in_fixtures = report is not None and report.when in ("setup", "teardown")
    if is_in_fixtures or (is_more and kind is not MemoryError):
        with suppress(OSError, MemoryError):  # a test has used up all descriptors, or all memory
            from pytest_failure_taxonomy.recorder import facts

            if is_in_fixtures:
                more["fixture"] = facts.fixture_of(error)
            if is_more:
                issued = frame if issubclass(kind, Warning) else None
                more["facts"] = facts.facts_of(error, bases, origins, issued)
                more["chain"] = facts.chain_of(error, report and report.longrepr, origins)
    return RaisedException(
        type=name_of(kind),
        module=module_of(kind),
        message=message_of(error, formatted),
        bases=bases,
        raised_in=raising_module(traceback_of(error)),
        origin=origin,
        frame=frame,
        memory=memory_pressure() if issubclass(kind, MemoryError) else None,
        **more,
    )


def _plugins_for_async(config: pytest.Config) -> tuple[Fact, ...]:
    """Say which plugin would run an async test if it were marked for it, where one is loaded."""
    is_loaded = config.pluginmanager.has_plugin
    found = (name for plugin, name in _PLUGINS_FOR_ASYNC.items() if is_loaded(plugin))
    return tuple(Fact(name="plugin", text=name) for name in found)[:1]


def _test_module_of(node: pytest.Item | pytest.Collector) -> Path | None:
    """Return the file of a test in Python, whatever it is called; that of a doctest is none."""
    return node.path if isinstance(node, pytest.Function | pytest.Module) else None


def memory_pressure() -> MemoryPressure | None:
    """Return the limit of memory of which this process uses most; `None` if it has none.

    The exception still holds what its frames had, so that this is nearly what they used.
    """
    from pytest_failure_taxonomy.system.memory import own_limits

    try:
        used = own_limits()
    except MemoryError:  # nothing at all is left, and what of is unknown
        return None
    shares = {name: use / max(1, limit) for name, (use, limit) in used.items()}
    name = max(shares, key=lambda each: shares[each], default=None)
    if name is None:
        return None
    return MemoryPressure(limit=name, used_bytes=used[name][0], limit_bytes=used[name][1])


def cause_of(error: BaseException) -> BaseException:
    """Return the exception that pytest has wrapped, if it wraps the error of an import."""
    is_wrapper = issubclass(type(error), pytest.Collector.CollectError) or is_import_failure(error)
    return direct_cause_of(error) or error if is_wrapper else error


def words_of_refusal(error: BaseException) -> str:
    """Return the message of a `CollectError`, unless it is the traceback of a failed import."""
    if not issubclass(type(error), pytest.Collector.CollectError):
        return ""
    said = next(iter(field_of(error, BaseException, "args")), "")
    is_traceback = type(said) is not str or "\nTraceback:\n" in said
    return "" if is_traceback else cap_between_words(said.strip(), longrepr.MAX_MESSAGE)


def missing_fixtures_beside(error: BaseException) -> list[str]:
    """List the other missing fixtures of a test; pytest stops at the first one."""
    if not is_of_fixture_lookup(error):
        return []
    with suppress(Exception):  # not public; the first missing fixture is known anyway
        missing: Any = error
        found = missing.request.node._fixtureinfo.name2fixturedefs  # noqa: SLF001 - there is no public way
        asked = dict.fromkeys(missing.request.fixturenames)
        parameters = getattr(getattr(missing.request.node, "callspec", None), "params", {})
        known = {missing.argname, "request", *found, *parameters}
        return [f"fixture {name!r} not found" for name in asked if name not in known]
    return []


def is_import_failure(error: BaseException) -> bool:
    """Tell whether this is pytest's wrapper for an error in a conftest or (from 9.2) a plugin."""
    return dotted_name_of(type(error)) in _IMPORT_FAILURES  # not public


def message_of(error: BaseException, formatted: str = "") -> str:
    """Return the text of an exception, capped.

    The text of a doctest's failure does not say what was wrong, so it is replaced.
    """
    if type(error) is AssertionError:
        return cap_between_words(text_of(error, formatted), longrepr.MAX_MESSAGE)
    text = _words_of_doctest(error) or text_of(error, formatted)
    path, _ = named_place(error)
    # The name of an installed file may be `__init__.py`. The place of a user's is added anyway.
    if not LIBRARIES.isdisjoint(path.split(os.sep)) or path.startswith(STANDARD_LIBRARY):
        text = text.replace(f"({os.path.basename(path)}, line ", f"({path}, line ")
    return cap_between_words(text, longrepr.MAX_MESSAGE)


def quotes_a_traceback(message: str) -> bool:
    """Tell whether the message of an exception is a traceback from another process."""
    text = message.strip()
    return not text.startswith(telling_line(text))


def words_of(error: BaseException, rootdir: Path, loaded: str = "", formatted: str = "") -> str:
    """Return type and message of an exception, and the place in the user's code.

    xdist passes a worker's error on as an exception whose message is the traceback.

    Args:
        error: any exception.
        rootdir: absolute.
        loaded: the file or plugin that was being loaded.
        formatted: type and text, as for `inspection.text_of`.
    """
    uncaught = _uncaught_behind(error)
    if uncaught is not None:
        where, raised, more = uncaught
        return f"{where} {words_of(raised, rootdir)}" + (f" (and {more} more)" if more else "")
    text = message_of(error, formatted).strip()
    told = telling_line(text)
    is_quoted = quotes_a_traceback(text)
    name = name_of(type(error))
    words = told if is_quoted else f"{name}: {text}" if text else name
    frames = [*printed_frames(text)] if is_quoted else frames_of(error)
    place = own_place_in(frames, rootdir) if is_quoted else own_place_of(error, rootdir)
    hook = None if loaded else hook_in(frames)
    if hook is not None and is_own(hook.path, rootdir):
        file = location(hook.path, hook.line, rootdir)
        at = place or file
        return with_place(words, at.path, at.line, file.path, within=hook.function)
    if hook is not None and place is None:
        path = path_below_libraries(hook.path)
        is_refusal = issubclass(type(error), pytest.UsageError)
        by = "" if is_refusal else words_of_plugin(hook.path)
        if not by:
            return with_place(words, path, hook.line, within=hook.function)
        kind, colon, said = words.partition(": ") if is_quoted else (name, text and ": ", text)
        return with_place(f"{kind} raised by {by} in {hook.function}{colon}{said}", path, hook.line)
    if place is None:
        return f"{words} (from {loaded})" if loaded else words
    return with_place(words, place.path, place.line, loaded)


def words_of_plugin(path: str) -> str:
    """Return name and version of the distribution that has a plugin's file; empty for none."""
    if LIBRARIES.isdisjoint(path.split(os.sep)):
        return ""
    from pytest_failure_taxonomy.recorder.owners import distribution_of

    found = distribution_of(path)
    return "" if found is None else found.words


def _uncaught_behind(error: BaseException) -> tuple[str, BaseException, int] | None:
    """Return an exception that could not be caught, such as in a thread, and how many more.

    pytest warns of such exceptions. With `-W error` the warning is raised outside of any test.
    """
    is_group = issubclass(type(error), BaseExceptionGroup)
    group = exceptions_in(error) if is_group else (error,)
    where = _UNCAUGHT.get(dotted_name_of(type(group[0])))
    cause = direct_cause_of(group[0])
    return None if where is None or cause is None else (where, cause, len(group) - 1)


def _words_of_doctest(error: Any) -> str:
    """Return what the first failure of a doctest expected and got; empty for other exceptions."""
    kind = dotted_name_of(type(error))
    if kind == "_pytest.doctest.MultipleDoctestFailures":
        first, *others = error.failures
        more = f" (and {len(others)} more)" if others else ""
        return _words_of_doctest(first) + more
    if kind == "doctest.UnexpectedException":
        raised = error.exc_info[1]
        text, name = message_of(raised), name_of(type(raised))
        return f"{name}: {text}" if text else name
    if kind == "doctest.DocTestFailure":
        return f"expected {_part(error.example.want)}, got {_part(error.got)}"
    return ""


def _part(text: str) -> str:
    first, newline, _ = text.strip().partition("\n")
    if not first:
        return "nothing"
    if len(first) > _MAX_PART:
        return f"{first[:_MAX_PART]}…"
    return f"{first} …" if newline else first
