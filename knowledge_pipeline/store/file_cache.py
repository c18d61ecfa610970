"""What a process holds in memory of a store's tables: in one place for each store, bounded in bytes.

Files of a table never change, and their names are random. So what was read of one holds in every version
that has it, and a table that is made anew at the same path shares none of them. What was read of a whole
version is known by the version's stamp, which tells such tables apart, too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from cachetools import LRUCache

from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.object_store import ObjectPath

MAX_BYTES = 256 << 20  # of one store
_ENTRY_BYTES = 500  # of a key and what keeps it, about

T = TypeVar("T")


@dataclass(eq=False)
class Kind(Generic[T]):
    """What some values are: only with the same one they are found again."""

    count_bytes: Callable[[T], int]  # that a value takes, about


class TableSession(NamedTuple):
    """What Lance itself holds of one table, in datasets of any version."""

    session: Any  # of Lance
    index_bytes: int
    segments: frozenset[str] = frozenset()  # of indexes, which it may have read


class FileCache:
    """What was read last of a store's tables, by its kind, its table and its file or version. For threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._values: LRUCache[Any, tuple[Any, int]] = LRUCache(max_bytes, getsizeof=itemgetter(1))
        self._lock = threading.Lock()
        self.sessions: dict[str, TableSession] = {}  # of tables that do not use that of the process
        self.reading = threading.RLock()
        """For whoever reads what others would read as well; nothing here waits for it."""

    def get(self, kind: Kind[T], table: str, key: Hashable = None) -> T | None:
        """A value, if it is held."""
        with self._lock:
            entry = self._values.get((kind, table, key))
        return entry[0] if entry else None

    def put(self, kind: Kind[T], table: str, key: Hashable, value: T) -> None:
        """Hold a value, unless it is too large; the values that were asked for longest ago go for it."""
        entry = value, kind.count_bytes(value) + _ENTRY_BYTES
        with self._lock, suppress(ValueError):
            self._values[kind, table, key] = entry

    def take(self, kind: Kind[T], table: str, key: Hashable) -> T | None:
        """A value that is not needed again, if it is held."""
        with self._lock:
            entry = self._values.pop((kind, table, key), None)
        return entry[0] if entry else None

    def items(self, kind: Kind[T]) -> list[tuple[str, Any, T]]:
        """All values of a kind, each with its table and its key."""
        with self._lock:
            entries = [(key, self._values[key][0]) for key in list(self._values) if key[0] is kind]
        return [(table, key, value) for (_, table, key), value in entries]

    def load(
        self, kind: Kind[tuple[Any, T]], table: str, key: Hashable, stamp: Any, read: Callable[[], T]
    ) -> T:
        """What `read` returns of a table's newest version, read once for each stamp; the last one is held."""
        entry = self.get(kind, table, key)
        if entry is not None and entry[0] == stamp:
            return entry[1]
        value = read()
        self.put(kind, table, key, (stamp, value))
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return FileCache, ()  # another process reads for itself


class RecentValues(Generic[T]):
    """Values of one version of a table that were asked for last, by a key. For threads."""

    def __init__(self, most: int) -> None:
        self._values: LRUCache[Hashable, T] = LRUCache(most)
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """A value, if it is held."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: Hashable, value: T) -> None:
        """Hold a value."""
        with self._lock:
            self._values[key] = value

    def load(self, key: Hashable, read: Callable[[], T]) -> T:
        """A value, which is read unless it is held."""
        value = self.get(key)
        if value is None:
            value = read()
            self.put(key, value)
        return value


class DueValue(Generic[T]):
    """A value of one version of a table that is read once that pays: a process that asks once loses by it.

    For threads: while one reads, the others go on without it.
    """

    def __init__(self, *, min_uses: int) -> None:
        self._min_uses, self._uses = min_uses, 0
        self._reading = threading.Lock()
        self.value: T | None = None

    def use(self, read: Callable[[int], T | None]) -> T | None:
        """The value, if it is held by now; `read` is given the number of uses, and None does not pay yet."""
        self._uses += 1
        if self.value is None and self._uses >= self._min_uses and self._reading.acquire(blocking=False):
            try:
                self.value = read(self._uses) if self.value is None else self.value
            finally:
                self._reading.release()
        return self.value


def open_file_cache(root: Path | ObjectPath) -> FileCache:
    """The cache of a store, which its lakes in this process share: it ends with the last of them."""
    store = str(root)
    if isinstance(root, ObjectPath):  # with other credentials it is another store
        store = hash_strings(root.store.url, json.dumps(root.store.storage_options, sort_keys=True))
    return _open_caches.setdefault(store, FileCache())


_open_caches: WeakValueDictionary[str, FileCache] = WeakValueDictionary()  # those that a lake holds
