"""The permissions of a source, document by document: read at each refresh, before the documents.

They change no text and no vector. What a document's readers are called, its audience, is a column of the
snapshot; who they are is a table beside the releases, which is true at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from knowledge_pipeline.config.sources import AccessSettings
from knowledge_pipeline.connectors.attachments import find_owner_uri
from knowledge_pipeline.connectors.permissions import GROUP_PREFIX, Member
from knowledge_pipeline.connectors.registry import read_permissions
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.freshness import record_permissions_read
from knowledge_pipeline.store.access import (
    AUDIENCE_PREFIX,
    EVERYONE,
    build_audience_principal,
    fold_principal,
    write_audiences,
)
from knowledge_pipeline.store.filters import is_null
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
) -> Mapping[str, str]:
    """Read and store who may read the source's documents; the audience of each, by uri.

    With `only`, those of these documents alone; audiences of others stay as they are.

    A document that is not in the result has no reader but those of the configuration; nor has one whose
    audience could not be read.

    Raises:
        SourceUnavailable: the source did not answer; the permissions read before are kept.
        SourceRefused: it refuses us altogether.
    """
    access, table = ctx.source.access, ctx.lake.audiences(ctx.source.type, ctx.source.id)
    if access.visibility != "from_source":
        if table.exists:
            write_audiences(table, {})  # nobody is in a release of before by what is not read any more
        return {}
    if only is not None:
        uris = [uri for uri in uris if uri in only]
    permissions = read_permissions(ctx.source, uris, by_name=only is not None)
    mapping = PrincipalMapping(access)
    audiences = {
        name: [mapping.translate(members) for members in requires]
        for name, requires in permissions.audiences.items()
    }
    changed = write_audiences(table, audiences, keep_others=only is not None)
    if only is None:
        record_permissions_read(ctx)
    moved = _update_audiences(snapshot, permissions.audience_by_uri, ctx.source.type, only)
    stats.notes += permissions.problems
    notes = {
        "documents without readable permissions are closed": permissions.count_closed(uris),
        NO_ADDRESS_NOTE: len(mapping.unknown),
        "audiences changed": changed,
        "documents with another audience": moved,
    }
    stats.notes += Counter(notes)
    return permissions.audience_by_uri


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
) -> int:
    """Set the audiences of documents that are stored, in one commit; returns how many differed.

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
    return len(changed)
