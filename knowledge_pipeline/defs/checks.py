"""Asset checks, and how our errors end a step or a tick of Dagster.

A step of its own would cost more than the blocking checks do, so whatever writes an index yields or logs
their results. The informational ones look at the whole store: a `multi_asset_check`, which the job `checks`
or a person runs. What is about one topic is one check of the UI. Only transient errors are retried; an
unforeseen error is a bug, and fails at once with its traceback.
"""

import os
import socket
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from sqlalchemy.exc import OperationalError

from knowledge_pipeline.checks.integrity import Check, CheckResult
from knowledge_pipeline.checks.registry import list_checks, run_blocking_checks
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import BACKFILL, AssetJob, is_in_run_process, read_last_check
from knowledge_pipeline.defs.define import build_asset_job
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_arrow_table
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import KnowledgeError, PermanentError, TransientError
from knowledge_pipeline.stages.context import describe_failures
from knowledge_pipeline.stages.verify_sources import SOURCE_CHECK
from knowledge_pipeline.store.lake import Lake

FAILURES = "failures"
"""The metadata of a failed step that has the errors by source."""

_LOST_DATABASE = "Dagster's database went away: once it answers, materialize again what is missing"
Context = dg.OpExecutionContext | dg.AssetExecutionContext


PROCESS_TAG = "knowledge/process"


def _tag_process(context: Context) -> None:
    """Tag the run with its process: `host:pid:run`, because a retry inherits tags.

    A step in a process of its own is not tagged: that process ends before the run does, and its executor
    or broker notices when it dies.
    """
    if is_in_run_process(context):
        run = context.run.run_id
        context.instance.add_run_tags(run, {PROCESS_TAG: f"{socket.gethostname()}:{os.getpid()}:{run[:8]}"})


@contextmanager
def run_step(context: Context, retry_policy: dg.RetryPolicy) -> Generator[None]:
    """What every step runs in: its run ends where its process does, and its errors say whether to try again.

    A permanent error fails the step at once; for a transient one a retry is requested.

    That Dagster's own database did not answer is transient too: Dagster opens a connection for each entry of
    its history, and tries that again, but not where the database goes away within a statement, as it does in
    every failover.
    """
    try:
        _tag_process(context)
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


RELEASABLE = "releasable"
"""The blocking check of a type."""
_STAGES = {
    **{RELEASABLE: "index", "useful_content": "chunks", "maintained": "index", "fresh": "index"},
    SOURCE_CHECK.topic: "snapshot",
}
"""Whose asset shows a topic, that of a type; other topics are of all types, and of the release."""


def list_check_keys(
    source_type: SourceType, names: Names = PLAIN, *, blocking: bool
) -> dict[dg.AssetCheckKey, list[Check]]:
    """The checks of a type as the UI has them: one for each topic."""
    keys: dict[dg.AssetCheckKey, list[Check]] = {}
    for check in (*list_checks(source_type, blocking=blocking), *(() if blocking else (SOURCE_CHECK,))):
        stage = _STAGES.get(check.topic)
        asset = names.key(source_type, stage) if stage else names.key("release")
        keys.setdefault(dg.AssetCheckKey(asset, check.topic), []).append(check)
    return keys


def build_check_specs(source_type: SourceType, names: Names = PLAIN) -> list[dg.AssetCheckSpec]:
    """The blocking checks of a type, for `check_specs` of its chain."""
    keys = list_check_keys(source_type, names, blocking=True)
    return [_build_check_spec(key, checks) for key, checks in keys.items()]


def build_informational_checks(types: Sequence[SourceType], names: Names = PLAIN) -> dg.AssetChecksDefinition:
    """The informational checks of some types, each of which can run alone.

    A run of a backfill, of which there may be hundreds, repeats the last result.
    """
    wanted: dict[dg.AssetCheckKey, tuple[SourceType, list[Check]]] = {
        key: (type_, checks)
        for type_ in types
        for key, checks in list_check_keys(type_, names, blocking=False).items()
    }

    @dg.multi_asset_check(
        name=names.definition("check_stored"),
        specs=[_build_check_spec(key, checks) for key, (_, checks) in wanted.items()],
        description="Checks everything that is stored.",
        can_subset=True,
    )
    @names.bind
    def run_checks(context: dg.OpExecutionContext, project: ProjectResource) -> Iterator[dg.AssetCheckResult]:
        with run_step(context, project.retry_policy()):
            settings, lake = project.load_settings(), project.open_lake()
            for key in context.selected_asset_check_keys:
                type_, checks = wanted[key]
                last = read_last_check(context.instance, key) if BACKFILL in context.run.tags else None
                yield last or to_check_result(
                    key, [(check, check.run(lake, settings, type_)) for check in checks]
                )

    return run_checks


def build_checks_job(definition: dg.AssetChecksDefinition, names: Names = PLAIN) -> AssetJob:
    """The job that runs the informational checks of all types, on a schedule."""
    about = "Check everything that is stored: duplicates, skipped documents, sizes, age, cost."
    return build_asset_job(names, "checks", about, dg.AssetSelection.checks(definition))


def check_releasable(
    lake: Lake, settings: Settings, source_type: SourceType, names: Names = PLAIN
) -> dg.AssetCheckResult:
    """Run the blocking checks of a type; raises `Busy` as they do."""
    key = dg.AssetCheckKey(names.key(source_type, _STAGES[RELEASABLE]), RELEASABLE)
    return to_check_result(key, run_blocking_checks(lake, settings, source_type))


def to_check_result(
    key: dg.AssetCheckKey, results: Sequence[tuple[Check, CheckResult]]
) -> dg.AssetCheckResult:
    """The results of a topic as Dagster shows them: what failed, figures, rows, and where to look further.

    A failed blocking one fails the step that yields it, once everything else that the step yields is
    recorded; what depends on the step does not run.
    """
    failed = [(check, result) for check, result in results if not result.passed]
    blocks = any(check.blocking and not result.may_recover for check, result in failed)
    metadata: dict[str, Any] = {}
    for check, result in results:
        prefix = f"{check.name}: " if len(results) > 1 else ""
        metadata |= {f"{prefix}{name}": value for name, value in result.figures.items()}
        if result.sample_rows.num_rows:
            metadata[f"{prefix}rows"] = build_arrow_table(result.sample_rows)
        if check.inspect_command and not result.passed:
            metadata[f"{prefix}look further"] = check.inspect_command
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not failed,
        severity=dg.AssetCheckSeverity.ERROR if blocks else dg.AssetCheckSeverity.WARN,
        description="; ".join(f"{check.name}: {result.message}" for check, result in failed or results),
        metadata=metadata,
    )


def _build_check_spec(key: dg.AssetCheckKey, checks: Sequence[Check]) -> dg.AssetCheckSpec:
    parts = [f"- `{check.name}`: {check.description}" for check in checks]
    return dg.AssetCheckSpec(
        key.name,
        asset=key.asset_key,
        description="\n".join([*parts, "\nWhat to do when one fails: docs/checks.md"]),
        blocking=any(check.blocking for check in checks),
    )
