"""Values of variables that are secret, and values that one text gave away, go everywhere."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import unicodedata
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus

import pytest
from _pytest._io.saferepr import saferepr

from pytest_failure_taxonomy.redaction.known_values import KnownValues, secret_values
from pytest_failure_taxonomy.redaction.marks import Search
from pytest_failure_taxonomy.redaction.ordinary_values import is_telling
from pytest_failure_taxonomy.redaction.redactor import Redactor
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.text import cap
from tests.unit.redaction.samples import random_part, survives

PART: Final = random_part("A-Za-z0-9", 24, "environment")
VALUE: Final = PART[:12] + "/'\"\n+é<&" + PART[12:]
ACCENTS: Final = PART[:12] + "/é+ü " + PART[12:]
LONG: Final = PART * 6

STRONG: Final = (
    *(
        "RAILS_MASTER_KEY",
        "AIRFLOW__CORE__FERNET_KEY",
        "STRIPE_KEY",
        "HMAC_KEY",
        "SIGNING_KEY",
    ),
    *(
        "DB_PW",
        "DBPW",
        "TF_VAR_db_pw",
        "PGPASS",
        "SSHPASS",
        "HASH_SALT",
        "SALT",
        "PASS_PEPPER",
    ),
    *(
        "WIFI_PSK",
        "DB_CREDS",
        "STRIPE_KEY_LIVE",
        "FERNET_KEY_OLD",
        "APP_SECRETS",
        "AUTH_TOKENS",
    ),
)
TELLING: Final = (
    "GH_PAT",
    "app_pat2",
    "SESSION_KEY",
    "KEY",
    "APP_KEYS",
    "LICENSE_KEY_PROD",
)
"""Names beside which words are no secrets."""
NO_SECRETS: Final = (
    *(
        "KEYBOARD",
        "MONKEY",
        "KEYMAP",
        "KEY_NAME",
        "KEY_ID",
        "SIGNING_KEY_ID",
        "MASTER_KEY_FILE",
    ),
    *(
        "SSH_PUBLIC_KEY",
        "STRIPE_PUBLISHABLE_KEY",
        "CACHE_KEY",
        "PRIMARY_KEY",
        "AUTHORIZED_KEYS",
    ),
    *(
        "GPG_KEY",
        "MANPATH",
        "PATTERN",
        "COMPASS",
        "BYPASS",
        "GIT_ASKPASS",
        "PW_DEBUG",
        "SALTED",
    ),
    *("SALT_VERSION", "PASSENGER", "DB_PW_FILE", "OLDPWD", "SSH_AUTH_SOCK"),
)

WAYS = (
    "app --api-token {} -v",
    "X-Api-Key: {}",
    "{{'Authorization': 'Bearer {}'}}",
    "connect(api_key='{}')",
    "https://{}@example.org/x",
    "<token>{}</token>",
    "SERVICE_TOKEN={}",
    '<input name="api_key" value="{}">',
)


@pytest.mark.parametrize("value", [PART, VALUE, ACCENTS, LONG])
@pytest.mark.parametrize(
    "form",
    [
        str,
        repr,
        ascii,
        json.dumps,
        shlex.quote,
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: json.dumps({"body": json.dumps({"a": value})}),
        lambda value: repr(json.dumps(value)),
        lambda value: repr(value.encode()),
        lambda value: repr(shlex.quote(value)),
        quote,
        lambda value: quote(value, safe=""),
        lambda value: re.sub(
            "%..", lambda code: code.group().lower(), quote_plus(value)
        ),
        html.escape,
        lambda value: json.dumps(html.escape(value)),
        lambda value: html.escape(value, quote=False),
        lambda value: (
            html.escape(value).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
        ),
        lambda value: unicodedata.normalize("NFD", value),
        lambda value: quote(unicodedata.normalize("NFD", value)),
        lambda value: value.encode().hex(),
        lambda value: value.encode().hex().upper(),
        lambda value: _base64_lines(value, before=50, columns=76),
        lambda value: _base64_lines(value, before=46, columns=64),
        lambda value: repr(_base64_lines(value, before=40, columns=64)),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.b64encode(f"u:{value}".encode()).decode(),
        lambda value: base64.b64encode(f"me:{value}".encode()).decode(),
        lambda value: base64.b64encode(f"you:{value}".encode()).decode(),
    ],
)
def test_a_value_goes_in_every_form(
    value: str, form: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is, in a repr, JSON, a URL or base64, the value goes and the variable is named."""
    assert callable(form)
    monkeypatch.setenv("MY_API_KEY", value)
    shown = Secrets().redact(f"it said {form(value)}.")
    assert "[REDACTED:env:MY_API_KEY]" in shown
    for half in (PART[:12], PART[12:]):
        assert not survives(half, shown)
    encoded = base64.b64encode(value.encode()).decode()
    assert not survives(encoded[4:-4], shown, 8)


def _base64_lines(value: str, *, before: int, columns: int) -> str:
    """Return the value among other bytes in base64, broken into lines."""
    encoded = base64.b64encode(b"\0" * before + value.encode() + b"\0" * 90).decode()
    return "\n".join(
        encoded[at : at + columns] for at in range(0, len(encoded), columns)
    )


COPIES: Final = {
    "other-end": PART[:-3] + "xyz",
    "other-start": "xyz" + PART[3:],
    "other-start-and-end": "--" + PART[6:-6] + "--",
    "other-middle": PART[:14] + "#" + PART[15:],
    "longer": f"{PART}{PART[:4]}",
    "lines-of-a-comparison": f"E   - {PART[:-3]}xyz\nE   ?  ^^^\nE   + {PART}",
    "wrapped": f"{PART[:9]}\n    {PART[9:-3]}xyz",
}


@pytest.mark.parametrize("many", [1, 60])
@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(
    "form",
    [
        str,
        json.dumps,
        lambda value: repr(json.dumps({"body": json.dumps([value])})),
        lambda value: value.encode().hex(),
        lambda value: base64.b64encode(f"me:{value}".encode()).decode(),
    ],
)
def test_a_changed_copy_goes(copy: str, form: Callable[[str], str], many: int) -> None:
    """Twelve characters in a row that are half of a value are as secret as all of it."""
    others = {
        f"X{number}_TOKEN": random_part("A-Za-z0-9", 24, str(number))
        for number in range(many)
    }
    shown = Redactor(environment={"MY_PAT": PART, **others}).redact(
        f"it was {form(copy)}"
    )
    assert "[REDACTED:env:MY_PAT]" in shown
    encoded = base64.b64encode(b"me:" + PART.encode()).decode()
    for whole in (PART, PART.encode().hex(), encoded):
        assert not survives(whole, shown, len(whole) // 2)


@pytest.mark.parametrize("length", [8, 11, 12, 13, 19, 24, 25, 40, 41, 300])
def test_how_much_of_a_value_is_a_copy(length: int) -> None:
    """Wherever in the value it begins, half of it goes and less stays, and of a short one all."""
    value = random_part("A-Za-z0-9", length, "copy")
    redactor = Redactor(environment={"MY_TOKEN": value})
    least = min(length, max(12, length // 2))
    for start in range(length - least + 1):
        assert (
            redactor.redact(f"<{value[start : start + least]}>")
            == "<[REDACTED:env:MY_TOKEN]>"
        )
    for start in range(length - least + 2) if length > least else ():
        text = f"<{value[start : start + least - 1]}>"
        assert redactor.redact(text) == text


@pytest.mark.parametrize(
    "text",
    ['"project_id": "other"', "-----BEGIN RSA PUBLIC KEY-----", f'"id": "{PART[:11]}"'],
)
def test_names_and_headings_of_a_credential_stay(text: str) -> None:
    """Half of a line that has a secret in it, or of one without, is no copy of a secret."""
    lines = (
        "-----BEGIN RSA PRIVATE KEY-----",
        '"project_id": "shop",',
        f'"id": "{PART}"',
    )
    environment = {"APP_CREDENTIALS": "\n".join(lines)}
    assert Redactor(environment=environment).redact(text) == text
    assert not survives(
        PART, Redactor(environment=environment).redact(f"'{PART[:-3]}xyz'"), 12
    )


def test_a_copy_of_a_value_that_became_known_later() -> None:
    """A value that stood beside its name is known in changed copies from then on."""
    redactor = Redactor(environment={})
    redactor.redact(f"connect(password='{PART}')")
    assert redactor.redact(f"'{PART[:-3]}xyz'") == "'[REDACTED:password]xyz'"


@pytest.mark.parametrize(
    "form", ["hexadecimal digits of Pass1234", "%70%61", "&#112;", "x" * 90]
)
def test_what_has_no_value_in_it_stays(form: str) -> None:
    """To look for many forms takes nothing else away."""
    assert (
        Redactor(environment={"MY_API_KEY": VALUE, "OTHER_TOKEN": ACCENTS}).redact(form)
        == form
    )


@pytest.mark.parametrize("around", ["", "aaa", "the value was "])
@pytest.mark.parametrize("size", [14, 20, 24, 26, 30, 34])
def test_a_value_that_a_repr_cut_goes(around: str, size: int) -> None:
    """Where `saferepr` cut the value, four or more characters of its start or end are removed."""
    redactor = Redactor(environment={"MY_SECRET": PART})
    shown = redactor.redact(saferepr(around + PART + around, size))
    assert not survives(PART, shown, 4), shown


@pytest.mark.parametrize("before", range(10, 60, 7))
def test_a_value_that_a_cap_cut_goes(before: int) -> None:
    """Where our own cap cut the value, the same holds."""
    text = cap(" " * before + PART + " " * 200, 100)
    shown = Redactor(environment={"MY_SECRET": PART}).redact(text)
    assert not survives(PART, shown, 4), shown


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("GITHUB_TOKEN", "a1b2c3d4e5", ["a1b2c3d4e5"]),
        ("PGPASSWORD", "hunter22", ["hunter22"]),
        ("CLIENTSECRET", "hunter22", ["hunter22"]),
        ("AWS_SECRET_ACCESS_KEY", "a1b2c3d4/e5", ["a1b2c3d4/e5"]),
        ("MYSQL_PWD", "hunter22", ["hunter22"]),
        ("BASIC_AUTH", "me:hunter22", ["me:hunter22"]),
        ("DATABASE_URL", "postgres://me:hunter22@db/x", ["hunter22"]),
        ("DATABASE_URL", "pg://me:hunter22@x9@db/x", ["hunter22", "hunter22@x9"]),
        ("GITHUB_TOKEN", "", []),
        ("GITHUB_TOKEN", "true", []),
        ("DB_PASSWORD", "postgres", []),
        ("DB_PASSWORD", "test", []),
        ("API_TOKEN", "12345", []),
        ("API_TOKEN", "xxxxxxxxxxxx", []),
        ("SECRET_KEY", "/run/secrets/key", []),
        ("TOKEN_FILE", "/run/secrets/a1b2c3", []),
        ("TOKENIZERS_PARALLELISM", "false123", []),
        ("SSH_AUTH_SOCK", "/run/ssh-a1b2c3/agent.1", []),
        ("PWD", "/home/me/a1b2c3d4", []),
        ("XAUTHORITY", "a1b2c3d4e5", []),
        *((name, "hunter22", ["hunter22"]) for name in STRONG),
        *((name, PART, [PART]) for name in (*STRONG, *TELLING)),
        *((name, "user_name", []) for name in TELLING),
        *((name, PART, []) for name in NO_SECRETS),
        ("FERNET_KEY", "postgres", []),
        ("RAILS_MASTER_KEY", "/run/secrets/a1b2", []),
        ("PATH", "/usr/bin:/bin", []),
        ("AUTHOR", "a1b2c3d4", []),
    ],
)
def test_which_values_are_secret(name: str, value: str, secrets: list[str]) -> None:
    """The name says so, and the value is neither short nor a word, a count or a path."""
    assert secret_values(name, value) == secrets


def test_the_environment_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value set later is known, and one that is gone stays known."""
    redactor = Redactor()
    assert redactor.redact(PART) == PART
    monkeypatch.setenv("LATE_TOKEN", PART)
    assert redactor.redact(PART) == "[REDACTED:env:LATE_TOKEN]"
    monkeypatch.delenv("LATE_TOKEN")
    assert redactor.redact(PART) == "[REDACTED:env:LATE_TOKEN]"


def test_a_short_value_goes_only_as_a_word() -> None:
    """A value of six or seven characters inside of a longer word is something else."""
    redactor = Redactor(environment={"API_TOKEN": "a1b2c3"})
    assert redactor.redact("xa1b2c3y 'a1b2c3'") == "xa1b2c3y '[REDACTED:env:API_TOKEN]'"


@pytest.mark.parametrize("way", WAYS)
def test_a_token_that_no_table_knows_goes_beside_a_name_and_everywhere_then(
    way: str,
) -> None:
    """Its form says nothing; what stands beside it does, for all texts that come later."""
    token = "zyx_" + random_part("A-Za-z0-9", 32, way)
    redactor = Redactor(environment={})
    assert redactor.redact(f"{token} alone") == f"{token} alone"
    assert not survives(token, redactor.redact(way.format(token)))
    assert redactor.known == 1
    assert not survives(token, redactor.redact(f"{token} alone"))


@pytest.mark.parametrize(
    "value",
    [
        "corr3ct-h0rse",
        "a1B2c3D4",
        "kJhQwErTzUiOpLkJ",
        "pa$$w0rd!23",
        "123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_a_long_and_odd_value_is_telling(value: str) -> None:
    """It has digits among its letters, capitals anywhere, or signs beside a digit."""
    assert is_telling(value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "test",
            "hunter2",
            "a1B2c3",
            "password",
            "administrator",
            "test1234",
            "user_password",
        ),
        *(
            "admin-2024",
            "my-service-account",
            "2024-01-01T10:00:00Z",
            "1700000000",
            "1.2.3-rc1",
        ),
        *(
            "me@example.org",
            "/home/me/a1b2c3d4",
            "https://a1b2c3d4.example.org",
            "xxxxxxxxxxxx",
        ),
        *(
            "0x7f0c5a3b2d10",
            "This field is required.",
            "get_token(a1b2c3)",
            "a1b2c3d4...",
            "***",
        ),
    ],
)
def test_an_ordinary_value_is_not(value: str) -> None:
    """Words, numbers, dates, versions, addresses, paths, code and prose stand in others' texts."""
    assert not is_telling(value)


@pytest.mark.parametrize("word", ["test", "administrator", "test1234"])
def test_an_ordinary_password_leaves_the_word_in_other_texts(word: str) -> None:
    """It is removed beside its name, and nowhere else."""
    redactor = Redactor(environment={})
    shown = redactor.redact(f"connect(password='{word}') failed in {word} of it")
    assert shown == f"connect(password='[REDACTED:password]') failed in {word} of it"


@pytest.mark.parametrize("many", [3, 400])
@pytest.mark.parametrize(
    "form", ["{}", "'{}'", "{0[0]}{0[1]}...", "{}\nE   then", "x{}x"], ids=range(5)
)
def test_few_and_many_values_are_removed_alike(many: int, form: str) -> None:
    """Of very many, those that can't be there are passed over; none that is there."""
    values = [
        "zyx_" + random_part("A-Za-z0-9", 24, str(number)) for number in range(many)
    ]
    known = KnownValues(1_000)
    known.add(("token", value) for value in values)
    text = form.format(values[1]).replace(
        values[1][0] + values[1][1] + "...", values[1][:9] + "..."
    )
    shown = known.remove(
        text, Search(lambda name, _="", /: f"[{name}]"), cut="..." in text
    )
    assert not survives(values[1], shown)


def test_the_oldest_values_are_forgotten() -> None:
    """No run has to remember more than so many."""
    values = [random_part("A-Za-z0-9", 24, str(number)) for number in range(5)]
    known = KnownValues(3)
    known.add(("token", value) for value in values)
    left = known.remove(
        " ".join(values), Search(lambda name, _="", /: f"[{name}]"), cut=False
    )
    assert left.split() == [*values[:2], "[token]", "[token]", "[token]"]


@pytest.mark.parametrize(
    "name", ["SHARED_KEY", "AZURE_SHARED_KEY", "DEPLOY_TOKEN", "db_password"]
)
def test_a_variable_whose_name_says_secret(name: str) -> None:
    """Its whole value is one."""
    assert secret_values(name, PART) == [PART]
