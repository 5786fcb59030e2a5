"""The folders in which the systems of cases work: made anew for each call, kept on failure.

A system may leave anything in its workspace, such as links and files that can't be written. So no
link is followed, and only folders that have the name of a case are removed, in the folder of their
run, if that is still the one that was made.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.isolate.processes import remove_folder
from pytest_failure_taxonomy.bench.models import BenchCase, TaskClass, WorkspaceSettings
from pytest_failure_taxonomy.documents.problems import WrongError
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.process import ask_git

SECONDS_TO_MAKE: Final = 600.0
"""How long a copy or a checkout may take."""
_PREFIX: Final = "pytest-bench-workspaces-"
_SHIELD: Final = "pytest.ini"
_SHIELD_TEXT: Final = (
    b"# Keeps pytest in a workspace from the settings of the project around it.\n"
    b"[pytest]\n"
)
_OF_A_HOOK: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})
_GIT_OPTIONS: Final = ("-c", "protocol.version=2", "-c", "gc.auto=0")
_MAX_NAME: Final = 80


class WorkspaceError(Exception):
    """A workspace could not be made: the case has no score, and the system is not to blame."""

    charge_to = "environment"

    def __init__(self, message: str, failure_kind: str = "sandbox.failed") -> None:
        super().__init__(message)
        self.failure_kind = failure_kind


class Workspaces:
    """The workspaces of one run's cases."""

    def __init__(
        self,
        task_class: TaskClass,
        settings: WorkspaceSettings,
        folder: Path | None = None,
    ) -> None:
        """Prepare; nothing is made yet.

        Args:
            task_class: The class of the cases.
            settings: What the workspaces are made of.
            folder: The folder of the run; `None`: a temporary one, and nothing is kept.
        """
        self._class_folder = task_class.folder or Path()
        self._settings = settings
        self._is_temporary = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._identity: files.Identity | None = None

    def path_of(self, case_id: str) -> Path:
        """Return the workspace of a case."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", case_id).lstrip(".")[:_MAX_NAME]
        if name != case_id.lower():  # which some file systems take for the same
            name += f"-{blake2b(case_id.encode(), digest_size=4).hexdigest()}"
        return self._folder / name

    def make(self, case: BenchCase) -> Path:
        """Make the workspace of a case; an earlier one of the case is removed.

        Raises:
            WorkspaceError: It can't be made; nothing is left of it.
        """
        path = self.path_of(case.case_id)
        try:
            place, commit = self._settings.source_of(case)
            with files.make_folder(self._folder) as folder:
                self._identity = self._identity or folder.identity
            files.create_file(self._folder / _SHIELD, _SHIELD_TEXT)
            self._remove(path)
            if self._settings.git is None:
                shutil.copytree(self._class_folder / place, path, symlinks=True)
            else:
                path.mkdir()
                check_out(path, self._repository(place), commit)
        except (OSError, WrongError, WorkspaceError) as error:
            self._remove(path)
            if isinstance(error, WorkspaceError):
                raise
            raise WorkspaceError(f"no workspace: {_first_problem(error)}") from None
        return path

    def _repository(self, place: str) -> str:
        """Return a repository as git takes it: a URL, or a path from the class's folder."""
        is_path = "://" not in place and not re.match(r"[^/\\]{2,}:", place)
        return os.path.normpath(self._class_folder / place) if is_path else place

    def end(self, case_id: str, *, is_failed: bool) -> str | None:
        """Keep a case's workspace, and return its path; or remove it."""
        path, keep = self.path_of(case_id), self._settings.keep
        is_kept = keep == "all" or (keep == "failed" and is_failed)
        if is_kept and not self._is_temporary:
            return str(path) if path.is_dir() else None
        self._remove(path)
        return None

    def close(self) -> None:
        """Remove the folder if it is a temporary one."""
        if self._is_temporary:
            remove_folder(str(self._folder))

    def _remove(self, path: Path) -> None:
        with suppress(OSError), files.open_folder(self._folder, self._identity):
            remove_folder(str(path))


class KeptWorkspaces(Workspaces):
    """The workspaces that a run has kept, to grade its outputs again."""

    def make(self, case: BenchCase) -> Path:
        """Return the workspace of a case.

        Raises:
            WorkspaceError: It was not kept.
        """
        path = self.path_of(case.case_id)
        if not self.has(case.case_id):
            raise WorkspaceError(f"no workspace: {path} was not kept")
        return path

    def has(self, case_id: str) -> bool:
        """Return whether the workspace of a case was kept."""
        path = self.path_of(case_id)
        return path.is_dir() and not (path.is_symlink() or path.parent.is_symlink())

    def end(self, case_id: str, *, is_failed: bool) -> str | None:
        """Leave it as it is."""
        del is_failed
        return str(self.path_of(case_id))


def remove_empty_folder(folder: Path) -> None:
    """Remove the folder of a run that has kept no workspace."""
    with suppress(OSError), files.open_folder(folder) as opened:
        if opened.names() == [_SHIELD]:
            opened.unlink(_SHIELD)
        opened.rmdir()


def check_out(path: Path, repository: str, commit: str) -> None:
    """Check one commit out into an empty folder, without the history around it.

    A repository with its whole history could tell the system how the task was solved.

    Raises:
        WorkspaceError: Git fails, lasts too long, or is not there.
    """
    until = time.monotonic() + SECONDS_TO_MAKE
    kind = "git.clone_failed"
    if Path(repository).is_dir():
        place = ("rev-parse", "--show-prefix")
        code, prefix = ask_git(Path(repository), until, *place, without=_OF_A_HOOK)
        if code == 0 and not prefix:
            kind = "git.checkout_failed"  # the repository is there
        # Only whole hashes and references can be fetched.
        ask = ("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
        code, answer = ask_git(Path(repository), until, *ask, without=_OF_A_HOOK)
        commit = answer if code == 0 else commit
    for step, *rest in (
        ("init", "--quiet"),
        ("fetch", "--quiet", "--depth=1", "--no-tags", "--", repository, commit),
        ("checkout", "--quiet", "--detach", "FETCH_HEAD"),
    ):
        options = (*_GIT_OPTIONS, step, *rest)
        code, answer = ask_git(path, until, *options, without=_OF_A_HOOK)
        if code:
            why = answer.splitlines()[-1:] or ["it is not there, or took too long"]
            what = f"no workspace: {repository} at {commit}: git {step}: {why[0]}"
            raise WorkspaceError(
                what, "git.checkout_failed" if step == "checkout" else kind
            )


def _first_problem(error: Exception) -> str:
    """Return what went wrong first: a copy goes on after a file that can't be copied."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        source, _, why = error.args[0][0]
        return f"{source}: {why}"
    return str(error)
