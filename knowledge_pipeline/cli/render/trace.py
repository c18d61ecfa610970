"""What made a result, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.contract.responses.trace import TraceResponse


def show_trace(screen: Screen, trace: TraceResponse) -> None:
    """Show the document, the chunk and the release, then each stage of the refresh."""
    screen.print_json(trace.as_json())
    place = f"{trace.citation.path}:{trace.citation.lines.replace('L', '')}"
    screen.print_text(f"{one_line(place)}  [{trace.citation.source}]  {trace.id}", style="bold cyan")
    first = f"{trace.first_release}, {_format_time(trace.first_released_at)}" if trace.first_release else None
    rows = [
        {"what": "revision in its source", "value": trace.revision},
        {"what": "document", "value": trace.document_hash},
        {"what": "chunk made of", "value": trace.chunk_fingerprint},
        {"what": "key of its vector", "value": trace.text_key},
        {"what": "indexed first, as it is since", "value": _format_times(trace)},
        {"what": "first kept release with it", "value": first or "none is kept"},
        {"what": "release that answered", "value": trace.release},
    ]
    screen.print_table([row for row in rows if row["value"] is not None])
    screen.print_table(
        [
            {
                "stage": each.stage,
                "done": _format_time(each.done_at),
                "changes": each.changes,
                "code": each.code,
                "settings": " ".join(f"{name}={digest}" for name, digest in each.settings.items()),
                "run": each.run_url or each.run or "command line",
            }
            for each in trace.stages
        ],
        right_aligned=("changes",),
    )
    if not trace.stages:
        screen.print_note("note: the log of its refresh is gone")


def _format_times(trace: TraceResponse) -> str:
    return f"{_format_time(trace.indexed_at)}, {_format_time(trace.updated_at)}"


def _format_time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""
