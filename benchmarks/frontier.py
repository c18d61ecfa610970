"""What each way of reading code costs and finds, as a picture of a table in the documentation.

    python -m benchmarks.frontier docs/decisions/embedding.md docs/images/profiles.png

The table's first column names the way, `chunks/s` and `codebase-dev` hold the figures that
`benchmarks.embedding` and `benchmarks.retrieval` measured; a row without both numbers is left out, one in
bold is the default.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.pictures import picture, points

_COST, _QUALITY = "chunks/s", "codebase-dev"


def read_rows(markdown: str) -> dict[str, tuple[float, float]]:
    """Name of each row of the table -> chunks a second, nDCG@10 in percent.

    Raises:
        ValueError: there is no such table.
    """
    lines = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in markdown.splitlines() if "|" in line]
    headers = [cells for cells in lines if {_COST, _QUALITY} <= set(cells)]
    if not headers:
        raise ValueError(f"no table has the columns {_COST} and {_QUALITY}")
    cost, quality = headers[0].index(_COST), headers[0].index(_QUALITY)
    found: dict[str, tuple[float, float]] = {}
    for cells in lines[lines.index(headers[0]) + 2 :]:
        if len(cells) != len(headers[0]):
            break
        figures = [re.match(r"[\d,.]*\d", cells[column]) for column in (cost, quality)]
        if all(figures):
            name = cells[0].strip("*").partition(" (an ")[0].replace("`", "") + (
                " (default)" if cells[0].startswith("**") else ""
            )
            found[name] = tuple(float(figure[0].replace(",", "")) for figure in figures if figure)  # pyright: ignore[reportArgumentType]  # two
    return found


def main() -> None:
    """Draw what the table says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, help="a Markdown file")
    parser.add_argument("picture", type=picture)
    asked = parser.parse_args()
    rows = read_rows(asked.table.read_text())
    points(
        asked.picture, rows, x_label="chunks a second, two AVX2 cores", y_label="nDCG@10 on codebase-dev, %"
    )
    print(f"{len(rows)} points in {asked.picture}")


if __name__ == "__main__":
    main()
