"""The folders directly below a prefix of a bucket, as members of an organisation."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from knowledge_pipeline.config.organisations.connections import (
    AzureFoldersConnection,
    GcsFoldersConnection,
    S3FoldersConnection,
)
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.bucket.tree import build_bucket_web_prefix, folder_of, open_bucket
from knowledge_pipeline.sources.organisations.members import OrganisationMember

_NOT_UTF8 = re.compile("[\ud800-\udfff]")


def list_members(
    connection: S3FoldersConnection | GcsFoldersConnection | AzureFoldersConnection,
    *,
    sleep: Sleep = time.sleep,
) -> Iterator[OrganisationMember]:
    """Every folder directly below the connection's prefix, by its whole prefix; a thousand keys a call.

    Left out are files that lie directly below it, and folders that no prefix can name: without a name
    (`a//b`), or with one that is not UTF-8.

    Raises:
        ConfigError: the service's client is not installed.
        SourceRefused: the bucket refuses us, or has no folder there.
        SourceUnavailable: it did not answer, or not to the end.
    """
    folder = folder_of(connection.prefix)
    place = connection.connect(folder)
    web_prefix, is_empty = build_bucket_web_prefix(place), True
    with closing(open_bucket(place, sleep=sleep)) as bucket:
        for key in bucket.list_folders(folder):
            name = key.removeprefix(folder)
            if name != "/" and not _NOT_UTF8.search(key):
                is_empty = False
                url = f"{web_prefix}{quote(name)}" if web_prefix else ""
                yield OrganisationMember(key, title=name.rstrip("/"), url=url)
    if is_empty:
        raise SourceRefused(
            f"{place.location} holds no folder: correct connection.prefix, below which each member has one"
        )
