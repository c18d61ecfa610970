"""One organisation, as an entry of `organisations` in `knowledge.yaml` declares it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Annotated

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from knowledge_pipeline.config.organisations import (
    AnyOrganisationConnection,
    MemberFilter,
    MemberPatterns,
    OrganisationMember,
    build_source_id,
    matches_any,
)
from knowledge_pipeline.config.sources import CONNECTIONS_BY_TYPE, SourceConfig, SourceId, SourceTemplate


class MemberSource(SourceTemplate):
    """A source that members of an organisation have; the last one of a type that fits a member counts."""

    members: MemberPatterns = ()  # empty: all


class OrganisationSettings(MemberFilter):
    """An organisation: its members are listed by its service, and each has the sources declared here."""

    id: Annotated[SourceId, Field(max_length=32)]  # begins the ids of its sources
    connection: AnyOrganisationConnection
    sources: tuple[MemberSource, ...] = Field(min_length=1)
    _examples: tuple[SourceConfig, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _check_sources(self) -> OrganisationSettings:
        self._examples = tuple(starmap(self._build_example, enumerate(self.sources)))
        return self

    def _build_example(self, index: int, source: MemberSource) -> SourceConfig:
        """One that is validated, as a source that is declared by itself."""
        connection, name = self.connection, self.connection.member_filter
        allowed = [
            source_type
            for source_type, connections in CONNECTIONS_BY_TYPE.items()
            if connection.reads in connections
        ]
        if source.type not in allowed:
            raise ValueError(
                f"sources[{index}]: type {source.type!r} is not read from members of {connection.type!r}; "
                f"allowed: {', '.join(allowed)}"
            )
        if name in source.model_fields_set:
            raise ValueError(f"sources[{index}]: {name} is the member's own: name members in `include`")
        values = {key: getattr(source, key) for key in source.model_fields_set - {"members"}}
        values |= {name: (connection.example,)} if name else {}
        try:
            return SourceConfig(**values, id=self.id, connection=connection.connect(connection.example))
        except ValidationError as error:
            reasons = "; ".join(str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
            raise ValueError(f"sources[{index}]: {reasons}") from None

    def takes(self, member: OrganisationMember) -> bool:
        """Whether the filters take a member."""
        return (
            (self.archived or not member.archived)
            and (self.forks or not member.fork)
            and (not self.topics or not set(self.topics).isdisjoint(member.topics))
            and (not self.include or matches_any(self.connection, member, self.include))
            and not matches_any(self.connection, member, self.exclude)
        )

    def build_sources(self, member: OrganisationMember) -> Iterator[SourceConfig]:
        """The sources of a member."""
        by_type = {
            source.type: example
            for source, example in zip(self.sources, self._examples, strict=True)
            if not source.members or matches_any(self.connection, member, source.members)
        }
        if not by_type:
            return
        connection, name = self.connection.connect(member.name), self.connection.member_filter
        for type_, example in by_type.items():
            id_ = build_source_id(self.id, self.connection, member.name, type_)
            yield example.copy_for(id_, connection, {name: (member.name,)} if name else {})
