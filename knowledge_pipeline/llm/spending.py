"""What models have cost, by who pays, as the log of model calls has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from knowledge_pipeline.store.filters import at_least
from knowledge_pipeline.store.lake import Lake

_PAYERS = ("tenant", "session", "project", "interface")


@dataclass(frozen=True, slots=True)
class Spending:
    """What one payer spent on one day of UTC."""

    day: date
    tenant: str | None
    session: str | None
    project: str | None
    is_reported: bool  # by an agent, of its own calls
    cost: float


def read_spending(
    lake: Lake, now: datetime, recent: datetime | None = None
) -> tuple[list[Spending], set[datetime]]:
    """What was spent this month, by day and payer; and the times of the rows since a recent one.

    Raises:
        StoreError: the log cannot be read.
    """
    import pyarrow.compute

    from knowledge_pipeline.store.logs import open_log  # with pyarrow, which most questions do without

    compute: Any = pyarrow.compute  # whose functions have no types
    since = datetime(now.year, now.month, 1, tzinfo=UTC)
    rows: Any = open_log(lake, "llm_calls").read_rows(["at", *_PAYERS, "cost"], at_least("at", since))
    days = compute.floor_temporal(rows["at"], unit="day")
    sums = rows.append_column("day", days).group_by(["day", *_PAYERS]).aggregate([("cost", "sum")])
    spendings: list[Spending] = []
    for row in sums.to_pylist():
        payer, is_reported = (row["tenant"], row["session"], row["project"]), row["interface"] is not None
        spendings.append(Spending(row["day"].date(), *payer, is_reported, float(row["cost_sum"])))
    if recent is None:
        return spendings, set()
    return spendings, set(rows["at"].filter(compute.greater_equal(rows["at"], recent)).to_pylist())


def read_costs(lake: Lake, since: datetime, by: str) -> list[dict[str, Any]]:
    """What models cost since a time, by one column of the log, the costliest first.

    A row has that column, `calls`, `reported` (calls of agents), `errors` (of those), `tokens`, `cost` and
    `seconds`; its name is None for what is on no such account.

    Raises:
        StoreError: the log cannot be read.
    """
    from knowledge_pipeline.store.logs import open_log

    columns = list(dict.fromkeys((by, "interface", "error", "calls", "tokens", "cost", "seconds")))
    rows: Any = open_log(lake, "llm_calls").read_rows(columns, at_least("at", since))
    sums = rows.group_by(by).aggregate(
        [(name, "sum") for name in ("calls", "tokens", "cost", "seconds")]
        + [("interface", "count"), ("error", "count")]  # which count what is not null
    )
    costs = [
        {
            by: row[by],
            "calls": row["calls_sum"],
            "reported": row["interface_count"],
            "errors": row["error_count"],
            "tokens": row["tokens_sum"],
            "cost": round(row["cost_sum"], 6),
            "seconds": round(row["seconds_sum"], 3),
        }
        for row in sums.to_pylist()
    ]
    return sorted(costs, key=lambda row: (-row["cost"], -row["tokens"], row[by] or ""))
