"""Files of a bucket of S3 or Google Cloud Storage, or of a container of Azure, in their current state.

A key is only a name: `..`, `//` and a leading slash have no meaning, and no key reaches the file
system. Keys that end in a slash stand for folders and are not files.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from knowledge_pipeline.config.connections import ARCHIVE_NAME, AzureConnection, GcsConnection, S3Connection
from knowledge_pipeline.config.organisations import (
    BucketArchivesConnection,
    BucketFoldersConnection,
    OrganisationMember,
)
from knowledge_pipeline.connectors.base import format_too_large
from knowledge_pipeline.connectors.files import FileContent, FileEntry
from knowledge_pipeline.connectors.patterns import FileSelection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused

if TYPE_CHECKING:
    from knowledge_pipeline.connectors.bucket_client import Bucket, FetchResult

BucketConnection = S3Connection | GcsConnection | AzureConnection

NOT_UTF8_REASON = "a key that is not UTF-8, which the service cannot be asked for"
_NOT_UTF8 = re.compile("[\ud800-\udfff]")


class BucketTree:
    """The files of a bucket below its connection's prefix, which is a folder; nothing is cached."""

    def __init__(self, connection: BucketConnection, selection: FileSelection) -> None:
        self._folder = folder_of(connection.prefix)
        self._selection = selection
        self._bucket = open_bucket(connection)

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, in the order of the keys; errors as `Bucket`."""
        for stored in self._bucket.list_objects(self._folder):
            path = stored.key.removeprefix(self._folder)
            if not path or path.endswith("/"):
                continue
            if self._selection.is_pruned(path.rpartition("/")[0]) or not self._selection.accepts(path):
                self._selection.count_left_out(path)
            else:
                skip = NOT_UTF8_REASON if _NOT_UTF8.search(stored.key) else None
                yield FileEntry(path, stored.size_bytes, stored.revision, stored.locator, skip)

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file; DocumentSkipped where it cannot be read."""
        if not entry.size_bytes:
            return b""  # there is no first byte to ask for
        result = self._bucket.read(self._folder + entry.path, entry.locator, limit_bytes)
        return _decompress(result, limit_bytes)[:limit_bytes]

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file and when it was last written; its author is not known."""
        result = self._bucket.read(self._folder + path, locator, limit_bytes)
        payload = result.payload
        if len(payload) <= limit_bytes:
            payload = _decompress(result, limit_bytes)
        if len(payload) > limit_bytes:
            raise DocumentSkipped(format_too_large(len(payload), limit_bytes))
        return FileContent(payload, None, result.last_modified)

    def close(self) -> None:
        """Free the connections."""
        self._bucket.close()


def open_bucket(connection: BucketConnection) -> Bucket:
    """The bucket that a connection names; nothing is sent before the first call."""
    if isinstance(connection, S3Connection):
        from knowledge_pipeline.connectors.s3 import S3Bucket

        return S3Bucket(connection)
    if isinstance(connection, AzureConnection):
        from knowledge_pipeline.connectors.azure import AzureContainer

        return AzureContainer(connection)
    from knowledge_pipeline.connectors.gcs import GcsBucket

    return GcsBucket(connection)


def folder_of(prefix: str) -> str:
    """A connection's prefix as a folder: "docs" is "docs/", so that "docs-old/" is not in it."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def build_bucket_web_prefix(connection: BucketConnection) -> str | None:
    """What comes before a file's quoted path in the address of its page; None where there are no pages."""
    if connection.endpoint_url:
        return None
    folder = quote(folder_of(connection.prefix))
    if isinstance(connection, AzureConnection):  # a browser that is logged in sends no token
        return f"{connection.account_url}/{connection.container}/{folder}" if connection.anonymous else None
    if isinstance(connection, GcsConnection):
        return f"https://storage.cloud.google.com/{connection.bucket}/{folder}"
    return f"https://console.aws.amazon.com/s3/object/{connection.bucket}?prefix={folder}"


def _decompress(result: FetchResult, limit_bytes: int) -> bytes:
    """The bytes, unpacked if they were stored compressed, up to one byte more than the limit."""
    if result.encoding.strip().lower() not in ("gzip", "x-gzip"):
        return result.payload
    with suppress(zlib.error):
        return zlib.decompressobj(wbits=31).decompress(result.payload, limit_bytes + 1)
    return result.payload


def list_bucket_members(connection: BucketFoldersConnection) -> Iterator[OrganisationMember]:
    """Every folder directly below the connection's prefix, or every archive below it; a thousand keys a call.

    Left out are other files, and folders that no prefix can name: without a name (`a//b`), or with one that
    is not UTF-8. SourceRefused where there is none; other errors as `Bucket`.
    """
    folder = folder_of(connection.prefix)
    searched = connection.at(folder)
    web_prefix, is_empty = build_bucket_web_prefix(searched), True
    is_packed = isinstance(connection, BucketArchivesConnection)
    with closing(open_bucket(searched)) as bucket:
        keys = bucket.list_folders(folder)
        if is_packed:
            keys = (info.key for info in bucket.list_objects(folder) if ARCHIVE_NAME.search(info.key))
        for key in keys:
            name = key.removeprefix(folder)
            if name != "/" and not _NOT_UTF8.search(key):
                is_empty = False
                url = f"{web_prefix}{quote(name)}" if web_prefix else ""
                yield OrganisationMember(key, title=name.rstrip("/"), url=url)
    if is_empty:
        what = "archive (.zip, .tar, .tar.gz, .tgz)" if is_packed else "folder"
        raise SourceRefused(
            f"{searched.location} holds no {what}: correct connection.prefix, below which each member has one"
        )
