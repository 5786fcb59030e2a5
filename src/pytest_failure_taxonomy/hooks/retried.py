"""In the pytest of `run --retry`: run some tests again, and write no other files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.redirection import Redirection
from pytest_failure_taxonomy.hooks.settings import RetriedTests

_GROUP: Final = re.compile(r"@[^\]]*$")
"""What xdist adds to a node id, where it distributes by groups."""
_PARTS: Final = ("splits", "group")
"""Options of pytest-split, which would take a part of the tests again."""


def keep_files(config: pytest.Config, retried: RetriedTests) -> None:
    """Keep the user's files as the first run has left them, which had all tests."""
    redirection = Redirection(retried.folder, keeps_runs=True)
    redirection.redirect_options(config)
    redirection.redirect_ini_values(config)
    for options in (config.option, config.known_args_namespace):
        vars(options).update(dict.fromkeys(_PARTS))


class SelectRetried:
    """A plugin that has each process of pytest collect the tests to run again."""

    def __init__(self, nodeids: Sequence[str]) -> None:
        self._nodeids = nodeids

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Put the node ids in the place of the paths; none stands for all tests."""
        config = session.config
        is_grouped = getattr(config.option, "dist", None) == "loadgroup"
        args = []
        for nodeid in self._nodeids:
            path, colons, names = nodeid.partition("::")
            names = _GROUP.sub("", names) if is_grouped else names
            args.append(f"{config.rootpath / path}{colons}{names}")
        config.args = args or config.args

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist."""
        node.workerinput["failure_taxonomy_retried"] = list(self._nodeids)
