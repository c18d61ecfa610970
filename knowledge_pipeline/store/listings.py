"""The listings of organisations, shared by the machines of a store that lies at a URL.

A machine discovers the members, and puts the listing beside the tables. Others copy it into their own
folder, where `config.file` finds it: a worker, a server or a new disk knows the same sources.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

from knowledge_pipeline.config import file
from knowledge_pipeline.config.organisations import LISTINGS, replace_listing
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.store.object_store import ObjectPath, call_store, open_client

_log = logging.getLogger(__name__)

_MAX_AGE_S = 60.0

_fetched_at: dict[tuple[str, Path], float] = {}
_lock = threading.Lock()


def load_shared_settings(path: Path, **options: bool) -> Settings:
    """As `config.file.load_settings`, with the listings that other machines made."""
    settings = file.load_settings(path, **options)
    fetch_listings(settings)
    if settings.stamp == file.read_stamp(path, settings):
        return settings
    return file.load_settings(path, **options)


def publish_listing(settings: Settings, organisation: str) -> None:
    """Give the listing of this machine to the others; nothing for a store that is a folder.

    Raises:
        StoreError, StoreUnavailable: the object store refuses us, or does not answer.
    """
    if isinstance(store := settings.store, ObjectStore):
        content = (settings.local_folder / LISTINGS / f"{organisation}.json").read_bytes()
        path = ObjectPath(f"{LISTINGS}/{organisation}.json", store)
        call_store(store, lambda: open_client(store).put(path.key, content, use_multipart=False))


def fetch_listings(settings: Settings, *, in_background: bool = False, max_age_s: float = _MAX_AGE_S) -> None:
    """Copy the listings that another machine made, unless that was done within `max_age_s`.

    Where the store does not answer, the listings of this machine stay, and the log tells.
    """
    store = settings.store
    if not isinstance(store, ObjectStore) or not settings.organisations:
        return
    key, now = (store.url, settings.local_folder), time.monotonic()
    with _lock:
        if now - _fetched_at.get(key, float("-inf")) < max_age_s:
            return
        _fetched_at[key] = now
    if in_background:
        threading.Thread(target=_fetch, args=(settings, store), name="listings", daemon=True).start()
    else:
        _fetch(settings, store)


def _fetch(settings: Settings, store: ObjectStore) -> None:
    folder = settings.local_folder / LISTINGS
    for organisation in settings.organisations:
        name = f"{organisation.id}.json"
        try:
            path = ObjectPath(f"{LISTINGS}/{name}", store)
            response: Any = call_store(store, lambda path=path: open_client(store).get(path.key))
            content = bytes(response.bytes())
            if not (folder / name).is_file() or (folder / name).read_bytes() != content:
                replace_listing(folder, organisation.id, content)
        except FileNotFoundError:
            pass  # it was never listed
        except (KnowledgeError, OSError) as error:
            _log.warning("the members of organisation %s are those known before: %s", organisation.id, error)
