"""The application: every route, and what each request passes on its way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from knowledge_pipeline.serve.http import health, search
from knowledge_pipeline.serve.http.problems import Problem, tell_problems
from knowledge_pipeline.serve.http.requests import RequestIds
from knowledge_pipeline.serve.service import Service


def make_app(service: Service) -> FastAPI:
    """The application that answers for a service, and closes it when it ends."""

    serve = service.settings.serve

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="knowledge_pipeline",
        version=version("knowledge-pipeline"),
        summary="Search a knowledge base, and see what each answer is from.",
        lifespan=lifespan,
        max_body_size=serve.max_body_bytes,
        telemetry={"tracing": False},
    )
    app.state.service = service
    for module in (health, search):
        app.include_router(module.routes)
    tell_problems(app)
    _describe_problems(app)
    if serve.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(serve.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
        )
    app.add_middleware(RequestIds)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Put `Problem` among the schemas, which `problems` names."""
    described = app.openapi

    def openapi() -> dict[str, object]:
        schema = described()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        made = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(made.pop("$defs", {}))
        schemas["Problem"] = made
        return schema

    app.openapi = openapi
