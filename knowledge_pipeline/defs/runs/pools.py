"""Turns in Dagster's pools, taken inside a step: the UI shows who holds a place and who waits.

A chain reads from a host, embeds, and writes the index in one step, and each of these has
a limit of its own. So the step asks for each as it comes to it, with what Dagster's own
executors ask for a whole step.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.stages.context import SlotClaim

_POLL_S = 1.0
_LOG_AFTER_S = 5.0


def build_pool_turn(context: Context) -> SlotClaim:
    """Turns for one step: each waits for a place in the pool of that name, and holds it.

    Nothing is waited for where the instance gives pools no limit, or limits whole runs.
    """

    @contextmanager
    def hold_pool_slot(pool: str) -> Iterator[None]:
        claim = f"turn:{pool}"  # stands where a step's key would
        with InstanceConcurrencyContext(context.instance, context.run) as places:
            begun, said = time.monotonic(), False
            while not places.claim(pool, claim):
                if not said and time.monotonic() - begun > _LOG_AFTER_S:
                    said = True
                    context.log.info(f"waiting for a place in the pool {pool!r}")
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                places.free_step(claim)

    return hold_pool_slot
