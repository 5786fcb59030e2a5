"""Outputs and transcripts of kept runs as text for people."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final, NamedTuple

_TOO_DEEP: Final = "(nested too deeply to be shown)"


class Message(NamedTuple):
    """One message of a transcript."""

    role: str
    """Who wrote it, such as `user`."""
    text: str
    """What was written; empty for a message that has other parts alone."""
    rest: str
    """Its other parts, such as calls of tools, as JSON; empty if there are none."""


def text_of(value: Any) -> str:
    """Return a text as it is, and any other JSON value on several lines."""
    return value if isinstance(value, str) else json_text(value, ensure_ascii=False)


def json_text(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return JSON on several lines; what is nested too deeply for that stands on one."""
    for indent in (2, None):  # Python's own encoder gives up earlier than the one in C
        with suppress(RecursionError):
            return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    return json.dumps(_TOO_DEEP)


def messages_of(transcript: Any) -> list[Message] | None:
    """Return the messages of a transcript; `None` if it is no list of messages.

    A message is a mapping with a `role`. Its `content` is a text or a list of parts, of which those
    with a `text` are shown one below the other, as the interfaces of model providers have it.
    """
    if not isinstance(transcript, list) or not transcript:
        return None
    messages = [_message(each) for each in transcript]
    found = [each for each in messages if each is not None]
    return found if len(found) == len(messages) else None


def _message(given: Any) -> Message | None:
    if not isinstance(given, dict) or not isinstance(given.get("role"), str):
        return None
    rest = {key: each for key, each in given.items() if key not in ("role", "content")}
    content = given.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [text for text in map(_text_of_part, parts) if text is not None]
    others = [each for each in parts if each is not None and _text_of_part(each) is None]
    if others:
        rest["content"] = others if isinstance(content, list) else content
    return Message(given["role"], "\n".join(texts), text_of(rest) if rest else "")


def _text_of_part(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    is_text = isinstance(part, dict) and part.keys() <= {"type", "text"}
    text = part.get("text") if is_text else None
    return text if isinstance(text, str) else None
