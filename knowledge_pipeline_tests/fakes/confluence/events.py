"""What a fake Confluence says of a change, as Data Center words it.

https://confluence.atlassian.com/doc/managing-webhooks-1021225606.html
"""

from __future__ import annotations

from typing import Any


def page_event(url: str, uri: str, space: str, **more: Any) -> dict[str, Any]:
    """Of a page or blog post; the name of the event is the sender's."""
    return {("blog" if uri.startswith("blogpost/") else "page"): _content(url, uri, space), **more}


def comment_event(url: str, uri: str, space: str) -> dict[str, Any]:
    """Of a comment on a page."""
    return {"comment": {"id": 777, "parent": _content(url, uri, space)}}


def attachment_event(url: str, uri: str, space: str) -> dict[str, Any]:
    """Of files at a page."""
    return {"attachments": [{"id": 778, "fileName": "a.pdf"}], "attachedTo": _content(url, uri, space)}


def space_event(url: str, space: str) -> dict[str, Any]:
    """Of a space: removed, or with other permissions."""
    return {"space": {"key": space, "self": f"{url}/display/{space}"}}


def _content(url: str, uri: str, space: str) -> dict[str, Any]:
    kind, _, id_ = uri.partition("/")
    words = {"title": "never indexed from an event", "self": f"{url}/pages/viewpage.action?pageId={id_}"}
    return {"id": int(id_), "spaceKey": space, "contentType": kind, **words}
