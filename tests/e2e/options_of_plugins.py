"""Read the options of plugins from their wheels, and write the table of well-known options anew.

It needs the network:

    python -m tests.e2e.options_of_plugins [--wheels FOLDER]

With the wheels in a folder nothing is downloaded. Nothing of a wheel is executed: options are the
texts that its modules pass to `addoption` and `addini`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy import taxonomy

LEFT_OUT: Final = frozenset(
    {
        *(
            "--browser-channel",
            "--component-prefix",
            "--db",
            "--description",
            "--device",
        ),
        *(
            "--import-mode",
            "--inversion",
            "--mode",
            "--native",
            "--no-db",
            "--no-gc",
            "--output",
        ),
        *("--overwrite", "--restrict-scope-to", "--stacks", "--tag", "-d", "-f"),
        *("env_override_existing_values", "native", "stacks", "workers"),
    }
)
"""Names that a project is more likely to use itself, and what is an option of pytest itself."""

_OPTION: Final = re.compile(r"-n|--[a-z][\w-]+")
_INI_NAME: Final = re.compile(r"[A-Za-z][\w-]+")
_BARE: Final = re.compile(r"[\w-]+")
_WIDTH: Final = 120
"""Characters of a list on one line."""
_SUM: Final = ("addoption", "_addoption", "addini")


def names_in_wheel(wheel: Path) -> tuple[set[str], set[str]]:
    """Return the options and the names of ini settings that the modules of a wheel add."""
    options: set[str] = set()
    settings: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                for function, text in _texts_passed(archive.read(name)):
                    if function == "addini":
                        settings.update(
                            _INI_NAME.findall(text) if " " not in text else ()
                        )
                    elif _OPTION.fullmatch(text):
                        options.add(text)
    return options - LEFT_OUT, settings - LEFT_OUT


def _texts_passed(source: bytes) -> Iterator[tuple[str, str]]:
    """Yield the function's name with each option, and with the first text of `addini`."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    constants = dict(_constants(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        function = (
            called.attr
            if isinstance(called, ast.Attribute)
            else getattr(called, "id", "")
        )
        if function in _SUM:
            arguments = [
                each for each in node.args if not isinstance(each, ast.Starred)
            ]
            arguments += [each.value for each in node.keywords if each.arg == "name"]
            for argument in arguments[:1] if function == "addini" else arguments:
                text = _text_of(argument, constants)
                if text is not None:
                    yield function, text


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    yield target.id, node.value.value


def _text_of(node: ast.expr, constants: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else None  # type: ignore[attr-defined]  # a Constant


def download(names: list[str], folder: Path) -> None:
    """Download the newest wheel of each distribution; what has none is left as the table has it."""
    for name in names:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run(
            [*command, "--only-binary", ":all:", "-d", folder, name], check=False
        )


def table(plugins: Mapping[str, Mapping[str, Iterable[str]]]) -> Iterator[str]:
    """Yield the lines of the table."""
    for name, added in sorted(plugins.items()):
        yield f"\n[{name}]" if _BARE.fullmatch(name) else f"\n[{json.dumps(name)}]"
        for sort in ("options", "settings", "fixtures", "marks"):
            names = sorted(added.get(sort, ()))
            line = f"{sort} = {json.dumps(names)}"
            if len(line) <= _WIDTH:
                yield from [line] if names else []
            else:
                yield from (
                    f"{sort} = [",
                    *(f"    {json.dumps(each)}," for each in names),
                    "]",
                )


def main() -> None:
    """Write the table anew, and say what has changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path)
    given = parser.parse_args()
    file = Path(taxonomy.__file__).parent / "data" / "plugins.toml"
    text = file.read_text("utf-8")
    plugins: dict[str, dict[str, Iterable[str]]] = tomllib.loads(text)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.wheels or Path(temporary)
        if given.wheels is None:
            read = [
                name
                for name, added in plugins.items()
                if {*added} - {"fixtures", "marks"}
            ]
            download(sorted(read), folder)
        for wheel in sorted(folder.glob("*.whl")):
            name = wheel.name.partition("-")[0].replace("_", "-").lower()
            options, settings = names_in_wheel(wheel)
            plugins.setdefault(name, {}).update(options=options, settings=settings)
    head = text.partition("\n\n")[0]
    file.write_text("\n".join([head, *table(plugins), ""]), "utf-8")
    subprocess.run(["git", "diff", "--stat", file], check=False)


if __name__ == "__main__":
    main()
