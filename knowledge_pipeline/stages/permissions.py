"""The permissions of a source, document by document: read at each refresh, before the documents, and alone.

The pass that reads them alone, every few minutes, lists nothing: it asks about the documents that are stored.
What one source has been told of a site, its groups and people, is not asked again for the next.

They change no text and no vector. What a document's readers are called, its audience, is a column of the
snapshot; who they are is a table beside the releases, which is true at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import AccessSettings, SourceConfig
from knowledge_pipeline.connectors.attachments import find_owner_uri
from knowledge_pipeline.connectors.http_retry import reuse_responses
from knowledge_pipeline.connectors.permissions import GROUP_PREFIX, Member
from knowledge_pipeline.connectors.registry import read_permissions
from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.stages.context import RefreshContext, Stats, measure_stage
from knowledge_pipeline.store.access import (
    AUDIENCE_PREFIX,
    EVERYONE,
    build_audience_principal,
    fold_principal,
    lock_permissions,
    write_audiences,
    write_permissions_time,
)
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import Table

_AUDIENCE_SCHEMA = pa.schema(
    [pa.field("uri", pa.string(), nullable=False), pa.field("audience", pa.string())]
)

NO_ADDRESS_NOTE = "accounts without an e-mail see nothing: name them in access.mapping"


def refresh_permissions(
    ctx: RefreshContext,
    snapshot: Table,
    uris: Sequence[str],
    stats: Stats,
    *,
    only: Collection[str] | None = None,
) -> tuple[Mapping[str, str], Sequence[str]]:
    """Read and store who may read the source's documents: their audiences by uri; those with another now.

    With `only`, those of these documents alone; audiences of others stay as they are. Needs the lock of the
    permissions until the snapshot is written.

    A document without an audience in the result has no reader but those of the configuration; nor has one
    whose audience could not be read.

    Raises:
        SourceUnavailable: the source did not answer; the permissions read before are kept.
        SourceRefused: it refuses us altogether.
    """
    access, table = ctx.source.access, ctx.lake.audiences(ctx.source.type, ctx.source.id)
    if access.visibility != "from_source":
        if table.exists:
            write_audiences(table, {})  # nobody is in a release of before by what is not read any more
        return {}, ()
    if only is not None:
        uris = [uri for uri in uris if uri in only]
    started_at = datetime.now(UTC)
    permissions = read_permissions(ctx.source, uris, by_name=only is not None)
    mapping = PrincipalMapping(access)
    audiences = {
        name: [mapping.translate(members) for members in requires]
        for name, requires in permissions.audiences.items()
    }
    changed = write_audiences(table, audiences, keep_others=only is not None)
    moved = _update_audiences(snapshot, permissions.audience_by_uri, ctx.source.type, only)
    if only is None:
        write_permissions_time(table, started_at)
    stats.notes += permissions.problems
    notes = {
        "documents without readable permissions are closed": permissions.count_closed(uris),
        NO_ADDRESS_NOTE: len(mapping.unknown),
        "audiences changed": changed,
        "documents with another audience": len(moved),
    }
    stats.notes += Counter(notes)
    return permissions.audience_by_uri, moved


def list_guarded(settings: Settings) -> list[SourceConfig]:
    """The sources whose own permissions decide who reads a document."""
    return [source for source in settings.sources if source.access.visibility == "from_source"]


@dataclass(frozen=True, slots=True)
class PermissionsRead:
    """What became of the permissions of one source."""

    source: SourceConfig
    moved: Sequence[str] = ()  # documents that have other readers: found again once they are refreshed
    notes: Counter[str] = field(default_factory=Counter[str])
    error: KnowledgeError | None = None

    def can_refresh(self, lake: Lake) -> bool:
        """Whether documents moved, and no refresh runs, which as a rule takes them along."""
        with suppress(Busy), lake.lock_source(self.source.id, timeout_s=0):
            return bool(self.moved)
        return False


def refresh_all_permissions(
    lake: Lake, settings: Settings, sources: Iterable[SourceConfig]
) -> list[PermissionsRead]:
    """Read the permissions of sources, and nothing else; one that fails does not stop the others.

    What a refresh or another pass is reading at this moment is left out.
    """
    results = list[PermissionsRead]()
    with reuse_responses(lake.cache / "permissions.json") as reuse:
        for source in sources:
            reuse.asked.clear()
            try:
                results.append(_refresh_alone(RefreshContext(lake, settings, source)))
            except Busy:
                continue
            except KnowledgeError as error:
                results.append(PermissionsRead(source, error=error))
    return results


def _refresh_alone(ctx: RefreshContext) -> PermissionsRead:
    source, snapshot = ctx.source, ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    with (
        measure_stage("permissions", source.id) as stats,  # names what is damaged
        lock_permissions(ctx.lake, source.id, timeout_s=0),
    ):
        if snapshot.exists:  # else nothing is there that anybody could read
            rows = snapshot.read_rows(["uri", "archived_at"]).to_pylist()
            owners = (row for row in rows if find_owner_uri(source.type, row["uri"]) == row["uri"])
            uris = [row["uri"] for row in owners if not row["archived_at"] or is_variant_uri(row["uri"])]
            return PermissionsRead(source, refresh_permissions(ctx, snapshot, uris, stats)[1], stats.notes)
    return PermissionsRead(source)


class PrincipalMapping:
    """From accounts and groups of a source to principals."""

    def __init__(self, access: AccessSettings) -> None:
        self._access = access
        self.unknown: set[str] = set()  # accounts that no principal is known of

    def translate(self, members: Iterable[Member]) -> frozenset[str]:
        """The principals of some members; who has none is left out, and noted."""
        principals = {member: self._find_principal(member) for member in members}
        self.unknown.update(member.account for member, principal in principals.items() if principal is None)
        return frozenset(
            fold_principal(principal)
            for principal in principals.values()
            if principal and not principal.startswith(AUDIENCE_PREFIX)
        )

    def _find_principal(self, member: Member) -> str | None:
        mapping, account = self._access.mapping, member.account
        if account == EVERYONE:
            return EVERYONE
        if account in mapping:
            return mapping[account]
        if account.startswith(GROUP_PREFIX):
            return account
        if member.email and self._access.trust_emails:
            return member.email
        pattern = mapping.get("*")  # "*@example.org": the account's name is that of the address
        return pattern.replace("*", account) if pattern else None


def load_audiences(ctx: RefreshContext) -> dict[str, str]:
    """The principal that names the audience of each document that has one, by uri."""
    if ctx.source.access.visibility != "from_source":
        return {}
    table = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    rows = table.read_rows(["uri", "audience"], ~is_null("audience")).to_pydict()
    return {
        uri: build_audience_principal(ctx.source.type, ctx.source.id, audience)
        for uri, audience in zip(rows["uri"], rows["audience"], strict=True)
    }


def _update_audiences(
    snapshot: Table, desired: Mapping[str, str], source_type: str, only: Collection[str] | None
) -> list[str]:
    """Set the audiences of documents that are stored, in one commit; returns those that differed.

    What hangs on a document has the document's.
    """
    stored = snapshot.read_rows(["uri", "audience"]).to_pydict()
    changed = {
        uri: wanted
        for uri, audience in zip(stored["uri"], stored["audience"], strict=True)
        if audience != (wanted := desired.get(owner := find_owner_uri(source_type, uri)))
        and (only is None or owner in only)
    }
    if changed:
        columns = {"uri": list(changed), "audience": list(changed.values())}
        snapshot.update_columns(pa.Table.from_pydict(columns, schema=_AUDIENCE_SCHEMA))
    return list(changed)
