"""Threads and channel-days of Slack, by its API or out of an export: what is said in which.

A thread is a message that was replied to, with its replies; a channel-day is all else that was said
in a channel on one day of UTC.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import Any, TypeGuard

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.conversation import Turn, conversation
from knowledge_pipeline.sources.slack.blocks import Json, string, text_of
from knowledge_pipeline.sources.slack.text import Names, valid

_FORMAT = "1"  # part of every revision: another one, and everything is read again
_TIME = re.compile(r"\d{1,10}\.\d{1,9}", re.ASCII)
_MOST_TITLE_CHARS = 80
_FENCE = re.compile(r"```+\S*|[*_~`]+(?=\S)|(?<=\S)[*_~`]+")

_NOISE = frozenset({
    *(
        f"{kind}_{what}"
        for kind in ("channel", "group")
        for what in ("join", "leave", "topic", "purpose", "name", "archive", "unarchive")
    ),
    *("channel_convert_to_private", "channel_convert_to_public", "channel_posting_permissions"),
    *("pinned_item", "unpinned_item", "reminder_add", "bot_add", "bot_remove", "bot_enable", "bot_disable"),
    *("tombstone", "message_deleted", "message_replied", "huddle_thread", "sh_room_created"),
})  # fmt: skip
"""Subtypes of messages that nobody said. Replies to them are kept."""


@dataclass(frozen=True, slots=True)
class ChannelFilters:
    """Which channels of a workspace, and which of their documents."""

    channels: tuple[str, ...] = ()  # names or ids; none: every public one, by the API those the bot is in
    since: str | None = None  # begun since a date or within a span; None: by the API "365 days", else all
    max_results: int | None = None  # the ones that something was said in last

    def wants(self, channel: Channel) -> bool:
        """Whether it is named, by name or id."""
        return channel.id in self.channels or channel.name.lower() in self.names

    @property
    def names(self) -> frozenset[str]:
        """What is named, as names compare."""
        return frozenset(each.strip().removeprefix("#").lower() for each in self.channels)

    def missing(self, found: Iterable[Channel]) -> list[str]:
        """What is named and not among those found."""
        known = {name for channel in found for name in (channel.id, channel.name.lower())}
        return [
            each
            for each in self.channels
            if each not in known and each.strip().removeprefix("#").lower() not in known
        ]


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel; its id stays when it is renamed."""

    id: str
    name: str  # without `#`


@dataclass(frozen=True, slots=True)
class Said:
    """What one message says, who said it and when."""

    ts: str  # Slack's own time, unique in a channel: "1512085950.000216"
    who: str | None
    text: str
    edited: str = ""  # a `ts`

    @property
    def newest(self) -> float:
        """When it was said or last edited, a Unix time."""
        return max(float(self.ts), float(self.edited or 0))


@dataclass(frozen=True, slots=True)
class Listed:
    """An item, and when something last happened in it, a Unix time."""

    item: Item
    newest: float


class Revision:
    """What tells that a document would differ: its channel's name, and what is known to be said."""

    def __init__(self, channel: Channel) -> None:
        self._digest = blake2b(digest_size=12)
        self.add(_FORMAT, channel.name)

    def add(self, *parts: str) -> None:
        """Go on with something known."""
        for part in (*parts, ""):
            self._digest.update(f"{len(part)}:{part}".encode())

    def said(self, message: Said) -> None:
        """Go on with a message."""
        self.add(message.ts, message.who or "", message.edited, message.text)

    def __str__(self) -> str:
        return self._digest.hexdigest()


def newest_of(listed: Iterable[Listed], most: int | None) -> Iterable[Item]:
    """The items, or those where something happened last."""
    if most is None:
        return (each.item for each in listed)
    return [each.item for each in heapq.nlargest(most, listed, key=lambda each: (each.newest, each.item.uri))]


def is_time(value: Any) -> TypeGuard[str]:
    """Whether it is a time as Slack writes it, which is a message's identity too."""
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def moment(ts: str) -> datetime:
    """A time of Slack."""
    return datetime.fromtimestamp(float(ts), UTC)


def midnight(day: date) -> datetime:
    """Its beginning; Slack's days are of UTC here."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def thread_of(message: Json) -> str | None:
    """The time of the root of the thread that a message is in, itself perhaps; None: it is in none."""
    ts, thread_ts = message["ts"], message.get("thread_ts")
    if is_time(thread_ts) and thread_ts != ts:
        return thread_ts
    return ts if message.get("reply_count") or message.get("replies") else None


def said(message: Json, names: Names) -> Said | None:
    """What a message says; None: nothing that anybody said."""
    if (
        string(message.get("subtype")) in _NOISE
        or message.get("hidden")
        or message.get("type", "message") != "message"
    ):
        return None
    text = text_of(message, names)
    edited = message.get("edited")
    at = edited.get("ts") if isinstance(edited, dict) else None
    return Said(message["ts"], _who(message, names), text, at if is_time(at) else "") if text else None


def _who(message: Json, names: Names) -> str | None:
    """By name: of the account, else as the message itself says, a bot's as a rule."""
    profile, bot = message.get("user_profile"), message.get("bot_profile")
    user, written = string(message.get("user")), string(message.get("username"))
    told = [
        written if message.get("subtype") == "bot_message" else "",
        (names.person(user) or "") if user else "",
        display_name(profile) if isinstance(profile, dict) else "",
        written,
        string(bot.get("name")) if isinstance(bot, dict) else "",
    ]
    return next((" ".join(valid(name).split()) for name in told if name.strip()), None)


def display_name(profile: Json) -> str:
    """As a profile says that somebody wants to be called."""
    wanted = (string(profile.get(name)).strip() for name in ("display_name", "real_name", "name"))
    return valid(next((name for name in wanted if name), ""))


def day_uri(channel: Channel, day: date) -> str:
    """Of what was said in a channel on a day, but for threads."""
    return f"day/{channel.id}/{day.isoformat()}"


def thread_uri(channel: Channel, thread_ts: str) -> str:
    """Of a thread, by its root."""
    return f"thread/{channel.id}/{thread_ts}"


def document(uri: str, channel: Channel, messages: Sequence[Said], site: str | None) -> Document:
    """The document of a uri, from all that is said in it, ascending.

    Args:
        uri: of `day_uri` or `thread_uri`.
        channel: where it was said.
        messages: what was said.
        site: the workspace's address, "https://example.slack.com"; None: not known.

    Raises:
        DocumentSkipped: nothing is said in it.
    """
    kind, _, name = uri.split("/")
    if not messages:
        raise DocumentSkipped("empty")
    thread_ts = name if kind == "thread" else None
    started = moment(thread_ts or messages[0].ts)
    place = f"#{channel.name}/{started.date().isoformat()}"
    if thread_ts:
        title = f"#{channel.name}: {_first_words(messages[0].text)}"
        place = f"{place}/{started:%H:%M:%S}"
    else:
        title = f"#{channel.name} on {started.date().isoformat()}"
    turns = [
        Turn(
            "message", each.text, each.who, moment(each.ts), url=_permalink(site, channel, each.ts, thread_ts)
        )
        for each in messages
    ]
    text, segments = conversation(title, turns)
    return Document(
        uri,
        text,
        path=place,
        title=title,
        url=_permalink(site, channel, thread_ts or messages[0].ts, thread_ts),
        author=messages[0].who if thread_ts == messages[0].ts else None,
        last_modified=datetime.fromtimestamp(max(each.newest for each in messages), UTC),
        metadata={
            "channel": channel.name,
            "participants": sorted({each.who for each in messages if each.who}),
            "messages": len(messages),
            "created_at": started.isoformat(timespec="seconds"),
            "segments": segments,
        },
    )


def _first_words(text: str) -> str:
    lines = (" ".join(_FENCE.sub("", line).split()) for line in text.splitlines())
    line = next((line for line in lines if line), "…")
    if len(line) <= _MOST_TITLE_CHARS:
        return line
    cut = line[: _MOST_TITLE_CHARS + 1].rpartition(" ")[0] or line[:_MOST_TITLE_CHARS]
    return f"{cut.rstrip(' ,.;:')} …"


def _permalink(site: str | None, channel: Channel, ts: str, thread_ts: str | None) -> str | None:
    if site is None:
        return None
    address = f"{site.rstrip('/')}/archives/{channel.id}/p{ts.replace('.', '')}"
    is_reply = thread_ts is not None and thread_ts != ts
    return f"{address}?thread_ts={thread_ts}&cid={channel.id}" if is_reply else address
