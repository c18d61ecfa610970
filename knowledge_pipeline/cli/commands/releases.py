"""`releases`: the releases that a rollback can return to."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.render.releases import format_release_row, release_json
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import NotFound


@example("""
    knowledge releases
    knowledge releases --json
    knowledge releases --unpin
""")
def releases(
    session: Session,
    unpin: Annotated[
        bool, Option("--unpin", help="End the pin of a rollback, and publish the newest, if its checks pass.")
    ] = False,
) -> None:
    """List the releases, the live one first.

    While a release is pinned, refreshes publish nothing. --unpin first publishes the newest
    that they indexed; if a check refuses it, the pin stays.
    """
    from knowledge_pipeline.store.release import list_releases

    if unpin:
        _unpin(session)
    found = list_releases(session.lake)[::-1]
    rows = [release_json(release, live=release is found[0]) for release in found]
    session.screen.print_json({"releases": rows})
    session.screen.print_table([format_release_row(row) for row in rows], right_aligned=("release", "rows"))
    if not rows:
        session.screen.print_text("Nothing is released yet: run `knowledge index`.")


def _unpin(session: Session) -> None:
    from knowledge_pipeline.stages.pipeline import refresh_release
    from knowledge_pipeline.store.release import find_live_release

    live = find_live_release(session.lake)
    if live is None or live.pinned_since is None:
        raise NotFound("no release is pinned: refreshes publish what they change")
    released = refresh_release(session.lake, session.settings, unpin=True)
    session.screen.print_note(f"Release {released.version} is live, and no release is pinned any more.")
