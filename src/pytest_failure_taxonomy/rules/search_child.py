"""The program of the process that searches patterns of which nobody knows how long they take.

It is started by its path, with the standard library alone: `python -I -S search_child.py`. One
JSON object comes on stdin; a greeting and one line of JSON for each job go to stdout, each as soon
as it is there. A job that takes longer than its limit ends the process, by faulthandler's own
thread, which does not wait for the interpreter: Python code could not run while its matcher does.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
import warnings
from typing import Any


def answer(pattern: str, texts: list[str], *, wants_spans: bool) -> list[Any]:
    """Return for each text whether the pattern is found, or the spans of all that it finds."""
    compiled = re.compile(pattern)
    if not wants_spans:
        return [int(compiled.search(text) is not None) for text in texts]
    return [
        [found.span() for found in compiled.finditer(text) if found.end() > found.start()]
        for text in texts
    ]


def main() -> None:
    """Do the jobs of stdin one by one."""
    warnings.simplefilter("ignore")
    given = json.load(sys.stdin.buffer)
    texts = given["texts"]
    sys.stdout.write('"ready"\n')
    sys.stdout.flush()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        for job in given["jobs"]:
            faulthandler.dump_traceback_later(job["limit_seconds"], exit=True, file=nowhere)
            try:
                found = answer(
                    job["pattern"],
                    [texts[number] for number in job["texts"]],
                    wants_spans=given["spans"],
                )
            except Exception:  # noqa: BLE001 - whatever a pattern does, it is not to be used
                found = None
            faulthandler.cancel_dump_traceback_later()
            sys.stdout.write(f"{json.dumps(found)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
