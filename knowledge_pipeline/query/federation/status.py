"""Describes the live releases of several stores as one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from knowledge_pipeline.contract.responses.inventory import StatusResponse
from knowledge_pipeline.errors import KnowledgeError, StoreUnavailable
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.federation.stores import MemberStore, MemberStores
from knowledge_pipeline.query.status import read_status


async def read_federation_status(members: MemberStores, access: Access) -> StatusResponse:
    """Count the rows that the caller may see, of the stores that can be read.

    Raises:
        StoreUnavailable: none can be.
    """
    found = await asyncio.gather(*(_read_status(member, access) for member in members.opened))
    read = [status for status in found if status is not None]
    if not read:
        raise StoreUnavailable("no store of the federation can be read: `knowledge doctor` in one says why")
    return StatusResponse(
        release=sum(each.release for each in read),
        released_at=max(each.released_at for each in read),
        rows=sum(each.rows for each in read),
        by_source=_add_up(each.by_source for each in read),
        by_type=_add_up(each.by_type for each in read),
        by_space=_add_up(each.by_space for each in read),
        unembedded_rows=_add_up(each.unembedded_rows for each in read),
        unindexed_rows=_add_up(each.unindexed_rows for each in read),
        restores=None,
        pinned_since=None,
        pin="; ".join(each.pin for each in read if each.pin) or None,
    )


async def _read_status(member: MemberStore, access: Access) -> StatusResponse | None:
    """The status of one store; None where it cannot be read, which `health` reports."""
    try:
        return await read_status(member.settings, member.lake, member.index, access)
    except (KnowledgeError, OSError):
        return None


def _add_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))
