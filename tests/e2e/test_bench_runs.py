"""`failure-taxonomy bench list`, `show`, `regrade` and `export` on kept runs."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.bench.kept import writer
from pytest_failure_taxonomy.bench.kept.reader import read_run
from pytest_failure_taxonomy.bench.kept.runs import report_of
from pytest_failure_taxonomy.bench.models import GateSettings
from pytest_failure_taxonomy.bench.scores import CaseOutcome
from pytest_failure_taxonomy.cli.main import main
from tests.helpers.children import child_environment
from tests.helpers.kept_runs import (
    RUN_ID,
    call_of,
    keep_run,
    outcome_of,
    score_of,
    write_files,
)
from tests.helpers.task_classes import ECHO_RUBRIC, task_class_files
from tests.helpers.waiting import wait_until

pytest.importorskip("scipy")

HOSTILE: Final = "\x1b[2J\x9b31m\u202eevil\r"
CHAT: Final = [
    {"role": "user", "content": "what is it?"},
    {"role": "assistant", "content": [{"type": "text", "text": "an echo"}], "calls": 1},
]
CASES: Final[list[dict[str, Any]]] = [
    {"id": "good", "input": 1},
    {"id": "bad", "input": "x"},
    {"id": "raised", "input": 2},
    {"id": "lost", "input": 3},
    {"id": "never", "input": 4},
    {"id": "long", "input": 5},
]
EASY: Final = ECHO_RUBRIC.replace(
    "output == case", "str(output)[:1] == str(case"
).replace('["input"]\n', '["input"])[:1]\n', 1)
"""A rubric that compares the first character."""


class Said(NamedTuple):
    """What a command has answered."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of stdout."""
        return self.out.splitlines()


Bench = Callable[..., Said]


@pytest.fixture
def bench(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    """Return the command, in a root directory without variables for colours."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = main(["bench", *words])
        return Said(code, *capsys.readouterr())

    return call


def outcomes() -> list[CaseOutcome]:
    """Return one outcome of each sort."""
    again = call_of(
        1, ended="RateLimitError: slow", kind="llm.rate_limited", cost_usd=0.1
    )
    return [
        outcome_of(
            "good",
            score_of(1.0, breakdown={"exactness": 1.0}),
            1,
            transcript=CHAT,
            printed="grading\n",
        ),
        outcome_of(
            "bad",
            score_of(0.25, "answer.wrong"),
            {"said": ["y", HOSTILE]},
            again,
            call_of(2, cost_usd=0.2, usage={"input_tokens": 12}),
        ),
        outcome_of(
            "raised",
            score_of(0.0, "sut.exception"),
            None,
            call_of(ended="ValueError: 1"),
        ),
        outcome_of("long", score_of(1.0), "x" * 300_000),
    ]


def keep_all(root: Path, **changes: Any) -> Path:
    """Keep a run with a case of each sort."""
    settings = "gate: {lower_bound_95: 0.5}\nconcurrency: 3\n"
    write_files(root, task_class_files(CASES, settings=settings))
    return keep_run(
        root,
        outcomes(),
        started=["lost"],
        stopped="the cost cap was reached",
        **changes,
    )


def keep_strings(root: Path, answers: Iterable[str], **changes: Any) -> Path:
    """Keep a run of as many cases, which all failed, and whose input begins with a."""
    given = list(answers)
    cases = [
        {"id": f"case-{number}", "input": f"a{number}"} for number in range(len(given))
    ]
    write_files(root, task_class_files(cases))
    return keep_run(
        root,
        [
            outcome_of(f"case-{number}", score_of(0.25, "answer.wrong"), answer)
            for number, answer in enumerate(given)
        ],
        **changes,
    )


def refusal(said: Said) -> str:
    """Return the one line of an error."""
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.startswith("failure-taxonomy: ")
    return line.removeprefix("failure-taxonomy: ")


# List and show.


def test_the_list_has_a_line_for_each_run(bench: Bench, tmp_path: Path) -> None:
    """The latest comes first, and a run that is not complete says why."""
    assert bench("list") == Said(
        0,
        "",
        "failure-taxonomy: there is no run in .bench; name a folder with --storage\n",
    )
    keep_all(tmp_path)
    keep_all(tmp_path, run_id="20261124T120000Z-ffffff-echo-01234567")
    said = bench("list")
    assert (said.code, said.err) == (0, "")
    heads, late, early = said.lines
    columns = (
        "  class  system        began                 passed   mean   cost  gate  state"
    )
    assert heads == "run".ljust(len(RUN_ID)) + columns
    assert late.split()[0] == "20261124T120000Z-ffffff-echo-01234567"
    assert early.split() == [
        *(
            RUN_ID,
            "echo",
            "app:answer",
            "7",
            "2026-11-23T12:00:00Z",
            "2/6",
            "0.400",
            "$0.30",
        ),
        *[
            "FAIL",
            "1",
            "lost,",
            "1",
            "not",
            "run,",
            "the",
            "cost",
            "cap",
            "was",
            "reached",
        ],
    ]
    rows = json.loads(bench("list", "--format", "json").out)
    assert [row["run_id"] for row in rows] == [late.split()[0], RUN_ID]
    assert rows[1]["missing"] == "1 lost, 1 not run, the cost cap was reached"


def test_the_list_goes_on_after_a_file_that_is_no_run(
    bench: Bench, tmp_path: Path
) -> None:
    """What can't be read is one line, and the exit code says so."""
    keep_all(tmp_path)
    (tmp_path / ".bench" / "zzz.jsonl").write_text("{}\n")
    said = bench("list")
    assert said.code == 2
    assert len(said.lines) == 2
    (line,) = said.err.splitlines()
    assert "zzz.jsonl" in line


def test_a_run_is_shown_with_its_summary_and_its_cases(
    bench: Bench, tmp_path: Path
) -> None:
    """It has what was run, the lines of pytest, a table, and names what has no score."""
    keep_all(tmp_path, settings={"rubric_env": ["ANTHROPIC_API_KEY"]})
    said = bench("show", "latest")
    assert (said.code, said.err) == (0, "")
    assert said.lines[:5] == [
        f"run:      {RUN_ID}",
        "class:    echo in bench/echo",
        "system:   app:answer 7",
        "began:    2026-11-23T12:00:00Z",
        "commit:   c0ffee",
    ]
    assert "secrets:  the rubric was given ANTHROPIC_API_KEY" in said.lines
    assert any(
        line.startswith("bench echo: 2 of 6 passed, 1 lost, 1 not run")
        for line in said.lines
    )
    table = [line.split() for line in said.lines[said.lines.index("lost: lost") - 7 :]]
    assert table[0] == ["case", "result", "score", "cost", "time", "calls", "codes"]
    assert table[2] == [
        "bad",
        "failed",
        "0.250",
        "$0.30",
        "250",
        "ms",
        "2",
        "answer.wrong",
    ]
    assert said.lines[-2:] == ["lost: lost", "not run: never"]
    shown = json.loads(bench("show", RUN_ID, "--format", "json").out)
    assert shown["run"]["run_id"] == RUN_ID
    assert shown["report"]["counts"]["passed"] == 2
    assert [case["state"] for case in shown["cases"]] == [
        *("passed", "failed", "failed", "lost", "not run", "passed")
    ]


def test_the_reducers_of_a_run_are_shown(bench: Bench, tmp_path: Path) -> None:
    """Those of its class with the options that it ran with, also after a new grading."""
    settings = "repeat: 2\nreducers: [pass@2, majority]\n"
    write_files(tmp_path, task_class_files(CASES[:1], settings=settings))
    ends = [outcome_of(f"good#{number}", score_of(1.0), 1) for number in (1, 2)]
    keep_run(tmp_path, ends)
    told = "  pass@2: 1.000; no lower bound: fewer than 5 cases"
    assert told in bench("show", "latest").lines
    assert told in bench("regrade", "latest").lines
    settings_of_another_version = {
        "reducers": ["pass@2", "pass@0", "x", 5],
        "colour": 1,
    }
    keep_run(tmp_path, ends, settings=settings_of_another_version)
    said = bench("show", RUN_ID)
    assert (said.code, said.err) == (0, "")
    assert told in said.lines


def test_a_case_is_shown_whole(bench: Bench, tmp_path: Path) -> None:
    """It has calls, score, what the codes mean, and the output; nothing moves the cursor."""
    keep_all(tmp_path)
    said = bench("show", RUN_ID[:9], "--case", "bad")
    assert (said.code, said.err) == (0, "")
    assert said.lines[:7] == [
        "case bad of echo: failed",
        (
            "  call 1: no output: RateLimitError: slow [llm.rate_limited]"
            " (2026-11-23 12:00:00Z, 250 ms, $0.10)"
        ),
        "  call 2: gave an output (2026-11-23 12:00:00Z, 250 ms, $0.20, input_tokens 12)",
        "  score 0.250, 250 ms, $0.30",
        "  block answer.wrong",
        "        the answer is not the input",
        "output",
    ]
    assert said.lines[7:10] == ["  {", '    "said": [', '      "y",']
    assert not set("\x1b\x9b\u202e\r") & set(said.out)
    shown = json.loads(bench("show", "latest", "--case", "bad", "--format", "json").out)
    assert shown["state"] == "failed"
    assert shown["attempts"][1]["output"] == {"said": ["y", HOSTILE]}


def test_a_transcript_is_shown_as_a_conversation(bench: Bench, tmp_path: Path) -> None:
    """Messages have their role above them; other parts and other JSON are shown as JSON."""
    keep_all(tmp_path)
    lines = bench("show", "latest", "--case", "good").lines
    assert lines[lines.index("transcript") :] == [
        "transcript",
        "  user:",
        "    what is it?",
        "  assistant:",
        "    an echo",
        "    {",
        '      "calls": 1',
        "    }",
        "the rubric printed",
        "  grading",
    ]


def test_what_is_not_kept_is_told(bench: Bench, tmp_path: Path) -> None:
    """A long output, a removed secret, a case without a score: each is said."""
    path = keep_all(tmp_path)
    assert (
        "  output: was too long to save"
        in bench("show", "latest", "--case", "long").lines
    )
    assert bench("show", "latest", "--case", "lost").lines == [
        "case lost of echo: lost",
        "  a call was started, and its result is not known",
    ]
    assert bench("show", "latest", "--case", "never").lines == [
        "case never of echo: not run"
    ]
    path.unlink()
    keep_all(tmp_path, redact=lambda given: "***" if given == 1 else given)
    lines = bench("show", "latest", "--case", "good").lines
    assert "  secrets were removed from what is shown below" in lines
    assert lines[lines.index("output") + 1] == "  ***"


def test_colours_are_for_those_who_see_them(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR and FORCE_COLOR decide, as for other commands."""
    keep_all(tmp_path)
    assert "\x1b" not in bench("show", "latest").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert (
        "\x1b[1;31mcase bad of echo: failed\x1b[0m"
        in bench("show", "latest", "--case", "bad").out
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in bench("show", "latest").out


def test_a_torn_line_is_skipped_and_told(bench: Bench, tmp_path: Path) -> None:
    """Everything else of the run is shown."""
    path = keep_all(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"record":"attempt","case_id":"nev')
    said = bench("show", "latest")
    assert said.code == 0
    (line,) = said.err.splitlines()
    assert line.endswith("the line is cut off and was skipped")
    assert len(said.lines) > 10


# What can't be used.

DEEP: Final = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("command", ["show", "regrade", "export"])
@pytest.mark.parametrize(
    ("named", "content", "words"),
    [
        (
            "nothing",
            None,
            "nothing: there is no such run in .bench; the latest are 2026",
        ),
        ("2026", None, "2026: 2 runs begin like this; name one, such as 2026"),
        ("n" * 400, None, "there is no such run in .bench"),
        (f"{HOSTILE}\0", None, "there is no such run in .bench"),
        ("bench", None, "bench: there is no such run"),
        ("f.jsonl", "", "f.jsonl: holds no run; name a file that pytest wrote"),
        ("f.jsonl", "no run\n", "f.jsonl: holds no run"),
        ("f.jsonl", "DEEP\n", "f.jsonl: holds no run"),
        (
            "f.jsonl",
            '{"record":"run"}\n',
            "f.jsonl: its first line does not describe a run",
        ),
        (
            "f.jsonl",
            '{"record":"run","schema_version":2}\n',
            "f.jsonl: has schema version 2, and this program reads up to 1; read it with a newer",
        ),
        (
            "f.jsonl",
            '{"record":"cases","cases":[]}\n',
            "its first line does not describe a run",
        ),
    ],
)
def test_what_is_no_run_is_one_line(
    bench: Bench,
    tmp_path: Path,
    command: str,
    named: str,
    content: str | None,
    words: str,
) -> None:
    """The line says what would be right, and nothing is written."""
    keep_all(tmp_path)
    keep_all(tmp_path, run_id="20261124T120000Z-ffffff-echo-01234567")
    if content is not None:
        (tmp_path / "f.jsonl").write_text(content.replace("DEEP", DEEP))
    options = ["--to", "csv"] if command == "export" else []
    line = refusal(bench(command, named, *options))
    assert words in line
    assert line.isprintable()
    assert len(list((tmp_path / ".bench").iterdir())) == 2


def test_an_unknown_case_is_one_line_with_near_ones(
    bench: Bench, tmp_path: Path
) -> None:
    """The ids that are near are named, or else some that there are."""
    path = keep_all(tmp_path).relative_to(tmp_path)
    line = refusal(bench("show", "latest", "--case", "goood"))
    assert line == f"--case: {path} has no case 'goood'; near it are good"
    line = refusal(bench("show", "latest", "--case", HOSTILE))
    assert line.endswith("; near it are good, bad, raised")
    assert line.isprintable()


def test_a_case_that_was_repeated_is_named_with_its_number(
    bench: Bench, tmp_path: Path
) -> None:
    """Its bare id leads to the ids of its repetitions."""
    write_files(
        tmp_path, task_class_files([{"id": "a", "input": 1}], settings="repeat: 2")
    )
    keep_run(tmp_path, [outcome_of(each, score_of(1.0), 1) for each in ("a#1", "a#2")])
    line = refusal(bench("show", "latest", "--case", "a"))
    assert line.endswith(" has no case 'a'; it was repeated, so name a#1 or a#2")


def test_a_storage_is_a_folder(bench: Bench, tmp_path: Path) -> None:
    """A file of a run is not listed, it is shown."""
    path = keep_all(tmp_path)
    line = refusal(bench("list", "--storage", str(path)))
    assert line.startswith("--storage: ")
    assert line.endswith(
        f" is a file; name a folder, or show the run by bench show {path}"
    )


@pytest.mark.parametrize("content", ["", "garbage\n"])
def test_a_file_that_holds_no_run_is_not_the_latest(
    bench: Bench, tmp_path: Path, content: str
) -> None:
    """It may be foreign, or of a pytest that was killed at once."""
    path = keep_all(tmp_path)
    path.with_name("20991123T120000Z-0a1b2c-echo-01234567.jsonl").write_text(content)
    assert path.name in bench("show", "latest").out


def test_there_is_no_storage(bench: Bench) -> None:
    """The line says how to name one."""
    line = refusal(bench("show", "latest"))
    assert line == "latest: there is no run in .bench; name a file, or a --storage"


# Grade again.


def test_a_new_rubric_grades_kept_outputs(bench: Bench, tmp_path: Path) -> None:
    """The flips are named, the run is kept as a new one, and no system is called."""
    path = keep_strings(tmp_path, ["a0", "ax", "zz"])
    before = path.read_bytes()
    (tmp_path / "bench" / "echo" / "rubric.py").write_text(EASY)
    said = bench("regrade", "latest")
    assert (said.code, said.err) == (0, "")
    assert said.lines[0] == f"regraded 3 cases of {RUN_ID}"
    assert said.lines[1].startswith("bench echo: 2 of 3 passed; mean 0.667 ± 0.333")
    assert "  now pass (2): case-0, case-1" in said.lines
    new = tmp_path / said.lines[-1].removeprefix("  kept as ")
    run, old = read_run(new), read_run(path)
    assert run.header.regraded_from == RUN_ID
    assert run.header.run_id == new.stem != RUN_ID
    assert new.stem.endswith("-echo-01234567")
    assert run.header.system == old.header.system
    assert run.header.digests.rubric != old.header.digests.rubric
    assert run.header.digests.taxonomy == old.header.digests.taxonomy
    assert {key: score.passed for key, score in run.scores().items()} == {
        "case-0": True,
        "case-1": True,
        "case-2": False,
    }
    assert [case.calls[-1].output for case in run.cases.values()] == ["a0", "ax", "zz"]
    assert path.read_bytes() == before
    assert not (tmp_path / "calls.txt").exists()
    assert bench("list").lines[1].split()[0] == new.stem
    assert (
        f"regraded: the outputs of {RUN_ID}; the system was not called"
        in bench("show", "latest").lines
    )


def test_what_can_not_be_graded_is_told(bench: Bench, tmp_path: Path) -> None:
    """A system's failure keeps its score; what is lost or was cut makes the run incomplete."""
    path = keep_all(tmp_path)
    said = bench("regrade", "latest")
    assert said.code == 1
    assert said.lines[:5] == [
        f"regraded 2 cases of {RUN_ID}",
        "  keep their scores, because the system gave no output: raised",
        "  lost, because their outputs were too long to save: long",
        "  lost, as before: lost",
        "  not run, as before: never",
    ]
    old, new = (
        read_run(path),
        read_run(tmp_path / said.lines[-1].removeprefix("  kept as ")),
    )
    report = report_of(new)
    assert report.counts.model_dump() == {
        "scheduled": 6,
        "started": 5,
        "graded": 3,
        "lost": 2,
        "passed": 1,
        "not_run": 1,
    }
    assert report.stopped == "the cost cap was reached"
    assert new.scores()["raised"] == old.scores()["raised"]
    assert [call.cost_usd for call in new.known["bad"].calls] == [0.1, 0.2]
    assert new.known["bad"].cost_usd == pytest.approx(0.3)
    assert new.known["good"].calls[-1].transcript == CHAT


def test_a_changed_case_is_left_out_unless_asked_for(
    bench: Bench, tmp_path: Path
) -> None:
    """Its output may answer another question, so it counts as lost; --changed grades it."""
    path = keep_strings(tmp_path, ["a0", "a1"])
    (tmp_path / "bench" / "echo" / "cases" / "a.jsonl").write_text(
        '{"id": "case-0", "input": "b"}\n{"id": "case-1", "input": "a1"}\n'
    )
    said = bench("regrade", str(path))
    assert said.code == 1
    assert said.lines[1] == (
        "  lost, because the cases have changed since (--changed grades them as they are now):"
        " case-0"
    )
    assert "  now pass (1): case-1" in said.lines
    said = bench("regrade", "--changed", str(path))
    assert said.code == 0
    assert said.lines[1] == "  graded by cases that have changed since: case-0"
    assert said.lines[2].startswith("bench echo: 1 of 2 passed")


def test_cases_come_and_go(bench: Bench, tmp_path: Path) -> None:
    """A removed case is no part of the new run, and a new one is told; a gate then needs it."""
    path = keep_strings(tmp_path, ["a0", "a1"], gate=GateSettings(lower_bound_95=0.1))
    folder = tmp_path / "bench" / "echo"
    (folder / "cases" / "a.jsonl").write_text(
        '{"id": "case-0", "input": "a0"}\n{"id": "new", "input": 1}\n{"id": "newer", "input": 1}\n'
    )
    (folder / "bench.yaml").write_text("gate: {lower_bound_95: 0.1}\n")
    said = bench("regrade", str(path))
    assert said.lines[1:3] == [
        "  omitted, because they are no longer in the class: case-1",
        "  in the class, but not in the run: new, newer",
    ]
    assert any("gate: INCOMPLETE: not all cases of the" in line for line in said.lines)


@pytest.mark.parametrize("isolation", ["warm", "fresh"])
def test_a_rubric_that_fails_is_a_score(
    bench: Bench, tmp_path: Path, isolation: str
) -> None:
    """The failure paths are those of pytest's runs."""
    path = keep_strings(tmp_path, ["raise", "key", "code", "shape", "hang"])
    folder = tmp_path / "bench" / "echo"
    (folder / "bench.yaml").write_text(
        f"rubric_isolation: {isolation}\nrubric_wall_clock_seconds: 3\n"
    )
    (folder / "rubric.py").write_text(
        "import time\n"
        "def grade(case, output):\n"
        "    if output == 'raise': raise ValueError(output)\n"
        "    if output == 'hang': time.sleep(60)\n"
        "    if output == 'shape': return 1\n"
        "    modes = [{'code': 'x.y'}] if output == 'code' else []\n"
        "    keys = {'other': 1.0} if output == 'key' else {}\n"
        "    return {'passed': True, 'score': 1.0, 'breakdown': keys, 'failure_modes': modes}\n"
    )
    said = bench("regrade", str(path))
    assert said.code == 0
    new = read_run(tmp_path / said.lines[-1].removeprefix("  kept as "))
    found = {key: score.failure_modes[0].code for key, score in new.scores().items()}
    assert found == {
        "case-0": "rubric.malformed_output",
        "case-1": "rubric.unknown_breakdown_key",
        "case-2": "rubric.unknown_failure_mode",
        "case-3": "rubric.malformed_output",
        "case-4": "rubric.timeout",
    }


@pytest.mark.posix("Ctrl+C is a signal there")
def test_a_user_may_interrupt_it(tmp_path: Path) -> None:
    """One line says where what was graded is, and no rubric goes on."""
    keep_strings(tmp_path, ["fast", "slow"])
    (tmp_path / "bench" / "echo" / "bench.yaml").write_text("concurrency: 1\n")
    (tmp_path / "bench" / "echo" / "rubric.py").write_text(
        "import os, time\n"
        "def grade(case, output):\n"
        f"    if output == 'slow':\n"
        f"        open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(60)\n"
        "    return {'passed': True, 'score': 1.0, 'breakdown': {}}\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "pytest_failure_taxonomy", "bench", "regrade", "latest"],
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pid_of_rubric = int(wait_until(lambda: _content(tmp_path / "pid"), "the slow case"))
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, "")
    (line,) = err.splitlines()
    said = "failure-taxonomy: interrupted; what was graded is in "
    assert line.startswith(said)
    run = read_run(tmp_path / line.removeprefix(said))
    assert list(run.scores()) == ["case-0"]
    wait_until(lambda: not is_alive(pid_of_rubric), "the end of the rubric")


def _content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def is_alive(pid: int) -> bool:
    """Return whether there is a process with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_regraded_secrets_stay_out(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the rubric prints is redacted; outputs that were redacted before are told."""
    secret = "sk-" + "a1B2c3D4e5F6" * 3
    monkeypatch.setenv("PAYMENT_API_KEY", secret)
    path = keep_strings(
        tmp_path,
        ["a0", "a1"],
        redact=lambda given: "[REDACTED]" if given == "a1" else given,
    )
    (tmp_path / "bench" / "echo" / "rubric.py").write_text(
        f"def grade(case, output):\n"
        f"    print('PAYMENT_API_KEY={secret}')\n"
        f"    return {{'passed': True, 'score': 1.0, 'breakdown': {{}}}}\n"
    )
    said = bench("regrade", str(path))
    assert (
        "  graded without the secrets that were in their outputs: case-1" in said.lines
    )
    new = tmp_path / said.lines[-1].removeprefix("  kept as ")
    assert secret not in new.read_text()
    run = read_run(new)
    assert {key: case.calls[-1].is_redacted for key, case in run.known.items()} == {
        "case-0": False,
        "case-1": True,
    }


def test_the_gate_of_today_decides_about_a_regraded_run(
    bench: Bench, tmp_path: Path
) -> None:
    """A gate that fails is exit code 1."""
    path = keep_strings(tmp_path, ["a0"])
    settings = tmp_path / "bench" / "echo" / "bench.yaml"
    settings.write_text("gate: {min_passed_cases: 2}\n")
    said = bench("regrade", str(path))
    assert said.code == 1
    assert "  gate: FAIL: 1 case passed; at least 2 are needed" in said.lines
    settings.unlink()
    assert bench("regrade", str(path)).code == 0


def test_the_class_is_found_or_named(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found from elsewhere, too; where it is gone, the line says how to name it."""
    path = keep_strings(tmp_path, ["a0"])
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert bench("regrade", "--storage", "../.bench", RUN_ID).code == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench").rename(tmp_path / "moved")
    assert refusal(bench("regrade", RUN_ID)) == (
        f".bench/{RUN_ID}.jsonl: its task class was in bench/echo, which is gone now;"
        " name its folder with --task-class"
    )
    assert bench("regrade", RUN_ID, "--task-class", "moved/echo").code == 0
    assert refusal(bench("regrade", RUN_ID, "--task-class", "moved")) == (
        "--task-class: moved is no task class; name a folder with a failure_modes.yaml"
    )
    (tmp_path / "moved" / "echo" / "rubric.py").unlink()
    assert "rubric.py" in refusal(
        bench("regrade", str(path), "--task-class", "moved/echo")
    )


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_file_can_not_name_a_rubric_elsewhere(
    bench: Bench, tmp_path: Path, *, is_absolute: bool
) -> None:
    """Only the user can: the code of a rubric runs. What a case's codes mean is left out."""
    elsewhere = tmp_path.parent / "elsewhere"
    write_files(elsewhere, task_class_files(CASES, folder="echo"))
    named = str(elsewhere / "echo") if is_absolute else "../elsewhere/echo"
    keep_strings(tmp_path, ["a0"], folder_named=named)
    line = refusal(bench("regrade", "latest"))
    assert line.endswith(
        ", outside of the root directory; name its folder with --task-class"
    )
    said = bench("show", "latest", "--case", "case-0")
    assert said.code == 0
    assert "the answer is not the input" not in said.out


def test_limits_hold_for_what_the_rubric_does_now(bench: Bench, tmp_path: Path) -> None:
    """A cap counts what the rubric costs, and a rubric that fails always is not asked again."""
    path = keep_strings(tmp_path, ["x"] * 14)
    folder = tmp_path / "bench" / "echo"
    answer = "{'passed': True, 'score': 1.0, 'breakdown': {}, 'cost_usd': 0.5}"
    (folder / "rubric.py").write_text(
        f"def grade(case, output):\n    return {answer}\n"
    )
    (folder / "bench.yaml").write_text("concurrency: 1\nmax_cost_usd: 1.2\n")
    said = bench("regrade", str(path))
    assert said.code == 1
    new = read_run(tmp_path / said.lines[-1].removeprefix("  kept as "))
    assert new.stopped == "the cost cap was reached ($1.20)"
    assert len(new.scores()) in (2, 3)
    (folder / "rubric.py").write_text(
        "def grade(case, output):\n    raise ValueError(1)\n"
    )
    (folder / "bench.yaml").write_text("concurrency: 1\n")
    said = bench("regrade", str(path))
    assert said.code == 1
    new = read_run(tmp_path / said.lines[-1].removeprefix("  kept as "))
    assert new.stopped == "10 cases in a row failed with the same cause"
    assert len(new.scores()) == 10


def test_a_run_without_outputs_is_refused(bench: Bench, tmp_path: Path) -> None:
    """The line says why none of its cases can be graded."""
    write_files(tmp_path, task_class_files(CASES))
    keep_run(tmp_path, outcomes()[2:3], started=["lost"])
    assert refusal(bench("regrade", "latest")) == (
        f".bench/{RUN_ID}.jsonl: has no output to grade again (1 without an output, 1 lost,"
        " 4 not run); run the cases again"
    )
    assert len(list((tmp_path / ".bench").iterdir())) == 1


def test_a_storage_that_can_not_be_written_is_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is graded."""
    keep_strings(tmp_path, ["a0"])

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer, "create_file", refuse)
    line = refusal(bench("regrade", "latest"))
    assert (
        "can't be written (No space left on device); copy the run to a folder" in line
    )
    assert len(list((tmp_path / ".bench").iterdir())) == 1


# Export.

COLUMNS: Final = (
    *("run_id", "task_class", "system", "system_version", "system_label", "case_id"),
    *(
        "repetition",
        "tags",
        "is_last",
        "result",
        "attempt",
        "started_at",
        "seconds",
        "worker",
    ),
    *(
        "cost_usd",
        "usage",
        "ended",
        "kind",
        "fingerprint",
        "passed",
        "score",
        "breakdown",
    ),
    *(
        "failure_modes",
        "case_cost_usd",
        "rubric_cost_usd",
        "wall_clock_ms",
        "has_output",
    ),
    *("output", "transcript", "printed", "truncated", "is_redacted"),
)


def test_a_run_is_exported_one_row_for_each_call(bench: Bench, tmp_path: Path) -> None:
    """CSV and JSON have the same rows and columns; nested values are JSON in CSV."""
    keep_all(tmp_path)
    as_json = json.loads(bench("export", "latest", "--to", "json").out)
    as_csv = list(
        csv.DictReader(io.StringIO(bench("export", "latest", "--to", "csv").out))
    )
    for rows in (as_json, as_csv):
        assert {tuple(row) for row in rows} == {COLUMNS}
        assert [(row["case_id"], row["result"]) for row in rows] == [
            ("good", "passed"),
            ("bad", "repeated"),
            ("bad", "failed"),
            ("raised", "failed"),
            ("lost", "lost"),
            ("never", "not run"),
            ("long", "passed"),
        ]
    for name in ("output", "transcript", "usage", "failure_modes"):
        assert json.loads(as_csv[2][name] or "null") == as_json[2][name]
    assert as_json[2]["output"] == {"said": ["y", HOSTILE]}
    assert [row["has_output"] for row in as_csv] == [
        *("true", "false", "true", "false", "false", "false", "false")
    ]
    assert sum(float(row["cost_usd"] or 0) for row in as_csv) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "output", ["=1+1", -5, None, "a\r\nb", "\ud800", [["=x"]], True, 1.5]
)
def test_an_exported_output_reads_back(
    bench: Bench, tmp_path: Path, output: Any
) -> None:
    """Its cell is JSON, which no spreadsheet takes for a formula."""
    write_files(tmp_path, task_class_files([{"id": "c", "input": 1}]))
    keep_run(tmp_path, [outcome_of("c", score_of(1.0), output)])
    out = tmp_path / "out.csv"
    assert bench("export", "latest", "--to", "csv", "-o", str(out)) == Said(0, "", "")
    with out.open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["output"]) == output
    assert row["output"][:1] not in ("=", "+", "@", "\t", "\r")


def test_texts_that_begin_a_formula_are_quoted(bench: Bench, tmp_path: Path) -> None:
    """A quotation mark stands before them, in CSV alone."""
    write_files(tmp_path, task_class_files([{"id": "=cmd()", "input": 1}]))
    keep_run(tmp_path, [outcome_of("=cmd()", score_of(1.0), 1, printed="@x")])
    (row,) = csv.DictReader(io.StringIO(bench("export", "latest", "--to", "csv").out))
    assert (row["case_id"], row["printed"]) == ("'=cmd()", "'@x")
    (row,) = json.loads(bench("export", "latest", "--to", "json").out)
    assert (row["case_id"], row["printed"]) == ("=cmd()", "@x")


def test_an_export_that_can_not_be_written_is_one_line(
    bench: Bench, tmp_path: Path
) -> None:
    """The line names the path."""
    keep_all(tmp_path)
    line = refusal(
        bench("export", "latest", "--to", "csv", "-o", "bench/echo/rubric.py/x.csv")
    )
    assert line.startswith("-o: ")
    assert "x.csv" in line
