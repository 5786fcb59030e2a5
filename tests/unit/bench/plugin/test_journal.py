"""What xdist's workers note for each other and for the controller."""

from __future__ import annotations

from pathlib import Path

from pytest_failure_taxonomy.bench.plugin.storage import Journal, Source


def test_workers_see_what_others_started(tmp_path: Path) -> None:
    """A worker knows the cases of the others, the controller those of all."""
    folder = tmp_path / "journal"
    first, second = Journal(folder, "gw0"), Journal(folder, "gw1")
    first.note_start("bench/a/cases/x.yaml::one")
    second.note_start("bench/a/cases/x.yaml::two")
    assert first.started_elsewhere() == {"bench/a/cases/x.yaml::two"}
    assert Journal(folder, "controller").started() == {
        "bench/a/cases/x.yaml::one",
        "bench/a/cases/x.yaml::two",
    }


def test_scheduled_cases_are_given_once(tmp_path: Path) -> None:
    """All workers collect the same tests, and each case counts once."""
    folder = tmp_path / "journal"
    source = Source("/bench/a", "test_it.py::test_it")
    for worker in ("gw0", "gw1"):
        journal = Journal(folder, worker)
        journal.note_schedule(source, "one")
        journal.note_schedule(source, "two")
    assert Journal(folder, "controller").scheduled() == [(source, "one"), (source, "two")]


def test_line_that_was_cut_off_says_nothing(tmp_path: Path) -> None:
    """A worker killed in the middle of a line leaves the lines before it."""
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / "gw0.journal").write_bytes(b"started\ta::one\nstarted\ta::tw")
    assert Journal(folder, "gw1").started_elsewhere() == {"a::one"}


def test_folder_that_cant_be_made_costs_no_run(tmp_path: Path) -> None:
    """Without a journal there is nothing to read and nothing raised."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    journal = Journal(blocked / "journal", "gw0")
    journal.begin()
    journal.note_start("a::one")
    assert journal.started() == frozenset()
    journal.remove()


def test_nothing_is_made_before_something_is_noted(tmp_path: Path) -> None:
    """A run under xdist without a task class leaves nothing behind."""
    folder = tmp_path / "journal"
    journal = Journal(folder, "gw0")
    assert journal.started_elsewhere() == frozenset()
    assert not folder.exists()
    journal.begin()
    assert folder.exists()
    journal.remove()
    assert not folder.exists()


def test_what_is_not_ours_in_the_folder_stays(tmp_path: Path) -> None:
    """Files of other names, folders and what links point to are neither read nor removed; a line
    of another hand is left out.
    """
    folder, loot = tmp_path / "journal", tmp_path / "loot"
    journal = Journal(folder, "gw0")
    journal.note_start("a::one")
    with (folder / "gw0.journal").open("a") as file:
        file.write("graded\tx\ngraded\tx\ty\tz\tno json\nstarted\n")
    (folder / "notes.txt").write_text("started\ta::two\n")
    loot.mkdir()
    (loot / "gw1.journal").write_text("started\ta::three\n")
    (folder / "gw1.journal").symlink_to(loot / "gw1.journal")
    controller = Journal(folder, "controller")
    assert controller.started() == {"a::one"}
    controller.remove()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert [path.name for path in loot.iterdir()] == ["gw1.journal"]
    (folder / "notes.txt").unlink()
    folder.rmdir()
    folder.symlink_to(loot)
    controller.remove()
    assert [path.name for path in loot.iterdir()] == ["gw1.journal"]
