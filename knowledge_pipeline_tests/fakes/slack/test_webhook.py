"""The fake webhook answers as the real one is documented to."""

from __future__ import annotations

import httpx2

from knowledge_pipeline_tests.fakes.slack.webhook import Answer, SlackWebhook


def test_it_speaks_the_documented_protocol():
    with SlackWebhook() as slack:
        taken = httpx2.post(slack.url, json={"text": "hello"})
        assert (taken.status_code, taken.text) == (200, "ok")
        broken = httpx2.post(slack.url, content=b"{")
        assert (broken.status_code, broken.text) == (400, "invalid_payload")
        assert httpx2.post(slack.url, json={}).text == "no_text"
        assert httpx2.post(f"{slack.url}y", json={"text": "x"}).status_code == 404
        slack.answer_next(Answer(429, "rate_limited", "3"))
        limited = httpx2.post(slack.url, json={"text": "later"})
        assert (limited.status_code, limited.headers["Retry-After"]) == (429, "3")
        assert slack.texts == ["hello"]
