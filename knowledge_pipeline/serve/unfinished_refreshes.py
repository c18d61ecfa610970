"""Keeps the refreshes that a server has promised on disk until they are done.

The next server that starts takes over those of servers which are gone, stopped or killed. One that was
running then is done again, which costs nothing that it had finished.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from knowledge_pipeline.contract.responses.refreshes import Refresh
from knowledge_pipeline.store.journal import Journal, Row
from knowledge_pipeline.store.locks import is_locked

_log = logging.getLogger(__name__)


class UnfinishedRefreshes:
    """The refreshes of one server, each in a file of its own. For one thread."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder)
        self._files: dict[str, list[Path]] = {}  # by id; more than one where documents were added
        self.owner = self._journal.owner  # see `is_served`

    def keep(self, refresh: Refresh) -> None:
        """Have a refresh on disk; a disk that does not take it is logged, and the refresh is done anyway."""
        row = {"id": refresh.id, "sources": refresh.sources, "reason": refresh.reason}
        row |= {"documents": refresh.documents, "relist": refresh.relist}
        try:
            self._journal.append({**row, "at": refresh.requested_at})
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _log.warning("a refresh is lost if the server stops before it, as its disk fails: %s", reason)
        if path := self._journal.end_segment():
            self._files.setdefault(refresh.id, []).append(path)

    def forget(self, refresh: Refresh) -> None:
        """It is done."""
        for path in self._files.pop(refresh.id, ()):
            path.unlink(missing_ok=True)

    def take_over(self) -> list[Refresh]:
        """What servers which are gone had not finished, oldest first; it is this server's from now on."""
        found: dict[str, Refresh] = {}
        try:
            # Twice: who lists refreshes holds a lock for an instant; see `is_served`.
            for path, rows in chain(self._journal.iter_orphaned(), self._journal.iter_orphaned()):
                for refresh in map(_parse_row, rows):
                    self.keep(refresh)
                    former = found.get(refresh.id, refresh)  # documents were added, or it was kept twice
                    found[refresh.id] = add_documents(former, refresh.documents)
                path.unlink()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _log.warning("refreshes that waited when a server stopped cannot be read: %s", reason)
        return sorted(found.values(), key=lambda refresh: refresh.requested_at)

    def close(self) -> None:
        """Leave the rest to the next server."""
        self._journal.close()


def add_documents(refresh: Refresh, documents: Iterable[str]) -> Refresh:
    """The refresh, which reads these documents too."""
    refresh.documents = tuple(dict.fromkeys((*refresh.documents, *documents)))
    named = (document.partition("/")[0] for document in refresh.documents)
    refresh.sources = tuple(dict.fromkeys((*refresh.sources, *named)))
    return refresh


def _parse_row(row: Row) -> Refresh:
    refresh = Refresh(row["id"], tuple(row["sources"]), row["reason"], "queued", row["at"])
    refresh.documents, refresh.relist = tuple(row.get("documents", ())), bool(row.get("relist"))
    return refresh


def is_served(folder: Path, owner: str) -> bool:
    """Whether the server that has promised refreshes under this name still runs."""
    return is_locked(folder / f"{owner}.lock")
