"""Units whose repetitions take a search for secrets long, made of the search's own literals."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]  # how a pattern is read has no other name
from types import ModuleType
from typing import Any, Final

from pytest_failure_taxonomy import redaction
from pytest_failure_taxonomy.redaction import names
from pytest_failure_taxonomy.redaction.names import PROGRAMS
from pytest_failure_taxonomy.redaction.signs import load_tokens

_PACKAGE: Final = "pytest_failure_taxonomy.redaction"
MODULES: Final = (
    *(
        "known_values",
        "marks",
        "named_secrets",
        "names",
        "ordinary_values",
        "redactor",
        "signs",
    ),
)
LONGEST: Final = 40
WORST_SO_FAR: Final = (
    *(
        "curl -u ",
        "curl -u user:pw https://x.example ",
        "mysql -p ",
        "Authorization: ",
        "pass=",
    ),
    *(
        "bcp -Pglptt-",
        "zip -Prk_live_'",
        'docker login -p="',
        "sqlcmd -P\"\"''",
        "TOKEN:",
        "auth=",
    ),
    *(
        'pwd=""\'\\ates">',
        "credential:rk",
        "sk-proj---password\n",
        "sshpass -ppod...vate-key\\login",
    ),
    *(
        "flagsNF-\npscale_tkn_amz",
        "'keytool -k#pass",
        "…keytool",
        "-----END PRIVATE KEY-----='",
    ),
    *(
        "<a ",
        "<password>x",
        "name='x' value=",
        "value='x' ",
        "('password', '",
        "machine x ",
        "a@",
    ),
    *(
        "://a:b",
        "://a:@",
        "?sig=",
        "...",
        "…",
        "\\n",
        "\n",
        " ",
        "key=key",
        "token",
        "ghp_",
        "eyJ",
    ),
)
_SIGNS: Final = (
    *" \n\t\"'\\=:,;.-_@/<>()[]{}&|%?#+~$!*0aAzF",
    *(
        "://",
        "\\n",
        '\\"',
        "''",
        ": ",
        '="',
        "', '",
        "a1",
        "...",
        "…",
        "%2F",
        "x9Y8z7w6",
        "E ",
        "\u0130",
    ),
)


def modules() -> list[ModuleType]:
    """Return the modules of the search."""
    return [importlib.import_module(f"{_PACKAGE}.{name}") for name in MODULES]


def literals() -> list[str]:
    """Return the words that the search looks for."""
    found = {
        prefix for form in load_tokens().table["tokens"] for prefix in form["prefixes"]
    }
    found |= {
        f"{name} {option}" for name, options in PROGRAMS.items() for option in options
    }
    patterns = [
        redaction.grammar(name, **names._PARTS) for name in redaction._grammars()
    ]
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, re.Pattern):
                patterns.append(value)
            elif isinstance(value, tuple | frozenset):
                found |= {each for each in value if isinstance(each, str)}
    for pattern in patterns:
        found |= set(_words(_parser.parse(pattern.pattern, pattern.flags)))
    return sorted(each for each in found if each.strip() and len(each) <= LONGEST)


def units(number: int, seed: int = 1) -> Iterator[str]:
    """Yield the worst units that were found so far, and others that chance makes of literals."""
    yield from WORST_SO_FAR
    draw = random.Random(seed)  # noqa: S311  the same ones each time, no secrets
    words = literals()
    for _ in range(number):
        parts = [
            draw.choice(words if draw.random() < 0.45 else _SIGNS) for _ in range(6)
        ]
        yield "".join(parts[: draw.randint(1, 6)])[:LONGEST]


def _words(parsed: Any) -> Iterator[str]:
    """Yield the literals of a parsed pattern."""
    word = ""
    for operation, argument in parsed:
        if str(operation) == "LITERAL":
            word += chr(argument)
            continue
        yield word
        word = ""
        inner = argument if isinstance(argument, tuple | list) else [argument]
        for each in inner:
            for branch in each if isinstance(each, list) else [each]:
                if isinstance(branch, _parser.SubPattern):
                    yield from _words(branch)
    yield word
