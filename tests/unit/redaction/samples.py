"""Made-up secrets, put together at run time: no scanner may find one in these files."""

from __future__ import annotations

import random
import re
import string
from typing import Final

from pytest_failure_taxonomy.redaction.signs import load_tokens

_RANGES: Final = {"A-Z": string.ascii_uppercase, "a-z": string.ascii_lowercase}
_RANGES_OF_DIGITS: Final = {"0-9": string.digits, "a-f": "abcdef", "A-F": "ABCDEF"}

_SHAPES: Final = {
    "azure-client-secret": lambda random_part: "aB3" + "4Q~" + random_part(34),
    "telegram-bot-token": lambda random_part: "123456789" + ":A" + random_part(34),
    "terraform-token": lambda random_part: "x" * 14 + ".atlasv1." + random_part(60),
    "webhook": lambda random_part: "hooks.slack.com/services/" + random_part(44),
}


def random_part(alphabet: str, length: int, seed: str) -> str:
    """Return characters of a class such as `A-Za-z0-9_`, letters and digits above all."""
    letters = ""
    for each, members in (_RANGES | _RANGES_OF_DIGITS).items():
        if each in alphabet:
            letters += members
    return "".join(random.Random(seed).choices(letters, k=length))  # noqa: S311  made-up secrets are the same in each run


def tokens() -> list[tuple[str, str, str]]:
    """Return id, token and random part of one token for each head in the table."""
    table = load_tokens().table
    made = []
    for form in table["tokens"]:
        length = form.get("most", form["least"] + 4)
        for prefix in form["prefixes"]:
            part = random_part(form["alphabet"], length, prefix)
            made.append((form["id"], prefix + part, part))
    for form in table["shapes"]:
        secret = _SHAPES[form["id"]](
            lambda length: random_part("A-Za-z0-9", length, "shape")
        )
        made.append((form["id"], secret, re.split(r"[~:./]", secret)[-1]))
    return made


def survives(part: str, text: str, length: int = 6) -> bool:
    """Return whether so many characters of the random part, one after another, are in the text."""
    return any(part[at : at + length] in text for at in range(len(part) - length + 1))
