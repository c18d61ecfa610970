"""Events of Slack: https://docs.slack.dev/apis/events-api/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from knowledge_pipeline.config.connections.services import SlackConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.serve.webhooks.events import (
    Change,
    Payload,
    ServiceEvent,
    descend,
    list_objects,
    read_text,
)
from knowledge_pipeline.serve.webhooks.verification import Headers

_TIMESTAMP = re.compile(r"\d{1,10}\.\d{1,9}", re.ASCII)
_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{4,20}", re.ASCII)
_MAX_CHALLENGE_CHARS = 500

_LOST_OR_RENAMED = re.compile(r"(channel|group)_(deleted|archive|left|rename|unarchive|id_changed)")
_MEMBERSHIP_EVENTS = ("member_joined_channel", "member_left_channel")
_PEOPLE_EVENTS = ("team_join", "user_change", "user_profile_changed")


def parse_slack_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of Slack is about: a thread, a day of a channel, a channel, or who sees it."""
    del headers
    if payload.get("type") == "url_verification":
        return ServiceEvent(challenge=read_text(payload.get("challenge"))[:_MAX_CHALLENGE_CHARS])
    event = descend(payload, "event")
    kind, channel = read_text(event.get("type")), _find_channel(event)
    if kind == "message" and channel:
        documents = tuple(dict.fromkeys(_name_documents(channel, event)))
        return ServiceEvent.of([Change(_Reads(channel), documents)] if documents else [])
    if channel and _LOST_OR_RENAMED.fullmatch(kind):
        return ServiceEvent.of([Change(_Reads(channel), (f"thread/{channel}/*", f"day/{channel}/*"))])
    if kind in _MEMBERSHIP_EVENTS and channel:
        bots = {read_text(each.get("user_id")) for each in list_objects(payload.get("authorizations"))}
        if read_text(event.get("user")) not in bots - {""}:
            return ServiceEvent.of([Change(_Reads(channel))])
        return ServiceEvent.of(
            [Change(_Reads(channel), relist=True)]
        )  # the bot itself: the channel is new, or lost
    return ServiceEvent.of([Change(_Reads(""))] if kind in _PEOPLE_EVENTS else [])


def _find_channel(event: Payload) -> str:
    """The id of the channel, which some events have within an object; "" where there is none."""
    channel = event.get("channel")
    id_ = read_text(channel) or read_text(descend(event, "channel").get("id"))
    return id_ if _CHANNEL_ID.fullmatch(id_) else ""


def _name_documents(channel: str, event: Payload) -> Iterator[str]:
    """The threads and days that a message may be in, or was in before.

    The first reply takes a message out of its day, and the deletion of the last one puts it back.
    """
    messages = [event, descend(event, "message"), descend(event, "previous_message")]
    roots = [read_text(message.get("thread_ts")) for message in messages]
    names = [read_text(each.get("ts")) for each in messages[1:]] + [read_text(event.get("deleted_ts"))]
    if not any(names):  # of an edit, the event's own time is that of the edit
        names.append(read_text(event.get("ts")))
    for ts in (*roots, *names):
        if _TIMESTAMP.fullmatch(ts):
            yield f"thread/{channel}/{ts}"
            yield f"day/{channel}/{datetime.fromtimestamp(float(ts), UTC).date().isoformat()}"


class _Reads:
    """Whether a source may read a channel; a name in its settings may be that of any."""

    def __init__(self, channel: str) -> None:
        self._channel = channel

    def __call__(self, source: SourceConfig) -> bool:
        if not isinstance(source.connection, SlackConnection):
            return False
        named = source.channels
        are_ids = all(_CHANNEL_ID.fullmatch(each) for each in named)
        return not named or not self._channel or not are_ids or self._channel in named
