"""One source is one partition; each source type has its own set of partitions.

With a set for each type, an asset's page shows only the partitions that it can have.
"""

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.names import PLAIN, Names


def source_partitions(source_type: str, names: Names = PLAIN) -> dg.DynamicPartitionsDefinition:
    """The partitions of one type: `code_sources`, with a key for every configured source id."""
    return dg.DynamicPartitionsDefinition(name=names.partitions(source_type))


def list_partitions(instance: dg.DagsterInstance, source_type: str, names: Names = PLAIN) -> list[str]:
    """The ids of one type that have a partition."""
    return list(instance.get_dynamic_partitions(names.partitions(source_type)))


def list_source_types(settings: Settings) -> list[SourceType]:
    """The configured types, in the order of their first source; then those that members may have."""
    found: dict[SourceType, None] = dict.fromkeys(source.type for source in settings.sources)
    for organisation in settings.organisations:
        found |= dict.fromkeys(source.type for source in organisation.sources)
    return list(found)


def group_ids_by_type(settings: Settings) -> dict[SourceType, list[str]]:
    """The ids of the configured sources of every type, in the order of the file."""
    found: dict[SourceType, list[str]] = {type_: [] for type_ in list_source_types(settings)}
    for source in settings.sources:
        found[source.type].append(source.id)
    return found
