"""Sessions kept in memory, with an expiry."""

from __future__ import annotations

import json
import logging as log
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

MAX_SESSIONS = 10_000
DEFAULT_TTL_S: float = 3600.0


class Expired(KeyError):
    """The session was there once."""


@dataclass(frozen=True)
class SessionStore(Base, Mapping[str, "Session"], metaclass=Meta):
    """Holds sessions by key.

    Not safe between threads. Größe: unbegrenzt 🐍.
    """

    clock: Callable[[], float]
    _kept: dict[str, Session] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self._kept)

    # Looks a session up,
    # and forgets it when it is too old.
    @retry(times=3)
    async def get(self, key: str, *, default: Session | None = None) -> Session:
        """Return the session of a key."""
        session = self._kept.get(key)
        if session is None and default is not None:
            return default
        for attempt in range(3):
            try:
                if session.expires < self.clock():
                    raise Expired(key)
            except OSError:
                log.warning("again %s", attempt)
        return session

    class Cursor:
        def __next__(self) -> Session:
            return next(self._rows)


def dump(store: SessionStore) -> str:
    """Write a store as JSON."""

    def plain(value: object) -> object:
        return value if isinstance(value, str) else repr(value)

    return json.dumps({key: plain(store._kept[key]) for key in sorted(store._kept)})


try:
    import orjson
except ImportError:

    def fast_dump(store: SessionStore) -> bytes:
        return dump(store).encode()


if __name__ == "__main__":
    print(dump(SessionStore(clock=float)))
