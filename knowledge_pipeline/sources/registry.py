"""From a source's configuration to the source: the one list of source types.

What only some types need is imported for these: most projects have files and repositories alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.config.connections.base import ServiceConnection
from knowledge_pipeline.config.connections.custom import CustomConnection
from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.connections.repositories import GitConnection, WikiConnection
from knowledge_pipeline.config.connections.services import SlackExportConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.bucket.tree import BucketConnection, BucketTree
from knowledge_pipeline.sources.files.custom_extractor import fingerprint_file_extractor
from knowledge_pipeline.sources.files.documents import (
    FORMAT_VERSION,
    FileSource,
    accept_all,
    build_code_filter,
    build_markup_filter,
    build_openapi_filter,
    read_text,
    text_version,
)
from knowledge_pipeline.sources.files.extraction import extraction_version
from knowledge_pipeline.sources.files.extraction_worker import ExtractionWorker
from knowledge_pipeline.sources.files.local import LocalTree
from knowledge_pipeline.sources.files.notebook import NOTEBOOK_VERSION, is_notebook
from knowledge_pipeline.sources.files.trees import FileTree
from knowledge_pipeline.sources.git.history import FolderHistory, GitHistorySource, MirrorHistory
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.open_pulls import find_pull_lister
from knowledge_pipeline.sources.git.remote import build_remote
from knowledge_pipeline.sources.git.tree import GitTree
from knowledge_pipeline.sources.git.wiki import WikiPages
from knowledge_pipeline.sources.patterns import (
    SELECTION_DEFAULTS,
    FileSelection,
    build_changed_paths,
    build_selection,
)
from knowledge_pipeline.sources.web_location import build_web_location


def open_source(source: SourceConfig, *, cache: Path) -> Source:
    """The source that a configuration names; nothing is read or fetched before `discover`.

    Args:
        source: as configured.
        cache: a folder for what can be made again: mirrors of repositories, listings of archives.

    Raises:
        ConfigError: the type cannot be read over this connection, or a pattern is wrong.
    """
    if isinstance(source.connection, ServiceConnection):
        from knowledge_pipeline.sources.api_sources import open_api_source

        return open_api_source(source)
    if isinstance(source.connection, SlackExportConnection):
        from knowledge_pipeline.sources.slack.export import SlackExport
        from knowledge_pipeline.sources.slack.threads import ChannelFilters

        filters = ChannelFilters(source.channels, source.since, source.max_results)
        return SlackExport(source.connection, filters)
    if isinstance(source.connection, CustomConnection):
        from knowledge_pipeline.sources.custom import open_custom_source

        return open_custom_source(source.connection, source.max_bytes)
    if source.type == "table":
        from knowledge_pipeline.sources.table.opening import open_table

        return open_table(source)
    if source.type == "git_history":
        return _open_git_history(source, cache)
    return _open_file_source(source, cache)


def list_branches(source: Source) -> tuple[str, ...]:
    """The further branches that the last listing of a repository covered, by name."""
    return source.branches if isinstance(source, FileSource) else ()


def _open_git_history(source: SourceConfig, cache: Path) -> GitHistorySource:
    connection = source.connection
    if isinstance(connection, LocalConnection):
        history = FolderHistory(connection.path)
    else:
        assert isinstance(connection, GitConnection)  # `SourceConfig` allows no other
        history = MirrorHistory(Mirror(build_remote(connection), cache), connection.branch)
    commit_prefix = build_web_location(source).commit_prefix
    return GitHistorySource(
        history,
        depth=source.depth,
        since=source.since,
        commit_prefix=commit_prefix,
        changed_paths=build_changed_paths(source),
    )


def _open_file_source(source: SourceConfig, cache: Path) -> Source:
    selection = build_selection(source)
    tree = _open_tree(source, cache, selection)
    max_bytes = source.max_bytes or SELECTION_DEFAULTS[source.type].max_bytes
    if source.type == "archive":
        from knowledge_pipeline.sources.archive.records import ARCHIVE_VERSION, read_record

        return FileSource(tree, accept_all, read_record, lambda _: ARCHIVE_VERSION, max_bytes)
    if source.type == "files":
        extractor = source.files.extractor
        worker = ExtractionWorker(extractor=extractor)
        version_of = partial(_office_version, own=fingerprint_file_extractor(extractor))
        return FileSource(tree, accept_all, worker, version_of, max_bytes, worker.close)
    accepts = accept_all
    if source.type == "code":
        accepts = build_code_filter(tree, selection)
    elif source.type == "markdown":
        accepts = build_markup_filter(tree, selection)
    elif source.type == "openapi":
        accepts = build_openapi_filter(tree)
    files = FileSource(tree, accepts, read_text, text_version, max_bytes)
    if isinstance(tree, GitTree):
        memory = (*tree.key, max_bytes)
        files = replace(files, list_branches=lambda: tree.branches, memory=memory)
    return WikiPages(files, source.connection) if isinstance(source.connection, WikiConnection) else files


def _office_version(path: str, *, own: str) -> str:
    """`own`: the fingerprint of a custom extractor; "" for none."""
    version = f"{FORMAT_VERSION}.{extraction_version(path)}" + (f"+{own}" if own else "")
    return f"{version}+{NOTEBOOK_VERSION}" if is_notebook(path) else version


def _open_tree(source: SourceConfig, cache: Path, selection: FileSelection) -> FileTree:
    connection = source.connection
    if isinstance(connection, LocalConnection):
        return LocalTree(connection.path, selection)
    if isinstance(connection, BucketConnection):
        return BucketTree(connection, selection)
    if isinstance(connection, ArchiveFileConnection):
        from knowledge_pipeline.sources.archive_file.tree import ArchiveTree

        return ArchiveTree(connection, selection, cache=cache)
    assert isinstance(connection, GitConnection)  # `SourceConfig` allows no other
    mirror = Mirror(build_remote(connection), cache)
    return GitTree(mirror, connection.branch, selection, source.branches, find_pull_lister(source))
