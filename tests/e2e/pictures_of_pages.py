"""Take pictures of every sort of HTML page, for people to look at.

`python -m tests.e2e.pictures_of_pages FOLDER` needs Chromium. The pictures of the documentation are
those that `docs` as the folder writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pytest_failure_taxonomy.faces.html import render
from pytest_failure_taxonomy.report.load import decode_report
from tests.helpers.children import run_pytest
from tests.helpers.chromium import Browser, started_browser
from tests.helpers.page_scenes import SCENES
from tests.helpers.shop import write_shop

_VIEWS: Final = (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390))
_IN_DOCS: Final = (
    ("stall", "stall", "light", 1_000),
    ("one-failure", "one-failure", "dark", 1_080),
)
_DOCS: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_HIGHEST: Final = 3_000


def main(folder: Path) -> None:
    """Write a picture of each page in each view, and each page as it is printed."""
    folder.mkdir(parents=True, exist_ok=True)
    with started_browser() as browser:
        for name, make in SCENES.items():
            _take(browser, folder / name, make())


def take_for_docs() -> None:
    """Write the pictures of the documentation."""
    with started_browser() as browser, TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        reports = [
            (SCENES[scene](), name, scheme, height)
            for scene, name, scheme, height in _IN_DOCS
        ]
        reports.append((_report_of_the_readme(Path(folder)), "mixed", "light", 1_300))
        for report, name, scheme, height in reports:
            page.write_text(render(decode_report(report)), "utf-8")
            browser.use_scheme(scheme)
            browser.use_size(1_100, height)
            browser.open(page)
            (_DOCS / f"{name}.png").write_bytes(browser.picture())


def _report_of_the_readme(folder: Path) -> dict[str, Any]:
    """Run the project that the README shows, and return the report."""
    write_shop(folder)
    report = run_pytest(folder).report()
    report["run"]["invocation"] = {"args": [], "rootdir": "/home/user/shop"}
    return report


def _take(browser: Browser, path: Path, report: dict[str, Any]) -> None:
    page = path.with_suffix(".html").absolute()
    page.write_text(render(decode_report(report)), "utf-8")
    for scheme, width in _VIEWS:
        browser.use_scheme(scheme)
        browser.use_size(width, 900)
        browser.open(page)
        height = int(browser.run("return document.documentElement.scrollHeight"))
        browser.use_size(width, min(height, _HIGHEST))
        path.with_name(f"{path.name}-{scheme}-{width}.png").write_bytes(
            browser.picture()
        )
    browser.use_scheme("light")
    path.with_suffix(".pdf").write_bytes(browser.printed())


if __name__ == "__main__":
    if sys.argv[1] == "docs":
        take_for_docs()
    else:
        main(Path(sys.argv[1]))
