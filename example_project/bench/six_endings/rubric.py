"""A rubric that breaks in every way that a case asks for."""

from __future__ import annotations

import os
import time
from typing import Any


def grade(case: dict[str, Any], output: object) -> object:
    """Return a score, or what is none."""
    print("grading", case["id"])  # harmless: the verdict goes another way
    score = {"passed": True, "score": 1.0, "breakdown": {"exactness": 1.0}}
    match case.get("rubric"):
        case "answers in prose":
            return "Well done!"
        case "leaves":
            os._exit(0)
        case "hangs":
            time.sleep(60)
        case "gives a key that is not listed":
            score["breakdown"] = {"elegance": 0.9}
        case "gives a code that is not listed":
            score["failure_modes"] = [{"code": "answer.worng"}]
    return score
