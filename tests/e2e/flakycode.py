"""Prove the flaky tests of marwan116/flakycode, whose causes are known, and print what came of it.

    python -m tests.e2e.flakycode CHECKOUT [--database URL] [--budget 3m] [--only WORD]

Each of its pairs has a flaky test and a reliable one. Here the flaky one runs, as its own module
says, until it fails, and `failure-taxonomy prove` works on the report; then the reliable one runs
in the same way, and is proven, too, if it fails: with what is installed it may do so each time.
Something else proven than what is known is wrong, and the exit code is 1 then.

The Python that runs this has the packages of the checkout and this one. `--database` is a
PostgreSQL server's, for the pair that needs one; example.com is a server of this script's own.
POSIX only.
"""

from __future__ import annotations

import argparse
import http.server
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.helpers.other_suites import own_environment, run, say

TRIES: Final = {"flaky": 12, "reliable": 3}
"""Runs that wait for a failure."""
AT_ONCE: Final = 4
SRC: Final = Path(__file__).parents[2] / "src" / "pytest_failure_taxonomy"
WITHOUT_NETWORK: Final = (sys.executable, str(SRC / "system" / "without_network.py"))
LITTLE_MEMORY: Final = ("sh", "-c", 'ulimit -v 1500000 && exec "$@"', "sh")
SHORT_SWITCHES: Final = "import sys\nsys.setswitchinterval(0.0001)\n"
"""What the module of the pair says to do, as a plugin."""
RUNS: Final = re.compile(
    r"([0-9,]+) runs? in fresh processes, ([0-9,]+) in forks, (.*)"
)


class Pair(NamedTuple):
    """Two tests of the checkout, and what is known of the one that is flaky."""

    folder: str
    causes: tuple[str, ...]
    """Types of a proof that say what it is, the first as its author does."""
    args: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    """Of the run that is recorded, and not of the experiments."""
    at_once: int = 1
    reliable: tuple[str, ...] = ("reproducible",)
    """What is right of the reliable test, where it fails with what is installed."""
    needs_database: bool = False


RANDOM: Final = ("axis.random_seed",)
ORDER: Final = "inter_test/order_dependence"
PAIRS: Final = (
    Pair("external_resource/async_wait", (*RANDOM, "axis.load")),
    # The reliable one repeats what has got a bad answer, and not what has got none.
    Pair(
        "external_resource/network",
        ("axis.network",),
        prefix=WITHOUT_NETWORK,
        reliable=("axis.network",),
    ),
    # Both were written in New York: elsewhere the reliable one fails each time.
    Pair("external_resource/time", RANDOM, reliable=("axis.time_zone",)),
    Pair(f"{ORDER}/fixture_scoping", ("order.polluted",)),
    Pair(f"{ORDER}/polluted_mock", ("order.polluted",), args=("-p", "no:randomly")),
    Pair(
        f"{ORDER}/shared_resource/database_isolation",
        ("axis.parallel",),
        at_once=AT_ONCE,
        needs_database=True,
    ),
    Pair(
        f"{ORDER}/shared_resource/filesystem_conflict",
        ("axis.parallel",),
        at_once=AT_ONCE,
    ),
    Pair("inter_test/resource_leak", ("axis.memory",), prefix=LITTLE_MEMORY),
    Pair(
        "intra_test/concurrency", ("flaky", "axis.load"), args=("-p", "short_switches")
    ),
    Pair("intra_test/floating_point/rounding/overflow", RANDOM),
    Pair("intra_test/floating_point/rounding/precision_loss", RANDOM),
    Pair("intra_test/randomness/algorithmic_non_determinism", RANDOM),
    Pair("intra_test/timeout", (*RANDOM, "axis.load")),
    Pair("intra_test/too_restrictive", RANDOM),
)


class Row(NamedTuple):
    """What came of one test."""

    test: str
    recorded: str
    words: str
    verdict: str
    """`right`, `wrong`, or empty where nothing was proven."""
    runs: str


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if something was proven wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--database", default="")
    parser.add_argument("--budget", default="3m")
    parser.add_argument(
        "--only", default="", help="pairs with this word in their folder"
    )
    options = parser.parse_args(words)
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="flakycode-"))
        )
        (folder / "plugins").mkdir()
        (folder / "plugins" / "short_switches.py").write_text(SHORT_SWITCHES, "utf-8")
        variables = {
            "PYTHONPATH": str(folder / "plugins"),
            "TEST_DATABASE__URL": options.database,
            **stack.enter_context(example_com(folder)),
        }
        for pair in PAIRS:
            if options.only in pair.folder and (
                options.database or not pair.needs_database
            ):
                for name in ("flaky", "reliable"):
                    row = prove(
                        pair, name, options.checkout, folder, variables, options.budget
                    )
                    say(
                        f"{row.test}: {row.recorded}; {row.words} [{row.verdict}] {row.runs}"
                    )
                    rows.append(row)
    say("\n| test | recorded | what is proven | | runs |\n|---|---|---|---|---|")
    for row in rows:
        say(f"| {' | '.join(row)} |")
    flaky = [row.verdict for row in rows if row.test.endswith("test_flaky")]
    wrong = sum(row.verdict == "wrong" for row in rows)
    say(
        f"\n{flaky.count('right')} of {len(flaky)} rightly typed, {wrong} proven wrongly"
    )
    return min(wrong, 1)


def prove(
    pair: Pair,
    name: str,
    checkout: Path,
    folder: Path,
    variables: Mapping[str, str],
    budget: str,
) -> Row:
    """Run a test until it fails, and prove why."""
    place = folder / f"{pair.folder.replace('/', '-')}-{name}"
    variables = own_environment(folder / "homes" / place.name, **variables)
    shutil.copytree(checkout, place, ignore=shutil.ignore_patterns(".git"))
    test = f"tests/{pair.folder}/test_{name}.py"
    report, tries = record(pair, test, TRIES[name], place, variables)
    title = f"{pair.folder}/test_{name}"
    if report is None:
        return Row(title, f"passed {tries} times", "", "", "")
    recorded = f"failed in run {tries}"
    command = (
        sys.executable,
        "-m",
        "pytest_failure_taxonomy",
        "prove",
        "--cause",
        "1",
        "--yes",
    )
    said = run((*command, "--budget", budget, str(report)), place, variables)
    proof = json.loads(report.read_text("utf-8"))["causes"][0]["proof"]
    runs = RUNS.search(said)
    lines = [line.strip() for line in said.splitlines() if line.startswith("   ")]
    verdict = ""
    if proof is not None and proof["status"] == "proven":
        known = pair.causes if name == "flaky" else pair.reliable
        verdict = "right" if proof["type"] in known else "wrong"
    told = lines[0] if lines else said[-200:]
    counted = f"{runs[1]} fresh, {runs[2]} forks, {runs[3]}" if runs else ""
    return Row(title, recorded, told.replace("|", r"\|"), verdict, counted)


def record(
    pair: Pair, test: str, most: int, place: Path, variables: Mapping[str, str]
) -> tuple[Path | None, int]:
    """Return the report of the first run that fails, and which run that was."""
    for number in range(1, most + 1):
        reports = [
            place.parent / f"{place.name}-{number}-{each}"
            for each in range(pair.at_once)
        ]
        commands = [
            (
                *pair.prefix,
                *(sys.executable, "-m", "pytest", "-q", f"--why-report={report}.json"),
                *(*pair.args, test),
            )
            for report in reports
        ]
        threads = [
            threading.Thread(target=run, args=(each, place, variables))
            for each in commands
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for report in reports:
            path = report.with_name(f"{report.name}.json")
            if path.exists() and json.loads(path.read_text("utf-8"))["causes"]:
                return path, number
    return None, most


@contextmanager
def example_com(folder: Path) -> Iterator[dict[str, str]]:
    """Answer for https://example.com while the network is there; yield the variables for it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=example.com", "-addext", "subjectAltName=DNS:example.com"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Proxy(http.server.BaseHTTPRequestHandler):
        """Is the server itself, whoever is asked for."""

        def do_CONNECT(self) -> None:
            """Answer one request with 200."""
            self.send_response(200)
            self.end_headers()
            with (
                suppress(OSError),
                context.wrap_socket(self.connection, server_side=True) as own,
            ):
                own.recv(65_536)
                own.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                own.shutdown(socket.SHUT_WR)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "HTTPS_PROXY": f"http://127.0.0.1:{server.server_address[1]}",
            "REQUESTS_CA_BUNDLE": str(certificate),
        }
        server.shutdown()


if __name__ == "__main__":
    began = time.monotonic()
    status = main()
    say(f"in {time.monotonic() - began:.0f} s")
    raise SystemExit(status)
