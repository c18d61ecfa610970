"""Who and what there is in a Slack workspace: its channels, its people by name, its address."""

from __future__ import annotations

import re
from collections.abc import Iterable

from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.sources.slack.blocks import to_string
from knowledge_pipeline.sources.slack.client import Json, SlackClient, SlackRefused
from knowledge_pipeline.sources.slack.threads import Channel, ChannelFilters, account_name, parse_channel

_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{5,}")
_PAGE_SIZE = 999  # Slack's most


class SlackWorkspace:
    """Names of people and channels (a `NameLookup`); each list is read once, when it is needed."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._people: dict[str, str] | None = None
        self._channels: dict[str, str] = {}
        self._is_listed = False
        self._site: str | None = None

    def list_channels(self, filters: ChannelFilters) -> list[Channel]:
        """The wanted channels by id, as they are now.

        Raises:
            SourceRefused: one is not shown to us, or the bot is in none.
            SourceUnavailable: Slack did not answer.
        """
        named = bool(filters.channels)
        self._channels, self._is_listed = {}, False
        if len(filters.channels) == 1 and (channel := self._find_channel(filters.channels[0])):
            return [channel]
        found = self._list_channels_of_kind("public_channel", exclude_archived=not named)
        if not named:
            return self._filter_joined(found)
        wanted = [channel for each in found if filters.accepts(channel := parse_channel(each))]
        if filters.find_missing(wanted):
            wanted += [
                channel for each in self._list_private() if filters.accepts(channel := parse_channel(each))
            ]
        if missing := filters.find_missing(wanted):
            raise SourceRefused(
                f"{self._client.service} shows no channel {', '.join(missing)}: correct the source's "
                "channels; a private one is seen once the bot is invited and has the scopes groups:read and "
                "groups:history"
            )
        return sorted(wanted, key=lambda channel: channel.id)

    def list_readable(self, *, private: bool) -> list[Json]:
        """The channels that the bot may read: those that it is in, and archived ones, in which nobody is.

        Raises:
            SourceRefused: a scope is missing, also that for private ones.
            SourceUnavailable: Slack did not answer.
        """
        kinds = ("public_channel", "private_channel") if private else ("public_channel",)
        found = [each for kind in kinds for each in self._list_channels_of_kind(kind, exclude_archived=False)]
        by_id = {to_string(each.get("id")): each for each in found}
        return [each for _, each in sorted(by_id.items()) if each.get("is_member") or each.get("is_archived")]

    @property
    def site(self) -> str | None:
        """The workspace's address for people."""
        if self._site is None:
            self._site = to_string(self._client.call("auth.test").get("url"))
        return self._site or None

    def person_name(self, account: str) -> str | None:
        """The name of a person or bot; people of other workspaces are looked up one by one."""
        if self._people is None:
            pages = self._client.iter_pages("users.list", "members", limit=_PAGE_SIZE)
            self._people = {to_string(user.get("id")): account_name(user) for page in pages for user in page}
        if account not in self._people:
            self._people[account] = self._fetch_person_name(account)
        return self._people[account] or None

    def channel_name(self, channel_id: str) -> str | None:
        """The name of a channel that a listing shows."""
        if channel_id not in self._channels and not self._is_listed:
            self._list_channels_of_kind("public_channel", exclude_archived=False)
        return self._channels.get(channel_id)

    def _find_channel(self, channel_id: str) -> Channel | None:
        """A channel by its id; None where it is not one, or not shown to us."""
        if not _CHANNEL_ID.fullmatch(channel_id):
            return None
        try:
            found = self._client.call("conversations.info", channel=channel_id).get("channel")
        except SlackRefused as refusal:
            if refusal.code in ("channel_not_found", "missing_scope"):
                return None
            raise
        if not is_object(found) or found.get("id") != channel_id:
            return None
        channel = parse_channel(found)
        self._channels[channel.id] = channel.name
        return channel

    def _list_channels_of_kind(self, kind: str, *, exclude_archived: bool) -> list[Json]:
        query: Json = {"types": kind, "exclude_archived": exclude_archived, "limit": _PAGE_SIZE}
        pages = self._client.iter_pages("conversations.list", "channels", **query)
        found = [each for page in pages for each in page]
        self._is_listed = True
        self._channels |= {to_string(each.get("id")): to_string(each.get("name")) for each in found}
        return found

    def _list_private(self) -> list[Json]:
        try:
            return self._list_channels_of_kind("private_channel", exclude_archived=False)
        except SlackRefused as refusal:
            if refusal.code == "missing_scope":
                return []
            raise

    def _filter_joined(self, raw_channels: Iterable[Json]) -> list[Channel]:
        joined = [parse_channel(each) for each in raw_channels if each.get("is_member")]
        if not joined:
            raise SourceRefused(
                f"the bot of connection.token is in no public channel of {self._client.service}: invite it "
                "with /invite in each channel to read, or name channels under the source's channels"
            )
        return sorted(joined, key=lambda channel: channel.id)

    def _fetch_person_name(self, account: str) -> str:
        try:
            user = self._client.call("users.info", user=account).get("user")
        except SlackRefused as refusal:
            if refusal.code in ("user_not_found", "user_not_visible", "users_not_found", "invalid_arguments"):
                return ""
            raise
        return account_name(user) if is_object(user) else ""
