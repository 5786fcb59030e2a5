"""The mistakes that `tests.benchmarks.mutation` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.mutation import (
    PACKAGE,
    SOURCES,
    UNIT_TESTS,
    choose_tests,
    find_mutants,
    sample_mutants,
)

MISTAKES: Final = {
    "if a == b < c: pass": {"(a != b < c)"},
    "x = a not in b": {"(a in b)"},
    "x = a and b and c": {"(a or b or c)"},
    "x = not a": {"(a)"},
    "x = 1": {"2"},
    "x = True": {"False"},
    "x = 'é' + y": {'""'},
    "x = ''": set(),
    "x = None": set(),
    "x: Literal['a'] = y": set(),
    "x = f'{a} is {1}'": set(),
    "import a": set(),
    "'''A docstring.'''": set(),
    "def f():\n    '''A docstring.'''\n    return y": {"return None"},
    "def f():\n    return None": set(),
    "def f(x: int = 1) -> 'int':\n    g(x)": {"2", "pass"},
    "def f():\n    x += y\n    raise x": {"pass"},
    "@slots(True)\nclass A:\n    x = y": set(),
}


def test_each_mistake_is_made() -> None:
    """One at a time, and nowhere where it makes no difference."""
    for source, mistakes in MISTAKES.items():
        mutants = find_mutants(source)
        assert {mutant.after for mutant in mutants} == mistakes, source
        for mutant in mutants:
            assert mutant.source == source.replace(mutant.before, mutant.after, 1)
            compile(mutant.source, "module", "exec")


def test_a_mutant_knows_its_line() -> None:
    """An expression of several lines is replaced as a whole, after text of several bytes."""
    source = "x = 'é'; y = (a\n     == b)\nz = 3\n"
    texts = [(mutant.line, mutant.source) for mutant in find_mutants(source)]
    assert texts == [
        (1, 'x = ""; y = (a\n     == b)\nz = 3\n'),
        (1, "x = 'é'; y = ((a != b))\nz = 3\n"),
        (3, "x = 'é'; y = (a\n     == b)\nz = 4\n"),
    ]


def test_a_seed_chooses_the_same_mutants() -> None:
    """Another seed chooses others; a small module is mutated everywhere."""
    mutants = find_mutants("\n".join(f"x{number} = {number}" for number in range(100)))
    chosen = sample_mutants(mutants, 40, seed=0)
    assert chosen == sample_mutants(mutants, 40, seed=0)
    assert chosen != sample_mutants(mutants, 40, seed=1)
    assert len(chosen) == 40
    assert sample_mutants(mutants, 200, seed=0) == mutants


def test_the_tests_of_a_module_are_chosen() -> None:
    """They are named, or those of its room; a room without any is an error."""
    first, *_ = choose_tests("taxonomy/judge.py")
    assert first.endswith("tests/unit/taxonomy/test_judge.py")
    first, *_, room = choose_tests("taxonomy/values.py")
    assert first.endswith("tests/unit/taxonomy/test_values.py")
    assert room.endswith("tests/unit/taxonomy")
    with pytest.raises(SystemExit, match="name tests by --tests"):
        choose_tests("plugin.py")


@pytest.mark.parametrize("module", UNIT_TESTS)
def test_modules_and_their_tests_exist(module: str) -> None:
    """A test that was moved is no longer run, so the table has to follow."""
    paths = [SOURCES / PACKAGE / module, *map(Path, choose_tests(module))]
    assert [path for path in paths if not path.is_file()] == []
