"""The spaces of a Confluence site, as members of an organisation.

API: https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-space/ (Cloud),
https://docs.atlassian.com/ConfluenceServer/rest/latest/#api/space (Server, Data Center)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from knowledge_pipeline.config.organisations import ConfluenceSpacesConnection, OrganisationMember
from knowledge_pipeline.connectors.confluence.client import ConfluenceClient
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.text import descend

_STATUSES = ("current", "archived")
"""Each is listed by itself. In this order a space that is archived meanwhile comes twice, not never."""


def list_members(connection: ConfluenceSpacesConnection) -> Iterator[OrganisationMember]:
    """Every space that the token may view, archived ones included; people's own only with `personal`."""
    seen: set[str] = set()
    with closing(ConfluenceClient(connection.build_connection(""))) as client:
        path, paging = "rest/api/space", {"start": 0, "limit": 100}
        if client.is_cloud:
            path, paging = "api/v2/spaces", {"limit": 250}
        for status in _STATUSES:
            for space in client.iter_results(path, {"status": status, **paging}):
                key = str(space.get("key") or "")
                if not key:
                    raise client.listing_incomplete("lists a space without its key")
                is_personal = space.get("type") == "personal" or key.startswith("~")
                if key not in seen and (connection.personal or not is_personal):
                    page = str(descend(space, "_links").get("webui") or "")
                    kind = str(space.get("type") or "")
                    yield OrganisationMember(
                        name=key,
                        title=str(space.get("name") or ""),
                        url=f"{client.public_url}{page}" if page else "",
                        archived=status == "archived",
                        topics=(kind,) if kind else (),
                    )
                seen.add(key)
        if not seen:  # a token that may view nothing is answered with an empty list
            raise SourceRefused(
                f"{client.service} shows no space at all: let the owner of connection.token view its spaces"
            )
