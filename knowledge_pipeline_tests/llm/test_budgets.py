"""Budgets of language models: who pays from which, when they are spent, and what is known of that."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.settings import BudgetSettings
from knowledge_pipeline.errors import LanguageModelUnavailable
from knowledge_pipeline.llm.budgets import Budgets, list_reached, sum_spending
from knowledge_pipeline.llm.model_calls import CallReport, ModelCall, UsageAccount
from knowledge_pipeline.llm.spending import Spending
from knowledge_pipeline.query.logs import ModelCallLog
from knowledge_pipeline.store.lake import Lake

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
TODAY, EARLIER, LAST_MONTH = NOW.date(), NOW.date() - timedelta(days=3), datetime(2026, 2, 28).date()
SPENT = [
    Spending(TODAY, "acme", "s1", "shop", False, 1.0),
    Spending(EARLIER, "acme", "s2", "shop", True, 2.0),
    Spending(TODAY, "globex", "s1", "shop", False, 4.0),
    Spending(LAST_MONTH, "acme", "s1", "shop", False, 8.0),
    Spending(TODAY, None, None, None, False, 16.0),
]
ACME = UsageAccount("s1", "shop", tenant="acme")


def budget(**values: Any) -> BudgetSettings:
    return BudgetSettings.model_validate({"stop_at": 5.0, **values})


@pytest.mark.parametrize(
    "values, expected",
    [
        ({}, {(None, None): 23.0}),
        ({"reported": False}, {(None, None): 21.0}),
        ({"window": "day"}, {(None, None): 21.0}),
        ({"per": "tenant"}, {(None, "acme"): 3.0, (None, "globex"): 4.0}),
        ({"per": "tenant", "name": "globex"}, {(None, "globex"): 4.0}),
        ({"per": "project"}, {("acme", "shop"): 3.0, ("globex", "shop"): 4.0}),
        ({"per": "project", "name": "other"}, {}),
        (
            {"per": "session", "reported": True},
            {("acme", "s1"): 1.0, ("acme", "s2"): 2.0, ("globex", "s1"): 4.0},
        ),
    ],
)
def test_each_payer_pays_for_its_own_calls_of_the_window(values: dict[str, Any], expected: Any):
    assert sum_spending(budget(**values), SPENT, NOW) == expected


def test_what_is_reached_is_named_with_its_amounts_and_to_callers_without():
    (state,) = list_reached([budget(per="tenant", stop_at=4.0), budget(warn_at=30, stop_at=40)], SPENT, NOW)
    assert (state.level, state.name, state.spent) == ("stop", "globex", 4.0)
    assert "models cost 4 of 4 for the tenant 'globex' in 2026-03" in state.describe()
    assert "4" not in state.describe_to_caller() and "'globex' is spent" in state.describe_to_caller()
    (state,) = list_reached([budget(warn_at=23.0, stop_at=40)], SPENT, NOW)
    assert (state.level, state.describe_to_caller()) == (
        "warn",
        "most of the budget of all callers for this month is spent",
    )


@pytest.mark.parametrize(
    "values, problem",
    [
        ({"stop_at": None}, "needs warn_at, stop_at"),
        ({"warn_at": 9}, "must be at most"),
        ({"name": "shop"}, "a total has no name"),
        ({"per": "nobody"}, "per"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(values: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=problem):
        budget(**values)


def call(cost: float, account: UsageAccount = ACME, report: CallReport | None = None) -> ModelCall:
    return ModelCall(datetime.now(UTC), "m", 1, 10, cost, 0.1, account, report=report)


def test_calls_count_at_once_and_once_in_this_process_and_when_they_are_logged_in_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    lake = Lake(tmp_path / "store")
    settings = [budget(per="project", warn_at=2.0, stop_at=3.0)]
    ours, theirs = (Budgets(settings, lake, reread_s=0.0) for _ in range(2))
    other = UsageAccount(project="other", tenant="acme")

    async def spent(budgets: Budgets, account: UsageAccount = ACME) -> float:
        (state,) = await budgets.list_states(account)
        return state.spent

    async def scenario() -> None:
        assert await ours.list_states(UsageAccount(tenant="acme")) == []  # no project, no budget
        first, second = call(1.5), call(1.0, report=CallReport("p", "http"))
        ours.note(first)
        assert (await spent(ours), await spent(theirs)) == (1.5, 0.0)
        await asyncio.to_thread(log, lake, first)
        assert (await spent(ours), await spent(theirs)) == (1.5, 1.5)
        await asyncio.to_thread(log, lake, second)
        assert (await spent(ours), await spent(theirs), await spent(ours, other)) == (2.5, 2.5, 0.0)
        assert await ours.list_problems(ACME, is_refused=False) == {
            "budget_warning": "most of the budget of the project 'shop' for this month is spent"
        }
        assert await ours.list_problems(ACME, is_refused=False) == {}  # once a window
        await ours.require(ACME)
        ours.note(call(0.5))
        with pytest.raises(LanguageModelUnavailable, match="'shop' is spent"):
            await ours.require(ACME)
        assert "budget" in await ours.list_problems(ACME, is_refused=True)
        await ours.require(other)

    with caplog.at_level(logging.WARNING, "knowledge_pipeline"):
        asyncio.run(scenario())
    told = [record.getMessage() for record in caplog.records]
    assert [message.partition(" of ")[0] for message in told] == ["models cost 2.5", "models cost 3"]


def log(lake: Lake, *calls: ModelCall) -> None:
    calls_log = ModelCallLog(lake, flush_interval_s=0.0)
    for each in calls:
        calls_log.record(each)
    calls_log.close(wait_s=60)


def test_where_nobody_knows_what_was_spent_the_model_is_not_called(tmp_path: Path):
    lake = Lake(tmp_path / "store")
    broken = lake.root / "logs" / "llm_calls.lance" / "_versions"
    broken.mkdir(parents=True)
    (broken / "1.manifest").write_bytes(b"no manifest")
    budgets = Budgets([budget()], lake)
    with pytest.raises(LanguageModelUnavailable, match="cannot be read"):
        asyncio.run(budgets.require(ACME))
    assert "budget" in asyncio.run(budgets.list_problems(ACME, is_refused=True))
    assert "cannot be read" in str(asyncio.run(budgets.describe_reached(ACME)))
