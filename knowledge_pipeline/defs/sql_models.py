"""The SQL models as assets with the lineage that their SQL has, and the SQL tests as checks.

All run in one step, over one in-memory DuckDB; a model that is chosen alone is run with what it reads.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from knowledge_pipeline.config.settings import SourceType
from knowledge_pipeline.defs.assets import stage_keys
from knowledge_pipeline.defs.failures import failures
from knowledge_pipeline.defs.metadata.plots import plotted
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.event_log import RELEASE
from knowledge_pipeline.records import digest
from knowledge_pipeline.sql_models import run as sql
from knowledge_pipeline.sql_models.files import FOLDER, Column, Model, load
from knowledge_pipeline.sql_models.run import Made

SQL_MODELS = dg.define_asset_job(
    "sql_models",
    selection=dg.AssetSelection.groups("sql_staging", "sql_intermediate", "sql_marts"),
    description="Run all models and tests of dbt_like_sql, and write the marts.",
)

_STAGE_OF = {
    "raw_documents": "snapshot",
    "raw_chunks": "chunks",
    "raw_index": "index",
    "raw_symbols": "graph",
    "raw_edges": "graph",
    "raw_refreshes": "index",
    "raw_llm_calls": "embeddings",
}
_ROW_BY_ROW = {"raw_documents", "raw_chunks", "raw_index", "raw_symbols", "raw_releases"}
"""Raw tables with the columns of their assets."""
_OF_THE_PLACE = {"raw_documents": ("source", "source_type"), "raw_chunks": ("source", "source_type")}
_MOST_CELL_CHARS = 200

_Upstream = Mapping[str, Sequence[dg.AssetKey]]
"""By the name of a model or raw table: the assets that it is."""


def models_of(
    types: Sequence[SourceType], *, owners: Sequence[str] = (), evaluation: dg.AssetKey | None = None
) -> dg.AssetsDefinition:
    """One step that runs models and tests; each model is an asset, and can be run alone.

    Args:
        types: source types that have assets.
        owners: of every model: addresses, or `team:name`.
        evaluation: the asset that writes the log of evaluations, if there is one.

    Raises:
        ConfigError: a model's SQL cannot be read.
    """
    loaded = load()
    models = {model.name: model for model in loaded if model.layer != "tests"}
    tests = {model.name: model for model in loaded if model.layer == "tests"}
    upstream = _upstream(models, types, evaluation)

    @dg.multi_asset(
        name="dbt_like_sql",  # the job has the name `sql_models`
        description="Runs the models of dbt_like_sql in the order of what they read.",
        specs=[_spec(model, upstream, owners) for model in models.values()],
        check_specs=[_check_spec(test, models) for test in tests.values()],
        can_subset=True,
    )
    def dbt_like_sql(
        context: dg.AssetExecutionContext, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        chosen = {key.path[-1] for key in context.selected_asset_keys}
        chosen |= {key.name for key in context.selected_asset_check_keys}
        with failures(context, project.patience()):
            for made in sql.refresh(project.lake(), loaded, chosen):
                yield _checked(made, models) if made.model.name in tests else _materialized(made)

    return dbt_like_sql


def _key(model: Model) -> dg.AssetKey:
    return dg.AssetKey([model.layer, model.name])


def _upstream(
    models: Mapping[str, Model], types: Sequence[SourceType], evaluation: dg.AssetKey | None
) -> _Upstream:
    keys = [stage_keys(type_) for type_ in types]
    stages = {raw: [each[stage] for each in keys if stage in each] for raw, stage in _STAGE_OF.items()}
    own = {name: [_key(model)] for name, model in models.items()}
    return {**stages, "raw_releases": [RELEASE], "raw_evaluations": [evaluation] if evaluation else [], **own}


def _spec(model: Model, upstream: _Upstream, owners: Sequence[str]) -> dg.AssetSpec:
    grain = f"\n\n{model.grain[0].upper()}{model.grain[1:]}." if model.grain else ""
    return dg.AssetSpec(
        _key(model),
        deps=list(dict.fromkeys(key for read in model.reads for key in upstream.get(read, ()))),
        group_name=f"sql_{model.layer}",
        description=f"{model.about}{grain}\n\n```sql\n{model.sql}\n```",
        kinds={"duckdb", "sql", *(["parquet"] if model.layer == "marts" else [])},
        owners=list(owners),
        code_version=digest(model.sql)[:8],
        tags={"knowledge/layer": model.layer},
        metadata={
            **_schema(model, upstream),
            "dagster/code_references": _code_reference(model),
        },
    )


def _code_reference(model: Model) -> dg.CodeReferencesMetadataValue:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        file = dg.LocalFileCodeReference(
            file_path=str(FOLDER / model.file), line_number=1, label=f"{FOLDER.name}/{model.file}"
        )
        return dg.CodeReferencesMetadataValue(code_references=[file])


def _schema(model: Model, upstream: _Upstream) -> dict[str, Any]:
    """The columns with their comments, and what each is made of."""
    columns = [
        dg.TableColumn(name, column.type.lower(), _told(column)) for name, column in model.columns.items()
    ]
    deps = {name: _column_deps(column, upstream) for name, column in model.columns.items()}
    return {
        "dagster/column_schema": dg.TableSchema(columns),
        "dagster/column_lineage": dg.TableColumnLineage({name: d for name, d in deps.items() if d}),
    }


def _told(column: Column) -> str | None:
    """The comment, and the origins: the open-source UI shows no lineage of columns anywhere else."""
    origins = ", ".join(f"{table}.{name}" for table, name in column.origins)
    return " ".join(part for part in (column.comment, origins and f"← {origins}") if part) or None


def _column_deps(column: Column, upstream: _Upstream) -> list[dg.TableColumnDep]:
    """Columns of assets; a log is written by an asset, but its columns are none of the asset's."""
    return [
        dg.TableColumnDep(asset_key=key, column_name=name)
        for table, name in column.origins
        if (not table.startswith("raw_") or table in _ROW_BY_ROW) and name not in _OF_THE_PLACE.get(table, ())
        for key in upstream.get(table, ())
    ]


def _tested(test: Model, models: Mapping[str, Model]) -> dg.AssetKey:
    """The asset that a test is shown beside: the first model it reads."""
    return _key(next(models[read] for read in test.reads if read in models))


def _check_spec(test: Model, models: Mapping[str, Model]) -> dg.AssetCheckSpec:
    more = list(dict.fromkeys(_key(models[read]) for read in test.reads if read in models))[1:]
    description = f"{test.about}\n\n```sql\n{test.sql}\n```"
    return dg.AssetCheckSpec(
        test.name, asset=_tested(test, models), additional_deps=more, description=description
    )


def _materialized(made: Made) -> dg.MaterializeResult:
    pictures = [(plot, plotted(plot, rows)) for plot, rows in made.drawn]
    return dg.MaterializeResult(
        asset_key=_key(made.model),
        metadata={
            "dagster/row_count": made.rows,
            **{f"plot of {plot.y}": picture for plot, picture in pictures if picture},
            **_sample("preview", made),
            "seconds": made.seconds,
            **({"path": dg.MetadataValue.path(str(made.path))} if made.path else {}),
        },
    )


def _checked(made: Made, models: Mapping[str, Model]) -> dg.AssetCheckResult:
    warn = made.model.severity == "warn"
    return dg.AssetCheckResult(
        passed=made.rows == 0,
        asset_key=_tested(made.model, models),
        check_name=made.model.name,
        severity=dg.AssetCheckSeverity.WARN if warn else dg.AssetCheckSeverity.ERROR,
        metadata={"rows_that_should_not_be": made.rows, **_sample("sample", made)},
    )


def _sample(name: str, made: Made) -> dict[str, Any]:
    """The first rows, with a schema that says how to show them."""
    rows = [{key: _cell(value) for key, value in row.items()} for row in made.sample.to_pylist()]
    if not rows:
        return {}
    schema = dg.TableSchema([dg.TableColumn(field.name, _kind(field.type)) for field in made.sample.schema])
    return {name: dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)}


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_):
        return "int"
    return "float" if pa.types.is_floating(type_) else "string"


def _cell(value: Any) -> str | int | float | bool | None:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, int) or value is None:
        return value
    text = str(value)
    return text if len(text) <= _MOST_CELL_CHARS else f"{text[: _MOST_CELL_CHARS - 1]}…"
