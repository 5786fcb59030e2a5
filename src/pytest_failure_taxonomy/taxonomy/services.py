"""What services of language models and of sandboxes say when they fail, as patterns.

`data/libraries.toml` has their words and the names of their exceptions: those of live
exceptions and of logs are the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.taxonomy import packaged_table

_UNNAMED: Final = "language model"
"""What a service is called that doesn't say its name."""
_SPECIAL: Final = "sandbox.failed"
"""The kind of sandboxes that are services; those of this machine have messages of their own."""
_CODES: Final = r"\b(?:type|code|status|reason)\\*[\"']? *: *\\*[\"'](?:{names})\b"
"""A value in a JSON body, or in a dictionary of Python or JavaScript."""
_TYPES: Final = (
    r"type\\*[\"'] ?: ?\\*[\"']error\\*[\"'], ?\\*[\"']error\\*[\"'] ?: ?\{{"
    r"[^{{}}]{{0,200}}?type\\*[\"'] ?: ?\\*[\"'](?:{names})\b"
)
"""The same in the body that Anthropic's API sends."""
_RAISED: Final = r"(?<![\w.]){package}(?:\.\w{{1,60}}){{0,6}}\.(?:{names})(?=: \S)"
"""An exception of a package, as a traceback or a log has it."""
_ANY_NAME: Final = r"\w{0,60}(?:Error|Exception|Timeout)"


class ServiceWording(NamedTuple):
    """How one service says what went wrong."""

    kind: str
    service: str
    """Its name, for people."""
    pattern: str
    is_vague: bool = False
    """Another line may say more."""
    codes: tuple[str, ...] = ()
    """What it says in a body of JSON; in a client's own exception, anywhere."""


@cache
def answers() -> tuple[ServiceWording, ...]:
    """Return what services answer, in the order of the table; the first that fits decides."""
    return tuple(
        ServiceWording(
            kind=row["kind"],
            service=row["service"],
            pattern="|".join(_patterns_of(row)),
            is_vague=row.get("vague", False),
            codes=tuple(row.get("codes", ())),
        )
        for row in packaged_table("libraries")["answers"]
    )


def _patterns_of(row: Mapping[str, Any]) -> Iterator[str]:
    yield from row.get("patterns", ())
    for sort, form in (("codes", _CODES), ("types", _TYPES)):
        if sort in row:
            yield form.format(names="|".join(row[sort]))


def kind_of_answer(message: str) -> str | None:
    """Return the kind that a service's answer tells by its words, `None` if they say nothing."""
    for answer in answers():
        if answer.is_vague:
            continue
        is_named = any(code in message for code in answer.codes)
        if is_named or re.search(answer.pattern, message):
            return answer.kind
    return None


@cache
def service_wordings() -> tuple[ServiceWording, ...]:
    """Return all that a line of a log can say of a service; the first that fits decides.

    Those are its answers, the names of its client's exceptions, and the forms in which
    clients write the status of an answer.
    """
    clear = [each for each in answers() if not each.is_vague]
    vague = [each for each in answers() if each.is_vague]
    packages = [*_packages()]
    return (
        *clear,
        *_classes(),
        *(each for each in packages if not each.is_vague),
        *_statuses(),
        *vague,
        *(each for each in packages if each.is_vague),
    )


def _classes() -> Iterator[ServiceWording]:
    """Yield the exceptions that say by their names alone what went wrong."""
    for module, rows in packaged_table("libraries")["exceptions"].items():
        package = _package(module)
        if package is not None:
            for kind, names in rows.items():
                pattern = _RAISED.format(
                    package=re.escape(package), names="|".join(names)
                )
                yield _of_package(package, kind, pattern)


def _packages() -> Iterator[ServiceWording]:
    """Yield the other exceptions of each package."""
    packages: dict[str, str] = {}
    for module, kind in packaged_table("libraries")["modules"].items():
        package = _package(module)
        if package is not None and kind.startswith(("llm.", _SPECIAL)):
            packages.setdefault(package, kind)
    for package, kind in packages.items():
        pattern = _RAISED.format(package=re.escape(package), names=_ANY_NAME)
        yield _of_package(package, kind, pattern, is_vague=kind != _SPECIAL)


def _package(module: str) -> str | None:
    """Return the package of a module that is a service's; `None` for others."""
    services = packaged_table("libraries")["services"]
    return next(
        (each for each in services if f"{module}.".startswith(f"{each}.")), None
    )


def _of_package(
    package: str, kind: str, pattern: str, *, is_vague: bool = False
) -> ServiceWording:
    service = packaged_table("libraries")["services"][package]
    return ServiceWording(kind, service, pattern, is_vague)


def _statuses() -> Iterator[ServiceWording]:
    """Yield the forms of a status, once for each kind, and that there was no answer."""
    tables = packaged_table("libraries")
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for status, kind in tables["http"].items():
        by_kind[kind].append(status)
    hosts = f"(?:{'|'.join(tables['status_forms']['hosts'])})"
    unreachable = tables["status_forms"]["unreachable"].replace("<host>", hosts)
    yield ServiceWording("llm.unavailable", _UNNAMED, unreachable)
    for kind, statuses in by_kind.items():
        forms: Iterable[str] = (
            form.replace("<status>", f"(?:{'|'.join(statuses)})").replace(
                "<host>", hosts
            )
            for form in tables["status_forms"]["patterns"]
        )
        yield ServiceWording(kind, _UNNAMED, "|".join(forms))
