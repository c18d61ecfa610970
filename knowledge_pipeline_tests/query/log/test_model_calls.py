"""Calls of a language model as rows of the log, and as costs in the SQL models."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from knowledge_pipeline.config.settings import LanguageModelSettings
from knowledge_pipeline.llm.model import LanguageModel
from knowledge_pipeline.llm.model_calls import Message, ModelCall, UsageAccount, on_behalf_of
from knowledge_pipeline.query.logs import ModelCallLog
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline_tests.fakes.chat_server import ChatServer

CALL = ModelCall(datetime(2026, 3, 1, tzinfo=UTC), "m", 2, 30, 0.5, 1.25, UsageAccount("s-1", "shop"))


def rows(lake: Lake) -> list[dict]:
    table = lake.log_table("llm_calls")
    return table.read_rows(table.schema.names).to_pylist()


def test_a_completion_is_one_row_with_its_cost_and_who_pays(lake: Lake):
    calls = ModelCallLog(lake)

    async def ask(server: ChatServer) -> None:
        settings = LanguageModelSettings.model_validate(
            {"model": "fake", "base_url": server.url, "api_key": server.key}
            | {"price_per_million_input_tokens": 1.0, "price_per_million_output_tokens": 2.0}
        )
        model = LanguageModel(settings, record=calls.record)
        with on_behalf_of(session="s-1", project="shop", on_behalf_of="ann"):
            await model.complete([Message("user", "how are you")])
        await model.aclose()

    with ChatServer(otherwise="very well") as server:
        asyncio.run(ask(server))
    calls.close(wait_s=60)  # the first row waits for lancedb to be loaded
    (row,) = rows(lake)
    assert row.pop("cost") == pytest.approx(7e-6)
    assert 0 < row.pop("seconds") < 60
    assert abs((datetime.now(UTC) - row.pop("at")).total_seconds()) < 300
    assert row == {
        "kind": "completion",
        "provider": "openai",
        "model": "fake",
        "source": None,
        "session": "s-1",
        "project": "shop",
        "calls": 1,
        "tokens": 5,
        "on_behalf_of": "ann",
        "input_tokens": 3,
        "output_tokens": 2,
        **dict.fromkeys(("tenant", "interface", "token", "error", "prompt", "response")),
    }


def test_noting_does_not_wait_for_the_store(lake: Lake):
    calls = ModelCallLog(lake, flush_interval_s=0.0)
    with lock_log(lake, "llm_calls"):  # no row can be written before this ends
        calls.record(CALL)
        calls.record(CALL)
        assert not lake.log_table("llm_calls").exists
    calls.close(wait_s=60)
    assert [(row["calls"], row["tokens"], row["cost"]) for row in rows(lake)] == [(2, 30, 0.5)] * 2


def test_without_calls_no_thread_and_no_table(lake: Lake):
    ModelCallLog(lake).close()
    assert not lake.log_table("llm_calls").exists


def test_a_store_that_cannot_be_written_is_said_once(lake: Lake, caplog: pytest.LogCaptureFixture):
    lake.root.mkdir(parents=True)
    (lake.root / "logs").write_text("in the way of the folder")
    with caplog.at_level(logging.WARNING, "knowledge_pipeline"):
        for _ in range(2):
            calls = ModelCallLog(lake)
            calls.record(CALL)
            calls.close(wait_s=60)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and told[0].startswith("calls of models are not logged (")
