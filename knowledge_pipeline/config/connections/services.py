"""Tickets, pages and messages: Jira, Confluence, and Slack with its exports."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from knowledge_pipeline.config.connections.base import BaseConnection, HttpUrl, ServiceConnection


class JiraConnection(ServiceConnection):
    """A Jira site: Cloud with an e-mail and API token, or Server and Data Center with a personal token."""

    type: Literal["jira"]
    email: str | None = None
    token: SecretStr | None = None  # None: public content


class ConfluenceConnection(ServiceConnection):
    """A Confluence site; identity as for Jira. The URL of Cloud ends in /wiki."""

    type: Literal["confluence"]
    email: str | None = None
    token: SecretStr | None = None


class SlackConnection(ServiceConnection):
    """A Slack workspace, over its API."""

    type: Literal["slack"]
    token: SecretStr  # of a bot: xoxb-…
    url: HttpUrl = "https://slack.com/api/"


class SlackExportConnection(BaseConnection):
    """A Slack export: the zip file, or the folder it was unpacked to."""

    type: Literal["slack_export"]
    path: Path

    @property
    def location(self) -> str:
        """The file or folder."""
        return str(self.path)
