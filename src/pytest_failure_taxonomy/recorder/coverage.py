"""What pytest-cov says of its threshold, where that plugin is in use.

It adds one to the session's count of failed tests and leaves no other trace than its own object.
"""

from __future__ import annotations

import math
from typing import Any


def shortfall_of(plugin: Any) -> str:
    """Return in words that too little was covered; nothing where the plugin does not say so.

    None of what is read is promised, so anything that another version does instead is no answer.
    """
    try:
        total, required = float(plugin.cov_total), float(plugin.options.cov_fail_under)
        if not _is_below(total, required, int(plugin.options.cov_precision or 0)):
            return ""
    except Exception:  # noqa: BLE001 - a foreign object, which may do whatever it likes
        return ""
    # Rounded down: 99.999 % is not yet 100.
    return f"coverage {math.floor(total * 100) / 100:g} % is below the required {required:g} %"


def _is_below(total: float, required: float, precision: int) -> bool:
    """Compare as coverage does: what rounds to 100 % is not 100 %."""
    if required == 100 and total < 100:
        return True
    return round(total, precision) < required
