"""Object stores that hold the tables: their URL and credentials.

Credentials are written `${NAME}` in the file; without any, the environment's identity is used.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from knowledge_pipeline.config.connections import S3Access
from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.errors import ConfigError

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}")
_SCHEMES = ("s3", "gs", "az")
_ALLOWED_STORES = "a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"


class StoreOptions(S3Access):
    """How to reach an S3-compatible store; the variables AWS_* supply what is left out."""

    session_token: SecretStr | None = None
    # None: the bucket's own
    server_side_encryption: Literal["AES256", "aws:kms", "aws:kms:dsse"] | None = None
    sse_kms_key_id: str | None = Field(default=None, min_length=1)  # None: the key that S3 manages
    sse_bucket_key: bool | None = None  # whether S3 asks KMS once a bucket, not once an object

    @model_validator(mode="after")
    def _check_encryption(self) -> StoreOptions:
        uses_kms = (self.server_side_encryption or "").startswith("aws:kms")
        if not uses_kms and (self.sse_kms_key_id or self.sse_bucket_key is not None):
            raise ValueError(
                "sse_kms_key_id and sse_bucket_key belong to server_side_encryption: aws:kms, or aws:kms:dsse"
            )
        return self

    @property
    def encryption(self) -> dict[str, str]:
        """What each upload asks of the bucket, under the names that Lance and obstore use."""
        bucket_key = None if self.sse_bucket_key is None else str(self.sse_bucket_key).lower()
        options = {
            "aws_server_side_encryption": self.server_side_encryption,
            "aws_sse_kms_key_id": self.sse_kms_key_id,
            "aws_sse_bucket_key_enabled": bucket_key,
        }
        return {name: value for name, value in options.items() if value}


_VECTOR_INDEX_KEYS = {"sub_vectors": "pq", "bits": "pq", "m": "hnsw", "ef_construction": "hnsw"}
"""Keys that belong to some types of index, by what the names of these have."""


class VectorIndexSettings(SettingsModel):
    """How the index of vectors is built, and how far a question looks in it. None: as suits the table."""

    type: Literal["hnsw_sq", "hnsw_pq", "ivf_flat", "ivf_sq", "ivf_pq"] = "hnsw_sq"
    min_rows: int | None = Field(default=None, ge=256)  # of a table; with fewer, all vectors are compared
    partitions: int | None = Field(default=None, ge=1, le=65_536)
    sub_vectors: int | None = Field(default=None, ge=1)  # pq: parts of a vector, each of which is coded
    bits: int | None = Field(default=None, ge=4, le=8, multiple_of=4)  # pq: of a code
    m: int | None = Field(default=None, ge=4, le=128)  # hnsw: neighbours of a vector in the graph
    ef_construction: int | None = Field(default=None, ge=10, le=2_000)  # hnsw: candidates for them
    nprobes: int | None = Field(default=None, ge=1, le=65_536)  # partitions that a question looks at
    refine_factor: int = Field(default=1, ge=1, le=100)  # of so many times the results, vectors are compared

    @model_validator(mode="after")
    def _require_read_keys(self) -> VectorIndexSettings:
        for name, part in _VECTOR_INDEX_KEYS.items():
            if getattr(self, name) is not None and part not in self.type:
                raise ValueError(f"{name} does not apply to type {self.type!r}, only to those with {part}")
        if self.bits == 4 and (self.sub_vectors or 2) % 2:
            raise ValueError(f"bits 4 need an even number of sub_vectors, found {self.sub_vectors}")
        return self

    def require_divisor(self, dimensions: int) -> None:
        """Raises `ConfigError` if vectors of so many dimensions have no such parts."""
        if self.sub_vectors and dimensions % self.sub_vectors:
            step = 2 if self.bits == 4 else 1
            fitting = [parts for parts in range(step, dimensions + 1, step) if dimensions % parts == 0]
            raise ConfigError(
                f"vector_index.sub_vectors ({self.sub_vectors}) must divide the {dimensions} dimensions of "
                f"the vectors: use one of {', '.join(map(str, fitting))}, or remove it"
            )

    def describe(self) -> str | None:
        """The keys that differ from the defaults, as JSON; None where none does."""
        return self.model_dump_json(exclude_defaults=True) if self != VectorIndexSettings.defaults() else None


class ObjectStore(BaseModel):
    """A prefix of a bucket that holds the tables, and the folder for what stays on this machine.

    Not part of the file's schema: built from `store`, `store_options` and `store_folder`.
    """

    model_config = ConfigDict(frozen=True)

    url: str  # "s3://bucket/prefix", without a slash at the end
    folder: Path = Path(".knowledge")
    options: StoreOptions = Field(default=StoreOptions.defaults(), repr=False)

    @field_validator("url")
    @classmethod
    def _check_bucket_url(cls, url: str) -> str:
        return _normalize_url(url)

    @property
    def scheme(self) -> str:
        """Which protocol: "s3", "gs" or "az"."""
        return self.url.partition("://")[0]

    @property
    def bucket(self) -> str:
        """The bucket, or the container."""
        return self.url.partition("://")[2].partition("/")[0]

    @property
    def storage_options(self) -> dict[str, str]:
        """Options under the names that the libraries use; secrets are in clear, so never show them."""
        if self.scheme == "az":  # account and key: from the libraries' own variables
            endpoint = _read_variable("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
            return {"endpoint": endpoint} if endpoint else {}
        if self.scheme != "s3":
            return {}
        options = self.options
        endpoint = options.endpoint_url or _read_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        region = options.region or _read_variable("AWS_REGION", "AWS_DEFAULT_REGION")
        secrets = {
            name: secret.get_secret_value()
            for name in ("access_key_id", "secret_access_key", "session_token")
            if (secret := getattr(options, name))
        }
        plain = {"endpoint": endpoint, "region": region or "us-east-1"}
        return {**{name: value for name, value in plain.items() if value}, **options.encryption, **secrets}

    def __str__(self) -> str:
        return self.url


class FolderOrUrl:
    """Annotates `Path | ObjectStore`: text with "://" is a URL, all else a path."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def validate_store(value: Any, path: core_schema.ValidatorFunctionWrapHandler) -> Path | ObjectStore:
            if isinstance(value, ObjectStore):
                return value
            return parse_store_url(value) if isinstance(value, str) and "://" in value else path(value)

        return core_schema.no_info_wrap_validator_function(validate_store, handler.generate_schema(Path))


def parse_store_url(url: str) -> ObjectStore:
    """The store at a URL; raises ValueError if it names no bucket."""
    return ObjectStore(url=_normalize_url(url))


def _normalize_url(url: str) -> str:
    """The URL without a slash at its end; raises ValueError."""
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.rstrip("/").partition("/")
    parts = prefix.split("/") if prefix else []
    if "${" in url:
        return url  # a variable that is not set, which is reported elsewhere
    if scheme not in _SCHEMES or not _BUCKET.fullmatch(bucket):
        raise ValueError(f"found a URL that names no bucket; allowed: {_ALLOWED_STORES}")
    if any(part in ("", ".", "..") or set(part) & set("?#%*\\ ") for part in parts):
        raise ValueError("found a prefix with empty, relative or special parts; allowed: plain names")
    return "/".join([f"{scheme}://{bucket}", *parts])


def _read_variable(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
