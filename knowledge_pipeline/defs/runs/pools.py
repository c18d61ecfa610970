"""Slots in Dagster's pools, claimed inside a step; the UI shows who holds a slot and who waits.

One step reads from a host, embeds, and writes the index, each with a limit of its own. It claims each
slot when it comes to it, as Dagster's executors claim one for a whole step.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager

from knowledge_pipeline.defs.dagster_internals import PoolSlots
from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.stages.context import SlotClaim

_POLL_S = 1.0
_LOG_AFTER_S = 5.0


def build_slot_claim(context: Context, names: Names = PLAIN) -> SlotClaim:
    """Claims for one step: each waits for a slot in the pool of that name, and holds it.

    Nothing waits where the instance gives pools no limit, or limits whole runs.
    """

    @contextmanager
    def hold_pool_slot(pool: str) -> Generator[None]:
        pool = names.pool(pool)
        claim = f"turn:{pool}"  # in the place of a step's key
        with PoolSlots(context.instance, context.run) as slots:
            started, is_logged = time.monotonic(), False
            while not slots.claim(pool, claim):
                if not is_logged and time.monotonic() - started > _LOG_AFTER_S:
                    is_logged = True
                    context.log.info(f"waiting for a slot in the pool {pool!r}")
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                slots.free_step(claim)  # pyright: ignore[reportUnknownMemberType]  # it has no types

    return hold_pool_slot
