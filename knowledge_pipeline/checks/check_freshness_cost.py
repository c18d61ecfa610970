"""The checks that inform about time and money: sources refreshed in time, models within their budget.

They read the logs, which say nothing of what is not recorded: see `stages.journal`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from knowledge_pipeline.checks.check_types import CheckResult, build_sample
from knowledge_pipeline.config.settings import Settings, Trigger, resolve_trigger
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake

MAX_AGE_BY_TRIGGER: dict[Trigger, timedelta] = {
    "realtime": timedelta(hours=26),  # all are reconciled daily, whatever was missed
    "on_commit": timedelta(hours=26),
    "hourly": timedelta(hours=2.5),
    "daily": timedelta(hours=26),
    "weekly": timedelta(days=8),
}
"""How old the last refresh may be: the interval, and time for a late tick and a long run."""

_BUDGET_DAYS = 30


def check_freshness(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Sources whose last completed refresh is longer ago than their trigger allows, or that had none."""
    now, triggers = datetime.now(UTC), _triggers_by_source(settings, source_type)
    last = _last_refresh_times(lake, source_type, since=now - max(MAX_AGE_BY_TRIGGER.values()))
    if triggers.keys() - last.keys():
        last = _last_refresh_times(lake, source_type)
    stale = [
        _build_freshness_row(now, source, trigger, last.get(source))
        for source, trigger in triggers.items()
        if source not in last or now - last[source] > MAX_AGE_BY_TRIGGER[trigger]
    ]
    stale.sort(key=lambda row: (row["hours"] is not None, -(row["hours"] or 0)))
    sentence = f"{len(stale)} of {len(triggers)} sources were not refreshed in time"
    never = len(triggers.keys() - last.keys())
    figures = {"sources": len(triggers), "stale": len(stale), "never_refreshed": never}
    return CheckResult(not stale, sentence, build_sample(stale), figures)


def check_cost(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """What the models of the whole project cost in the last 30 days; the dearest sources."""
    del source_type  # the budget is one, for all types
    since = datetime.now(UTC) - timedelta(days=_BUDGET_DAYS)
    calls = lake.log_table("llm_calls").read_rows(["kind", "model", "source", "cost"], at_least("at", since))
    spent = calls.group_by(["source", "kind", "model"]).aggregate([("cost", "sum")]).rename_columns(
        {"cost_sum": "cost"}
    )  # fmt: skip
    total, budget = float(sum(calls["cost"].to_pylist())), settings.checks.monthly_budget
    figures = {"cost": round(total, 4)} | ({} if budget is None else {"allowed": budget})
    dear = build_sample(row for row in spent.sort_by([("cost", "descending")]).to_pylist() if row["cost"])
    cost = f"models cost {total:.2f} in the last {_BUDGET_DAYS} days"
    if budget is None:
        return CheckResult(True, f"{cost}; no budget is set", dear, figures)
    return CheckResult(total <= budget, f"{cost} (allowed: {budget:.2f})", dear, figures)


def _triggers_by_source(settings: Settings, source_type: SourceType) -> dict[str, Trigger]:
    return {source.id: resolve_trigger(source) for source in settings.sources if source.type == source_type}


def _last_refresh_times(
    lake: Lake, source_type: str, *, since: datetime | None = None
) -> dict[str, datetime]:
    """When the index stage of each source was done last; the log is long, so look at its end first."""
    where = eq("source_type", source_type) & eq("stage", "index")
    where = where & at_least("at", since) if since else where
    rows = lake.log_table("refreshes").read_rows(["source", "at"], where)
    last = rows.group_by("source").aggregate([("at", "max")])
    return dict(zip(last["source"].to_pylist(), last["at_max"].to_pylist(), strict=True))


def _build_freshness_row(now: datetime, source: str, trigger: Trigger, at: datetime | None) -> dict[str, Any]:
    hours = None if at is None else round((now - at).total_seconds() / 3600, 1)
    allowed = MAX_AGE_BY_TRIGGER[trigger].total_seconds() / 3600
    refreshed = "never" if at is None else f"{at:%Y-%m-%d %H:%M}"
    return {
        "source": source, "trigger": trigger, "hours": hours, "allowed_hours": allowed, "refreshed": refreshed
    }  # fmt: skip
