"""What a fake Slack says of a message: https://docs.slack.dev/reference/events/message/."""

from __future__ import annotations

from typing import Any


def posted(channel: str, ts: str, *, thread: str | None = None) -> dict[str, Any]:
    """A message, or a reply."""
    root = {"thread_ts": thread} if thread else {}
    return {"type": "message", "channel": channel, "ts": ts, "text": "never indexed from an event", **root}


def changed(
    channel: str, ts: str, *, thread: str | None = None, at: str = "1999999999.000001"
) -> dict[str, Any]:
    """A message that was edited."""
    root = {"thread_ts": thread} if thread else {}
    message = {"type": "message", "ts": ts, "text": "never indexed from an event", **root}
    told = {"type": "message", "subtype": "message_changed", "channel": channel, "ts": at}
    return {**told, "message": message, "previous_message": {**message, "text": "before"}}


def deleted(channel: str, ts: str, *, thread: str | None = None) -> dict[str, Any]:
    """A message that was deleted."""
    root = {"thread_ts": thread} if thread else {}
    told = {"type": "message", "subtype": "message_deleted", "channel": channel, "ts": "1999999999.000002"}
    return {**told, "deleted_ts": ts, "previous_message": {"type": "message", "ts": ts, **root}}


def of_channel(event: str, channel: str, **more: Any) -> dict[str, Any]:
    """Of a channel as a whole: `channel_deleted`, `member_left_channel`; a rename holds it as an object."""
    is_object = event in ("channel_rename", "channel_created", "group_rename")
    return {"type": event, "channel": {"id": channel, "name": "x"} if is_object else channel, **more}
