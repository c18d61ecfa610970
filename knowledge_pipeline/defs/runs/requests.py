"""Run requests of sensors and schedules: which sources, why, and with which tags."""

import os
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.context import ORDINARY_REFRESH, RefreshOptions
from knowledge_pipeline.store.tables import split_batches

_MAX_TAGGED_SOURCES = 25  # more tags than these make the page of a run unreadable


def read_sources_per_run() -> int:
    """The most sources that share a run: 100, or `KNOWLEDGE_SOURCES_PER_RUN`.

    An unchanged source costs about 0.2 s and the start of a run 5 to 10 s, so a hundred share one start.
    A killed run repeats at most a hundred listings. A worker takes a whole run: set a smaller number where
    several machines share the work.

    Raises:
        ConfigError: the variable is not a whole number above 0.
    """
    value = os.environ.get("KNOWLEDGE_SOURCES_PER_RUN") or "100"
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError("KNOWLEDGE_SOURCES_PER_RUN must be a whole number above 0: correct it or unset it")
    return int(value)


def build_refresh_requests(
    sources: Sequence[SourceConfig],
    names: Names = PLAIN,
    *,
    trigger: str,  # why: "commit", "files", "daily", "added", ...; shown as a tag
    run_key: str | None = None,
    options: RefreshOptions = ORDINARY_REFRESH,
    tags: Mapping[str, str] | None = None,
) -> Iterator[dg.RunRequest]:
    """Requests of the job `refresh` for some sources, at most `read_sources_per_run()` in each.

    Dagster starts one run for equal `run_key`s, which are numbered from the second run on.
    """
    batches = split_batches((source.id for source in sources), read_sources_per_run())
    for number, ids in enumerate(batches, start=1):
        yield dg.RunRequest(
            run_key=run_key if number == 1 or run_key is None else f"{run_key} {number}",
            job_name=names.definition("refresh"),
            run_config={"ops": {"refresh_sources": {"config": {"sources": ids, **options.as_config()}}}},
            tags={"knowledge/trigger": trigger, **build_source_tags(ids), **(tags or {})},
        )


def build_purge_request(ids: Sequence[str], names: Names = PLAIN) -> dg.RunRequest:
    """A request of the job `purge`: erase everything stored of sources that are no longer configured."""
    return dg.RunRequest(
        job_name=names.definition("purge"),
        run_config={"ops": {"purge_sources": {"config": {"sources": list(ids)}}}},
        tags={"knowledge/trigger": "removed", **build_source_tags(ids)},
    )


def build_source_tags(ids: Sequence[str]) -> dict[str, str]:
    """A tag `source/<id>` for each source, to find its runs by; only their number where they are many."""
    shown = {f"source/{id_[:63]}": "yes" for id_ in ids[:_MAX_TAGGED_SOURCES]}
    return shown if len(ids) <= _MAX_TAGGED_SOURCES else {"knowledge/sources": str(len(ids))}
