"""`rollback`: make an earlier release live again."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from knowledge_pipeline.cli.render.releases import release_json
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge releases
    knowledge rollback 3
""")
def rollback(
    session: Session, release: Annotated[int, Argument(metavar="N", help="The release to return to.", min=1)]
) -> None:
    """Make an earlier release live again, at once.

    Publishes a new release with the old content. The next refresh publishes the newest
    content again.
    """
    from knowledge_pipeline.stages.release import roll_back_release

    restored = roll_back_release(session.lake, session.settings_without_secrets, release)
    session.screen.print_json(release_json(restored, live=True))
    session.screen.print_text(
        f"Release {restored.release} is live: the content of release {release} ({restored.rows:,} rows).\n"
        "The next refresh publishes the newest content again."
    )
