"""Who may read a channel: its members; of a public one, everybody of the workspace but guests, too.

A channel is an audience. Lists of people and of members come a thousand in a call; somebody of another
workspace, who is in no list, is looked up alone. Source: https://docs.slack.dev/reference/methods
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, cached_property, partial

from knowledge_pipeline.config.connections import SlackConnection
from knowledge_pipeline.connectors.permissions import (
    Audience,
    Member,
    Permissions,
    Readers,
    Unreadable,
    collect_permissions,
)
from knowledge_pipeline.connectors.service import PageGuard
from knowledge_pipeline.connectors.slack.client import Json, SlackClient, SlackRefused
from knowledge_pipeline.text import descend, is_list, is_object

_PAGE_SIZE = 999  # Slack's most
_CLOSING_CODES = frozenset(
    {
        *("missing_scope", "channel_not_found", "not_in_channel", "no_permission", "access_denied"),
        *("restricted_action", "method_not_supported_for_channel_type", "fetch_members_failed"),
    }
)
"""Refusals that close a channel; others concern the token, and end the refresh."""
_GUEST_FLAGS = ("is_restricted", "is_ultra_restricted", "is_stranger")
"""Of guests, and people of other workspaces, who see only the channels that they are in."""


def read_channel_permissions(connection: SlackConnection, uris: Sequence[str]) -> Permissions:
    """The audiences of threads and days of channels, as they are now."""
    with closing(SlackClient(connection)) as client:
        find_audience = _ChannelReader(client).find_audience
        return collect_permissions({uri: uri.split("/")[1] for uri in uris}, find_audience, Counter())


class _ChannelReader:
    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._look_up = cache(self._fetch_stranger)

    def find_audience(self, channel: str) -> Audience:
        """Raises Unreadable."""
        try:
            answer = self._client.call("conversations.info", channel=channel).get("channel")
            readers = {member for member in map(self._find_member, self._iter_members(channel)) if member}
            if is_object(answer) and answer.get("is_private") is False:
                readers |= self._colleagues
        except SlackRefused as refusal:
            if refusal.code not in _CLOSING_CODES:
                raise
            raise Unreadable(f"members of channel {channel} are not shown: {refusal}") from None
        return channel, [frozenset(readers)]

    def _iter_members(self, channel: str) -> Iterator[str]:
        query: Json = {"channel": channel, "limit": _PAGE_SIZE}
        guard = PageGuard(partial(self._client.unavailable, "does not end a list of members"))
        while True:
            answer = self._client.call("conversations.members", **query)
            members = answer.get("members")
            if not is_list(members):
                raise self._client.unavailable("answered without members")
            yield from map(str, members)
            cursor = str(descend(answer, "response_metadata").get("next_cursor") or "")
            if not cursor:
                return
            guard.advance(map(str, members), cursor)
            query["cursor"] = cursor

    @cached_property
    def _people(self) -> Mapping[str, Json]:
        pages = self._client.iter_pages("users.list", "members", limit=_PAGE_SIZE)
        return {str(person.get("id")): person for page in pages for person in page}

    @cached_property
    def _colleagues(self) -> Readers:
        """Everybody who may open any public channel."""
        full = (person for person in self._people.values() if not any(map(person.get, _GUEST_FLAGS)))
        return frozenset(member for member in map(_to_member, full) if member)

    def _find_member(self, account: str) -> Member | None:
        return _to_member(self._people[account]) if account in self._people else self._look_up(account)

    def _fetch_stranger(self, account: str) -> Member | None:
        """Somebody of another workspace, who may have no address for us."""
        codes = ("user_not_found", "user_not_visible", "users_not_found")
        person = self._client.find("users.info", "user", codes, user=account)
        return _to_member(person) if is_object(person) else None


def _to_member(person: Json) -> Member | None:
    """None for a bot, and for an account that was deactivated."""
    if person.get("deleted") or person.get("is_bot"):
        return None
    email = descend(person, "profile").get("email")
    return Member(str(person.get("id")), str(email) if email else None)
