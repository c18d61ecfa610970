"""One bucket of S3, or of anything that speaks its protocol, by botocore.

API: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html,
https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from knowledge_pipeline.config.connections import S3Connection
from knowledge_pipeline.connectors.base import DELETED_REASON, decode_path
from knowledge_pipeline.connectors.bucket_client import Bucket, FetchResult, ObjectInfo
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


class S3Bucket(Bucket):
    """A bucket of S3."""

    repetition = "contradicts itself in a listing"

    def __init__(self, connection: S3Connection) -> None:
        super().__init__("Amazon", "S3", connection.endpoint_url)
        self._connection = connection

    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one object from one on; its listing is not needed."""
        wanted = f"bytes={start_byte}-{start_byte + limit_bytes}"

        def ask(client: Any) -> FetchResult:
            from botocore.exceptions import IncompleteReadError

            response = client.get_object(Bucket=self._connection.bucket, Key=key, Range=wanted)
            with closing(response["Body"]) as body:
                payload = body.read(limit_bytes + 1)
            expected_bytes = min(response["ContentLength"], limit_bytes + 1)
            if len(payload) < expected_bytes:
                raise IncompleteReadError(actual_bytes=len(payload), expected_bytes=expected_bytes)
            encoding = response.get("ContentEncoding", "").removeprefix("aws-chunked").strip(",")
            return FetchResult(payload, encoding, response.get("LastModified"))

        return self._call_with_retries(ask, reading=True)

    def _fetch_page(
        self, prefix: str, delimiter: str | None, token: str | None
    ) -> tuple[dict[str, Any], str | None]:
        """A page, which must be a listing: other XML would look like an empty bucket."""
        bucket = self._connection.bucket
        parameters = {"Bucket": bucket, "Prefix": prefix, "EncodingType": "url"}
        parameters |= {"Delimiter": delimiter} if delimiter else {}
        parameters |= {"ContinuationToken": token} if token else {}
        page = self._call_with_retries(lambda client: client.list_objects_v2(**parameters))
        if "IsTruncated" not in page or page.get("Name") != bucket:
            raise self._build_foreign_error(f"a listing of {bucket!r}")
        following, count = page.get("NextContinuationToken"), page.get("KeyCount")
        lacks_keys = count is not None and count < len(page.get("Contents", ()))
        if lacks_keys or (page["IsTruncated"] and not following):
            raise self._build_repetition_error()
        return page, following if page["IsTruncated"] else None

    def _iter_objects(self, page: dict[str, Any]) -> Iterator[ObjectInfo]:
        for listed in page.get("Contents", ()):
            tag, size = str(listed.get("ETag", "")).strip('"'), int(listed["Size"])
            # the time too: an object that is rewritten with other headers keeps its ETag
            revision = f"{tag}-{size}-{int(listed['LastModified'].timestamp())}"
            yield ObjectInfo(_decode_key(page, listed["Key"]), size, revision)

    def _iter_folders(self, page: dict[str, Any]) -> Iterator[str]:
        return (_decode_key(page, listed["Prefix"]) for listed in page.get("CommonPrefixes", ()))

    def _call_with_retries(self, call: Callable[[Any], _ResponseT], *, reading: bool = False) -> _ResponseT:
        """Retry a bounded number of times; the client itself does not retry."""
        attempt = 1
        while True:
            try:
                self._session = self._session or _open_client(self._connection)
                return call(self._session)
            except (SourceRefused, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001 - `_to_source_error` tells them apart; a bug is raised as it is
                wait_s = _compute_wait_s(error, attempt)
                if wait_s is None or attempt == MAX_ATTEMPTS:
                    raise self._to_source_error(error, reading=reading) from None
            wait_or_raise(self.service, wait_s)
            attempt += 1

    def _to_source_error(self, error: Exception, *, reading: bool) -> Exception:
        """The source error for an error of botocore, without keys or signatures; any other as it is.

        `reading`: one object was read, which S3 may refuse alone.
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
                return self._build_foreign_error("S3")
            case exceptions.BotoCoreError():
                return SourceRefused(
                    f"{self.service} cannot be asked ({type(error).__name__}): correct the connection, "
                    "or the AWS configuration of this machine"
                )
            case _:
                return error

    def _from_response(self, response: Mapping[str, Any], *, reading: bool) -> Exception:
        error, bucket = response.get("Error", {}), self._connection.bucket
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = str(error.get("Code") or status)
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        # 500 is the client's code for what it cannot parse
        if code == "500" and "xml" not in headers.get("content-type", "xml"):
            return self._build_foreign_error("S3")
        if code in _IDENTITY_ERRORS:
            return SourceRefused(f"{self.service} {_IDENTITY_ERRORS[code].format_map(self._key_settings())}")
        if code in _WRONG_REGION_CODES:
            region = error.get("Region") or headers.get("x-amz-bucket-region")
            where = f"in the region {region}" if region else "in another region"
            return SourceRefused(
                f"{self.service} has the bucket {bucket!r} {where}: correct connection.region"
            )
        if code in ("RequestTimeout", "SlowDown") or status == 429 or status >= 500:
            return self._build_overload_error(code, is_limit=status in (429, 503))
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

    def _key_settings(self) -> dict[str, str]:
        """What to correct: the keys of the file, or the identity of this machine."""
        names = ("access_key_id", "secret_access_key")
        if self._connection.access_key_id:
            return {name: f"connection.{name}" for name in names}
        return dict.fromkeys(names, "the AWS identity of this machine, or set connection.access_key_id")


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
