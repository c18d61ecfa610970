"""Events of Slack: https://docs.slack.dev/apis/events-api/.

How they are signed: https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pydantic import SecretStr

from knowledge_pipeline.config.connections import SlackConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.events import (
    Change,
    Headers,
    Payload,
    ServiceEvent,
    SourceTest,
    WebhookService,
    is_equal,
    read_text,
    sign,
)
from knowledge_pipeline.errors import Unauthenticated
from knowledge_pipeline.text import descend, list_objects

_TOLERANCE_S = 300.0
_TIMESTAMP = re.compile(r"\d{1,10}\.\d{1,9}", re.ASCII)
_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{4,20}", re.ASCII)
_MAX_CHALLENGE_CHARS = 500

_LOST_OR_RENAMED = re.compile(r"(channel|group)_(deleted|archive|left|rename|unarchive|id_changed)")
_MEMBERSHIP_EVENTS = ("member_joined_channel", "member_left_channel")
_PEOPLE_EVENTS = ("team_join", "user_change", "user_profile_changed")


def _require_signature(secret: SecretStr, key: str, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless Slack signed the body within the last five minutes."""
    stamp = headers.get("x-slack-request-timestamp", "")
    is_time = stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12
    if not is_time or abs(time.time() - int(stamp)) > _TOLERANCE_S:
        raise Unauthenticated("the delivery has no time of the last five minutes: see this machine's clock")
    expected = "v0=" + sign(secret, b"v0:" + stamp.encode() + b":" + body)
    if not is_equal(expected, headers.get("x-slack-signature")):
        raise Unauthenticated(f"the signature is not that of serve.webhooks.{key} and this body")


def _find_changes(payload: Payload, headers: Headers) -> ServiceEvent | Iterable[Change]:
    """A thread, a day of a channel, a channel, or who sees it."""
    if payload.get("type") == "url_verification":
        return ServiceEvent(challenge=read_text(payload.get("challenge"))[:_MAX_CHALLENGE_CHARS])
    event = descend(payload, "event")
    kind = read_text(event.get("type"))
    # some events have the channel within an object
    channel = read_text(event.get("channel")) or read_text(descend(event, "channel").get("id"))
    if not _CHANNEL_ID.fullmatch(channel):
        return [Change(_reads_channel(""))] if kind in _PEOPLE_EVENTS else []
    reads = _reads_channel(channel)
    if kind == "message":
        documents = tuple(dict.fromkeys(_name_documents(channel, event)))
        return [Change(reads, documents)] if documents else []
    if _LOST_OR_RENAMED.fullmatch(kind):
        return [Change(reads, (f"thread/{channel}/*", f"day/{channel}/*"))]
    if kind in _MEMBERSHIP_EVENTS:
        bots = {read_text(grant.get("user_id")) for grant in list_objects(payload.get("authorizations"))}
        # of the bot itself: the channel is new, or lost
        return [Change(reads, relist=read_text(event.get("user")) in bots - {""})]
    return [Change(_reads_channel(""))] if kind in _PEOPLE_EVENTS else []


def _name_documents(channel: str, event: Payload) -> Iterator[str]:
    """The threads and days that a message may be in, or was in before.

    The first reply takes a message out of its day, and the deletion of the last one puts it back.
    """
    messages = [event, descend(event, "message"), descend(event, "previous_message")]
    roots = [read_text(message.get("thread_ts")) for message in messages]
    names = [read_text(message.get("ts")) for message in messages[1:]] + [read_text(event.get("deleted_ts"))]
    if not any(names):  # of an edit, the event's own time is that of the edit
        names.append(read_text(event.get("ts")))
    for ts in (*roots, *names):
        if _TIMESTAMP.fullmatch(ts):
            yield f"thread/{channel}/{ts}"
            yield f"day/{channel}/{datetime.fromtimestamp(float(ts), UTC).date().isoformat()}"


def _reads_channel(channel: str) -> SourceTest:
    """Whether a source may read a channel; a name in its settings may be that of any."""

    def reads(source: SourceConfig) -> bool:
        are_ids = all(map(_CHANNEL_ID.fullmatch, source.channels))
        has_channel = not source.channels or not channel or not are_ids or channel in source.channels
        return isinstance(source.connection, SlackConnection) and has_channel

    return reads


SERVICE = WebhookService(
    "slack",
    "Slack",
    "slack_secret",
    ("X-Slack-Signature", "X-Slack-Request-Timestamp"),
    _require_signature,
    _find_changes,
)
