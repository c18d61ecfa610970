"""Which events a caller is told of, and what of them.

Events count documents and hold errors, so those of a source are for who manages it: the source's tenant, or
who sees everything. That there is a new release is for everyone; what it holds, for who sees everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from knowledge_pipeline.contract.types import EventType
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.declared_sources import DeclaredSources
from knowledge_pipeline.store.events.log import Event


def iter_visible_events(
    events: Iterable[Event], access: Access, declared: DeclaredSources, types: Collection[EventType]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Positions and JSON of the events of some types, or of all, that a caller is told of."""
    managed: set[str] | None = None
    for event in events:
        if types and event.type not in types:
            continue
        if access.everything:
            yield event.position, event.as_json()
        elif event.source is None:
            yield event.position, event.as_json({"release": event.release})
        else:
            if managed is None:
                managed = {
                    source.id
                    for source in declared.list_known()
                    if access.tenant and source.access.tenant == access.tenant
                }
            if event.source in managed:
                yield event.position, event.as_json()
