"""The settings of a source that say how its documents are cut and described."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from knowledge_pipeline.config.model import PluginName, SettingsModel

ChunkingStrategy = Literal[
    "fixed_size", "sentence", "paragraph", "semantic", "ast_aware", "endpoint", "commit", "conversation"
]

_PARSED_TYPES = ("code", "snippets", "files", "custom")
"""The types whose documents may be cut by their syntax without being told to."""

_SYNTAX_KEYS = ("granularity", "include_imports", "include_comments", "preserve_signatures")


class ChunkingSettings(SettingsModel):
    """How documents are chunked. None: the default of the source type and strategy.

    Token limits count with the embedding model's own tokenizer, header included.
    """

    strategy: ChunkingStrategy | None = None
    custom: PluginName | None = None  # a chunker of another package, instead of a strategy
    max_tokens: int | None = Field(default=None, ge=16, le=8192)
    min_tokens: int | None = Field(default=None, ge=0, le=8192)
    overlap_tokens: int | None = Field(default=None, ge=0, le=4096)
    max_section_depth: int = Field(default=6, ge=1, le=6)
    granularity: Literal["file", "class", "function", "method"] = "method"
    include_imports: bool = True
    include_comments: bool = True
    preserve_signatures: bool = True

    @model_validator(mode="after")
    def _check_limits(self) -> ChunkingSettings:
        limit = self.max_tokens
        for name in ("min_tokens", "overlap_tokens"):
            value = getattr(self, name)
            if limit is not None and value is not None and value >= limit:
                raise ValueError(f"{name} ({value}) must be smaller than max_tokens ({limit})")
        if self.custom and self.strategy:
            raise ValueError("custom and strategy both say how to split: remove one")
        return self

    def to_json(self) -> dict[str, Any]:
        """The keys as JSON values; `custom` only where it is set, so that others keep their hashes."""
        return self.model_dump(mode="json", exclude=None if self.custom else {"custom"})


class MetadataSettings(SettingsModel):
    """Which extractors run, and the tags of every chunk of the source."""

    standard: bool = True
    code: bool = True
    documents: bool = True
    custom: tuple[PluginName, ...] = ()
    tags: tuple[str, ...] = ()
    coverage: Path | None = None  # a coverage.xml or lcov file, for `test_coverage`


def require_read_keys(source_type: str, chunking: ChunkingSettings, metadata: MetadataSettings) -> None:
    """Raises ValueError if a key is set that nothing reads for the type: it would have no effect."""
    strategy = chunking.strategy
    is_parsed = strategy == "ast_aware" or (strategy is None and source_type in _PARSED_TYPES)
    for name in () if is_parsed else _SYNTAX_KEYS:
        if getattr(chunking, name) != ChunkingSettings.model_fields[name].default:
            raise ValueError(
                f"chunking.{name} does not apply to type {source_type!r}"
                + (f" with chunking.strategy {strategy!r}" if strategy else "")
                + ": use max_tokens, or chunking.strategy 'ast_aware'"
            )
    if metadata.coverage is not None and source_type not in _PARSED_TYPES:
        raise ValueError(
            f"metadata.coverage does not apply to type {source_type!r}, only to {', '.join(_PARSED_TYPES)}: "
            "use metadata.custom"
        )
