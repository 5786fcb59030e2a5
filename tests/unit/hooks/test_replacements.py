"""What was replaced of pytest, of unittest and of the clock is found by comparing."""

from __future__ import annotations

import time
import unittest
from pathlib import Path

import pytest

from pytest_failure_taxonomy.hooks.replacements import (
    GuardedNames,
    Replacement,
    is_projects_code,
    is_users_file,
)


def found_since(names: GuardedNames) -> dict[str, Replacement]:
    """Return what was replaced, by its name."""
    return {found.name: found for found in names.replacements()}


def test_a_replaced_method_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with its class, and the place is that of the new function."""
    names = GuardedNames()
    before = found_since(names)

    def assert_equal(*_: object) -> None:
        pass

    monkeypatch.setattr(unittest.TestCase, "assertEqual", assert_equal)
    after = found_since(names)
    assert after.keys() - before.keys() == {"unittest.case.TestCase.assertEqual"}
    found = after["unittest.case.TestCase.assertEqual"]
    assert (found.kind, found.attribute) == ("assertion_replaced", "assertEqual")
    assert found.path == __file__
    assert found.line == assert_equal.__code__.co_firstlineno


def test_a_function_that_was_there_at_the_start_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its code is the user's, so it needs no comparison."""
    monkeypatch.setattr(unittest.TestCase, "assertTrue", lambda *_: None)
    assert "unittest.case.TestCase.assertTrue" in found_since(GuardedNames())


@pytest.mark.parametrize(
    ("module", "name", "value", "kind"),
    [
        (time, "time", len, "environment_changed"),
        (pytest.Session, "testsfailed", property(len), "exit_status"),
        (pytest.Item, "runtest", len, "pytest_replaced"),
    ],
)
def test_a_replacement_without_a_file(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: object, kind: str
) -> None:
    """What has no code of the user's is found, too, and says of which kind it is."""
    names = GuardedNames()
    before = found_since(names)
    monkeypatch.setattr(module, name, value, raising=False)
    after = found_since(names)
    monkeypatch.undo()
    (new,) = after.keys() - before.keys()
    assert (after[new].kind, after[new].path) == (kind, None)


def test_a_setting_is_no_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain value may change: `maxDiff` is for that."""
    names = GuardedNames()
    before = found_since(names)
    monkeypatch.setattr(unittest.TestCase, "maxDiff", None)
    assert found_since(names).keys() == before.keys()


def test_whose_file_it_is(tmp_path: Path) -> None:
    """Files of Python, of distributions and texts are not the user's; tests are no project's."""
    own = str(tmp_path / "shop" / "cart.py")
    assert is_users_file(own)
    assert is_projects_code(own, tmp_path)
    assert not is_projects_code(str(tmp_path / "tests" / "cart.py"), tmp_path)
    assert not is_users_file(unittest.__file__)
    assert not is_users_file(pytest.__file__)
    assert not is_users_file("<string>")
