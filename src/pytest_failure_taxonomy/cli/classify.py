"""`failure-taxonomy classify`: say why a run failed of which there is only a log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.cli.options import add_exit_code, add_stage
from pytest_failure_taxonomy.cli.output import answer_json
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.logs.answer import classify_log
from pytest_failure_taxonomy.logs.log_lines import STDIN, open_argument
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.taxonomy.reasons import Stage, exit_code_from_returncode

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "classify",
        help="say from a log why a run failed",
        description="Read the log of a run without the plugin, and print as JSON why it failed, "
        "with the lines that decided. The output of pytest is understood; for any other command "
        "the stage and the exit code decide. Exit code: 0 for success, 1 if the run failed, 2 if "
        "the log can't be read or says nothing.",
        allow_abbrev=False,
    )
    add_stage(parser, "the step of an attempt that wrote the log", default=Stage.FINAL_TEST)
    add_exit_code(
        parser, "the exit code of the command, as a shell shows it ($?), or -N for signal N"
    )
    parser.add_argument(
        "log", nargs="?", default="-", metavar="FILE", help="the log; default: -, stdin"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print the answer."""
    code: int | None = options.exit_code
    if code is not None and not -64 <= code <= 255:
        raise SettingsError(f"--exit-code: {code} is no exit code; give 0 to 255, or -1 to -64")
    with open_argument(options.log) as chunks:
        found = classify_log(
            chunks,
            name="stdin" if options.log == STDIN else options.log,
            stage=Stage(options.stage),
            exit_code=None if code is None else exit_code_from_returncode(code),
            shown=Secrets().redact,
        )
    answer_json(found)
    return 0 if found["reason"] is None else 1
