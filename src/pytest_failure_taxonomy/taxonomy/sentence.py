"""Make one sentence of the message of an exception.

Messages are written for a screen of their own: with rulers, boxes, headings, addresses
of objects, links to documentation. One line of a summary has room for the words alone.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.taxonomy.words import TRACEBACK, raised_line

MAX_READ: Final = 4_000
"""Characters of a message that are read."""
_MIN_QUOTATION: Final = 40
"""Characters of a quotation that may stay when a sentence is too long."""
_MIN_KEPT: Final = 20
"""Characters that are left of a quotation that is cut."""

_LABEL: Final = r"[ \t]*(?:\[\w[\w ]{0,40}\]|\w[\w ]{0,40})[ \t]?[:=][ \t]+\S"
"""How a line begins such as `Expected: 1` or `[left]: 1`."""
_MAX_COMPARED: Final = 8
"""Lines at the start of a message among which labels are looked for."""
_HEADING: Final = (
    r".*[:,]$|while |"
    r"\d{1,6} [\w ]{0,40}(?:error|failure|problem|issue|violation)s?\b[^:]{0,80}$"
)
"""What the next lines go on with: `Missing:`, `while parsing a block`, `2 errors for
User`."""

_LINK: Final = (
    r"(?<=\S)[:;]? [(\[]?(?:[Ss]ee|[Vv]isit|[Rr]ead|[Rr]efer to|[Cc]heck|For more"
    r"|For further|For documentation|Background|More|Learn|Documentation|Details)\b"
    r"[^.()\[\]]{0,80}?https?://[^\s;]+(?: for [^.()]{0,80}\.?)?"
)
"""Where to read on, behind what is wrong."""

# Each replacement takes an end of a line away or makes the text shorter, so that doing
# it again and again comes to an end. Repetitions are bounded or begin at a sign: a
# search is linear.
_REPLACEMENTS: Final = (
    # Lines below a heading.
    ("\n", r"\n(\S+)\n[ \t]+(?=\S)", r"; \1: "),
    ("\n", rf"\n[ \t]*(?={_LABEL}|(?:[-*•]|\d{{1,3}}[.)])[ \t])", "; "),
    ("; ", r"; (?:[-*•]|\d{1,3}[.)])[ \t]+", "; "),
    ("\n", r"\n[ \t]*", " "),
    ("; ", r"([:,]); +", r"\1 "),
    ("  ", r" {2,}", " "),
    # Decoration.
    ("", r"[\u2500-\u259f]+", ""),
    ("", r"^\s*(?:[=*#~|+_-]{3,}|[*#|+-](?=\s))\s*", ""),
    ("", r"(?<![\s=*#~|+_-])\s*(?:[=*#~|+_-]{3,}|\s[*#|])\s*$", ""),
    # Of an exception with several arguments, the first one if that is words.
    ("(", r"^\(([\"'])(?=(?:(?!\1)\S){1,60} )((?:(?!\1).)+)\1, .*$", r"\2"),
    # Representations of objects.
    ("<module", r"<module '([\w.]{1,200})'[^<>]{0,400}>", r"module \1"),
    ("<class", r"<class '([\w.]{1,200})'>", r"\1"),
    (
        " object",
        r"<(?:[\w.<>]{0,200}\.)?(\w{1,100}) object(?: at 0x[0-9a-fA-F]{1,16})?>",
        r"<\1>",
    ),
    ("<Exc", r"<ExceptionInfo (.{1,300}?) tblen=\d{1,6}>", r"\1"),
    # Numbers, and a further sentence that has nothing else to say.
    ("0x", r" at 0x[0-9a-fA-F]{6,16}\b", ""),
    ("0x", r"\b0x[0-9a-fA-F]{7,16}\b", "0x…"),
    ("id ", r"(?<=\w\.) [^.]{0,200}\bid \d{10,}[^.]{0,200}(?:\.|$)", ""),
    ("", r"(?i)\b(thread|process|id|ident|handle)([ :=#]{1,3})\d{10,}", r"\1\2…"),
    (" second", r"(\b\d{1,6}\.\d\d)\d{6,}(?= seconds?\b)", r"\1"),
    ("[", r"\[(?:Errno|WinError) -?\d{1,6}\] ", ""),
    ("[type", r" \[type=\w{1,80}, input_value=.{0,300}?, input_type=\w{1,80}\]", ""),
    # Where to read on.
    ("://", _LINK, ""),
)
"""A text in which something may be left out, the pattern of that, and what stands in
its place."""

_PLACE: Final = r" \([^()\s]{1,200}:\d{1,7}[^()]{0,200}\)$"
_QUOTATION: Final = r"(?<!\w)(?:'[^']+'|\"[^\"]+\")|\([^()]+\)|\[[^][]+\]|\{[^{}]+\}"


def make_sentence(text: str, limit: int) -> str:
    """Return a message as one sentence of so many characters at most.

    It is empty only if the message is blank. Of a sentence that it has made it makes
    the same one.

    Args:
        text: one line or many.
        limit: at least 40. What is too long loses the end of its quotations, then its
            last words. Cuts are made between words: half of a secret would not be
            recognised as one.
    """
    sentence = _take_words(text)[:MAX_READ]
    while True:
        shorter = sentence
        for sign, pattern, replacement in _REPLACEMENTS:
            if sign in shorter:
                shorter = re.sub(pattern, replacement, shorter)
        shorter = _shorten(shorter.strip() or sentence, limit)
        if shorter == sentence:
            return sentence
        sentence = shorter


def _take_words(text: str) -> str:
    """Return the first line with words, with the next ones if it says too little."""
    text = "\n".join(text.splitlines())
    letter = re.search(r"[^\W\d_]", text)
    if letter is None:
        return text.partition("\n")[0]
    line_start = text.rfind("\n", 0, letter.start()) + 1
    text = text[line_start:]
    before, traceback, after = text.partition(TRACEBACK)
    if traceback and "\n" not in before.strip():
        lines = [traceback, *after.splitlines()]
        return f"{before.rstrip()} {raised_line(lines)}"
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    first = lines[0]
    if first.startswith("assert "):
        return first  # pytest explains it below
    compared = _compared_lines(lines)
    if compared:
        first, *lines = compared
        first = first.rstrip(".:")
    elif len(lines) == 1 or not re.match(_HEADING, first):
        return first
    else:
        del lines[0]
    if not first.endswith((":", ",")):
        first += ":"
    return "\n".join([first, *lines])


def _compared_lines(lines: list[str]) -> list[str]:
    """Return the lines that say what was expected and what came, and the one before.

    A message that compares says first what differs.
    """
    kinds = ""
    for line in lines[:_MAX_COMPARED]:
        kinds += "L" if re.match(_LABEL, line) else "-"
    labels = re.search(".LLL?", kinds)
    if labels is None:
        return []
    return lines[labels.start() : labels.end()]


def _shorten(sentence: str, limit: int) -> str:
    """Return a sentence cut to a limit: first its quotations, never its last place."""
    excess = len(sentence) - limit
    if excess <= 0:
        return sentence
    place = re.search(_PLACE, sentence)
    if place is not None and len(place.group()) <= limit // 2:
        ending = place.group()
        words = sentence.removesuffix(ending)
        return _shorten(words, limit - len(ending)) + ending
    quotations = re.findall(_QUOTATION, sentence)
    longest = max(
        quotations,
        key=len,
        default="",
    )
    if len(longest) > _MIN_QUOTATION:
        shorter = _shorten_quotation(longest, excess)
        return _shorten(sentence.replace(longest, shorter, 1), limit)
    end = sentence.rfind(" ", limit // 2, limit - 1)
    if end <= 0:
        end = limit - 2
    words = sentence[:end].rstrip()
    return f"{words} …"


def _shorten_quotation(quotation: str, excess: int) -> str:
    room = len(quotation) - excess - 2
    start = quotation[: max(_MIN_KEPT, room)]
    start = start.rpartition(" ")[0]
    # Of a word that is too long nothing is left but the mark before it.
    start = start or quotation[0]
    return f"{start}…{quotation[-1]}"
