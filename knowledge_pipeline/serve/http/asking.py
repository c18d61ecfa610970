"""Who asks over HTTP: dependencies that every route shares."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from knowledge_pipeline.serve.service import Asker, Door, Origin, Service

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")

_bearer = HTTPBearer(auto_error=False, description="A token made by `knowledge token create`.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def service_of(request: Request) -> Service:
    """The service that the application was made for."""
    return request.app.state.service


def origin_of(request: Request, door: Door = "http") -> Origin:
    """Where a request is from."""
    return Origin(
        door,
        request.client.host if request.client else None,
        forwarded=any(name in request.headers for name in _FORWARDED),
        host=request.url.hostname or "",
    )


def asker_of(request: Request, credentials: _Credentials) -> Asker:
    """Who asks; raises `Unauthenticated`."""
    token = credentials.credentials if credentials else None
    return service_of(request).identify(token, origin_of(request))


Asking = Annotated[Asker, Depends(asker_of)]
Serving = Annotated[Service, Depends(service_of)]
