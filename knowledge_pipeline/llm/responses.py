"""The text in the response of a `/chat/completions` endpoint, and the tokens that it bills."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from knowledge_pipeline.endpoints.responses import EndpointRefused, EndpointUnavailable
from knowledge_pipeline.json_values import is_list, is_object

_THINKING = re.compile(r"\A\s*<(think|thinking)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"\A.*</think>", re.DOTALL)  # templates may put the start into the prompt


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """One choice of a response."""

    text: str  # without thinking
    raw_text: str  # with it: it is billed
    truncated: bool  # `max_tokens` were reached


@dataclass(frozen=True, slots=True)
class RequestDialect:
    """Which parameters a model takes: what one requires, another refuses.

    Models that think before they answer take `max_completion_tokens` instead of `max_tokens`, and no
    temperature.
    """

    limit_key: str = "max_tokens"
    temperature: bool = True
    effort: bool = True

    def build_body(self, max_tokens: int, effort: str | None) -> dict[str, Any]:
        """The fields of a request, other than model and messages."""
        fields: dict[str, Any] = {self.limit_key: max_tokens}
        if self.temperature:
            fields["temperature"] = 0
        if self.effort and effort:
            fields["reasoning_effort"] = effort
        return fields

    def adapt_to(self, refusal: EndpointRefused) -> RequestDialect | None:
        """The dialect to try next; None where the refusal is about something else."""
        if self.limit_key == "max_tokens" and refusal.is_about_parameter("max_completion_tokens"):
            return replace(self, limit_key="max_completion_tokens")
        if self.temperature and refusal.is_about_parameter("temperature"):
            return replace(self, temperature=False)
        if self.effort and refusal.is_about_parameter("reasoning"):
            return replace(self, effort=False)
        return None


def parse_choice(payload: dict[str, Any]) -> ChatChoice:
    """The first choice; its text may be empty.

    Raises:
        EndpointUnavailable: there is no choice, or it has no text.
    """
    try:
        choice = payload["choices"][0]
        content = choice["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise EndpointUnavailable("answered without a message") from None
    if is_list(content):  # some endpoints send parts
        content = "".join(str(part.get("text", "")) for part in content if is_object(part))
    if not isinstance(content, str | None):
        raise EndpointUnavailable("answered with a message that is not text")
    text = content or ""
    shown = _END_OF_THINKING.sub("", _THINKING.sub("", text)).strip()
    return ChatChoice(shown, text, choice.get("finish_reason") == "length")


def parse_billed_tokens(payload: dict[str, Any]) -> tuple[int, int] | None:
    """Prompt and completion tokens that the response bills; None where it lacks either."""
    usage = payload.get("usage")
    if not is_object(usage):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    return (prompt, completion) if prompt > 0 <= completion else None
