"""Open the page of 10,000 tests with 2,000 failures in Chromium, filter it, and print the times.

`python -m tests.benchmarks.pages [TIMES]`; it should open in a second and be
filtered in a tenth of one. Chromium and its driver have to be installed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from pytest_failure_taxonomy.faces.html import render
from pytest_failure_taxonomy.report.load import decode_report
from tests.helpers.chromium import started_browser
from tests.helpers.page_scenes import many

TIMES: Final = 10
_OPENED: Final = (
    "const t = performance.getEntriesByType('navigation')[0];"
    "return t.domContentLoadedEventEnd - t.startTime"
)
_FILTER: Final = """
const q = document.getElementById("q");
const began = performance.now();
q.value = "search 20";
q.dispatchEvent(new Event("input"));
document.body.getBoundingClientRect();
return performance.now() - began;
"""


def measure(path: Path, times: int) -> tuple[list[float], list[float]]:
    """Return how long opening and filtering a page took each time, in milliseconds."""
    opening, filtering = [], []
    with started_browser() as browser:
        browser.use_size(1280, 900)
        browser.open(path, "")
        for _ in range(times):
            browser.driver.refresh()
            opening.append(float(browser.run(_OPENED)))
            filtering.append(float(browser.run(_FILTER)))
            browser.run("document.getElementById('clear').click()")
    return opening, filtering


def main() -> None:
    """Measure, and print the medians and the extremes."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(render(decode_report(many())), "utf-8")
        print(f"{path.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - the answer
        for name, found in zip(("opens", "filters"), measure(path, times), strict=True):
            print(  # noqa: T201 - the answer
                f"{name} in {median(found):.0f} ms, {min(found):.0f} to {max(found):.0f}"
            )


if __name__ == "__main__":
    main()
