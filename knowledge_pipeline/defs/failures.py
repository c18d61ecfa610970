"""Translates our errors for Dagster: fail at once, retry, or skip a tick.

Only transient errors are retried; an unforeseen error is a bug, and fails at once with its traceback.
Dagster opens a connection for each entry of its history, and tries that again; it does not where the
database goes away within a statement, as it does in every failover.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

import dagster as dg
from sqlalchemy.exc import OperationalError

from knowledge_pipeline.errors import ConfigError, KnowledgeError, PermanentError, TransientError
from knowledge_pipeline.stages.context import describe_failures

_P = ParamSpec("_P")
_R = TypeVar("_R")

FAILURES = "failures"
"""The metadata of a failed step that has the errors by source."""

_LOST_DATABASE = "Dagster's database went away: once it answers, materialize again what is missing"
Context = dg.OpExecutionContext | dg.AssetExecutionContext


@contextmanager
def translate_failures(context: Context, retry_policy: dg.RetryPolicy) -> Generator[None]:
    """Fail the step at once for a permanent error; request a retry for a transient one.

    That Dagster's own database did not answer is transient too.
    """
    try:
        yield
    except SourcesFailed as error:
        if error.is_transient:
            _retry(context, retry_policy, str(error), error, error.metadata)
        raise dg.Failure(str(error), error.metadata, allow_retries=False) from error
    except PermanentError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except TransientError as error:
        _retry(context, retry_policy, str(error), error)
    except Exception as error:
        if OperationalError not in (type(error), type(error.__cause__)):  # dagster-postgres wraps some
            raise
        _retry(context, retry_policy, _LOST_DATABASE, error)


def _retry(
    context: Context,
    retry_policy: dg.RetryPolicy,
    problem: str,
    error: Exception,
    metadata: Mapping[str, dg.MetadataValue] | None = None,
) -> NoReturn:
    if context.retry_number >= retry_policy.max_retries:
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


def skip_on_config_error(consequence: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R | dg.SkipReason]]:
    """Skip a sensor's tick while `knowledge.yaml` is wrong, with what that leaves undone and why."""

    def decorate(tick: Callable[_P, _R]) -> Callable[_P, _R | dg.SkipReason]:
        @wraps(tick)
        def skip_or_tick(*args: _P.args, **kwargs: _P.kwargs) -> _R | dg.SkipReason:
            try:
                return tick(*args, **kwargs)
            except ConfigError as error:
                return dg.SkipReason(f"{consequence}: {error}")

        return skip_or_tick

    return decorate


class SourcesFailed(KnowledgeError):
    """Some sources of a run failed, and the others are done; transient if any of them is."""

    def __init__(self, failed: Mapping[str, KnowledgeError], *, total: int) -> None:
        reasons = "; ".join(f"{source}: {error}" for source, error in failed.items())
        super().__init__(f"{len(failed)} of {total} sources failed, the others are done: {reasons}")
        self.is_transient = any(isinstance(error, TransientError) for error in failed.values())
        self.metadata = {FAILURES: dg.MetadataValue.json(describe_failures(failed))}
