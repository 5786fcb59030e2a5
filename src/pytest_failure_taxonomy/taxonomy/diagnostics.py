"""How compilers, linkers, build tools and test collectors head the line of an error.

Place and severity stand there, where Python prints the type, so these lines count as one.
"""

from __future__ import annotations

from typing import Final

Pattern = tuple[str, str]
"""What a text must contain, and the regular expression that is then looked for.

An empty expression means that the words alone will do. The words are there for speed: a text is
only searched where the longest of them is in it as a whole word, by preference one that does not
stand at an end. An expression that begins with `^` has no `|` outside of brackets.
"""

_SOURCE: Final = (
    r"(?:c|cc|cpp|cxx|h|hh|hpp|m|mm|cu|s|S|f90|swift|zig|rs|java|kt|kts|scala|d|vala|v|sv|pas|hs"
    r"|dart|nim|adb|proto|groovy|erl|hrl|ya?cc|y|l|metal|glsl|hlsl|ino|inl|tcc|cs|vb|ml|mli)"
)
_PATH: Final = r"^(?:\w:)?[^\s:'\"][^\n:]{0,300}"

DIAGNOSTICS: Final[tuple[Pattern, ...]] = (
    (" error", rf"\.{_SOURCE}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:fatal |internal )?error\b"),
    (": Error: ", rf"\.{_SOURCE}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:Fatal )?Error: "),
    ("error: ", rf"^error: [^\s:]{{1,300}}\.{_SOURCE}:\d{{1,9}}:\d{{1,9}} "),
    ("syntax error", rf"\.{_SOURCE}:\d{{1,9}}:\d{{1,9}}: syntax error"),
    (
        "Error: ",
        r"\.[fF](?:90|95|03|08|or)?:\d{1,9}:\d{1,9}:\n(?:[^\n]{0,300}\n){1,6}(?:Fatal )?Error: ",
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
    ("[build failed]", ""),
    ("[setup failed]", ""),
    ("e: ", r"^e: [^\n]{0,300}\.kts?:(?:\d| \(\d)"),
    ("error[E", r"^ *error\[E\d{4}\]: "),
    ("--> ", r"^error: [^\n]{0,500}\n {0,9}--> "),
    ("error: ", r"^error: (?:could not compile|couldn't read|could not find `Cargo|aborting due)"),
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
    ("Undefined symbols for architecture ", ""),
    ("undefined symbol: ", r"\b(?:ld|lld|mold|gold)\b[^\n]{0,60}undefined symbol: "),
    ("error while loading shared libraries: ", ""),
    ("symbol lookup error: ", ""),
    ("ninja: ", r"^ninja: (?:fatal|error): "),
    ("error", r"error:? (?:TS|CS|FS|BC|MSB|LNK|NETSDK|NU|C|AL|CA)\d{3,5}(?: \[ERROR\])?: "),
    ("[ERROR]", r"TS\d{3,5} \[ERROR\]: "),
    ("[ERROR] ", r"^[✘X] \[ERROR\] "),
    ("[ERROR] ", r"^\[ERROR\] [^\n]{0,300}\.(?:java|kt|scala):\[\d{1,9},\d{1,9}\] "),
    ("[error] ", r"^\[error\] [^\n]{0,300}\.(?:java|scala):\d{1,9}(?::\d{1,9})?: "),
    ("Non-parseable POM ", ""),
    ("Non-resolvable ", r"Non-resolvable (?:parent|import) POM\b"),
    ("could not be resolved", r"\[ERROR\] [^\n]{0,400}dependencies could not be resolved"),
    (
        "Execution failed for task ",
        r"for task '[^'\n]{0,200}:(?:compile|kapt|ksp|link|assemble)\w*'",
    ),
    ("CMake Error", r"^CMake Error"),
    (": ERROR: ", r"^[^\s:]{0,300}meson\.build:\d{1,9}:\d{1,9}: ERROR: "),
    ("configure: error: ", r"^configure: error: "),
    ("Build did NOT complete successfully", ""),
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
        r"Fatal error: {1,2}(?:Uncaught Error: )?(?:Class|Interface|Trait) [^\n]{1,300} not found",
    ),
    ("Failed opening required ", ""),
    ("RollupError: ", r"^(?:\[!\] )?(?:\([^)\n]{1,60}\) )?RollupError: "),
)
"""How compilers head the line of an error.

They are asked before the exceptions that speak of the machine, and before all phrases, or
`expected ';'` would be a failed check.
"""

REFUSALS: Final[tuple[Pattern, ...]] = (
    ("ERROR ", r"^ERROR [^\s:]{1,300}\.py(?: - |\r?$)"),
    ("_ ERROR collecting ", ""),
    (" while ", r"^ImportError while (?:loading conftest|importing)"),
    ("error during collection", ""),
    ("errors during collection", ""),
    ("Test suite failed to run", ""),
    (" occurred outside of examples", ""),
    ("unittest.loader._FailedTest", ""),
)
"""How test runners say that tests could not be loaded."""
