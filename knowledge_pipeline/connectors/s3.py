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
from urllib.parse import unquote_to_bytes, urlsplit

from knowledge_pipeline.config.connections import S3Connection
from knowledge_pipeline.connectors.base import DELETED_REASON, Sleep, decode_path
from knowledge_pipeline.connectors.bucket_objects import FetchResult, ObjectInfo
from knowledge_pipeline.connectors.http_retry import (
    MAX_ATTEMPTS,
    TIMEOUT_S,
    compute_backoff_s,
    compute_wait_s,
    wait_or_raise,
)
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.extras import describe_missing

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
            for listed in page.get("Contents", ()):
                tag, size = str(listed.get("ETag", "")).strip('"'), int(listed["Size"])
                # the time too: an object that is rewritten with other headers keeps its ETag
                revision = f"{tag}-{size}-{int(listed['LastModified'].timestamp())}"
                yield ObjectInfo(_decode_key(page, listed["Key"]), size, revision)

    def list_folders(self, prefix: str) -> Iterator[str]:
        """What keys below a prefix begin with, up to the next slash. Errors as `list_objects`."""
        for page in self._iter_pages(prefix, Delimiter="/"):
            for listed in page.get("CommonPrefixes", ()):
                yield _decode_key(page, listed["Prefix"])

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
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return parse_timestamp(value)
    return moment if moment.tzinfo else parse_timestamp(value)


_IDENTITY_ERRORS = {
    "InvalidAccessKeyId": "does not know the access key: correct {access_key_id}",
    "SignatureDoesNotMatch": "does not accept the signature: correct {secret_access_key}",
    "ExpiredToken": "says that the identity has expired: log in again",
    "InvalidToken": "does not accept the session token of the identity: log in again",
    "TokenRefreshRequired": "says that the identity has expired: log in again",
    "RequestTimeTooSkewed": "says that the clock of this machine is wrong: set it",
    "InvalidSecurity": "does not accept the identity: correct {access_key_id}",
    "AccountProblem": "says that there is a problem with the account: ask its owner",
    "NotSignedUp": "says that the account is not signed up for S3: ask its owner",
}
_REDIRECT_CODES = {"PermanentRedirect", "TemporaryRedirect", "301", "307"}
_WRONG_REGION_CODES = _REDIRECT_CODES | {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}


class S3ErrorTranslator:
    """The errors of one bucket's client as ours, without keys, signatures or signed text."""

    def __init__(self, connection: S3Connection) -> None:
        self._connection = connection
        endpoint = connection.endpoint_url
        self.service = f"S3 at {urlsplit(endpoint).netloc}" if endpoint else "Amazon S3"

    def to_source_error(self, error: Exception, *, reading: bool) -> Exception:
        """The source error for an error of botocore; any other error is returned as it is.

        Args:
            error: what the client raised.
            reading: one object was read, which S3 may refuse alone.
        """
        from botocore import exceptions
        from botocore.parsers import ResponseParserError

        match error:
            case exceptions.ClientError():
                return self._from_response(error.response, reading=reading)
            case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
                return SourceRefused(
                    f"{self.service} needs an identity, and no keys are given: set "
                    "connection.access_key_id and connection.secret_access_key, log in with the AWS command "
                    "line, or set connection.anonymous for a public bucket"
                )
            case exceptions.SSLError():
                return SourceRefused(
                    f"{self.service} presents a certificate that this machine does not trust: correct "
                    "connection.endpoint_url, or name the authority's file in AWS_CA_BUNDLE"
                )
            case exceptions.ParamValidationError():
                return SourceRefused(
                    f"{self._connection.bucket!r} is not the name of a bucket: correct connection.bucket"
                )
            case (
                exceptions.HTTPClientError() | exceptions.ConnectionError() | exceptions.IncompleteReadError()
            ):
                return SourceUnavailable(
                    f"{self.service} did not answer ({type(error).__name__}): try again later, "
                    "and see whether connection.endpoint_url and connection.region are right"
                )
            case ResponseParserError():
                return self._build_not_s3_error()
            case exceptions.BotoCoreError():
                return SourceRefused(
                    f"{self.service} cannot be asked ({type(error).__name__}): correct the connection, "
                    "or the AWS configuration of this machine"
                )
            case _:
                return error

    def _from_response(self, response: Mapping[str, Any], *, reading: bool) -> Exception:
        error: dict[str, Any] = response.get("Error", {})
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = str(error.get("Code") or status)
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        # 500 is the client's code for what it cannot parse
        if code == "500" and "xml" not in headers.get("content-type", "xml"):
            return self._build_not_s3_error()
        if code in _IDENTITY_ERRORS:
            return SourceRefused(f"{self.service} {_IDENTITY_ERRORS[code].format_map(self._key_settings())}")
        if code in _WRONG_REGION_CODES:
            region = error.get("Region") or headers.get("x-amz-bucket-region")
            where = f"in the region {region}" if region else "in another region"
            where = f"{self._connection.bucket!r} {where}"
            return SourceRefused(f"{self.service} has the bucket {where}: correct connection.region")
        if code in ("RequestTimeout", "SlowDown") or status == 429 or status >= 500:
            limits = "limits our calls" if status in (429, 503) else "failed"
            return SourceUnavailable(f"{self.service} {limits} ({code}): try again later")
        if reading and (skipped := _skip_reason(code, status)):
            return DocumentSkipped(skipped)
        return self._build_refusal(code, status)

    def _build_refusal(self, code: str, status: int) -> SourceRefused:
        bucket = self._connection.bucket
        if code == "NoSuchBucket" or status == 404:
            return SourceRefused(
                f"{self.service} has no bucket {bucket!r}: correct connection.bucket"
                + (", or connection.endpoint_url" if self._connection.endpoint_url else "")
            )
        if status in (401, 403):
            remedy = (
                "it is not public, so leave out connection.anonymous and give keys"
                if self._connection.anonymous
                else "give the identity s3:ListBucket and s3:GetObject on it, or correct connection.bucket"
            )
            return SourceRefused(
                f"{self.service} does not let us list the bucket {bucket!r} ({code}): {remedy}"
            )
        return SourceRefused(
            f"{self.service} refuses to answer ({code}): correct connection.bucket or connection.endpoint_url"
        )

    def _build_not_s3_error(self) -> SourceRefused:
        return SourceRefused(
            f"{self.service} answered with something other than S3, as a login page or a proxy does: "
            "correct connection.endpoint_url"
        )

    def _key_settings(self) -> dict[str, str]:
        """What to correct: the keys of the file, or the identity of this machine."""
        names = ("access_key_id", "secret_access_key")
        if self._connection.access_key_id:
            return {name: f"connection.{name}" for name in names}
        return dict.fromkeys(names, "the AWS identity of this machine, or set connection.access_key_id")


def _skip_reason(code: str, status: int) -> str | None:
    """Why one object cannot be read though its bucket can."""
    if code == "NoSuchBucket":
        return None
    if status == 404:
        return DELETED_REASON
    if code == "InvalidRange":
        return "empty"
    if code == "InvalidObjectState":
        return "archived in a storage class that has to be restored before it can be read"
    if status == 403 or code.startswith("KMS."):
        return f"the service forbids us to read it ({code})"
    return None
