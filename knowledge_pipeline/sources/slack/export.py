"""Channels of a Slack export: the same documents as by the API, out of a zip file or a folder.

An export has a file for each day of a channel; the replies to a message may lie in those of later
days. They are read one after the other and never all held. Configuration: docs/sources/slack.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from knowledge_pipeline.config.connections import SlackExportConnection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.slack.blocks import Json, dicts, string
from knowledge_pipeline.sources.slack.export_files import ExportFiles, no_export, open_export
from knowledge_pipeline.sources.slack.text import valid
from knowledge_pipeline.sources.slack.threads import (
    Channel,
    ChannelFilters,
    Listed,
    Revision,
    Said,
    day_uri,
    display_name,
    document,
    is_time,
    midnight,
    moment,
    newest_of,
    said,
    thread_of,
    thread_uri,
)
from knowledge_pipeline.sources.time_window import oldest_wanted

_ID = re.compile(r"\w+", re.ASCII)
_FILES_HELD = 4  # days, parsed: documents are read in the order that they are listed in
_SHOWN = 10


@dataclass(slots=True)
class _Heard:
    """What is known of a document, file after file; what was said is not held."""

    revision: Revision
    newest: float = 0.0
    days: dict[str, None] = field(default_factory=dict[str, None])  # files that it is in, ordered

    def add(self, message: Said, day: str) -> None:
        self.revision.said(message)
        self.newest = max(self.newest, message.newest)
        self.days[day] = None


class SlackExport(Source):
    """A `Source`; a context manager. Nothing is opened before the first listing."""

    def __init__(self, connection: SlackExportConnection, filters: ChannelFilters) -> None:
        """Raises ConfigError where `since` is no date."""
        self._path = connection.path
        self._filters = filters
        self._files: ExportFiles | None = None
        self._people: dict[str, str] = {}
        self._channels: dict[str, Channel] = {}
        self._day = lru_cache(maxsize=_FILES_HELD)(self._read_day)
        self._oldest()

    def close(self) -> None:
        """Free what was opened."""
        if self._files is not None:
            self._files.close()
            self._files = None

    def discover(self) -> Iterator[Item]:
        """Every thread and day of the wanted channels, channel by channel; a broken day as skipped.

        Raises:
            SourceRefused: it is no export, leads out of itself, or lacks a wanted channel.
        """
        self._opened()
        wanted = [
            each
            for each in self._channels.values()
            if not self._filters.channels or self._filters.wants(each)
        ]
        if missing := self._filters.missing(wanted):
            known = ", ".join(sorted(f"#{each.name}" for each in self._channels.values())[:_SHOWN])
            raise SourceRefused(
                f"the Slack export {self._path} has no public channel {', '.join(missing)}: correct the "
                f"source's channels; it has {known or 'none'}{' …' if len(self._channels) > _SHOWN else ''}"
            )
        listed = (each for channel in wanted for each in self._listed(channel))
        yield from newest_of(listed, self._filters.max_results)

    def fetch(self, item: Item) -> Document:
        """Read one listed thread or day, out of the files that it is in.

        Raises:
            DocumentSkipped: a file is gone or broken, or nothing is said in it any more.
            SourceRefused: as `discover`.
        """
        self._opened()
        channel = self._channels.get(item.uri.split("/")[1])
        if channel is None:
            raise DocumentSkipped("removed while it was read")
        taken = [
            told
            for day in item.locator.split()
            for message in self._day(channel, day)
            if _uri_of(channel, message) == item.uri and (told := said(message, self)) is not None
        ]
        return document(item.uri, channel, taken, site=None)

    def person(self, account: str) -> str | None:
        """The name of a person, as `users.json` has it."""
        return self._people.get(account)

    def channel(self, channel_id: str) -> str | None:
        """The name of a public channel."""
        known = self._channels.get(channel_id)
        return known.name if known else None

    def _oldest(self) -> datetime | None:
        """An export has an end, so that all of it is wanted where nothing else is said."""
        since = self._filters.since
        if since is None:
            return None
        return midnight(oldest_wanted(since).astimezone(UTC).date())

    def _opened(self) -> ExportFiles:
        if self._files is None:
            files = open_export(self._path)
            try:
                self._channels = {each.id: each for each in _channels(files)}
                self._people = dict(_people(files))
            except BaseException:
                files.close()
                raise
            self._day.cache_clear()
            self._files = files
        return self._files

    def _listed(self, channel: Channel) -> Iterator[Listed]:
        oldest = self._oldest()
        heard: dict[str, _Heard] = {}
        broken: dict[str, str] = {}
        for name in self._opened().days(channel.name):
            day = name.removesuffix(".json")
            try:
                messages = self._day(channel, day)
            except DocumentSkipped as reason:
                broken[f"day/{channel.id}/{day}"] = str(reason)
                continue
            for message in messages:
                if oldest is None or moment(thread_of(message) or message["ts"]) >= oldest:
                    self._hear(channel, message, day, heard)
        for uri, known in heard.items():
            if uri not in broken:
                yield Listed(Item(uri, str(known.revision), " ".join(known.days)), known.newest)
        for uri, reason in broken.items():
            yield Listed(Item(uri, "broken", skip=reason), newest=0.0)

    def _hear(self, channel: Channel, message: Json, day: str, heard: dict[str, _Heard]) -> None:
        if (told := said(message, self)) is not None:
            uri = _uri_of(channel, message)
            if uri not in heard:
                heard[uri] = _Heard(Revision(channel))
            heard[uri].add(told, day)

    def _read_day(self, channel: Channel, day: str) -> list[Json]:
        """The messages of one file, ascending; what has no time is no message."""
        try:
            found = dicts(self._opened().parsed(f"{channel.name}/{day}.json"))
        except KeyError:
            raise DocumentSkipped("removed while it was read") from None
        return sorted((each for each in found if is_time(each.get("ts"))), key=lambda each: float(each["ts"]))


def _uri_of(channel: Channel, message: Json) -> str:
    thread_ts = thread_of(message)
    return thread_uri(channel, thread_ts) if thread_ts else day_uri(channel, moment(message["ts"]).date())


def _channels(files: ExportFiles) -> Iterator[Channel]:
    """Public channels; `groups.json`, `dms.json` and `mpims.json` are left alone."""
    for told in _list(files, "channels.json") or ():
        channel = Channel(string(told.get("id")), valid(string(told.get("name"))))
        if not _ID.fullmatch(channel.id) or not channel.name:
            raise no_export(files.path)
        if {"/", "\\", "\0"} & set(channel.name) or channel.name in (".", ".."):
            raise SourceRefused(
                f"the Slack export {files.path} names a channel {channel.name[:100]!r}, which leads "
                "out of it: that is no export of Slack, do not use it"
            )
        yield channel


def _people(files: ExportFiles) -> Iterator[tuple[str, str]]:
    for name in ("users.json", "org_users.json"):
        for user in _list(files, name, needed=False) or ():
            profile = user.get("profile")
            called = (display_name(profile) if isinstance(profile, dict) else "") or display_name(user)
            yield string(user.get("id")), called


def _list(files: ExportFiles, name: str, *, needed: bool = True) -> list[Json] | None:
    """The objects of one of the export's own lists; None: it has none such, and need not."""
    found: list[Any]
    try:
        found = files.parsed(name)
    except KeyError:
        if needed:
            raise no_export(files.path) from None
        return None
    except DocumentSkipped as reason:
        raise SourceRefused(
            f"the Slack export {files.path} is broken ({reason}): download it again"
        ) from None
    return dicts(found)
