"""Attachments as documents: which are read, what is in them, and what they hang on.

An attachment's uri is below its document's: "issue/10001/attachments/10050". Its title, its path and what
filters read of it are its document's too, so that it is found where the document is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC
from typing import Any
from urllib.parse import quote

from knowledge_pipeline.config.sources import FILTER_TYPES, AttachmentSettings, SourceConfig
from knowledge_pipeline.connectors.base import ApiSource, format_too_large
from knowledge_pipeline.connectors.patterns import build_attachment_selection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extraction_version, fingerprint_file_extractor
from knowledge_pipeline.extraction.text_decoding import ExtractedText, fingerprint_encoding
from knowledge_pipeline.extraction.worker import ExtractionWorker
from knowledge_pipeline.records import Attachment, Document, Item, hash_strings

ATTACHED_TO_KEY = "attached_to"
"""Key of an attachment's metadata: uri, title and url of what it hangs on."""

_FORMAT_VERSION = "1"  # of the documents that `AttachmentReader` makes
_FOLDER = "/attachments/"
_INHERITED_KEYS = ("project", "status", "wiki_space", "labels", "channel")
"""Metadata of a document that filters read, which is its attachments' too."""

# a format of each parser
_PROBES = ("pdf", "docx", "pptx", "xlsx", "html", "eml", "csv", "ipynb", "txt", "odt", "epub", "rtf")


def find_parent_uri(source_type: str, uri: str) -> str | None:
    """The uri of the document that an attachment hangs on; None for what is no attachment."""
    if source_type not in FILTER_TYPES["attachments"]:
        return None
    parent, folder, _ = uri.partition(_FOLDER)
    return parent if folder else None


def find_owner_uri(source_type: str, uri: str) -> str:
    """The document whose readers may read it: what an attachment hangs on, else the document itself."""
    return find_parent_uri(source_type, uri) or uri


MAX_LOST_S = 1800.0
"""So much of the processor parsers of a source may take in vain in a refresh; then they get no file more."""


class AttachmentReader:
    """Reads attachments as a source's settings say; a parser of theirs starts with the first."""

    def __init__(
        self,
        source_id: str,
        settings: AttachmentSettings,
        extractor: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """`extractor`: of another package; `encoding`: of what declares none.

        Raises ConfigError: a pattern or the encoding is wrong, or the extractor cannot be loaded.
        """
        self._own = fingerprint_file_extractor(extractor) + fingerprint_encoding(encoding)
        self._settings = settings
        self._selection = build_attachment_selection(source_id, settings)
        self._worker = ExtractionWorker(extractor=extractor, encoding=encoding)
        self._lost_s = 0.0  # of the processor, in parsers, for files that they could not read

    @property
    def version(self) -> str:
        """Changes whenever the same files may give other documents."""
        formats = (extraction_version(f"file.{extension}") for extension in _PROBES)
        return hash_strings(_FORMAT_VERSION, self._settings.model_dump_json(), *formats, self._own)[:12]

    @property
    def notes(self) -> Counter[str]:
        """What was not listed for its format, counted: 12 "attachments of other formats (9 .msg, 3 .doc)"."""
        return self._selection.describe_left_out("attachment")

    def close(self) -> None:
        """End the parser's process."""
        self._worker.close()

    def list_items(self, parent: Document) -> Iterator[tuple[Item, Attachment]]:
        """Each wanted attachment of a document with its item; those over a limit as skipped."""
        seen, count, settings = set[str](), 0, self._settings
        for attachment in parent.attachments:
            uri = f"{parent.uri}{_FOLDER}{quote(attachment.id, safe='')}"
            name = _base_name(attachment.name)
            if uri in seen:
                continue
            seen.add(uri)
            if not self._selection.accepts(name):
                self._selection.count_left_out(name)
                continue
            count += 1
            size, skip = attachment.size_bytes, attachment.skip
            if skip is None and size is not None and size > settings.max_bytes:
                skip = format_too_large(size, settings.max_bytes)
            if count > settings.max_count:
                skip = f"more than {settings.max_count} attachments at one document"
            shown = map(str, (attachment.url, attachment.author, attachment.created))
            version = hash_strings(_FORMAT_VERSION, extraction_version(name), self._own)[:12]
            revision = f"{hash_strings(attachment.revision, name, *shown)[:16]}:{version}"
            yield Item(uri, revision, skip=skip), attachment

    def read(self, source: ApiSource, item: Item, attachment: Attachment) -> Document:
        """The document of one attachment, without what it hangs on. Raises DocumentSkipped: not taken."""
        if item.skip:
            raise DocumentSkipped(item.skip)
        if self._lost_s >= MAX_LOST_S:
            raise DocumentSkipped(
                f"other attachments of the source have kept parsers busy for {self._lost_s:.0f} s in vain: "
                "exclude these, then run `knowledge reindex --source ID`"
            )
        payload = source.download(attachment, self._settings.max_bytes)
        if not payload:
            raise DocumentSkipped("empty")
        name = _base_name(attachment.name)
        extracted = self._parse(name, payload)
        return Document(
            uri=item.uri,
            text=extracted.text,
            path=name,
            title=name,
            language=extracted.language,
            url=attachment.url,
            author=extracted.author or attachment.author,
            last_modified=attachment.created.astimezone(UTC) if attachment.created else None,
            metadata=extracted.metadata,
        )

    def _parse(self, name: str, payload: bytes) -> ExtractedText:
        try:
            return self._worker(name, payload)
        except DocumentSkipped:
            self._lost_s += self._worker.cpu_s
            raise


def attach(document: Document, parent: Document) -> Document:
    """An attachment's document as it hangs on another. Idempotent."""
    name = _base_name(document.path)
    own = {key: value for key, value in document.metadata.items() if key not in _INHERITED_KEYS}
    inherited = {key: parent.metadata[key] for key in _INHERITED_KEYS if key in parent.metadata}
    hangs_on: dict[str, Any] = {"uri": parent.uri, "title": parent.title, "url": parent.url}
    mentions = [{"kind": "attached_to", "target": parent.url}] if parent.url else []
    return replace(
        document,
        path=build_path(parent, name),
        title=f"{name} (attached to {parent.title})" if parent.title else name,
        metadata={**own, **inherited, ATTACHED_TO_KEY: hangs_on, "mentions": mentions},
    )


def build_path(parent: Document, name: str) -> str:
    """The path of a file that hangs on a document."""
    return f"{parent.path or parent.uri}/{_base_name(name)}"


def _base_name(name: str) -> str:
    """A file's name without folders, which are nobody's here."""
    return name.rpartition("/")[2]


@contextmanager
def open_attachment_reader(source: SourceConfig) -> Generator[AttachmentReader | None]:
    """What reads a source's attachments; None where its settings want none. Raises ConfigError."""
    if not source.attachments:
        yield None
        return
    reader = AttachmentReader(source.id, source.attachments, source.files.extractor, source.encoding)
    with closing(reader):
        yield reader
