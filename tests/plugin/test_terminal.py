"""What the user reads: the verdict in a few lines, after all that pytest has to say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import (
    REPORT,
    SWITCH,
    ChildRun,
    child_environment,
    pytest_command,
    run_inside,
    run_plain_pytest,
    run_pytest,
)

TITLE: Final = (
    "============================= why this run failed =============================="
)
IT: Final = "test_it.py::test_it"
WROTE: Final = "report: failure-report.json"
PASSING: Final = "def test_passes(): pass\n"
FAILING: Final = "def test_fails(): assert 0, 'too few'\n"
MORE: Final = "def test_more(): pass\n"

posix_only = pytest.mark.skipif("sys.platform == 'win32'", reason="of POSIX systems")


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """Return a folder with a configuration."""
    write(pytester.path, {"pytest.ini": "[pytest]\n"})
    return pytester.path


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder, given by name and content."""
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8", errors="surrogatepass")


# The words.


@pytest.mark.parametrize(
    ("files", "args", "plugins", "words"),
    [
        pytest.param(
            {"test_it.py": FAILING},
            (),
            (),
            [
                "1 test failed: too few: test_fails (test_it.py:1) [TESTS_FAILED test.failed]",
                "a retry won't help",
            ],
            id="test.failed",
        ),
        pytest.param(
            {"test_it.py": FAILING + "def test_again(): raise OSError\n" + MORE},
            (),
            (),
            [
                "2 of 3 tests failed, 2 causes [TESTS_FAILED test.failed]",
                "  1 x too few: test_fails (test_it.py:1)",
                "  1 x OSError: test_again (test_it.py:2)",
                "a retry won't help",
            ],
            id="test.failed-twice",
        ),
        pytest.param(
            {
                "test_it.py": "import pytest\n\n@pytest.fixture\n"
                "def shop(): raise OSError('no db')\n\ndef test_it(shop): pass\n" + MORE
            },
            (),
            (),
            [
                (
                    "1 of 2 tests failed: OSError: no db: fixture shop (test_it.py:3) "
                    "[TESTS_FAILED test.setup_error]"
                ),
                "a retry won't help",
            ],
            id="test.setup_error",
        ),
        pytest.param(
            {
                "test_it.py": "import pytest\n\n@pytest.fixture\n"
                "def shop():\n    yield\n    raise OSError\n\ndef test_it(shop): pass\n"
            },
            (),
            (),
            [
                (
                    "1 test failed: OSError: fixture shop (test_it.py:3) "
                    "[TESTS_FAILED test.teardown_error]"
                ),
                "a retry won't help",
            ],
            id="test.teardown_error",
        ),
        pytest.param(
            {
                "test_it.py": "import pytest\n\n@pytest.mark.xfail(strict=True, reason='bug 7')\n"
                "def test_it(): pass\n"
            },
            (),
            (),
            [
                (
                    "1 test failed: marked as failing, but passes: bug 7: test_it (test_it.py:3) "
                    "[TESTS_FAILED test.xpass_strict]"
                ),
                "fix: remove the xfail mark",
                "a retry won't help",
            ],
            id="test.xpass_strict",
        ),
        pytest.param(
            {"test_it.py": "import time\n\ndef test_it():\n    time.sleep(9)\n"},
            ("--timeout=0.3", "--timeout-method=signal"),
            ("timeout",),
            [
                (
                    "1 test failed: test_it hit its time limit of 0.3 s (test_it.py:4) "
                    "[TIMEOUT test.timeout]"
                ),
                "a retry may help",
            ],
            id="test.timeout",
            marks=posix_only,
        ),
        pytest.param(
            {"test_it.py": "import time\n\ndef test_it(): time.sleep(0.4)\n" + MORE},
            ("--session-timeout=0.2",),
            ("timeout",),
            [
                "the session hit its time limit [TIMEOUT session.timeout]",
                "because: session-timeout: 0.2 sec exceeded",
                "not run: 1 of 2 tests; a retry may help",
            ],
            id="session.timeout",
        ),
        pytest.param(
            {"test_it.py": "import os\n\ndef test_it(): os._exit(3)\n\n" + MORE},
            ("-n", "1"),
            ("xdist",),
            [
                (
                    "1 of 2 tests failed: gw0 exited with code 3 while it ran "
                    "test_it.py::test_it [TESTS_FAILED worker.crashed]"
                )
            ],
            id="worker.crashed",
        ),
        pytest.param(
            {"test_it.py": "import no_such\n", "test_more.py": MORE},
            (),
            (),
            [
                (
                    "no_such is not installed: test_it.py can't be imported "
                    "[INTERNAL_ERROR collection.error]"
                ),
                "not run: 1 of 1 collected test; a retry won't help",
            ],
            id="collection.error",
        ),
        pytest.param(
            {"test_it.py": PASSING, "conftest.py": "1 / 0\n"},
            (),
            (),
            [
                (
                    "ZeroDivisionError: division by zero (conftest.py:1) "
                    "[INTERNAL_ERROR conftest.error]"
                ),
                "a retry won't help",
            ],
            id="conftest.error",
        ),
        pytest.param(
            {"test_it.py": PASSING},
            ("no_such.py",),
            (),
            [
                "there is no file or folder no_such.py [INTERNAL_ERROR usage.error]",
                "a retry won't help",
            ],
            id="usage.error-path",
        ),
        pytest.param(
            {"test_it.py": PASSING},
            ("--no-such",),
            (),
            [
                "pytest does not know --no-such [INTERNAL_ERROR usage.error]",
                "a retry won't help",
            ],
            id="usage.error-option",
        ),
        pytest.param(
            {"test_it.py": PASSING},
            ("-p", "no_such"),
            (),
            [
                "the plugin no_such is not installed [INTERNAL_ERROR plugin.error]",
                "a retry won't help",
            ],
            id="plugin.error",
        ),
        pytest.param(
            {
                "test_it.py": PASSING,
                "conftest.py": "def pytest_runtest_logreport(): 1 / 0\n",
            },
            (),
            (),
            [
                (
                    "ZeroDivisionError: division by zero (conftest.py:1, in "
                    "pytest_runtest_logreport) [INTERNAL_ERROR internal.error]"
                ),
                "in flight: test_it.py::test_passes (setup, N s); a retry won't help",
            ],
            id="internal.error",
        ),
        pytest.param(
            {"test_it.py": PASSING, "conftest.py": "def pytest_configure(): 1 / 0\n"},
            (),
            (),
            [
                (
                    "ZeroDivisionError: division by zero (conftest.py:1, in pytest_configure) "
                    "[INTERNAL_ERROR internal.error]"
                ),
                "a retry won't help",
            ],
            id="internal.error-configure",
        ),
        pytest.param(
            {"test_it.py": ""},
            (),
            (),
            [
                (
                    "no test was found: nothing in test_it.py matches python_functions = test, "
                    "python_classes = Test [NO_TESTS_COLLECTED tests.none_collected]"
                ),
                (
                    "because: 0 tests collected, nothing in test_it.py matches "
                    "python_functions = test, python_classes = Test"
                ),
                "a retry won't help",
            ],
            id="tests.none_collected",
        ),
        pytest.param(
            {"test_it.py": PASSING + MORE},
            ("-k", "other"),
            (),
            [
                "every test found was deselected: -k other [NO_TESTS_COLLECTED tests.all_deselected]",
                "because: 2 deselected, 0 left",
                "a retry won't help",
            ],
            id="tests.all_deselected",
        ),
        pytest.param(
            {"test_it.py": PASSING + "def test_it(): raise KeyboardInterrupt\n" + MORE},
            (),
            (),
            [
                "the run was interrupted from the keyboard [INTERRUPTED interrupt.keyboard]",
                "see: test_it.py::test_it: KeyboardInterrupt at test_it.py:2",
                (
                    "in flight: test_it.py::test_it (call, N s); "
                    "not run: 1 of 3 tests; a retry may help"
                ),
            ],
            id="interrupt.keyboard",
        ),
        pytest.param(
            {
                "test_it.py": "import pytest\n\ndef test_it(): pytest.exit('enough', 9)\n"
                + MORE
            },
            (),
            (),
            [
                (
                    "the run was ended by pytest.exit: enough (test_it.py:3) "
                    "[INTERRUPTED interrupt.exit]"
                ),
                "in flight: test_it.py::test_it (call, N s); not run: 1 of 2 tests",
            ],
            id="interrupt.exit",
        ),
        pytest.param(
            {
                "test_it.py": PASSING,
                "conftest.py": "def pytest_sessionfinish(session): session.exitstatus = 9\n",
            },
            (),
            (),
            [
                (
                    "no test failed, but a plugin changed the exit status: exit code 9 "
                    "[UNKNOWN exit_status.changed]"
                )
            ],
            id="exit_status.changed",
        ),
        pytest.param(
            {"test_it.py": "import warnings\n\ndef test_it(): warnings.warn('old')\n"},
            ("--max-warnings=0", "-W", "default"),
            (),
            [
                "more warnings than allowed [UNKNOWN warnings.exceeded]",
                "because: warnings: 1",
                "a retry won't help",
            ],
            id="warnings.exceeded",
            marks=pytest.mark.skipif(
                pytest.version_tuple < (9, 1), reason="new in pytest 9.1"
            ),
        ),
        pytest.param(
            {"test_it.py": FAILING + PASSING + MORE},
            ("-x",),
            (),
            [
                "1 test failed: too few: test_fails (test_it.py:1) [TESTS_FAILED test.failed]",
                "not run: 2 of 3 tests; a retry won't help",
            ],
            id="stopped-early",
        ),
        pytest.param(
            {"test_it.py": PASSING},
            ("--failure-taxonomy-stage=baseline_run",),
            (),
            [
                "the tests pass before the fix [BASELINE_NOT_FAILING stage.baseline_not_failing]",
                "because: baseline_run ended with exit code 0",
                "a retry won't help",
            ],
            id="stage.baseline_not_failing",
        ),
    ],
)
def test_the_words_for_each_kind(
    pytester: pytest.Pytester,
    folder: Path,
    files: dict[str, str],
    args: tuple[str, ...],
    plugins: tuple[str, ...],
    words: list[str],
) -> None:
    """A title, the headline with its codes, what fixes it, what was cut short, the report."""
    write(folder, files)
    run = run_inside(pytester, *args, plugins=plugins)
    assert len(run.told) <= 7  # six, and the path
    assert shortened(run.told, words) == [TITLE, *words, WROTE]


def shortened(lines: list[str], model: list[str]) -> list[str]:
    """Put `…` into each line where the line of the model has it: for words that vary."""
    shown = list(lines)
    for index, words in enumerate(model, start=1):
        start, found, end = words.partition("…")
        if found and index < len(lines) and lines[index].startswith(start):
            shown[index] = (
                f"{start}…{end}" if lines[index].endswith(end) else lines[index]
            )
    return shown


def test_all_six_lines(pytester: pytest.Pytester, folder: Path) -> None:
    """What explains others comes first; what there is no room for is counted."""
    body = (
        "import pytest\n\n@pytest.fixture\ndef broken(): 1 / 0\n\n"
        "@pytest.mark.xfail(strict=True)\ndef test_xpass(): pass\n\n"
        "def test_setup(broken): pass\n\n"
    )
    stop = "def test_stop(): raise KeyboardInterrupt\n"
    write(
        folder,
        {
            "test_a.py": "import no_such\n",
            "test_b.py": body
            + FAILING
            + FAILING.replace("fails", "too")
            + PASSING
            + stop
            + MORE,
        },
    )
    run = run_inside(pytester, "--continue-on-collection-errors")
    assert run.told == [
        TITLE,
        (
            "4 of 6 tests failed, 1 file can't be collected, then the run was interrupted from "
            "the keyboard, 6 causes [TESTS_FAILED test.failed]"
        ),
        "  1 x no_such is not installed: test_a.py can't be imported",
        (
            "  1 x marked as failing, but passes: test_xpass (test_b.py:6); "
            "fix: remove the xfail mark"
        ),
        "  1 x ZeroDivisionError: division by zero: fixture broken (test_b.py:3)",
        (
            "and 3 more causes; in flight: test_b.py::test_stop (call, N s); "
            "not run: 1 of 7 collected tests; a retry won't help: assertions failed"
        ),
        WROTE,
    ]


@pytest.mark.parametrize(
    ("test", "args", "words"),
    [
        pytest.param(PASSING, (), "1 passed", id="passed"),
        pytest.param(
            "import pytest\n\n"
            "@pytest.mark.skip\ndef test_skip(): pass\n"
            "@pytest.mark.xfail\ndef test_xfail(): assert 0\n"
            "@pytest.mark.xfail\ndef test_xpass(): pass\n" + PASSING + MORE,
            (),
            "2 passed, 1 skipped, 1 xfailed, 1 xpassed",
            id="mixed",
        ),
        pytest.param(PASSING, ("--collect-only",), "no test ran", id="none-ran"),
    ],
)
def test_the_line_for_success(
    pytester: pytest.Pytester,
    folder: Path,
    test: str,
    args: tuple[str, ...],
    words: str,
) -> None:
    """Success is one line with its counts and the report's place."""
    write(folder, {"test_it.py": test})
    run = run_inside(pytester, *args)
    assert run.tail[-1] == f"failure taxonomy: no failure ({words}); {WROTE}"
    assert run.told == []


def test_a_baseline_without_a_test_says_so(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """A baseline that counts as valid though nothing ran is a success with a note."""
    run = run_inside(pytester, "--failure-taxonomy-stage=baseline_run")
    assert run.status == 5
    assert run.tail == [
        (
            "failure taxonomy: valid baseline: no test ran, "
            f"yet exit code 5 counts as a failing baseline; {WROTE}"
        )
    ]


# How much of it.


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        pytest.param(
            "-v", [TITLE, "VERDICT", "ADVICE", "CAUSE", "TEST", WROTE], id="v"
        ),
        pytest.param(
            "-vv", [TITLE, "VERDICT", "ADVICE", "CAUSE", "TEST", WROTE], id="vv"
        ),
        pytest.param("-q", ["VERDICT", WROTE], id="q"),
        pytest.param("--verbosity=-1", ["VERDICT", WROTE], id="verbosity"),
        pytest.param(
            "--no-summary", [TITLE, "VERDICT", "ADVICE", WROTE], id="no-summary"
        ),
        pytest.param(
            "--no-header", [TITLE, "VERDICT", "ADVICE", WROTE], id="no-header"
        ),
        pytest.param("--tb=no", [TITLE, "VERDICT", "ADVICE", WROTE], id="tb-no"),
    ],
)
def test_quiet_and_loud(
    pytester: pytest.Pytester, folder: Path, option: str, lines: list[str]
) -> None:
    """`-q` keeps the verdict and the path, `-qq` nothing; `-v` adds the causes with their tests."""
    write(folder, {"test_it.py": FAILING})
    run = run_inside(pytester, option)
    words = {
        "VERDICT": "1 test failed: too few: test_fails (test_it.py:1) [TESTS_FAILED test.failed]",
        "ADVICE": "a retry won't help",
        "CAUSE": "1 x too few: test_fails (test_it.py:1) [test] [TESTS_FAILED test.failed]",
        "TEST": "    test_it.py::test_fails",
    }
    assert run.tail == [words.get(line, line) for line in lines]


@pytest.mark.parametrize("option", ["-qq", "-qqq"])
def test_very_quiet_is_silent(
    pytester: pytest.Pytester, folder: Path, option: str
) -> None:
    """With `-qq` the report alone tells why."""
    write(folder, {"test_it.py": FAILING})
    run = run_inside(pytester, option)
    assert "[TESTS_FAILED" not in run.stdout
    assert "report:" not in run.stdout
    assert run.report()["verdict"]["kind"] == "test.failed"


@pytest.mark.parametrize("option", ["-q", "-qq"])
def test_quiet_success_is_silent(
    pytester: pytest.Pytester, folder: Path, option: str
) -> None:
    """With `-q`, nothing failed and nothing is said."""
    write(folder, {"test_it.py": PASSING})
    run = run_inside(pytester, option)
    assert "failure taxonomy" not in run.stdout
    assert run.report()["verdict"] is None


def test_quiet_startup_errors(folder: Path) -> None:
    """`-q` holds where pytest did not even start, too."""
    run = run_pytest(folder, "-q", "--no-such")
    assert run.told == []
    *_, headline, report = run.stderr.splitlines()
    assert re.sub(" {2,}", " ", headline) == (
        "pytest does not know --no-such [INTERNAL_ERROR usage.error]"
    )
    assert report == WROTE


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"test_it.py": FAILING}, id="failed"),
        pytest.param({"test_it.py": PASSING}, id="passed"),
        pytest.param({"test_it.py": PASSING, "conftest.py": "1 / 0"}, id="no-start"),
    ],
)
def test_no_terminal_no_lines(folder: Path, files: dict[str, str]) -> None:
    """`-p no:terminal` switches our lines off as well, and not the report."""
    write(folder, files)
    plain = run_plain_pytest(folder, "-p", "no:terminal")
    run = run_pytest(folder, "-p", "no:terminal")
    assert (run.status, run.stdout, run.stderr) == (
        plain.status,
        plain.stdout,
        plain.stderr,
    )
    assert run.report()["completeness"] == "full"


# Where and when.


@pytest.mark.parametrize(
    ("files", "args", "stream"),
    [
        pytest.param({"test_it.py": FAILING}, (), "stdout", id="failed"),
        pytest.param(
            {"test_it.py": "import pytest\n\ndef test_it(): pytest.exit('enough')\n"},
            (), "stdout", id="pytest.exit",
        ),
        pytest.param(
            {"test_it.py": "def test_it(): raise KeyboardInterrupt\n"}, (), "stdout", id="Ctrl+C"
        ),
        pytest.param(
            {"test_it.py": PASSING, "conftest.py": "def pytest_runtest_logreport(): 1 / 0\n"},
            (), "stdout", id="internal-error",
        ),
        pytest.param(
            {"test_it.py": PASSING, "conftest.py": "def pytest_sessionstart(): 1 / 0\n"},
            (), "stdout", id="internal-error-at-the-start",
        ),
        pytest.param(
            {"test_it.py": PASSING, "conftest.py": "def pytest_sessionfinish(): 1 / 0\n"},
            (), "stdout", id="error-at-the-end",
        ),
        pytest.param({}, ("no_such.py",), "stdout", id="no-such-path"),
        pytest.param({}, ("--no-such",), "stderr", id="no-such-option"),
        pytest.param({}, ("-p", "no_such"), "stderr", id="no-such-plugin"),
        pytest.param({"conftest.py": "1 / 0\n"}, (), "stderr", id="conftest"),
    ],
)  # fmt: skip
def test_where_the_lines_are_printed(
    folder: Path, files: dict[str, str], args: tuple[str, ...], stream: str
) -> None:
    """They are the last on stdout; where pytest did not start they stand on stderr, as its own."""
    write(folder, files)
    run = run_pytest(folder, *args)
    assert run.status != 0
    assert len(run.told) >= 3
    assert run.told == [line for line in run.told if line]
    stdout_ends_with_ours = run.stdout.splitlines()[-1:] == [WROTE]
    assert stdout_ends_with_ours is (stream == "stdout")
    assert (WROTE in run.stderr.splitlines()) is (stream == "stderr")
    assert run.report()["verdict"] is not None


def test_a_report_elsewhere_is_named(folder: Path, tmp_path: Path) -> None:
    """The last line has the path, relative where it lies below the current folder."""
    write(folder, {"test_it.py": FAILING})
    relative = run_pytest(folder, "--failure-taxonomy-report=out/r.json")
    assert relative.tail[-1] == f"report: {Path('out/r.json')}"
    outside = tmp_path / "r.json"
    absolute = run_pytest(folder, f"--failure-taxonomy-report={outside}")
    assert absolute.tail[-1] == f"report: {outside}"


# Colours.


@pytest.mark.parametrize(
    ("args", "env", "is_coloured"),
    [
        pytest.param((), {}, False, id="no-terminal"),
        pytest.param(("--color=yes",), {}, True, id="color-yes"),
        pytest.param((), {"FORCE_COLOR": "1"}, True, id="FORCE_COLOR"),
        pytest.param((), {"PY_COLORS": "1"}, True, id="PY_COLORS"),
        pytest.param((), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(
            (), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, id="NO_COLOR-first"
        ),
        pytest.param(("--color=no",), {"FORCE_COLOR": "1"}, False, id="color-no"),
        pytest.param(
            ("--color=yes",), {"NO_COLOR": "1"}, True, id="color-yes-over-NO_COLOR"
        ),
    ],
)
def test_colours_are_pytests(
    folder: Path, args: tuple[str, ...], env: dict[str, str], is_coloured: bool
) -> None:
    """Our lines are coloured exactly where pytest's own are."""
    write(folder, {"test_it.py": FAILING})
    assert_coloured(
        run_pytest(folder, *args, env=env).stdout, "TESTS_FAILED", is_coloured
    )


@pytest.mark.parametrize(
    ("args", "env", "is_coloured"),
    [
        pytest.param((), {}, False, id="no-terminal"),
        pytest.param((), {"FORCE_COLOR": "1"}, True, id="FORCE_COLOR"),
        pytest.param(("--color=no",), {"FORCE_COLOR": "1"}, False, id="color-no"),
        pytest.param(
            ("--color=yes",), {"NO_COLOR": "1"}, True, id="color-yes-over-NO_COLOR"
        ),
    ],
)
def test_colours_on_stderr(
    folder: Path, args: tuple[str, ...], env: dict[str, str], is_coloured: bool
) -> None:
    """The same rules hold where pytest did not start."""
    write(folder, {"conftest.py": "1 / 0\n"})
    assert_coloured(
        run_pytest(folder, *args, env=env).stderr, "INTERNAL_ERROR", is_coloured
    )


def assert_coloured(output: str, reason: str, is_coloured: bool) -> None:
    """Check that the headline is red, its codes dim, and the report's line as it is."""
    (verdict,) = (line for line in output.splitlines() if f"[{reason} " in line)
    headline, _, codes = verdict.partition(f"[{reason} ")
    if is_coloured:
        assert headline.startswith("\x1b[1m\x1b[31m")
        assert re.search(r"\x1b\[0m\x1b\[2m +$", headline)
        assert codes.endswith("]\x1b[0m")
    assert ("\x1b" in verdict) is is_coloured
    ends_with = [line for line in output.splitlines() if line.startswith("report: ")]
    assert ends_with == [WROTE]


# Hostile text.

HOSTILE: Final = {
    "colour": "\x1b[2J\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "newlines": "a\nTESTS_FAILED [fake]: b\r\nreport: fake.json\x85\x0b\x0c",
    "carriage-return": "real\rfake",
    "bidi": "\u202egpj.exe\u202c\u2066\u2069\u200f",
    "separators": "a\u2028b\u2029c",
    "surrogate": "lone \ud800 half",
    "null": "a\0b",
    "C1": "\x9b31m\x90\x9c",
    "delete": "a\x7f\x08\x08b",
    "github": "\n::error::x\n##[error]x\n::error title=at 10:30::x",
    "invisible": "a\u200b\u00ad\ufeff\U000e0041\ufe01\u3164b",
}

RAW_IDS: Final = "[pytest]\ndisable_test_id_escaping_and_forfeit_all_rights_to_community_support = true\n"

CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\u200b\u200f"
    "\u00ad\ufeff\ufe01\u3164\U000e0041]"
)


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=name) for name, text in HOSTILE.items()]
)
@pytest.mark.parametrize("where", ["id", "message", "exit"])
def test_hostile_text(
    pytester: pytest.Pytester, folder: Path, text: str, where: str
) -> None:
    """What a test's name or message holds is shown as escapes, and every line stays one line."""
    shown = ascii(text)
    tests = {
        "id": f"@pytest.mark.parametrize('x', [1], ids=[{shown}])\ndef test_it(x): assert 0\n",
        "message": f"def test_it(): raise RuntimeError({shown})\n",
        "exit": f"def test_it(): pytest.exit({shown})\n",
    }
    write(
        folder,
        {"pytest.ini": RAW_IDS, "test_it.py": f"import pytest\n\n{tests[where]}"},
    )
    run = run_inside(pytester, "--tb=no", "--no-summary")
    report = run.report()
    assert_untouched(run, report)


def assert_untouched(run: ChildRun, report: dict[str, Any]) -> None:
    """Check that our lines are those of any run and hold no control character."""
    assert run.told[0] == TITLE
    assert run.told[-1] == WROTE
    assert 4 <= len(run.told) <= 7
    assert not [line for line in run.told if CONTROL.search(line)]
    assert all(len(line) <= 450 for line in run.told)
    assert run.told[1].endswith(f" {report['verdict']['kind']}]")


def test_the_escapes_can_be_read(pytester: pytest.Pytester, folder: Path) -> None:
    """A control character is shown by its code."""
    write(
        folder,
        {"test_it.py": "def test_it(): raise OSError('\\x1b[2J \\u202e \\ud800')\n"},
    )
    run = run_inside(pytester)
    assert run.told[1] == (
        "1 test failed: OSError: \\x1b[2J \\u202e \\ud800: test_it (test_it.py:1) "
        "[TESTS_FAILED test.failed]"
    )


@pytest.mark.parametrize("where", ["id", "message"])
def test_a_megabyte_of_text(folder: Path, where: str) -> None:
    """A line is cut where it gets too long to read, and the report where it gets too big."""
    text = "'x' * 1_000_000"
    tests = {
        "id": f"@pytest.mark.parametrize('x', [1], ids=[{text}])\ndef test_it(x): assert 0\n",
        "message": f"def test_it(): raise RuntimeError({text})\n",
    }
    write(folder, {"test_it.py": f"import pytest\n\n{tests[where]}"})
    run = run_pytest(folder, "--tb=no", "--no-summary")
    assert run.status == 1
    assert_untouched(run, run.report())
    assert "xx" in run.told[1]
    assert (folder / REPORT).stat().st_size < 200_000
    assert run.report()["limits"]["texts_truncated"] > 0


def test_hostile_names_without_escaping_in_a_child(folder: Path) -> None:
    """The same holds for the bytes that a real process prints."""
    ids = ascii(list(HOSTILE.values()))
    mark = f"@pytest.mark.parametrize('x', range({len(HOSTILE)}), ids={ids})"
    test = f"import pytest\n\n{mark}\ndef test_it(x): assert 0\n"
    write(folder, {"pytest.ini": RAW_IDS, "test_it.py": test})
    run = run_pytest(folder, "--tb=no", "--no-summary")
    assert run.status == 1
    assert_untouched(run, run.report())
    assert {each["nodeid"] for each in run.report()["failures"]} == {
        f"test_it.py::test_it[{text}]".replace("\ud800", "\\ud800")
        for text in HOSTILE.values()
    }


# Streams.


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"PYTHONIOENCODING": "ascii"}, id="ascii"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, id="latin-1"),
        pytest.param(
            {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            id="C-locale",
        ),
    ],
)
@pytest.mark.parametrize("started", [True, False], ids=["stdout", "stderr"])
def test_a_stream_that_is_not_utf_8(
    folder: Path, env: dict[str, str], started: bool
) -> None:
    """What the stream can't hold is escaped, and the lines are all there."""
    if started:
        write(
            folder,
            {"test_it.py": "def test_it(): raise OSError('größer \\u2713 報告')\n"},
        )
        run = run_pytest(folder, env=env)
    else:
        run = run_pytest(folder, "--größer-✓-報告", env={"LC_ALL": "C.UTF-8", **env})
    assert run.status == (1 if started else 4)
    assert len(run.told) == 4
    assert run.told[1].startswith(
        "1 test failed: OSError: gr" if started else "pytest does not know "
    )
    assert run.told[-1] == WROTE
    if started:
        assert run.report()["failures"][0]["exception"]["message"] == "größer ✓ 報告"


@pytest.mark.slow
@pytest.mark.lowest
@posix_only
@pytest.mark.parametrize("test", [PASSING, FAILING], ids=["passing", "failing"])
@pytest.mark.parametrize("how", ["from-the-start", "head", "closed-descriptor"])
def test_a_closed_stdout_changes_no_exit_status(
    folder: Path, test: str, how: str
) -> None:
    """A reader that goes away early, as `head` does, gets pytest's own exit status and no noise."""
    many = "".join(test.replace("():", f"_{number}():") for number in range(40))
    write(folder, {"test_it.py": many})
    plain = run_with_closed_stdout(folder, pytest_command("-v", plugins=()), how)
    ours = run_with_closed_stdout(folder, pytest_command("-v", SWITCH), how)
    assert ours[0] == plain[0]
    assert b"failure-taxonomy" not in ours[1]
    assert (folder / REPORT).exists()


def run_with_closed_stdout(
    folder: Path, command: list[str], how: str
) -> tuple[int, bytes]:
    """Run a command whose output nobody reads to its end; return its status and its stderr."""
    if how == "closed-descriptor":
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
        done = subprocess.run(
            command,
            cwd=folder,
            env=child_environment(),
            check=False,
            stderr=subprocess.PIPE,
        )
        return done.returncode, done.stderr
    reader, writer = os.pipe()
    if how == "from-the-start":
        os.close(reader)
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=child_environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    if how == "head":
        os.read(reader, 10)
        os.close(reader)
    _, stderr = child.communicate(timeout=60)
    return child.returncode, stderr


@pytest.mark.slow
@pytest.mark.lowest
@posix_only
def test_a_reader_that_leaves_before_our_lines(folder: Path) -> None:
    """Where pytest had said all it had to say, its exit status stands though ours was not read."""
    conftest = (
        "import os, sys\n\n"
        "def pytest_unconfigure():\n"
        "    sys.stdout.flush()\n"
        "    os.close(int(os.environ['READER']))\n"
    )
    write(folder, {"test_it.py": PASSING, "conftest.py": conftest})
    reader, writer = os.pipe()
    child = subprocess.Popen(
        pytest_command(SWITCH),
        cwd=folder,
        env=child_environment({"READER": str(reader), "PYTHONUNBUFFERED": "1"}),
        stdout=writer,
        stderr=subprocess.PIPE,
        pass_fds=(reader,),
    )
    os.close(reader)
    os.close(writer)
    _, stderr = child.communicate(timeout=60)
    assert (child.returncode, stderr) == (0, b"")


def test_a_narrow_terminal(folder: Path) -> None:
    """The lines are not wrapped by us; the title and the codes follow the width."""
    write(folder, {"test_it.py": FAILING})
    run = run_pytest(folder, env={"COLUMNS": "40"})
    assert run.told[0] == "========= why this run failed =========="
    assert run.told[1] == (
        "1 test failed: too few: test_fails (test_it.py:1) [TESTS_FAILED test.failed]"
    )
