"""Sources of other packages: a class that `connection.use` names, with settings of its own.

What such a class does wrong is one sentence that names its package.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel

from knowledge_pipeline.config.connections import CustomConnection
from knowledge_pipeline.connectors.base import ApiSource, BatchSource, Source, format_too_large
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, KnowledgeError, SourceRefused
from knowledge_pipeline.plugins import load_plugin, validate_settings
from knowledge_pipeline.records import ABSENT_KEY, BRANCHES_KEY, Document, Item

_DEFAULT_MAX_BYTES = 5_000_000


class CustomSource(Protocol):
    """What a class must be that `connection.use` names: a maker of a `Source` from its settings.

    A `Source`, `BatchSource` or `ApiSource` whose `__init__` takes one argument fits.
    """

    settings_model: type[BaseModel]
    """The keys of `connection.settings`; a model that forbids extra keys refuses mistyped ones."""

    def __call__(self, settings: Any, /) -> Source:
        """Build the source; nothing is read or sent before `discover`."""
        ...


def open_custom_source(connection: CustomConnection, max_bytes: int | None = None) -> Source:
    """The source that a connection names; documents with more than `max_bytes` of text are skipped.

    Raises `ConfigError`: it is not installed, is no source, or refuses its settings.
    """
    plugin = load_plugin("source", connection.use, key="connection.use")
    settings = validate_settings(plugin, connection.settings)
    try:
        source = plugin.value(settings)
    except ConfigError:
        raise
    except Exception as error:  # whatever a foreign class does
        raise ConfigError(
            f"the source {plugin.name!r} of {plugin.package} cannot be opened "
            f"({type(error).__name__}: {error}): correct connection.settings, or its package"
        ) from error
    if not isinstance(source, Source):
        raise ConfigError(
            f"{plugin.name!r} of {plugin.package} is no knowledge_pipeline.extending.Source: "
            "correct connection.use"
        )
    return guard_source(source, f"{plugin.name!r} of {plugin.package}", max_bytes or _DEFAULT_MAX_BYTES)


_TEXT_FIELDS = ("uri", "text", "path", "title")
_OPTIONAL_FIELDS = ("language", "url", "author")
_RESERVED_KEYS = frozenset(
    {"page", "page_starts", "section", "segments", "symbol", "symbol_kind", "title", BRANCHES_KEY, ABSENT_KEY}
)
"""Keys of the metadata that the stages write themselves, with types of their own."""


def guard_source(source: Source, name: str, max_bytes: int) -> Source:
    """The same source; it raises errors of this project alone, and gives items and documents only.

    Args:
        name: of source and package, for messages.
        max_bytes: of a document's text; a longer one is skipped.
    """
    if isinstance(source, ApiSource):
        return _GuardedApiSource(source, name, max_bytes)
    if isinstance(source, BatchSource):
        return _GuardedBatchSource(source, name, max_bytes)
    return _GuardedSource(source, name, max_bytes)


class _Guard:
    def __init__(self, source: Any, name: str, max_bytes: int) -> None:
        self._source = source
        self._name = name
        self._max_bytes = max_bytes

    def discover(self) -> Iterator[Item]:
        with self._translate_errors("discover"):
            yield from self._check_items(self._source.discover())

    def close(self) -> None:
        with self._translate_errors("close"):
            self._source.close()

    def _check_items(self, items: Iterator[Item]) -> Iterator[Item]:
        seen = set[str]()
        for item in items:
            if not isinstance(item, Item) or not item.uri or not isinstance(item.revision, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"it listed {item!r}, which is no Item with a uri and a revision"[:300])
            if item.uri in seen:
                raise ValueError(f"it listed {item.uri!r} twice"[:300])
            seen.add(item.uri)
            yield item

    def _check_document(self, item: Item, document: Any) -> Document | DocumentSkipped:
        if not isinstance(document, Document) or document.uri != item.uri:
            raise TypeError(f"it gave no Document with the uri {item.uri!r}"[:300])
        for name in (*_TEXT_FIELDS, *_OPTIONAL_FIELDS):
            value = getattr(document, name)
            if not isinstance(value, str) and not (value is None and name in _OPTIONAL_FIELDS):
                raise TypeError(f"{name} of {item.uri!r} is {type(value).__name__}, not text"[:300])
        moment: Any = document.last_modified
        if moment is not None and not (isinstance(moment, datetime) and moment.tzinfo):
            raise TypeError(f"last_modified of {item.uri!r} is no time with a zone"[:300])
        if reserved := sorted(_RESERVED_KEYS & document.metadata.keys()):
            raise ValueError(
                f"the metadata of {item.uri!r} have {', '.join(reserved)}, which is reserved"[:300]
            )
        size = len(document.text.encode("utf-8", "surrogatepass"))
        return (
            document if size <= self._max_bytes else DocumentSkipped(format_too_large(size, self._max_bytes))
        )

    @contextmanager
    def _translate_errors(self, method: str) -> Generator[None]:
        try:
            yield
        except KnowledgeError:
            raise
        except Exception as error:  # whatever a foreign method does
            raise SourceRefused(
                f"{method} of the source {self._name} failed ({type(error).__name__}: {error}): "
                "correct its package"
            ) from error


class _GuardedSource(_Guard, Source):
    def fetch(self, item: Item) -> Document:
        with self._translate_errors("fetch"):
            document = self._check_document(item, self._source.fetch(item))
            if isinstance(document, DocumentSkipped):
                raise document
            return document


class _GuardedBatchSource(_Guard, BatchSource):
    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        with self._translate_errors("fetch_many"):
            for item, document in self._source.fetch_many(items):
                is_skipped = isinstance(document, DocumentSkipped)
                yield item, document if is_skipped else self._check_document(item, document)


class _GuardedApiSource(_GuardedBatchSource, ApiSource):
    def __init__(self, source: ApiSource, name: str, max_bytes: int) -> None:
        super().__init__(source, name, max_bytes)
        self.full_listing_interval = source.full_listing_interval

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        with self._translate_errors("discover_updated"):
            yield from self._check_items(self._source.discover_updated(since))

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        with self._translate_errors("discover_named"):
            yield from self._check_items(self._source.discover_named(uris))
