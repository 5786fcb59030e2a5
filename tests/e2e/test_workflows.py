"""The example project's workflows and the action: their commands run as GitHub would run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.helpers.children import run_child
from tests.helpers.past_runs import report_as_json
from tests.helpers.reports import read_report

if sys.platform == "win32":
    pytest.skip("the workflows run on Linux", allow_module_level=True)

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "example_project"
WORKFLOWS: Final = EXAMPLE / ".github" / "workflows"
LEFT_OUT: Final = shutil.ignore_patterns(
    "__pycache__", ".*_cache", "build", "dist", "*.egg-info"
)
EXPRESSION: Final = re.compile(r"\$\{\{ *(.+?) *\}\}")
RATE_LIMIT: Final = """
import os
def test_prints(failure_taxonomy):
    if not os.path.exists("tried"):
        open("tried", "w").close()
        failure_taxonomy.record("LLM_ERROR", "llm.rate_limited", "too many")
        raise OSError("too many")
"""


@dataclass(kw_only=True)
class Job:
    """One job: runs steps in a folder, and knows what they have left."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    """The values of expressions, such as `matrix.shard`."""
    artifacts: dict[str, list[Path]] = field(default_factory=dict)
    summary: str = ""
    failed: bool = False
    programs: str = ""
    """A folder of programs that are found first."""
    ran: list[str] = field(default_factory=list)
    """The names of the steps that ran."""

    def run(self, steps: list[dict[str, Any]]) -> None:
        """Run the steps that are to run, one after the other."""
        for step in steps:
            if step.get("name") == "Install" or not self._is_wanted(step):
                continue
            if "run" in step:
                self._run(step)
            elif "upload-artifact" in step["uses"]:
                self._upload(step["with"])

    def _is_wanted(self, step: Mapping[str, Any]) -> bool:
        condition = step.get("if", "success()")
        if "always()" in condition:
            condition = condition.replace("always()", "'' == ''")
        elif self.failed:
            return False
        return condition == "success()" or all(
            self._holds(part) for part in condition.split(" && ")
        )

    def _holds(self, comparison: str) -> bool:
        found = re.fullmatch(r"(\S+) (==|!=) '(\w*)'", comparison)
        assert found is not None, comparison
        left = "" if found[1] == "''" else self.names.get(found[1], "")
        return (left == found[3]) is (found[2] == "==")

    def _run(self, step: Mapping[str, Any]) -> None:
        outputs, summary = self.folder / "..output", self.folder / "..summary"
        for path in (outputs, summary):
            path.write_text("", "utf-8")
        script = self._filled(step["run"])
        given = {
            name: self._filled(str(text)) for name, text in step.get("env", {}).items()
        }
        folder = self.folder / self._filled(step.get("working-directory", "."))
        places = (self.programs, str(Path(sys.executable).parent), os.environ["PATH"])
        programs = os.pathsep.join(filter(None, places))
        said = run_child(
            folder,
            ["bash", "-eo", "pipefail", "-c", script],
            env={
                **given,
                "PATH": programs,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": None,
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(self.folder),
                "GITHUB_OUTPUT": str(outputs),
                "GITHUB_STEP_SUMMARY": str(summary),
            },
        )
        print(said.stdout, said.stderr)  # noqa: T201 - shown where the test fails
        self.ran.append(step.get("name", ""))
        self.summary += summary.read_text("utf-8")
        self._keep(step, said.status, outputs.read_text("utf-8"))

    def _keep(self, step: Mapping[str, Any], status: int, outputs: str) -> None:
        self.failed |= status != 0 and not step.get("continue-on-error", False)
        if "id" in step:
            prefix = f"steps.{step['id']}"
            self.names[f"{prefix}.outcome"] = "failure" if status else "success"
            for line in outputs.splitlines():
                name, _, text = line.partition("=")
                self.names[f"{prefix}.outputs.{name}"] = text

    def _upload(self, given: Mapping[str, Any]) -> None:
        paths = sorted(self.folder.glob(self._filled(given["path"])))
        assert paths or given["if-no-files-found"] == "warn"
        self.artifacts[self._filled(given["name"])] = paths

    def _filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self.names.get(found[1], ""), text)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """Yield copies of the example project, each in a folder of its own."""

    def copies() -> Iterator[Path]:
        number = 0
        while True:
            number += 1
            yield shutil.copytree(
                EXAMPLE, tmp_path / f"checkout{number}", ignore=LEFT_OUT
            )

    return copies()


def workflow(name: str) -> dict[str, Any]:
    """Return the jobs of a workflow of the example project."""
    jobs: dict[str, Any] = yaml.safe_load(
        (WORKFLOWS / f"{name}.yml").read_text("utf-8")
    )["jobs"]
    return jobs


def test_the_suite(folders: Iterator[Path]) -> None:
    """One test fails: the job fails, with a summary, and keeps the report."""
    job = Job(folder=next(folders))
    job.run(workflow("tests")["tests"]["steps"])
    assert job.failed
    assert job.summary.startswith("## \u274c 1 of 35 tests failed: ")
    (path,) = job.artifacts["failure-report"]
    assert read_report(path)["summary"]["failed"] == 1


def test_shards(folders: Iterator[Path]) -> None:
    """Each test runs in one shard; the merge has the verdict of both, and fails without one."""
    jobs = workflow("shards")
    shards = []
    for entry in jobs["tests"]["strategy"]["matrix"]["include"]:
        shard = Job(folder=next(folders))
        shard.names = {f"matrix.{name}": str(each) for name, each in entry.items()}
        shard.run(jobs["tests"]["steps"])
        shards.append(shard)
    assert [shard.failed for shard in shards] == [False, True]
    verdict = merge(next(folders), shards, jobs)
    merged = read_report(verdict.artifacts["failure-report"][0])
    assert verdict.failed
    assert (merged["summary"]["passed"], merged["summary"]["failed"]) == (34, 1)
    assert "TESTS\\_FAILED" in verdict.summary
    lacking = merge(next(folders), shards[:1], jobs)
    assert lacking.failed
    assert "shard.missing" in lacking.summary


def merge(folder: Path, shards: list[Job], jobs: dict[str, Any]) -> Job:
    """Run the job that merges, with what the shards have kept."""
    for shard in shards:
        for name, paths in shard.artifacts.items():
            (folder / name).mkdir()
            for path in paths:
                shutil.copy(path, folder / name)
    verdict = Job(folder=folder)
    verdict.run(jobs["verdict"]["steps"])
    return verdict


def test_a_retry_where_it_can_help(folders: Iterator[Path]) -> None:
    """A service that had too much to do is tried once more, and then the job passes."""
    folder = next(folders)
    shutil.rmtree(folder / "tests")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(RATE_LIMIT, "utf-8")
    job = Job(folder=folder)
    job.run(workflow("retry")["tests"]["steps"])
    assert job.ran == ["Test", "Try again"]
    assert not job.failed
    kept = {
        path.name: read_report(path)["verdict"]
        for path in job.artifacts["failure-reports"]
    }
    assert kept["first.json"]["reason"] == "LLM_ERROR"
    assert kept["second.json"] is None


def test_a_retry_runs_what_did_not_run(folders: Iterator[Path]) -> None:
    """`-x` ended the first run before a test that fails: the second finds it, and the job fails."""
    folder = next(folders)
    shutil.rmtree(folder / "tests")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(RATE_LIMIT, "utf-8")
    (folder / "tests" / "test_later.py").write_text(
        "def test_it(): assert 1 == 2", "utf-8"
    )
    steps = workflow("retry")["tests"]["steps"]
    for step in steps:
        if "failure-taxonomy run" in step.get("run", ""):
            step["run"] += " -x"
    job = Job(folder=folder)
    job.run(steps)
    assert job.ran == ["Test", "Try again"]
    assert job.failed


def test_no_retry_where_it_cannot(folders: Iterator[Path]) -> None:
    """A failed assertion fails again: the job says so and fails."""
    job = Job(folder=next(folders))
    job.run(workflow("retry")["tests"]["steps"])
    assert job.ran == ["Test", "A retry would not help"]
    assert job.failed


GH: Final = """#!{python}
import json, sys
from urllib.parse import parse_qsl

command, *words = sys.argv[1:]
if command == "label":
    assert words[0] == "create"
    sys.exit(1)  # it is there
assert command == "api", command
method, path, sent, fields = "GET", "", None, []
while words:
    word = words.pop(0)
    if word == "-X":
        method = words.pop(0)
    elif word == "-f":
        fields.append(tuple(words.pop(0).split("=", 1)))
    elif word == "--input":
        assert words.pop(0) == "-"
        sent = json.load(sys.stdin)
    elif word not in ("--paginate", "--silent"):
        path = word
with open("github.json") as file:
    issues = json.load(file)
parts = path.removeprefix("repos/o/r/issues").strip("/").split("/")
found = [each for each in issues if str(each["number"]) == parts[0]]
if method == "GET":
    assert dict(fields)["state"] == "all"
    chosen = [each for each in issues if dict(fields)["labels"] in each["labels"]]
    print(json.dumps(chosen[:1]), json.dumps(chosen[1:]))  # two pages
elif method == "POST" and parts == [""]:
    bot = {{"login": "github-actions[bot]"}}
    state = {{"state": "open", "state_reason": None, "comments": []}}
    issues.insert(0, {{"number": len(issues) + 1, "user": bot, **state, **sent}})
elif method == "POST" and parts[1:] == ["comments"]:
    found[0]["comments"].append(sent["body"])
else:
    assert method == "PATCH" and len(parts) == 1, (method, path)
    found[0].update(sent)
with open("github.json", "w") as file:
    json.dump(issues, file)
"""
"""GitHub's issues in a file, newest first; it fails where it is not called as it should be."""
HOSTILE: Final = (
    "`$(touch hacked)` @octocat fixes #12 <!-- failure-taxonomy cause={} passes=9 -->"
)


def issues_of(folder: Path, report: dict[str, Any]) -> Path:
    """Run the job that reads a report; return what it leaves."""
    (folder / "report").mkdir(exist_ok=True)
    (folder / "report" / "failure-report.json").write_text(json.dumps(report), "utf-8")
    job = Job(folder=folder)
    job.run(workflow("issues")["read"]["steps"])
    assert not job.failed
    (left,) = job.artifacts["issues"]
    return left.rename(folder / f"{report['run']['id']}.json")


def write_issues(folder: Path, issues: Path) -> list[dict[str, Any]]:
    """Run the job that writes; return what GitHub has then."""
    shutil.copy(issues, folder / "issues.json")
    names = {
        "github.repository": "o/r",
        "github.event.workflow_run.html_url": "https://run",
    }
    job = Job(folder=folder, names=names, programs=str(folder))
    job.run(workflow("issues")["write"]["steps"])
    assert not job.failed
    kept: list[dict[str, Any]] = json.loads((folder / "github.json").read_text("utf-8"))
    return kept


@pytest.mark.slow
def test_one_issue_a_cause(tmp_path: Path) -> None:
    """It is opened, commented when the cause comes again, and closed after five runs without it."""
    if shutil.which("jq") is None:
        pytest.skip("the workflow needs jq")
    (tmp_path / "gh").write_text(GH.format(python=sys.executable), "utf-8")
    (tmp_path / "gh").chmod(0o755)
    report = report_as_json(1, message=HOSTILE, test_a="failed", test_b="passed")
    passed, cut_short = (
        report_as_json(n, test_a="passed", test_b="passed") for n in (2, 3)
    )
    cut_short["not_run"]["count"] = 1
    bad, good, cut = (issues_of(tmp_path, each) for each in (report, passed, cut_short))
    key = report["causes"][0]["key"]
    mark = f"<!-- failure-taxonomy cause={key} passes="
    # What others write does not count, nor does the mark anywhere else.
    others = [
        {"number": 1, "user": {"login": "stranger"}, "body": f"{mark}4 -->"},
        {
            "number": 2,
            "user": {"login": "github-actions[bot]"},
            "body": f"x\n{mark}4 -->",
        },
        {"number": 3, "user": {"login": "github-actions[bot]"}, "body": None},
    ]
    given = {"state": "open", "labels": ["failure-taxonomy"], "comments": []}
    before = [{**each, **given} for each in others]
    (tmp_path / "github.json").write_text(json.dumps(before), "utf-8")

    def change(**fields: str) -> None:
        kept = json.loads((tmp_path / "github.json").read_text("utf-8"))
        kept[0] |= fields
        (tmp_path / "github.json").write_text(json.dumps(kept), "utf-8")

    def said(issues: Path) -> tuple[str, int, str]:
        issue, *rest = write_issues(tmp_path, issues)
        assert rest == before
        assert issue["body"].startswith(mark)
        passes = issue["body"].removeprefix(mark).partition(" ")[0]
        return issue["state"], len(issue["comments"]), passes

    assert said(bad) == ("open", 0, "0")
    issue, *_ = write_issues(tmp_path, bad)
    assert issue["number"] == 4
    assert issue["labels"] == ["failure-taxonomy", "TESTS_FAILED"]
    assert issue["body"].endswith("\n[The run](https://run)\n")
    assert issue["comments"][0].startswith("- Seen again: `1 x at commit 0")
    assert said(good) == ("open", 1, "1")
    assert said(cut) == ("open", 1, "1")
    assert said(bad) == ("open", 2, "0")
    change(body=issue["body"].replace("passes=0", "passes=3"))
    assert said(good) == ("open", 2, "4")
    assert said(good) == ("closed", 3, "5")
    assert said(good) == ("closed", 3, "5")
    assert said(bad) == ("open", 4, "0")
    # Who closes it as not planned wants to hear no more.
    change(state="closed", state_reason="not_planned")
    assert said(bad) == ("closed", 4, "0")
    assert not (tmp_path / "hacked").exists()


def test_who_may_write_issues() -> None:
    """The job that may runs nothing of others, and no script has a text of theirs."""
    whole = yaml.safe_load((WORKFLOWS / "issues.yml").read_text("utf-8"))
    read, write = whole["jobs"].values()
    assert (whole["permissions"], read["permissions"]) == ({}, {"actions": "read"})
    assert write["permissions"] == {"issues": "write"}
    download, script = write["steps"]
    assert download["uses"].startswith("actions/download-artifact@")
    assert "uses" not in script
    for step in (*read["steps"], *write["steps"]):
        assert "${{" not in step.get("run", "")
        assert "checkout" not in step.get("uses", "")
    assert {"head_branch", "head_repository"} <= set(
        re.findall(r"workflow_run\.(\w+)", read["if"])
    )


def action(folder: Path, **inputs: str) -> tuple[Job, dict[str, str]]:
    """Run the action; return the job and the action's outputs."""
    said = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert set(inputs) <= set(said["inputs"])
    given = {name: each["default"] for name, each in said["inputs"].items()} | inputs
    job = Job(
        folder=folder, names={f"inputs.{name}": text for name, text in given.items()}
    )
    job.run(said["runs"]["steps"])
    return job, {
        name: job._filled(each["value"]) for name, each in said["outputs"].items()
    }


def test_the_action(folders: Iterator[Path]) -> None:
    """It runs pytest, keeps the report, and passes on what later steps ask for."""
    job, outputs = action(next(folders))
    assert job.failed
    assert outputs == {
        "reason": "TESTS_FAILED",
        "kind": "test.failed",
        "retryable": "false",
    }
    assert [path.name for path in job.artifacts["failure-report"]] == [
        "failure-report.json"
    ]
    assert job.summary.startswith("## \u274c 1 of 35 tests failed: ")
    assert len(job.ran) == 1


def test_the_action_that_proves(folders: Iterator[Path]) -> None:
    """What failed is proven in a step between the run and the upload, if there is anything."""
    folder = next(folders)
    job, outputs = action(folder, command="pytest tests/test_tax.py", prove="5s")
    assert (len(job.ran), job.failed, outputs["reason"]) == (2, True, "TESTS_FAILED")
    assert job.artifacts["failure-report"]
    job, outputs = action(folder, command="pytest -k keeps_the_currency", prove="5s")
    assert (len(job.ran), job.failed, outputs["reason"]) == (1, False, "")


@pytest.mark.parametrize(
    ("base", "is_pull"),
    [
        pytest.param("origin/main", False, id="a-clone"),
        pytest.param("main", True, id="a-pull-request"),
    ],
)
def test_the_action_that_compares(
    folders: Iterator[Path], tmp_path: Path, base: str, *, is_pull: bool
) -> None:
    """The revision is fetched if the checkout is shallow, and the page says what it has, too."""
    upstream, shallow = next(folders), tmp_path / "shallow"
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com")

    def call(folder: Path, *words: str) -> None:
        assert run_child(folder, [*git, *words]).status == 0

    call(upstream, "init", "--quiet", "--initial-branch=main")
    call(upstream, "add", "--all")
    call(upstream, "commit", "--quiet", "--message=begin")
    call(upstream, "checkout", "--quiet", "-b", "change")
    (upstream / "tests/test_new.py").write_text("def test_new(): assert 1 == 2\n")
    call(upstream, "add", "--all")
    call(upstream, "commit", "--quiet", "--message=change")
    source = f"file://{upstream}"
    if is_pull:  # as actions/checkout does it: one commit, on no branch
        shallow.mkdir()
        call(shallow, "init", "--quiet")
        call(shallow, "remote", "add", "origin", source)
        merge = "refs/remotes/pull/1/merge"
        call(
            shallow,
            "fetch",
            "--quiet",
            "--no-tags",
            "--depth=1",
            "origin",
            f"+HEAD:{merge}",
        )
        call(shallow, "checkout", "--quiet", "--force", merge)
    else:
        call(tmp_path, "clone", "--quiet", "--depth=1", source, str(shallow))
    command = "pytest tests/test_tax.py tests/test_new.py"
    job, _ = action(shallow, command=command, base=base)
    assert (len(job.ran), job.failed) == (2, True)
    for words in ("also on origin/main: fails 5 of 5", "its test does not exist on"):
        assert words in job.summary
    (path,) = job.artifacts["failure-report"]
    bases = {cause["base"]["status"] for cause in read_report(path)["causes"]}
    assert bases == {"also", "new"}


PAGE: Final = ROOT / "docs" / "how-to" / "ci.md"
AGENT: Final = """#!/bin/sh
test "$*" = "annotate --style error" && cat > annotation.md
"""


def recipes() -> dict[str, str]:
    """Return the shell of the recipes for other CI systems, by the heading that they stand under."""
    scripts = {}
    for part in PAGE.read_text("utf-8").split("\n## ")[1:]:
        title = part.partition("\n")[0]
        block = re.search(r"```(yaml|groovy)\n(.+?)```", part, re.DOTALL)
        if block is None or title == "GitHub Actions" or "if: always()" in part:
            continue
        if block[1] == "groovy":
            scripts[title] = "\n".join(re.findall(r"sh '(.+?)'", block[2]))
            continue
        recipe = yaml.safe_load(block[2])
        if title == "GitLab":
            job = recipe["tests"]
            scripts[title] = "\n".join(job["script"]) + " || failed=1\n"
            scripts[title] += "\n".join([*job["after_script"], "exit $failed"])
            continue
        steps = [step.get("command") or step.get("script") for step in recipe["steps"]]
        first, *later = filter(None, steps)
        scripts[title] = first.replace("$$", "$")
        if later:
            scripts[title] += " || failed=1\n" + "\n".join([*later, "exit $failed"])
    return scripts


@pytest.mark.parametrize(
    ("title", "files"),
    [
        ("GitLab", ["code-quality.json", "junit.xml"]),
        ("Jenkins", ["junit.xml"]),
        ("Azure Pipelines", ["junit.xml", "summary.md"]),
        ("Buildkite", ["annotation.md", "why.md"]),
    ],
)
def test_a_recipe_of_the_page(tmp_path: Path, title: str, files: list[str]) -> None:
    """Its shell leaves what the CI system is told to read, and the job fails with its tests."""
    (tmp_path / "test_it.py").write_text("def test_it(): assert 1 == 2\n", "utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "buildkite-agent").write_text(AGENT, "utf-8")
    (programs / "buildkite-agent").chmod(0o755)
    places = (str(programs), str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {
        "PATH": os.pathsep.join(places),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": None,
    }
    script = recipes()[title]
    ended = run_child(
        tmp_path, ["bash", "-eo", "pipefail", "-c", script], env=environment
    )
    assert ended.status == 1, ended.stderr
    for name in ("failure-report.json", *files):
        assert (tmp_path / name).stat().st_size > 0


def test_the_action_with_inputs(folders: Iterator[Path]) -> None:
    """A command with quotes in it, another folder, another name, a limit, and no artifact."""
    folder = next(folders)
    job, outputs = action(
        folder,
        command="python -m pytest -k 'half and cent' test_tax.py",
        report="out/r.json",
        artifact="",
        timeout="120",
        **{"working-directory": "tests"},
    )
    assert job.artifacts == {}
    assert outputs["kind"] == "test.failed"
    report = read_report(folder / "tests" / "out" / "r.json")
    assert report["run"]["invocation"]["args"] == ["-k", "half and cent", "test_tax.py"]


@pytest.mark.parametrize(
    ("command", "reason", "kind"),
    [
        pytest.param(
            "pytest --tb=zzz", "INTERNAL_ERROR", "usage.error", id="refused-early"
        ),
        pytest.param(
            "pytest endings/deaths/process_crashed.py",
            "UNKNOWN",
            "process.crashed",
            id="a-crash",
        ),
        pytest.param("sh -c 'exit 3'", "TESTS_FAILED", "", id="no-pytest"),
    ],
)
def test_the_action_without_a_plugin_at_the_end(
    folders: Iterator[Path], command: str, reason: str, kind: str
) -> None:
    """Outputs and a summary are there also where no plugin was there to write them."""
    job, outputs = action(next(folders), command=command)
    assert job.failed
    assert outputs["reason"] == reason or not kind
    assert outputs["kind"].startswith(kind)
    assert outputs["reason"]
    assert job.summary.count("## \u274c") == 1
