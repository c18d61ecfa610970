"""Asset checks, and how our errors end a step or a tick of Dagster.

A step of its own would cost more than the blocking checks do, so whatever writes an index yields or logs
their results. The informational ones look at the whole store, so each type has a `multi_asset_check`,
which the job `checks` or a person runs. Only transient errors are retried; an unforeseen error is a bug, and
fails at once with its traceback.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.exc import OperationalError

from knowledge_pipeline.checks.integrity import Check, CheckResult
from knowledge_pipeline.checks.registry import list_checks
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import BACKFILL, AssetJob, read_last_check
from knowledge_pipeline.defs.define import build_asset_job
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_arrow_table
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import KnowledgeError, PermanentError, TransientError
from knowledge_pipeline.stages.context import describe_failures
from knowledge_pipeline.store.lake import Lake

FAILURES = "failures"
"""The metadata of a failed step that has the errors by source."""

_LOST_DATABASE = "Dagster's database went away: once it answers, materialize again what is missing"
Context = dg.OpExecutionContext | dg.AssetExecutionContext


@contextmanager
def translate_failures(context: Context, retry_policy: dg.RetryPolicy) -> Generator[None]:
    """Fail the step at once for a permanent error; request a retry for a transient one.

    That Dagster's own database did not answer is transient too: Dagster opens a connection for each entry of
    its history, and tries that again, but not where the database goes away within a statement, as it does in
    every failover.
    """
    try:
        yield
    except Exception as error:
        metadata, problem = None, str(error)
        may_retry = isinstance(error, TransientError)
        if isinstance(error, SourcesFailed):
            metadata, may_retry = error.metadata, error.is_transient
        elif not isinstance(error, (PermanentError, TransientError)):
            if OperationalError not in (type(error), type(error.__cause__)):  # dagster-postgres wraps some
                raise
            problem, may_retry = _LOST_DATABASE, True
        if not may_retry or context.retry_number >= retry_policy.max_retries:
            raise dg.Failure(problem, metadata, allow_retries=False) from error
        raise dg.RetryRequested(
            max_retries=retry_policy.max_retries,
            seconds_to_wait=retry_policy.calculate_delay(context.retry_number + 1),
        ) from error


@contextmanager
def translate_load_errors() -> Generator[None]:
    """Show a wrong configuration as one sentence where the UI shows the code location."""
    try:
        yield
    except PermanentError as error:
        raise dg.DagsterInvalidDefinitionError(str(error)) from None


class SourcesFailed(KnowledgeError):
    """Some sources of a run failed, and the others are done; transient if any of them is."""

    def __init__(self, failed: Mapping[str, KnowledgeError], *, total: int) -> None:
        reasons = "; ".join(f"{source}: {error}" for source, error in failed.items())
        super().__init__(f"{len(failed)} of {total} sources failed, the others are done: {reasons}")
        self.is_transient = any(isinstance(error, TransientError) for error in failed.values())
        self.metadata = {FAILURES: dg.MetadataValue.json(describe_failures(failed))}


def build_check_specs(source_type: SourceType, names: Names = PLAIN) -> list[dg.AssetCheckSpec]:
    """The blocking checks of a type, for `check_specs` of its chain."""
    return [_build_check_spec(check, source_type, names) for check in list_checks(source_type, blocking=True)]


def build_informational_checks(source_type: SourceType, names: Names = PLAIN) -> dg.AssetChecksDefinition:
    """The informational checks of a type, each of which can run alone.

    A run of a backfill, of which there may be hundreds, repeats the last result.
    """

    @dg.multi_asset_check(
        name=names.definition(f"check_{source_type}"),
        specs=[
            _build_check_spec(check, source_type, names) for check in list_checks(source_type, blocking=False)
        ],
        description=f"Checks everything that is stored of the type {source_type}.",
        can_subset=True,
    )
    @names.bind
    def run_checks(context: dg.OpExecutionContext, project: ProjectResource) -> Iterator[dg.AssetCheckResult]:
        with translate_failures(context, project.retry_policy()):
            settings, lake = project.load_settings(), project.open_lake()
            for check in list_checks(source_type, blocking=False):
                key = dg.AssetCheckKey(names.key(source_type, check.stage), check.name)
                if key in context.selected_asset_check_keys:
                    last = read_last_check(context.instance, key) if BACKFILL in context.run.tags else None
                    yield last or to_check_result(
                        check, check.run(lake, settings, source_type), source_type, lake, names
                    )

    return run_checks


def build_checks_job(definitions: Sequence[dg.AssetChecksDefinition], names: Names = PLAIN) -> AssetJob:
    """The job that runs the informational checks of all types, on a schedule."""
    return build_asset_job(
        names,
        "checks",
        "Check everything that is stored: duplicates, skipped documents, sizes, age, cost.",
        dg.AssetSelection.checks(*definitions),
    )


def to_check_result(
    check: Check, result: CheckResult, source_type: SourceType, lake: Lake, names: Names = PLAIN
) -> dg.AssetCheckResult:
    """A result as Dagster shows it: the message, the figures, the rows, and where to look further.

    A failed blocking one fails the step that yields it, once everything else that the step yields is
    recorded; what depends on the step does not run.
    """
    blocks = check.blocking and not result.may_recover
    by_type = check.stage in ("snapshot", "chunks")  # the other two are stored by space
    folder = lake.root / check.stage / (source_type if by_type else "")
    return dg.AssetCheckResult(
        asset_key=names.key(source_type, check.stage),
        check_name=check.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if blocks else dg.AssetCheckSeverity.WARN,
        description=result.message,
        metadata={
            **result.figures,
            **({"rows": build_arrow_table(result.sample_rows)} if result.sample_rows.num_rows else {}),
            **({"look further": check.inspect_command} if check.inspect_command else {}),
            "tables": dg.PathMetadataValue(str(folder)),
        },
    )


def _build_check_spec(check: Check, source_type: SourceType, names: Names) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        check.name,
        asset=names.key(source_type, check.stage),
        description=f"{check.description} What to do when it fails: docs/checks.md",
        blocking=check.blocking,
        metadata={"threshold": f"checks.{check.threshold}"} if check.threshold else {},
    )
