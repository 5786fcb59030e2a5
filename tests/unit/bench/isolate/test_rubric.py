from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_failure_taxonomy.bench.isolate import client
from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric, defines_grade
from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings
from pytest_failure_taxonomy.bench.scores import (
    RubricAnswer,
    RubricError,
    RubricTimeoutError,
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="there is no server without it"
)

Mode = Literal["warm", "fresh"]
PASSED = {"passed": True, "score": 1.0, "breakdown": {}}
GRADE = "def grade(case, output):\n    "


def case(name: str = "c", **fields: Any) -> BenchCase:
    """Return a case with fields of its file."""
    return BenchCase(case_id=name, **fields)


def settings_of(limit_seconds: float = 60.0, mode: Mode = "warm") -> BenchSettings:
    """Return the settings of a class whose rubric has a limit."""
    return BenchSettings(rubric_isolation=mode, rubric_wall_clock_seconds=limit_seconds)


def rubric(folder: Path, source: str) -> Path:
    """Write a `rubric.py`."""
    path = folder / "rubric.py"
    path.write_text(source)
    return path


def answer_of(
    path: Path, output: object = None, mode: Mode = "warm", **fields: Any
) -> Any:
    """Return what a rubric answers to one output."""
    return graded(path, [output], mode, **fields)[0]


def graded(
    path: Path, outputs: list[Any], mode: Mode = "warm", **fields: Any
) -> list[Any]:
    """Return the answers to outputs that are graded at the same time; errors as values."""

    async def run() -> list[Any]:
        grader = IsolatedRubric(path, settings_of(30.0, mode))
        try:
            return await asyncio.gather(
                *(grader(case(**fields), output) for output in outputs),
                return_exceptions=True,
            )
        finally:
            await grader.aclose()
            await grader.aclose()

    return [
        json.loads(each.json) if isinstance(each, RubricAnswer) else each
        for each in asyncio.run(run())
    ]


@pytest.mark.parametrize("mode", ["warm", "fresh"])
def test_grade_is_given_the_case_of_the_file_and_the_output(
    tmp_path: Path, mode: Mode
) -> None:
    """A rubric sees plain dicts, equal to what the file and the system said."""
    path = rubric(tmp_path, GRADE + "return {'case': case, 'output': output}\n")
    found = answer_of(path, {"é": [1, None]}, mode, input={"q": 2}, level=3)
    assert found == {
        "case": {"id": "c", "input": {"q": 2}, "level": 3},
        "output": {"é": [1, None]},
    }


@pytest.mark.parametrize("mode", ["warm", "fresh"])
def test_a_rubric_sees_nothing_of_this_process(
    tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, folder, descriptors and standard input are not ours."""
    monkeypatch.setenv("SOME_TOKEN", "secret")
    source = """
import os, sys
def grade(case, output):
    open_ones = []
    for number in range(1000):
        try:
            os.fstat(number)
            open_ones.append(number)
        except OSError:
            pass
    return {
        "token": os.environ.get("SOME_TOKEN"),
        "in": os.listdir("."),
        "home": os.path.samefile(os.environ["HOME"], "."),
        "temp": os.path.samefile(os.environ["TMPDIR"], "."),
        "descriptors": open_ones,
        "stdin": sys.stdin.read(),
        "leader": os.getsid(0) == os.getpgid(0) == os.getpid(),
    }
"""
    with (tmp_path / "held").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        found = answer_of(rubric(tmp_path, source), mode=mode)
    assert found == {
        "token": None,
        "in": [],
        "home": True,
        "temp": True,
        "descriptors": [0, 1, 2, 255],
        "stdin": "",
        "leader": True,
    }


@pytest.mark.parametrize("mode", ["warm", "fresh"])
def test_a_rubric_imports_from_its_own_folder(tmp_path: Path, mode: Mode) -> None:
    """Modules beside it are found, whatever their names; nothing compiled is left there."""
    for name in ("child", "processes"):
        (tmp_path / f"{name}.py").write_text(f"NAME = 'my {name}'\n")
    path = rubric(
        tmp_path,
        "import child, processes, sys\n"
        + GRADE
        + "return [child.NAME, processes.NAME, sys.argv[0]]\n",
    )
    assert answer_of(path, mode=mode) == ["my child", "my processes", str(path)]
    assert not (tmp_path / "__pycache__").exists()


def test_a_rubric_may_be_async(tmp_path: Path) -> None:
    """What `grade` returns is awaited if it can be."""
    assert answer_of(rubric(tmp_path, "async " + GRADE + "return 5\n")) == 5


@pytest.mark.slow
def test_many_cases_run_at_a_time_and_each_has_its_own_answer(tmp_path: Path) -> None:
    """Answers reach their own callers, large ones too."""
    path = rubric(tmp_path, GRADE + "return output[:20000]\n")
    outputs = [f"{number}:" * 40_000 for number in range(24)]
    assert graded(path, outputs) == [each[:20_000] for each in outputs]


@pytest.mark.slow
def test_each_case_has_an_empty_folder_whatever_those_before_it_did(
    tmp_path: Path,
) -> None:
    """A folder that a case left untouched is given to the next one; any other is not."""
    source = """
import os
def grade(case, output):
    found = [os.path.basename(os.getcwd()), *os.listdir("."), *os.listdir("..")]
    if output == "file":
        open("left", "w").close()
    if output == "beside":
        open("../left", "w").close()
    if output == "mode":
        os.chmod(".", 0o500)
    if output == "remove":
        os.rmdir(os.getcwd())
    if output == "fork" and not os.fork():
        os.setsid()
        if not os.fork():
            while True:
                os.sched_yield()
        os._exit(0)
    return {"found": found, "folder": os.environ["HOME"]}
"""
    outputs = [
        "",
        "",
        "file",
        "",
        "beside",
        "",
        "mode",
        "",
        "remove",
        "",
        "fork",
        "",
        "",
    ]
    path = rubric(tmp_path, source)

    async def run() -> list[Any]:
        grader = IsolatedRubric(path, settings_of(30.0))
        try:
            return [json.loads((await grader(case(), each)).json) for each in outputs]
        finally:
            await grader.aclose()

    answers = asyncio.run(run())
    assert {tuple(each["found"]) for each in answers} == {("work", "work")}
    folders = [each["folder"] for each in answers]
    assert folders[0] == folders[1] == folders[2]
    for number, output in enumerate(outputs[:-1]):
        if output not in ("", "fork"):
            assert folders[number] != folders[number + 1], output


@pytest.mark.slow
def test_one_that_kills_the_server_costs_the_others_nothing(tmp_path: Path) -> None:
    """Cases that were in flight are graded again, one at a time; the killer is known by that."""
    source = (
        "import os, signal, time\n"
        + GRADE
        + (
            "time.sleep(0.05)\n    output == 3 and os.kill(os.getppid(), signal.SIGKILL)\n"
            "    return output\n"
        )
    )
    found = graded(rubric(tmp_path, source), list(range(8)))
    assert [str(found.pop(3)), *found] == [
        "killed the process that runs the rubrics",
        0,
        1,
        2,
        4,
        5,
        6,
        7,
    ]


@pytest.mark.parametrize(
    ("source", "message", "traceback"),
    [
        (
            "import not_there\n",
            "could not be loaded: ModuleNotFoundError: No module",
            "line 1",
        ),
        (
            "def grade(:\n",
            "could not be loaded: SyntaxError: invalid syntax",
            "def grade(:",
        ),
        ("x = 1\n", "it defines no function `grade(case, output)`", ""),
        ("import os\nos._exit(3)\n", "exited with code 3 while it was loaded", ""),
        (
            "import os\nos.kill(os.getpid(), 9)\n",
            "was killed by SIGKILL while it was loaded",
            "",
        ),
    ],
)
def test_a_rubric_that_can_not_be_loaded_says_so_of_each_case(
    tmp_path: Path, source: str, message: str, traceback: str
) -> None:
    """It is loaded twice at most, however many cases there are."""
    loads = tmp_path / "loads"
    mark = f"open({str(loads)!r}, 'a').write('x')\n"
    is_compiled = "(:" not in source
    path = rubric(tmp_path, mark + source if is_compiled else source)
    for found in graded(path, list(range(20))):
        assert type(found) is RubricError
        assert message in str(found)
        assert traceback.replace("line 1", "line 2") in found.traceback.text()
    if is_compiled:
        assert len(loads.read_text()) <= 2


def test_loading_has_a_limit_too(tmp_path: Path) -> None:
    """A rubric that hangs when it is imported is a timeout."""
    path = rubric(tmp_path, "import time\ntime.sleep(60)\n")

    async def run() -> None:
        grader = IsolatedRubric(path, settings_of(0.3))
        try:
            for _ in range(2):
                with pytest.raises(
                    RubricTimeoutError, match=r"was not loaded within 0\.3 s"
                ):
                    await grader(case(), None)
        finally:
            await grader.aclose()

    asyncio.run(run())


def test_a_cancelled_call_ends_its_process(tmp_path: Path) -> None:
    """Nothing runs on for a caller that is gone, and the server goes on."""
    path = rubric(
        tmp_path,
        "import os, time\n"
        + GRADE
        + "if output:\n        open(output, 'w').write(str(os.getpid()))"
        "\n        time.sleep(600)\n    return 1\n",
    )
    note = tmp_path / "process"

    async def run() -> None:
        grader = IsolatedRubric(path, settings_of())
        try:
            task = asyncio.create_task(grader(case(), str(note)))
            while not (note.exists() and note.read_text()):  # noqa: ASYNC110 - no event of ours
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await grader(case(), None)
            await until_gone(int(note.read_text()))
        finally:
            await grader.aclose()

    asyncio.run(run())


async def until_gone(process_id: int) -> None:
    """Wait for a process to end; the test would not end without that."""
    while True:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.01)


def test_nothing_is_left_when_it_is_forgotten(
    tmp_path: Path, private_places: Path
) -> None:
    """Without any `aclose`, the end of the object ends its server."""
    grader = IsolatedRubric(rubric(tmp_path, GRADE + "return output\n"), settings_of())

    async def run() -> None:
        await grader(case(), 1)  # noqa: F821 - it is deleted after the last call

    asyncio.run(run())
    assert list(private_places.iterdir())
    del grader, run


PROGRAM = """
import asyncio, sys, tempfile
from pathlib import Path
from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric
from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings
tempfile.tempdir = sys.argv[2]
async def main():
    await IsolatedRubric(Path(sys.argv[1]), BenchSettings())(BenchCase(case_id="c"), sys.argv[3])
asyncio.run(main())
"""


def test_the_death_of_the_client_ends_everything(
    tmp_path: Path, private_places: Path
) -> None:
    """Server, case and its descendants die with a client that is killed; the folder goes, too."""
    path = rubric(
        tmp_path,
        "import os, time\n" + GRADE + "if os.fork() == 0:\n        os.setsid()\n"
        "    with open(output, 'a') as file:\n        file.write(f'{os.getpid()}\\n')\n"
        "    time.sleep(600)\n",
    )
    note = tmp_path / "processes"
    arguments = [
        sys.executable,
        "-c",
        PROGRAM,
        str(path),
        str(private_places),
        str(note),
    ]
    with subprocess.Popen(arguments) as process:
        while not note.exists() or note.read_text().count("\n") < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    for line in note.read_text().split():
        asyncio.run(until_gone(int(line)))
    while list(private_places.iterdir()):
        time.sleep(0.01)


SCRIPT = """
import json, os, sys
given = json.load(sys.stdin)
print("debug", file=sys.stderr)
print(json.dumps({"got": given, "name": __name__, "args": sys.argv[1:]}))
"""


def test_a_script_reads_stdin_and_prints_its_verdict(tmp_path: Path) -> None:
    """A fresh rubric without `grade` is run as `python rubric.py`."""
    found = answer_of(rubric(tmp_path, SCRIPT), [1], "fresh")
    assert found == {
        "got": {"case": {"id": "c"}, "output": [1]},
        "name": "__main__",
        "args": [],
    }


@pytest.mark.parametrize(
    ("source", "message", "printed"),
    [
        ("pass", "printed nothing on stdout; one JSON object", ""),
        (
            "print('debug'); print({})",
            "printed 'debug\\n{}' on stdout; one JSON object",
            "",
        ),
        ("print('[]')", "printed '[]' on stdout", ""),
        ("1 / 0", "exited with code 1", "ZeroDivisionError: division by zero"),
        ("print('{}'); import os; os.abort()", "was killed by SIGABRT", ""),
        ("print('x' * 9_000_000)", "gave more than 1,048,576 bytes as its verdict", ""),
    ],
)
def test_what_a_script_prints_must_be_one_object(
    tmp_path: Path, source: str, message: str, printed: str
) -> None:
    """Anything else is an error that shows it, and what was said on stderr."""
    found = answer_of(rubric(tmp_path, source), None, "fresh")
    assert message in str(found)
    assert printed in found.printed


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def grade(): ...", True),
        ("async def grade(): ...", True),
        ("if True:\n    grade = print", True),
        ("from x import y as grade", True),
        ("def (", True),
        ("def f():\n    grade = 1", False),
        ("grade()", False),
        ("", False),
    ],
)
def test_a_grade_is_found_without_running_anything(
    tmp_path: Path, source: str, *, expected: bool
) -> None:
    """A file without a top-level `grade` is a script."""
    assert defines_grade(str(rubric(tmp_path, source))) is expected


def test_what_json_can_not_hold_is_no_question(tmp_path: Path) -> None:
    """A case that can't be sent is an error of that case."""
    found = answer_of(rubric(tmp_path, GRADE + "return 1\n"), object())
    assert (
        str(found)
        == "can't be given its case: Object of type object is not JSON serializable"
    )


def test_the_traceback_shows_the_rubric_alone(tmp_path: Path) -> None:
    """Our frames are no use to its author."""
    found = answer_of(rubric(tmp_path, GRADE + "return output['key']\n"), {})
    assert str(found) == "raised KeyError: 'key'"
    second = found.traceback.text().splitlines()[1]
    assert second.strip().startswith(f'File "{tmp_path}/rubric.py", line 2')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (GRADE + "print('hi'); return [case['id'], output]\n", ["c", 5]),
        (
            "import json, sys\nprint(json.dumps({'got': json.load(sys.stdin)['output']}))",
            {"got": 5},
        ),
        (GRADE + "return 1 / 0\n", "raised ZeroDivisionError: division by zero"),
        (GRADE + "import os; os._exit(4)\n", "exited with code 4 and gave no verdict"),
        (GRADE + "while True: pass\n", "was not done within 3 s"),
    ],
)
def test_without_fork_each_case_has_an_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: object
) -> None:
    """On Windows both modes run a program for each case."""
    monkeypatch.setattr(client, "_CAN_FORK", False)
    found = answer_of(rubric(tmp_path, source), 5, rubric_wall_clock_seconds=3.0)
    assert (str(found) if isinstance(found, RubricError) else found) == expected
