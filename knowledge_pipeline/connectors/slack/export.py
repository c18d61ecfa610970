"""Channels of a Slack export: the same documents as by the API, out of a zip file or a folder.

An export has a file for each day of a channel; the replies to a message may lie in those of later
days. They are read one after the other and never all held. Configuration: docs/sources/slack.md.
"""

from __future__ import annotations

import json
import re
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from knowledge_pipeline.config.connections import SlackExportConnection
from knowledge_pipeline.connectors.base import DELETED_REASON, Source
from knowledge_pipeline.connectors.slack import threads
from knowledge_pipeline.connectors.slack.text import Json, to_string
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.text import is_list, list_objects
from knowledge_pipeline.times import parse_since

_CHANNEL_ID = re.compile(r"\w+", re.ASCII)
_MAX_CACHED_FILES = 4  # days, parsed: documents are read in the order that they are listed in
_MAX_SHOWN_CHANNELS = 10
_PEOPLE_FILES = ("users.json", "org_users.json")


@dataclass(slots=True)
class _DocumentActivity:
    """What is known of a document, file after file, without its messages."""

    revision: threads.RevisionDigest
    last_activity: float = 0.0
    days: dict[str, None] = field(default_factory=dict[str, None])  # files that it is in, ordered

    def add(self, message: threads.SlackMessage, day: str) -> None:
        self.revision.add_message(message)
        self.last_activity = max(self.last_activity, message.last_activity)
        self.days[day] = None


class SlackExport(Source):
    """The channels of one export that pass the filters; nothing is opened before the first listing."""

    def __init__(self, connection: SlackExportConnection, filters: threads.ChannelFilters) -> None:
        """Raises ConfigError where `since` is not a date."""
        self._path = connection.path
        self._filters = filters
        self._files: ExportFiles | None = None
        self._people: dict[str, str] = {}
        self._channels: dict[str, threads.Channel] = {}
        self._load_day = lru_cache(maxsize=_MAX_CACHED_FILES)(self._read_day)
        self._oldest_day()

    def close(self) -> None:
        """Free what was opened."""
        if self._files is not None:
            self._files.close()
            self._files = None

    def discover(self) -> Iterator[Item]:
        """Every thread and day of the wanted channels, channel by channel; a broken day as skipped."""
        self._open_files()
        channels = self._filters.channels
        wanted = [
            channel for channel in self._channels.values() if not channels or self._filters.accepts(channel)
        ]
        if missing := self._filters.find_missing(wanted):
            names = sorted(f"#{channel.name}" for channel in self._channels.values())
            more = " …" if len(names) > _MAX_SHOWN_CHANNELS else ""
            raise SourceRefused(
                f"the Slack export {self._path} has no public channel {', '.join(missing)}: correct the "
                f"source's channels; it has {', '.join(names[:_MAX_SHOWN_CHANNELS]) or 'none'}{more}"
            )
        listed = (activity for channel in wanted for activity in self._list_activity(channel))
        yield from threads.select_newest(listed, self._filters.max_results)

    def fetch(self, item: Item) -> Document:
        """Read one listed thread or day, out of the files that it is in."""
        self._open_files()
        channel = self._channels.get(item.uri.split("/")[1])
        if channel is None:
            raise DocumentSkipped(DELETED_REASON)
        messages = [
            parsed
            for day in item.locator.split()
            for message in self._load_day(channel, day)
            if _uri_of(channel, message) == item.uri
            and (parsed := threads.parse_message(message, self._find_name)) is not None
        ]
        return threads.build_document(item.uri, channel, messages, site=None)

    def _find_name(self, kind: str, id_: str) -> str | None:
        """A `NameLookup`, of people in `users.json` and public channels."""
        if kind == "person":
            return self._people.get(id_)
        channel = self._channels.get(id_)
        return channel.name if channel else None

    def _oldest_day(self) -> datetime | None:
        since = self._filters.since
        return None if since is None else threads.start_of_day(parse_since(since).astimezone(UTC).date())

    def _open_files(self) -> ExportFiles:
        if self._files is None:
            files = open_export(self._path)
            try:
                self._channels = {channel.id: channel for channel in _iter_channels(files)}
                lists = (_load_list(files, name, is_required=False) for name in _PEOPLE_FILES)
                people = (user for users in lists for user in users or ())
                self._people = {to_string(user.get("id")): threads.account_name(user) for user in people}
            except BaseException:
                files.close()
                raise
            self._load_day.cache_clear()
            self._files = files
        return self._files

    def _list_activity(self, channel: threads.Channel) -> Iterator[threads.ItemActivity]:
        oldest = self._oldest_day()
        activity_by_uri: dict[str, _DocumentActivity] = {}
        broken: dict[str, str] = {}
        names = self._open_files().list_days(channel.name)
        if names is None:
            reason = f"the export has no folder for #{channel.name}"
            yield threads.ItemActivity(Item(f"channel/{channel.id}", reason, skip=reason), last_activity=0.0)
            return
        for name in names:
            day = name.removesuffix(".json")
            try:
                messages = self._load_day(channel, day)
            except DocumentSkipped as reason:
                broken[f"day/{channel.id}/{day}"] = str(reason)
                continue
            for message in messages:
                if (
                    oldest is not None
                    and threads.parse_timestamp(threads.thread_ts_of(message) or message["ts"]) < oldest
                ):
                    continue
                if (parsed := threads.parse_message(message, self._find_name)) is not None:
                    uri = _uri_of(channel, message)
                    if uri not in activity_by_uri:
                        activity_by_uri[uri] = _DocumentActivity(threads.RevisionDigest(channel))
                    activity_by_uri[uri].add(parsed, day)
        for uri, activity in activity_by_uri.items():
            if uri not in broken:
                item = Item(uri, str(activity.revision), " ".join(activity.days))
                yield threads.ItemActivity(item, activity.last_activity)
        for uri, reason in broken.items():
            yield threads.ItemActivity(Item(uri, "broken", skip=reason), last_activity=0.0)

    def _read_day(self, channel: threads.Channel, day: str) -> list[Json]:
        """The messages of one file, ascending; what has no time is no message."""
        try:
            entries = list_objects(self._open_files().read_json_list(f"{channel.name}/{day}.json"))
        except KeyError:
            raise DocumentSkipped(DELETED_REASON) from None
        messages = (entry for entry in entries if threads.is_timestamp(entry.get("ts")))
        return sorted(messages, key=lambda message: float(message["ts"]))


def _uri_of(channel: threads.Channel, message: Json) -> str:
    if thread_ts := threads.thread_ts_of(message):
        return threads.thread_uri(channel, thread_ts)
    return threads.day_uri(channel, threads.parse_timestamp(message["ts"]).date())


def _iter_channels(files: ExportFiles) -> Iterator[threads.Channel]:
    """Public channels; `groups.json`, `dms.json` and `mpims.json` are left alone."""
    for entry in _load_list(files, _CHANNELS_FILE) or ():
        channel = threads.parse_channel(entry)
        if not _CHANNEL_ID.fullmatch(channel.id) or not channel.name:
            raise build_not_export_error(files.path)
        if {"/", "\\", "\0"} & set(channel.name) or channel.name in (".", ".."):
            raise SourceRefused(
                f"the Slack export {files.path} names a channel {channel.name[:100]!r}, which leads "
                "out of it: do not use it"
            )
        yield channel


def _load_list(files: ExportFiles, name: str, *, is_required: bool = True) -> list[Json] | None:
    """The objects of one of the export's own lists; None: it has none such, and need not."""
    try:
        return list_objects(files.read_json_list(name))
    except KeyError:
        if is_required:
            raise build_not_export_error(files.path) from None
        return None
    except DocumentSkipped as reason:
        raise SourceRefused(
            f"the Slack export {files.path} is broken ({reason}): download it again"
        ) from None


MAX_FILE_BYTES = 200_000_000
"""Of one file, unpacked; a larger one is not believed."""

_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.json", re.ASCII)
_DRIVE = re.compile(r"[A-Za-z]:")
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)
"""What zipfile raises: of damage, of a packing that it does not know, and (RuntimeError) of a password."""

_CHANNELS_FILE = "channels.json"


class ExportFiles(ABC):
    """The files of a Slack export, out of its zip file or the folder that it was unpacked to; `close` it.

    Nothing is unpacked: a file is read when it is requested, and none from outside of the export.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def list_days(self, folder: str) -> list[str] | None:
        """The names of a channel's files, one a day: "2026-11-21.json", ascending; None: it has no folder."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file by its path in the export. Raises KeyError; DocumentSkipped: it cannot be read."""

    def close(self) -> None:  # noqa: B027 - a folder holds nothing open
        """Nothing can be read after it."""

    def read_json_list(self, name: str) -> list[Any]:
        """The list that a file of JSON holds. Raises as `read`, or DocumentSkipped: it holds none."""
        try:
            content = json.loads(self.read(name))
        except (ValueError, RecursionError):
            raise DocumentSkipped(f"{name} is not valid JSON") from None
        if not is_list(content):
            raise DocumentSkipped(f"{name} holds no list of messages")
        return content


def open_export(path: Path) -> ExportFiles:
    """The files of an export."""
    path = path.expanduser().absolute()
    if path.is_dir():
        return _FolderExport(path)
    if not path.exists():
        raise SourceRefused(f"the Slack export {path} does not exist: correct connection.path")
    return _ZipExport(path)


def build_not_export_error(path: Path) -> SourceRefused:
    """The error for anything other than an export."""
    return SourceRefused(
        f"{path} is not a Slack export: it has no {_CHANNELS_FILE}; set connection.path to the zip file as "
        "Slack made it, or to the folder that it was unpacked to"
    )


class _FolderExport(ExportFiles):
    def list_days(self, folder: str) -> list[str] | None:
        location = self._resolve_inside(folder)
        try:
            return sorted(file.name for file in location.iterdir() if _DAY_FILE.fullmatch(file.name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceRefused(
                f"the folder {location} cannot be listed ({error.strerror}): make it readable"
            ) from None

    def read(self, name: str) -> bytes:
        try:
            with self._resolve_inside(name).open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise KeyError(name) from None
        except OSError as error:
            raise DocumentSkipped(f"{name} cannot be read ({error.strerror})") from None
        return _require_size(name, content)

    def _resolve_inside(self, name: str) -> Path:
        location = self.path / name
        if not location.resolve().is_relative_to(self.path.resolve()):
            raise SourceRefused(
                f"the Slack export {self.path} leads out of its folder at {name}: unpack it again"
            )
        return location


def _open_zip(path: Path) -> zipfile.ZipFile:
    """Slack writes names in UTF-8 without the flag that says so; without it they are of code page 437."""
    try:
        return zipfile.ZipFile(path, metadata_encoding="utf-8")
    except UnicodeDecodeError:
        return zipfile.ZipFile(path)


class _ZipExport(ExportFiles):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._zip = _open_zip(path)
        except _BROKEN_ZIP:
            raise SourceRefused(
                f"{path} is not a readable zip file: give the Slack export as it was downloaded, or "
                "download it again"
            ) from None
        try:
            self._root = self._find_root()
        except SourceRefused:
            self._zip.close()
            raise
        self._days: defaultdict[str, set[str]] = defaultdict(set)
        for name in self._zip.namelist():
            folder, _, file = name.removeprefix(self._root).rpartition("/")
            if name.startswith(self._root):
                self._days[folder] |= {file} if _DAY_FILE.fullmatch(file) else set()

    def close(self) -> None:
        self._zip.close()

    def list_days(self, folder: str) -> list[str] | None:
        return sorted(self._days[folder]) if folder in self._days else None

    def read(self, name: str) -> bytes:
        entry = self._zip.getinfo(self._root + name)  # KeyError where there is none
        try:
            with self._zip.open(entry) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except _BROKEN_ZIP:
            raise DocumentSkipped(f"{name} cannot be unpacked: download the export again") from None
        return _require_size(name, content)

    def _find_root(self) -> str:
        """The folder within the zip that the export is in, as a rule ""; nothing may lead out of it."""
        tops: list[str] = []
        for entry in self._zip.infolist():
            path = PurePosixPath(entry.filename.replace("\\", "/"))
            if (
                path.is_absolute()
                or ".." in path.parts
                or _DRIVE.match(entry.filename)
                or stat.S_ISLNK(entry.external_attr >> 16)
            ):
                raise SourceRefused(
                    f"{self.path} holds a file that leads out of it ({entry.filename[:100]!r}): do not use it"
                )
            if path.name == _CHANNELS_FILE and len(path.parts) <= 2:
                tops.append(entry.filename.removesuffix(_CHANNELS_FILE))
        if not tops:
            raise build_not_export_error(self.path)
        return min(tops, key=len)


def _require_size(name: str, content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise DocumentSkipped(f"{name} is larger than {MAX_FILE_BYTES} bytes")
    return content
