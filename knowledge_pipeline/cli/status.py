"""`status`: what is live, what is stored of each source, and how much space it takes."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knowledge_pipeline import __version__
from knowledge_pipeline.cli.screen import format_count, format_size, format_time, one_line
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.records import FAILED_STAGE
from knowledge_pipeline.text import format_share, truncate

if TYPE_CHECKING:
    from knowledge_pipeline.cli.screen import Screen
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.store.lake import Lake
    from knowledge_pipeline.store.release import Release


@example("""
    knowledge status
    knowledge status --detailed
    knowledge status --brief
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
    brief: Annotated[
        bool, Option("--brief", help="Say in few words what is indexed, and what to ask for: for agents.")
    ] = False,
) -> None:
    """Show what is live and what is stored of every source."""
    from knowledge_pipeline.store.local_state import CountsCache, has_waiting_rows

    settings = session.settings
    sources = {source.id: source.type for source in settings.sources}
    cache = CountsCache(settings.store, sources=sources, version=__version__)
    is_federation = bool(settings.federation.stores)
    has_failed = has_waiting_rows(session.lake.folder, "refreshes", stage=FAILED_STAGE)
    counts: dict[str, Any] | None = None if detailed or is_federation or has_failed else cache.recall()
    if is_federation:
        counts = _count_federation(session, detailed=detailed)
    elif counts is None:
        from knowledge_pipeline.store.release import find_live_release

        release = find_live_release(session.lake)
        summary = _summarize(session.lake, settings, detailed=detailed)
        states = {"states": _list_states(session)} if detailed else {}
        counts = {"release": _describe(release) if release else None, **summary, **states}
        if not (detailed or counts["failures"]):
            cache.keep(counts)
    report = {"config": str(session.config_path), "store": str(settings.store), **counts}
    if not is_federation:  # each store of one has its own
        report["events"] = _list_events(session, {row["source"] for row in counts["sources"]})
    if settings.organisations:
        from knowledge_pipeline.cli.sources import list_organisations

        report["organisations"] = list_organisations(settings)
    if brief:
        _show_brief(session.screen, report)
    else:
        _show_status(session.screen, report, detailed=detailed)


_OF_CALLERS = ("about", "others_read")  # of an event: what a server's callers may read of its error


def _list_events(session: Session, sources: Container[str]) -> list[dict[str, Any]]:
    from knowledge_pipeline.serve.refresh_history import list_last_events

    try:
        events = list_last_events(session.lake.folder)
    except StoreUnavailable as error:
        session.screen.print_note(f"Events of services are not shown: {error}")
        return []
    own = [event for event in events if event["source"] in sources]
    return [{name: event[name] for name in event if name not in _OF_CALLERS} for event in own]


def _count_federation(session: Session, *, detailed: bool) -> dict[str, Any]:
    from knowledge_pipeline.extensions.federation import MemberStores, unite_releases
    from knowledge_pipeline.store.release import find_live_release

    stores = MemberStores.open(session.settings.federation.stores)
    for name, problem in stores.problems.items():
        session.screen.print_note(f"the store {name!r} is left out: {problem}")
    releases = {store.name: find_live_release(store.lake) for store in stores.opened}
    live = {name: release for name, release in releases.items() if release}
    summaries = [_summarize(store.lake, store.settings, detailed=detailed) for store in stores.opened]
    sources: list[dict[str, Any]] = []
    for store, summary in zip(stores.opened, summaries, strict=True):
        sources += [{**row, "store": store.name} for row in summary["sources"]]
    release = _describe(unite_releases(live)) if live else None
    failures = [row for summary in summaries for row in summary["failures"]]
    counts: dict[str, Any] = {"release": release, "sources": sources, "failures": failures}
    if detailed:
        for table in ("spaces", "code_graph"):
            counts[table] = [row for summary in summaries for row in summary[table]]
        counts["disk_bytes"] = sum(summary["disk_bytes"] for summary in summaries)
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


def _summarize(lake: Lake, settings: Settings, *, detailed: bool) -> dict[str, Any]:
    from knowledge_pipeline.stages import store_summary
    from knowledge_pipeline.store.lance_storage import compute_size

    sources = store_summary.summarize_sources(lake, settings, detailed=detailed)
    summary = {"sources": sources, "failures": store_summary.list_failures(lake)}
    if not detailed:
        return summary
    return {
        **summary,
        "spaces": store_summary.summarize_spaces(lake),
        "code_graph": store_summary.summarize_code_graph(lake),
        "disk_bytes": compute_size(lake.root),
    }


def _list_states(session: Session) -> list[dict[str, Any]]:
    """Whether each source is stale, and why; those that are come first."""
    from knowledge_pipeline.cli.sql import load_configured_sources
    from knowledge_pipeline.config.settings import build_run_url
    from knowledge_pipeline.sql_models.configured_sources import load_source_states

    states = load_source_states(session.lake, load_configured_sources(session))
    names = ("source", "state", "reason", "age_hours", "trigger", "skipped", "cost", "last_run")
    return [
        {name: row[name] for name in names}
        | {"last_run_url": build_run_url(row["last_run"]) if row["last_run"] else None}
        for row in states.values()
    ]


def _show_status(screen: Screen, report: dict[str, Any], *, detailed: bool) -> None:
    screen.print_json(report)
    release, sources = report["release"], report["sources"]
    if release:
        created = format_time(release["created"])
        share = release["embedded_share"]
        embedded = f", {format_share(share)} of them embedded so far" if share < 1 else ""
        screen.print_text(
            f"Release {release['release']} of {created} is live: {release['rows']:,} rows{embedded}."
        )
        if pin := release["pin"]:
            screen.print_text(f"R{pin[1:]}: refreshes publish nothing until `knowledge releases --unpin`.")
    elif sources:
        screen.print_text("Nothing is released yet: run `knowledge index`.")
    screen.print_text(f"Configuration {report['config']}, store {report['store']}")
    organisations = report.get("organisations", ())
    screen.print_table(list(organisations), right_aligned=("members", "listed"))
    if not sources and not organisations:
        screen.print_text("No source is declared: run `knowledge index --repo PATH_OR_URL`.")
    numbers = ("documents", "archived", "skipped", "chunks", "rows", "embedded", "versions", "disk")
    screen.print_table([_format_row(row) for row in sources], right_aligned=numbers)
    for row in sources:
        for note, count in row["left_out"].items():
            screen.print_text(f"{row['source']}: not read: {count:,} {one_line(note)}.")
    screen.print_table([_format_event(row) for row in report.get("events", ())])
    for row in report["failures"]:
        since = format_time(row["since"])
        screen.print_text(f"{row['source']}: failed since {since}: {truncate(one_line(row['problem']), 300)}")
    if not detailed:
        return
    for table in ("spaces", "code_graph"):
        numbers = ("rows", "unindexed", "versions", "disk")
        screen.print_table([_format_row(row) for row in report[table]], right_aligned=numbers)
    # those of a federation are in its stores
    states = [{**row, "cost": f"{row['cost']:.2f}"} for row in report.get("states", ())]
    for row in states:  # the run as its page, where the address of Dagster is known
        row["last_run"] = row.pop("last_run_url") or row["last_run"]
    screen.print_table(states, right_aligned=("age_hours", "skipped", "cost"))
    for row in sources:
        for reason, count in list(row["skipped_reasons"].items())[:5]:
            screen.print_text(f"{row['source']}: skipped {count:,}: {truncate(one_line(reason), 200)}")
    screen.print_text(f"The store takes {format_size(report['disk_bytes'])}.")


_MAX_BRIEF_SOURCES = 20


def _show_brief(screen: Screen, report: dict[str, Any]) -> None:
    from knowledge_pipeline.cli.mcp_install import GUIDE, SERVER_NAME

    screen.print_json(report)
    release, sources = report["release"], report["sources"]
    if not release:
        screen.print_text("The knowledge base has no release yet: run `knowledge index`.")
        return
    created = format_time(release["created"])
    screen.print_text(
        f"Knowledge base (MCP server `{SERVER_NAME}`), {release['rows']:,} chunks of {created}:"
    )
    failed = {row["source"]: format_time(row["since"]) for row in report["failures"]}
    for row in sources[:_MAX_BRIEF_SOURCES]:
        state = f"changed {format_time(row['last_change'])}" if row["last_change"] else "not read yet"
        if since := failed.get(row["source"]):
            state += f", failing since {since}"
        screen.print_text(
            f"- {row['source']}: {row['type']}, {format_count(row['documents'], 'document')}, {state}"
        )
    if len(sources) > _MAX_BRIEF_SOURCES:
        screen.print_text(f"- {len(sources) - _MAX_BRIEF_SOURCES} more sources: `list_sources`")
    screen.print_text(f"Ask it before grep:\n{GUIDE.rstrip()}")


_NO_CELLS = ("skipped_reasons", "disk_bytes", "left_out")


def _format_row(row: dict[str, Any]) -> dict[str, Any]:
    cells = {name: value for name, value in row.items() if name not in _NO_CELLS}
    if "last_change" in cells:
        cells["last_change"] = format_time(cells["last_change"])
    return cells | ({"disk": format_size(row["disk_bytes"])} if "disk_bytes" in row else {})


def _format_event(row: dict[str, Any]) -> dict[str, Any]:
    state = "taken in" if row["state"] == "done" else row["state"]
    outcome = f"{state}: {truncate(one_line(row['error']), 200)}" if row["error"] else state
    return {
        **{"source": row["source"], "last_event": format_time(row["at"])},
        **{"service": row["service"], "kind": row["kind"], "outcome": outcome},
    }
