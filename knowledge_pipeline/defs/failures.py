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

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOST_DATABASE = "Dagster's database went away: once it answers, materialize again what is missing"
Context = dg.OpExecutionContext | dg.AssetExecutionContext


@contextmanager
def translate_failures(context: Context, retry_policy: dg.RetryPolicy) -> Generator[None]:
    """Fail the step at once for a permanent error; request a retry for a transient one.

    That Dagster's own database did not answer is transient too.
    """
    try:
        yield
    except PermanentError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except TransientError as error:
        _retry(context, retry_policy, str(error), error)
    except Exception as error:
        if OperationalError not in (type(error), type(error.__cause__)):  # dagster-postgres wraps some
            raise
        _retry(context, retry_policy, _LOST_DATABASE, error)


def _retry(context: Context, retry_policy: dg.RetryPolicy, problem: str, error: Exception) -> NoReturn:
    if context.retry_number >= retry_policy.max_retries:
        raise dg.Failure(problem, allow_retries=False) from error
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


def combine_failures(failed: Mapping[str, KnowledgeError], *, total: int) -> KnowledgeError:
    """One error for the failed sources of a run; transient if any of them is."""
    reasons = "; ".join(f"{source}: {error}" for source, error in failed.items())
    transient = any(isinstance(error, TransientError) for error in failed.values())
    kind = TransientError if transient else PermanentError
    return kind(f"{len(failed)} of {total} sources failed, the others are done: {reasons}")
