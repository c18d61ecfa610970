"""What `benchmarks.scale` measured, as tables in Markdown and as one picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import describe_machine

Steps = Mapping[str, Any]
"""By step, what it told."""

_MB = 1_000_000
_PACKAGES = ("pylance", "lancedb", "pyarrow", "numpy", "sentence-transformers", "torch")


def describe_measurement() -> str:
    """What measured, and with which packages."""
    names = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"{describe_machine()}; {names}"


def tables(found: Mapping[str, Steps]) -> str:
    """Everything that was measured, a column for each size."""
    sizes = sorted((name for name in found if name.isdecimal()), key=int)
    parts = [describe_measurement(), ""]
    parts += _table(
        "", [_name_column(found[name], name) for name in sizes], _rows([found[name] for name in sizes])
    )
    for name, steps in sorted(found.items(), key=lambda each: (len(each[0]), each[0])):
        if name.startswith("partition-") and "first" in steps:
            first = steps["first"]
            parts.append(
                f"- one source of {first['chunks']:,} chunks: {first['seconds']:.0f} s "
                f"({first['processor_s']:.0f} of the processor), {first['peak_mb']:,.0f} MB at most"
            )
    if "listing" in found:
        parts.append(f"- listing: {found['listing']['listing']}")
    return "\n".join(parts)


def _name_column(steps: Steps, name: str) -> str:
    chunks = _chunks(steps)
    return f"{chunks:,} chunks" if chunks else f"about {int(name):,} chunks"


def _chunks(steps: Steps) -> int:
    """Rows of the index; 0 where none was made."""
    return next((steps[name]["chunks"] for name in ("first", "grown", "again") if name in steps), 0)


def _rows(all_steps: Sequence[Steps]) -> list[tuple[str, list[str]]]:
    rows = [(title, [_format_or_empty(tell, steps) for steps in all_steps]) for title, tell in _BUILT]
    for step, whose in (("ours", "ours"), ("raw", "LanceDB")):
        rows += _build_query_rows(all_steps, step, whose)
    return [(title, cells) for title, cells in rows if any(cells)]


def _build_query_rows(all_steps: Sequence[Steps], step: str, whose: str) -> list[tuple[str, list[str]]]:
    """A row for each way of asking, in the order in which they were asked."""
    kinds = {
        "recall": ("recall@10 of {whose}, filter: {name}", lambda it: f"{it:.3f}"),
        "alone": ("{whose}, {name}: p50, p95 ms", lambda it: f"{it[0]:.1f}, {it[1]:.1f}"),
        "clients": (
            "{whose}, {name}, 100 clients: a second; p50, p95 ms",
            lambda it: f"{it['a_second']:.0f}; {it['p50']:.0f}, {it['p95']:.0f}",
        ),
    }
    rows: list[tuple[str, list[str]]] = []
    for kind, (title, tell) in kinds.items():
        names = dict.fromkeys(name for steps in all_steps for name in steps.get(step, {}).get(kind, {}))
        for name in names:
            held = [steps.get(step, {}).get(kind, {}).get(name) for steps in all_steps]
            cells = ["" if each is None else tell(each) for each in held]
            rows.append((title.format(whose=whose, name=name), cells))
    return rows


def _format_or_empty(tell: Callable[[Steps], str], steps: Steps) -> str:
    try:
        return tell(steps)
    except KeyError:  # not measured
        return ""


def _seconds(it: Mapping[str, Any]) -> str:
    return f"{it['seconds']:,.1f} ({it['processor_s']:,.1f})"


def _grown(it: Mapping[str, Any]) -> str:
    clock, worked = (sum(each[at] for each in (*it["adding"], *it["indexing"])) for at in (0, 1))
    return f"{clock:,.0f} ({worked:,.0f})"


def _edits(it: Mapping[str, Any]) -> str:
    clock, worked = (median(each[name] for each in it["edits"]) for name in ("seconds", "processor_s"))
    return f"{clock:.2f} ({worked:.2f})"


_BUILT: tuple[tuple[str, Callable[[Steps], str]], ...] = (
    ("first index, s (of the processor)", lambda it: _seconds(it["first"])),
    (
        "of it by stage, s",
        lambda it: ", ".join(f"{stage} {s:,.0f}" for stage, s in it["first"]["stages"].items()),
    ),
    ("most memory of it, MB", lambda it: f"{it['first']['peak_mb']:,.0f}"),
    ("grown from 100,000: rows added and indexed, s", lambda it: _grown(it["grown"])),
    ("most memory of it, MB", lambda it: f"{it['grown']['peak_mb']:,.0f}"),
    ("nothing changed, s", lambda it: _seconds(it["again"])),
    ("one file edited, s", lambda it: _edits(it["edit"])),
    ("the slowest of the edits, s", lambda it: f"{max(each['seconds'] for each in it['edit']['edits']):.2f}"),
    ("most memory of the edits, MB", lambda it: f"{it['edit']['peak_mb']:,.0f}"),
    ("disk, MB", lambda it: f"{sum(it['edit']['disk'].values()) / _MB:,.0f}"),
    ("of it the index, MB", lambda it: f"{it['edit']['disk']['index'] / _MB:,.0f}"),
    ("indexes read into memory when a server starts, s", lambda it: f"{it['ours']['prewarm_s']:.2f}"),
    ("most memory of a process that answers, MB", lambda it: f"{it['ours']['peak_mb']:,.0f}"),
    ("the same with LanceDB alone, MB", lambda it: f"{it['raw']['peak_mb']:,.0f}"),
    ("brute force by BLAS: p50, p95 ms", lambda it: "{:.1f}, {:.1f}".format(*it["truth"]["blas_ms"])),
)


def _table(corner: str, headings: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    lines = [f"| {corner} | {' | '.join(headings)} |", "| --- |" + " --- |" * len(headings)]
    return [*lines, *(f"| {title} | {' | '.join(cells)} |" for title, cells in rows), ""]


def pictured(found: Mapping[str, Steps], path: Path) -> None:
    """Growth from the smallest size to the largest, each quantity against chunks on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (title, lines) in zip(axes, _LINES.items(), strict=True):
        for label, tell in lines.items():
            points = [(_chunks(steps), tell(steps)) for steps in _complete(found, tell)]
            axis.plot(*zip(*sorted(points), strict=True), marker="o", label=label) if points else None
        axis.set(title=title, xlabel="chunks", xscale="log", yscale="log")
        axis.legend(fontsize=7)
        axis.grid(visible=True, which="major", alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def _complete(found: Mapping[str, Steps], tell: Callable[[Steps], float]) -> list[Steps]:
    def is_measured(steps: Steps) -> bool:
        try:
            return _chunks(steps) > 0 and tell(steps) > 0
        except KeyError:
            return False

    return [steps for name, steps in found.items() if name.isdecimal() and is_measured(steps)]


_LINES: dict[str, dict[str, Callable[[Steps], float]]] = {
    "seconds of a refresh": {
        "first index": lambda it: it["first"]["seconds"],
        "one file edited": lambda it: median(each["seconds"] for each in it["edit"]["edits"]),
        "nothing changed": lambda it: it["again"]["seconds"],
    },
    "ms of a search, p50": {
        "brute force by BLAS": lambda it: it["truth"]["blas_ms"][0],
        "vector": lambda it: it["ours"]["alone"]["vector"][0],
        "words": lambda it: it["ours"]["alone"]["words"][0],
        "whole answer": lambda it: it["ours"]["alone"]["whole answer"][0],
    },
    "MB": {
        "memory of the first index": lambda it: (it.get("first") or it["grown"])["peak_mb"],
        "memory of a server": lambda it: it["ours"]["peak_mb"],
        "disk": lambda it: sum(it["edit"]["disk"].values()) / _MB,
    },
}
