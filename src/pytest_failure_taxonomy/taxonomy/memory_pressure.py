"""Judge and word what was seen of a run's memory."""

from __future__ import annotations

from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import (
    MemoryPressure,
    MemorySample,
    OomKill,
    TestFailure,
)

NEAR_LIMIT_SHARE: Final = 0.9
"""How much of a limit must be used for a `MemoryError` to be the limit's doing. A test that asks
for more than any machine has gets one, too, and that is the test's own failure."""

ALONE_SHARE: Final = 0.75
"""From which share of a limit on a killed process counts as too large by itself."""

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def is_out_of_memory(failure: TestFailure) -> bool:
    """Tell whether a test failed because the memory that the run may use was used up."""
    raised = failure.exception
    return raised is not None and is_nearly_used(raised.memory)


def is_nearly_used(memory: MemoryPressure | None) -> bool:
    """Tell whether hardly anything was left of a limit."""
    return memory is not None and memory.used_bytes >= NEAR_LIMIT_SHARE * memory.limit_bytes


def words_of_pressure(memory: MemoryPressure) -> str:
    """Say how much of a limit was used."""
    return f"{amount_words(memory.used_bytes, memory.limit_bytes)} that {memory.limit} allows"


def words_of_oom_kill(kill: OomKill) -> str:
    """Say how much a killed process used, and whether it was too large by itself."""
    if kill.limit_bytes is None:
        return f"it used {amount_words(kill.rss_bytes)}, and the memory of the machine ran out"
    used = f"it used {amount_words(kill.rss_bytes, kill.limit_bytes)} of its control group"
    if kill.rss_bytes >= ALONE_SHARE * kill.limit_bytes:
        return f"{used}: this process by itself was too large"
    return f"{used}: all processes together were too large"


def words_of_sample(memory: MemorySample | None) -> str:
    """Say how much memory was last seen in use; nothing if that is not known."""
    if memory is None:
        return ""
    if memory.used_bytes is not None and memory.limit_bytes is not None:
        used = amount_words(memory.used_bytes, memory.limit_bytes)
        return f"memory last seen: {used} of its control group"
    used_bytes = memory.total_rss_bytes or memory.rss_bytes
    if used_bytes is None:
        return ""
    return f"memory last seen: {amount_words(used_bytes)}, with no limit of a control group"


def amount_words(used_bytes: int, limit_bytes: int | None = None) -> str:
    """Return an amount of memory in words, such as `1.9 of 2.0 GiB`."""
    most = max(used_bytes, limit_bytes or 0)
    rank = min(len(_UNITS) - 1, max(0, (most.bit_length() - 1) // 10))
    figures = [used_bytes] if limit_bytes is None else [used_bytes, limit_bytes]
    digits = 1 if rank else 0
    return f"{' of '.join(f'{each / 1024**rank:.{digits}f}' for each in figures)} {_UNITS[rank]}"
