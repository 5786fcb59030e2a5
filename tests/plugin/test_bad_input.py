"""What a user can get wrong, and that one line says where, what, and what would be right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import REPORT, ChildRun, run_inside, run_pytest
from tests.helpers.reports import extensions_of

TO: Final = "--failure-taxonomy-report"
STRICT: Final = "--failure-taxonomy-strict-baseline"
TEST: Final = (
    "import pathlib\n\ndef test_passes():\n    pathlib.Path('it_ran').touch()\n"
)

posix_only = pytest.mark.skipif("sys.platform == 'win32'", reason="of POSIX systems")


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """Return a folder with a configuration and one passing test, which leaves a trace."""
    (pytester.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (pytester.path / "test_it.py").write_text(TEST, encoding="utf-8")
    return pytester.path


def assert_refused(run: ChildRun, *words: str) -> None:
    """Check that pytest ended before any test, with one line that says all of the words."""
    assert run.status == 4
    assert not (run.folder / "it_ran").exists()
    lines = [line for line in run.stderr.splitlines() if line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("ERROR: ")
    for word in words:
        assert word in lines[0]


# Paths that can't be a report's.


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(".", ("is a directory", "give the name of a file"), id="here"),
        pytest.param(
            "sub", ("/sub is a directory", "give the name of a file"), id="folder"
        ),
        pytest.param(
            "file/r.json", ("/file/r.json", "Not a directory"), id="parent-is-file"
        ),
        pytest.param(
            "file/a/r.json", ("/file/a/r.json", "Not a directory"), id="grandparent"
        ),
        pytest.param(
            "test_it.py", ("path is a Python file's, test_it.py; give",), id="a-test"
        ),
        pytest.param(
            "x" * 300, ("can't be written: File name too long",), id="too-long"
        ),
        pytest.param("a\0b.json", ("the path holds a null character",), id="null"),
        pytest.param(
            "/dev/null", ("/dev/null is a device",), id="device", marks=posix_only
        ),
        pytest.param(
            "/dev/full", ("/dev/full is a device",), id="full", marks=posix_only
        ),
    ],
)
@pytest.mark.parametrize("how", ["option", "ini"])
def test_paths_that_can_not_be_a_reports(
    pytester: pytest.Pytester, folder: Path, path: str, words: tuple[str, ...], how: str
) -> None:
    """They are refused before any test, in one line, wherever the path came from."""
    (folder / "sub").mkdir()
    (folder / "file").write_text("untouched", encoding="utf-8")
    arguments = [f"{TO}={path}"]
    if how == "ini":
        ini = f"[pytest]\nfailure_taxonomy_report = {path}\n"
        (folder / "pytest.ini").write_text(ini, encoding="utf-8")
        arguments = []
    run = run_inside(pytester, *arguments, switch=())
    by = "ini value failure_taxonomy_report" if how == "ini" else TO
    assert_refused(run, f"{by}: ", *words)
    assert list((folder / "sub").iterdir()) == []
    assert (folder / "file").read_text(encoding="utf-8") == "untouched"


@posix_only
def test_a_path_that_would_break_the_line(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """A line break or a terminal's escape in a path is shown as an escape."""
    (folder / "a\nb\x1b[31m").mkdir()
    run = run_inside(pytester, f"{TO}=a\nb\x1b[31m", switch=())
    assert_refused(run, "/a\\x0ab\\x1b[31m is a directory; give the name of a file")


@pytest.mark.parametrize("path", ["", "  "], ids=["empty", "blank"])
def test_an_empty_path(pytester: pytest.Pytester, folder: Path, path: str) -> None:
    """An option with nothing behind it, such as an unset variable in a script, is no default."""
    run = run_inside(pytester, f"{TO}={path}", switch=())
    assert_refused(run, f"{TO}: the path is empty; give the name of a file")


def test_a_path_that_ends_like_a_folder(
    pytester: pytest.Pytester, folder: Path
) -> None:
    """Nobody who writes `reports/` means a file of that name."""
    run = run_inside(pytester, f"{TO}=reports/", switch=())
    assert_refused(
        run, f"{TO}: the path is a folder's, reports/; give the name of a file"
    )
    assert not (folder / "reports").exists()


@posix_only
@pytest.mark.parametrize(
    "sort", ["link", "dangling link", "link to folder", "pipe", "socket"]
)
@pytest.mark.parametrize("named", [True, False], ids=["named", "default"])
def test_special_files_are_refused_and_left_alone(
    pytester: pytest.Pytester, folder: Path, sort: str, named: bool
) -> None:
    """A link's target is not written, a pipe is not opened, and each stays what it was."""
    name = "r.json" if named else REPORT
    special, target = folder / name, folder / "target"
    server = None
    if sort == "link":
        target.write_text("untouched", encoding="utf-8")
        special.symlink_to(target)
    elif sort == "link to folder":
        target.mkdir()
        special.symlink_to(target)
    elif sort == "dangling link":
        special.symlink_to(target)
    elif sort == "pipe":
        os.mkfifo(special)
    else:
        import socket

        server = socket.socket(socket.AF_UNIX)
        pytester.chdir()
        server.bind(name)
    before = special.lstat()
    run = run_inside(pytester, *([f"{TO}={name}"] if named else []))
    if server is not None:
        server.close()
    words = {"pipe": "a named pipe", "socket": "a socket"}.get(sort, "a symbolic link")
    assert_refused(run, TO, f"/{name} is {words}; give the name of a file")
    after = special.lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    if sort == "link":
        assert target.read_text(encoding="utf-8") == "untouched"
    if sort == "dangling link":
        assert not target.exists()


@posix_only
def test_a_link_that_a_test_puts_there_is_replaced_and_not_followed(
    folder: Path,
) -> None:
    """A path that became a link during the run is a file again at its end; the target is safe."""
    (folder / "target").write_text("untouched", encoding="utf-8")
    body = f"os.remove('{REPORT}'); os.symlink('target', '{REPORT}')"
    test = f"import os\n\ndef test_it():\n    {body}\n"
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    run = run_pytest(folder)
    assert run.status == 0
    assert not (folder / REPORT).is_symlink()
    assert run.report()["verdict"] is None
    assert (folder / "target").read_text(encoding="utf-8") == "untouched"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_files_that_two_options_name(folder: Path, workers: tuple[str, ...]) -> None:
    """All such pairs are told before any test, and no file has changed, or is new."""
    for name in ("h.db", "known.yaml"):
        (folder / name).write_text("an earlier one", encoding="utf-8")
    (folder / "here").symlink_to(".")
    before = sorted(folder.iterdir())
    run = run_pytest(
        folder,
        *workers,
        "--failure-taxonomy-history=h.db",
        "--failure-taxonomy-html=./sub/../h.db",
        "--failure-taxonomy-junit=here/known.yaml",
        "--failure-taxonomy-known=known.yaml",
        "--junitxml=out.json",
        f"{TO}=here/out.json",
        plugins=("xdist",),
    )
    assert run.status == 4
    own = "--failure-taxonomy-"
    told = [line.removeprefix("ERROR: ") for line in run.stderr.splitlines() if line]
    expected = [
        (f"{TO} and --junitxml", "out.json"),
        (f"{own}history and {own}html", "h.db"),
        (f"{own}known and {own}junit", "here/known.yaml"),
    ]
    for names, name in expected:
        assert f"{names} both name {folder / name}; give each its own file" in told
    assert sorted(folder.iterdir()) == before
    assert (folder / "h.db").read_text("utf-8") == "an earlier one"
    assert (folder / "known.yaml").read_text("utf-8") == "an earlier one"


# Values that are none.


@pytest.mark.parametrize(
    ("ini", "args", "words"),
    [
        pytest.param(
            "failure_taxonomy = maybe",
            (),
            (
                "ini value failure_taxonomy: invalid truth value 'maybe'; give true or false",
            ),
            id="switch",
        ),
        pytest.param(
            "failure_taxonomy_strict_baseline = 2.5",
            (),
            ("ini value failure_taxonomy_strict_baseline: invalid truth value '2.5'",),
            id="strict-baseline",
        ),
        pytest.param(
            "failure_taxonomy_stage = build",
            (),
            (
                "ini value failure_taxonomy_stage: 'build' is unknown; give one of git_clone, ",
            ),
            id="stage",
        ),
        pytest.param(
            "",
            ("--failure-taxonomy-stage=build",),
            ("--failure-taxonomy-stage: 'build' is unknown; give one of git_clone, ",),
            id="stage-option",
        ),
        pytest.param(
            "failure_taxonomy_stage = Setup",
            (),
            ("failure_taxonomy_stage: 'Setup' is unknown",),
            id="stage-in-capitals",
        ),
        pytest.param(
            "",
            (STRICT,),
            (
                f"{STRICT} contradicts the stage final_test",
                "=baseline_run with it or leave",
            ),
            id="strict-default-stage",
        ),
        pytest.param(
            "failure_taxonomy_stage = setup",
            (STRICT,),
            (f"{STRICT} contradicts the stage setup",),
            id="strict-other-stage",
        ),
        pytest.param(
            "failure_taxonomy_stage = x\nfailure_taxonomy_strict_baseline = z",
            (),
            ("'x' is unknown", "invalid truth value 'z'"),
            id="several",
        ),
    ],
)
def test_values_that_are_none(
    folder: Path, ini: str, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """All of them are told before any test, one a line, and the report is no earlier run's."""
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n", encoding="utf-8")
    (folder / REPORT).write_text("an earlier run's", encoding="utf-8")
    run = run_pytest(folder, *args)
    assert run.status == 4
    assert not (folder / "it_ran").exists()
    _, said = run.stderr.split("ERROR: ")
    told = re.split("=+ why this run failed", said)[0]
    for word in words:
        assert word in told
    report = run.report()
    assert "usage.error" in [held["kind"] for held in report["reasons"]]
    assert report["internal_errors"][0]["message"] == told.strip()


@pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="TOML's own types are new in pytest 9"
)
@pytest.mark.parametrize(
    "ini",
    [
        'failure_taxonomy = "true"',
        "failure_taxonomy_stage = 3",
        "failure_taxonomy_report = true",
    ],
)
def test_values_of_a_wrong_type(folder: Path, ini: str) -> None:
    """In a file with types of its own, a value of another type is named."""
    (folder / "pytest.ini").unlink()
    (folder / "pyproject.toml").write_text(f"[tool.pytest]\n{ini}\n", encoding="utf-8")
    run = run_pytest(folder)
    assert run.status == 4
    name = ini.partition(" ")[0]
    assert f"ERROR: ini value {name}: " in run.stderr
    assert "Traceback" not in run.stderr
    assert run.report()["verdict"]["kind"] == "usage.error"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param(
            ("--failure-taxonomy=yes",), "ignored explicit argument 'yes'", id="flag"
        ),
        pytest.param((TO,), "expected one argument", id="path-missing"),
        pytest.param(
            ("--failure-taxonomy-stage",), "expected one argument", id="stage-missing"
        ),
        pytest.param(
            ("--failure-taxonomy-repor=r.json",), "unrecognized arguments", id="typo"
        ),
    ],
)
def test_options_that_pytest_refuses(
    folder: Path, args: tuple[str, ...], words: str
) -> None:
    """What argparse refuses is a usage error like any other, and has a report."""
    (folder / REPORT).write_text("an earlier run's", encoding="utf-8")
    run = run_pytest(folder, *args)
    assert run.status == 4
    assert words in run.stderr
    assert "Traceback" not in run.stderr
    report = run.report()
    assert report["verdict"]["kind"] == "usage.error"
    assert words in report["internal_errors"][0]["message"]
    assert "[INTERNAL_ERROR usage.error]\n" in run.stderr


def test_an_unknown_stage_is_refused_with_the_option_off(folder: Path) -> None:
    """One line says so, and no test runs."""
    run = run_pytest(folder, "--failure-taxonomy-stage=build", switch=())
    assert run.status == 4
    assert not (folder / "it_ran").exists()
    (line,) = (line for line in run.stderr.splitlines() if line)
    assert line.startswith(
        "ERROR: --failure-taxonomy-stage: 'build' is unknown; give one of "
    )


# Places that can't be written.

WITHOUT_PRIVILEGES: Final = """
import ctypes, os, sys
for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Execute a command for which the permissions of files hold, even where it is root's."""


@pytest.fixture
def launcher(tmp_path: Path) -> list[str]:
    """Return a command before a command, so that a folder's mode binds the child."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    command: list[str] = []
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command = [sys.executable, "-c", WITHOUT_PRIVILEGES]
    try_it = f"open({str(locked / 'file')!r}, 'w')"
    probe = [*command, sys.executable, "-c", try_it]
    if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
        pytest.skip("permissions of folders don't bind this user")
    return command


@pytest.mark.slow
def test_a_named_folder_that_can_not_be_written(
    folder: Path, launcher: list[str], tmp_path: Path
) -> None:
    """A path that the user has chosen is taken seriously: no run without its report."""
    path = tmp_path / "locked" / "r.json"
    run = run_pytest(folder, f"{TO}={path}", launcher=launcher)
    assert_refused(
        run, f"{TO}: {path} can't be written: Permission denied; give a path in a "
    )


@pytest.mark.slow
def test_a_named_ini_folder_that_can_not_be_written(
    folder: Path, launcher: list[str], tmp_path: Path
) -> None:
    """A path in the configuration is as good as one on the command line."""
    path = tmp_path / "locked" / "sub" / "r.json"
    ini = f"[pytest]\nfailure_taxonomy_report = {path}\n"
    (folder / "pytest.ini").write_text(ini, encoding="utf-8")
    run = run_pytest(folder, switch=(), launcher=launcher)
    assert_refused(run, f"{path} can't be written: Permission denied")


@pytest.mark.slow
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
def test_a_default_folder_that_can_not_be_written(
    folder: Path, launcher: list[str], tmp_path: Path, is_failing: bool
) -> None:
    """Nobody chose the folder, so the run goes on; the report's line says where it is, and why."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (folder / "test_it.py").write_text(
        f"def test_it():\n    assert {not is_failing}\n", "utf-8"
    )
    folder.chmod(0o555)
    run = run_pytest(folder, launcher=launcher, env={"TMPDIR": str(temporary)})
    assert run.status == int(is_failing)
    (written,) = temporary.iterdir()
    assert re.fullmatch("failure-report[.][0-9a-f]{32}[.]json", written.name)
    assert (run.report(written)["verdict"] is not None) is is_failing
    assert run.tail[-1].endswith(f"report: {written} ({folder} can't be written)")
    assert run.stderr == ""
    assert not (folder / REPORT).exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "default"])
def test_a_folder_that_turns_read_only(
    folder: Path, launcher: list[str], tmp_path: Path, named: bool, is_failing: bool
) -> None:
    """The report is in the temporary folder, which a line says, even with `-q`; what the run has
    begun can be finalized.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    test = f"import os\n\ndef test_it():\n    os.chmod('.', 0o555)\n    assert {not is_failing}\n"
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    switch = f"{TO}={REPORT}" if named else "--failure-taxonomy"
    run = run_pytest(
        folder,
        "-q",
        switch=(switch,),
        launcher=launcher,
        env={"TMPDIR": str(temporary)},
    )
    folder.chmod(0o755)
    assert run.status == int(is_failing)
    (written,) = temporary.iterdir()
    path = folder / REPORT
    assert (
        run.tail[-1]
        == f"report: {written} ({path} can't be written: Permission denied)"
    )
    assert run.stderr == ""
    assert (run.report(written)["verdict"] is not None) is is_failing
    assert run.report(completeness="running")["verdict"]["kind"] == "process.vanished"
    assert finalize(path) == int(is_failing)
    report = run.report(completeness="reconstructed")
    assert (report["verdict"] is not None) is is_failing
    assert [each.name for each in folder.iterdir() if each.name.startswith(".")] == []


def finalize(report: Path) -> int:
    """Have a report completed; return the exit code of that."""
    command = [sys.executable, "-m", "pytest_failure_taxonomy", "finalize", str(report)]
    return subprocess.run(command, check=False, capture_output=True).returncode


# Files that can't grow.

LIMIT_FILES: Final = "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))"
LAUNCH_LIMITED: Final = (
    f"import os, resource, sys\n{LIMIT_FILES}\nos.execv(sys.argv[1], sys.argv[1:])"
)


@posix_only
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=["", "quiet"])
def test_no_room_at_the_end(
    folder: Path, is_failing: bool, quiet: tuple[str, ...]
) -> None:
    """The exit status stands, the verdict is shown, and a line says what became of the report."""
    test = f"import resource\n\ndef test_it():\n    {LIMIT_FILES}\n    assert {not is_failing}\n"
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    run = run_pytest(folder, *quiet)
    assert run.status == int(is_failing)
    assert (
        run.tail[-1]
        == f"report: could not be written to {folder / REPORT}: File too large"
    )
    shown = "[TESTS_FAILED test.failed]" if is_failing else "no failure (1 passed)"
    assert (shown in "\n".join(run.tail)) is (is_failing or not quiet)
    assert run.stderr == ""
    assert run.report(completeness="running")["exit"]["code"] is None
    assert [path.name for path in folder.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.slow
@posix_only
@pytest.mark.parametrize("named", [True, False], ids=["named", "default"])
def test_no_room_at_the_start(folder: Path, named: bool) -> None:
    """A path of the user's is refused; else the run goes on and says that there is no report."""
    switch = f"{TO}=r.json" if named else "--failure-taxonomy"
    launcher = [sys.executable, "-c", LAUNCH_LIMITED]
    for name in ("r.json", REPORT):
        (folder / name).write_text("an earlier run's", encoding="utf-8")
    run = run_pytest(folder, "-s", switch=(switch,), launcher=launcher)
    if named:
        assert_refused(
            run, f"{TO}: {folder / 'r.json'} can't be written: File too large"
        )
    else:
        assert run.status == 0
        assert "report: could not be written to " in run.tail[-1]
        assert run.tail[-1].endswith(": File too large")
    assert run.stderr == "" or named
    # It can't be replaced, so it is gone: nobody must take it for this run's.
    assert [path.name for path in folder.glob("*.json")] == [
        REPORT if named else "r.json"
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of 64 KiB, which has no room for a reserve."""
    with mounted(tmp_path / "disk", "64k") as place:
        yield place


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of 256 KiB."""
    with mounted(tmp_path / "disk", "256k") as place:
        yield place


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Path]:
    """Make a folder that is a file system of its own."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    try:
        done = subprocess.run(mount, check=False, capture_output=True, timeout=10)
    except OSError:
        pytest.skip("there is no command to mount a file system")
    if done.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield place
    finally:
        # Lazily: a watcher that is about to end may still have the record's files open.
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=10)


UNWATCHED: Final = ("-o", "failure_taxonomy_watcher=false")

FILLS_THE_DISK: Final = """
import os

def fill(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(file, b"x" * 512)
    except OSError:
        os.close(file)
"""


def write_filling_test(folder: Path, disk: Path, *then: str) -> None:
    """Write a test that fills a disk and then does something."""
    lines = "".join(f"    {line}\n" for line in (f"fill({str(disk / 'big')!r})", *then))
    test = f"{FILLS_THE_DISK}\ndef test_it():\n{lines}"
    (folder / "test_it.py").write_text(test, encoding="utf-8")


@pytest.mark.linux("no room is kept on the disk elsewhere")
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
def test_a_full_disk_at_the_end(folder: Path, disk: Path, is_failing: bool) -> None:
    """The report is written into the room that was kept for it, and nobody need know."""
    write_filling_test(folder, disk, f"assert {not is_failing}")
    path = disk / "r.json"
    run = run_pytest(folder, f"{TO}={path}")
    assert run.status == int(is_failing)
    assert run.tail[-1].endswith(f"report: {path}")
    assert (run.report(path)["verdict"] is not None) is is_failing
    assert not extensions_of(run.report(path))
    assert sorted(each.name for each in disk.iterdir()) == ["big", "r.json"]
    (folder / "plain").touch()
    assert path.stat().st_mode == (folder / "plain").stat().st_mode


@pytest.mark.slow
@pytest.mark.linux("no room is kept on the disk elsewhere")
def test_a_full_disk_at_a_death(folder: Path, disk: Path) -> None:
    """`finalize` uses that room, too."""
    write_filling_test(folder, disk, "os._exit(7)")
    path = disk / "r.json"
    run = run_pytest(folder, f"{TO}={path}", *UNWATCHED)
    assert run.status == 7
    assert (
        run.report(path, completeness="running")["verdict"]["kind"]
        == "process.vanished"
    )
    assert finalize(path) == 1
    assert run.report(path, completeness="reconstructed")["in_flight"]
    assert sorted(each.name for each in disk.iterdir()) == ["big", "r.json"]


def write_large_extension(folder: Path) -> None:
    """Write a conftest.py whose hook makes the report larger than the room that is kept for it."""
    conftest = "def pytest_failure_taxonomy_report(report):\n    return {'large': {'text': 'x' * 70_000}}"
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
def test_a_full_disk_and_no_room_kept(
    folder: Path, small_disk: Path, tmp_path: Path, is_failing: bool
) -> None:
    """The report goes to the temporary folder, and a line says so. What stands on the disk is the
    report that the run has begun, and its record, until there is room and it is finalized.
    """
    write_large_extension(folder)
    (tmp_path / "temporary").mkdir()
    write_filling_test(folder, small_disk, f"assert {not is_failing}")
    path = small_disk / "r.json"
    run = run_pytest(
        folder, f"{TO}={path}", *UNWATCHED, env={"TMPDIR": str(tmp_path / "temporary")}
    )
    assert run.status == int(is_failing)
    (written,) = (tmp_path / "temporary").iterdir()
    why = f"{path} can't be written: No space left on device"
    assert run.tail[-1] == f"report: {written} ({why})"
    assert (run.report(written)["verdict"] is not None) is is_failing
    assert run.report(written)["extensions"]["large"]
    assert (
        run.report(path, completeness="running")["verdict"]["kind"]
        == "process.vanished"
    )
    (small_disk / "big").unlink()
    assert finalize(path) == int(is_failing)  # without what the hook has added
    assert (
        run.report(path, completeness="reconstructed")["extensions"].get("large")
        is None
    )
    assert sorted(each.name for each in small_disk.iterdir()) == ["r.json"]


@pytest.mark.slow
@pytest.mark.linux("no room is kept on the disk elsewhere")
@pytest.mark.parametrize("is_failing", [False, True], ids=["passing", "failing"])
def test_a_full_disk_and_a_large_report(
    folder: Path, disk: Path, tmp_path: Path, is_failing: bool
) -> None:
    """It goes to the temporary folder whole, and what fits of it to its place; a line says so."""
    write_large_extension(folder)
    (tmp_path / "temporary").mkdir()
    write_filling_test(folder, disk, f"assert {not is_failing}")
    path = disk / "r.json"
    run = run_pytest(
        folder, f"{TO}={path}", env={"TMPDIR": str(tmp_path / "temporary")}
    )
    assert run.status == int(is_failing)
    (written,) = (tmp_path / "temporary").iterdir()
    why = f"{path} has room for a part of it: No space left on device"
    assert run.tail[-1] == f"report: {written} ({why})"
    assert run.report(written)["extensions"]["large"]
    assert run.report(path)["faults"] == [
        "there was no room on the disk for the whole report; it lacks large"
    ]
    assert (run.report(path)["verdict"] is not None) is is_failing
    assert finalize(path) == int(is_failing)
    assert sorted(each.name for each in disk.iterdir()) == ["big", "r.json"]


@pytest.mark.slow
def test_a_full_disk_and_a_full_temporary_folder(
    folder: Path, small_disk: Path
) -> None:
    """Where the report can't be anywhere, a line says so."""
    (small_disk / "temporary").mkdir()
    write_filling_test(folder, small_disk)
    path = small_disk / "r.json"
    run = run_pytest(
        folder, f"{TO}={path}", env={"TMPDIR": str(small_disk / "temporary")}
    )
    assert run.status == 0
    assert (
        run.tail[-1]
        == f"report: could not be written to {path}: No space left on device"
    )
    assert (
        run.report(path, completeness="running")["verdict"]["kind"]
        == "process.vanished"
    )
    (small_disk / "big").unlink()
    assert finalize(path) == 0
    run.report(path, completeness="reconstructed")


def test_a_full_disk_at_the_start(
    folder: Path, small_disk: Path, tmp_path: Path
) -> None:
    """A path there is refused; a run in a folder there goes on, and reports elsewhere."""
    (small_disk / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (small_disk / "test_it.py").write_text(
        "def test_it():\n    pass\n", encoding="utf-8"
    )
    subprocess.run(
        [sys.executable, "-c", f"{FILLS_THE_DISK}\nfill('big')"],
        cwd=small_disk,
        check=True,
    )
    refused = run_pytest(folder, f"{TO}={small_disk / 'r.json'}")
    assert_refused(refused, "r.json can't be written: No space left on device")
    run = run_pytest(small_disk, env={"TMPDIR": str(tmp_path)})
    assert run.status == 0
    (written,) = tmp_path.glob("failure-report.*.json")
    assert run.tail[-1].endswith(f"report: {written} ({small_disk} can't be written)")
    assert run.report(written)["verdict"] is None


def test_the_root_of_the_file_system(folder: Path) -> None:
    """The one path that has no name is refused like any other folder."""
    (folder / "test_it.py").write_text("def test_it(): pass\n", encoding="utf-8")
    assert_refused(run_pytest(folder, f"{TO}={os.sep}"), "/ is a directory")


# Places that change.


@pytest.mark.parametrize(
    "does",
    [
        pytest.param("shutil.rmtree('out')", id="deleted"),
        pytest.param("os.rename('out', 'moved')", id="moved"),
        pytest.param("os.remove('out/r.json')", id="report-deleted"),
        pytest.param("open('out/r.json', 'w').close()", id="report-emptied"),
    ],
)
def test_a_folder_that_a_test_takes_away_is_made_again(folder: Path, does: str) -> None:
    """The report is at its path at the end, whatever tests have done to it and to its folder."""
    (folder / "test_it.py").write_text(
        f"import os, shutil\n\ndef test_it():\n    {does}\n", encoding="utf-8"
    )
    run = run_pytest(folder, f"{TO}=out/r.json")
    assert run.status == 0
    assert run.report("out/r.json")["summary"]["passed"] == 1
    assert list((folder / "out").iterdir()) == [folder / "out" / "r.json"]


def test_a_folder_that_becomes_a_file(folder: Path, tmp_path: Path) -> None:
    """Where the report can't be at the end, a line says where it is and why."""
    test = "import shutil\n\ndef test_it():\n    shutil.rmtree('out')\n    open('out', 'w').close()\n"
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    run = run_pytest(folder, f"{TO}=out/r.json", env={"TMPDIR": str(tmp_path)})
    assert run.status == 0
    (written,) = tmp_path.glob("r.*.json")
    path = folder / "out" / "r.json"
    assert (
        run.tail[-1] == f"report: {written} ({path} can't be written: Not a directory)"
    )
    assert run.report(written)["verdict"] is None
