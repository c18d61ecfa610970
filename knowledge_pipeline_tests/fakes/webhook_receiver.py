"""A receiver of webhooks on a real socket, which verifies them as Standard Webhooks says.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections import deque
from typing import Any

from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

TOLERANCE_S = 300


class WebhookReceiver(Served):
    """A context manager; `taken` are the bodies that it has accepted, repetitions included."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._key = base64.b64decode(secret.removeprefix("whsec_"))
        self.taken: list[dict[str, Any]] = []
        self.asked: list[Asked] = []
        self._next: deque[Sent] = deque()
        self._came = threading.Condition()

    @property
    def url(self) -> str:
        return f"{self.address}/hook?key=of-the-address"

    def answer_next(self, *answers: Sent) -> None:
        """Answer the next requests so, whatever they are; nothing of them is taken."""
        self._next.extend(answers)

    def wait_for(self, count: int, *, requests: bool = False) -> None:
        """Until so many different ones are taken, or so many requests have come."""

        def count_taken() -> int:
            return len(self.asked) if requests else len({body["id"] for body in self.taken})

        with self._came:
            assert self._came.wait_for(lambda: count_taken() >= count, timeout=60), (count, self.taken)

    def send(self, asked: Asked) -> Sent:
        with self._came:
            self.asked.append(asked)
            self._came.notify_all()
            if self._next:
                return self._next.popleft()
            if problem := self._find_problem(asked):
                return Sent(400, problem.encode())
            self.taken.append(json.loads(asked.content))
            self._came.notify_all()
        return Sent(204, b"")

    def _find_problem(self, asked: Asked) -> str | None:
        id_, at = asked.headers.get("webhook-id"), asked.headers.get("webhook-timestamp", "")
        if not id_ or not at.isdecimal():
            return "no id, or no time"
        if abs(time.time() - int(at)) > TOLERANCE_S:
            return "too old"
        signed = hmac.new(self._key, f"{id_}.{at}.".encode() + asked.content, hashlib.sha256).digest()
        given = [each.partition(",") for each in asked.headers.get("webhook-signature", "").split()]
        expected = base64.b64encode(signed).decode()
        right = any(version == "v1" and hmac.compare_digest(of, expected) for version, _, of in given)
        return None if right else "wrong signature"
