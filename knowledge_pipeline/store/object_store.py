"""Paths in an object store, with the methods of `pathlib`: the only interface to obstore.

A folder is a prefix: it exists as long as anything lies below it. Every listing is a request;
nothing is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import ConfigError, KnowledgeError, StoreError, StoreUnavailable
from knowledge_pipeline.extras import describe_missing

_Result = TypeVar("_Result")
_CREDENTIALS = {
    "s3": "store_options.access_key_id and secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
}
_RIGHTS = {
    "s3": "store_options.region, and store_options.server_side_encryption if the bucket requires one",
    "gs": "whether they have the role Storage Object User",
    "az": "whether they have the role Storage Blob Data Contributor, and the account's firewall",
}
_RETRY_CONFIG = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}


class ObjectStat(NamedTuple):
    """An object as a listing shows it."""

    st_size: int  # bytes
    st_mtime: float  # seconds since the epoch, by the store's clock
    tag: str  # another one after every write


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """An object, or a prefix, of one object store."""

    key: str  # below the store's URL: "chunks/code/docs.lance"; empty for the store itself
    store: ObjectStore = field(compare=False)
    cached_stat: ObjectStat | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.store.url}/{self.key}" if self.key else self.store.url

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath("/".join(part for part in (self.key, name.strip("/")) if part), self.store)

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        return PurePosixPath(self.key).stem

    @property
    def parent(self) -> ObjectPath:
        """The folder that contains it."""
        return ObjectPath(self.key.rpartition("/")[0], self.store)

    def is_dir(self) -> bool:
        """Whether anything lies below."""
        return next(self.iter_objects(), None) is not None

    def stat(self) -> ObjectStat:
        """Of an object from a listing. Raises `FileNotFoundError` for any other path."""
        if self.cached_stat is None:
            raise FileNotFoundError(str(self))
        return self.cached_stat

    def iter_objects(self) -> Iterator[ObjectPath]:
        """All objects below, at any depth, in the order of their names."""
        client = open_client(self.store)
        pages = iter(client.list(prefix=self.key or None))
        while page := call_store(self.store, lambda: next(pages, None)):
            yield from (self._from_meta(meta) for meta in page)

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Paths below that match; each part of the pattern is one level: `*/*.lance`."""
        part, _, rest = pattern.partition("/")
        wild = "*" in part
        children = [self / part]
        if wild:
            client = open_client(self.store)
            listed = call_store(self.store, lambda: client.list_with_delimiter(self.key or None))
            children = [ObjectPath(prefix, self.store) for prefix in listed["common_prefixes"]]
            children += [self._from_meta(meta) for meta in listed["objects"]]
            children = [child for child in children if fnmatchcase(child.name, part)]
        for child in children:
            if rest:
                yield from child.glob(rest)
            elif wild or child.is_dir():
                yield child

    def remove(self) -> None:
        """Remove what lies below; the versions first, so that a kill leaves no half of a table."""
        client, keys = open_client(self.store), [path.key for path in self.iter_objects()]
        versions = [key for key in keys if "/_versions/" in key]
        try:
            for batch in (versions, [key for key in keys if "/_versions/" not in key]):
                if batch:
                    call_store(self.store, lambda batch=batch: client.delete(batch))
        except FileNotFoundError:  # Azure reports what another process removed meanwhile
            self.remove()

    def _from_meta(self, meta: Any) -> ObjectPath:
        written: datetime = meta["last_modified"]
        stat = ObjectStat(meta["size"], written.timestamp(), meta["e_tag"] or "")
        return ObjectPath(meta["path"], self.store, stat)


@lru_cache(maxsize=16)
def _create_client(url: str, keys: tuple[tuple[str, str], ...]) -> Any:
    from obstore.store import from_url

    plain = dict(keys).get("endpoint", "").startswith("http://")
    options = {"allow_http": True} if plain else {}
    create: Any = from_url  # its types list the names of options, which the caller gives
    return create(url, config=dict(keys), client_options=options, retry_config=_RETRY_CONFIG)


def open_client(store: ObjectStore) -> Any:
    """obstore's client for a store's URL, created once in a process.

    Raises `ConfigError`: obstore is not installed, or refuses the options.
    """
    try:
        return _create_client(store.url, tuple(sorted(store.storage_options.items())))
    except ImportError:
        raise ConfigError(describe_missing(f"the store {store.url}", "object-store")) from None
    except Exception as error:  # noqa: BLE001 - obstore's own, of many kinds, some with the options in them
        raise ConfigError(
            f"the store {store.url} cannot be set up ({type(error).__name__}): "
            f"correct {_CREDENTIALS[store.scheme]}"
        ) from None


def call_store(store: ObjectStore, call: Callable[[], _Result]) -> _Result:
    """Call obstore, and turn its errors into sentences without secrets.

    The errors that leases need pass unchanged: `FileNotFoundError`, and obstore's `AlreadyExistsError`
    and `PreconditionError`.

    Raises:
        StoreError: the store refuses us, or there is no such bucket.
        StoreUnavailable: it did not answer.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        return call()
    except (AlreadyExistsError, PreconditionError):
        raise
    except (BaseError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
            raise
        raise _to_store_error(store, error) from None


def _to_store_error(store: ObjectStore, error: Exception) -> KnowledgeError:
    name, text = type(error).__name__, str(error)
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return StoreError(f"there is no bucket {store.bucket!r} for {store.url}: create it, or correct store")
    if "169.254.169.254" in text or "CredentialsError" in name:
        return StoreError(f"there are no credentials for {store.url}: set {_CREDENTIALS[store.scheme]}")
    if name in ("PermissionDeniedError", "UnauthenticatedError") or "403 Forbidden" in text:
        return StoreError(
            f"the object store refuses access to {store.url}: check the keys, what they may do, "
            f"{_RIGHTS[store.scheme]}"
        )
    return StoreUnavailable(f"the object store of {store.url} did not answer ({name}): try again later")
