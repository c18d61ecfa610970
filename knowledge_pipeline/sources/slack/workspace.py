"""Who and what there is in a Slack workspace: its channels, its people by name, its address."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.slack.blocks import string
from knowledge_pipeline.sources.slack.client import Json, Refusal, SlackClient
from knowledge_pipeline.sources.slack.text import valid
from knowledge_pipeline.sources.slack.threads import Channel, ChannelFilters, display_name

_AT_ONCE = 999  # Slack's most


class Workspace:
    """Names of people and channels (`text.Names`), each list asked for once, when it is needed."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._people: dict[str, str] | None = None
        self._channels: dict[str, str] = {}
        self._site: str | None = None

    def channels(self, filters: ChannelFilters) -> list[Channel]:
        """The wanted channels by id, as they are now.

        Raises:
            SourceRefused: one is not shown to us, or the bot is in none.
            SourceUnavailable: Slack did not answer.
        """
        named = bool(filters.channels)
        self._channels = {}
        found = self._listed("public_channel", exclude_archived=not named)
        if not named:
            return self._joined(found)
        wanted = [channel for each in found if filters.wants(channel := _channel(each))]
        if filters.missing(wanted):
            wanted += [channel for each in self._private() if filters.wants(channel := _channel(each))]
        if missing := filters.missing(wanted):
            raise SourceRefused(
                f"{self._client.service} shows no channel {', '.join(missing)}: correct the source's "
                "channels; a private one is seen once the bot is invited and has the scopes groups:read and "
                "groups:history"
            )
        return sorted(wanted, key=lambda channel: channel.id)

    @property
    def site(self) -> str | None:
        """The workspace's address for people."""
        if self._site is None:
            self._site = string(self._client.ask("auth.test").get("url"))
        return self._site or None

    def person(self, account: str) -> str | None:
        """The name of a person or bot; somebody of another workspace is asked for alone."""
        if self._people is None:
            pages = self._client.pages("users.list", "members", limit=_AT_ONCE)
            self._people = {string(user.get("id")): _name(user) for page in pages for user in page}
        if account not in self._people:
            self._people[account] = self._somebody(account)
        return self._people[account] or None

    def channel(self, channel_id: str) -> str | None:
        """The name of a channel that the whole listing showed."""
        return self._channels.get(channel_id)

    def _listed(self, kind: str, *, exclude_archived: bool) -> list[Json]:
        found: list[Json] = []
        for page in self._client.pages(
            "conversations.list", "channels", types=kind, exclude_archived=exclude_archived, limit=_AT_ONCE
        ):
            found += page
        self._channels |= {string(each.get("id")): string(each.get("name")) for each in found}
        return found

    def _private(self) -> list[Json]:
        try:
            return self._listed("private_channel", exclude_archived=False)
        except Refusal as refusal:
            if refusal.code == "missing_scope":
                return []
            raise

    def _joined(self, found: Iterable[Json]) -> list[Channel]:
        joined = [_channel(each) for each in found if each.get("is_member")]
        if not joined:
            raise SourceRefused(
                f"the bot of connection.token is in no public channel of {self._client.service}: invite it "
                "with /invite in each channel to read, or name channels under the source's channels"
            )
        return sorted(joined, key=lambda channel: channel.id)

    def _somebody(self, account: str) -> str:
        try:
            user = self._client.ask("users.info", user=account).get("user")
        except Refusal as refusal:
            if refusal.code in ("user_not_found", "user_not_visible", "users_not_found", "invalid_arguments"):
                return ""
            raise
        return _name(user) if isinstance(user, dict) else ""


def _channel(told: Json) -> Channel:
    return Channel(string(told.get("id")), valid(string(told.get("name"))))


def _name(user: Json) -> str:
    profile = user.get("profile")
    return (display_name(profile) if isinstance(profile, dict) else "") or display_name(user)
