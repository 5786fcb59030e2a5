"""`failure-taxonomy init-agent`: tell coding agents how to run the tests of a project."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.cli.output import answer
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.report.write import make_folder
from pytest_failure_taxonomy.system.files import read_file, replace_file

_OURS: Final = re.compile(
    rb"<!-- failure-taxonomy: begin -->.*?<!-- failure-taxonomy: end -->", re.DOTALL
)
_AGENTS: Final = Path("AGENTS.md")


def init_agent(options: argparse.Namespace) -> int:
    """Write the skill, and write or print the section of `AGENTS.md`."""
    section = _packaged("agents_section.md")
    if options.agents_md:  # first: it is more likely to be refused
        _write(_AGENTS, section, appends=True)
    _write(options.path, _packaged("skill.md"), appends=False)
    if not options.agents_md:
        answer(f"for {_AGENTS}:\n\n{section.decode()}")
    return 0


def section_of_skill() -> str:
    """Return what the skill tells agents, without the lines that mark it as ours."""
    section: bytes = _OURS.findall(_packaged("skill.md"))[0]
    return "\n".join(section.decode().splitlines()[1:-1])


def _packaged(name: str) -> bytes:
    return files("pytest_failure_taxonomy.cli").joinpath(name).read_bytes()


def _write(path: Path, text: bytes, *, appends: bool) -> None:
    """Write a text that has a section of ours; of an earlier file only that section changes.

    Args:
        path: of the file, which is made with its folders.
        text: of a new file.
        appends: add the text to a file that has no section of ours, instead of refusing it.

    Raises:
        SettingsError: it can't be written, is a link or in one, or nothing in it is ours.
    """
    if any(part.is_symlink() for part in (path, *path.parents)):
        raise _refusal(path, "is a link, or in a linked folder")
    mode = None
    try:
        if path.exists():
            mode = path.stat().st_mode
            earlier = read_file(path, path.stat().st_size)
            text = _merge_section(path, earlier, text, appends=appends)
            if text == earlier:
                answer(f"{path}: nothing to change\n")
                return
        make_folder(path.parent)
        replace_file(path, text)
        if mode is not None:
            path.chmod(mode)
    except OSError as error:
        raise _refusal(path, f"can't be written: {error.strerror}") from error
    answer(f"{path}: written\n")


def _merge_section(path: Path, earlier: bytes, text: bytes, *, appends: bool) -> bytes:
    """Return an earlier file with our section, whose lines end as the file's do."""
    unix = earlier.replace(b"\r\n", b"")
    line_end = b"\n" if b"\n" in unix or unix == earlier else b"\r\n"
    text = text.replace(b"\n", line_end)
    if ours := _OURS.search(earlier):
        begin, end = ours.span()
        section: bytes = _OURS.findall(text)[0]
        return earlier[:begin] + section + earlier[end:]
    if not appends:
        raise _refusal(path, "has no section of ours")
    return earlier + line_end + text


def _refusal(path: Path, why: str) -> SettingsError:
    return SettingsError(
        f"init-agent: {path} {why}; move it away, or give another --path"
    )
