"""`releases`, `rollback`, `export` and `publish`: what is released, and copies of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.screen import escape_controls, format_count, format_time
from knowledge_pipeline.cli.session import Names, Session, Source, WrongUsage, example
from knowledge_pipeline.errors import NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.cli.screen import Screen
    from knowledge_pipeline.stages.export import ExportResult
    from knowledge_pipeline.store.release import Release


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
    from knowledge_pipeline.store.release import find_live_release, list_releases

    if unpin:
        from knowledge_pipeline.stages.pipeline import refresh_release

        live = find_live_release(session.lake)
        if live is None or live.pinned_since is None:
            raise NotFound("no release is pinned: refreshes publish what they change")
        released = refresh_release(session.lake, session.settings, unpin=True)
        session.screen.print_note(f"Release {released.version} is live, and no release is pinned any more.")
    kept = list_releases(session.lake)[::-1]
    rows = [_release_json(release, live=release is kept[0]) for release in kept]
    session.screen.print_json({"releases": rows})
    session.screen.print_table([_format_release_row(row) for row in rows], right_aligned=("release", "rows"))
    if not rows:
        session.screen.print_text("Nothing is released yet: run `knowledge index`.")


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
    from knowledge_pipeline.stages.pipeline import roll_back_release

    pin = not until_next_refresh
    restored = roll_back_release(session.lake, session.settings, release, pin=pin)
    session.screen.print_json(_release_json(restored, live=True))
    session.screen.print_text(
        f"Release {restored.release} is live: the content of release {release} ({restored.rows:,} rows).\n"
        + (
            "It is pinned: refreshes publish nothing until `knowledge releases --unpin`."
            if pin
            else "The next refresh publishes the newest content again."
        )
    )


@example("""
    knowledge export --source records --to out
    knowledge export --source records --uri adr/0007.md > 0007.md
    knowledge export --source records --to docs/records --include-archived --force
""")
def export(
    session: Session,
    source: Source,
    uri: Annotated[Names, Option(metavar="URI", help="Only this document (repeatable).")] = None,
    to: Annotated[
        Path | None, Option(metavar="FOLDER", help="Write files here, instead of one document to stdout.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite existing files that differ.")] = False,
    include_archived: Annotated[
        bool, Option("--include-archived", help="Include documents that the source no longer has.")
    ] = False,
) -> int | None:
    """Write stored documents to files.

    A record of an archive is written as the file it was read from, byte for byte; any other
    document as its text. An existing file that differs is kept, and the stored content is
    written next to it as NAME.stored, unless --force overwrites it.
    """
    from knowledge_pipeline.stages.export import iter_documents, write_document

    if to is None and (len(uri or ()) != 1 or session.as_json):
        raise WrongUsage("give --to FOLDER, or one --uri without --json for stdout")
    uris, settings = tuple(uri or ()), session.settings
    documents = iter_documents(session.lake, settings, source, uris=uris, include_archived=include_archived)
    if to is None:
        for document in documents:  # as it is, but with control characters escaped on a terminal
            if session.screen.is_terminal:
                sys.stdout.write(escape_controls(document.content.decode("utf-8", "replace")))
            else:
                sys.stdout.buffer.write(document.content)
            sys.stdout.flush()
        return None
    folder = to.expanduser()
    archived = 0
    results: list[ExportResult] = []
    for document in documents:
        results.append(write_document(document, folder, force=force))
        archived += document.archived_at is not None
    _show_export(session.screen, source, folder, results, archived)
    return FAILED if any(result.outcome in ("differs", "failed") for result in results) else None


@example("""
    knowledge publish
    knowledge publish --schema search
""")
def publish(
    session: Session,
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            metavar="NAME",
            help="Where in the database; by default KNOWLEDGE_PUBLISH_SCHEMA, or knowledge.",
        ),
    ] = None,
) -> None:
    """Copy the live release to PostgreSQL, by what changed.

    Needs pgvector there, and the address in KNOWLEDGE_PUBLISH_DSN. Readers of the database
    see the release from before until the copy is complete, then the new one. After a
    rollback it copies the difference back. docs/publish.md has queries with filters.
    """
    from knowledge_pipeline.extensions.publish import open_target, refresh

    result = refresh(session.lake, session.settings, open_target(schema))
    session.screen.print_json(result.as_metadata())
    changes = f"{result.added:,} added, {result.changed:,} changed, {result.removed:,} removed"
    session.screen.print_text(
        f"Release {result.release} is in {result.target}: {format_count(result.rows, 'row')}, "
        f"{changes if result.has_changes else 'nothing changed'}, in {result.seconds:.1f} s."
    )


def _release_json(release: Release, *, live: bool) -> dict[str, Any]:
    return {
        "release": release.release,
        "live": live,
        "created": release.created_at.isoformat(timespec="seconds"),
        "rows": release.rows,
        "restores": release.restores,
        "pinned_since": release.pinned_since and release.pinned_since.isoformat(timespec="seconds"),
        "ranker": release.ranker and json.loads(release.ranker),
        "spaces": dict(release.tables),
    }


def _format_release_row(row: dict[str, Any]) -> dict[str, Any]:
    tables = ", ".join(f"{space} at version {version}" for space, version in row["spaces"].items())
    times = {name: format_time(row[name]) for name in ("created", "pinned_since")}
    ranker = "tuned" if row["ranker"] else "shipped"
    return {**row, **times, "ranker": ranker, "spaces": tables}


def _show_export(
    screen: Screen, source: str, folder: Path, written: Sequence[ExportResult], archived: int
) -> None:
    from knowledge_pipeline.stages.export import count_outcomes

    counts = count_outcomes(written)
    problems: list[dict[str, str | None]] = []
    for result in written:
        file, copy, why = str(result.file), str(result.stored_copy or "") or None, result.error or None
        if result.outcome in ("differs", "failed"):
            problem = {"uri": result.uri, "outcome": result.outcome, "file": file}
            problems.append({**problem, "stored": copy, "why": why})
        if result.outcome == "differs":
            screen.print_text(f"{file} differs and is kept: the stored content is in {copy}")
        elif result.outcome == "failed":
            screen.print_text(f"{file} was not written: {why}")
        elif screen.verbose:
            screen.print_text(f"{file}: {result.outcome}")
    origin = {"source": source, "folder": str(folder)}
    screen.print_json({**origin, **counts, "archived": archived, "problems": problems})
    outcomes = [f"{count:,} {outcome}" for outcome, count in counts.items() if count and outcome != "differs"]
    if counts["differs"]:
        outcomes.append(f"{counts['differs']:,} kept because they differ (--force overwrites them)")
    of_archived = f", {archived:,} of them archived" if archived else ""
    documents, done = format_count(len(written), "document"), ", ".join(outcomes) or "nothing"
    screen.print_text(f"{documents} of {source}{of_archived}: {done}")
