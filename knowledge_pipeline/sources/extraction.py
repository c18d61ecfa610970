"""What reading a file gives, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge_pipeline.records import Metadata


@dataclass(frozen=True, slots=True)
class Extracted:
    """Text of one file, and what the file says about itself."""

    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    language: str | None = None
