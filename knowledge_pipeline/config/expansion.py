"""From organisations to sources: what `config.file` adds to the sources that are declared by themselves."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.config.organisations import LISTINGS, read_listing
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import ConfigError


def find_listings_folder(settings: Settings) -> Path | None:
    """Where the listings are that the sources follow from; None where no organisation is declared."""
    return settings.local_folder / LISTINGS if settings.organisations else None


def add_members(settings: Settings) -> Settings:
    """The settings with the sources of all organisations, by their last listings.

    Raises:
        ConfigError: a source that is declared by itself has the id of a member's.
    """
    folder = find_listings_folder(settings)
    if folder is None:
        return settings
    sources: list[SourceConfig] = []
    unlisted: list[str] = []
    declared = {source.id for source in settings.sources}
    for organisation in settings.organisations:
        listing = read_listing(folder, organisation.id, organisation.connection.location)
        if listing is None:
            unlisted.append(organisation.id)
            continue
        for member in filter(organisation.takes, listing.members):
            for source in organisation.build_sources(member):
                if source.id in declared:
                    raise ConfigError(
                        f"source {source.id!r} has the id of a source of organisation {organisation.id!r} "
                        f"(member {member.name}): rename it, or exclude the member"
                    )
                sources.append(source)
    return settings.with_members(sources, unlisted)
