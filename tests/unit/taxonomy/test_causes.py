"""What failed, gathered by what to fix, and said in one line."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings

from pytest_failure_taxonomy.taxonomy import causes as causes_module
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    CollectionFailure,
    Counts,
    Fact,
    Interruption,
    LinkedException,
    Location,
    OriginPlace,
    ProcessExit,
    RaisedException,
    RaisingFrame,
    RunError,
    RunEvidence,
    RunningActivity,
    TestFailure,
    TimeLimit,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    FailureReason,
    Finding,
    Judgement,
)
from pytest_failure_taxonomy.taxonomy.recognition import Diagnosis
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.unit.taxonomy.test_judge import RUNS

MISSING: Final = Diagnosis(
    key="import cachetools",
    what="cachetools is not installed",
    fix="pip install cachetools",
)
REFUSED: Final = Diagnosis(
    key="connect 127.0.0.1:5439",
    what="nothing listens on 127.0.0.1:5439",
    owner="environment",
    retryable=True,
)


def raised(
    kind: str = "AssertionError", message: str = "assert 1 == 2", **more: Any
) -> Any:
    """Return what was raised."""
    return RaisedException(type=kind, module="builtins", message=message, **more)


def failed(
    name: str = "test_x",
    exception: RaisedException | None = None,
    line: int = 9,
    **more: Any,
) -> TestFailure:
    """Return the failure of a test at a line of its file."""
    exception = exception or raised()
    return TestFailure(
        **{
            "nodeid": f"test_mix.py::{name}",
            "phase": "call",
            "message": f"{exception.type}: {exception.message}",
            "exception": exception,
            "location": Location(path="test_mix.py", line=line),
            **more,
        }
    )


def in_fixture(
    name: str, fixture: str = "db", message: str = "no", **more: Any
) -> TestFailure:
    """Return a test whose fixture has failed."""
    origin = OriginPlace(path="conftest.py", function=fixture)
    exception = raised("OSError", message, fixture=fixture, origin=origin, **more)
    place = Location(path="conftest.py", line=5)
    return failed(name, exception, phase="setup", location=place)


def uncollected(
    name: str, exception: RaisedException | None = None
) -> CollectionFailure:
    """Return a file that could not be imported."""
    exception = exception or raised(
        "ModuleNotFoundError", "No module named 'cachetools'"
    )
    return CollectionFailure(
        nodeid=f"tests/{name}",
        message=f"{exception.type}: {exception.message}",
        exception=exception,
        location=Location(path=f"tests/{name}", line=3),
    )


def judged(
    *failures: TestFailure, passed: int = 0, code: int = 1, **seen: Any
) -> Judgement:
    """Return what the judge makes of a run in which other tests passed."""
    collected = len({failure.nodeid for failure in failures}) + passed
    return judge(
        RunEvidence(
            exit=ProcessExit(code=code, source="pytest"),
            failures=failures,
            counts=Counts(collected=collected, passed=passed),
            **seen,
        )
    )


def message_of(judgement: Judgement) -> str:
    """Return the verdict's message."""
    assert judgement.verdict is not None
    return judgement.verdict.message


def whats(judgement: Judgement) -> list[tuple[int, str]]:
    """Return of each cause how often it was seen and what it is."""
    return [(cause.count, cause.what) for cause in judgement.causes]


@pytest.fixture
def recognised(monkeypatch: pytest.MonkeyPatch) -> dict[str, Diagnosis]:
    """Let failures be recognised by words of their messages."""
    table: dict[str, Diagnosis] = {}

    def recognise(found: Finding) -> Diagnosis | None:
        return next(
            (each for words, each in table.items() if words in found.detail), None
        )

    monkeypatch.setattr(causes_module, "recognise", recognise)
    return table


LOAD: Final = OriginPlace(path="engine.py", function="load", text='return d["x"]')
IN_ENGINE: Final = Location(path="engine.py", line=2)
OF_PYTEST: Final = "/v/lib/python3.13/site-packages/_pytest/python.py"
OWN: Final = RaisingFrame(
    owner="test",
    package=None,
    module="test_mix",
    function="test_x",
    path="test_mix.py",
    line=9,
)
FOREIGN: Final = replace(OWN, owner="pytest", path="_pytest/python.py", line=1)


@pytest.mark.parametrize(
    "path",
    [
        OF_PYTEST,
        ".nox/lib/python3.13/site-packages/requests/api.py",
        "C:/Python/socket.py",
        "<string>",
    ],
)
@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"frame": OWN}, "test_x (test_mix.py:9)"),
        ({"origin": LOAD, "frame": FOREIGN}, "load (engine.py), in test_x"),
        ({"origin": replace(LOAD, path="socket.py", text="")}, "test_x (test_mix.py)"),
        ({}, "test_x (test_mix.py)"),
    ],
)
def test_the_place_is_in_a_file_of_the_users(
    path: str, more: dict[str, Any], where: str
) -> None:
    """What pytest or a library has raised is shown where the user's code has called it."""
    failure = failed(
        exception=raised("OSError", "no", **more),
        location=Location(path=path, line=849),
    )
    assert whats(judged(failure)) == [(1, f"OSError: no: {where}")]
    in_setup = failed(
        exception=raised("OSError", "no", fixture="db", **more),
        location=failure.location,
    )
    place = where[where.index("(") : where.index(")") + 1]
    assert whats(judged(in_setup)) == [(1, f"OSError: no: fixture db {place}")]


def test_workers_that_die_at_one_file() -> None:
    """However many there are, the file is named."""
    activity = RunningActivity(what="collection", name="tests/test_x.py")
    died = [
        WorkerEnd(id=f"gw{n}", tests=0, exit_code=3, ending="died", activity=activity)
        for n in range(3)
    ]
    words = "3 xdist workers died while tests/test_x.py was being collected"
    assert whats(judged(workers=tuple(died))) == [(3, words)]


# Words


@pytest.mark.parametrize(
    ("failures", "words"),
    [
        pytest.param(
            [failed()], "assert 1 == 2: test_x (test_mix.py:9)", id="an-assertion"
        ),
        pytest.param(
            [failed(exception=raised(message="no user\nassert 1 == 2"))],
            "no user: test_x (test_mix.py:9)",
            id="a-message-of-its-own",
        ),
        pytest.param(
            [failed(exception=raised("Failed", "it is broken"))],
            "it is broken: test_x (test_mix.py:9)",
            id="pytest.fail",
        ),
        pytest.param(
            [failed(exception=raised("KeyError", "'x'"))],
            "KeyError: 'x': test_x (test_mix.py:9)",
            id="an-exception",
        ),
        pytest.param(
            [failed("TestCart::test_x[1]", line=7)],
            "assert 1 == 2: TestCart::test_x[1] (test_mix.py:7)",
            id="of-a-class",
        ),
        pytest.param(
            [
                failed(
                    name,
                    raised(
                        "KeyError",
                        "'x'",
                        origin=OriginPlace(path="app/x.py", function="load"),
                    ),
                )
                for name in ("test_x", "test_y")
            ],
            "KeyError: 'x': load (test_mix.py:9)",
            id="several-tests-at-one-place",
        ),
        pytest.param(
            [
                failed(
                    exception=raised("KeyError", "'x'", origin=LOAD), location=IN_ENGINE
                )
            ],
            "KeyError: 'x': load (engine.py:2), in test_x",
            id="in-another-file",
        ),
        pytest.param(
            [
                failed(name, raised("KeyError", "'x'", origin=LOAD), location=IN_ENGINE)
                for name in ("test_x", "test_y")
            ],
            "KeyError: 'x': load (engine.py:2)",
            id="several-tests-in-another-file",
        ),
        pytest.param(
            [
                failed(
                    name,
                    raised(
                        "ImportError",
                        "no trio",
                        origin=OriginPlace(path="anyio/trio.py", function="<module>"),
                    ),
                    location=Location(path="/v/site-packages/anyio/trio.py", line=40),
                )
                for name in ("test_x", "test_y")
            ],
            "ImportError: no trio: first test_x (test_mix.py)",
            id="in-a-library-alone",
        ),
        pytest.param(
            [failed("test_x"), failed("test_x", phase="teardown")],
            "assert 1 == 2: test_x (test_mix.py:9)",
            id="one-test-twice",
        ),
        pytest.param(
            [in_fixture("test_x"), in_fixture("test_y", message="another")],
            "OSError: no: fixture db (conftest.py:5)",
            id="a-fixture",
        ),
        pytest.param(
            [
                failed(
                    message="Failed: Timeout (>1.5s) from pytest-timeout.",
                    exception=raised(
                        "Failed",
                        "Timeout (>1.5s) from pytest-timeout.",
                        raised_in="pytest_timeout",
                    ),
                )
            ],
            "test_x hit its time limit of 1.5 s (test_mix.py:9)",
            id="a-timeout",
        ),
        pytest.param(
            [
                failed(
                    attributed=Attribution(
                        reason=FailureReason.TOOL_ERROR,
                        kind="ours.patch",
                        source="test",
                        detail="the patch does not apply",
                    )
                )
            ],
            "the patch does not apply: test_x (test_mix.py:9)",
            id="the-test-knows-better",
        ),
    ],
)
def test_a_cause_has_a_sentence_and_a_place(
    failures: list[TestFailure], words: str
) -> None:
    """It says what is wrong and where, without what people need not know."""
    assert [what for _, what in whats(judged(*failures))] == [words]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param(
            {
                "interruptions": (
                    Interruption(exception="KeyboardInterrupt", message=""),
                )
            },
            "the run was interrupted from the keyboard",
            id="ctrl-c",
        ),
        pytest.param(
            {"interruptions": (Interruption(exception="Exit", message="no database"),)},
            "the run was ended by pytest.exit: no database",
            id="pytest.exit",
        ),
        pytest.param(
            {
                "errors": (
                    RunError(origin="usage", message="unrecognized arguments: --cov"),
                )
            },
            "pytest does not know --cov",
            id="usage",
        ),
        pytest.param(
            {
                "workers": (
                    WorkerEnd(
                        id="gw0",
                        tests=1,
                        ending="died",
                        signal="SIGSEGV",
                        crashed_on="test_mix.py::test_x",
                    ),
                )
            },
            "gw0 died (SIGSEGV) while it ran test_mix.py::test_x",
            id="a-worker",
        ),
        pytest.param(
            {
                "coverage": "total of 50 is less than 80",
                "counts": Counts(collected=1, passed=1),
            },
            "total of 50 is less than 80",
            id="coverage",
        ),
        pytest.param(
            {
                "collection_failures": (
                    uncollected("test_a.py", raised("NameError", "no x")),
                )
            },
            "NameError: no x (tests/test_a.py:3)",
            id="a-file-that-is-named",
        ),
    ],
)
def test_an_ending_of_the_whole_run_is_its_own_headline(
    seen: dict[str, Any], words: str
) -> None:
    """One cause is the headline, and where no test failed there is no number."""
    judgement = judge(RunEvidence(exit=ProcessExit(code=1, source="pytest"), **seen))
    assert whats(judgement) == [(1, words)]
    assert message_of(judgement) == words


def test_files_that_lack_one_package_are_one_cause(
    recognised: dict[str, Diagnosis],
) -> None:
    """The number of files is in the sentence, and its fix comes along."""
    recognised["cachetools"] = MISSING
    files = tuple(uncollected(f"test_{name}.py") for name in "abc")
    judgement = judge(
        RunEvidence(
            exit=ProcessExit(code=2, source="pytest"), collection_failures=files
        )
    )
    words = "cachetools is not installed: 3 test files can't be imported"
    assert (whats(judgement), message_of(judgement)) == ([(3, words)], words)
    assert judgement.causes[0].fix == "pip install cachetools"
    assert judgement.verdict is not None
    assert judgement.verdict.retryable is False
    one = judge(
        RunEvidence(
            exit=ProcessExit(code=2, source="pytest"), collection_failures=files[:1]
        )
    )
    assert (
        message_of(one)
        == "cachetools is not installed: tests/test_a.py can't be imported"
    )
    both = judged(
        failed(exception=raised("ModuleNotFoundError", "No module named 'cachetools'")),
        collection_failures=files,
    )
    words = "cachetools is not installed: 3 test files can't be imported, 1 test failed"
    assert whats(both) == [(4, words)]


def test_a_host_under_several_exceptions_is_one_cause(
    recognised: dict[str, Diagnosis],
) -> None:
    """What to fix is what counts, and the first place is named."""
    recognised["refused"] = REFUSED
    first = failed("test_x", raised("ConnectionRefusedError", "refused"))
    others = [
        failed("test_y", raised("URLError", "refused 1"), line=12),
        failed("test_z", raised("OperationalError", "refused 2"), line=15),
    ]
    judgement = judged(first, *others, passed=6)
    words = "nothing listens on 127.0.0.1:5439: first test_x (test_mix.py:9)"
    assert whats(judgement) == [(3, words)]
    assert message_of(judgement) == f"3 of 9 tests failed: {words}"
    cause = judgement.causes[0]
    assert (cause.owner, cause.retryable, len(cause.fingerprints)) == (
        "environment",
        True,
        3,
    )


def test_nobody_knows_whether_an_environment_mends_itself(
    recognised: dict[str, Diagnosis],
) -> None:
    """A host that was down while the files were collected may be up again, as in a test."""
    recognised["refused"] = replace(REFUSED, retryable=None)
    judgement = judge(
        RunEvidence(
            exit=ProcessExit(code=2, source="pytest"),
            collection_failures=(
                uncollected("test_a.py", raised("OSError", "refused")),
            ),
        )
    )
    assert [cause.retryable for cause in judgement.causes] == [None]
    assert judgement.verdict is not None
    assert judgement.verdict.retryable is None


def test_what_a_rule_says_of_a_retry_comes_before_what_is_recognised(
    recognised: dict[str, Diagnosis],
) -> None:
    """The user's own rule knows the project."""
    recognised["refused"] = REFUSED
    said = Attribution(
        reason=FailureReason.TOOL_ERROR,
        kind="ours.port",
        source="rule",
        retryable=False,
    )
    judgement = judged(failed(exception=raised("OSError", "refused"), attributed=said))
    assert [cause.retryable for cause in judgement.causes] == [False]


# Order, headline, retry and action


def test_what_explains_others_comes_first_then_the_biggest() -> None:
    """Of equals the first that occurred is the first."""
    judgement = judged(
        failed("test_a", raised("KeyError", "'a'"), line=1),
        *(failed(f"test_b{n}", raised("ValueError", "b"), line=2) for n in range(3)),
        failed("test_c", raised("OSError", "c"), line=3),
        collection_failures=(uncollected("test_x.py"),),
    )
    kinds = [cause.kind for cause in judgement.causes]
    assert kinds == ["collection.error", *["test.failed"] * 3]
    assert [cause.count for cause in judgement.causes] == [1, 3, 1, 1]
    assert [cause.what[:4] for cause in judgement.causes[2:]] == ["KeyE", "OSEr"]


KEY: Final = failed("test_a", raised("KeyError", "'a'"), line=1)
VALUE: Final = failed("test_b", raised("ValueError", "b"), line=2)
CTRL_C: Final = Interruption(exception="KeyboardInterrupt", message="")
BROKEN: Final = (
    uncollected("test_x.py", raised("NameError", "x")),
    uncollected("test_y.py", raised("SyntaxError", "y")),
)


@pytest.mark.parametrize(
    ("failures", "seen", "words"),
    [
        ((KEY, VALUE), {}, "2 of 7 tests failed, 2 causes"),
        (
            (KEY, VALUE),
            {"collection_failures": BROKEN},
            "2 of 7 tests failed, 2 files can't be collected, 4 causes",
        ),
        (
            (),
            {"collection_failures": BROKEN},
            "2 test files can't be collected, 2 causes",
        ),
        (
            (KEY,),
            {"interruptions": (CTRL_C,)},
            "1 of 6 tests failed, then the run was interrupted from the keyboard",
        ),
        (
            (KEY, VALUE),
            {"interruptions": (CTRL_C,)},
            "2 of 7 tests failed, then the run was interrupted from the keyboard, 3 causes",
        ),
        (
            (KEY,),
            {"errors": (RunError(origin="internal", message="KeyError: 'x'"),)},
            "1 of 6 tests failed, and KeyError: 'x'",
        ),
    ],
)
def test_several_causes_are_counted(
    failures: tuple[TestFailure, ...], seen: dict[str, Any], words: str
) -> None:
    """No sentence of one cause stands beside the number of all."""
    assert message_of(judged(*failures, passed=5, **seen)) == words


@pytest.mark.parametrize(
    ("failures", "retryable", "action", "nodeid"),
    [
        (["timeout"], True, "retry", "test_slow"),
        (["timeout", "plain"], False, "escalate", "test_x"),
        (["timeout", "unknown"], None, "retry", "test_slow"),
        (["unknown", "plain"], False, "escalate", "test_x"),
    ],
)
def test_the_least_recoverable_cause_decides(
    failures: list[str], retryable: bool | None, action: str, nodeid: str
) -> None:
    """A retry helps only if it helps against each; type and node id are those of that cause."""
    timeout = raised("Failed", "Timeout (>1.0s)", raised_in="pytest_timeout")
    made = {
        "timeout": failed("test_slow", timeout, line=1),
        "plain": failed("test_x"),
        "unknown": failed("test_u", raised("ConnectionError", "?"), line=3),
    }
    verdict = judged(*(made[each] for each in failures)).verdict
    assert verdict is not None
    assert (verdict.retryable, verdict.recovery_action) == (retryable, action)
    assert verdict.nodeid == f"test_mix.py::{nodeid}"


# Whatever was seen


def failures_in(causes: tuple[Cause, ...]) -> list[str]:
    """Return the fingerprints in all causes."""
    return [each for cause in causes for each in cause.fingerprints]


@settings(deadline=None)
@given(run=RUNS)
def test_every_failure_is_in_exactly_one_cause(run: RunEvidence) -> None:
    """A verdict has causes; together they have all failures, and what is said fits a line."""
    judgement = judge(run)
    assert (judgement.verdict is None) is (judgement.causes == ())
    if judgement.verdict is None:
        return
    fingerprints = failures_in(judgement.causes)
    if run.stage != "baseline_run":
        told = {
            one.fingerprint
            for one in (*judgement.failures, *judgement.collection_failures)
        }
        assert set(fingerprints) == told
    keys = [cause.key for cause in judgement.causes]
    assert len(keys) == len(set(keys))
    for cause in judgement.causes:
        assert cause.count >= 1
        assert cause.what == cause.what.strip() != ""
        assert "\n" not in cause.what
    seen = [
        each
        for held in judgement.reasons
        for each in held.findings
        if not each.is_hearsay and getattr(each.failure, "part", "") != "sum"
    ]
    if seen:
        assert sum(cause.count for cause in judgement.causes) == sum(
            each.count for each in seen
        )


def test_a_crash_that_a_worker_tells_is_in_its_cause() -> None:
    """The test is reported as failed, too; both are one."""
    nodeid = "test_mix.py::test_x"
    crash = failed(
        exception=None, message="worker 'gw0' crashed", crashed=True, worker="gw0"
    )
    crash = replace(crash, exception=None)
    worker = WorkerEnd(
        id="gw0", tests=1, ending="died", signal="SIGSEGV", crashed_on=nodeid
    )
    judgement = judged(crash, passed=4, workers=(worker,))
    words = f"gw0 died (SIGSEGV) while it ran {nodeid}"
    assert whats(judgement) == [(1, words)]
    assert message_of(judgement) == f"1 of 5 tests failed: {words}"
    assert failures_in(judgement.causes) == [judgement.failures[0].fingerprint]
    limit = TimeLimit(
        owner="pytest-timeout (thread)",
        budget_seconds=2,
        elapsed_seconds=2.0,
        nodeid=nodeid,
    )
    slow = judged(
        replace(crash, limit=limit),
        workers=(replace(worker, signal=None, limit=limit),),
    )
    assert whats(slow) == [(1, "test_x hit its time limit of 2 s (test_mix.py:9)")]


def test_a_crash_that_pytest_exit_explains_is_in_its_cause() -> None:
    """The test in which a worker exited is reported as crashed."""
    crash = replace(failed(crashed=True, worker="gw0"), exception=None)
    worker = WorkerEnd(id="gw0", tests=1, ending="exited", crashed_on=crash.nodeid)
    exits = (Interruption(exception="Exit", message="enough"),)
    judgement = judged(crash, workers=(worker,), interruptions=exits)
    assert whats(judgement) == [(1, "the run was ended by pytest.exit: enough")]
    assert failures_in(judgement.causes) == [judgement.failures[0].fingerprint]


def test_a_sentence_fits_a_line() -> None:
    """It is cut between words, and its place stays."""
    long = failed(f"test_x[{'y' * 500}]", raised("OSError", "word " * 200))
    [(_, what)] = whats(judged(long))
    assert len(what) < 300
    assert what.endswith("(test_mix.py:9)")


def test_fifty_thousand_failures_are_gathered_in_no_time() -> None:
    """The work grows with their number, and no faster."""
    failures = tuple(
        failed(f"test_{n}", raised("KeyError", f"'{n}'"), line=n) for n in range(5000)
    )
    judgement = judged(*failures)
    assert sum(cause.count for cause in judgement.causes) == 5000


def test_an_error_without_blanks_takes_no_time() -> None:
    """A conftest may raise a megabyte of anything; its own name is looked for in that."""
    message = f"{'x' * 1_000_000} (app/models.py:3, from tests/conftest.py)"
    run = RunEvidence(
        exit=ProcessExit(code=4, source="pytest"),
        errors=(RunError(origin="conftest", message=message),),
    )
    (cause,) = judge(run).causes
    assert cause.what.endswith(
        ": tests/conftest.py can't be imported (app/models.py:3)"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("order", "the same elements in another order: "),
        ("dates", "two dates or times at most a day apart: "),
        ("something later", ""),
    ],
)
def test_what_may_come_and_go_is_said_of_an_assertion(text: str, words: str) -> None:
    """Its sides differ in that alone, so nobody knows what a retry does."""
    differs = raised(facts=(Fact(name="differs_in", text=text),))
    [cause] = judged(failed(exception=differs)).causes
    assert cause.what.startswith(f"{words}assert 1 == 2")
    assert cause.retryable is (None if words else False)


@pytest.mark.parametrize(
    ("module", "causes"),
    [
        ("_pytest.recwarn", 2),
        ("_pytest.raises", 2),
        ("_pytest.python_api", 2),
        ("_pytest.doctest", 2),
        ("_pytest.fixtures", 1),
    ],
)
def test_what_a_test_asked_pytest_to_check_is_of_that_test(
    module: str, causes: int
) -> None:
    """Two tests fail for two reasons there; what else pytest refuses has one."""
    failures = []
    for number, name in enumerate(("test_x", "test_y")):
        exception = RaisedException(
            type="Failed",
            module="_pytest.outcomes",
            message="DID NOT",
            raised_in=module,
            raising_function=f"{module}.check",
            origin=OriginPlace(path="test_mix.py", function=name, text=f"f{name}()"),
        )
        failures.append(failed(name, exception, line=9 + number))
    assert len(judged(*failures).causes) == causes


def test_causes_of_several_runs_are_joined_by_their_keys() -> None:
    """Counts are added up, names stand once, and a retry has to help in each run."""
    first, second = (
        cause_of(failed("test_x"), failed("test_y")),
        cause_of(failed("test_y"), failed("test_z")),
    )
    other = replace(first, key="0" * 16, count=9)
    first = replace(first, retryable=True, unnamed=1, files=("a.py",), count=2)
    second = replace(
        second, key=first.key, retryable=None, unnamed=2, files=("b.py",), count=2
    )
    big, joined = causes_module.join_causes((first, other, second))
    assert big == other
    names = tuple(f"test_mix.py::test_{name}" for name in "xyz")
    assert (joined.key, joined.what) == (first.key, first.what)
    assert (joined.tests, joined.nodeids) == (names, names)
    assert (joined.files, joined.count, joined.unnamed) == (("a.py", "b.py"), 4, 3)
    assert joined.retryable is None


def cause_of(*failures: TestFailure) -> Cause:
    """Return the only cause of failures."""
    [cause] = judged(*failures).causes
    return cause


@pytest.mark.parametrize(
    ("answers", "helps"),
    [
        ((True, True), True),
        ((True, None), None),
        ((True, False, None), False),
        ((), None),
    ],
)
def test_a_retry_helps_if_it_helps_all(
    answers: tuple[bool | None, ...], helps: bool | None
) -> None:
    """One that stays is enough for none, and one that is unknown for not known."""
    assert causes_module.whether_retry_helps(answers) is helps


def test_several_endings_without_a_test_have_no_place() -> None:
    """Their sentence ends with their number."""
    workers = [WorkerEnd(id=name, tests=1, ending="died") for name in ("gw0", "gw1")]
    exit_1 = ProcessExit(code=1, source="pytest")
    [cause] = judge(RunEvidence(exit=exit_1, workers=tuple(workers))).causes
    assert (cause.count, cause.what) == (2, "2 xdist workers died")


@pytest.mark.parametrize(
    ("function", "where"),
    [
        ("load", "load (conf/plug.py:3)"),
        ("<module>", "conf/plug.py:3"),
        ("", "conf/plug.py:3"),
    ],
)
def test_an_error_in_a_hook_names_the_users_function(
    recognised: dict[str, Diagnosis], function: str, where: str
) -> None:
    """At the top of a module there is no function to name."""
    recognised["KeyError"] = Diagnosis(key="x", what="x is not set")
    origin = OriginPlace(path="conf/plug.py", function=function)
    error = RunError(
        origin="internal",
        message="KeyError: 'x' (conf/plug.py:3, in hook)",
        exception=raised("KeyError", "x", origin=origin),
    )
    [cause] = judged(code=3, errors=(error,)).causes
    assert cause.what == f"x is not set: {where}"


@pytest.mark.parametrize(
    ("kind", "bases", "words"),
    [
        ("ExceptionGroup", ("builtins.BaseExceptionGroup",), "ValueError: bad leaf"),
        ("RuntimeError", ("builtins.RuntimeError",), "RuntimeError: 2 failed"),
    ],
)
def test_a_group_says_what_its_first_exception_says(
    kind: str, bases: tuple[str, ...], words: str
) -> None:
    """An exception that another one caused speaks for itself."""
    leaf = LinkedException(
        bases=("builtins.ValueError",), message="bad leaf", is_cause=True
    )
    exception = raised(kind, "2 failed", bases=bases, chain=(leaf,))
    [cause] = judged(failed(exception=exception)).causes
    assert cause.what.startswith(words)


def test_two_tests_that_hang_at_one_place_may_hang_again() -> None:
    """That is a loop without an end, perhaps; at two places each may have been slow."""

    def hung(name: str, line: int) -> TestFailure:
        frame = replace(OWN, owner="project", path="engine.py", line=line)
        exception = RaisedException(
            type="Failed",
            module="_pytest.outcomes",
            message="Timeout (>1.0s) from pytest-timeout.",
            raised_in="pytest_timeout",
            frame=frame,
        )
        return failed(name, exception)

    one_place = judged(hung("test_x", 3), hung("test_y", 3)).verdict
    two_places = judged(hung("test_x", 3), hung("test_y", 4)).verdict
    assert one_place is not None
    assert two_places is not None
    assert (one_place.retryable, two_places.retryable) == (None, True)


def test_the_line_that_pytest_shows_in_the_users_file_is_the_place() -> None:
    """Another line of the user's that is further in does not replace it."""
    frame = replace(OWN, path="test_mix.py", line=5)
    [cause] = judged(failed(exception=raised(frame=frame), line=9)).causes
    assert cause.what.endswith("test_x (test_mix.py:9)")


def test_files_of_one_cause_do_not_say_who_imported_it_first() -> None:
    """The brackets of the place stay closed."""
    place = Location(path="settings.py", line=2)
    files = tuple(
        replace(uncollected(name, raised("ValueError", "bad")), location=place)
        for name in ("a.py", "b.py")
    )
    [cause] = judged(code=2, collection_failures=files).causes
    assert cause.what == (
        "ValueError: bad (settings.py:2): 2 test files can't be imported"
    )
