"""Errors that end pytest outside of its session: bad options, broken conftests.

pytest says what is wrong. It does not say where that stands: an option in the `addopts`
of a configuration file three folders up looks as if it had been typed.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks import (
    exceptions,
    inspection,
    option_sources,
    origin,
)
from pytest_failure_taxonomy.hooks.session import SessionRecorder, exit_code_of
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.taxonomy.values import replace

_ABOUT_A_PLUGIN: Final = ("Error importing plugin", "Missing required plugin")
"""How the usage errors of pytest begin that name a missing plugin."""

_IMPORT_FAILURE_CODES: Final = {"ConftestImportFailure": 4, "PluginImportFailure": 3}
_REFUSED_OPTIONS: Final = "unrecognized arguments: "
_UNKNOWN_SETTING: Final = "Unknown config option: "
_MISSING_PLUGINS: Final = "Missing required plugins"
_NOT_FOUND: Final = "not found: "
_ADDED_OPTION: Final = re.compile(
    r"""addoption\(\s*(?:["']-\w["'],\s*)?["'](--[\w-]+)["']"""
)
_REGISTERED_TWICE: Final = (
    r"already registered[^\n]{0,60}: "
    r"(?P<file>[^=\n]{1,500})=<module '(?P<module>[\w.]+)'"
)
"""What pluggy says of a module that it has under another name."""


def record_startup_error(
    session: SessionRecorder, error: BaseException, config: pytest.Config
) -> ProcessExit:
    """Record an error that left pytest; return the exit status it leads to."""
    rootdir = config.rootpath
    kind = type(error)
    end = _exit_after(error)
    if issubclass(kind, (KeyboardInterrupt, pytest.exit.Exception)):
        session.pytest_keyboard_interrupt(pytest.ExceptionInfo.from_exception(error))
        return end
    if issubclass(kind, pytest.UsageError):
        is_of_plugin = exceptions.message_of(error).startswith(_ABOUT_A_PLUGIN)
        words = words_of_usage_error(error, config)
        session.record_error(
            "plugin" if is_of_plugin else "usage", error, message=words
        )
        return end
    raised = error
    loaded = ""
    if exceptions.is_import_failure(error):
        raised = exceptions.cause_of(error)
        conftest = inspection.attribute_of(error, "path")
        if conftest is None:
            loaded = f"{exceptions.message_of(error)}{_describe_distribution(raised)}"
    else:
        conftest = _find_failed_conftest(error)
    if conftest is not None:
        loaded = _shown_path(str(conftest), config)
    traceback, formatted = _short_traceback(raised)
    words = exceptions.words_of(raised, rootdir, loaded, formatted)
    conflict = words_of_conflict(_files_of_plugins(config), words)
    words = conflict or _explain_second_name(words, config) or words
    if end.code == 0:
        name = loaded
        if not name:
            place = origin.own_place_of(error, rootdir)
            name = place.path if place else "a plugin"
        when = " before any test ran" if session.status is None else ""
        words = words.removeprefix("SystemExit").removeprefix(": 0").strip()
        words = f"{name} ended pytest with status 0{when} {words}"
        source = "pytest" if session.status == 0 else "exception"
        end = replace(end, session_code=session.status, source=source)
    session.record_error(
        "plugin" if conftest is None else "conftest",
        error,
        message=words,
        formatted=formatted,
        traceback=traceback,
    )
    return end


def _shown_path(path: str, config: pytest.Config) -> str:
    return own_files.location(path, None, config.rootpath).path


def words_of_conflict(files: Mapping[str, str], message: str = "") -> str:
    """Say which option two plugins add, judged by their files; empty if none.

    Args:
        files: the names of the plugins by their paths, in the order in which they were
            loaded.
        message: the error, which names the option; empty if it was not seen.
    """
    added: dict[str, str] = {}
    for path, name in files.items():
        text = "".join(linecache.getlines(path))  # none of a file that can't be read
        for option in dict.fromkeys(_ADDED_OPTION.findall(text)):
            if option in added and option in (message or option):
                return f"{option} is added by {added[option]} and by {name}"
            added.setdefault(option, name)
    return ""


def _explain_second_name(message: str, config: pytest.Config) -> str:
    """Say which file names a conftest as a plugin; empty if that isn't wrong.

    pytest loads each conftest by itself, under its path. pluggy takes no module under
    two names.
    """
    twice = re.search(_REGISTERED_TWICE, message)
    if twice is None:
        return ""
    for name, plugin in config.pluginmanager.list_name_plugin():
        named = inspection.attribute_of(plugin, "pytest_plugins")
        names = named if type(named) in (list, tuple) else [named]
        if twice["module"] in names:
            file = _shown_path(name, config)
            conftest = _shown_path(twice["file"], config)
            return (
                f"{file} names {twice['module']} in pytest_plugins, "
                f"and pytest loads {conftest} by itself"
            )
    return ""


def _files_of_plugins(config: pytest.Config) -> dict[str, str]:
    """Return the names of plugins and conftest files by path, in loading order."""
    files = {}
    for name, plugin in config.pluginmanager.list_name_plugin():
        path = str(inspection.attribute_of(plugin, "__file__"))
        files[path] = exceptions.words_of_plugin(path) or _shown_path(name, config)
    return files


def _exit_after(error: BaseException) -> ProcessExit:
    """Return the exit status that pytest, or else Python, makes of an error."""
    kind = type(error)
    if issubclass(kind, KeyboardInterrupt):
        return ProcessExit(
            code=130,
            signal="SIGINT",
            source="exception",
        )
    if issubclass(kind, SystemExit):
        code = inspection.field_of(error, SystemExit, "code")
        if type(code) is not int:
            code = int(code is not None)
    elif issubclass(kind, pytest.UsageError):
        code = 4
    else:
        code = _IMPORT_FAILURE_CODES.get(inspection.name_of(kind), 1)
    return ProcessExit(code=exit_code_of(code), source="exception")


def _describe_distribution(error: BaseException) -> str:
    """Name the distribution of a plugin that could not be imported, if known."""
    for entry in inspection.entries_of(error):
        code = entry.tb_frame.f_code
        if code.co_name == "<module>":
            plugin = exceptions.words_of_plugin(code.co_filename)
            return f" of {plugin}" if plugin else ""
    return ""


def _find_failed_conftest(error: BaseException) -> str | None:
    """Return the conftest file that raised an exception which pytest does not catch.

    `sys.exit` and `pytest.skip` raise such exceptions. Those of a plugin that the
    conftest file names are the plugin's.
    """
    for entry in inspection.entries_of(error):
        code = entry.tb_frame.f_code
        if code.co_name == "import_plugin":
            break
        is_module = code.co_name == "<module>"
        if is_module and os.path.basename(code.co_filename) == "conftest.py":
            return code.co_filename
    return None


def _short_traceback(error: BaseException) -> tuple[str | None, str]:
    """Return pytest's traceback without its own frames, and the exception in it.

    Nothing has formatted the exception yet: its `__str__` is called here, once, and
    held.
    """
    try:
        excinfo = pytest.ExceptionInfo.from_exception(error)
        frames = excinfo.traceback.filter(
            lambda entry: own_files.is_of_the_user(str(entry.path))
        )
        if not frames:
            formatted = excinfo.exconly()
            return formatted, formatted
        excinfo.traceback = frames
        shown = excinfo.getrepr(style="short")
        return exceptions.shown_text(shown), exceptions.shown_exception(shown)
    except BaseException as failure:  # the message is enough
        if inspection.came_from_signal(failure):
            raise
        return None, ""


def words_of_usage_error(error: BaseException, config: pytest.Config) -> str:
    """Return what pytest refuses, with its place after the first line.

    Args:
        error: a `UsageError`; it has one argument for each thing that is wrong.
        config: of the run; pytest may not have completed it.
    """
    texts = []
    for argument in inspection.field_of(error, BaseException, "args"):
        if inspection.is_plain(argument):
            refusal = str(argument)
            synopsis, separator, rest = refusal.partition(": error: ")
            if separator and synopsis.startswith("usage:"):  # from argparse
                refusal = rest
            texts.append(_quote_as_typed(refusal.strip(), config))
    text = "; ".join(filter(None, texts))
    first, newline, rest = text.partition("\n")
    extended = first
    for addition in (
        _describe_source(error, first, config),
        _name_idle_plugin(first, config),
    ):
        if addition:
            extended += f" ({addition})"
    if extended == first:
        # It has a place if a hook of the user raised it.
        placed = exceptions.words_of(error, config.rootpath)
        own = placed.removeprefix("UsageError: ").partition("\n")[0]
        if own.startswith(first) and first:
            extended = own
    return f"{extended}{newline}{rest}"


def _quote_as_typed(text: str, config: pytest.Config) -> str:
    """Return the message about a missing argument, as typed and on one line.

    pytest makes the argument absolute, and lists in further lines where it looked.
    """
    if not text.startswith(_NOT_FOUND):
        return text
    wanted, *lines = text.removeprefix(_NOT_FOUND).splitlines()
    folder = config.invocation_params.dir
    for argument in map(str, config.invocation_params.args):
        path, colons, names = argument.partition("::")
        if path.startswith("-"):
            continue
        if f"{os.path.abspath(folder / path)}{colons}{names}" == wanted:
            wanted = argument
            break
    return " ".join([f"{_NOT_FOUND}{wanted}", *map(str.strip, lines)])


def _describe_source(error: BaseException, message: str, config: pytest.Config) -> str:
    """Return where the refused thing stands; an empty string if it was typed."""
    file = option_sources.file_of_settings(config)
    if file and message.startswith(_UNKNOWN_SETTING):
        return f"set in {file}"
    if file and message.startswith(_MISSING_PLUGINS):
        return f"required_plugins in {file}"
    for entry in inspection.entries_of(error):
        frame = entry.tb_frame
        if frame.f_code.co_name == "consider_conftest":
            module: Any = frame.f_locals.get("conftestmodule")
            conftest = inspection.attribute_of(module, "__file__")
            if type(conftest) is str:
                return f"pytest_plugins in {_shown_path(conftest, config)}"
            break
    if message.startswith(_REFUSED_OPTIONS):
        return _places_of_refused(message, config)
    return option_sources.place_quoted(config, message)


def _places_of_refused(message: str, config: pytest.Config) -> str:
    """Return the places of the options that pytest does not know, in pytest's order."""
    words = [word for word in message.split() if word.startswith("-")]
    refused = {word.partition("=")[0] for word in words}
    places = []
    for place, arguments in option_sources.arguments_by_place(config):
        options = {argument.partition("=")[0] for argument in arguments}
        if place and not refused.isdisjoint(options):
            places.append(place)
        refused -= options
    return " and ".join(places)


def _name_idle_plugin(message: str, config: pytest.Config) -> str:
    """Name the plugin with a refused option that is installed but wasn't loaded.

    It is blocked by `-p no:NAME`, or pytest was told to load no plugin by itself.
    """
    if not message.startswith(_REFUSED_OPTIONS):
        return ""
    from importlib.metadata import PackageNotFoundError, distribution

    from pytest_failure_taxonomy.taxonomy.recognition import (
        NOT_LOADED,
        distributions_with_option,
        refused_options,
    )

    is_loaded = config.pluginmanager.has_plugin
    for option in refused_options(message):
        for name in distributions_with_option(option):
            with suppress(PackageNotFoundError):
                installed = distribution(name)
                for entry_point in installed.entry_points:
                    if entry_point.group != "pytest11":
                        continue
                    if not is_loaded(entry_point.name):
                        return f"{name} {installed.version} {NOT_LOADED}"
    return ""
