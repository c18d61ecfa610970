"""The log of refused requests: who was refused what, and why."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.log.queries import redact
from knowledge_pipeline.query.log.row_writer import FLUSH_INTERVAL_S, LogRow, RowWriter
from knowledge_pipeline.store.journal import Journal
from knowledge_pipeline.store.lake import Lake


class RefusalLog(RowWriter):
    """The table `refusals` of one store, for one process. Threads may share it.

    A row is on disk before `record` returns. Those that say the same are summed up before they are written
    to the table, so that whoever is refused a thousand times a second does not fill the store.
    """

    def __init__(self, lake: Lake, *, flush_interval_s: float = FLUSH_INTERVAL_S) -> None:
        super().__init__(
            lake,
            "refusals",
            subject="refused requests",
            advice=", or set logs.queries to false",
            finalize_row=lambda row: {**row, "reason": redact(row["reason"])},
            sum_up=_sum_up,
            imports=("knowledge_pipeline.sanitizing.sanitize",),
            flush_interval_s=flush_interval_s,
            journal=Journal(lake.folder / "logs" / "refusals"),
        )

    def record(self, outcome: str, reason: str, access: Access, address: str | None) -> None:
        """Record one refused request; never fails."""
        self.start()
        self.add(
            {
                "query_id": uuid.uuid4().hex,
                "at": datetime.now(UTC),
                "outcome": outcome,
                "reason": reason,
                "interface": access.caller.interface,
                "token": access.caller.token,
                "tenant": access.tenant,
                "principals": sorted(access.principals),
                "address": address,
                "requests": 1,
            }
        )


def _sum_up(rows: Sequence[LogRow]) -> list[LogRow]:
    """One row for those of one caller, outcome and reason; the reason of a limit names seconds that vary."""
    found: dict[tuple[object, ...], LogRow] = {}
    for row in rows:
        reason = "" if row["outcome"] == "rate_limited" else row["reason"]
        caller = row["interface"], row["token"], row["tenant"], tuple(row["principals"]), row["address"]
        first = found.setdefault((row["outcome"], reason, *caller), {**row, "requests": 0})
        first["requests"] += row["requests"]
    return list(found.values())
