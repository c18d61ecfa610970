"""Our errors in Dagster's words: fail at once, or ask for a retry.

Only what a retry can help is retried; an error that we did not foresee is a bug, and
fails at once with its traceback.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg

from knowledge_pipeline.errors import KnowledgeError, PermanentError, TransientError

Context = dg.OpExecutionContext | dg.AssetExecutionContext


@contextmanager
def translate_failures(context: Context, retry_policy: dg.RetryPolicy) -> Iterator[None]:
    """Let a permanent error fail the step at once, and a transient one be tried again."""
    try:
        yield
    except PermanentError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except TransientError as error:
        if context.retry_number >= retry_policy.max_retries:
            raise dg.Failure(str(error), allow_retries=False) from error
        raise dg.RetryRequested(
            max_retries=retry_policy.max_retries,
            seconds_to_wait=retry_policy.calculate_delay(context.retry_number + 1),
        ) from error


@contextmanager
def translate_load_errors() -> Iterator[None]:
    """Let a wrong configuration be the one sentence that the UI shows of a code location."""
    try:
        yield
    except PermanentError as error:
        raise dg.DagsterInvalidDefinitionError(str(error)) from None


def combine_failures(failed: Mapping[str, KnowledgeError], *, total: int) -> KnowledgeError:
    """One error for the sources of a run that failed; transient if any of them is."""
    reasons = "; ".join(f"{source}: {error}" for source, error in failed.items())
    transient = any(isinstance(error, TransientError) for error in failed.values())
    kind = TransientError if transient else PermanentError
    return kind(f"{len(failed)} of {total} sources failed, the others are done: {reasons}")
