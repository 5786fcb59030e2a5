"""`failure-taxonomy convert` on reports that can't be used, and on places that can't be written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.write import encode
from tests.helpers.past_runs import report_as_json

REPORT = encode(decode_report(report_as_json(1, test_a="failed", test_b="passed")))


def newer() -> bytes:
    """Return a report of a version that does not exist yet."""
    return REPORT.replace(b'"schema_version": "1.3"', b'"schema_version": "2.0"')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder with a report."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.json").write_bytes(REPORT)
    return tmp_path


@pytest.mark.breaks_reports
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (REPORT[: len(REPORT) // 2], "bad.json"),
        (b"", "bad.json"),
        (b"[1, 2, 3]", "bad.json"),
        (b'{"name": "something else"}', "bad.json"),
        (newer(), "2.0"),
        (b"[" * 100_000, "bad.json"),
        (b"\xff\xfe\x00", "bad.json"),
        (REPORT.replace(b"0.5", b"NaN"), "bad.json"),
    ],
    ids=["truncated", "empty", "list", "foreign", "newer", "deep", "binary", "NaN"],
)
def test_reports_that_can_not_be_used(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    """The first line names the file, the exit code is 2, and nothing is written."""
    (folder / "bad.json").write_bytes(content)
    assert main(["convert", "bad.json", "--to", "junit", "-o", "out.xml"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("failure-taxonomy: bad.json: ")
    assert words in told.err
    assert told.out == ""
    assert not (folder / "out.xml").exists()


def test_a_huge_file_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No report is that large."""
    with (folder / "huge.json").open("wb") as file:
        file.write(b'{"generator":')
        file.truncate(500 << 20)
    assert main(["convert", "huge.json", "--to", "junit"]) == 2
    assert "huge.json: " in capsys.readouterr().err


def test_a_missing_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a folder in its place."""
    for name in ("missing.json", str(folder)):
        assert main(["convert", name, "--to", "junit"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def make_folder(path: Path) -> None:
    """Make a folder where the output should go."""
    path.mkdir()


def make_pipe(path: Path) -> None:
    """Make a pipe where the output should go."""
    os.mkfifo(path)


def make_link(path: Path) -> None:
    """Make a link to a file that is not to be written."""
    path.symlink_to(path.with_name("target"))


@pytest.mark.posix("pipes and links")
@pytest.mark.parametrize("make", [make_folder, make_pipe, make_link])
def test_places_that_can_not_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None]
) -> None:
    """They stay what they are."""
    target, out = folder / "target", folder / "out.xml"
    target.write_text("foreign")
    make(out)
    assert main(["convert", "r.json", "--to", "junit", "-o", "out.xml"]) == 2
    assert capsys.readouterr().err.startswith("failure-taxonomy: -o: ")
    assert target.read_text() == "foreign"
    assert sorted(path.name for path in folder.iterdir()) == [
        "out.xml",
        "r.json",
        "target",
    ]


@pytest.mark.parametrize(
    "args", [("--to", "markdown"), ("--to", "html"), ("--from", "ctrf")]
)
def test_the_input_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    """Whatever the spelling of its path."""
    for output in ("r.json", "./r.json", str(folder / "r.json")):
        assert main(["convert", "r.json", *args, "-o", output]) == 2
        assert capsys.readouterr().err == (
            f"failure-taxonomy: -o: {output} is the file that is converted; give another file\n"
        )
        assert (folder / "r.json").read_bytes() == REPORT


@pytest.mark.posix("links")
def test_the_input_is_not_written_over_through_a_link(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either of the two may be the link, and it may be a hard one."""
    (folder / "soft.json").symlink_to("r.json")
    (folder / "hard.json").hardlink_to("r.json")
    for given, output in (
        ("r.json", "soft.json"),
        ("soft.json", "r.json"),
        ("r.json", "hard.json"),
    ):
        assert main(["convert", given, "--to", "markdown", "-o", output]) == 2
        assert (
            "is the file that is converted; give another file"
            in capsys.readouterr().err
        )
        assert (folder / "r.json").read_bytes() == REPORT


@pytest.mark.posix("permissions")
@pytest.mark.skipif(
    os.name == "posix" and os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_without_permission(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the path."""
    (folder / "closed").mkdir(mode=0o500)
    assert main(["convert", "r.json", "--to", "junit", "-o", "closed/out.xml"]) == 2
    assert "closed/out.xml can't be written" in capsys.readouterr().err


def test_a_report_of_an_older_version(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports that were written before are converted, too."""
    older = Path(__file__).parents[1] / "data" / "reports" / "full-1.0.json"
    (folder / "old.json").write_bytes(older.read_bytes())
    assert main(["convert", "old.json", "--to", "junit"]) == 0
    assert capsys.readouterr().out.startswith("<?xml")
