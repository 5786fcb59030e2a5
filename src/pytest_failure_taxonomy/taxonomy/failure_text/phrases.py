"""The words by which tools say that something failed, as tables of patterns.

`PHRASES` are the published ones, all others are our own. docs/explanation/failure-types.md has
measurements of what ours add.
"""

from __future__ import annotations

from typing import Final

from pytest_failure_taxonomy.taxonomy.recovery import FailureType

_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED
_CONTEXT: Final = FailureType.CONTEXT_EXHAUSTED


class Patterns:
    """Patterns of one sort; a text is of that sort if one of them is in it.

    Attributes:
        words: what a text must contain, as it is.
        expressions: words, and the regular expression to search for in texts that contain them.
            They are compiled with `re.MULTILINE`. Only their first alternative may begin with `^`.
        in_lower_case: all of them are for a text in lower case.

    A text is searched only if the longest word of a pattern is in it as a whole word, preferably
    one that stands at neither end.
    """

    __slots__ = ("expressions", "in_lower_case", "words")

    def __init__(
        self,
        *,
        words: tuple[str, ...] = (),
        expressions: tuple[tuple[str, str], ...] = (),
        in_lower_case: bool = False,
    ) -> None:
        self.words: Final = words
        self.expressions: Final = expressions
        self.in_lower_case: Final = in_lower_case


PHRASES: Final[tuple[tuple[FailureType, tuple[str, ...]], ...]] = (
    (
        _BUILD,
        (
            "syntax error",
            "compilation error",
            "module not found",
            "import error",
            "cannot find module",
            "unexpected token",
            "indentation error",
            "parse error",
        ),
    ),
    (
        _CHECK,
        ("verification failed", "expected", "assertion", "test failed", "status code"),
    ),
    (_CONTEXT, ("context", "token limit", "maximum length")),
)
"""The published phrases, in lower case, by the type that they give; the first match decides."""

FALSE_FRIENDS: Final = (
    # The frames of stacks: names of functions, files and lines of source.
    r"^ *file \"[^\n]*\n(?: {4}[^\n]*(?:\n|\Z))*",
    r"^[ \t]+at [^\n]*",
    r"^ *#\d{1,5} [^\n]*",
    r"values to unpack \(expected [^\n)]{0,60}",
    r": expected (?:one|at least one|at most one|\d{1,9}) arguments?\b",
    r"did not find expected\b",
    r"parse errors: (?:bad|no) plan",
    r"pod syntax errors?",
    r"status code:? {0,2}(?:of )?(?:429|529)\b",
    r"context (?:deadline exceeded|cancell?ed)",
    r"(?:application|browser|test|ssl|null|security|execution|webgl|rendering|async)[ _]?context\b",
    r"\bcontext(?:lib|vars?|managers?|\.(?:go|py|js|ts|rs|java|c))\b",
    r"\bcontext (?:managers?|switch(?:es)?|menu|processors?)\b",
)
"""Wordings that contain a published phrase by chance; removed before the phrases are searched."""

_SOURCE: Final = (
    r"(?:c|cc|cpp|cxx|h|hh|hpp|m|mm|cu|s|S|f90|swift|zig|rs|java|kt|kts|scala|d|vala|v|sv|pas|hs"
    r"|dart|nim|adb|proto|groovy|erl|hrl|ya?cc|y|l|metal|glsl|hlsl|ino|inl|tcc|cs|vb|ml|mli)"
)

_PATH: Final = r"^(?:\w:)?[^\s:'\"][^\n:]{0,300}"

DIAGNOSTICS: Final = Patterns(
    words=(
        "[build failed]",
        "[setup failed]",
        "Undefined symbols for architecture ",
        "error while loading shared libraries: ",
        "symbol lookup error: ",
        "Non-parseable POM ",
        "Build did NOT complete successfully",
        "Failed opening required ",
    ),
    expressions=(
        (" error", rf"\.{_SOURCE}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:fatal |internal )?error\b"),
        (": Error: ", rf"\.{_SOURCE}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:Fatal )?Error: "),
        ("error: ", rf"^error: [^\s:]{{1,300}}\.{_SOURCE}:\d{{1,9}}:\d{{1,9}} "),
        ("syntax error", rf"\.{_SOURCE}:\d{{1,9}}:\d{{1,9}}: syntax error"),
        (
            "Error: ",
            (
                r"\.[fF](?:90|95|03|08|or)?:\d{1,9}:\d{1,9}:\n(?:[^\n]{0,300}\n){1,6}"
                r"(?:Fatal )?Error: "
            ),
        ),
        (
            "Error: ",
            r"^File \"[^\"\n]{1,300}\.mli?\", lines? [^\n]{1,60}:\n(?:[^\n]{0,300}\n){0,8}Error",
        ),
        (") Error: ", r"^[^\s(]{1,300}\.nims?\(\d{1,9}, \d{1,9}\) Error: "),
        ("-- [E", r"^(?:\[error\] )?-- (?:\[E\d{1,4}\] )?[\w ]{0,60}Error: "),
        (".go:", _PATH + r"\.go:\d{1,9}:\d{1,9}: "),
        (".go:", r"^\./[^\s:]{1,300}\.go:\d{1,9}: "),
        (".go:", r"^vet: [^\s:]{1,300}\.go:\d{1,9}:\d{1,9}: "),
        ("e: ", r"^e: [^\n]{0,300}\.kts?:(?:\d| \(\d)"),
        ("error[E", r"^ *error\[E\d{4}\]: "),
        ("--> ", r"^error: [^\n]{0,500}\n {0,9}--> "),
        (
            "error: ",
            r"^error: (?:could not compile|couldn't read|could not find `Cargo|aborting due)",
        ),
        (
            "error: ",
            (
                r"^error: (?:(?:can't|cannot|couldn't) find"
                r"|failed to (?:parse|load|select|get|run custom)"
                r"|linking with|a bin target|the package|package `[^`\n]{1,200}` cannot be built"
                r"|no matching package) "
            ),
        ),
        (
            "error: ",
            (
                r"^(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|cc1|cc1plus|collect2|ld(?:\.\w{1,9})?|lld-link|nvcc"
                r"|emcc|swiftc|rustc): (?:fatal )?error: "
            ),
        ),
        ("error: ", r"^error: (?:package|class|cannot access|module not found:|no such module) "),
        (": Error: ", r"^[^\s:]{1,300}\.[sS]:\d{1,9}: Error: "),
        ("undefined symbol: ", r"\b(?:ld|lld|mold|gold)\b[^\n]{0,60}undefined symbol: "),
        ("ninja: ", r"^ninja: (?:fatal|error): "),
        ("error", r"error:? (?:TS|CS|FS|BC|MSB|LNK|NETSDK|NU|C|AL|CA)\d{3,5}(?: \[ERROR\])?: "),
        ("[ERROR]", r"TS\d{3,5} \[ERROR\]: "),
        ("[ERROR] ", r"^[✘X] \[ERROR\] "),
        ("[ERROR] ", r"^\[ERROR\] [^\n]{0,300}\.(?:java|kt|scala):\[\d{1,9},\d{1,9}\] "),
        ("[error] ", r"^\[error\] [^\n]{0,300}\.(?:java|scala):\d{1,9}(?::\d{1,9})?: "),
        ("Non-resolvable ", r"Non-resolvable (?:parent|import) POM\b"),
        ("could not be resolved", r"\[ERROR\] [^\n]{0,400}dependencies could not be resolved"),
        (
            "Execution failed for task ",
            r"for task '[^'\n]{0,200}:(?:compile|kapt|ksp|link|assemble)\w*'",
        ),
        ("CMake Error", r"^CMake Error"),
        (": ERROR: ", r"^[^\s:]{0,300}meson\.build:\d{1,9}:\d{1,9}: ERROR: "),
        ("configure: error: ", r"^configure: error: "),
        (
            "npm ",
            r"^npm (?:error|ERR!) (?:code (?:EJSONPARSE|EUSAGE|ERESOLVE|E404|ETARGET)|Missing scr)",
        ),
        (
            "npm ",
            (
                r"^npm (?:error|ERR!) code (?:ENOTCACHED|ENOVERSIONS|EBADENGINE|EBADPLATFORM"
                r"|EINVALID\w{0,30}|EUNSUPPORTEDPROTOCOL|EOVERRIDE)"
            ),
        ),
        ("invalid-syntax: ", r"^(?:[^\s:]{1,300}:\d{1,9}:\d{1,9}: )?invalid-syntax: "),
        ("[syntax]", _PATH + r"\.pyi?:\d{1,9}:(?:\d{1,9}:)? error: [^\n]{0,500}\[syntax\]$"),
        ("E999 ", _PATH + r"\.pyi?:\d{1,9}:\d{1,9}: E999 "),
        ("syntax error", r"^[^\s:]{1,300}: (?:line )?\d{1,9}: syntax error"),
        ("Syntax error: ", r"^[^\s:]{1,300}: \d{1,9}: Syntax error: "),
        ("unexpected EOF", r"^[^\s:]{1,300}: (?:line )?\d{1,9}: unexpected EOF"),
        ("(SyntaxError)", r"\(SyntaxError\)$"),
        ("** (", r"^\*\* \((?:Syntax|TokenMissing|Compile|MismatchedDelimiter)Error\) "),
        (" near ", r"^(?:lua|luac|luajit)[\d.]{0,4}: [^\s:]{1,300}:\d{1,9}: [^\n]{1,300} near "),
        (
            " not found",
            (
                r"Fatal error: {1,2}(?:Uncaught Error: )?(?:Class|Interface|Trait) [^\n]{1,300}"
                r" not found"
            ),
        ),
        ("RollupError: ", r"^(?:\[!\] )?(?:\([^)\n]{1,60}\) )?RollupError: "),
    ),
)
"""How compilers, linkers and build tools begin the line of an error.

They come before the phrases, or `expected ';'` would be a failed check.
"""

REFUSALS: Final = Patterns(
    words=(
        "_ ERROR collecting ",
        "error during collection",
        "errors during collection",
        "Test suite failed to run",
        " occurred outside of examples",
        "unittest.loader._FailedTest",
    ),
    expressions=(
        ("ERROR ", r"^ERROR [^\s:]{1,300}\.py(?: - |\r?$)"),
        (" while ", r"^ImportError while (?:loading conftest|importing)"),
    ),
)
"""How test runners say that they could not load the tests."""

VERDICTS: Final = Patterns(
    words=(
        "--- FAIL: ",
        "test result: FAILED",
        "<<< FAILURE!",
        "[  FAILED  ]",
        "[doctest] Status: FAILURE!",
        "***Test Failed***",
        "There were failing tests",
        "There are test failures",
        "pod syntax error",
    ),
    expressions=(
        ("::", r"^(?:FAILED|ERROR) [^\s:]{1,300}\.py::"),
        (" failed", r"^=+ (?:[^\n=]{1,60}, )?\d{1,9} failed\b"),
        ("failed in ", r"^\d{1,9} failed(?:, \d{1,9} [a-z]{1,12}){0,6} in \d"),
        ("FAILED (", r"^FAILED \((?:failures|errors|unexpected successes)=\d"),
        ("FAIL\t", r"^FAIL\t[^\s]{1,300}\t\d"),
        (" failed out of ", r"[1-9]\d{0,8} tests? failed out of \d"),
        (" failure", r"\b\d{1,9} (?:examples?|specs?|tests?), 1 failure"),
        (" failures", r"\b\d{1,9} (?:examples?|specs?|tests?), [1-9]\d{0,8} failures"),
        (" failed", r"^ *Tests:? +(?:\d{1,9} [a-z]{1,12}(?:, | \| )){0,3}[1-9]\d{0,8} failed\b"),
        ("test cases: ", r"test cases: +\d{1,9} \|(?:[^\n]{0,60}\|)? +[1-9]\d{0,8} failed\b"),
        (" failures: ", r"Failures: [1-9]\d{0,8}\b"),
        ("Failures: ", r"Tests run: \d{1,9}, +Failures: (?:[1-9]|\d{1,9}, Errors: [1-9])"),
        ("trailing whitespace.", r"^[^\s:]{1,300}:\d{1,9}: trailing whitespace\."),
        ("conflict marker", r"^[^\s:]{1,300}:\d{1,9}: leftover conflict marker"),
    ),
)
"""How test runners report failed tests, in words that they don't use if tests fail to load.

They come before the phrases, so a failed test's message decides nothing:
`FAILED a.py::b - X: parse error`.
"""

TALLIES: Final = Patterns(
    words=(
        "failureType: 'testCodeFailure'",
        "Result: FAIL",
        "Looks like you failed ",
        "Looks like you planned ",
        " validation error for ",
        "Failed validating '",
        "Schema validation errors were encountered",
        "fails to validate",
        "Schemas validity error",
        " is not valid under any of the given schemas",
        "Falsifying example: ",
    ),
    expressions=(
        ("not ok ", r"^ *not ok \d"),
        (" fail ", r"^(?:# |\u2139 )fail [1-9]"),
        (" fail", r"^ *[1-9]\d{0,8} fail$"),
        ("failing", r"^ *(?:\d{1,9} failing|✖ failing tests:)"),
        ("Failed tests:", r"^Failed tests:"),
        ("Tests: ", r"^Tests: +\d{1,9} failed\b"),
        (" of ", r"[1-9]\d{0,8} (?:out )?of \d{1,9}(?: [a-z]{1,20})? (?:have )?failed\b"),
        (" FAILED)", r"Executed \d{1,9} of \d{1,9}[^\n]{0,40}\([1-9]\d{0,8} FAILED\)"),
        (" failed", r"scenarios? \([^)\n]{0,60}[1-9]\d{0,8} failed"),
        (" failed", r"\| [1-9]\d{0,8} failed\b"),
        ("Executed ", r"Executed \d{1,9} tests?, with [1-9]"),
        ("*** ", r"^\*\*\* [1-9]\d{0,8} failures? (?:is|are) detected in"),
        ("ValidationError: ", r"^(?:[\w.]{1,200}\.)?ValidationError: "),
        (" validation errors for ", r"\b\d{1,9} validation errors? for "),
        ("schemaPath: ", r"schemaPath: '"),
        (" broken.", r"^Contracts: \d{1,9} kept, [1-9]\d{0,8} broken\."),
        ("Diff in ", r"^Diff in [^\n]{1,300}(?:at line \d|:\d)"),
        (" issues", r"^[1-9]\d{0,8} issues?:$"),
    ),
)
"""How test runners count failed tests, and validators problems.

They come after the published phrases of a broken build, because these runners count files that
don't load as failed tests. They come before `expected` and `context`, because class names in their
stacks contain these words.
"""

OVERFLOWS: Final = Patterns(
    in_lower_case=True,
    words=(
        "context_length_exceeded",
        "context_window_exceeded",
        "input is too long for requested model",
        "exceeds the context window",
        "exceeds the available context size",
    ),
    expressions=(
        ("maximum context length is ", r"maximum context length is \d"),
        ("maximum prompt length is ", r"maximum prompt length is \d"),
        ("maximum context length of ", r"maximum context length of \d"),
        ("prompt is too long: ", r"prompt is too long: \d"),
        ("input token count ", r"input token count [^\n]{0,40}exceeds "),
        (" context limit: ", r"exceed context limit: \d"),
        ("expected maxlength: ", r"expected maxlength: \d{1,12}, actual: \d"),
    ),
)
"""How language model services say that the context window is full.

They come before `expected` and `status code`, which a client may put around them.
"""

RATE_LIMITS: Final = Patterns(
    in_lower_case=True,
    words=(
        "rate limit",
        "rate limits",
        "rate limiting",
        "rate_limit",
        "ratelimiterror",
        "ratelimitexception",
        "tokens per min",
        "too many requests",
        "resource_exhausted",
        "quota exceeded",
        "exceeded your current quota",
    ),
)
"""How language model services say that a client must wait; they count tokens there, too."""

CRASH_REPORTS: Final = Patterns(
    words=(
        "ERROR: AddressSanitizer: ",
        "ERROR: HWAddressSanitizer: ",
        "ERROR: LeakSanitizer: ",
        "WARNING: MemorySanitizer: ",
        "WARNING: ThreadSanitizer: ",
        "SIGSEGV",
        "Segmentation fault",
    ),
    expressions=(
        ("panic: ", r"^panic: runtime error: "),
        ("goroutine ", r"^fatal error: [^\n]{1,200}\n\ngoroutine "),
        ("yaml: ", r"\byaml: line \d{1,9}: "),
    ),
)
"""Crash reports that name no exception."""

_BUILDS_IN_OTHER_WORDS: Final = Patterns(
    in_lower_case=True,
    words=(
        "no module named ",
        "cannot import name ",
        "undefined reference to ",
        "ld: cannot find ",
        "ld: symbol",
        "ld returned ",
        "linker command failed",
        "multiple definition of ",
        "no required module provides package",
        "import cycle not allowed",
        "could not compile",
        "cannot find symbol",
        "could not find or load main class",
        "classnotfoundexception",
        "noclassdeffounderror",
        "failed to resolve import",
        "failed to compile",
        "module build failed",
        "does not provide an export named",
        "cannot use import statement outside",
        " is not defined in es module",
        "error compiling ",
        "unsupportedclassversionerror",
        "cannot load such file",
        "could not find a version that satisfies",
        "no matching distribution found",
        "resolutionimpossible",
        "version solving failed",
        "no solution found when resolving",
        "failed building wheel",
        "couldn't find package",
        "unable to access jarfile",
        "error: file not found: ",
        "can't open file",
        "(compileerror)",
        "** build failed",
        "metadata-generation-failed",
        "subprocess-exited-with-error",
        "could not build wheels",
        "does not appear to be a python project",
        " requires a different python",
        "missing go.sum entry",
        "updates to go.mod needed",
        "build constraints exclude all go files",
        "no go files in ",
        " is undeclared in the main package",
        "cannot find package ",
        "failed to load url ",
        "failed to load config from ",
        "could not find artifact ",
        "missing close-brace",
        " requires explicit package name",
        "begin failed--compilation aborted",
        "(loaderror)",
        "error: unresolved ",
        "library not found for -l",
    ),
    expressions=(
        ("make", r"make(?:\[\d{1,9}\])?: \*\*\* (?!\[)"),
        (": *** ", r"^[^\s:]{1,300}:\d{1,9}: \*\*\* "),
        ("go: ", r"^go: (?:go\.mod|[^\s:]{1,300}: (?:invalid version|reading|module))"),
        (" is not in ", r" is not in (?:std|goroot)\b"),
        ("could not resolve ", r"could not resolve (?:dependenc|all files|\")"),
        ("compilation ", r"compilation (?:failed|failure|aborted|terminated)"),
        ("err_", r"err_(?:module_not_found|require_(?:esm|async_module)|ambiguous_module)"),
        ("err_unknown_", r"err_unknown_(?:builtin_module|file_extension)\b"),
        ("err_unsupported_", r"err_unsupported_(?:dir_import|esm_url_scheme)\b"),
        ("err_package_", r"err_package_(?:path_not_exported|import_not_defined)\b"),
        ("err_invalid_", r"err_invalid_(?:package_(?:config|target)|module_specifier)\b"),
        ("err_pnpm_", r"err_pnpm_(?:no_matching|fetch_404|outdated)"),
        (" in @inc", r"can't locate [^\n]{1,300} in @inc"),
        ("release version ", r"^error: release version "),
        ("tomldecodeerror: ", r"\A[\s\S]*?/pip/_internal/"),
        ("found packages ", r"found packages \w{1,99} \("),
        ("failed to resolve ", r"failed to resolve (?:import|entry|module) "),
        ("err_import_", r"err_import_(?:assertion|attribute)_"),
        ("unresolved reference", r"unresolved reference[: ]"),
        ("no such file or ", r"fatal error: [^\n]{1,300}: no such file or directory"),
    ),
)
_CHECKS_IN_OTHER_WORDS: Final = Patterns(
    in_lower_case=True,
    words=(
        "[xpass(strict)]",
        "result: fail",
        "failing tests:",
        "failures!",
        "coverage failure",
        "required test coverage",
        "<<< error!",
        "the following tests failed",
        "failed asserting that",
        "code style issues",
        " offense detected",
        "incorrectly sorted",
        "coverage threshold ",
        "computed checksum",
        "checkstyle violation",
    ),
    expressions=(
        ("::", r"^(?:failed|error) [^\s:]{1,300}::"),
        (" failed", r"^=*[^\n=]{0,20}\b\d{1,9} failed\b"),
        ("error: ", r"^error: test"),
        ("fail", r"^fail[ \t:]"),
        (
            " failed",
            r"tests?(?: files| suites| cases)?:? +(?:\d{1,9} \| )?\d{1,9} failed\b",
        ),
        (".py:", r"^[^\s:]{1,300}\.py:\d{1,9}:\d{1,9}: [a-z]\d{3,4}\b"),
        ("failures: ", r"failures: [1-9]"),
        (" failed", r"snapshots? failed\b"),
        ("failed! ", r"^failed! "),
        ("found ", r"^found \d{1,9} errors?\b"),
        ("✖ ", r"✖ \d{1,9} problems?"),
        ("e ", r"^e +(?:[a-z_][\w.]{0,200})?(?:error|exception)\b"),
        (" offenses detected", r"[1-9]\d{0,8} offenses? detected"),
        (" shellcheck", r"shellcheck\.net/"),
        ("reformat: ", r"^would reformat: "),
        (" warning", r"^[1-9]\d{0,8} errors?, 1 warning\b"),
        (" warnings", r"^[1-9]\d{0,8} errors?, \d{1,9} warnings?"),
        ("session ", r"session [\w().-]{1,99} failed"),
        (" md0", r"md0\d\d/[a-z]"),
        (" issue: [b", r">> issue: \[b\d{3}:"),
        ("would ", r"^would reformat\b|\bfiles? would be reformatted"),
    ),
)
_OVERFLOWS_IN_OTHER_WORDS: Final = Patterns(
    in_lower_case=True,
    words=(
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "too many tokens",
        "too many input tokens",
        "maximum sequence length",
        "maximum prompt length",
    ),
    expressions=(
        ("conversation", r"conversation (?:is )?too long"),
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
    ),
)
_STOPPED_BUILDS: Final = Patterns(
    in_lower_case=True,
    words=("ninja: build stopped",),
    expressions=(
        (
            "make",
            (
                r"make(?:\[\d{1,9}\])?: \*{3} \[(?:[^\n\]]{0,300}: )?(?:[^\s\]]{1,300}\.(?:o|lo"
                r"|obj|so|a|class|ko)|(?:re)?build|compile|all)\] error"
            ),
        ),
        ("> ", r"^> [^\n]{1,200} (?:pre)?(?:build|compile)$"),
        ("build failed", r"^build failed"),
    ),
)
WIDER_PHRASES: Final = (
    (_BUILD, _BUILDS_IN_OTHER_WORDS),
    (_CHECK, _CHECKS_IN_OTHER_WORDS),
    (_CONTEXT, _OVERFLOWS_IN_OTHER_WORDS),
    (_BUILD, _STOPPED_BUILDS),
)
"""Our own phrases, asked in this order if nothing before them decided.

They are frozen: a phrase is added only if it improves precision or recall on texts that no rule was
written for.
"""
