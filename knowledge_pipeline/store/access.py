"""Who may read: audiences of documents, by the source's own permissions, and the table of callers' tokens.

A row of the index names its audience among its principals; who belongs to an audience is in a table beside
it. So a membership that changes is one small row, whatever the number of documents, and no release, old or
refused, holds a membership of before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pyarrow as pa

from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.damage import build_loss, explain_loss
from knowledge_pipeline.store.lake import LOCK_TIMEOUT_S, Lake
from knowledge_pipeline.store.lance_storage import has_data
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.reconcile import load_fingerprints, plan_changes, reconcile
from knowledge_pipeline.store.tables import Table

AUDIENCE_PREFIX = "audience:"
"""Begins the principals that name an audience; no caller's own principal may."""

EVERYONE = "*"
"""The principal that every caller of the tenant has."""

_TOKENS = "the list of tokens", "tokens"

Requirements = Sequence[frozenset[str]]
"""A reader has a principal of each: of the space's readers, and of those of a restricted page above."""


def build_audience_principal(source_type: str, source: str, audience: str) -> str:
    """How rows name an audience of a source; those of its former types are others."""
    return f"{AUDIENCE_PREFIX}{source_type}/{source}/{audience}"


def fold_principal(name: str) -> str:
    """A principal for comparison: e-mail addresses are the same in any letter case."""
    return name.lower() if "@" in name else name


def write_audiences(table: Table, audiences: Mapping[str, Requirements], *, keep_others: bool = False) -> int:
    """Make the table hold exactly these audiences, or these and its others; returns how many differed."""
    rows = {name: sorted(map(sorted, requires)) for name, requires in audiences.items()}
    marks = {name: hash_strings(*(hash_strings(*one) for one in requires)) for name, requires in rows.items()}
    stored = load_fingerprints(table, "audience", "fingerprint")
    if keep_others:
        stored = {name: mark for name, mark in stored.items() if name in marks}
    plan = plan_changes(marks, stored)

    def build(names: list[str]) -> Iterable[pa.RecordBatch]:
        new = [{"audience": name, "requires": rows[name], "fingerprint": marks[name]} for name in names]
        yield pa.RecordBatch.from_pylist(new, schema=table.schema)

    reconcile(table, plan, build)
    return len(plan.keys_to_write) + len(plan.removed)


_READ_AT = "permissions_read_at"  # note of a table of audiences


def write_permissions_time(table: Table, at: datetime) -> None:
    """Note that all permissions of a source are stored as they were at a time."""
    table.write_notes(**{_READ_AT: at.isoformat()})
    table.compact_if_due()  # of a version for each pass


def read_permissions_time(table: Table) -> datetime | None:
    """Since when at least the stored permissions of a source are its own; None: nobody knows.

    `table` is one of `Lake.audiences`.
    """
    at = table.read_notes().get(_READ_AT)
    return datetime.fromisoformat(at) if at else None


def lock_permissions(
    lake: Lake, source: str, *, timeout_s: float = LOCK_TIMEOUT_S
) -> AbstractContextManager[None]:
    """Permissions of a source are read and stored by one process at a time. Raises `Busy`.

    Without the source's own lock, which a refresh holds for as long as it embeds.
    """
    about = f"the permissions of source {source!r}"
    return acquire_lock(lake.root / "locks", f"permissions-{source}", timeout_s=timeout_s, description=about)


def read_audiences(lake: Lake, source_type: str, source: str) -> dict[str, Requirements]:
    """The audiences of a source, by the principal that its rows name.

    Raises `StoreError`: the table cannot be read.
    """
    rows = lake.audiences(source_type, source).read_rows(["audience", "requires"]).to_pylist()
    return {
        build_audience_principal(source_type, source, row["audience"]): [
            frozenset(map(fold_principal, one)) for one in row["requires"]
        ]
        for row in rows
    }


def is_member(principals: Collection[str], requires: Requirements) -> bool:
    """Whether a caller of these principals, folded, belongs to an audience; none is empty of requirements."""
    return bool(requires) and all(EVERYONE in one or not one.isdisjoint(principals) for one in requires)


def upsert_token(lake: Lake, row: dict[str, Any]) -> None:
    """Add a token's row, or replace the one of its id. Raises `Busy`: others held the table for 30 s."""
    table = lake.tokens()
    with acquire_lock(lake.root / "locks", "tokens", timeout_s=30.0), explain_loss(*_TOKENS):
        table.upsert([pa.RecordBatch.from_pylist([row], schema=table.schema)])
        table.compact_if_due()


def list_tokens(lake: Lake) -> list[dict[str, Any]]:
    """Every token's row."""
    table = lake.tokens()
    if not table.exists and has_data(table.path):
        raise build_loss(*_TOKENS, "has lost all its versions")
    with explain_loss(*_TOKENS):
        return table.read_rows(table.schema.names).to_pylist()
