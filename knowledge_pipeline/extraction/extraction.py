"""From the bytes of one file to text: PDF, office files, HTML, e-mail, CSV, notebooks, and plain text.

`extract` is a pure function; `ExtractionWorker` runs it where a broken or hostile file can do no harm. All
but PDF and plain text become Markdown, so that headings, tables and code survive. A project's own reader of
files (OCR, a converter of layouts), named in `files.extractor`, runs in the same process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from knowledge_pipeline.errors import ConfigError, DocumentSkipped
from knowledge_pipeline.extraction.text_decoding import (
    DECODING_VERSION,
    ExtractedText,
    decode_text,
    limit_chars,
)
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.plugins import load_plugin

_FORMAT_VERSIONS = {"docx": "4"}  # of others "2"
_SPREADSHEETS = ("xlsx", "xlsm", "xlsb", "xls", "ods")
_READERS: dict[str, tuple[str, str]] = {
    "pdf": ("pdf", "read_pdf"),
    "docx": ("office", "read_docx"),
    "pptx": ("office", "read_pptx"),
    **dict.fromkeys(_SPREADSHEETS, ("office", "read_spreadsheet")),
    **dict.fromkeys(("html", "htm", "xhtml"), ("html", "read_html")),
    "ipynb": ("notebook", "read_notebook"),
    **dict.fromkeys(("csv", "tsv"), ("row_tables", "read_csv")),
    "eml": ("mail", "read_eml"),
    "mbox": ("mail", "read_mbox"),
}
"""Module and function that read a format; imported when needed, its parser with it."""
_PARSERS = ("pypdf", "python-docx", "beautifulsoup4", "lxml", "markdownify")
_OFFICE_PARSERS = {"pptx": "python-pptx", **dict.fromkeys(_SPREADSHEETS, "python-calamine")}  # of an extra
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def extraction_version(name: str) -> str:
    """Changes whenever the same bytes may give another text: the parsers' versions are part of it."""
    return _version_of(_format_of(name))


@cache
def _version_of(kind: str) -> str:
    parsers = [*_PARSERS, *filter(None, [_OFFICE_PARSERS.get(kind)])]
    return "+".join([_FORMAT_VERSIONS.get(kind, "2"), DECODING_VERSION, *map(_find_version, parsers)])


def _find_version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return installed_version(package)
    return "none"


def extract(name: str, payload: bytes) -> ExtractedText:
    """The text of one file; the extension of its name says which format it has.

    Metadata of a PDF has `page_starts`: for each page, the offset in characters at which
    its text begins. The text never holds NUL or a lone surrogate.

    Raises:
        DocumentSkipped: the file is not what its name says, is encrypted, or has no text.
    """
    kind = _format_of(name)
    if kind not in _READERS:
        return ExtractedText(decode_text(payload), language="text")
    module, function = _READERS[kind]
    try:
        read = getattr(import_module(f"knowledge_pipeline.extraction.{module}"), function)
        extracted: ExtractedText = read(payload, extract) if module == "mail" else read(payload)
    except ModuleNotFoundError as error:
        raise DocumentSkipped(describe_missing(f"reading {kind.upper()} files", "office")) from error
    return finish(extracted, payload)


def finish(extracted: ExtractedText, payload: bytes) -> ExtractedText:
    """What a parser gave, without what no text holds, and in proportion to its file; skipped where empty."""
    text, title, author = (
        _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", value)
        for value in (extracted.text, extracted.title, extracted.author or "")
    )
    metadata, max_chars = extracted.metadata, limit_chars(len(payload))
    if len(text) > max_chars:
        text = text[:max_chars]
        note = f"cut after {max_chars:,} characters: its text is out of proportion to its size"
        metadata = {**metadata, "note": note}
    if not text or text.isspace():
        raise DocumentSkipped("empty")
    return replace(extracted, text=text, title=title, author=author or None, metadata=metadata)


def is_plain_text(name: str) -> bool:
    """Whether reading the file takes no parser."""
    return _format_of(name) not in _READERS


def _format_of(name: str) -> str:
    return name.rpartition(".")[2].lower()


FileExtractor = Callable[[str, bytes], str | None]
"""From a file's name and its bytes to its text, as Markdown; None leaves it to what reads it otherwise."""

_KEY = "files.extractor"


def run_file_extractor(extractor: str, name: str, payload: bytes) -> ExtractedText | None:
    """What a custom extractor makes of a file; None: nothing of its own. Its faults are DocumentSkipped."""
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
