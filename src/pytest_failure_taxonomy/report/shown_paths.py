"""Paths and node ids as a user can use them where they stand.

A report's are relative to the root directory, so that they are the same wherever pytest was
started. pytest prints them relative to where it was started, and so do we.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

_PLACE: Final = (
    r"(?P<before> \(| at )(?P<path>[^()\n]+?)(?P<line>:\d{1,9}|: [^\s()]+)?"
    r"(?:, from (?P<loaded>[^()\n]+?))?(?P<hook>, in \w+)?(?P<after>\)?)$"
)
"""How the places are written that we put at the end of a text, by `with_place` and in titles."""
_SETTING: Final = r"(?<= in )(?P<path>[^()\n]+)(?=\)$)"
"""How a text of ours ends that names the setting of a file: `(from addopts in pytest.ini)`."""
_IMPORTER: Final = r"^(?P<path>[^()\n]+?)(?= imports [\w.]+, which )"
"""How a text of ours begins that says who imports what is missing."""


class ShownPaths:
    """Turn a report's paths and node ids into those that are shown."""

    def __init__(self, rootdir: str, started_in: str) -> None:
        """Remember both folders.

        Args:
            rootdir: what the report's paths are relative to; absolute.
            started_in: what the shown ones are to be relative to; absolute.
        """
        self._rootdir = rootdir
        self._started_in = started_in
        self._is_same = rootdir == started_in

    def path(self, path: str) -> str:
        """Return a path, relative to where pytest was started if that can be, with slashes.

        One outside of the root directory is absolute in a report, and stays so unless it lies where
        pytest was started. On Windows two drives have no common folder: then it is absolute, too.
        """
        if self._is_same or not path or path.startswith("<"):
            return path
        whole = os.path.normpath(os.path.join(self._rootdir, path))
        try:
            shown = os.path.relpath(whole, self._started_in)
        except ValueError:  # another drive
            return whole.replace(os.sep, "/")
        if os.path.isabs(path) and shown.startswith(os.pardir):
            return path
        return shown.replace(os.sep, "/")

    def nodeid(self, nodeid: str) -> str:
        """Return a node id with its file's path as it is shown."""
        path, *names = nodeid.split("::")
        return "::".join((self.path(path), *names))

    def words(self, text: str, named: Iterable[str] = ()) -> str:
        """Return a text of ours with the paths in it as they are shown.

        Those are the node ids and paths that the report itself gives for it, and the place or the
        configuration file at the end of its first line, if there is such a file.

        Args:
            text: one line or a few.
            named: node ids and paths of the report that the text may name.
        """
        if self._is_same:
            return text
        first, newline, rest = text.partition("\n")
        known = {path for each in named if (path := each.partition("::")[0])}
        for pattern in (_PLACE, _SETTING, _IMPORTER):
            found = re.search(pattern, first)  # compiled when needed: most runs show no such text
            if found is not None:
                known.update(each for each in found.groupdict().values() if self._is_file(each))
        if known:
            longest_first = sorted(map(re.escape, known), key=len, reverse=True)
            names = re.compile(rf"(?<![\w./\\-])(?:{'|'.join(longest_first)})(?![\w/\\-]|\.\w)")
            first = names.sub(lambda match: self.path(match[0]), first)
        return f"{first}{newline}{rest}"

    def _is_file(self, path: str | None) -> bool:
        return bool(path) and os.path.isfile(os.path.join(self._rootdir, str(path)))


AS_REPORTED: Final = ShownPaths("", "")
"""Shows paths as they stand in the report."""
