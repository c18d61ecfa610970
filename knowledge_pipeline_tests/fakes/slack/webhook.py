"""A Slack incoming webhook on a real socket.

Answers as https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks says: 200 "ok",
400 invalid_payload or no_text, 404 no_service for another URL, 429 with Retry-After.
"""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass

from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


@dataclass(frozen=True, slots=True)
class Answer:
    """What the next request is answered with, whatever it says."""

    status: int
    body: str
    retry_after: str | None = None


class SlackWebhook(Served):
    """A context manager; `texts` are the messages that reached the channel."""

    def __init__(self) -> None:
        super().__init__()
        self.secret = "/".join(("T0000000", "B0000000", "x" * 24))
        self.texts: list[str] = []
        self.times: list[float] = []  # of all requests, time.monotonic()
        self._next: deque[Answer] = deque()

    @property
    def url(self) -> str:
        return f"{self.address}/services/{self.secret}"

    def answer_next(self, *answers: Answer) -> None:
        self._next.extend(answers)

    def send(self, asked: Asked) -> Sent:
        answer = self.answer(asked.path, asked.content)
        wait = {} if answer.retry_after is None else {"Retry-After": answer.retry_after}
        return Sent(answer.status, answer.body.encode(), wait)

    def answer(self, path: str, body: bytes) -> Answer:
        self.times.append(time.monotonic())
        if self._next:
            return self._next.popleft()
        if path != f"/services/{self.secret}":
            return Answer(404, "no_service")
        try:
            message = json.loads(body)
        except ValueError:
            return Answer(400, "invalid_payload")
        if not isinstance(message, dict):
            return Answer(400, "invalid_payload")
        if not message.get("text"):
            return Answer(400, "no_text")
        self.texts.append(message["text"])
        return Answer(200, "ok")
