"""The text in the answer of a `/chat/completions` endpoint, and what it bills for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from knowledge_pipeline.endpoints.responses import Refusal, Trouble

_THINKING = re.compile(r"\A\s*<(think|thinking)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"\A.*</think>", re.DOTALL)  # templates may put the start into the prompt


@dataclass(frozen=True, slots=True)
class Said:
    """One choice of an answer."""

    text: str  # without thinking
    whole: str  # with it: it is billed
    cut: bool  # `max_tokens` were reached


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a model wants its request: what one requires, another refuses.

    Models that think before they answer take `max_completion_tokens` for `max_tokens`, and no temperature.
    """

    limit: str = "max_tokens"
    temperature: bool = True
    effort: bool = True

    def body(self, max_tokens: int, effort: str | None) -> dict[str, Any]:
        """The fields of a request beside model and messages."""
        fields: dict[str, Any] = {self.limit: max_tokens}
        if self.temperature:
            fields["temperature"] = 0
        if self.effort and effort:
            fields["reasoning_effort"] = effort
        return fields

    def after(self, refusal: Refusal) -> Dialect | None:
        """The dialect to try next; None where the refusal is about something else."""
        if self.limit == "max_tokens" and refusal.is_about("max_completion_tokens"):
            return replace(self, limit="max_completion_tokens")
        if self.temperature and refusal.is_about("temperature"):
            return replace(self, temperature=False)
        if self.effort and refusal.is_about("reasoning"):
            return replace(self, effort=False)
        return None


def parse_said(answer: dict[str, Any]) -> Said:
    """What the first choice says; nothing is an answer as well.

    Raises:
        Trouble: there is no choice, or it has no text.
    """
    try:
        choice = answer["choices"][0]
        content = choice["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise Trouble("answered without a message") from None
    whole = _joined(content)
    return Said(_without_thinking(whole), whole, choice.get("finish_reason") == "length")


def told_tokens(answer: dict[str, Any]) -> tuple[int, int] | None:
    """Prompt and completion tokens that the answer bills; None where it does not tell both."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    return (prompt, completion) if prompt > 0 <= completion else None


def _joined(content: Any) -> str:
    """A message's content as one text: some endpoints send parts, and None for nothing."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    raise Trouble("answered with a message that is no text")


def _without_thinking(text: str) -> str:
    return _END_OF_THINKING.sub("", _THINKING.sub("", text)).strip()
