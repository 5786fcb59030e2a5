"""Explain a failing line by its surroundings: a shadowed module, the locale.

Nothing of the user's runs: see `inspection`.
"""

from __future__ import annotations

import codecs
import locale
import os
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.hooks import inspection, tracebacks
from pytest_failure_taxonomy.hooks.owners import distribution_of, read_text
from pytest_failure_taxonomy.survive import own_files

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.origin import OriginFinder

_NO_PARENT: Final = "attempted relative import with no known parent package"
_RELATIVE: Final = r"from (\.+)([\w.]*) import (\w+)"
_NAMED_ENCODING: Final = r"(?i)\bascii\b|\b(?:en|de)code\("
_NOT_THERE: Final = r"cannot import name '(\w+)'"


def facts_around(
    error: BaseException, message: str, origins: OriginFinder
) -> dict[str, str]:
    """Return the facts about a module's file, or about the locale; empty if none.

    `shadow` is the file that the module `top` was imported from, and `shadowed` whose
    module of that name has what was asked for. `relative` is what was imported without
    a parent package. `locale_at` is a place that takes the encoding of the locale,
    which is ASCII.

    Args:
        error: has been raised.
        message: its text.
        origins: of the run.
    """
    kind = type(error)
    if issubclass(kind, UnicodeError):
        return _locale_of(error, origins)
    if message.startswith(_NO_PARENT):
        return _relative_import(error, origins)
    return _describe_asked_module(error, message, origins)


def _describe_asked_module(
    error: BaseException, message: str, origins: OriginFinder
) -> dict[str, str]:
    if issubclass(type(error), ImportError):
        module = inspection.field_of(error, ImportError, "name")
        absent = re.match(_NOT_THERE, message)
        name = ""
        if absent is not None:
            name = absent[1]
    else:
        holder = inspection.holder_of(error)
        if not issubclass(type(holder), ModuleType):
            return {}
        name = inspection.field_of(error, AttributeError, "name")
        module = tracebacks.module_name_in(inspection.own_names_of(holder))
    if type(module) is not str or type(name) is not str:
        return {}
    return _shadow_of(module, name, origins)


def _relative_import(error: BaseException, origins: OriginFinder) -> dict[str, str]:
    place, _ = origins.find(error)
    if place is None:
        return {}
    statement = re.match(_RELATIVE, place.text)
    if statement is None:
        return {}
    dots, module, name = statement.groups()
    facts = {"relative": f"{dots}{module or name}"}
    folder = os.path.dirname(f"{origins.roots[0]}{place.path}")
    if not os.path.isfile(f"{folder}/__init__.py"):
        facts["no_package"] = "."
    return facts


def _shadow_of(module: str, name: str, origins: OriginFinder) -> dict[str, str]:
    """Return the facts about a module that stands before another one that has a name.

    Args:
        module: dotted name, of a package's module perhaps.
        name: what it has not; empty where the module itself is missing.
        origins: of the run.
    """
    top = module.partition(".")[0]
    file = inspection.attribute_of(sys.modules.get(top), "__file__")
    if type(file) is not str:
        return {}
    path = module.replace(".", "/")
    word = ""
    if name:
        word = rf"\b{re.escape(name)}\b"
    for folder, owner in _folders_of_modules(str(origins.rootdir)).items():
        expected = os.path.realpath(f"{folder}/{top}")
        if os.path.realpath(file).startswith(expected):
            continue
        for source in (f"{folder}/{path}.py", f"{folder}/{path}/__init__.py"):
            if not os.path.isfile(source):
                continue
            if word and not re.search(word, read_text(source)):
                continue
            distribution = None if owner else distribution_of(source)
            shadow = own_files.location(file, None, origins.rootdir)
            return {
                "top": top,
                "shadow": shadow.path,
                "shadowed": distribution.words if distribution else owner or source,
            }
    return {}


def _folders_of_modules(root: str) -> dict[str, str]:
    """Return the folders where modules may be expected, and whose they are."""
    return dict.fromkeys(sys.path, "") | {
        root: "the project",
        f"{root}/src": "the project",
        own_files.STANDARD_LIBRARY.rstrip(os.sep): "Python's library",
    }


def _locale_of(error: BaseException, origins: OriginFinder) -> dict[str, str]:
    """Return the place that takes the encoding of the locale, where that is ASCII.

    A line that asks for ASCII itself is known by its words alone.
    """
    place, frame = origins.find(error)
    if place is None or frame is None or _locale_encoding() != "ascii":
        return {}
    is_explicit = re.search(_NAMED_ENCODING, place.text)
    if is_explicit:
        return {}
    return {"locale_at": f"{frame.path}:{frame.line}"}


def _locale_encoding() -> str:
    """Return the encoding that files are opened in, in Python's mode of UTF-8 that."""
    return codecs.lookup(locale.getpreferredencoding(do_setlocale=False)).name
