"""A small Slack that speaks its Web API on a real socket, as https://docs.slack.dev/reference/methods has it.

    with SlackServer() as server:
        uri = server.create("On call", "who wakes up")
        channels = SlackChannels(server.connection, ChannelFilters())

What is wrong is told with status 200 and `ok: false`; limits with 429. History pages by cursors that
are times, newest first; pages of `conversations.list` come short where archived channels are left out.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode, b64encode
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from pydantic import SecretStr

from knowledge_pipeline.config.connections import SlackConnection
from knowledge_pipeline_tests.fakes.kept_files import KeptFile, KeptFiles
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served
from knowledge_pipeline_tests.fakes.slack.site import Json, Room, SlackSite, padded

_SCOPES = {
    "conversations.list": {"public_channel": "channels:read", "private_channel": "groups:read"},
    "users.list": {"": "users:read"},
    "users.info": {"": "users:read"},
}
_HISTORY = ("conversations.history", "conversations.replies")


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    cut_off: bool = False  # half of the body, then the connection is closed
    body: bytes | None = None  # this body, whatever was asked


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived, and what was answered: its status, or Slack's word for what is wrong."""

    method: str
    parameters: dict[str, str]
    answer: str


class Refused(Exception):
    """Answered with `ok: false`."""

    def __init__(self, code: str, **more: str) -> None:
        super().__init__(code)
        self.told: Json = {"ok": False, "error": code, **more}


class SlackServer(SlackSite, Served):
    """A context manager; see `SlackSite` for what is said and done in it."""

    def __init__(self) -> None:
        SlackSite.__init__(self)
        Served.__init__(self)
        self.token = "-".join(("xoxb", "0" * 12, "canary"))
        self.scopes = {"channels:read", "channels:history", "groups:read", "groups:history", "users:read"}
        self.most_a_call = 999  # 15 for apps that are distributed outside of Slack's marketplace
        self.token_state: str | None = None  # "token_revoked", …
        self.before_page: Callable[[str, dict[str, str]], None] = lambda method, parameters: None
        self.requests: list[Request] = []
        self.files, self._next_file = KeptFiles(), 0
        self.faults: deque[Fault] = deque()
        self._limited: tuple[int, float] | None = None  # requests left, and how long they are none
        self._lock = threading.RLock()

    def attach(self, uri: str, name: str, payload: bytes, **more: Any) -> str:
        """A file at the first message of a thread; its id. `more`: how its download is answered."""
        _, channel, ts = uri.split("/")
        self._next_file += 1
        id_, path = f"F{self._next_file}", f"/files-pri/T1-F{self._next_file}/download/{name}"
        self.files.by_path[path] = KeptFile(payload, **more)
        told = {"id": id_, "name": name, "size": len(payload), "mode": "hosted"}
        told |= {"url_private_download": f"{self.address}{path}", "permalink": f"{self.address}/files/{id_}"}
        self.rooms[channel].messages[ts].setdefault("files", []).append(told)
        return id_

    def detach(self, uri: str, id_: str) -> None:
        """Delete the file: a tombstone is left."""
        _, channel, ts = uri.split("/")
        files = self.rooms[channel].messages[ts]["files"]
        files[:] = [{"id": id_, "mode": "tombstone"} if each["id"] == id_ else each for each in files]

    def send(self, asked: Asked) -> Sent:
        if kept := self.files.send(asked, f"Bearer {self.token}"):
            return kept
        method, parameters = asked.path.removeprefix("/api/"), dict(parse_qsl(asked.content.decode()))
        fault, content = self.answer(method, parameters, asked.authorization)
        headers = {"Content-Type": "application/json; charset=utf-8", **fault.headers}
        return Sent(fault.status, content, headers, fault.wait_s, fault.cut_off)

    @property
    def url(self) -> str:
        return f"{self.address}/api/"

    @property
    def connection(self) -> SlackConnection:
        return SlackConnection(type="slack", url=self.url, token=SecretStr(self.token))

    @property
    def calls(self) -> Counter[str]:
        """How often each method was asked."""
        return Counter(request.method for request in self.requests)

    def fail_next(self, count: int = 1, *, status: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.extend(Fault(status, named) for _ in range(count))

    def cut_off_next(self, count: int = 1) -> None:
        self.faults.extend(Fault(cut_off=True) for _ in range(count))

    def slow_next(self, wait_s: float) -> None:
        self.faults.append(Fault(wait_s=wait_s))

    def answer_next(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.faults.append(Fault(status, dict(headers), body=body))

    def limit(self, after: int, reset_s: float) -> None:
        """From the request after `after` more on, 429 for `reset_s` seconds."""
        self._limited = (after, reset_s)

    def answer(self, method: str, parameters: dict[str, str], authorization: str) -> tuple[Fault, bytes]:
        with self._lock:
            fault = self._limit() or (self.faults.popleft() if self.faults else Fault())
            body: Json = {"ok": False, "error": "ratelimited" if fault.status == 429 else "internal_error"}
            if fault.status == 200 and fault.body is None:
                try:
                    body = {"ok": True, **self._routed(method, parameters, authorization)}
                except Refused as refused:
                    body = refused.told
            said = str(fault.status) if fault.status != 200 else str(body.get("error") or "ok")
            self.requests.append(Request(method, parameters, said))
        return fault, fault.body if fault.body is not None else json.dumps(body).encode()

    def _limit(self) -> Fault | None:
        if self._limited is None:
            return None
        left, reset_s = self._limited
        if left > 0:
            self._limited = (left - 1, reset_s)
            return None
        self._limited = None if reset_s <= 10 else self._limited
        return Fault(429, {"Retry-After": str(int(reset_s))})

    def _routed(self, method: str, parameters: dict[str, str], authorization: str) -> Json:
        if not authorization:
            raise Refused("not_authed")
        if self.token_state or authorization != f"Bearer {self.token}":
            raise Refused(self.token_state or "invalid_auth")
        self._require_scope(method, parameters)
        self.before_page(method, parameters)
        answers: dict[str, Callable[[dict[str, str]], Json]] = {
            "auth.test": lambda _: {"url": "https://example.slack.com/", "team": "Example", "user": "reader"},
            "conversations.list": self._channels,
            "conversations.info": self._info,
            "conversations.members": self._members,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "users.list": self._users,
            "users.info": self._user,
        }
        if method not in answers:
            raise Refused("unknown_method")
        return answers[method](parameters)

    def _require_scope(self, method: str, parameters: dict[str, str]) -> None:
        needed = set(_SCOPES.get(method, {}).values())
        if method == "conversations.list":
            needed = {_SCOPES[method][kind] for kind in parameters.get("types", "public_channel").split(",")}
        if method in _HISTORY:
            room = self.rooms.get(parameters.get("channel", ""))
            needed = {"groups:history" if room and room.is_private else "channels:history"}
        if missing := needed - self.scopes:
            raise Refused("missing_scope", needed=",".join(missing), provided=",".join(sorted(self.scopes)))

    def _channels(self, parameters: dict[str, str]) -> Json:
        kinds = parameters.get("types", "public_channel").split(",")
        rooms = [room for room in self.rooms.values() if _kind(room) in kinds]
        rooms = [room for room in rooms if not room.is_private or room.is_member]
        page, more = _page([room.id for room in rooms], "team", parameters)
        shown = [self.rooms[each] for each in page]
        left_out = parameters.get("exclude_archived") in ("1", "true")
        return {"channels": [room.told() for room in shown if not (left_out and room.is_archived)], **more}

    def _info(self, parameters: dict[str, str]) -> Json:
        return {"channel": self._shown_room(parameters).told()}

    def _members(self, parameters: dict[str, str]) -> Json:
        page, more = _page(self._shown_room(parameters).members, "member", parameters)
        return {"members": page, **more}

    def _shown_room(self, parameters: dict[str, str]) -> Room:
        """Public ones are shown to everybody, also to those who are not in them."""
        room = self.rooms.get(parameters.get("channel", ""))
        if room is None or (room.is_private and not room.is_member):
            raise Refused("channel_not_found")
        needed = "groups:read" if room.is_private else "channels:read"
        if needed not in self.scopes:
            raise Refused("missing_scope", needed=needed, provided=",".join(sorted(self.scopes)))
        return room

    def _users(self, parameters: dict[str, str]) -> Json:
        page, more = _page(list(self.people), "user", parameters)
        return {"members": [self._told(self.people[each]) for each in page], **more}

    def _told(self, person: Json) -> Json:
        """Addresses need a scope of their own, without which they are left out."""
        if "users:read.email" in self.scopes:
            return person
        profile = {name: value for name, value in person["profile"].items() if name != "email"}
        return {**person, "profile": profile}

    def _user(self, parameters: dict[str, str]) -> Json:
        known = self.people | self.strangers
        if parameters.get("user") not in known:
            raise Refused("user_not_found")
        return {"user": self._told(known[parameters["user"]])}

    def _history(self, parameters: dict[str, str]) -> Json:
        room, limit = self._room(parameters), self._most(parameters)
        oldest, latest = parameters.get("oldest", "0"), parameters.get("latest", "9999999999")
        ends = () if parameters.get("inclusive") in ("1", "true") else (padded(oldest), padded(latest))
        times = [each for each in room.between(oldest, latest) if each not in ends]
        if cursor := parameters.get("cursor"):
            first = _told_by(cursor, "next_ts")
            times = [each for each in times if each <= first]
        page, rest = times[::-1][:limit], times[::-1][limit:]
        following = {"next_cursor": _cursor("next_ts", rest[0])} if rest else None
        answer: Json = {"messages": [room.shown(ts) for ts in page], "has_more": bool(rest)}
        return answer | ({"response_metadata": following} if following else {})

    def _replies(self, parameters: dict[str, str]) -> Json:
        """The root again on every page, then replies, ascending."""
        room, limit, root = self._room(parameters), self._most(parameters), parameters.get("ts", "")
        if root not in room.messages:
            raise Refused("thread_not_found")
        replies = room.threads.get(root, [])
        if cursor := parameters.get("cursor"):
            first = _told_by(cursor, "next_ts")
            replies = [each for each in replies if each >= first]
        page, rest = replies[: limit - 1], replies[limit - 1 :]
        answer: Json = {"messages": [room.shown(ts) for ts in (root, *page)], "has_more": bool(rest)}
        following = {"next_cursor": _cursor("next_ts", rest[0])} if rest else None
        return answer | ({"response_metadata": following} if following else {})

    def _room(self, parameters: dict[str, str]) -> Room:
        room = self.rooms.get(parameters.get("channel", ""))
        if room is None or (room.is_private and not room.is_member):
            raise Refused("channel_not_found")
        if not room.is_member:  # as a bot no longer is once the channel is archived
            raise Refused("not_in_channel")
        return room

    def _most(self, parameters: dict[str, str]) -> int:
        return min(_limit(parameters, 100), self.most_a_call)


def _kind(room: Room) -> str:
    return "private_channel" if room.is_private else "public_channel"


def _limit(parameters: dict[str, str], default: int) -> int:
    limit = int(parameters.get("limit", default))
    if not 0 < limit <= 999:
        raise Refused("invalid_limit")
    return limit


def _page(ids: list[str], kind: str, parameters: dict[str, str]) -> tuple[list[str], Json]:
    """The ids from a cursor on, ascending; the last page's `next_cursor` is empty."""
    ids, limit = sorted(ids), _limit(parameters, 100)
    cursor = parameters.get("cursor")
    first = _told_by(cursor, kind) if cursor else ""
    rest = [each for each in ids if each >= first]
    following = _cursor(kind, rest[limit]) if len(rest) > limit else ""
    return rest[:limit], {"response_metadata": {"next_cursor": following}}


def _cursor(kind: str, value: str) -> str:
    return b64encode(f"{kind}:{value}".encode()).decode()


def _told_by(cursor: str, kind: str) -> str:
    with suppress(ValueError):
        given, _, value = b64decode(cursor, validate=True).decode().partition(":")
        if given == kind:
            return value
    raise Refused("invalid_cursor")
