"""A project's own reader of files (OCR, a converter of layouts), named in `files.extractor`.

It runs in the process that parses files, where a crash, a hang or a bloat costs one file.
"""

from __future__ import annotations

from collections.abc import Callable

from knowledge_pipeline.errors import ConfigError, DocumentSkipped
from knowledge_pipeline.plugins import load_plugin
from knowledge_pipeline.sources.files.text_decoding import ExtractedText

FileExtractor = Callable[[str, bytes], str | None]
"""From a file's name and its bytes to its text, as Markdown; None leaves it to what reads it otherwise."""

_KEY = "files.extractor"


def run_file_extractor(extractor: str, name: str, payload: bytes) -> ExtractedText | None:
    """What a custom extractor makes of a file; None: nothing of its own.

    Raises:
        DocumentSkipped: it skipped the file, raised, or gave something other than text.
    """
    try:
        text = load_plugin("file_extractor", extractor, key=_KEY).value(name, payload)
    except DocumentSkipped:
        raise
    except ConfigError as error:
        raise DocumentSkipped(str(error)) from error
    except Exception as error:  # whatever a foreign function does
        raise DocumentSkipped(f"the file extractor {extractor} failed: {type(error).__name__}") from error
    if text is None:
        return None
    if not isinstance(text, str):
        raise DocumentSkipped(f"the file extractor {extractor} gave {type(text).__name__}, not text")
    return ExtractedText(text, language="markdown")


def fingerprint_file_extractor(extractor: str | None) -> str:
    """Changes with its module or package; "" for none. Raises ConfigError if it cannot be loaded."""
    return load_plugin("file_extractor", extractor, key=_KEY).fingerprint if extractor else ""
