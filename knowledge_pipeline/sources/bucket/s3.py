"""One bucket of S3, or of anything that speaks its protocol, by botocore.

API: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html,
https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from knowledge_pipeline.config.connections.buckets import S3Connection
from knowledge_pipeline.errors import ConfigError, SourceRefused, SourceUnavailable
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.bucket.objects import FetchResult, ObjectInfo
from knowledge_pipeline.sources.bucket.s3_errors import S3ErrorTranslator
from knowledge_pipeline.sources.http_retry import (
    MAX_ATTEMPTS,
    TIMEOUT_S,
    compute_backoff_s,
    compute_wait_s,
    wait_or_raise,
)
from knowledge_pipeline.sources.path_encoding import decode_path

_ResponseT = TypeVar("_ResponseT")


class S3Bucket:
    """The bucket that a connection names; nothing is sent before the first call."""

    def __init__(self, connection: S3Connection, *, sleep: Sleep = time.sleep) -> None:
        self._connection = connection
        self._sleep = sleep
        self._errors = S3ErrorTranslator(connection)
        self._open_handle: Any = None

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object below a prefix, a thousand a call.

        Keys come in order and a page begins after the last key of the one before, so that writes
        during the listing hide no other object.

        Raises:
            ConfigError: botocore is not installed.
            SourceRefused: the bucket does not exist or refuses us, or the endpoint is not S3.
            SourceUnavailable: it did not answer, or limits us.
        """
        for page in self._iter_pages(prefix):
            for found in page.get("Contents", ()):
                tag, size = str(found.get("ETag", "")).strip('"'), int(found["Size"])
                # the time too: an object that is rewritten with other headers keeps its ETag
                revision = f"{tag}-{size}-{int(found['LastModified'].timestamp())}"
                yield ObjectInfo(_decode_key(page, found["Key"]), size, revision)

    def list_folders(self, prefix: str) -> Iterator[str]:
        """What keys below a prefix begin with, up to the next slash. Errors as `list_objects`."""
        for page in self._iter_pages(prefix, Delimiter="/"):
            for found in page.get("CommonPrefixes", ()):
                yield _decode_key(page, found["Prefix"])

    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one object from one on; its listing is not needed.

        Raises:
            DocumentSkipped: it is gone, archived, or not for us to read.
            SourceRefused, SourceUnavailable: as `list_objects`.
        """
        del locator
        wanted = f"bytes={start_byte}-{start_byte + limit_bytes}"
        parameters = {"Bucket": self._connection.bucket, "Key": key, "Range": wanted}

        def ask() -> FetchResult:
            from botocore.exceptions import IncompleteReadError

            response = self._client.get_object(**parameters)
            with closing(response["Body"]) as body:
                payload = body.read(limit_bytes + 1)
            expected_bytes = min(response["ContentLength"], limit_bytes + 1)
            if len(payload) < expected_bytes:
                raise IncompleteReadError(actual_bytes=len(payload), expected_bytes=expected_bytes)
            encoding = response.get("ContentEncoding", "").removeprefix("aws-chunked").strip(",")
            return FetchResult(payload, encoding, response.get("LastModified"))

        return self._call_with_retries(ask, reading=True)

    def close(self) -> None:
        """Free the connections."""
        if self._open_handle is not None:
            self._open_handle.close()
        self._open_handle = None

    def _iter_pages(self, prefix: str, **options: str) -> Iterator[Mapping[str, Any]]:
        parameters = {"Bucket": self._connection.bucket, "Prefix": prefix, "EncodingType": "url", **options}
        tokens: set[str] = set()
        while True:
            page = self._call_with_retries(lambda: self._client.list_objects_v2(**parameters))
            self._require_listing(page, tokens)
            yield page
            if not page["IsTruncated"]:
                return
            parameters["ContinuationToken"] = page["NextContinuationToken"]
            tokens.add(parameters["ContinuationToken"])

    @property
    def _client(self) -> Any:
        if self._open_handle is None:
            self._open_handle = _open_client(self._connection)
        return self._open_handle

    def _call_with_retries(self, call: Callable[[], _ResponseT], *, reading: bool = False) -> _ResponseT:
        """Retry a bounded number of times; the client itself does not retry."""
        attempt = 1
        while True:
            try:
                return call()
            except (SourceRefused, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001 - `S3ErrorTranslator` tells them apart; a bug is raised as it is
                wait_s = _compute_wait_s(error, attempt)
                if wait_s is None or attempt == MAX_ATTEMPTS:
                    raise self._errors.to_source_error(error, reading=reading) from None
            wait_or_raise(self._errors.service, wait_s, self._sleep)
            attempt += 1

    def _require_listing(self, page: Mapping[str, Any], seen_tokens: set[str]) -> None:
        """Refuse a page that is not a listing: other XML would look like an empty bucket."""
        service, count = self._errors.service, page.get("KeyCount")
        if "IsTruncated" not in page or page.get("Name") != self._connection.bucket:
            raise SourceRefused(
                f"{service} answered with something other than a listing of {self._connection.bucket!r}, "
                "as a login page or a proxy does: correct connection.endpoint_url"
            )
        following = page.get("NextContinuationToken")
        if (page["IsTruncated"] and (not following or following in seen_tokens)) or (
            count is not None and count < len(page.get("Contents", ()))
        ):
            raise SourceUnavailable(f"{service} contradicts itself in a listing: try again later")


def _decode_key(page: Mapping[str, Any], key: str) -> str:
    if page.get("EncodingType") != "url":
        return key
    return decode_path(unquote_to_bytes(key.replace("+", " ")))


def _compute_wait_s(error: Exception, attempt: int) -> float | None:
    """Seconds to wait before a retry; None: a retry cannot help."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        answer = error.response.get("ResponseMetadata", {})
        if error.response.get("Error", {}).get("Code") == "RequestTimeout":
            return compute_backoff_s(attempt)
        return compute_wait_s(answer.get("HTTPStatusCode", 0), answer.get("HTTPHeaders", {}), attempt)
    untrusted = isinstance(error, exceptions.SSLError)
    broken = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError)
    return compute_backoff_s(attempt) if isinstance(error, broken) and not untrusted else None


def _open_client(connection: S3Connection) -> Any:
    try:
        import botocore.session
        from botocore import UNSIGNED
        from botocore.config import Config
    except ImportError:
        raise ConfigError(describe_missing("reading a bucket of S3", "s3")) from None
    key, secret = connection.access_key_id, connection.secret_access_key
    session = botocore.session.Session()
    session.register_component("data_loader", _open_loader())
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_parse_time)
    # where no region is configured, the client follows AWS to the right one
    region = connection.region or session.get_config_variable("region") or "us-east-1"
    return session.create_client(
        "s3",
        region_name=region,
        endpoint_url=connection.endpoint_url,
        aws_access_key_id=key.get_secret_value() if key else None,
        aws_secret_access_key=secret.get_secret_value() if secret else None,
        config=Config(
            signature_version=UNSIGNED if connection.anonymous else "s3v4",
            retries={"total_max_attempts": 1},
            connect_timeout=TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            request_checksum_calculation="when_required",  # others than AWS do not know the newer ones
            response_checksum_validation="when_required",
        ),
    )


@cache
def _open_loader() -> Any:
    """What reads botocore's files about S3, and keeps them: six times the work of the rest of a client."""
    import botocore.session

    return botocore.session.Session().get_component("data_loader")


def _parse_time(value: Any) -> datetime:
    """A time in a response; the client's own parser took most of a listing's time."""
    from botocore.utils import parse_timestamp

    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return parse_timestamp(value)
    return found if found.tzinfo else parse_timestamp(value)
