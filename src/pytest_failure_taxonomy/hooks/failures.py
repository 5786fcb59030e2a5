"""Collect what happened besides passed tests, in memory and in the record on disk.

pytest passes the report of a failed test and the exception behind it to two hooks.
`ExceptionMemory` describes the exception and keeps the description until the report
comes by; `EventLog` keeps all failures and errors.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from pytest_failure_taxonomy.comparisons import (
    Difference,
    compare_sides,
    first_difference,
)
from pytest_failure_taxonomy.hooks import comparisons, exceptions, inspection
from pytest_failure_taxonomy.hooks.attribution import ask_user
from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.hooks.ledger import Ledger
from pytest_failure_taxonomy.hooks.origin import OriginFinder, place_of
from pytest_failure_taxonomy.redaction.secrets import (
    NodeIds,
    Secrets,
    changed_secrets,
    redact_value,
)
from pytest_failure_taxonomy.survive.writer import Record, to_json
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import ASYNC_TEST, PLUGINS_FOR_ASYNC
from pytest_failure_taxonomy.text import cap_between_words

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch

T = TypeVar("T")


_ATTRIBUTE: Final = "_failure_taxonomy"
"""The attribute of a worker's report that carries the description."""


MAX_NOTED: Final = 20
"""Warnings and empty files that are kept to say why no test was found."""
_RESERVE: Final = 4 << 20
"""Bytes of address space that a `MemoryError` sets free.

A test that ran out of memory still has all that it has asked for. The description of
the failure, and the modules that describe it, must fit in beside that."""

Report = pytest.TestReport | pytest.CollectReport


@value
class Described:
    """What a failure's report does not say: a worker sends it along."""

    exception: evidence.RaisedException | None
    place: evidence.Location | None = None
    attributed: evidence.Attribution | None = None


NOTHING: Final = Described(exception=None)


class EventLog:
    """Collect the failures and errors of a run in the order in which they occur.

    Secrets are removed here, so that neither the record nor the report ever holds them.
    A later failure may reveal a secret that an earlier one shows. It is erased from the
    record at once, and from the evidence at the end. In memory the node ids are
    pytest's own.
    """

    def __init__(
        self, record: Record, secrets: Secrets, nodeids: NodeIds, faults: Faults
    ) -> None:
        self.failures: list[evidence.TestFailure] = []
        self.collection_failures: dict[str, evidence.CollectionFailure] = {}
        """The nodes that could not be collected, each once."""
        self.errors: list[evidence.RunError] = []
        self.interruptions: list[evidence.Interruption] = []
        self.mismatch: CollectionMismatch | None = None
        self._words_of_errors: set[tuple[str, str]] = set()
        self._record = record
        self._secrets = secrets
        self._nodeids = nodeids
        self._faults = faults
        self.recorded = 0
        """How many failed reports of tests and collectors have been added."""
        self.known_at_first: int | None = None
        """How many secrets were known when the first event was added."""

    def add_failure(
        self,
        bare: evidence.TestFailure,
        describe: Callable[[], evidence.TestFailure] | None = None,
    ) -> None:
        """Add a test that failed.

        Args:
            bare: what is sure to be known of it.
            describe: returns all that is known, where that is more.
        """
        failure = bare
        try:
            failure = self._complete(bare, describe)
        # A signal may interrupt the description; the failure counts all the same.
        finally:
            self.failures.append(failure)
            self.recorded += 1
        # Its node id was searched for secrets when it was selected.
        self._record.write("failure", failure=self._nodeids.replace_nodeids(failure))
        self._erase_new_secrets()

    def remove_subtests(self, nodeid: str, worker: str | None) -> int:
        """Remove the failed subtests of a test that runs again; return their count."""
        before = len(self.failures)
        self.failures[:] = evidence.drop_attempt(self.failures, nodeid, worker)
        return before - len(self.failures)

    def add_collection_failure(
        self,
        bare: evidence.CollectionFailure,
        describe: Callable[[], evidence.CollectionFailure] | None = None,
    ) -> None:
        """Add a node that wasn't collected, unless another worker has reported it."""
        is_new = bare.nodeid not in self.collection_failures
        if is_new:
            self.collection_failures[bare.nodeid] = self._complete(bare, describe)
        self.recorded += 1
        if is_new:
            failure = self.collection_failures[bare.nodeid]
            self._write_and_erase("collection_failure", failure=failure)

    def add_error(
        self,
        bare: evidence.RunError,
        describe: Callable[[], evidence.RunError] | None = None,
    ) -> None:
        """Add an error outside of the tests, unless another worker has reported it.

        How many workers report it before the session ends is a matter of timing.
        """
        error = self._complete(bare, describe)
        words = (error.origin, error.message)
        if words not in self._words_of_errors:
            self._words_of_errors.add(words)
            self.errors.append(error)
            self._write_and_erase("error", error=error)

    def add_interruption(self, stop: evidence.Interruption) -> None:
        """Add what ended the session early."""
        stop = redact_value(stop, self._secrets)
        self.interruptions.append(stop)
        self._write_and_erase("interruption", stop=stop)

    def add_mismatch(self, mismatch: CollectionMismatch) -> None:
        """Add how the workers disagree about the tests; xdist says it once a worker."""
        if self.mismatch is None:
            self.mismatch = mismatch
            self.write("mismatch", mismatch=mismatch)

    def add_change(self, change: evidence.Change) -> None:
        """Add what a test did to this process; its secrets are removed already."""
        self._write_and_erase("change", change=change)

    def write(self, event: str, **fields: Any) -> None:
        """Append an event to the record, without the secrets in its node ids."""
        for name, fact in fields.items():
            if isinstance(fact, str):
                fields[name] = self._nodeids.show(fact)
            elif fact is not None:
                fields[name] = self._nodeids.show_nodeids(fact)
        self._record.write(event, **fields)

    def _complete(self, bare: T, describe: Callable[[], T] | None) -> T:
        """Return the full description without secrets, or `bare` if that fails.

        A test may have patched what a description uses, and its failure still counts.
        """
        try:
            return redact_value(bare if describe is None else describe(), self._secrets)
        except BaseException as error:  # noqa: BLE001 - told as a fault
            self._faults.add("the description of a failure", error)
            return bare

    def _write_and_erase(self, event: str, **fact: Any) -> None:
        self.write(event, **fact)
        self._erase_new_secrets()

    def _erase_new_secrets(self) -> None:
        """Erase new secrets from the record on disk."""
        if self.known_at_first is None:
            self.known_at_first = self._secrets.known
        fillers = self._secrets.take_new()
        if fillers:
            self._record.erase(fillers)


class ExceptionMemory:
    """Match each failed report with the exception behind it.

    pytest passes the two to different hooks, in an order that depends on who runs the
    test:

        plain          makereport, logreport(failed), exception_interact
        rerunfailures  makereport, exception_interact, logreport(rerun or failed)
        collector      exception_interact, collectreport
        worker         makereport, logreport: described there, sent with the report
        controller     logreport or collectreport alone, with what the worker has sent

    Where the report comes first, it waits (`SessionRecorder._awaiting`) until the next
    hook of any kind. Either that brings its exception, or there was none, as for a test
    that passed and was expected to fail. Where the exception comes first, it waits
    here: a test's until its next report, a collector's until its own.

    A worker can't wait for `exception_interact`: xdist sends the report away in
    `logreport`. So it keeps each call at `makereport`, and describes the exception
    while the report passes. The controller takes the description off again before
    another plugin sees the report.
    """

    def __init__(
        self,
        config: pytest.Config,
        faults: Faults,
        learn: Callable[[dict[str, str]], None] = lambda _: None,
    ) -> None:
        """Begin without exceptions.

        Args:
            config: of the run; its plugins are asked why a test failed.
            faults: takes what they raise.
            learn: takes possible secrets of a worker's environment on the controller.
        """
        self._rootdir = config.rootpath
        self._faults = faults
        self._classify = config.hook.pytest_failure_taxonomy_classify
        self._learn = learn
        self._environment = dict(os.environ)
        self._origins = OriginFinder(config.rootpath, config.getini("python_files"))
        self.ledger = self._origins.ledger = Ledger()
        # Loaded before a test patches what it imports.
        self._origins.raising_frames  # noqa: B018
        self._raised: dict[
            tuple[str, str], tuple[pytest.Item, pytest.CallInfo[Any]]
        ] = {}
        self._collecting: dict[str, Described] = {}
        self._compared: tuple[Difference, str, comparisons.Place | None]
        """How the sides of the last failed comparison differ, where in them, and the
        place of the comparison."""
        self._compared = "other", "", None
        self._received: tuple[Report, Described] | None = None
        self._reserve: mmap.mmap | None = None
        with suppress(OSError, MemoryError):
            self._reserve = mmap.mmap(-1, _RESERVE)  # no page of it is ever touched

    def see_test(self, node: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Keep the outcome of a phase of a test."""
        # Not the exception: a later hook puts that of a unittest into the call.
        self._raised[node.nodeid, call.when] = node, call

    def see_comparison(self, operator: str, left: object, right: object) -> None:
        """Keep how the sides of an assertion differ; pytest asks before it raises."""
        difference = compare_sides(operator, left, right)
        where = first_difference(left, right) if operator == "==" else ""
        place = comparisons.asserting_place()
        self._compared = difference, where, place

    def take_test(self, report: pytest.TestReport) -> Described:
        """Return the exception of a failed test and its attribution, once."""
        described = self._find_received(report)
        if described is not None:
            return described
        key = report.nodeid, str(report.when)
        if key not in self._raised:
            return NOTHING
        node, call = self._raised.pop(key)
        # pytest-forked puts a text there, of a process that has ended.
        error = getattr(call.excinfo, "value", None)
        if error is None:
            return NOTHING
        return self.explain_test(node, error, report)

    def _find_received(self, report: Report) -> Described | None:
        """Return what a worker has sent with a report, if it has."""
        if self._received is None:
            return None
        received, described = self._received
        return described if received is report else None

    def explain_test(
        self, node: pytest.Item, error: BaseException, report: pytest.TestReport
    ) -> Described:
        """Describe the exception of a failed test; ask the user's code for a reason."""
        if issubclass(type(error), MemoryError) and self._reserve is not None:
            self._reserve.close()
            self._reserve = None
        raised = self._describe(node, error, report)
        words = exceptions.words_for_people(report.longrepr)
        if words:
            others = _list_other_missing_fixtures(error)
            raised = replace(raised, message="; ".join([words, *others]))
        if raised.message.startswith(ASYNC_TEST):
            # Name the loaded plugin that would run the test if it were marked for it.
            is_loaded = node.config.pluginmanager.has_plugin
            facts: tuple[evidence.Fact, ...] = ()
            for plugin, name in PLUGINS_FOR_ASYNC.items():
                if is_loaded(plugin):
                    facts = (evidence.Fact(name="plugin", text=name),)
                    break
            raised = replace(raised, facts=facts)
        attributed = ask_user(self._classify, self._faults, node, error, report.when)
        return Described(exception=raised, attributed=attributed)

    def describe_error(
        self, error: BaseException, formatted: str = ""
    ) -> evidence.RaisedException | None:
        """Describe the cause of an error outside of the tests.

        Return `None` for a worker's error that xdist passes on as text: only the text
        has its type.

        Args:
            error: left pytest, or one of its hooks.
            formatted: type and text of its cause, as for `inspection.text_of`.
        """
        cause = exceptions.cause_of(error)
        behind = inspection.direct_cause_of(cause)
        if issubclass(type(cause), pytest.UsageError) and issubclass(
            type(behind), ImportError
        ):
            cause = behind or cause  # a plugin is missing
        if exceptions.quotes_a_traceback(exceptions.message_of(cause, formatted)):
            return None
        return exceptions.describe_exception(cause, self._origins, formatted)

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
        refusal = call.excinfo.value
        error = exceptions.cause_of(refusal)
        described = self._describe(node, error, report)
        if issubclass(type(refusal), pytest.Collector.CollectError):
            arguments = inspection.field_of(refusal, BaseException, "args")
            words = next(iter(arguments), "")
            if (
                type(words) is str and "\nTraceback:\n" not in words
            ):  # that of a failed import
                words = cap_between_words(words.strip(), exceptions.MAX_MESSAGE)
                described = replace(described, message=words or described.message)
        place = place_of(error, self._rootdir)
        self._collecting[node.nodeid] = Described(exception=described, place=place)

    def take_collector(self, report: pytest.CollectReport) -> Described:
        """Return exception and place of a node that wasn't collected, once."""
        described = self._find_received(report)
        if described is not None:
            return described
        return self._collecting.pop(report.nodeid, NOTHING)

    def send_with(self, report: Report) -> None:
        """Attach the exception to a report on a worker."""
        if isinstance(report, pytest.TestReport):
            described = self.take_test(report)
        else:
            described = self.take_collector(report)
        sent = {
            "described": described,
            "environment": changed_secrets(self._environment),
        }
        setattr(report, _ATTRIBUTE, to_json(sent))

    def receive_from(self, report: Report) -> None:
        """Detach the exception from a report before other plugins see the report."""
        sent = report.__dict__.pop(_ATTRIBUTE, None)
        self._received = None
        if sent is not None:
            from pytest_failure_taxonomy.report.codec import RECORD

            try:
                content = json.loads(sent)
                described = RECORD.decode(Described, content["described"])
                self._received = report, described
                self._learn(content["environment"])
            except Exception as error:  # noqa: BLE001 - the failure counts without it
                self._faults.add("the description that a worker has sent", error)

    def _describe(
        self, node: pytest.Item | pytest.Collector, error: BaseException, report: Report
    ) -> evidence.RaisedException:
        # The file of a Python test, whatever its name; a doctest's file is none.
        is_python = isinstance(node, pytest.Function | pytest.Module)
        self._origins.collected = node.path if is_python else None
        try:
            formatted = exceptions.shown_exception(report.longrepr)
            described = exceptions.describe_exception(
                error, self._origins, formatted, report
            )
            facts = [
                evidence.Fact(name=name, text=text)
                for name, text in self._take_difference(error).items()
                if text not in ("", "other")
            ]
            return replace(described, facts=(*described.facts, *facts))
        except BaseException as fault:  # noqa: BLE001 - the failure counts without it
            self._faults.add("the description of an exception", fault)
            return exceptions.name_exception(error)

    def _take_difference(self, error: BaseException) -> dict[str, str]:
        """Return how the sides of an assertion differ and where, once."""
        difference, where, place = self._compared
        self._compared = "other", "", None
        entries = inspection.entries_of(error)
        if not issubclass(type(error), AssertionError) or not entries:
            return {}
        if place == (entries[-1].tb_frame.f_code, entries[-1].tb_lineno):
            return {"differs_in": difference, "differs_at": where}
        for entry in entries:
            difference, where = comparisons.compare_in_unittest(entry.tb_frame)
            if difference != "other" or where:
                return {"differs_in": difference, "differs_at": where}
        return {}


def _list_other_missing_fixtures(error: BaseException) -> list[str]:
    """List the other missing fixtures of a test; pytest stops at the first one."""
    if not inspection.is_of_fixture_lookup(error):
        return []
    with suppress(Exception):  # not public; the first missing fixture is known anyway
        missing: Any = error
        request = missing.request
        fixtures = request.node._fixtureinfo.name2fixturedefs  # noqa: SLF001
        asked = dict.fromkeys(request.fixturenames)
        parameters = getattr(getattr(request.node, "callspec", None), "params", {})
        available = {missing.argname, "request", *fixtures, *parameters}
        return [
            f"fixture {name!r} not found" for name in asked if name not in available
        ]
    return []
