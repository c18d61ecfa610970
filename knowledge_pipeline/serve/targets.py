"""Where events are delivered to, how deliveries are signed, and how far each target has got.

A position is a small file in the store's local folder: one line that is replaced, as after a crash the
event that was being delivered is delivered again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from knowledge_pipeline.config.operation import EventSettings
from knowledge_pipeline.contract.filters import EventType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import hash_strings

if TYPE_CHECKING:
    from knowledge_pipeline.store.logs import Event

PREFIX = "whsec_"
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64


def parse_key(secret: str) -> bytes:
    """The key of a secret, which is its base64. Raises `ConfigError`, without the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ConfigError(
            f"events.webhooks.secret is not {PREFIX} and the base64 of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} "
            f'bytes: make one with `echo "{PREFIX}$(openssl rand -base64 32)"`'
        )
    return key


def build_headers(key: bytes, id_: str, at_s: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery, sent at a Unix time in whole seconds, which say who sent it and when.

    Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    """
    signed = f"{id_}.{at_s}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": id_, "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{signature}"}


@dataclass(frozen=True, slots=True)
class Target:
    """One webhook."""

    url: str = field(repr=False)  # may hold a secret
    key: bytes = field(repr=False)
    types: tuple[EventType, ...]  # none: all

    @property
    def host(self) -> str:
        """What messages name."""
        return urlsplit(self.url).hostname or "its host"

    def wants(self, event: Event) -> bool:
        """Whether it subscribes to an event."""
        return not self.types or event.type in self.types


def parse_targets(settings: EventSettings) -> tuple[Target, ...]:
    """The targets of the settings. Raises `ConfigError`: a secret is none."""
    return tuple(
        Target(webhook.url, parse_key(webhook.secret.get_secret_value()), webhook.events)
        for webhook in settings.webhooks
    )


class TargetPosition:
    """The position of the last event that a target has taken."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._path = folder / f"{hash_strings(target.url)}.json"

    def load(self) -> int | None:
        """None where it has taken none yet."""
        try:
            position = json.loads(self._path.read_bytes())["position"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return position if isinstance(position, int) else None

    def save(self, position: int) -> None:
        """Replace it in one step. Raises `OSError`."""
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({"position": position}))
        new.replace(self._path)


def remove_other_positions(folder: Path, targets: Sequence[Target]) -> None:
    """Forget those of targets that are no longer configured: one that returns starts anew."""
    kept = {hash_strings(target.url) for target in targets}
    for path in folder.glob("*.json"):
        if path.stem not in kept:
            path.unlink(missing_ok=True)
