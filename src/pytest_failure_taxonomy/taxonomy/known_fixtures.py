"""The fixtures of well-known plugins, by distribution."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FIXTURES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anyio": ("anyio_backend",),
        "faker": ("faker",),
        "pyfakefs": ("fs", "fs_module", "fs_session"),
        "pytest-aiohttp": ("aiohttp_client", "aiohttp_raw_server", "aiohttp_server"),
        "pytest-asyncio": ("event_loop_policy", "unused_tcp_port", "unused_udp_port"),
        "pytest-asyncio < 1": ("event_loop",),
        "pytest-base-url": ("base_url",),
        "pytest-benchmark": ("benchmark", "benchmark_weave"),
        "pytest-console-scripts": ("script_runner",),
        "pytest-cov": ("cov", "no_cover"),
        "pytest-datadir": ("datadir", "original_datadir", "shared_datadir"),
        "pytest-django": (
            "admin_client",
            "admin_user",
            "async_client",
            "client",
            "db",
            "django_assert_max_num_queries",
            "django_assert_num_queries",
            "django_capture_on_commit_callbacks",
            "django_db_blocker",
            "django_db_setup",
            "django_user_model",
            "live_server",
            "mailoutbox",
            "rf",
            "settings",
            "transactional_db",
        ),
        "pytest-docker": ("docker_ip", "docker_services"),
        "pytest-flask": ("client", "client_class", "live_server"),
        "pytest-freezer": ("freezer",),
        "pytest-httpserver": ("httpserver", "make_httpserver"),
        "pytest-httpx": ("httpx_mock",),
        "pytest-localserver": ("httpserver", "httpsserver", "smtpserver"),
        "pytest-mock": (
            "class_mocker",
            "mocker",
            "module_mocker",
            "package_mocker",
            "session_mocker",
        ),
        "pytest-playwright": (
            "browser",
            "browser_context_args",
            "browser_name",
            "context",
            "new_context",
            "page",
            "playwright",
        ),
        "pytest-postgresql": ("postgresql", "postgresql_noproc", "postgresql_proc"),
        "pytest-qt": ("qapp", "qtbot", "qtlog", "qtmodeltester"),
        "pytest-recording": ("vcr", "vcr_config"),
        "pytest-regressions": (
            "data_regression",
            "dataframe_regression",
            "file_regression",
            "image_regression",
            "num_regression",
        ),
        "pytest-snapshot": ("snapshot",),
        "pytest-socket": ("socket_disabled", "socket_enabled"),
        "pytest-subprocess": ("fake_process", "fp"),
        "pytest-trio": ("autojump_clock", "mock_clock", "nursery"),
        "pytest-xdist": ("testrun_uid", "worker_id"),
        "requests-mock": ("requests_mock",),
        "respx": ("respx_mock",),
        "syrupy": ("snapshot",),
        "time-machine": ("time_machine",),
    }
)
"""Fixtures by distribution, as `pytest --fixtures` lists them.

Without names that a project is more likely to use itself, and without distributions that are only
installed as dependencies.
"""


def distributions_with(fixture: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have a fixture of this name."""
    return tuple(sorted(name for name, fixtures in FIXTURES.items() if fixture in fixtures))
