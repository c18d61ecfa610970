"""`status`: what is live, what is stored of each source, and how much space it takes."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knowledge_pipeline import __version__
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import StoreUnavailable

if TYPE_CHECKING:
    from knowledge_pipeline.store.release import Release


@example("""
    knowledge status
    knowledge status --detailed
""")
def status(
    session: Session,
    detailed: Annotated[
        bool,
        Option(
            "--detailed",
            help="Also show what is stale and why, disk use, versions, spaces, reasons of skips.",
        ),
    ] = False,
) -> None:
    """Show what is live and what is stored of every source."""
    from knowledge_pipeline.cli.render.status import show_status
    from knowledge_pipeline.store.counts_cache import CountsCache

    settings = session.settings_without_secrets
    sources = {source.id: source.type for source in settings.sources}
    cache = CountsCache(settings.store, sources=sources, version=__version__)
    is_federation = bool(settings.federation.stores)
    counts = None if detailed or is_federation else cache.recall()
    if is_federation:
        counts = _count_federation(session, detailed=detailed)
    elif counts is None:
        counts = _count(session, detailed=detailed)
        if not detailed:
            cache.keep(counts)
    found = {"config": str(session.config_path), "store": str(settings.store), **counts}
    if not is_federation:  # each store of one has its own
        found["events"] = _list_events(session, {row["source"] for row in counts["sources"]})
    if settings.organisations:
        from knowledge_pipeline.cli.sources.organisations import list_organisations

        found["organisations"] = list_organisations(settings)
    show_status(session.screen, found, detailed=detailed)


def _list_events(session: Session, sources: Container[str]) -> list[dict[str, Any]]:
    """The last event of each source that has had one."""
    from knowledge_pipeline.serve.last_events import list_last_events

    try:
        events = list_last_events(session.lake.folder / "refreshes")
    except StoreUnavailable as error:
        session.screen.print_note(f"Events of services are not shown: {error}")
        return []
    return [each for each in events if each["source"] in sources]


def _count_federation(session: Session, *, detailed: bool) -> dict[str, Any]:
    """The stores of a federation as one, each source with its store."""
    from knowledge_pipeline.query.federation.index import unite_releases
    from knowledge_pipeline.query.federation.stores import MemberStores
    from knowledge_pipeline.stages.store_summary import (
        summarize_code_graph,
        summarize_sources,
        summarize_spaces,
    )
    from knowledge_pipeline.store.lance_storage import compute_size
    from knowledge_pipeline.store.release import find_live_release

    stores = MemberStores.open(session.settings_without_secrets.federation.stores)
    for name, problem in stores.problems.items():
        session.screen.print_note(f"the store {name!r} is left out: {problem}")
    found = {each.name: find_live_release(each.lake) for each in stores.opened}
    live = {name: release for name, release in found.items() if release}
    sources = [
        {**row, "store": each.name}
        for each in stores.opened
        for row in summarize_sources(each.lake, each.settings, detailed=detailed)
    ]
    counts: dict[str, Any] = {
        "release": _describe(unite_releases(live)) if live else None,
        "sources": sources,
    }
    if detailed:
        counts["spaces"] = [row for each in stores.opened for row in summarize_spaces(each.lake)]
        counts["code_graph"] = [row for each in stores.opened for row in summarize_code_graph(each.lake)]
        counts["disk_bytes"] = sum(compute_size(each.lake.root) for each in stores.opened)
    return counts


def _describe(release: Release) -> dict[str, Any]:
    return {
        "release": release.release,
        "created": release.created_at.isoformat(timespec="seconds"),
        "rows": release.rows,
        "embedded_share": round(release.embedded_share, 4),
        "restores": release.restores,
        "pin": release.pin,
        "pinned_since": release.pinned_since and release.pinned_since.isoformat(timespec="seconds"),
    }


def _count(session: Session, *, detailed: bool) -> dict[str, Any]:
    from knowledge_pipeline.stages.store_summary import (
        summarize_code_graph,
        summarize_sources,
        summarize_spaces,
    )
    from knowledge_pipeline.store.lance_storage import compute_size
    from knowledge_pipeline.store.release import find_live_release

    lake, settings = session.lake, session.settings_without_secrets
    release = find_live_release(lake)
    counts: dict[str, Any] = {
        "release": _describe(release) if release else None,
        "sources": summarize_sources(lake, settings, detailed=detailed),
    }
    if detailed:
        counts["spaces"] = summarize_spaces(lake)
        counts["code_graph"] = summarize_code_graph(lake)
        counts["disk_bytes"] = compute_size(lake.root)
        counts["states"] = _list_states(session)
    return counts


def _list_states(session: Session) -> list[dict[str, Any]]:
    """Whether each source is stale, and why; those that are come first."""
    from knowledge_pipeline.cli.commands.sql import load_configured_sources
    from knowledge_pipeline.config.dagster_url import build_run_url
    from knowledge_pipeline.sql_models.configured_sources import load_source_states

    states = load_source_states(session.lake, load_configured_sources(session))
    names = ("source", "state", "reason", "age_hours", "trigger", "skipped", "cost", "last_run")
    return [
        {name: row[name] for name in names}
        | {"last_run_url": build_run_url(row["last_run"]) if row["last_run"] else None}
        for row in states.values()
    ]
