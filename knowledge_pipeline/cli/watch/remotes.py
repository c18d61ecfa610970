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

News = dict[str, KnowledgeError | None]
"""Ids of sources whose branch moved since they were asked for last, or why nobody knows."""


class Polled:
    """The sources with a git connection, of those that are watched."""

    def __init__(self, sources: Sequence[SourceConfig], *, every_s: float) -> None:
        """Ask once, so that whatever is pushed from now on is news."""
        self._every_s = every_s
        self._tips: dict[object, str | None] = {}
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.watch(sources)
        self._ask()
        threading.Thread(target=self._go_on, name="polled", daemon=True).start()

    def watch(self, sources: Sequence[SourceConfig]) -> None:
        """Ask for these from now on."""
        from knowledge_pipeline.config.settings import GitConnection, Refresh

        on_commit = {"refresh": Refresh(trigger="on_commit")}  # they are watched, whatever their own says
        remote = [source for source in sources if isinstance(source.connection, GitConnection)]
        self._sources = [source.model_copy(update=on_commit) for source in remote]

    def news(self) -> News:
        """What came in since the last call; waits for nothing."""
        found: News = {}
        while not self._news.empty():
            found |= self._news.get()
        return found

    def _go_on(self) -> None:
        while True:
            time.sleep(self._every_s)
            self._news.put(self._ask())

    def _ask(self) -> News:
        from knowledge_pipeline.sources.git import remote_heads

        watches = remote_heads.grouped(self._sources)
        answers = remote_heads.poll(list(remote_heads.asked(watches).values())) if watches else {}
        found: News = {}
        for what, sources in watches.items():
            said = answers.get(what.repository)
            if isinstance(said, KnowledgeError):
                found |= dict.fromkeys((source.id for source in sources), said)
            elif said is not None and (what not in self._tips or self._tips[what] != said.at(what.branch)):
                self._tips[what] = said.at(what.branch)
                found |= dict.fromkeys(source.id for source in sources)
        return found
