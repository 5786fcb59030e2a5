"""What a page says of the benches of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.report.text import bench_name

_BINS: Final = 10
_MAX_CHANGES: Final = 200
_MAX_CASES: Final = 5_000
_MAX_KEYS: Final = 12
"""Keys of a breakdown that have a column in the table of cases."""


class Bin(NamedTuple):
    """Cases whose score is in one tenth of the range."""

    label: str
    cases: int
    percent: float


class KeyScores(NamedTuple):
    """What cases scored on one key of the breakdown."""

    name: str
    cases: int
    mean: float
    lowest: float
    highest: float


class TagRow(NamedTuple):
    """What the cases of one tag came to."""

    name: str
    passed: int
    cases: int
    mean: str
    bound: str


class Change(NamedTuple):
    """A case whose result is another than in the run to compare with."""

    case_id: str
    what: str
    old: str
    new: str


class Bench(NamedTuple):
    """One task class."""

    name: str
    report: dict[str, Any]
    figures: list[tuple[str, str]]
    bins: list[Bin]
    keys: list[KeyScores]
    tags: list[TagRow]
    baseline: list[tuple[str, str]]
    """How the run differs from that of the baseline, in figures; empty without one."""
    changes: list[Change]
    changes_left_out: int
    columns: list[str]
    modes: list[tuple[str, str, int]]
    cases: list[tuple[str, dict[str, Any]]]
    cases_left_out: int
    run_id: str
    kept: list[dict[str, Any]]
    """Cases with their outputs, as `bench/runs/shown.py` makes them."""
    kept_left_out: int
    places: dict[str, int]
    """Where in `kept` a case is, from 1."""


def bench_views(report: dict[str, Any], kept: Mapping[str, Any]) -> list[Bench]:
    """Return what is shown of each task class, in the order of the report.

    Args:
        report: the report's JSON object.
        kept: what is shown of the cases of runs that were kept, by run id.
    """
    return [_view(each, kept.get(each["run_id"], {})) for each in report["bench"]]


def _view(bench: dict[str, Any], kept: Mapping[str, Any]) -> Bench:
    cases = [(case_id, score) for case_id, score in bench["per_case"]]
    changes = [] if bench["baseline"] is None else bench["baseline"]["changes"]
    keys = _key_scores(cases)
    return Bench(
        name=bench_name(bench),
        report=bench,
        figures=_figures(bench),
        bins=_bins([_counted(score) for _, score in cases]),
        keys=keys,
        tags=[
            TagRow(
                name=scores["tag"],
                passed=scores["passed"],
                cases=scores["n"],
                mean=_number(scores["mean_score"]),
                bound=_number(scores["lower_bound_95"]["value"]),
            )
            for scores in bench["by_tag"]
        ],
        baseline=_baseline(bench["baseline"]),
        changes=[
            Change(
                case_id=change["case_id"],
                what=_FLIPS.get(change["flip"], "another score"),
                old=f"{change['old_score']:.3f}",
                new=f"{change['new_score']:.3f}",
            )
            for change in changes[:_MAX_CHANGES]
        ],
        changes_left_out=max(0, len(changes) - _MAX_CHANGES),
        columns=[each.name for each in keys[:_MAX_KEYS]],
        modes=_modes(cases),
        cases=cases[:_MAX_CASES],
        cases_left_out=max(0, len(cases) - _MAX_CASES),
        run_id=kept.get("run_id", ""),
        kept=kept.get("cases", []),
        kept_left_out=kept.get("left_out", 0),
        places={each["case_id"]: at for at, each in enumerate(kept.get("cases", ()), 1)},
    )


def _counted(score: dict[str, Any]) -> float:
    """Return the score as averages count it: 0 for a case that did not pass."""
    return float(score["score"]) if score["passed"] else 0.0


def _figures(bench: dict[str, Any]) -> list[tuple[str, str]]:
    counts, bound = bench["counts"], bench["lower_bound_95"]
    figures = [
        ("passed", f"{counts['passed']} of {counts['scheduled']} cases"),
        ("mean score", _number(bench["mean_score"])),
        ("at least (95 %)", _number(bound["value"])),
        ("how", f"{bound['method']}, {bound['n']} scores"),
        ("standard deviation", _number(bench["score_stddev"])),
        ("cost", _cost(bench["total_cost_usd"])),
        *((each["name"], _number(each["value"])) for each in bench["reduced"]),
    ]
    if not bench["complete"]:
        figures.append(("not complete", f"{counts['not_run']} of the cases did not run"))
    if bench["stopped"]:
        figures.append(("stopped", bench["stopped"]))
    if lost := sum(each["cases"] for each in bench["lost_to_provider"]):
        figures.append(("lost to the provider", f"{lost} of {counts['scheduled']} cases"))
    if bench["system"]:
        figures.append(("system", bench["system"]))
    return figures


def _baseline(comparison: dict[str, Any] | None) -> list[tuple[str, str]]:
    if comparison is None:
        return []
    ends = comparison["interval_95"]
    is_known = ends["low"] is not None and ends["high"] is not None
    return [
        ("compared with", comparison["old_run_id"]),
        ("cases of both", str(comparison["n"])),
        ("mean before", _number(comparison["old_mean"])),
        ("mean now", _number(comparison["new_mean"])),
        ("difference", f"{comparison['difference']:+.3f}"),
        (
            "95 % interval",
            f"{ends['low']:+.3f} to {ends['high']:+.3f}" if is_known else "not known",
        ),
        ("finding", comparison["finding"]),
        ("cost before", _cost(comparison["old_cost_usd"])),
        ("cost now", _cost(comparison["new_cost_usd"])),
    ]


_FLIPS: Final = {"now_fails": "no longer passes", "now_passes": "now passes"}


def _number(share: float | None) -> str:
    """Return a share with three digits, truncated as on the terminal: 0.5239 proves no 0.524."""
    return "not known" if share is None else f"{share:.12f}"[:5]


def _cost(cost_usd: float) -> str:
    return f"{cost_usd:.4f} USD" if 0 < cost_usd < 1 else f"{cost_usd:,.2f} USD"


def _bins(scores: Sequence[float]) -> list[Bin]:
    counts = Counter(min(_BINS - 1, int(score * _BINS)) for score in scores)
    most = max(counts.values(), default=1)
    return [
        Bin(f"{tenth / _BINS:.1f} to {(tenth + 1) / _BINS:.1f}", n, round(100 * n / most, 2))
        for tenth in range(_BINS)
        for n in (counts[tenth],)
    ]


def _key_scores(cases: list[tuple[str, dict[str, Any]]]) -> list[KeyScores]:
    values: dict[str, list[float]] = defaultdict(list)
    for _, score in cases:
        for key, number in score["breakdown"].items():
            if number is not None:
                values[key].append(number)
    return [
        KeyScores(key, len(given), sum(given) / len(given), min(given), max(given))
        for key, given in sorted(values.items())
    ]


def _modes(cases: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str, int]]:
    """Return the codes of failure modes with their severity, the most frequent first."""
    counts = Counter(
        (mode["code"], mode["severity"]) for _, score in cases for mode in score["failure_modes"]
    )
    return [(*key, n) for key, n in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]
