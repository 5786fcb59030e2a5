"""Tests that mock the standard library while they fail: no failure is lost, and no mock is called.

The functions are still mocked when pytest tells of the failure, because a fixture has done it.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from tests.helpers.runs import PytestRuns, comparable

pytestmark = pytest.mark.usefixtures("nothing_imported")

SUITE: Final = """
import pytest

def returns(*args, **kwargs):
    return None

def raises(*args, **kwargs):
    raise RuntimeError("mocked")

@pytest.fixture
def mocked(monkeypatch):
    monkeypatch.setattr({name!r}, {way})

def test_passes():
    pass

{before}

def test_mocked(mocked):
    raise ValueError("mocked")

def test_mocked_again(mocked):
    assert 0

def test_at_the_end():
    raise KeyError("not mocked")
"""
FAILS_BEFORE: Final = "def test_before():\n    raise KeyError('not mocked')"

FUNCTIONS: Final = {
    "os": "access chdir close cpu_count dup environ.get fdopen fsdecode fsencode fspath fstat "
    "get_terminal_size getcwd getenv getpid getppid isatty kill link listdir lseek lstat makedirs "
    "mkdir open path.abspath path.basename path.commonpath path.commonprefix path.dirname "
    "path.exists path.expanduser path.expandvars path.getmtime path.getsize path.isabs "
    "path.isdir path.isfile path.islink path.join path.lexists path.normcase path.normpath "
    "path.realpath path.relpath path.samefile path.split path.splitdrive path.splitext popen "
    "putenv read readlink remove rename replace rmdir scandir stat symlink system umask uname "
    "unlink urandom utime waitpid walk write",
    "builtins": "all any ascii callable chr enumerate eval exec filter format hash hex id input "
    "iter map max min open ord print repr reversed round sorted sum vars zip",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "contextlib": "closing contextmanager nullcontext redirect_stdout suppress",
    "copy": "copy deepcopy",
    "datetime": "date datetime timedelta",
    "fnmatch": "fnmatch fnmatchcase translate",
    "functools": "lru_cache partial reduce wraps",
    "hashlib": "blake2s md5 sha256",
    "importlib": "import_module reload",
    "inspect": "currentframe getfile getmodule getsource getsourcelines isclass signature unwrap",
    "io": "BytesIO StringIO open",
    "itertools": "chain count islice",
    "json": "JSONEncoder.encode dump dumps load loads",
    "linecache": "checkcache getline getlines lazycache updatecache",
    "logging": "getLogger",
    "pathlib": "Path.absolute Path.cwd Path.exists Path.is_dir Path.is_file Path.iterdir "
    "Path.mkdir Path.open Path.read_bytes Path.read_text Path.relative_to Path.resolve Path.stat "
    "Path.unlink Path.write_text",
    "pkgutil": "get_data",
    "platform": "platform python_version system",
    "random": "choice random",
    "re": "compile escape finditer findall fullmatch match search split sub",
    "shutil": "copy get_terminal_size move rmtree which",
    "signal": "alarm getsignal signal",
    "socket": "create_connection gethostname socket",
    "subprocess": "Popen check_output run",
    "sys": "exc_info getsizeof intern stdout.write _getframe",
    "tempfile": "gettempdir mkdtemp mkstemp",
    "textwrap": "dedent indent",
    "threading": "Thread current_thread enumerate get_ident get_native_id",
    "time": "monotonic monotonic_ns perf_counter sleep strftime time time_ns",
    "tokenize": "open tokenize",
    "tomllib": "loads",
    "traceback": "extract_tb format_exception format_exception_only walk_tb",
    "warnings": "WarningMessage catch_warnings simplefilter warn",
}
"""What tests mock, and more: all that pytest or this package may need for a failure."""
NAMES: Final = [
    f"{module}.{name}" for module, names in FUNCTIONS.items() for name in names.split()
]
CASES: Final = {
    " ".join(case): case
    for case in product(
        NAMES, ("returns", "raises"), ("first", "later"), ("serial", "xdist")
    )
}
COUNTED: Final = ("passed", "failed", "errors", "warnings")
KNOWN: Final = "- nodeid: 'test_it.py::test_of_somebody_else'\n"


@pytest.mark.attack("case", CASES, some=6)
def test_a_mocked_function(runs: PytestRuns, case: tuple[str, str, str, str]) -> None:
    """Counts, exit status, pytest's output and acceptance are those of a run without us."""
    name, way, moment, workers = case
    suite = SUITE.format(
        name=name, way=way, before=FAILS_BEFORE if moment == "later" else ""
    )
    runs.write({"test_it.py": suite, "known.yaml": KNOWN})
    args = ["-v", "-n", "2"] if workers == "xdist" else ["-v"]
    plugins = ["xdist"] if workers == "xdist" else []
    plain = runs.run_plain(*args, plugins=plugins)
    run = runs.run(*args, "--failure-taxonomy-known=known.yaml", plugins=plugins)
    assert run.exit_status == plain.exit_status
    if workers == "serial":
        assert list(comparable(run.stdout)) == list(comparable(plain.stdout))
    elif plain.exit_status != 1:
        return  # the mock breaks pytest's workers, at any moment
    assert run.outcomes == plain.outcomes
    if run.outcomes is not None:
        summary = run.report["summary"]
        counts = {name: run.outcomes.get(name, 0) for name in COUNTED}
        assert {name: summary[name] for name in COUNTED} == counts
        omitted = run.report["limits"]["failures_omitted"]
        assert (
            len(run.report["failures"]) + omitted == counts["failed"] + counts["errors"]
        )
        assert omitted == 0 or "internal.error" in run.kinds


FROZEN: Final = """
import freezegun
@pytest.fixture
def replaced():
    with freezegun.freeze_time("2001-01-01"):
        yield
"""
HIDDEN: Final = """
import sys
from unittest import mock
@pytest.fixture
def replaced():
    with mock.patch.dict(sys.modules, {"re": None, "json": None}):
        yield
"""
OURS_GONE: Final = """
import sys
@pytest.fixture
def replaced():
    for name in list(sys.modules):
        if name.startswith("pytest_failure_taxonomy"):
            del sys.modules[name]
"""
RELOADED: Final = """
import genericpath, importlib, json, linecache, os
@pytest.fixture
def replaced():
    for module in (genericpath, os.path, json, linecache):
        importlib.reload(module)
"""
FAKED: Final = """
@pytest.fixture
def replaced(fs):
    pass
"""
REPLACED: Final = {
    "fake-files": (FAKED, "pyfakefs"),
    "frozen-time": (FROZEN, "freezegun"),
    "hidden": (HIDDEN, ""),
    "ours-gone": (OURS_GONE, ""),
    "reloaded": (RELOADED, ""),
}
"""Fixtures that replace whole modules, and the library that does it."""


@pytest.mark.parametrize(("fixture", "library"), REPLACED.values(), ids=REPLACED)
def test_modules_that_are_replaced(
    runs: PytestRuns, fixture: str, library: str
) -> None:
    """The first failure and later ones are described, and no file of ours stays."""
    if library:
        pytest.importorskip(library)
    tests = (
        "def test_first(replaced): assert 0\n"
        "def test_again(replaced): assert 0\n"
        "def test_later(): raise KeyError('later')\n"
    )
    runs.write({"test_it.py": f"import pytest\n{fixture}\n{tests}"})
    run = runs.compare(
        plugins=["pyfakefs.pytest_plugin"] if library == "pyfakefs" else []
    )
    types = [failure["exception"]["type"] for failure in run.report["failures"]]
    assert types == ["AssertionError", "AssertionError", "KeyError"]
    assert run.report["faults"] == []


LOSES: Final = """
from pytest_failure_taxonomy.hooks import failures, session

def broken(*args):
    raise RuntimeError("broken here")

{where} = broken
"""


@pytest.mark.parametrize(
    ("where", "omitted"),
    [
        ("failures.EventLog.add_failure", 2),
        ("session.SessionRecorder._record_failure", 2),
        ("session.SessionRecorder._describe_failure", 0),
        ("failures.exceptions.describe_exception", 0),
    ],
)
def test_what_is_counted_is_never_lost(
    runs: PytestRuns, where: str, omitted: int
) -> None:
    """Wherever we fail ourselves, what pytest has counted is said, red, and never known."""
    tests = "def test_a(): raise KeyError('a')\ndef test_b(): assert 0\n"
    known = "- nodeid: '*'\n" if omitted else KNOWN
    runs.write(
        {"test_it.py": tests, "conftest.py": LOSES.format(where=where), "k.yaml": known}
    )
    run = runs.run("-q", "--failure-taxonomy-known=k.yaml")
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    assert run.report["summary"]["failed"] == 2
    assert run.report["limits"]["failures_omitted"] == omitted
    assert len(run.report["failures"]) == 2 - omitted
    assert run.report["verdict"]["retryable"] is not True
    assert any("2 tests failed" in line for line in run.stdout)
    assert "broken here" in str(run.report["faults"])
