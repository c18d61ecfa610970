"""What is said in a small Slack workspace; told by `server` and written by `write_export`."""

from __future__ import annotations

import json
import zipfile
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class Room:
    """A channel, with all messages by their `ts`."""

    id: str
    name: str
    is_private: bool = False
    is_archived: bool = False
    is_member: bool = True
    members: list[str] = field(default_factory=list)
    messages: dict[str, Json] = field(default_factory=dict)
    times: list[str] = field(default_factory=list)  # of what its history shows, ascending
    threads: dict[str, list[str]] = field(default_factory=dict)  # the times of replies, by root

    def told(self) -> Json:
        return {
            "id": self.id,
            "name": self.name,
            "is_channel": True,
            "is_private": self.is_private,
            "is_archived": self.is_archived,
            "is_member": self.is_member,
            "created": 1449252889,
        }

    def shown(self, ts: str) -> Json:
        """A message as Slack tells it: a root knows of its replies."""
        message = self.messages[ts]
        replies = self.threads.get(ts)
        if not replies:
            return message
        users = list(dict.fromkeys(self.messages[each].get("user", "") for each in replies))
        return message | {
            "thread_ts": ts,
            "reply_count": len(replies),
            "reply_users_count": len(users),
            "latest_reply": replies[-1],
            "reply_users": users,
        }

    def between(self, oldest: str, latest: str) -> list[str]:
        """The times of what its history shows from one time to another, both included, ascending."""
        first = bisect_left(self.times, padded(oldest))
        return [each for each in self.times[first:] if each <= padded(latest)]


def padded(ts: str) -> str:
    """Times of one length compare like numbers."""
    seconds, _, rest = ts.partition(".")
    return f"{int(seconds or 0):010d}.{(rest + '000000')[:6]}"


class SlackSite:
    """Channels, people and messages; the bot is in every channel that is not made otherwise."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.people: dict[str, Json] = {}
        self.strangers: dict[str, Json] = {}  # of another workspace: not listed, but shown by id
        self.now: datetime | None = None  # None: the present moment
        self._count = self._channels_opened = 0
        self.channel("general")
        self.person("U0ADA", "Ada Lovelace")
        self.person("U0BOB", "Bob")

    def channel(self, name: str, **more: Any) -> str:
        """The id of a new channel."""
        channel_id = f"C0{self._channels_opened:04d}"
        self._channels_opened += 1
        self.rooms[channel_id] = Room(channel_id, name, **more)
        return channel_id

    def join(self, channel: str, *accounts: str) -> None:
        """These are the members of a channel, besides the bot."""
        self.rooms[channel].members = list(accounts)

    def person(
        self, account: str, name: str, *, stranger: bool = False, email: str | None = None, **more: Any
    ) -> None:
        user: Json = {"id": account, "name": name.split()[0].lower(), "deleted": False, **more}
        user["profile"] = {"real_name": name, "display_name": "" if " " in name else name}
        if email is not None:
            user["profile"]["email"] = email
        (self.strangers if stranger else self.people)[account] = user

    def post(
        self,
        text: str,
        channel: str = "C00000",
        *,
        user: str | None = "U0ADA",
        at: datetime | None = None,
        thread: str | None = None,
        **more: Any,
    ) -> str:
        """The `ts` of a new message; `thread` is the `ts` that it replies to."""
        self._count += 1
        moment = at or self.now or datetime.now(UTC)
        ts = f"{int(moment.timestamp()):010d}.{self._count % 1_000_000:06d}"
        room = self.rooms[channel]
        message: Json = {"type": "message", "text": text, "ts": ts, **more}
        if user is not None:
            message["user"] = user
        room.messages[ts] = message
        if thread is not None:
            message["thread_ts"] = thread
            insort(room.threads.setdefault(thread, []), ts)
        if thread is None or more.get("subtype") == "thread_broadcast":
            insort(room.times, ts)
        return ts

    def create(self, title: str, text: str = "", channel: str = "C00000") -> str:
        """The uri of a new thread, whose root says title and text."""
        root = self.post(f"{title}\n{text}", channel)
        self.post("noted", channel, user="U0BOB", thread=root)
        return f"thread/{channel}/{root}"

    def edit(self, uri: str, text: str) -> None:
        """Of a thread, its root; its title stays."""
        room, ts = self._of(uri)
        title = room.messages[ts]["text"].partition("\n")[0]
        self.rewrite(ts, f"{title}\n{text}", room.id)

    def delete(self, uri: str) -> None:
        """A thread with all its replies."""
        room, ts = self._of(uri)
        for reply in [*room.threads.get(ts, ()), ts]:
            self.remove(reply, room.id)

    def rewrite(self, ts: str, text: str, channel: str = "C00000", **more: Any) -> None:
        """Edit one message."""
        moment = self.now or datetime.now(UTC)
        edited = {"user": "U0ADA", "ts": f"{int(moment.timestamp()):010d}.000000"}
        message = self.rooms[channel].messages[ts]
        self.rooms[channel].messages[ts] = message | {"text": text, "edited": edited, **more}

    def remove(self, ts: str, channel: str = "C00000") -> None:
        """Delete one message; a root that was replied to leaves a tombstone."""
        room = self.rooms[channel]
        if room.threads.get(ts):
            told = {"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "hidden": True}
            room.messages[ts] = {**told, "text": "This message was deleted.", "ts": ts}
            return
        thread = room.messages.pop(ts).get("thread_ts")
        if thread is not None:
            room.threads[thread].remove(ts)
        if ts in room.times:
            room.times.remove(ts)

    def _of(self, uri: str) -> tuple[Room, str]:
        _, channel, ts = uri.split("/")
        return self.rooms[channel], ts


def write_export(site: SlackSite, folder: Path) -> Path:
    """The workspace as Slack exports it: public channels, one file for each of their days."""
    folder.mkdir(parents=True, exist_ok=True)
    rooms = [room for room in site.rooms.values() if not room.is_private]
    _write(folder / "channels.json", [{"id": room.id, "name": room.name, "members": []} for room in rooms])
    _write(folder / "users.json", list(site.people.values()))
    for room in rooms:
        days: dict[str, list[Json]] = {}
        for ts in sorted(room.messages):
            message = room.shown(ts)
            if replies := room.threads.get(ts):
                who = (room.messages[each].get("user") for each in replies)
                message = message | {
                    "replies": [{"user": user, "ts": each} for user, each in zip(who, replies, strict=True)]
                }
            day = datetime.fromtimestamp(float(ts), UTC).date().isoformat()
            days.setdefault(day, []).append(message)
        (folder / room.name).mkdir(exist_ok=True)
        for day, messages in days.items():
            _write(folder / room.name / f"{day}.json", messages)
    return folder


class _UnflaggedName(zipfile.ZipInfo):
    """Of an entry whose name is UTF-8 without the flag that would say so, as Slack writes it."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode(), self.flag_bits


def zipped(folder: Path, top: str = "") -> Path:
    """A zip file of a folder, beside it."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            entry = _UnflaggedName.from_file(file, f"{top}{file.relative_to(folder)}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, b"" if file.is_dir() else file.read_bytes())
    return path


def _write(path: Path, content: list[Any]) -> None:
    path.write_text(json.dumps(content))
