"""How secrets with a name beside them are written."""

from __future__ import annotations

import re
from typing import Final

_UNMARKED: Final = r"(?!\[REDACTED:)"
_NAME: Final = (
    r"(?P<name>pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|key|auth)[0-9]?(?![\w-])"
)

_QUOTE: Final = r"\\{0,2}[\"']"
# What is quoted may hold the other quote and escapes. Without an end on its line it was cut there.
_QUOTED: Final = (
    r"[bfru]{0,2}(?:\\{1,2}\"(?P<e>[^\"\\\n]++(?:\\(?!\")[^\"\n][^\"\\\n]*+)*+)"
    r"|(?:''(?='))?'(?P<s>[^'\\\n]*+(?:\\.[^'\\\n]*+)*+)"
    r"|(?:\"\"(?=\"))?\"(?P<d>[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+))"
)
LITERAL: Final = re.compile(_QUOTED)
_BARE: Final = r"(?P<bare>[^\s\"'`,;&()\[\]{}<>|\\]++)"

_SIGN: Final = r"(?P<sign>={1,3}|:|=>|!=|,(?=[ ]?b[\"']))"
ASSIGNMENT: Final = re.compile(
    rf"{_NAME}(?:{_QUOTE})?[\])]?[ \t]{{0,20}}+{_SIGN}[ \t]{{0,20}}+{_UNMARKED}"
    rf"(?:{_QUOTED}|{_BARE})",
    re.IGNORECASE | re.ASCII,
)
OPTION: Final = re.compile(
    rf"{_NAME}(?P<sign>[\"'],[ \t\n]{{1,4}}[\"']|[ \t]{{1,4}}[\"']?|=[\"']?){_UNMARKED}"
    r"(?P<bare>(?!-)[^\s\"',\])]++)",
    re.IGNORECASE | re.ASCII,
)
OPTION_START: Final = re.compile(r"(?:^|[\s\"'=\[(])--?(?:[a-z0-9]{1,20}-){0,4}$", re.IGNORECASE)
HEADER: Final = re.compile(
    rf"(?P<name>authorization|cookie2?)(?P<sign>(?:{_QUOTE})?[ \t]{{0,4}}[:,=][ \t]{{0,4}})"
    r"(?P<open>[bfru]{0,2}\\{0,2}[\"'])?"
    r"(?P<scheme>(?:bearer|basic|digest|token|negotiate|ntlm|apikey|aws4-hmac-sha256)[ \t]{1,4})?"
    rf"{_UNMARKED}(?P<value>[^\"'\n\r\\]++(?:\\(?![rn\"'])[^\"'\n\r\\]*+)*+)",
    re.IGNORECASE | re.ASCII,
)
BEARER: Final = re.compile(
    r"(?P<scheme>bearer[ \t]{1,4})(?P<value>[\w.~+/=-]{8,}+)", re.IGNORECASE | re.ASCII
)
