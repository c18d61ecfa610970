"""What `knowledge export` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import format_count

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.stages.export import ExportResult


def show_export(
    screen: Screen, source: str, folder: Path, written: Sequence[ExportResult], archived: int
) -> None:
    """Show which files were written, and which were not."""
    from knowledge_pipeline.stages.export import count_outcomes

    counts = count_outcomes(written)
    problems = [
        {
            "uri": each.uri,
            "outcome": each.outcome,
            "file": str(each.file),
            "stored": str(each.stored_copy) if each.stored_copy else None,
            "why": each.error or None,
        }
        for each in written
        if each.outcome in ("differs", "failed")
    ]
    place = {"source": source, "folder": str(folder)}
    screen.print_json({**place, **counts, "archived": archived, "problems": problems})
    for each in written:
        if each.outcome == "differs":
            screen.print_text(f"{each.file} differs and is kept: the stored content is in {each.stored_copy}")
        elif each.outcome == "failed":
            screen.print_text(f"{each.file} was not written: {each.error}")
        elif screen.verbose:
            screen.print_text(f"{each.file}: {each.outcome}")
    outcomes = [f"{count:,} {outcome}" for outcome, count in counts.items() if count and outcome != "differs"]
    if counts["differs"]:
        outcomes.append(f"{counts['differs']:,} kept because they differ (--force overwrites them)")
    of_archived = f", {archived:,} of them archived" if archived else ""
    screen.print_text(
        f"{format_count(len(written), 'document')} of {source}{of_archived}: "
        f"{', '.join(outcomes) or 'nothing'}"
    )
