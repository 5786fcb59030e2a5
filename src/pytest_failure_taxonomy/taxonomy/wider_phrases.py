"""How compilers, test runners and others word a failure, beyond the promised phrases.

docs/explanation/failure-types.md says what this adds, measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.taxonomy.recovery import FailureType

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.diagnostics import Pattern

_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED
_CONTEXT: Final = FailureType.CONTEXT_EXHAUSTED

WIDER_PHRASES: Final[tuple[tuple[FailureType, tuple[Pattern, ...]], ...]] = (
    (
        _BUILD,
        (
            ("no module named ", ""),
            ("cannot import name ", ""),
            ("undefined reference to ", ""),
            ("ld: cannot find ", ""),
            ("ld: symbol", ""),
            ("ld returned ", ""),
            ("linker command failed", ""),
            ("multiple definition of ", ""),
            ("make", r"make(?:\[\d{1,9}\])?: \*\*\* (?!\[)"),
            (": *** ", r"^[^\s:]{1,300}:\d{1,9}: \*\*\* "),
            ("go: ", r"^go: (?:go\.mod|[^\s:]{1,300}: (?:invalid version|reading|module))"),
            ("no required module provides package", ""),
            (" is not in ", r" is not in (?:std|goroot)\b"),
            ("import cycle not allowed", ""),
            ("could not compile", ""),
            ("could not resolve ", r"could not resolve (?:dependenc|all files|\")"),
            ("compilation ", r"compilation (?:failed|failure|aborted|terminated)"),
            ("cannot find symbol", ""),
            ("could not find or load main class", ""),
            ("classnotfoundexception", ""),
            ("noclassdeffounderror", ""),
            ("failed to resolve import", ""),
            ("failed to compile", ""),
            ("module build failed", ""),
            ("does not provide an export named", ""),
            ("cannot use import statement outside", ""),
            ("err_", r"err_(?:module_not_found|require_(?:esm|async_module)|ambiguous_module)"),
            ("err_unknown_", r"err_unknown_(?:builtin_module|file_extension)\b"),
            ("err_unsupported_", r"err_unsupported_(?:dir_import|esm_url_scheme)\b"),
            ("err_package_", r"err_package_(?:path_not_exported|import_not_defined)\b"),
            ("err_invalid_", r"err_invalid_(?:package_(?:config|target)|module_specifier)\b"),
            (" is not defined in es module", ""),
            ("error compiling ", ""),
            ("unsupportedclassversionerror", ""),
            ("err_pnpm_", r"err_pnpm_(?:no_matching|fetch_404|outdated)"),
            ("cannot load such file", ""),
            (" in @inc", r"can't locate [^\n]{1,300} in @inc"),
            ("could not find a version that satisfies", ""),
            ("no matching distribution found", ""),
            ("resolutionimpossible", ""),
            ("version solving failed", ""),
            ("no solution found when resolving", ""),
            ("failed building wheel", ""),
            ("couldn't find package", ""),
            ("unable to access jarfile", ""),
            ("error: file not found: ", ""),
            ("release version ", r"^error: release version "),
            ("can't open file", ""),
            ("(compileerror)", ""),
            ("** build failed", ""),
            ("tomldecodeerror: ", r"\A[\s\S]*?/pip/_internal/"),
            ("metadata-generation-failed", ""),
            ("subprocess-exited-with-error", ""),
            ("could not build wheels", ""),
            ("does not appear to be a python project", ""),
            (" requires a different python", ""),
            ("missing go.sum entry", ""),
            ("updates to go.mod needed", ""),
            ("build constraints exclude all go files", ""),
            ("no go files in ", ""),
            (" is undeclared in the main package", ""),
            ("found packages ", r"found packages \w{1,99} \("),
            ("cannot find package ", ""),
            ("failed to load url ", ""),
            ("failed to load config from ", ""),
            ("failed to resolve ", r"failed to resolve (?:import|entry|module) "),
            ("err_import_", r"err_import_(?:assertion|attribute)_"),
            ("unresolved reference", r"unresolved reference[: ]"),
            ("could not find artifact ", ""),
            ("missing close-brace", ""),
            (" requires explicit package name", ""),
            ("begin failed--compilation aborted", ""),
            ("(loaderror)", ""),
            ("error: unresolved ", ""),
            ("library not found for -l", ""),
            ("no such file or ", r"fatal error: [^\n]{1,300}: no such file or directory"),
        ),
    ),
    (
        _CHECK,
        (
            ("::", r"^(?:failed|error) [^\s:]{1,300}::"),
            (" failed", r"^=*[^\n=]{0,20}\b\d{1,9} failed\b"),
            ("[xpass(strict)]", ""),
            ("error: ", r"^error: test"),
            ("fail", r"^fail[ \t:]"),
            (" failed", r"tests?(?: files| suites| cases)?:? +(?:\d{1,9} \| )?\d{1,9} failed\b"),
            ("result: fail", ""),
            ("failing tests:", ""),
            ("failures!", ""),
            ("coverage failure", ""),
            ("required test coverage", ""),
            (".py:", r"^[^\s:]{1,300}\.py:\d{1,9}:\d{1,9}: [a-z]\d{3,4}\b"),
            ("failures: ", r"failures: [1-9]"),
            ("<<< error!", ""),
            ("the following tests failed", ""),
            ("failed asserting that", ""),
            (" failed", r"snapshots? failed\b"),
            ("failed! ", r"^failed! "),
            ("found ", r"^found \d{1,9} errors?\b"),
            ("✖ ", r"✖ \d{1,9} problems?"),
            ("code style issues", ""),
            ("e ", r"^e +(?:[a-z_][\w.]{0,200})?(?:error|exception)\b"),
            (" offense detected", ""),
            (" offenses detected", r"[1-9]\d{0,8} offenses? detected"),
            (" shellcheck", r"shellcheck\.net/"),
            ("reformat: ", r"^would reformat: "),
            ("incorrectly sorted", ""),
            ("coverage threshold ", ""),
            (" warning", r"^[1-9]\d{0,8} errors?, 1 warning\b"),
            (" warnings", r"^[1-9]\d{0,8} errors?, \d{1,9} warnings?"),
            ("session ", r"session [\w().-]{1,99} failed"),
            ("computed checksum", ""),
            ("checkstyle violation", ""),
            (" md0", r"md0\d\d/[a-z]"),
            (" issue: [b", r">> issue: \[b\d{3}:"),
            ("would ", r"^would reformat\b|\bfiles? would be reformatted"),
        ),
    ),
    (
        _CONTEXT,
        (
            ("prompt is too long", ""),
            ("prompt too long", ""),
            ("input is too long", ""),
            ("conversation", r"conversation (?:is )?too long"),
            ("too many tokens", ""),
            ("too many input tokens", ""),
            (" exceed ", r"tokens?\b[^\n]{0,80}\bexceed "),
            (" exceeds ", r"tokens?\b[^\n]{0,80}\bexceeds "),
            (" exceeded ", r"tokens?\b[^\n]{0,80}\bexceeded "),
            (" exceed ", r"exceed [^\n]{0,80}\btokens\b"),
            (" exceeds ", r"exceeds [^\n]{0,80}\btokens\b"),
            (" exceeded ", r"exceeded [^\n]{0,80}\btokens\b"),
            ("max_new_tokens", r"`?max_new_tokens`? must be"),
            (" tokens", r"must have (?:less|fewer) than \d{1,9} tokens"),
            (
                "reduce the length of ",
                r"reduce the length of (?:the|your) (?:messages|prompt|input)",
            ),
            ("maximum sequence length", ""),
            ("maximum prompt length", ""),
        ),
    ),
    (
        _BUILD,
        (
            (
                "make",
                (
                    r"make(?:\[\d{1,9}\])?: \*{3} \[(?:[^\n\]]{0,300}: )?(?:[^\s\]]{1,300}\.(?:o|lo"
                    r"|obj|so|a|class|ko)|(?:re)?build|compile|all)\] error"
                ),
            ),
            ("ninja: build stopped", ""),
            ("> ", r"^> [^\n]{1,200} (?:pre)?(?:build|compile)$"),
            ("build failed", r"^build failed"),
        ),
    ),
)
"""Asked in this order where nothing promised decided; the texts are lower-case by then."""

OVERFLOWS: Final[tuple[Pattern, ...]] = (
    ("context_length_exceeded", ""),
    ("context_window_exceeded", ""),
    ("maximum context length is ", r"maximum context length is \d"),
    ("maximum prompt length is ", r"maximum prompt length is \d"),
    ("maximum context length of ", r"maximum context length of \d"),
    ("prompt is too long: ", r"prompt is too long: \d"),
    ("input token count ", r"input token count [^\n]{0,40}exceeds "),
    ("input is too long for requested model", ""),
    (" context limit: ", r"exceed context limit: \d"),
    ("exceeds the context window", ""),
    ("exceeds the available context size", ""),
    ("expected maxlength: ", r"expected maxlength: \d{1,12}, actual: \d"),
)
"""How the services of language models word that a window is full, with the figures.

They are asked before `expected` and `status code`, in which a client may wrap them.
"""
