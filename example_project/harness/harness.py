"""Take a task through its stages, try it until it succeeds, and follow what is recommended.

    python harness.py FOLDER

makes a git repository with a bug in FOLDER, and lets the scripted agent of `agent.py` repair it. It
needs git, pytest and `pip install "pytest-failure-taxonomy[history]"`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

TASK = "price-of-unknown-things"
APPROACHES = [
    "Using async await for fetch",
    "Using async/await with try-catch",
    "Using async await pattern",
]
HINT_OF_A_HUMAN = "Return zero for a name that is not there"
COMMAND = [sys.executable, "-m", "pytest_failure_taxonomy"]
AGENT = Path(__file__).with_name("agent.py")
PROMPT = Path(__file__).with_name("prompt.md").read_text("utf-8")
MODULE = """
def fetch(prices, name):
    return prices[name]
"""
TEST = """
from shop import fetch

def test_known():
    assert fetch({"tea": 3}, "tea") == 3

def test_unknown():
    assert fetch({"tea": 3}, "coffee") == 0
"""


class Harness:
    """One task, with a folder for its repository, its reports and its history."""

    def __init__(self, folder: Path) -> None:
        """Begin in a folder that has the repository `origin`."""
        self.folder = folder
        self.workspace = folder / "workspace"
        self.history = str(folder / "history.db")
        self.reports: list[Path] = []

    def stage(self, name: str, *command: str) -> bool:
        """Run one stage; tell whether the attempt can go on."""
        report = self.folder / f"{len(self.reports)}-{name}.json"
        self.reports.append(report)
        words = ["run", "--stage", name, "--timeout", "60", "--report", str(report)]
        if name == "final_test":
            words.append("--certify")  # the agent may have changed more than the code
        subprocess.run([*COMMAND, *words, "--", *command], cwd=self.folder, check=False)
        return report.exists() and json.loads(report.read_text())["verdict"] is None

    def prepare(self) -> bool:
        """Clone the repository, check the task's commit out, set it up, and see its test fail."""
        here = str(self.workspace)
        return (
            self.stage("git_clone", "git", "clone", "--quiet", str(self.folder / "origin"), here)
            and self.stage("git_checkout", "git", "-C", here, "checkout", "--quiet", "task")
            and self.stage("setup", sys.executable, "-m", "compileall", "-q", here)
            and self.stage("baseline_run", *pytest_in(here))
        )

    def attempt(self, approach: str) -> dict:
        """Let the agent try; return what is recommended then."""
        here = str(self.workspace)
        prepared = len(self.reports)
        prompt = PROMPT.replace("{approach}", approach)
        if self.stage("agent_run", sys.executable, str(AGENT), prompt, here):
            self.stage("final_test", *pytest_in(here))
        merged = self.folder / f"attempt-{prepared}.json"
        subprocess.run([*COMMAND, "merge", *map(str, self.reports), "-o", str(merged)], check=False)
        del self.reports[prepared:]  # of this attempt; the stages before it hold for the next one
        report = json.loads(merged.read_text())
        if report["verdict"] is None:
            git(self.workspace, "commit", "--quiet", "--all", "--message", approach)
        said = ["--subtask", TASK, "--approach", approach, "--report", str(merged)]
        commit = git(self.workspace, "rev-parse", "HEAD")
        answer = subprocess.run(
            [*COMMAND, "recover", *said, "--commit", commit, "--history", self.history],
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(answer.stdout)

    def follow(self, advice: dict, left: list[str]) -> str | None:
        """Do what is recommended; return the next approach, or `None` to give up."""
        if advice["action"] == "rollback":
            git(self.workspace, "reset", "--quiet", "--hard", advice["last_good_commit"])
        else:
            git(self.workspace, "checkout", "--quiet", ".")
        if advice["action"] in ("retry", "continue", "rollback") and left:
            return left.pop(0)
        if advice["action"] in ("skip", "escalate"):  # a human is asked, once
            left.clear()
            return HINT_OF_A_HUMAN
        return None

    def solve(self) -> bool:
        """Try until it succeeds or nobody knows what to do; tell whether it has succeeded."""
        left = APPROACHES[1:]
        approach: str | None = APPROACHES[0]
        while approach is not None:
            advice = self.attempt(approach)
            if advice["success"]:
                print(f"solved in attempt {len(advice['tried']) + 1}: {approach}")
                for each in [*advice["tried"], {"approach": approach, "type": None}]:
                    print(f"  {each['type'] or 'success'}: {each['approach']}")
                return True
            why = f"{advice['failure_reason']}, {advice['type']}"
            print(f"{approach}: {why} -> {advice['action']}: {advice['reason']}")
            has_asked = approach == HINT_OF_A_HUMAN
            approach = None if has_asked else self.follow(advice, left)
        print("given up")
        return False


def pytest_in(folder: str) -> list[str]:
    """Return the command that runs the tests of a folder."""
    return [sys.executable, "-m", "pytest", "-q", "--rootdir", folder, folder]


def git(folder: Path, *words: str) -> str:
    """Run git with an author of its own, and return what it prints."""
    author = ["-c", "user.name=Harness", "-c", "user.email=harness@example.org"]
    command = ["git", "-C", str(folder), *author, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_origin(folder: Path) -> None:
    """Make the repository that has the task in its branch `task`."""
    origin = folder / "origin"
    origin.mkdir(parents=True)
    git(origin, "init", "--quiet", "--initial-branch", "main")
    (origin / "shop.py").write_text(MODULE)
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message", "A shop")
    git(origin, "checkout", "--quiet", "-b", "task")
    (origin / "test_shop.py").write_text(TEST)
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message", "A test that fails")
    git(origin, "checkout", "--quiet", "main")


def main() -> int:
    """Make the repository and solve its task."""
    if len(sys.argv) != 2:
        print("usage: python harness.py FOLDER, a new one", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).absolute()
    if folder.exists():
        print(f"{folder}: it exists already; give a new folder", file=sys.stderr)
        return 2
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # the agent's changes come within one second
    make_origin(folder)
    harness = Harness(folder)
    return 0 if harness.prepare() and harness.solve() else 1


if __name__ == "__main__":
    sys.exit(main())
