"""Hashes of the settings that decide a source's rows, to tell whether they changed."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from knowledge_pipeline.config.connections.custom import CustomConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.filters import dump_filters
from knowledge_pipeline.config.sources.source import SourceConfig, resolve_sanitize
from knowledge_pipeline.plugins import describe_settings
from knowledge_pipeline.records import hash_strings


def compute_settings_digests(settings: Settings, source: SourceConfig) -> dict[str, str]:
    """A hash of each kind of settings of a source, without secrets."""
    plain = source.connection.model_dump(mode="json", exclude={"token", "app", "email", "settings", "wiki"})
    if isinstance(source.connection, CustomConnection):
        plain["settings"] = describe_settings(source.connection.use, source.connection.settings)
    connection = plain | ({"url": _strip_secrets(plain["url"])} if "url" in plain else {})
    own = {"type": source.type, **dump_filters(source)}
    chunking = {"chunking": source.chunking.to_json(), "metadata": source.metadata.model_dump(mode="json")}
    embedding = settings.resolve_embedding(source)
    model = embedding.model_dump(mode="json", include={"provider", "model", "dimensions"})
    kept = embedding.model_dump(mode="json", include={"document_prompt", "document_task"})
    model |= {name: value for name, value in kept.items() if value is not None}
    if embedding.provider != "local":
        place = _strip_secrets(embedding.base_url)
        model |= {"place": place, "max_input_tokens": embedding.max_input_tokens}
    access, tags = source.access.model_dump(mode="json"), source.tags
    read = {
        "source": {**own, "connection": connection},
        "chunking": {**chunking, "sanitize": resolve_sanitize(source).to_json()},
        "model": model,
        "access": {"access": access, "tags": tags, "connection": connection},
    }
    return {name: hash_strings(json.dumps(values, sort_keys=True))[:16] for name, values in read.items()}


def _strip_secrets(url: str) -> str:
    """Host, port and path of an address; the other parts may hold a token."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
