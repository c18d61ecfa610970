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
