"""Schedules take the sources whose configuration asks for them."""

from __future__ import annotations

import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.stages.context import Schedule, list_scheduled_sources

TRIGGERS = ["realtime", "on_commit", "hourly", "daily", "weekly", "manual"]


def settings(*sources: dict[str, object]) -> Settings:
    local = {"type": "local", "path": "/nowhere"}
    return Settings.model_validate({"sources": [{"connection": local, **source} for source in sources]})


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("hourly", {"hourly"}),
        ("daily", {"daily", "realtime", "on_commit", "hourly"}),
        ("weekly", {"weekly"}),
        ("weekly_reindex", set()),
        ("monthly_reindex", set()),
    ],
)
def test_a_schedule_takes_the_sources_with_its_triggers(schedule: Schedule, expected: set[str]) -> None:
    sources = [
        {"id": trigger, "type": "code", "refresh": {"trigger": trigger}} for trigger in reversed(TRIGGERS)
    ]
    assert {source.id for source in list_scheduled_sources(settings(*sources), schedule)} == expected


def test_without_a_trigger_that_of_the_type_counts() -> None:
    both = settings({"id": "history", "type": "git_history"}, {"id": "papers", "type": "files"})
    assert [source.id for source in list_scheduled_sources(both, "weekly")] == ["history"]
    assert [source.id for source in list_scheduled_sources(both, "daily")] == ["papers"]


def test_a_reindex_takes_what_asks_for_it_whatever_its_trigger() -> None:
    both = settings(
        {"id": "w", "type": "code", "refresh": {"full_reindex": "weekly", "trigger": "weekly"}},
        {"id": "m", "type": "code", "refresh": {"full_reindex": "monthly"}},
        {"id": "never", "type": "code"},
    )
    assert [source.id for source in list_scheduled_sources(both, "weekly_reindex")] == ["w"]
    assert [source.id for source in list_scheduled_sources(both, "monthly_reindex")] == ["m"]


def test_sources_of_one_repository_stand_together() -> None:
    urls = ["https://example.com/b.git", "https://example.com/a", "https://example.com/b"]
    sources = [
        {
            "id": f"{type_}-{number}",
            "type": type_,
            "connection": {"type": "git", "url": url},
            "refresh": {"trigger": "daily"},
        }
        for type_ in ("code", "markdown")
        for number, url in enumerate(urls)
    ]
    ordered = [source.id for source in list_scheduled_sources(settings(*sources), "daily")]
    assert ordered == ["code-1", "markdown-1", "code-0", "code-2", "markdown-0", "markdown-2"]
