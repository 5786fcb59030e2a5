"""Spoil bytes: flips, cuts, splices, and values that a document has in none of its places."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

WORDS: Final = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\n",
        b"\r",
        b"\x00",
        b"\xff",
        b"\x1b[31m",
        b",",
        b":",
    ),
    *(b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"9" * 25, b"9" * 5_000),
    *(
        b'"\\ud800"',
        b"\\u0000",
        b"\xed\xa0\x80",
        b"\xe2\x80\xae",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
    ),
    *(
        b"[" * 300,
        b'{"a":' * 300,
        b"a" * 5_000,
        b"!!python/object:os.system ",
        b"&a ",
        b"*a",
    ),
    *(b"<<: ", b"- ", b"? ", b"rules:\n", b"message: (a+)+$\n", b"%s", b"{0}", b"\t"),
    *(
        b"[GZA_FAILURE:MAX_TURNS]\n",
        b"\n[GZA_FAILURE:",
        b"Traceback (most recent call last):\n",
    ),
    *(
        b"=== 1 failed in 0.1s ===\n",
        b"E   AssertionError\n",
        b"::error::",
        b"##[command]",
    ),
)
"""What the readers give a meaning to, or what breaks readers elsewhere."""

VALUES: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        2**64,
        10**30,
        0.5,
        -0.0,
        1e308,
        -1e308,
    ),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "\ud800",
        "\x00",
        "a" * 3_000,
        "../../etc/passwd",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"nodeid": 1},
        [1, "a", None],
        [[[[[[[[[[]]]]]]]]]],
    ),
)
"""What may stand where something else should."""


def mutate(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Return the data, spoilt in one to four ways, by pieces of others among them."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        change = chance.choice(_CHANGES)
        data = change(data, others, chance)
    return data


def _flip(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    at, _ = _span(data, chance)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _truncate(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    return data[: _span(data, chance)[0]]


def _repeat(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 2, 20)) + data[end:]


def _splice(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others)
    return data[: _span(data, chance)[0]] + other[_span(other, chance)[0] :]


def _insert(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    end = chance.choice((start, end))
    return data[:start] + chance.choice(WORDS) + data[end:]


def _misplace(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Put a value into a JSON document, or into a line that is one, where another one stands."""
    lines = data.split(b"\n")
    documents = []
    for number, line in enumerate([data, *lines]):
        if line[:1] in (b"{", b"["):
            try:
                documents.append((number, json.loads(line)))
            except (ValueError, RecursionError):
                continue
    if not documents:
        return _insert(data, others, chance)
    number, document = chance.choice(documents)
    places = list(_places(document))
    if not places:
        return _insert(data, others, chance)
    holder, key = chance.choice(places)
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(VALUES)
    spoilt = json.dumps(document).encode("ascii")
    if number == 0:
        return spoilt
    lines[number - 1] = spoilt
    return b"\n".join(lines)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list and object in a document with each of its indices and keys."""
    if isinstance(document, dict):
        for key in document:
            yield document, key
            yield from _places(document[key])
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield document, index
            yield from _places(value)


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    longest = chance.choice((1, 4, 64, len(data)))
    return start, min(len(data), start + chance.randint(0, longest))


_CHANGES: Final = (
    _flip,
    _cut,
    _truncate,
    _repeat,
    _splice,
    _insert,
    _misplace,
    _misplace,
)
