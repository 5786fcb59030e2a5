"""Print how long a search for secrets takes, of ordinary texts and of the worst that were found.

    python -m tests.benchmarks.redaction [--units 2000] [--size 100000] [--seed 1]

Each unit of 1 to 40 characters is repeated up to the size. Units are made of the search's own
literals, by chance and by changing those that took longest. Figures are CPU seconds for a million
characters; an environment with other work makes them larger.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.redaction.redactor import Redactor
from tests.helpers.adversarial_texts import LONGEST, literals, units

ENVIRONMENT: Final = {"API_KEY": "a1B2c3D4/e5f6", "DB_PASSWORD": "hunter2 'x\u00e9"}
_SHOWN: Final = 10
_KEPT: Final = 50


def seconds_of(text: str) -> float:
    """Return the CPU seconds of a search for a million characters."""
    redactor = Redactor(environment=ENVIRONMENT)
    redactor.redact("")  # the environment is read once in a run
    began = time.process_time()
    redactor.redact(text)
    return (time.process_time() - began) / len(text) * 1e6


def worst_units(number: int, size: int, seed: int) -> list[tuple[float, str]]:
    """Return the units that took longest, the worst first."""
    draw = random.Random(seed)  # noqa: S311  the same ones each time, no secrets
    words = literals()
    worst: list[tuple[float, str]] = []
    for count, unit in enumerate(units(number, seed)):
        changed = unit
        if worst and count % 2:
            other = draw.choice(worst)[1]
            place = draw.randint(0, len(other))
            changed = (other[:place] + draw.choice(words) + other[place:])[:LONGEST]
        text = (changed * (size // len(changed) + 1))[:size]
        worst.append((min(seconds_of(text), seconds_of(text)), changed))
        worst = sorted(worst, reverse=True)[:_KEPT]
    return worst


def ordinary_texts() -> Iterator[str]:
    """Yield what pytest printed, and source code."""
    root = Path(__file__).parents[1]
    for path in sorted((root / "data" / "failure_texts").rglob("*")):
        if path.is_file():
            yield path.read_text("utf-8", "replace")
    for path in sorted((root.parent / "src").rglob("*.py")):
        yield path.read_text("utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=2_000)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seconds_of(
        "curl -u a:b password=abc --token x 'a',"
    )  # expressions are compiled once
    texts = list(ordinary_texts())
    size = sum(map(len, texts))
    ordinary = sum(seconds_of(text) * len(text) for text in texts if text) / size
    sys.stdout.write(
        f"ordinary texts, {size:,} characters: {ordinary:.3f} s a million\n"
    )
    for seconds, unit in worst_units(options.units, options.size, options.seed)[
        :_SHOWN
    ]:
        sys.stdout.write(f"{seconds:.3f} s a million: {unit!r}\n")


if __name__ == "__main__":
    main()
