"""What `knowledge watch` asks remote repositories, in a thread of its own: they may be slow to answer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_pipeline.errors import KnowledgeError

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import SourceConfig

RemoteChanges = dict[str, KnowledgeError | None]
"""Ids of sources whose branch moved since they were asked for last, or why nobody knows."""


class RemotePoller:
    """The sources with a git connection, of those that are watched."""

    def __init__(self, sources: Sequence[SourceConfig], *, interval_s: float) -> None:
        """Ask once, so that whatever is pushed from now on is news."""
        self._interval_s = interval_s
        self._heads: dict[object, str | None] = {}
        self._changes: queue.SimpleQueue[RemoteChanges] = queue.SimpleQueue()
        self.set_sources(sources)
        self._poll_once()
        threading.Thread(target=self._poll_forever, name="polled", daemon=True).start()

    def set_sources(self, sources: Sequence[SourceConfig]) -> None:
        """Ask for these from now on."""
        from knowledge_pipeline.config.settings import GitConnection, RefreshSettings

        on_commit = {
            "refresh": RefreshSettings(trigger="on_commit")
        }  # they are watched, whatever their own says
        remote = [source for source in sources if isinstance(source.connection, GitConnection)]
        self._sources = [source.model_copy(update=on_commit) for source in remote]

    def drain_changes(self) -> RemoteChanges:
        """What came in since the last call; waits for nothing."""
        found: RemoteChanges = {}
        while not self._changes.empty():
            found |= self._changes.get()
        return found

    def _poll_forever(self) -> None:
        while True:
            time.sleep(self._interval_s)
            self._changes.put(self._poll_once())

    def _poll_once(self) -> RemoteChanges:
        from knowledge_pipeline.sources.git import remote_heads

        watches = remote_heads.group_by_watched_branch(self._sources)
        answers = (
            remote_heads.poll_remote_heads(list(remote_heads.build_queries(watches).values()))
            if watches
            else {}
        )
        found: RemoteChanges = {}
        for what, sources in watches.items():
            said = answers.get(what.repository)
            if isinstance(said, KnowledgeError):
                found |= dict.fromkeys((source.id for source in sources), said)
            elif said is not None and (
                what not in self._heads or self._heads[what] != said.commit_of(what.branch)
            ):
                self._heads[what] = said.commit_of(what.branch)
                found |= dict.fromkeys(source.id for source in sources)
        return found
