"""Read from the output of pip, uv, npm, git and Docker what their exit codes don't say.

The wordings are those of pip 20 to 25, uv 0.4 to 0.9, npm 7 to 11, git 2.20 to 2.50 with curl and
OpenSSH, Docker 20 to 28, Docker Compose and Podman. None of the patterns can take more than linear
time on a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from pytest_failure_taxonomy.logs.log_lines import Line
from pytest_failure_taxonomy.taxonomy.evidence import OutputLine, ToolCause, ToolMessage

MAX_LINES_AFTER: Final = 50
"""How far from the end a message may be: what came long before was got over."""

MAX_COLUMNS: Final = 2_000
"""How much of a line is looked at: a pattern can begin at many places of it."""

_UNREACHABLE: Final = (
    r"(?:Name or service not known|Temporary failure in name resolution|nodename nor servname"
    r"|Connection refused|Connection reset|Connection timed out|Network is unreachable"
    r"|No route to host|Operation timed out)"
)


class Wording(NamedTuple):
    """How one tool says what went wrong."""

    tool: str
    cause: ToolCause
    pattern: re.Pattern[str]
    is_vague: bool = False
    """A better message may stand before it."""


def _wordings() -> Iterable[Wording]:
    for tool, cause, *patterns in _TABLE:
        for pattern in patterns:
            is_vague = pattern.startswith("~")
            yield Wording(tool, cause, re.compile(pattern.removeprefix("~")), is_vague)


_NPM: Final = r"npm (?:ERR!|error) code "
_TABLE: Final[tuple[tuple[str, ToolCause, *tuple[str, ...]], ...]] = (
    (
        "docker",
        "daemon",
        r"(?i)cannot connect to the docker daemon\b",
        r"(?i)couldn't connect to docker daemon\b",
        r"(?i)failed to connect to the docker api\b",
        r"(?i)permission denied while trying to connect to the docker (?:daemon|api)\b",
        r"error during connect: .*docker",
        r"Error response from daemon: ",
    ),
    ("podman", "daemon", r"Cannot connect to Podman\b"),
    (
        "pip",
        "network",
        r"Max retries exceeded with url: ",
        r"pip\._vendor\.\S*(?:(?:Read|Connect)Timeout|(?:New)?Connection|Protocol|SSL)Error: ",
    ),
    (
        "pip",
        "unavailable",
        r"ERROR: .*\b(?:HTTP error 5[0-9]{2}\b|5[0-9]{2} Server Error: )",
    ),
    ("pip", "rate_limited", r"ERROR: .*\b(?:HTTP error 429\b|429 Client Error: )"),
    (
        "pip",
        "denied",
        r"ERROR: .*\b(?:HTTP error 40[137]\b|40[137] Client Error: )",
        r"WARNING: 40[13] Error, Credentials not correct",
    ),
    (
        "pip",
        "missing",
        r"ERROR: .*\b(?:HTTP error 4(?:04|10)\b|4(?:04|10) Client Error: )",
        r"ERROR: Could not find a version that satisfies the requirement ",
        r"ERROR: Could not open requirements file: ",
    ),
    (
        "pip",
        "conflict",
        r"ERROR: ResolutionImpossible\b",
        r"ERROR: Cannot install .* because these package versions have conflicting dependencies",
        r"ERROR: Package '.*' requires a different Python: ",
    ),
    (
        "pip",
        "refused",
        r"ERROR: Invalid requirement: ",
        r"ERROR: THESE PACKAGES DO NOT MATCH THE HASHES",
        r"error: externally-managed-environment$",
    ),
    (
        "pip",
        "build",
        r"ERROR: Failed building wheel for ",
        r"error: (?:metadata-generation-failed|subprocess-exited-with-error)$",
        r"ERROR: Failed to build (?:installable wheels for|'.*' when) ",
    ),
    (
        "uv",
        "network",
        r"Caused by: dns error\b",
        r"Caused by: tcp connect error\b",
        r"Caused by: operation timed out$",
        r"Caused by: invalid peer certificate\b",
        r"Failed to download distribution due to network timeout",
        r"~Caused by: error sending request for url ",
        r"~Caused by: client error \((?:Connect|SendRequest)\)$",
    ),
    ("uv", "unavailable", r"HTTP status server error \(5[0-9]{2}\b"),
    ("uv", "rate_limited", r"HTTP status client error \(429\b"),
    ("uv", "denied", r"HTTP status client error \(40[137]\b"),
    ("uv", "missing", r"HTTP status client error \(4(?:04|10)\b"),
    ("uv", "conflict", r"\u00d7 No solution found when resolving ", r"^error: No solution found "),
    ("uv", "build", r"\u00d7 Failed to build `"),
    (
        "npm",
        "network",
        _NPM + r"(?:ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH"
        r"|ERR_SOCKET_TIMEOUT|FETCH_ERROR|CERT_\w+|UNABLE_TO_\w+|SELF_SIGNED_CERT_IN_CHAIN"
        r"|DEPTH_ZERO_SELF_SIGNED_CERT|ERR_SSL_\w+)\b",
    ),
    ("npm", "unavailable", _NPM + r"E5[0-9]{2}\b"),
    ("npm", "rate_limited", _NPM + r"E429\b"),
    ("npm", "denied", _NPM + r"(?:E40[13]|ENEEDAUTH|EOTP)\b"),
    ("npm", "missing", _NPM + r"(?:E404|ETARGET|ENOVERSIONS|ENOENT)\b"),
    ("npm", "conflict", _NPM + r"(?:ERESOLVE|EBADENGINE|EBADPLATFORM|EPEERINVALID)\b"),
    ("npm", "refused", _NPM + r"(?:EUSAGE|EJSONPARSE|EINVALIDPACKAGENAME|EINVALIDTAGNAME)\b"),
    (
        "git",
        "unavailable",
        r"The requested URL returned error: 5[0-9]{2}\b",
        r"RPC failed; HTTP 5[0-9]{2}\b",
    ),
    (
        "git",
        "rate_limited",
        r"The requested URL returned error: 429\b",
        r"RPC failed; HTTP 429\b",
    ),
    (
        "git",
        "denied",
        r"The requested URL returned error: 40[137]\b",
        r"RPC failed; HTTP 40[137]\b",
        r"fatal: Authentication failed for ",
        r"fatal: could not read (?:Username|Password) for ",
        r"Permission denied \(publickey\b",
        r"Host key verification failed\.",
    ),
    (
        "git",
        "missing",
        r"The requested URL returned error: 4(?:04|10)\b",
        r"fatal: repository '.*' (?:not found|does not exist)",
        r"ERROR: Repository not found\.",
        r"fatal: '.*' does not appear to be a git repository",
        r"fatal: Remote branch .* not found in upstream",
        r"Could not find remote branch ",
        r"fatal: couldn't find remote ref ",
        r"error: pathspec '.*' did not match any",
        r"fatal: (?:reference is not a tree|unable to read tree|bad object)\b",
        r"fatal: ambiguous argument '.*': unknown revision",
        r"fatal: remote error: upload-pack: not our ref ",
        r"fatal: invalid reference: ",
    ),
    (
        "git",
        "refused",
        r"fatal: destination path '.*' already exists and is not an empty directory",
        r"error: .* would be overwritten by checkout",
    ),
    (
        "git",
        "network",
        r"fatal: unable to access '[^']*': (?!The requested URL returned error)",
        r"ssh: Could not resolve hostname ",
        r"ssh: connect to host .*" + _UNREACHABLE,
        r"fatal: unable to connect to ",
        r"fatal: unable to look up ",
        r"kex_exchange_identification: .*(?:closed|reset)",
        r"error: RPC failed; (?:curl|result=)",
        r"~fatal: (?:early EOF|the remote end hung up|fetch-pack: unexpected disconnect)",
    ),
)
"""What each tool says, by its cause. The first line that fits decides. `~` marks a message that
only follows from others."""

WORDINGS: Final = tuple(_wordings())

_ANY: Final = re.compile(
    "rror|ERROR|ERR!|fatal:|daemon|Podman|Docker|docker|ssh: |Max retries|Credentials"
    "|No solution|Failed|Caused by|Permission denied|key verification|kex_|Retrying"
)
"""What a line has to have that is looked at more closely."""
_RETRIED: Final = re.compile(r"WARNING: Retrying \(Retry\(.*\)\) after connection broken by ")
_NOTHING_FOUND: Final = "(from versions: none)"


class ToolOutput:
    """The last message of a tool that says why it failed."""

    wants_all = False

    def __init__(self) -> None:
        self._clear: tuple[Line, Wording] | None = None
        self._vague: tuple[Line, Wording] | None = None
        self._retried: Line | None = None

    def feed(self, line: Line) -> None:
        """Read the next line."""
        text = line.text[:MAX_COLUMNS]
        if _ANY.search(text) is None:
            return
        if _RETRIED.search(text):
            self._retried = line
            return
        found = next((each for each in WORDINGS if each.pattern.search(text)), None)
        if found is None:
            return
        if found.is_vague:
            self._vague = line, found
        elif self._retried is not None and _NOTHING_FOUND in text:
            # pip takes an index that can't be reached for one that has no such project.
            self._clear = self._retried, found._replace(cause="network")
            self._retried = line
        else:
            self._clear = line, found

    def message(self, line_count: int) -> ToolMessage | None:
        """Return why a tool has failed; `None` if none says so near the end.

        Args:
            line_count: how many lines the output has.
        """
        noted = self._clear or self._vague
        if noted is None:
            return None
        line, wording = noted
        at_end = line if wording.cause != "network" or self._retried is None else self._retried
        if at_end.number < line_count - MAX_LINES_AFTER:
            return None
        return ToolMessage(
            tool=wording.tool, cause=wording.cause, line=OutputLine(line.number, line.text.strip())
        )
