"""Read what pip, uv, npm, git, Docker and shells print, whose exit codes say little.

`taxonomy/data/tools.toml` has the wordings, `taxonomy/data/libraries.toml` those of
services of language models and sandboxes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple, cast

from pytest_failure_taxonomy.logs.line_patterns import LinePattern, literal_of
from pytest_failure_taxonomy.logs.log_lines import Tail
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    OutputLine,
    ToolCause,
    ToolMessage,
)
from pytest_failure_taxonomy.taxonomy.services import service_wordings

MAX_LINES_AFTER: Final = 50
"""How far from the end a message may be: what came long before was got over."""

MAX_COLUMNS: Final = 2_000
"""How much of a line is looked at: a pattern can begin at many places of it."""


class Wording(NamedTuple):
    """How one tool says what went wrong."""

    tool: str
    cause: ToolCause
    pattern: re.Pattern[str]
    literal: str
    """A part of every text that the pattern fits; small where it ignores case."""
    beginning: str = ""
    """What it begins with, if any text may follow that."""
    is_vague: bool = False
    """A better message may stand before it."""
    within: int = MAX_LINES_AFTER
    """How far from the end it may be."""

    def find(self, text: str, small: str) -> re.Match[str] | None:
        """Return where a line says it.

        Args:
            text: the line.
            small: the same in small letters.
        """
        ignores_case = self.pattern.flags & re.IGNORECASE
        if self.literal not in (small if ignores_case else text):
            return None
        if self.beginning:
            # What passes over any text fits at the first place of it, or at none.
            return self.pattern.match(text, text.find(self.beginning))
        return self.pattern.search(text)

    @property
    def is_of_service(self) -> bool:
        """Tell whether a service says it, who is asked again where it fails."""
        return "." in self.cause


@cache
def tool_wordings() -> tuple[Wording, ...]:
    """Return what services and tools say; the first that fits a line decides."""
    wordings = []
    for service in service_wordings():
        cause = cast("ToolCause", service.kind)
        wording = _compile(service.service, cause, service.pattern)
        wordings.append(wording._replace(is_vague=service.is_vague))
    for row in packaged_table("tools")["wording"]:
        within = row.get("within", MAX_LINES_AFTER)
        for words in row["patterns"]:
            wording = _compile(row["tool"], row["cause"], words.removeprefix("~"))
            is_vague = words.startswith("~")
            wordings.append(wording._replace(is_vague=is_vague, within=within))
    return tuple(wordings)


def _compile(tool: str, cause: ToolCause, pattern: str) -> Wording:
    beginning, any_text, _ = pattern.partition(".*")
    is_text = any_text and re.escape(beginning).replace("\\ ", " ") == beginning
    return Wording(
        tool=tool,
        cause=cause,
        pattern=re.compile(pattern),
        literal=literal_of(pattern),
        beginning=beginning if is_text else "",
    )


_ANY: Final = re.compile(
    "rror|ERROR|ERR!|fatal:|daemon|Podman|Docker|docker|ssh: |Max retries|Credentials"
    "|No solution|Failed|Caused by|Permission denied|key verification|kex_|Retrying"
    "|not found|No such file|No module|no such file|permission denied"
    "|is not recognized|Killed|No space|no space|quota|unexpected EOF|onnect|ENOSPC"
    "|E: |W: |failed to resolve|unable to (?:select|open)|open display|resolve host"
    "|name resolution|Missing X|ould not |unresolved dep|GemNotFound|dial tcp"
    "|unknown revision|matching package|Failure to find|Unable to update"
    "|failed to fetch|410 Gone|No output has|exceeded|xec format|No rule to make"
    "|PackageNotFound|NameNotFound|npm ci|lockfile|over its|budget|dubious"
    "|shutdown signal|pull access|with arch|missing dependencies|onda|Unsatisfiable"
    "|has timed out|Build timed out|longer than|xception|litellm|[Rr]ate.limit"
    "|overloaded|[Cc]ontext|oo long|RESOURCE_EXHAUSTED|API key|auth credentials"
    "|redits|credit balance|usage limit|limit reached|disconnected|reduce the length"
    "|llama|toomanyrequests|[Pp]atch|new browsers|checksum of ref|compute cache key"
    "|canceled|Because |Interrupt|xecutable|requires|module provides|too many"
    r"|nterpreter|go\.(?:sum|mod)|\^C"
)
"""What a line has to have that is looked at more closely."""
_OF_SERVICE: Final = re.compile(
    "openai|anthropic|litellm|google|groq|together|cohere|mistral|llama|langchain"
    "|aytona|e2b|modal|runloop|Sandbox|NotEnoughSpace|SnapshotCreation|Error code: "
    "|API [Ee]rror|API key|Client|Server|lient error|Status|status|RateLimitError"
    "|rate.limit|ate limit|ier capacity|too many|Too many|oo long|too large|context"
    "|tokens|reduce the length|overloaded|disconnected|server had an error|ermission"
    "|redit|usage limit|limit[.]|quota|RESOURCE_EXHAUSTED|ResourceExhausted|exhausted"
    "|UNA|DEADLINE|PERMISSION_DENIED|INVALID_ARGUMENT|API_KEY|api_key|authentication"
    "|uthentication method|OAuth|credentials|subscription key|when calling the|_error"
    "|_not_found|_exceeded|_active|_reached|_violation|_deactivated|_territory"
    "|_overloaded|eploymentNotFound|does not exist|not found|hit your|RequestsPerDay"
    "|rateLimitExceeded|max_new_tokens|Overloaded|Connection"
)
"""What a line has to have that a service may have said."""
_RETRIED: Final = re.compile(
    r"WARNING: Retrying \(Retry\(.*\)\) after connection broken by "
)
_NOTHING_FOUND: Final = "(from versions: none)"


MAX_LINES_AFTER_RETRY: Final = 10
"""The same for a service that is asked again."""


@cache
def _tally_pattern() -> LinePattern:
    """Return what test runners say when they have run tests."""
    return LinePattern(packaged_table("tools")["ran"])


@cache
def _overcome_pattern() -> re.Pattern[str]:
    """Return what shows that a problem was overcome; the group begins its cause."""
    groups = []
    for sort, patterns in packaged_table("tools")["over"].items():
        groups.append(f"(?P<{sort}>{'|'.join(patterns)})")
    return re.compile("|".join(groups))


@cache
def _retry_pattern() -> re.Pattern[str]:
    """Return how clients say that they ask a service again."""
    return re.compile("|".join(packaged_table("tools")["again"]["patterns"]))


class ToolOutput:
    """The last message of a tool that says why it failed."""

    wants_all = False

    def __init__(self) -> None:
        self._clear: tuple[OutputLine, Wording] | None = None
        self._vague: tuple[OutputLine, Wording] | None = None
        self._retried: OutputLine | None = None
        self._last_tally = 0
        """The number of the last line with a tally of tests."""
        self._installed: re.Pattern[str] | None = None
        """How a missing command shows its version, once somebody has installed it."""

    def feed(self, line: OutputLine) -> None:
        """Read the next line."""
        # Messages are looked for in the tail alone, where they can still be the reason.
        if _tally_pattern().match(line.text[:MAX_COLUMNS]):
            self._last_tally = line.number

    def _read(self, line: OutputLine) -> None:
        """Read a line of the end."""
        text = line.text[:MAX_COLUMNS]
        if (self._clear or self._vague) and (over := _overcome_pattern().search(text)):
            sort = str(over.lastgroup)
            if self._clear is not None and self._clear[1].cause.startswith(sort):
                self._clear = None
            if self._vague is not None and self._vague[1].cause.startswith(sort):
                self._vague = None
        if self._clear is not None:
            self._forget_if_over(line, *self._clear)
        if _ANY.search(text) is None:
            return
        if _RETRIED.search(text):
            self._retried = line
            return
        wordings = tool_wordings()
        # Most of the wordings are of services, and few lines can be theirs.
        if _OF_SERVICE.search(text) is None:
            wordings = wordings[len(service_wordings()) :]
        small = text.lower()
        for wording in wordings:
            if match := wording.find(text, small):
                self._note_wording(line, wording, match)
                break

    def _note_wording(
        self, line: OutputLine, wording: Wording, match: re.Match[str]
    ) -> None:
        """Note what a tool says, in place of its message before."""
        if not wording.is_vague:
            self._installed = None
        if wording.is_of_service and _retry_pattern().search(match.string):
            wording = wording._replace(within=MAX_LINES_AFTER_RETRY)
        if name := match.groupdict().get("tool"):
            wording = wording._replace(tool=name)
            if wording.cause in ("command", "module"):
                bare = re.escape(name.rstrip("0123456789."))  # python3.12 is python
                version = rf"(?i)(?:^|[\s/(]){bare}(?:[ @-]|==| \()v?\d"
                self._installed = re.compile(version)
        if wording.is_vague:
            self._vague = line, wording
        elif self._retried is not None and _NOTHING_FOUND in match.string:
            # pip takes an index that can't be reached for one without such a project.
            is_distrust = "CERTIFICATE_VERIFY_FAILED" in self._retried.text
            cause: ToolCause = "certificate" if is_distrust else "network"
            self._clear = self._retried, wording._replace(cause=cause)
            self._retried = line
        else:
            self._clear = line, wording

    def _forget_if_over(
        self, line: OutputLine, noted: OutputLine, wording: Wording
    ) -> None:
        """Forget a shell's message if its command is there later, or a Python fails."""
        text = line.text[:MAX_COLUMNS]
        if self._installed is not None and self._installed.search(text):
            self._clear = None
        is_of_shell = wording.within < MAX_LINES_AFTER and not wording.is_of_service
        if is_of_shell and text.startswith("Traceback (most recent call last)"):
            self._clear = None
        is_far = line.number > noted.number + wording.within
        if is_far or self._clear is None:
            self._installed = None

    def _begin(self) -> None:
        """Forget what an earlier look at the end has found."""
        self._clear = self._vague = self._retried = self._installed = None

    def message(self, tail: Tail) -> ToolMessage | None:
        """Return why a tool has failed; `None` if none says so near the end."""
        self._begin()
        for line in tail.lines:
            if line.number >= tail.line_count - MAX_LINES_AFTER:
                self._read(line)
        for noted in filter(None, (self._clear, self._vague)):
            line, wording = noted
            last = line
            if wording.cause in ("network", "certificate"):
                last = self._retried or line  # it was tried again up to there
            if last.number < tail.line_count - wording.within:
                continue
            meaning = packaged_table("tools")["causes"][wording.cause]
            before = line.number if meaning.get("any_stage") else 0
            return ToolMessage(
                tool=wording.tool,
                cause=wording.cause,
                line=line._replace(text=line.text.strip()),
                tests_ran=self._last_tally > before,
            )
        return None
