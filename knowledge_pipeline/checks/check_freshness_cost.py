"""The informational checks of time and money: sources refreshed in time, models within their budget.

They know only what the logs record: see `stages.run_log`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from knowledge_pipeline.checks.check_types import CheckResult, build_sample
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.source import MAX_AGE_BY_TRIGGER, Trigger, resolve_trigger
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.llm.budgets import list_reached
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.spending import read_spending

_BUDGET_DAYS = 30
_MAX_BUDGETS_NAMED = 5


def check_freshness(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that the last completed refresh of each source is not older than its trigger allows."""
    now = datetime.now(UTC)
    mine = [source for source in settings.sources if source.type == source_type]
    triggers: dict[str, Trigger] = {source.id: resolve_trigger(source) for source in mine}
    last = _load_refresh_times(lake, source_type, since=now - max(MAX_AGE_BY_TRIGGER.values()))
    if triggers.keys() - last.keys():  # the log is long, so its end is read first
        last = _load_refresh_times(lake, source_type)
    stale: list[dict[str, Any]] = []
    for source, trigger in triggers.items():
        at, max_age = last.get(source), MAX_AGE_BY_TRIGGER[trigger]
        if at is None or now - at > max_age:
            hours = None if at is None else round((now - at).total_seconds() / 3600, 1)
            refreshed = "never" if at is None else f"{at:%Y-%m-%d %H:%M}"
            row = {"source": source, "trigger": trigger, "hours": hours}
            stale.append(row | {"allowed_hours": max_age.total_seconds() / 3600, "refreshed": refreshed})
    stale.sort(key=lambda row: (row["hours"] is not None, -(row["hours"] or 0)))
    message = f"{len(stale)} of {len(triggers)} sources were not refreshed in time"
    never = len(triggers.keys() - last.keys())
    figures = {"sources": len(triggers), "stale": len(stale), "never_refreshed": never}
    return CheckResult(not stale, message, build_sample(stale), figures)


def check_cost(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the cost of all models in the last 30 days and all budgets; name the most expensive sources."""
    del source_type  # all types share the budgets
    now = datetime.now(UTC)
    since = now - timedelta(days=_BUDGET_DAYS)
    calls = open_log(lake, "llm_calls").read_rows(["kind", "model", "source", "cost"], at_least("at", since))
    by_source = calls.group_by(["source", "kind", "model"]).aggregate([("cost", "sum")])
    costs = [row for row in by_source.rename_columns({"cost_sum": "cost"}).to_pylist() if row["cost"]]
    total, budget = float(sum(calls.select(["cost"]).to_pydict()["cost"])), settings.checks.monthly_budget
    figures = {"cost": round(total, 4)} | ({} if budget is None else {"allowed": budget})
    sample = build_sample(sorted(costs, key=lambda row: -row["cost"]))
    message = f"models cost {total:.2f} in the last {_BUDGET_DAYS} days"
    budgets = settings.costs.budgets
    reached = list_reached(budgets, read_spending(lake, now)[0], now) if budgets else []
    if budget is not None:
        message += f" (allowed: {budget:.2f})"
    elif not budgets:
        message += "; no budget is set"
    message = "; ".join((message, *(state.describe() for state in reached[:_MAX_BUDGETS_NAMED])))
    figures |= {"budgets_reached": len(reached)} if budgets else {}
    return CheckResult(not reached and (budget is None or total <= budget), message, sample, figures)


def _load_refresh_times(
    lake: Lake, source_type: str, *, since: datetime | None = None
) -> dict[str, datetime]:
    """When the index stage of each source last finished."""
    where = eq("source_type", source_type) & eq("stage", "index")
    where = where & at_least("at", since) if since else where
    rows = open_log(lake, "refreshes").read_rows(["source", "at"], where)
    last = rows.group_by("source").aggregate([("at", "max")])
    return {row["source"]: row["at_max"] for row in last.to_pylist()}
