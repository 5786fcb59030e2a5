"""The ids of cases in node ids, where what means more to pytest is escaped, as in a URL."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from pytest_failure_taxonomy.bench.models import BenchCase

_MEANS_MORE: Final = re.compile(r"[%/\\\[\]#]|\A:|:(?=:)|(?<=:):")
"""Among them `%`, so that an id can be read from its node id, and `#`, which a repetition has."""


def escape(case_id: str) -> str:
    """Return the id of a case as a part of node ids; no other id has the same."""
    return _MEANS_MORE.sub(lambda found: quote(found[0], safe=""), case_id)


def node_name(case: BenchCase) -> str:
    """Return the name of a case's item: `HumanEval%2F0`, or `HumanEval%2F0#2` if it is repeated."""
    of_file = case.id_in_file
    return escape(of_file) + case.case_id[len(of_file) :]


def case_and_system(nodeid: str) -> tuple[str, str]:
    """Return the case's id in a node id, and the label of its system: `case[label]`."""
    name, bracket, label = nodeid.partition("::")[2].partition("[")
    return unquote(name), label.removesuffix("]") if bracket else ""
