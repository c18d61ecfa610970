"""Buckets of object stores: S3, Google Cloud Storage and Azure Blob Storage."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.connections.base import BaseConnection, HttpUrl
from knowledge_pipeline.config.model import SettingsModel


class S3Access(SettingsModel):
    """How to reach S3, or a service that speaks its protocol."""

    endpoint_url: HttpUrl | None = None  # of another provider than AWS
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None

    @model_validator(mode="after")
    def _check_key_pair(self) -> S3Access:
        if bool(self.access_key_id) != bool(self.secret_access_key):
            given, missing = ("access_key_id", "secret_access_key")[:: 1 if self.access_key_id else -1]
            raise ValueError(f"{given} without {missing}: give both, or none")
        return self


class BucketConnection(BaseConnection):
    """A prefix of a bucket. Without credentials: the environment's identity."""

    scheme: ClassVar[str]  # of the URLs that the bucket's tools write
    default_host: ClassVar[str]
    bucket: str = Field(min_length=3)
    prefix: str = ""
    endpoint_url: HttpUrl | None = None
    anonymous: bool = False

    @property
    def location(self) -> str:
        """Bucket and prefix as a URL."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}"

    @property
    def host(self) -> str | None:
        """Of the endpoint."""
        return urlsplit(self.endpoint_url).hostname if self.endpoint_url else self.default_host


class S3Connection(S3Access, BucketConnection):
    """A bucket of S3, or of a service that speaks its protocol."""

    scheme, default_host = "s3", "amazonaws.com"
    type: Literal["s3"]


class GcsConnection(BucketConnection):
    """A bucket of Google Cloud Storage."""

    scheme, default_host = "gs", "storage.googleapis.com"
    type: Literal["gcs"]
    credentials: Path | None = None  # a service account's key file


class AzureConnection(BaseConnection):
    """A prefix of a container of Azure Blob Storage. Without key and SAS: the environment's identity."""

    type: Literal["azure"]
    account: str = Field(pattern=r"^[a-z0-9]{3,24}$")
    container: str = Field(pattern=r"^(\$(root|web|logs)|[a-z0-9][a-z0-9-]{1,61}[a-z0-9])$")
    prefix: str = ""
    endpoint_url: HttpUrl | None = None  # of the account, in another cloud or an emulator
    account_key: SecretStr | None = None
    sas_token: SecretStr | None = None  # a shared access signature: "sv=…&sig=…"
    anonymous: bool = False

    @model_validator(mode="after")
    def _check_one_identity(self) -> AzureConnection:
        given = [name for name in ("account_key", "sas_token", "anonymous") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other: give one, or none")
        return self

    @property
    def account_url(self) -> str:
        """Where the account's containers are."""
        return (self.endpoint_url or f"https://{self.account}.blob.core.windows.net").rstrip("/")

    @property
    def location(self) -> str:
        """Container and prefix as a URL."""
        return f"{self.account_url}/{self.container}/{self.prefix}"

    @property
    def host(self) -> str | None:
        """Of the account."""
        return urlsplit(self.account_url).hostname
