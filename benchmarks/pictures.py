"""Bars beside each other: what the benchmarks print as tables, to be seen at a glance."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path

_ENDINGS = (".png", ".svg", ".pdf")


def picture(text: str) -> Path:
    """The value of `--picture`, refused before anything is measured.

    Raises:
        ArgumentTypeError: no such kind of picture is written.
    """
    path = Path(text)
    if path.suffix not in _ENDINGS:
        raise ArgumentTypeError(
            f"{text!r} is no picture that can be written: end it in {', '.join(_ENDINGS)}"
        )
    return path


def bars(path: Path, panels: Mapping[str, Mapping[str, float]]) -> None:
    """Write a picture with a panel for each quantity, and in it a bar for each of what is compared.

    Args:
        path: where; its ending says in which format.
        panels: by title, the value of each label; all have the same labels, the first on top.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = max(map(len, panels.values()))
    size = (3.0 * len(panels) + 1.5, 0.32 * rows + 0.9)
    figure, axes = plt.subplots(
        1, len(panels), figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
        drawn = axis.barh(list(values), list(values.values()), height=0.7)
        axis.bar_label(drawn, fmt="%.3g", padding=2, fontsize=8)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def points(path: Path, values: Mapping[str, tuple[float, float]], *, x_label: str, y_label: str) -> None:
    """Write a picture with a point for each of what is compared, and a line along those that nothing beats.

    Args:
        path: where; its ending says in which format.
        values: by label, what is to the right, on a logarithmic scale, and what is above; more is better.
        x_label: of the axis to the right.
        y_label: of the axis upwards.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8.0, 4.5), layout="constrained")
    best = [
        each
        for each in values.values()
        if not any(other != each and other[0] >= each[0] and other[1] >= each[1] for other in values.values())
    ]
    beaten = sorted(
        (label for label in values if values[label] not in best), key=lambda label: values[label][1]
    )
    axis.plot(*zip(*sorted(best), strict=True), color="tab:blue", linewidth=1, alpha=0.5)
    for label, (x, y) in values.items():
        is_best = (x, y) in best
        axis.plot(x, y, "o", color="tab:blue" if is_best else "tab:gray")
        to_left = not is_best and beaten.index(label) % 2 == 0
        place, side = (
            ((-7, 4 * beaten.index(label) - 14), "right") if to_left else ((5, 5 if is_best else -3), "left")
        )
        axis.annotate(label, (x, y), xytext=place, textcoords="offset points", fontsize=8, ha=side)
    axis.set_xscale("log")
    axis.set_xlabel(x_label, fontsize=9)
    axis.set_ylabel(y_label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.margins(x=0.25, y=0.1)
    axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)
