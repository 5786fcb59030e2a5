"""What xdist's workers note for the controller."""

from __future__ import annotations

from pathlib import Path

from pytest_failure_taxonomy.bench.plugin.storage import CasesOfTests, Source

IN_TEST = Source("/bench/a", "test_it.py::test_it")


def test_cases_are_given_once(tmp_path: Path) -> None:
    """All workers collect the same tests, and each case counts once."""
    folder = tmp_path / "journal"
    for journal in (CasesOfTests(folder), CasesOfTests(folder)):
        journal.note([(IN_TEST, "one"), (IN_TEST, "two")])
    assert CasesOfTests(folder).cases() == [(IN_TEST, "one"), (IN_TEST, "two")]


def test_line_that_was_cut_off_says_nothing(tmp_path: Path) -> None:
    """A worker killed in the middle of a line leaves the lines before it."""
    folder = tmp_path / "journal"
    CasesOfTests(folder).note([(IN_TEST, "one")])
    with (folder / "cases.journal").open("ab") as file:
        file.write(b"/bench/a\ttest_it.py::test_it\t\ttw")
    assert CasesOfTests(folder).cases() == [(IN_TEST, "one")]


def test_folder_that_cant_be_made_costs_no_run(tmp_path: Path) -> None:
    """Without a journal there is nothing to read and nothing raised."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    journal = CasesOfTests(blocked / "journal")
    journal.note([(IN_TEST, "one")])
    assert journal.cases() == []
    journal.remove()


def test_nothing_is_made_before_something_is_noted(tmp_path: Path) -> None:
    """A run under xdist without a task class leaves nothing behind."""
    folder = tmp_path / "journal"
    journal = CasesOfTests(folder)
    assert journal.cases() == []
    assert not folder.exists()
    journal.note([])
    assert folder.exists()
    journal.remove()
    assert not folder.exists()


def test_what_is_not_ours_in_the_folder_stays(tmp_path: Path) -> None:
    """Files of other names, folders and what links point to are neither read nor removed; a line
    of another hand is left out.
    """
    folder, loot = tmp_path / "journal", tmp_path / "loot"
    journal = CasesOfTests(folder)
    journal.note([(IN_TEST, "one")])
    with (folder / "cases.journal").open("a") as file:
        file.write("graded\tx\ngraded\tx\ty\tz\tno json\tat all\nstarted\n")
    (folder / "notes.txt").write_text("/bench/a\t\t\ttwo\n")
    loot.mkdir()
    (loot / "cases.journal").write_text("/bench/a\t\t\tthree\n")
    (folder / "gw1.journal").symlink_to(loot / "cases.journal")
    assert journal.cases() == [(IN_TEST, "one")]
    (folder / "cases.journal").unlink()
    (folder / "cases.journal").symlink_to(loot / "cases.journal")
    assert journal.cases() == []
    journal.note([(IN_TEST, "four")])
    journal.remove()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert [path.name for path in loot.iterdir()] == ["cases.journal"]
    assert (loot / "cases.journal").read_text() == "/bench/a\t\t\tthree\n"
    (folder / "notes.txt").unlink()
    folder.rmdir()
    folder.symlink_to(loot)
    journal.remove()
    assert [path.name for path in loot.iterdir()] == ["cases.journal"]
