"""Deliveries of webhooks: their payloads, and which were received before."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.store.shared_state import SharedState

MAX_BODY_BYTES = 5_000_000  # of a body: a push of two thousand commits
MAX_AGE_S = 3 * 24 * 3600.0  # GitHub gives its own deliveries again for so long

_MAX_DELIVERIES = 10_000


class SeenDeliveries:
    """The keys of the last ten thousand deliveries."""

    def __init__(self, state: SharedState | None = None) -> None:
        """Remember none; with a `state`, those of all workers count."""
        self._state = state
        self._seen: OrderedDict[str, None] = OrderedDict()

    def has_seen(self, keys: Iterable[str]) -> bool:
        """Whether one of the keys was seen."""
        if self._state:
            return any(self._state.get("delivery", name) is not None for name in keys)
        return any(name in self._seen for name in keys)

    def remember(self, keys: Iterable[str]) -> None:
        """Remember the keys, and forget the oldest ones."""
        if self._state:
            for name in keys:
                self._state.put("delivery", name, b"", ttl_s=MAX_AGE_S)
            return
        self._seen.update(dict.fromkeys(keys))
        while len(self._seen) > _MAX_DELIVERIES:
            self._seen.popitem(last=False)


def parse_payload(body: bytes, content_type: str) -> dict[str, Any]:
    """The payload of a delivery, sent as JSON or in a form.

    Raises:
        InvalidQuery: it is not a JSON object.
    """
    try:
        if content_type.startswith("application/x-www-form-urlencoded"):
            body = parse_qs(body.decode(), max_num_fields=10).get("payload", [""])[0].encode()
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not is_object(payload):
        raise InvalidQuery(
            "the body is not a JSON object: set the webhook's content type to application/json"
        )
    return payload
