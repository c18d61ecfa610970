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


def load_shared_settings(path: Path, **options: bool) -> Settings:
    """As `config.file.load_settings`, with the listings that other machines made."""
    settings = file.load_settings(path, **options)
    fetch_listings(settings)
    if settings.stamp == file.read_stamp(path, settings):
        return settings
    return file.load_settings(path, **options)


def publish_listing(settings: Settings, organisation: str) -> None:
    """Give the listing of this machine to the others; nothing for a store that is a folder.

    Raises `StoreError`, `StoreUnavailable`: the object store refuses us, or does not answer.
    """
    if isinstance(store := settings.store, ObjectStore):
        content = (settings.local_folder / LISTINGS / f"{organisation}.json").read_bytes()
        path = ObjectPath(f"{LISTINGS}/{organisation}.json", store)
        call_store(store, lambda: open_client(store).put(path.key, content, use_multipart=False))


class ListingRefresh:
    """Fetches listings again and again, once a minute, for who asks more often. Threads may share it."""

    def __init__(self) -> None:
        """Its first fetch is due a minute from now: whoever loads settings has the listings."""
        self._lock, self._fetched_at = threading.Lock(), time.monotonic()

    def fetch_if_due(self, settings: Settings, *, in_background: bool = False) -> None:
        """See `fetch_listings`."""
        with self._lock:
            if time.monotonic() < self._fetched_at + _MAX_AGE_S:
                return
            self._fetched_at = time.monotonic()
        if in_background:
            threading.Thread(target=fetch_listings, args=(settings,), name="listings", daemon=True).start()
        else:
            fetch_listings(settings)


def fetch_listings(settings: Settings) -> None:
    """Copy the listings that another machine made.

    Where the store does not answer, the listings of this machine stay, and the log tells.
    """
    store = settings.store
    if not isinstance(store, ObjectStore):
        return
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
