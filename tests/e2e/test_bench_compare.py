"""`failure-taxonomy bench compare`, as a shell uses it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.kept.lines import SystemGiven
from pytest_failure_taxonomy.bench.kept.reader import read_run
from pytest_failure_taxonomy.bench.kept.runs import report_of
from pytest_failure_taxonomy.bench.models import BenchRunReport, BenchScore
from tests.helpers.bench_scores import make_run, make_score
from tests.helpers.children import ChildRun, run_child
from tests.helpers.kept_runs import keep_run, outcome_of, score_of, write_files
from tests.helpers.task_classes import task_class_files

pytest.importorskip("scipy")

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy", "bench", "compare")


def compare(
    folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> ChildRun:
    """Run the command on `old.json` and `new.json`."""
    return run_child(folder, [*CLI, *arguments, "old.json", "new.json"], env=env or {})


def write(folder: Path, name: str, *reports: BenchRunReport) -> None:
    """Write what `--bench-json` writes."""
    models = [each.model_dump(mode="json") for each in reports]
    (folder / name).write_text(json.dumps(models), encoding="utf-8")


def write_both(
    folder: Path, old: Sequence[BenchScore], new: Sequence[BenchScore]
) -> None:
    """Write two runs of one class."""
    write(folder, "old.json", make_run(old))
    write(folder, "new.json", make_run(new))


def passing(*failed: int, count: int = 12, **more: Any) -> list[BenchScore]:
    """Return scores of cases that pass, but for some."""
    return [
        make_score(0.0 if index in failed else 1.0, **more) for index in range(count)
    ]


def test_several_classes_are_judged_together(tmp_path: Path) -> None:
    """An interval beyond 0 may be chance where there are several; the line says so."""
    mail = {"task_class": "mail"}
    old = make_run(passing())
    new = make_run(passing(*range(6)))
    write(tmp_path, "old.json", old, old.model_copy(update=mail))
    write(tmp_path, "new.json", new, old.model_copy(update=mail))
    run = compare(tmp_path)
    assert run.status == 0
    words = "of so many comparisons, one can look like this by chance"
    assert (
        f"  undecided: {words} (Holm's p = 0.062 for 2 comparisons)"
        in run.stdout.splitlines()
    )


def test_flips_difference_cost_and_time(tmp_path: Path) -> None:
    """A page says what changed, by how much, and what that proves."""
    write_both(
        tmp_path,
        passing(0, cost_usd=0.01, system_ms=100, wall_clock_ms=400),
        [
            *passing(2, 5, cost_usd=0.02, system_ms=300)[:-1],
            make_score(0.75, system_ms=0),
        ],
    )
    run = compare(tmp_path)
    assert (run.status, run.stderr) == (0, "")
    by = "-0.104 (95 % between -0.460 and +0.285, n=12)"
    assert run.stdout.splitlines() == [
        f"bench vuln: 12 cases, mean 0.917 -> 0.812, changed by {by}",
        "  undecided: these cases don't prove a difference",
        "  no longer pass (2): c002, c005",
        "  now pass (1): c000",
        "  other changes (1): c011 1.000 -> 0.750",
        "  McNemar's exact test: p = 1",
        "  cost: $0.12 -> $0.22",
        "  time of a case: 100 ms -> 275 ms",
        "  not checked to be the same: taxonomy, rubric, cases",
    ]


def test_flips_of_clusters(tmp_path: Path) -> None:
    """Cases that are alike flip once: six of them prove no more than one."""
    clusters = {"clusters": {f"c{number:03}": str(number // 6) for number in range(36)}}
    old, new = make_run(passing(count=36)), make_run(passing(*range(6), count=36))
    write(tmp_path, "old.json", old.model_copy(update=clusters))
    write(tmp_path, "new.json", new.model_copy(update=clusters))
    lines = compare(tmp_path).stdout.splitlines()
    assert "  no longer pass (6): c000, c001, c002, c003, c004, c005" in lines
    assert "  McNemar's exact test: p = 1 (a cluster counts as one flip)" in lines


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_worse_beyond_doubt_is_exit_code_1(tmp_path: Path, form: str) -> None:
    """The exit code is that of an answer that says `failed`, in every format."""
    write_both(tmp_path, passing(), passing(*range(6)))
    run = compare(tmp_path, "--format", form)
    assert (run.status, run.stderr) == (1, "")
    assert "worse" in run.stdout
    write_both(tmp_path, passing(*range(6)), passing())
    assert compare(tmp_path, "--format", form).status == 0


def test_json_holds_all_of_it(tmp_path: Path) -> None:
    """A list with one comparison for each class, as the report has it for a baseline."""
    write_both(tmp_path, passing(), passing(*range(6)))
    (found,) = json.loads(compare(tmp_path, "--format", "json").stdout)
    assert found["finding"] == "worse"
    assert found["mcnemar_p"] == 0.03125
    assert [each["case_id"] for each in found["changes"]] == [
        f"c00{n}" for n in range(6)
    ]
    assert found["interval_95"]["high"] < 0


def test_markdown_is_a_table_and_lists(tmp_path: Path) -> None:
    """It can stand in a comment on a pull request."""
    write_both(tmp_path, passing(), passing(3))
    lines = compare(tmp_path, "--format", "markdown").stdout.splitlines()
    assert (
        lines[0]
        == "| task class | cases | mean | difference | 95 % interval | finding |"
    )
    assert re.fullmatch(
        r"\| vuln \| 12 \| 1.000 -&gt; 0.917 \| \\-0.083 \| \\-0.\d+ to \+0.\d+ \| undecided \|",
        lines[2],
    )
    assert "- no longer pass (1): c003" in lines


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    """A pipe gets none; NO_COLOR wins over FORCE_COLOR."""
    write_both(tmp_path, passing(), passing(*range(6)))
    assert "\x1b" not in compare(tmp_path).stdout
    colored = compare(tmp_path, env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[1;31m  worse: the whole interval is below 0\x1b[0m" in colored
    assert (
        "\x1b"
        not in compare(tmp_path, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    )


def test_what_must_not_be_compared_is_exit_code_2(tmp_path: Path) -> None:
    """One line on stderr says where, why, and what would be right."""
    write_both(tmp_path, passing(), passing(count=13))
    run = compare(tmp_path)
    assert (run.status, run.stdout) == (2, "")
    assert run.stderr == (
        "failure-taxonomy: new.json: vuln: has the case c012 that old.json lacks; "
        "--only-common compares the cases that both have\n"
    )
    run = compare(tmp_path, "--only-common")
    assert run.status == 0
    assert "  only in the newer run (1): c012" in run.stdout.splitlines()
    (tmp_path / "new.json").unlink()
    run = compare(tmp_path)
    assert (run.status, run.stdout) == (2, "")
    assert run.stderr.startswith(
        "failure-taxonomy: new.json: there is no such file; give a kept"
    )
    assert run.stderr.count("\n") == 1


def test_a_class_of_one_file_is_told(tmp_path: Path) -> None:
    """A class that has gone, or is new, is not passed over in silence."""
    mail = make_run(passing()).model_copy(update={"task_class": "mail"})
    write(tmp_path, "old.json", make_run(passing()), mail)
    write(tmp_path, "new.json", make_run(passing(), run_id="new"))
    run = compare(tmp_path)
    assert run.status == 0
    assert run.stderr == (
        "failure-taxonomy: old.json: mail was not compared; the other file has no run of it\n"
    )


def test_names_that_a_terminal_or_a_page_would_take_for_code_are_escaped(
    tmp_path: Path,
) -> None:
    """A case's id may hold anything; a made-up file can't change the terminal or the page."""
    report = make_run(passing(0)).model_dump(mode="json")
    report["per_case"][0][0] = "\x1b[31m<b>|c"
    old = json.loads(json.dumps(report))
    old["per_case"][0][1] |= {"passed": True, "score": 1.0}
    for name, content in (("old.json", old), ("new.json", report)):
        (tmp_path / name).write_text(json.dumps([content]), encoding="utf-8")
    assert "\x1b" not in compare(tmp_path).stdout
    page = compare(tmp_path, "--format", "markdown").stdout
    assert "&lt;b&gt;&#124;c" in page
    assert "\x1b" not in page
    report["per_case"][0][0] = "\x1b[32mother"
    (tmp_path / "new.json").write_text(json.dumps([report]), encoding="utf-8")
    refused = compare(tmp_path)
    assert refused.status == 2
    assert "\x1b" not in refused.stderr
    assert "\\x1b[32mother" in refused.stderr


def keep(root: Path, hour: int, name: str, failing: int = 0, **changes: Any) -> str:
    """Keep a run of a class of six cases, of which the first ones fail, and return its id."""
    cases = [{"id": f"case-{number}", "input": number} for number in range(6)]
    if not (root / "bench").exists():
        write_files(root, task_class_files(cases, system=""))
    run_id = f"20261123T{hour:02}0000Z-0a1b2c-{name}"
    outcomes = [
        outcome_of(f"case-{number}", score_of(0.0 if number < failing else 1.0))
        for number in range(6)
    ]
    keep_run(root, outcomes, run_id=run_id, **changes)
    return run_id


def compare_kept(folder: Path, *arguments: str) -> ChildRun:
    """Run the command on runs that are kept in the default folder."""
    return run_child(folder, [*CLI, *arguments], env={})


def system(label: str) -> dict[str, SystemGiven]:
    """Return the field of a run's first line that says which of several systems it is of."""
    return {"system": SystemGiven(name="app:answer", label=label)}


def test_kept_runs_are_named_as_in_other_commands(tmp_path: Path) -> None:
    """By id, beginning, `latest` and path; the cases are known to be the same."""
    old, new = keep(tmp_path, 10, "echo-1", 6), keep(tmp_path, 11, "echo-1")
    expected = compare_kept(tmp_path, old, new)
    assert (expected.status, expected.stderr) == (0, "")
    assert expected.stdout.startswith(
        "bench echo: 6 cases, mean 0.000 -> 1.000, changed by +1.000"
    )
    assert "not checked" not in expected.stdout
    for names in (("20261123T10", "latest"), (f".bench/{old}.jsonl", "20261123T11")):
        assert compare_kept(tmp_path, *names).stdout == expected.stdout
    assert compare_kept(tmp_path, "latest", old).status == 1
    (tmp_path / ".bench").rename(tmp_path / "kept")
    assert compare_kept(tmp_path, "--storage=kept", old, new).stdout == expected.stdout


def test_changed_cases_are_refused_in_files_of_every_kind(tmp_path: Path) -> None:
    """Kept runs tell which case it is; a report has one digest of all, which suffices to know."""
    old = keep(tmp_path, 10, "echo-1")
    (path,) = (tmp_path / "bench/echo/cases").iterdir()
    text = path.read_text("utf-8")
    assert text.count(": 3") == 1
    path.write_text(text.replace(": 3", ": 33"), encoding="utf-8")
    new = keep(tmp_path, 11, "echo-1")
    for name in (old, new):
        kept = read_run(tmp_path / f".bench/{name}.jsonl")
        write(tmp_path, f"{name}.json", report_of(kept))
    for older, newer, what in (
        (old, new, "the case case-3 was changed since"),
        (f"{old}.json", f"{new}.json", "cases were changed since"),
        (old, f"{new}.json", "cases were changed since"),
        (f"{old}.json", new, "cases were changed since"),
    ):
        run = compare_kept(tmp_path, older, newer)
        assert (run.status, run.stdout, run.stderr.count("\n")) == (2, "", 1)
        assert f": echo: {what}" in run.stderr
        assert run.stderr.endswith("; run both with the same cases\n")
    same = compare_kept(tmp_path, f"{old}.json", old)
    told = f"failure-taxonomy: echo: the run {old} is compared with itself\n"
    assert (same.status, same.stderr) == (0, told)
    assert "not checked" not in same.stdout


def test_the_systems_of_one_run_are_paired_by_their_labels(tmp_path: Path) -> None:
    """A pytest run's beginning stands for all that it has kept; what has no partner is told."""
    for label, failing in (("large", 0), ("small", 2)):
        keep(tmp_path, 10, f"echo-{label}", failing, **system(label))
    for label, failing in (("large", 1), ("small", 2), ("tiny", 3)):
        keep(tmp_path, 11, f"echo-{label}", failing, **system(label))
    run = compare_kept(tmp_path, "20261123T10", "latest")
    heads = [line for line in run.stdout.splitlines() if line.startswith("bench ")]
    assert [head.partition(":")[0] for head in heads] == [
        "bench echo[large]",
        "bench echo[small]",
    ]
    assert "echo[tiny] was not compared; the other file has no run of it" in run.stderr


def test_two_systems_are_compared_with_each_other(tmp_path: Path) -> None:
    """Where each side is a single run of the class, the labels may differ."""
    large, small = (
        keep(tmp_path, 10, f"echo-{label}", failing, **system(label))
        for label, failing in (("large", 0), ("small", 6))
    )
    run = compare_kept(tmp_path, large, small)
    assert run.stdout.startswith(
        "bench echo[large -> small]: 6 cases, mean 1.000 -> 0.000"
    )
    page = compare_kept(tmp_path, "--format=markdown", large, small).stdout
    assert r"| echo\[large -&gt; small\] | 6 |" in page


def test_a_beginning_of_several_pytest_runs_is_refused(tmp_path: Path) -> None:
    """So is what is neither a run nor a file, in one line."""
    keep(tmp_path, 10, "echo-1")
    keep(tmp_path, 11, "echo-1")
    for name, what in (
        ("2026", "2026: 2 runs begin like this; name one"),
        (
            "none",
            "none: there is no such file; give a kept run, a file of --bench-json",
        ),
    ):
        run = compare_kept(tmp_path, name, "latest")
        assert (run.status, run.stdout) == (2, "")
        assert what in run.stderr
        assert run.stderr.count("\n") == 1
