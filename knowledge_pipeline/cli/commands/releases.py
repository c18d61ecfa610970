"""`releases`: the releases that a rollback can return to."""

from __future__ import annotations

from knowledge_pipeline.cli.render.releases import format_release_row, release_json
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge releases
    knowledge releases --json
""")
def releases(session: Session) -> None:
    """List the releases, the live one first."""
    from knowledge_pipeline.store.release import list_releases

    found = list_releases(session.lake)[::-1]
    rows = [release_json(release, live=release is found[0]) for release in found]
    session.screen.print_json({"releases": rows})
    session.screen.print_table([format_release_row(row) for row in rows], right_aligned=("release", "rows"))
    if not rows:
        session.screen.print_text("Nothing is released yet: run `knowledge index`.")
