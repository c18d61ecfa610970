"""From a source's configuration to the source: the one list of source types."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.config.connections import (
    GcsConnection,
    S3Connection,
    ServiceConnection,
    SlackExportConnection,
)
from knowledge_pipeline.config.settings import Connection, GitConnection, LocalConnection, SourceConfig
from knowledge_pipeline.sources.api_sources import channel_filters, open_service
from knowledge_pipeline.sources.archive.records import open_archive
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.bucket.tree import BucketTree
from knowledge_pipeline.sources.files.documents import FileSource, code_in, every, openapi_in, read_text
from knowledge_pipeline.sources.files.extraction import extraction_version
from knowledge_pipeline.sources.files.extraction_worker import Extractor
from knowledge_pipeline.sources.files.local import LocalTree
from knowledge_pipeline.sources.files.text_decoding import READING_VERSION
from knowledge_pipeline.sources.files.trees import Tree
from knowledge_pipeline.sources.git.history import FolderHistory, GitHistory, MirrorHistory
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.remote import remote_of
from knowledge_pipeline.sources.git.tree import GitTree
from knowledge_pipeline.sources.patterns import DEFAULTS, Selection, selection
from knowledge_pipeline.sources.slack.export import SlackExport
from knowledge_pipeline.sources.web_location import Place, host_of, place

__all__ = ["Place", "host_of", "open_source", "place"]

_FORMAT = "1"  # of the documents that `documents` makes


def open_source(source: SourceConfig, *, cache: Path) -> Source:
    """The source that a configuration names; nothing is read or fetched before `discover`.

    Args:
        source: as configured.
        cache: a folder for what can be made again: mirrors of repositories, under `mirrors/`.

    Raises:
        ConfigError: the type cannot be read over this connection, or a pattern is wrong.
    """
    if isinstance(source.connection, ServiceConnection):
        return open_service(source)
    if isinstance(source.connection, SlackExportConnection):
        return SlackExport(source.connection, channel_filters(source))
    return _git_history(source, cache) if source.type == "git_history" else _file_source(source, cache)


def _git_history(source: SourceConfig, cache: Path) -> GitHistory:
    connection = source.connection
    if isinstance(connection, LocalConnection):
        history = FolderHistory(connection.path)
    else:
        git = _git(connection)
        history = MirrorHistory(Mirror(remote_of(git), cache), git.branch)
    commit_prefix = place(source).commit_prefix
    return GitHistory(history, depth=source.depth, since=source.since, commit_prefix=commit_prefix)


def _file_source(source: SourceConfig, cache: Path) -> Source:
    chosen = selection(source)
    tree = _tree(source, cache, chosen)
    listed = every
    if source.type == "code":
        listed = code_in(tree, chosen)
    elif source.type == "openapi":
        listed = openapi_in(tree)
    max_bytes = source.max_bytes or DEFAULTS[source.type].max_bytes
    if source.type == "archive":
        return open_archive(tree, max_bytes=max_bytes)
    if source.type == "files":
        extractor = Extractor()
        return FileSource(
            tree, every, extractor, f"{_FORMAT}.{extraction_version()}", max_bytes, extractor.close
        )
    return FileSource(tree, listed, read_text, f"{_FORMAT}.{READING_VERSION}", max_bytes)


def _tree(source: SourceConfig, cache: Path, chosen: Selection) -> Tree:
    connection = source.connection
    if isinstance(connection, LocalConnection):
        return LocalTree(connection.path, chosen)
    if isinstance(connection, S3Connection | GcsConnection):
        return BucketTree(connection, chosen)
    git = _git(connection)
    return GitTree(Mirror(remote_of(git), cache), git.branch, chosen)


def _git(connection: Connection) -> GitConnection:
    """What `SourceConfig` allows beside a folder for what lies in repositories."""
    if isinstance(connection, GitConnection):
        return connection
    raise AssertionError(connection.type)
