"""`failure-taxonomy prove --environment`, with wheels of small invented packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pip") is None, reason="pip installs the wheels"),
]
PURE: Final = "py3-none-any"


class Shop:
    """A project, the folder in which its requirements are installed, and wheels of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "shop"
        self.site, self.wheels = folder / "site", folder / "wheels"
        self.report = folder / "report.json"
        for path in (self.folder, self.site, self.wheels):
            path.mkdir()

    def make_wheel(
        self, name: str, version: str, files: Mapping[str, str | bytes], tag: str = PURE
    ) -> Path:
        """Make a wheel of some files."""
        info = f"{name}-{version}.dist-info"
        both = {
            **files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        }
        record = [f"{path},," for path in (*both, f"{info}/RECORD")]
        path = self.wheels / f"{name}-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for inside, content in both.items():
                wheel.writestr(inside, content)
            wheel.writestr(f"{info}/RECORD", "\n".join([*record, ""]))
        return path

    def install(self, *wheels: Path) -> None:
        """Have these and nothing else installed."""
        shutil.rmtree(self.site)
        for wheel in wheels:
            zipfile.ZipFile(wheel).extractall(self.site)

    def run(self, report: Path | None = None, *options: str) -> dict[str, Any]:
        """Run pytest, and return its report."""
        path = report or self.report
        words = ["-q", "-p", "no:cacheprovider", "-p", "failure_taxonomy", *options]
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                *words,
                f"--failure-taxonomy-report={path}",
            ],
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        )
        result: dict[str, Any] = json.loads(path.read_text())
        return result


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return a project that is the working directory, with an environment of its own."""
    for name in ("FAILURE_TAXONOMY_HISTORY", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    # All that is installed here for the suite would take as long to load as all else.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    made = Shop(tmp_path)
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("PYTHONPATH", str(made.site))
    monkeypatch.syspath_prepend(str(made.site))
    return made


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Return the exit code of a command, the lines of its answer, and what it says besides."""
    capsys.readouterr()
    code = main(words)
    printed = capsys.readouterr()
    return code, printed.out.splitlines(), printed.err


def make_releases(shop: Shop, name: str, *versions: str, more: str = "") -> list[Path]:
    """Make wheels of a package that says the first number of its version."""
    return [
        shop.make_wheel(
            name,
            version,
            {
                f"{name}/__init__.py": f"from {name}.number import NUMBER\n{more}",
                f"{name}/number.py": f"NUMBER = {version[0]}\n",
                ".hidden": "",  # as uv leaves one
            },
        )
        for version in versions
    ]


def prove(
    shop: Shop, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[str], str]:
    """Look for a release among the wheels."""
    offline = ("--offline", "--find-links", str(shop.wheels), "--budget", "10m")
    return call(capsys, "prove", "--environment", *offline, *words, str(shop.report))


def proof_in(report: Path) -> dict[str, Any]:
    """Return the proof of the only cause of a report."""
    (cause,) = json.loads(report.read_text())["causes"]
    proof: dict[str, Any] = cause["proof"]
    return proof


INK: Final = """\
import ink, paper

def test_ink():
    assert ink.NUMBER == 1
"""


@pytest.mark.lowest
def test_the_release_is_found_from_the_history(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can't be put back is told, and neither it nor what makes no difference is blamed."""
    ink, paper, glue = (
        make_releases(shop, name, "1.9.2", "2.0.1") for name in ("ink", "paper", "glue")
    )
    (tape,) = make_releases(shop, "tape", "1.0")
    (shop.folder / "test_shop.py").write_text(INK)
    history = shop.folder / "history.db"
    shop.install(ink[0], paper[0], glue[0])
    shop.run(None, f"--failure-taxonomy-history={history}")
    shop.install(ink[1], paper[1], glue[1], tape)
    glue[0].unlink()
    shop.run(None, f"--failure-taxonomy-history={history}")
    before = sorted(shop.site.rglob("*"))

    code, out, err = prove(shop, capsys, "--history", str(history))

    assert (code, err) == (0, "")
    assert out == [
        (
            f"pip installs old versions from {shop.wheels} into a temporary folder (wheels only)"
        ),
        "1. 1 x assert 2 == 1: test_ink (test_shop.py:4): test_shop.py::test_ink",
        (
            "   since the last pass: glue 1.9.2 -> 2.0.1, ink 1.9.2 -> 2.0.1, paper 1.9.2 -> 2.0.1, "
            "+ tape 1.0"
        ),
        (
            "   not tried: glue 1.9.2 -> 2.0.1: no wheel can be had: ERROR: No matching distribution "
            "found for glue==1.9.2"
        ),
        "   not tried: + tape 1.0: it was added since, and can't be hidden",
        "   with the current versions: failed",
        "   with ink 1.9.2, paper 1.9.2: passed",
        "   with paper 1.9.2: failed",
        "   with ink 1.9.2: passed",
        (
            "   ink 2.0.1 breaks it, proven: fails with it (8 of 8), passes with 1.9.2 (8 of 8); "
            "fix: pin ink<2"
        ),
        "   python -m pytest -p no:cacheprovider -p failure_taxonomy test_shop.py::test_ink",
    ]
    assert sorted(shop.site.rglob("*")) == before
    proof = proof_in(shop.report)
    assert (proof["type"], proof["status"]) == ("environment", "proven")
    assert (proof["state"], proof["runs"], proof["failed"]) == ("ink 2.0.1", 8, 8)
    assert proof["without"] == {"runs": 8, "failed": 0, "state": "1.9.2"}
    assert proof["suspicions"] == []


BOTH: Final = """\
try:
    import glue
except ImportError:
    glue = None
import ink, paper

def test_all():
    assert ink.NUMBER == 1 and glue
"""


def test_two_releases_together_and_one_that_is_gone(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the report of a run in which other tests failed; its list needs consent."""
    ink, paper = (make_releases(shop, name, "1.0", "2.0") for name in ("ink", "paper"))
    (glue,) = make_releases(shop, "glue", "1.5")
    good = shop.report.with_name("good.json")
    shop.install(ink[0], paper[0], glue)
    (shop.folder / "test_shop.py").write_text("def test_other(): assert False\n")
    shop.run(good)
    shop.install(ink[1], paper[1])
    (shop.folder / "test_shop.py").write_text(BOTH)
    shop.run()
    words = ("--good", str(good))

    code, out, err = call(capsys, "prove", "--environment", *words, str(shop.report))
    assert (code, err) == (
        2,
        (
            "failure-taxonomy: prove: anybody may have written the good report; to install what it lists: "
            "failure-taxonomy prove --environment --yes\n"
        ),
    )
    assert out[-1].endswith(": ink 1.0 -> 2.0, paper 1.0 -> 2.0, - glue 1.5")
    code, out, err = prove(shop, capsys, *words)
    assert (code, err) == (0, "")
    assert out[-2:-1] == [
        (
            "   ink 2.0 with glue removed breaks it, proven: fails with it (8 of 8), "
            "passes with 1.0 and 1.5 (8 of 8); fix: pin ink<2 and glue==1.5"
        ),
    ]


def test_an_old_version_that_does_not_fit_decides_nothing(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others are tried alone then; and an old version that is not imported proves nothing."""
    ink = make_releases(shop, "ink", "1.0", "2.0")
    paper = [
        *make_releases(shop, "paper", "1.0", more="import no_such_module\n"),
        *make_releases(shop, "paper", "2.0"),
    ]
    good = shop.report.with_name("good.json")
    shop.install(ink[0], paper[0])
    (shop.folder / "test_shop.py").write_text("def test_other(): assert False\n")
    shop.run(good)
    shop.install(ink[1], paper[1])
    (shop.folder / "test_shop.py").write_text(INK)
    shop.run()
    code, out, _ = prove(shop, capsys, "--good", str(good))
    assert code == 0
    assert any(
        line.startswith("   with ink 1.0, paper 1.0: can't be tested: ") for line in out
    )
    assert out[-2].startswith("   ink 2.0 breaks it, proven: ")

    first = f"import sys\nsys.path.insert(0, {str(shop.site)!r})\n"
    (shop.folder / "conftest.py").write_text(first)
    shop.run()
    code, out, _ = prove(shop, capsys, "--good", str(good))
    assert code == 1
    is_unused = f" is imported from {shop.site / 'ink'}/"
    assert is_unused in out[-1]
    assert out[-1].endswith(", and not from site-ink==1.0")


def test_what_is_undecided(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """A test that fails with old versions, too; one that passes now; and no time."""
    ink = make_releases(shop, "ink", "1.0", "2.0")
    good = shop.report.with_name("good.json")
    shop.install(ink[0])
    test = shop.folder / "test_shop.py"
    test.write_text("def test_other(): assert False\n")
    shop.run(good)
    shop.install(ink[1])
    test.write_text("def test_it(): assert [1] == [2]\n")
    shop.run()
    words = ("--good", str(good))
    code, out, _ = prove(shop, capsys, *words)
    assert (code, out[-1]) == (
        1,
        "   undecided: it fails with 1 old version put back, too",
    )
    code, out, _ = prove(shop, capsys, *words, "--budget", "1s")
    assert (code, out[-1].split(";")[0]) == (1, "   undecided: time ran out")
    test.write_text("def test_it(): assert True\n")
    code, out, _ = prove(shop, capsys, *words)
    assert (code, out[-1]) == (
        1,
        "   undecided: it does not fail so with what is installed now (passed)",
    )
    ink[0].unlink()
    code, out, _ = prove(shop, capsys, *words)
    assert code == 1
    assert out[-1] == (
        "   undecided: there is nothing to put back; suspected: ink 1.0 -> 2.0, not tried"
    )
    code, out, _ = prove(shop, capsys, "--good", str(shop.report))
    assert code == 1
    assert out[-1] == (
        "   it is not known which versions it passed with; give the report of a run that passed with --good"
    )


def test_what_can_not_be_used(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what is missing."""
    test = shop.folder / "test_shop.py"
    test.write_text("def test_it(): pass\n")
    passed = shop.report.with_name("passed.json")
    shop.run(passed)
    test.write_text("def test_it(): assert False\n")
    shop.run()
    history = shop.folder / ".failure-taxonomy" / "history.db"
    assert prove(shop, capsys) == (
        2,
        [],
        (
            f"failure-taxonomy: prove: {history}: there is no history yet; run pytest with "
            "--failure-taxonomy-history, or add reports by: failure-taxonomy history add REPORT; or "
            "give the report of a run that passed with --good\n"
        ),
    )
    code, _, err = prove(shop, capsys, "--good", str(passed))
    assert (code, err) == (
        2,
        (
            f"failure-taxonomy: prove: {passed} does not say what was installed; give the report of a run with a "
            "history (--failure-taxonomy-history), or in which other tests failed\n"
        ),
    )
    assert call(capsys, "prove", "--offline", str(shop.report)) == (
        2,
        [],
        (
            "failure-taxonomy: prove: --find-links and --offline say where old versions come from; add "
            "--environment\n"
        ),
    )


EXTENSION: Final = """\
#include <Python.h>
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "ink"}};
PyMODINIT_FUNC PyInit_ink(void) {{
    PyObject *made = PyModule_Create(&module);
    PyModule_AddIntConstant(made, "NUMBER", {number});
    return made;
}}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_release_with_a_c_extension(
    shop: Shop, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A compiled module is put back like any other."""
    tags = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    ending = sysconfig.get_config_var("EXT_SUFFIX")
    include = sysconfig.get_path("include")
    ink = []
    for number in (1, 2):
        source, library = tmp_path / "ink.c", tmp_path / f"ink{ending}"
        source.write_text(EXTENSION.format(number=number))
        command = ["cc", "-shared", "-fPIC", f"-I{include}", "-o"]
        subprocess.run([*command, str(library), str(source)], check=True)
        files = {library.name: library.read_bytes()}
        tag = f"{tags}-{tags}-{platform}"
        ink.append(shop.make_wheel("ink", f"{number}.3", files, tag))
    (shop.folder / "test_shop.py").write_text(INK.replace(", paper", ""))
    history = ("--history", str(shop.folder / "history.db"))
    for wheel in ink:
        shop.install(wheel)
        shop.run(None, f"--failure-taxonomy-history={history[1]}")
    code, out, _ = prove(shop, capsys, *history)
    assert code == 0
    assert out[-2:-1] == [
        (
            "   ink 2.3 breaks it, proven: fails with it (8 of 8), passes with 1.3 (8 of 8); "
            "fix: pin ink<2"
        ),
    ]
