"""The SQL models as assets with the lineage that their SQL has, and the SQL tests as checks."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.config import SourceType
from knowledge_pipeline.defs.assets import RELEASE, stage_keys
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.stages import models as sql
from knowledge_pipeline.stages.base import digest
from knowledge_pipeline.stages.models import Made, Model

_STAGE_OF = {"raw_documents": "snapshot", "raw_chunks": "chunks", "raw_index": "index"}


def models_of(types: Sequence[SourceType]) -> dg.AssetsDefinition:
    """One step that runs every model and test; each model is an asset.

    Raises:
        ConfigError: a model's SQL cannot be read.
    """
    loaded = sql.load()
    models = {model.name: model for model in loaded if model.layer != "tests"}

    @dg.multi_asset(
        name="sql_models",
        description="Runs the models of dbt_like_sql in the order of what they read.",
        specs=[_spec(model, models, types) for model in models.values()],
        check_specs=[_check_spec(model, models) for model in loaded if model.layer == "tests"],
    )
    def sql_models(project: ProjectResource) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        for made in sql.refresh(project.lake(), loaded):
            yield _checked(made, models) if made.model.layer == "tests" else _materialized(made)

    return sql_models


def _key(model: Model) -> dg.AssetKey:
    return dg.AssetKey([model.layer, model.name])


def _spec(model: Model, models: dict[str, Model], types: Sequence[SourceType]) -> dg.AssetSpec:
    return dg.AssetSpec(
        _key(model),
        deps=[key for read in model.reads for key in _upstream(read, models, types)],
        group_name=f"sql_{model.layer}",
        description=f"{model.about}\n\n```sql\n{model.sql}\n```",
        kinds={"duckdb", "sql"},
        code_version=digest(model.sql)[:8],
    )


def _upstream(read: str, models: dict[str, Model], types: Sequence[SourceType]) -> list[dg.AssetKey]:
    if read in models:
        return [_key(models[read])]
    if read in _STAGE_OF:
        return [stage_keys(source_type)[_STAGE_OF[read]] for source_type in types]
    return [RELEASE]


def _tested(test: Model, models: dict[str, Model]) -> dg.AssetKey:
    """The asset that a test is shown beside: the first model it reads."""
    return _key(next(models[read] for read in test.reads if read in models))


def _check_spec(test: Model, models: dict[str, Model]) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(test.name, asset=_tested(test, models), description=test.about)


def _materialized(made: Made) -> dg.MaterializeResult:
    columns = [dg.TableColumn(field.name, str(field.type)) for field in made.sample.schema]
    return dg.MaterializeResult(
        asset_key=_key(made.model),
        metadata={
            "dagster/row_count": made.rows,
            "dagster/column_schema": dg.TableSchema(columns),
            "seconds": made.seconds,
            **_sample(made),
            **({"path": dg.MetadataValue.path(str(made.path))} if made.path else {}),
        },
    )


def _checked(made: Made, models: dict[str, Model]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=made.rows == 0,
        asset_key=_tested(made.model, models),
        check_name=made.model.name,
        metadata={"rows_that_should_not_be": made.rows, **_sample(made)},
    )


def _sample(made: Made) -> dict[str, Any]:
    rows = [{name: _cell(value) for name, value in row.items()} for row in made.sample.to_pylist()]
    schema = dg.TableSchema([dg.TableColumn(field.name, str(field.type)) for field in made.sample.schema])
    return {"sample": dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)} if rows else {}


def _cell(value: Any) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
