"""What a page says of the benches of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final

from pytest_failure_taxonomy.report.text import bench_name

_BINS: Final = 10


def bench_views(report: dict[str, Any], kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is shown of each task class besides its report, in the order of the report.

    Args:
        report: the report's JSON object.
        kept: what is shown of the cases of runs that were kept, by run id.
    """
    views = []
    for bench in report["bench"]:
        scores = [score for _, score in bench["per_case"]]
        # As averages count it: 0 for a case that did not pass.
        counted = (float(score["score"]) if score["passed"] else 0.0 for score in scores)
        bins = Counter(min(_BINS - 1, int(score * _BINS)) for score in counted)
        most = max(bins.values(), default=1)
        breakdown: dict[str, list[float]] = defaultdict(list)
        modes: Counter[tuple[str, str]] = Counter()
        for score in scores:
            modes.update((mode["code"], mode["severity"]) for mode in score["failure_modes"])
            for key, number in score["breakdown"].items():
                if number is not None:
                    breakdown[key].append(number)
        of_run = {"cases": [], "left_out": 0, "run_id": "", **kept.get(bench["run_id"], {})}
        views.append(
            {
                "name": bench_name(bench),
                "report": bench,
                "figures": _figures(bench),
                "baseline": _baseline(bench["baseline"]),
                "bins": [
                    (
                        f"{tenth / _BINS:.1f} to {(tenth + 1) / _BINS:.1f}",
                        bins[tenth],
                        round(100 * bins[tenth] / most, 2),
                    )
                    for tenth in range(_BINS)
                ],
                "breakdown": sorted(breakdown.items()),
                "modes": [
                    (*mode, count)
                    for mode, count in sorted(modes.items(), key=lambda each: (-each[1], each[0]))
                ],
                "kept": of_run,
                "places": {each["case_id"]: at for at, each in enumerate(of_run["cases"], 1)},
            }
        )
    return views


def _figures(bench: dict[str, Any]) -> list[tuple[str, str]]:
    counts, bound = bench["counts"], bench["lower_bound_95"]
    figures = [
        ("passed", f"{counts['passed']} of {counts['scheduled']} cases"),
        ("mean score", figure_words(bench["mean_score"])),
        ("at least (95 %)", figure_words(bound["value"])),
        ("how", f"{bound['method']}, {bound['n']} scores"),
        ("standard deviation", figure_words(bench["score_stddev"])),
        ("cost", _cost(bench["total_cost_usd"])),
        *((each["name"], figure_words(each["value"])) for each in bench["reduced"]),
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
        ("mean before", figure_words(comparison["old_mean"])),
        ("mean now", figure_words(comparison["new_mean"])),
        ("difference", f"{comparison['difference']:+.3f}"),
        (
            "95 % interval",
            f"{ends['low']:+.3f} to {ends['high']:+.3f}" if is_known else "not known",
        ),
        ("finding", comparison["finding"]),
        ("cost before", _cost(comparison["old_cost_usd"])),
        ("cost now", _cost(comparison["new_cost_usd"])),
    ]


def figure_words(share: float | None) -> str:
    """Return a share with three digits, truncated as on the terminal: 0.5239 proves no 0.524."""
    return "not known" if share is None else f"{share:.12f}"[:5]


def _cost(cost_usd: float) -> str:
    return f"{cost_usd:.4f} USD" if 0 < cost_usd < 1 else f"{cost_usd:,.2f} USD"
