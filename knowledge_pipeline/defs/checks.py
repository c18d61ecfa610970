"""Asset checks: the blocking ones inside a chain's own step, the informing ones executable by themselves.

A step of its own would cost more than the blocking checks do, so whatever writes an index
yields or logs what they found (`result_of`, `evaluation_event`). The informing ones look at
the whole store, so they are a `multi_asset_check` for each type: run by the job `checks`, or
from the UI's page of checks.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus as _Status,
)

from knowledge_pipeline.checks.check_types import Check, CheckResult
from knowledge_pipeline.checks.registry import list_blocking_checks, list_informational_checks
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.failures import translate_failures
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_MAX_CELL_CHARS = 80


def build_check_specs(source_type: SourceType) -> list[dg.AssetCheckSpec]:
    """The blocking checks of a type, for `check_specs` of its chain."""
    return [_build_check_spec(check, source_type) for check in list_blocking_checks(source_type)]


def build_informing_checks(source_type: SourceType) -> dg.AssetChecksDefinition:
    """The informing checks of a type, any of which can be executed alone.

    A run of a backfill, of which there may be hundreds, shows again what was found last.
    """

    @dg.multi_asset_check(
        name=f"check_{source_type}",
        specs=[_build_check_spec(check, source_type) for check in list_informational_checks(source_type)],
        description=f"Looks at everything that is stored of the type {source_type}.",
        can_subset=True,
    )
    def run_checks(context: dg.OpExecutionContext, project: ProjectResource) -> Iterator[dg.AssetCheckResult]:
        with translate_failures(context, project.retry_policy()):
            settings, lake = project.load_settings(), project.open_lake()
            for check in list_informational_checks(source_type):
                key = dg.AssetCheckKey(dg.AssetKey([source_type, check.stage]), check.name)
                if key in context.selected_asset_check_keys:
                    again = (
                        _find_last_result(context, key) if "dagster/backfill" in context.run.tags else None
                    )
                    yield again or to_check_result(
                        check, check.run(lake, settings, source_type), source_type, lake
                    )

    return run_checks


def build_checks_job(definitions: Sequence[dg.AssetChecksDefinition]) -> "UnresolvedAssetJobDefinition":
    """The job that executes the informing checks of all types: for a schedule, once a day."""
    return dg.define_asset_job(
        "checks",
        selection=dg.AssetSelection.checks(*definitions),
        description="Look at everything that is stored: duplicates, skipped documents, sizes, age, cost.",
    )


def to_check_result(
    check: Check, finding: CheckResult, source_type: SourceType, lake: Lake
) -> dg.AssetCheckResult:
    """A finding as Dagster shows it: the sentence, the figures, the rows, and where to look further.

    A blocking one that failed fails the step that yields it, once everything else that the step
    yields was recorded; what depends on the step is not run.
    """
    return dg.AssetCheckResult(
        asset_key=[source_type, check.stage],
        check_name=check.name,
        passed=finding.passed,
        severity=_severity(check, finding),
        description=finding.message,
        metadata=_build_metadata(check, finding, source_type, lake),
    )


def to_check_evaluation(
    check: Check, finding: CheckResult, source_type: SourceType, lake: Lake
) -> dg.AssetCheckEvaluation:
    """The same as `result_of`, as an event that any op can log; logging a failure fails nothing."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey([source_type, check.stage]),
        check_name=check.name,
        passed=finding.passed,
        severity=_severity(check, finding),
        description=finding.message,
        blocking=check.blocking,
        metadata=_build_metadata(check, finding, source_type, lake),
    )


def _build_check_spec(check: Check, source_type: SourceType) -> dg.AssetCheckSpec:
    metadata = {"threshold": f"checks.{check.threshold}"} if check.threshold else {}
    return dg.AssetCheckSpec(
        check.name,
        asset=[source_type, check.stage],
        description=f"{check.description} What to do when it fails: docs/checks.md",
        blocking=check.blocking,
        metadata=metadata,
    )


def _severity(check: Check, finding: CheckResult) -> dg.AssetCheckSeverity:
    stops = check.blocking and not finding.may_recover
    return dg.AssetCheckSeverity.ERROR if stops else dg.AssetCheckSeverity.WARN


def _build_metadata(
    check: Check, finding: CheckResult, source_type: SourceType, lake: Lake
) -> dict[str, Any]:
    typed = check.stage in ("snapshot", "chunks")  # the other two are stored by space
    folder = lake.root / check.stage / (source_type if typed else "")
    return {
        **finding.figures,
        **({"rows": _to_table(finding.sample_rows)} if finding.sample_rows.num_rows else {}),
        **({"look further": dg.MetadataValue.text(check.inspect_command)} if check.inspect_command else {}),
        "tables": dg.MetadataValue.path(str(folder)),
    }


def _to_table(rows: pa.Table) -> dg.TableMetadataValue:
    columns = [dg.TableColumn(field.name, str(field.type)) for field in rows.schema]
    records = [{name: _to_cell(value) for name, value in row.items()} for row in rows.to_pylist()]
    return dg.MetadataValue.table([dg.TableRecord(record) for record in records], dg.TableSchema(columns))


def _to_cell(value: Any) -> str | int | float | bool | None:
    """Fit for a cell: texts on one line, and no number that JSON does not have."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[: _MAX_CELL_CHARS - 1]}…"


def _find_last_result(context: dg.OpExecutionContext, key: dg.AssetCheckKey) -> dg.AssetCheckResult | None:
    executed = {_Status.SUCCEEDED, _Status.FAILED}
    records = context.instance.event_log_storage.get_asset_check_execution_history(key, 1, status=executed)
    last = records[0].evaluation if records else None
    if last is None:
        return None
    at = dg.MetadataValue.timestamp(records[0].create_timestamp)
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=last.passed,
        severity=last.severity,
        description=last.description,
        metadata={"looked at": at, **last.metadata},
    )
