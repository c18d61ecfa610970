"""A project's own metadata extractors, named in `metadata.custom`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from knowledge_pipeline.chunking.bounded_json import to_bounded_json
from knowledge_pipeline.plugins import load_plugin
from knowledge_pipeline.records import Chunk, Document, Metadata

CustomExtractor = Callable[[Document, Chunk], Mapping[str, Any] | None]
"""Returns further metadata of a chunk; None and {} add nothing."""

_MAX_VALUES = 500


def load_extractor(name: str) -> CustomExtractor:
    """The function that an entry point or `module:function` names.

    Raises:
        ConfigError: there is no such module or function, or the module cannot be imported.
    """
    return cast("CustomExtractor", load_plugin("extractor", name, key="metadata.custom").value)


def fingerprint_extractor(name: str) -> str:
    """Changes with the extractor's module file, but not with the modules that it imports.

    Raises:
        ConfigError: as `load_extractor`.
    """
    return load_plugin("extractor", name, key="metadata.custom").fingerprint


def run_custom_extractors(
    names: Sequence[str], document: Document, chunk: Chunk
) -> tuple[Metadata, list[str]]:
    """The metadata that extractors add to a chunk, and a note for each one that failed; later ones win.

    Raises:
        ConfigError: as `load_extractor`.
    """
    metadata: dict[str, Any] = {}
    notes: list[str] = []
    for name in names:
        extract = load_extractor(name)
        try:
            added = extract(document, chunk)
            if added is not None and not isinstance(added, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"it returned {type(added).__name__} instead of a mapping or None")
            metadata |= to_bounded_json(added or {}, max_values=_MAX_VALUES)
        except Exception as error:  # noqa: BLE001 - a foreign function's fault must not lose the chunk
            notes.append(f"the metadata extractor {name} failed: {type(error).__name__}: {error}"[:300])
    return metadata, notes
