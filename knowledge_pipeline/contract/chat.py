"""Messages of a conversation: those that a caller sends, and those that a context answers with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from knowledge_pipeline.contract.types import ChatRole
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.json_values import is_list, is_object


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A message of the conversation so far."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    role: ChatRole
    content: str = field(metadata={"min_length": 1})

    def __post_init__(self) -> None:
        """Raise `InvalidQuery` for an unknown role."""
        if self.role not in get_args(ChatRole):
            allowed = ", ".join(get_args(ChatRole))
            raise InvalidQuery(f"found the role {self.role!r} in the history; allowed: {allowed}")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message for a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


def parse_history(text: str) -> tuple[ChatTurn, ...]:
    """The messages of a conversation from JSON: one object with a role and a content, or a list of them.

    Raises:
        InvalidQuery: it is something else.
    """
    try:
        found: object = json.loads(text)
    except ValueError:
        found = None
    turns = found if is_list(found) else [found]
    try:
        return tuple(_parse_turn(each) for each in turns)
    except (TypeError, ValueError) as error:
        raise InvalidQuery(
            'the history is not what it should be: a JSON list of {"role": "user", "content": "…"}, with the '
            f"roles {' and '.join(get_args(ChatRole))}"
        ) from error


def _parse_turn(value: object) -> ChatTurn:
    if not is_object(value) or set(value) != {"role", "content"}:
        raise ValueError(value)
    content = value["content"]
    if not isinstance(content, str) or not content:
        raise ValueError(content)
    return ChatTurn(value["role"], content)
