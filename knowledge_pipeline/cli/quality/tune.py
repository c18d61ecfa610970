"""`tune`: learn the ranking from the corpus itself."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.render.progress import show_progress
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge tune --dry-run
    knowledge tune
    knowledge tune --json
""")
def tune(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be gained.")] = False,
) -> None:
    """Learn the ranking from the corpus, and release it if better.

    Docstrings, commits, pull requests, tickets and judged results ask questions whose answers
    are known. Weights near the shipped ones are learned from them; the newest fifth of each
    kind is held out. They are published, with the content of the live release, only if the
    held-out pairs and the golden questions are answered better. `knowledge rollback` takes
    the former weights back.
    """
    from knowledge_pipeline.cli.render.tune import show_tuning
    from knowledge_pipeline.stages.tuning import tune as stage

    with show_progress(session.screen) as report_for:
        report = report_for("tuning")
        result = stage.refresh(session.lake, session.settings, dry_run=dry_run, report=report)
    show_tuning(session.screen, result, dry_run=dry_run)
