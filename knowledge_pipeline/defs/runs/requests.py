"""Requests of runs, as sensors and schedules make them: which sources, why, and how it is tagged."""

import os
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.defs.runs.refresh_steps import RefreshConfig
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.store.tables import split_batches

_DEFAULT_SOURCES_PER_RUN = 100  # unless KNOWLEDGE_SOURCES_PER_RUN says otherwise

_MAX_TAGGED_SOURCES = 25  # more tags than these make the page of a run unreadable


def read_sources_per_run() -> int:
    """At most how many sources share a run: 100, or `KNOWLEDGE_SOURCES_PER_RUN`.

    An unchanged source costs some 0.2 s and the start of a run 5 to 10 s, so that a hundred share one
    start; a run that was killed repeats a hundred listings at most, and four such runs go side by side.
    A run is also what a worker takes: where several machines share the work, it is less.

    Raises:
        ConfigError: the variable is no whole number above 0.
    """
    found = os.environ.get("KNOWLEDGE_SOURCES_PER_RUN") or str(_DEFAULT_SOURCES_PER_RUN)
    if not found.isdecimal() or int(found) < 1:
        raise ConfigError("KNOWLEDGE_SOURCES_PER_RUN must be a whole number above 0: correct it or unset it")
    return int(found)


def build_refresh_requests(
    sources: Sequence[SourceConfig],
    *,
    trigger: str,
    run_key: str | None = None,
    refresh_config: RefreshConfig | None = None,
    tags: Mapping[str, str] | None = None,
) -> Iterator[dg.RunRequest]:
    """Requests of the job `refresh` for some sources, at most `sources_per_run()` in each.

    Args:
        sources: in the order in which they shall be refreshed.
        trigger: why: "commit", "files", "daily", "added", ...; shown as a tag.
        run_key: what it is for; asked for again, no run is started. Numbered from the second run on.
        how: by default an ordinary refresh.
        tags: further ones.
    """
    refresh_config = refresh_config or RefreshConfig()
    for number, ids in enumerate(
        split_batches((source.id for source in sources), read_sources_per_run()), start=1
    ):
        key = run_key if number == 1 or run_key is None else f"{run_key} {number}"
        yield dg.RunRequest(
            run_key=key,
            job_name="refresh",
            run_config={
                "ops": {"refresh_sources": {"config": {"sources": ids, **refresh_config.model_dump()}}}
            },
            tags={"knowledge/trigger": trigger, **build_source_tags(ids), **(tags or {})},
        )


def build_purge_request(ids: Sequence[str], *, run_key: str | None = None) -> dg.RunRequest:
    """A request of the job `purge`: erase all that is stored of sources that are no longer configured."""
    return dg.RunRequest(
        run_key=run_key,
        job_name="purge",
        run_config={"ops": {"purge_sources": {"config": {"sources": list(ids)}}}},
        tags={"knowledge/trigger": "removed", **build_source_tags(ids)},
    )


def build_source_tags(ids: Sequence[str]) -> dict[str, str]:
    """Tags by which the runs of one source are found: `source/<id>`; only a number where they are many."""
    shown = {f"source/{id_[:63]}": "yes" for id_ in ids[:_MAX_TAGGED_SOURCES]}
    return shown if len(ids) <= _MAX_TAGGED_SOURCES else {"knowledge/sources": str(len(ids))}
