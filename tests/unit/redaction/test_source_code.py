"""Lines of source code, which are most of a traceback, stay what they were."""

from __future__ import annotations

from typing import Final

import pytest

from pytest_failure_taxonomy.redaction.redactor import Redactor
from tests.unit.redaction.samples import random_part, survives

SECRET: Final = random_part("A-Za-z0-9", 24, "a value in source code")

KEPT: Final = (
    # Between two literals is code.
    'url = "u?password=" + pw + "&x="',
    'url = "u?password="+pw+"&x="',
    'raise ValueError("secret=" + str(len(pw)) + "…")',
    "assert 'cookie: ' + pw + ' missing' in text",
    "headers = ['Authorization: ' + value, 'Accept: *']",
    'NAMES = {"password=": "a b c"}',
    'text = "password=" if strict else "no password"',
    'print("token=" + token)',
    'command = ["--password="+pw+"x", "y"]',
    'line = "api_key=" % (), "other"',
    # What is filled in later.
    "raise ValueError('broken token=%r' % (x,))",
    "log.debug('rebuilt: token=%r', token)",
    "'password=%d, secret=%x, api_key=%5.2f.'",
    "'token={!r} and password={0}'.format(x)",
    '\'password="{0}" secret="{!r}" token="{self.token!r:>10}"\'',
    "f'token {token:02x} and {password:>20}'",
    'f"https://{user}:{self.password}@{host}/"',
    '"postgres://%s:%s@%s/%s" % parts',
    "WHERE name=? AND password=?",
    "UPDATE t SET password = :password, token = :token_param, auth=:auth_p",
    "UPDATE t SET secret=@secret_param, password = $1",
    # A parser's words.
    "token = 'identifier_name'",
    'def parse(token="identifier", auth="basic-auth-mode"):',
    "E   SyntaxError: got token='RIGHT_PAREN'",
    "Token(line=1, token='identifier')",
    "assert token == b'identifier'",
    "token='AsyncFunctionDefinition', auth='HTTPBasicAuthentication'",
    "auth='oauth2-bearer', credentials='same-origin'",
    "auth = basic-auth-mode; token=right-paren",
    "# token             = 1*tchar",
    "token = 1*<any CHAR except CTLs or separators>",
    # Types and names.
    "def login(password: 'str | None' = None, secret: \"Optional[str]\" = None)",
    "password: str = field(); password=password; self.secret = secret",
    # Placeholders of headers.
    "Authorization: Bearer <token>",
    "Authorization: Bearer token",
    "expected a header Authorization: Bearer <token> and got none",
    "{'Authorization': 'Bearer token'}",
    "information can be given by the --username and --password options",
)

OF_OTHERS: Final = (
    'tokenizer = re.compile(r"(?P<token>[a-z]+)=(?P<value>.*)")',
    "for token in tokens[1:]: yield token.type, token.string",
    "if token.type == tokenize.OP and token.string == '->':",
    "PASSWORD_CHARS = string.ascii_letters + string.digits",
    "self.auth_header = 'Authorization'",
    "user, password = base64.b64decode(auth).decode().split(':', 1)",
    "raise ValueError(f'unexpected token: {token.value!r} at {position}')",
    "secret = hmac.new(key, msg, 'sha256').hexdigest()",
    "password = getpass.getpass('Password: ')",
    "prompt = 'Password for %s@%s: ' % (user, host)",
    "if password is None: password = self.find_user_password(realm, authuri)[1]",
    "tokens = [token for token in text.split(' ') if token]",
    "csrf_token = request.POST.get('csrfmiddlewaretoken', '')",
    "from secrets import token_bytes, token_hex, token_urlsafe",
    "api_key = config.get('api_key', fallback=None)",
    "parser.add_argument('--token', help='the token of the service')",
    "'password': {'type': 'string', 'minLength': 8},",
    "ERRORTOKEN = 66  # token: error, token: comment",
    "return '%s:%s' % (self.user, '*' * len(self.password))",
    "cookies = SimpleCookie(); cookies['sid'] = value",
    'self.putheader("Cookie", cookie)',
    'cookie = "%s=%s" % (name, value)',
    'tok, value = self.get_token(value); token.append("key=")',
    "kwds['password'] = password",
    "self.passwd[realm][reduced_uri] = (user, passwd)",
    "def set_password(self, password: bytes | None = None) -> None:",
    "raise RuntimeError('Bad password for file %r' % name)",
    "h = _ZipDecrypter(pwd); pwd = pwd or self.fp.pwd",
    "elif token == 'default': tokens.pop()",
    "return {'Authorization': auth_token}",
    "headers = {'Accept': '*', 'Authorization': auth}",
    '"authorization": self.authorization,',
    "'proxy-authorization':1, 'te':1, 'trailers':1,",
    'attributes = ["Cookie", "; ".join(attrs)]',
    "if post_cookie := out[out_ends + 1 :]:",
    "auth = f'{user}:{secret}@'",
    "DVD_AUTH = 0x5392",
    "# RSAPrivateKey ::= SEQUENCE {",
    "arn:aws:secretsmanager:us-west-2:123456789012:secret:my-1a2b3c",
    "assert auth.lower() == 'basic', f'no such auth: {auth}'",
)
"""Of the kinds that the standard library and its neighbours are full of."""

GONE: Final = (
    f"connect(password='{SECRET}')",
    f"can't connect(password='{SECRET}', x='')",
    f"can't connect(password='+{SECRET}', x='')",
    f"connect(password='+{SECRET}')",
    f'os.environ["DB"] = "DB_PASSWORD=" + "{SECRET}"',
    f'url = "u?password=" "{SECRET}"',
    f'password=f"{SECRET}"',
    f'password = """{SECRET}"""',
    f"password=r'{SECRET}'",
    f"token='{SECRET}'",
    f"auth='me:{SECRET}'",
    f"auth_token={SECRET}",
    f"Authorization: Bearer token {SECRET}",
    f"'Authorization': {SECRET}",
    f"{{'Authorization': f'Bearer {SECRET}'}}",
    f"password={SECRET * 100}",
    f"Authorization: Bearer {SECRET * 100}",
    f"password='{SECRET * 100}'",
    f"--password {SECRET}",
    f"password=%{SECRET}",
    f"password=@{SECRET}",
    f"password=:{SECRET}",
    f"postgres://me:%{SECRET}@db/x",
)


@pytest.mark.parametrize("line", KEPT + OF_OTHERS)
def test_source_code_stays(line: str) -> None:
    """Names, operators, placeholders and a parser's words are no secrets."""
    redactor = Redactor(environment={})
    assert redactor.redact(line) == line
    assert (
        redactor.redact(f"        {line}\nE       {line}\n")
        == f"        {line}\nE       {line}\n"
    )
    assert redactor.counts == {}


@pytest.mark.parametrize("line", GONE)
def test_a_secret_in_source_code_goes(line: str) -> None:
    """The value goes, whatever code is around it."""
    shown = Redactor(environment={}).redact(line)
    assert not survives(SECRET, shown), shown


@pytest.mark.parametrize(
    "value",
    [
        "a1b2c3d4",
        "hunter22",
        "ab3-de4f-gh5i",
        "kJhQwErTzUiOpLkJhGfD",
        "qwertzuiopasdfghjklyx",
        "QWERTZUIOPASDFGHJKLYX",
        "dXNlcjpwYXNzd29yZA==",
    ],
)
def test_what_looks_random_goes_beside_a_parsers_name(value: str) -> None:
    """A value of `token` that is no word goes."""
    shown = Redactor(environment={}).redact(f"token = '{value}'")
    assert shown == "token = '[REDACTED:token]'"


def test_code_around_a_value_stays() -> None:
    """Of two literals that are joined, the second one's text is the value."""
    shown = Redactor(environment={}).redact('x = "DB_PASSWORD=" + "real"')
    assert shown == 'x = "DB_PASSWORD=" + "[REDACTED:password]"'
