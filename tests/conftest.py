from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.helpers.changes import Selection, list_changed_paths, sort_changes
from tests.helpers.portability import SYSTEMS, environment_of, pretended_system
from tests.helpers.proofs import Proofs
from tests.helpers.reports import assert_valid_reports_in
from tests.helpers.runs import PytestRuns
from tests.helpers.warm_pytest import Switch

with suppress(ImportError):
    # `pytester` forgets the modules that a test imports, and NumPy warns when it is imported twice.
    import numpy as np  # noqa: F401 - see above

# An example that a busy machine ran slowly is no failure. A failure shows how to repeat it.
settings.register_profile("steady", deadline=None, print_blob=True)
settings.register_profile("few", settings.get_profile("steady"), max_examples=20)
settings.register_profile("many", settings.get_profile("steady"), max_examples=500)
settings.load_profile("steady")

collect_ignore = ["attacks/cheats", "benchmarks/accuracy/live"]
"""Projects that fail on purpose."""

# tox sets a seed, which the runs that tests start would report as theirs.
os.environ.pop("PYTHONHASHSEED", None)

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parent
_SLOW_FOLDERS: Final = ("attacks", "e2e")
_BENCH_CASES: Final = "plugin/bench_cases"
"""Folders whose tests start one process after another."""
_TOGETHER: Final = (
    "contract/test_commands_of_pages.py",
    "contract/test_seed_scenarios.py",
    "e2e/test_bench_compare.py",
    "e2e/test_classify.py",
    "e2e/test_html_in_a_browser.py",
    "plugin/bench_cases/test_dask.py",
    "unit/history",
    "unit/report/test_ctrf.py",
)
"""Whose tests share what takes long to start, and so run on one worker."""

_NIGHTLY: Final = (
    "attacks/test_bench_cases.py",
    "attacks/test_cheats.py",
    "attacks/test_ci_logs.py",
    "attacks/test_disk.py",
    "attacks/test_exceptions.py",
    "attacks/test_exits.py",
    "attacks/test_files.py",
    "attacks/test_foreign_reports.py",
    "attacks/test_histories.py",
    "attacks/test_integrity.py",
    "attacks/test_known.py",
    "attacks/test_mocked.py",
    "attacks/test_readers.py",
    "attacks/test_run.py",
    "attacks/test_secrets.py",
    "attacks/test_surroundings.py",
    "attacks/test_truncation.py",
    "contract/test_bench_pages.py",
    "contract/test_commands_of_pages.py::test_a_command_runs",
    "contract/test_commands_of_pages.py::test_a_command_that_does_not_run_is_found",
    "contract/test_newer_pythons.py",
    "contract/test_run_pages.py",
    "contract/test_seed_scenarios.py",
    "contract/test_suite.py",
    "e2e/test_bench_judge.py::test_the_rubric_is_measured_by_labels",
    "e2e/test_bench_page.py",
    "e2e/test_classify.py::test_log_and_plugin_agree",
    "e2e/test_convert_from.py::test_any_types_make_a_report_or_one_line",
    "e2e/test_convert_harnesses.py",
    "e2e/test_early_refusals.py::test_what_was_refused",
    "e2e/test_example_bench.py",
    "e2e/test_example_harness.py",
    "e2e/test_html_in_a_browser.py",
    "e2e/test_mcp.py::test_tests_run_only_where_that_is_allowed",
    "e2e/test_other_systems.py",
    "e2e/test_workflows.py",
    "plugin/bench_cases/test_adversarial_rubrics.py",
    "plugin/bench_cases/test_dask.py",
    "plugin/bench_cases/test_datasets.py",
    "plugin/bench_cases/test_fixtures.py::test_whole_run_from_an_async_test",
    "plugin/bench_cases/test_live_line.py",
    "plugin/bench_cases/test_misbehaviour.py",
    "plugin/bench_cases/test_resume.py",
    "plugin/bench_cases/test_systems_elsewhere.py",
    "plugin/bench_cases/test_xdist.py::test_scores_of_a_dead_worker_are_not_paid_again",
    "plugin/test_bad_input.py::test_a_folder_that_turns_read_only",
    "plugin/test_counts.py::test_counts_of_a_random_suite",
    "plugin/test_fault_matrix.py",
    "plugin/test_known_fixtures.py",
    "plugin/test_ledger.py::test_an_unclosed_file",
    "plugin/test_left_behind.py",
    "plugin/test_options.py::test_a_start_that_fails_before_options_are_parsed",
    "plugin/test_options.py::test_every_ini_value_takes_types_of_toml",
    "plugin/test_past_runs.py::test_a_death_is_known_by_its_verdict",
    "plugin/test_past_runs.py::test_a_retry_can_help_where_a_test_is_flaky",
    "plugin/test_prove.py::test_ctrl_c_leaves_what_is_known_and_resume_goes_on",
    "plugin/test_prove.py::test_a_crash_and_what_may_decide_besides",
    "plugin/test_prove_after.py::test_new_tests_are_repeated_and_earlier_ones_are_not",
    "plugin/test_prove_axes.py",
    "plugin/test_prove_base.py::test_a_file_that_can_not_be_imported_is_compared_as_well",
    "plugin/test_prove_base.py::test_a_renamed_file_is_the_same_test",
    "plugin/test_prove_base.py::test_a_revision_that_is_not_there_is_one_line_with_the_command",
    "plugin/test_prove_base.py::test_a_test_that_comes_and_goes_on_both_is_no_news",
    "plugin/test_prove_base.py::test_the_recorded_order_is_taken_where_it_passes_alone",
    "plugin/test_prove_base.py::test_what_can_not_be_compared_is_said",
    "plugin/test_prove_commit.py",
    "plugin/test_prove_environment.py::test_a_release_with_a_c_extension",
    "plugin/test_prove_environment.py::test_an_old_version_that_does_not_fit_decides_nothing",
    "plugin/test_prove_environment.py::test_the_release_is_found_from_the_history",
    "plugin/test_prove_environment.py::test_two_releases_together_and_one_that_is_gone",
    "plugin/test_prove_environment.py::test_what_is_undecided",
    "plugin/test_prove_surroundings.py::test_a_file_elsewhere",
    "plugin/test_prove_surroundings.py::test_a_file_that_a_test_after_it_leaves",
    "plugin/test_prove_surroundings.py::test_a_file_that_a_test_before_it_leaves",
    "plugin/test_prove_surroundings.py::test_a_file_that_a_test_changes",
    "plugin/test_prove_surroundings.py::test_a_file_that_an_earlier_run_left",
    "plugin/test_prove_surroundings.py::test_a_file_that_is_imported",
    "plugin/test_prove_surroundings.py::test_a_library_of_numbers_keeps_no_process_from_forking",
    "plugin/test_prove_surroundings.py::test_a_project_that_changes_the_order",
    "plugin/test_prove_surroundings.py::test_a_test_that_ends_otherwise_in_a_fork",
    "plugin/test_prove_surroundings.py::test_what_was_seen_until_time_ran_out",
    "plugin/test_proving.py::test_what_is_proven_is_known_in_the_next_run",
    "plugin/test_redaction.py::test_a_huge_text_is_cut_before_it_is_searched",
    "plugin/test_reproduce.py",
    "plugin/test_same_on_workers.py",
    "plugin/test_stalls.py::test_end_of_what_hangs",
    "plugin/test_stalls.py::test_end_of_what_resists",
    "plugin/test_stalls.py::test_what_moves_is_not_ended",
    "plugin/test_terminal.py::test_a_closed_stdout_changes_no_exit_status",
    "plugin/test_terminal.py::test_a_stream_that_is_not_utf_8",
    "plugin/test_terminal_groups.py::test_a_real_terminal",
    "plugin/test_watcher.py::test_there_is_one",
    "unit/bench/test_bounds.py::test_a_lower_score_never_raises_the_bound",
    "unit/bench/test_bounds.py::test_one_more_failure_never_raises_the_bound",
    "unit/bench/test_calls.py::test_who_keeps_the_gil_pays_for_it",
    "unit/bench/test_clusters.py::test_bounds_hold_for_cases_that_are_alike",
    "unit/bench/test_comparing.py::test_one_more_failure_never_lets_a_gate_pass",
    "unit/bench/test_difference_intervals.py",
    "unit/bench/test_hostile_runs.py::test_made_up_records_are_skipped_or_shown",
    "unit/bench/test_planning.py::test_a_loss_of_drawn_pairs_is_found",
    "unit/bench/test_planning.py::test_a_planned_number_of_drawn_cases_passes",
    "unit/bench/test_runner.py::test_ten_thousand_cases_keep_to_the_concurrency",
    "unit/history/test_companions.py::test_what_companions_have_in_common",
    "unit/history/test_rates.py::test_what_the_environment_explains",
    "unit/history/test_sets_of_runs.py::test_answers_depend_on_the_set_of_runs_alone",
    "unit/history/test_signals.py::test_types_of_flaky_tests_in_a_history",
    "unit/history/test_store.py::test_a_full_disk_loses_no_earlier_run",
    "unit/history/test_store.py::test_a_server_that_goes_away_is_told",
    "unit/history/test_store.py::test_eight_commands_at_once_all_get_in",
    "unit/prove/test_never_wrongly_proven.py::test_next_to_nothing_wrong_is_proven",
    "unit/prove/test_state.py::test_each_part_is_found_said_and_put_back",
    "unit/prove/test_walk.py::test_a_failure_that_comes_and_goes_is_found_by_weighing_and_hardly_ever_wrongly",
    "unit/report/test_agent.py::test_no_report_makes_it_longer",
    "unit/report/test_ci_faces.py::test_no_text_calls_anybody_in_an_issue",
    "unit/report/test_ci_faces.py::test_no_text_is_markdown_or_html",
    "unit/report/test_ctrf.py",
    "unit/report/test_html.py::test_a_page_says_what_all_faces_say",
    "unit/report/test_html.py::test_what_the_report_only_names_is_named_on_the_page",
    "unit/rules/test_matcher.py::test_many_endless_patterns_are_not_all_tried",
    "unit/taxonomy/test_known_plugins.py::test_our_own_names_are_those_of_the_help",
    "unit/test_user_patterns.py::test_a_pattern_that_would_be_compiled_for_hours_is_refused",
    "unit/test_user_patterns.py::test_a_pattern_with_ordinary_repetitions_is_compiled",
)
"""Files and functions whose tests are all `nightly`."""
_LOWEST: Final = (
    "plugin/test_counts.py",
    "plugin/test_endings",
    "plugin/test_failures.py",
    "plugin/test_libraries.py",
    "plugin/test_subtests.py",
    "unit/bench/load/",
    "unit/bench/plugin/",
    "unit/history/test_proofs.py",
    "unit/history/test_recording.py",
    "unit/hooks/",
    "unit/rules/",
)
"""What the paths of files begin with whose quick tests are all `lowest`."""
_ON_WORKERS: Final = (
    "plugin/test_endings_xdist.py",
    "plugin/test_mismatch.py",
    "plugin/test_subtests.py",
)
"""Files whose tests on xdist's workers run on each push, and are `lowest`, too: they are about
workers. Those of other files are `nightly`."""

BREAKS_REPORTS: Final = "breaks_reports"
"""The pytest mark of a test that leaves a report which it has broken itself."""

_PYTHONS_OWN: Final = frozenset({"SIGPIPE", "SIGXFZ", "SIGXFSZ"})
"""What Python ignores for itself, and gives back to what it starts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare how much is run of what has very many cases, and from which seed."""
    group = parser.getgroup("attacks")
    group.addoption(
        "--attacks",
        choices=("some", "all"),
        default="some",
        help="run some of tests/attacks, as CI does, or all of it, which takes an hour; "
        "default: %(default)s",
    )
    group.addoption(
        "--attacks-seed",
        type=int,
        default=0,
        metavar="N",
        help="choose and make up the attacks from this seed; default: %(default)s",
    )
    parser.addoption(
        "--matrix",
        choices=("some", "all"),
        default="some",
        help="bring about each death of the fault matrix, and the rows of test_causes.py, in some "
        "configurations, as CI does, or in all of them; default: %(default)s",
    )
    parser.addoption(
        "--nightly",
        action="store_true",
        help="run the tests that are marked `nightly`, too; those of a file that is named run anyway",
    )
    parser.addoption(
        "--changed-since",
        metavar="REV",
        help="leave out tests that no change since this commit can affect, and those that are "
        "marked `room` if none of their rooms changed; all run if git doesn't know the commit",
    )
    parser.addoption(
        "--fresh-pythons",
        action="store_true",
        help="start each run of pytest as a new process, not as a fork of one that has imported "
        "pytest; takes half as long again",
    )

    group = parser.getgroup("portability")
    group.addoption(
        "--as-on",
        choices=SYSTEMS,
        help="hide from the package and its tests what that system lacks",
    )
    group.addoption(
        "--without-posix",
        action="store_const",
        dest="as_on",
        const="windows",
        help="the same as --as-on=windows",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Start the same run anew where it is to be as on another system.

    What is hidden must be so before our plugin is imported, which was long ago in this process.
    """
    if config.getoption("numprocesses", default=None) and config.option.dist == "no":
        config.option.dist = "loadgroup"
    system = config.getoption("as_on")
    if system is None or pretended_system() is not None:
        return None
    params = config.invocation_params
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        return subprocess.call(
            [sys.executable, "-m", "pytest", *params.args],
            cwd=params.dir,
            env={**os.environ, **environment_of(system, Path(folder))},
        )
    return pytest.ExitCode.INTERRUPTED


_OF_A_CI_STEP: Final = (
    *("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_WORKSPACE"),
    "CI_PROJECT_DIR",
)
"""Where this suite is a step of a job on GitHub or GitLab, the runs inside of it are none: they
would annotate its page with the failures that they are made to have."""


def pytest_configure(config: pytest.Config) -> None:
    """Handle signals as in a shell's foreground, however the suite was started.

    `nohup`, cron, a script's background jobs and some CI runners ignore or block some of them, and
    what the tests start would inherit that. xdist starts its workers after this.
    """
    for name in _OF_A_CI_STEP:
        os.environ.pop(name, None)
    Switch.is_on &= not config.getoption("fresh_pythons")
    for number in signal.valid_signals():
        name = getattr(number, "name", "")
        if signal.getsignal(number) == signal.SIG_IGN and name not in _PYTHONS_OWN:
            is_interrupt = number == signal.SIGINT
            signal.signal(
                number, signal.default_int_handler if is_interrupt else signal.SIG_DFL
            )
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _select_changed(
    items: Sequence[pytest.Item], revision: str
) -> Iterator[pytest.Item]:
    """Yield the tests that a change since the revision can affect."""
    paths = list_changed_paths(_ROOT, revision)
    if paths is None:
        yield from items
        return
    selection = Selection(_ROOT, sort_changes(paths))
    for path, tests in groupby(items, key=lambda item: item.path):
        if not selection.is_affected(path):
            continue
        for item in tests:
            rooms = [name for mark in item.iter_markers("room") for name in mark.args]
            if not rooms or selection.changed_any(rooms, path):
                yield item


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark what takes long, skip what is about another system, and select by changes."""
    _mark_items(items)
    selected = list(items)
    if not (config.getoption("nightly") or _are_named(config)):
        selected = [item for item in items if not item.get_closest_marker("nightly")]
    if revision := config.getoption("changed_since"):
        selected = list(_select_changed(selected, revision))
    if len(selected) < len(items):
        deselected = dict.fromkeys(items)
        for item in selected:
            del deselected[item]
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = selected


def _are_named(config: pytest.Config) -> bool:
    """Return whether the arguments are files or tests: who names them wants all of them."""
    return all(argument.partition("::")[0].endswith(".py") for argument in config.args)


def _mark_items(items: Sequence[pytest.Item]) -> None:
    absent = {"posix": sys.platform == "win32", "linux": sys.platform != "linux"}
    by_group = items[0].config.getoption("loadgroup", default=False) if items else False
    for path, tests in groupby(items, key=lambda item: item.path):
        file = path.relative_to(_HERE)
        group = next((name for name in _TOGETHER if file.is_relative_to(name)), None)
        is_slow = file.is_relative_to(_BENCH_CASES) or file.parts[0] in _SLOW_FOLDERS
        for item in tests:
            if by_group and group is not None:
                item.add_marker(pytest.mark.xdist_group(group))
            if is_slow:
                item.add_marker("slow")
            _mark_when(item, file)
            for mark in item.iter_markers():
                if absent.get(mark.name):
                    item.add_marker(pytest.mark.skip(reason=mark.args[0]))


def _mark_when(item: pytest.Item, file: Path) -> None:
    """Mark when a test runs: each night, or also on the lowest versions."""
    name = file.as_posix()
    function = item.name.partition("[")[0]
    # Each starts three Pythons.
    on_workers = "xdist" in f"{file.name} {item.name}" or (
        file.parts[0] == "plugin" and "workers" in function
    )
    is_nightly = not {name, f"{name}::{function}"}.isdisjoint(_NIGHTLY)
    is_quick = item.get_closest_marker("slow") is None
    if on_workers:
        item.add_marker("slow")
        is_quick = name in _ON_WORKERS
        is_nightly |= not is_quick
    if is_quick and name.startswith(_LOWEST):
        item.add_marker("lowest")
    if is_nightly:
        item.add_marker("nightly")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Succeed where no change can affect any test."""
    is_empty = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if is_empty and session.config.getoption("changed_since"):
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check every report that a test has left, so that none can be read unchecked."""
    result = yield
    if item.get_closest_marker(BREAKS_REPORTS) is None:
        for folder in _folders_of(item):
            assert_valid_reports_in(folder)
    return result


def _folders_of(item: pytest.Item) -> Iterator[Path]:
    fixtures = getattr(item, "funcargs", {})
    if "tmp_path" in fixtures:
        yield fixtures["tmp_path"]
    if "pytester" in fixtures:
        yield fixtures["pytester"].path


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Start runs of pytest, each in a process of its own, in an empty folder."""
    return PytestRuns(pytester, monkeypatch)


@pytest.fixture
def proofs(
    runs: PytestRuns,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Proofs:
    """Return what runs and proves in the folder of the test, without looking along axes."""
    monkeypatch.chdir(runs.path)
    place = "pytest_failure_taxonomy.prove.axes.axes_of"
    monkeypatch.setattr(place, lambda *_, **__: ())
    return Proofs(runs, capsys)


@pytest.fixture
def nothing_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each run of the test import our modules itself, at the moment when it needs them."""
    monkeypatch.setattr(Switch, "with_our_modules", False)
