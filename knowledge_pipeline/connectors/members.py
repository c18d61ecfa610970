"""The interface of a listing of an organisation's members.

Each service has a module with `list_members(connection) -> Iterator[OrganisationMember]`, which takes
its connection of `config.organisations.connections` (and `sleep`, as its client does). It reads page by
page while it is consumed, and is complete or raises `SourceRefused` or `SourceUnavailable`: members that
a listing lacks are taken for gone.
"""

from __future__ import annotations

from knowledge_pipeline.config.organisations import OrganisationMember

__all__ = ["OrganisationMember"]
