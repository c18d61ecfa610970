"""The style sheet, the script and the icon: read once, and cached by browsers until they change."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.errors import NotFound

_MEDIA_TYPES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

routes = APIRouter(include_in_schema=False)


@routes.get("/static/{name}")
async def static(name: str, request: Request) -> Response:
    """One file. An address with the hash of its content may be cached for ever."""
    if name not in _MEDIA_TYPES:
        raise NotFound("the page has no such file")
    content, digest = _read_file(name)
    current = request.query_params.get("v") == digest
    cache_control = "public, max-age=31536000, immutable" if current else "no-cache"
    headers = {"Cache-Control": cache_control, "ETag": f'"{digest}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name], headers=headers)


def static_url(name: str) -> str:
    """The address of a file, with the hash of its content."""
    return f"/static/{name}?v={_read_file(name)[1]}"


@cache
def _read_file(name: str) -> tuple[bytes, str]:
    content = files("knowledge_pipeline.serve.page").joinpath("static", name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:16]
