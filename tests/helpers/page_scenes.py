"""Reports of runs that look different on an HTML page, each like one that has really been."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pytest_failure_taxonomy.bench.models import (
    BenchScore,
    BenchSettings,
    FailureMode,
    GateSettings,
)
from pytest_failure_taxonomy.bench.report import aggregate
from pytest_failure_taxonomy.taxonomy.evidence import (
    Counts,
    InFlightTest,
    Location,
    ProcessExit,
    RaisedException,
    RunError,
    Stall,
    TestFailure,
    TestOutcome,
    TestRun,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.bench_scores import make_plan
from tests.helpers.reports import make_context, make_failure, make_report, make_run

TRACEBACK: Final = """
    def test_total_of_an_empty_cart():
        cart = Cart(currency="EUR")
>       assert render(cart) == {"lines": [], "total": "0.00 EUR", "discount": None}
E       AssertionError: assert {'discount': ...': '0.00 USD'} == {'discount': ...': '0.00 EUR'}
E
E         Omitting 2 identical items, use -vv to show
E         Differing items:
E         {'total': '0.00 USD'} != {'total': '0.00 EUR'}
E
E         Full diff:
E           {
E               'discount': None,
E               'lines': [],
E         -     'total': '0.00 EUR',
E         ?                    ^^
E         +     'total': '0.00 USD',
E         ?                    ^^
E           }
E        +  where '0.00 USD' = render(<Cart 0x7f>)

tests/test_cart.py:42: AssertionError
""".strip("\n")

_CAUSES: Final = (
    ("AssertionError", "builtins", "the total is 3, not 4"),
    ("KeyError", "builtins", "'currency'"),
    ("ConnectionRefusedError", "builtins", "[Errno 111] Connection refused"),
    ("TypeError", "builtins", "can't multiply sequence by non-int of type 'float'"),
    ("OperationalError", "sqlite3", "no such table: orders"),
)


def clean() -> dict[str, Any]:
    """Return the report of a run without a failure."""
    tests = _tests(240, workers=3)
    counts = Counts(collected=240, passed=236, skipped=4)
    run = make_run(
        exit=ProcessExit(code=0, source="pytest"), counts=counts, tests=tests
    )
    return make_report(run, context=make_context(duration_seconds=_end_of(tests) + 0.4))


def one_failure() -> dict[str, Any]:
    """Return the report of a run with one failed assertion, known to the history."""
    tests = _tests(60, failed=("tests/test_cart.py::test_total_of_an_empty_cart",))
    message = "assert {'discount': ...': '0.00 USD'} == {'discount': ...': '0.00 EUR'}"
    failure = make_failure(
        nodeid="tests/test_cart.py::test_total_of_an_empty_cart",
        message=message,
        exception=RaisedException(
            type="AssertionError", module="builtins", message=message
        ),
        location=Location(path="tests/test_cart.py", line=42),
        traceback=TRACEBACK,
    )
    run = make_run(
        failures=(failure,),
        counts=Counts(collected=61, passed=60, failed=1),
        tests=tests,
    )
    report = copy.deepcopy(
        make_report(run, context=make_context(duration_seconds=_end_of(tests) + 0.3))
    )
    report["groups"][0]["history"] = report["causes"][0]["history"] = {
        "state": "came_back",
        "first_seen": "2026-01-03T08:00:00Z",
        "runs": 14,
        "last_passed_commit": "4f2a9c17d0b35e0c8a7f1122334455667788990a",
        "distributions_changed": None,
        "first_commit": None,
        "flaky_failures": 0,
        "flaky_runs": 0,
    }
    return report


def many(failed: int = 2_000, total: int = 10_000) -> dict[str, Any]:
    """Return the report of a large run: failures of five causes among tests on four workers."""
    every = total // failed
    nodeids = tuple(_nodeid(number) for number in range(0, total, every))[:failed]
    tests = _tests(total, workers=4, failed=nodeids)
    workers = {test.nodeid: test.worker for test in tests}
    run = make_run(
        failures=tuple(
            _one_of_many(number, each) for number, each in enumerate(nodeids)
        ),
        counts=Counts(collected=total, passed=total - failed, failed=failed),
        tests=tests,
        workers=tuple(
            WorkerEnd(id=f"gw{n}", tests=total // 4, exit_code=0) for n in range(4)
        ),
    )
    report = copy.deepcopy(
        make_report(run, context=make_context(duration_seconds=_end_of(tests) + 2))
    )
    for failure in report["failures"]:
        failure["worker"] = workers[failure["nodeid"]]
    states = ("new", "known", "flaky", "came_back", "known")
    for group, cause, state in zip(
        report["groups"], report["causes"], states, strict=True
    ):
        group["history"] = cause["history"] = {
            "state": state,
            "first_seen": None if state == "new" else "2026-01-12T09:30:00Z",
            "runs": 0 if state == "new" else 23,
            "last_passed_commit": None,
            "distributions_changed": None,
            "first_commit": None,
            "flaky_failures": 0,
            "flaky_runs": 0,
        }
    return report


def crash() -> dict[str, Any]:
    """Return the report of a run that a segmentation fault has ended."""
    nodeid = "tests/test_images.py::test_resize[huge]"
    stack = (
        'File "/home/user/shop/src/images.py", line 31 in resize\n'
        'File "/home/user/shop/tests/test_images.py", line 12 in test_resize\n'
        'File "/usr/lib/python3.13/site-packages/_pytest/python.py", line 166 in pytest_pyfunc_call'
    )
    run = make_run(
        exit=ProcessExit(code=139, source="watcher", signal="SIGSEGV", observed=True),
        finished=False,
        counts=Counts(collected=200, passed=80),
        in_flight=(
            InFlightTest(
                nodeid=nodeid,
                phase="call",
                elapsed_seconds=2.25,
                output="loading huge.png (38912 x 21504)\nallocating 3.1 GB\n",
                stack=stack,
                location=Location(path="src/images.py", line=31),
            ),
        ),
        not_run=tuple(_nodeid(number) for number in range(81, 200)),
    )
    context = make_context(duration_seconds=7.8)
    return make_report(run, context=context, completeness="reconstructed")


def stall() -> dict[str, Any]:
    """Return the report of a run that hung in a lock until CI has ended it."""
    nodeid = "tests/test_queue.py::test_worker_stops"
    stack = (
        "Thread MainThread (most recent call last):\n"
        '  File "/home/user/shop/tests/test_queue.py", line 28, in test_worker_stops\n'
        "    worker.join()\n"
        '  File "/usr/lib/python3.13/threading.py", line 1092, in join\n'
        "    self._handle.join(timeout)\n"
    )
    seen = Stall(
        state="blocked",
        seconds=312.0,
        where="join (tests/test_queue.py:28)",
        stack=stack,
        children=("redis-server *:6379",),
    )
    run = make_run(
        exit=ProcessExit(code=143, source="watcher", signal="SIGTERM", observed=True),
        finished=False,
        counts=Counts(collected=120, passed=40),
        in_flight=(
            InFlightTest(
                nodeid=nodeid,
                phase="call",
                elapsed_seconds=315.0,
                worker="gw1",
                stall=seen,
            ),
        ),
        not_run=tuple(_nodeid(number) for number in range(41, 120)),
    )
    context = make_context(duration_seconds=324.0)
    return make_report(run, context=context, completeness="reconstructed")


def worker_died() -> dict[str, Any]:
    """Return the report of a run of which one of four workers died, while the others went on."""
    tests = _tests(400, workers=4)
    crashed = max(
        (each for each in tests[:240] if each.worker == "gw2"),
        key=lambda each: each.start_seconds or 0,
    )
    kept = tuple(
        replace(each, outcome="error") if each is crashed else each
        for number, each in enumerate(tests)
        if each.worker != "gw2" or number < 240
    )
    failure = make_failure(
        nodeid=crashed.nodeid,
        message=f"worker 'gw2' crashed while running '{crashed.nodeid}'",
        exception=None,
        crashed=True,
        worker="gw2",
        location=None,
        traceback=None,
    )
    ends = {"gw2": _crash_of(crashed)}
    workers = tuple(
        WorkerEnd(
            id=name,
            tests=sum(each.worker == name for each in kept),
            **ends.get(name, {"exit_code": 0}),
        )
        for name in ("gw0", "gw1", "gw2", "gw3")
    )
    run = make_run(
        failures=(failure,),
        counts=Counts(collected=len(kept), passed=len(kept) - 1, failed=1),
        tests=kept,
        workers=workers,
    )
    return make_report(run, context=make_context(duration_seconds=_end_of(kept) + 0.2))


def _crash_of(test: TestRun) -> dict[str, Any]:
    return {"signal": "SIGSEGV", "crashed_on": test.nodeid, "ending": "died"}


def broken_conftest() -> dict[str, Any]:
    """Return the report of a run that did not come to its tests."""
    traceback = (
        "tests/conftest.py:4: in <module>\n"
        "    from shop.testing import database\n"
        "E   ModuleNotFoundError: No module named 'shop.testing'"
    )
    error = RunError(
        origin="conftest",
        message="ModuleNotFoundError: No module named 'shop.testing' (tests/conftest.py:4)",
        traceback=traceback,
    )
    run = make_run(
        exit=ProcessExit(code=4, source="pytest"),
        counts=Counts(),
        errors=(error,),
        tests=None,
    )
    return make_report(run, context=make_context(duration_seconds=0.31))


def bench() -> dict[str, Any]:
    """Return the report of a bench with a gate that it has failed."""
    scores = [_case(number) for number in range(40)]
    names = [f"mail-{number:03d}" for number in range(40)]
    plan = make_plan(names, gate=GateSettings(lower_bound_95=0.8, min_passed_cases=30))
    cases = [
        each.model_copy(update={"tags": ("unusual",) if number % 4 else ("plain",)})
        for number, each in enumerate(plan.cases)
    ]
    task_class = plan.task_class.model_copy(
        update={"name": "mail", "settings": BenchSettings(reducers=("majority",))}
    )
    plan = plan.model_copy(update={"task_class": task_class, "cases": tuple(cases)})
    graded = aggregate(plan, tuple(zip(names, scores, strict=True)))
    report = copy.deepcopy(one_failure())
    report["bench"] = [graded.model_dump(mode="json")]
    return report


def many_causes(count: int = 40) -> dict[str, Any]:
    """Return the report of a run with so many causes, whose owners take turns."""
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_orders.py::test_{number}",
            message=f"order {number} has no price",
            exception=RaisedException(
                type=f"Error{number}",
                module="shop.errors",
                message=f"order {number} has no price in any of the currencies that the shop takes",
            ),
            location=Location(path="tests/test_orders.py", line=number + 1),
            traceback=f">   price({number})\nE   Error{number}\n\ntests/test_orders.py:{number + 1}: Error",
        )
        for number in range(count)
    )
    run = make_run(failures=failures, counts=Counts(collected=count, failed=count))
    report = copy.deepcopy(make_report(run))
    owners = ("test", "project", "dependency", "environment")
    for number, cause in enumerate(report["causes"]):
        cause["owner"] = owners[number % len(owners)]
    return report


SCENES: Final[Mapping[str, Callable[[], dict[str, Any]]]] = MappingProxyType(
    {
        "clean": clean,
        "one-failure": one_failure,
        "many": many,
        "many-causes": many_causes,
        "crash": crash,
        "stall": stall,
        "worker-died": worker_died,
        "broken-conftest": broken_conftest,
        "bench": bench,
    }
)
"""The reports by name."""


def _nodeid(number: int) -> str:
    module = ("cart", "prices", "orders", "stock", "mail", "users", "search")[
        number % 7
    ]
    return f"tests/{module}/test_{module}_{number % 5}.py::test_{module}[{number}-EUR]"


def _tests(
    count: int, *, workers: int = 0, failed: tuple[str, ...] = ()
) -> tuple[TestRun, ...]:
    """Return tests one after another on each worker; some take longer, some leave a gap."""
    until = [0.4 + 0.1 * lane for lane in range(max(1, workers))]
    known = {_nodeid(number) for number in range(count)}
    extra = tuple(each for each in failed if each not in known)
    missed = set(failed)
    found = []
    for number, nodeid in enumerate(
        (*(_nodeid(each) for each in range(count)), *extra)
    ):
        lane = number % len(until)
        seconds = (
            0.01
            + 0.05 * ((number * 7919) % 13) / 13
            + (0.9 if number % 59 == 7 else 0.0)
        )
        gap = 0.3 if number % 47 == 3 else 0.001
        outcome: TestOutcome = "failed" if nodeid in missed else "passed"
        if outcome == "passed" and number % 60 == 1:
            outcome = "skipped"
        found.append(
            TestRun(
                nodeid=nodeid,
                outcome=outcome,
                start_seconds=round(until[lane], 4),
                duration_seconds=round(seconds, 4),
                worker=f"gw{lane}" if workers else None,
            )
        )
        until[lane] += seconds + gap
    return tuple(found)


def _end_of(tests: tuple[TestRun, ...]) -> float:
    return max(
        (each.start_seconds or 0) + (each.duration_seconds or 0) for each in tests
    )


def _one_of_many(number: int, nodeid: str) -> TestFailure:
    kind, module, message = _CAUSES[min(number % 7, 4)]
    file = nodeid.partition("::")[0]
    traceback = (
        f"    def test_it(amount={number}):\n"
        f"        order = place_order({number}, currency='EUR')\n"
        f">       check(order)\n\n{file}:{20 + number % 9}: \n"
        "_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _\n\n"
        "    def check(order):\n"
        "        for line in order.lines:\n"
        f">           line.check(total={number})\n"
        f"E           {kind}: {message}\n\nsrc/shop/orders.py:88: {kind}"
    )
    return make_failure(
        nodeid=nodeid,
        message=message,
        exception=RaisedException(type=kind, module=module, message=message),
        location=Location(path="src/shop/orders.py", line=88),
        traceback=traceback,
        duration_seconds=0.01 + number % 30 / 100,
    )


def _case(number: int) -> BenchScore:
    passed = number % 5 != 3
    modes = () if passed else (_MODES[number % 3],)
    found = 0.5 + (number * 37 % 50) / 100
    return BenchScore(
        passed=passed,
        score=found,
        breakdown={"recall": found, "precision": 1 - number % 7 / 20, "tone": 0.9},
        failure_modes=modes,
        cost_usd=0.0125 + number / 10_000,
        wall_clock_ms=820.0 + number * 31,
    )


_MODES: Final = (
    FailureMode(code="missed_recipient", severity="warn", detail="2 of 3 recipients"),
    FailureMode(
        code="leaks_address", severity="block", detail="bcc@example.com in the text"
    ),
    FailureMode(code="sut.timeout", severity="block"),
)
