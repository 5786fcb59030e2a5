"""The options and settings of well-known plugins, by distribution.

`python -m tests.e2e.options_of_plugins` writes both tables anew from the newest wheels. Names that
a project is more likely to use itself are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "allure-pytest": (
            "--allure-epics",
            "--allure-features",
            "--allure-ids",
            "--allure-label",
            "--allure-link-pattern",
            "--allure-no-capture",
            "--allure-severities",
            "--allure-stories",
            "--alluredir",
            "--clean-alluredir",
        ),
        "hypothesis": (
            "--hypothesis-explain",
            "--hypothesis-profile",
            "--hypothesis-seed",
            "--hypothesis-show-statistics",
            "--hypothesis-verbosity",
        ),
        "inline-snapshot": ("--inline-snapshot",),
        "nbmake": (
            "--nbmake",
            "--nbmake-find-import-errors",
            "--nbmake-kernel",
            "--nbmake-timeout",
        ),
        "pytest-asyncio": (
            "--asyncio-debug",
            "--asyncio-mode",
        ),
        "pytest-base-url": (
            "--base-url",
            "--verify-base-url",
        ),
        "pytest-bdd": (
            "--cucumber-json",
            "--cucumberjson",
            "--feature",
            "--generate-missing",
            "--gherkin-terminal-reporter",
        ),
        "pytest-benchmark": (
            "--benchmark-autosave",
            "--benchmark-calibration-precision",
            "--benchmark-compare",
            "--benchmark-compare-fail",
            "--benchmark-confidence",
            "--benchmark-cprofile",
            "--benchmark-cprofile-dump",
            "--benchmark-cprofile-loops",
            "--benchmark-cprofile-top",
            "--benchmark-disable",
            "--benchmark-disable-gc",
            "--benchmark-enable",
            "--benchmark-json",
            "--benchmark-max-time",
            "--benchmark-min-rounds",
            "--benchmark-min-time",
            "--benchmark-only",
            "--benchmark-precision",
            "--benchmark-save",
            "--benchmark-save-data",
            "--benchmark-skip",
            "--benchmark-timer",
            "--benchmark-warmup",
            "--benchmark-warmup-iterations",
        ),
        "pytest-codspeed": (
            "--codspeed",
            "--codspeed-max-rounds",
            "--codspeed-max-time",
            "--codspeed-mode",
            "--codspeed-warmup-time",
        ),
        "pytest-cov": (
            "--cov",
            "--cov-append",
            "--cov-branch",
            "--cov-config",
            "--cov-context",
            "--cov-fail-under",
            "--cov-precision",
            "--cov-report",
            "--cov-reset",
            "--no-cov",
            "--no-cov-on-fail",
        ),
        "pytest-django": (
            "--create-db",
            "--dc",
            "--ds",
            "--fail-on-template-vars",
            "--liveserver",
            "--migrations",
            "--no-migrations",
            "--nomigrations",
            "--reuse-db",
        ),
        "pytest-dotenv": ("--envfile",),
        "pytest-env": (
            "--envfile",
            "--pytest-env-verbose",
        ),
        "pytest-flake8": ("--flake8",),
        "pytest-flask": (
            "--live-server-clean-stop",
            "--live-server-host",
            "--live-server-port",
            "--live-server-wait",
            "--no-live-server-clean-stop",
            "--no-start-live-server",
            "--start-live-server",
        ),
        "pytest-forked": ("--forked",),
        "pytest-html": (
            "--css",
            "--html",
            "--self-contained-html",
        ),
        "pytest-instafail": ("--instafail",),
        "pytest-json-report": (
            "--json-report",
            "--json-report-file",
            "--json-report-indent",
            "--json-report-omit",
            "--json-report-summary",
            "--json-report-verbosity",
        ),
        "pytest-memray": (
            "--fail-on-increase",
            "--hide-memray-summary",
            "--memray",
            "--memray-bin-path",
            "--memray-bin-prefix",
            "--most-allocations",
            "--trace-python-allocators",
        ),
        "pytest-metadata": (
            "--metadata",
            "--metadata-from-json",
            "--metadata-from-json-file",
        ),
        "pytest-monitor": (
            "--force-component",
            "--no-monitor",
            "--parametrization-explicit",
            "--remote-server",
        ),
        "pytest-mpl": (
            "--mpl",
            "--mpl-baseline-relative",
            "--mpl-generate-hash-library",
            "--mpl-generate-path",
        ),
        "pytest-mypy": (
            "--mypy",
            "--mypy-config-file",
            "--mypy-ignore-missing-imports",
            "--mypy-no-status-check",
            "--mypy-report-style",
            "--mypy-xfail",
        ),
        "pytest-order": (
            "--error-on-failed-ordering",
            "--fail-all-on-failed-ordering",
            "--indulgent-ordering",
            "--order-after-ff",
            "--order-dependencies",
            "--order-group-scope",
            "--order-marker-prefix",
            "--order-scope",
            "--order-scope-level",
            "--sparse-ordering",
        ),
        "pytest-parallel": (
            "--tests-per-worker",
            "--workers",
        ),
        "pytest-picked": (
            "--parent-branch",
            "--picked",
        ),
        "pytest-playwright": (
            "--base-url",
            "--browser",
            "--full-page-screenshot",
            "--headed",
            "--playwright-debug",
            "--screenshot",
            "--slowmo",
            "--tracing",
            "--video",
        ),
        "pytest-postgresql": (
            "--postgresql-dbname",
            "--postgresql-drop-test-database",
            "--postgresql-exec",
            "--postgresql-host",
            "--postgresql-load",
            "--postgresql-load-autocommit",
            "--postgresql-maintenance-dbname",
            "--postgresql-options",
            "--postgresql-password",
            "--postgresql-port",
            "--postgresql-port-search-count",
            "--postgresql-postgres-options",
            "--postgresql-startparams",
            "--postgresql-unixsocketdir",
            "--postgresql-user",
        ),
        "pytest-profiling": (
            "--element-number",
            "--profile",
            "--profile-svg",
            "--pstats-dir",
            "--strip-dirs",
        ),
        "pytest-pylint": (
            "--no-pylint",
            "--pylint",
            "--pylint-error-types",
            "--pylint-ignore",
            "--pylint-ignore-patterns",
            "--pylint-jobs",
            "--pylint-output-file",
            "--pylint-rcfile",
        ),
        "pytest-qt": (
            "--no-qt-log",
            "--qt-log-format",
        ),
        "pytest-random-order": (
            "--random-order",
            "--random-order-bucket",
            "--random-order-seed",
        ),
        "pytest-randomly": (
            "--randomly-dont-reorganize",
            "--randomly-dont-reset-seed",
            "--randomly-seed",
        ),
        "pytest-recording": (
            "--allowed-hosts",
            "--block-network",
            "--disable-recording",
            "--record-mode",
        ),
        "pytest-regressions": (
            "--force-regen",
            "--regen-all",
            "--with-test-class-names",
        ),
        "pytest-repeat": (
            "--count",
            "--repeat-scope",
        ),
        "pytest-reportlog": (
            "--report-log",
            "--report-log-exclude-logs-on-passed-tests",
        ),
        "pytest-rerunfailures": (
            "--fail-on-flaky",
            "--force-reruns",
            "--max-suite-reruns",
            "--only-rerun",
            "--rerun-except",
            "--rerun-exclude-path",
            "--rerun-show-tracebacks",
            "--reruns",
            "--reruns-delay",
            "--reruns-delay-backoff-factor",
            "--reruns-mode",
        ),
        "pytest-retry": (
            "--cumulative-timing",
            "--retries",
            "--retry-delay",
            "--retry-outcome",
        ),
        "pytest-ruff": (
            "--ruff",
            "--ruff-config",
            "--ruff-format",
        ),
        "pytest-selenium": (
            "--capability",
            "--driver",
            "--driver-path",
            "--event-listener",
            "--selenium-host",
            "--selenium-port",
            "--sensitive-url",
        ),
        "pytest-shard": (
            "--num-shards",
            "--shard-id",
        ),
        "pytest-snapshot": (
            "--allow-snapshot-deletion",
            "--snapshot-update",
        ),
        "pytest-socket": (
            "--allow-hosts",
            "--allow-unix-socket",
            "--disable-socket",
            "--force-enable-socket",
        ),
        "pytest-split": (
            "--clean-durations",
            "--durations-path",
            "--group",
            "--splits",
            "--splitting-algorithm",
            "--store-durations",
        ),
        "pytest-sugar": (
            "--force-sugar",
            "--old-summary",
            "--sugar-no-trace",
            "--sugar-trace-dir",
        ),
        "pytest-testmon": (
            "--no-testmon",
            "--testmon",
            "--testmon-env",
            "--testmon-forceselect",
            "--testmon-nocollect",
            "--testmon-noselect",
            "--tmnet",
        ),
        "pytest-timeout": (
            "--session-timeout",
            "--timeout",
            "--timeout-disable-debugger-detection",
            "--timeout-method",
            "--timeout_method",
        ),
        "pytest-vcr": (
            "--disable-vcr",
            "--vcr-record",
            "--vcr-record-mode",
        ),
        "pytest-xdist": (
            "--dist",
            "--loadscope-reorder",
            "--looponfail",
            "--max-worker-restart",
            "--maxprocesses",
            "--maxschedchunk",
            "--no-loadscope-reorder",
            "--numprocesses",
            "--px",
            "--rsyncdir",
            "--rsyncignore",
            "--testrunuid",
            "--tx",
            "-n",
        ),
        "syrupy": (
            "--snapshot-declaration-order",
            "--snapshot-default-extension",
            "--snapshot-details",
            "--snapshot-diff-mode",
            "--snapshot-dirname",
            "--snapshot-disable-unused",
            "--snapshot-file-lock-timeout",
            "--snapshot-ignore-file-extensions",
            "--snapshot-no-cleanup",
            "--snapshot-no-colors",
            "--snapshot-patch-pycharm-diff",
            "--snapshot-update",
            "--snapshot-update-new-only",
            "--snapshot-warn-unused",
        ),
    }
)
"""Options of the command line by distribution; pytest takes no abbreviations of them."""

INI_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "pytest-asyncio": (
            "asyncio_debug",
            "asyncio_default_fixture_loop_scope",
            "asyncio_default_test_loop_scope",
            "asyncio_mode",
        ),
        "pytest-base-url": ("base_url",),
        "pytest-bdd": ("bdd_features_base_dir",),
        "pytest-django": (
            "DJANGO_CONFIGURATION",
            "DJANGO_SETTINGS_MODULE",
            "FAIL_INVALID_TEMPLATE_VARS",
            "django_debug_mode",
            "django_find_project",
        ),
        "pytest-dotenv": ("env_files",),
        "pytest-env": (
            "env",
            "env_files",
            "env_files_skip_if_set",
        ),
        "pytest-flake8": (
            "flake8-extensions",
            "flake8-ignore",
            "flake8-max-complexity",
            "flake8-max-doc-length",
            "flake8-max-line-length",
            "flake8-show-source",
            "flake8-statistics",
        ),
        "pytest-flask": ("live_server_scope",),
        "pytest-html": (
            "environment_table_redact_list",
            "generate_report_on_test",
            "initial_sort",
            "max_asset_filename_length",
            "render_collapsed",
        ),
        "pytest-memray": (
            "fail-on-increase",
            "hide_memray_summary",
            "memray",
            "most_allocations",
            "trace_python_allocators",
            "verbosity_memray",
        ),
        "pytest-mock": (
            "mock_traceback_monkeypatch",
            "mock_use_standalone_module",
        ),
        "pytest-parallel": ("tests_per_worker",),
        "pytest-playwright": ("base_url",),
        "pytest-postgresql": (
            "postgresql_dbname",
            "postgresql_exec",
            "postgresql_host",
            "postgresql_load",
            "postgresql_load_autocommit",
            "postgresql_maintenance_dbname",
            "postgresql_options",
            "postgresql_password",
            "postgresql_port",
            "postgresql_port_search_count",
            "postgresql_postgres_options",
            "postgresql_startparams",
            "postgresql_unixsocketdir",
            "postgresql_user",
        ),
        "pytest-qt": (
            "qt_api",
            "qt_default_raising",
            "qt_log_ignore",
            "qt_log_level_fail",
            "qt_no_exception_capture",
            "qt_qapp_name",
        ),
        "pytest-rerunfailures": (
            "only_rerun",
            "rerun_except",
            "reruns",
            "reruns_delay",
            "reruns_delay_backoff_factor",
        ),
        "pytest-retry": (
            "cumulative_timing",
            "retries",
            "retry_delay",
            "retry_outcome",
        ),
        "pytest-selenium": (
            "max_driver_init_attempts",
            "saucelabs_data_center",
            "saucelabs_job_auth",
            "selenium_capture_debug",
            "selenium_exclude_debug",
            "sensitive_url",
        ),
        "pytest-testmon": (
            "environment_expression",
            "testmon_ignore_dependencies",
            "tmnet_api_key",
            "tmnet_url",
        ),
        "pytest-timeout": (
            "session_timeout",
            "timeout",
            "timeout_disable_debugger_detection",
            "timeout_func_only",
            "timeout_method",
        ),
        "pytest-xdist": (
            "looponfailroots",
            "rsyncdirs",
            "rsyncignore",
        ),
    }
)
"""Settings by distribution."""

_EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {f"pytest-{extra}": extra for extra in ("asyncio", "timeout", "xdist")}
)
"""The distributions that extras of this package install, and the names of the extras."""
_REFUSED: Final = re.compile(r"unrecognized arguments: (?P<options>.+?)(?: \(from .+\))?$")
_UNKNOWN_SETTING: Final = re.compile(r"Unknown config option: (?P<name>[\w-]+)")
NOT_LOADED: Final = "is installed but not loaded"
"""What is said of a plugin that is there; installing it would not help."""
_SHORT: Final = re.compile(r"(-[a-zA-Z])(?!-).*")


def distributions_with_option(argument: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have an option.

    Args:
        argument: as it is typed, such as `--cov=src` or `-n4`.
    """
    short = _SHORT.fullmatch(argument)
    option = short[1] if short else argument.partition("=")[0]
    return tuple(sorted(name for name, options in OPTIONS.items() if option in options))


def distributions_with_setting(name: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have a setting of this name."""
    return tuple(sorted(each for each, names in INI_NAMES.items() if name in names))


def refused_options(said: str) -> tuple[str, ...]:
    """Return the options that pytest has refused, by its words; none if it says something else."""
    found = _REFUSED.match(said)
    words = found["options"].split() if found else ()
    return tuple(each for each in words if each.startswith("-"))


def hint_for(said: str) -> str:
    """Return which plugins have what pytest has refused, and how to install them.

    The hint is empty where nobody is known to have it, and where the reason is another.

    Args:
        said: pytest's words, and the place in brackets.
    """
    setting = _UNKNOWN_SETTING.match(said)
    if NOT_LOADED in said:
        return ""
    if setting:
        wanted = {distributions_with_setting(setting["name"]): None}
    else:
        wanted = dict.fromkeys(map(distributions_with_option, refused_options(said)))
    known = [each for each in wanted if each]
    if not known:
        return ""
    has = "has it" if len(known) == 1 else "have them"
    words = f"{' and '.join(' or '.join(each) for each in known)} {has}"
    if any(len(each) > 1 for each in known):
        return words
    return f"{words}: {install_command([each[0] for each in known])}"


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs distributions, by extras of this package where it can."""
    if all(name in _EXTRAS for name in names):
        extras = ",".join(_EXTRAS[name] for name in names)
        return f'pip install "pytest-failure-taxonomy[{extras}]"'
    return f"pip install {' '.join(names)}"
