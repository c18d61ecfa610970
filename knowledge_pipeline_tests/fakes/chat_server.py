"""A small language model that speaks OpenAI's `/v1/chat/completions`, on a real socket.

    with ChatServer() as server:
        settings = LanguageModelSettings(model="fake", base_url=server.url, api_key=server.key)
        server.say("[2, 1]")

It says what the test scripts, in order, then `server.otherwise`. Faults are those of `openai_server`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer

Speech = str | Callable[[list[dict[str, str]]], str]
"""A reply, or what makes one of the messages."""


class ChatServer(OpenAIServer):
    """A context manager; `refused` are parameters of a request that the model does not take."""

    path = "/v1/chat/completions"

    def __init__(
        self,
        *,
        otherwise: Speech = "so be it",
        usage: bool = True,
        finish_reason: str = "stop",
        refused: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.otherwise = otherwise
        self.usage = usage
        self.finish_reason = finish_reason
        self.refused = refused
        self._speeches: deque[Speech] = deque()

    def say(self, *speeches: Speech) -> None:
        """What the next answers that are no fault say."""
        self._speeches.extend(speeches)

    @property
    def prompts(self) -> list[str]:
        """All messages of each request, as one text, whatever it was answered with."""
        return ["\n".join(request.texts) for request in self.requests]

    def _texts(self, body: dict) -> tuple[str, ...]:
        return tuple(message["content"] for message in body["messages"])

    def _refusal(self, body: dict, authorization: str) -> Fault | None:
        if refused := self._unauthorized(authorization):
            return refused
        if not body["messages"] or not body.get("model"):
            return Fault(400, message="you must provide a model parameter and messages")
        for name in self.refused:
            if name in body:
                hint = ". Use 'max_completion_tokens' instead" if name == "max_tokens" else ""
                said = f"Unsupported parameter: '{name}' is not supported with this model{hint}."
                return Fault(400, code="unsupported_parameter", message=said)
        return None

    def _content(self, body: dict, fault: Fault) -> dict:
        if fault.status != 200:
            return super()._content(body, fault)
        speech = self._speeches.popleft() if self._speeches else self.otherwise
        text = speech if isinstance(speech, str) else speech(body["messages"])
        counts = sum(len(each.split()) for each in self._texts(body)), len(text.split())
        usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        answer = {"id": "chat-1", "object": "chat.completion", "model": body["model"], "choices": [choice]}
        return answer | ({"usage": usage} if self.usage else {})
