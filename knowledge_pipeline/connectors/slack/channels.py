"""Channels of a Slack workspace by its API: a document for each thread, and for each day of what is in none.

A channel's history holds the roots of threads and all that is in none, newest first; replies are
asked for thread by thread. Scopes and configuration: docs/sources/slack.md.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import groupby

from knowledge_pipeline.config.connections import SlackConnection
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.service import ServiceSource
from knowledge_pipeline.connectors.slack.client import Json, SlackClient, SlackRefused
from knowledge_pipeline.connectors.slack.text import keep_ids, to_string
from knowledge_pipeline.connectors.slack.threads import (
    Channel,
    ChannelFilters,
    ItemActivity,
    RevisionDigest,
    account_name,
    build_document,
    day_uri,
    is_timestamp,
    parse_channel,
    parse_message,
    parse_timestamp,
    parse_uri,
    select_newest,
    start_of_day,
    thread_ts_of,
    thread_uri,
    unlisted_channel,
    unread_channel,
)
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.text import is_object
from knowledge_pipeline.times import parse_since

OVERLAP = timedelta(days=3)
"""How long before the newest known message the next listing begins: edits, deletions and replies are seen
that concern what was said within it. Slack tells of no other change to what is older."""

_DEFAULT_SINCE = "365 days"
_PAGE_SIZE = 200  # messages a call; Slack advises no more, and gives some apps fewer
_MAX_CACHED_MESSAGES = 5_000  # messages that a listing read and a document is then made of
_MAX_DAY_GAP = timedelta(days=7)  # days no further apart than this are read together
_DAY = timedelta(days=1)


class _ChannelRefused(SourceRefused):
    def __init__(self, service: str, channel: Channel, code: str) -> None:
        super().__init__(
            f"{service} does not let the bot read #{channel.name} ({code}): invite it with /invite there, or "
            "take the channel out of the source; nothing is deleted"
        )


class SlackChannels(ServiceSource[SlackClient]):
    """The channels of one workspace that pass the filters; nothing is sent before the first listing."""

    full_listing_interval = timedelta(days=7)
    """Detects deletions and new replies to old threads."""

    def __init__(self, connection: SlackConnection, filters: ChannelFilters) -> None:
        """Raises ConfigError where `since` is not a date."""
        super().__init__(SlackClient(connection))
        self._filters = filters
        self._workspace = SlackWorkspace(self._client)
        self._channels: dict[str, Channel] | None = None
        self._cached_days: dict[str, list[Json]] = {}  # by uri, of days
        self._cached_message_count = 0
        self._oldest_day()

    def discover(self) -> Iterator[Item]:
        """Every thread and day of the wanted channels, channel by channel, the newest of each first."""
        self._channels = None  # read again for every listing
        yield from select_newest(self._list_activity(self._oldest_day()), self._filters.max_results)

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """Threads begun since, `OVERLAP` before included, and days; all else waits for a whole listing."""
        self._channels = None
        begin = start_of_day((since.astimezone(UTC) - OVERLAP).date())
        yield from select_newest(self._list_activity(max(self._oldest_day(), begin)), None)

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        """Those of the threads and days that are in a channel which we read, from the days they began on."""
        self._channels = None
        self._cached_days.clear()
        self._cached_message_count = 0
        wanted: defaultdict[str, set[date]] = defaultdict(set)
        for uri in uris:
            if parsed := parse_uri(uri):
                wanted[parsed[0]].add(parsed[1])
        for channel_id, days in wanted.items():
            if channel := self._load_channels().get(channel_id):
                recent = (day for day in days if start_of_day(day) >= self._oldest_day())
                try:
                    for day, messages in self._iter_runs(channel, recent):
                        for listed in self._list_day(channel, day, messages):
                            if listed.item.uri in uris:
                                yield listed.item
                except _ChannelRefused as refusal:
                    yield unread_channel(channel, str(refusal)).item
        if wanted.keys() - self._load_channels().keys():  # which of them was named is not known
            yield from (activity.item for activity in self._list_missing())

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """One call for each thread, and for every `_PAGE_SIZE` messages of neighbouring days."""
        days: defaultdict[str, list[Item]] = defaultdict(list)
        threads: list[Item] = []
        for item in items:
            if (kept := self._cached_days.pop(item.uri, None)) is not None:
                yield item, self._build_document(item, kept)
            elif item.uri.startswith("day/"):
                days[item.uri.split("/")[1]].append(item)
            else:
                threads.append(item)
        for channel_id, wanted in days.items():
            yield from self._fetch_days(self._require_channel(channel_id), wanted)
        for item in threads:
            yield item, self._fetch_thread(item)

    def _oldest_day(self) -> datetime:
        """The beginning of the first wanted day: a day is taken whole or not at all."""
        return start_of_day(parse_since(self._filters.since or _DEFAULT_SINCE).astimezone(UTC).date())

    def _load_channels(self) -> dict[str, Channel]:
        if self._channels is None:
            self._channels = {channel.id: channel for channel in self._workspace.list_channels(self._filters)}
        return self._channels

    def _require_channel(self, channel_id: str) -> Channel:
        channel = self._load_channels().get(channel_id)
        if channel is None:
            raise SourceRefused(
                f"{self._client.service} no longer shows the channel {channel_id}: invite the bot again, or "
                "correct the source's channels"
            )
        return channel

    def _list_activity(self, oldest: datetime) -> Iterator[ItemActivity]:
        self._cached_days.clear()
        self._cached_message_count = 0
        end = datetime.now(UTC) + _DAY  # a clock that is late must hide nothing
        refusals: list[_ChannelRefused] = []
        for channel in self._load_channels().values():
            try:
                for day, messages in self._iter_days(channel, oldest, end):
                    yield from self._list_day(channel, day, messages)
            except _ChannelRefused as refusal:  # as of a bot, which leaves with a channel's archiving
                refusals.append(refusal)
                yield unread_channel(channel, str(refusal))
        yield from self._list_missing()
        if refusals and len(refusals) == len(self._load_channels()):
            raise refusals[0]

    def _list_missing(self) -> Iterator[ItemActivity]:
        """The named channels that Slack does not list, or no longer: left, archived, made private."""
        for name in self._filters.find_missing(self._load_channels().values()):
            yield unlisted_channel(name, str(self._workspace.build_missing_error([name])))

    def _list_day(self, channel: Channel, day: date, messages: Sequence[Json]) -> Iterator[ItemActivity]:
        """The day itself, and the threads that began on it, from their roots."""
        alone = [message for message in messages if thread_ts_of(message) is None]
        revision, newest = RevisionDigest(channel), 0.0
        for message in alone:
            if (parsed := parse_message(message, keep_ids)) is not None:
                revision.add_message(parsed)
                newest = max(newest, parsed.last_activity)
        if newest:
            uri = day_uri(channel, day)
            if self._cached_message_count + len(alone) <= _MAX_CACHED_MESSAGES:
                self._cached_days[uri] = alone
                self._cached_message_count += len(alone)
            yield ItemActivity(Item(uri, str(revision)), newest)
        for message in messages:
            if thread_ts_of(message) == message["ts"]:
                # from the root alone, which has the number of replies and the time of the last one
                revision = RevisionDigest(channel)
                if (parsed := parse_message(message, keep_ids)) is not None:
                    revision.add_message(parsed)
                latest = message.get("latest_reply")
                replied = float(latest) if is_timestamp(latest) else float(message["ts"])
                newest = max(parsed.last_activity if parsed else 0.0, replied)
                revision.add(str(message.get("reply_count")), str(latest))
                yield ItemActivity(Item(thread_uri(channel, message["ts"]), str(revision)), newest)

    def _iter_days(
        self, channel: Channel, begin: datetime, end: datetime
    ) -> Iterator[tuple[date, list[Json]]]:
        """A channel's history before `end`, a day at a time, the newest first; a day's messages ascend."""
        history = self._iter_history(channel, begin, end)
        for day, messages in groupby(history, key=lambda message: parse_timestamp(message["ts"]).date()):
            yield day, list(messages)[::-1]

    def _iter_runs(self, channel: Channel, days: Iterable[date]) -> Iterator[tuple[date, list[Json]]]:
        """As `_iter_days`, of some days and those between them, of which neighbours are read together."""
        runs: list[tuple[date, date]] = []  # first and last day
        for day in sorted(days):
            if runs and day - runs[-1][1] <= _MAX_DAY_GAP:
                runs[-1] = (runs[-1][0], day)
            else:
                runs.append((day, day))
        for first, last in runs:
            yield from self._iter_days(channel, start_of_day(first), start_of_day(last) + _DAY)

    def _iter_history(self, channel: Channel, begin: datetime, end: datetime) -> Iterator[Json]:
        """Descending; with a latest time given, pages begin at it and go back."""
        oldest, latest = begin.timestamp(), end.timestamp()
        last = float("inf")
        query: Json = {"channel": channel.id, "oldest": f"{oldest:.6f}", "latest": f"{latest:.6f}"}
        query |= {"inclusive": True, "limit": _PAGE_SIZE}
        with self._translate_refusals(channel):
            for page in self._client.iter_pages("conversations.history", "messages", **query):
                for message in page:
                    now = float(message["ts"]) if is_timestamp(message.get("ts")) else last
                    if now >= last:
                        problem = f"listed the messages of #{channel.name} out of order"
                        raise self._client.listing_incomplete(problem)
                    last = now
                    if oldest <= now < latest:
                        yield message

    def _fetch_days(
        self, channel: Channel, items: Sequence[Item]
    ) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        wanted = {date.fromisoformat(item.uri.split("/")[2]): item for item in items}
        for day, messages in self._iter_runs(channel, wanted):
            if item := wanted.pop(day, None):
                yield item, self._build_document(item, messages)
        for item in wanted.values():
            yield item, DocumentSkipped(DELETED_REASON)

    def _fetch_thread(self, item: Item) -> Document | DocumentSkipped:
        _, channel_id, thread_ts = item.uri.split("/")
        channel = self._require_channel(channel_id)
        by_ts: dict[str, Json] = {}  # every page begins with the root again
        try:
            with self._translate_refusals(channel):
                query: Json = {"channel": channel_id, "ts": thread_ts, "limit": _PAGE_SIZE}
                for page in self._client.iter_pages("conversations.replies", "messages", **query):
                    by_ts |= {message["ts"]: message for message in page if is_timestamp(message.get("ts"))}
        except SlackRefused as refusal:
            if refusal.code in ("thread_not_found", "message_not_found"):
                return DocumentSkipped(DELETED_REASON)
            raise
        if not by_ts.keys() - {thread_ts}:  # all replies were deleted: the message belongs to its day
            return DocumentSkipped(DELETED_REASON)
        return self._build_document(item, [by_ts[ts] for ts in sorted(by_ts, key=float)])

    def _build_document(self, item: Item, messages: Iterable[Json]) -> Document | DocumentSkipped:
        """From messages, ascending; of a day's, those in threads are left out."""
        is_day = item.uri.startswith("day/")
        parsed_messages = [
            parsed
            for message in messages
            if not (is_day and thread_ts_of(message))
            and (parsed := parse_message(message, self._workspace.find_name)) is not None
        ]
        if not parsed_messages:
            return DocumentSkipped(DELETED_REASON if is_day else "empty")
        channel = self._require_channel(item.uri.split("/")[1])
        return build_document(item.uri, channel, parsed_messages, self._workspace.site)

    @contextmanager
    def _translate_refusals(self, channel: Channel) -> Generator[None]:
        try:
            yield
        except SlackRefused as refusal:
            if refusal.code in ("not_in_channel", "channel_not_found", "no_permission", "access_denied"):
                raise _ChannelRefused(self._client.service, channel, refusal.code) from None
            raise


_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{5,}")
_WORKSPACE_PAGE_SIZE = 999  # Slack's most
_UNKNOWN_USER_CODES = ("user_not_found", "user_not_visible", "users_not_found", "invalid_arguments")


class SlackWorkspace:
    """A workspace's channels, its people by name, its address.

    Each list is read once, when it is needed.
    """

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._people: dict[str, str] | None = None
        self._channels: dict[str, str] = {}
        self._is_listed = False

    def list_channels(self, filters: ChannelFilters) -> list[Channel]:
        """The wanted channels by id, as they are now; SourceRefused where not one is shown."""
        self._channels, self._is_listed = {}, False
        if len(filters.channels) == 1 and (channel := self._find_channel(filters.channels[0])):
            return [channel]
        public = self._list_channels_of_kind("public_channel", exclude_archived=not filters.channels)
        if not filters.channels:
            wanted = [parse_channel(raw) for raw in public if raw.get("is_member")]
            if not wanted:
                raise SourceRefused(
                    f"the bot of connection.token is in no public channel of {self._client.service}: invite "
                    "it with /invite in each channel to read, or name channels under the source's channels"
                )
            return sorted(wanted, key=lambda channel: channel.id)
        wanted = list(filter(filters.accepts, map(parse_channel, public)))
        if filters.find_missing(wanted):
            try:
                private = self._list_channels_of_kind("private_channel", exclude_archived=False)
            except SlackRefused as refusal:
                if refusal.code != "missing_scope":
                    raise
                private = []
            wanted += filter(filters.accepts, map(parse_channel, private))
        if not wanted:
            raise self.build_missing_error(filters.channels)
        return sorted(wanted, key=lambda channel: channel.id)

    def build_missing_error(self, names: Iterable[str]) -> SourceRefused:
        """Of named channels that are not shown."""
        return SourceRefused(
            f"{self._client.service} shows no channel {', '.join(names)}: correct the source's channels; a "
            "private one is seen once the bot is invited and has the scopes groups:read and groups:history; "
            "nothing is deleted"
        )

    def list_readable(self, *, private: bool) -> list[Json]:
        """The channels that the bot may read: those that it is in, and archived ones, in which nobody is."""
        kinds = ("public_channel", "private_channel") if private else ("public_channel",)
        lists = (self._list_channels_of_kind(kind, exclude_archived=False) for kind in kinds)
        by_id = {to_string(raw.get("id")): raw for channels in lists for raw in channels}
        return [raw for _, raw in sorted(by_id.items()) if raw.get("is_member") or raw.get("is_archived")]

    @cached_property
    def site(self) -> str | None:
        """The workspace's address for people."""
        return to_string(self._client.call("auth.test").get("url")) or None

    def find_name(self, kind: str, id_: str) -> str | None:
        """A `NameLookup`, of channels that a listing shows."""
        if kind == "person":
            # people of other workspaces are looked up one by one
            if self._people is None:
                pages = self._client.iter_pages("users.list", "members", limit=_WORKSPACE_PAGE_SIZE)
                self._people = {
                    to_string(user.get("id")): account_name(user) for page in pages for user in page
                }
            if id_ not in self._people:
                user = self._client.find("users.info", "user", _UNKNOWN_USER_CODES, user=id_)
                self._people[id_] = account_name(user) if is_object(user) else ""
            return self._people[id_] or None
        if id_ not in self._channels and not self._is_listed:
            self._list_channels_of_kind("public_channel", exclude_archived=False)
        return self._channels.get(id_)

    def _find_channel(self, channel_id: str) -> Channel | None:
        """A channel by its id; None where it is not one, or not shown to us."""
        if not _CHANNEL_ID.fullmatch(channel_id):
            return None
        codes = ("channel_not_found", "missing_scope")
        raw = self._client.find("conversations.info", "channel", codes, channel=channel_id)
        if not is_object(raw) or raw.get("id") != channel_id:
            return None
        channel = parse_channel(raw)
        self._channels[channel.id] = channel.name
        return channel

    def _list_channels_of_kind(self, kind: str, *, exclude_archived: bool) -> list[Json]:
        query: Json = {"types": kind, "exclude_archived": exclude_archived, "limit": _WORKSPACE_PAGE_SIZE}
        pages = self._client.iter_pages("conversations.list", "channels", **query)
        channels = [channel for page in pages for channel in page]
        self._is_listed = True
        self._channels |= {to_string(raw.get("id")): to_string(raw.get("name")) for raw in channels}
        return channels
