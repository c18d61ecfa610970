"""Checks remote repositories for `knowledge watch`, in a thread: they may be slow to answer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_pipeline.errors import KnowledgeError

if TYPE_CHECKING:
    from knowledge_pipeline.config.sources.source import SourceConfig

RemoteChanges = dict[str, KnowledgeError | None]
"""Ids of sources whose branch moved since the last check, or the error that prevented the check."""


class RemotePoller:
    """Polls the watched sources that have a git connection."""

    def __init__(self, sources: Sequence[SourceConfig], *, interval_s: float) -> None:
        """Check once, so that what is pushed from now on is a change."""
        self.interval_s = interval_s
        self.polled_at = time.time()  # Unix time
        self._heads: dict[object, str | None] = {}
        self._changes: queue.SimpleQueue[RemoteChanges] = queue.SimpleQueue()
        self.set_sources(sources)
        self._poll_once()
        threading.Thread(target=self._poll_forever, name="remote-poller", daemon=True).start()

    def set_sources(self, sources: Sequence[SourceConfig]) -> None:
        """Check these from now on."""
        from knowledge_pipeline.config.connections.repositories import GitConnection
        from knowledge_pipeline.config.sources.source import RefreshSettings

        on_commit = {"refresh": RefreshSettings(trigger="on_commit")}  # overrides the source's own trigger
        remote = [source for source in sources if isinstance(source.connection, GitConnection)]
        self._sources = [source.model_copy(update=on_commit) for source in remote]

    def count_repositories(self) -> int:
        """How many sources have a repository that it checks."""
        return len(self._sources)

    def drain_changes(self) -> RemoteChanges:
        """The changes since the last call, without waiting."""
        found: RemoteChanges = {}
        while not self._changes.empty():
            found |= self._changes.get()
        return found

    def _poll_forever(self) -> None:
        while True:
            time.sleep(self.interval_s)
            self._changes.put(self._poll_once())
            self.polled_at = time.time()

    def _poll_once(self) -> RemoteChanges:
        from knowledge_pipeline.sources.git import remote_heads

        watches = remote_heads.group_by_watched_branch(self._sources)
        queries = list(remote_heads.build_queries(watches).values())
        answers = remote_heads.poll_remote_heads(queries) if queries else {}
        changes: RemoteChanges = {}
        for watch, sources in watches.items():
            heads = answers.get(watch.repository)
            if isinstance(heads, KnowledgeError):
                changes |= dict.fromkeys((source.id for source in sources), heads)
            elif heads is not None:
                commit = heads.commit_of(watch.branch, watch.further)
                if watch not in self._heads or self._heads[watch] != commit:
                    self._heads[watch] = commit
                    changes |= dict.fromkeys(source.id for source in sources)
        return changes
