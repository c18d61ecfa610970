"""Threads and channel-days of Slack, by its API or from an export.

A thread is a message that was replied to, with its replies; a channel-day is all else that was said
in a channel on one day of UTC.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeGuard

from knowledge_pipeline.connectors.conversations import Turn, format_conversation
from knowledge_pipeline.connectors.slack.text import (
    Json,
    NameLookup,
    iter_message_files,
    render_message,
    to_string,
)
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.text import is_object, replace_surrogates

_FORMAT_VERSION = "2"  # part of every revision: another one, and everything is read again
_TIMESTAMP = re.compile(r"\d{1,10}\.\d{1,9}", re.ASCII)
_MAX_TITLE_CHARS = 80
_MARKUP_SIGNS = re.compile(r"```+\S*|[*_~`]+(?=\S)|(?<=\S)[*_~`]+")

_SYSTEM_SUBTYPES = frozenset({
    *(
        f"{kind}_{what}"
        for kind in ("channel", "group")
        for what in ("join", "leave", "topic", "purpose", "name", "archive", "unarchive")
    ),
    *("channel_convert_to_private", "channel_convert_to_public", "channel_posting_permissions"),
    *("pinned_item", "unpinned_item", "reminder_add", "bot_add", "bot_remove", "bot_enable", "bot_disable"),
    *("tombstone", "message_deleted", "message_replied", "huddle_thread", "sh_room_created"),
})  # fmt: skip
"""Subtypes of system messages. Replies to them are kept."""


@dataclass(frozen=True, slots=True)
class ChannelFilters:
    """Which channels of a workspace, and which of their documents."""

    channels: tuple[str, ...] = ()  # names or ids; none: every public one, by the API those the bot is in
    since: str | None = None  # begun since a date or within a span; None: by the API "365 days", else all
    max_results: int | None = None  # the most recently active ones

    def accepts(self, channel: Channel) -> bool:
        """Whether it is named, by name or id."""
        return channel.id in self.channels or channel.name.lower() in map(_normalize_name, self.channels)

    def find_missing(self, channels: Iterable[Channel]) -> list[str]:
        """What is named and not among those found."""
        identifiers = {name for channel in channels for name in (channel.id, channel.name.lower())}
        return [name for name in self.channels if not identifiers & {name, _normalize_name(name)}]


def _normalize_name(channel: str) -> str:
    return channel.strip().removeprefix("#").lower()


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel; its id stays when it is renamed."""

    id: str
    name: str  # without `#`


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """The text of one message, its author and its time."""

    ts: str  # Slack's own time, unique in a channel: "1512085950.000216"
    author: str | None
    text: str
    edited_ts: str = ""  # a `ts`
    files: tuple[Attachment, ...] = ()

    @property
    def last_activity(self) -> float:
        """When it was posted or last edited, a Unix time."""
        return max(float(self.ts), float(self.edited_ts or 0))


@dataclass(frozen=True, slots=True)
class ItemActivity:
    """An item, and when something last happened in it, a Unix time."""

    item: Item
    last_activity: float


class RevisionDigest:
    """A digest of what a document is made of: its channel's name and its messages."""

    def __init__(self, channel: Channel) -> None:
        self._digest = blake2b(digest_size=12)
        self.add(_FORMAT_VERSION, channel.name)

    def add(self, *parts: str) -> None:
        """Add parts."""
        for part in (*parts, ""):
            self._digest.update(f"{len(part)}:{part}".encode())

    def add_message(self, message: SlackMessage) -> None:
        """Add a message."""
        self.add(message.ts, message.author or "", message.edited_ts, message.text)

    def __str__(self) -> str:
        return self._digest.hexdigest()


def select_newest(activities: Iterable[ItemActivity], limit: int | None) -> Iterable[Item]:
    """The items, or those where something happened last."""
    if limit is None:
        return (activity.item for activity in activities)
    skipped: list[Item] = []  # they are told whatever the limit

    def iter_readable() -> Iterator[ItemActivity]:
        for activity in activities:
            if activity.item.skip:
                skipped.append(activity.item)
            else:
                yield activity

    newest = heapq.nlargest(limit, iter_readable(), key=attrgetter("last_activity", "item.uri"))
    return [*(activity.item for activity in newest), *skipped]


def is_timestamp(value: Any) -> TypeGuard[str]:
    """Whether it is a time as Slack writes it, which is a message's identity too."""
    return isinstance(value, str) and _TIMESTAMP.fullmatch(value) is not None


def parse_timestamp(ts: str) -> datetime:
    """A time of Slack."""
    return datetime.fromtimestamp(float(ts), UTC)


def start_of_day(day: date) -> datetime:
    """Its beginning; Slack's days are of UTC here."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def thread_ts_of(message: Json) -> str | None:
    """The time of the root of the thread that a message is in, itself perhaps; None: it is in none."""
    ts, thread_ts = message["ts"], message.get("thread_ts")
    if is_timestamp(thread_ts) and thread_ts != ts:
        return thread_ts
    return ts if message.get("reply_count") or message.get("replies") else None


def parse_message(message: Json, names: NameLookup) -> SlackMessage | None:
    """A message; None for system messages and those without text."""
    is_system = to_string(message.get("subtype")) in _SYSTEM_SUBTYPES or message.get("hidden")
    if is_system or message.get("type", "message") != "message":
        return None
    if not (text := render_message(message, names)):
        return None
    edited = message.get("edited")
    at = edited.get("ts") if is_object(edited) else None
    author, edited_ts = _author_name(message, names), at if is_timestamp(at) else ""
    return SlackMessage(message["ts"], author, text, edited_ts, tuple(_iter_files(message, author)))


def _iter_files(message: Json, author: str | None) -> Iterator[Attachment]:
    """The files of a message that Slack itself keeps, or says why not; a deleted one is none."""
    for file in iter_message_files(message):
        id_, mode, size = to_string(file.get("id")), to_string(file.get("mode")), file.get("size")
        name = replace_surrogates(to_string(file.get("name")) or to_string(file.get("title")))
        if not id_ or not name or mode == "tombstone":
            continue
        address = to_string(file.get("url_private_download")) or to_string(file.get("url_private"))
        is_elsewhere = file.get("is_external") or mode in ("external", "hidden_by_limit")
        yield Attachment(
            id=id_,
            name=name,
            address=address,
            revision=f"{size}",
            size_bytes=size if isinstance(size, int) else None,
            url=to_string(file.get("permalink")) or None,
            author=author,
            created=parse_timestamp(message["ts"]),
            skip="kept by another service, or hidden by the workspace's plan"
            if is_elsewhere or not address
            else None,
        )


def _author_name(message: Json, names: NameLookup) -> str | None:
    """The name of the account, else the one in the message, as bots have."""
    profile, bot = message.get("user_profile"), message.get("bot_profile")
    user, username = to_string(message.get("user")), to_string(message.get("username"))
    names_by_preference = [
        username if message.get("subtype") == "bot_message" else "",
        (names("person", user) or "") if user else "",
        display_name(profile) if is_object(profile) else "",
        username,
        to_string(bot.get("name")) if is_object(bot) else "",
    ]
    shown = (" ".join(replace_surrogates(name).split()) for name in names_by_preference if name.strip())
    return next(shown, None)


def display_name(profile: Json) -> str:
    """The name that a profile shows."""
    wanted = (to_string(profile.get(name)).strip() for name in ("display_name", "real_name", "name"))
    return replace_surrogates(next((name for name in wanted if name), ""))


def account_name(user: Json) -> str:
    """The name of an account, as its profile says or else the account itself."""
    profile = user.get("profile")
    return (display_name(profile) if is_object(profile) else "") or display_name(user)


def parse_channel(raw: Json) -> Channel:
    """A channel as the API and exports list it."""
    return Channel(to_string(raw.get("id")), replace_surrogates(to_string(raw.get("name"))))


def day_uri(channel: Channel, day: date) -> str:
    """The uri of a channel's messages on one day, without threads."""
    return f"day/{channel.id}/{day.isoformat()}"


def thread_uri(channel: Channel, thread_ts: str) -> str:
    """Of a thread, by its root."""
    return f"thread/{channel.id}/{thread_ts}"


def unread_channel(channel: Channel, reason: str) -> ItemActivity:
    """A channel that cannot be read, as skipped; what is stored of it stays as it is."""
    keeps = (f"day/{channel.id}/", f"thread/{channel.id}/")
    return ItemActivity(Item(f"channel/{channel.id}", reason, skip=reason, keeps=keeps), 0.0)


def unlisted_channel(name: str, reason: str) -> ItemActivity:
    """A channel of the configuration, by name or id, that is not shown to us; what is stored of it stays."""
    keeps = (f"day/{name}/", f"thread/{name}/", f"#{_normalize_name(name)}/")
    return ItemActivity(Item(f"channel/{name}", reason, skip=reason, keeps=keeps), 0.0)


def parse_uri(uri: str) -> tuple[str, date] | None:
    """The id of the channel, and the day on which a document began; None: it is no uri of ours."""
    kind, _, rest = uri.partition("/")
    channel, _, name = rest.partition("/")
    if kind == "thread" and is_timestamp(name):
        return channel, parse_timestamp(name).date()
    with suppress(ValueError):
        return (channel, date.fromisoformat(name)) if kind == "day" else None
    return None


def build_document(
    uri: str, channel: Channel, messages: Sequence[SlackMessage], site: str | None
) -> Document:
    """The document of a uri's messages, all, ascending; `site`: the workspace's address, if known."""
    kind, _, name = uri.split("/")
    if not messages:
        raise DocumentSkipped("empty")
    thread_ts = name if kind == "thread" else None
    started = parse_timestamp(thread_ts or messages[0].ts)
    path = f"#{channel.name}/{started.date().isoformat()}"
    if thread_ts:
        title = f"#{channel.name}: {_shorten_title(messages[0].text)}"
        path = f"{path}/{started:%H:%M:%S}"
    else:
        title = f"#{channel.name} on {started.date().isoformat()}"
    turns: list[Turn] = []
    for message in messages:
        url = _build_permalink(site, channel, message.ts, thread_ts)
        turns.append(Turn("message", message.text, message.author, parse_timestamp(message.ts), url=url))
    text, segments = format_conversation(title, turns)
    return Document(
        uri,
        text,
        path=path,
        title=title,
        url=_build_permalink(site, channel, thread_ts or messages[0].ts, thread_ts),
        author=messages[0].author if thread_ts == messages[0].ts else None,
        last_modified=datetime.fromtimestamp(max(message.last_activity for message in messages), UTC),
        metadata={
            "channel": channel.name,
            "participants": sorted({message.author for message in messages if message.author}),
            "messages": len(messages),
            "created_at": started.isoformat(timespec="seconds"),
            "segments": segments,
        },
        attachments=tuple(file for message in messages for file in message.files),
    )


def _shorten_title(text: str) -> str:
    lines = (" ".join(_MARKUP_SIGNS.sub("", line).split()) for line in text.splitlines())
    line = next((line for line in lines if line), "…")
    if len(line) <= _MAX_TITLE_CHARS:
        return line
    cut = line[: _MAX_TITLE_CHARS + 1].rpartition(" ")[0] or line[:_MAX_TITLE_CHARS]
    return f"{cut.rstrip(' ,.;:')} …"


def _build_permalink(site: str | None, channel: Channel, ts: str, thread_ts: str | None) -> str | None:
    if site is None:
        return None
    address = f"{site.rstrip('/')}/archives/{channel.id}/p{ts.replace('.', '')}"
    is_reply = thread_ts is not None and thread_ts != ts
    return f"{address}?thread_ts={thread_ts}&cid={channel.id}" if is_reply else address
