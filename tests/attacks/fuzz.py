"""Fuzz a reader with atheris: python -m tests.attacks.fuzz TARGET --seconds N.

It learns by coverage which inputs lead on, which Hypothesis doesn't. What it finds stays in the
folder that it names; put the smallest input that shows a fault into the corpus, with its fix.
atheris is no dependency: install it by hand.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

NAMES: Final = (
    *("record", "report", "report_in_the_way", "rules", "marker", "log"),
    *("faces", "junit", "reportlog", "ctrf", "trials"),
)
"""Of the targets, which are not imported before they can be instrumented; a test compares."""


def main() -> None:
    """Fuzz one target until the time is up or a fault is found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.attacks.fuzz", description=__doc__
    )
    parser.add_argument("target", choices=NAMES)
    parser.add_argument(
        "--seconds", type=int, default=60, help="how long; default: %(default)s"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="0 for another one each time"
    )
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        parser.exit(
            2, "fuzz: atheris is not installed; python -m pip install atheris\n"
        )
    with atheris.instrument_imports(include=["pytest_failure_taxonomy"]):
        from tests.attacks.targets import MAX_INPUT_BYTES, TARGETS, corpus_of, folder_of
    from tests.attacks.mutations import mutate

    target = TARGETS[options.target]
    kept = list(corpus_of(options.target))
    found = Path(tempfile.mkdtemp(prefix=f"fuzz-{options.target}-"))
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-scratch-"))

    def spoil(data: bytes, max_size: int, number: int) -> bytes:
        chance = random.Random(number)  # noqa: S311 - attacks, no secrets
        if chance.random() < 0.5:
            return bytes(atheris.Mutate(data, max_size))
        return mutate(data, kept, chance)[:max_size]

    arguments = [
        sys.argv[0],
        f"-max_total_time={options.seconds}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-seed={options.seed}",
        f"-artifact_prefix={found}/",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        str(found),
        str(folder_of(options.target)),
    ]
    sys.stderr.write(f"fuzz: what is found stays in {found}\n")

    def read(data: bytes) -> None:
        target(data, scratch)

    setup: Any = atheris.Setup
    setup(arguments, read, custom_mutator=spoil)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
