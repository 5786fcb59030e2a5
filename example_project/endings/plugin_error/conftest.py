"""Ending plugin.error: every test passes, and then another plugin raises at the end."""

import pytest


class ResultUploader:
    """A plugin that sends the result of the run to a dashboard."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Upload the result, to a dashboard that does not answer."""
        raise ConnectionError(f"dashboard: upload of {session.testscollected} results refused")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin as an installed one would register itself."""
    config.pluginmanager.register(ResultUploader(), "result-uploader")
