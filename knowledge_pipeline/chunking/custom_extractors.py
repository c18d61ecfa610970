"""A project's own metadata extractors, named in the config as `module:function`."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from knowledge_pipeline.chunking.bounded_json import to_bounded_json
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import Chunk, Document, Metadata

CustomExtractor = Callable[[Document, Chunk], Mapping[str, Any] | None]
"""Returns further metadata of a chunk; None and {} add nothing."""

_MAX_VALUES = 500


def load_extractor(name: str) -> CustomExtractor:
    """The function that `module:function` names.

    Raises:
        ConfigError: there is no such module or function, or the module cannot be imported.
    """
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
    except Exception as error:  # whatever a foreign module does while it is imported
        raise ConfigError(
            f"the metadata extractor {name!r} cannot be imported ({type(error).__name__}: {error}): "
            "correct metadata.custom, or install its package"
        ) from error
    if not callable(function):
        raise ConfigError(
            f"the module {module_name!r} has no function {function_name!r}: correct metadata.custom"
        )
    return cast("CustomExtractor", function)


def fingerprint_extractor(name: str) -> str:
    """Changes with the extractor's module file, but not with the modules that it imports.

    Raises:
        ConfigError: as `load_extractor`.
    """
    path = inspect.getsourcefile(inspect.unwrap(load_extractor(name)))
    content = Path(path).read_bytes() if path and Path(path).is_file() else b""
    return f"{name}#{hashlib.sha256(content).hexdigest()[:16]}"


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
