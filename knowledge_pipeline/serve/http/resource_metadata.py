"""Tells clients where to get a token: metadata of a protected resource.

https://www.rfc-editor.org/rfc/rfc9728, which the specification of MCP asks for.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.config.identity import OidcSettings
from knowledge_pipeline.serve.mcp.http_transport import PATH as MCP_PATH

_WELL_KNOWN = "/.well-known/oauth-protected-resource"


def build_routes(settings: OidcSettings) -> APIRouter:
    """The documents of MCP and of the whole server; anybody may read them, web pages too."""
    routes = APIRouter(include_in_schema=False)
    for path in ("", MCP_PATH):
        routes.add_api_route(f"{_WELL_KNOWN}{path}", _build_endpoint(settings, path))
    return routes


def build_challenge(settings: OidcSettings | None) -> str:
    """The header `WWW-Authenticate` of a response to a request without a valid token."""
    return f'Bearer resource_metadata="{settings.origin}{_WELL_KNOWN}{MCP_PATH}"' if settings else "Bearer"


def _build_endpoint(settings: OidcSettings, path: str) -> Callable[[], JSONResponse]:
    document = {
        "resource": f"{settings.origin}{path}",
        "resource_name": "knowledge",
        "authorization_servers": [settings.issuer],
        "bearer_methods_supported": ["header"],
        **({"scopes_supported": list(settings.required_scopes)} if settings.required_scopes else {}),
    }

    def read() -> JSONResponse:
        return JSONResponse(document, headers={"Access-Control-Allow-Origin": "*"})

    return read
