"""The HTML page of a report in a real browser: what is seen, filters, keys, no injection."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.faces.html import render
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.taxonomy.evidence import (
    Counts,
    RaisedException,
    TestFailure,
    TestOutcome,
    TestRun,
)
from tests.helpers.chromium import NEEDED, Browser, started_browser
from tests.helpers.page_scenes import (
    SCENES,
    bench,
    clean,
    many,
    many_causes,
    one_failure,
)
from tests.helpers.reports import make_failure, make_report, make_run

ALERT: Final = "<script>alert(1)</script>"
_AXE: Final = (
    "const [options, done] = arguments;"
    "axe.run(options).then(r => done(JSON.stringify(r.violations)), e => done(String(e)))"
)
CAUSES: Final = ".cause:not([hidden]) > summary"
FAILURES: Final = ".tests > li:not([hidden]) > .failure > summary"

Open = Callable[..., Browser]

pytestmark = [pytest.mark.slow, pytest.mark.room("faces", "report")]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start one browser for all tests."""
    with started_browser() as found:
        yield found


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Open:
    """Return a function that opens the page of a report in a wide window."""

    def open_(report: dict[str, Any], hash_: str = "") -> Browser:
        path = tmp_path / "report.html"
        path.write_text(render(decode_report(report)), "utf-8")
        browser.use_size(1280, 900)
        browser.use_scheme("light")
        browser.complaints()
        browser.open(path, hash_)
        return browser

    return open_


def _failure(nodeid: str, kind: str, message: str, **given: Any) -> TestFailure:
    return make_failure(
        nodeid=nodeid,
        worker="gw1",
        message=message,
        exception=RaisedException(type=kind, module="builtins", message=message),
        traceback=f">   call()\nE   {kind}: {message}",
        **given,
    )


def mixed() -> dict[str, Any]:
    """Return the report of failures that differ in kind, owner, file and worker."""
    failures = (
        make_failure(nodeid="tests/test_a.py::test_one", worker="gw0"),
        _failure("tests/test_a.py::test_two", "KeyError", "'five or six'"),
        _failure(
            "tests/test_b.py::test_three", "ValueError", "no such table", phase="setup"
        ),
    )
    outcomes: tuple[tuple[str, str, TestOutcome, str], ...] = (
        ("a", "one", "failed", "gw0"),
        ("a", "two", "failed", "gw1"),
        ("a", "fine", "passed", "gw0"),
        ("b", "three", "error", "gw1"),
    )
    tests = tuple(
        TestRun(
            nodeid=f"tests/test_{file}.py::test_{name}",
            outcome=outcome,
            worker=worker,
            start_seconds=float(number),
            duration_seconds=0.5,
        )
        for number, (file, name, outcome, worker) in enumerate(outcomes)
    )
    counts = Counts(collected=4, passed=1, failed=2, errors=1)
    report = copy.deepcopy(
        make_report(make_run(failures=failures, counts=counts, tests=tests))
    )
    for failure, owner in zip(
        report["failures"], ("test", "project", "conftest"), strict=True
    ):
        failure["origin"] = {
            "owner": owner,
            "package": None,
            "module": "m",
            "function": "f",
            "path": "src/m.py",
            "line": 3,
        }
    return report


def names(browser: Browser) -> list[str]:
    """Return the names of the tests in the list of tests."""
    return browser.texts("#rows th")


@pytest.mark.parametrize("scene", SCENES)
def test_a_page_renders_without_a_complaint(scene: str, opened: Open) -> None:
    """No error in the console, nothing wider than the window, the verdict is seen first."""
    report = SCENES[scene]()
    browser = opened(report)
    for width in (1280, 390):
        browser.use_size(width, 900)
        if width == 390:
            browser.open(Path(browser.driver.current_url.removeprefix("file://")))
        assert browser.complaints() == []
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.run(
            "return document.querySelector('h1').getBoundingClientRect().top < 300"
        )
    assert browser.run("return document.title").endswith("· shop")
    if report["verdict"]:
        assert report["verdict"]["message"] in browser.text("h1")


def test_the_first_failure_is_open(opened: Open) -> None:
    """Its traceback is seen at once, with what was expected and what came."""
    browser = opened(one_failure())
    assert browser.texts(".code .minus") == ["E         -     'total': '0.00 EUR',"]
    assert browser.texts(".code .plus") == ["E         +     'total': '0.00 USD',"]
    assert "came back, first seen 2026-01-03" in browser.text("h1")
    command = "pytest tests/test_cart.py::test_total_of_an_empty_cart"
    assert browser.texts(".cause .command code") == [command]


def test_a_filter_shows_what_is_like_that_and_is_kept_in_the_address(
    opened: Open,
) -> None:
    """Failures and tests are filtered together, and the address with the filter opens filtered."""
    browser = opened(mixed())
    assert len(browser.texts(CAUSES)) == 3
    assert len(names(browser)) == 4
    choose = (
        "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('change'))"
    )
    browser.run(choose, "by-file", "tests/test_a.py")
    assert len(browser.texts(CAUSES)) == 2
    assert len(names(browser)) == 3
    browser.run(choose, "by-worker", "gw1")
    assert names(browser) == ["tests/test_a.py::test_two"]
    assert browser.text("#status") == "1 of 3 failures, 1 cause; 1 of 4 tests"
    address = browser.driver.current_url
    hash_ = address[address.index("#") :]
    assert hash_ == "#file=tests%2Ftest_a.py&worker=gw1"
    opened(mixed(), hash_)
    assert names(browser) == ["tests/test_a.py::test_two"]
    assert browser.run("return document.getElementById('by-worker').value") == "gw1"
    browser.run("document.getElementById('clear').click()")
    assert len(names(browser)) == 4
    assert "#" not in browser.driver.current_url


@pytest.mark.parametrize(
    ("hash_", "expected"),
    [
        ("#kind=test.setup_error", ["tests/test_b.py::test_three"]),
        ("#owner=project", ["tests/test_a.py::test_two"]),
        ("#outcome=failed&reason=TESTS_FAILED&q=two", ["tests/test_a.py::test_two"]),
        ("#outcome=passed", ["tests/test_a.py::test_fine"]),
        ("#q=FINE", ["tests/test_a.py::test_fine"]),
        ("#q=FIVE+or", ["tests/test_a.py::test_two"]),
        ("#worker=gw0&q=one", ["tests/test_a.py::test_one"]),
        ("#kind=nothing", []),
        ("#<script>alert(1)</script>=x", None),
        ("#%E0%A4%A", None),
    ],
)
def test_every_filter_can_be_in_a_link(
    hash_: str, expected: list[str] | None, opened: Open
) -> None:
    """Reason, kind, owner, file, worker, outcome, and words; nonsense filters nothing."""
    browser = opened(mixed(), hash_)
    assert browser.complaints() == []
    if expected is None:
        assert len(names(browser)) == 4
    else:
        assert names(browser) == expected


def test_everything_is_reached_by_keys(opened: Open) -> None:
    """`/` goes to the search, Enter opens a failure, arrows walk along the timeline."""
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    browser = opened(mixed())
    body = browser.driver.find_element("css selector", "body")
    body.send_keys("/")
    browser.driver.switch_to.active_element.send_keys("three")
    assert names(browser) == ["tests/test_b.py::test_three"]
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert len(names(browser)) == 4
    browser.run("document.querySelectorAll(arguments[0])[1].focus()", FAILURES)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    facts = ".failure[open] .facts dd"  # filled after the event
    WebDriverWait(browser.driver, 5).until(
        lambda _: "f in src/m.py:3" in browser.texts(facts)
    )
    browser.run("document.getElementById('timeline').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.END)
    assert browser.text("#at").startswith(
        "tests/test_b.py::test_three: error, from 3.0 s"
    )
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert "test_three" in browser.driver.switch_to.active_element.text


def test_an_entry_of_the_list_leads_to_its_cause(opened: Open) -> None:
    """Its card is opened and has the focus, and the filters stay as they are."""
    from selenium.webdriver.common.keys import Keys

    browser = opened(many_causes(), "#owner=project")
    entries = ".contents li:not([hidden]) a"
    assert len(browser.texts(entries)) == 10
    assert browser.texts(".contents details > summary") == ["7 more causes"]
    browser.run("[...document.querySelectorAll(arguments[0])].pop().focus()", entries)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    card = "return document.activeElement.parentElement"
    assert browser.run(f"{card}.id") == "cause-38"
    assert browser.run(f"{card}.open") is True
    assert browser.run("return location.hash") == "#owner=project"
    assert browser.complaints() == []


def test_a_filter_by_owner_goes_by_causes(opened: Open) -> None:
    """Each owner can be chosen; a cause in a link is open."""
    browser = opened(many_causes(), "#cause-39")
    assert browser.run("return document.getElementById('cause-39').open") is True
    choices = browser.run(
        "return [...document.querySelectorAll('#by-owner option')].map(e => e.text)"
    )
    assert choices == [
        "all",
        *(
            f"{owner} (10)"
            for owner in ("dependency", "environment", "project", "test")
        ),
    ]
    assert len(browser.texts(".contents > ol > li")) == 12


def test_a_test_in_the_list_leads_to_its_failure(opened: Open) -> None:
    """Even to one that a filter hides or that is far down."""
    browser = opened(many(), "#outcome=failed")
    browser.run(
        "document.getElementById('more-tests').click();"
        "document.querySelectorAll('#rows th a')[150].click()"
    )
    active = browser.driver.switch_to.active_element
    assert browser.run("return document.activeElement.parentElement.open") is True
    assert "test_" in active.text


def test_hostile_texts_stay_texts(opened: Open) -> None:
    """A script in a name, a message, a parameter or a link neither runs nor becomes an element."""
    nodeid = f"tests/{ALERT}.py::test_it[{ALERT}]"
    failure = make_failure(
        nodeid=nodeid,
        message=ALERT,
        traceback=f"E   {ALERT}\nE   </script><img src=x onerror=alert(1)>",
    )
    tests = (
        TestRun(
            nodeid=nodeid, outcome="failed", start_seconds=0.0, duration_seconds=1.0
        ),
        TestRun(
            nodeid=f"{ALERT}::b",
            outcome="passed",
            start_seconds=1.0,
            duration_seconds=1.0,
        ),
    )
    report = make_report(make_run(failures=(failure,), tests=tests))
    browser = opened(report, f"#q={ALERT}")
    assert browser.complaints() == []
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert names(browser) == [nodeid, f"{ALERT}::b"]
    assert ALERT in browser.text("h1")
    assert ALERT in browser.text(".cause .nodeid")
    assert ALERT in browser.text(".cause .command code")


def test_the_policy_stops_what_is_not_the_pages_own(opened: Open) -> None:
    """Even a script that got into the page doesn't run, and nothing is asked of the network."""
    browser = opened(one_failure())
    browser.run(
        "const s = document.createElement('div');"
        "try { s.innerHTML = '<img src=x onerror=window.evil=1>' } catch (e) { window.refused = 1 }"
    )
    assert browser.run("return window.refused") == 1
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    status = browser.run(
        "return fetch('https://example.invalid/').then(() => 'sent', () => 'refused')"
    )
    assert status == "refused"
    assert any("Content Security Policy" in each for each in browser.complaints())


def test_a_bench_is_searched_too(opened: Open) -> None:
    """Cases with their codes and details are found by the same words."""
    browser = opened(bench(), "#q=leaks_address")
    assert browser.texts(".cases tbody th") == ["mail-013", "mail-028"]


def test_a_green_run_has_filters_for_its_tests(opened: Open) -> None:
    """Without a failure, tests can still be searched."""
    browser = opened(clean(), "#outcome=skipped")
    assert len(names(browser)) == 4
    assert browser.text("#status") == "4 of 240 tests"


def test_a_page_without_scripts_has_what_matters(opened: Open) -> None:
    """Where a CI system serves pages without scripts, headline, causes and code are there."""
    browser = opened(one_failure())
    browser.driver.execute_cdp_cmd(
        "Emulation.setScriptExecutionDisabled", {"value": True}
    )
    try:
        browser.driver.refresh()
        body = browser.driver.find_element("css selector", "body").text
    finally:
        browser.driver.execute_cdp_cmd(
            "Emulation.setScriptExecutionDisabled", {"value": False}
        )
    assert "1 of 61 tests failed" in body
    assert "AssertionError: assert {'discount'" in body
    assert "pytest tests/test_cart.py::test_total_of_an_empty_cart" in body
    assert "runs no script" in body
    assert "Clear filters" not in body


def test_a_printed_page_has_the_tracebacks(opened: Open) -> None:
    """All causes are opened for the paper."""
    browser = opened(mixed())
    browser.run(
        "document.querySelectorAll('.cause').forEach(each => { each.open = false })"
    )
    assert browser.printed().startswith(b"%PDF")
    assert len(browser.texts(".cause[open] > .code")) == 3


def test_a_large_page_opens_and_filters(opened: Open) -> None:
    """10,000 tests with 2,000 failures; `python -m tests.benchmarks.pages` says how fast."""
    browser = opened(many())
    before = browser.text("#causes")
    browser.run(
        "const q = document.getElementById('q');"
        "q.value = 'search 20'; q.dispatchEvent(new Event('input'))"
    )
    assert browser.text("#causes") != before
    browser.run("document.getElementById('clear').click()")
    assert browser.text("#causes") == before


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return axe-core's script from npm; skip loudly where npm or its registry is not there."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(
            "npm is not installed (Debian: apt install npm), so axe-core is not run"
        )
    folder = tmp_path_factory.mktemp("axe")
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    done = subprocess.run(
        [
            npm,
            "install",
            "--prefix",
            str(folder),
            "--no-save",
            "--no-audit",
            "axe-core@4",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode or not script.exists():
        pytest.skip(f"npm could not install axe-core: {done.stderr.strip()[-200:]}")
    return script.read_text("utf-8")


@pytest.mark.parametrize("scene", SCENES)
def test_a_page_is_accessible(scene: str, opened: Open, axe: str) -> None:
    """axe-core reports no violation, and none of the contrast of dark colours."""
    browser = opened(SCENES[scene]())
    browser.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    try:
        browser.driver.refresh()
        browser.run(f"{axe}; window.axe = axe;")
        found = [browser.driver.execute_async_script(_AXE, {})]
        browser.use_scheme("dark")
        contrast = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
        found.append(browser.driver.execute_async_script(_AXE, contrast))
    finally:
        browser.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
    violations = [each for answer in found for each in json.loads(answer)]
    told = [
        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in violations
    ]
    assert told == []


def test_a_missing_browser_fails_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CI sets the variable, so that no run there skips these tests in silence."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv(NEEDED, raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match="apt install chromium"),
        started_browser(),
    ):
        pass
    monkeypatch.setenv(NEEDED, "1")
    with (
        pytest.raises(pytest.fail.Exception, match="Chromium is not installed"),
        started_browser(),
    ):
        pass
