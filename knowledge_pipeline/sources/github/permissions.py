"""Who may read a repository's issues and pull requests: its collaborators, direct, by a team or the owner.

The repository is one audience. Addresses are those that people show in their profiles.
Source: https://docs.github.com/en/rest/collaborators/collaborators
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from knowledge_pipeline.config.connections import GithubConnection
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.github.client import RATE_LIMIT_FIELDS, GithubClient
from knowledge_pipeline.sources.permissions import EVERYONE, Member, Permissions

_AUDIENCE = "repository"
_PAGE_SIZE = 100  # GitHub's most
_ADDRESSES = (
    f"query($ids: [ID!]!) {{ {RATE_LIMIT_FIELDS} nodes(ids: $ids) {{ ... on User {{ login email }} }} }}"
)


def read_repository_permissions(
    connection: GithubConnection, uris: Sequence[str], *, sleep: Sleep = time.sleep
) -> Permissions:
    """The one audience of issues and pull requests, as it is now.

    Raises:
        SourceRefused: GitHub refuses the identity, or shows no such repository.
        SourceUnavailable: it did not answer.
    """
    client = GithubClient(connection, sleep=sleep)
    try:
        return _CollaboratorReader(client).read(uris)
    finally:
        client.close()


class _CollaboratorReader:
    def __init__(self, client: GithubClient) -> None:
        self._client = client
        self._path = f"/repos/{client.owner}/{client.name}"
        self._problems = Counter[str]()

    def read(self, uris: Sequence[str]) -> Permissions:
        repository = self._client.get_or_status(self._path)
        if not is_object(repository):
            raise self._client.errors.repository_not_found()
        readers: set[Member] = set()
        if repository.get("private") is False and repository.get("visibility", "public") == "public":
            readers.add(Member(EVERYONE))
        else:
            people = self._list("collaborators", {"affiliation": "all"})
            if people is None:
                problem = "collaborators are not shown: give the token push access, or an App Metadata: read"
                self._problems[problem] += len(uris)
                return Permissions({}, {}, self._problems)
            readers.update(self._iter_people(people))
            teams = self._list("teams", {})
            if teams is None:
                self._problems["teams are not shown: their members count, but not group:TEAM"] += 1
            readers.update(Member.group(str(each["slug"])) for each in teams or () if each.get("slug"))
        return Permissions({_AUDIENCE: [frozenset(readers)]}, dict.fromkeys(uris, _AUDIENCE), self._problems)

    def _list(self, what: str, parameters: dict[str, Any]) -> list[dict[str, Any]] | None:
        """All of a list of the repository; None: it is not shown."""
        found: list[dict[str, Any]] = []
        for page in range(1, 1_000):
            question = {**parameters, "per_page": _PAGE_SIZE, "page": page}
            answer = self._client.get_or_status(f"{self._path}/{what}", question)
            if isinstance(answer, int):
                return None
            if not is_list(answer):
                break
            found += filter(is_object, answer)
            if len(answer) < _PAGE_SIZE:
                return found
        raise SourceUnavailable(f"{self._client.errors.service} does not end the list of {what}: try later")

    def _iter_people(self, people: Sequence[dict[str, Any]]) -> Iterator[Member]:
        """With the addresses that a query of a hundred shows; they are missing where it is refused."""
        for start in range(0, len(people), _PAGE_SIZE):
            several = people[start : start + _PAGE_SIZE]
            emails = self._find_addresses([str(each.get("node_id")) for each in several])
            for each in several:
                if (each.get("permissions") or {"pull": True}).get("pull"):
                    yield Member(str(each["login"]), emails.get(str(each["login"])))

    def _find_addresses(self, ids: Sequence[str]) -> dict[str, str]:
        try:
            nodes = self._client.execute(_ADDRESSES, {"ids": ids}).data.get("nodes") or ()
        except SourceRefused:
            self._problems["addresses of collaborators are not shown: name them in access.mapping"] += 1
            return {}
        return {str(each["login"]): str(each["email"]) for each in nodes if each and each.get("email")}
