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
"""The kind of sandboxes that are services; those of this machine have messages of their
own."""
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
    """Return the answers of services, in the order of the table: the first decides."""
    return tuple(
        ServiceWording(
            kind=row["kind"],
            service=row["service"],
            pattern="|".join(_format_patterns(row)),
            is_vague=row.get("vague", False),
            codes=tuple(row.get("codes", ())),
        )
        for row in packaged_table("libraries")["answers"]
    )


def _format_patterns(row: Mapping[str, Any]) -> Iterator[str]:
    yield from row.get("patterns", ())
    for sort, form in (("codes", _CODES), ("types", _TYPES)):
        if sort in row:
            yield form.format(names="|".join(row[sort]))


def kind_of_answer(message: str) -> str | None:
    """Return the kind that the words of a service's answer tell, if any."""
    for answer in answers():
        if answer.is_vague:
            continue
        is_named = any(code in message for code in answer.codes)
        if is_named or re.search(answer.pattern, message):
            return answer.kind
    return None


@cache
def service_wordings() -> tuple[ServiceWording, ...]:
    """Return all wordings of services in a log, in order: the first that fits decides.

    Those are its answers, the names of its client's exceptions, and the forms in which
    clients write the status of an answer.
    """
    clear = [wording for wording in answers() if not wording.is_vague]
    vague = [wording for wording in answers() if wording.is_vague]
    packages = [*_make_package_wordings()]
    return (
        *clear,
        *_make_class_wordings(),
        *(wording for wording in packages if not wording.is_vague),
        *_make_status_wordings(),
        *vague,
        *(wording for wording in packages if wording.is_vague),
    )


def _make_class_wordings() -> Iterator[ServiceWording]:
    """Yield the exceptions that say by their names alone what went wrong."""
    for module, rows in packaged_table("libraries")["exceptions"].items():
        package = _find_package(module)
        if package is not None:
            for kind, names in rows.items():
                pattern = _RAISED.format(
                    package=re.escape(package), names="|".join(names)
                )
                yield _make_wording(package, kind, pattern)


def _make_package_wordings() -> Iterator[ServiceWording]:
    """Yield the other exceptions of each package."""
    packages: dict[str, str] = {}
    for module, kind in packaged_table("libraries")["modules"].items():
        package = _find_package(module)
        if package is not None and kind.startswith(("llm.", _SPECIAL)):
            packages.setdefault(package, kind)
    for package, kind in packages.items():
        pattern = _RAISED.format(package=re.escape(package), names=_ANY_NAME)
        yield _make_wording(package, kind, pattern, is_vague=kind != _SPECIAL)


def _find_package(module: str) -> str | None:
    """Return the package of a module that is a service's; `None` for others."""
    services = packaged_table("libraries")["services"]
    return next(
        (package for package in services if f"{module}.".startswith(f"{package}.")),
        None,
    )


def _make_wording(
    package: str, kind: str, pattern: str, *, is_vague: bool = False
) -> ServiceWording:
    service = packaged_table("libraries")["services"][package]
    return ServiceWording(kind, service, pattern, is_vague)


def _make_status_wordings() -> Iterator[ServiceWording]:
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
