"""The errors of S3, one sentence each, without keys, signatures or signed text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from knowledge_pipeline.config.connections.buckets import S3Connection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.base import DELETED_REASON

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
    """The errors of one bucket's client as ours."""

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
