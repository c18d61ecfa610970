"""`rollback`: make an earlier release live again."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.render.releases import release_json
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge releases
    knowledge rollback 3
    knowledge rollback 3 --until-next-refresh
""")
def rollback(
    session: Session,
    release: Annotated[int, Argument(metavar="N", help="The release to return to.", min=1)],
    until_next_refresh: Annotated[
        bool, Option("--until-next-refresh", help="Do not pin it: the next refresh publishes the newest.")
    ] = False,
) -> None:
    """Make an earlier release live again, at once, and pin it.

    Publishes a new release with the old content. Refreshes go on reading and indexing, and
    publish nothing until `knowledge releases --unpin`.
    """
    from knowledge_pipeline.stages.release import roll_back_release

    pin = not until_next_refresh
    restored = roll_back_release(session.lake, session.settings_without_secrets, release, pin=pin)
    session.screen.print_json(release_json(restored, live=True))
    session.screen.print_text(
        f"Release {restored.release} is live: the content of release {release} ({restored.rows:,} rows).\n"
        + (
            "It is pinned: refreshes publish nothing until `knowledge releases --unpin`."
            if pin
            else "The next refresh publishes the newest content again."
        )
    )
