"""Secrets with a name beside them, and texts that only look so."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Final

import pytest
from _pytest._io.saferepr import saferepr

from pytest_failure_taxonomy.redaction.redactor import Redactor
from tests.unit.redaction.samples import random_part, survives

SECRET: Final = random_part("A-Za-z0-9", 24, "a value of no form")

GONE: Final = {
    "header": f"> Authorization: Bearer {SECRET}",
    "header of no scheme": f"Proxy-Authorization: {SECRET}",
    "basic": f"authorization: Basic {SECRET}==",
    "header in a dict": repr({"Authorization": f"Bearer {SECRET}"}),
    "headers as pairs": repr([("Authorization", f"Bearer {SECRET}")]),
    "raw headers": repr([(b"authorization", f"Bearer {SECRET}".encode())]),
    "raw key": repr([(b"x-api-key", SECRET.encode())]),
    "header in JSON": json.dumps({"authorization": f"token {SECRET}"}),
    "curl": f"curl -sS -H 'Authorization: Bearer {SECRET}' https://example.org",
    "curl, double quotes": f'curl -H "X-Api-Key: {SECRET}" https://example.org',
    "request as bytes": repr(f"GET / HTTP/1.1\r\nCookie: sid={SECRET}\r\nHost: x\r\n".encode()),
    "cookie": f"Cookie: theme=dark; sid={SECRET}",
    "set-cookie": repr({"Set-Cookie": f"sid={SECRET}; HttpOnly"}),
    "bearer": f"sent bearer {SECRET} to the server",
    "API key": f"X-API-Key: {SECRET}",
    "password in a URL": f"postgresql://app:{SECRET}@db.example.org:5432/app",
    "password of nobody": f"redis://:{SECRET}@localhost",
    "keyword": f"connect(host='db', password={SECRET!r}, port=1)",
    "short password": f"connect(password='{SECRET[:6]}')",
    "with the other quote": f"password={SECRET + chr(39)!r}",
    "JSON": json.dumps({"client_secret": SECRET, "id": 1}),
    "JSON in JSON": json.dumps({"body": json.dumps({"password": SECRET})}),
    "JSON in a repr": repr(json.dumps({"password": SECRET})),
    "YAML": f"db:\n  user: me\n  password: {SECRET}\n",
    "YAML, a plain word": f"  password: {'qwertz'}\n",
    "variables": f"DB_PASSWORD={SECRET}\nOTHER=1",
    "shown locals": f"api_key    = '{SECRET}'\nx          = 1",
    "option": f"app --user me --password {SECRET} --verbose",
    "option with a sign": f"app --auth-token={SECRET}",
    "option in a list": repr(["app", "--token", SECRET]),
    "query": f"https://example.org/?access_token={SECRET}&x=1",
    "compared": f"assert token == '{SECRET}'",
    "AWS": f"'AWS_SECRET_ACCESS_KEY': '{SECRET}'",
    "connection string": f"Server=x;AccountKey={SECRET}==;Timeout=3",
    "cut by a repr": saferepr({"Authorization": f"Bearer {SECRET}"}, 50),
    "cut behind the name": saferepr({"Authorization": f"Bearer {SECRET}"}, 40),
    "cut in the name": saferepr({"Authorization": f"Bearer {SECRET}"}, 24),
    "key": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET * 3}\nab==\n-----END RSA PRIVATE KEY-----",
    "key in a repr": repr(f"-----BEGIN PRIVATE KEY-----\n{SECRET * 2}\n{SECRET}\n"),
    "key behind E": f"E   -----BEGIN EC PRIVATE KEY-----\nE   {SECRET * 2}\nE   {SECRET}\nE   x",
    "key cut": saferepr(
        f"-----BEGIN PRIVATE KEY-----\n{SECRET * 20}\n-----END PRIVATE KEY-----\n", 200
    ),
    "key without its start": f"...{SECRET * 2}\n{SECRET}\n-----END PRIVATE KEY-----",
}

KEPT: Final = {
    "annotation": "def login(user: str, password: str, token: str | None = None) -> None:",
    "call": "        token = get_token(user)",
    "itself": "login(user=user, password=password, token=self.token)",
    "attribute": "    password: SecretStr",
    "environment": "token = os.environ['TOKEN']",
    "key error": "KeyError: 'token'",
    "syntax": "E   SyntaxError: invalid token: unexpected end",
    "parser": "Token(type='NAME') and token='if', token == '+'",
    "counts": "max_tokens=4096, tokens: 128, token_count = 15, total_tokens=12345",
    "none": "password=None, token='', secret=\"***\", api_key='<unset>'",
    "from elsewhere": "password=${DB_PASSWORD} token=%(token)s secret={secret}",
    "usage": "usage: app [-h] [--token TOKEN] [--password PASSWORD]",
    "key": "for key, value in items: sort(key=len); primary_key=True; KeyError: 'a1'",
    "words": "keyboard, monkey, author: me, authority, compass=north, Secretary: none",
    "git": "commit 009e025ad4106ab333aa0b9dc4f2a884390d134c",
    "uuid": "id=123e4567-e89b-12d3-a456-426614174000",
    "hash": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "node id": "tests/unit/test_token_cache.py::test_password[very-long-parameter-000000001]",
    "path": "/home/me/.cache/pypoetry/virtualenvs/project-AbC12345-py3.13/lib/python3.13/site.py",
    "address": "<app.tokens.TokenStore object at 0x7f0c5a3b2d10>",
    "versions": "pytest-8.4.1, pluggy-1.6.0, plugins: xdist-3.8.0, timeout-2.4.0",
    "image": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "URL": "https://user@example.org:8080/a/b?c=1#d and git@example.org:me/it.git",
    "lorem": "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor " * 9,
    "dots": "assert [1, 2, 3, ...] == [...], 'Full diff:' ... use -vv to get more",
    "separator": "_ _ _ _ _ _ _ _ _ _ _ \n" + "=" * 70 + "\n" + "-" * 70,
    "public key": "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkq\n-----END PUBLIC KEY-----",
    "words behind a key": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
}


@pytest.mark.parametrize("case", GONE)
def test_a_named_secret_goes(case: str) -> None:
    """No six characters of the value are left, and what was removed is counted."""
    redactor = Redactor(environment={})
    shown = redactor.redact(GONE[case])
    assert not survives(SECRET, shown), shown
    assert shown != GONE[case]
    assert sum(redactor.counts.values()) >= 1
    assert redactor.redact(shown) == shown


@pytest.mark.parametrize("case", KEPT)
def test_an_ordinary_text_stays(case: str) -> None:
    """What only looks like a secret is evidence, and stays as it is."""
    redactor = Redactor(environment={})
    assert redactor.redact(KEPT[case]) == KEPT[case]
    assert redactor.counts == {}


def test_a_traceback_stays() -> None:
    """A real traceback through the standard library is not changed."""
    try:
        json.loads("{")
    except ValueError:
        text = "".join(traceback.format_exception(*sys.exc_info()))
    assert Redactor(environment={}).redact(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://me:pa55word@db/x", "postgres://me:[REDACTED:url-password]@db/x"),
        ("https://me:pa@ss@db.c/x.git", "https://me:[REDACTED:url-password]@db.c/x.git"),
        ("Authorization: Bearer a1b2c3d4", "Authorization: Bearer [REDACTED:authorization]"),
        ("f(password='hunter2', n=1)", "f(password='[REDACTED:password]', n=1)"),
        ("app --token=a1b2c3 -v", "app --token=[REDACTED:token] -v"),
        ('{"api_key": "a1"}', '{"api_key": "[REDACTED:api-key]"}'),
    ],
)
def test_only_the_value_goes(text: str, shown: str) -> None:
    """User, host, name and scheme are evidence, and stay."""
    assert Redactor(environment={}).redact(text) == shown
