"""Refresh sources as recorded runs inside this process: what `knowledge refresh --dagster` and the
jobs over all types do.

Every source is one run of its type's job, so that its page tells its story; nothing is
launched, so that thousands of sources are thousands of runs and still one process.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from knowledge_pipeline.config import Settings, SourceConfig
from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB, refresh_of
from knowledge_pipeline.defs.assets import RELEASE, RefreshConfig, chain, release_of, stage_keys
from knowledge_pipeline.defs.partitions import ids_by_type, sources_of, types_in
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.stages import pipeline

_PROJECT_FILE = Path(__file__).parent.parent.parent / "dagster.yaml"
_SPARSE_LOG: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}


@dataclass(slots=True)
class Recorded:
    """What the runs came to; `release` is a key of its own beside the sources."""

    runs: dict[str, str] = field(default_factory=dict[str, str])  # source -> run id
    failures: dict[str, str] = field(default_factory=dict[str, str])  # source -> one sentence


def materialize(config_path: Path, sources: Iterable[str] = (), how: RefreshConfig | None = None) -> Recorded:
    """Refresh chosen sources, or all, and release what they gave, on the instance of `DAGSTER_HOME`.

    Args:
        config_path: a `knowledge.yaml`; beside it lies `.dagster`, which is used where
            `DAGSTER_HOME` is not set.
        sources: ids; none means all.
        how: by default an ordinary refresh.

    Raises:
        ConfigError: the file is missing or wrong.
        NotFound: no source has such an id.
    """
    project = ProjectResource(config_path=str(config_path.absolute()))
    with local_instance(config_path.absolute().parent / ".dagster") as instance:
        return refresh(project, instance, sources, how or RefreshConfig())


def refresh(
    project: ProjectResource,
    instance: dg.DagsterInstance,
    sources: Iterable[str],
    config: RefreshConfig,
    tags: Mapping[str, str] | None = None,
) -> Recorded:
    """One run for each source, then one for the release; a source that fails does not stop the others."""
    settings = project.settings()
    chosen = pipeline.chosen(settings, sources)
    for source_type, ids in ids_by_type(settings).items():
        instance.add_dynamic_partitions(str(sources_of(source_type).name), ids)
    definitions = _jobs(settings, project)
    recorded = Recorded()
    for source in chosen:
        _record(recorded, source.id, _refresh_one(definitions, instance, source, config, tags))
    release = definitions.resolve_job_def("release")
    result = release.execute_in_process(
        _SPARSE_LOG, instance, raise_on_error=False, asset_selection=[RELEASE], tags=tags
    )
    _record(recorded, "release", result)
    return recorded


def _jobs(settings: Settings, project: ProjectResource) -> dg.Definitions:
    """What a refresh needs of the definitions."""
    types = types_in(settings)
    return dg.Definitions(
        assets=[*(chain(type_) for type_ in types), release_of(types)],
        jobs=[RELEASE_JOB, *(refresh_of(type_) for type_ in types)],
        resources={"project": project},
    )


def _refresh_one(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    source: SourceConfig,
    config: RefreshConfig,
    tags: Mapping[str, str] | None,
) -> dg.ExecuteInProcessResult:
    run_config = {**_SPARSE_LOG, "ops": {source.type: {"config": config.model_dump()}}}
    return definitions.resolve_job_def(f"refresh_{source.type}").execute_in_process(
        run_config,
        instance,
        partition_key=source.id,
        raise_on_error=False,
        asset_selection=list(stage_keys(source.type).values()),
        tags=tags,
    )


def _record(recorded: Recorded, name: str, result: dg.ExecuteInProcessResult) -> None:
    recorded.runs[name] = result.run_id
    for event in result.get_step_failure_events():
        failed = event.step_failure_data
        sentence = failed.user_failure_data.description if failed.user_failure_data else None
        recorded.failures[name] = sentence or (failed.error.message.strip() if failed.error else "failed")
    if not result.success:
        recorded.failures.setdefault(name, f"run {result.run_id} failed before its first step")


@contextmanager
def local_instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    """The instance of `DAGSTER_HOME`, else one in `folder`; both are what `dagster dev` shows there.

    One in `folder` gets the project's `dagster.yaml`, as `make dev` gives it, telemetry off.
    """
    if "DAGSTER_HOME" not in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        if _PROJECT_FILE.exists() and not (folder / _PROJECT_FILE.name).exists():
            shutil.copyfile(_PROJECT_FILE, folder / _PROJECT_FILE.name)
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(folder)))  # our dagster.yaml reads it there
    home.mkdir(parents=True, exist_ok=True)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance
