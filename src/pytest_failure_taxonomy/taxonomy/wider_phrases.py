"""How compilers, test runners and others word a failure, beyond the promised phrases.

docs/explanation/failure-types.md says what this adds, measured.
"""

from __future__ import annotations

from typing import Final

from pytest_failure_taxonomy.taxonomy.failure_types import FailureType

_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED
_CONTEXT: Final = FailureType.CONTEXT_EXHAUSTED

_SOURCE: Final = (
    r"(?:c|cc|cpp|cxx|h|hh|hpp|m|mm|cu|s|S|f90|swift|zig|rs|java|kt|kts|scala|d|vala|v|sv|pas|hs)"
)
_PATH: Final = r"^(?:\w:)?[^\s:'\"][^\n:]{0,300}"

Pattern = tuple[str, str]
"""What a text must contain, and the regular expression that is then looked for.

An empty expression means that the words alone will do. The words are there for speed: looking for
them is a hundred times as fast.
"""

STEMS: Final = (
    "fail",
    " error",
    "could not ",
    "cannot ",
    "compil",
    " token",
    " module",
    "no ",
    "test",
    "exceed",
    "npm ",
    "ld: ",
    "go: ",
)
"""Parts that many phrases share; those that have one are not looked for in a text without it."""

DIAGNOSTICS: Final[tuple[Pattern, ...]] = (
    (" error", _PATH + rf"\.{_SOURCE}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:fatal )?error\b"),
    (".go:", _PATH + r"\.go:\d{1,9}:\d{1,9}: "),
    (".go:", r"^\./[^\s:]{1,300}\.go:\d{1,9}: "),
    ("e: ", r"^e: [^\n]{0,300}\.kts?:\d"),
    ("--> ", r"^error(?:\[E\d{4}\])?: [^\n]{0,500}\n {0,9}--> "),
    ("error: ", r"^error: (?:could not compile|couldn't read|could not find `Cargo|aborting due)"),
    ("error: ", r"^error: (?:can't|cannot|couldn't) find "),
    (
        "error: ",
        r"^error: (?:failed to (?:parse|load|select|get)|linking with|a bin target|the package) ",
    ),
    ("error: ", r"^(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|cc1|cc1plus): (?:fatal )?error: "),
    (": Error: ", r"^[^\s:]{1,300}\.[sS]:\d{1,9}: Error: "),
    ("ninja: ", r"^ninja: (?:fatal|error): "),
    ("error ", r"\berror (?:TS|CS|FS|BC|MSB|LNK|C)\d{3,5}: "),
    ("[ERROR] ", r"^\[ERROR\] [^\n]{0,300}\.(?:java|kt|scala):\[\d{1,9},\d{1,9}\] "),
    ("CMake Error", r"^CMake Error"),
    (
        "npm ",
        r"^npm (?:error|ERR!) (?:code (?:EJSONPARSE|EUSAGE|ERESOLVE|E404|ETARGET)|Missing scr)",
    ),
    ("invalid-syntax: ", r"^(?:[^\s:]{1,300}:\d{1,9}:\d{1,9}: )?invalid-syntax: "),
    ("[syntax]", _PATH + r"\.pyi?:\d{1,9}: error: [^\n]{0,500}\[syntax\]$"),
    ("syntax error", r"^[^\s:]{1,300}: (?:line )?\d{1,9}: syntax error"),
    ("unexpected EOF", r"^[^\s:]{1,300}: (?:line )?\d{1,9}: unexpected EOF"),
    ("(SyntaxError)", r"\(SyntaxError\)$"),
)
"""How compilers head the line of an error: place and severity, where Python prints the type.

They count as a type at the head of a line does, or `expected ';'` would be a failed check.
"""

TALLIES: Final[tuple[Pattern, ...]] = (
    ("failureType: 'testCodeFailure'", ""),
    ("not ok ", r"^ *not ok \d"),
    (" fail ", r"^(?:# |\u2139 )fail [1-9]"),
    ("failing", r"^ *(?:\d{1,9} failing|✖ failing tests:)"),
    ("--- FAIL: ", ""),
    ("FAILED (", r"^FAILED \((?:failures|errors)=\d"),
    ("test result: FAILED", ""),
    ("Tests: ", r"^Tests: +\d{1,9} failed\b"),
    ("<<< FAILURE!", ""),
    ("[  FAILED  ]", ""),
)
"""How test runners count failed tests. They say as much as a type, and come before `context`.

The stacks of many runners have that word in the name of a class.
"""

WIDER_PHRASES: Final[tuple[tuple[FailureType, tuple[Pattern, ...]], ...]] = (
    (
        _BUILD,
        (
            ("importerror while ", r"^importerror while (?:loading conftest|importing)"),
            ("_ error collecting ", ""),
            ("error ", r"^error [^\s:]{1,300}\.py(?: - |$)"),
            (" during collection", r"\d errors? during collection"),
            ("no module named ", ""),
            ("cannot import name ", ""),
            ("undefined reference to ", ""),
            ("ld: cannot find ", ""),
            ("ld: symbol", ""),
            ("ld returned ", ""),
            ("linker command failed", ""),
            ("multiple definition of ", ""),
            ("make", r"^g?make(?:\[\d{1,9}\])?: \*\*\* (?!\[)"),
            (": *** ", r"^[^\s:]{1,300}:\d{1,9}: \*\*\* "),
            ("go: ", r"^go: (?:go\.mod|[^\s:]{1,300}: (?:invalid version|reading|module))"),
            ("no required module provides package", ""),
            (" is not in ", r" is not in (?:std|goroot)\b"),
            ("import cycle not allowed", ""),
            ("[build failed]", ""),
            ("[setup failed]", ""),
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
            ("test suite failed to run", ""),
            ("does not provide an export named", ""),
            ("cannot use import statement outside", ""),
            ("err_", r"\berr_(?:module_not_found|require_(?:esm|async_module)|ambiguous_module)"),
            ("err_unknown_", r"\berr_unknown_(?:builtin_module|file_extension)\b"),
            ("err_unsupported_", r"\berr_unsupported_(?:dir_import|esm_url_scheme)\b"),
            ("err_package_", r"\berr_package_(?:path_not_exported|import_not_defined)\b"),
            ("err_invalid_", r"\berr_invalid_(?:package_(?:config|target)|module_specifier)\b"),
            (" is not defined in es module", ""),
            ("error compiling ", ""),
            ("unsupportedclassversionerror", ""),
            ("err_pnpm_", r"\berr_pnpm_(?:no_matching|fetch_404|outdated)"),
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
            ("no matching package ", r"^error: no matching package "),
        ),
    ),
    (
        _CHECK,
        (
            ("::", r"^(?:failed|error) [^\s:]{1,300}::"),
            (" failed", r"^=*[^\n=]{0,20}\b\d{1,9} failed\b"),
            ("[xpass(strict)]", ""),
            ("--- fail: ", ""),
            (": test", r"^(?:fail|error): test"),
            ("failed (", r"^failed \((?:failures|errors)=\d"),
            ("fail", r"^fail[ \t:]"),
            ("test result: failed", ""),
            (" failed", r"\btests?(?: files| suites| cases)?:? +(?:\d{1,9} \| )?\d{1,9} failed\b"),
            ("result: fail", ""),
            ("looks like you failed ", ""),
            ("failing tests:", ""),
            ("failures!", ""),
            ("coverage failure", ""),
            ("required test coverage", ""),
            (".py:", r"^[^\s:]{1,300}\.py:\d{1,9}:\d{1,9}: [a-z]\d{3,4}\b"),
            (" failing", r"^ *\d{1,9} failing\b"),
            (" fail ", r"^(?:# |\u2139 )fail [1-9]"),
            ("not ok ", r"^ *not ok \d"),
            ("failures: ", r"\bfailures: [1-9]"),
            ("<<< failure!", ""),
            ("<<< error!", ""),
            ("there are test failures", ""),
            ("there were failing tests", ""),
            ("[  failed  ]", ""),
            ("the following tests failed", ""),
            (" failure", r"\b\d{1,9} examples?, [1-9]\d{0,8} failure"),
            ("failed asserting that", ""),
            ("snapshot", r"snapshots? failed\b"),
            ("failed! ", r"^failed! "),
            ("***test failed***", ""),
            ("found ", r"^found \d{1,9} errors?\b"),
            ("✖ ", r"✖ \d{1,9} problems?"),
            ("code style issues", ""),
            ("would ", r"^would reformat\b|\bfiles? would be reformatted"),
        ),
    ),
    (
        _CONTEXT,
        (
            ("prompt is too long", ""),
            (" exceed", r"\btokens?\b[^\n]{0,80}\bexceeds? "),
            (" exceed", r"\bexceeds? [^\n]{0,80}\btokens\b"),
            ("max_new_tokens", r"`?max_new_tokens`? must be"),
            ("maximum sequence length", ""),
        ),
    ),
    (
        _BUILD,
        (
            (
                "make",
                r"^g?make(?:\[\d{1,9}\])?: \*{3} \[[^\n]{0,300}: (?!(?:test|check)s?\b)[^\n]+\]",
            ),
            ("ninja: build stopped", ""),
            ("> ", r"^> [^\n]{1,200} (?:pre)?(?:build|compile)$"),
            ("build failed", r"^build failed"),
        ),
    ),
)
"""Asked in this order where nothing promised decided; the texts are lower-case by then."""
