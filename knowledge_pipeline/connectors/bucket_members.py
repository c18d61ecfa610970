"""Folders or archives below a prefix of a bucket, as members of an organisation."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from knowledge_pipeline.config.connections import ARCHIVE_NAME
from knowledge_pipeline.config.organisations import (
    BucketArchivesConnection,
    BucketFoldersConnection,
    OrganisationMember,
)
from knowledge_pipeline.connectors.base import Sleep
from knowledge_pipeline.connectors.buckets import build_bucket_web_prefix, folder_of, open_bucket
from knowledge_pipeline.errors import SourceRefused

_NOT_UTF8 = re.compile("[\ud800-\udfff]")


def list_members(
    connection: BucketFoldersConnection, *, sleep: Sleep = time.sleep
) -> Iterator[OrganisationMember]:
    """Every folder directly below the connection's prefix, or every archive below it; a thousand keys a call.

    Left out are other files, and folders that no prefix can name: without a name (`a//b`), or with one that
    is not UTF-8.

    Raises:
        ConfigError: the service's client is not installed.
        SourceRefused: the bucket refuses us, or has no folder, or archive, there.
        SourceUnavailable: it did not answer, or not to the end.
    """
    folder = folder_of(connection.prefix)
    searched = connection.at(folder)
    web_prefix, is_empty = build_bucket_web_prefix(searched), True
    is_packed = isinstance(connection, BucketArchivesConnection)
    with closing(open_bucket(searched, sleep=sleep)) as bucket:
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
