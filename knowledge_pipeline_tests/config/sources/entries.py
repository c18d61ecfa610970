"""Sources as entries of `knowledge.yaml` declare them, of any type and of a place that nobody contacts."""

from __future__ import annotations

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline_tests.connections import connection


def source(kind: str, **settings: object) -> SourceConfig:
    return SourceConfig.model_validate({"id": "a", "type": kind, "connection": connection(kind), **settings})
