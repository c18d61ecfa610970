"""The messages of a conversation that fit a budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from knowledge_pipeline.contract.chat import ChatMessage, ChatTurn
from knowledge_pipeline.query.agent_context.tokens import CountTokens

_MESSAGE_TOKENS = 4  # of a message, in addition to its content: its role, its begin and end


def count_message(content: str, count: CountTokens) -> int:
    """Tokens of a message."""
    return count(content) + _MESSAGE_TOKENS


def count_messages(turns: Iterable[ChatTurn], count: CountTokens) -> int:
    """Tokens of several messages."""
    return sum(count_message(turn.content, count) for turn in turns)


def keep_newest(history: Sequence[ChatTurn], max_tokens: int, count: CountTokens) -> tuple[ChatTurn, ...]:
    """The newest messages that fit; an answer whose question is dropped is dropped as well."""
    first = len(history)
    for at in reversed(range(len(history))):
        max_tokens -= count_message(history[at].content, count)
        if max_tokens < 0:
            break
        first = at
    while 0 < first < len(history) and history[first].role == "assistant":
        first += 1
    return tuple(history[first:])


def build_messages(system: str, history: Iterable[ChatTurn], question: str) -> tuple[ChatMessage, ...]:
    """The instructions with the context, the conversation so far, and the question."""
    turns = (ChatMessage(turn.role, turn.content) for turn in history)
    return (ChatMessage("system", system), *turns, ChatMessage("user", question))
