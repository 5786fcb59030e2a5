"""The HTML page of a report, without a browser: its words, its policy, and hostile texts."""

from __future__ import annotations

import copy
import json
import re
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.comparing import (
    compare_with_baseline,
    compared_run,
    evaluate_against_baseline,
)
from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.faces.html import render
from pytest_failure_taxonomy.faces.html.rows import timing_of
from pytest_failure_taxonomy.report.codec import DecodeError
from pytest_failure_taxonomy.report.frames import code_of, line_class
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.model import SCHEMA_ID
from pytest_failure_taxonomy.report.summary import summarise
from pytest_failure_taxonomy.taxonomy.evidence import (
    Completeness,
    Counts,
    Location,
    ProcessExit,
    RunEvidence,
    TestOutcome,
    TestRun,
)
from pytest_failure_taxonomy.taxonomy.words import seconds_words
from pytest_failure_taxonomy.text import CLOSED_FIELDS, change_texts
from tests.helpers.page_scenes import (
    SCENES,
    many,
    many_causes,
    one_failure,
    stall,
    worker_died,
)
from tests.helpers.reports import (
    A_PROOF,
    assert_valid_report,
    make_failure,
    make_full_run,
    make_report,
    make_report_value,
    make_run,
)
from tests.unit.report.test_build import _run

ALERT: Final = "<script>alert(1)</script>"
NUMBER: Final = 12
_OWN_KEYS: Final = st.sampled_from(
    ["notes", "faults", "known", "history", "verdict", "state", "flaky_runs", "attributions",
     "rule", "owner", "link", "merged", "runs", "run", "first_commit", "message"]
)  # fmt: skip
HOSTILE: Final = st.one_of(
    st.text(),
    st.sampled_from(
        [
            ALERT,
            "</script><script>alert(1)</script>",
            "<!--<script>",
            "]]>",
            "{{ 7 * 7 }}{% raw %}",
            "' onmouseover='alert(1)",
            '"><img src=x onerror=alert(1)>',
            "\x1b[2J\x00\u202e\ud800\u2028",
            "\\u003cscript\\u003e",
        ]
    ),
)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the texts of some."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        given = dict(attrs)
        self.tags.append((tag, given))
        self._inside = str(given.get("id") or tag) if tag in ("script", "style") else ""

    def handle_data(self, data: str) -> None:
        """Keep the text of a script or a style."""
        if self._inside:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self._inside = ""

    @property
    def rows(self) -> dict[str, Any]:
        """The JSON that the page holds."""
        rows: dict[str, Any] = json.loads(self.texts["data"])
        return rows


def words_of(page: str) -> str:
    """Return the words of a page without its scripts, blanks made one."""
    shown = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", shown)).split())


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_a_page_says_what_all_faces_say(scene: str) -> None:
    """Headline, causes in their order, advice and codes; the same page each time."""
    report = SCENES[scene]()
    assert_valid_report(report)
    page = render(decode_report(report))
    assert page == render(decode_report(report))
    words, summary = words_of(page), summarise(decode_report(report))
    for each in (
        summary.headline,
        summary.left,
        summary.advice,
        summary.codes.strip("[]"),
    ):
        assert each in words
    if len(summary.causes) > 1:
        places = [
            words.index(f"{each.count:,} \u00d7 {each.text}") for each in summary.causes
        ]
        assert places == sorted(places)
    for cause in summary.causes:
        assert (cause.fix or "") in words
        assert cause.history in words


def test_the_only_cause_is_said_once() -> None:
    """In the title and the headline, and then in the traceback alone."""
    page = render(decode_report(one_failure()))
    said = "assert {'discount': ...': '0.00 USD'} == {'discount': ...': '0.00 EUR'}"
    assert re.findall("<h[1-6].*?</h[1-6]>", unescape(page))[0].count(said) == 1
    assert words_of(page).count(said) == 3  # with the <title>
    assert "1 failure" in words_of(page)


def test_an_ambiguous_verdict_names_what_else_it_may_have_been() -> None:
    """Its own kind, which the report lists too, is not among that."""
    end = ProcessExit(code=-9, signal="SIGKILL", source="supervisor")
    report = make_report(make_run(exit=end, finished=False))
    assert report["verdict"]["kind"] == "process.killed"
    assert report["verdict"]["ambiguous"] == ["process.oom", "process.killed"]
    assert "It may also have been process.oom: what was seen" in words_of(
        render(decode_report(report))
    )


def test_codes_stand_at_the_end_and_failure_types_in_the_data() -> None:
    """What programs read frightens nobody; stages are named where they are used."""
    report = one_failure()
    page = render(decode_report(report))
    words = words_of(page)
    assert "VERIFICATION_FAILED" not in words
    assert "final_test" not in words
    assert words.index("1 passed" if "1 passed" in words else "passed") < words.index(
        "TESTS_FAILED test.failed"
    )
    assert Elements(page).rows["failures"][0]["type"] == "VERIFICATION_FAILED"
    report["run"]["stage"] = "setup"
    assert "stage setup" in words_of(render(decode_report(report)))


LIBRARY: Final = "/usr/lib/python3.13/socket.py"
REFUSED: Final = f"""
    @pytest.fixture
    def db():
>       return socket.create_connection(("127.0.0.1", 5439))

test_mix.py:5: 

{LIBRARY}:864: in create_connection
    raise exceptions[0]
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ 
address = ('127.0.0.1', 5439)

    def create_connection(address):
>           sock.connect(sa)
E           ConnectionRefusedError: [Errno 111] Connection refused

{LIBRARY}:849: ConnectionRefusedError
"""  # noqa: W291 - as pytest writes it


def test_the_users_own_frames_come_first() -> None:
    """With what was raised, wherever; the frames of libraries are folded."""
    code = code_of(REFUSED)
    assert code.own.splitlines() == [
        "    @pytest.fixture",
        "    def db():",
        '>       return socket.create_connection(("127.0.0.1", 5439))',
        "",
        "test_mix.py:5: ",
        "E   ConnectionRefusedError: [Errno 111] Connection refused",
    ]
    assert code.whole == REFUSED


_LINK: Final = (
    "\n\nDuring handling of the above exception, another exception occurred:\n"
)
_LIBRARYS: Final = "/v/site-packages/a.py:1: in f\nE   KeyError: 'a'"
_USERS: Final = "t.py:1: in g\n    {}['a']\nE   KeyError: 'a'"
_BY_LIBRARY: Final = (
    "t.py:2: in g\n    f()\nlib/python3.13/a.py:3: in f\nE   ValueError: b"
)
_STACK: Final = (
    'Thread 0x7f:\n  File "/me/t.py", line 5 in t\n  File "/v/lib/python3/x.py", line 9'
)


@pytest.mark.parametrize(
    ("traceback", "own"),
    [
        ("E   assert 1 == 2\n\ntest_x.py:1: AssertionError", None),
        ('  File "/usr/lib/python3.13/x.py", line 1, in f', None),
        ("no frame at all", None),
        (_LIBRARYS + _LINK + _BY_LIBRARY, "t.py:2: in g\n    f()\nE   ValueError: b"),
        (
            _USERS + _LINK + _BY_LIBRARY,
            f"{_USERS}{_LINK}t.py:2: in g\n    f()\nE   ValueError: b",
        ),
        (_STACK, '  File "/me/t.py", line 5 in t'),
    ],
    ids=[
        "own-alone",
        "library-alone",
        "none",
        "chain-in-library",
        "own-chain",
        "stack",
    ],
)
def test_frames_are_told_apart(traceback: str, own: str | None) -> None:
    """Where all frames are of one sort nothing is folded."""
    code = code_of(traceback)
    assert code[:2] == ((traceback, "") if own is None else (own, traceback))
    left_out = "" if own is None else r"\n\([12] library frames? omitted\)"
    assert re.fullmatch(re.escape(code.own) + left_out, code.with_count)


def test_the_place_of_a_failure_is_the_users() -> None:
    """A library that is tested where it is installed has its own frames."""
    path = "lib/python3.13/site-packages/mine/test_x.py"
    text = f"/v/site-packages/a.py:1: in f\n{path}:3: in test\nE   KeyError"
    assert code_of(text).whole == ""
    assert (
        code_of(text, Location(path=path, line=3)).own
        == f"{path}:3: in test\nE   KeyError"
    )


@pytest.mark.parametrize("count", [1, 2, 40, 500])
def test_a_list_leads_to_the_cards(count: int) -> None:
    """One entry a cause, in the order of the cards; none of a cause that is alone."""
    report = many_causes(count)
    page = render(decode_report(report))
    entries = re.findall(r'<li><a href="#(cause-\d+)">.*?</li>', page)
    expected = [f"cause-{number}" for number in range(1, count + 1)]
    assert entries == (expected if count > 1 else [])
    assert re.findall(r'<details class="card cause" id="([^"]+)"', page) == expected
    listed = page.partition('<nav class="contents"')[2].partition("</nav>")[0]
    assert ("more causes</summary>" in listed) is (count > 12)
    if count > 1:
        what = report["causes"][0]["what"]
        first = words_of(f"<{listed.partition('</li>')[0]}")
        assert (
            first == f"1 \N{MULTIPLICATION SIGN} {what} test TESTS_FAILED test.failed"
        )


def test_a_report_with_everything_has_all_of_it_on_its_page() -> None:
    """Whatever a report has a place for is shown, but for what the script shows."""
    report = make_report(make_full_run())
    page = render(decode_report(report))
    words = words_of(page)
    for each in (
        "KeyError: 'x'",
        "Running when it ended",
        "tests/test_slow.py::test_it",
        "2 not run",
        "tests/test_late.py::test_a",
        "SIGSEGV",
        "/home/user/shop",
    ):
        assert each in words, each
    rows = Elements(page).rows
    names = [rows["files"][row["id"][0]] + row["id"][1] for row in rows["failures"]]
    assert {
        "tests/test_cart.py::test_total",
        "tests/test_broken.py",
        "tests/test_gone.py",
    } <= {*names}
    numbers = [
        int(given["data-n"] or "")
        for _, given in Elements(page).tags
        if "data-n" in given
    ]
    assert sorted(numbers) == list(range(len(names)))


def test_nothing_but_the_pages_own_script_and_style_may_run() -> None:
    """The policy allows two hashes, and those are of what is there; nothing is loaded."""
    elements = Elements(render(decode_report(one_failure())))
    (policy,) = (
        str(given["content"])
        for _, given in elements.tags
        if given.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for element in ("script", "style"):
        digest = b64encode(sha256(elements.texts[element].encode()).digest()).decode()
        assert rules[f"{element}-src"] == f"'sha256-{digest}'"
    names = {name for _, given in elements.tags for name in given}
    assert not names & {"src", "style", "srcset", "action"}
    assert not [name for name in names if name.startswith("on")]
    links = {str(given["href"]) for _, given in elements.tags if "href" in given}
    assert all(link.startswith("#") for link in links)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(text=HOSTILE)
@example("::")
def test_no_text_of_a_report_makes_an_element(text: str) -> None:
    """As many elements as with a plain text, whatever it is; and the JSON can be read."""
    # A node id has as many parts in both: what stands before the first `::` is shown as a file.
    alike = "::".join("x" for _ in text.split("::"))
    plain, hostile = (_filled_with(each) for each in (alike, text or "x"))
    expected, found = (
        Elements(render(decode_report(plain))),
        Elements(render(decode_report(hostile))),
    )
    lines = text.replace("\r\n", "\n").count("\n")
    if lines == 0:
        structure = [
            [tag for tag, _ in each.tags if tag != "details"]
            for each in (expected, found)
        ]
        assert structure[0] == structure[1]
    names = {name for _, given in found.tags for name in given}
    assert names <= {name for _, given in expected.tags for name in given}
    assert len(found.rows["failures"]) == len(expected.rows["failures"])
    assert "\ud800" not in found.texts["data"]


def _filled_with(text: str) -> dict[str, Any]:
    report = make_report(make_full_run())
    report["causes"][0]["proof"] = A_PROOF
    filled: dict[str, Any] = change_texts(report, lambda _: f"a{text}b", CLOSED_FIELDS)
    for name in ("$schema", "schema_version", "limits", "summary"):
        filled[name] = report[name]
    filled["environment"]["ci"] = None
    filled["exit"]["source"] = "pytest"
    return filled


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(run=_run, completeness=st.sampled_from(["full", "reconstructed", "running"]))
def test_any_evidence_makes_a_page(
    run: RunEvidence, completeness: Completeness
) -> None:
    """Whatever was seen of a run, its page can be made, and its JSON read."""
    report = make_report(run, completeness=completeness)
    assert Elements(render(decode_report(report))).rows["failures"] is not None


_ANY_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_OWN_KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(own=st.dictionaries(_OWN_KEYS, _ANY_JSON, max_size=6))
def test_extensions_of_any_type_make_a_page(own: dict[str, Any]) -> None:
    """Extensions are open; what an old report has under our own key is read or refused."""
    report = {**one_failure(), "extensions": {"pytest_failure_taxonomy": own}}
    assert "1 of 61 tests failed" in render(decode_report(report))
    versions = {"$schema": SCHEMA_ID.replace("1.3", "1.2"), "schema_version": "1.2"}
    with suppress(DecodeError):
        loaded = as_json(decode_report({**report, **versions}))
        assert "1 of 61 tests failed" in render(decode_report(loaded))


def test_control_characters_are_shown_as_escapes() -> None:
    """What could recolour or reverse a text is seen, and can't be read as markup either."""
    report = copy.deepcopy(one_failure())
    report["failures"][0]["traceback"] = "E   \x1b[31mred\u202e\r\nE   end"
    report["verdict"]["message"] = "a\x07b"
    page = render(decode_report(report))
    assert "a\\x07b" in page
    lines = Elements(page).rows["lines"]
    assert lines == ["E   \\x1b[31mred\\u202e", "E   end"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("E         - 'total': 3", "minus"),
        ("E         + 'total': 4", "plus"),
        ("E         ?          ^", "hint"),
        ("E        +  where 3 = total(<Cart>)", "error"),
        ("E        +    and   4 = other()", "error"),
        ("E       assert -3 == 4", "error"),
        ("E", "error"),
        ("Everything is a line of code", ""),
        (">       assert total == 4", "here"),
        ("tests/test_cart.py:42: AssertionError", "place"),
        ('  File "/x/y.py", line 3, in f', "place"),
        ("_ _ _ _ _ _ _ _ _ _", "rule"),
        ("    def test_it():", ""),
        ("", ""),
    ],
)
def test_lines_of_a_traceback_are_told_apart(line: str, name: str) -> None:
    """Differences, errors, and where it was, as pytest shows them."""
    assert line_class(line) == name


def test_a_run_that_died_has_the_moment_and_what_was_running() -> None:
    """Its record names no test that passed, and the page says so; what hung took longest."""
    timing, page = (
        timing_of(decode_report(stall())),
        words_of(render(decode_report(stall()))),
    )
    assert "does not list all tests: of a run that died" in page
    assert "1 test running at the end" in page
    assert timing.running[0][1] == 9.0
    assert timing.death == timing.end == 324.0
    longest = ("tests/test_queue.py::test_worker_stops", "running at the end")
    assert timing.longest.rows[0][1:] == longest


def test_a_worker_that_died_is_not_idle_afterwards() -> None:
    """Its lane ends there, and the others go on."""
    timing = timing_of(decode_report(worker_died()))
    assert [lane.name for lane in timing.lanes] == ["gw0", "gw1", "gw2", "gw3"]
    dead, alive = timing.lanes[2:]
    assert alive.death is None
    assert dead.death is not None
    assert dead.death < timing.end - 1
    assert dead.idle < alive.idle
    page = words_of(render(decode_report(worker_died())))
    assert f"idle, died after {seconds_words(dead.death)}" in page
    assert timing.death is None


def test_workers_stand_in_the_order_of_their_numbers() -> None:
    """`gw2` before `gw10`."""
    report = copy.deepcopy(one_failure())
    for number, test in enumerate(report["tests"]):
        test["worker"] = f"gw{number % NUMBER}"
    lanes = [lane.name for lane in timing_of(decode_report(report)).lanes]
    assert lanes == [f"gw{number}" for number in range(NUMBER)]


def test_a_page_says_where_a_timeline_is_missing() -> None:
    """Without a list of all tests it says so, and how to get one."""
    report = make_report()
    assert report["tests"] is None
    assert "This report does not list all tests" in words_of(
        render(decode_report(report))
    )
    assert "--failure-taxonomy-html" in words_of(render(decode_report(report)))


def test_counts_that_overlap_say_so() -> None:
    """Each test has one part of the bar, and what is counted twice has a word for it."""
    outcomes: tuple[TestOutcome, ...] = ("passed", "failed", "failed", "error")
    tests = tuple(
        TestRun(
            nodeid=f"t.py::t{n}", outcome=each, start_seconds=0.0, duration_seconds=0.1
        )
        for n, each in enumerate(outcomes)
    )
    failures = (
        make_failure(nodeid="t.py::t1"),
        make_failure(nodeid="t.py::t2", crashed=True),
        make_failure(nodeid="t.py::t3", phase="teardown"),
    )
    counts = Counts(collected=4, passed=2, failed=2, errors=1)
    report = make_report(make_run(failures=failures, counts=counts, tests=tests))
    page = render(decode_report(report))
    assert re.findall(
        r'<rect class="fill-(\w+)" x="[\d.]+%" width="([\d.]+)%"', page
    ) == [
        ("passed", "25.0"),
        ("failed", "50.0"),
        ("errors", "25.0"),
    ]
    assert re.findall(
        r'<li class="count-\w+"><strong>(\d+)</strong> (.*?)</li>', page
    ) == [
        ("2", "passed"),
        ("2", "failed"),
        ("1", "error (1 in teardowns, beside their tests' own outcome)"),
        ("1", "crashed (of those failed)"),
    ]


def test_numbers_of_any_size_are_shown() -> None:
    """Counts that no run has had neither break the page nor its JSON."""
    report = copy.deepcopy(one_failure())
    report["summary"]["passed"] = 2**62
    report["run"]["duration_seconds"] = 1.7e308
    report["tests"][0]["duration_seconds"] = 1.7e308
    assert Elements(render(decode_report(report))).rows["tests"]


@pytest.mark.slow
def test_what_the_report_only_names_is_named_on_the_page() -> None:
    """A report lists a thousand failures in full; the page has the others' names."""
    report = many()
    assert len(report["failures"]) == 1_000
    rows = Elements(render(decode_report(report))).rows
    assert len(rows["failures"]) == 2_000
    assert sum(row.get("only", False) for row in rows["failures"]) == 1_000


@pytest.mark.slow
def test_a_large_page_stays_small() -> None:
    """10,000 tests and 2,000 failures take less than 3 MB."""
    assert len(render(decode_report(many())).encode()) < 3_000_000


def test_a_run_that_is_still_running_is_no_success() -> None:
    """Its page doesn't look green."""
    page = render(make_report_value(make_run(), completeness="running"))
    assert '<body class="open">' in page
    assert "not ended" in words_of(page)


def test_a_bench_has_what_changed_since_its_baseline() -> None:
    """The difference with its interval, and each case that flipped, stand on the page."""
    report = SCENES["bench"]()
    old = BenchRunReport.model_validate(report["bench"][0])
    flipped = [
        (case_id, score.model_copy(update={"passed": not score.passed, "score": 0.5}))
        if case_id == "mail-003"
        else (case_id, score)
        for case_id, score in old.per_case
    ]
    older = old.model_copy(update={"per_case": tuple(flipped), "run_id": "earlier"})
    judged, _ = evaluate_against_baseline(
        old, compare_with_baseline(old, [compared_run(older, "old.json")])
    )
    report["bench"] = [judged.model_dump(mode="json")]
    page = unescape(render(decode_report(report)))
    assert "<dt>compared with</dt><dd>earlier</dd>" in page
    assert "<caption>Cases that changed</caption>" in page
    row = re.search(r'<tr><th scope="row">mail-003</th><td>(.*?)</td>', page)
    assert row is not None
    assert row[1] in ("now passes", "no longer passes")


def test_a_bench_has_its_tags_and_reducers() -> None:
    """The scores of each tag are a table, and what a reducer makes of the cases is a figure."""
    page = render(decode_report(SCENES["bench"]()))
    assert "<caption>Scores by tag</caption>" in page
    assert re.search(r'<th scope="row">unusual</th><td class="number">\d+</td>', page)
    assert re.search(r"<dt>majority</dt><dd>0\.\d{3}</dd>", page)
