"""Which commands are taken for a pytest, and how their stdout is found."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from pytest_failure_taxonomy.survive.report_without_plugin import (
    OutputFile,
    is_pytest,
    is_pytest_itself,
)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -x", True),
        ("/usr/bin/pytest", True),
        ("py.test", True),
        ("python -m pytest tests", True),
        ("python3.11 -X dev -m pytest", True),
        ("coverage run -m pytest", True),
        ("env CI=1 pytest", True),
        ("timeout 60 pytest", True),
        ("uv run pytest -q", True),
        ("uv run --frozen python -m pytest", True),
        ("poetry run pytest", True),
        ("bundle exec pytest", True),
        ("python -m build", False),
        ("python -m", False),
        ("pip install pytest", False),
        ("uv add pytest", False),
        ("grep -r pytest .", False),
        ("sh -c 'pytest -x'", False),
        ("make test", False),
    ],
)
def test_a_pytest_is_known_by_its_command(command: str, expected: bool) -> None:
    """The words of a command tell whether it runs pytest; that one names pytest is not enough."""
    assert is_pytest(shlex.split(command)) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -x", True),
        ("./bin/py.test", True),
        ("python3.11 -X dev -m pytest", True),
        ("env CI=1 pytest", False),
        ("timeout 60 python -m pytest", False),
        ("uv run pytest", False),
        ("python -m build", False),
    ],
)
def test_nothing_comes_between_a_pytest_and_the_terminal(
    command: str, expected: bool
) -> None:
    """Unless another program stands there already."""
    assert is_pytest_itself(shlex.split(command)) is expected


@pytest.mark.parametrize("appends", [True, False])
def test_output_is_read_from_where_it_began(tmp_path: Path, appends: bool) -> None:
    """What stood in the file before is not the command's."""
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    descriptor = os.open(path, os.O_WRONLY | (os.O_APPEND if appends else 0))
    try:
        if not appends:
            os.lseek(descriptor, 0, os.SEEK_END)
        output = OutputFile(descriptor)
        os.write(descriptor, b"after\n")
        file = output.open()
        if file is None:
            pytest.skip("needs /proc")
        with file:
            assert file.read() == b"after\n"
    finally:
        os.close(descriptor)


def test_what_is_no_file_is_not_read() -> None:
    """A pipe and a closed descriptor are left alone."""
    reading, writing = os.pipe()
    assert OutputFile(writing).open() is None
    os.close(reading)
    os.close(writing)
    assert OutputFile(writing).open() is None
