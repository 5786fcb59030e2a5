"""Runs code that hangs, dies, leaves and forks, each with a limit of its own."""

# ruff: noqa: D103 - a rubric as people write them

from pytest_failure_taxonomy.bench import run_code

EXPECTED = {
    "while True: pass": "timeout",
    "import os; os.kill(os.getpid(), 9)": "killed",
    "import os; os._exit(0)": "left",
    "import os, time; os.fork() or (os.setsid(), time.sleep(60))": "passed",
    "import os; os.kill(os.getppid(), 0)": "passed",
    "def f(:": "syntax",
}


def grade(case: object, output: object) -> object:
    if output == "ok":
        return {"passed": True, "score": 1.0, "breakdown": {}}
    for source, ending in EXPECTED.items():
        result = run_code(source, seconds=0.5 if ending == "timeout" else 20)
        assert result.ended == ending, result
    return {"passed": True, "score": 1.0, "breakdown": {}}
