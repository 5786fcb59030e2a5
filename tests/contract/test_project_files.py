"""What contributors and releases rely on agrees: extras, fragments, hooks, CI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from pytest_failure_taxonomy import VERSION

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: Final[dict[str, list[str]]] = PROJECT["project"]["optional-dependencies"]
TYPES: Final = [each["directory"] for each in PROJECT["tool"]["towncrier"]["type"]]


def read(name: str) -> str:
    """Return a file of the repository; an sdist has no CI, and its tests are skipped."""
    path = ROOT / name
    if name.startswith(".") and not path.exists():
        pytest.skip(f"an sdist has no {name}")
    return path.read_text("utf-8")


def hooks() -> dict[str, dict[str, Any]]:
    """Return the pre-commit hooks by their ids."""
    config = yaml.safe_load(read(".pre-commit-config.yaml"))
    return {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}


def test_every_file_names_one_version() -> None:
    """What researchers cite is what is installed, and the changelog begins with it."""
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == VERSION
    assert citation["license"] == PROJECT["project"]["license"]
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == VERSION


def test_all_is_every_extra() -> None:
    """The extra `all` names each other extra, and the README says what each adds."""
    (everything,) = EXTRAS["all"]
    named = re.findall(r"[a-z]+", everything.partition("[")[2])
    assert named == sorted(set(EXTRAS) - {"all"})
    rows = re.findall(
        r"^\| `([a-z]+)` \|", read("README.md").partition("## Extras")[2], re.MULTILINE
    )
    assert rows == [*named, "all"]


def test_fragments_have_a_type() -> None:
    """Every fragment is named as towncrier and the hook want it, and is a list."""
    pattern = hooks()["changelog"]["exclude"]
    for path in sorted((ROOT / "changelog.d").iterdir()):
        assert re.search(pattern, f"changelog.d/{path.name}"), path.name
        if path.name.split(".")[-2] in TYPES:
            assert path.read_text("utf-8").startswith("- "), path.name


def test_the_types_of_fragments_are_the_same_everywhere() -> None:
    """Towncrier's table, the hook and the page on fragments name the same types."""
    in_hook = re.search(r"\\\.\(([a-z|]+)\)", hooks()["changelog"]["exclude"])
    assert in_hook is not None
    assert in_hook[1].split("|") == TYPES
    rows = re.findall(r"^\| `([a-z]+)` \|", read("changelog.d/README.md"), re.MULTILINE)
    assert rows == TYPES


def test_hooks_run_what_is_installed() -> None:
    """Ruff has one version for tox and pre-commit: that of the environment."""
    ours = {name: hook for name, hook in hooks().items() if "ruff" in name}
    assert set(ours) == {"ruff-check", "ruff-format"}
    assert {hook["language"] for hook in ours.values()} == {"system"}
    assert {hook["entry"].split()[0] for hook in ours.values()} == {"ruff"}


def test_the_workflows_run_every_python_and_check() -> None:
    """CI runs the classifiers' Pythons on three systems, and the environments of tox."""
    jobs = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]
    promised = re.findall(
        r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"])
    )
    for name in ("linux", "other-systems"):
        tried = jobs[name]["strategy"]["matrix"]["python"]
        assert set(promised) <= set(tried)
        may_fail = re.findall(r"'(3\.\d+)'", jobs[name]["continue-on-error"])
        assert sorted(set(tried) - set(promised)) == may_fail
    environments = re.findall(r"^\[testenv:([a-z]+)\]", read("tox.ini"), re.MULTILINE)
    run = re.findall(r"tox run\S* .*-e ([a-z,]+)", read(".ci/run"))
    checks = {"lint", "types", "contracts", "docs", "package"}
    assert checks | {"lowest", "newest"} == set(",".join(run).split(","))
    assert checks | {"lowest", "newest"} <= set(environments)


def test_a_push_runs_what_it_can_affect_and_the_night_runs_all() -> None:
    """Each checkout that is compared with a commit has the history to find it in."""
    pushed = yaml.safe_load(read(".github/workflows/tests.yml"))
    assert "github.event.before" in pushed["env"]["SINCE"]
    for name, job in pushed["jobs"].items():
        checkout, *_, run = job["steps"]
        assert checkout["with"]["fetch-depth"] == 0, name
        assert re.search("--(changed-)?since", run["run"]), name
    nightly = yaml.safe_load(read(".github/workflows/nightly.yml"))
    commands = [job["steps"][-1]["run"] for job in nightly["jobs"].values()]
    assert commands == [".ci/run --all", "python -m pytest -n 2 --nightly"]


def test_each_action_is_pinned_by_its_commit() -> None:
    """The version stands beside it, for people and for Dependabot; one action has one pin."""
    texts = [read("action.yml"), read(".github/workflows/release.yml")]
    texts += [
        path.read_text("utf-8") for path in ROOT.glob("**/.github/workflows/*.yml")
    ]
    lines = "\n".join(texts).splitlines()
    uses = {line.partition("uses: ")[2] for line in lines if "uses: " in line}
    assert {"actions/checkout", "pypa/gh-action-pypi-publish"} < {
        each.partition("@")[0] for each in uses
    }
    for each in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each
    assert len(uses) == len({each.partition("@")[0] for each in uses})


def test_a_release_builds_what_tox_checks() -> None:
    """What is published has passed `tox run -e package`, and only that job may publish."""
    jobs = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]
    assert "tox run -e package" in [step.get("run") for step in jobs["build"]["steps"]]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "permissions" not in jobs["build"]
