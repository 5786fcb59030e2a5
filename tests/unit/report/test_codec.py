"""What the codec reads of a document, and what it says of a wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import inf, nan
from typing import Annotated, Any, Final, Literal

import pytest

from pytest_failure_taxonomy.report.codec import RECORD, Codec, DecodeError
from pytest_failure_taxonomy.taxonomy.values import (
    Bounds,
    Count,
    Pattern,
    Share,
    Time,
    value,
)


class Colour(StrEnum):
    """Something that a document names by its value."""

    RED = "red"
    BLUE = "blue"


@value
class Part:
    """An object in another one."""

    name: str
    size: int = 7


@value
class Whole:
    """An object with a field of each sort."""

    flag: bool = False
    number: int = 0
    seconds: float = 0.0
    text: str = ""
    colour: Colour = Colour.RED
    word: Literal["yes", "no"] = "yes"
    parts: tuple[Part, ...] = ()
    sizes: Mapping[str, int] | None = None
    anything: Any = None
    either: int | str | None = None
    part: Part | None = None
    count: Count = 0
    share: Share = 0.0
    few: Annotated[tuple[int, ...], Bounds(low=1)] = (1,)
    digits: Annotated[str, Pattern("[0-9]+")] = "0"
    time: Time = "2020-01-01T00:00:00Z"
    from_: str = ""


STRICT: Final = Codec(published={}, optional={}, biggest=inf, keys={"from_": "from"})

MOST: Final = 2**63

RIGHT: Final[list[tuple[str, Any, Any]]] = [
    ("flag", True, True),
    ("number", -MOST, -MOST),
    ("number", MOST - 1, MOST - 1),
    ("seconds", 3, 3),
    ("seconds", -2.5, -2.5),
    ("text", "é", "é"),
    ("colour", "blue", Colour.BLUE),
    ("word", "no", "no"),
    ("parts", [{"name": "a"}, {"name": "b", "size": 1}], None),
    ("sizes", {"a": 1}, {"a": 1}),
    ("sizes", None, None),
    ("anything", [{"a": None}], [{"a": None}]),
    ("either", 1, 1),
    ("either", "one", "one"),
    ("either", None, None),
    ("part", {"name": "a"}, Part(name="a")),
    ("count", 0, 0),
    ("share", 1, 1),
    ("share", 0, 0),
    ("few", [4], (4,)),
    ("few", (4, 5), (4, 5)),
    ("digits", "12", "12"),
    ("time", "2024-02-29T23:59:59.5Z", "2024-02-29T23:59:59.5Z"),
]
"""A key, what stands there, and the value of the field where that has its name."""


@pytest.mark.parametrize(("key", "sent", "expected"), RIGHT)
def test_what_a_field_may_hold_is_read(key: str, sent: Any, expected: Any) -> None:
    """Each sort of field is read at the bounds of what it may hold."""
    decoded = RECORD.decode(Whole, {key: sent})
    if expected is not None:
        assert getattr(decoded, key) == expected
    assert RECORD.decode(Whole, RECORD.encode(decoded)) == decoded


WRONG: Final[list[tuple[str, Any, str]]] = [
    ("flag", 1, "flag is not true or false"),
    ("number", True, "number is not a whole number"),
    ("number", 1.0, "number is not a whole number"),
    ("number", MOST, "number is not a whole number"),
    ("number", -MOST - 1, "number is not a whole number"),
    ("seconds", True, "seconds is not a number"),
    ("seconds", "1", "seconds is not a number"),
    ("seconds", nan, "seconds is not a number"),
    ("seconds", float(MOST), "seconds is not a number"),
    ("seconds", MOST, "seconds is not a number"),
    ("text", None, "text is not a text"),
    ("colour", "green", "colour is none of red, blue"),
    ("colour", [], "colour is none of red, blue"),
    ("word", "maybe", "word is none of yes, no"),
    ("parts", {}, "parts is not a list"),
    ("parts", [{"name": "a"}, {}], "parts.1.name is missing"),
    ("sizes", [], "sizes is not an object"),
    ("sizes", {"a": 1, "b": "c"}, "sizes.b is not a whole number"),
    ("either", 1.5, "either is not a text"),
    ("part", [], "part is not an object"),
    ("part", {"name": "a", "x": 1}, "part.x is no key of this object"),
    ("count", -1, "count is less than 0"),
    ("count", "1", "count is not a whole number"),
    ("share", 1.5, "share is more than 1"),
    ("few", [], "few has too few entries"),
    ("digits", "12a", "digits has another form"),
    ("time", "2023-02-29T00:00:00Z", "time is no time"),
    ("time", "yesterday", "time has another form"),
    ("from", "here", "from is no key of this object"),
]


@pytest.mark.parametrize(("key", "sent", "words"), WRONG)
def test_what_a_field_may_not_hold_is_refused(key: str, sent: Any, words: str) -> None:
    """The error has the path, what is wrong there, and what stands there."""
    with pytest.raises(DecodeError) as caught:
        RECORD.decode(Whole, {"text": "", key: sent})
    assert str(caught.value) == words
    [problem] = caught.value.problems
    assert ".".join(map(str, problem.path)) + f" {problem.words}" == words


def test_a_problem_has_what_stands_there() -> None:
    """Whoever tells the user shows the value itself; where it is missing there is none."""
    content = {"parts": [{"size": "x"}, {"name": 5, "y": "z"}], "count": -3}
    with pytest.raises(DecodeError) as caught:
        RECORD.decode(Whole, content)
    assert [tuple(problem) for problem in caught.value.problems] == [
        (("parts", 0, "name"), "is missing", None),
        (("parts", 0, "size"), "is not a whole number", "x"),
        (("parts", 1, "name"), "is not a text", 5),
        (("parts", 1, "y"), "is no key of this object", "z"),
        (("count",), "is less than 0", -3),
    ]


@pytest.mark.parametrize("content", [None, [], "text", 1])
def test_a_document_that_is_no_object_has_no_path(content: Any) -> None:
    """The words of an error at the top do not begin with a blank."""
    with pytest.raises(DecodeError, match=r"\Ais not an object\Z"):
        RECORD.decode(Part, content)


def test_only_optional_fields_may_be_missing() -> None:
    """A record may lack what has a default; a report only what a later version added."""
    assert RECORD.decode(Part, {"name": "a"}) == Part(name="a", size=7)
    with pytest.raises(DecodeError, match=r"\Asize is missing\Z"):
        STRICT.decode(Part, {"name": "a"})
    later = Codec(published={}, optional={Part: ("size",)}, biggest=inf)
    assert later.decode(Part, {"name": "a"}) == Part(name="a", size=7)
    with pytest.raises(DecodeError, match=r"\Aname is missing\Z"):
        later.decode(Part, {"size": 1})


def test_a_format_has_its_own_biggest_number() -> None:
    """What is no whole number stays below the bound; infinity is in no format."""
    small = Codec(published={}, optional=None, biggest=10)
    assert small.decode(Whole, {"seconds": 9.5}).seconds == 9.5
    assert STRICT.decode(Whole, {**STRICT.encode(Whole()), "seconds": 1e300})
    for codec, seconds in ((small, 10.0), (small, -10.0), (STRICT, inf)):
        content = {**codec.encode(Whole()), "seconds": seconds}
        with pytest.raises(DecodeError, match="seconds is not a number"):
            codec.decode(Whole, content)


def test_only_published_fields_are_written_and_read() -> None:
    """They keep their order; another key of the class is unknown to the format."""
    codec = Codec(published={Part: ("name",)}, optional={}, biggest=inf)
    assert list(codec.keys_of(Part).values()) == ["name"]
    assert codec.encode(Part(name="a", size=3)) == {"name": "a"}
    with pytest.raises(DecodeError, match="size is no key of this object"):
        codec.decode(Part, {"name": "a", "size": 3})
    turned = Codec(published={Part: ("size", "name")}, optional={}, biggest=inf)
    assert list(turned.encode(Part(name="a"))) == ["size", "name"]


def test_keys_of_a_later_version_are_passed_over() -> None:
    """`decode_known` ignores them at the top, and still refuses what is wrong."""
    content = {"name": "a", "size": 3, "later": 1}
    assert RECORD.decode_known(Part, content) == Part(name="a", size=3)
    with pytest.raises(DecodeError, match="size is not a whole number"):
        RECORD.decode_known(Part, {"name": "a", "size": "3", "later": 1})
    with pytest.raises(DecodeError, match="is not an object"):
        RECORD.decode_known(Part, [])


def test_values_are_written_as_json() -> None:
    """Lists, objects, members of an enum and values are taken apart, at any depth."""
    whole = Whole(
        colour=Colour.BLUE,
        parts=(Part(name="a"),),
        sizes={"b": 1},
        anything={"c": [Colour.RED, (Part(name="d", size=2),)]},
        from_="here",
    )
    content = STRICT.encode(whole)
    assert list(content) == list(STRICT.keys_of(Whole).values())
    assert content["colour"] == "blue"
    assert content["parts"] == [{"name": "a", "size": 7}]
    assert content["sizes"] == {"b": 1}
    assert content["anything"] == {"c": ["red", [{"name": "d", "size": 2}]]}
    assert content["from"] == "here"
    assert "from_" not in content
