"""Repositories of an organisation or a user on GitHub, or with a topic, a hundred a query.

GraphQL lists what the identity may see, private repositories included; REST shows those of a user only
to the user, by another path. A search ends after 1,000 results, so that one with more is an error.
API: https://docs.github.com/en/graphql/reference/interfaces#repositoryowner
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from knowledge_pipeline.config.organisations import GithubOrganisationConnection, OrganisationMember
from knowledge_pipeline.connectors.github.client import RATE_LIMIT_FIELDS, GithubClient
from knowledge_pipeline.connectors.service import PageGuard
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable

_FIELDS = """pageInfo { hasNextPage endCursor } nodes { ... on Repository {
  nameWithOwner description url isArchived isFork isEmpty
  repositoryTopics(first: 20) { nodes { topic { name } } } } }"""
_OF_OWNER = f"""query($login: String!, $after: String) {{ {RATE_LIMIT_FIELDS}
  repositoryOwner(login: $login) {{ __typename
    repositories(first: 100, after: $after, ownerAffiliations: [OWNER],
                 orderBy: {{field: CREATED_AT, direction: ASC}}) {{ totalCount {_FIELDS} }} }} }}"""
_OF_TOPIC = f"""query($query: String!, $after: String) {{ {RATE_LIMIT_FIELDS}
  search(type: REPOSITORY, query: $query, first: 100, after: $after) {{
    totalCount: repositoryCount {_FIELDS} }} }}"""
_MAX_SEARCH_RESULTS = 1_000  # of any search, says GitHub


def list_members(connection: GithubOrganisationConnection) -> Iterator[OrganisationMember]:
    """The repositories, the oldest first; an empty one, which has no commit yet, is left out."""
    with closing(GithubClient(connection)) as client:
        after: str | None = None
        names: set[str] = set()
        guard = PageGuard(partial(client.listing_incomplete, "does not end its list of repositories"))
        while True:
            page = _read_page(client, connection, after)
            new = [
                repository
                for repository in page["nodes"]
                if repository and repository["nameWithOwner"] not in names
            ]
            names.update(repository["nameWithOwner"] for repository in new)
            yield from (_to_member(repository) for repository in new if not repository["isEmpty"])
            if not page["pageInfo"]["hasNextPage"]:
                break
            after = page["pageInfo"]["endCursor"]
            guard.advance((repository["nameWithOwner"] for repository in new), after or "")
        if len(names) < page["totalCount"]:
            raise SourceUnavailable(
                f"{client.service} listed {len(names)} of {page['totalCount']} repositories of "
                f"{connection.location}: nothing is removed: try again later"
            )


def _read_page(
    client: GithubClient, connection: GithubOrganisationConnection, after: str | None
) -> dict[str, Any]:
    if connection.topic:
        query = f"topic:{connection.topic} fork:true"
        page = client.execute(_OF_TOPIC, {"query": query, "after": after}).data["search"]
        if page["totalCount"] > _MAX_SEARCH_RESULTS:
            raise SourceRefused(
                f"{client.service} shows only {_MAX_SEARCH_RESULTS:,} of the {page['totalCount']:,} "
                f"repositories with the topic {connection.topic!r}: declare organisations, each with "
                "`topics`, or use a rarer topic"
            )
        return page
    answer = client.execute(_OF_OWNER, {"login": connection.owner, "after": after})
    if answer.errors:
        raise client.from_graphql_errors(answer.errors)
    owner = answer.data.get("repositoryOwner")
    wanted, other = ("organisation", "user") if connection.organisation else ("user", "organisation")
    if owner is None:
        raise SourceRefused(
            f"{client.service} shows no {wanted} {connection.owner!r}: correct "
            f"connection.{wanted}, or give the identity access (nothing is removed meanwhile)"
        )
    if owner["__typename"] != ("Organization" if connection.organisation else "User"):
        raise SourceRefused(
            f"{connection.owner!r} is no {wanted} at {client.service}: write connection.{other}"
        )
    return owner["repositories"]


def _to_member(repository: dict[str, Any]) -> OrganisationMember:
    topics = repository["repositoryTopics"]["nodes"]
    return OrganisationMember(
        name=repository["nameWithOwner"],
        title=" ".join((repository["description"] or "").split())[:200],
        url=repository["url"],
        archived=repository["isArchived"],
        fork=repository["isFork"],
        topics=tuple(topic["topic"]["name"] for topic in topics),
    )
