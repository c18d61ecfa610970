"""Who may read a repository: its collaborators, direct, by a team or the owner.

Whoever may pull reads its code, its history, its issues and its pull requests: the repository is one
audience. Addresses are those that people show in their profiles.
Source: https://docs.github.com/en/rest/collaborators/collaborators
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from knowledge_pipeline.config.connections import GithubConnection
from knowledge_pipeline.connectors.github.client import RATE_LIMIT_FIELDS, GithubClient
from knowledge_pipeline.connectors.permissions import (
    EVERYBODY,
    INTERNAL,
    REPOSITORY_AUDIENCE,
    Member,
    Permissions,
    Readers,
    build_permissions,
    list_pages,
)
from knowledge_pipeline.connectors.service import split_batches
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.text import is_object

_ADDRESSES_PER_QUERY = 100
_ADDRESSES = (
    f"query($ids: [ID!]!) {{ {RATE_LIMIT_FIELDS} nodes(ids: $ids) {{ ... on User {{ login email }} }} }}"
)
_UNREADABLE = "collaborators are not shown: give the token push access, or an App Metadata: read"


def read_repository_permissions(connection: GithubConnection, uris: Sequence[str]) -> Permissions:
    """The one audience of a repository's documents, as it is now."""
    problems = Counter[str]()
    with closing(GithubClient(connection)) as client:
        readers = _read_readers(client, problems)
    return build_permissions(REPOSITORY_AUDIENCE, readers, uris, problems, _UNREADABLE)


def _read_readers(client: GithubClient, problems: Counter[str]) -> Readers | None:
    """Who may read the repository; None: it is not shown."""
    path = f"/repos/{client.owner}/{client.name}"
    repository = client.get_or_status(path)
    if not is_object(repository):
        raise client.from_graphql_errors([])
    visibility = repository.get("visibility", "public")  # without it, `private` alone says so
    if repository.get("private") is False and visibility == "public":
        return EVERYBODY
    people = list_pages(client, f"{path}/collaborators", {"affiliation": "all"})
    if people is None:
        return None
    teams = list_pages(client, f"{path}/teams")
    if teams is None:
        problems["teams are not shown: their members count, but not group:TEAM"] += 1
    readers = {Member.group(str(team["slug"])) for team in teams or () if team.get("slug")}
    readers |= {INTERNAL} if visibility == "internal" else set()
    # with the addresses that a query of a hundred shows; they are missing where it is refused
    for several in split_batches(people, _ADDRESSES_PER_QUERY):
        try:
            ids = [str(person.get("node_id")) for person in several]
            nodes = client.execute(_ADDRESSES, {"ids": ids}).data.get("nodes") or ()
        except SourceRefused:
            problems["addresses of collaborators are not shown: name them in access.mapping"] += 1
            nodes = ()
        emails = {node["login"]: str(node["email"]) for node in nodes if node and node.get("email")}
        for person in several:
            if (person.get("permissions") or {"pull": True}).get("pull"):
                readers.add(Member(str(person["login"]), emails.get(person["login"])))
    return frozenset(readers)
