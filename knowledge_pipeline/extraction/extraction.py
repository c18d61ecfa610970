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
from knowledge_pipeline.extraction.archives import require_no_password
from knowledge_pipeline.extraction.text_decoding import (
    DECODING_VERSION,
    ExtractedText,
    add_note,
    decode_text,
    limit_chars,
)
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.plugins import load_plugin

_SPREADSHEETS = ("xlsx", "xlsm", "xlsb", "xls", "ods")
_SAME_FORMATS = {
    **dict.fromkeys(("docm", "dotx", "dotm"), "docx"),
    **dict.fromkeys(("pptm", "ppsx", "ppsm", "potx", "potm"), "pptx"),
    **{"ott": "odt", "ots": "ods", "otp": "odp"},
}  # with macros, or as templates and shows: their text is where the format has it
_FORMAT_VERSIONS = {
    "docx": "5",
    **dict.fromkeys(("pdf", "pptx", "html", "htm", "xhtml", "odt"), "3"),
    **dict.fromkeys((*_SPREADSHEETS, "csv", "tsv", "eml", "mbox"), "4"),
}  # of others "2"
_READERS: dict[str, tuple[str, str]] = {
    "pdf": ("pdf", "read_pdf"),
    "docx": ("docx", "read_docx"),
    "pptx": ("pptx", "read_pptx"),
    **dict.fromkeys(_SPREADSHEETS, ("spreadsheet", "read_spreadsheet")),
    **dict.fromkeys(("html", "htm", "xhtml"), ("html", "read_html")),
    "ipynb": ("notebook", "read_notebook"),
    **dict.fromkeys(("csv", "tsv"), ("row_tables", "read_csv")),
    "eml": ("mail", "read_eml"),
    "mbox": ("mail", "read_mbox"),
    "odt": ("open_document", "read_odt"),
    "odp": ("open_document", "read_odp"),
    "epub": ("epub", "read_epub"),
    "rtf": ("rtf", "read_rtf"),
}
"""Module and function that read a format; imported when needed, its parser with it."""
_DECODERS = frozenset({"html", "row_tables", "mail"})  # modules of formats that may be in any encoding
_PARSERS = ("beautifulsoup4", "lxml", "markdownify")
_OWN_PARSERS = {"pdf": "pypdfium2", "xlsb": "python-calamine", "xls": "xlrd"}
_PACKAGES = frozenset({"docx", "pptx", "odt", "odp", *_SPREADSHEETS})
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def extraction_version(name: str) -> str:
    """Changes whenever the same bytes may give another text: the parsers' versions are part of it."""
    return _version_of(_format_of(name))


@cache
def _version_of(kind: str) -> str:
    parsers = [*_PARSERS, *filter(None, [_OWN_PARSERS.get(kind)])]
    return "+".join([_FORMAT_VERSIONS.get(kind, "2"), DECODING_VERSION, *map(_find_version, parsers)])


def _find_version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return installed_version(package)
    return "none"


def extract(name: str, payload: bytes, encoding: str | None = None) -> ExtractedText:
    """The text of one file; the extension of its name says which format it has.

    `encoding` is that of files whose text declares none and is not UTF-8; see `decode_text`.

    Metadata of a PDF has `page_starts`: for each page, the offset in characters at which
    its text begins. The text never holds NUL or a lone surrogate.

    Raises `DocumentSkipped`: the file is not what its name says, is encrypted, or has no text.
    """
    kind = _format_of(name)
    if kind not in _READERS:
        text, note = decode_text(payload, encoding)
        return ExtractedText(text, metadata=add_note({}, note), language="text")
    module, function = _READERS[kind]
    if kind in _PACKAGES:
        require_no_password(payload)
    try:
        read = getattr(import_module(f"knowledge_pipeline.extraction.{module}"), function)
        extracted: ExtractedText = read(payload, encoding) if module in _DECODERS else read(payload)
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
        metadata = add_note(metadata, note)
    if not text or text.isspace():
        raise DocumentSkipped("empty")
    return replace(extracted, text=text, title=title, author=author or None, metadata=metadata)


def is_plain_text(name: str) -> bool:
    """Whether reading the file takes no parser."""
    return _format_of(name) not in _READERS


def _format_of(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    return _SAME_FORMATS.get(ending, ending)


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
