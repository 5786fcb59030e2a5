"""What is said of a proof, and what follows from it for a report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from pytest_failure_taxonomy.faces import FORMATS, render
from pytest_failure_taxonomy.faces.agent import render as render_for_agents
from pytest_failure_taxonomy.faces.terminal import (
    causes_with_tests,
    verdict_lines,
)
from pytest_failure_taxonomy.report.build import NO_PROOF
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.merging import merge_reports
from pytest_failure_taxonomy.report.model import CODEC
from pytest_failure_taxonomy.report.summary import proof_words, summarise
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import Location, ProcessExit
from pytest_failure_taxonomy.taxonomy.judgement import Proof, ProofType
from pytest_failure_taxonomy.text import AS_REPORTED, ShownPaths
from tests.helpers.reports import (
    A_PROOF,
    make_failure,
    make_report,
    make_run,
    with_late_end,
    with_proofs,
)

PAGE: Final = Path(__file__).resolve().parents[3] / "docs/reference/proofs.md"
VICTIM: Final = "tests/test_cart.py::test_total"
POLLUTER: Final = "tests/test_tax.py::test_default"
COMMAND: Final = f"pytest {POLLUTER} {VICTIM}"


def proof(type_: str, status: str = "proven", **given: Any) -> dict[str, Any]:
    """Return a proof of a type that took five runs, all of which failed."""
    return {
        **NO_PROOF,
        "type": type_,
        "status": status,
        "runs": 5,
        "failed": 5,
        **given,
    }


def passed(runs: int = 5, failed: int = 0, state: str | None = None) -> dict[str, Any]:
    """Return a counterfactual that passed five times."""
    return {"runs": runs, "failed": failed, "state": state}


POLLUTED: Final = {**A_PROOF, "suspicions": []}
FLAKY: Final = proof(
    "flaky",
    runs=40,
    failed=4,
    interval={"low": 0.0279, "high": 0.2366},
    suspicions=["load: fails 9 of 10 with the processors busy"],
)
LINES: Final = (
    (POLLUTED, "order-dependent, proven: passes alone (5 of 5), fails after {polluter} (5 of 5)",
     "{polluter} leaves shop.config.RATE = 0.19 (was 0.2); with the old value restored, test_total passes"),
    (proof("order.polluted", nodeids=["a", "b", "c", "d"], without=passed(), state="x = 1"),
     "order-dependent, proven: passes alone (5 of 5), fails after a and b and 2 more (5 of 5)",
     "a and b and 2 more leave x = 1; with the old value restored, test_total passes"),
    (FLAKY, ("flaky, proven: fails 4 of 40 whatever the order (2.8% to 23.7%); "
     "suspected: load: fails 9 of 10 with the processors busy")),
    (proof("reproducible"), "reproducible, proven: fails alone (5 of 5: at least 54%)"),
    (proof("order.brittle", nodeids=["a"], without=passed(), known_since="2026-11-03T01:00:00Z"),
     "brittle, proven on 2026-11-03: fails alone (5 of 5), passes after a (5 of 5)"),
    (proof("order.brittle", nodeids=["a"], without=passed(), commit="3f2a91c Ada: tax"),
     ("brittle, proven: fails alone (5 of 5), passes after a (5 of 5); "
      "since commit 3f2a91c Ada: tax")),
    (proof("order.brittle", nodeids=["a"], without=passed(), state="shop.user = 'ada'"),
     "brittle, proven: fails alone (5 of 5), passes after a (5 of 5)",
     "a leaves shop.user = 'ada', which test_total needs"),
    (proof("axis.hash_seed", state="PYTHONHASHSEED=3", without=passed(state="7")),
     "the hash seed decides, proven: fails with PYTHONHASHSEED=3 (5 of 5), passes with 7 (5 of 5)"),
    (proof("axis.load", without=passed(20, 1)), ("load decides, proven: "
     "fails with the processors busy (5 of 5), fails 1 of 20 with them idle")),
    (proof("axis.network", "refuted", failed=0, without=passed()), ("the network decides, refuted: "
     "passes with the network closed (5 of 5), passes with it open (5 of 5)")),
    (proof("commit", state="3f2a91c Ada: round at {}", without=passed()), ("commit 3f2a91c Ada: "
     "round at {}, proven: fails at it (5 of 5), passes at its parent (5 of 5)")),
    (proof("environment", "suspected", runs=0, failed=0, state="numpy 2.3.1 → 2.4.0"),
     "the environment, suspected: numpy 2.3.1 → 2.4.0"),
    (proof("environment", state="httpx 0.28.1", without=passed(state="0.27.2")),
     ("httpx 0.28.1 breaks it, proven: fails with it (5 of 5), passes with 0.27.2 (5 of 5); "
     "fix: pin httpx<0.28")),
    (proof("environment", state="httpx 1.0 with h11 removed", without=passed(state="0.9.1 and 2.1")),
     ("httpx 1.0 with h11 removed breaks it, proven: fails with it (5 of 5), "
     "passes with 0.9.1 and 2.1 (5 of 5); fix: pin httpx<1 and h11==2.1")),
    (proof("environment", "suspected", state="httpx 0.28.1", without=passed(3, state="0.27.2")),
     "httpx 0.28.1 breaks it, suspected: fails with it (5 of 5), passes with 0.27.2 (3 of 3)"),
    (proof("environment", "undecided", failed=3, state="httpx 0.28.1", without=passed(state="0.27.2")),
     "undecided: fails 3 of 5 with it, passes with 0.27.2 (5 of 5); httpx 0.28.1"),
    (proof("flaky", "undecided", runs=1_200, failed=0, state="the time was over"),
     "undecided: passes whatever the order (1,200 of 1,200); the time was over"),
    (proof("order.polluted", "undecided", nodeids=["a"], failed=3, state="no time left"),
     "undecided: fails 3 of 5 after a; no time left"),
    (proof("flaky", "undecided", runs=0, failed=0), "undecided"),
)  # fmt: skip


PINS: Final = (
    ("0.28.1", "0.27.2", "<0.28"),
    ("2.0.1", "1.9.2", "<2"),
    ("1.2.4", "1.2.3", "<1.2.4"),
    ("1.2", "1.1.5", "<1.2"),
    ("1.2.1", "1.2", "<1.2.1"),
    ("5.0.1", "5", "<5.0.1"),
    ("5.0", "5", "<5.0"),
    ("1.0.post1", "1.0", "<1.0.post1"),
    ("2.0rc1", "1.9", "<2"),
    ("2026.10", "2026.9.1", "<2026.10"),
    ("1.0", "2.0", "==2.0"),
    ("1.0", "1!0.5", "==1!0.5"),
    ("1.0+cpu", "1.0+gpu", "==1.0+gpu"),
    ("x" * 5, "y", "==y"),
    ("9" * 5_000, "1", "<" + "9" * 5_000),
)


def words_of(
    proof: dict[str, Any], nodeid: str | None, paths: ShownPaths = AS_REPORTED
) -> tuple[str, ...]:
    """Return the words of a proof that is JSON."""
    return proof_words(CODEC.decode(Proof, proof), nodeid, paths)


def test_the_words_of_each_type() -> None:
    """The type and the status, the counts that show it, and what is left behind."""
    for known, *lines in LINES:
        told = [line.replace("{polluter}", POLLUTER) for line in lines]
        assert [*words_of(known, VICTIM)] == told
    assert words_of(POLLUTED, None)[1].endswith(
        "with the old value restored, it passes"
    )
    shown = ShownPaths("/root/x", "/root/x/tests")
    assert (
        "fails after test_tax.py::test_default" in words_of(POLLUTED, VICTIM, shown)[0]
    )


def test_what_is_pinned() -> None:
    """The release is excluded and the one before is not, by as few numbers as it takes."""
    for now, before, pin in PINS:
        release = proof("environment", state=f"a {now}", without=passed(state=before))
        assert words_of(release, VICTIM)[0].endswith(f"; fix: pin a{pin}")


RELEASES: Final = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@given(RELEASES, RELEASES)
def test_a_pin_has_the_release_before_and_not_the_one_that_breaks_it(
    now: list[int], before: list[int]
) -> None:
    """As pip reads it."""
    first, second = (".".join(map(str, numbers)) for numbers in (now, before))
    assume(Version(first) != Version(second))
    release = proof("environment", state=f"a {first}", without=passed(state=second))
    (words,) = words_of(release, VICTIM)
    pin = SpecifierSet(words.rpartition("pin a")[2])
    assert second in pin
    assert first not in pin


def test_the_table_has_each_type_of_the_report() -> None:
    """Each has a name, a meaning and what to do, and words for it without more being known."""
    types = get_args(ProofType)
    assert [*packaged_table("proofs")] == [*types]
    for type_, row in packaged_table("proofs").items():
        helps = {True: "yes", False: "no", None: "not known"}[row.get("retryable")]
        name = row["name"].replace("{state}", "…")
        charged = f"{row['charge_to']} |" if "charge_to" in row else "|"
        told = f"| `{type_}` | {name} | {row['meaning']} | {helps} | {charged} {row['fix']} |\n"
        assert told in PAGE.read_text("utf-8")
        (line, *_) = words_of(
            proof(type_, nodeids=["a"], without=passed(), state="x"), VICTIM
        )
        assert not re.search(r"[{}]|None", line)


def report_of_one() -> dict[str, Any]:
    """Return the report of a run in which one assertion failed."""
    return make_report(make_run(failures=(make_failure(),)))


@pytest.mark.parametrize(
    ("type_", "status", "retryable", "action"),
    [
        ("order.polluted", "proven", False, "escalate"),
        ("order.brittle", "proven", False, "escalate"),
        ("reproducible", "proven", False, "escalate"),
        ("commit", "proven", False, "escalate"),
        ("environment", "proven", False, "escalate"),
        ("environment", "suspected", False, "escalate"),
        ("flaky", "proven", True, "retry"),
        ("axis.hash_seed", "proven", True, "retry"),
        ("axis.load", "proven", None, "retry"),
        ("axis.network", "proven", None, "retry"),
        ("axis.time", "proven", None, "retry"),
        ("flaky", "suspected", False, "escalate"),
        ("flaky", "undecided", False, "escalate"),
        ("axis.load", "refuted", False, "escalate"),
    ],
)
def test_what_follows_for_a_retry(
    type_: str, status: str, retryable: bool | None, action: str
) -> None:
    """What is proven decides, and the verdict agrees; anything else leaves it as it was."""
    report = report_of_one()
    assert report["verdict"]["retryable"] is False  # an assertion
    key = report["causes"][0]["key"]
    after = with_proofs(
        report, {key: proof(type_, status), "of another report": proof("flaky")}
    )
    assert report["causes"][0]["proof"] is None
    assert after["causes"][0]["proof"] == proof(type_, status)
    assert after["causes"][0]["retryable"] is retryable
    assert after["verdict"]["retryable"] is retryable
    assert after["verdict"]["recovery_action"] == action
    decode_report(after)


@pytest.mark.parametrize(
    ("type_", "status", "charge_to"),
    [
        ("order.polluted", "proven", "verifier"),
        ("order.brittle", "proven", "verifier"),
        ("axis.network", "proven", "environment"),
        ("axis.memory", "proven", "ambiguous"),
        ("flaky", "proven", "ambiguous"),
        ("reproducible", "proven", "subject"),
        ("commit", "proven", "subject"),
        ("environment", "proven", "environment"),
        ("environment", "suspected", "subject"),
        ("order.polluted", "suspected", "subject"),
        ("axis.network", "refuted", "subject"),
    ],
)
def test_whom_a_score_charges_it_to_then(
    type_: str, status: str, charge_to: str
) -> None:
    """What is proven decides for the cause and the verdict, unless it says nothing of that."""
    report = report_of_one()
    assert (
        report["verdict"]["charge_to"] == report["causes"][0]["charge_to"] == "subject"
    )
    after = with_proofs(report, {report["causes"][0]["key"]: proof(type_, status)})
    assert after["causes"][0]["charge_to"] == after["verdict"]["charge_to"] == charge_to
    decode_report(after)


def test_a_failure_that_comes_and_goes_since_a_commit_is_worth_a_retry() -> None:
    """One that fails each time is not; after other tests, a retry of the failed ones hides it."""
    report = report_of_one()
    key = report["causes"][0]["key"]
    for failed, retryable in ((5, False), (4, True)):
        for sort in ("commit", "environment"):
            since = proof(sort, failed=failed, without=passed(state="1"), state="a 2")
            (cause,) = with_proofs(report, {key: since})["causes"]
            assert cause["retryable"] is retryable


def test_what_makes_it_fail_stays_with_the_commit_beside_it() -> None:
    """Whichever was proven first; a proof that says less never takes the place of another."""
    report = report_of_one()
    key = report["causes"][0]["key"]

    def after(*proofs: dict[str, Any]) -> dict[str, Any]:
        amended = report
        for each in proofs:
            amended = with_proofs(amended, {key: each})
        decode_report(amended)
        kept: dict[str, Any] = amended["causes"][0]["proof"]
        return kept

    commit, later = (
        proof("commit", state=f"{each} Ada: tax") for each in ("3f2a91c", "55e0d21")
    )
    flaky, suspected = proof("flaky", failed=2), proof("order.polluted", "suspected")
    load = proof("axis.load", suspicions=["time_zone: fails 3 of 5"])
    both = {**load, "commit": "3f2a91c Ada: tax"}
    assert (
        after(load, commit) == after(commit, load) == after(flaky, commit, load) == both
    )
    assert after(load, commit, load) == after(load, commit, suspected) == both
    assert after(load, commit, flaky) == after(load, later, commit) == both
    assert (
        after(flaky, commit) == after(commit, flaky) == after(later, commit) == commit
    )
    assert after(suspected, flaky) == after(flaky, suspected) == flaky
    assert after(flaky, proof("reproducible")) == proof("reproducible")
    earlier = {
        name: held for name, held in load.items() if name != "commit"
    }  # of a first 1.2
    assert after(earlier, commit) == both
    assert [*words_of({**NO_PROOF, **earlier}, None)] == [*words_of(load, None)]
    undecided = proof("flaky", "undecided")
    assert after(suspected, undecided) == undecided
    release = proof("environment", state="httpx 0.28.1", without=passed(state="0.27.2"))
    with_commit = {**release, "commit": "3f2a91c Ada: tax"}
    assert after(commit, release) == after(release, commit) == with_commit
    assert after(flaky, release) == after(release, flaky) == release
    assert after(load, release) == after(release, load) == load


def test_one_cause_of_several() -> None:
    """A run is worth a retry only if all of its causes are."""
    other = make_failure(
        nodeid="b.py::t", location=Location(path="b.py", line=1), exception=None
    )
    report = make_report(make_run(failures=(make_failure(), other)))
    first, second = (cause["key"] for cause in report["causes"])
    once = with_proofs(report, {first: FLAKY})
    assert once["verdict"]["retryable"] is False
    assert with_proofs(once, {second: FLAKY})["verdict"]["retryable"] is True
    assert with_proofs(make_report(make_run()), {first: FLAKY})["verdict"] is None


def test_that_a_retry_of_some_tests_hides_it() -> None:
    """Where other tests leave something behind, the failed tests alone pass."""
    report = report_of_one()
    key = report["causes"][0]["key"]
    advice = summarise(decode_report(with_proofs(report, {key: POLLUTED}))).advice
    assert (
        advice
        == "a retry won't help; a retry of only the failed tests would pass and hide the cause"
    )
    suspected = {**POLLUTED, "status": "suspected"}
    assert (
        summarise(decode_report(with_proofs(report, {key: suspected}))).advice
        == "a retry won't help"
    )


def test_the_terminal() -> None:
    """One cause has a line for it, several have it behind their words, the list has all of it."""
    report = report_of_one()
    proven = with_proofs(report, {report["causes"][0]["key"]: POLLUTED})
    first, second = words_of(POLLUTED, VICTIM)
    lines = [line.text for line in verdict_lines(decode_report(proven), "r.json")]
    assert lines[2:4] == [first, second]
    assert len(lines) <= 7
    listed = [
        line.text.strip()
        for line in causes_with_tests(summarise(decode_report(proven)), AS_REPORTED)
    ]
    assert listed[1:] == [first, second, COMMAND, VICTIM]
    proven["causes"] *= 3
    assert verdict_lines(decode_report(proven), "r.json")[2].text.endswith(f"; {first}")


def test_what_is_made_of_a_report_keeps_it() -> None:
    """Reports that are merged, and one that is completed, have what was proven in any of them."""
    first, second = report_of_one(), report_of_one()
    key = first["causes"][0]["key"]
    first["run"]["shard"], second["run"]["shard"] = (
        {"index": n, "total": 2} for n in (1, 2)
    )
    second["run"]["id"] = "f" * 32
    flaky = {**FLAKY, "known_since": "2026-11-03T01:00:00Z"}
    for reports in (
        [with_proofs(first, {key: flaky}), with_proofs(second, {key: flaky})],
        [with_proofs(first, {key: flaky}), second],
        [first, with_proofs(second, {key: flaky})],
    ):
        merged = merge_reports(reports)
        assert merged["causes"][0]["proof"] == flaky
    end = ProcessExit(code=139, signal="SIGSEGV", observed=True, source="supervisor")
    ended = with_late_end(with_proofs(first, {key: flaky}), end)
    assert flaky in [cause["proof"] for cause in ended["causes"]]


@pytest.mark.parametrize("name", ["agent", *FORMATS])
def test_each_face_shows_it(name: str) -> None:
    """Whoever reads a cause reads what is proven of it, and what repeats it."""
    report = report_of_one()
    proven = with_proofs(report, {report["causes"][0]["key"]: POLLUTED})
    shown = (
        render_for_agents(decode_report(proven))
        if name == "agent"
        else render(name, decode_report(proven))
    )
    if name == "ctrf":  # its fields
        extra = json.loads(shown)["results"]["extra"]["pytest_failure_taxonomy"]
        assert extra["causes"][0]["proof"] == POLLUTED
        return
    assert "order-dependent, proven: passes alone (5 of 5), fails after" in shown
    has_lines = name not in ("gitlab", "teamcity")  # they have one line a cause
    assert (COMMAND in shown) == has_lines
    if name == "html":  # alone it passes
        assert f"Run it again: {COMMAND}" in re.sub("<.*?>", "", shown)
    if name == "agent":
        assert f"pytest {VICTIM}" not in shown
        assert (
            "  beware: a retry of only the failed tests would pass and hide the cause"
            in shown
        )
