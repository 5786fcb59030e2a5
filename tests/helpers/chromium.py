"""A real browser for the tests of pages: Debian's Chromium without a screen."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

NEEDED: Final = "FAILURE_TAXONOMY_TESTS_NEED_CHROMIUM"
"""An environment variable: without a browser the tests fail instead of being skipped."""
_OPTIONS: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
)
_PROGRAMS: Final = ("chromium", "chromedriver")


class Browser:
    """A browser with one page at a time."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, hash_: str = "") -> None:
        """Open a file, from the beginning."""
        self.driver.get("about:blank")
        self.driver.get(f"{path.as_uri()}{hash_}")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script, and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the elements that are seen."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter(e => e.checkVisibility()).map(e => e.innerText.trim())",
            selector,
        )
        return found

    def text(self, selector: str = "body") -> str:
        """Return the text of the first element."""
        return str(
            self.run("return document.querySelector(arguments[0]).innerText", selector)
        )

    def complaints(self) -> list[str]:
        """Return what the console has said since this was last asked."""
        return [str(each["message"]) for each in self.driver.get_log("browser")]

    def use_scheme(self, scheme: str) -> None:
        """Prefer `light` or `dark` colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": features}
        )

    def use_size(self, width: int, height: int) -> None:
        """Use a window of so many pixels."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def picture(self) -> bytes:
        """Return a picture of the window, as PNG."""
        return base64.b64decode(self.driver.get_screenshot_as_base64())

    def printed(self) -> bytes:
        """Return the page as it is printed, as PDF."""
        return base64.b64decode(
            self.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
        )


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Start a browser; skip the test, or fail where that is asked, if there is none."""
    programs = [shutil.which(name) for name in _PROGRAMS]
    if None in programs:
        why = "Chromium is not installed (Debian: apt install chromium chromium-driver)"
        if os.environ.get(NEEDED):
            pytest.fail(why)
        pytest.skip(why)
    driver = _driver(str(programs[0]), str(programs[1]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def _driver(browser: str, program: str) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(program))
