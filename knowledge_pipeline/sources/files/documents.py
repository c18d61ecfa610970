"""Sources whose documents are files of a tree: code, markdown, openapi, files."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cachetools import LRUCache

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.languages import detect_language, is_code
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.files.notebook import NOTEBOOK_VERSION, is_notebook, read_notebook
from knowledge_pipeline.sources.files.text_decoding import DECODING_VERSION, ExtractedText, decode_text
from knowledge_pipeline.sources.files.titles import extract_title
from knowledge_pipeline.sources.files.trees import FileEntry, FileTree, format_too_large
from knowledge_pipeline.sources.path_encoding import (
    build_variant_uri,
    format_path,
    path_to_uri,
    uri_to_path,
)
from knowledge_pipeline.sources.patterns import FileSelection

FORMAT_VERSION = "1"  # of the documents that `FileSource` makes
HEAD_BYTES = 65_536
_FIRST_LINE_BYTES = 256
_OPENAPI_YAML = re.compile(
    rb"""^(?:\xef\xbb\xbf)?["']?(?:openapi|swagger)["']?[ \t]*:[ \t]*["']?[23]\b""", re.MULTILINE
)
_OPENAPI_JSON = re.compile(rb'"(?:openapi|swagger)"\s*:\s*"[23]\b')
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_POINTER_START = b"version https://git-lfs.github.com/spec/v1\n"

_MAX_REMEMBERED_ITEMS = 100_000  # of all listings, some 30 MB

EntryFilter = Callable[[FileEntry], bool]
FileReader = Callable[[str, bytes], ExtractedText]
"""From a file's name and bytes to its text; raises DocumentSkipped."""


class _ListedItem(NamedTuple):
    """What an entry became; None where it is not listed."""

    entry: FileEntry
    item: Item | None


_listed_items: LRUCache[Hashable, Mapping[int, _ListedItem]] = LRUCache(
    _MAX_REMEMBERED_ITEMS, getsizeof=lambda listed: len(listed)
)
"""Of the last listing of a source, by the identity of its entries, which are kept."""
_listed_items_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class FileSource(Source):
    """The wanted files of one tree, one document each."""

    tree: FileTree
    accepts: EntryFilter  # called for every wanted file that is not skipped
    extract: FileReader
    version_of: Callable[[str], str]  # by path: changes whenever the same bytes may give another document
    max_bytes: int
    close_reader: Callable[[], None] = lambda: None
    list_branches: Callable[[], tuple[str, ...]] = tuple  # see `branches`
    memory: Hashable = None
    """Equal where the same entry becomes the same item; of trees that list the same entries again."""

    def close(self) -> None:
        """Free what was opened."""
        self.tree.close()
        self.close_reader()

    @property
    def branches(self) -> tuple[str, ...]:
        """Of a repository, the names of the further branches that the last listing covered."""
        return self.list_branches()

    def discover(self) -> Iterator[Item]:
        """Every wanted file with its revision; too large ones, links and submodules as skipped.

        A variant that is skipped is left out.
        """
        if self.memory is None:
            yield from filter(None, map(self._list_entry, self.tree.list_entries()))
            return
        with _listed_items_lock:
            earlier, listed = _listed_items.get(self.memory, {}), dict[int, _ListedItem]()
        for entry in self.tree.list_entries():
            known = earlier.get(id(entry))
            if known is None or known.entry is not entry:
                known = _ListedItem(entry, self._list_entry(entry))
            listed[id(entry)] = known
            if known.item is not None:
                yield known.item
        if len(listed) <= _MAX_REMEMBERED_ITEMS:
            with _listed_items_lock:
                _listed_items[self.memory] = listed

    def fetch(self, item: Item) -> Document:
        """Read one file; DocumentSkipped with the reason where it cannot be a document."""
        path = uri_to_path(item.uri)
        content = self.tree.read(path, item.locator, self.max_bytes)
        if len(content.payload) < 1024 and content.payload.startswith(_LFS_POINTER_START):
            raise DocumentSkipped("Git LFS pointer; the content is not in the repository")
        name = format_path(path)
        extracted = self.extract(name, content.payload)
        return Document(
            uri=item.uri,
            text=extracted.text,
            path=name,
            title=extracted.title or name.rpartition("/")[2],
            language=extracted.language,
            author=extracted.author or content.author,
            last_modified=extracted.last_modified or content.last_modified,
            metadata={**extracted.metadata, **content.metadata},
        )

    def _list_entry(self, entry: FileEntry) -> Item | None:
        try:
            if entry.skip is None and not self.accepts(entry):
                return None
            item = self._to_item(entry, entry.skip)
        except DocumentSkipped as reason:
            item = self._to_item(entry, str(reason))
        return None if item.skip and entry.variant else item

    def _to_item(self, entry: FileEntry, skip: str | None) -> Item:
        if skip is None and entry.size_bytes == 0:
            skip = "empty"
        elif skip is None and entry.size_bytes > self.max_bytes:
            skip = format_too_large(entry.size_bytes, self.max_bytes)
        revision = f"{entry.revision}:{self.version_of(entry.path)}"
        uri = build_variant_uri(entry.path, entry.variant) if entry.variant else path_to_uri(entry.path)
        return Item(uri, revision, entry.locator, skip)


def text_version(path: str) -> str:
    """Changes whenever `read_text` may give another document for the same bytes."""
    version = f"{FORMAT_VERSION}.{DECODING_VERSION}"
    if path.lower().endswith(".txt"):
        return f"{version}+rst"  # whose language is told by the content
    return f"{version}+{NOTEBOOK_VERSION}" if is_notebook(path) else version


def read_text(name: str, payload: bytes) -> ExtractedText:
    """Text files: decoded, with the language that name and content tell."""
    if is_notebook(name):
        return read_notebook(payload)
    text = decode_text(payload)
    language = detect_language(name, text)
    return ExtractedText(text, extract_title(name, text, language), language=language)


def accept_all(entry: FileEntry) -> bool:
    """List every wanted file."""
    del entry
    return True


def build_code_filter(tree: FileTree, selection: FileSelection) -> EntryFilter:
    """List what is code by name, or a script by its first line."""

    def is_listed(entry: FileEntry) -> bool:
        if not selection.is_script_candidate(entry.path):
            return True
        head = tree.read_head(entry, _FIRST_LINE_BYTES).decode("utf-8", "replace")
        language = detect_language(entry.path, head)
        return is_code(language) and (not selection.languages or language in selection.languages)

    return is_listed


def build_markup_filter(tree: FileTree, selection: FileSelection) -> EntryFilter:
    """List what is markup by name, or, among the text files of documentation, by its first 64 KiB."""

    def is_listed(entry: FileEntry) -> bool:
        if not selection.is_markup_candidate(entry.path):
            return True
        head = tree.read_head(entry, HEAD_BYTES).decode("utf-8", "replace")
        return detect_language(entry.path, head) == "rst"

    return is_listed


def build_openapi_filter(tree: FileTree) -> EntryFilter:
    """List files that declare OpenAPI 3 or Swagger 2 within their first 64 KiB."""

    def is_listed(entry: FileEntry) -> bool:
        head = tree.read_head(entry, HEAD_BYTES)
        return _OPENAPI_YAML.search(head) is not None or _OPENAPI_JSON.search(head) is not None

    return is_listed
