"""A bug fixer without a model: change a little, run the tests, keep what helps."""

from bug_fixer.repair import repair, repair_case

__all__ = ["repair", "repair_case"]
