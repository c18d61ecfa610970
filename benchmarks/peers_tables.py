"""The figures of `benchmarks.peers` as tables, for a terminal and for the docs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.peers_own import VARIANTS

_STEPS = {
    "first": "first index",
    "cached": "first, vectors known",
    "nothing": "nothing changed",
    "edited": "4 edited",
    "deleted": "4 deleted",
}
_DRAWN = {step: _STEPS[step] for step in ("first", "nothing", "edited")}
_OWN = [name for name, _ in VARIANTS.values()]
Rows = list[list[str]]


def tables(found: list[dict[str, Any]]) -> Iterator[tuple[str, Rows]]:
    """Title and rows of each table; the first row is the heading."""
    told = [one for one in found if "failed" not in one]
    if told and "questions" not in told[0]:
        yield "First index: medians", _first(told)
    else:
        yield from _all_tables(told)
    if failed := [[one["tool"], one["failed"]] for one in found if "failed" in one]:
        yield "Not measured", [["tool", "why"], *failed]


def _all_tables(told: list[dict[str, Any]]) -> Iterator[tuple[str, Rows]]:
    yield "Seconds by the clock (and of the processor)", _costs(told)
    yield "What is found", _retrieval(told)
    own = next((one for one in told if one["tool"] in _OWN[1:]), None)
    if own and len(told) > 1:
        yield f"Times the seconds of this project, {own['tool']} (and of the processor)", _ratios(told, own)
    yield "Versions", [["tool", "packages"], *([one["tool"], _versions(one)] for one in told)]


def panels(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """What is drawn of those that were measured: by title, then by tool."""
    told = [one for one in found if "failed" not in one]
    drawn = {
        f"{name}, s": {one["tool"]: one[step]["seconds"] for one in told} for step, name in _DRAWN.items()
    }
    return drawn | {"MRR@10, hybrid": {one["tool"]: one["questions"]["hybrid"]["mrr"] for one in told}}


def _costs(told: list[dict[str, Any]]) -> Rows:
    heading = ["tool", "chunks", *_STEPS.values(), "disk MB", "peak MB"]
    return [
        heading,
        *(
            [
                one["tool"],
                f"{one['chunks']:,}",
                *(_cost(one[step]) for step in _STEPS),
                f"{one['disk_mb']:.1f}",
                f"{one['peak_mb']:,.0f}",
            ]
            for one in told
        ),
    ]


def _first(told: list[dict[str, Any]]) -> Rows:
    """Medians of first indexes alone, and how long each tool takes compared with the last one."""
    rounds = {name: [one for one in told if one["tool"] == name] for name in (one["tool"] for one in told)}
    medians = {
        name: {key: median(one["first"][key] for one in ones) for key in ("seconds", "cpu_seconds")}
        for name, ones in rounds.items()
    }
    last = list(medians)[-1]
    rows = [["tool", "chunks", "s (of the processor)", f"of {last}", "peak MB", "rounds"]]
    for name, ones in rounds.items():
        cost, peak = medians[name], max(one["peak_mb"] for one in ones)
        shown = [f"{ones[0]['chunks']:,}", _cost({**cost, "misses": 0}), _ratio(cost, medians[last])]
        rows.append([name, *shown, f"{peak:,.0f}", str(len(ones))])
    return rows


def _cost(cost: dict[str, float]) -> str:
    missed = f", {cost['misses']:.0f} not known" if cost["misses"] else ""
    return f"{_short(cost['seconds'])} ({_short(cost['cpu_seconds'])}{missed})"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _retrieval(told: list[dict[str, Any]]) -> Rows:
    heading = ["tool", "MRR@10 vector", "hybrid", "p50 ms vector", "hybrid", "edits found", "deleted gone"]
    rows = [heading]
    for one in told:
        asked, checks = one["questions"], one["checks"]
        mrr = [f"{asked[kind]['mrr']:.3f}" for kind in ("vector", "hybrid")]
        times = [f"{asked[kind]['p50_ms']:.0f}" for kind in ("vector", "hybrid")]
        sound = ["yes" if checks[check] else "no" for check in ("edits are found", "deleted are gone")]
        rows.append([one["tool"], *mrr, *times, *sound])
    return rows


def _ratios(told: list[dict[str, Any]], own: dict[str, Any]) -> Rows:
    rows = [["tool", *_STEPS.values()]]
    for one in told:
        if one is not own:
            rows.append([one["tool"], *(_ratio(one[step], own[step]) for step in _STEPS)])
    return rows


def _ratio(cost: dict[str, float], own: dict[str, float]) -> str:
    return " ".join(
        shape.format(_short(cost[unit] / own[unit]) if own[unit] else "–")
        for unit, shape in (("seconds", "{}"), ("cpu_seconds", "({})"))
    )


def _versions(one: dict[str, Any]) -> str:
    return ", ".join(f"{package} {version}" for package, version in one["versions"].items())


def show(about: str, found: list[dict[str, Any]]) -> None:
    """Print the tables."""
    console = Console(width=170)
    console.print(about)
    for title, rows in tables(found):
        table = Table(*rows[0], title=title)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)


def markdown(about: str, found: list[dict[str, Any]]) -> str:
    """The tables as they stand in the docs."""
    parts = [about]
    for title, rows in tables(found):
        lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        parts += [f"{title}:", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts) + "\n"
