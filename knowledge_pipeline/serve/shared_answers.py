"""Shares responses among the processes of a server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from knowledge_pipeline.config.settings import CacheSettings
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.query.answer_cache import AnswerCache
from knowledge_pipeline.store.local_state import ANSWERS, SharedState
from knowledge_pipeline.store.release import Release

_TRIM_EVERY = 50  # responses that this process adds


class SharedAnswerCache(AnswerCache):
    """The responses of one process first, then those of all processes of a server. For one thread.

    There the key is a digest of the release and of all that was asked, the caller's access included.
    """

    def __init__(self, settings: CacheSettings, state: SharedState) -> None:
        super().__init__(settings)
        self._state = state
        self._ttl_s = settings.ttl_minutes * 60
        self._max_bytes = settings.max_megabytes * 1_000_000
        self._generation = ""  # digest of the release
        self._added = 0

    def get(self, release: Release, key: Hashable) -> SearchResponse | None:
        """The response to the same question of the same release, if any process still keeps it."""
        own = super().get(release, key)
        if own is not None or not self._ttl_s:
            return own
        try:
            content = self._state.get(ANSWERS, self._generation + _digest(key))
            response = parse_response(content) if content else None
        except (StoreUnavailable, ValidationError):
            return None
        if response is not None:
            super().put(release, key, response)
        return response

    def put(self, release: Release, key: Hashable, response: SearchResponse) -> None:
        """Keep a response for all processes, under the rules of `AnswerCache.put`."""
        super().put(release, key, response)
        if not self._ttl_s or response.degraded or release != self._release:
            return
        content = serialize_response(replace(response, cached=True))
        if len(content) > self._max_bytes // 10:
            return
        try:
            self._state.put(ANSWERS, self._generation + _digest(key), content, ttl_s=self._ttl_s)
        except StoreUnavailable:
            return  # it is found again
        self._added += 1
        if self._added % _TRIM_EVERY == 0:
            self._trim()

    def _advance_to(self, release: Release) -> None:
        super()._advance_to(release)
        self._generation = _digest(release)[:16]
        self._trim()

    def _trim(self) -> None:
        try:
            self._state.keep_newest(ANSWERS, beginning=self._generation, max_bytes=self._max_bytes)
        except StoreUnavailable:
            return  # the next response that is added tries again


def serialize_response(response: SearchResponse) -> bytes:
    """All of a response, with what the JSON of interfaces leaves out."""
    return json.dumps(asdict(response), separators=(",", ":"), default=datetime.isoformat).encode()


def parse_response(content: bytes) -> SearchResponse:
    """The response that `serialize_response` wrote. Raises `ValidationError`."""
    return _adapter().validate_json(content)


@cache
def _adapter() -> TypeAdapter[SearchResponse]:
    return TypeAdapter(SearchResponse)


def _digest(value: object) -> str:
    content = json.dumps(_to_json(value), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _to_json(value: Any) -> Any:
    """The same for equal keys in every process: what does not count for equality is left out."""
    if is_dataclass(value):
        compared = (member.name for member in fields(value) if member.compare)
        return [type(value).__name__, {name: _to_json(getattr(value, name)) for name in compared}]
    if isinstance(value, (set, frozenset)):
        members = cast("frozenset[Any]", value)
        return ["set", sorted((_to_json(member) for member in members), key=json.dumps)]
    if isinstance(value, (list, tuple)):
        return [_to_json(member) for member in cast("tuple[Any, ...]", value)]
    if isinstance(value, Mapping):
        return {str(key): _to_json(member) for key, member in cast("Mapping[Any, Any]", value).items()}
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
