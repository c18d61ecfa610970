"""Events of Confluence: https://confluence.atlassian.com/doc/managing-webhooks-1021225606.html."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.events import (
    Change,
    Headers,
    Payload,
    SourceTest,
    WebhookService,
    is_on_site,
    read_number,
    read_text,
    require_signature_or_bearer,
)
from knowledge_pipeline.text import descend

_KINDS = {kind: kind for kind in ("page", "blogpost", "whiteboard", "database")} | {"blog": "blogpost"}
_PAGE_HOLDERS = (*_KINDS, "attachedTo", "labeled", "content")
_RELISTED = ("space_", "content_permissions_", "page_children_")
"""Beginnings of events that concern more pages than they name: access, and what is deleted with a space."""


def _find_changes(payload: Payload, headers: Headers) -> Iterator[Change]:
    """Pages, or everything where it says what may be seen."""
    name = read_text(payload.get("event")) or read_text(payload.get("webhookEvent"))
    if name.startswith(_RELISTED):
        space = descend(payload, "space") or descend(payload, "content", "space")
        key = read_text(space.get("key")) or read_text(payload.get("spaceKey"))
        yield Change(_reads_space(space, key), relist=True)
        return
    pages = [(_KINDS.get(holder, ""), descend(payload, holder)) for holder in _PAGE_HOLDERS]
    pages += [("", descend(payload, "comment", holder)) for holder in ("parent", "container")]
    is_moved = name.startswith(("page_moved", "blog_moved"))
    for kind, page in pages:
        if number := read_number(page.get("id")):
            kind = kind or _KINDS.get(read_text(page.get("contentType")) or read_text(page.get("type")), "")
            kinds = (kind,) if kind else ("page", "blogpost")  # it is not said which
            key = read_text(page.get("spaceKey")) or read_text(descend(page, "space").get("key"))
            documents = tuple(f"{kind}/{number}" for kind in kinds)
            yield Change(_reads_space(page, "" if is_moved else key), documents)


def _reads_space(facts: Payload, space: str) -> SourceTest:
    def reads(source: SourceConfig) -> bool:
        own = {key.casefold() for key in source.spaces}
        has_space = not own or not space or space.casefold() in own
        return isinstance(source.connection, ConfluenceConnection) and is_on_site(source, facts) and has_space

    return reads


SERVICE = WebhookService(
    "confluence",
    "Confluence",
    "confluence_secret",
    ("X-Hub-Signature", "Authorization"),
    require_signature_or_bearer,
    _find_changes,
    dated_by=("timestamp",),
)
