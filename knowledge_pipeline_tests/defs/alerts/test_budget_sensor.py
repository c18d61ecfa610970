"""The sensor `spent_budgets` over a real log of model calls."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from knowledge_pipeline.defs.alerts import spent_budgets
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.fakes.slack.webhook import Answer, SlackWebhook

CALL = {"kind": "completion", "provider": "p", "model": "m", "calls": 1, "tokens": 1, "seconds": 1.0}


@pytest.mark.slow
def test_each_level_of_a_budget_is_reported_once_and_again_where_no_channel_took_it(
    workplace: Workplace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workplace.path
    path.write_text(
        f"{path.read_text()}alerts:\n  slack_webhook: ${{SLACK_WEBHOOK}}\n"
        "costs:\n  budgets: [{per: project, warn_at: 1, stop_at: 2}]\n"
    )
    sensor = spent_budgets()
    cursor: str | None = None

    def tick() -> None:
        nonlocal cursor
        resources = {"project": workplace.resource}
        with dg.build_sensor_context(instance, cursor=cursor, resources=resources) as context:
            cursor = sensor.evaluate_tick(context).cursor

    def spend(cost: float) -> None:
        at = datetime.now(UTC)
        append_rows(workplace.lake, "llm_calls", [{**CALL, "at": at, "project": "shop", "cost": cost}])

    with SlackWebhook() as slack:
        monkeypatch.setenv("SLACK_WEBHOOK", slack.url)
        tick()
        spend(0.5)
        tick()
        assert slack.texts == []
        spend(1.0)
        slack.answer_next(Answer(404, "no_service"))
        tick()  # nobody heard of it
        for _ in range(2):
            tick()
        assert [text.splitlines()[1].partition(";")[0] for text in slack.texts[-1:]] == [
            f"models cost 1.5 of 2 for the project 'shop' in {datetime.now(UTC):%Y-%m}"
        ]
        heard = len(slack.texts)
        spend(1.0)
        tick()
        tick()
        assert len(slack.texts) == heard + 1
        assert "the language model is not called before the next month" in slack.texts[-1]
