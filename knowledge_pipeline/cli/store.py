"""`maintain`, `verify`, `migrate` and `purge`: commands about the store as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.progress import ProgressLines, show_progress
from knowledge_pipeline.cli.screen import format_count, format_size
from knowledge_pipeline.cli.session import Session, WrongUsage, Yes, confirm, example

if TYPE_CHECKING:
    from knowledge_pipeline.cli.screen import Screen
    from knowledge_pipeline.maintenance import Action, MaintenanceReport
    from knowledge_pipeline.store.migrate import MigrationState, StoreVersions


@example("""
    knowledge maintain
    knowledge maintain --dry-run
    knowledge maintain --grace 0 --json
    knowledge maintain --repair
""")
def maintain(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be done.")] = False,
    grace: Annotated[
        float,
        Option(
            metavar="MINUTES", min=0, help="How long to keep a replaced version for those who still read it."
        ),
    ] = 10.0,
    keep_vectors: Annotated[
        bool, Option("--keep-vectors", help="Keep vectors of texts that no longer exist.")
    ] = False,
    repair: Annotated[
        bool, Option("--repair", help="First mend what `knowledge verify` finds: a refresh does the rest.")
    ] = False,
) -> None:
    """Make the store small and fast again.

    Removes unused vectors, old versions, old log entries and leftovers, merges fragmented
    tables, and updates indexes. Search results stay the same throughout, and every kept
    release can still be rolled back to. Sources that are being refreshed are left for the
    next run. The command can be stopped at any moment.
    """
    from knowledge_pipeline import maintenance

    lines = ProgressLines(session.screen.print_note)
    report = maintenance.refresh(
        session.lake,
        session.settings,
        options=maintenance.MaintenanceOptions(
            collect_vectors=not keep_vectors, grace_s=grace * 60, dry_run=dry_run, repair=repair
        ),
        report=partial(lines.report, "maintenance"),
    )
    _show_maintenance(session.screen, report)


@example("""
    knowledge verify
    knowledge verify --sources
    knowledge verify --sources handbook tickets
""")
def verify(
    session: Session,
    source: Annotated[
        list[str] | None, Argument(metavar="[SOURCE]...", help="With --sources: these.  [default: all]")
    ] = None,
    sources: Annotated[
        bool, Option("--sources", help="Compare the index with its sources instead, and mark what differs.")
    ] = False,
) -> int | None:
    """Read the whole store, and compare it with itself, or with its sources.

    Reads every file of the newest version of each table, of those that releases have, and of
    its indexes, and compares what rows say twice: texts with their hashes, the index with
    chunks and vectors.
    Nothing is written. Exits with 1 where something is wrong, and says what mends it.

    With --sources, compares what each source lists with what is indexed, and reads some
    documents again: their texts, chunks and vectors. The next refresh mends what differs.
    """
    if sources:
        return _verify_sources(session, source or ())
    if source:
        raise WrongUsage("SOURCE goes with --sources: without it the whole store is read")
    from knowledge_pipeline.stages import verify as stage

    with show_progress(session.screen) as report:
        findings = stage.verify(session.lake, report("verify"))
    rows = [finding.to_row() for finding in findings]
    session.screen.print_json({"findings": rows})
    session.screen.print_table(rows, right_aligned=("version",))
    if not findings:
        session.screen.print_text("The store is whole.")
    return FAILED if findings else None


def _verify_sources(session: Session, ids: Sequence[str]) -> int | None:
    from knowledge_pipeline.stages.context import RefreshContext
    from knowledge_pipeline.stages.verify_sources import verify_source

    chosen = session.settings.select_sources(ids, or_types=True)
    sources = [source for source in chosen if ids or source.type != "push"]  # nobody else has what was pushed
    results = [verify_source(RefreshContext(session.lake, session.settings, source)) for source in sources]
    session.screen.print_text("\n".join(result.describe() for result in results))
    differences = [row for result in results for row in result.to_rows()]
    told = [
        {"source": it.source, "problem": it.problem, **it.counts, "differences": it.differences}
        for it in results
    ]
    session.screen.print_json({"sources": told})
    session.screen.print_table(differences)
    if differences:
        session.screen.print_text("`knowledge refresh` mends what differs.")
    return FAILED if differences or any(result.problem for result in results) else None


@example("""
    knowledge migrate --dry-run
    knowledge migrate
    knowledge migrate --undo
    knowledge migrate --commit
""")
def migrate(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be migrated.")] = False,
    undo: Annotated[bool, Option("--undo", help="Return to the store from before the migration.")] = False,
    commit: Annotated[
        bool, Option("--commit", help="Keep the migrated store, and nothing of the one from before.")
    ] = False,
) -> None:
    """Bring a store that an earlier version wrote up to date, in place.

    Keeps archived documents, vectors, logs, tokens and every release, and embeds nothing
    again. The command can be stopped at any moment, and completes when it is started
    again. Until --commit, --undo returns to the store from before: what was refreshed
    since is dropped there, and what was logged since stays. Stop servers and refreshes
    meanwhile, and back the store up before --commit.
    """
    from knowledge_pipeline.store import migrate

    if dry_run + undo + commit > 1:
        raise WrongUsage("give one of --dry-run, --undo and --commit, or none")
    lake, screen = session.lake, session.screen

    def report(name: str) -> None:
        if screen.verbose:
            screen.print_note(name)

    if undo:
        tables = migrate.undo_migration(lake, report=report)
        screen.print_json({"tables": list(tables)})
        screen.print_text(
            f"{format_count(len(tables), 'table')} from before the migration again: "
            "use the program that wrote them, or `knowledge migrate`."
        )
    elif commit:
        tables = migrate.commit_migration(lake)
        screen.print_json({"tables": list(tables)})
        screen.print_text(
            f"The migration of {format_count(len(tables), 'table')} is final: "
            "`knowledge maintain` deletes the versions from before."
            if tables
            else "There is no migration to commit."
        )
    else:
        versions = migrate.read_versions(lake)
        tables = () if dry_run else migrate.migrate(lake, report=report)
        _show_migration(screen, versions, tables, dry_run=dry_run)


@example("""
    knowledge purge --source flask-docs --archived
    knowledge purge --source flask-docs --uri docs/secret.md --yes
    knowledge purge --source flask-docs --yes
    knowledge purge --check 3f2a9c81d0b4
""")
def purge(
    session: Session,
    source: Annotated[str | None, Option("--source", "-s", metavar="ID", help="The source.")] = None,
    uri: Annotated[str | None, Option(metavar="URI", help="Only this document.")] = None,
    archived: Annotated[
        bool, Option("--archived", help="Only documents that the source no longer has.")
    ] = False,
    check: Annotated[
        str | None, Option(metavar="RECEIPT", help="Look again whether what a purge erased is gone.")
    ] = None,
    yes: Yes = False,
) -> int | None:
    """Erase content permanently.

    Erases documents, vectors, index rows, old versions and all earlier releases, and what
    logs and SQL models say of them. A receipt says where each was, and can be checked later. The
    source stays in knowledge.yaml: the next refresh reads its documents again, unless
    they are excluded there. What is live is the last release without what was erased:
    what was indexed since waits for the next refresh, and for its checks.
    """
    from knowledge_pipeline.receipts import purge_with_receipt

    if check is not None:
        return _check_receipt(session, check)
    if source is None:
        raise WrongUsage("give --source, or --check")
    if uri is not None and archived:
        raise WrongUsage("give --uri or --archived, not both")
    which = f"the document {uri!r}" if uri else "all archived documents" if archived else "everything"
    if not confirm(session, f"Erase {which} of source {source!r}, and all earlier releases?", yes=yes):
        return FAILED
    scope = "document" if uri is not None else "archived" if archived else "source"
    receipt = purge_with_receipt(session.lake, session.settings, source, scope=scope, uri=uri)
    screen = session.screen
    screen.print_json(receipt.as_json())
    rows = [
        {name: value or "by the next `knowledge publish`" for name, value in asdict(it).items()}
        for it in receipt.places
    ]
    screen.print_table(rows, right_aligned=("rows", "versions"))
    screen.print_text(f"Erased {format_count(receipt.documents, 'document')} of {source}.")
    if receipt.releases:
        screen.print_text(f"Releases that held it: {', '.join(map(str, receipt.releases))}.")
    for sentence in receipt.out_of_reach:
        screen.print_note(f"out of reach: {sentence}")
    screen.print_text(f"Receipt {receipt.receipt}: `knowledge purge --check {receipt.receipt}` looks again.")
    return None


def _check_receipt(session: Session, id: str) -> int | None:
    from knowledge_pipeline.receipts import check_receipt

    receipt, places, problems = check_receipt(session.lake, id)
    found = {it.place: it for it in places}
    names = dict.fromkeys([*(it.place for it in receipt.places), *found])
    rows = [{"place": name, "rows_found": found[name].rows if name in found else 0} for name in names]
    session.screen.print_json({"receipt": receipt.as_json(), "found": [asdict(it) for it in places]})
    session.screen.print_table(rows, right_aligned=("rows_found",))
    for problem in problems:
        session.screen.print_note(f"not looked into: {problem}")
    what = f"what was erased of {receipt.source} on {receipt.at}"
    session.screen.print_text(f"Found again: {what}." if places else f"Still gone: {what}.")
    return FAILED if places else None


_ACTION_LABELS: dict[Action, str] = {
    "repairs": "damage repaired: run `knowledge refresh`",
    "vectors": "unused vectors collected",
    "compaction": "fragments merged",
    "indexes": "indexes brought up to date",
    "releases": "old releases removed",
    "versions": "old versions removed",
    "logs": "old log entries deleted",
    "leftovers": "leftovers removed",
}


def _show_maintenance(screen: Screen, maintained: MaintenanceReport) -> None:
    screen.print_json(maintained.as_metadata())
    rows = [
        {
            "what": _ACTION_LABELS[result.action],
            "tables": result.touched_count,
            "removed": result.removed or None,
            "before": format_size(result.bytes_before),
            "after": format_size(result.bytes_after),
            "seconds": result.seconds,
        }
        for result in maintained.actions.values()
    ]
    screen.print_table(rows, right_aligned=("tables", "removed", "before", "after", "seconds"))
    if screen.verbose or maintained.dry_run:
        for result in maintained.actions.values():
            for path in result.touched:
                screen.print_text(f"{result.action}: {path}")
    for subject, reason in maintained.skipped.items():
        screen.print_text(f"{subject}: skipped: {reason}")
    if maintained.release:
        screen.print_text(f"Release {maintained.release.release} is live: the same rows, in fewer fragments.")
    checked = f"{format_count(maintained.sources, 'source')} checked in {maintained.seconds:.1f} s"
    if not maintained.has_changes:
        summary = f"Nothing to do: {checked}."
    elif maintained.dry_run:
        summary = f"Dry run, nothing was changed: {checked}."
    elif maintained.freed_bytes >= 0:
        summary = f"{format_size(maintained.freed_bytes)} freed: {checked}."
    else:
        summary = (
            f"{format_size(-maintained.freed_bytes)} more for now: rewritten tables keep their old version "
            f"until the next maintenance; {checked}."
        )
    screen.print_text(summary)


_STATES: dict[MigrationState, str] = {
    "current": "The store is of the present schema: there is nothing to migrate.",
    "older": "An earlier version wrote the store: `knowledge migrate` brings it up to date.",
    "half": "A migration was interrupted: `knowledge migrate` completes it, `--undo` takes it back.",
    "migrated": "The store is migrated. `knowledge migrate --commit` makes it final, `--undo` takes it back.",
}


def _show_migration(screen: Screen, before: StoreVersions, tables: Sequence[str], *, dry_run: bool) -> None:
    if dry_run:
        older = [table for table in before.tables if table.needs_migration]
        rows = [{"table": table.name, "schema": table.version, "rows": table.count_rows()} for table in older]
        screen.print_json({"state": before.state, "tables": rows})
        screen.print_table(rows, right_aligned=("schema", "rows"))
        screen.print_text(_STATES[before.state])
        return
    screen.print_json({"from": before.oldest, "tables": list(tables)})
    if not tables:
        screen.print_text(_STATES["migrated" if before.state == "migrated" else "current"])
        return
    screen.print_text(
        f"Migrated {format_count(len(tables), 'table')} from schema version {before.oldest}.\n"
        "Try it: `knowledge search`, `knowledge refresh`. `knowledge migrate --undo` takes it back, "
        "`--commit` makes it final."
    )
