from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.isolate import child, processes, wire
from pytest_failure_taxonomy.bench.isolate.environment import rubric_environment
from pytest_failure_taxonomy.bench.isolate.processes import how_it_ended

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([wire.READY, wire.ANSWERED, wire.TIMED_OUT]),
        st.integers(0, 2**32 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.binary(max_size=40),
    )
)


@given(MESSAGES, st.integers(1, 30))
def test_messages_come_out_as_they_went_in(
    messages: list[tuple[bytes, int, int, bytes]], step: int
) -> None:
    """However a stream is cut, its messages are the same."""
    stream = b"".join(
        wire.REPLY.pack(what, number, status, len(body)) + body
        for what, number, status, body in messages
    )
    inbox = wire.Inbox(wire.REPLY)
    parts = [stream[at : at + step] for at in range(0, len(stream), step)]
    found = [(*head, body) for part in parts for head, body in inbox.feed(part)]
    assert found == messages


@given(st.lists(st.binary(max_size=wire.MAX_PRINTED_BYTES // 2), max_size=6))
def test_what_is_printed_is_kept_up_to_a_limit(pieces: list[bytes]) -> None:
    """The first bytes are kept, the others counted."""
    printed = child.Printed()
    assert [printed.add(piece) for piece in pieces] == [len(piece) for piece in pieces]
    whole = b"".join(pieces)
    dropped = max(0, len(whole) - wire.MAX_PRINTED_BYTES)
    kept = whole[: wire.MAX_PRINTED_BYTES]
    note = f"\n({dropped:,} more bytes were dropped)\n".encode() if dropped else b""
    assert printed.take() == kept + note


def test_both_streams_are_captured_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, bytes and what no encoding holds come in the order in which they were printed."""
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, io.StringIO())
    printed = child.capture()
    sys.stdout.write("a\ud800")
    sys.stderr.write("b")
    sys.stdout.buffer.write(b"c")
    assert (sys.stdout.fileno(), sys.stderr.fileno()) == (1, 2)
    assert printed.take() == b"a\\ud800bc"


def test_the_environment_of_a_rubric_has_no_secrets() -> None:
    """What Python and the system need is kept, the rest is not; places are private."""
    given_ = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "ANTHROPIC_API_KEY": "x",
        "GITHUB_TOKEN": "x",
        "PYTEST_CURRENT_TEST": "x",
        "HOME": "/home/me",
        "TMPDIR": "/tmp",  # noqa: S108 - a variable's value
        "PYTHONPATH": "src",
        "PYTHONSTARTUP": "x",
    }
    found = rubric_environment(given_, "/private/abc")
    found.pop("PYTHONUSERBASE", None)
    assert found == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "PYTHONPATH": os.path.abspath("src"),
        "HOME": "/private/abc",
        "USERPROFILE": "/private/abc",
        "TMPDIR": "/private/abc",
        "TEMP": "/private/abc",
        "TMP": "/private/abc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "FAILURE_TAXONOMY_ISOLATED": "abc",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")
@pytest.mark.parametrize(
    ("returncode", "expected"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-11, "was killed by SIGSEGV"),
        (-9, "was killed by SIGKILL"),
        (-60, "was killed by signal 60"),
    ],
)
def test_an_end_has_words(returncode: int, expected: str) -> None:
    """A signal is named where it has a name."""
    assert how_it_ended(returncode) == expected


def test_a_folder_is_removed_whatever_its_modes_are(tmp_path: Path) -> None:
    """A link is removed, not what it leads to."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    folder = tmp_path / "folder"
    (folder / "work" / "closed" / "inner").mkdir(parents=True)
    (folder / "work" / "link").symlink_to(kept)
    (folder / "work" / "closed").chmod(0)
    processes.remove_case_folder(str(folder))
    assert not folder.exists()
    assert (kept / "file").exists()


def test_a_folder_as_it_was_created_is_untouched(tmp_path: Path) -> None:
    """So another case may have it."""
    folder = tmp_path / "1"
    processes.create_case_folder(str(folder))
    assert processes.is_untouched(str(folder))
    with pytest.raises(FileExistsError):
        processes.create_case_folder(str(folder))
    processes.remove_case_folder(str(folder))
    assert not processes.is_untouched(str(folder))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "work" / "file").touch(),
        lambda folder: (folder / "work" / ".hidden").mkdir(),
        lambda folder: (folder / "beside").touch(),
        lambda folder: (folder / "work").chmod(0o500),
        lambda folder: folder.chmod(0o755),
        lambda folder: (folder / "work").rmdir(),
        lambda folder: (folder / "work").rename(folder / "job"),
        lambda folder: ((folder / "work").rmdir(), (folder / "work").symlink_to("/")),
        lambda folder: ((folder / "work").rmdir(), (folder / "work").touch()),
    ],
    ids=[
        "file",
        "hidden",
        "beside",
        "mode",
        "outer",
        "gone",
        "renamed",
        "link",
        "no-folder",
    ],
)
def test_a_folder_that_a_case_has_changed_is_not_untouched(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    """It is removed, and the next case gets a new one."""
    folder = tmp_path / "1"
    processes.create_case_folder(str(folder))
    change(folder)
    assert not processes.is_untouched(str(folder))
    processes.remove_case_folder(str(folder))
    assert not folder.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is Linux's /proc")
def test_children_are_found_in_both_ways() -> None:
    """Where the kernel keeps no list of children, all processes are looked at."""
    process_id = os.fork()
    if process_id == 0:
        while True:
            os.sched_yield()
    try:
        assert process_id in processes.children()
        assert process_id in processes._children_by_search()
    finally:
        processes.kill_and_wait(process_id)
    assert process_id not in processes.children()
