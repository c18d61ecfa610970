"""The channels of a Slack workspace, as members of an organisation.

API: https://docs.slack.dev/reference/methods/conversations.list
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from knowledge_pipeline.config.organisations import OrganisationMember, SlackChannelsConnection
from knowledge_pipeline.connectors.slack.channels import SlackWorkspace
from knowledge_pipeline.connectors.slack.client import SlackClient
from knowledge_pipeline.connectors.slack.text import to_string
from knowledge_pipeline.errors import SourceRefused


def list_members(connection: SlackChannelsConnection) -> Iterator[OrganisationMember]:
    """Every channel that the bot may read, archived ones too; private ones only with `connection.private`."""
    with closing(SlackClient(connection.build_connection(""))) as client:
        workspace = SlackWorkspace(client)
        channels = workspace.list_readable(private=connection.private)
        if not channels:
            raise SourceRefused(
                f"the bot of connection.token is in no channel of {client.service}: invite it with /invite "
                "in each channel to read"
            )
        site = (workspace.site or "").rstrip("/")
        for channel in channels:
            channel_id = to_string(channel.get("id"))
            yield OrganisationMember(
                name=channel_id,
                title=to_string(channel.get("name")),
                url=f"{site}/archives/{channel_id}" if site else "",
                archived=bool(channel.get("is_archived")),
            )
