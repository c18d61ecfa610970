"""From the connection of an organisation to its listing: the one list of services."""

from __future__ import annotations

import time
from collections.abc import Iterator

from knowledge_pipeline.config.organisations import connections
from knowledge_pipeline.config.organisations.members import OrganisationMember
from knowledge_pipeline.sources.base import Sleep


def list_members(
    connection: connections.AnyOrganisationConnection, *, sleep: Sleep = time.sleep
) -> Iterator[OrganisationMember]:
    """The members, complete, or an exception: who is not listed is taken for gone.

    Raises:
        SourceRefused: the service shows no such organisation, or refuses us; a retry cannot help.
        SourceUnavailable: it did not answer, or not to the end; a retry may help.
    """
    # Imported here: each brings its service's client.
    match connection:
        case connections.GithubOrganisationConnection():
            from knowledge_pipeline.sources.organisations import github

            return github.list_members(connection, sleep=sleep)
        case connections.GitlabGroupConnection():
            from knowledge_pipeline.sources.organisations import gitlab

            return gitlab.list_members(connection, sleep=sleep)
        case connections.ConfluenceSpacesConnection():
            from knowledge_pipeline.sources.organisations import confluence

            return confluence.list_members(connection)
        case connections.JiraProjectsConnection():
            from knowledge_pipeline.sources.organisations import jira

            return jira.list_members(connection)
        case connections.SlackChannelsConnection():
            from knowledge_pipeline.sources.organisations import slack

            return slack.list_members(connection, sleep=sleep)
        case connections.CheckoutsConnection():
            from knowledge_pipeline.sources.organisations import checkouts

            return checkouts.list_members(connection)
        case connections.BucketFoldersConnection():
            from knowledge_pipeline.sources.organisations import bucket

            return bucket.list_members(connection)
