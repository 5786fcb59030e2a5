"""What a system under test returns: its output, cost, usage and transcript.

`json_problem` says why JSON can't represent an output.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pytest_failure_taxonomy.bench.user_code import raised_elsewhere

MOST_COST_USD: Final = 1e9
"""The maximal cost of one case; larger amounts are mistakes, and could not be added exactly."""
MOST_USAGE: Final = 1e15
"""The maximal amount of a usage, for the same reason."""


def exact(amount: float) -> Decimal:
    """Return an amount as a decimal: three times 0.1 must not exceed 0.3."""
    return Decimal(repr(float(amount)))


def add_exactly(*amounts: float) -> float:
    """Return the sum that people get, too: 1.17 + 3.52 is 4.69."""
    return float(sum(map(exact, amounts), Decimal(0)))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system under test may return instead of its bare output.

    A rubric gets only the output. The rest is saved with the run, and the cost counts for the case,
    in addition to what `BenchCase.spend` was given.

    Raises:
        ValueError: The cost or a usage is negative or no finite number.
        TypeError: The usage is no mapping of names to numbers.
    """

    output: Any
    """Anything that JSON can represent."""
    cost_usd: float = 0.0
    """What the call cost, in US dollars."""
    usage: Mapping[str, float] | None = None
    """Amounts by name, such as `{"input_tokens": 812}`; the amounts of several calls are added."""
    transcript: Any = None
    """How the system came to its output, such as a list of messages; anything that JSON can
    represent."""

    def __post_init__(self) -> None:
        """Refuse amounts that could not be added."""
        check_amounts("Answer", self.cost_usd, self.usage or {})


def check_amounts(where: str, cost_usd: object, usage: object) -> None:
    """Raise ValueError or TypeError for a cost or a usage that can't be added up."""
    if not isinstance(usage, Mapping):
        raise TypeError(f"{where}: usage is no mapping; give names and numbers")
    _check_amount(where, "cost_usd", cost_usd, MOST_COST_USD)
    for name, amount in usage.items():
        if not isinstance(name, str):
            raise TypeError(f"{where}: a usage is named by {name!r}; give a text")
        _check_amount(where, name, amount, MOST_USAGE)


def _check_amount(where: str, name: str, amount: object, most: float) -> None:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(f"{where}: {name} is {amount!r}; give an int or a float")
    if not amount >= 0:
        raise ValueError(f"{where}: {name} is {amount!r}; give a number of at least 0")
    if (
        amount > most
    ):  # without the amount: Python refuses to write a number that is very long
        raise ValueError(f"{where}: {name} is too large; give at most {most:,.0f}")


OnSpend = Callable[[float, Mapping[str, float]], None]


class Spending:
    """What one call of a system has spent so far; any thread may add to it."""

    __slots__ = ("_entries", "on_spend", "seconds")

    def __init__(self, on_spend: OnSpend | None = None) -> None:
        """Begin with nothing spent.

        Args:
            on_spend: Called with each cost, in US dollars, and usage, by the thread that spends
                them. What a call spends in another process is told so to the one that counts it.
        """
        # Appending to a list and copying it are atomic, so no lock is needed.
        self._entries: list[tuple[float, Mapping[str, float]]] = []
        self.on_spend = on_spend
        self.seconds: float | None = None
        """How long the call took in another process; `None` for one of this process."""

    def add(self, cost_usd: float, usage: Mapping[str, float]) -> None:
        """Add an amount.

        Raises:
            ValueError: As for `Answer`.
            TypeError: As for `Answer`.
        """
        check_amounts("spend", cost_usd, usage)
        self._entries.append((float(cost_usd), usage))
        if self.on_spend is not None:
            self.on_spend(float(cost_usd), usage)

    @property
    def cost_usd(self) -> float:
        """The sum of all amounts, in US dollars."""
        if not self._entries:
            return 0.0
        costs = [cost for cost, _ in tuple(self._entries)]
        return min(add_exactly(*costs), MOST_COST_USD)

    @property
    def usage(self) -> dict[str, float]:
        """The sums by name, in the order in which the names appear."""
        sums: dict[str, float] = {}
        for _, usage in tuple(self._entries):
            for name, amount in usage.items():
                sums[name] = add_exactly(sums.get(name, 0), amount)
        return sums

    def __eq__(self, other: object) -> bool:
        # Two cases are equal whatever was spent on them; pydantic compares private attributes, too.
        return other is None or isinstance(other, Spending)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __reduce__(self) -> tuple[type[Spending], tuple[()]]:
        # A case that is sent to another process begins with nothing spent there.
        return Spending, ()


_SCALARS: Final = frozenset({type(None), bool, int, float, str})


def is_plain(value: object) -> bool:
    """Tell whether a value consists only of built-in types, so that reading it runs no other code.

    The fields of an `Answer` are checked as well.
    """
    seen: set[int] = set()
    pending: list[Any] = [value]
    while pending:
        each = pending.pop()
        kind = type(each)
        if kind in _SCALARS or id(each) in seen:
            continue
        seen.add(id(each))
        if kind is dict:
            pending += [*each, *each.values()]
        elif kind in (list, tuple):
            pending += each
        elif kind is Answer:
            pending += (each.output, each.usage, each.transcript)
        else:
            return False
    return True


def read_output(count: OnSpend, value: object) -> Answer:
    """Return the output and the transcript that a system gave, as plain data.

    Args:
        count: Called with what the system says that it cost, and its usage, whatever else it gave.
        value: What it returned.

    Raises:
        ToldError: JSON can't represent it; of the type that `json_problem` names.
    """
    answer = value if isinstance(value, Answer) else Answer(output=value)
    if answer.cost_usd or answer.usage:
        count(answer.cost_usd, dict(answer.usage or {}))
    for name, where, given in (
        ("output", "", answer.output),
        ("transcript", "in the transcript: ", answer.transcript),
    ):
        problem = json_problem(given)
        if problem is not None:
            kind, _, why = problem.partition(": ")
            is_whole = why.startswith("$ ")
            message = f"the {name} {why[2:]}" if is_whole else where + why
            raise raised_elsewhere({"type": kind, "message": message, "traceback": ""})
    told = [answer.output, answer.transcript]
    output, transcript = told if is_plain(told) else json.loads(_encode(told))
    return Answer(output, transcript=transcript)


_encode: Final = json.JSONEncoder(allow_nan=False).encode
_CONTAINERS: Final = (dict, list, tuple)
_MAX_PATH: Final = 150


def json_problem(value: object) -> str | None:
    """Return why JSON can't represent a value, or `None` if it can.

    Keys must be strings. `json.dumps` would convert other keys, and the rubric would get something
    else than the system returned.
    """
    if value is None or type(value) is str:
        return None
    try:
        _encode(value)
    except RecursionError:
        return (
            _find(value) or "RecursionError: $ is nested too deep to be written as JSON"
        )
    except Exception as error:  # noqa: BLE001 - the value's own methods may raise anything
        return _find(value) or f"{type(error).__name__}: $ can't be written as JSON"
    if isinstance(value, _CONTAINERS) and _has_odd_key(value):
        return _find(value)
    return None


def _has_odd_key(value: Any) -> bool:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if not all(isinstance(key, str) for key in each):
                return True
            each = each.values()
        pending.extend([one for one in each if isinstance(one, _CONTAINERS)])
    return False


def _find(value: object) -> str | None:
    """Return the first problem, in the order in which JSON is written, with its path."""
    try:
        return _search(value, "$", ())
    except Exception:  # noqa: BLE001 - as above
        return None


def _search(value: object, path: str, above: tuple[int, ...]) -> str | None:
    if isinstance(value, _CONTAINERS):
        return _search_container(value, path, above)
    if value is None or isinstance(value, str | bool):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"ValueError: {path} is {value}{_CANT}"
    if isinstance(value, int):
        try:
            str(value)
        except ValueError:
            return f"ValueError: {path} is an integer of too many digits to be written"
        return None
    return f"TypeError: {path} is of type {_name_of(type(value))}{_CANT}"


def _name_of(kind: type) -> str:
    """Return the full name of a type: that of numpy's `bool` looks like Python's."""
    module = kind.__module__
    return kind.__name__ if module == "builtins" else f"{module}.{kind.__name__}"


def _search_container(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...],
    path: str,
    above: tuple[int, ...],
) -> str | None:
    if id(value) in above:
        return f"ValueError: {path} contains itself{_CANT}"
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if not isinstance(value, dict):
            step = f"[{key}]"
        elif not isinstance(key, str):
            kind = type(key).__name__
            return f"TypeError: {path} has a key of type {kind}; in JSON all keys are strings"
        else:
            step = f".{key}" if key.isidentifier() else f"[{key[:_MAX_PATH]!r}]"
        below = f"{path}{step}"
        below = below if len(below) <= _MAX_PATH else f"$...{below[-_MAX_PATH + 4 :]}"
        problem = _search(each, below, (*above, id(value)))
        if problem:
            return problem
    return None


_CANT: Final = ", which JSON can't hold"
