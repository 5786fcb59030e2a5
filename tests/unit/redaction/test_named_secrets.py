"""Secrets with a name beside them, and texts that only look so."""

from __future__ import annotations

import json
import sys
import traceback
from base64 import b64encode
from typing import Final

import pytest
from _pytest._io.saferepr import saferepr

from pytest_failure_taxonomy.redaction.redactor import Redactor
from tests.unit.redaction.samples import random_part, survives

SECRET: Final = random_part("A-Za-z0-9", 24, "a value of no form")
LETTERS: Final = random_part("A-Za-z", 24, "a token of letters")

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
    "request as bytes": repr(
        f"GET / HTTP/1.1\r\nCookie: sid={SECRET}\r\nHost: x\r\n".encode()
    ),
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
    "element": f"<login><password>{SECRET}</password></login>",
    "element with attributes": f'<db:Password type="plain">{SECRET}</db:Password>',
    "element as text": f"&lt;apiKey&gt;{SECRET}&lt;/apiKey&gt;",
    "element on lines": f"<token>\n    {SECRET}\n</token>",
    "input": f'<input type="hidden" name="csrf_token" value="{SECRET}">',
    "input, value first": f'<input value="{SECRET}" id="x" name="csrfmiddlewaretoken"/>',
    "input of a password": f"<input type='password' id='x' value='{SECRET}'>",
    "input of a password, value first": f"<input value='{SECRET}' type='password'>",
    "input in a repr": repr(f'<input name="csrf_token" value="{SECRET}">\n' + "'"),
    "meta": f'<meta name="csrf-token" content="{SECRET}" />',
    "setting": f'<add key="ApiKey" value="{SECRET}"/>',
    "entry with name and value": repr({"name": "DB_PASSWORD", "value": SECRET}),
    "entry with value and name": json.dumps({"value": SECRET, "name": "DB_PASSWORD"}),
    "entry of YAML": f"env:\n  - name: DB_PASSWORD\n    value: {SECRET}\n",
    "pair": repr([("user", "me"), ("password", SECRET)]),
    "pair in JSON": json.dumps([["client_secret", SECRET]]),
    "netrc": f"machine example.org login me password {SECRET}",
    "netrc on lines": f"machine example.org\n  login me\n  password {SECRET}\n",
    "netrc without login": f"machine example.org password {SECRET} login me",
    "signature of Azure": f"https://a.blob.example.net/c?sv=2022-11-02&se=2024&sig={SECRET}%3D",
    "signature of Azure in JSON": f'{{"url": "https://x.net/c?sv=1\\u0026sig={SECRET}%3D"}}',
    "signature of Azure in HTML": f'<a href="https://x.net/c?sv=1&amp;sig={SECRET}%3D">',
    "signature of Azure in a URL": f"https://y.net/?u=https%3A%2F%2Fx.net%3Fsv%3D1%26sig%3D{SECRET}",
    "short signature of Azure": f"https://x.net/c?sig={SECRET[:14]}%3D&sv=1",
    "signature of Amazon": f"https://b.example.org/k?X-Amz-Date=1&X-Amz-Signature={SECRET}",
    "user without password": f"https://{SECRET}:@example.org/v1/charges",
    "token as user": f"https://{SECRET}@example.org/me/it.git",
    "token of letters as user": f"https://{LETTERS}@github.com/me/it.git",
    "slash in a password": f"postgres://me:x/{SECRET}@db.example.org/app",
    "two slashes in a password": f"https://me:/{SECRET}/+@example.org:8080/app",
    "shown beside and again": f"assert Cfg(api_key='{SECRET}') == '{SECRET}'",
    "shown before and beside": f"{SECRET} came from Cfg(api_key='{SECRET}')",
    "again in base64": f"password='{SECRET}' sent Basic {b64encode(SECRET.encode()).decode()}",
    "again on two lines": f"password='{SECRET}' and\nE   {SECRET[:11]}\nE   {SECRET[11:]}",
    "basic and its password": (
        f"authorization: Basic {b64encode(f'me:{SECRET}'.encode()).decode()} is {SECRET}"
    ),
    "curl -u": f"curl -sS -u me:{SECRET} https://example.org",
    "curl --user": f"curl https://example.org --user 'me:{SECRET}' -o x",
    "curl --user=": f"curl --user=me:{SECRET} https://example.org",
    "curl in a list": repr(["/usr/bin/curl", "-u", f"me:{SECRET}"]),
    "mysql": f"mysql -h db -u me -p{SECRET} app",
    "mysqldump in a list": repr(["mysqldump", "-ume", f"-p{SECRET}"]),
    "psql": f"PGPASSWORD={SECRET} psql -h db",
    "docker": f"docker login -u me -p {SECRET} registry.example.org",
    "docker, long": f"docker login --username me --password {SECRET}",
    "sshpass": f"sshpass -p {SECRET} ssh me@example.org",
    "sshpass, quoted": f'sshpass -p "{SECRET}" ssh me@example.org',
    "redis": f"+ redis-cli -h x -a {SECRET} ping",
    "header of curl": f"curl -H 'Authorization: Bearer {SECRET}'",
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
    "lorem": "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor "
    * 9,
    "node ids": "tests/test_a.py::TestPassword::test_login, TestAuth::test_secret::x",
    "C++": "auth::Password::check(secret::Value)",
    "element of words": "<token>if</token><password/><password></password><auth>basic</auth>",
    "forms": '<input name="password" type="password" value=""><input name="q" value="a1b2c3d4e5">',
    "names in a tuple": "fields = ('password', 'email'), ('username', 'token', 'is_active')",
    "asked for": "os.environ.get('TOKEN', 'a1b2c3d4'), getattr(self, 'password', 'n0ne-given')",
    "machine": "the machine admin password is not known, default login anonymous",
    "port and address": "http://localhost:8080/path/me@example.org, npm://r:4873/@scope/pkg",
    "user of a URL": "https://john.doe@x.org https://deploy-bot2@x.org https://me%40x1.org@y.org",
    "names of several words": "https://svc-ci-bot-eu-west@x.org https://DeployBotOfTheShop@x.org",
    "users": "ssh://git@example.org:22/x https://administrator1@example.org",
    "command lines": "curl -u me https://x.org; mysql -u me -p app; docker run -p 8080:80 x",
    "templates": "curl -u $USER:$PASS x; curl -u user:password x; sshpass -p <password> ssh x",
    "signature": "sig=inspect.signature(f); &sigma=3; ?signature=f(a,b)",
    "a name behind a sign": "cache_key-9f86d081884c7d659a2feaa0c55ad015",
    "lines": "E   AssertionError: npm_\nE   install_the_packages\n  sk-\nfoo",
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
        (
            "https://me:pa@ss@db.c/x.git",
            "https://me:[REDACTED:url-password]@db.c/x.git",
        ),
        (
            "Authorization: Bearer a1b2c3d4",
            "Authorization: Bearer [REDACTED:authorization]",
        ),
        ("f(password='hunter2', n=1)", "f(password='[REDACTED:password]', n=1)"),
        ("app --token=a1b2c3 -v", "app --token=[REDACTED:token] -v"),
        ('{"api_key": "a1"}', '{"api_key": "[REDACTED:api-key]"}'),
    ],
)
def test_only_the_value_goes(text: str, shown: str) -> None:
    """User, host, name and scheme are evidence, and stay."""
    assert Redactor(environment={}).redact(text) == shown
