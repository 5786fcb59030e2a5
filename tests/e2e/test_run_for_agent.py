"""`failure-taxonomy run --for agent`: one answer on stdout, all else in a file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.helpers.children import ChildRun, pytest_command, run_child
from tests.helpers.reports import read_report

if sys.platform == "win32":
    pytest.skip("needs POSIX signals and modes", allow_module_level=True)

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
LOG: Final = "failure-report.log"
PYTEST: Final = "python -m pytest -p no:cacheprovider -p failure_taxonomy"
"""How the commands of an answer begin."""
GREEN: Final = "verdict: no failure (1 passed); all output: failure-report.log\n"


def run_for(
    folder: Path,
    suite: str,
    *options: str,
    env: Mapping[str, str | None] | None = None,
) -> ChildRun:
    """Run a suite under `run`."""
    (folder / "test_it.py").write_text(suite, "utf-8")
    command = pytest_command("test_it.py", plugins=("failure_taxonomy",))
    return run_child(folder, [*CLI, "run", *options, "--", *command], env=env)


def run_for_agent(folder: Path, suite: str = "def test_it(): pass\n") -> ChildRun:
    """Run a suite for an agent."""
    return run_for(folder, suite, "--for=agent")


def test_a_green_run_is_one_line(tmp_path: Path) -> None:
    """Stdout has one line, and the file that it names has what pytest has printed."""
    run = run_for_agent(tmp_path)
    assert (run.status, run.stdout, run.stderr) == (0, GREEN, "")
    assert "1 passed in" in (tmp_path / LOG).read_text("utf-8")


def test_a_red_run_is_the_answer_for_agents(tmp_path: Path) -> None:
    """Stdout has the answer, with the path of the file that has both streams of the command."""
    suite = "import os\ndef test_it():\n    os.write(2, b'loud')\n    assert 3 == 4\n"
    run = run_for(tmp_path, suite, "--for=agent")
    assert (run.status, run.stderr) == (1, "")
    assert run.stdout == (
        "verdict: 1 test failed\n"
        "  retry helps: no; output: failure-report.log\n"
        "1. assert 3 == 4: test_it (test_it.py:4)\n"
        "   > assert 3 == 4\n"
        f"   {PYTEST} test_it.py::test_it\n"
    )
    log = (tmp_path / LOG).read_text("utf-8")
    assert "1 failed in" in log
    assert "loud" in log
    assert run.report()["verdict"]["kind"] == "test.failed"


@pytest.mark.parametrize(
    ("env", "options", "is_for_agent"),
    [
        ({"FAILURE_TAXONOMY_FOR": "agent"}, (), True),
        ({"CLAUDECODE": "1"}, (), True),
        ({"AI_AGENT": "some-agent@2"}, (), True),
        ({"CLAUDECODE": ""}, (), False),
        ({"CLAUDECODE": "0"}, (), False),
        ({"CURSOR_AGENT": "False", "CLAUDECODE": "1"}, (), True),
        ({"CURSOR_AGENT": "False"}, (), False),
        ({"CLAUDECODE": "1"}, ("--for=human",), False),
        ({"CLAUDECODE": "1", "FAILURE_TAXONOMY_FOR": "human"}, (), False),
        ({"FAILURE_TAXONOMY_FOR": "agent"}, ("--for=human",), False),
        ({}, (), False),
    ],
)
def test_who_reads(
    tmp_path: Path,
    env: Mapping[str, str | None],
    options: tuple[str, ...],
    is_for_agent: bool,
) -> None:
    """The option counts first, then our variable, then those that agents set."""
    run = run_for(tmp_path, "def test_it(): pass\n", *options, env=env)
    assert (run.stdout == GREEN) is is_for_agent
    assert (tmp_path / LOG).exists() is is_for_agent


def test_a_reader_that_is_not_known(tmp_path: Path) -> None:
    """A value that is none is refused before anything runs."""
    env = {"FAILURE_TAXONOMY_FOR": "agnet"}
    run = run_for(tmp_path, "def test_it(): pass\n", env=env)
    assert run.status == 2
    assert run.stderr == (
        "failure-taxonomy: FAILURE_TAXONOMY_FOR: 'agnet' is no reader; give agent or human\n"
    )


def test_another_command_of_an_agent(tmp_path: Path) -> None:
    """Without the option, only the output of a pytest goes to a file."""
    command = [*CLI, "run", "--", "sh", "-c", "echo out; exit 3"]
    run = run_child(tmp_path, command, env={"CLAUDECODE": "1"})
    assert (run.status, run.stdout) == (3, "out\n")
    command.insert(command.index("--"), "--for=agent")
    run = run_child(tmp_path, command)
    assert run.status == 3
    assert run.stdout.startswith("verdict: ")
    assert (tmp_path / LOG).read_text("utf-8").endswith("out\n")


def test_a_pytest_that_dies(tmp_path: Path) -> None:
    """The answer says how it died, the file has the stacks, and the status is the command's."""
    suite = "import faulthandler\ndef test_it():\n    faulthandler._sigsegv()\n"
    run = run_for_agent(
        tmp_path, f"import resource as r\nr.setrlimit(4, (0, 0))\n{suite}"
    )
    assert run.status == -11
    assert (
        "\n1. the pytest process crashed (SIGSEGV) at test_it.py:5 while it ran "
        f"test_it.py::test_it\n   is: UNKNOWN process.crashed; charge to: ambiguous\n"
        f"   {PYTEST} test_it.py::test_it\n"
    ) in run.stdout
    assert run.stderr == ""
    assert "Fatal Python error" in (tmp_path / LOG).read_text("utf-8")


def test_the_file_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    """It has the output of the last run alone."""
    run_for_agent(tmp_path, "def test_it(): assert 0\n")
    assert run_for_agent(tmp_path).stdout == GREEN
    assert "failed" not in (tmp_path / LOG).read_text("utf-8")


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_is_not_ours_stays(tmp_path: Path, what: str) -> None:
    """A file, link or folder of the user's is kept; the output goes to a temporary file."""
    project, target = tmp_path / "project", tmp_path / "target"
    project.mkdir()
    log = project / LOG
    target.write_text("# mine\n", "utf-8")
    if what == "file":
        log.write_text("# mine\n", "utf-8")
    elif what == "link":
        log.symlink_to(target)
    else:
        log.mkdir()
    before = log.lstat()
    env = {"TMPDIR": str(tmp_path)}
    run = run_for(project, "def test_it(): pass\n", "--for=agent", env=env)
    named = Path(run.stdout.rstrip().removeprefix(GREEN.removesuffix(f"{LOG}\n")))
    assert named.parent == tmp_path
    assert "1 passed in" in named.read_text("utf-8")
    assert target.read_text("utf-8") == "# mine\n"
    after = log.lstat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to any folder")
def test_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    """The output goes to a temporary file."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_it.py").write_text("def test_it(): pass\n", "utf-8")
    project.chmod(0o500)
    command = pytest_command("test_it.py", plugins=("failure_taxonomy",))
    env = {"TMPDIR": str(tmp_path)}
    run = run_child(project, [*CLI, "run", "--for=agent", "--", *command], env=env)
    assert run.status == 0
    assert f"; all output: {tmp_path}" in run.stdout


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    """The output goes to a temporary file, and stderr says that there is no report."""
    options = ("--for=agent", "--report=test_it.py/report.json")
    env = {"TMPDIR": str(tmp_path)}
    run = run_for(tmp_path, "def test_it(): assert 3 == 4\n", *options, env=env)
    assert run.status == 4
    assert re.search("; output: failure-report-.*[.]log$", run.stdout, re.MULTILINE)
    assert "the report can't be written" in run.stderr


def test_a_report_that_has_the_name_of_the_file(tmp_path: Path) -> None:
    """The output goes elsewhere."""
    options = ("--for=agent", "--report=it.log")
    env = {"TMPDIR": str(tmp_path)}
    run = run_for(tmp_path, "def test_it(): pass\n", *options, env=env)
    assert f"; all output: {tmp_path}" not in run.stdout
    assert "; all output: failure-report-" in run.stdout
    assert read_report(tmp_path / "it.log")["verdict"] is None


def test_how_far_a_long_run_is(tmp_path: Path) -> None:
    """Lines on stderr say how many tests have ended, how many failed, and for how long it runs."""
    suite = (
        "import time, pathlib\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 0\n"
        "def test_long():\n"
        "    while not pathlib.Path('seen').exists():\n"
        "        time.sleep(0.01)\n"
    )
    (tmp_path / "test_it.py").write_text(suite, "utf-8")
    # The function that tells is the real one, more often than each 30 s.
    script = (
        "import pathlib, sys\n"
        "from pytest_failure_taxonomy.cli import for_agents, main\n"
        "from pytest_failure_taxonomy.survive import supervisor\n"
        "def tell(text):\n"
        "    print(text, file=sys.stderr, flush=True)\n"
        "    if text.startswith('… 2 of 3 tests, 1 failed, '):\n"
        "        pathlib.Path('seen').touch()\n"
        "supervisor.TELL_SECONDS = 0.1\n"
        "for_agents.tell_plainly = tell\n"
        "sys.exit(main.main(sys.argv[1:]))\n"
    )
    command = pytest_command("test_it.py", plugins=("failure_taxonomy",))
    words = [sys.executable, "-c", script, "run", "--for=agent", "--", *command]
    run = run_child(tmp_path, words, env={"PYTHONIOENCODING": "utf-8"})
    assert run.status == 1
    assert "… 2 of 3 tests, 1 failed, " in run.stderr
    assert run.stdout.startswith("verdict: 1 of 3 tests failed\n")


def test_the_help_names_it(tmp_path: Path) -> None:
    """The help says what each reader gets and what decides without the option."""
    run = run_child(tmp_path, [*CLI, "run", "--help"])
    words = " ".join(run.stdout.split())
    assert "[--for READER]" in words
    assert "print only the answer for agents, one line if nothing failed" in words
    assert "default: FAILURE_TAXONOMY_FOR, else agent for a pytest" in words


# `init-agent`.

SKILL: Final = ".claude/skills/failure-taxonomy/SKILL.md"
BEGIN: Final = "<!-- failure-taxonomy: begin -->\n"
END: Final = "<!-- failure-taxonomy: end -->"


def init_agent(folder: Path, *options: str) -> ChildRun:
    """Run `init-agent`."""
    return run_child(folder, [*CLI, "init-agent", *options])


def test_the_skill_has_the_open_format(tmp_path: Path) -> None:
    """It begins with a name that is its folder's and a description, in YAML."""
    run = init_agent(tmp_path)
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout.startswith(f"{SKILL}: written\nfor AGENTS.md:\n\n{BEGIN}")
    assert not (tmp_path / "AGENTS.md").exists()
    start, front, body = (tmp_path / SKILL).read_text("utf-8").split("---\n")
    assert start == ""
    fields = yaml.safe_load(front)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == (tmp_path / SKILL).parent.name
    assert len(fields["description"]) <= 1_024
    assert "`failure-taxonomy run --for agent -- pytest`" in body


def test_the_commands_of_the_skill_exist(tmp_path: Path) -> None:
    """The command line knows each command and option that agents are told to use."""
    init_agent(tmp_path, "--agents-md")
    texts = [(tmp_path / name).read_text("utf-8") for name in (SKILL, "AGENTS.md")]
    commands = re.findall("`(failure-taxonomy [^`]+)`", "".join(texts))
    assert len(commands) == 4
    for command in commands:
        name, *words = command.split()[1:]
        run = run_child(tmp_path, [*CLI, name, "--help"])
        assert run.status == 0
        before = words[: words.index("--")] if "--" in words else words
        assert all(word in run.stdout for word in before)


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    """Only what is between our marks is written again."""
    (tmp_path / "AGENTS.md").write_bytes(b"# mine\r\n\xff\n")
    assert init_agent(tmp_path, "--agents-md").status == 0
    agents = (tmp_path / "AGENTS.md").read_bytes()
    assert agents.startswith(b"# mine\r\n\xff\n\n" + BEGIN.encode())
    (tmp_path / "AGENTS.md").write_bytes(agents + b"\nmine, too\n")
    skill = (tmp_path / SKILL).read_text("utf-8")
    changed = skill.replace("1. Run ", "1. Walk ").replace(END, f"{END}\nmine")
    (tmp_path / SKILL).write_text(changed, "utf-8")
    assert init_agent(tmp_path, "--agents-md").status == 0
    assert (tmp_path / "AGENTS.md").read_bytes() == agents + b"\nmine, too\n"
    assert (tmp_path / SKILL).read_text("utf-8") == skill.replace(END, f"{END}\nmine")


def test_a_file_with_line_ends_of_windows(tmp_path: Path) -> None:
    """A section that is added or replaced has the line ends of the file."""
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"# Rules\r\n")
    for words in ("written", "nothing to change"):
        run = init_agent(tmp_path, "--agents-md")
        assert f"AGENTS.md: {words}\n" in run.stdout
        assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")


@pytest.mark.parametrize("what", ["file", "link", "linked folder", "folder"])
def test_what_is_foreign_is_refused(tmp_path: Path, what: str) -> None:
    """A skill of the user's stays, and nothing is written through a link."""
    path, elsewhere = tmp_path / SKILL, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "SKILL.md").write_text(f"{BEGIN}{END}", "utf-8")
    path.parent.parent.mkdir(parents=True)
    if what == "linked folder":
        path.parent.symlink_to(elsewhere)
    else:
        path.parent.mkdir()
    if what == "file":
        path.write_text("mine", "utf-8")
    elif what == "link":
        path.symlink_to(elsewhere / "SKILL.md")
    elif what == "folder":
        path.mkdir()
    size = path.stat().st_size
    run = init_agent(tmp_path)
    assert (run.status, run.stdout) == (2, "")
    assert run.stderr.startswith(f"failure-taxonomy: init-agent: {SKILL} ")
    assert run.stderr.endswith("; move it away, or give another --path\n")
    assert path.stat().st_size == size
    assert (elsewhere / "SKILL.md").read_text("utf-8") == f"{BEGIN}{END}"


# What differs.

NESTED: Final = """\
NAMES = [{"name": f"n{number}", "value": number} for number in range(20)]
NUMBERS = [*range(100)]
ABC = "abcdefghij" * 3


def changed(**fields):
    return {"items": [*NAMES[:13], {**NAMES[13], **fields}, *NAMES[14:]]}
"""
DIFFERENCES: Final = {
    "items[13].name: 'X', expected 'n13'": "changed(name='X') == changed()",
    "[100]: 5, expected 6": "[*NUMBERS, 5] == [*NUMBERS, 6]",
    "s: missing {100}; unexpected {50, 51}": (
        "{'s': {*NUMBERS}} == {'s': {*NUMBERS[:50], *NUMBERS[52:], 100}}"
    ),
    "unexpected {0, 1}": "NUMBERS == NUMBERS[2:]",
    "a: missing {'k'}; unexpected {'x'}": (
        "{'a': {'x': 1, 0: NUMBERS}, 'b': NUMBERS}"
        " == {'a': {'k': 1, 0: NUMBERS}, 'b': NUMBERS}"
    ),
    "b c[0][0]: 1.5, expected '1.5'": (
        "{'a': NUMBERS, 'b c': [{0: 1.5}]} == {'a': NUMBERS, 'b c': [{0: '1.5'}]}"
    ),
    "password: '[REDACTED:password]', expected ''": (
        "{'password': 'hunter2-secret', 'x': NUMBERS} == {'password': '', 'x': NUMBERS}"
    ),
    "assert {'a': 1} == {'a': 2}": "{'a': 1} == {'a': 2}",
    "a: 19 elements, expected 20": "{'a': NAMES[:19]} == {'a': NAMES}",
    "line 41: 'c', expected 'd'": "'a\\nb\\n' * 20 + 'c\\n' == 'a\\nb\\n' * 20 + 'd\\n'",
    "…'hijabcdex', expected …'hijabcdey'": "ABC + 'abcdex' == ABC + 'abcdey'",
}


def test_the_first_difference_of_nested_values(tmp_path: Path) -> None:
    """Where pytest shortens the values, the sentence says where they differ and in what."""
    functions = [
        f"def test_{number}(): assert {comparison}\n"
        for number, comparison in enumerate(DIFFERENCES.values())
    ]
    run = run_for(tmp_path, NESTED + "".join(functions), "--for=agent")
    sentences = re.findall(r"^\d+\. (.*): test_", run.stdout, re.MULTILINE)
    assert sorted(sentences) == sorted(DIFFERENCES)
    assert "{'name': 'n0'" not in run.stdout


def test_the_first_difference_in_unittest(tmp_path: Path) -> None:
    """Of an `assertEqual` whose values unittest shortens it is the same."""
    suite = (
        "    def test_a(self): self.assertEqual(changed(name='X'), changed())\n"
        "    def test_b(self): self.assertEqual([*NUMBERS, 5], NUMBERS)\n"
        "    def test_c(self): self.assertEqual([1, 2], [1, 3])\n"
        "    def test_d(self): self.assertNotEqual(NAMES, NAMES)\n"
    )
    head = f"{NESTED}\nimport unittest\nclass TestIt(unittest.TestCase):\n"
    run = run_for(tmp_path, head + suite, "--for=agent")
    sentences = re.findall(r"^\d+\. (.*): TestIt", run.stdout, re.MULTILINE)
    assert sentences[:3] == [
        "items[13].name: 'X', expected 'n13'",
        "unexpected {5}",
        "Lists differ: [1, 2] != [1, 3]",
    ]
    assert sentences[3].startswith("[{'name': 'n0',")
    assert "E First differing element 1:" in run.stdout


SHOP: Final = {
    "conftest.py": "import pytest\n@pytest.fixture\ndef user():\n    return None['id']\n",
    "shop.py": (
        "import json\n"
        "def load(text):\n"
        "    try:\n"
        "        return json.loads(text)\n"
        "    except ValueError as error:\n"
        "        raise LookupError('no prices') from error\n"
    ),
}


def test_the_lines_of_each_cause(tmp_path: Path) -> None:
    """Each has its sentence, the failing lines of the user's frames, and its command."""
    for name, text in SHOP.items():
        (tmp_path / name).write_text(text, "utf-8")
    suite = (
        "import pytest, shop\n"
        "@pytest.mark.parametrize('number', range(3))\n"
        "def test_user(user, number): pass\n"
        "def test_prices():\n"
        "    before = 1\n"
        "    assert shop.load('{')\n"
        "def test_text():\n"
        "    assert 'one\\ntwo\\n' == 'one\\n2\\n'\n"
    )
    run = run_for(tmp_path, suite, "--for=agent")
    assert run.stdout == (
        "verdict: 5 tests failed, 3 causes\n"
        "  retry helps: no; output: failure-report.log\n"
        "1. 3 x TypeError: 'NoneType' object is not subscriptable: fixture user "
        "(conftest.py:2)\n"
        "   > conftest.py:4: return None['id']\n"
        "   is: TESTS_FAILED test.setup_error; charge to: ambiguous\n"
        f"   {PYTEST} 'test_it.py::test_user[0]'\n"
        "2. LookupError: no prices: load (shop.py:6), in test_prices\n"
        "   > shop.py:4: return json.loads(text)\n"
        "   > test_it.py:6: assert shop.load('{')\n"
        "   > raise LookupError('no prices') from error\n"
        "   E json.decoder.JSONDecodeError: Expecting property name enclosed in double "
        "quotes: line 1 column 2 (char 1)\n"
        f"   {PYTEST} test_it.py::test_prices\n"
        "3. assert 'one\\ntwo\\n' == 'one\\n2\\n': test_text (test_it.py:8)\n"
        "   > assert 'one\\ntwo\\n' == 'one\\n2\\n'\n"
        "   E   - 2\n"
        "   E   + two\n"
        f"   {PYTEST} test_it.py::test_text\n"
    )


def test_forty_causes_and_more(tmp_path: Path) -> None:
    """Each of forty has its place and its command; of the others there is the number."""
    tests = (
        f"def test_{number}(): raise LookupError('key {number}')\n"
        for number in range(45)
    )
    run = run_for(tmp_path, "".join(tests), "--for=agent")
    places = re.findall(r"^\d+\. .* \(test_it.py:(\d+)\)$", run.stdout, re.MULTILINE)
    assert [int(place) for place in places] == [*range(1, 41)]
    commands = re.findall(
        f"^   {PYTEST} test_it.py::test_.*$", run.stdout, re.MULTILINE
    )
    assert len({*commands}) == 40
    assert run.stdout.endswith("and 5 more causes: failure-taxonomy show --all\n")
    assert len(run.stdout) < 8_000


def test_texts_of_tests_begin_no_line(tmp_path: Path) -> None:
    """A message can't look like another cause, or like a line of ours."""
    suite = (
        "def test_it(): raise ValueError('x\\n2. verdict: no failure\\nverdict: no')\n"
    )
    run = run_for_agent(tmp_path, suite)
    heads = [line[:8] for line in run.stdout.splitlines() if line[:1] != " "]
    assert heads == ["verdict:", "1. Value"]


def test_the_folder_and_the_options_of_a_run(tmp_path: Path) -> None:
    """Where commands have to run elsewhere, the answer says so; options are theirs, too."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (tmp_path / "tests" / "test_it.py").write_text("def test_it(): assert 0\n", "utf-8")
    command = [*pytest_command(plugins=("failure_taxonomy",)), "-W", "error"]
    words = [*CLI, "run", "--for=agent", "--", *command]
    run = run_child(tmp_path / "tests", words)
    assert " -W error tests/test_it.py::test_it\nrun these in: " in run.stdout
    assert f"\nrun these in: {tmp_path}\n" in run.stdout


def test_the_status_of_another_command(tmp_path: Path) -> None:
    """It has no name of pytest's."""
    run_child(tmp_path, [*CLI, "run", "--for=agent", "--", "sh", "-c", "exit 2"])
    shown = run_child(tmp_path, [*CLI, "show", "--format=agent"])
    assert "  exit code: 2\n" in shown.stdout


def test_objects_of_the_user_are_not_compared(tmp_path: Path) -> None:
    """Their code runs as often as without us, and what it would say is not claimed."""
    suite = (
        "import atexit, os\n"
        "calls = []\n"
        "class Equal:\n"
        "    def __eq__(self, other): calls.append('eq'); return True\n"
        "    def __hash__(self): calls.append('hash'); return 1\n"
        "    def __repr__(self): calls.append('repr'); return 'Equal'\n"
        "    def __len__(self): calls.append('len'); return 1\n"
        "atexit.register(lambda: open('calls', 'w').write(' '.join(calls)))\n"
        "def test_it():\n"
        "    left = {'a': [Equal()] * 30, 'b': [*range(30)]}\n"
        "    assert left == {'a': [Equal()] * 30, 'b': [*range(30), 1]}\n"
    )
    run = run_for(tmp_path, suite, "--for=agent")
    assert "\n1. b: missing {1}: test_it (test_it.py:11)\n" in run.stdout
    ours = (tmp_path / "calls").read_text()
    (tmp_path / "calls").unlink()
    run_child(tmp_path, pytest_command("test_it.py", plugins=()))
    assert (tmp_path / "calls").read_text() == ours


def test_a_green_run_that_a_hook_made(tmp_path: Path) -> None:
    """What made a result other than the tests stands in the one line."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.hookimpl(wrapper=True)\n"
        "def pytest_runtest_makereport():\n"
        "    report = yield\n"
        "    report.outcome = 'passed'\n"
        "    return report\n",
        "utf-8",
    )
    run = run_for_agent(tmp_path, "def test_hidden():\n    assert 0\n")
    assert run.stdout == (
        "verdict: no failure (1 passed); note: not by the tests: conftest.py:5 "
        "(pytest_runtest_makereport) hid what failed: test_it.py::test_hidden; "
        "all output: failure-report.log\n"
    )
