"""A project as `dagster dev` would load it: a `knowledge.yaml`, folders to read, an instance."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.defs_state.base import DefsStateStorage
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from sqlalchemy import Engine, create_engine

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.assets import (
    build_release_asset,
    build_release_job,
    build_stage_assets,
    stage_asset_keys,
)
from knowledge_pipeline.defs.checks import RELEASABLE
from knowledge_pipeline.defs.dagster_internals import AssetJob
from knowledge_pipeline.defs.evaluation import QUALITY_CHECK, build_evaluation_asset, list_evaluation_keys
from knowledge_pipeline.defs.event_log import PIN_CHECK, RELEASE
from knowledge_pipeline.defs.jobs import build_source_jobs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.settings_assets import (
    build_sources_asset,
    list_source_types,
    settings_partitions,
    source_partitions,
)
from knowledge_pipeline.defs.sql_models import build_model_assets
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.storage import ON_POSTGRES

EMBEDDING = """\
embedding:
  provider: openai
  model: hashed-words
  base_url: {url}
  api_key: ${{TEST_EMBEDDING_KEY}}
  dimensions: {dimensions}
  max_tries: 1
"""


def materializing(type_: SourceType, settings: Settings) -> AssetJob:
    """What *Materialize* launches for the assets of a type and the release, without the informing checks."""
    keys, evaluation = stage_asset_keys(type_), list_evaluation_keys(settings)
    assets = dg.AssetSelection.assets(*keys.values(), *evaluation, dg.AssetKey(RELEASE)).without_checks()
    guards = [
        dg.AssetCheckKey(keys["index"], RELEASABLE),
        dg.AssetCheckKey(dg.AssetKey(RELEASE), PIN_CHECK),
        *(dg.AssetCheckKey(key, QUALITY_CHECK) for key in evaluation),
    ]
    return dg.define_asset_job(f"refresh_{type_}", assets | dg.AssetSelection.checks(*guards))


class Workplace:
    """A `knowledge.yaml` that a test writes as a user would, and the definitions it gives."""

    def __init__(self, root: Path, embedding: str) -> None:
        self.root = root
        self.path = root / "knowledge.yaml"
        self.embedding = embedding
        self._sources: dict[str, tuple[str, Path]] = {}
        self._write()

    def _write(self) -> None:
        lines = [
            f"  - {{id: {id_}, type: {type_}, connection: {{type: local, path: '{folder}'}}}}"
            for id_, (type_, folder) in self._sources.items()
        ]
        listed = "\n".join(["sources:", *lines]) if lines else ""
        self.path.write_text(f"version: 1\nstore: store\n{self.embedding}{listed}\n")

    def declare(self, id_: str, type_: str = "code", **files: str) -> Path:
        """Add a source over a folder with some files; `a_py` is `a.py`. Without files there is no folder."""
        folder = self.root / "folders" / id_
        for name, text in files.items():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name.replace("_", ".")).write_text(text)
        self._sources[id_] = (type_, folder)
        self._write()
        return folder

    def forget(self, id_: str) -> None:
        """Remove a source from the file."""
        del self._sources[id_]
        self._write()

    @property
    def settings(self) -> Settings:
        return load_settings(self.path)

    @property
    def lake(self) -> Lake:
        return Lake(self.settings.store)

    @property
    def resource(self) -> ProjectResource:
        return ProjectResource(config_path=str(self.path), max_retries=2, retry_delay_s=0.0)

    def definitions(self) -> dg.Definitions:
        """Those of `definitions.py`, of this project."""
        settings = self.settings
        types = list_source_types(settings)
        return dg.Definitions(
            assets=[
                build_sources_asset(),
                *(build_stage_assets(type_, settings) for type_ in types),
                *([build_evaluation_asset(types)] if settings.evaluation.questions else []),
                build_release_asset(types, settings),
                build_model_assets(types, settings),
            ],
            jobs=[
                *build_source_jobs(),
                build_release_job(settings),
                *(materializing(type_, settings) for type_ in types),
            ],
            resources={"project": self.resource},
            executor=dg.in_process_executor,
        )

    def run(
        self, instance: dg.DagsterInstance, job: str, source: str | None = None, **rest: Any
    ) -> dg.ExecuteInProcessResult:
        """Run a job in this process, for one partition if one is named."""
        self.add_partitions(instance)
        definition = self.definitions().resolve_job_def(job)
        return definition.execute_in_process(
            instance=instance, partition_key=source, raise_on_error=False, **rest
        )

    def run_range(
        self, instance: dg.DagsterInstance, job: str, first: str, last: str
    ) -> dg.ExecuteInProcessResult:
        """Run a job for a range of partitions, as a backfill does."""
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return self.run(instance, job, tags=tags)

    def add_partitions(self, instance: dg.DagsterInstance) -> None:
        """What the sensor does."""
        for source in self.settings.sources:
            for partitions in (source_partitions(source.type), settings_partitions()):
                instance.add_dynamic_partitions(str(partitions.name), [source.id])


@pytest.fixture(scope="session", autouse=True)
def read_migrations_once() -> Iterator[None]:
    """Let Dagster read its ninety migrations once, not for each database, which needs none of them.

    A new instance takes a fifth of the time.
    """
    read, known = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def read_once(config: Config) -> ScriptDirectory:
        location = config.get_main_option("script_location")
        if location not in known:
            known[location] = read(config)
        return known[location]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", read_once)
        yield


@pytest.fixture(autouse=True)
def keep_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Dagster open each SQLite database by one engine in a test, not by a new one for each statement.

    A new one compiles its statement anew, which was a third of a run. Connections are none's but theirs
    who open them, as before.
    """
    engines = dict[str, Engine]()

    def create_once(url: str, **options: Any) -> Engine:
        if url not in engines:
            engines[url] = create_engine(url, **options)
        return engines[url]

    for module in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
        monkeypatch.setattr(module, "create_engine", create_once)


@pytest.fixture(autouse=True)
def no_instance_of_a_test_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster asks the instance that was entered last for the state of definitions, of which we have none.

    Where an iterator over a run is left, the garbage collector decides when its instance is left, and
    which one is asked then may be gone.
    """
    monkeypatch.setattr(DefsStateStorage, "get", classmethod(lambda cls: None))


@pytest.fixture
def workplace(tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A project without sources."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    settings = EMBEDDING.format(url=embedding_server.url, dimensions=embedding_server.dimensions)
    (tmp_path / "project").mkdir()
    return Workplace(tmp_path / "project", settings)


@pytest.fixture
def instance(request: pytest.FixtureRequest) -> Iterator[dg.DagsterInstance]:
    """An instance with an empty history: in memory, or in the storage under test."""
    if not ON_POSTGRES:
        with dg.DagsterInstance.ephemeral() as ephemeral:
            yield ephemeral
    else:
        storage = yaml.safe_load(request.getfixturevalue("dagster_yaml").read_text())["storage"]
        with dg.instance_for_test({"storage": storage}) as instance:
            yield instance


def errors(result: dg.ExecuteInProcessResult) -> Sequence[str]:
    """What failed steps say to a user."""
    return [
        event.step_failure_data.user_failure_data.description or ""
        for event in result.get_step_failure_events()
        if event.step_failure_data.user_failure_data
    ]
