"""The base of the models of files and reports, and how a value from a file becomes one of them.

Every problem of the value is reported with its line.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they
# are.

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from pytest_failure_taxonomy.documents.problems import (
    WRONG,
    Problems,
    Tree,
    WrongError,
    closest,
    not_a_string,
    quoted,
    right_words,
    shown,
)
from pytest_failure_taxonomy.taxonomy import packaged_table

MAX_TEXT: Final = 200
"""Characters of a line of text."""

_M = TypeVar("_M", bound=BaseModel)


class ClosedModel(BaseModel):
    """A value: closed, strict, and never changed; a docstring below a field describes it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class FileModel(ClosedModel):
    """Base of models of what a mapping in a file may hold: each key that is given has a value."""

    may_be_null: ClassVar[frozenset[str]] = frozenset()
    """The keys for which a null is a value."""
    most: ClassVar[float] = math.inf
    """The greatest number of any key that is not in `most_of`."""
    most_of: ClassVar[Mapping[str, float]] = MappingProxyType({})

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_null_and_large_numbers(cls, given: Any, info: ValidationInfo) -> Any:
        if given is None and info.field_name not in cls.may_be_null:
            raise WrongError("is empty; give it a value or leave it out")
        most = cls.most_of.get(info.field_name or "", cls.most)
        if isinstance(given, int | float) and given > most:
            number = str(given) if given < 10**30 else "the number"
            raise WrongError(f"{number} is more than {most:,}; write {most:,} or less")
        return given


def _check_line(text: str) -> str:
    if not text.strip():
        raise WrongError("is empty; give it a value or leave it out")
    if len(text) > MAX_TEXT:
        raise WrongError(f"is longer than {MAX_TEXT} characters; shorten it")
    if not text.isprintable():
        raise WrongError(f"{quoted(text)} is not one line of printable text; write one")
    return text


Line = Annotated[str, AfterValidator(_check_line)]
"""One printable line, not blank."""


def validate(
    model: type[_M],
    tree: Tree,
    problems: Problems,
    *,
    subject: str = "",
    missing: Mapping[str, str] = MappingProxyType({}),
    prefix: str = "",
) -> _M | None:
    """Return the value of a mapping as a model.

    Args:
        model: A `FileModel`.
        tree: The mapping.
        problems: Receives what is wrong. Parts that were reported before are not
            reported again.
        subject: What the mapping is, for the message about a missing key.
        missing: What to write for each key that may be missing.
        prefix: The path to the mapping, for messages; empty, or ending in a dot.

    Returns:
        The model, or `None` if there is any problem.
    """
    try:
        return model.model_validate(tree.value)
    except ValidationError as error:
        found = error.errors(include_url=False)
    unknown = [
        str(each["loc"][-1]) for each in found if each["type"] == "extra_forbidden"
    ]
    # A key that a misspelled one was meant to be is not missing.
    meant = {closest(key, model.model_fields) for key in unknown}
    for each in found:
        if each["input"] is WRONG:
            continue
        path = [part for part in each["loc"] if isinstance(part, str)]
        name = shown(prefix + ".".join(path))
        part = tree.at(*each["loc"])
        if each["type"] == "missing":
            key = path[-1]
            if key not in meant:
                problems.add(part.line, f"{subject} has no {key}; {missing[key]}")
        elif each["type"] == "extra_forbidden":
            mapping: type[BaseModel] = model  # the one that has the key
            for key in path[:-1]:
                annotation = mapping.model_fields[key].annotation
                options = (annotation, *getattr(annotation, "__args__", ()))
                mapping = next(
                    one
                    for one in options
                    if isinstance(one, type) and issubclass(one, BaseModel)
                )
            fields = list(mapping.model_fields)
            right = right_words(
                path[-1], fields, otherwise=f"the keys are {', '.join(fields)}"
            )
            problems.add(part.line, f"unknown key {quoted(name)}; {right}")
        else:
            problems.add(part.line, f"{name}: {_in_words(each, part)}")
    return None


def _in_words(error: ErrorDetails, part: Tree) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    if error["type"] == "string_type":
        return not_a_string(part)
    given = part.in_words()
    if error["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        allowed = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
        word = part.value if isinstance(part.value, str) else ""
        right = right_words(word, words, otherwise=f"write {allowed}")
        return f"{given} is unknown; {right}"
    form: str | None = packaged_table("wrong_values")["in_files"].get(error["type"])
    if form is None:
        return f"{given} can't be used ({error['msg']})"
    sentence = form.format(given=given, **context)
    is_text = isinstance(part.value, str)
    return sentence if is_text else sentence.removesuffix(", without quotes")
