"""The SQL models as assets with the lineage of their SQL, and the SQL tests as checks.

All run in one step, over one in-memory DuckDB; a model that is selected alone runs with what it reads.
"""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.assets import stage_asset_keys
from knowledge_pipeline.defs.checks import run_step
from knowledge_pipeline.defs.dagster_internals import (
    CODE_REFERENCES,
    COLUMN_LINEAGE,
    COLUMN_SCHEMA,
    INITIAL_VERSION,
    ROW_COUNT,
    AssetJob,
    read_log_end,
    read_partition_versions,
    read_unpartitioned_version,
)
from knowledge_pipeline.defs.define import build_asset_job, sensor
from knowledge_pipeline.defs.evaluation import list_evaluation_keys
from knowledge_pipeline.defs.event_log import RELEASE
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_arrow_table, render_plot
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.settings_assets import list_source_types
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sql_models import run as sql
from knowledge_pipeline.sql_models.configured_sources import build_configured_sources
from knowledge_pipeline.sql_models.files import FOLDER, load_models
from knowledge_pipeline.sql_models.model import Column, Model
from knowledge_pipeline.sql_models.run import ModelRun
from knowledge_pipeline.stages.code_versions import compute_code_versions

_STAGE_OF_RAW_TABLE = {
    "raw_documents": "snapshot",
    "raw_chunks": "chunks",
    "raw_index": "index",
    "raw_symbols": "graph",
    "raw_edges": "graph",
    "raw_refreshes": "index",
    "raw_llm_calls": "embeddings",
}
_RAW_TABLES_WITH_LINEAGE = {"raw_documents", "raw_chunks", "raw_index", "raw_symbols", "raw_releases"}
"""Raw tables that have the columns of their assets."""
_PARTITION_COLUMNS = {"raw_documents": ("source", "source_type"), "raw_chunks": ("source", "source_type")}
_MAX_CELL_CHARS = 200

_UpstreamKeys = Mapping[str, Sequence[dg.AssetKey]]
"""Name of a model or raw table -> its assets."""


def build_models_job(names: Names = PLAIN) -> AssetJob:
    """The job that runs all models and tests."""
    groups = [names.group(f"sql/{layer}") for layer in ("staging", "intermediate", "marts")]
    selection = dg.AssetSelection.groups(*groups)  # pyright: ignore[reportUnknownMemberType]  # it has no types
    return build_asset_job(
        names, "sql_models", "Run all models and tests of dbt_like_sql, and write the marts.", selection
    )


_REST = 9  # times the length of the last run, until the next one


@sensor(job="sql_models", interval_s=60, consequence="no model runs")
def new_input(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Runs the SQL models after the first release and when their input changed, for a tenth of the time."""
    instance, names, types = context.instance, project.names, list_source_types(project.load_settings())
    stages = [key for type_ in types for key in stage_asset_keys(type_, names).values()]
    newest = read_log_end(instance)
    seen, _, former = (context.cursor or "").partition(" ")
    if newest == seen:
        return dg.SkipReason("nothing was refreshed since the last look")
    if (release := read_unpartitioned_version(instance, names.key(RELEASE))) == INITIAL_VERSION:
        return dg.SkipReason("nothing is released yet")
    event = dg.DagsterEventType.ASSET_MATERIALIZATION
    versions = [sorted(read_partition_versions(instance, key, event).items()) for key in stages]
    state = hash_strings(release, *map(str, versions))
    runs = instance.get_run_records(dg.RunsFilter(job_name=names.definition("sql_models")), limit=1)
    for run in runs if state != former else ():
        start_s, end_s = run.start_time or 0.0, run.end_time or 0.0
        if not run.dagster_run.is_finished or time.time() < end_s + _REST * (end_s - start_s):
            return dg.SkipReason("the models are running, or ran just now")
    requests = [dg.RunRequest(tags={"knowledge/trigger": "new input"})] if state != former else []
    return dg.SensorResult(requests, cursor=f"{newest} {state}")


def build_model_assets(
    types: Sequence[SourceType], settings: Settings, names: Names = PLAIN
) -> dg.AssetsDefinition:
    """One step that runs models and tests; each model is an asset, and can run alone."""
    owners, folders = settings.owners, settings.sql_models.folders
    loaded = load_models(own_folders=folders)
    models = {model.name: model for model in loaded if model.layer != "tests"}
    tests = (model for model in loaded if model.layer == "tests")
    checks = {test.name: _build_check_spec(test, models, names) for test in tests}
    keys_by_stage = [stage_asset_keys(type_, names) for type_ in types]
    upstream: _UpstreamKeys = {
        **{
            raw: [keys[stage] for keys in keys_by_stage if stage in keys]
            for raw, stage in _STAGE_OF_RAW_TABLE.items()
        },
        "raw_releases": [names.key(RELEASE)],
        "raw_evaluations": list_evaluation_keys(settings, names),
        **{name: [_asset_key(model, names)] for name, model in models.items()},
    }

    @dg.multi_asset(
        name=names.definition("dbt_like_sql"),  # the job has the name `sql_models`
        description="Runs the models of dbt_like_sql in the order of what they read.",
        specs=[_build_asset_spec(model, upstream, owners, folders, names) for model in models.values()],
        check_specs=list(checks.values()),
        can_subset=True,
    )
    @names.bind
    def dbt_like_sql(
        context: dg.AssetExecutionContext, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        selected = {key.path[-1] for key in context.selected_asset_keys}
        selected |= {key.name for key in context.selected_asset_check_keys}
        with run_step(context, project.retry_policy()):
            sources = build_configured_sources(project.load_settings(), project.path, compute_code_versions)
            failed: list[str] = []
            for run in sql.refresh(project.open_lake(), loaded, selected, sources=sources):
                check = checks.get(run.model.name)
                yield _to_check_result(run, check) if check else _to_materialize_result(run, names)
                if run.has_failed:
                    failed.append(run.describe_failure())
            if failed:  # a check that fails leaves its run green, and nobody is alerted
                raise dg.Failure("; ".join(failed), allow_retries=False)

    return dbt_like_sql


def _asset_key(model: Model, names: Names) -> dg.AssetKey:
    return names.key(model.layer, model.name)


def _build_asset_spec(
    model: Model, upstream: _UpstreamKeys, owners: Sequence[str], folders: Sequence[Path], names: Names
) -> dg.AssetSpec:
    grain = f"\n\n{model.grain[0].upper()}{model.grain[1:]}." if model.grain else ""
    return dg.AssetSpec(
        _asset_key(model, names),
        deps=list(dict.fromkeys(key for read in model.reads for key in upstream.get(read, ()))),
        group_name=names.group(f"sql/{model.layer}"),
        description=f"{model.about}{grain}\n\n```sql\n{model.sql}\n```",
        kinds={"duckdb", "sql", *(["parquet"] if model.layer == "marts" else [])},
        owners=list(owners),
        code_version=hash_strings(model.sql)[:8],
        tags={"knowledge/layer": model.layer},
        metadata=_build_metadata(model, upstream, folders),
    )


def _build_metadata(model: Model, upstream: _UpstreamKeys, folders: Sequence[Path]) -> dict[str, Any]:
    columns: list[dg.TableColumn] = []
    for name, column in model.columns.items():
        origins = ", ".join(f"{table}.{origin}" for table, origin in column.origins)
        # The open-source UI shows the origins nowhere else.
        about = " ".join(part for part in (column.comment, origins and f"← {origins}") if part)
        columns.append(dg.TableColumn(name, column.type.lower(), about or None))
    deps = {name: _list_column_deps(column, upstream) for name, column in model.columns.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        folder = next((own for own in folders if (own / model.file).is_file()), FOLDER)
        path, label = str(folder / model.file), f"{folder.name}/{model.file}"
        file = dg.LocalFileCodeReference(file_path=path, line_number=1, label=label)
        references = dg.CodeReferencesMetadataValue(code_references=[file])
    return {
        COLUMN_SCHEMA: dg.TableSchema(columns),
        COLUMN_LINEAGE: dg.TableColumnLineage({name: d for name, d in deps.items() if d}),
        CODE_REFERENCES: references,
    }


def _list_column_deps(column: Column, upstream: _UpstreamKeys) -> list[dg.TableColumnDep]:
    """Columns of assets; a log has an asset that writes it, but other columns than that asset."""
    return [
        dg.TableColumnDep(asset_key=key, column_name=name)
        for table, name in column.origins
        if (not table.startswith("raw_") or table in _RAW_TABLES_WITH_LINEAGE)
        and name not in _PARTITION_COLUMNS.get(table, ())
        for key in upstream.get(table, ())
    ]


def _build_check_spec(test: Model, models: Mapping[str, Model], names: Names) -> dg.AssetCheckSpec:
    keys = dict.fromkeys(_asset_key(models[read], names) for read in test.reads if read in models)
    if not keys:  # a check is of an asset of its step: of a model of the same rows, or of any
        of_same = (model for model in models.values() if {*test.reads} & {*model.reads})
        keys = [_asset_key(next(of_same, next(iter(models.values()))), names)]
    description = f"{test.about}\n\n```sql\n{test.sql}\n```"
    first, *more = keys
    return dg.AssetCheckSpec(test.name, asset=first, additional_deps=more, description=description)


def _to_materialize_result(result: ModelRun, names: Names) -> dg.MaterializeResult[Any]:
    pictures = [(plot, render_plot(plot, rows)) for plot, rows in result.plot_data]
    return dg.MaterializeResult(
        asset_key=_asset_key(result.model, names),
        metadata={
            ROW_COUNT: result.rows,
            **{f"plot of {plot.y}": picture for plot, picture in pictures if picture},
            **_sample_metadata("preview", result),
            "seconds": result.seconds,
            **({"path": dg.PathMetadataValue(str(result.path))} if result.path else {}),
        },
    )


def _to_check_result(result: ModelRun, check: dg.AssetCheckSpec) -> dg.AssetCheckResult:
    warn = result.model.severity == "warn"
    return dg.AssetCheckResult(
        passed=result.rows == 0,
        asset_key=check.asset_key,
        check_name=check.name,
        severity=dg.AssetCheckSeverity.WARN if warn else dg.AssetCheckSeverity.ERROR,
        metadata={"rows_that_should_not_be": result.rows, **_sample_metadata("sample", result)},
    )


def _sample_metadata(name: str, result: ModelRun) -> dict[str, Any]:
    return {name: build_arrow_table(result.sample, max_chars=_MAX_CELL_CHARS)} if result.rows else {}
